"""The score of a tile run: its computation, when there is none, and the reference tile."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.values.errors import ScenarioError
from results.document.table import Table
from results.mixed.reference_tile import ReferenceTile, stored_reference
from results.mixed.score import Score, best_score, scale_score, score_table, score_weights
from results.mixed.tiles import APPLICATIONS
from results.recorded.model import CriterionResult, Result
from results.report.mixed_contents import mixed_run, mixed_tables
from tests.results.conftest import MakeRun
from tests.results.tile_run import TileRun, criterion, held, scales_of
from tests.results.watched_run import phase_record

REFERENCE = ReferenceTile(
    "one tile on a small machine", "MinIO", "2 cores", "2026-11-22", "0.1.0",
    throughputs={"e-mail": 1233.0, "database small": 882.0, "database large": 108.0, "web": 846.0,
                 "scan": 96 * 2**20 / 1e6},
)  # fmt: skip
ALIKE = score_weights(None)


@pytest.fixture
def run(make_result: Callable[..., Result]) -> TileRun:
    return TileRun(make_result)


def scored(results: list[Result], criteria: list[CriterionResult] | None = None, weights: Any = None) -> Score:
    (scale,) = scales_of(results, held(results) if criteria is None else criteria)
    return scale_score(scale, REFERENCE, score_weights(weights))


def test_reference_tile_scores_one(run: TileRun) -> None:
    score = scored(run.tile())
    assert score.value == pytest.approx(1.0)
    assert str(score) == "1.00@1 tile"


def test_score_is_sum_of_geometric_means_of_tiles(run: TileRun) -> None:
    """The web rate of the second tile is 32 times the reference's; the fifth root of 32 is 2."""
    second = [replace(r, objects_per_second=32 * 846.0) if r.application == "web" else r for r in run.tile(2)]
    score = scored([replace(result, scale=2.0) for result in (*run.tile(1), *second)])
    assert score.value == pytest.approx(1.0 + 2.0)
    assert str(score) == "3.00@2 tiles"


def test_void_trial_has_no_score_and_gives_reason(run: TileRun) -> None:
    """The client limited the web workload while e-mail missed its criterion."""
    results = [replace(r, limited_by="client") if r.application == "web" else r for r in run.tile()]
    missed = [replace(each, passed=each.workload != "tile 1 e-mail") for each in held(results)]
    assert scored(results).value == pytest.approx(1.0)
    assert scored(results, missed).value is None
    assert scored(results, missed).reason == (
        "void: the client was the limit while a criterion was missed: more client machines needed"
    )


def test_score_of_short_measurement_shows_its_duration(run: TileRun) -> None:
    short = [replace(r, seconds=1.5) if r.application == "scan" else r for r in run.tile()]
    assert str(scored(short)) == "1.00@1 tile (measured for 1.50 s)"
    assert str(scored(short, weights={"web": 1})) == "1.00@1 tile"


def test_quick_run_has_no_score_and_no_published_rows(run: TileRun, make_run: MakeRun) -> None:
    def tables(*, quick: bool) -> dict[str, Table]:
        results = run.tile()
        phase = phase_record(1, results[0], 1, 2, results=results, criteria=held(results))
        recorded = make_run([phase], scenario_json="{}", request=json.dumps({"scenario": {"quick": quick}}))
        shown = mixed_run(recorded)
        assert shown is not None
        return {table.name: table for table in mixed_tables(shown)}

    (scale,) = scales_of(run.tile(), held(run.tile()))
    score = scale_score(scale, stored_reference(), ALIKE)
    assert tables(quick=False)["tiles-score"].rows[-1][-1].number == score.value
    assert [row[-1].text for row in tables(quick=True)["tiles-score"].rows] == ["withheld", "no score"]
    assert "No score at 1 tile: withheld: --quick" in tables(quick=True)["tiles-score"].caption
    sources = {quick: {row[2].text for row in tables(quick=quick)["tiles-email"].rows} for quick in (False, True)}
    assert len(sources[False]) > 1
    assert sources[True] == {"measured"}


def test_score_is_weighted_geometric_mean(run: TileRun) -> None:
    fast = [replace(r, objects_per_second=16 * 846.0) if r.application == "web" else r for r in run.tile()]
    assert scored(fast, weights={"web": 1, "scan": 1}).value == pytest.approx(4.0)
    assert scored(fast, weights={"web": 3, "scan": 1, "e-mail": 0}).value == pytest.approx(8.0)


def test_application_with_weight_zero_may_be_missing(run: TileRun) -> None:
    without = [result for result in run.tile() if result.application != "scan"]
    assert scored(without).value is None
    assert scored(without).reason == "no throughput of tile 1: scan"
    assert scored(without, weights=dict.fromkeys(APPLICATIONS[:-1], 1.0)).value == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (dict.fromkeys(APPLICATIONS, 0.0), "sum is 0"),
        ({}, "sum is 0"),
        ({"e-mail": -1.0, "web": 2.0}, "e-mail: -1 is not a weight"),
        ({"web": math.nan}, "web: nan is not a weight"),
        ({"web": math.inf}, "web: inf is not a weight"),
        ({"mail": 1.0}, "mail: a tile has no such application; it has e-mail, database small"),
    ],
)
def test_invalid_weights_are_refused(weights: dict[str, float], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        score_weights(weights)


@given(st.dictionaries(st.sampled_from(APPLICATIONS), st.floats(0.01, 100), min_size=1), st.floats(0.01, 100))
def test_only_the_proportions_of_weights_matter(weights: dict[str, float], factor: float) -> None:
    scaled = score_weights({name: weight * factor for name, weight in weights.items()})
    assert scaled == pytest.approx(score_weights(weights))
    assert sum(scaled.values()) == pytest.approx(1.0)


def test_one_failed_criterion_removes_score(run: TileRun) -> None:
    results = run.tile()
    failed = [*held(results), criterion("tile 1 web", "object_ms.p99 <= 100", 100, 140.0, False)]
    score = scored(results, failed)
    assert score.value is None
    assert score.reason == "failed: tile 1 web: object_ms.p99 <= 100"
    elsewhere = replace(failed[-1], position=7)
    assert scored(results, [*held(results), elsewhere]).value == pytest.approx(1.0)


def test_score_requires_judged_pass_criterion(run: TileRun) -> None:
    assert "no pass criterion was judged" in scored(run.tile(), []).reason


def test_score_requires_every_trial_to_pass(run: TileRun) -> None:
    results = [*run.tile(), *run.tile(position=2)]
    judged = held(results)
    assert scored(results, judged).value == pytest.approx(1.0)
    judged[-1] = replace(judged[-1], passed=False)
    assert scored(results, judged).value is None


def test_unmeasured_tile_removes_score(run: TileRun) -> None:
    assert scored([replace(result, scale=2.0) for result in run.tile()]).reason == "1 of 2 tiles were measured"


def test_run_score_is_that_of_most_passing_tiles() -> None:
    scores = [Score(1, 1.0), Score(2, 1.9), Score(3, 1.8), Score(4, None, "failed: x")]
    assert str(best_score(scores)) == "1.80@3 tiles"
    assert str(best_score(scores[3:])) == "no score at 4 tiles: failed: x"
    assert best_score([]) is None


def test_score_table_has_ratios_rule_and_reference(run: TileRun) -> None:
    two = [replace(result, scale=2.0, position=2) for tile in (1, 2) for result in run.tile(tile, rate=616.5)]
    criteria = [*held(run.tile()), *held(two)]
    table = score_table(scales_of([*run.tile(), *two], criteria), REFERENCE)
    texts = [[cell.text for cell in row] for row in table.rows]
    assert texts[0] == ["1", "1", "1.00", "1.00", "1.00", "1.00", "1.00", "1.00"]
    assert texts[2] == ["2", "1", "0.50", "1.00", "1.00", "1.00", "1.00", f"{0.5**0.2:.2f}"]
    assert texts[-1][-1] == f"{2 * 0.5**0.2:.2f}"
    assert table.caption.startswith("1.74@2 tiles. Ratio: ")
    for words in ("geometric mean", "with equal weights", "tiles add up", "every criterion", "one tile on a small"):
        assert words in table.caption
    weighted = score_table(scales_of(run.tile(), criteria), REFERENCE, {"web": 3.0, "scan": 1.0})
    assert "weighted web 0.75, scan 0.25" in weighted.caption


def test_table_without_score_gives_reason(run: TileRun) -> None:
    table = score_table(scales_of(run.tile(), [criterion("", "seconds <= 9", 9, 10, False)]), REFERENCE)
    assert table.rows[-1][-1].text == "no score"
    assert table.rows[-1][-1].notes == ("failed: seconds <= 9",)
    assert table.caption.startswith("No score at 1 tile: failed: seconds <= 9.")


def test_stored_reference_has_every_application() -> None:
    reference = stored_reference()
    assert set(reference.throughputs) == set(APPLICATIONS)
    assert min(reference.throughputs.values()) > 0
    assert reference.described.startswith("embedded-2026: embedded archiver on ")
