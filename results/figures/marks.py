"""Intervals and marks of a figure's points, which show the uncertainty and the warnings of their cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

from results.document.grades import PRECISE_SHARE
from results.measures.units import Unit

_INK = "#000000"


class CellPoint(NamedTuple):
    """A cell where a figure draws it."""

    x: float
    y: float
    interval: tuple[float, float] | None  # 95%, on the scale of y
    cell: Unit


def rate_point(x: float, rate: float, cell: Unit) -> CellPoint:
    """Return the point of a rate that is proportional to the objects/s of its cell."""
    found = cell.rate_interval
    if found is None:
        return CellPoint(x, rate, None, cell)
    per_object = rate / cell.objects_per_second
    return CellPoint(x, rate, (found[0] * per_object, found[1] * per_object), cell)


def draw_marks(axes: Axes, points: Sequence[CellPoint], colour: str, marker: str = "o") -> None:
    """Draw an interval through each point, a hollow marker if it is imprecise, and a cross if the platform did not
    limit it.
    """
    bars = [(point.x, *point.interval) for point in points if point.interval is not None]
    if bars:
        axes.vlines(*zip(*bars, strict=True), color=colour, linewidth=1.2)
    hollow = [(point.x, point.y) for point in points if point.cell.is_imprecise]
    if hollow:
        axes.plot(*zip(*hollow, strict=True), marker, color=colour, markerfacecolor="white", markersize=5)
    crossed = [(point.x, point.y) for point in points if _is_crossed(point.cell)]
    if crossed:
        axes.plot(*zip(*crossed, strict=True), "x", color=_INK, markersize=7, markeredgewidth=1.2)


def _is_crossed(cell: Unit) -> bool:
    return cell.is_limited_by_client or cell.is_limited_by_failures


def mark_facts(cells: Iterable[Unit]) -> list[str]:
    """Return the caption's explanation of the intervals and marks of these cells."""
    drawn = list(cells)
    facts = []
    repetitions = max(len(cell.samples) for cell in drawn)
    if any(cell.rate_interval for cell in drawn):
        of = f"over {repetitions} repetitions" if repetitions > 1 else "of the mean session time, one repetition"
        facts.append(f"bars: 95% intervals {of}")
    if any(cell.is_imprecise for cell in drawn):
        facts.append(f"hollow: the rate is not known within {PRECISE_SHARE:.0%}")
    if any(cell.is_limited_by_failures for cell in drawn):
        facts.append("cross: limited by failures, the platform may be faster")
    if any(cell.is_limited_by_client for cell in drawn):
        facts.append("cross: limited by the client or by its host, the platform may be faster")
    return facts
