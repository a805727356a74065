"""Figure 20: rate and response time of the cells with several clients, by the number of clients.

The platform is saturated where the rate stops growing but the times still grow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, islice

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from archiver.values.sizes import format_size
from results.document.drawing import COLOURS, GREY, MARKERS, STYLE
from results.figures.log_axes import label_log_axis
from results.figures.marks import draw_marks, mark_facts, rate_point
from results.figures.phases import Caption, place_legend, set_frame
from results.measures.metrics import P50, P99, Measure
from results.measures.units import Unit, UnitKey, parallel_cells
from results.recorded.model import Result

CLIENTS = "figure-20-clients"
_LINES_MAX = 7  # of an operation, those of the most objects per session first: as many as colours
_TIMES: tuple[tuple[Measure, str], ...] = ((P50, "p50 of an object, ms (log)"), (P99, "p99 of an object, ms (log)"))


def build_clients_figure(results: Sequence[Result], caption: Caption) -> dict[str, Figure]:
    """Return the figure by the stem of its file name; empty if no cell has several clients."""
    cells = {key: cell for key, cell in parallel_cells(results).items() if cell.objects_per_second > 0}
    lines = _lines(cells)
    if not lines:
        return {}
    operations = sorted({cells[0].key.operation for cells in lines})
    columns: list[tuple[str, Callable[[Unit], float | None]]] = [
        ("objects per second (log)", lambda cell: cell.objects_per_second),
        *((words, _reader(measure)) for measure, words in _TIMES),
    ]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 1.4 + 2.4 * len(operations)))
        grid = figure.subplots(len(operations), len(columns), sharex=True, squeeze=False)
        for row, operation in zip(grid, operations, strict=True):
            shown = [line for line in lines if line[0].key.operation == operation]
            for axes, (words, of) in zip(row, columns, strict=True):
                _draw(axes, shown, of, draws_intervals=axes is row[0])
                axes.set_ylabel(words, labelpad=1)
                axes.set_title(operation, loc="left", fontsize=9, color=GREY)
        _scale_clients(grid[0][0], sorted({key.clients for key in cells}))
        for axes in grid[-1]:
            axes.set_xlabel("clients (log scale)")
        place_legend(figure, grid.flat, "object size ×\nper session", left=0.865)
        set_frame(figure, "Parallel clients: rate and service time", mark_facts(cells.values()), caption, right=0.855)
        figure.subplots_adjust(left=0.08, wspace=0.45, hspace=0.3)
    return {CLIENTS: figure}


def _reader(measure: Measure) -> Callable[[Unit], float | None]:
    return lambda cell: cell.median(measure)


def _lines(cells: Mapping[UnitKey, Unit]) -> list[list[Unit]]:
    """Return the cells of each operation, size and objects per session by clients, if there are several numbers."""
    groups = [list(group) for _, group in groupby(cells.values(), key=lambda cell: cell.key[:3])]
    several = [group for group in groups if len(group) > 1]
    several.sort(key=lambda group: (group[0].key.operation, -group[0].key.objects_per_session))
    by_operation = groupby(several, key=lambda group: group[0].key.operation)
    return [line for _, own in by_operation for line in islice(own, _LINES_MAX)]


def _draw(
    axes: Axes, lines: Sequence[Sequence[Unit]], of: Callable[[Unit], float | None], *, draws_intervals: bool
) -> None:
    for place, line in enumerate(lines):
        key = line[0].key
        points = [(cell.key.clients, value) for cell in line if (value := of(cell))]
        if not points:
            continue
        colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
        axes.plot(
            [clients for clients, _ in points],
            [value for _, value in points],
            color=colour,
            marker=marker,
            markersize=5,
            linewidth=1.6,
            label=f"{format_size(key.object_bytes)} × {key.objects_per_session:,}",
        )
        if draws_intervals:
            marked = [rate_point(cell.key.clients, cell.objects_per_second, cell) for cell in line]
            draw_marks(axes, marked, colour, marker)
    if axes.lines:
        axes.set_yscale("log")
        label_log_axis(axes.yaxis, 6)


def _scale_clients(axes: Axes, clients: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xlim(clients[0] / 1.3, clients[-1] * 1.3)
    axes.set_xticks(clients, [f"{number:g}" for number in clients])
    axes.xaxis.set_minor_locator(NullLocator())
