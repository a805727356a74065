"""Test the trace file: written rows are read back, and invalid files are refused by file and row."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archiver.traces import format as trace_format
from archiver.traces.format import SCHEMA, Trace, TracedOperation, TraceWriter, batch_of
from archiver.values.errors import UsageError
from tests.archiver.traces.made import BEGAN_AT_NS, ORIGIN, read, rows, write
from tests.support.examples import share_of

SLOW = settings(max_examples=share_of(30), suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(st.lists(rows, max_size=40), st.integers(1, 7))
@SLOW
def test_written_operations_and_info_are_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operations: list[TracedOperation], group_rows: int
) -> None:
    monkeypatch.setattr(trace_format, "ROW_GROUP_ROWS", group_rows)
    path = tmp_path / "trace.parquet"
    with TraceWriter(path, BEGAN_AT_NS, [ORIGIN], changes=["cut"], anonymised=True, overwrite=True) as writer:
        for operation in operations:
            writer.add(operation)
    trace = Trace.open(path)
    assert list(trace.operations()) == operations
    due = [operation.due_ns for operation in operations]
    assert trace.info == trace_format.TraceInfo(
        BEGAN_AT_NS,
        (ORIGIN,),
        ("cut",),
        True,
        len(operations),
        len({operation.client for operation in operations}),
        due == sorted(due),
    )


def test_failed_write_keeps_the_existing_trace(tmp_path: Path) -> None:
    path = write(tmp_path / "trace.parquet", [TracedOperation(1)])
    with pytest.raises(UsageError, match="exists already"):
        write(path, [TracedOperation(2)])
    writer = TraceWriter(path, 0, [], overwrite=True)
    writer.add(TracedOperation(4, operation="frobnicate"))
    with pytest.raises(KeyError), writer:
        pass
    assert read(path) == [TracedOperation(1)]
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(UsageError, match="cannot be written"):
        TraceWriter(tmp_path / "missing" / "trace.parquet", 0, [])


@pytest.mark.parametrize("keep", [0, 3, 500, -1])
def test_a_truncated_file_is_refused(tmp_path: Path, keep: int) -> None:
    path = write(tmp_path / "trace.parquet", [TracedOperation(i, key=f"k{i}") for i in range(1000)])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UsageError, match=r"trace\.parquet: is not a trace, or is truncated"):
        Trace.open(path)


def test_a_damaged_page_is_found_by_its_checksum(tmp_path: Path) -> None:
    noise = random.Random(1)  # incompressible, so that only the checksum can find the damage
    path = write(tmp_path / "trace.parquet", [TracedOperation(i, noise.getrandbits(60)) for i in range(1000)])
    column = pq.ParquetFile(path).metadata.row_group(0).column(SCHEMA.get_field_index("sent_ns"))
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"trace\.parquet: is damaged"):
        read(path)


def test_non_trace_file_and_other_version_are_refused_differently(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    with pytest.raises(UsageError, match="there is no such file"):
        Trace.open(path)
    with pytest.raises(UsageError, match="is not a trace"):
        Trace.open(tmp_path)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(UsageError, match="is a Parquet file, but not a trace"):
        Trace.open(path)
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({"archiver_trace_version": "3"}), path)
    with pytest.raises(UsageError, match="has format version 3, and this Archiver reads only 2; use"):
        Trace.open(path)
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({"archiver_trace_version": "2"}), path)
    with pytest.raises(UsageError, match="has no column due_ns"):
        Trace.open(path)


def with_columns(path: Path, **columns: Any) -> Path:
    """Write a trace with these values, as another program could."""
    original = write(path.with_name("original.parquet"), [TracedOperation(i, operation="archive") for i in range(4)])
    table = pq.read_table(original)
    for name, values in columns.items():
        array = values if isinstance(values, pa.Array) else pa.array(values, SCHEMA.field(name).type)
        table = table.set_column(SCHEMA.get_field_index(name), name, array)
    pq.write_table(table.replace_schema_metadata(pq.ParquetFile(original).metadata.metadata), path, row_group_size=2)
    return path


FOREIGN = (
    pa.array(["retrieve", "archive", "frobnicate", "archive"])
    .dictionary_encode()
    .cast(pa.dictionary(pa.int8(), pa.string()))
)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"size_bytes": [1, None, 5, -1]}, "row 4: size_bytes is negative"),
        ({"offset": [1, None, -5, -1]}, "row 3: offset is negative"),
        ({"due_ns": [0, -1, 0, 0]}, "row 2: due_ns is negative"),
        ({"due_ns": [0, 1, None, 3]}, "row 3: due_ns is missing"),
        ({"client": [0, 1, 2, -3]}, "row 4: client is negative"),
        ({"operation": FOREIGN}, "row 3: operation 'frobnicate' is unknown"),
    ],
)
def test_invalid_values_are_refused_by_row(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    path = with_columns(tmp_path / "foreign.parquet", **columns)
    with pytest.raises(UsageError, match=f"foreign.parquet: {message}"):
        read(path)


def test_operation_dictionary_of_another_order_is_read(tmp_path: Path) -> None:
    words = pa.array(["retrieve", "archive", "archive", "head"]).dictionary_encode()
    path = with_columns(tmp_path / "foreign.parquet", operation=words.cast(pa.dictionary(pa.int8(), pa.string())))
    assert [row.operation for row in read(path)] == words.to_pylist()


def test_a_column_of_another_type_is_refused(tmp_path: Path) -> None:
    path = with_columns(tmp_path / "foreign.parquet", size_bytes=pa.array([1.5, 2.5, 3.5, 4.5]))
    with pytest.raises(UsageError, match="column size_bytes is double, not int64"):
        Trace.open(path)


def test_row_out_of_order_is_refused_only_when_order_is_required(tmp_path: Path) -> None:
    path = write(tmp_path / "trace.parquet", [TracedOperation(due) for due in (1, 5, 5, 4)])
    assert not Trace.open(path).info.rises
    assert len(read(path)) == 4
    with pytest.raises(UsageError, match=r"row 4: is due before .*archiver trace sort"):
        list(Trace.open(path).operations(must_rise=True))


def test_only_requested_columns_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "trace.parquet", [TracedOperation(1, client=7)])
    (batch,) = Trace.open(path).batches(("client", "due_ns"))
    assert batch.schema.names == ["client", "due_ns"]
    assert batch.to_pylist() == [{"client": 7, "due_ns": 1}]


def test_unknown_operation_cannot_be_written() -> None:
    with pytest.raises(KeyError):
        batch_of([TracedOperation(0, operation="frobnicate")])
