"""The table of the audits of a run."""

from __future__ import annotations

from typing import Any

from results.document.text import render_text
from results.tables.audits import audits_table

GOOD: dict[str, Any] = {
    "started_at": 1_700_000_000.0, "objects": 1000, "population_objects": 1000, "objects_per_second": 812.4,
    "sample_seed": None, "counts": {}, "bounds": [], "remarks": [], "passed_over": [], "broken_off": None,
}  # fmt: skip


def row(**changes: Any) -> list[str]:
    (cells,) = audits_table([{**GOOD, **changes}]).rows
    return [cell.text for cell in cells]


def test_audit_of_all_objects_without_findings_has_row() -> None:
    assert row() == ["2023-11-14T22:13:20Z", "1,000", "all", "812", "none", "–"]


def test_sample_shows_population_and_bad_object_bound() -> None:
    bounds = [{"confidence_percent": 95, "bad_objects_max": 29}, {"confidence_percent": 99, "bad_objects_max": 45}]
    assert row(objects=100, sample_seed=5, bounds=bounds)[1:3] == ["100", "1,000"]
    assert row(objects=100, sample_seed=5, bounds=bounds)[5] == "29"


def test_findings_are_counted_by_kind_with_unaudited_objects() -> None:
    found = row(
        counts={"missing": 2, "damaged": 1_500},
        broken_off="the platform could not be reached any more",
        passed_over=[{"objects_max": 7}, {"objects_max": 3}],
    )[4]
    assert found == (
        "2 missing; 1,500 damaged; broken off: the platform could not be reached any more; up to 10 not audited"
    )


def test_remarks_are_footnotes() -> None:
    table = audits_table([{**GOOD, "remarks": ["no lock was compared: this credential may not see locks"]}])
    assert "ᵃ no lock was compared" in render_text(table)
