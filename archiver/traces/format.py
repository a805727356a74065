"""The format of traces: one Parquet file with the operations that clients requested of an object store.

One idea: operation logs of runs, captured traffic and imported logs share one format. Files are read and written by
record batches, so memory does not grow with their length. The reader checks every batch, so its users need not.

Version 2. Columns, one row per operation; times are nanoseconds after ``began_at_ns`` (nanoseconds since the epoch, in
the file's metadata); null means unknown:

    due_ns        when it was due; never null or negative. Rises in a trace, but not always in an operation log
    sent_ns, first_byte_ns, done_ns   when it was first sent, first answered, done
    operation     a label of Operation in archiver.values.record (archive, retrieve, ... open, close, session,
                  transaction, lock);
                  list: of a bucket; other: an operation without a counterpart here
    key           the object's name, decoded; without prefix in an operation log, with bucket in other traces
    source        of a copy: the source key
    size_bytes    of the object if known, else of the transfer; of a session or transaction, its good bytes
    offset, length        of a range; length of a multipart archive: the part size
    retention_mode        GOVERNANCE, COMPLIANCE, CLASS, none
    retain_for_seconds    from the operation on
    legal_hold    null: not specified
    client        number of a stream: operations that follow each other
    session       number of a session within its client; a client's sessions are numbered as they first appear
    endpoint      number of the endpoint in the order given
    status        0: good; 1 to 99: Status in archiver.values.record; from 300 the platform's: HTTP's, or
                  10,000 + TSM's code
    attempts      requests sent for it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from archiver.values.errors import UsageError, other_version
from archiver.values.record import Operation
from archiver.values.retention import RetentionMode
from archiver.values.typed import typed_json

VERSION = 2
OPERATIONS = (*(operation.label for operation in Operation), "list", "other")
CODES = {label: code for code, label in enumerate(OPERATIONS)}
MODES = tuple(mode.value for mode in RetentionMode)
_MODE_CODES = {mode: code for code, mode in enumerate(MODES)}
_WORDS = pa.dictionary(pa.int8(), pa.string())
SCHEMA = pa.schema(
    [
        ("due_ns", pa.int64()),
        ("sent_ns", pa.int64()),
        ("first_byte_ns", pa.int64()),
        ("done_ns", pa.int64()),
        ("operation", _WORDS),
        ("key", pa.string()),
        ("source", pa.string()),
        ("size_bytes", pa.int64()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("retention_mode", _WORDS),
        ("retain_for_seconds", pa.float64()),
        ("legal_hold", pa.bool_()),
        ("client", pa.int32()),
        ("session", pa.int64()),
        ("endpoint", pa.int16()),
        ("status", pa.int16()),
        ("attempts", pa.int16()),
    ]
)
COLUMNS = tuple(SCHEMA.names)
_DICTIONARIES = {"operation": pa.array(OPERATIONS), "retention_mode": pa.array(MODES)}
_NEVER_NULL = ("due_ns", "operation", "client", "session", "endpoint", "status", "attempts")
_NEVER_NEGATIVE = (
    "due_ns", "size_bytes", "offset", "length", "retain_for_seconds", "client", "session", "endpoint", "status",
    "attempts",
)  # fmt: skip
# Large enough for fast decoding, small enough that writing during a measurement takes only a few milliseconds.
ROW_GROUP_ROWS = 16_384
_PREFIX = "archiver_trace_"


class TracedOperation(NamedTuple):
    """One row, in the order of the columns."""

    due_ns: int
    sent_ns: int | None = None
    first_byte_ns: int | None = None
    done_ns: int | None = None
    operation: str = "other"
    key: str | None = None
    source: str | None = None
    size_bytes: int | None = None
    offset: int | None = None
    length: int | None = None
    retention_mode: str | None = None
    retain_for_seconds: float | None = None
    legal_hold: bool | None = None
    client: int = 0
    session: int = 0
    endpoint: int = 0
    status: int = 0
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of operations. ``kind``: operation-log, capture, tsm, model, or the kind of log (aws, minio ...)."""

    kind: str
    name: str  # name of the run, or of the log file without its folder


@dataclass(frozen=True, slots=True)
class TraceInfo:
    """The metadata of a trace."""

    began_at_ns: int  # since the epoch
    origins: tuple[Origin, ...] = ()
    changes: tuple[str, ...] = ()  # changes that made it, in order, such as "scaled: speed 2"
    anonymised: bool = False
    operations: int = 0  # rows
    streams: int = 0  # distinct clients
    rises: bool = True  # due_ns never falls


@dataclass(frozen=True, slots=True)
class Trace:
    """A complete trace file of this version."""

    path: Path
    info: TraceInfo

    @classmethod
    def open(cls, path: Path) -> Trace:
        """Open a trace. Raises UsageError if it is missing, truncated, not a trace or of another version."""
        with _opened(path) as file:
            return cls(path, _info_of(path, file))

    def batches(self, columns: Sequence[str] = COLUMNS, *, must_rise: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield every row in the file's order, about ten thousand at a time, with codes of OPERATIONS and MODES.

        Raises UsageError with file and row for an invalid value, and with ``must_rise`` for a row that is due before
        the previous one.
        """
        first_row, latest_ns = 1, 0
        with _opened(self.path) as file:
            for batch in _decoded(self.path, file, columns):
                checked = _checked(self.path, batch, first_row)
                if must_rise:
                    latest_ns = _check_rises(self.path, checked, first_row, latest_ns)
                yield checked
                first_row += checked.num_rows

    def operations(self, *, must_rise: bool = False) -> Iterator[TracedOperation]:
        """Yield the rows one by one; raises as ``batches`` does."""
        for batch in self.batches(must_rise=must_rise):
            yield from rows_of(batch)


class TraceWriter:
    """Writer of a trace. Its file is named NAME.partial until ``close``."""

    def __init__(
        self,
        path: Path,
        began_at_ns: int,
        origins: Sequence[Origin],
        *,
        changes: Sequence[str] = (),
        anonymised: bool = False,
        overwrite: bool = False,
        own_columns: Sequence[tuple[str, pa.DataType]] = (),
    ) -> None:
        """``own_columns`` follow the columns of every trace; readers of traces ignore them.

        Raises UsageError if the file exists already or cannot be created.
        """
        if not overwrite and path.exists():
            raise UsageError(f"{path} exists already; name another file, or use --overwrite")
        self._path = path
        self._partial = path.with_name(path.name + ".partial")
        self._schema = pa.schema([*SCHEMA, *own_columns])
        self._info = TraceInfo(began_at_ns, tuple(origins), tuple(changes), anonymised)
        self._added: list[TracedOperation] = []
        self._batches: list[pa.RecordBatch] = []
        self._rows_pending = self._rows = 0
        self._clients: set[int] = set()
        self._latest_ns, self._rises = 0, True
        self._closed: TraceInfo | None = None
        try:
            # Dictionaries of numbers and keys, which rarely repeat, take twice the time and make the file larger.
            self._writer = pq.ParquetWriter(
                self._partial,
                self._schema,
                compression="zstd",
                use_dictionary=list(_DICTIONARIES),
                write_page_checksum=True,
            )
        except OSError as error:
            raise _unwritable(path, error) from error

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self.discard()

    def begin_at(self, began_at_ns: int) -> None:
        """Set the instant from which times count, if it was unknown when writing began."""
        self._info = replace(self._info, began_at_ns=began_at_ns)

    def add(self, operation: TracedOperation) -> None:
        """Write one row."""
        self._added.append(operation)
        if len(self._added) >= ROW_GROUP_ROWS:
            self._take_added()

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch of SCHEMA and the file's own columns, with codes of OPERATIONS and MODES."""
        if self._added:
            self._take_added()
        self._take(batch)

    def close(self) -> TraceInfo:
        """Finish and rename the file; later calls do nothing. Raises UsageError if that fails."""
        if self._closed is not None:
            return self._closed
        self._take_added()
        self._write_pending()
        info = replace(self._info, operations=self._rows, streams=len(self._clients), rises=self._rises)
        try:
            self._writer.add_key_value_metadata(
                {_PREFIX + "version": str(VERSION), _PREFIX + "info": msgspec.json.encode(info).decode()}
            )
            self._writer.close()
            self._partial.replace(self._path)
        except OSError as error:
            raise _unwritable(self._path, error) from error
        self._closed = info
        return info

    def discard(self) -> None:
        """Delete an unfinished file."""
        if self._closed is not None:
            return
        try:
            self._writer.close()
        except OSError:  # the error that stopped the writing has been reported
            pass
        self._partial.unlink(missing_ok=True)

    def _take_added(self) -> None:
        if self._added:
            rows, self._added = self._added, []
            self._take(batch_of(rows))

    def _take(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        due_ns = numbers_of(batch, "due_ns")
        self._rises = self._rises and int(due_ns[0]) >= self._latest_ns and bool((np.diff(due_ns) >= 0).all())
        self._latest_ns = int(due_ns[-1])
        self._clients.update(np.unique(numbers_of(batch, "client")).tolist())
        self._rows += batch.num_rows
        self._rows_pending += batch.num_rows
        self._batches.append(batch)
        if self._rows_pending >= ROW_GROUP_ROWS:
            self._write_pending()

    def _write_pending(self) -> None:
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches, self._schema)
        self._batches, self._rows_pending = [], 0
        try:
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        except OSError as error:
            raise _unwritable(self._path, error) from error


def batch_of(rows: Sequence[TracedOperation]) -> pa.RecordBatch:
    """Convert rows to columns. Raises KeyError for an unknown operation or retention mode."""
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    operations = np.array([CODES[label] for label in columns["operation"]], dtype=np.int8)
    modes = [None if mode is None else _MODE_CODES[mode] for mode in columns["retention_mode"]]
    coded = {"operation": words("operation", operations), "retention_mode": words("retention_mode", modes)}
    return pa.record_batch(
        [coded[field.name] if field.name in coded else pa.array(columns[field.name], field.type) for field in SCHEMA],
        schema=SCHEMA,
    )


def words(name: str, codes: Sequence[int | None] | NDArray[np.int8] | pa.Array) -> pa.DictionaryArray:
    """Make the column ``operation`` or ``retention_mode`` from codes."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), _DICTIONARIES[name])


def numbers_of(batch: pa.RecordBatch, name: str, unknown: int = 0) -> NDArray[np.int64]:
    """Return a column of integers, or of codes for words, with ``unknown`` in place of null."""
    column = batch.column(name)
    if isinstance(column, pa.DictionaryArray):
        column = column.indices
    if column.null_count:
        column = column.fill_null(unknown)
    numbers: NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def known(batch: pa.RecordBatch, name: str) -> NDArray[np.bool_]:
    """Return a mask of the values that are not null."""
    found: NDArray[np.bool_] = batch.column(name).is_valid().to_numpy(zero_copy_only=False)
    return found


def replaced(batch: pa.RecordBatch, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """Return the same rows with other values in these columns."""
    return pa.record_batch(
        [pa.array(columns[f.name], f.type) if f.name in columns else batch.column(f.name) for f in SCHEMA],
        schema=SCHEMA,
    )


def rows_of(batch: pa.RecordBatch) -> Iterator[TracedOperation]:
    """Yield the rows of a batch that has all columns."""
    return map(TracedOperation._make, zip(*(_values(batch.column(name)) for name in COLUMNS), strict=False))


def _values(column: pa.Array) -> Any:
    """Return a column as Python values, many times faster than ``to_pylist``."""
    if column.null_count == len(column):
        return repeat(None, len(column))
    if isinstance(column, pa.DictionaryArray):
        labels = [*column.dictionary.to_pylist(), None]
        return [labels[code] for code in column.indices.fill_null(len(labels) - 1).to_numpy().tolist()]
    if not column.null_count or pa.types.is_string(column.type):
        return column.to_numpy(zero_copy_only=False).tolist()
    values = column.fill_null(False if pa.types.is_boolean(column.type) else 0).to_numpy(zero_copy_only=False)
    objects = values.astype(object)
    objects[column.is_null().to_numpy(zero_copy_only=False)] = None
    return objects.tolist()


def _opened(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, page_checksum_verification=True)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: is not a trace, or is truncated: {_first_line(error)}") from error


def _info_of(path: Path, file: pq.ParquetFile) -> TraceInfo:
    keys = {
        key.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for key, value in (file.metadata.metadata or {}).items()
    }
    if _PREFIX + "version" not in keys:
        raise UsageError(
            f"{path}: is a Parquet file, but not a trace; `archiver trace import` makes a trace from a log"
        )
    if keys[_PREFIX + "version"] != str(VERSION):
        raise UsageError(other_version(path, keys[_PREFIX + "version"], VERSION))
    _check_schema(path, file.schema_arrow)
    try:
        info = typed_json(keys[_PREFIX + "info"], TraceInfo)
    except (KeyError, msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{path}: its metadata are not those of a trace: {error!r}") from error
    return replace(info, operations=file.metadata.num_rows)


def _check_schema(path: Path, schema: pa.Schema) -> None:
    for field in SCHEMA:
        place = schema.get_field_index(field.name)
        if place < 0:
            raise UsageError(f"{path}: has no column {field.name}, which every trace has")
        if schema.field(place).type != field.type:
            raise UsageError(f"{path}: column {field.name} is {schema.field(place).type}, not {field.type}")


def _decoded(path: Path, file: pq.ParquetFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    batches = file.iter_batches(ROW_GROUP_ROWS, columns=list(columns))
    while True:
        try:
            batch = next(batches, None)
            if batch is not None:
                batch.validate(full=True)  # a forged file may have correct checksums
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: is damaged: {_first_line(error)}") from error
        if batch is None:
            return
        yield batch.select([name for name in columns if name in batch.schema.names])


def _checked(path: Path, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
    """Return the batch with this version's codes for words. Raises UsageError for invalid values."""
    columns = []
    for name in batch.schema.names:
        column = batch.column(name)
        if name in _NEVER_NULL and column.null_count:
            _refuse(path, first_row, column.is_null(), f"{name} is missing")
        if name in _DICTIONARIES:
            column = _with_our_codes(path, name, column, first_row)
        elif name in _NEVER_NEGATIVE and (pc.min(column).as_py() or 0) < 0:
            _refuse(path, first_row, pc.less(column, 0).fill_null(False), f"{name} is negative")
        columns.append(column)
    return pa.record_batch(columns, names=batch.schema.names)


def _with_our_codes(path: Path, name: str, column: pa.DictionaryArray, first_row: int) -> pa.DictionaryArray:
    ours = _DICTIONARIES[name]
    if column.dictionary.equals(ours):
        return column
    codes = pc.index_in(column.dictionary, ours)
    if codes.null_count:
        unknown = column.dictionary.filter(codes.is_null()).to_pylist()
        used = pc.is_in(column.cast(pa.string()), pa.array(unknown, pa.string()), skip_nulls=True)
        if pc.any(used).as_py():
            label = column.filter(used)[0].as_py()
            _refuse(path, first_row, used, f"{name} {label!r} is unknown")
    return pa.DictionaryArray.from_arrays(codes.cast(pa.int8()).take(column.indices), ours)


def _check_rises(path: Path, batch: pa.RecordBatch, first_row: int, latest_ns: int) -> int:
    due_ns = numbers_of(batch, "due_ns")
    if not len(due_ns):
        return latest_ns
    falls = np.diff(due_ns, prepend=latest_ns) < 0
    if falls.any():
        _refuse(
            path, first_row, pa.array(falls),
            "is due before the row that precedes it; sort it with `archiver trace sort OUT FILE`",
        )  # fmt: skip
    return int(due_ns[-1])


def _refuse(path: Path, first_row: int, where: pa.Array, what: str) -> None:
    row = first_row + int(np.argmax(where.to_numpy(zero_copy_only=False)))
    raise UsageError(f"{path}: row {row:,}: {what}")


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path}: cannot be written: {error.strerror or _first_line(error)}")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
