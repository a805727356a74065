"""Statistics over repetitions.

One idea: rates are ratios, so their spread is taken on the logarithm: an interval is then never negative, and reads
as "within so many percent".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

# Student's t, 97.5%, for 1, 2, ... degrees of freedom; beyond these, 1.96 + 2.5 / degrees is within 1%.
_T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median over repetitions and, from two on, the 95% interval of the geometric mean."""

    median: float
    low: float | None
    high: float | None
    repetitions: int


def t_975(degrees: int) -> float:
    """Student's t for a two-sided 95% interval with this many degrees of freedom (at least 1)."""
    return _T_975[degrees - 1] if degrees <= len(_T_975) else 1.96 + 2.5 / degrees


def estimate(values: Sequence[float]) -> Estimate:
    """The estimate of equal repetitions of one rate; no interval where one of them is zero, or there is but one."""
    middle = median(values)
    if len(values) < 2 or min(values) <= 0:
        return Estimate(middle, None, None, len(values))
    logs = [math.log(value) for value in values]
    half_width = t_975(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    centre = fmean(logs)
    return Estimate(middle, math.exp(centre - half_width), math.exp(centre + half_width), len(values))
