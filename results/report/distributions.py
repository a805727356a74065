"""Distribution of the service times of a cell's objects: few bins of its merged histograms, on a common scale.

A cell's distribution has a fixed number of small values on the run's one logarithmic time scale, whatever the run's
size. Readers can compare two cells by eye, and a thousand fit on a page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from results.database import RunDatabase
from results.statistics import lowest_ns
from results.units import Unit, UnitKey

BINS = 48
HEIGHT_MAX = 24  # of the fullest bin


@dataclass(frozen=True, slots=True)
class Distribution:
    """The share of objects by service time. ``heights`` are for BINS equal steps of the scale, HEIGHT_MAX at most."""

    objects: int
    heights: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Distributions:
    """The distributions of every cell, on one scale: from 10**``first_decade`` to 10**``last_decade`` milliseconds."""

    first_decade: int
    last_decade: int
    cells: Mapping[UnitKey, Distribution]

    @property
    def decades(self) -> range:
        return range(self.first_decade, self.last_decade + 1)


NO_DISTRIBUTIONS = Distributions(0, 1, {})


def cell_distributions(database: RunDatabase, cells: Sequence[Unit]) -> Distributions:
    """Return the distribution of each cell's object service times, its repetitions merged.

    Cells without any are omitted.
    """
    found: dict[tuple[int, str], tuple[NDArray[np.float64], NDArray[np.int64]]] = {}
    for each in database.cell_histograms("object_service"):
        found[each.position, each.workload] = (_logarithms(each.indices), np.frombuffer(each.counts, "<i8"))
    merged = {}
    for cell in cells:
        parts = [found[place] for each in cell.results if (place := (each.position, each.workload)) in found]
        if any(len(counts) for _, counts in parts):
            merged[cell.key] = (
                np.concatenate([times for times, _ in parts]),
                np.concatenate([counts for _, counts in parts]),
            )
    if not merged:
        return NO_DISTRIBUTIONS
    first = math.floor(min(float(times.min()) for times, _ in merged.values()))
    last = max(first + 1, math.ceil(max(float(times.max()) for times, _ in merged.values())))
    return Distributions(first, last, {key: _binned(*part, first, last) for key, part in merged.items()})


def _binned(times: NDArray[np.float64], counts: NDArray[np.int64], first: int, last: int) -> Distribution:
    bins = np.bincount(
        np.minimum(((times - first) / (last - first) * BINS).astype(np.int64), BINS - 1), weights=counts, minlength=BINS
    )
    # The square root makes a tail of one in five hundred visible next to the bulk.
    heights = np.ceil(np.sqrt(bins / bins.max()) * HEIGHT_MAX).astype(np.int64)
    return Distribution(int(counts.sum()), tuple(heights.tolist()))


def _logarithms(indices: bytes) -> NDArray[np.float64]:
    """Return log10 of the milliseconds of each index in HdrHistogram's counts."""
    return np.log10(np.maximum(lowest_ns(np.frombuffer(indices, "<i8")), 1) / 1e6)
