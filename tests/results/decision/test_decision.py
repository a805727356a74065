"""A decision: must-haves, the recommendation that follows from them, and the page that shows both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from archiver.cli.answers.plan import combined_on, request_in, surface_from
from archiver.values.errors import UsageError
from archiver.values.platform import PlatformProfile
from results.comparison.scorecard.cards import ScoredRun, scorecard_of
from results.decision.decision import Decision, decide
from results.decision.document import decision_as_document, decision_document, main_tables
from results.decision.must import read_musts
from results.document.markdown import markdown_page
from results.planning.combined import CombinedPlan
from results.recorded.database import RunDatabase
from results.recorded.model import RESTARTED_ROUND, CheckRecord
from tests.results.comparison.compared_runs import MakeResult, MakeRun, measured_run
from tests.results.comparison.scored_runs import STARTED, check, checked_run, with_all_points
from tests.results.watched_run import PLATFORM

NEED = """
years = 3
prices = "prices.toml"
budget = 100000
[[load]]
kind = "mail"
users = 3000
messages = 30
mean-size = "20KiB"
retention = "365d"
"""
PRICES = """
currency = "EUR"
[[part]]
item = "node"
quantity = 1
list_price = 9000
support_years = 3
"""
WHOLE: dict[str, Any] = {"settings": {**STARTED, "catalogue": {"checks": 2, "rules": []}}}
GOOD = (check("RET-05", "PASS"), check("VER-08", "PASS", round_=RESTARTED_ROUND))
SYNCED = replace(PLATFORM, durability="fsync before each acknowledgement")
FROM_MEMORY = replace(PLATFORM, durability="none: acknowledged from memory")

MakeRuns = Callable[..., list[ScoredRun]]


@pytest.fixture
def plan(tmp_path: Path) -> CombinedPlan:
    (tmp_path / "prices.toml").write_text(PRICES)
    (tmp_path / "need.toml").write_text(NEED)
    return combined_on(surface_from("reference:dr550"), request_in(tmp_path / "need.toml"))


@pytest.fixture
def make_runs(make_result: MakeResult, make_database: Callable[..., RunDatabase]) -> MakeRuns:
    """Return a function that makes the measured run of a platform, and its conformance run with some checks."""
    make_measured: MakeRun = partial(measured_run, make_result, settings=STARTED)

    def make(name: str, *checks: CheckRecord, platform: PlatformProfile = SYNCED) -> list[ScoredRun]:
        of_platform = replace(platform, name=name)
        measured = with_all_points(make_measured, name)
        measured = replace(measured, row=replace(measured.row, platform=replace(of_platform, version="1")))
        checked = checked_run(make_database, name, *checks, **WHOLE)
        return [measured, replace(checked, row=replace(checked.row, platform=measured.row.platform))]

    return make


def decided(runs: list[ScoredRun], must: list[str], **plans: CombinedPlan | str) -> Decision:
    return decide(scorecard_of(runs), plans, read_musts(must))


def outcomes(decision: Decision) -> dict[str, dict[str, str]]:
    return {
        each.label: {text: judged.outcome for text, judged in decision.judged(each).items()}
        for each in decision.candidates
    }


def test_platform_that_meets_every_must_have_is_recommended(make_runs: MakeRuns, plan: CombinedPlan) -> None:
    bad = (check("RET-05", "FAIL"), GOOD[1])
    runs = [*make_runs("good", *GOOD), *make_runs("bad", *bad, platform=FROM_MEMORY)]
    must = ["no S1", "check RET-05", "synced", "within budget", "at most 9 platforms", "rates known"]
    decision = decided(runs, must, good=plan, bad=plan)
    assert outcomes(decision)["good"] == dict.fromkeys(must, "met")
    assert outcomes(decision)["bad"] == {
        **dict.fromkeys(must, "met"), "no S1": "not met", "check RET-05": "not met", "synced": "not met"
    }  # fmt: skip
    first, second = decision.answers()
    assert first.startswith("Choose good: it meets all 6 must-haves. 1 platform by year 3, 9,000 EUR")
    assert second == "bad does not meet “no S1”, “check RET-05”, “synced”."


def test_cheaper_of_two_fitting_platforms_is_recommended(make_runs: MakeRuns, plan: CombinedPlan) -> None:
    runs = [*make_runs("dear", *GOOD), *make_runs("cheap", *GOOD)]
    dear = replace(plan, years=tuple(replace(year, hardware=2 * (year.hardware or 0)) for year in plan.years))
    decision = decided(runs, ["no S1"], dear=dear, cheap=plan)
    assert decision.answers()[0].startswith("Choose cheap: it meets the must-have, and costs less than dear.")
    assert decision.answers()[1] == "dear costs more."


def test_equal_prices_recommend_nothing(make_runs: MakeRuns, plan: CombinedPlan) -> None:
    runs = [*make_runs("one", *GOOD), *make_runs("two", *GOOD), *make_runs("dear", *GOOD)]
    dear = replace(plan, years=tuple(replace(year, hardware=2 * (year.hardware or 0)) for year in plan.years))
    decision = decided(runs, ["no S1"], one=plan, two=plan, dear=dear)
    assert decision.recommended is None
    first, second = decision.answers()
    assert first.startswith("one and two meet every must-have, and price does not tell them apart")
    assert second == "dear costs more."


def test_what_was_not_checked_is_not_known_and_never_met(make_runs: MakeRuns, plan: CombinedPlan) -> None:
    runs = make_runs("part", check("RET-05", "INCONCLUSIVE"))
    must = ["no S1", "check RET-05", "check GOV-02", "synced", "within budget"]
    found = outcomes(decided(runs, must, part="no run measured its rates"))["part"]
    assert found == dict.fromkeys(must, "not known")
    assert decided(runs, must, part=plan).recommended is None
    assert "part could not be planned: no run measured its rates." not in decided(runs, must, part=plan).answers()


def test_need_without_must_haves_recommends_nothing(make_runs: MakeRuns, plan: CombinedPlan) -> None:
    decision = decided(make_runs("one", *GOOD), [], one=plan)
    assert decision.recommended is None
    assert decision.answers() == [
        "No recommendation: NEED.toml requires nothing. Write what a platform must do as must = [...]."
    ]


def test_lights_quote_scorecard_and_plan(make_runs: MakeRuns, plan: CombinedPlan) -> None:
    runs = [*make_runs("good", *GOOD), *make_runs("bad", check("RET-05", "FAIL"), platform=FROM_MEMORY)]
    document = decision_document(decided(runs, ["no S1"], good=plan, bad="too few sizes"), {"a": "1"})
    good, bad = (each["lights"] for each in document["platforms"])
    assert good["locks"] == {"state": "good", "words": "no S1 and no S2 in 2 of 2 checks"}
    assert good["an acknowledgement means"]["state"] == "good"
    assert good["archive rate"]["words"].endswith("rates of grade A or better")
    assert good["restore"] == {"state": "plain", "words": "not asked for"}
    assert good["cost"] == {"state": "good", "words": "9,000 EUR in 3 years, within the budget"}
    assert bad["locks"] == {"state": "bad", "words": "1 x S1 in 1 of 2 checks"}
    assert bad["an acknowledgement means"] == {"state": "bad", "words": "none: acknowledged from memory"}
    assert bad["cost"] == {"state": "care", "words": "not planned"}
    assert document["platforms"][1]["risks"][0]["words"].startswith("S1 RET-05: delete a locked version")


def test_page_begins_with_the_recommendation(make_runs: MakeRuns, plan: CombinedPlan) -> None:
    decision = decided(make_runs("good", *GOOD), ["no S1"], good=plan)
    assert [table.name for table in main_tables(decision)] == ["platforms", "must", "risks"]
    page = markdown_page(decision_as_document(decision, {"run-1": "ab12"}))
    assert page.splitlines()[2].startswith("Choose good")
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings == [
        "## The platforms at a glance", "## Must-haves", "## The gravest risks", "## Size and cost by year",
        "## Not measured", "## What this rests on",
    ]  # fmt: skip
    assert "ab12" in page


def test_unknown_phrase_is_refused_with_those_that_exist() -> None:
    with pytest.raises(UsageError, match=r"must: 'cheap' is not known; there are: no S1, check RET-05, synced"):
        read_musts(["no S1", "cheap"])
