"""Test one worker's part of a replay in this process: how the schedule drives streams, and what fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from archiver.engine.numbers import ObjectNumbers
from archiver.engine.work.replay.library import TraceLibrary
from archiver.engine.work.replay.shares import share_replays
from archiver.engine.worker.assignment import Assignment
from archiver.engine.workers.in_process import carry_out
from archiver.measure.reports import StageReport
from archiver.traces.format import TracedOperation
from archiver.values.record import Operation, Recorder
from backends.base import Batch
from backends.null import NullSession
from scenarios.reading.reader import scenario_of
from tests.archiver.traces.made import write

SECOND = 10**9


Assign = Callable[..., Assignment]


@pytest.fixture
def assignment(tmp_path: Path) -> Iterator[Assign]:
    """Return a function that makes the replay of these rows for one worker."""
    with TraceLibrary(tmp_path) as traces:

        def assign(*rows: TracedOperation, speed: float = 1.0) -> Assignment:
            trace = {"name": "web", "trace": str(write(tmp_path / "t.parquet", rows))}
            phase = {"name": "replay", "speed": speed, "replay": [trace]}
            scenario = traces.complete(scenario_of({"name": "replay", "title": "A replay", "phase": [phase]}, "test"))
            numbers = ObjectNumbers(1)
            share_replays(scenario.phases[0], numbers, 1)
            (share,) = share_replays(scenario.phases[1], numbers, 1)
            return Assignment("run", 1, "null", None, scenario.phases[1], (), {}, "none", replays=share.replays)

        yield assign


def played(given: Assignment) -> StageReport:
    alone, report = carry_out(given)
    assert not alone.problems
    (stage,) = report.stages
    return stage


def archive(seconds: float, key: str, **more: Any) -> TracedOperation:
    return TracedOperation(int(seconds * SECOND), operation="archive", key=key, size_bytes=100, **more)


def test_operations_due_on_a_busy_stream_wait_and_are_all_started(assignment: Assign) -> None:
    stage = played(assignment(*(archive(0, f"{i}") for i in range(20))))
    assert (stage.due, stage.started, stage.waited, stage.dropped) == (20, 20, 19, 0)
    assert stage.lateness.count == 20


def test_replay_phase_lasts_as_long_as_its_trace(assignment: Assign) -> None:
    stage = played(assignment(archive(0, "a"), archive(1, "b"), speed=10))
    assert stage.measured_to_ns - stage.measured_from_ns >= 0.1 * SECOND
    assert stage.ended_ns - stage.measured_from_ns >= 0.1 * SECOND


def test_stream_failure_ends_the_phase_and_is_raised(assignment: Assign, monkeypatch: pytest.MonkeyPatch) -> None:
    async def perform(self: NullSession, batch: Batch, record: Recorder) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(NullSession, "perform", perform)
    with pytest.raises(RuntimeError, match="out of order"):
        carry_out(assignment(archive(0, "a"), archive(0.1, "b", client=1)))


def test_session_ended_by_the_server_is_opened_again(assignment: Assign, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: dict[int, int] = {}

    async def perform(self: NullSession, batch: Batch, record: Recorder) -> None:
        assert self.is_open
        requests[id(self)] = requests.get(id(self), 0) + 1
        sessions.append(self)  # so that no other session gets the same id
        record.row(Operation.ARCHIVE, batch.number[0], 0, 0, 0, 0, batch.size_bytes[0])

    sessions: list[NullSession] = []
    monkeypatch.setattr(NullSession, "perform", perform)
    monkeypatch.setattr(NullSession, "is_open", property(lambda self: requests.get(id(self), 0) < 2))
    alone, _ = carry_out(assignment(*(archive(i / 100, f"{i}") for i in range(6))))
    assert (alone.objects, alone.sessions, alone.problems) == (6, 3, [])
