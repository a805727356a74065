"""The main figure of a run's page: objects/s by object size, archive next to retrieve, of few cells.

Figures 1 to 5 have every cell. This one can be read at half the width of a screen, and at the width of a phone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from results.document.drawing import COLOURS, GREY, MARKERS, STYLE
from results.figures.log_axes import label_log_axis
from results.figures.marks import draw_marks, mark_facts, rate_point
from results.measures.units import Unit, UnitKey, all_cells, object_sizes, session_lengths
from results.recorded.model import Result

OVERVIEW = "overview"
_LINES_MAX = 3  # numbers of objects per session: the fewest, the most, and one between them
_TICKS_MAX = 4


def overview_figure(results: Sequence[Result]) -> Figure | None:
    """Return the figure; None if there are not two cells to compare.

    Lines are of one client, dashed lines of the most clients in parallel. The legend names both.
    """
    cells = _cells(results)
    if len(cells) < 2:
        return None
    operations = sorted({key.operation for key in cells})
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.2, 3.15))
        panels = figure.subplots(1, len(operations), sharex=True, sharey=True, squeeze=False)[0]
        for axes, operation in zip(panels, operations, strict=True):
            _draw(axes, {key: cell for key, cell in cells.items() if key.operation == operation}, cells)
            axes.set_title(operation, loc="left", fontsize=10, color=GREY)
            axes.set_xlabel("object size, KiB")
        _scale(panels[0], object_sizes(cells))
        panels[0].set_ylabel("objects/s (log scale)")
        entries = {
            label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            list(entries.values()), list(entries), loc="lower left", ncols=4, frameon=False, fontsize=8,
            bbox_to_anchor=(0.01, 0.0), handlelength=2.4, columnspacing=1.2,
        )  # fmt: skip
        rows = -(-len(entries) // 4)
        figure.subplots_adjust(left=0.11, right=0.985, top=0.86, bottom=0.19 + 0.06 * rows, wspace=0.06)
        figure.suptitle(
            "Objects/s by object size", x=0.012, y=0.985, horizontalalignment="left", fontsize=11, fontweight="bold"
        )
    return figure


def overview_note(results: Sequence[Result]) -> str:
    """Return what the marks of the figure mean, in fewer words than below a figure of the full width."""
    return "; ".join(fact.partition(",")[0] for fact in mark_facts(_cells(results).values()))


def _cells(results: Sequence[Result]) -> dict[UnitKey, Unit]:
    return {
        key: cell
        for key, cell in all_cells(results).items()
        if key.operation in ("archive", "retrieve") and cell.objects_per_second > 0
    }


def _draw(axes: Axes, cells: Mapping[UnitKey, Unit], every: Mapping[UnitKey, Unit]) -> None:
    """Draw a line for each number of objects per session, with one client and with the most clients."""
    counts = session_lengths(every)
    shown = list(dict.fromkeys((counts[0], counts[len(counts) // 2], counts[-1])))[:_LINES_MAX]
    parallel = [key.clients for key in every if key.clients > 1]
    for place, count in enumerate(counts):
        for clients in sorted({1, max(parallel, default=1)}):
            line = {
                key.object_bytes: cell
                for key, cell in cells.items()
                if (key.objects_per_session, key.clients) == (count, clients)
            }
            if line and (count in shown or clients > 1):
                _draw_line(axes, line, place, f"{count:,} per session", clients)


def _draw_line(axes: Axes, line: Mapping[int, Unit], place: int, label: str, clients: int) -> None:
    colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
    axes.plot(
        [size / 1024 for size in line],
        [cell.objects_per_second for cell in line.values()],
        "-" if clients == 1 else "--",
        color=colour,
        marker=marker,
        markersize=5,
        linewidth=1.6,
        label=label if clients == 1 else f"{label}, {clients} clients",
    )
    points = [rate_point(size / 1024, cell.objects_per_second, cell) for size, cell in line.items()]
    draw_marks(axes, points, colour, marker)


def _scale(axes: Axes, object_bytes: Sequence[int]) -> None:
    kibibytes = [size / 1024 for size in object_bytes]
    axes.set_xscale("log", base=2)
    axes.set_xlim(kibibytes[0] / 1.4, kibibytes[-1] * 1.4)
    ticks = kibibytes[:: -(-len(kibibytes) // _TICKS_MAX)]
    axes.set_xticks(ticks, [f"{size:g}" for size in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yscale("log")
    label_log_axis(axes.yaxis, 6)
