"""The figure of a what-if: archive time over the number of users, cameras or objects a day, and the limit.

One line is the window without headroom, another is the time of one platform. The figure labels the number where they
cross.
"""

from __future__ import annotations

import textwrap

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from archiver.values.sizes import format_duration
from results.document.drawing import COLOURS, GREY, STYLE
from results.figures.log_axes import plain_number
from results.figures.phases import place_legend
from results.planning.rate_surface import RateSurface
from results.planning.sizing import Archiving

_PAST_THE_LAST = 1.12  # extends the line to show that it crosses the window


def what_if_figure(archiving: Archiving, surface: RateSurface) -> Figure:
    """Return the figure: one platform's time for a period over the number of units, with its range if known."""
    load = archiving.load
    unit, unit_seconds = load.time_unit
    counts = [0.0, *(float(trial.units) for trial in archiving.trials)]
    counts.append(counts[-1] * _PAST_THE_LAST)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 5.0))
        axes = figure.subplots()
        times = [archiving.seconds_for(count) for count in counts[1:]]
        axes.plot(
            counts,
            [0, *(time.value / unit_seconds for time in times)],
            color=COLOURS[0],
            linewidth=1.8,
            label="one platform",
        )
        lows = [time.low for time in times if time.low is not None]
        highs = [time.high for time in times if time.high is not None]
        if len(lows) == len(highs) == len(times):
            axes.fill_between(
                counts,
                [0, *(low / unit_seconds for low in lows)],
                [0, *(high / unit_seconds for high in highs)],
                color=COLOURS[0],
                alpha=0.2,
                linewidth=0,
                label="its range",
            )
        axes.axhline(
            archiving.seconds_allowed / unit_seconds,
            color=COLOURS[1],
            linestyle="--",
            linewidth=1.4,
            label="window that one platform may use",
        )
        _mark(axes, archiving, unit_seconds)
        axes.set_xlim(0, counts[-1])
        axes.set_ylim(0)
        axes.xaxis.set_major_formatter(FuncFormatter(plain_number))
        axes.yaxis.set_major_formatter(FuncFormatter(plain_number))
        axes.set_xlabel(load.units_name)
        axes.set_ylabel(f"{unit} to archive {load.a_period}")
        place_legend(figure, [axes], None, left=0.785)
        _frame(figure, archiving, surface)
    return figure


def _mark(axes: Axes, archiving: Archiving, unit_seconds: float) -> None:
    """Mark the requested number, and the largest number that fits."""
    load = archiving.load
    most = archiving.units_certain
    asked = archiving.seconds.value / unit_seconds
    axes.plot([load.units], [asked], "o", color=COLOURS[6], label=f"requested: {load.units:,}", zorder=3)
    if most > 0:
        end = archiving.seconds_for(most).value / unit_seconds
        axes.plot([most], [end], "D", color=COLOURS[1], label=f"last that fits: {most:,}", zorder=3)


def _frame(figure: Figure, archiving: Archiving, surface: RateSurface) -> None:
    height = figure.get_figheight()
    load = archiving.load
    clients = "one client" if archiving.clients == 1 else f"{archiving.clients:,} clients"
    said = (
        f"From {surface.source} ({surface.platform}), {clients}; {format_duration(load.window_seconds)} for "
        f"{load.a_period}. Range: {surface.spread}. {'. '.join(remark.capitalize() for remark in surface.remarks)}"
    )
    lines = textwrap.wrap(said.strip(), 150)
    figure.subplots_adjust(left=0.09, right=0.775, top=1 - 0.6 / height, bottom=(0.68 + 0.17 * len(lines)) / height)
    title = f"How many {load.units_name} one platform can archive"
    figure.suptitle(title, x=0.012, y=1 - 0.15 / height, horizontalalignment="left", fontsize=13, fontweight="bold")
    figure.text(
        0.012, 0.1 / height, "\n".join(lines), fontsize=8, color=GREY, verticalalignment="bottom", linespacing=1.4
    )
