"""The table of the service times of each cell's objects, with their distribution on a common scale.

A cell's distribution has a fixed number of small values on the run's one logarithmic time scale, whatever the run's
size. Readers can compare two cells by eye, and a thousand fit on a page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from results.document.table import SKETCH_HEIGHT, Cell, Column, Sketch, Table, TableSpec, columns_of
from results.measures.statistics import lowest_ns
from results.measures.stored_times import StoredTimes
from results.measures.units import Unit, UnitKey
from results.recorded.model import Latency
from results.recorded.run import RecordedRun
from results.tables.columns import KEY_COLUMNS

BINS = 48


def distributions_table(recorded: RecordedRun, cells: Sequence[Unit], times: StoredTimes) -> Table:
    """Return percentiles and the distribution of each cell's object service times, its repetitions merged.

    Cells without any are omitted. ``times`` has the histograms that percentiles over repetitions need.
    """
    found: dict[tuple[int, str], tuple[NDArray[np.float64], NDArray[np.int64]]] = {}
    for each in recorded.cell_histograms("object_service"):
        found[each.position, each.workload] = (_logarithms(each.indices), np.frombuffer(each.counts, "<i8"))
    merged = {}
    for cell in cells:
        parts = [found[place] for each in cell.results if (place := (each.position, each.workload)) in found]
        if any(len(counts) for _, counts in parts):
            merged[cell.key] = (
                np.concatenate([times for times, _ in parts]),
                np.concatenate([counts for _, counts in parts]),
            )
    first = math.floor(min((float(at.min()) for at, _ in merged.values()), default=0.0))
    last = max(first + 1, math.ceil(max((float(at.max()) for at, _ in merged.values()), default=0.0)))
    rows = [
        _Distribution(cell.key, times.over("object_service", cell.results), int(merged[cell.key][1].sum()),
             _heights(*merged[cell.key], first, last))
        for cell in cells if cell.key in merged
    ]  # fmt: skip
    scale = tuple(((decade - first) / (last - first), _milliseconds(decade)) for decade in range(first, last + 1))
    return TableSpec(
        "distributions",
        "Service times of objects, cell by cell",
        (
            *columns_of(lambda row: row.key, KEY_COLUMNS),
            Column("objects", of=lambda row: row.objects),
            *(Column(name, "ms", _percentile(name), 3) for name in ("p50", "p90", "p99", "max")),
            Column("distribution", of=_sketch, scale=scale),
        ),
        f"Percentiles are those of all objects, over all repetitions. Scale of the distributions: {scale[0][1]} to"
        f" {scale[-1][1]}, a line at each power of ten; the height is the square root of the share.",
    ).table(rows)


class _Distribution(NamedTuple):
    """One cell."""

    key: UnitKey
    times: Latency | None
    objects: int
    heights: tuple[int, ...]


def _percentile(name: str) -> Callable[[_Distribution], float | None]:
    return lambda row: None if row.times is None else getattr(row.times, name)


def _sketch(row: _Distribution) -> Cell:
    times = row.times
    words = "" if times is None else f"from {times.p50:,.3f} ms at the median to {times.max:,.3f} ms at most"
    return Cell("", of=row.key, sketch=Sketch(row.heights, words))


def _milliseconds(decade: int) -> str:
    """Return ``100 µs``, ``10 ms``, ``1 s`` for a power of ten of milliseconds."""
    if decade < 0:
        return f"{10 ** (decade + 3):g} µs"
    return f"{10**decade:g} ms" if decade < 3 else f"{10 ** (decade - 3):,g} s"


def _heights(times: NDArray[np.float64], counts: NDArray[np.int64], first: int, last: int) -> tuple[int, ...]:
    """Return the heights of BINS equal steps of the scale, SKETCH_HEIGHT for the fullest."""
    bins = np.bincount(
        np.minimum(((times - first) / (last - first) * BINS).astype(np.int64), BINS - 1), weights=counts, minlength=BINS
    )
    # The square root makes a tail of one in five hundred visible next to the bulk.
    heights = np.ceil(np.sqrt(bins / bins.max()) * SKETCH_HEIGHT).astype(np.int64)
    return tuple(heights.tolist())


def _logarithms(indices: bytes) -> NDArray[np.float64]:
    """Return log10 of the milliseconds of each index in HdrHistogram's counts."""
    return np.log10(np.maximum(lowest_ns(np.frombuffer(indices, "<i8")), 1) / 1e6)
