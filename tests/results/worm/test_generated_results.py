"""Test how results of generated sequences are counted, and how expected failures name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from archiver.values.errors import UsageError
from results.recorded.model import CheckRecord
from results.worm.expected import read_expected
from results.worm.findings import CheckCatalogue, checks_tried

ENTRY = '[[expected]]\ncheck = "{}"\nreason = "known"\nlink = "https://tracker.example.org/1"\n'


def record(identifier: str) -> CheckRecord:
    return CheckRecord(
        id=identifier, family="any", tries="", must="", answer="", rules=("R1",), severity="S1", verdict="PASS",
        reason="", started_at=0.0, seconds=0.0, round="alone",
    )  # fmt: skip


def test_generated_sequences_are_not_counted_as_checks() -> None:
    checks = [record("DEL-02"), record("GEN-DELETE"), record("GEN-STORE-0a1b2c")]
    assert [each.is_generated for each in checks] == [False, True, True]
    assert checks_tried(checks, CheckCatalogue(179, frozenset({"R1"}))) == "1 of 179 checks"


def test_an_expected_failure_may_be_a_generated_finding(tmp_path: Path) -> None:
    known = ["DEL-02", "GEN-DELETE"]
    path = tmp_path / "expected.toml"
    path.write_text(ENTRY.format("GEN-DELETE-0a1b2c"))
    assert list(read_expected(path, known)) == ["GEN-DELETE-0a1b2c"]
    path.write_text(ENTRY.format("GEN-ANYTHING-0a1b2c"))
    with pytest.raises(UsageError, match="no check 'GEN-ANYTHING-0a1b2c'"):
        read_expected(path, known)
