"""A report as one HTML file with every figure, style and script, which loads nothing else.

The page is complete without its script, which only adds sorting and filtering to existing tables. The template escapes
all text from a platform, a file or a user.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from results.report.contents import Drawing, Report, Section
from results.report.distributions import BINS, HEIGHT_MAX, Distribution
from results.report.inline_figures import figure_csv, inline_svg
from results.summary.key_figures import KeyFinding
from results.table import KEY_COLUMNS, Cell, Table, filled
from results.tables.stored_times import StoredTimes
from results.text import render_csv
from results.units import Unit, UnitKey

STEP = 5  # width of a bin of a distribution
_CURVE_WIDTH, _CURVE_HEIGHT = BINS * STEP, HEIGHT_MAX
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def report_page(report: Report) -> str:
    """Return the page of a report. The same report gives the same text."""
    anchors = {cell.key: f"cell-{place}" for place, cell in enumerate(report.cells, 1)}
    shown = {key: name for key, name in anchors.items() if key in report.distributions.cells}
    distributions = _distributions(report, shown)
    return page(
        "report.html",
        report=report,
        main=drawing_view(report.main) if report.main is not None else None,
        sections=[_section(section, shown, distributions) for section in report.sections],
    )


def comparison_page(
    title: str, kind: str, answers: Sequence[str], findings: Sequence[KeyFinding], sections: Sequence[Section]
) -> str:
    """Return the page of a comparison: one answer for each platform after the first, then its findings and sections."""
    views = [_section(section, {}) for section in sections]
    return page("comparison.html", title=title, kind=kind, answers=answers, findings=findings, sections=views)


def page(template: str, **values: Any) -> str:
    """Return a page of this package's templates, with the common style and script."""
    text = _environment().get_template(template).render(style=_text("page.css"), script=_text("page.js"), **values)
    return text.rstrip("\n") + "\n"


def table_view(table: Table, anchors: Mapping[UnitKey, str]) -> dict[str, Any]:
    """Return the template's values of a table."""
    letters = {note: _letter(place) for place, note in enumerate(table.notes)}
    labels = sum(column.label for column in table.columns)
    return {
        "table": table,
        "name": table.name,
        "labels": labels,
        "kinds": [_kind(table, place) for place in range(len(table.columns))],
        "rows": [[_cell_view(cell, letters, anchors) for cell in row] for row in table.rows],
        "notes": [(letter, note) for note, letter in letters.items()],
        "csv": data_uri("text/csv", render_csv(table)),
    }


def drawing_view(drawing: Drawing) -> dict[str, Any]:
    """Return the template's values of a figure."""
    return {
        "name": drawing.name,
        "number": "".join(re.findall(r"^figure-(\d+)", drawing.name)),  # empty: the main figure
        "title": drawing.figure.get_suptitle(),
        "svg": inline_svg(drawing.name, drawing.figure),
        "table": drawing.table,
        "note": drawing.note,
        "csv": data_uri("text/csv", figure_csv(drawing.figure)),
    }


def data_uri(kind: str, text: str) -> str:
    """Return a link that contains its target."""
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


def _section(
    section: Section, anchors: Mapping[UnitKey, str], distributions: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "section": section,
        "drawings": [drawing_view(drawing) for drawing in section.drawings],
        "settings": [table_view(table, anchors) for table in section.settings],
        "tables": [table_view(table, anchors) for table in section.tables],
        "further_drawings": [drawing_view(drawing) for drawing in section.further_drawings],
        "further_tables": [table_view(table, anchors) for table in section.further_tables],
        "further": " and ".join(
            f"{count} further {word}{'s' if count > 1 else ''}"
            for word, count in (("figure", len(section.further_drawings)), ("table", len(section.further_tables)))
            if count
        ),
        "distributions": distributions if section.has_distributions else None,
    }


def _distributions(report: Report, anchors: Mapping[UnitKey, str]) -> dict[str, Any] | None:
    """Return one row for each cell: its labels, percentiles and curve, and the scale that all curves share.

    None if no cell has a distribution.
    """
    distributions = report.distributions
    if not distributions.cells:
        return None
    span = distributions.last_decade - distributions.first_decade
    return {
        "width": _CURVE_WIDTH,
        "height": _CURVE_HEIGHT,
        "decades": [
            ((decade - distributions.first_decade) * _CURVE_WIDTH / span, _milliseconds(decade))
            for decade in distributions.decades
        ],
        "rows": [
            {
                "anchor": anchors[cell.key],
                "labels": filled(KEY_COLUMNS, cell.key),
                "times": _percentiles(cell, report.times),
                "objects": distributions.cells[cell.key].objects,
                "path": _path(distributions.cells[cell.key]),
            }
            for cell in report.cells
            if cell.key in distributions.cells
        ],
    }


def _percentiles(cell: Unit, times: StoredTimes) -> list[str]:
    """Return p50, p90, p99 and the maximum over all repetitions."""
    found = times.over("object_service", cell.results)
    return [f"{value:,.3f}" for value in (found.p50, found.p90, found.p99, found.max)] if found else []


def _path(distribution: Distribution) -> str:
    """Return steps: a bin is level over its width, and empty bins at the ends are not drawn."""
    heights = distribution.heights
    first = next(place for place, height in enumerate(heights) if height)
    last = max(place for place, height in enumerate(heights) if height)
    path, level = [f"M{first * STEP} {_CURVE_HEIGHT}"], 0
    for place in range(first, last + 1):
        if heights[place] != level:
            path.append(f"H{place * STEP}V{_CURVE_HEIGHT - heights[place]}")
            level = heights[place]
    return "".join([*path, f"H{(last + 1) * STEP}V{_CURVE_HEIGHT}Z"])


def _milliseconds(decade: int) -> str:
    """Return ``100 µs``, ``10 ms``, ``1 s`` for a power of ten of milliseconds."""
    if decade < 0:
        return f"{10 ** (decade + 3):g} µs"
    return f"{10**decade:g} ms" if decade < 3 else f"{10 ** (decade - 3):,g} s"


def _cell_view(
    cell: Cell, letters: Mapping[str, str], anchors: Mapping[UnitKey, str]
) -> tuple[str, str, list[str], str]:
    """Return text, the number to sort by, the letters of its notes, and the distribution that it links to."""
    number = "" if cell.number is None else f"{cell.number:.10g}"
    return cell.text, number, [letters[note] for note in cell.notes], anchors.get(cell.of, "") if cell.of else ""


def _kind(table: Table, place: int) -> str:
    """Return the kind of a column.

    ``label`` and ``words`` are left-aligned, ``words`` may be wrapped, ``number`` is right-aligned.
    """
    column = table.columns[place]
    if column.words:
        return "words"
    return "label" if column.label and all(row[place].number is None for row in table.rows) else "number"


def _letter(place: int) -> str:
    return _LETTERS[place % len(_LETTERS)] * (place // len(_LETTERS) + 1)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("results.report", "pages"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )


def _text(name: str) -> str:
    return files("results.report").joinpath("pages", name).read_text(encoding="utf-8")
