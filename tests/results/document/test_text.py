"""Tables as text, Markdown and CSV, compared character by character."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import pytest

from results.document.table import Cell, Column, Table
from results.document.text import render_csv, render_markdown, render_text
from results.recorded.model import Result
from results.tables.rates import build_tables

TABLE = Table(
    name="tiny",
    title="Tiny: objects/s",
    columns=(Column("object size", label=True), Column("", label=True), Column("1"), Column("250", "MB/s")),
    rows=(
        (Cell("8KiB"), Cell("measured"), Cell("27.03", 27.0312345), Cell("1,234.50", 1234.5, ("late", "odd"))),
        (Cell("8KiB"), Cell("published"), Cell("–"), Cell("833.33", 833.33, ("odd",))),
        (Cell("1MiB"), Cell("measured"), Cell("5.18", 5.18), Cell("–")),
    ),
    caption="One client.",
    across="objects per session",
)
WORDY = Table(
    name="wordy",
    title="Errors",
    columns=(Column("reason", label=True), Column("count"), Column("message", words=True)),
    rows=((Cell("403"), Cell("2", 2), Cell("Access | denied\nby the policy of the bucket that was named")),),
)


def test_table_renders_as_text() -> None:
    assert render_text(TABLE) == (
        "Tiny: objects/s\n"
        "One client.\n"
        "\n"
        "                    objects per session\n"
        "object                         250\n"
        "size                   1    (MB/s)\n"
        "────────────────────────────────────\n"
        "8KiB    measured   27.03  1,234.50ᵃᵇ\n"
        "        published      –    833.33ᵇ\n"
        "\n"
        "1MiB    measured    5.18         –\n"
        "────────────────────────────────────\n"
        "ᵃ late\n"
        "ᵇ odd\n"
    )


def test_long_texts_are_wrapped_to_width() -> None:
    assert render_text(WORDY, width=40) == (
        "Errors\n"
        "\n"
        "reason  count  message\n"
        "────────────────────────────────────────\n"
        "403         2  Access | denied by the\n"
        "               policy of the bucket that\n"
        "               was named\n"
        "────────────────────────────────────────\n"
    )


def test_table_renders_as_markdown() -> None:
    assert render_markdown(TABLE) == (
        "### Tiny: objects/s\n"
        "\n"
        "One client.\n"
        "\n"
        "| object size | objects per session: | 1 | 250 (MB/s) |\n"
        "| :--- | :--- | ---: | ---: |\n"
        "| 8KiB | measured | 27.03 | 1,234.50ᵃᵇ |\n"
        "| 8KiB | published | – | 833.33ᵇ |\n"
        "| 1MiB | measured | 5.18 | – |\n"
        "\n"
        "ᵃ late  \n"
        "ᵇ odd  \n"
    )


def test_markdown_cells_are_escaped() -> None:
    assert "| 403 | 2 | Access \\| denied by the policy of" in render_markdown(WORDY)


def test_table_renders_as_csv_with_full_numbers_and_notes() -> None:
    assert render_csv(TABLE) == (
        "object size,,1 objects per session,250 objects per session,notes\n"
        "8KiB,measured,27.0312345,1234.5,250 objects per session: late; 250 objects per session: odd\n"
        "8KiB,published,,833.33,250 objects per session: odd\n"
        "1MiB,measured,5.18,,\n"
    )


def test_csv_quotes_fields_that_need_quoting() -> None:
    assert list(csv.reader(io.StringIO(render_csv(WORDY)))) == [
        ["reason", "count", "message"],
        ["403", "2", WORDY.rows[0][2].text],
    ]


@pytest.mark.parametrize("width", [110, 120])
def test_tables_of_full_run_fit_terminal_width(full_run: list[Result], width: int) -> None:
    for table in build_tables(full_run):
        widest = max(render_text(table, width).splitlines(), key=len)
        assert len(widest) <= width, f"{table.name}: {widest}"


def test_numbers_of_a_column_are_aligned_despite_footnotes(make_result: Callable[..., Result]) -> None:
    """Footnote letters have their own space, so that 27.03 and 27.03ᵃ are aligned."""
    results = [make_result(objects_per_session=1, settled=False), make_result("archive", 16384, 1, position=2)]
    lines = render_text(build_tables(results)[1]).splitlines()
    ends = {line.index("500.00") for line in lines if "500.00" in line}
    assert len(ends) == 1
