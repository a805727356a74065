"""Test how a recorder's rows become operations of a trace."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from archiver.engine.worker.op_log import OpLog
from archiver.measure.folding import Population
from archiver.traces.format import Origin, Trace
from archiver.values.errors import UsageError
from archiver.values.record import Delays, Operation, Recorder
from archiver.values.retention import Retention, RetentionMode

POPULATION = Population(np.array([1, 2]), np.array([8192, 1000]))


def recorded() -> Recorder:
    """Record one session that archives an object and reads a part of another."""
    record = Recorder(10)
    now = time.monotonic_ns()
    for operation, number, size_bytes, status in (
        (Operation.OPEN, 0, 0, 0),
        (Operation.ARCHIVE, 1, 8192, 0),
        (Operation.LOCK, 1, 0, 0),
        (Operation.RANGE_RETRIEVE, 2, 10, 0),
        (Operation.RANGE_RETRIEVE, 2, 0, 503),
        (Operation.CLOSE, 0, 0, 0),
        (Operation.SESSION, 0, 8202, 0),
    ):
        record.row(operation, number, now, now + 1, now + 2, now + 3, size_bytes, status)
    return record


def test_recorder_rows_become_operations_with_key_size_lock_and_times(tmp_path: Path) -> None:
    before_ns = time.time_ns()
    log = OpLog(tmp_path / "log" / "a.parquet", "run-1")
    record = recorded()
    log.write([(3, record)], POPULATION, Retention(RetentionMode.COMPLIANCE, 30.0, None, True))
    record.folded = record.used
    log.write([(3, record)], POPULATION)  # no new rows
    log.write([(3, recorded())], POPULATION)
    log.close()
    trace = Trace.open(tmp_path / "log" / "a.parquet")
    assert trace.info.origins == (Origin("operation-log", "run-1"),)
    assert before_ns <= trace.info.began_at_ns <= time.time_ns()
    rows = list(trace.operations())
    assert [(row.operation, row.key, row.size_bytes, row.length, row.status) for row in rows[:7]] == [
        ("open", None, None, None, 0),
        ("archive", "000000000001", 8192, None, 0),
        ("lock", "000000000001", 8192, None, 0),
        ("range-retrieve", "000000000002", 1000, 10, 0),
        ("range-retrieve", "000000000002", 1000, None, 503),
        ("close", None, None, None, 0),
        ("session", None, 8202, None, 0),
    ]
    locks = [(row.retention_mode, row.retain_for_seconds, row.legal_hold) for row in rows]
    assert locks == [(None, None, None), ("COMPLIANCE", 30.0, True), *[(None, None, None)] * 12]
    assert [row.session for row in rows] == [0] * 7 + [1] * 7
    assert {row.client for row in rows} == {3}
    for row in rows:
        assert (row.sent_ns, row.first_byte_ns, row.done_ns) == (row.due_ns + 1, row.due_ns + 2, row.due_ns + 3)
        assert 0 <= row.due_ns < 10**10


def test_retry_and_reconnect_times_are_logged_only_for_delayed_operations(tmp_path: Path) -> None:
    log, record = OpLog(tmp_path / "a.parquet"), recorded()
    record.delays |= {3: Delays(retry_ns=500_000), 4: Delays(reconnect_ns=2_000_000, reconnects=1)}
    record.sent_ns[3] -= 1_000_000
    log.write([(0, recorded()), (1, record)], POPULATION)
    log.write([(2, recorded())], POPULATION)
    log.close()
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column("attempt_ms").to_pylist() == [None] * 10 + [0.500002] + [None] * 10
    assert table.column("reconnect_ms").to_pylist() == [None] * 11 + [2.0] + [None] * 9
    again, *_ = [row for row in Trace.open(tmp_path / "a.parquet").operations() if row.client == 1 and row.length]
    assert again.sent_ns == again.due_ns + 1 - 1_000_000  # a trace has the time of the first attempt


def test_retain_until_date_is_logged_as_retention_period(tmp_path: Path) -> None:
    log = OpLog(tmp_path / "a.parquet")
    log.write([(0, recorded())], POPULATION, Retention(RetentionMode.GOVERNANCE, None, time.time() + 100))
    log.close()
    (archived,) = [row for row in Trace.open(tmp_path / "a.parquet").operations() if row.operation == "archive"]
    assert archived.retain_for_seconds == pytest.approx(100, abs=5)
    assert archived.legal_hold is None


def test_repeated_phase_replaces_its_log_only_when_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    first = OpLog(path)
    first.write([(0, recorded())], POPULATION)
    first.close()
    second = OpLog(path)
    assert len(list(Trace.open(path).operations())) == 7
    second.close()
    assert list(Trace.open(path).operations()) == []


def test_op_log_folder_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--op-log .*file: cannot be written"):
        OpLog(tmp_path / "file" / "a.parquet")
