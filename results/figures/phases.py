"""The paper's Figures 1 to 5 of a run, with the published curves on the same scale for comparison.

A figure function takes results and returns a new matplotlib Figure without global state (no pyplot). The same results
give the same bytes: no date, no version, a fixed salt for the ids of an SVG.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator
from matplotlib.transforms import blended_transform_factory

from archiver.values.errors import ResultsError
from results.document.drawing import COLOURS, GREY, MARKERS, STYLE
from results.figures.log_axes import label_log_axis, plain_number
from results.figures.marks import draw_marks, mark_facts, rate_point
from results.measures.units import (
    NO_RESULTS,
    Quantity,
    Unit,
    UnitKey,
    object_sizes,
    parallel_cells,
    session_lengths,
    single_cells,
    temperatures,
)
from results.recorded.model import Result
from results.reference.published import NAME, dr550

_NAMES: dict[tuple[str, Quantity], str] = {
    ("archive", "objects_per_second"): "figure-1-archive-objects-per-second",
    ("retrieve", "objects_per_second"): "figure-2-retrieve-objects-per-second",
    ("archive", "megabytes_per_second"): "figure-3-archive-megabytes-per-second",
    ("retrieve", "megabytes_per_second"): "figure-4-retrieve-megabytes-per-second",
}
_BAR_INK = "#000000"  # of intervals over coloured bars
_AXES = {
    "objects_per_second": "objects per second (log scale)",
    "megabytes_per_second": "MB per second, 10⁶ bytes (log scale)",
}


@dataclass(frozen=True, slots=True)
class Caption:
    """Text below every figure of a run."""

    run: str
    platform: str
    shares_machine: bool = False  # client and server on one host: numbers for comparison, not capacity


def build_figures(results: Sequence[Result], caption: Caption) -> dict[str, Figure]:
    """Return every figure for which these results have data, by the stem of its file name, in the order of the paper.

    Raises ResultsError if there are no results.
    """
    if not results:
        raise ResultsError(NO_RESULTS)
    measured = {key.operation for key in single_cells(results)}
    figures = {
        name: rate_figure(results, operation, quantity, caption)
        for (operation, quantity), name in _NAMES.items()
        if operation in measured
    }
    for count in session_lengths(parallel_cells(results)):
        figures[f"figure-5-parallel-clients-{count}"] = parallel_figure(results, count, caption)
    return figures


def rate_figure(results: Sequence[Result], operation: str, quantity: Quantity, caption: Caption) -> Figure:
    """Return Figures 1 to 4: a rate by object size, a line per objects per session, and the published lines.

    Both panels share their axes; without a published rate of these cells there is one. MB/s are 10^6 bytes per second
    on both, the paper's too. A rate of zero has no place on a logarithmic scale and is omitted.
    """
    cells = {key: cell for key, cell in single_cells(results).items() if key.operation == operation}
    ours = {key: getattr(cell, quantity) for key, cell in cells.items()}
    theirs = {
        key: cell.objects_per_second * (1 if quantity == "objects_per_second" else key.object_bytes / 1e6)
        for key in cells
        if (cell := dr550().cells.get(key[:3]))
    }
    drawn = [("measured", ours), *([(f"published: {NAME}", theirs)] if theirs else [])]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 5.4))
        panels = figure.subplots(
            1,
            len(drawn),
            sharex=True,
            sharey=True,
            width_ratios=(1.6, 1)[: len(drawn)],
            squeeze=False,
            gridspec_kw={"wspace": 0.06},
        )[0]
        for axes, (title, rates) in zip(panels, drawn, strict=True):
            _draw_lines(axes, rates, session_lengths(cells), cells if rates is ours else {})
            axes.set_title(title, loc="left", fontsize=10, color=GREY)
            axes.set_xlabel("object size, KiB (log scale)")
        _scale_axes(panels[0], object_sizes(cells))
        label_y(panels[0], _AXES[quantity])
        place_legend(figure, panels[:1], "objects\nper session", upside_down=True)
        unit = "objects/s" if quantity == "objects_per_second" else "MB/s"
        warmth = f", {temperatures(cells.values())} data" if operation == "retrieve" else ""
        title = f"{operation.capitalize()}: {unit} by object size, one client{warmth}"
        _frame(figure, title, cells, caption)
    return figure


def parallel_figure(results: Sequence[Result], objects_per_session: int, caption: Caption) -> Figure:
    """Return Figure 5: MB/s by object size and parallel clients, and below it each rate relative to one client."""
    cells = {
        key: cell for key, cell in parallel_cells(results).items() if key.objects_per_session == objects_per_session
    }
    operations = sorted({key.operation for key in cells})
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 6.4))
        panels = figure.subplots(
            2,
            len(operations),
            sharex=True,
            sharey="row",
            squeeze=False,
            height_ratios=(1.5, 1),
            gridspec_kw={"wspace": 0.06, "hspace": 0.12},
        )
        for column, operation in enumerate(operations):
            _draw_bars(panels[0][column], panels[1][column], cells, operation)
        highest = max(cell.megabytes_per_second for cell in cells.values())
        if highest:  # wide intervals are cut, so that they do not flatten the bars
            panels[0][0].set_ylim(0, min(panels[0][0].get_ylim()[1], 2 * highest))
        label_y(panels[0][0], "MB per second, 10⁶ bytes")
        label_y(panels[1][0], "rate × one client's")
        place_legend(figure, panels.flat, "parallel\nclients")
        _frame(
            figure,
            f"Parallel clients: MB/s by object size, {objects_per_session} objects per session",
            cells,
            caption,
        )
    return figure


def _draw_lines(
    axes: Axes, rates: Mapping[UnitKey, float], counts: Sequence[int], cells: Mapping[UnitKey, Unit]
) -> None:
    """Draw one line per objects per session, with the marks of its cells.

    The lines of the paper's columns look the same in every run.
    """
    places = sorted({*counts, *(key[2] for key in dr550().cells)})
    for index, count in ((places.index(count), count) for count in counts):
        points = sorted((key.object_bytes, rate) for key, rate in rates.items() if key[2] == count and rate > 0)
        axes.plot(
            [size / 1024 for size, _ in points],
            [rate for _, rate in points],
            color=COLOURS[index % len(COLOURS)],
            marker=MARKERS[index % len(MARKERS)],
            markersize=5,
            linewidth=1.6,
            label=f"{count}",
        )
        marked = [
            rate_point(key.object_bytes / 1024, rates[key], cell)
            for key, cell in cells.items()
            if key.objects_per_session == count and rates[key] > 0
        ]
        draw_marks(axes, marked, COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)])


def _scale_axes(axes: Axes, object_bytes: Sequence[int]) -> None:
    kibibytes = [size / 1024 for size in object_bytes]
    axes.set_xscale("log", base=2)
    axes.set_xlim(kibibytes[0] / 1.25, kibibytes[-1] * 1.25)
    axes.set_xticks(kibibytes, [f"{size:g}" for size in kibibytes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yscale("log")
    label_log_axis(axes.yaxis)


def label_y(axes: Axes, text: str) -> None:
    """Put the label at the edge of the figure, however long the tick labels are."""
    axes.set_ylabel(text)
    figure = axes.get_figure(root=True)
    if figure:
        across = blended_transform_factory(figure.transFigure, axes.transAxes)
        axes.yaxis.set_label_coords(0.02, 0.5, transform=across)


def _draw_bars(rates: Axes, gains: Axes, cells: Mapping[UnitKey, Unit], operation: str) -> None:
    chosen = {key: cell for key, cell in cells.items() if key.operation == operation}
    groups = {size: place for place, size in enumerate(object_sizes(cells))}
    clients = sorted({key.clients for key in cells})
    width = 0.8 / len(clients)
    for index, number in enumerate(clients):
        bars = {key: cell for key, cell in chosen.items() if key.clients == number}
        shift = (index - (len(clients) - 1) / 2) * width
        style: dict[str, Any] = {
            "width": width * 0.92,
            "color": COLOURS[index % len(COLOURS)],
            "label": f"{number}",
        }
        places = [groups[key.object_bytes] + shift for key in bars]
        rates.bar(places, [cell.megabytes_per_second for cell in bars.values()], **style)
        marked = [
            rate_point(place, cell.megabytes_per_second, cell)
            for place, cell in zip(places, bars.values(), strict=True)
            if cell.megabytes_per_second
        ]
        draw_marks(rates, marked, _BAR_INK)
        alone = {key: chosen.get(key._replace(clients=1)) for key in bars}
        ratios = [
            cell.objects_per_second / base.objects_per_second
            if (base := alone[key]) and base.objects_per_second
            else 0.0
            for key, cell in bars.items()
        ]
        gains.bar(places, ratios, **style)
        quoted = {groups[key.object_bytes] + shift: gain for key in bars if (gain := dr550().improvement(*key[:4]))}
        if quoted:
            gains.plot(
                list(quoted),
                list(quoted.values()),
                "D",
                color="white",
                markeredgecolor="black",
                label="published",
            )
    gains.axhline(1, color=GREY, linewidth=0.8)
    gains.set_xticks(list(groups.values()), [f"{size / 1024:g}" for size in groups])
    margin = max(0.6, (5 - len(groups)) / 2)  # keeps the bars narrow if there are few sizes
    gains.set_xlim(-margin, len(groups) - 1 + margin)
    gains.set_xlabel("object size, KiB")
    heading = f"{operation}, {temperatures(chosen.values())} data" if operation == "retrieve" else operation
    rates.set_title(heading, loc="left", fontsize=10, color=GREY)
    for axes in (rates, gains):
        axes.grid(visible=False, axis="x")
        axes.yaxis.set_major_formatter(FuncFormatter(plain_number))


def place_legend(
    figure: Figure, panels: Iterable[Axes], title: str | None, *, upside_down: bool = False, left: float = 0.875
) -> None:
    """Place one legend for all panels to their right, in reverse order if the last line is highest."""
    entries = {
        label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        list(entries.values())[:: -1 if upside_down else 1],
        list(entries)[:: -1 if upside_down else 1],
        title=title,
        loc="center left",
        bbox_to_anchor=(left, 0.55),
        alignment="left",
        frameon=False,
    )


def _frame(figure: Figure, title: str, cells: Mapping[UnitKey, Unit], caption: Caption) -> None:
    """Set the title above, and the facts about these results below."""
    results = [result for cell in cells.values() for result in cell.results]
    facts = [
        f"{sum(result.objects for result in results):,} objects in"
        f" {sum(result.sessions for result in results):,} sessions",
        f"retention {', '.join(sorted({result.retention_mode for result in results}))}",
        *mark_facts(cells.values()),
    ]
    retrieved = [cell for cell in cells.values() if cell.key.operation == "retrieve"]
    if retrieved:
        facts.append(f"retrieved data: {temperatures(retrieved)}")
    set_frame(figure, title, facts, caption)


def set_frame(figure: Figure, title: str, facts: Sequence[str], caption: Caption, *, right: float = 0.87) -> None:
    """Set the title above. Below, set the run's name, these facts, and whether the numbers show capacity."""
    shared = ["client and server share this machine: comparison, not capacity"] if caption.shares_machine else []
    said = "; ".join([f"Run {caption.run} on {caption.platform}", *facts, *shared])
    lines = textwrap.wrap(f"{said}.", 150)
    height = figure.get_figheight()
    figure.subplots_adjust(left=0.09, right=right, top=1 - 0.72 / height, bottom=(0.68 + 0.17 * len(lines)) / height)
    figure.suptitle(title, x=0.012, y=1 - 0.15 / height, horizontalalignment="left", fontsize=13, fontweight="bold")
    figure.text(
        0.012,
        0.1 / height,
        "\n".join(lines),
        fontsize=8,
        color=GREY,
        verticalalignment="bottom",
        linespacing=1.4,
    )
