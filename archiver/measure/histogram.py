"""HDR histograms as sparse arrays: recorded in bulk, merged by addition, percentiles computed once at the end.

One idea: a value's index follows from its bits alone (the layout of HdrHistogram with three significant digits and a
unit of one nanosecond). NumPy can therefore compute thousands of indices in one call, and parts from any client, worker
or host can be added. The HdrHistogram library takes the counts unchanged for its log format.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.ma  # otherwise np.unique loads it at its first call, during a measured phase
from numpy.typing import NDArray

from results.recorded.model import Latency

HIGHEST_NS = 24 * 3600 * 10**9
# HdrHistogram's layout for three digits: 2048 sub-buckets; each further bucket adds only the upper half.
_SUB_BUCKETS = 2048
_HALF = _SUB_BUCKETS // 2
_HALF_MAGNITUDE = 10
_INDEX_BITS = 20  # more than any index has
_ROOM_BYTES = 1 << 17  # minimum size of pieces that wait to be merged
_PIECE_BYTES = 256  # memory overhead of a piece
_AT_ONCE = 8192  # counts summed per call: larger temporary arrays would be allocated from the system and returned to it
_Integers = NDArray[np.integer[Any]]
_Piece = tuple[str, str, bytes, bytes]  # types of its indices and counts, and the bytes of both
_NOTHING: _Integers = np.zeros(0, dtype=np.uint8)


class HistogramPart(NamedTuple):
    """Sparse counts. ``indices`` ascend, ``counts`` are positive, ``total_ns`` is the exact sum of the values."""

    indices: _Integers
    counts: _Integers
    total_ns: int
    max_ns: int


def part_of(values_ns: NDArray[np.int64]) -> HistogramPart:
    """Return the histogram of values in nanoseconds. Values above a day count as a day, negative ones as zero."""
    return parts_of(values_ns, np.zeros(len(values_ns), dtype=np.int64), 1)[0]


def parts_of(values_ns: NDArray[np.int64], group: NDArray[np.int64], groups: int) -> list[HistogramPart]:
    """Return the histograms of several groups in one call; ``group`` has the group of each value, from 0.

    Many small groups take about as long as one large one.
    """
    clipped = np.clip(values_ns, 0, HIGHEST_NS)
    keys, counts = np.unique((group << _INDEX_BITS) + index_of(clipped), return_counts=True)
    total_ns, max_ns = np.zeros(groups, dtype=np.int64), np.zeros(groups, dtype=np.int64)
    if len(clipped):
        order = np.argsort(group, kind="stable")
        present, firsts = np.unique(group[order], return_index=True)
        total_ns[present] = np.add.reduceat(clipped[order], firsts)
        max_ns[present] = np.maximum.reduceat(clipped[order], firsts)
    edges = np.searchsorted(keys, np.arange(groups + 1) << _INDEX_BITS).tolist()
    indices = keys & ((1 << _INDEX_BITS) - 1)
    return [
        HistogramPart(indices[first:end], counts[first:end], total, longest)
        for first, end, total, longest in zip(edges, edges[1:], total_ns.tolist(), max_ns.tolist(), strict=False)
    ]


def index_of(values_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return HdrHistogram's counts index of each value."""
    # frexp gives the exact number of bits for values below 2**53, and a day of nanoseconds is smaller.
    bits = np.frexp(values_ns.astype(np.float64))[1].astype(np.int64)
    bucket = np.maximum(bits - (_HALF_MAGNITUDE + 1), 0)
    sub_bucket = values_ns >> bucket
    return ((bucket + 1) << _HALF_MAGNITUDE) + (sub_bucket - _HALF)


def percentiles(parts: Sequence[HistogramPart], percents: Sequence[float]) -> list[float]:
    """Return percentiles in milliseconds, computed as HdrHistogram does, but in a hundredth of its time.

    HdrHistogram walks all its counts, which is too slow for progress lines. ``parts`` must have a value.
    """
    indices = np.concatenate([part.indices for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    order = np.argsort(indices)
    reached = np.cumsum(counts[order])
    wanted = [max(1, math.floor(percent * int(reached[-1]) / 100 + 0.5)) for percent in percents]
    longest_ns = max(part.max_ns for part in parts)
    found = indices[order][np.searchsorted(reached, wanted)]
    return [min(_highest_value(index), longest_ns) / 1e6 for index in found.tolist()]


def _highest_value(index: int) -> int:
    """Return the highest value with this index; the reverse of ``index_of``."""
    bucket = max(0, (index >> _HALF_MAGNITUDE) - 1)
    sub_bucket = index - (bucket << _HALF_MAGNITUDE)
    return ((sub_bucket + 1) << bucket) - 1


class Histogram:
    """A merged histogram of nanoseconds.

    It keeps its counts as bytes of the narrowest types, as processes send them. Pieces from many workers wait until
    they take as much memory as the merged counts, and are then merged in one step. The cost of a piece is therefore
    proportional to its length, for any number of pieces.
    """

    __slots__ = ("_pieces", "_room_bytes", "max_ns", "total_ns")

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []
        self._room_bytes = _ROOM_BYTES  # bytes left for pieces before the next merge
        self.total_ns = 0
        self.max_ns = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and self._state() == other._state()

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"Histogram(count={self.count}, total_ns={self.total_ns}, max_ns={self.max_ns})"

    def __reduce__(self) -> tuple[Any, ...]:
        self.sum_up()
        return _travelled, (self._pieces, self.total_ns, self.max_ns)

    def add(self, part: HistogramPart) -> None:
        """Merge a part; the order of merging does not matter."""
        if len(part.indices):
            self.add_all(_travelled([_piece(part.indices, part.counts)], part.total_ns, part.max_ns))

    def add_all(self, other: Histogram) -> None:
        """Merge another histogram; the order of merging does not matter."""
        self._pieces += other._pieces
        self.total_ns += other.total_ns
        self.max_ns = max(self.max_ns, other.max_ns)
        for piece in other._pieces:
            self._room_bytes -= len(piece[2]) + len(piece[3]) + _PIECE_BYTES
        if self._room_bytes < 0:
            self.sum_up()

    @property
    def count(self) -> int:
        """Return the number of values."""
        return int(self.part().counts.sum())

    def share_from(self, least_ns: int) -> float:
        """Return the share of values of at least ``least_ns``, with the histogram's resolution; 0 if there are none."""
        part = self.part()
        first = int(index_of(np.array([least_ns], dtype=np.int64))[0])
        total = int(part.counts.sum())
        return int(part.counts[part.indices >= first].sum()) / total if total else 0.0

    def part(self) -> HistogramPart:
        """Return the merged counts as a sparse part."""
        self.sum_up()
        indices, counts = _arrays(self._pieces) if self._pieces else (_NOTHING, _NOTHING)
        return HistogramPart(indices, counts, self.total_ns, self.max_ns)

    def latency(self) -> Latency | None:
        """Return mean and percentiles in milliseconds; None for an empty histogram."""
        count = self.count
        if not count:
            return None
        p50, p70, p90, p99, p99_9 = percentiles([self.part()], (50, 70, 90, 99, 99.9))
        return Latency(
            count=count,
            mean=self.total_ns / count / 1e6,
            p50=p50,
            p70=p70,
            p90=p90,
            p99=p99,
            p99_9=p99_9,
            max=self.max_ns / 1e6,
        )

    def _state(self) -> tuple[Any, ...]:
        part = self.part()
        return part.indices.tolist(), part.counts.tolist(), part.total_ns, part.max_ns

    def sum_up(self) -> None:
        """Merge the waiting pieces. Call this when no more are expected; until then they may take 128 KiB."""
        if len(self._pieces) > 1:
            self._pieces = [_added_up(self._pieces)]
        self._room_bytes = max(_ROOM_BYTES, sum(len(piece[2]) + len(piece[3]) for piece in self._pieces))


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """Return one histogram with the counts of all."""
    whole = Histogram()
    for each in histograms:
        whole.add_all(each)
    return whole


def _added_up(pieces: Sequence[_Piece]) -> _Piece:
    """Sum the counts of each index, ascending. A dense count takes a tenth of the time of sorting; exact to 2**53."""
    by_types: dict[tuple[str, str], list[_Piece]] = {}
    for piece in pieces:
        by_types.setdefault(piece[:2], []).append(piece)
    groups = [_arrays(group) for group in by_types.values()]
    first, last = min(int(indices.min()) for indices, _ in groups), max(int(indices.max()) for indices, _ in groups)
    if last - first >> _INDEX_BITS:
        raise ValueError(f"{last} is no index of a histogram")
    sums = np.zeros(last - first + 1)
    for indices, counts in groups:
        for at in range(0, len(indices), _AT_ONCE):
            here = slice(at, at + _AT_ONCE)
            sums += np.bincount(indices[here] - first, counts[here], len(sums))
    found = np.flatnonzero(sums)
    return _piece(found + first, sums[found])


def _arrays(pieces: Sequence[_Piece]) -> tuple[_Integers, _Integers]:
    """Return the indices and the counts of pieces with the same types, one after another."""
    index_type, count_type, *_ = pieces[0]
    return (
        np.frombuffer(b"".join([piece[2] for piece in pieces]), index_type),
        np.frombuffer(b"".join([piece[3] for piece in pieces]), count_type),
    )


def _piece(indices: NDArray[Any], counts: NDArray[Any]) -> _Piece:
    """Return counts in the narrowest types that can represent them."""
    index_type, count_type = _narrowest(indices), _narrowest(counts)
    return index_type, count_type, indices.astype(index_type).tobytes(), counts.astype(count_type).tobytes()


def _narrowest(values: NDArray[Any]) -> str:
    """Return the narrowest type that can represent these non-negative whole numbers; there must be at least one."""
    most = int(values.max())
    return "u1" if most < 1 << 8 else "<u2" if most < 1 << 16 else "<u4" if most < 1 << 32 else "<i8"


def _travelled(pieces: list[_Piece], total_ns: int, max_ns: int) -> Histogram:
    """Rebuild a histogram that another process pickled."""
    histogram = Histogram()
    histogram._pieces = pieces
    histogram.total_ns, histogram.max_ns = total_ns, max_ns
    return histogram
