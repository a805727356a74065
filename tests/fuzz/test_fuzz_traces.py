"""Damaged traces, server logs and journals are read to the last good row, or refused with the file's path."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.traces.capture.journal import Beginning, Journal, LeftJournal
from archiver.traces.format import SCHEMA, TracedOperation, TraceWriter, batch_of
from archiver.traces.importing import KINDS, import_logs
from archiver.traces.logs import Refused, reader_of
from archiver.values.errors import ArchiverError, UsageError
from tests.archiver.traces.made import HERE, ORIGIN, read, write
from tests.fuzz.hostile import damaged, damaged_text, tried, tries


def test_damaged_trace_is_read_or_refused_with_its_path(tmp_path: Path) -> None:
    good = [
        TracedOperation(number * 10, operation="archive", key=f"k/{number}", size_bytes=number, client=number % 3)
        for number in range(500)
    ]
    whole = write(tmp_path / "whole.parquet", good).read_bytes()
    path = tmp_path / "damaged.parquet"

    @tries(60)
    @given(damaged(whole) | st.binary(max_size=200).map(lambda data: whole[: len(data) * 40] + data + whole[-300:]))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        found, words = tried(UsageError, read, path)
        assert words.startswith(str(path)) if words else data != whole or found == good

    check()


@tries(15)
@given(st.binary(min_size=1, max_size=12))
def test_trace_key_that_is_not_utf8_is_refused(tmp_path_factory: pytest.TempPathFactory, key: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "forged.parquet"
    text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(struct.pack("<ii", 0, len(key))), pa.py_buffer(key)]
    )
    row = batch_of([TracedOperation(0, operation="archive")])
    columns = [text if name == "key" else row.column(name) for name in SCHEMA.names]
    with TraceWriter(path, 5, [ORIGIN], overwrite=True) as writer:
        writer.write(pa.record_batch(columns, schema=SCHEMA))
    found, words = tried(UsageError, read, path)
    assert words.startswith(str(path)) if words else found[0].key == key.decode()


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_log_is_refused_or_every_line_is_counted(kind: str, tmp_path: Path) -> None:
    text = (HERE / "logs" / f"{kind}.log").read_text()
    log, out = tmp_path / "damaged.log", tmp_path / "out.parquet"

    @tries(12)
    @given(
        damaged_text(text).map(lambda made: made.encode(errors="surrogatepass")) | damaged(text.encode()), st.booleans()
    )
    def check(data: bytes, is_compressed: bool) -> None:
        log.write_bytes(gzip.compress(data)[: None if len(data) % 2 else -4] if is_compressed else data)
        report, words = tried(UsageError, import_logs, out, [log], kind, overwrite=True)
        if words:
            assert str(log) in words
            return
        found = read(out)
        assert report.info.operations == len(found)
        assert report.lines_left_out <= report.lines
        if not is_compressed:
            lines = data.split(b"\n")
            assert report.lines == len(lines) - (not lines[-1])

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_any_log_line_is_parsed_or_refused(kind: str) -> None:
    read_line = reader_of(kind, None)
    lines = (HERE / "logs" / f"{kind}.log").read_text().splitlines()

    @tries(50)
    @given(st.text(max_size=60) | st.sampled_from(lines).flatmap(damaged_text))
    def check(line: str) -> None:
        tried(Refused, read_line, line.rstrip("\n"))

    check()


def test_truncated_capture_journal_keeps_its_complete_rows(tmp_path: Path) -> None:
    path = tmp_path / "day.parquet.journal"

    @tries(25)
    @given(st.integers(0, 4), st.data())
    def check(count: int, data: st.DataObject) -> None:
        written = [TracedOperation(each, operation="head", key=f"k/{each} é", legal_hold=True) for each in range(count)]
        path.unlink(missing_ok=True)
        journal = Journal(path, Beginning(1, 5, "store"))
        for row in written:
            journal.write(row)
        journal.flush()
        journal.close()
        whole = path.read_bytes()
        # A kill leaves a prefix of the file; a broken disk may leave anything.
        is_cut = data.draw(st.booleans())
        changed = whole[: data.draw(st.integers(0, len(whole)))] if is_cut else data.draw(damaged(whole))
        path.write_bytes(changed)
        left, words = tried(UsageError, LeftJournal, path)
        if words:
            assert str(path) in words
            assert b"\n" not in changed or not is_cut
            return
        found: list[TracedOperation] = []
        _, words = tried(ArchiverError, found.extend, left.rows())
        left.close()
        assert not words or (f"{path}, line " in words and not is_cut)
        if is_cut:
            assert found == written[: changed.count(b"\n") - 1]
            assert left.half_lines == (not changed.endswith(b"\n"))

    check()
