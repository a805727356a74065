"""Session time: the paper's implicit result, T = a + b n.

A session of n objects has a set-up time that its objects share, and a marginal time per object. The ratio a / b is the
number of objects at which a session reaches half the ceiling rate (1 / b). Sessions with fewer objects spend most of
the time on opening the session.

The estimator is least squares with weights 1 / T^2. Session times span two decades (37 ms to 15 s in the paper), and
timing errors are proportional to the time. Without weights, the longest session alone would determine b and leave a to
chance. With these weights every residual is a share of its own session time. The published archive cells give a = 37.3
ms, b = 1.148 ms, a / b = 32.5 at 8 KiB and 165.6 ms, 27.98 ms, 5.92 at 1 MiB. No residual exceeds 9% in any of the 56
cells. Weights from the fitted instead of the measured times change a and b by under 1%, but exceed 9%. The smallest
worst residual (minimax) moves a / b at 8 KiB to 31.2, because two cells determine it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from archiver.values.errors import ResultsError

RESIDUAL_MAX_PERCENT = 20  # above it, T = a + b n does not describe the sessions


class SessionTimeBounds(NamedTuple):
    """The lower or the upper ends of the 95% intervals of a fit. The last two may be infinite."""

    setup_ms: float
    marginal_ms: float
    objects_for_half_the_ceiling_rate: float
    ceiling_objects_per_second: float


@dataclass(frozen=True, slots=True)
class SessionTimeFit:
    """``session milliseconds = setup_ms + marginal_ms x objects`` for one operation, size and platform."""

    setup_ms: float  # a: open and close, at least 0
    marginal_ms: float  # b: one more object, above 0
    setup_at_zero: bool  # the free fit had a < 0, so a was fixed at 0 and b fitted alone
    residuals_percent: Mapping[int, float]  # by objects per session: (measured - fitted) / measured x 100
    low: SessionTimeBounds | None = None  # None: the error of a cell is unknown
    high: SessionTimeBounds | None = None
    lack_of_fit_p: float | None = None  # p value; None as above, and for two points

    @property
    def objects_for_half_the_ceiling_rate(self) -> float:
        """Return a / b: rate(n) = n / (a + b n), which is 1 / (2 b) where n = a / b."""
        return self.setup_ms / self.marginal_ms

    @property
    def ceiling_objects_per_second(self) -> float:
        """Return 1000 / b: the limit of the rate for long sessions."""
        return 1000 / self.marginal_ms

    @property
    def worst_residual_percent(self) -> float:
        """Return the largest residual, without its sign."""
        return max(abs(residual) for residual in self.residuals_percent.values())

    @property
    def law_holds(self) -> bool:
        """Return whether every session time is within RESIDUAL_MAX_PERCENT of the line."""
        return self.worst_residual_percent <= RESIDUAL_MAX_PERCENT


def fit_session_time(objects_per_second: Mapping[int, float]) -> SessionTimeFit:
    """Fit T = a + b n to rates at different objects per session.

    ``objects_per_second`` maps objects per session (n, at least 1) to the rate of one client, session overhead
    included. T = n / rate x 1000 milliseconds, for the paper's numbers and for ours. Rates of zero or below contain no
    time and are excluded. With two points the line passes through both. Raises ResultsError for fewer than two points,
    or if sessions do not take longer with more objects.
    """
    times_ms = {n: n / rate * 1000 for n, rate in sorted(objects_per_second.items()) if rate > 0}
    if len(times_ms) < 2:
        raise ResultsError(
            "a session-time fit needs rates at two different objects per session; measure another column"
        )
    setup_ms, marginal_ms, marginal_alone_ms = least_squares(list(times_ms), list(times_ms.values()))
    setup_at_zero = setup_ms < 0
    if setup_at_zero:
        setup_ms, marginal_ms = 0.0, marginal_alone_ms
    if marginal_ms <= 0:
        raise ResultsError("session time does not grow with the objects in it; measure longer, or more columns")
    return SessionTimeFit(
        setup_ms,
        marginal_ms,
        setup_at_zero,
        {n: (1 - (setup_ms + marginal_ms * n) / time_ms) * 100 for n, time_ms in times_ms.items()},
    )


def least_squares(objects: Sequence[int], times_ms: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Return a and b, and the b of a line with a = 0.

    Each time is a number, or an array with the time of every draw; the results are of the same kind. They minimise the
    sum of (a u + b v - 1)^2, where u = 1 / T and v = n / T. This gives two normal equations.
    """
    u = [1 / time_ms for time_ms in times_ms]
    v = [n * each for n, each in zip(objects, u, strict=True)]
    uu, uv, vv = _dot(u, u), _dot(u, v), _dot(v, v)
    determinant = uu * vv - uv * uv
    return (sum(u) * vv - sum(v) * uv) / determinant, (sum(v) * uu - sum(u) * uv) / determinant, sum(v) / vv


def _dot(left: list[Any], right: list[Any]) -> Any:
    return sum(x * y for x, y in zip(left, right, strict=True))
