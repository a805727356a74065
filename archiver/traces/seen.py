"""A set of numbers that grows by batches: sessions, or keys by their hashes.

One idea: sorted arrays, merged when they have similar sizes, take 8 bytes for each number. A Python set takes twelve
times that.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


class Seen:
    """A growing set of 64-bit numbers."""

    def __init__(self) -> None:
        self._runs: list[Numbers] = []  # sorted, and disjoint

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    def has(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Return for each number whether it was added before."""
        found = np.zeros(len(numbers), dtype=bool)
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, numbers), len(run) - 1)
            found |= run[places] == numbers
        return found

    def add(self, numbers: Numbers) -> None:
        """Add these numbers."""
        new = np.unique(numbers)
        new = new[~self.has(new)]
        if not len(new):
            return
        self._runs.append(new)
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            last, previous = self._runs.pop(), self._runs.pop()
            self._runs.append(np.sort(np.concatenate([previous, last])))


def hashes_of(keys: pa.Array) -> Numbers:
    """Return a number for each key, stable in this process; two keys collide with probability 2^-64."""
    coded = keys.dictionary_encode()
    numbers = np.array([hash(key) for key in coded.dictionary.to_pylist()], dtype=np.int64)
    if not len(numbers):
        return np.zeros(len(keys), dtype=np.int64)
    found: Numbers = numbers[coded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    return found
