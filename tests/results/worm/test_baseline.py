"""Conformance runs compared with earlier runs and with expected failures: new findings, and fixed ("mended") ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from archiver.values.errors import ArchiverError, ResultsError, UsageError
from results.document.files import json_text
from results.recorded.database import RunDatabase
from results.recorded.model import CheckRecord
from results.recorded.run import read_run
from results.report.junit import junit_xml
from results.worm.baseline import Baseline, baseline_for, compare_with, read_baselines
from results.worm.expected import read_expected
from results.worm.findings import worm_document
from results.worm.judgement import judge
from tests.results.watched_run import PLATFORM

ENTRY = {"check": "DEL-01", "reason": "not before version 2", "link": "https://tracker.example/1"}


def check(identifier: str, verdict: str, severity: str = "S1", round_: str = "alone") -> CheckRecord:
    return CheckRecord(
        identifier, "Family", "what is tried", "refuse", "403", ("R1",), severity, verdict, "seen", 1.0, 0.1, round_
    )


def changes(before: list[CheckRecord], now: list[CheckRecord], *expected: str) -> tuple[list[str], list[str]]:
    """Return the names of new findings, and of mended ones."""
    found = compare_with(Baseline("run-1", "embedded", before), now, expected)
    return [each.now.name for each in found.new], [each.now.name for each in found.mended]


@pytest.mark.parametrize(
    ("before", "now", "new", "mended"),
    [
        (("PASS", "S1"), ("FAIL", "S1"), True, False),
        (("FAIL", "S1"), ("FAIL", "S1"), False, False),
        (("FAIL", "S3"), ("FAIL", "S1"), True, False),
        (("FAIL", "S1"), ("FAIL", "S3"), False, True),
        (("DEVIATION", "S1"), ("FAIL", "S4"), True, False),
        (("DEVIATION", "S1"), ("PASS", "S1"), False, True),
        (("NOT TRIED", "S1"), ("DEVIATION", "S1"), True, False),
        (("FAIL", "S1"), ("INCONCLUSIVE", "S1"), False, False),
        (("FAIL", "S1"), ("NOT OFFERED", "S1"), False, False),
    ],
)
def test_more_serious_finding_is_new_and_less_serious_is_mended(
    before: tuple[str, str], now: tuple[str, str], new: bool, mended: bool
) -> None:
    found = changes([check("DEL-01", *before)], [check("DEL-01", *now)])
    assert found == (["DEL-01"] * new, ["DEL-01"] * mended)


def test_checks_are_compared_per_round_and_unmatched_findings_are_new() -> None:
    before = [check("DEL-01", "FAIL")]
    now = [check("DEL-01", "FAIL"), check("DEL-01", "FAIL", round_="under load"), check("DEL-02", "DEVIATION")]
    assert changes(before, now) == (["DEL-01 under load", "DEL-02"], [])
    assert changes(before, now, "DEL-01") == (["DEL-02"], [])


@pytest.fixture
def kept(make_database: Callable[..., RunDatabase]) -> RunDatabase:
    database = make_database()
    for each in (check("DEL-01", "FAIL"), check("DEL-02", "PASS")):
        database.add_check(each, [])
    return database


def test_baseline_is_read_from_database_or_json_document(kept: RunDatabase, tmp_path: Path) -> None:
    [of_run] = read_baselines(kept.path)
    document = worm_document(PLATFORM, of_run.run, kept.checks(), [])
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_text(json_text(document))
    two.write_text(json_text({"platforms": [document, {**document, "platform": {"name": "other"}}]}))
    [of_file] = read_baselines(one)
    assert of_file.checks == of_run.checks == kept.checks()
    both = read_baselines(two)
    assert baseline_for("other", 2, both) == both[1]
    assert baseline_for("any name", 1, [of_file]) == of_file
    assert baseline_for("any name", 2, both) is None


@pytest.mark.parametrize("text", ["[]", "{}", "no JSON", '{"run": "a", "platform": {"name": "b"}, "checks": [{}]}'])
def test_baseline_that_is_no_run_document_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ResultsError):
        read_baselines(path)


def test_baseline_without_checks_is_refused(make_run: Callable[..., RunDatabase]) -> None:
    with pytest.raises(ResultsError, match="made no conformance checks"):
        read_baselines(make_run().path)


def expecting(database: RunDatabase, *entries: dict[str, str]) -> Any:
    run = database.run()
    return replace(run, settings={**run.settings, "expected": list(entries)})


def test_expected_failure_does_not_fail_run_and_passing_one_is_mended(kept: RunDatabase) -> None:
    checks = kept.checks()
    assert judge(kept.run(), checks, 1, None).fails
    judged = judge(expecting(kept, ENTRY, {**ENTRY, "check": "DEL-02"}, {**ENTRY, "check": "LH-01"}), checks, 1, None)
    assert not judged.fails
    assert judged.document["expected"] == [{**ENTRY, "mended": False}, {**ENTRY, "check": "DEL-02", "mended": True}]
    [table] = judged.tables
    assert [row[1].text for row in table.rows] == ["FAIL", "mended: remove it"]
    assert judge(expecting(kept, {**ENTRY, "check": "DEL-02"}), checks, 1, None).fails


def test_check_failing_in_one_round_is_not_mended(kept: RunDatabase) -> None:
    checks = [check("DEL-01", "PASS"), check("DEL-01", "FAIL", round_="under load")]
    assert judge(expecting(kept, ENTRY), checks, 1, None).document["expected"][0]["mended"] is False


def test_only_new_findings_fail_compared_with_baseline(kept: RunDatabase) -> None:
    before = [Baseline("run-1", "embedded", kept.checks())]
    assert not judge(kept.run(), kept.checks(), 1, before).fails
    now = [*kept.checks(), check("LH-01", "DEVIATION")]
    judged = judge(kept.run(), now, 1, before)
    assert judged.fails
    assert [each["check"] for each in judged.document["against"]["new"]] == ["LH-01"]
    assert not judge(expecting(kept, {**ENTRY, "check": "LH-01"}), now, 1, before).fails


def written(folder: Path, **changed: str | None) -> Path:
    entry = {name: value for name, value in {**ENTRY, **changed}.items() if value is not None}
    path = folder / "expected.toml"
    path.write_text("[[expected]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in entry.items()))
    return path


def test_expected_failures_are_read_by_check(tmp_path: Path) -> None:
    [(identifier, entry)] = read_expected(written(tmp_path), {"DEL-01"}).items()
    assert (identifier, entry.reason, entry.link) == ("DEL-01", ENTRY["reason"], ENTRY["link"])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"check": "DEL-99"}, "there is no check 'DEL-99'"),
        ({"reason": None}, "reason"),
        ({"reason": " "}, "DEL-01 has no reason"),
        ({"link": ""}, "DEL-01 has no link"),
        ({"until": "2027"}, "until"),
    ],
)
def test_invalid_expected_entry_is_refused(changed: dict[str, str | None], words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        read_expected(written(tmp_path, **changed), {"DEL-01"})


@pytest.mark.parametrize("text", ["[[expected]", "[[expected]]\ncheck = 1", "[[unexpected]]\n"])
def test_invalid_expected_file_is_refused_with_its_path(text: str, tmp_path: Path) -> None:
    path = tmp_path / "expected.toml"
    path.write_text(text)
    with pytest.raises(ArchiverError, match=r"expected\.toml"):
        read_expected(path, {"DEL-01"})


def test_junit_skips_expected_failures_with_their_reason(make_database: Callable[..., RunDatabase]) -> None:
    database = make_database(settings={"expected": [ENTRY]})
    database.add_check(check("DEL-01", "FAIL"), [])
    root = ElementTree.fromstring(junit_xml(read_run(database.path)))
    assert root.find(".//failure") is None
    [skipped] = root.iter("skipped")
    assert ENTRY["reason"] in skipped.attrib["message"]
    assert ENTRY["link"] in skipped.attrib["message"]
    assert "FAIL" in skipped.attrib["message"]
