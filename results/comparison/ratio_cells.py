"""How ratios are written in tables: with their verdicts, as percent, as times, as faster or slower.

One idea: whatever a ratio is of, it is written in one way, and a verdict that its direction does not say is a note.
"""

from __future__ import annotations

from collections.abc import Callable

from results.comparison.power import POWER
from results.comparison.ratios import FALSE_DISCOVERY_RATE, WORTH_SHOWING_SHARE, Needed, Ratio
from results.statistics import PAIRS_MIN
from results.table import NOT_MEASURED, Cell, Column, number

DIFFERENCE_COLUMNS = (
    *(Column(name) for name in ("ratio", "95% from", "to", "adjusted p")),
    Column("verdict", words=True),
    *(Column(name) for name in ("pairs", "repetitions needed")),
    Column("detectable", "%"),
)
_P_SHOWN_MIN = 0.0001
_PERCENT_SHOWN_MAX = 1000


def difference_caption(of: str) -> str:
    """How verdicts on several of these (cells) came about."""
    return (
        "Verdicts: paired t test on the logarithms of the ratios, two-sided, Benjamini-Hochberg at"
        f" {FALSE_DISCOVERY_RATE:.0%} over all {of}; fewer than {PAIRS_MIN} pairs give none. Repetitions needed: with"
        " which a 95% interval of the spread seen would exclude ratio 1, were the difference the one seen. Detectable:"
        f" the smallest true difference that these pairs would have shown with a power of {POWER:.0%}, among these"
        f" {of} and with this spread."
    )


def rounded(ratio: float) -> str:
    """Two decimals, and for ratios far below 1 two digits."""
    return f"{ratio:,.2f}" if ratio >= 0.1 else f"{ratio:#.2g}"


def times(ratio: float) -> str:
    return f"{rounded(ratio)} times"


def percent(value: float) -> str:
    """Two digits below ten, no decimals above, and no more than a thousand."""
    if value > _PERCENT_SHOWN_MAX:
        return f">{_PERCENT_SHOWN_MAX}"
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"


def faster_words(percent_faster: float) -> str:
    return f"{abs(percent_faster):,.0f}% {'faster' if percent_faster >= 0 else 'slower'}"


def difference_cells(ratio: Ratio) -> tuple[Cell, ...]:
    """One for each of ``DIFFERENCE_COLUMNS``: what the verdict rests on."""
    return (
        ratio_number(ratio.ratio, ratio.notes),
        ratio_number(ratio.low),
        ratio_number(ratio.high),
        _probability(ratio.adjusted_p),
        verdict_cell(ratio),
        Cell(f"{ratio.pairs}", ratio.pairs),
        _needed(ratio.needed),
        _detectable(ratio.detectable_percent),
    )


def percent_cells(ratio: Ratio) -> tuple[Cell, ...]:
    """As percent of the first, its interval, its verdict."""
    percent = None if ratio.ratio is None else ratio.ratio * 100
    return number(percent, 2, ratio.notes), interval(ratio, lambda value: f"{value * 100:,.1f}"), verdict_cell(ratio)


def times_cells(ratio: Ratio) -> tuple[Cell, ...]:
    """As times the first, its interval, its verdict."""
    return ratio_number(ratio.ratio, ratio.notes, times), interval(ratio), verdict_cell(ratio)


def faster_cells(ratio: Ratio | None) -> tuple[Cell, ...]:
    """Of times: how much faster or slower than the first, its interval, its verdict."""
    if ratio is None:
        return Cell(NOT_MEASURED), Cell(NOT_MEASURED), Cell(NOT_MEASURED)
    if ratio.low is None or ratio.high is None:
        reach = Cell(NOT_MEASURED)
    else:
        reach = Cell(f"{_percent_faster(ratio.high):+,.0f} to {_percent_faster(ratio.low):+,.0f}")
    if ratio.ratio is None:
        return Cell(NOT_MEASURED), reach, verdict_cell(ratio)
    faster = _percent_faster(ratio.ratio)
    return Cell(faster_words(faster), faster, ratio.notes), reach, verdict_cell(ratio)


def noted_ratio(ratio: Ratio | None) -> Cell:
    """The ratio, with its verdict as a note unless its direction says it."""
    if ratio is None:
        return Cell(NOT_MEASURED)
    unshown = () if ratio.verdict in ("better", "worse") else (ratio.words,)
    return ratio_number(ratio.ratio, (*unshown, *ratio.notes))


def interval(ratio: Ratio | None, written: Callable[[float], str] = rounded) -> Cell:
    """``0.92 to 1.03``."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return Cell(NOT_MEASURED)
    return Cell(f"{written(ratio.low)} to {written(ratio.high)}")


def verdict_cell(ratio: Ratio) -> Cell:
    """The verdict, with a note of why there is none."""
    return Cell(ratio.verdict, None, (ratio.because,) if ratio.because else ())


def ratio_number(value: float | None, notes: tuple[str, ...] = (), written: Callable[[float], str] = rounded) -> Cell:
    """Of a ratio, or of a bound of one."""
    return Cell(NOT_MEASURED, None, notes) if value is None else Cell(written(value), value, notes)


def _percent_faster(time_ratio: float) -> float:
    """By how much less time it takes; negative: more."""
    return (1 - time_ratio) * 100


def _detectable(value: float | None) -> Cell:
    return Cell(NOT_MEASURED) if value is None else Cell(percent(value), value)


def _needed(needed: Needed | None) -> Cell:
    if needed is None:
        return Cell(NOT_MEASURED)
    notes = () if needed.seen else (f"to show a difference of {WORTH_SHOWING_SHARE:.0%}",)
    return Cell(f"{needed}", needed.repetitions, notes)


def _probability(value: float | None) -> Cell:
    if value is None:
        return Cell(NOT_MEASURED)
    return Cell(f"{value:.4f}" if value >= _P_SHOWN_MIN else f"<{_P_SHOWN_MIN}", value)
