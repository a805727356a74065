"""Ratios as table cells. A verdict that the ratio's direction does not show is a note."""

from __future__ import annotations

from collections.abc import Callable

from results.comparison.power import POWER
from results.comparison.ratios import WORTH_SHOWING_SHARE, Needed, Ratio
from results.document.table import NOT_MEASURED, Cell, Column
from results.measures.statistics import FALSE_DISCOVERY_RATE, PAIRS_MIN

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


def percent(value: float) -> str:
    """Return two digits below ten, no decimals above, and at most a thousand."""
    if value > _PERCENT_SHOWN_MAX:
        return f">{_PERCENT_SHOWN_MAX}"
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"


def noted_ratio(ratio: Ratio | None) -> Cell:
    """Return the ratio, with its verdict as a note unless its direction shows it."""
    if ratio is None:
        return Cell(NOT_MEASURED)
    unshown = () if ratio.verdict in ("better", "worse") else (ratio.words,)
    return ratio_number(ratio.ratio, (*unshown, *ratio.notes))


def interval(ratio: Ratio | None) -> Cell:
    """Return ``0.92 to 1.03``."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return Cell(NOT_MEASURED)
    return Cell(f"{rounded(ratio.low)} to {rounded(ratio.high)}")


def _verdict(ratio: Ratio | None) -> Cell:
    """Return the verdict, with a note if there is none."""
    if ratio is None:
        return Cell(NOT_MEASURED)
    return Cell(ratio.verdict, None, (ratio.because,) if ratio.because else ())


def ratio_number(value: float | None, notes: tuple[str, ...] = (), written: Callable[[float], str] = rounded) -> Cell:
    """Return a cell with a ratio, or with a bound of one."""
    return Cell(NOT_MEASURED, None, notes) if value is None else Cell(written(value), value, notes)


def _needed(needed: Needed | None) -> Cell:
    if needed is None:
        return Cell(NOT_MEASURED)
    return Cell(f"{needed}", needed.repetitions)


def _probability(value: float | None) -> Cell:
    if value is None:
        return Cell(NOT_MEASURED)
    return Cell(f"{value:.4f}" if value >= _P_SHOWN_MIN else f"<{_P_SHOWN_MIN}", value)


DIFFERENCE_COLUMNS = (  # the basis of a verdict
    Column("ratio", of=lambda ratio: ratio_number(ratio.ratio, ratio.notes)),
    Column("95% from", of=lambda ratio: ratio_number(ratio.low)),
    Column("to", of=lambda ratio: ratio_number(ratio.high)),
    Column("adjusted p", of=lambda ratio: _probability(ratio.adjusted_p)),
    Column("verdict", of=_verdict, words=True),
    Column("pairs", of=lambda ratio: ratio.pairs),
    Column("repetitions needed", of=lambda ratio: _needed(ratio.needed)),
    Column("detectable", "%", lambda ratio: ratio_number(ratio.detectable_percent, written=percent)),
)
