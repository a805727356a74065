"""Merge several traces into one, or sort one, with bounded memory.

One idea: a sorted trace is read as it is. Any other trace is first written next to the result, as sorted runs that each
fit into memory. Runs are merged by batches: rows up to the earliest of the batches' last rows are complete. A run is
opened when its first row is due, so a hundred phases of one hour are never open at the same time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from archiver.traces.format import Origin, Trace, TraceInfo, TraceWriter, numbers_of, replaced
from archiver.values.errors import UsageError

_Column = NDArray[np.int64]
RUN_ROWS = 262_144  # rows sorted in memory at a time
_TIMES = ("due_ns", "sent_ns", "first_byte_ns", "done_ns")


def merge(out: Path, paths: Sequence[Path], *, overwrite: bool = False) -> TraceInfo:
    """Write one trace of several, in order of time; every stream of every file gets its own number.

    Raises UsageError for a file that is not a trace, and if only some traces are anonymised.
    """
    traces = [Trace.open(path) for path in paths]
    _check_alike(traces)
    began_at_ns = min(trace.info.began_at_ns for trace in traces)
    origins = list(dict.fromkeys(origin for trace in traces for origin in trace.info.origins))
    changes = list(dict.fromkeys(change for trace in traces for change in trace.info.changes))
    anonymised = traces[0].info.anonymised
    with (
        TraceWriter(out, began_at_ns, origins, changes=changes, anonymised=anonymised, overwrite=overwrite) as writer,
        spill_folder(out) as folder,
    ):
        runs = [
            _Run(trace, trace.info.began_at_ns - began_at_ns, file)
            for file, one in enumerate(traces)
            for trace in _rising(one, folder, file)
        ]
        numbers = _StreamNumbers()
        for batch, files in _merged(runs):
            writer.write(replaced(batch, {"client": numbers.of(files, numbers_of(batch, "client"))}))
        return writer.close()


def sort(out: Path, path: Path, *, overwrite: bool = False) -> TraceInfo:
    """Write a trace in order of time. Rows with the same due time keep their order. Raises UsageError."""
    trace = Trace.open(path)
    info = trace.info
    with (
        TraceWriter(
            out, info.began_at_ns, info.origins, changes=info.changes, anonymised=info.anonymised, overwrite=overwrite
        ) as writer,
        spill_folder(out) as folder,
    ):
        for batch in in_order(trace, folder):
            writer.write(batch)
        return writer.close()


def in_order(trace: Trace, folder: Path) -> Iterator[pa.RecordBatch]:
    """Yield a trace's batches in order of time; ``folder`` is for runs that do not fit into memory."""
    for batch, _ in _merged([_Run(each, 0, 0) for each in _rising(trace, folder, 0)]):
        yield batch


class _StreamNumbers:
    """Assignment of new stream numbers in the order of first appearance."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def of(self, files: _Column, clients: _Column) -> _Column:
        pairs, first, where = np.unique((files << 32) | clients, return_index=True, return_inverse=True)
        for pair in pairs[np.argsort(first)].tolist():
            self._known.setdefault(pair, len(self._known))
        return np.array([self._known[pair] for pair in pairs.tolist()], dtype=np.int64)[where]


@dataclass(slots=True)
class _Run:
    """Sorted rows, and the current batch of these rows."""

    trace: Trace
    later_ns: int  # from the start of the result to the start of this trace
    file: int
    place: int = 0  # order among rows with the same due time
    _batches: Iterator[pa.RecordBatch] | None = None
    _rows: pa.RecordBatch | None = None
    _due_ns: _Column = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def first_ns(self) -> int | None:
        """Return the due time of the first row; None without rows."""
        for batch in self.trace.batches(("due_ns",)):
            if batch.num_rows:
                return int(numbers_of(batch, "due_ns")[0]) + self.later_ns
        return None

    def last_ns(self) -> int:
        """Return the due time of the last row of the current batch."""
        return int(self._due_ns[-1])

    def has_more(self) -> bool:
        """Return whether rows are left; reads the next batch if necessary."""
        return bool(len(self._due_ns)) or self._read()

    def take(self, until_ns: int) -> pa.RecordBatch:
        """Remove and return all rows that are due by ``until_ns``."""
        while self.last_ns() <= until_ns and self._read():
            pass
        assert self._rows is not None
        count = int(np.searchsorted(self._due_ns, until_ns, side="right"))
        taken = self._rows.slice(0, count)
        self._rows, self._due_ns = self._rows.slice(count), self._due_ns[count:]
        return taken

    def _read(self) -> bool:
        if self._batches is None:
            self._batches = self.trace.batches(must_rise=True)
        batch = next((each for each in self._batches if each.num_rows), None)
        if batch is None:
            return False
        if self.later_ns:
            batch = replaced(batch, {name: pc.add(batch.column(name), self.later_ns) for name in _TIMES})
        self._rows = _as_one([self._rows, batch]) if self._rows is not None and len(self._due_ns) else batch
        self._due_ns = numbers_of(self._rows, "due_ns")
        return True


def _merged(runs: Iterable[_Run]) -> Iterator[tuple[pa.RecordBatch, _Column]]:
    """Yield all rows in order of time, with the file of each; rows with the same due time in the order of the runs."""
    waiting: list[tuple[int, int, _Run]] = []
    for place, run in enumerate(runs):
        run.place = place
        first_ns = run.first_ns()
        if first_ns is not None:
            waiting.append((-first_ns, -place, run))
    waiting.sort(key=lambda each: each[:2])  # the earliest comes last
    running: list[_Run] = []
    while waiting or running:
        until_ns = min((run.last_ns() for run in running), default=-waiting[-1][0] if waiting else 0)
        if waiting and -waiting[-1][0] <= until_ns:  # it begins before the current rows end
            run = waiting.pop()[2]
            if run.has_more():
                running.append(run)
            continue
        running.sort(key=lambda run: run.place)
        taken = [(run, rows) for run in running if (rows := run.take(until_ns)).num_rows]
        yield _joined(taken)
        running = [run for run in running if run.has_more()]


def _joined(taken: Sequence[tuple[_Run, pa.RecordBatch]]) -> tuple[pa.RecordBatch, _Column]:
    files = np.repeat([run.file for run, _ in taken], [rows.num_rows for _, rows in taken])
    if len(taken) == 1:
        return taken[0][1], files
    batch = _as_one([rows for _, rows in taken])
    order = np.argsort(numbers_of(batch, "due_ns"), kind="stable")
    return batch.take(pa.array(order)), files[order]


def _rising(trace: Trace, folder: Path, file: int) -> list[Trace]:
    """Return the trace itself if it is sorted, else its sorted runs."""
    if all(_rises(trace)):
        return [trace]
    runs: list[Trace] = []
    batches: list[pa.RecordBatch] = []
    rows = 0
    for batch in trace.batches():
        batches.append(batch)
        rows += batch.num_rows
        if rows >= RUN_ROWS:
            runs.append(_sorted_run(trace, batches, folder / f"{file}-{len(runs)}"))
            batches, rows = [], 0
    if batches:
        runs.append(_sorted_run(trace, batches, folder / f"{file}-{len(runs)}"))
    return runs


def _rises(trace: Trace) -> Iterator[bool]:
    latest_ns = 0
    for batch in trace.batches(("due_ns",)):
        due_ns = numbers_of(batch, "due_ns")
        yield bool((np.diff(due_ns, prepend=latest_ns) >= 0).all())
        latest_ns = int(due_ns[-1]) if len(due_ns) else latest_ns


def _sorted_run(trace: Trace, batches: Sequence[pa.RecordBatch], path: Path) -> Trace:
    batch = _as_one(batches)
    order = np.argsort(numbers_of(batch, "due_ns"), kind="stable")
    with TraceWriter(path, trace.info.began_at_ns, [Origin("run", "")]) as writer:
        writer.write(batch.take(pa.array(order)))
    return Trace.open(path)


def _as_one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


@contextmanager
def spill_folder(out: Path) -> Iterator[Path]:
    """Yield a folder for spilled data on the file system of the result."""
    try:
        made = tempfile.TemporaryDirectory(dir=out.parent, prefix=f"{out.name}.sorting-")
    except OSError as error:
        raise UsageError(f"{out.parent}: cannot be written: {error.strerror}") from error
    with made as folder:
        yield Path(folder)


def _check_alike(traces: Sequence[Trace]) -> None:
    for trace in traces[1:]:
        if trace.info.anonymised != traces[0].info.anonymised:
            clear, other = (trace, traces[0]) if traces[0].info.anonymised else (traces[0], trace)
            raise UsageError(
                f"{clear.path}: its keys are in clear, but those of {other.path} are anonymised, so they do not match; "
                "anonymise all traces with one key first"
            )
