"""The figure of a replay: the cumulative share of responses by time, in total and by application.

The curve comes from the same merged histograms as the tables, so both agree at the limit.
"""

from __future__ import annotations

import textwrap

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from results.document.drawing import COLOURS, GREY, STYLE
from results.figures.log_axes import label_log_axis
from results.figures.phases import Caption, label_y, place_legend, set_frame
from results.measures.responses import Responses
from results.mixed.replay.trials import ReplayedRun, ReplayTrial

RESPONSE_SHARE = "figure-15-response-share"
_POINTS = 240  # points of a line, equidistant on the logarithmic scale
_INK = "#000000"
_DASHES = ("-", "--", "-.", ":")
_LEGEND_LEFT = 0.79
_LEGEND_WIDTH = 20  # characters


def replay_figures(run: ReplayedRun, caption: Caption) -> dict[str, Figure]:
    """Return every figure for which the run has data, by the stem of its file name."""
    figure = share_figure(run.result, caption)
    return {RESPONSE_SHARE: figure} if figure is not None else {}


def share_figure(trial: ReplayTrial, caption: Caption) -> Figure | None:
    """Return Figure 15: the cumulative share of responses, with the limit marked.

    Returns None if there were no responses.
    """
    together = trial.responses
    if not together.count:
        return None
    at_ms = _scale_of(together, trial.limit_ms)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 5.6))
        axes = figure.subplots()
        names = trial.applications
        if len(names) > 1:
            for place, name in enumerate(names):
                _draw(axes, trial.responses_of(trial.of(name)), at_ms, place, name)
            axes.plot(
                at_ms, 100 * together.shares(at_ms), color=_INK, linewidth=3.0, label=_wrapped("all applications")
            )
        else:
            _draw(axes, together, at_ms, 0, names[0])
        _mark_limit(axes, trial)
        axes.set_xscale("log")
        axes.set_xlim(at_ms[0], at_ms[-1])
        label_log_axis(axes.xaxis)
        axes.set_ylim(0, 102)
        axes.set_yticks(range(0, 101, 10))
        axes.set_xlabel("response time since the operation was due, ms (log scale)")
        label_y(axes, "cumulative share of responses, %")
        place_legend(figure, [axes], None, left=_LEGEND_LEFT)
        sets = f", {trial.sets:g} set{'' if trial.sets == 1 else 's'}" if trial.sets is not None else ""
        set_frame(
            figure,
            f"Cumulative response times{sets}",
            [f"{together.count:,} operations; verdict: {trial.verdict}"],
            caption,
            right=_LEGEND_LEFT - 0.02,
        )
    return figure


def _draw(axes: Axes, responses: Responses, at_ms: NDArray[np.float64], place: int, name: str) -> None:
    """Draw one application. The dash pattern distinguishes lines without colour."""
    if responses.count:
        axes.plot(
            at_ms,
            100 * responses.shares(at_ms),
            color=COLOURS[place % (len(COLOURS) - 1)],  # the last colour is for all applications together
            linestyle=_DASHES[place % len(_DASHES)],
            linewidth=1.7,
            label=_wrapped(name),
        )


def _mark_limit(axes: Axes, trial: ReplayTrial) -> None:
    """Mark the limit in milliseconds, and the required share if there is one."""
    limit, asked = trial.limit_ms, trial.asked_of_all
    axes.axvline(limit, color=GREY, linestyle=":", linewidth=1.6, label=_wrapped(f"{limit:g} ms"))
    if asked is not None:
        axes.axhline(
            asked[0], color=GREY, linestyle=(0, (6, 3)), linewidth=1.2, label=_wrapped(f"{asked[0]:g}% required")
        )
    share = trial.responses.share_within(limit)
    assert share is not None
    axes.plot([limit], [100 * share], "o", color=_INK, markersize=7, clip_on=False)
    within = share > 0.5  # most curves are left of the limit, so there is room below them and to its right
    axes.annotate(
        f"{100 * share:.1f}% within {limit:g} ms",
        (limit, 3 if within else 93),
        xytext=(8 if within else -8, 0),
        textcoords="offset points",
        horizontalalignment="left" if within else "right",
        fontweight="bold",
    )


def _scale_of(responses: Responses, limit_ms: float) -> NDArray[np.float64]:
    """Return the times of the lines' points: from the shortest response to nearly the longest, including the limit."""
    low = min(float(responses.milliseconds[0]) * 0.9, limit_ms / 4)
    high = max(float(responses.milliseconds[-1]) * 1.1, limit_ms * 4)
    return np.unique(np.append(np.geomspace(max(low, 1e-4), high, _POINTS), limit_ms))


def _wrapped(label: str) -> str:
    return textwrap.fill(label, _LEGEND_WIDTH)
