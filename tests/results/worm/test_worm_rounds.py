"""Conformance checks by round: stored, compared in tables, and exported as evidence."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from archiver.values.typed import undamaged
from results.bundle.evidence import make_evidence, verify_evidence, write_evidence
from results.document.table import Table
from results.recorded.database import RunDatabase
from results.recorded.model import CheckRecord, RoundRecord
from results.recorded.run import read_run
from results.report.junit import junit_xml
from results.worm.findings import findings_table, matrix_table, rounds_table, worm_document
from results.worm.report import write_worm_report
from tests.results.watched_run import PLATFORM

LOAD = RoundRecord("under load", 5.0, 9.0, "4 clients", 8.0, 1000, 125.0, 4000, 500.0, 3)


def check(identifier: str, verdict: str, round_: str = "alone") -> CheckRecord:
    return CheckRecord(
        identifier, "Family", "what is tried", "refuse", "403", ("R1",), "S1", verdict, "seen", 1.0, 0.1, round_
    )


def texts(table: Table, column: int = 0) -> list[str]:
    return [row[column].text for row in table.rows]


CHECKS = [
    check("DEL-01", "DEVIATION"), check("DEL-02", "PASS"), check("DEL-03", "PASS"),
    check("DEL-01", "DEVIATION", "under load"), check("DEL-02", "FAIL", "under load"),
    check("DEL-03", "PASS", "after restart"), check("VER-08", "NOT OFFERED", "after restart"),
]  # fmt: skip


@pytest.fixture
def kept(make_database: Callable[..., RunDatabase]) -> RunDatabase:
    database = make_database()
    for each in CHECKS:
        database.add_check(each, [{"method": "DELETE", "round": each.round}])
    for record in (RoundRecord("alone", 1.0, 4.0, "side by side"), LOAD):
        database.add_round(record)
    return database


def test_check_is_stored_once_per_round_with_separate_evidence(kept: RunDatabase) -> None:
    assert kept.checks() == CHECKS
    assert kept.rounds()[1] == LOAD
    for each in CHECKS:
        assert kept.exchanges(each) == [{"method": "DELETE", "round": each.round}]


def test_findings_include_later_round_only_if_verdict_differs() -> None:
    assert texts(findings_table(CHECKS), 2) == ["DEL-02 under load", "DEL-01", "VER-08 after restart"]


def test_rounds_table_shows_load_of_round() -> None:
    table = rounds_table(CHECKS, [RoundRecord("alone", 1.0, 4.0, "side by side"), LOAD])
    assert texts(table) == ["alone", "under load"]
    assert texts(table, len(table.columns) - 1) == [
        "side by side",
        "1,000 objects archived (125/s), 4,000 retrieved (500/s), 3 errors: 4 clients",
    ]
    assert [cell.number for cell in table.rows[1][1:4]] == [0, 1, 1]  # passed, deviated, failed


def test_matrix_compares_platforms_in_rounds_that_differ() -> None:
    other = [dataclasses.replace(each, verdict="PASS") for each in CHECKS if each.id != "VER-08"]
    table = matrix_table({"one": CHECKS, "other": other})
    assert texts(table) == ["DEL-01", "DEL-02", "DEL-02 under load", "DEL-03", "VER-08 after restart"]
    assert [cell.text for cell in table.rows[2][2:]] == ["FAIL S1", "PASS"]
    assert [cell.text for cell in table.rows[4][2:]] == ["NOT OFFERED", "–"]


def test_recorded_severity_of_finding_is_used_in_all_documents(make_database: Callable[..., RunDatabase]) -> None:
    found = dataclasses.replace(check("RAC-01", "FAIL"), severity="S3")
    database = make_database()
    database.add_check(found, [])
    assert texts(findings_table([found]), 1) == ["S3"]
    assert [cell.text for cell in matrix_table({"one": [found]}).rows[0][2:]] == ["FAIL S3"]
    assert worm_document(PLATFORM, "run", [found], [])["violations"] == 0
    failure = ElementTree.fromstring(junit_xml(read_run(database.path))).find("*/testcase/failure")
    assert failure is not None
    assert failure.get("type") == "S3"


def test_reports_name_source_of_expected_behaviour(make_database: Callable[..., RunDatabase], tmp_path: Path) -> None:
    sourced = dataclasses.replace(check("DEL-02", "DEVIATION"), source="403 AccessDenied: a page, https://a.example")
    database = make_database()
    for each in (sourced, check("CLK-10", "DEVIATION")):
        database.add_check(each, [])
    for path in write_worm_report(read_run(database.path), tmp_path / "report"):
        assert "403 AccessDenied: a page, https://a.example" in path.read_text()
        assert "none: only expected" in path.read_text()
    summary = make_evidence(read_run(database.path))["parts"]["checks/DEL-02"]
    assert summary["check"]["source"] == sourced.source


def test_check_document_without_source_is_readable() -> None:
    document = dataclasses.asdict(check("DEL-02", "PASS"))
    del document["source"]
    assert undamaged(CheckRecord, document) == check("DEL-02", "PASS")


def test_violation_under_load_is_counted() -> None:
    document = worm_document(PLATFORM, "run", CHECKS, [LOAD])
    assert document["violations"] == 1
    assert document["rounds"][0]["objects_archived"] == 1000
    assert {each["round"] for each in document["checks"]} == {"alone", "under load", "after restart"}


def test_report_and_evidence_include_rounds(kept: RunDatabase, tmp_path: Path) -> None:
    for path in write_worm_report(read_run(kept.path), tmp_path / "report"):
        assert "1,000 objects archived (125/s)" in path.read_text()
        assert "DEL-02 under load" in path.read_text()
    evidence = make_evidence(read_run(kept.path))
    assert {"checks/DEL-02", "checks/DEL-02 under load", "checks/VER-08 after restart"} <= evidence["parts"].keys()
    write_evidence(evidence, tmp_path / "evidence.json")
    assert verify_evidence(tmp_path / "evidence.json")["sha256"] == evidence["sha256"]
