"""Criteria of each scale and their results, and the outcome of a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from results.document.table import NOT_MEASURED, Table
from results.measures.verdict import CLIENT_LIMIT
from results.mixed.scale_up import criteria_lines, criteria_table, search_sentence, search_table
from results.recorded.model import ClientUsage, CriterionResult, Result, SearchOutcome, SearchStep
from tests.results.tile_run import TileRun, criterion


@pytest.fixture
def run(make_result: Callable[..., Result]) -> TileRun:
    return TileRun(make_result)


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_criteria_table_shows_worst_workload_of_each_kind(run: TileRun) -> None:
    name = "object_ms.mean <= 20 (retrieve)"
    means = {1: 14.0, 2: 21.5, 3: 16.0}
    judged = [criterion(f"tile {n} e-mail", name, 20, mean, mean <= 20, scale=3.0) for n, mean in means.items()]
    table = criteria_table(judged, [run.email(n) for n in (1, 2, 3)], "tiles")
    assert texts(table) == [["3", "e-mail", name, "21.5", "20", "2 of 3"]]
    assert table.rows[0][3].notes == ("worst: tile 2 e-mail",)
    assert table.columns[0].name == "tiles"


@pytest.mark.parametrize(
    ("name", "limit", "values", "worst"),
    [
        ("objects_per_second >= 100", 100, (120.0, 105.0, 140.0), "105"),
        ("achieved_over_offered > 0.99", 0.99, (0.999, 0.995, 1.0), "0.995"),
        ("object_ms.p99 < 50", 50, (12.0, 31.0, 7.0), "31"),
        ("errors == 0", 0, (0, 4, 1), "4"),
        ("dropped <= 123456", 123456, (123450.0, 3.0, 9.0), "123,450"),
    ],
)
def test_worst_value_depends_on_comparison_operator(
    name: str, limit: float, values: tuple[float, ...], worst: str
) -> None:
    judged = [criterion(f"camera {n}", name, limit, value, True) for n, value in enumerate(values)]
    table = criteria_table(judged, [], "cameras")
    assert {cell.text for row in table.rows for cell in row[3:4]} >= {worst}
    (row,) = criteria_table([replace(each, workload="camera 1") for each in judged], [], "cameras").rows
    assert row[3].text == worst
    assert row[5].text == "all 3"


def test_criterion_missed_at_client_limit_is_void(run: TileRun) -> None:
    name = "object_ms.mean <= 20"
    results = [run.web(1, limited_by="client"), run.web(2, position=2)]
    judged = [
        criterion("tile 1 web", name, 20, 900.0, False, position=1),
        criterion("tile 2 web", name, 20, 15.0, True, position=2),
    ]
    assert texts(criteria_table(judged, results, "tiles"))[0][5] == "1 of 2, 1 void"
    assert texts(criteria_table(judged[:1], results, "tiles"))[0][5] == "void"


def test_missed_criterion_shows_worst_value_and_count(run: TileRun) -> None:
    results = [run.web(1), run.web(2, position=2)]
    judged = [
        criterion("tile 1 web", "object_ms.mean <= 20", 20, 35.2, False, position=1),
        criterion("tile 2 web", "object_ms.mean <= 20", 20, 90.0, False, position=2),
        criterion("tile 1 web", "errors == 0", 0, 0, True, position=1),
    ]
    (line,) = criteria_lines(judged, results)
    assert line.startswith("criterion missed: object_ms.mean <= 20: measured 90 (tile 2 web")
    assert line.endswith("), in 2 of 2 measurements")
    (line,) = criteria_lines([replace(judged[0], measured=None)], results)
    assert line == f"criterion missed: object_ms.mean <= 20: not measured (tile 1 web, {results[0].phase})"


def test_missed_criterion_without_measured_value_shows_the_reason(run: TileRun) -> None:
    results = [run.web(1, objects=0, seconds=0.5, drained_objects=2, errors=1)]
    unmeasured = [criterion("tile 1 web", "object_ms.mean <= 20", 20, None, False)]
    because = "no object was done in the measured 0.5 s; done later: 2, failed: 1"
    (line,) = criteria_lines(unmeasured, results)
    assert line == (
        f"criterion missed: object_ms.mean <= 20: not measured, because {because} (tile 1 web, {results[0].phase})"
    )
    (row,) = criteria_table(unmeasured, results, "tiles").rows
    assert row[3].notes == (because,)


def test_void_criterion_is_reported_separately_with_reason(run: TileRun) -> None:
    name = "object_ms.mean <= 20"
    results = [run.web(1, limited_by="client"), run.web(2, position=2)]
    judged = [
        criterion("tile 1 web", name, 20, 900.0, False, position=1),
        criterion("tile 2 web", name, 20, 30.0, False, position=2),
        criterion("tile 1 web", "errors == 0", 0, 0, True, position=1),
    ]
    missed, void = criteria_lines(judged, results)
    assert missed.startswith("criterion missed: object_ms.mean <= 20: measured 30 (tile 2 web")
    assert void.startswith("criterion void: object_ms.mean <= 20: measured 900 (tile 1 web")
    assert void.endswith(f"in 1 of 2 measurements; {CLIENT_LIMIT}")


def test_met_criterion_of_void_phase_is_reported_void(run: TileRun) -> None:
    judged = [criterion("tile 1 web", "errors == 0", 0, 0, True, position=1)]
    (line,) = criteria_lines(judged, [run.web(1, client=ClientUsage(12.0, 1.0, 39.5, 0.2, sessions_without_port=3))])
    assert line.startswith("criterion void: errors == 0: measured 0")
    assert line.endswith("; the client had no local port free for some of its sessions")


def test_void_search_step_is_shown_as_void() -> None:
    steps = (SearchStep(1, (1,), passed=False, void="client limit reached at tiles 1"),)
    search = SearchOutcome("tiles", steps, None, None, 0, "nothing was judged", "client limit reached at tiles 1")
    assert texts(search_table(search)) == [["1", "1", "void", "1"]]
    assert search_sentence(search).startswith("No number of tiles could be judged.")


def test_unmeasured_criterion_ranks_as_worst(run: TileRun) -> None:
    judged = [
        criterion("tile 1 web", "object_ms.mean <= 20", 20, 900.0, False),
        criterion("tile 2 web", "object_ms.mean <= 20", 20, None, False),
    ]
    (row,) = criteria_table(judged, [run.web(1), run.web(2)], "tiles").rows
    assert (row[3].text, row[5].text) == (NOT_MEASURED, "0 of 2")
    assert row[3].notes == ("worst: tile 2 web",)


def test_criteria_are_sorted_by_scale_and_aborted_phase_is_marked() -> None:
    judged = [
        criterion("ingest", "errors == 0", 0, 9, False, scale=80.0, aborted=True),
        criterion("ingest", "errors == 0", 0, 0, True, scale=10.0),
        criterion("", "seconds <= 9", 9, 4, True, scale=None),
    ]
    table = criteria_table(judged, [], "cameras")
    assert [row[0] for row in texts(table)] == [NOT_MEASURED, "10", "80"]
    assert [row[1] for row in texts(table)] == ["the run", "ingest", "ingest"]
    assert [row[5] for row in texts(table)] == ["yes", "yes", "no"]
    assert table.rows[-1][3].notes == ("it ended the phase",)


OUTCOME = SearchOutcome(
    name="users",
    steps=(SearchStep(1000, (1,), True), SearchStep(2000, (2, 3), False), SearchStep(1500, (4,), True)),
    largest=1500,
    failed_at=2000,
    held=1,
    confidence="held in 1 of 1",
    ended_because="the edge was found",
)


def test_search_table_lists_each_trial() -> None:
    table = search_table(OUTCOME)
    assert texts(table) == [["1", "1,000", "held", "1"], ["2", "2,000", "failed", "2, 3"], ["3", "1,500", "held", "4"]]
    assert table.title == "Search for the most users"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, "The largest that passed: 1,500 users. Held in 1 of 1. The edge was found."),
        ({"largest": None, "held": 0, "ended_because": "the first failed."},
         "No number of users passed. Held in 1 of 1. The first failed."),
    ],
)  # fmt: skip
def test_search_outcome_is_summarized_in_sentence_and_caption(change: dict[str, Any], told: str) -> None:
    outcome = replace(OUTCOME, **change)
    assert search_sentence(outcome) == told
    assert search_table(outcome).caption == told


def test_criteria_table_without_criteria_is_empty() -> None:
    nothing: list[CriterionResult] = []
    assert criteria_table(nothing, [], "tiles").rows == ()
