"""Tables and sentences of a comparison: platforms, rates, differences, and one sentence per platform.

Rates and ratios of all platforms are in the same rows. A ratio without a shown difference has a footnote. The basis of
the verdicts (interval, p, pairs, detectable difference) is a separate table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean, median

from archiver.values.platform import PlatformProfile
from results.comparison.compare import KINDS, ComparedUnit, Comparison, Kind, Overall, Side
from results.comparison.power import POWER
from results.comparison.published import published_table
from results.comparison.ratio_cells import percent, rounded
from results.comparison.ratio_tables import (
    differences_table,
    latencies_table,
    matrix_table,
    object_times_table,
    rates_table,
    study_units,
    whole_phase_lines,
)
from results.comparison.ratios import VERDICTS, Ratio
from results.document.table import Column, Table, TableSpec
from results.measures.metrics import P50, P99, RATE, SESSION, Measure
from results.measures.statistics import PAIRS_MIN, RATIOS_APART_MAX
from results.measures.units import UnitKey
from results.prices.disclosure import disclosure_table
from results.report.key_figures import where


@dataclass(frozen=True, slots=True)
class ComparisonTables:
    """The tables of a comparison. Each table of measurements marks runs that were compared by force."""

    platforms: Table
    rates: tuple[Table, ...]  # every rate with its ratios
    further: tuple[Table, ...]  # the same ratios in other layouts, published ones, and the basis of the verdicts
    latencies: tuple[Table, ...]
    disclosure: Table

    @property
    def all(self) -> tuple[Table, ...]:
        return (self.platforms, *self.rates, *self.further, *self.latencies, self.disclosure)


def comparison_tables(comparison: Comparison) -> ComparisonTables:
    """Return the tables of a comparison. Cells and workloads have tables of their own."""
    kinds = [kind for kind in KINDS if any(unit.key.is_cell == (kind == "cell") for unit in comparison.units)]
    further = range(len(comparison.overall))
    between_protocols = [index for index in further if not comparison.is_one_protocol(index)]

    def marked(tables: Iterable[Table]) -> tuple[Table, ...]:
        return tuple(_marked_as_forced(table, comparison) for table in tables if table.rows)

    def of_each(table_of: Callable[[Comparison, Kind, int], Table], indices: Iterable[int]) -> list[Table]:
        return [table_of(comparison, kind, index) for kind, index in product(kinds, indices)]

    return ComparisonTables(
        platforms=_marked_as_forced(_PLATFORMS.table(comparison.sides), comparison),
        rates=marked(rates_table(comparison, kind) for kind in kinds),
        further=(
            *([published_table()] if comparison.workloads else []),
            *marked([matrix_table(comparison, kind) for kind in kinds]),
            *marked(of_each(differences_table, further)),
        ),
        latencies=marked([*of_each(latencies_table, further), *of_each(object_times_table, between_protocols)]),
        disclosure=disclosure_table({side.label: side.disclosure for side in comparison.sides}),
    )


def forced_sentence(comparison: Comparison) -> str:
    """Return the sentence above everything if unlike runs were compared by force; empty otherwise."""
    return f"FORCED, no verdicts: {'; '.join(comparison.forced)}." if comparison.forced else ""


def answer_sentences(comparison: Comparison) -> list[str]:
    """Return how fast each further platform is compared with the first, a sentence each; of cells one per operation."""
    indices = range(len(comparison.overall))
    if comparison.cells:
        return [sentence for index in indices for sentence in _cell_answers(comparison, index)]
    return [_answer(comparison, index) for index in indices]


def overall_sentences(comparison: Comparison) -> list[str]:
    """Return one sentence per platform after the first.

    It states the ratio over all cells, the number of cells in each direction, the detectable difference, the latencies,
    and the marks.
    """
    return [
        f"{comparison.pair(index)}: {_whole(comparison, index)}; {_counts(overall)}{_shown(comparison, index)}"
        f"{_latency_words(comparison, index)}{_whole_phase(comparison, index)}{_forced(overall)}{_marked(overall)}"
        for index, overall in enumerate(comparison.overall)
    ]


def difference_sentences(comparison: Comparison) -> list[str]:
    """Return what distinguishes the measurements by design, in one sentence for each platform after the first."""
    return [
        f"note: {'; '.join(mark.partition(' (')[0].partition(':')[0] for mark in overall.marks)}{_forced(overall)}"
        for overall in comparison.overall
        if overall.marks or overall.forced
    ]


def doubt_sentences(comparison: Comparison) -> list[str]:
    """Return the warnings about every run, each beginning with its platform."""
    return [f"{side.label}: {doubt}" for side in comparison.sides for run in side.runs for doubt in run.doubts]


def _cell_answers(comparison: Comparison, index: int) -> Iterator[str]:
    """Yield ``minio archives 1.60 times (95%: 1.30 to 1.90) as fast as seaweedfs at 8KiB x 100; ...``.

    It names the smallest and the largest objects that both sides measured, at the cell that is fastest on the first.
    """
    first, other = comparison.sides[0].label, comparison.sides[index + 1].label
    for operation, verb in (("archive", "archives"), ("retrieve", "retrieves")):
        of_size: dict[int, ComparedUnit] = {}
        for cell in comparison.cells:
            ratio, key = cell.ratio(RATE, index), cell.key
            if cell.first.first.operation == operation and ratio is not None and ratio.ratio is not None:
                known = of_size.get(key.object_bytes)
                if known is None or cell.first.objects_per_second > known.first.objects_per_second:
                    of_size[key.object_bytes] = cell
        chosen = [of_size[size] for size in dict.fromkeys((min(of_size), max(of_size)))] if of_size else []
        if chosen:
            yield f"{other} {verb} {'; '.join(_cell_answer(cell, index, first) for cell in chosen)}."


def _cell_answer(cell: ComparedUnit, index: int, first: str) -> str:
    """Return ``1.60 times (95%: 1.30 to 1.90) as fast as seaweedfs at 8KiB x 100``."""
    ratio = cell.ratio(RATE, index)
    assert ratio is not None, "only cells with a ratio are chosen"
    at = f"at {where(cell.first)}"
    reach = f" (95%: {rounded(ratio.low)} to {rounded(ratio.high)})" if ratio.low is not None and ratio.high else ""
    times = f"{rounded(ratio.ratio or 0.0)} times{reach} as fast as {first} {at}"
    return times if ratio.verdict in ("better", "worse") else f"{times}: {ratio.words}"


def _answer(comparison: Comparison, index: int) -> str:
    """Return how fast a further platform is compared with the first, in one sentence.

    One ratio stands for all cells, the geometric mean; none where they are more than RATIOS_APART_MAX times apart.
    """
    first, other = comparison.sides[0].label, comparison.sides[index + 1].label
    overall = comparison.overall[index]
    ratio, found = overall.ratio, _ratios(comparison, index)
    if not found:
        return f"{other} and {first} have no rate to compare: {ratio.words}."
    if _are_apart(found):
        slowest, fastest = min(found, key=lambda key: found[key]), max(found, key=lambda key: found[key])
        return (
            f"{other} reached {rounded(found[slowest])} times ({slowest}) to {rounded(found[fastest])} times"
            f" ({fastest}) the rate of {first} over {len(found):,} {overall.of}s, too far apart for one ratio:"
            f" {_counts(overall)}."
        )
    if ratio.ratio is not None and ratio.low is not None and ratio.high is not None:
        interval = f"95%: {rounded(ratio.low)} to {rounded(ratio.high)}"
        over = f"over {overall.cells:,} {overall.of}{'' if overall.cells_in_common == 1 else 's'}"
        return f"{other} reaches {rounded(ratio.ratio)} times the rate of {first} ({interval}) {over}: {ratio.words}."
    if len(found) == 1:
        ((_, only),) = found.items()
        return f"{other} reached {rounded(only)} times the rate of {first} in one {overall.of}: {ratio.words}."
    mean = ratio.ratio if ratio.ratio is not None else math.exp(fmean(map(math.log, found.values())))
    spread = f"{rounded(min(found.values()))} to {rounded(max(found.values()))}"
    which = f"in the geometric mean of {len(found):,} {overall.of}s"
    return f"{other} reached {rounded(mean)} times the rate of {first} {which} ({spread}): {ratio.words}."


def _ratios(comparison: Comparison, index: int) -> dict[UnitKey, float]:
    """Return the ratios of rates of the units with a verdict; of all if none has one."""
    units = comparison.cells or study_units(comparison)
    ratios = {unit.key: unit.ratio(RATE if comparison.cells else unit.main_measure, index) for unit in units}
    found = {key: ratio for key, ratio in ratios.items() if ratio is not None and ratio.ratio}
    judged = {key: ratio for key, ratio in found.items() if ratio.verdict != "no verdict"}
    return {key: ratio.ratio for key, ratio in (judged or found).items() if ratio.ratio}


def _are_apart(ratios: Mapping[UnitKey, float]) -> bool:
    return bool(ratios) and max(ratios.values()) > min(ratios.values()) * RATIOS_APART_MAX


def _whole(comparison: Comparison, index: int) -> str:
    overall, ratios = comparison.overall[index], _ratios(comparison, index)
    ratio = overall.ratio
    if ratio.ratio is None:
        return ratio.words
    if _are_apart(ratios):
        span = f"{rounded(min(ratios.values()))} to {rounded(max(ratios.values()))} times"
        return f"{span} over {len(ratios):,} {overall.of}s, too far apart for one ratio"
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
    """Return the detectable difference of the pairs, over all cells and in the median cell."""
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
    return f"; can detect differences from {percent(whole)}%{each} (power {POWER:.0%})"


def _marked_as_forced(table: Table, comparison: Comparison) -> Table:
    sentence = forced_sentence(comparison)
    return replace(table, caption=f"{sentence} {table.caption}".rstrip()) if sentence else table


def _latency_words(comparison: Comparison, index: int) -> str:
    """Return the latencies in words, if the pairs allow.

    Example: ``; mean session 0.80 times (better), p99 service 1.10 times over 3 cells (no difference shown)``. Between
    protocols only sessions have words.

    The number of cells appears if it differs from that of the rates.
    """
    overall = comparison.overall[index]
    words = []
    for measure in (SESSION, P50, P99):
        ratio = overall.latencies[measure.name]
        if ratio.ratio is None or ratio.low is None:
            continue
        cells = sum(ratio is not None and ratio.p is not None for ratio in _judged(comparison, index, measure))
        over = f" over {cells} {overall.of}{'' if cells == 1 else 's'}" if cells != overall.cells else ""
        words.append(f"{measure.words} {rounded(ratio.ratio)} times{over} ({ratio.words})")
    return f"; {', '.join(words)}" if words else ""


def _judged(comparison: Comparison, index: int, measure: Measure) -> list[Ratio | None]:
    """Return the ratios in this measure that the overall ratio consists of."""
    return [
        unit.ratio(measure, index)
        for unit in comparison.units
        if (unit.key.is_cell if comparison.overall[index].of == "cell" else unit.key.is_workload)
    ]


def _whole_phase(comparison: Comparison, index: int) -> str:
    """Return the rates of all workloads together in words.

    Example: ``; all workloads together at 4 tiles: steady MB/s 0.99 times (95% 0.98-1.01, no difference shown), ...``
    """
    measured = [
        (f"{line.key.operation} {line.measure.words}", line.key.scale, ratio)
        for line in whole_phase_lines(comparison)
        if (ratio := line.ratio(index)) is not None and ratio.ratio is not None
    ]
    if not measured:
        return ""
    words = {ratio.words for _, _, ratio in measured}
    words_of_rates = [
        f"{what} {rounded(ratio.ratio or 0.0)} times{_in_brackets(ratio, '' if len(words) == 1 else ratio.words)}"
        for what, _, ratio in measured
    ]
    once = f": {words.pop()}" if len(words) == 1 else ""
    scale = measured[0][1]
    at = f" at {scale:g} {comparison.scale_name}" if scale is not None else ""
    return f"; all workloads together{at}: {', '.join(words_of_rates)}{once}"


def _in_brackets(ratio: Ratio, words: str) -> str:
    reach = "" if ratio.low is None or ratio.high is None else f"95% {rounded(ratio.low)}-{rounded(ratio.high)}"
    words_of_rates = ", ".join(filter(None, (reach, words)))
    return f" ({words_of_rates})" if words_of_rates else ""


def _forced(overall: Overall) -> str:
    return f"; FORCED: {'; '.join(overall.forced)}" if overall.forced else ""


def _marked(overall: Overall) -> str:
    """Return the marks, without those that the reasons against this comparison already state."""
    marks = [mark for mark in overall.marks if not any(reason.startswith(mark) for reason in overall.forced)]
    return f"; marked: {'; '.join(marks)}" if marks else ""


def _platform(side: Side) -> PlatformProfile:
    return side.runs[0].row.platform


_PLATFORMS = TableSpec(  # what was compared: one row per side
    "platforms",
    "Compared",
    (
        Column("platform", of=lambda side: side.label, label=True),
        Column("protocol", of=lambda side: _platform(side).protocol, words=True),
        Column("version", of=lambda side: _platform(side).version or "unknown", words=True),
        Column("durability", of=lambda side: _platform(side).durability, words=True),
        Column("repetitions", of=lambda side: side.repetitions),
        Column("runs", of=lambda side: ", ".join(run.id for run in side.runs), words=True),
    ),
)
