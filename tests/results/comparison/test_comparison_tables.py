"""The matrix of ratios, and forced comparisons: they are marked in every table."""

from __future__ import annotations

from functools import partial

import pytest

from results.comparison.compare import Comparison, compare_runs
from results.comparison.ratio_tables import matrix_table
from results.comparison.tables import comparison_tables
from results.document.text import render_csv, render_markdown, render_text
from tests.results.comparison.compared_runs import CELL, MakeResult, MakeRun, measured_run

LARGE = ("archive", 1 << 20, 25)


@pytest.fixture
def make_run(make_result: MakeResult) -> MakeRun:
    return partial(measured_run, make_result)


def test_matrix_has_sizes_in_rows_and_objects_in_columns(make_run: MakeRun) -> None:
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
    *tables, disclosed = comparison_tables(forced).all
    assert disclosed.name == "disclosure"
    assert [table.name for table in tables] == [
        "platforms", "comparison", "matrix", "differences-1", "latencies-1",
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
    assert not any("FORCED" in render_text(table) for table in comparison_tables(comparison).all)
