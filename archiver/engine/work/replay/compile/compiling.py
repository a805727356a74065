"""Compilation of a trace for its replay.

One idea: the needs of a trace follow from all of its rows: which objects must exist before, whose content is read, and
what is deleted later. The compiler therefore reads the whole trace before anything runs.

Rows go through a file during compilation. A forward pass finds what each row writes and reads. If the trace deletes, a
backward pass follows. Two more passes number objects and lanes. Facts about every key (64 bytes) and session (40 bytes)
are in files, too. Memory contains the numbers of keys and sessions (some 50 bytes for each while they are sorted), and
one batch of rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from archiver.engine.work.replay.compile.compiled import (
    COLUMNS,
    ColumnFile,
    CompiledTrace,
    discard_facts,
    write_array,
    write_facts,
)
from archiver.engine.work.replay.compile.growing import GrowingArrays
from archiver.engine.work.replay.compile.history import PREPARED, ROW, WRITTEN, History, Records
from archiver.engine.work.replay.compile.lanes import SILENCE_SECONDS, Groups, SessionsOfLanes
from archiver.engine.work.replay.compile.numbering import Numbers
from archiver.engine.work.replay.compile.rows import RowReader
from archiver.engine.work.replay.compile.transactions import brought_together
from archiver.engine.worker.op_log import KIND as OPERATION_LOG
from archiver.traces.format import ROW_GROUP_ROWS, Trace, TraceInfo
from archiver.traces.summary import sha256_of
from archiver.values.errors import UsageError
from archiver.values.record import Operation
from scenarios.work.replay import TraceFacts

OBJECT_BYTES_MAX = 1 << 30  # the content of the largest object is kept in memory
OBJECT_BYTES_UNKNOWN = 65536  # if no row reports the size of any prepared object
FILLER_BYTES = 1 << 20  # size of an unused object, if the trace needs no prepared object
_FILLED_AT_ONCE = 1 << 16
_LANES = ("stream", "ends_session")
_NUMBERED = {"object": "key", "content": "content", "source": "source"}  # columns of objects, from those of keys
# Data of a row for the last pass: the part of its session, and those of its keys whose order matters.
_LANE_ROW = np.dtype([("part", np.int64), ("key", np.int64), ("source", np.int64)])


def compile_trace(
    path: Path, folder: Path, *, speed: float = 1.0, lies_there_bytes: int | None = None, commits: bool = False
) -> CompiledTrace:
    """Compile a trace into a folder, which is made if it does not exist.

    ``speed``: divisor of all times.
    ``lies_there_bytes``: bytes to prepare. Objects that the trace never uses are added until this total is reached.
    They have the mean size of the others.
    ``commits``: keep transactions of the trace as transactions. All objects of a transaction are due when its first one
    was.

    Raises UsageError if the file is no trace, or nothing in it can be replayed. Raises UsageError also if rows are not
    in order of time, or if an object is above OBJECT_BYTES_MAX.
    """
    trace = Trace.open(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        discard_facts(folder)
        with ExitStack() as stack:
            rows_file = stack.enter_context(_scratch(folder / "rows.partial"))
            lanes_file = stack.enter_context(_scratch(folder / "lanes.partial"))
            arrays = stack.enter_context(GrowingArrays(folder))
            _Compilation(trace, folder, speed, commits, rows_file, lanes_file, arrays).carry_out(lies_there_bytes)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror or error}") from error
    return CompiledTrace.open(folder)


class _Objects(NamedTuple):
    """Object numbers and sizes that the compiler assigned."""

    of_key: Numbers  # -1: none
    sizes: tuple[Numbers, int, int, Numbers, Numbers]  # ascending: small, fillers and their size, large; written
    unlocked: Numbers


class _Compilation:
    """Compilation of one trace into a folder."""

    def __init__(
        self,
        trace: Trace,
        folder: Path,
        speed: float,
        commits: bool,
        rows_file: BinaryIO,
        lanes_file: BinaryIO,
        arrays: GrowingArrays,
    ) -> None:
        assert speed > 0, "time does not go backwards"
        self._trace = trace
        self._folder = folder
        self._speed = speed
        # Requests of an access log may end at one instant only because the log has a coarse clock.
        self._commits = commits and any(origin.kind == OPERATION_LOG for origin in trace.info.origins)
        self._latest = (0, 0, False)  # of the latest row: transaction, length, unlocked
        self._rows_file = rows_file
        self._lanes_file = lanes_file
        self._history = History(arrays)
        self._sessions = SessionsOfLanes(SILENCE_SECONDS * 1e9 * speed, arrays)
        self._left_out: Counter[str] = Counter()
        self._operations: Counter[int] = Counter()
        self._replaced: Counter[int] = Counter()
        self._rows = 0
        self._streams = 0
        self._last_ns = 0

    def carry_out(self, lies_there_bytes: int | None) -> None:
        """Carry out all passes. The facts come last, because they mark the compiled trace as complete."""
        self._read()
        if self._history.has_deletes:
            self._look_back()
        self._left_out += self._history.left_out
        self._history.fill_sizes(OBJECT_BYTES_UNKNOWN)
        objects = self._number_objects(lies_there_bytes)
        self._write_rows(objects.of_key)
        if not self._operations:
            raise UsageError(f"{self._trace.path}: nothing in it can be replayed: {self._words_of_left_out()}")
        self._write_lanes()
        small, filler_bytes, fillers, large, written = objects.sizes
        with ColumnFile(self._folder, "sizes", np.int64, len(small) + fillers + len(large) + len(written)) as column:
            column.add(small)
            for first in range(0, fillers, _FILLED_AT_ONCE):
                column.add(np.full(min(_FILLED_AT_ONCE, fillers - first), filler_bytes))
            column.add(large)
            column.add(written)
        write_array(self._folder, "prepared_unlocked", objects.unlocked)
        prepared = Counter(_counts(small)) + Counter({filler_bytes: fillers}) + Counter(_counts(large))
        write_facts(self._folder, self._facts(prepared, Counter(_counts(written))))

    def _read(self) -> None:
        """Write the rows that can be replayed to the file, and the facts about keys to the history."""
        reader = RowReader(self._trace, commits=self._commits)
        with ExitStack() as stack:
            batches = reader.batches()
            if self._commits:
                batches = brought_together(batches, stack.enter_context(_scratch(self._folder / "asked.partial")))
            for read in batches:
                rows = self._history.follow(read, len(reader.keys))
                self._rows_file.write(rows.tobytes())
                self._rows += len(rows)
        self._left_out = reader.left_out

    def _look_back(self) -> None:
        for first in reversed(range(0, self._rows, ROW_GROUP_ROWS)):
            rows = _chunk(self._rows_file, ROW, first)
            if self._history.look_back(rows):
                self._rows_file.seek(first * ROW.itemsize)
                self._rows_file.write(rows.tobytes())

    def _number_objects(self, lies_there_bytes: int | None) -> _Objects:
        history = self._history
        prepared, written = history.keys_of(PREPARED), history.keys_of(WRITTEN)
        prepared = prepared[np.argsort(history.first_sizes(prepared), kind="stable")]
        written = written[np.argsort(history.first_sizes(written), kind="stable")]
        sizes, written_sizes = history.first_sizes(prepared), history.first_sizes(written)
        if (largest := history.largest_bytes()) > OBJECT_BYTES_MAX:
            raise UsageError(
                f"{self._trace.path}: has an object of {largest:,} bytes; a replay can handle at most "
                f"{OBJECT_BYTES_MAX:,}; `archiver trace scale OUT {self._trace.path.name} --sizes "
                f"{math.floor(OBJECT_BYTES_MAX / largest * 1000) / 1000}` makes a trace of smaller objects"
            )
        missing = (lies_there_bytes or 0) - int(sizes.sum())
        filler_bytes = round(float(sizes.mean())) if len(sizes) else 0
        filler_bytes = filler_bytes or FILLER_BYTES
        fillers = max(0, -(-missing // filler_bytes))
        below = int(np.searchsorted(sizes, filler_bytes, side="right"))
        numbers = np.arange(len(prepared))
        numbers[below:] += fillers
        of_key = np.full(history.count + 1, -1, dtype=np.int64)  # the last position is for key -1
        of_key[prepared] = numbers
        of_key[written] = len(prepared) + fillers + np.arange(len(written))
        unlocked = numbers[history.doomed(prepared)]
        return _Objects(of_key, (sizes[:below], filler_bytes, fillers, sizes[below:], written_sizes), unlocked)

    def _write_rows(self, of_key: Numbers) -> None:
        """Write all columns except those of lanes."""
        ordered_keys = np.append(self._history.ordered(), False)
        names = [name for name in COLUMNS if name not in _LANES]
        count = self._rows - self._history.deletes_left_out
        with ExitStack() as stack:
            columns = {
                name: stack.enter_context(ColumnFile(self._folder, name, COLUMNS[name], count)) for name in names
            }
            for first in range(0, self._rows, ROW_GROUP_ROWS):
                rows = _chunk(self._rows_file, ROW, first)
                rows = rows.take(np.flatnonzero(rows["kept"]))
                if not len(rows):
                    continue
                ordered_key, ordered_source = ordered_keys[rows["key"]], ordered_keys[rows["source"]]
                values = self._values(rows)
                values |= {name: of_key[rows[key]] for name, key in _NUMBERED.items()}
                values |= {"ordered": ordered_key | ordered_source}
                values |= {"with_previous": self._with_previous(rows["transaction"], values)}
                for name, column in columns.items():
                    column.add(values[name])
                self._count(rows, values)
                lanes = np.empty(len(rows), dtype=_LANE_ROW)
                opens = rows["operation"] == Operation.OPEN
                lanes["part"] = self._sessions.add(rows["due_ns"], rows["client"], rows["session"], opens)
                lanes["key"] = np.where(ordered_key, rows["key"], -1)
                lanes["source"] = np.where(ordered_source, rows["source"], -1)
                self._lanes_file.write(lanes.tobytes())
        self._rows = count

    def _values(self, rows: Records) -> dict[str, NDArray[Any]]:
        due_ns = rows["due_ns"]
        if self._speed != 1:
            due_ns = np.floor(due_ns / self._speed).astype(np.int64)
        operation, size = rows["operation"], self._history.sizes(rows["size_bytes"])
        offset, length = np.maximum(rows["offset"], 0), rows["length"]
        within = np.minimum(np.where(length >= 0, length, size), size - offset)
        ranges = operation == Operation.RANGE_RETRIEVE
        # The range is empty, or the row does not report it.
        is_whole = ranges & ((within <= 0) | ((rows["offset"] < 0) & (length < 0)))
        ranges &= ~is_whole
        parts = np.isin(operation, (Operation.ARCHIVE, Operation.NEW_VERSION)) & (length > 0) & (length < size)
        return {
            "due_ns": due_ns,
            "operation": np.where(is_whole, Operation.RETRIEVE, operation),
            "size_bytes": size,
            "version": rows["version"],
            "offset": np.where(ranges, offset, 0),
            "length": np.where(ranges, within, np.where(parts, length, 0)),
            "unlocked": rows["unlocked"],
        }

    def _with_previous(self, transactions: NDArray[np.int32], values: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Return whether each row can be committed with the previous row: same transaction, and compatible."""
        found: NDArray[np.bool_] = transactions != 0
        alike = (transactions, values["length"], values["unlocked"])
        for column, latest in zip(alike, self._latest, strict=True):
            found &= column == np.append(latest, column[:-1])
        self._latest = (int(transactions[-1]), int(values["length"][-1]), bool(values["unlocked"][-1]))
        return found

    def _count(self, rows: Records, values: dict[str, NDArray[Any]]) -> None:
        """Count the operations and sizes for the facts."""
        operation = values["operation"]
        self._operations.update(_counts(operation[operation != Operation.OPEN]))
        writes = np.isin(operation, (Operation.ARCHIVE, Operation.NEW_VERSION, Operation.COPY))
        self._replaced.update(_counts(values["size_bytes"][writes & ~rows["first"]]))
        self._last_ns = int(values["due_ns"][-1])

    def _write_lanes(self) -> None:
        """Write the lane of every row, and the group of every lane."""
        of_part, last_rows = self._sessions.streams(), self._sessions.last_rows
        self._streams = int(of_part.max(initial=-1)) + 1
        groups = Groups(self._streams, self._history.count)
        with (
            ColumnFile(self._folder, "stream", np.int32, self._rows) as stream,
            ColumnFile(self._folder, "ends_session", np.bool_, self._rows) as ends_session,
        ):
            for first in range(0, self._rows, ROW_GROUP_ROWS):
                rows = _chunk(self._lanes_file, _LANE_ROW, first)
                streams = of_part[rows["part"]]
                stream.add(streams)
                ends_session.add(last_rows[rows["part"]] == np.arange(first, first + len(rows)))
                for name in ("key", "source"):
                    has_key = rows[name] >= 0
                    groups.meet(rows[name][has_key], streams[has_key])
        write_array(self._folder, "groups", groups.numbers())

    def _facts(self, prepared: Counter[int], written: Counter[int]) -> TraceFacts:
        info = self._trace.info
        return TraceFacts(
            name=self._trace.path.stem,
            origin=_origin(info),
            sha256=sha256_of(self._trace.path),
            anonymised=info.anonymised,
            seconds=self._last_ns / 1e9,
            operations=tuple((Operation(code).label, count) for code, count in sorted(self._operations.items())),
            left_out=tuple(sorted(self._left_out.items())),
            streams=self._streams,
            prepared=_aggregated(prepared),
            written=_aggregated(written),
            replaced=_aggregated(self._replaced),
            deletes=self._operations[Operation.DELETE] > 0,
            changes_prepared=self._history.changes_prepared(),
        )

    def _words_of_left_out(self) -> str:
        return "; ".join(f"{reason} ({count:,})" for reason, count in sorted(self._left_out.items())) or "it is empty"


def _origin(info: TraceInfo) -> str:
    """Return a description of the trace's origin and its later processing."""
    return "; ".join([", ".join(f"{origin.kind} {origin.name}".strip() for origin in info.origins), *info.changes])


def _counts(values: NDArray[Any]) -> dict[int, int]:
    distinct, counts = np.unique(values, return_counts=True)
    return dict(zip(distinct.tolist(), counts.tolist(), strict=True))


def _aggregated(counts: Counter[int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((size, count) for size, count in counts.items() if count))


def _chunk(file: BinaryIO, dtype: np.dtype[Any], first: int) -> Records:
    """Read some rows of a file, beginning with ``first``."""
    file.seek(first * dtype.itemsize)
    return np.frombuffer(bytearray(file.read(ROW_GROUP_ROWS * dtype.itemsize)), dtype=dtype)


@contextmanager
def _scratch(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file for writing and reading; it is removed afterwards."""
    with path.open("w+b") as file:
        try:
            yield file
        finally:
            path.unlink()
