"""A value with the ends of its likely range, and how ranges combine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """A value with the ends of its likely range. Both ends are None if the range is unknown."""

    value: float
    low: float | None = None
    high: float | None = None

    def times(self, factor: float) -> Range:
        """Multiply every part by a factor above zero."""
        return combined(lambda ends: ends[0] * factor, [self])

    def quotient_of(self, count: float) -> Range:
        """Return ``count`` divided by this: the seconds at a rate, or the rate in these seconds.

        The higher end gives the lower quotient.
        """
        found = combined(lambda ends: count / ends[0], [self])
        return Range(found.value, found.high, found.low)


def combined(of: Callable[[Sequence[float]], float], ranges: Sequence[Range]) -> Range:
    """Return the range with ``of`` the values, and of the ends if every range has them.

    For a sum, the ends are the sums of the ends, as if all errors had the same sign.
    """
    value = of([each.value for each in ranges])
    lows = [each.low for each in ranges if each.low is not None]
    highs = [each.high for each in ranges if each.high is not None]
    return Range(value, of(lows), of(highs)) if len(lows) == len(highs) == len(ranges) else Range(value)
