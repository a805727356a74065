"""Whether measured values meet the goals of a benchmark."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

# The end of a goal's name, and how a value relates to a goal that it meets.
_RELATIONS = {"min": operator.ge, "max": operator.le, "below": operator.lt}


def goals_met(goals: Mapping[str, float], values: Mapping[str, float | Sequence[float]]) -> dict[str, bool]:
    """Return whether each goal is met: a goal ``rate_min`` by the value ``rate``, or by all of its values."""
    found = {}
    for goal, limit in goals.items():
        name, _, end = goal.rpartition("_")
        value = values[name]
        all_values = value if isinstance(value, Sequence) else [value]
        found[goal] = all(_RELATIONS[end](each, limit) for each in all_values)
    return found
