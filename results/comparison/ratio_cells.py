"""Ratios as table cells: with their verdicts, as percent, as times, as faster or slower.

All ratios have the same format. A verdict that the ratio's direction does not show is a note.
"""

from __future__ import annotations

from collections.abc import Callable

from results.comparison.power import POWER
from results.comparison.ratios import WORTH_SHOWING_SHARE, Needed, Ratio
from results.statistics import FALSE_DISCOVERY_RATE, PAIRS_MIN
from results.table import NOT_MEASURED, Cell, Column

_P_SHOWN_MIN = 0.0001
_PERCENT_SHOWN_MAX = 1000


def difference_caption(of: str) -> str:
    """Return how the verdicts on several units of this kind (cells) were computed."""
    return (
        "Verdicts: paired t test on the logarithms of the ratios, two-sided, Benjamini-Hochberg at"
        f" {FALSE_DISCOVERY_RATE:.0%} over all {of}. Fewer than {PAIRS_MIN} pairs give no verdict. Intervals are"
        " corrected in the same way (Benjamini-Yekutieli), so they exclude 1 only if a difference is shown. Repetitions"
        f" needed: the number that detects a true difference of {WORTH_SHOWING_SHARE:.0%} with a probability of"
        f" {POWER:.0%} among these {of}; it includes an allowance for the uncertain spread of few pairs. Detectable:"
        f" the smallest true difference that these pairs detect with a power of {POWER:.0%} among these {of}, if their"
        " spread is the true one."
    )


def rounded(ratio: float) -> str:
    """Return two decimals, and for ratios far below 1 two digits."""
    return f"{ratio:,.2f}" if ratio >= 0.1 else f"{ratio:#.2g}"


def times(ratio: float) -> str:
    return f"{rounded(ratio)} times"


def percent(value: float) -> str:
    """Return two digits below ten, no decimals above, and at most a thousand."""
    if value > _PERCENT_SHOWN_MAX:
        return f">{_PERCENT_SHOWN_MAX}"
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"


def faster_words(percent_faster: float) -> str:
    return f"{abs(percent_faster):,.0f}% {'faster' if percent_faster >= 0 else 'slower'}"


def noted_ratio(ratio: Ratio | None) -> Cell:
    """Return the ratio, with its verdict as a note unless its direction shows it."""
    if ratio is None:
        return Cell(NOT_MEASURED)
    unshown = () if ratio.verdict in ("better", "worse") else (ratio.words,)
    return ratio_number(ratio.ratio, (*unshown, *ratio.notes))


def interval(ratio: Ratio | None, written: Callable[[float], str] = rounded) -> Cell:
    """Return ``0.92 to 1.03``."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return Cell(NOT_MEASURED)
    return Cell(f"{written(ratio.low)} to {written(ratio.high)}")


def verdict_cell(ratio: Ratio | None) -> Cell:
    """Return the verdict, with a note if there is none."""
    if ratio is None:
        return Cell(NOT_MEASURED)
    return Cell(ratio.verdict, None, (ratio.because,) if ratio.because else ())


def ratio_number(value: float | None, notes: tuple[str, ...] = (), written: Callable[[float], str] = rounded) -> Cell:
    """Return a cell with a ratio, or with a bound of one."""
    return Cell(NOT_MEASURED, None, notes) if value is None else Cell(written(value), value, notes)


def _percent_faster(time_ratio: float) -> float:
    """Return how many percent less time it takes; negative: more."""
    return (1 - time_ratio) * 100


def _needed(needed: Needed | None) -> Cell:
    if needed is None:
        return Cell(NOT_MEASURED)
    return Cell(f"{needed}", needed.repetitions)


def _probability(value: float | None) -> Cell:
    if value is None:
        return Cell(NOT_MEASURED)
    return Cell(f"{value:.4f}" if value >= _P_SHOWN_MIN else f"<{_P_SHOWN_MIN}", value)


def _percent(ratio: Ratio) -> float | None:
    return None if ratio.ratio is None else ratio.ratio * 100


def _faster(ratio: Ratio | None) -> Cell:
    """Return how much faster or slower than the first, from a ratio of times."""
    if ratio is None or ratio.ratio is None:
        return Cell(NOT_MEASURED)
    faster = _percent_faster(ratio.ratio)
    return Cell(faster_words(faster), faster, ratio.notes)


def _faster_interval(ratio: Ratio | None) -> Cell:
    if ratio is None or ratio.low is None or ratio.high is None:
        return Cell(NOT_MEASURED)
    return Cell(f"{_percent_faster(ratio.high):+,.0f} to {_percent_faster(ratio.low):+,.0f}")


_VERDICT = Column("verdict", of=verdict_cell, words=True)
DIFFERENCE_COLUMNS = (  # the basis of a verdict
    Column("ratio", of=lambda ratio: ratio_number(ratio.ratio, ratio.notes)),
    Column("95% from", of=lambda ratio: ratio_number(ratio.low)),
    Column("to", of=lambda ratio: ratio_number(ratio.high)),
    Column("adjusted p", of=lambda ratio: _probability(ratio.adjusted_p)),
    _VERDICT,
    Column("pairs", of=lambda ratio: ratio.pairs),
    Column("repetitions needed", of=lambda ratio: _needed(ratio.needed)),
    Column("detectable", "%", lambda ratio: ratio_number(ratio.detectable_percent, written=percent)),
)
FASTER_COLUMNS = (  # a ratio of times, as faster or slower than the first
    Column("response", of=_faster),
    Column("95%", "% faster", _faster_interval),
    _VERDICT,
)


def percent_columns(label: str, first: str) -> tuple[Column, ...]:
    """Return the columns of a ratio as percent of the first."""
    return (
        Column(label, f"% of {first}", _percent, 2, lambda ratio: ratio.notes),
        Column("95%", of=lambda ratio: interval(ratio, lambda value: f"{value * 100:,.1f}")),
        _VERDICT,
    )


def times_columns(quantity: str) -> tuple[Column, ...]:
    """Return the columns of a ratio as times the first."""
    return (
        Column(quantity, of=lambda ratio: ratio_number(ratio.ratio, ratio.notes, times)),
        Column("95%", of=interval),
        _VERDICT,
    )
