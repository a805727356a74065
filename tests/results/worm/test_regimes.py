"""Other regulatory regimes: the checks that concern each provision, and their table in reports and documents."""

from __future__ import annotations

import re
from pathlib import Path

from archiver.worm.catalogue import catalogue
from results.document.table import Table
from results.recorded.model import CheckRecord
from results.worm.findings import DISCLAIMER
from results.worm.regimes import provisions, regime_table

PAGE = Path(__file__).parents[3] / "docs" / "conformance.md"


def check(identifier: str, verdict: str) -> CheckRecord:
    entry = catalogue()[identifier]
    return CheckRecord(
        identifier, entry.family, entry.tries, entry.must, "403", entry.rules, entry.severity, verdict, "seen", 1.0,
        0.1, "alone",
    )  # fmt: skip


def row(table: Table, source: str) -> dict[str, str]:
    (found,) = [each for each in table.rows if each[1].text.endswith(source)]
    return {column.name: cell.text for column, cell in zip(table.columns, found, strict=True)}


def test_every_provision_names_rules_or_checks_of_catalogue() -> None:
    known = catalogue()
    rules = {rule for entry in known.values() for rule in entry.rules}
    for provision in provisions():
        assert provision.rules or provision.checks, provision.source
        assert set(provision.rules) <= rules, provision.source
        assert set(provision.checks) <= set(known), provision.source


def test_provision_row_counts_its_checks() -> None:
    table = regime_table([check("DEL-02", "FAIL"), check("VER-01", "PASS"), check("GOV-04", "PASS")])
    retrievable = row(table, "11.10(c)")
    assert (retrievable["pass"], retrievable["fail"], retrievable["failed"]) == ("1", "1", "DEL-02")
    erasable = row(table, "Art. 17(1)")
    assert (erasable["pass"], erasable["fail"], erasable["failed"]) == ("1", "0", "–")
    assert row(table, "Art. 12(3)")["failed"] == "not tried in this run"
    assert DISCLAIMER in table.caption


def test_conflict_of_erasure_with_compliance_mode_is_stated() -> None:
    exception = row(regime_table([check("DEL-03", "PASS")]), "Art. 17(3)(b)")
    assert exception["pass"] == "1"
    assert "nobody can erase a record in COMPLIANCE mode before its date" in exception["what no check can show"]


def test_conformance_page_has_every_provision() -> None:
    shown = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \| [^|]+ \|$", PAGE.read_text(), re.MULTILINE)
    assert [(each.regime, each.source) for each in provisions()] == shown[2:]
