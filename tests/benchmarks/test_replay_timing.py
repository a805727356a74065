"""The replay benchmark computes the known figures of synthetic logs, and its small version runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from archiver.traces.format import Origin, Trace, TracedOperation, TraceWriter
from benchmarks import page, replay

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
    figures = replay.figures_of(log(tmp_path / "log", rows))
    assert figures["lateness_ms_p50"] == pytest.approx(2.0)  # of 1, 2 and 3; first and waiting operations do not count
    assert figures["lateness_ms_max"] == pytest.approx(3.0)
    assert figures["waited_percent"] == pytest.approx(100 / 6)
    assert figures["gap_ms"] == pytest.approx(90 / 5)
    assert figures["stream_gap_ms_min"] == pytest.approx(80 / 3)


def test_constant_delay_keeps_gaps_and_bunching_changes_them(tmp_path: Path) -> None:
    due = np.cumsum(np.arange(1, 101)).tolist()
    late = replay.figures_of(log(tmp_path / "late", [(i % 2, at, at + 7, at + 7) for i, at in enumerate(due)]))
    assert late["gaps_distance"] == late["stream_gaps_distance_max"] == 0
    bunched = replay.figures_of(
        log(tmp_path / "bunched", [(i % 25, at, at + 500 - at % 500, at + 501) for i, at in enumerate(due)])
    )
    assert bunched["gaps_distance"] > 0.5


def test_generated_trace_has_requested_rate_and_exponential_gaps(tmp_path: Path) -> None:
    rows = list(Trace.open(replay.write_trace(tmp_path / "made", 4000, 500.0, seed=1)).operations(must_rise=True))
    gaps = np.diff([row.due_ns for row in rows])
    assert gaps.mean() == pytest.approx(2 * MS, rel=1e-6)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.1)  # as of an exponential distribution
    assert {row.client for row in rows} == set(range(replay.STREAMS))
    assert sum(row.operation == "archive" for row in rows) == pytest.approx(2000, rel=0.1)


def test_every_replay_runs_and_text_shows_every_goal() -> None:
    document = replay.measure(small=True)
    for name, rates in ((replay.NULL, replay.RATES_SMALL), (replay.WIRE, replay.WIRE_RATES_SMALL)):
        assert list(document["platforms"][name]) == [str(rate) for rate in rates]
        for figures in (each for rounds in document["platforms"][name].values() for each in rounds):
            assert 0 < figures["lateness_ms_p50"] <= figures["lateness_ms_p99"] <= figures["lateness_ms_max"]
            assert 0 <= figures["gaps_distance"] <= 1
            assert 0 <= figures["stream_gaps_distance_max"] <= 1
            assert figures["core_waited_percent"] >= 0
    for count in document["operations"]:
        assert all(each["resident"] > each["own"] > 10 << 20 for each in document["peak_bytes"][str(count)].values())
    assert all(cost > 0 for cost in document["compile_microseconds_per_operation"])
    assert set(document["goals_met"]) == set(replay.GOALS)
    assert page.text(replay, document).count("goal: ") == len(replay.GOALS)
