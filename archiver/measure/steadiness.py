"""Rule that decides whether the rate was steady during the measurement, from the counts of the intervals.

One idea: a line through the counts shows how the rate moved. A cell is unsteady if the line moves by more than 10% over
the cell, and by more than the counts' own noise, which may be autocorrelated. A cell of fewer than 8 intervals is too
short to judge, which is not the same as steady.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from results.measures.statistics import autocorrelation_inflation, t_quantile
from results.recorded.model import TOO_SHORT

MOVED_SHARE = 0.10
INTERVALS_MIN = 8  # fewer are not conclusive


def steadiness(counts: Sequence[int]) -> str:
    """Return steady, unsteady or too short to judge, from object counts of equal intervals."""
    if not _is_judged(counts):
        return TOO_SHORT
    return "unsteady" if unsteady_because(counts) is not None else "steady"


def unsteady_because(counts: Sequence[int]) -> str | None:
    """Return why the rate was not steady, from object counts of equal intervals; None if it was, or cannot be judged.

    Unsteady means: the line of least squares changes by more than 10% of the mean over the cell, and the 95% interval
    of its slope excludes zero. The interval allows for autocorrelation of the counts around the line.
    """
    if not _is_judged(counts):
        return None
    n = len(counts)
    mean = sum(counts) / n
    middle = (n - 1) / 2
    spread = sum((i - middle) ** 2 for i in range(n))
    slope = sum((i - middle) * count for i, count in enumerate(counts)) / spread
    residuals = [count - mean - slope * (i - middle) for i, count in enumerate(counts)]
    variance = sum(each * each for each in residuals) / (n - 2) * autocorrelation_inflation(residuals)
    half_width = t_quantile(0.975, n - 2) * math.sqrt(variance / spread)
    over_the_cell = slope * (n - 1) / mean
    if abs(slope) > half_width and abs(over_the_cell) > MOVED_SHARE:
        return f"the rate moved by {over_the_cell * 100:+.0f}% over the measured time"
    return None


def _is_judged(counts: Sequence[int]) -> bool:
    return len(counts) >= INTERVALS_MIN and any(counts)
