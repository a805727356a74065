"""Figures 17 and 18: session time by objects per session, with the fitted and the published line T = a + b n.

The paper prints only rates. Its tables follow this line, so the line is an implicit result of the paper.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from archiver.values.sizes import format_size
from results.document.drawing import COLOURS, GREY, STYLE
from results.figures.log_axes import label_log_axis
from results.figures.marks import CellPoint, draw_marks, mark_facts
from results.figures.phases import Caption, label_y, place_legend, set_frame
from results.measures.session_time import RESIDUAL_MAX_PERCENT, SessionTimeFit
from results.measures.units import Unit
from results.recorded.model import Result
from results.reference.published import NAME
from results.tables.session_fits import FittedTimes, session_fits

_NAMES = {"archive": "figure-17-archive-session-time", "retrieve": "figure-18-retrieve-session-time"}
_COLUMNS_MAX = 4  # panels
_ROW_INCHES = 2.4
_LINE_POINTS = 60
_LABELS_MAX = 4  # of the narrow x axis of a panel
_RIGHT = 0.855


def build_session_time_figures(results: Sequence[Result], caption: Caption) -> dict[str, Figure]:
    """Return the figures by the stem of their file names, of each operation with a fit."""
    fits = session_fits(results)
    fitted = {each.operation for each in fits if each.is_measured and isinstance(each.fit, SessionTimeFit)}
    return {
        name: _session_time_figure(operation, [each for each in fits if each.operation == operation], caption)
        for operation, name in _NAMES.items()
        if operation in fitted
    }


def _session_time_figure(operation: str, fits: Sequence[FittedTimes], caption: Caption) -> Figure:
    """Draw a panel per object size, all with the same axes."""
    measured = [each for each in fits if each.is_measured]
    published = {each.object_bytes: each for each in fits if not each.is_measured}
    columns = min(len(measured), _COLUMNS_MAX)
    rows = -(-len(measured) // columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 1.9 + _ROW_INCHES * rows))
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        panels: list[Axes] = list(grid.flat)
        for axes, each in zip(panels, measured, strict=False):
            _draw_panel(axes, each, published.get(each.object_bytes))
        for axes in panels[len(measured) :]:
            axes.set_axis_off()
        panels[0].set_xscale("log")
        panels[0].set_yscale("log")
        label_log_axis(panels[0].xaxis, _LABELS_MAX)
        label_log_axis(panels[0].yaxis)
        for row in grid:
            label_y(row[0], "session time, ms (log)")
        for axes in panels[len(measured) - columns : len(measured)]:
            axes.set_xlabel("objects per session (log)")
            axes.tick_params(axis="x", labelbottom=True)
        place_legend(figure, panels, None, left=_RIGHT + 0.01)
        for line in figure.legends[0].get_lines():
            if line.get_linestyle() == ":":  # the caption explains dots
                line.set_linestyle("-")
        facts = [
            f"T = a + b n, one client; published: {NAME}",
            f"dotted line: a session time is more than {RESIDUAL_MAX_PERCENT}% off it",
            *mark_facts(cell for each in measured for cell in each.cells),
        ]
        set_frame(figure, f"Session time by objects per session: {operation}", facts, caption, right=_RIGHT)
        figure.subplots_adjust(wspace=0.1, hspace=0.45)
    return figure


def _draw_panel(axes: Axes, measured: FittedTimes, published: FittedTimes | None) -> None:
    if published is not None:
        axes.plot(*_times_ms(published), ".", color=GREY, markersize=5, label="published")
        _draw_line(axes, published, GREY, "published:\nits line")
    axes.plot(*_times_ms(measured), "o", color=COLOURS[0], markersize=5, label="measured")
    _draw_line(axes, measured, COLOURS[0], "measured:\nits line")
    draw_marks(axes, [_time_point(cell) for cell in measured.cells if cell.objects_per_second], COLOURS[0])
    axes.set_title(format_size(measured.object_bytes), loc="left", fontsize=10, color=GREY)
    axes.text(0.05, 0.95, _verdict(measured), transform=axes.transAxes, verticalalignment="top", fontsize=8)


def _draw_line(axes: Axes, times: FittedTimes, colour: str, label: str) -> None:
    """Draw the fitted line over its points: solid if the law applies, otherwise dotted."""
    if isinstance(times.fit, SessionTimeFit):
        objects = np.geomspace(min(times.rates), max(times.rates), _LINE_POINTS)
        style = "-" if times.fit.law_holds else ":"
        milliseconds = times.fit.setup_ms + times.fit.marginal_ms * objects
        axes.plot(objects, milliseconds, style, color=colour, linewidth=1.3, label=label)


def _times_ms(times: FittedTimes) -> tuple[list[int], list[float]]:
    known = {count: 1000 * count / rate for count, rate in times.rates.items() if rate}
    return list(known), list(known.values())


def _time_point(cell: Unit) -> CellPoint:
    """Return the session time of a cell. The highest rate is the shortest time."""
    count = cell.key.objects_per_session
    rates = cell.rate_interval
    interval = None if rates is None else (1000 * count / rates[1], 1000 * count / rates[0])
    return CellPoint(count, 1000 * count / cell.objects_per_second, interval, cell)


def _verdict(times: FittedTimes) -> str:
    fit = times.fit
    if isinstance(fit, str):
        return "no line"
    if fit.law_holds:
        return f"{fit.setup_ms:,.3g} + {fit.marginal_ms:,.3g} n ms"
    worst = max(fit.residuals_percent, key=lambda count: abs(fit.residuals_percent[count]))
    return f"the law does not apply here:\n{fit.worst_residual_percent:.1f}% off at n = {worst}"
