"""What is measured of a workload: one name, unit and meaning each; and conditions on a metric: ``object_ms.p99 <= 20``.

Criteria, ``--criterion``, ``--fail-if``, comparisons and the JSON of results use these names.
"""

from __future__ import annotations

import difflib
import math
import operator as operators
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

Operator = Literal["<=", "<", ">=", ">", "=="]
Needs = Literal["", "open loop", "deadline", "ceiling", "replay", "infrastructure"]

STATISTICS = ("mean", "p50", "p70", "p90", "p99", "p99_9", "max")
PERCENTS = {"p50": 50.0, "p70": 70.0, "p90": 90.0, "p99": 99.0, "p99_9": 99.9}
OPERATORS: dict[Operator, Callable[[float, float], bool]] = {
    "<=": operators.le, "<": operators.lt, ">=": operators.ge, ">": operators.gt, "==": operators.eq,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of a workload in its measured time."""

    unit: str  # empty for counts and shares
    meaning: str
    has_statistics: bool = False  # a distribution of times: mean, percentiles, maximum
    of_parts: bool = False  # also measured for each kind of object operation
    needs: Needs = ""  # what a workload or its phase must have for it; empty: nothing


METRICS = {
    "object_ms": Metric("ms", "response time of an object: from when it was due to when it was done", True, True),
    "object_service_ms": Metric("ms", "service time of an object: from its sending", True, True),
    "first_byte_ms": Metric("ms", "from an object's sending to the first byte of the answer", True, True),
    "session_ms": Metric("ms", "response time of a session: from when it was due to when it was closed", True),
    "session_service_ms": Metric("ms", "service time of a session: from its opening", True),
    "session_start_ms": Metric("ms", "time from when a session was due to when it was begun", True, needs="open loop"),
    "lateness_ms": Metric("ms", "scheduling delay: how late the client itself was; in a closed loop only p99", True),
    "errors": Metric("", "failures; for a whole workload also those in its warm-up and after its end", of_parts=True),
    "missed_deadlines": Metric("", "objects done later than their deadline", of_parts=True, needs="deadline"),
    "objects_per_second": Metric("objects/s", "objects done", of_parts=True),
    "sessions_per_second": Metric("sessions/s", "sessions done"),
    "megabytes_per_second": Metric("MB/s", "bytes archived or retrieved; MB are 10^6 bytes", of_parts=True),
    "achieved_over_offered": Metric("", "sessions done / sessions due", needs="open loop"),
    "dropped": Metric("", "due sessions that found the backlog full and were never begun", needs="open loop"),
    "waited_share": Metric(
        "", "share of due sessions that found no free client, and waited or were dropped", needs="open loop"
    ),
    "seconds": Metric("s", "how long the workload was measured"),
    "share_of_ceiling": Metric("", "objects/s / objects/s against a platform that does nothing", needs="ceiling"),
    "replay_margin_seconds": Metric(
        "s", "time that was left of the trace's time and the allowed overrun when a replay ended", needs="replay"
    ),
    "infrastructure_ratio": Metric(
        "", "infrastructure operations done per hour / those requested", needs="infrastructure"
    ),
    "client_cpu_percent": Metric("%", "processor time of the client; 100 is one core"),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as it is written: what stands before the comparison, the comparison, and the number."""

    left: str
    operator: Operator
    limit: float

    def holds(self, value: float) -> bool:
        return OPERATORS[self.operator](value, self.limit)


def read_condition(text: str, form: str) -> Condition:
    """Parse a condition. ``form`` is the remedy for a text that is none. Raises ValueError with problem and remedy."""
    split = re.fullmatch(r"\s*(.*?[^\s<>=!~])\s*([<>=!~]+)\s*(.*?)\s*", text)
    if split is None:
        raise ValueError(form)
    left, sign, number = split.groups()
    known = next((each for each in OPERATORS if each == sign), None)
    if known is None:
        raise ValueError(f"{sign!r} is not a comparison; write one of {' '.join(OPERATORS)}")
    try:
        limit = float(number)
    except ValueError:
        raise ValueError(f"the limit {number!r} is not a number: write only the number{_unit_of(left)}") from None
    if not math.isfinite(limit):
        raise ValueError(f"a limit of {number} decides nothing: write a finite number{_unit_of(left)}")
    return Condition(left, known, limit)


def read_metric(text: str) -> tuple[str, str | None]:
    """Return the metric and the statistic that a text such as ``object_ms.p99`` names.

    Raises ValueError, with the nearest name that exists.
    """
    name, dot, statistic = text.partition(".")
    metric = METRICS.get(name)
    if metric is None:
        raise ValueError(f"there is no metric {name!r}{nearest_name(name, METRICS)}")
    if metric.has_statistics and statistic not in STATISTICS:
        problem = f"{name} has no {statistic!r}" if dot else f"{name} needs a statistic"
        raise ValueError(f"{problem}; write one of {', '.join(f'{name}.{each}' for each in STATISTICS)}")
    if dot and not metric.has_statistics:
        raise ValueError(f"{name} is a single number; leave {dot + statistic!r} out")
    return name, statistic if metric.has_statistics else None


def nearest_name(given: str, known: Iterable[str]) -> str:
    """Return the end of a message: the most similar known name, and all known names."""
    names = sorted(known)
    close = difflib.get_close_matches(given, names, n=1)
    return f"{f'; did you mean {close[0]!r}?' if close else ';'} known here: {', '.join(names)}"


def _unit_of(left: str) -> str:
    metric = METRICS.get(left.partition(".")[0])
    return f"; it is in {metric.unit}" if metric is not None and metric.unit else ""
