"""The percent, times and matrix forms reproduce published tables; forced comparisons are marked in all of them."""

from __future__ import annotations

import json
from functools import partial
from importlib import resources
from typing import Any

import pytest

from results.comparison.compare import Comparison, compare_runs
from results.comparison.forms import matrix_table, percent_table, times_table
from results.comparison.tables import FORMS, comparison_tables
from results.table import Table
from results.text import render_csv, render_markdown, render_text
from tests.results.comparison.compared_runs import CELL, MakeResult, MakeRun, measured_run

LARGE = ("archive", 1 << 20, 25)


@pytest.fixture
def make_run(make_result: MakeResult) -> MakeRun:
    return partial(measured_run, make_result)


def published() -> dict[str, Any]:
    text = resources.files("results").joinpath("reference", "mixed_workload.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def column(table: Table, name: str, unit: str | None = None) -> list[str]:
    """Return the texts of the first column with this heading."""
    index = next(i for i, each in enumerate(table.columns) if each.name == name and unit in (None, each.unit))
    return [row[index].text for row in table.rows]


def test_percent_form_prints_published_path_comparison(make_run: MakeRun) -> None:
    """ESG's Table 5 has only percentages, so the base is 100 in the unit of each workload."""
    study = published()["ds5020"]["path_comparison_table_5"]
    percents = study["candidate_percent_of_baseline"]
    keys = [("retrieve", 8192, count) for count in range(1, len(percents) + 1)]
    base = make_run(study["baseline"], dict.fromkeys(keys, (100.0,)), temperature="cold")
    candidate = {key: (percent,) for key, percent in zip(keys, percents.values(), strict=True)}
    comparison = compare_runs([base, make_run(study["candidate"], candidate, temperature="cold")])
    table = percent_table(comparison, "cell", 0)
    assert table.title == "DS3950 simulated, 4 host paths as percent of DS5020, 8 host paths"
    *cells, whole = column(table, study["candidate"], f"% of {study['baseline']}")
    assert cells == ["78.82", "92.16", "100.26", "99.39"]
    assert whole == "92.24"  # the geometric mean
    assert set(column(table, "verdict")) == {"no verdict"}  # one pair each


def test_times_form_reproduces_published_tiering_comparison(make_run: MakeRun) -> None:
    """ESG's report on the V7000: 3.21 times the mixed I/O, 33% faster e-mail and 43% faster database response."""
    study = published()["storwize_v7000"]["tiering_comparison"]
    email, database = ("retrieve", 8192, 1), ("retrieve", 8192, 2)
    ratios = {
        email: 1 / (1 - study["email_response_time_percent_faster"] / 100),
        database: 1 / (1 - study["oltp_response_time_percent_faster"] / 100),
        ("archive", 8192, 1): study["mixed_io_ratio"],
    }
    disks = make_run("disks", dict.fromkeys(ratios, (100.0,)), temperature="cold")
    flash = make_run("flash", {key: (100.0 * ratio,) for key, ratio in ratios.items()}, temperature="cold")
    table = times_table(compare_runs([disks, flash]), "cell", 0)  # synthetic results: response time is 1 / rate
    assert column(table, "objects/s")[:-1] == ["3.21 times", "1.49 times", "1.75 times"]
    assert column(table, "response")[1:-1] == ["33% faster", "43% faster"]


def test_longer_response_is_slower_with_negative_interval(make_run: MakeRun) -> None:
    table = times_table(compare_runs([make_run("a", (100, 101, 102)), make_run("b", (80, 82, 81))]), "cell", 0)
    row = [cell.text for cell in table.rows[0][4:]]
    assert row == ["0.80 times", "0.78 to 0.82", "worse", "25% slower", "-28 to -21", "worse"]
    assert table.rows[0][7].number == pytest.approx(-24.7, abs=0.1)


def test_matrix_form_has_sizes_in_rows_and_objects_in_columns(make_run: MakeRun) -> None:
    small, alone = ("archive", 8192, 1), (100, 100.5, 101)
    base = make_run("a", {CELL: alone, LARGE: alone, small: alone})
    other = make_run("b", {CELL: (200, 202, 201), LARGE: (50, 51, 50), small: alone})
    third = make_run("c", {CELL: (300, 301, 302)})
    table = matrix_table(compare_runs([base, other, third]), "cell")
    assert [each.name for each in table.columns[4:]] == ["1", "25"]
    assert [[cell.text for cell in row[2:]] for row in table.rows] == [
        ["8KiB", "b", "1.00", "2.00"], ["8KiB", "c", "–", "3.00"], ["1MiB", "b", "–", "0.50"], ["1MiB", "c", "–", "–"],
    ]  # fmt: skip
    assert table.rows[0][4].notes == ("no difference shown",)
    assert table.rows[0][5].notes == ()


@pytest.fixture
def forced(make_run: MakeRun) -> Comparison:
    rates = (100, 101, 102)
    return compare_runs(
        [
            make_run("a", rates, settings={"checksum": "crc32c", "verify": "all"}),
            make_run("b", [2 * rate for rate in rates], settings={"checksum": "none", "verify": "none"}),
        ],
        force=True,
    )


def test_forced_comparison_is_marked_in_every_table(forced: Comparison) -> None:
    *tables, disclosed = comparison_tables(forced, FORMS)
    assert disclosed.name == "disclosure"
    assert [table.name for table in tables] == [
        "platforms", "comparison", "percent-1", "times-1", "matrix", "differences-1", "latencies-1",
    ]  # fmt: skip
    for table in tables:
        assert table.caption.startswith("FORCED, no verdicts: checksum differs (a: crc32c; b: none), and a checksum is")
        assert "; verification of retrieved objects differs" in table.caption
        for text in (render_text(table), render_markdown(table)):
            assert "FORCED" in text
        assert render_csv(table)


def test_like_runs_compared_with_force_have_no_forced_mark(make_run: MakeRun) -> None:
    comparison = compare_runs([make_run("a"), make_run("b")], force=True)
    assert comparison.forced == ()
    assert not any("FORCED" in render_text(table) for table in comparison_tables(comparison, FORMS))
