"""Rule that decides whether the rate was steady during the measurement, from the counts of the intervals.

One idea: the rule has two tests. Was the second half as fast as the first? Is there a trend beyond noise? More than 10%
in either makes a cell unsteady, with the reason in words. A cell of fewer than 8 intervals is too short to judge, which
is not the same as steady.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from results.recorded.model import TOO_SHORT

HALVES_SHARE = 0.10
SLOPE_SHARE = 0.10
INTERVALS_MIN = 8  # fewer are not conclusive


def steadiness(counts: Sequence[int]) -> str:
    """Return steady, unsteady or too short to judge, from object counts of equal intervals."""
    if not _is_judged(counts):
        return TOO_SHORT
    return "unsteady" if unsteady_because(counts) is not None else "steady"


def unsteady_because(counts: Sequence[int]) -> str | None:
    """Return why the rate was not steady, from object counts of equal intervals; None if it was, or cannot be judged.

    Unsteady means: the halves differ by more than 10% of the first, or the 95% confidence interval of a straight line's
    slope excludes zero and the line changes by more than 10% of the mean over the cell.
    """
    if not _is_judged(counts):
        return None
    n = len(counts)
    mean = sum(counts) / n
    first, second = sum(counts[: n // 2]), sum(counts[(n + 1) // 2 :])
    if not first or abs(second / first - 1) > HALVES_SHARE:
        change = (second / first - 1) * 100 if first else math.inf
        return f"the second half of the measured time ran {change:+.0f}% against the first"
    middle = (n - 1) / 2
    spread = sum((i - middle) ** 2 for i in range(n))
    slope = sum((i - middle) * count for i, count in enumerate(counts)) / spread
    residuals = sum((count - mean - slope * (i - middle)) ** 2 for i, count in enumerate(counts))
    # 2.45 covers Student's t at 97.5% from 6 degrees of freedom on; with more intervals the test is stricter than 95%.
    half_width = 2.45 * math.sqrt(residuals / (n - 2) / spread)
    over_the_cell = slope * (n - 1) / mean
    if abs(slope) > half_width and abs(over_the_cell) > SLOPE_SHARE:
        return f"the rate moved by {over_the_cell * 100:+.0f}% over the measured time"
    return None


def _is_judged(counts: Sequence[int]) -> bool:
    return len(counts) >= INTERVALS_MIN and any(counts)
