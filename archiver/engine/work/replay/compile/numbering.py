"""Numbers for keys and sessions, by first appearance.

One idea: each name of a trace gets a small number once, and all facts about it are at that position in arrays. A key or
a session costs some tens of bytes, and a row of the trace costs none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
_MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # odd, so that the mixing is one to one


class Numbering:
    """Assignment of the numbers 0, 1, 2 and so on to 64-bit values."""

    def __init__(self) -> None:
        self._runs: list[tuple[Numbers, Numbers]] = []  # ascending values, and their numbers; each value is in one run
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, values: Numbers) -> Numbers:
        """Return the number of each value. New values are numbered in order of appearance."""
        distinct, first, where = np.unique(values, return_index=True, return_inverse=True)
        numbers = self._known(distinct)
        new = np.flatnonzero(numbers < 0)
        if len(new):
            numbers[new[np.argsort(first[new])]] = np.arange(self._count, self._count + len(new))
            self._count += len(new)
            self._add(distinct[new], numbers[new])
        found: Numbers = numbers[where]
        return found

    def _known(self, values: Numbers) -> Numbers:
        found = np.full(len(values), -1, dtype=np.int64)
        for run, numbers in self._runs:
            places = np.minimum(np.searchsorted(run, values), len(run) - 1)
            hits = run[places] == values
            found[hits] = numbers[places[hits]]
        return found

    def _add(self, values: Numbers, numbers: Numbers) -> None:
        self._runs.append((values, numbers))
        while len(self._runs) > 1 and len(self._runs[-2][0]) <= 2 * len(self._runs[-1][0]):
            last, previous = self._runs.pop(), self._runs.pop()
            values = np.concatenate([previous[0], last[0]])
            order = np.argsort(values, kind="stable")  # merges two ascending runs instead of sorting again
            self._runs.append((values[order], np.concatenate([previous[1], last[1]])[order]))


def paired(firsts: Numbers, seconds: Numbers) -> Numbers:
    """Return a number for each pair, equal for equal pairs. Different pairs collide with probability 2 to the -64."""
    found: Numbers = _mixed(_mixed(firsts.view(np.uint64)) + seconds.view(np.uint64)).view(np.int64)
    return found


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit of each number over all bits, one to one."""
    values = (values ^ (values >> np.uint64(30))) * _MIXERS[0]
    values = (values ^ (values >> np.uint64(27))) * _MIXERS[1]
    return values ^ (values >> np.uint64(31))
