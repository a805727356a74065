"""Figures over the time of a run: panels of curves above each other, with the run's phases marked behind them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, groupby
from math import isnan
from typing import NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from results.document.drawing import GREY, STYLE
from results.figures.log_axes import label_log_axis, plain_number
from results.figures.phases import Caption, label_y, place_legend, set_frame
from results.measures.watched import Curve, Watched
from results.recorded.database import PhaseTimes

BANDS_MAX = 200  # above it, consecutive phases of a sweep share a band
LIMIT_IN_SIGHT = 2.5  # limits above this multiple of the highest value are not drawn
MINUTES_FROM_SECONDS = 300  # longer runs are drawn in minutes
_BANDS = ("#f3d9b1", "#c9dff0", "#d9ecd0", "#ead3e6", "#e3e3e3")  # backgrounds of archive, retrieve ...: by sweep
_RIGHT = 0.795
_LEGEND_WIDTH = 20  # characters
_CHARACTER_WIDTH = 0.008  # of a panel's width
_LOG_LABELS_MAX = 7


class DrawnCurve(NamedTuple):
    """A curve with its style; ``width`` is in points."""

    label: str
    curve: Curve
    colour: str
    width: float = 1.2


class TimelineLimit(NamedTuple):
    """A limit of a panel's values, drawn as a dashed line."""

    label: str
    value: float


class TimelinePanel(NamedTuple):
    """Curves with a common y axis, from zero or logarithmic; ``height`` is in inches."""

    label: str  # label of its y axis
    lines: Sequence[DrawnCurve]
    limits: Sequence[TimelineLimit] = ()
    height: float = 1.0
    is_log: bool = False  # a value of zero is at the lower edge


def draw_timelines(
    title: str, panels: Sequence[TimelinePanel], watched: Watched, caption: Caption, facts: Sequence[str]
) -> Figure:
    """Draw panels above each other over the run's time. Limits far above the values are stated in the caption."""
    out_of_sight: list[str] = []
    from_ns, to_ns = watched.span_ns
    unit, seconds = ("minutes", 60.0) if to_ns - from_ns > MINUTES_FROM_SECONDS * 1e9 else ("seconds", 1.0)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 3.6 + sum(panel.height for panel in panels)))
        heights = [panel.height for panel in panels]
        axes: list[Axes] = list(
            figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        )
        for each, panel in zip(axes, panels, strict=True):
            _draw_lines(each, panel, seconds)
            out_of_sight += _draw_limits(each, panel)
            _scale(each, panel)
            label_y(each, panel.label)
        axes[-1].set_xlim(0, (to_ns - from_ns) / 1e9 / seconds)
        axes[-1].set_xlabel(f"{unit} since the first phase began")
        _mark_phases(axes, watched, seconds)
        place_legend(figure, axes, None, left=_RIGHT + 0.01)
        set_frame(figure, title, [*out_of_sight, *facts], caption, right=_RIGHT)
    return figure


def _draw_lines(axes: Axes, panel: TimelinePanel, seconds: float) -> None:
    """Draw steps: each value is a mean over the time before its moment.

    The first line lies on top; long runs have thin lines.
    """
    thin = 1.0 if seconds == 1 else 0.6
    for place, line in enumerate(panel.lines):
        axes.plot(
            [at / seconds for at in line.curve.seconds],
            line.curve.values,
            color=line.colour,
            linewidth=thin * line.width,
            zorder=3 - place / 100,
            drawstyle="steps-pre",
            label=textwrap.fill(line.label, _LEGEND_WIDTH),
        )


def _draw_limits(axes: Axes, panel: TimelinePanel) -> list[str]:
    """Draw the limits near the values. Returns caption text for the others."""
    values = [value for line in panel.lines for value in line.curve.values if not isnan(value)]
    highest = max(values, default=0.0)
    unseen = []
    for limit in panel.limits:
        if limit.value <= LIMIT_IN_SIGHT * highest:
            axes.axhline(
                limit.value, color=GREY, linestyle="--", linewidth=1, label=textwrap.fill(limit.label, _LEGEND_WIDTH)
            )
        else:
            unseen.append(f"at most {highest / limit.value:.0%} of {limit.label}")
    return unseen


def _mark_phases(panels: Sequence[Axes], watched: Watched, seconds: float) -> None:
    """Draw a band behind each phase in the colour of its sweep.

    The sweep's name appears above its bands if there is room, else in the legend.
    """
    start_ns, end_ns = watched.span_ns
    marked = _few_phases(watched)
    sweeps = [watched.sweeps.get(phase.position, phase.label) for phase in marked]
    colours = dict(zip(dict.fromkeys(sweeps), cycle(_BANDS), strict=False))
    named = set()
    for sweep, group in groupby(zip(sweeps, marked, strict=True), key=lambda each: each[0]):
        phases = [phase for _, phase in group]
        begins, ends = phases[0].start_ns - start_ns, phases[-1].end_ns - start_ns
        if (ends - begins) / (end_ns - start_ns) > _CHARACTER_WIDTH * len(sweep):
            named.add(sweep)
            middle = (begins + ends) / 2e9 / seconds
            above = panels[0].get_xaxis_transform()
            panels[0].text(middle, 1.02, sweep, transform=above, horizontalalignment="center", fontsize=8, color=GREY)
    for sweep, phase in zip(sweeps, marked, strict=True):
        label = None if sweep in named else textwrap.fill(sweep, _LEGEND_WIDTH)
        named.add(sweep)
        for axes in panels:
            axes.axvspan(
                (phase.start_ns - start_ns) / 1e9 / seconds,
                (phase.end_ns - start_ns) / 1e9 / seconds,
                color=colours[sweep],
                linewidth=0,
                zorder=0,
                label=label,
            )
            label = None


def _few_phases(watched: Watched) -> Sequence[PhaseTimes]:
    """Return the phases, or of very many, consecutive phases of a sweep merged into one."""
    if len(watched.phases) <= BANDS_MAX:
        return watched.phases
    merged = []
    for _, group in groupby(watched.phases, key=lambda phase: watched.sweeps.get(phase.position, phase.label)):
        phases = list(group)
        merged.append(replace(phases[0], end_ns=max(phase.end_ns for phase in phases)))
    return merged


def _scale(axes: Axes, panel: TimelinePanel) -> None:
    """Scale the y axis. Without a positive value there is no logarithmic scale."""
    positive = [value for line in panel.lines for value in line.curve.values if value > 0]
    if panel.is_log and positive:
        axes.set_yscale("log", nonpositive="clip")
        axes.set_ylim(min(positive) / 1.5, max(positive) * 1.5)
        label_log_axis(axes.yaxis, _LOG_LABELS_MAX)
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(plain_number))
