"""Test rounds within a time budget: which cells are measured again, when the run ends, and how it is resumed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from archiver.engine.rounds import CONFIRMING_ROUNDS, PRECISION, ROUNDS_MAX, ROUNDS_MIN, rounds, rounds_max
from archiver.engine.run import Run
from archiver.values.errors import UsageError
from results.recorded.database import PhaseTimes
from results.recorded.model import Result
from scenarios.model import Phase, Scenario
from scenarios.reading.reader import read_scenario
from tests.support.commands import archiver
from tests.support.results import made_result
from tests.support.runs import TINY, ask, break_off

TWO_CELLS = """
name = "two"
title = "Two cells"

[[sweep]]
name = "archive"
operation = "archive"
object_sizes = ["8KiB"]
objects_per_session = [1, 100]
clients = [1]
stop = { seconds_min = "1s", seconds_max = "1s", bytes_max = "1MB", warm_up_seconds = "500ms" }
"""

FIRST_ROUNDS = ROUNDS_MIN + CONFIRMING_ROUNDS


def scenario(repetitions: int) -> Scenario:
    return read_scenario("two", text=TWO_CELLS, repetitions=repetitions, order="paper")


class ScriptedRun:
    """A run whose cells have scripted rates, and a clock that its phases advance."""

    def __init__(self, rate_of: Callable[[Phase], float]) -> None:
        self.now_seconds = 0.0
        self.measured: list[Phase] = []
        self.ended = False
        self.outcome = SimpleNamespace(failure=None)
        self.database = self
        self._rate_of = rate_of

    def carry_out(self, phase: Phase) -> None:
        self.now_seconds += 1.5
        self.measured.append(phase)

    def phases(self) -> list[PhaseTimes]:
        return [PhaseTimes(each.position, each.label, 0.0, 1.0, 0, 0, 0, 0, 0) for each in self.measured]

    def results(self) -> list[Result]:
        return [
            made_result(position=each.position, repetition=each.repetition, objects_per_second=self._rate_of(each))
            for each in self.measured
        ]

    def set_planned_as_finished(self) -> None:
        self.ended = True


def carried_out(run: ScriptedRun, planned: Scenario, seconds: float) -> list[tuple[int, str]]:
    for phase in rounds(planned, seconds, [cast(Run, run)], lambda: run.now_seconds):
        run.carry_out(phase)
    return [(phase.repetition, phase.label) for phase in run.measured]


def wide_for(sessions_of: str) -> Callable[[Phase], float]:
    """Return rates that vary by 30% between the repetitions of one cell, and by 1% for the other."""

    def rate(phase: Phase) -> float:
        share = 0.3 if phase.label == sessions_of else 0.01
        return 100 * (1 + (share if phase.repetition % 2 else -share))

    return rate


def test_after_eight_rounds_only_rates_that_are_not_known_are_measured_again() -> None:
    first, second = (phase.label for phase in scenario(1).phases)
    run = ScriptedRun(wide_for(second))
    done = carried_out(run, scenario(9), 1000)
    assert done[: 2 * FIRST_ROUNDS] == [(n, label) for n in range(1, FIRST_ROUNDS + 1) for label in (first, second)]
    assert done[2 * FIRST_ROUNDS :] == [(9, second)]
    assert run.ended


def test_rounds_end_when_every_rate_is_known() -> None:
    run = ScriptedRun(wide_for("none"))
    assert len(carried_out(run, scenario(50), 1000)) == 2 * FIRST_ROUNDS
    assert run.ended


def test_rounds_end_before_the_phase_that_would_exceed_the_time() -> None:
    run = ScriptedRun(wide_for(scenario(1).phases[0].label))
    assert len(carried_out(run, scenario(50), 10.0)) == 6  # a phase takes 1.5 s, so the seventh would end at 10.5 s
    assert run.ended


def test_first_round_is_whole() -> None:
    assert len(carried_out(ScriptedRun(wide_for("none")), scenario(50), 0.1)) == 2


def test_failed_run_is_not_recorded_as_finished() -> None:
    run = ScriptedRun(wide_for("none"))
    run.outcome.failure = cast(Any, "the platform stopped answering")
    carried_out(run, scenario(2), 1000)
    assert not run.ended


@pytest.mark.parametrize(
    ("seconds", "platforms", "locked_bytes_max", "expected"),
    [
        (30.0, 1, 40 * 10**9, 15),  # a round takes 4 s; twice as many rounds as fit
        (30.0, 2, 40 * 10**9, 7),
        (30.0, 1, 14 * 10**6, 2),  # a round archives at most 4.4 MB, and a tenth is kept in reserve
        (3600.0, 1, 40 * 10**9, ROUNDS_MAX),
    ],
)
def test_rounds_are_bounded_by_time_and_by_locked_bytes(
    seconds: float, platforms: int, locked_bytes_max: int, expected: int
) -> None:
    assert rounds_max(scenario(1), seconds, platforms, locked_bytes_max) == expected


def test_time_for_less_than_one_round_is_refused() -> None:
    with pytest.raises(UsageError, match="measuring everything once takes about 4s, and intervals need 5 rounds"):
        rounds_max(scenario(1), 3.0, 1, 40 * 10**9)


def test_precision_is_between_the_grades_a_and_b() -> None:
    assert 0.05 < PRECISION < 0.15


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a scenario of two cells whose phases take 40 ms."""
    path = tmp_path / "two.toml"
    path.write_text(TWO_CELLS.replace('"1s"', '"40ms"').replace('"500ms"', '"20ms"'))
    return path


def test_run_with_a_budget_records_what_it_measured_as_all_that_was_planned(home: Path, small: Path) -> None:
    done = archiver("run", str(small), "--for", "1h", "--max-locked-bytes", "16MB", "--quiet")
    (path,) = home.glob("runs/*/run.db")
    ((phases, repetitions),) = ask(path, "SELECT count(*), max(repetition) FROM phase")
    assert ask(path, "SELECT phases_planned, repetitions, verdict FROM run") == [(phases, repetitions, "none")]
    assert repetitions == 3, done.stderr


def test_interrupted_run_with_a_budget_goes_on(home: Path, small: Path) -> None:
    archiver("run", str(small), "--for", "1h", "--max-locked-bytes", "16MB", "--quiet")
    (path,) = home.glob("runs/*/run.db")
    break_off(home, 4)
    _plan_again(path, 6, 3)
    resumed = archiver("resume", "latest", "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    assert ask(path, "SELECT count(*), max(repetition) FROM phase") == [(6, 3)]
    assert ask(path, "SELECT phases_planned, repetitions, verdict FROM run") == [(6, 3, "none")]


@pytest.mark.parametrize("other", [("--repeat", "3"), ("--search",)])
def test_budget_excludes_other_ways_to_say_how_often(home: Path, other: tuple[str, ...]) -> None:
    refused = archiver("run", "dr550", *TINY, "--for", "1m", *other)
    assert refused.returncode == 2
    assert "--for decides how often to measure" in refused.stderr


def test_dry_run_says_how_many_rounds_there_may_be(home: Path, small: Path) -> None:
    said = archiver("run", str(small), "--for", "6s", "--dry-run").stdout
    assert "takes at most 6s: rounds of 2 phases, about 1s each, at most 10 of them" in said
    assert said.count("archive 8KiB x 1,") == 1


def _plan_again(path: Path, phases: int, repetitions: int) -> None:
    """Change the record of a run as it was during the run, with room for what the rounds before left."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE run SET phases_planned = ?, repetitions = ?", (phases, repetitions))
        db.execute("UPDATE run SET request = replace(request, '16000000', '64000000')")
