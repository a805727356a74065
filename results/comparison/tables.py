"""A comparison for people: tables of platforms, rates and differences, and one sentence per platform.

One idea: rates and ratios of all platforms stand side by side, and a ratio that shows no difference has a footnote
that says so; what the verdicts rest on (interval, p, pairs, what they could have shown) is a table of its own. The
same ratios have other forms (results/comparison/forms.py) for those who know them so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Literal, get_args

from results.comparison.compare import ComparedCell, Comparison, Overall, Side, median_of
from results.comparison.forms import KEY_COLUMNS, matrix_table, percent_tables, times_tables
from results.comparison.power import POWER
from results.comparison.ratio_cells import (
    DIFFERENCE_COLUMNS,
    difference_caption,
    difference_cells,
    interval,
    noted_ratio,
    percent,
    rounded,
)
from results.comparison.ratios import P50, P99, RATE, VERDICTS, Measure, Ratio
from results.comparison.workload_tables import (
    together_lines,
    workload_differences_table,
    workload_matrix_table,
    workload_percent_tables,
    workload_rates_table,
    workload_responses_table,
    workload_times_tables,
)
from results.matrix import MatrixCell
from results.statistics import PAIRS_MIN
from results.table import NOT_MEASURED, Cell, Column, Table, key_labels, number

Form = Literal["rates", "percent", "times", "matrix"]
FORMS: tuple[Form, ...] = get_args(Form)


def comparison_tables(comparison: Comparison, forms: Sequence[Form] = ("rates",)) -> list[Table]:
    """Platforms, the ratios in these forms, and for each platform after the first the differences and the latencies.

    Runs that were compared by force are marked in each of them.
    """
    of_cells: Mapping[Form, Callable[[Comparison], list[Table]]] = {
        "rates": lambda each: [rates_table(each)],
        "percent": percent_tables,
        "times": times_tables,
        "matrix": lambda each: [matrix_table(each)],
    }
    of_workloads: Mapping[Form, Callable[[Comparison], list[Table]]] = {
        "rates": lambda each: [workload_rates_table(each)],
        "percent": workload_percent_tables,
        "times": workload_times_tables,
        "matrix": lambda each: [workload_matrix_table(each)],
    }
    made = [*([of_cells] if comparison.cells else []), *([of_workloads] if comparison.units else [])]
    rest: list[Callable[[Comparison, int], Table]] = []
    rest += [differences_table, latencies_table] if comparison.cells else []
    rest += [workload_differences_table, workload_responses_table] if comparison.units else []
    tables = [
        platform_table(comparison),
        *(table for form in forms for tables_of in made for table in tables_of[form](comparison)),
        *(table_of(comparison, index) for table_of in rest for index in range(len(comparison.overall))),
    ]
    return [_marked_as_forced(table, comparison) for table in tables]


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
            *KEY_COLUMNS,
            *(Column(side.label, unit) for side in comparison.sides for unit in ("objects/s", "MB/s")),
            *(Column(comparison.pair(index)) for index in range(len(comparison.overall))),
        ),
        rows=tuple(_rates_row(cell) for cell in comparison.cells),
        caption="Rates: medians over repetitions; MB are 10^6 bytes. Ratios: geometric means over pairs of repetitions"
        f"{'' if comparison.interleaved else ', which were not interleaved'}. A ratio is a difference, better or"
        " worse, unless its note says otherwise.",
    )


def differences_table(comparison: Comparison, index: int) -> Table:
    """What the verdicts on one further side rest on."""
    pair = comparison.pair(index)
    return Table(
        name=f"differences-{index + 1}",
        title=f"Differences: {pair}",
        columns=(*KEY_COLUMNS, *DIFFERENCE_COLUMNS),
        rows=tuple(
            (*key_labels(cell.key), *difference_cells(ratio))
            for cell in comparison.cells
            if (ratio := cell.ratios[index]) is not None
        ),
        caption=difference_caption("cells"),
    )


def latencies_table(comparison: Comparison, index: int) -> Table:
    """Median and 99th percentile of an object's service time on the first and on one further side."""
    sides = (comparison.sides[0], comparison.sides[index + 1])
    percentiles = {"p50": P50, "p99": P99}
    return Table(
        name=f"latencies-{index + 1}",
        title=f"Latencies: {comparison.pair(index)}",
        columns=(
            *KEY_COLUMNS,
            *(
                column
                for name in percentiles
                for column in (
                    *(Column(f"{name} {side.label}", "ms") for side in sides),
                    Column("ratio"),
                    Column("95%"),
                )
            ),
        ),
        rows=tuple(
            (
                *key_labels(cell.key),
                *(each for measure in percentiles.values() for each in _latency(cell, index, measure)),
            )
            for cell in comparison.cells
            if cell.ratios[index] is not None
        ),
        caption="Service time of an object: medians over repetitions, ratios over pairs of them. A ratio is a"
        " difference, better below 1 and worse above, unless its note says otherwise; each percentile is corrected over"
        " all cells by itself.",
    )


def forced_sentence(comparison: Comparison) -> str:
    """What stands over everything where unlike runs are compared by force; empty where nothing was forced."""
    return f"FORCED, no verdicts: {'; '.join(comparison.forced)}." if comparison.forced else ""


def overall_sentences(comparison: Comparison) -> list[str]:
    """One per platform after the first: the ratio over all cells, how many went which way, what the pairs would have
    shown, the latencies, and what is marked."""
    return [
        f"{comparison.pair(index)}: {_whole(overall)}; {_counts(overall)}{_shown(comparison, index)}"
        f"{_latency_words(comparison, index)}{_together(comparison, index)}{_forced(overall)}{_marked(overall)}"
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
    over = f"over {cells} {overall.of}{'' if overall.cells_in_common == 1 else 's'}"
    times = f"{rounded(ratio.ratio)} times"
    if ratio.low is None or ratio.high is None:
        return f"{times} {over}, {ratio.words}; at least {PAIRS_MIN} pairs are needed (--repeat)"
    unsure = "" if ratio.verdict in ("better", "worse") else f", {ratio.words}"
    return f"{times} (95% {rounded(ratio.low)}-{rounded(ratio.high)}) {over}, {ratio.pairs} pairs{unsure}"


def _counts(overall: Overall) -> str:
    return ", ".join(f"{count} {verdict}" for verdict in VERDICTS if (count := overall.verdicts[verdict]))


def _shown(comparison: Comparison, index: int) -> str:
    """What the pairs could have shown of a difference, over all cells and in the median one."""
    whole = comparison.overall[index].ratio.detectable_percent
    cells = [
        ratio.detectable_percent
        for ratio in _judged(comparison, index, RATE)
        if ratio is not None and ratio.detectable_percent is not None
    ]
    if whole is None or not cells:
        return ""
    each = (
        f", and from {percent(median(cells))}% in the median {comparison.overall[index].of}" if len(cells) > 1 else ""
    )
    return f"; would show differences from {percent(whole)}%{each} (power {POWER:.0%})"


def _marked_as_forced(table: Table, comparison: Comparison) -> Table:
    sentence = forced_sentence(comparison)
    return replace(table, caption=f"{sentence} {table.caption}".rstrip()) if sentence else table


def _latency_words(comparison: Comparison, index: int) -> str:
    """``; p50 service 0.80 times (better), p99 service 1.10 times over 3 cells (no difference shown)``, where pairs
    allow; cells are told where they are not those of the rates."""
    overall = comparison.overall[index]
    words = []
    for measure in (P50, P99):
        ratio = overall.latencies[measure.name]
        if ratio.ratio is None or ratio.low is None:
            continue
        cells = sum(ratio is not None and ratio.p is not None for ratio in _judged(comparison, index, measure))
        over = f" over {cells} {overall.of}{'' if cells == 1 else 's'}" if cells != overall.cells else ""
        words.append(f"{measure.words} {rounded(ratio.ratio)} times{over} ({ratio.words})")
    return f"; {', '.join(words)}" if words else ""


def _judged(comparison: Comparison, index: int, measure: Measure) -> list[Ratio | None]:
    """The ratios in this measure that the whole is made of."""
    if comparison.overall[index].of == "cell":
        return [(cell.ratios if measure is RATE else cell.latencies[measure.name])[index] for cell in comparison.cells]
    return [
        unit.ratios[measure.name][index]
        for unit in comparison.units
        if unit.key.is_workload and measure.name in unit.ratios
    ]


def _together(comparison: Comparison, index: int) -> str:
    """``; all workloads together at 4 tiles: steady MB/s 0.99 times (95% 0.98-1.01, no difference shown), ...``"""
    lines = [
        (f"{unit.key.operation} {measure.words}", unit.key.scale, ratio)
        for unit, measure in together_lines(comparison)
        if (ratio := unit.ratios[measure.name][index]) is not None and ratio.ratio is not None
    ]
    if not lines:
        return ""
    words = {ratio.words for _, _, ratio in lines}
    told = [
        f"{what} {rounded(ratio.ratio or 0.0)} times{_in_brackets(ratio, '' if len(words) == 1 else ratio.words)}"
        for what, _, ratio in lines
    ]
    once = f": {words.pop()}" if len(words) == 1 else ""
    scale = lines[0][1]
    at = f" at {scale:g} {comparison.scale_name}" if scale is not None else ""
    return f"; all workloads together{at}: {', '.join(told)}{once}"


def _in_brackets(ratio: Ratio, words: str) -> str:
    reach = "" if ratio.low is None or ratio.high is None else f"95% {rounded(ratio.low)}-{rounded(ratio.high)}"
    told = ", ".join(filter(None, (reach, words)))
    return f" ({told})" if told else ""


def _forced(overall: Overall) -> str:
    return f"; FORCED: {'; '.join(overall.forced)}" if overall.forced else ""


def _marked(overall: Overall) -> str:
    """But for what the reasons against this comparison have said already."""
    marks = [mark for mark in overall.marks if not any(reason.startswith(mark) for reason in overall.forced)]
    return f"; marked: {'; '.join(marks)}" if marks else ""


def _platform_row(side: Side) -> tuple[Cell, ...]:
    platform = side.runs[0].row.platform
    return (
        Cell(side.label),
        Cell(platform.protocol),
        Cell(platform.version or "unknown"),
        Cell(platform.durability),
        Cell(f"{side.repetitions}", side.repetitions),
        Cell(", ".join(run.id for run in side.runs)),
    )


def _rates_row(cell: ComparedCell) -> tuple[Cell, ...]:
    rates = [each for measured in cell.measured for each in _rates(measured)]
    return (*key_labels(cell.key), *rates, *(noted_ratio(ratio) for ratio in cell.ratios))


def _rates(measured: MatrixCell | None) -> tuple[Cell, Cell]:
    if measured is None:
        return Cell(NOT_MEASURED), Cell(NOT_MEASURED)
    objects, megabytes = measured.objects_per_second, measured.megabytes_per_second
    return Cell(f"{objects:,.2f}", objects, measured.doubts), Cell(f"{megabytes:,.2f}", megabytes)


def _latency(cell: ComparedCell, index: int, measure: Measure) -> tuple[Cell, ...]:
    """Of both sides, then the ratio with its interval."""
    ratio = cell.latencies[measure.name][index]
    both = (cell.measured[0], cell.measured[index + 1])
    return (
        *(number(median_of(measure, each) if each else None, 3) for each in both),
        noted_ratio(ratio),
        interval(ratio),
    )
