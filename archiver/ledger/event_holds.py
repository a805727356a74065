"""Event holds of a run's objects, as operations placed and released them, by object number.

One idea: the ledger has ranges in the order of writing, and the last range of an object counts. A range of unknown
state is written before a phase sends its first request, so a crash at any moment leaves no event hold without a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np


class EventHoldRange(NamedTuple):
    """Objects ``first`` to ``last``, and the retain-until dates (epoch seconds) that a release has set.

    If the state is unknown, only ``latest`` is set: no release has set a later date.
    """

    first: int
    last: int
    is_on: bool | None  # None: unknown, because the phase never ended or an answer is missing
    earliest: float | None = None
    latest: float | None = None


class EventHolds:
    """The event holds of a run's objects, as its operations left them."""

    def __init__(self, ranges: Sequence[EventHoldRange]) -> None:
        """``ranges`` are in the order of writing."""
        self._ranges = ranges
        bounds = [bound for each in ranges for bound in (each.first, each.last + 1)]
        self._edges = np.unique(np.array(bounds, dtype=np.int64))
        self._latest = np.full(len(self._edges), -1, dtype=np.int64)  # index of the range from each edge on
        for index, each in enumerate(ranges):
            begin, end = np.searchsorted(self._edges, (each.first, each.last + 1))
            self._latest[begin:end] = index

    def parts(self, first: int, last: int) -> Iterator[tuple[int, int, EventHoldRange | None]]:
        """Yield the objects ``first`` to ``last`` in parts of one state; None if no operation changed it."""
        begin, end = np.searchsorted(self._edges, (first, last), side="right")
        starts = [first, *self._edges[begin:end].tolist()]
        for index, start in enumerate(starts):
            stop = starts[index + 1] - 1 if index + 1 < len(starts) else last
            latest = int(self._latest[begin + index - 1]) if begin + index else -1
            yield start, stop, self._ranges[latest] if latest >= 0 else None
