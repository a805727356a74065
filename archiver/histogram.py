"""HDR histograms as sparse counts: recorded in bulk, merged by addition, percentiles taken once, at the end.

One idea: a value's index follows from its bits alone (the layout of HdrHistogram with three significant digits and a
unit of one nanosecond), so numpy can index thousands of values at once, parts from any client, worker or host add up,
and the counts can be handed to the HdrHistogram library unchanged for its log format.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from results.model import Latency

HIGHEST_NS = 24 * 3600 * 10**9
SIGNIFICANT_DIGITS = 3
# HdrHistogram's layout for three digits: 2048 sub-buckets, of which the upper half is new in every further bucket.
_SUB_BUCKETS = 2048
_HALF = _SUB_BUCKETS // 2
_HALF_MAGNITUDE = 10
_INDEX_BITS = 20  # more than any index has


@dataclass(frozen=True, slots=True)
class HistogramPart:
    """Sparse counts: ``indices`` rising, ``counts`` positive; ``total_ns`` is the exact sum of the values."""

    indices: NDArray[np.int64]
    counts: NDArray[np.int64]
    total_ns: int
    max_ns: int


def part_of(values_ns: NDArray[np.int64]) -> HistogramPart:
    """The histogram of some values, in nanoseconds. Values beyond a day count as a day, negative ones as zero."""
    return parts_of(values_ns, np.zeros(len(values_ns), dtype=np.int64), 1)[0]


def parts_of(values_ns: NDArray[np.int64], group: NDArray[np.int64], groups: int) -> list[HistogramPart]:
    """The same of several groups at once; ``group`` says, from 0, to which each value belongs. Many small groups take
    hardly longer than one large one."""
    clipped = np.clip(values_ns, 0, HIGHEST_NS)
    keys, counts = np.unique((group << _INDEX_BITS) + index_of(clipped), return_counts=True)
    total_ns, max_ns = np.zeros(groups, dtype=np.int64), np.zeros(groups, dtype=np.int64)
    np.add.at(total_ns, group, clipped)
    np.maximum.at(max_ns, group, clipped)
    edges = np.searchsorted(keys, np.arange(groups + 1) << _INDEX_BITS).tolist()
    indices = keys & ((1 << _INDEX_BITS) - 1)
    return [
        HistogramPart(indices[first:end], counts[first:end], total, longest)
        for first, end, total, longest in zip(edges, edges[1:], total_ns.tolist(), max_ns.tolist(), strict=False)
    ]


def index_of(values_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """HdrHistogram's counts index of each value."""
    # frexp gives the number of bits exactly for all values below 2**53, which a day of nanoseconds is.
    bits = np.frexp(values_ns.astype(np.float64))[1].astype(np.int64)
    bucket = np.maximum(bits - (_HALF_MAGNITUDE + 1), 0)
    sub_bucket = values_ns >> bucket
    return ((bucket + 1) << _HALF_MAGNITUDE) + (sub_bucket - _HALF)


def percentiles(parts: Sequence[HistogramPart], percents: Sequence[float]) -> list[float]:
    """The same milliseconds as those of the parts' merged ``Histogram``, but in a hundredth of its time, for who looks
    often: HdrHistogram walks all its counts. ``parts`` must have a value."""
    indices = np.concatenate([part.indices for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    order = np.argsort(indices)
    reached = np.cumsum(counts[order])
    wanted = [max(1, math.floor(percent / 100 * int(reached[-1]) + 0.5)) for percent in percents]
    longest_ns = max(part.max_ns for part in parts)
    found = indices[order][np.searchsorted(reached, wanted)]
    return [min(_highest_value(index), longest_ns) / 1e6 for index in found.tolist()]


def _highest_value(index: int) -> int:
    """The highest of the values that share an index; the reverse of ``index_of``."""
    bucket = max(0, (index >> _HALF_MAGNITUDE) - 1)
    sub_bucket = index - (bucket << _HALF_MAGNITUDE)
    return ((sub_bucket + 1) << bucket) - 1


@dataclass(slots=True)
class Histogram:
    """A merged histogram of nanoseconds."""

    _counts: dict[int, int] = field(default_factory=dict)
    total_ns: int = 0
    max_ns: int = 0
    count: int = 0

    def add(self, part: HistogramPart) -> None:
        """Merge a part; the order of merging never matters."""
        counts = self._counts
        new = zip(part.indices.tolist(), part.counts.tolist(), strict=True)
        if counts:
            for index, count in new:
                counts[index] = counts.get(index, 0) + count
        else:
            counts.update(new)  # a third of the time, and what most parts meet: the interval's histogram is new
        self.count += int(part.counts.sum())
        self.total_ns += part.total_ns
        self.max_ns = max(self.max_ns, part.max_ns)

    def part(self) -> HistogramPart:
        """The merged counts, sparse again."""
        ordered = sorted(self._counts.items())
        return HistogramPart(
            np.array([index for index, _ in ordered], dtype=np.int64),
            np.array([count for _, count in ordered], dtype=np.int64),
            self.total_ns,
            self.max_ns,
        )

    def hdr(self) -> HdrHistogram:
        """The same counts as an HdrHistogram, for its percentiles and its log format."""
        histogram = HdrHistogram(1, HIGHEST_NS, SIGNIFICANT_DIGITS)
        for index, count in self._counts.items():
            histogram.record_value(histogram.get_value_from_index(index), count)
        return histogram

    def latency(self) -> Latency | None:
        """Mean and percentiles in milliseconds; None for an empty histogram."""
        if not self.count:
            return None
        hdr = self.hdr()
        p50, p70, p90, p99, p99_9 = (
            min(hdr.get_value_at_percentile(p), self.max_ns) / 1e6 for p in (50, 70, 90, 99, 99.9)
        )
        return Latency(
            count=self.count,
            mean=self.total_ns / self.count / 1e6,
            p50=p50,
            p70=p70,
            p90=p90,
            p99=p99,
            p99_9=p99_9,
            max=self.max_ns / 1e6,
        )
