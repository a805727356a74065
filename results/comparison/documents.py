"""A folder of documents of one comparison: comparison.md, .json, .csv, .svg and .png, and workloads.csv.

Everything follows from the comparison, so the same runs give the same bytes. The figure is a forest plot: every cell's
ratio with its interval on one logarithmic scale. Readers see direction, size and confidence at once.
"""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from archiver.values.sizes import format_size
from results.comparison.compare import Comparison
from results.comparison.contract import comparison_document
from results.comparison.gate import Judgement, gate_sentences
from results.comparison.ratio_tables import listed, study_units
from results.comparison.ratios import Ratio
from results.comparison.tables import (
    comparison_tables,
    doubt_sentences,
    forced_sentence,
    overall_sentences,
)
from results.document.drawing import COLOURS, GREY, MARKERS, STYLE, png_bytes, svg_bytes
from results.document.files import json_text, write_files
from results.document.text import escape_markdown, render_markdown
from results.figures.log_axes import label_log_axis
from results.measures.metrics import CELL_LATENCIES, RATE
from results.measures.units import UnitKey

_WIDTH_INCHES = 10.0
_ROW_INCHES = 0.2
_LETTER_INCHES = 0.075  # upper bound of the mean width of a character in a label
_EDGE_INCHES = 1.9  # title, axis, legend and caption
_LEGEND_INCHES = 0.6
_BETWEEN_INCHES = 0.85  # a panel's axis, its name, and the title of the panel below
_COLUMNS_MAX = 2


def write_comparison(folder: Path, comparison: Comparison, judgements: Sequence[Judgement] = ()) -> list[Path]:
    """Write every document into ``folder`` and return their paths, comparison.md first.

    The function creates the folder if necessary. It writes the documents of cells and of workloads only if there are
    any. Files of the same names are replaced. Raises ResultsError if the folder cannot be written.
    """
    figure = comparison_figure(comparison)
    contents = {
        "comparison.md": comparison_markdown(comparison, judgements).encode(),
        "comparison.json": json_text(comparison_document(comparison, judgements)).encode(),
        **{name: text.encode() for name, text in _csv_files(comparison).items()},
        "comparison.svg": svg_bytes(figure),
        "comparison.png": png_bytes(figure),
    }
    return write_files(folder, contents)


def comparison_markdown(comparison: Comparison, judgements: Sequence[Judgement] = ()) -> str:
    """Return the comparison as Markdown: sentences, conditions, warnings, the figure, and all tables."""
    platforms, *tables = comparison_tables(comparison).all
    parts = [
        f"# {listed(comparison)} compared",
        render_markdown(platforms).rstrip("\n"),
        f"## Over all {comparison.overall[0].of}s",
    ]
    parts.append(_list(overall_sentences(comparison)))
    if judgements:
        parts += ["## Conditions", _list(gate_sentences(judgements))]
    doubts = doubt_sentences(comparison)
    if doubts:
        parts += ["## Warnings", _list(doubts)]
    parts += [
        f"## {' and '.join(_what(comparison)).capitalize()}",
        "[![Ratios with their intervals](comparison.svg)](comparison.png)",
    ]
    parts += [render_markdown(table).rstrip("\n") for table in tables]
    links = [f"[as CSV]({name})" for name in _csv_files(comparison)]
    parts.append(f"The same {', '.join(links)}, [as JSON](comparison.json)")
    return "\n\n".join(parts) + "\n"


def comparison_csv(comparison: Comparison) -> str:
    """Return one line per cell and platform after the first, with the JSON's names."""
    document = comparison_document(comparison)
    return _csv(
        [
            _csv_line(cell, index, document["first"])
            for cell in document["cells"]
            for index in range(len(cell["ratios"]))
        ]
    )


def workloads_csv(comparison: Comparison) -> str:
    """Return one line per workload, measure and platform after the first, with the JSON's names."""
    document = comparison_document(comparison)
    return _csv(
        [
            _workload_line(unit, name, ratio, document["first"])
            for unit in document["workloads"]
            for name, ratios in unit["ratios"].items()
            for ratio in ratios
        ]
    )


def comparison_figure(comparison: Comparison) -> Figure:
    """Draw a panel per operation, or for workloads per scale, in two columns.

    A row is a cell or a workload with the ratios of all further platforms. The scale is logarithmic, with 1 marked.
    """
    panels = _panels(comparison)
    columns = min(len(panels), _COLUMNS_MAX)
    lines = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    tallest = [max(_places(panel.rows)[-1] + 1 for panel in line) for line in lines]
    inches = [_ROW_INCHES * (rows + 1) for rows in tallest]
    height = _EDGE_INCHES + sum(inches) + _BETWEEN_INCHES * (len(lines) - 1) + 0.17 * len(_caption(comparison))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH_INCHES, height))
        grid = figure.subplots(len(lines), columns, sharex=True, squeeze=False, height_ratios=inches)
        for drawn, line, rows in zip(grid, lines, tallest, strict=True):
            for axes, panel in zip(drawn, line, strict=False):
                _draw_forest(axes, panel.rows, len(comparison.overall))
                axes.set_ylim(rows + 0.2, -1.0)
                axes.set_title(panel.title, loc="left", fontsize=10, color=GREY)
                axes.set_xlabel(f"{panel.quantity}, ratio to {comparison.sides[0].label} (log scale)")
                axes.tick_params(axis="x", labelbottom=True)
            for axes in drawn[len(line) :]:
                axes.remove()
        _scale_ratios(grid[0, 0])
        _frame_comparison(figure, comparison, grid[0, 0], inches)
    return figure


@dataclass(frozen=True, slots=True)
class _ForestRow:
    """One line of a forest plot."""

    label: str
    group: object  # rows of different groups have a gap of half a row
    ratios: tuple[Ratio | None, ...]


@dataclass(frozen=True, slots=True)
class _ForestPanel:
    title: str
    quantity: str
    rows: list[_ForestRow]


def _panels(comparison: Comparison) -> list[_ForestPanel]:
    """Return the cells by operation, then the workloads by scale."""
    panels: dict[str, _ForestPanel] = {}
    for cell in comparison.cells:
        key = cell.key
        clients = f", {key.clients} clients" if key.clients > 1 else ""
        label = f"{format_size(key.object_bytes)} × {key.objects_per_session}{clients}"
        row = _ForestRow(label, key.object_bytes, cell.ratios[RATE.name])
        panels.setdefault(key.operation, _ForestPanel(key.operation, RATE.words, [])).rows.append(row)
    for unit in study_units(comparison):
        title = _scale_words(unit.key, comparison.scale_name)
        operation = f": {unit.key.operation}" if unit.key.operation else ""
        row = _ForestRow(f"{unit.key.workload}{operation}", unit.key.workload, unit.ratios[unit.main_measure.name])
        panels.setdefault(title, _ForestPanel(title, "rate", [])).rows.append(row)
    return list(panels.values())


def _scale_words(key: UnitKey, scale_name: str) -> str:
    return key.phase if key.scale is None else f"{key.phase}, {key.scale:g} {scale_name}"


def _what(comparison: Comparison) -> list[str]:
    """Return the kinds of units that are compared."""
    found = (("cell by cell", comparison.cells), ("workload by workload", comparison.workloads))
    return [words for words, units in found if units]


def _csv_files(comparison: Comparison) -> dict[str, str]:
    return {
        **({"comparison.csv": comparison_csv(comparison)} if comparison.cells else {}),
        **({"workloads.csv": workloads_csv(comparison)} if comparison.workloads else {}),
    }


def _csv(lines: Sequence[dict[str, Any]]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def _workload_line(unit: dict[str, Any], measure: str, ratio: dict[str, Any], first: str) -> dict[str, Any]:
    measured = {each["platform"]: each for each in unit["measured"]}
    return {
        **{name: unit[name] for name in ("phase", "scale", "workload", "operation", "clients")},
        "measure": measure,
        "first": first,
        "first_value": measured[first].get(measure),
        "platform": ratio["platform"],
        "value": measured[ratio["platform"]].get(measure),
        **ratio,
        "notes": "; ".join(ratio["notes"]),
    }


def _list(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {escape_markdown(sentence)}" for sentence in sentences)


def _csv_line(cell: dict[str, Any], index: int, first: str) -> dict[str, Any]:
    ratio = cell["ratios"][index]
    rates = {rate["platform"]: rate for rate in cell["rates"]}
    ours, theirs = rates[first], rates[ratio["platform"]]
    notes = [
        *(f"{first}: {note}" for note in ours["notes"]),
        *(f"{ratio['platform']}: {note}" for note in theirs["notes"]),
        *ratio["notes"],
    ]
    names = ("operation", "object_bytes", "objects_per_session", "clients")
    units = ("objects_per_second", "megabytes_per_second")
    return {
        **{name: cell[name] for name in names},
        "first": first,
        **{f"first_{unit}": ours[unit] for unit in units},
        "platform": ratio["platform"],
        **{unit: theirs[unit] for unit in units},
        **ratio,
        **_csv_latencies(cell, index, ours, theirs),
        "notes": "; ".join(notes),
    }


def _csv_latencies(cell: dict[str, Any], index: int, ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    line: dict[str, Any] = {}
    for name in (measure.name for measure in CELL_LATENCIES):
        ratio = cell["latencies"][name][index]
        line |= {f"first_{name}": ours[name], name: theirs[name]}
        line |= {f"{name}_{part}": ratio[part] for part in ("ratio", "low", "high", "adjusted_p", "verdict")}
    return line


def _places(rows: Sequence[_ForestRow]) -> list[float]:
    """Return the position of each row from top to bottom, with half a row between groups."""
    places, place = [], 0.0
    for index, row in enumerate(rows):
        if index and row.group != rows[index - 1].group:
            place += 0.5
        places.append(place)
        place += 1
    return places


def _draw_forest(axes: Axes, rows: Sequence[_ForestRow], others: int) -> None:
    places = _places(rows)
    axes.axvline(1, color=GREY, linewidth=0.8)
    for index in range(others):
        shift = (index - (others - 1) / 2) * 0.6 / others
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        for place, row in zip(places, rows, strict=True):
            ratio = row.ratios[index]
            if ratio is not None:
                _draw_ratio(axes, place + shift, ratio, colour, marker)
    axes.set_yticks(places, [row.label for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)


def _draw_ratio(axes: Axes, place: float, ratio: Ratio, colour: str, marker: str) -> None:
    """Draw a ratio: filled for a verdict of better or worse, hollow otherwise, grey if no verdict is possible."""
    if ratio.ratio is None:
        return
    if ratio.verdict == "no verdict":
        colour = "#999999"
    if ratio.low is not None and ratio.high is not None:
        axes.plot([ratio.low, ratio.high], [place, place], color=colour, linewidth=1.6, solid_capstyle="butt")
    filled = ratio.verdict in ("better", "worse")
    axes.plot(
        [ratio.ratio],
        [place],
        marker=marker,
        markersize=5.5,
        color=colour,
        markerfacecolor=colour if filled else "white",
    )


def _scale_ratios(axes: Axes) -> None:
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    low, high = min(low, 0.8), max(high, 1.25)
    axes.set_xlim(low, high)
    label_log_axis(axes.xaxis)


def _frame_comparison(figure: Figure, comparison: Comparison, axes: Axes, inches: Sequence[float]) -> None:
    """Set the title above, and legend and caption below."""
    height = figure.get_figheight()
    lines = _caption(comparison)
    below = 0.17 * len(lines)
    for index in range(len(comparison.overall)):
        style: dict[str, Any] = {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}
        axes.plot([], [], linewidth=1.6, markersize=5.5, label=comparison.pair(index), **style)
    axes.plot([], [], "o", color=GREY, label="better or worse", linestyle="none")
    axes.plot([], [], "o", color=GREY, markerfacecolor="white", label="no difference shown", linestyle="none")
    axes.plot([], [], "o", color="#999999", markerfacecolor="white", label="no verdict (grey)", linestyle="-")
    figure.legend(
        *axes.get_legend_handles_labels(),
        loc="lower left",
        bbox_to_anchor=(0.008, (0.15 + below) / height),
        ncols=5,
        frameon=False,
        fontsize=8.5,
    )
    drawn = _panels(comparison)
    panels = min(len(drawn), _COLUMNS_MAX)
    label = 0.3 + _LETTER_INCHES * max(len(row.label) for panel in drawn for row in panel.rows)
    figure.subplots_adjust(
        left=label / _WIDTH_INCHES,
        right=0.985,
        top=1 - 0.72 / height,
        bottom=(0.45 + _LEGEND_INCHES + below) / height,
        hspace=_BETWEEN_INCHES * len(inches) / sum(inches),
        wspace=label / (0.985 * _WIDTH_INCHES / panels - label),
    )
    figure.suptitle(
        f"{listed(comparison)} compared",
        x=0.012,
        y=1 - 0.15 / height,
        horizontalalignment="left",
        fontsize=13,
        fontweight="bold",
    )
    figure.text(
        0.012, 0.1 / height, "\n".join(lines), fontsize=8, color=GREY, verticalalignment="bottom", linespacing=1.4
    )


def _caption(comparison: Comparison) -> list[str]:
    runs = "; ".join(f"{side.label}: {', '.join(run.id for run in side.runs)}" for side in comparison.sides)
    forced = [sentence] if (sentence := forced_sentence(comparison)) else []
    rows = ["object size × objects per session"] if comparison.cells else []
    rows += (
        ["workloads and what they do, large objects and all together by MB/s, small ones by objects/s"]
        if comparison.workloads
        else []
    )
    sentences = [
        *forced,
        *overall_sentences(comparison),
        f"Rows: {'; '.join(rows)}; bars: 95% intervals over pairs of repetitions. Runs: {runs}.",
    ]
    return [line for sentence in sentences for line in textwrap.wrap(sentence, 150)]
