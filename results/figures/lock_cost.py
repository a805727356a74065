"""The figure of lock cost: the loss of objects/s of each variant, with 95% intervals.

Zero is the baseline of the comparison. An interval that includes zero therefore shows no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from archiver.values.sizes import format_size
from results.document.drawing import COLOURS, GREY, MARKERS, STYLE
from results.figures.phases import Caption, place_legend, set_frame
from results.measures.statistics import PAIRS_MIN, PairedRatio
from results.recorded.model import Result
from results.tables.lock_cost import VariantCost, variant_costs

LOCK_COST = "figure-9-lock-cost"
_ROW_INCHES = 0.42
_PANEL_INCHES = 0.75  # height of each panel without its rows
_FRAME_INCHES = 2.0


def build_lock_figures(results: Sequence[Result], caption: Caption) -> dict[str, Figure]:
    """Return the figure by the stem of its file name; empty if no variant has a baseline."""
    costs = variant_costs(results)
    return {LOCK_COST: _lock_cost_figure(costs, caption)} if any(cost.rate for cost in costs) else {}


def _lock_cost_figure(costs: Sequence[VariantCost], caption: Caption) -> Figure:
    """Draw a panel for each sweep, a row for each variant, and in it a point for each object size."""
    sweeps: dict[str, list[VariantCost]] = {}
    for cost in costs:
        if cost.rate is not None:
            sweeps.setdefault(_heading(cost), []).append(cost)
    rows = [list(dict.fromkeys(cost.name for cost in group)) for group in sweeps.values()]
    sizes = sorted({cost.cell.key.object_bytes for cost in costs})
    height = _FRAME_INCHES + sum(_PANEL_INCHES + _ROW_INCHES * len(names) for names in rows)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, height))
        panels = figure.subplots(len(rows), 1, sharex=True, squeeze=False, height_ratios=[len(n) + 1 for n in rows])
        for axes, (heading, group), names in zip(panels[:, 0], sweeps.items(), rows, strict=True):
            _draw(axes, group, names, sizes)
            axes.set_title(heading, loc="left", fontsize=10, color=GREY)
        panels[-1, 0].set_xlabel("cost: objects per second lost, %")
        place_legend(figure, panels[:, 0], "object size")
        set_frame(figure, "The cost of the lock: % of objects/s by variant", _facts(costs), caption)
        figure.subplots_adjust(left=0.19, hspace=0.5)
    return figure


def _draw(axes: Axes, costs: Sequence[VariantCost], names: Sequence[str], sizes: Sequence[int]) -> None:
    for index, size in enumerate(sizes):
        chosen = [(cost, cost.rate) for cost in costs if cost.cell.key.object_bytes == size and cost.rate is not None]
        shift = (index - (len(sizes) - 1) / 2) * 0.6 / len(sizes)
        style: dict[str, Any] = {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}
        axes.errorbar(
            [_percent(rate.ratio) for _, rate in chosen],
            [names.index(cost.name) + shift for cost, _ in chosen],
            xerr=_reach([rate for _, rate in chosen]),
            linestyle="none",
            markersize=6,
            capsize=3,
            label=format_size(size),
            **style,
        )
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="x", labelbottom=True)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+g}" if value else "0"))


def _heading(cost: VariantCost) -> str:
    key, sweep = cost.baseline.key, cost.baseline.first.phase
    sessions = (
        f"{key.objects_per_session} objects per session" if key.objects_per_session > 1 else "1 object per session"
    )
    return f"{sweep}: compared with {cost.baseline.first.variant}, {sessions}"


def _percent(ratio: float) -> float:
    return (1 - ratio) * 100


def _reach(rates: Sequence[PairedRatio]) -> list[list[float]]:
    """Return the distances from each point to its interval's left and right end; zero without an interval."""
    lows = [rate.ratio if rate.high is None else rate.high for rate in rates]  # the highest rate is the lowest cost
    highs = [rate.ratio if rate.low is None else rate.low for rate in rates]
    return [
        [_percent(rate.ratio) - _percent(low) for rate, low in zip(rates, lows, strict=True)],
        [_percent(high) - _percent(rate.ratio) for rate, high in zip(rates, highs, strict=True)],
    ]


def _facts(costs: Sequence[VariantCost]) -> list[str]:
    pairs = [cost.rate.pairs for cost in costs if cost.rate is not None]
    objects = sum(result.objects for cost in costs for result in cost.cell.results)
    counted = f"{min(pairs)} to {max(pairs)} pairs" if min(pairs) < max(pairs) else f"{pairs[0]} pairs"
    counted = "1 pair" if max(pairs) == 1 else counted
    bars = (
        "bars are 95% intervals, corrected over all variants"
        if max(pairs) >= PAIRS_MIN
        else f"intervals need {PAIRS_MIN} repetitions"
    )
    return [f"{objects:,} objects, {counted} of each variant; {bars}"]
