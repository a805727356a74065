"""The replay benchmark computes the known figures of synthetic logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from archiver.traces.format import Origin, Trace, TracedOperation, TraceWriter
from benchmarks import schedules
from benchmarks.schedules import GAPS, P50

MS = 10**6


def log(path: Path, rows: Sequence[tuple[int, float, float, float]]) -> Path:
    """Write an operation log with rows of (stream, due, sent, done), in milliseconds."""
    with TraceWriter(path, 0, [Origin("operation-log", "")]) as writer:
        for client, due, sent, done in rows:
            due_ns, sent_ns, done_ns = (round(each * MS) for each in (due, sent, done))
            writer.add(TracedOperation(due_ns, sent_ns, sent_ns, done_ns, "archive", "a", client=client, session=0))
        writer.add(TracedOperation(0, 50 * MS, 50 * MS, 50 * MS, operation="open", client=0, session=0))
    return path


def test_scheduling_delay_excludes_first_and_waiting_operations(tmp_path: Path) -> None:
    rows = [(0, 0, 30, 31), (0, 40, 41, 70), (0, 60, 70, 71), (0, 80, 83, 84), (1, 10, 12, 13), (1, 90, 92, 93)]
    figures = schedules.figures_of(log(tmp_path / "log", rows))
    assert figures[P50] == pytest.approx(2.0)  # of 1, 2 and 3; first and waiting operations do not count
    assert figures["lateness max, ms"] == pytest.approx(3.0)
    assert figures["had to wait, %"] == pytest.approx(100 / 6)
    assert figures[schedules.GAP] == pytest.approx(90 / 5)
    assert figures[schedules.STREAM_GAP] == pytest.approx(80 / 3)


def test_constant_delay_keeps_gaps_and_bunching_changes_them(tmp_path: Path) -> None:
    due = np.cumsum(np.arange(1, 101)).tolist()
    late = schedules.figures_of(log(tmp_path / "late", [(i % 2, at, at + 7, at + 7) for i, at in enumerate(due)]))
    assert late[GAPS] == late[schedules.STREAM_GAPS] == 0
    bunched = schedules.figures_of(
        log(tmp_path / "bunched", [(i % 25, at, at + 500 - at % 500, at + 501) for i, at in enumerate(due)])
    )
    assert bunched[GAPS] > 0.5


def test_generated_trace_has_requested_rate_and_exponential_gaps(tmp_path: Path) -> None:
    rows = list(Trace.open(schedules.write_trace(tmp_path / "made", 4000, 500.0, seed=1)).operations(must_rise=True))
    gaps = np.diff([row.due_ns for row in rows])
    assert gaps.mean() == pytest.approx(2 * MS, rel=1e-6)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.1)  # as of an exponential distribution
    assert {row.client for row in rows} == set(range(schedules.STREAMS))
    assert sum(row.operation == "archive" for row in rows) == pytest.approx(2000, rel=0.1)
