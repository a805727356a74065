"""How long responses took, of many histograms together: the share within a limit, percentiles, and the whole curve.

One idea: a histogram's value counts as the highest that shares its place in it. So a share within a limit is never too
large, and it reaches 70% exactly when the percentile of the criterion, taken alike, keeps the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# HdrHistogram's layout for three digits: 2048 sub-buckets, of which the upper half is new in every further bucket.
_HALF_MAGNITUDE = 10


@dataclass(frozen=True, slots=True)
class Responses:
    """Response times, rising, and how many took no longer than each."""

    milliseconds: NDArray[np.float64]
    reached: NDArray[np.int64]

    @property
    def count(self) -> int:
        return int(self.reached[-1]) if len(self.reached) else 0

    def share_within(self, limit_ms: float) -> float | None:
        """Of all, those that took at most so long, 0-1; None where there are none."""
        return float(self.shares(np.array([limit_ms]))[0]) if self.count else None

    def shares(self, limits_ms: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same of many limits. There must be responses."""
        places = np.searchsorted(self.milliseconds, limits_ms, side="right")
        return np.concatenate([[0], self.reached])[places] / self.count

    def percentile(self, percent: float) -> float | None:
        """In milliseconds, its rank rounded as HdrHistogram rounds it; None where there are none."""
        if not self.count:
            return None
        rank = max(1, math.floor(percent / 100 * self.count + 0.5))
        return float(self.milliseconds[np.searchsorted(self.reached, rank)])


NO_RESPONSES = Responses(np.empty(0, dtype=np.float64), np.empty(0, dtype=np.int64))


def responses_of(indices: bytes, counts: bytes, longest_ms: float) -> Responses:
    """Of one histogram as the database has it: little-endian int64; and the longest of its values."""
    index, count = np.frombuffer(indices, "<i8"), np.frombuffer(counts, "<i8")
    milliseconds = np.minimum(_highest_ns(index) / 1e6, longest_ms)
    return Responses(milliseconds, np.cumsum(count))


def merged(parts: Iterable[Responses]) -> Responses:
    """All of them together."""
    known = [part for part in parts if part.count]
    if not known:
        return NO_RESPONSES
    milliseconds = np.concatenate([part.milliseconds for part in known])
    counts = np.concatenate([np.diff(part.reached, prepend=0) for part in known])
    order = np.argsort(milliseconds, kind="stable")
    return Responses(milliseconds[order], np.cumsum(counts[order]))


def _highest_ns(index: NDArray[np.int64]) -> NDArray[np.int64]:
    """The highest of the nanoseconds that share each index."""
    bucket = np.maximum((index >> _HALF_MAGNITUDE) - 1, 0)
    place = index - (bucket << _HALF_MAGNITUDE)
    highest: NDArray[np.int64] = ((place + 1) << bucket) - 1
    return highest
