"""Summary of a trace: operations by kind, sizes, streams, sessions, rate, and objects read but never written.

One idea: the trace is read once, by batches. Memory grows only by 8 bytes for every session and every key that it
writes or reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from archiver.measure.histogram import Histogram, part_of, percentiles
from archiver.traces.format import CODES, OPERATIONS, Trace, TraceInfo, known, numbers_of
from archiver.traces.seen import Numbers, Seen, hashes_of

READS = frozenset({"retrieve", "range-retrieve", "audit", "head", "query"})
WRITES = frozenset({"archive", "new-version", "copy"})
# Operations that need an existing object: to read, copy, change or remove it.
NEEDS = READS | {"lock", "extend", "hold", "release", "refused-delete", "delete", "delete-marker"}
_MOVES = frozenset({"archive", "new-version", "retrieve", "range-retrieve", "audit"})  # their bytes cross the wire
_NOT_ON_OBJECTS = frozenset({"open", "close", "session", "transaction"})
_HASH_BYTES = 1 << 20


@dataclass(slots=True)
class KindSummary:
    """The operations of one kind. ``bytes`` cross the wire; ``sizes`` are the known sizes of objects."""

    operations: int = 0
    failed: int = 0
    bytes: int = 0
    unknown_sizes: int = 0
    sizes: Histogram = field(default_factory=Histogram)

    def size(self, percent: float) -> int | None:
        """Return the size, to three digits, that ``percent`` of the objects do not exceed; None without any."""
        if not self.sizes.count:
            return None
        return round(percentiles([self.sizes.part()], [percent])[0] * 1e6)


@dataclass(slots=True)
class Summary:
    """The contents of a trace."""

    info: TraceInfo
    sha256: str = ""  # of the file
    operations: int = 0  # on objects
    kinds: dict[str, KindSummary] = field(default_factory=dict)
    streams: int = 0
    sessions: int = 0
    first_due_ns: int = 0
    last_due_ns: int = 0
    rises: bool = True
    unwritten: int = 0  # distinct keys that are read, changed or removed, but were not written before

    @property
    def seconds(self) -> float:
        """Return the time from the first to the last due time."""
        return (self.last_due_ns - self.first_due_ns) / 1e9

    @property
    def operations_per_second(self) -> float | None:
        """Return operations on objects per second; None if all have the same due time."""
        return self.operations / self.seconds if self.seconds else None

    def read_share(self) -> float | None:
        """Return the share of reads among the operations that read or write objects; None without any."""
        reads = sum(kind.operations for name, kind in self.kinds.items() if name in READS)
        both = reads + sum(kind.operations for name, kind in self.kinds.items() if name in WRITES)
        return reads / both if both else None


def summarise(path: Path) -> Summary:
    """Read a whole trace. Raises UsageError for a file that is not a trace."""
    trace = Trace.open(path)
    summary = Summary(trace.info, sha256_of(path))
    sessions, clients, first = Seen(), Seen(), True
    unwritten = Unwritten()
    for batch in trace.batches():
        if not batch.num_rows:
            continue
        due_ns, client = numbers_of(batch, "due_ns"), numbers_of(batch, "client")
        if first:
            summary.first_due_ns = summary.last_due_ns = int(due_ns[0])
            first = False
        rises_here = bool((np.diff(due_ns, prepend=summary.last_due_ns) >= 0).all())
        summary.rises = summary.rises and rises_here
        summary.first_due_ns = min(summary.first_due_ns, int(due_ns.min()))
        summary.last_due_ns = max(summary.last_due_ns, int(due_ns.max()))
        clients.add(client)
        sessions.add((client << 32) ^ numbers_of(batch, "session"))
        _count(summary, batch)
        for _ in unwritten.of(batch):
            summary.unwritten += 1
    summary.streams, summary.sessions = len(clients), len(sessions)
    return summary


class Unwritten:
    """Search for the objects that must exist before a trace: keys that it uses and did not write before, each once."""

    def __init__(self) -> None:
        self._existing = Seen()

    def of(self, batch: pa.RecordBatch) -> Iterator[tuple[str, int | None]]:
        """Yield keys first used in this batch, and their sizes if known. Batches come in order and have all columns.

        An operation that failed needs no object. If only a range is known, its end counts as the size.
        """
        codes, good = numbers_of(batch, "operation"), numbers_of(batch, "status") == 0
        has_key = known(batch, "key")
        numbers = hashes_of(batch.column("key"))
        writes = good & has_key & _is_one_of(codes, WRITES)
        needs = good & has_key & _is_one_of(codes, NEEDS)
        yield from self._needed(batch, "key", numbers, needs, numbers, writes)
        copies = good & known(batch, "source")
        if copies.any():
            yield from self._needed(batch, "source", hashes_of(batch.column("source")), copies, numbers, writes)
        self._existing.add(numbers[writes])

    def _needed(
        self,
        batch: pa.RecordBatch,
        name: str,
        numbers: Numbers,
        needs: NDArray[np.bool_],
        written: Numbers,
        writes: NDArray[np.bool_],
    ) -> Iterator[tuple[str, int | None]]:
        needed, rows = np.unique(numbers[needs], return_index=True)
        rows = np.flatnonzero(needs)[rows]
        written_here, first_write = np.unique(written[writes], return_index=True)
        missing = ~self._existing.has(needed)
        if len(written_here):
            places = np.minimum(np.searchsorted(written_here, needed), len(written_here) - 1)
            before = (written_here[places] == needed) & (np.flatnonzero(writes)[first_write][places] < rows)
            missing &= ~before
        self._existing.add(needed[missing])
        keys, sizes = batch.column(name), batch.column("size_bytes")
        offsets, lengths = batch.column("offset"), batch.column("length")
        for row in np.sort(rows[missing]).tolist():
            size, length = sizes[row].as_py(), lengths[row].as_py()
            end = (offsets[row].as_py() or 0) + length if length is not None else None
            yield keys[row].as_py(), max((each for each in (size, end) if each is not None), default=None)


def _count(summary: Summary, batch: pa.RecordBatch) -> None:
    codes = numbers_of(batch, "operation")
    failed = numbers_of(batch, "status") != 0
    sizes, has_size = numbers_of(batch, "size_bytes"), known(batch, "size_bytes")
    is_range = known(batch, "length") & (codes == CODES["range-retrieve"])
    moved = np.where(is_range, numbers_of(batch, "length"), sizes)
    for code in np.unique(codes).tolist():
        name, here = OPERATIONS[code], codes == code
        kind = summary.kinds.setdefault(name, KindSummary())
        kind.operations += int(here.sum())
        kind.failed += int((here & failed).sum())
        if name in _NOT_ON_OBJECTS:
            continue
        summary.operations += int(here.sum())
        if name in _MOVES:
            kind.bytes += int(moved[here & ~failed].sum())
        kind.unknown_sizes += int((here & ~has_size).sum())
        if (here & has_size).any():
            kind.sizes.add(part_of(sizes[here & has_size]))


def _is_one_of(codes: Numbers, labels: frozenset[str]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.isin(codes, [CODES[label] for label in labels])
    return found


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(_HASH_BYTES):
            digest.update(part)
    return digest.hexdigest()
