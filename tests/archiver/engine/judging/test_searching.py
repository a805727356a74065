"""Test which scales a search tries, when it ends, and what result it reports."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log2
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.engine import execution
from archiver.engine.judging.searching import Search, share_that_holds_min
from archiver.values.errors import ScenarioError
from results.recorded.model import CriterionResult, SearchOutcome
from scenarios.reading.reader import read_scenario

SEARCHED = """
name = "users"
title = "How many users there may be"

[[criterion]]
that = "errors == 0"

[scale]
name = "users"
each = "user"

[search]
first = 1
last = 2
repeat = 1

[[phase]]
name = "users"
[[phase.workload]]
name = "reading"
operation = "archive"
data = "d"
sizes = "1KiB"
clients = 1
objects = "10 users"
"""


def tried(search: Search, holds: Callable[[int], bool]) -> list[int]:
    """Carry out a search and return the scales in the order in which they were tried."""
    scales = []
    while (scale := search.next_scale()) is not None:
        scales.append(scale)
        search.judged(scale, holds(scale), (len(scales),))
        assert scales.count(scale) <= search._repeat
    return scales


ranges = st.tuples(
    st.integers(min_value=1, max_value=40), st.integers(min_value=0, max_value=300), st.sampled_from((1, 2, 5, 100))
).map(lambda drawn: (drawn[0] * drawn[2], (drawn[0] + drawn[1]) * drawn[2], drawn[2]))
repeats = st.integers(min_value=1, max_value=5)


def test_search_doubles_then_halves_then_repeats_both_sides_of_the_edge() -> None:
    search = Search("tiles", 1, 16, 3)
    assert tried(search, lambda scale: scale <= 5) == [1, 2, 4, 8, 6, 5, 5, 5, 6, 6]
    outcome = search.outcome()
    assert (outcome.name, outcome.largest, outcome.failed_at, outcome.held) == ("tiles", 5, 6, 3)
    assert outcome.ended_because == "the edge was found between tiles 5 and 6"
    assert outcome.confidence == (
        "tiles 5 passed in 3 of 3 trials: with 95% confidence at least 36% of such trials pass; "
        "tiles 6 failed in 3 of 3 trials"
    )
    assert [(step.scale, step.positions, step.passed) for step in outcome.steps[:4]] == [
        (1, (1,), True), (2, (2,), True), (4, (3,), True), (8, (4,), False),
    ]  # fmt: skip


def test_scale_that_fails_on_repeat_moves_the_search_below_it() -> None:
    search = Search("tiles", 1, 64, 3)
    trials = {7: iter((True, True, False))}
    scales = tried(search, lambda scale: next(trials[scale]) if scale in trials else scale < 7)
    assert scales == [1, 2, 4, 8, 6, 7, 7, 7, 6, 6]  # 6 had one trial before, and 7 had three
    outcome = search.outcome()
    assert (outcome.largest, outcome.failed_at, outcome.held) == (6, 7, 3)
    assert "tiles 7 failed in 1 of 3 trials" in outcome.confidence
    assert "passed at first but failed when repeated: 7" in outcome.confidence


def test_skipped_scales_are_tried_once_the_edge_drops_to_them() -> None:
    search = Search("tiles", 1, 5, 2)
    trials = {5: iter((True, False)), 4: iter((True, False))}
    scales = tried(search, lambda scale: next(trials[scale]) if scale in trials else True)
    assert scales == [1, 2, 4, 5, 5, 4, 3, 3]
    assert (search.outcome().largest, search.outcome().failed_at) == (3, 4)


def test_one_failed_trial_fails_the_scale() -> None:
    search = Search("tiles", 1, 2, 3)
    trials = {2: iter((False, True, True))}
    assert tried(search, lambda scale: next(trials[scale]) if scale in trials else True) == [1, 2, 1, 1, 2, 2]
    assert search.outcome().largest == 1
    assert "tiles 2 failed in 1 of 3 trials" in search.outcome().confidence


def test_search_without_failure_reports_range_end_and_repeats_last_scale() -> None:
    search = Search("cameras", 10, 70, 2)
    assert tried(search, lambda scale: True) == [10, 20, 40, 70, 70]
    outcome = search.outcome()
    assert (outcome.largest, outcome.failed_at, outcome.held) == (70, None, 2)
    assert outcome.ended_because == "all up to cameras 70 passed; the search ends there: raise last"
    assert outcome.confidence.startswith("cameras 70 passed in 2 of 2 trials: with 95% confidence at least 22%")


def test_search_ends_if_the_smallest_scale_fails() -> None:
    search = Search("users", 1000, 64000, 3)
    assert tried(search, lambda scale: False) == [1000]
    outcome = search.outcome()
    assert (outcome.largest, outcome.failed_at, outcome.held) == (None, 1000, 0)
    assert outcome.ended_because == "users 1000, the smallest, failed: lower first, or relax the criteria"
    assert outcome.confidence == "users 1000 failed in 1 of 1 trial"


def test_stopped_search_reports_results_so_far() -> None:
    search = Search("tiles", 1, 64, 3)
    for scale in (1, 2, 4):
        search.judged(scale, True, (scale,))
    search.judged(8, False, (8,))
    search.stopped("tiles 6 would lock more than --max-locked-bytes allows: raise it")
    assert search.next_scale() is None
    outcome = search.outcome()
    assert (outcome.largest, outcome.failed_at, outcome.held) == (4, 8, 1)
    assert outcome.ended_because == "tiles 6 would lock more than --max-locked-bytes allows: raise it"
    assert outcome.confidence == (
        "tiles 4 passed in 1 of 1 trial: with 95% confidence at least 5% of such trials pass; tiles 8 failed in 1 of 1 "
        "trial; no scale between them was tried"
    )


def test_void_trial_ends_search_and_counts_as_neither() -> None:
    search = Search("tiles", 1, 64, 3)
    for scale in (1, 2):
        search.judged(scale, True, (scale,))
    search.voided(4, "client limit reached at tiles 4: more client machines needed", (3,))
    assert search.next_scale() is None
    outcome = search.outcome()
    assert (outcome.largest, outcome.failed_at, outcome.held) == (2, None, 1)
    assert outcome.ended_because == "client limit reached at tiles 4: more client machines needed"
    assert [(step.scale, step.passed, bool(step.void)) for step in outcome.steps] == [
        (1, True, False), (2, True, False), (4, False, True),
    ]  # fmt: skip
    assert outcome.confidence == "tiles 2 passed in 1 of 1 trial: with 95% confidence at least 5% of such trials pass"


def test_void_repetition_does_not_change_passed_scale() -> None:
    search = Search("tiles", 1, 2, 2)
    for scale, passed in ((1, True), (2, False)):
        search.judged(scale, passed, (scale,))
    search.voided(1, "client limit reached at tiles 1: more client machines needed", (3,))
    assert (search.outcome().largest, search.outcome().failed_at, search.outcome().held) == (1, 2, 1)


@pytest.mark.parametrize(
    ("limited_by", "largest", "ended"),
    [
        ("client", 1, "client limit reached at users 2: more client machines needed"),
        ("host cpu", 1, "other programs kept this machine busy at users 2: search again while it is idle"),
        ("server cpu", 1, "the edge was found between users 1 and 2"),
    ],
)
def test_search_step_limited_by_client_is_void(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limited_by: str, largest: int, ended: str
) -> None:
    """With two users the criterion is missed. The limiting resource decides whether the step failed."""
    path = tmp_path / "users.toml"
    path.write_text(SEARCHED)
    scenario = read_scenario(str(path), searches=True)
    kept: list[SearchOutcome] = []
    run: Any = SimpleNamespace(
        outcome=SimpleNamespace(criteria=[], results=[], failure=None, search=None),
        database=SimpleNamespace(set_search=kept.append),
    )
    monkeypatch.setattr(execution, "_too_much", lambda *_: None)
    for phase in execution.searched(scenario, cast(Any, SimpleNamespace(read=lambda phases: phases)), [run]):
        passed = phase.scale == 1
        run.outcome.results.append(
            SimpleNamespace(
                position=phase.position,
                workload="",
                limited_by=limited_by,
                void="",
                lost=(),
                incomplete=None,
                platform_errors=False,
            )
        )
        run.outcome.criteria.append(
            CriterionResult("errors == 0", "reading", phase.position, 0, 0, passed, phase.scale)
        )
    (outcome,) = kept
    assert run.outcome.search is outcome
    assert (outcome.largest, outcome.ended_because) == (largest, ended)
    assert [bool(step.void) for step in outcome.steps] == [False, limited_by != "server cpu"]


def test_search_stopped_before_first_trial_has_no_result() -> None:
    search = Search("tiles", 1, 64, 3)
    search.stopped("interrupted")
    assert (search.outcome().largest, search.outcome().steps) == (None, ())
    assert search.outcome().confidence == "no scale was tried"


def test_search_tries_only_multiples_of_step() -> None:
    search = Search("rate", 100, 1000, 1, step=50)
    assert tried(search, lambda scale: scale < 370) == [100, 200, 400, 300, 350]
    assert (search.outcome().largest, search.outcome().failed_at) == (350, 400)


@given(ranges, repeats, st.integers(min_value=0, max_value=40_000))
def test_search_on_steady_platform_finds_edge_within_trial_bound(
    bounds: tuple[int, int, int], repeat: int, edge: int
) -> None:
    first, last, step = bounds
    search = Search("users", first, last, repeat, step)
    trials = len(tried(search, lambda scale: scale <= edge))
    outcome = search.outcome()
    at_most = min(edge, last) // step * step
    assert outcome.largest == (at_most if edge >= first else None)
    assert outcome.failed_at == (None if edge >= last else at_most + step if edge >= first else first)
    doublings = ceil(log2(last / first))
    assert trials <= 1 + doublings + ceil(log2(max(1, last / step))) + 2 * (repeat - 1)


@given(ranges, repeats, st.floats(min_value=0, max_value=1), st.randoms(use_true_random=False))
def test_search_on_noisy_platform_ends_at_edge_confirmed_by_all_trials(
    bounds: tuple[int, int, int], repeat: int, likely: float, random: Random
) -> None:
    first, last, step = bounds
    search = Search("users", first, last, repeat, step)
    tried(search, lambda scale: random.random() < likely)
    outcome = search.outcome()
    scales = [trial.scale for trial in outcome.steps]
    assert all(first <= scale <= last and scale % step == 0 for scale in scales)
    assert max(scales.count(scale) for scale in scales) <= repeat
    failed = {trial.scale for trial in outcome.steps if not trial.passed}
    assert outcome.failed_at == min(failed, default=None)
    if outcome.largest is None:
        assert first in failed
        return
    assert not {scale for scale in failed if scale <= outcome.largest}
    assert scales.count(outcome.largest) == outcome.held == repeat
    if outcome.failed_at is None:
        assert outcome.largest == last
    else:
        assert outcome.failed_at - outcome.largest == step
        assert scales.count(outcome.failed_at) == repeat


@pytest.mark.parametrize("repeat", [1, 2, 3])
def test_every_scale_gets_all_trials_if_every_last_repeat_fails(repeat: int) -> None:
    search = Search("tiles", 1, 13, repeat)
    seen: dict[int, int] = {}

    def holds(scale: int) -> bool:
        seen[scale] = seen.get(scale, 0) + 1
        return seen[scale] < repeat

    trials = len(tried(search, holds))
    assert trials == (13 * repeat if repeat > 1 else 1)


def test_lower_bound_of_pass_share_is_exact() -> None:
    # If the true share is the bound, a row of passes this long has the probability 1 - confidence.
    for trials in (1, 2, 3, 10, 59):
        assert share_that_holds_min(trials, 0.95) ** trials == pytest.approx(0.05)
    assert share_that_holds_min(59, 0.95) > 0.95 > share_that_holds_min(58, 0.95)  # 59 is the known value for 95%/95%


@pytest.mark.parametrize(
    ("first", "last", "repeat", "step", "said"),
    [
        (0, 8, 3, 1, "from 0 to 8 by 1 is not a range"),
        (8, 4, 3, 1, "from 8 to 4 by 1 is not a range"),
        (1, 8, 3, 0, "from 1 to 8 by 0 is not a range"),
        (100, 950, 3, 100, "must be multiples of step (100)"),
        (1, 8, 0, 1, "repeat is 0"),
    ],
)
def test_invalid_range_is_refused(first: int, last: int, repeat: int, step: int, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        Search("tiles", first, last, repeat, step)
    assert said in str(caught.value)
