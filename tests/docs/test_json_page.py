"""docs/reference/json.md has exactly the fields of real documents. tests/test_examples.py tests those of runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from archiver.cli.platforms import doctor
from archiver.engine.doctor import MeasuredCeiling
from results.comparison.compare import compare_runs
from results.comparison.contract import comparison_document
from results.comparison.gate import judge, parse_condition
from results.comparison.scorecard.cards import scorecard_of, scored_run
from results.comparison.scorecard.document import scorecard_document
from results.recorded.model import CheckRecord
from results.recorded.run import read_run
from tests.archiver.traces.made import write_example_files
from tests.docs.json_page import Met, compare, printed, tables
from tests.results.comparison.compared_runs import measured_run
from tests.results.comparison.workloads_together import together
from tests.results.conftest import MakeDatabase, MakeResult
from tests.results.conftest import make_database as make_database
from tests.results.conftest import make_result as make_result
from tests.results.tile_run import TileRun
from tests.results.watched_run import PLATFORM

FAILED = CheckRecord(
    "DEL-02", "Deletion", "delete a locked version", "refuse", "403", ("R1",), "S1", "FAIL", "gone", 1.0, 0.1, "alone"
)

PRICES = """
currency = "EUR"

[[part]]
item = "node"
quantity = 3
list_price = 9000
support_years = 3
support_price_per_year = 900
"""
DR550 = ("--from", "reference:dr550", "--json")
PLANS = (
    ("mail", "--users", "30000", "--messages", "30", "--mean-size", "20KiB", "--window", "8h", "--what-if",
     "--prices", "prices.toml", "--discovery-users", "2", "--discovery-messages", "5", "--discovery-within", "1h"),
    ("video", "--cameras", "100", "--gigabytes-per-hour", "1", "--film", "1GiB"),
    ("size", "--objects-per-day", "500000", "--size-histogram", "sizes.csv"),
    ("backup", "--full", "100GB", "--usable", "1TB"),
    ("retrieve", "--size", "1GiB", "--parallel", "2"),
)  # fmt: skip


def all_of(met: Met, *headings: str) -> bool:
    """Assert that documents had every row of these tables."""
    missing = {(heading, field) for heading in headings for field in tables()[heading]} - met
    assert not missing, f"no document has {sorted(missing)}"
    return True


def test_plan_documents_have_exactly_documented_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("prices.toml").write_text(PRICES)
    Path("sizes.csv").write_text("size,share\n8KiB,70%\n1MiB,30%\n")
    met = set[tuple[str, str]]().union(*(compare(printed("plan", *plan, *DR550), "A plan") for plan in PLANS))
    assert all_of(
        met, "A plan", "Range", "Fits", "Load", "Year", "Need", "Trial", "Retrieval", "Discovery", "SizeShare", "Price",
        "Line", "Sensitivity", "Outcome", "Basis", "BasisCell",
    )  # fmt: skip
    Path("need.toml").write_text(
        'years = 2\n[[load]]\nkind = "mail"\nusers = 30000\nmessages = 30\nmean-size = "20KiB"\n'
    )
    combined = compare(printed("plan", "all", "need.toml", *DR550), "A combined plan")
    assert all_of(combined, "A combined plan", "PlannedPlatform", "PlannedLoad", "PlannedYear")


def test_trace_documents_have_exactly_documented_fields(tmp_path: Path) -> None:
    write_example_files(tmp_path)
    (trace,) = printed("trace", "info", str(tmp_path / "day.parquet"), "--json")["traces"]
    assert all_of(compare(trace, "Traces"), "Traces", "Kind", "Origin")


def test_doctor_documents_have_exactly_documented_fields(
    make_result: MakeResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "ceilings", lambda seconds: iter([MeasuredCeiling("engine", make_result())]))
    assert all_of(compare(printed("doctor", "--json"), "This machine"), "This machine", "Limit", "Host")


def test_workload_comparison_documents_have_exactly_documented_fields(make_result: MakeResult) -> None:
    tiles = TileRun(make_result)
    runs = [together(tiles, label, rate, 500, 550) for label, rate in (("a", 1000), ("b", 800))]
    comparison = compare_runs(runs)
    judgements = judge(comparison, [parse_condition("web.objects_per_second < 0.9")])
    met = compare(json.loads(json.dumps(comparison_document(comparison, judgements))), "A comparison")
    assert all_of(met, "ComparedWorkload", "Ratio", "Overall", "Side", "SideRun")
    assert met >= {("Judgement", field) for field in ("phase", "scale", "workload", "value", "fails")}
    assert met >= {("Measured", field) for field in ("platform", "objects_per_second", "errors", "repetitions")}


def test_scorecard_documents_have_exactly_documented_fields(
    make_result: MakeResult, make_database: MakeDatabase
) -> None:
    checked = make_database(id="checked", platform=replace(PLATFORM, version="1"), settings={"platform_started": True})
    checked.add_check(FAILED, [])
    variants = [
        make_result(phase="lock", variant=f"lock {lock}", lock=lock, position=place)
        for place, lock in enumerate(("none", "header"), 2)
    ]
    measured = measured_run(make_result, settings={"platform_started": True})
    measured = replace(measured, results=[*measured.results, *variants])
    document = scorecard_document(scorecard_of([measured, scored_run(read_run(checked.path))]))
    met = compare(json.loads(json.dumps(document)), "A scorecard")
    headings = ("A scorecard", "Card", "CardConformance", "CardPoint", "CardLockCost", "MissingPart")
    assert all_of(met, *headings)
