"""A comparison for people: tables of platforms, rates and differences, and one sentence per platform.

One idea: rates and ratios of all platforms stand side by side, and a ratio that shows no difference has a footnote
that says so; what the verdicts rest on (interval, p, pairs, repetitions needed) is a table of its own.
"""

from __future__ import annotations

from archiver.sizes import format_size
from results.comparison import (
    FALSE_DISCOVERY_RATE,
    VERDICTS,
    WORTH_SHOWING_SHARE,
    ComparedCell,
    Comparison,
    Needed,
    Overall,
    Ratio,
    Side,
)
from results.matrix import MatrixCell
from results.statistics import PAIRS_MIN
from results.tables import NOT_MEASURED, Cell, Column, Table

_KEY_COLUMNS = tuple(Column(name, label=True) for name in ("operation", "object size", "objects/session", "clients"))
_P_SHOWN_MIN = 0.0001


def comparison_tables(comparison: Comparison) -> list[Table]:
    """Platforms, rates, and one table of differences for each platform after the first."""
    return [
        platform_table(comparison),
        rates_table(comparison),
        *(differences_table(comparison, index) for index in range(len(comparison.overall))),
    ]


def platform_table(comparison: Comparison) -> Table:
    """What was compared: one row per side."""
    return Table(
        name="platforms",
        title="Compared",
        columns=(
            Column("platform", label=True),
            Column("protocol", words=True),
            Column("version", words=True),
            Column("durability", words=True),
            Column("repetitions"),
            Column("runs", words=True),
        ),
        rows=tuple(_platform_row(side) for side in comparison.sides),
    )


def rates_table(comparison: Comparison) -> Table:
    """Every cell in common: objects/s and MB/s of each side, then the ratios to the first."""
    return Table(
        name="comparison",
        title=f"{listed(comparison)} compared",
        columns=(
            *_KEY_COLUMNS,
            *(Column(side.label, unit) for side in comparison.sides for unit in ("objects/s", "MB/s")),
            *(Column(comparison.pair(index)) for index in range(len(comparison.overall))),
        ),
        rows=tuple(_rates_row(cell) for cell in comparison.cells),
        caption="Rates: medians over repetitions; MB are 10^6 bytes. Ratios: geometric means over pairs of repetitions"
        f"{'' if comparison.interleaved else ', which were not interleaved'}. A ratio is a difference, faster or"
        " slower, unless its note says otherwise.",
    )


def differences_table(comparison: Comparison, index: int) -> Table:
    """What the verdicts on one further side rest on."""
    pair = comparison.pair(index)
    return Table(
        name=f"differences-{index + 1}",
        title=f"Differences: {pair}",
        columns=(
            *_KEY_COLUMNS,
            *(Column(name) for name in ("ratio", "95% from", "to", "adjusted p")),
            Column("verdict", words=True),
            *(Column(name) for name in ("pairs", "repetitions needed")),
        ),
        rows=tuple(
            _difference_row(cell, ratio) for cell in comparison.cells if (ratio := cell.ratios[index]) is not None
        ),
        caption="Verdicts: paired t test on the logarithms of the ratios, two-sided, Benjamini-Hochberg at"
        f" {FALSE_DISCOVERY_RATE:.0%} over all cells; fewer than {PAIRS_MIN} pairs give none. Repetitions needed: with"
        " which a 95% interval of the spread seen would exclude ratio 1, were the difference the one seen.",
    )


def overall_sentences(comparison: Comparison) -> list[str]:
    """One per platform after the first: the ratio over all cells, how many went which way, and what is marked."""
    return [
        f"{comparison.pair(index)}: {_whole(overall)}; {_counts(overall)}{_marked(overall)}"
        for index, overall in enumerate(comparison.overall)
    ]


def doubt_sentences(comparison: Comparison) -> list[str]:
    """The doubts about every run, each led by its platform."""
    return [f"{side.label}: {doubt}" for side in comparison.sides for run in side.runs for doubt in run.doubts]


def listed(comparison: Comparison) -> str:
    """The labels of all sides, in a sentence."""
    *others, last = (side.label for side in comparison.sides)
    return f"{', '.join(others)} and {last}"


def _whole(overall: Overall) -> str:
    ratio = overall.ratio
    if ratio.ratio is None:
        return ratio.words
    cells = (
        f"{overall.cells} of {overall.cells_in_common}" if overall.cells < overall.cells_in_common else overall.cells
    )
    over = f"over {cells} cell{'' if overall.cells_in_common == 1 else 's'}"
    times = f"{_rounded(ratio.ratio)} times"
    if ratio.low is None or ratio.high is None:
        return f"{times} {over}, {ratio.words}; at least {PAIRS_MIN} pairs are needed (--repeat)"
    unsure = "" if ratio.verdict in ("faster", "slower") else f", {ratio.words}"
    return f"{times} (95% {_rounded(ratio.low)}-{_rounded(ratio.high)}) {over}, {ratio.pairs} pairs{unsure}"


def _counts(overall: Overall) -> str:
    return ", ".join(f"{count} {verdict}" for verdict in VERDICTS if (count := overall.verdicts[verdict]))


def _marked(overall: Overall) -> str:
    return f"; marked: {'; '.join(overall.marks)}" if overall.marks else ""


def _platform_row(side: Side) -> tuple[Cell, ...]:
    platform = side.runs[0].row["platform"]
    return (
        Cell(side.label),
        Cell(platform["protocol"]),
        Cell(platform["version"] or "unknown"),
        Cell(platform["durability"]),
        Cell(f"{side.repetitions}", side.repetitions),
        Cell(", ".join(run.id for run in side.runs)),
    )


def _rates_row(cell: ComparedCell) -> tuple[Cell, ...]:
    rates = [each for measured in cell.measured for each in _rates(measured)]
    return (*_key_cells(cell), *rates, *(_noted_ratio(ratio) for ratio in cell.ratios))


def _rates(measured: MatrixCell | None) -> tuple[Cell, Cell]:
    if measured is None:
        return Cell(NOT_MEASURED), Cell(NOT_MEASURED)
    objects, megabytes = measured.objects_per_second, measured.megabytes_per_second
    return Cell(f"{objects:,.2f}", objects, measured.doubts), Cell(f"{megabytes:,.2f}", megabytes)


def _noted_ratio(ratio: Ratio | None) -> Cell:
    """The ratio, with its verdict as a note unless its direction says it."""
    if ratio is None:
        return Cell(NOT_MEASURED)
    unshown = () if ratio.verdict in ("faster", "slower") else (ratio.words,)
    return _number(ratio.ratio, (*unshown, *ratio.notes))


def _difference_row(cell: ComparedCell, ratio: Ratio) -> tuple[Cell, ...]:
    return (
        *_key_cells(cell),
        _number(ratio.ratio, ratio.notes),
        _number(ratio.low),
        _number(ratio.high),
        _probability(ratio.adjusted_p),
        Cell(ratio.words),
        Cell(f"{ratio.pairs}", ratio.pairs),
        _needed(ratio.needed),
    )


def _needed(needed: Needed | None) -> Cell:
    if needed is None:
        return Cell(NOT_MEASURED)
    notes = () if needed.seen else (f"to show a difference of {WORTH_SHOWING_SHARE:.0%}",)
    return Cell(f"{needed}", needed.repetitions, notes)


def _key_cells(cell: ComparedCell) -> tuple[Cell, ...]:
    key = cell.key
    return (
        Cell(key.operation),
        Cell(format_size(key.object_bytes)),
        Cell(f"{key.objects_per_session}", key.objects_per_session),
        Cell(f"{key.clients}", key.clients),
    )


def _number(value: float | None, notes: tuple[str, ...] = ()) -> Cell:
    return Cell(NOT_MEASURED, None, notes) if value is None else Cell(_rounded(value), value, notes)


def _rounded(ratio: float) -> str:
    """Two decimals, and for ratios far below 1 two digits."""
    return f"{ratio:,.2f}" if ratio >= 0.1 else f"{ratio:#.2g}"


def _probability(value: float | None) -> Cell:
    if value is None:
        return Cell(NOT_MEASURED)
    return Cell(f"{value:.4f}" if value >= _P_SHOWN_MIN else f"<{_P_SHOWN_MIN}", value)
