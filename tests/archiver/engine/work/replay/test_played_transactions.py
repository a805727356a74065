"""Test transactions in a worker: each is one batch, whatever else is due, and none deadlocks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from archiver.engine.numbers import ObjectNumbers
from archiver.engine.work.replay import player
from archiver.engine.work.replay.library import TraceLibrary
from archiver.engine.work.replay.shares import share_replays
from archiver.engine.worker.assignment import Assignment
from archiver.engine.worker.op_log import KIND
from archiver.engine.workers.in_process import carry_out
from archiver.measure.reports import StageReport
from archiver.traces.format import Origin, TracedOperation, TraceWriter
from archiver.values.record import Operation, Recorder, Status
from backends.base import Batch
from backends.null import NullSession
from scenarios.reading.reader import scenario_of

MS = 10**6
Play = Callable[..., tuple[StageReport, list[Batch]]]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Return a function that replays rows in this process and returns the report and the batches in their order.

    Operations on the object numbers in ``refused`` fail.
    """

    def carried_out(
        *rows: TracedOperation, commits: bool = True, refused: Sequence[int] = ()
    ) -> tuple[StageReport, list[Batch]]:
        batches: list[Batch] = []

        async def perform(self: NullSession, batch: Batch, record: Recorder) -> None:
            batches.append(batch)
            await asyncio.sleep(0)
            for operation, number in zip(batch.operation, batch.number, strict=True):
                status = 500 if number in refused else Status.OK
                record.row(operation, number, 1, 1, 1, 1, 0 if status else 10, status)
            record.row(Operation.TRANSACTION, 0, 1, 1, 1, 1, 10)

        monkeypatch.setattr(NullSession, "perform", perform)
        path = tmp_path / "t.parquet"
        with TraceWriter(path, 0, [Origin(KIND, "a run")]) as writer:
            for row in rows:
                writer.add(row)
        phase = {"name": "replay", "replay": [{"name": "web", "trace": str(path)}]}
        with TraceLibrary(tmp_path, commits=commits) as traces:
            scenario = traces.complete(scenario_of({"name": "replay", "title": "A replay", "phase": [phase]}, "test"))
            numbers = ObjectNumbers(1)
            share_replays(scenario.phases[0], numbers, 1)
            (share,) = share_replays(scenario.phases[1], numbers, 1)
            given = Assignment("run", 1, "null", None, scenario.phases[1], (), {}, "none", replays=share.replays)
            alone, report = carry_out(given)
        assert alone.problems == ([] if not refused else alone.problems)
        (stage,) = report.stages
        return stage, batches

    return carried_out


def op(due_ms: float, operation: str, key: str, done_ms: float | None = None, **more: Any) -> TracedOperation:
    done_ns = None if done_ms is None else int(done_ms * MS)
    return TracedOperation(int(due_ms * MS), operation=operation, key=key, size_bytes=10, done_ns=done_ns, **more)


def lengths(batches: list[Batch]) -> list[int]:
    return [len(batch) for batch in batches]


@pytest.mark.parametrize("chunk_rows", [1, 2, 3, 1024])
def test_each_transaction_is_one_batch_when_others_are_due(
    play: Play, monkeypatch: pytest.MonkeyPatch, chunk_rows: int
) -> None:
    monkeypatch.setattr(player, "CHUNK_ROWS", chunk_rows)
    rows = [op(i // 15, "archive", f"{i}", 90 + i % 3, client=i % 3) for i in range(30)]
    stage, batches = play(*rows)
    assert lengths(batches) == [10, 10, 10]
    assert all(batch.due_ns == batches[0].due_ns for batch in batches)
    assert (stage.due, stage.started, stage.dropped, stage.lateness.count) == (30, 30, 0, 30)


def test_without_transactions_each_row_is_a_batch(play: Play) -> None:
    _, batches = play(*(op(0, "archive", f"{i}", 90) for i in range(5)), commits=False)
    assert lengths(batches) == [1] * 5


def test_transactions_on_the_same_objects_do_not_deadlock(play: Play) -> None:
    rows = [op(1, "archive", key, 50) for key in "abca"]
    rows += [op(2, "archive", key, 60, client=1) for key in "cbab"]
    rows += [op(70, "retrieve", key, 71, client=2) for key in "abc"]
    stage, batches = play(*rows)
    assert lengths(batches) == [4, 4, 1, 1, 1]
    assert stage.started == 11
    assert batches[0].number == [batches[2].number[0], *batches[0].number[1:3], batches[2].number[0]]
    assert batches[0].version == [1, 1, 1, 2]
    assert batches[1].version == [2, 2, 3, 3]


def test_only_later_steps_on_the_failed_object_are_left_out(play: Play) -> None:
    rows = [op(1, "archive", key, 50) for key in "abc"]
    rows += [op(60, "hold", key, 70, client=1) for key in "abc"]
    stage, batches = play(*rows, refused=[1])
    assert lengths(batches) == [3, 2]
    assert batches[1].number == [0, 2]
    assert (stage.started, stage.steps_left_out) == (5, 1)


def test_transaction_of_1000_objects_is_played_as_one_batch(play: Play) -> None:
    rows = [op(1, "archive", f"{i}", 50) for i in range(1000)]
    rows += [op(60 + i, "archive", f"small {i}", 70 + i) for i in range(3)]
    _, batches = play(*rows)
    assert lengths(batches) == [1000, 1, 1, 1]
