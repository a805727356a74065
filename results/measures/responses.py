"""Times over many merged histograms: the share within a limit, percentiles, and the whole curve.

A value of a histogram counts as the highest value of its bucket. A share within a limit is therefore never too large.
It reaches 70% exactly when the percentile of the criterion, computed in the same way, meets the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from results.measures.statistics import highest_ns


@dataclass(frozen=True, slots=True)
class Responses:
    """Response times in ascending order, with cumulative counts."""

    milliseconds: NDArray[np.float64]
    reached: NDArray[np.int64]

    @property
    def count(self) -> int:
        return int(self.reached[-1]) if len(self.reached) else 0

    def share_within(self, limit_ms: float) -> float | None:
        """Return the share of responses within this limit, 0-1. Returns None if there are none."""
        return float(self.shares(np.array([limit_ms]))[0]) if self.count else None

    def shares(self, limits_ms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the shares within many limits. There must be responses."""
        places = np.searchsorted(self.milliseconds, limits_ms, side="right")
        return np.concatenate([[0], self.reached])[places] / self.count

    def percentile(self, percent: float) -> float | None:
        """Return the percentile in milliseconds, with HdrHistogram's rounding of ranks.

        Returns None if there are no responses.
        """
        if not self.count:
            return None
        rank = max(1, math.floor(percent / 100 * self.count + 0.5))
        return float(self.milliseconds[np.searchsorted(self.reached, rank)])


NO_RESPONSES = Responses(np.empty(0, dtype=np.float64), np.empty(0, dtype=np.int64))


def responses_of(indices: bytes, counts: bytes, longest_ms: float) -> Responses:
    """Return the responses of one histogram as stored: little-endian int64, and the longest of its values."""
    index, count = np.frombuffer(indices, "<i8"), np.frombuffer(counts, "<i8")
    milliseconds = np.minimum(highest_ns(index) / 1e6, longest_ms)
    return Responses(milliseconds, np.cumsum(count))


def merged(parts: Iterable[Responses]) -> Responses:
    """Return all responses together."""
    known = [part for part in parts if part.count]
    if not known:
        return NO_RESPONSES
    milliseconds = np.concatenate([part.milliseconds for part in known])
    counts = np.concatenate([np.diff(part.reached, prepend=0) for part in known])
    order = np.argsort(milliseconds, kind="stable")
    return Responses(milliseconds[order], np.cumsum(counts[order]))
