"""Workloads that ran side by side, compared: in the same forms as the cells of a matrix.

One idea: a row is a workload at a scale, with all its copies, and is told by the rate by which it is known: MB/s where
its objects are large, objects/s where they are small. The forms of published studies, percent and times, show the
largest scale that was measured on all, end with all workloads together, and have the published ratios below, as ESG's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from archiver.values.sizes import format_size
from results.comparison.compare import ComparedUnit, Comparison
from results.comparison.published import faster_tier, fewer_paths
from results.comparison.ratio_cells import (
    DIFFERENCE_COLUMNS,
    difference_caption,
    difference_cells,
    faster_cells,
    faster_words,
    interval,
    noted_ratio,
    percent_cells,
    times,
    times_cells,
)
from results.comparison.ratios import RESPONSE, Measure, Ratio
from results.comparison.units import (
    LARGE_BYTES,
    MEGABYTE_RATE,
    RESPONSE_P99,
    SESSION_RATE,
    TOGETHER,
    Unit,
)
from results.mixed.programme import PEAK_SECONDS
from results.table import NOT_MEASURED, Cell, Column, Table, label_columns, number

_GEOMETRIC = "geometric mean"
_TOLD_BY = (
    f"Workloads with objects of {format_size(LARGE_BYTES)} or more on average are told by MB/s (10^6 bytes), others by"
    " objects/s, open loops by sessions/s, too. Where several numbers of clients took turns, the best of each copy is"
    " told; each number is in the JSON and the CSV."
)
_COPIES = (
    "Copies of a workload (tiles) count together: rates add up. Pairs are repetitions (--repeat) alone: tiles of one"
    " run ran beside each other, and are no pairs."
)
_TOGETHER = (
    f"All workloads together: from the first to the last second in which all of them were under way; steady: the median"
    f" of the seconds outside spikes; peak: the best {PEAK_SECONDS:g} s."
)

Line = tuple[ComparedUnit, Measure]


def workload_rates_table(comparison: Comparison) -> Table:
    """Every workload, its parts, and all together, at every scale: the rate of each side, then the ratios to the
    first."""
    return Table(
        name="workloads",
        title="Workloads side by side",
        columns=(
            *_columns(comparison),
            *(Column(side.label) for side in comparison.sides),
            *(Column(comparison.pair(index)) for index in range(len(comparison.overall))),
        ),
        rows=tuple(
            (
                *_labels(comparison, line),
                *(_median(measured, measure) for measured in unit.measured),
                *(noted_ratio(ratio) for ratio in unit.ratios[measure.name]),
            )
            for line in _lines(comparison.units)
            for unit, measure in [line]
        ),
        caption=f"Rates: medians over repetitions; ratios: geometric means over pairs of them. A ratio is a difference,"
        f" better or worse, unless its note says otherwise. {_TOLD_BY} {_COPIES} {_TOGETHER}",
    )


def workload_percent_tables(comparison: Comparison) -> list[Table]:
    """A table per further platform, as in ESG's Table 5: the largest scale, as percent of the first's."""
    first = comparison.sides[0].label
    published = fewer_paths()
    note = (
        f"ESG Lab's, of block storage, and not measured here: {published.candidate} as percent of {published.baseline}"
        f" ({published.source}, Table 5)"
    )
    tables, blank = [], Cell("")
    for index, side in enumerate(comparison.sides[1:]):
        rows = [
            (
                *_labels(comparison, (unit, measure)),
                *(_median(each, measure) for each in (unit.measured[0], unit.measured[index + 1])),
                *percent_cells(ratio),
            )
            for unit, measure in _study_lines(comparison, index)
            if (ratio := unit.ratios[measure.name][index]) is not None
        ]
        rows += [
            (*_of_none(comparison, "", _GEOMETRIC), blank, blank, *percent_cells(ratio))
            for ratio in _geometric(comparison, index)
        ]
        rows += [
            (*_of_none(comparison, "ESG", what, note), blank, blank, number(percent, 2), blank, blank)
            for what, percent in published.percents.items()
        ]
        tables.append(
            Table(
                name=f"workloads-percent-{index + 1}",
                title=f"Workloads: {side.label} as percent of {first}",
                columns=(
                    *_columns(comparison),
                    Column(first),
                    Column(side.label),
                    Column(side.label, f"% of {first}"),
                    Column("95%"),
                    Column("verdict", words=True),
                ),
                rows=tuple(rows),
                caption=f"{_largest(comparison, index)}Rates: medians over repetitions; percent: geometric means over"
                f" pairs of them. {_TOLD_BY} {_COPIES} {_TOGETHER}",
            )
        )
    return tables


def workload_times_tables(comparison: Comparison) -> list[Table]:
    """A table per further platform, as reports on tiering have it: times the rate, and by how much faster."""
    first = comparison.sides[0].label
    published = faster_tier()
    note = (
        f"ESG Lab's, of block storage, and not measured here: {published.candidate} beside {published.baseline}"
        f" ({published.source})"
    )
    tables, blank, none = [], Cell(""), Cell(NOT_MEASURED)
    for index, side in enumerate(comparison.sides[1:]):
        rows = [
            (
                *_labels(comparison, (unit, measure)),
                *times_cells(ratio),
                *faster_cells(_response(unit, index)),
            )
            for unit, measure in _study_lines(comparison, index)
            if (ratio := unit.ratios[measure.name][index]) is not None and measure is not SESSION_RATE
        ]
        rows += [
            (
                *_of_none(comparison, "", _GEOMETRIC),
                *times_cells(ratio),
                *faster_cells(comparison.overall[index].ratio_of(RESPONSE)),
            )
            for ratio in _geometric(comparison, index)
        ]
        mixed = Cell(times(published.mixed_io_ratio), published.mixed_io_ratio)
        rows.append((*_of_none(comparison, "ESG", "mixed I/O", note), mixed, blank, blank, none, blank, blank))
        for application, faster in published.percent_faster.items():
            rows.append(
                (
                    *_of_none(comparison, "ESG", application, note),
                    *(none, blank, blank),
                    *(Cell(faster_words(faster), faster), blank, blank),
                )
            )
        tables.append(
            Table(
                name=f"workloads-times-{index + 1}",
                title=f"Workloads: {side.label} beside {first}: times more, and faster response",
                columns=(
                    *_columns(comparison),
                    Column("rate"),
                    Column("95%"),
                    Column("verdict", words=True),
                    Column("response"),
                    Column("95%", "% faster"),
                    Column("verdict", words=True),
                ),
                rows=tuple(rows),
                caption=f"{_largest(comparison, index)}Times: the rate over that of {first}. Response: the mean time of"
                " an object, from when it was due to its end; 33% faster takes a third less time, 50% slower half as"
                f" much again. {_TOLD_BY} {_COPIES} {_TOGETHER}",
            )
        )
    return tables


def workload_matrix_table(comparison: Comparison) -> Table:
    """The ratio of every workload (down) at every scale (across), for each further platform."""
    scales = sorted({unit.key.scale or 0.0 for unit in comparison.units})
    series: dict[tuple[str, str, str, str], dict[float, Line]] = {}
    for unit, measure in _lines(comparison.units):
        row = series.setdefault((unit.key.phase, unit.key.workload, unit.key.operation or "all", measure.words), {})
        row[unit.key.scale or 0.0] = (unit, measure)

    def shown(line: Line | None, index: int) -> Cell:
        return noted_ratio(line[0].ratios[line[1].name][index] if line else None)

    return Table(
        name="workloads-matrix",
        title=f"Workloads, ratio to {comparison.sides[0].label}",
        columns=(
            *label_columns("phase", "workload", "operation", "told by", "platform"),
            *(Column(f"{scale:g}" if scale else "ratio") for scale in scales),
        ),
        rows=tuple(
            (
                *map(Cell, names),
                Cell(side.label),
                *(shown(row.get(scale), index) for scale in scales),
            )
            for names, row in series.items()
            for index, side in enumerate(comparison.sides[1:])
        ),
        caption=f"Geometric means over pairs of repetitions. A ratio is a difference, better or worse, unless its note"
        f" says otherwise. {_COPIES}",
        across=comparison.scale_name,
    )


def workload_differences_table(comparison: Comparison, index: int) -> Table:
    """What the verdicts on one further side rest on."""
    return Table(
        name=f"workloads-differences-{index + 1}",
        title=f"Differences of workloads: {comparison.pair(index)}",
        columns=(*_columns(comparison), *DIFFERENCE_COLUMNS),
        rows=tuple(
            (*_labels(comparison, (unit, measure)), *difference_cells(ratio))
            for unit, measure in _lines(comparison.units)
            if (ratio := unit.ratios[measure.name][index]) is not None
        ),
        caption=f"{difference_caption('workloads, parts and scales')} {_COPIES}",
    )


def workload_responses_table(comparison: Comparison, index: int) -> Table:
    """Mean and 99th percentile of the response time on the first and on one further side."""
    sides = (comparison.sides[0], comparison.sides[index + 1])
    measures = {"mean": RESPONSE, "p99": RESPONSE_P99}
    rows = []
    for unit in study_units(comparison.units):
        if RESPONSE.name not in unit.ratios or unit.ratios[RESPONSE.name][index] is None:
            continue
        cells = [*_labels(comparison, (unit, RESPONSE))[:-1]]
        for measure in measures.values():
            ratio = unit.ratios[measure.name][index] if measure.name in unit.ratios else None
            both = (unit.measured[0], unit.measured[index + 1])
            cells += [*(_median(each, measure) for each in both), noted_ratio(ratio), interval(ratio)]
        rows.append(tuple(cells))
    return Table(
        name=f"workloads-responses-{index + 1}",
        title=f"Response times of workloads: {comparison.pair(index)}",
        columns=(
            *_columns(comparison)[:-1],
            *(
                column
                for name in measures
                for column in (
                    *(Column(f"{name} {side.label}", "ms") for side in sides),
                    Column("ratio"),
                    Column("95%"),
                )
            ),
        ),
        rows=tuple(rows),
        caption="Response time of an object, from when it was due to its end: medians over repetitions, ratios over"
        " pairs of them; of several copies the mean over all objects, and the worst p99. A ratio is a difference,"
        " better below 1 and worse above, unless its note says otherwise.",
    )


def together_lines(comparison: Comparison) -> list[Line]:
    """All workloads of the largest scale together, and the score: what a sentence tells."""
    return [line for line in _study_lines(comparison, None) if line[0].key.workload == TOGETHER]


def study_units(units: Iterable[ComparedUnit]) -> list[ComparedUnit]:
    """Workloads with their parts, and all together; without each number of clients."""
    return [unit for unit in units if unit.key.clients is None]


def _study_lines(comparison: Comparison, index: int | None) -> list[Line]:
    """Those of the largest scale that a further side measured, throughput first, then operations, then all together."""
    there = [
        (unit, measure)
        for unit, measure in _lines(comparison.units)
        if index is None or unit.ratios[measure.name][index] is not None
    ]
    largest = max((unit.key.scale or 0.0 for unit, _ in there), default=0.0)
    chosen = [line for line in there if (line[0].key.scale or 0.0) == largest]
    return sorted(chosen, key=_rank)


def _rank(line: Line) -> int:
    unit, measure = line
    if unit.key.workload == TOGETHER:
        return 2
    return 0 if measure is MEGABYTE_RATE else 1


def _lines(units: Iterable[ComparedUnit]) -> Iterator[Line]:
    """Each by the rate by which it is known; open loops by their sessions, too, all together by MB/s and objects/s."""
    for unit in study_units(units):
        yield unit, unit.telling
        if SESSION_RATE.name in unit.ratios:
            yield unit, SESSION_RATE
        if unit.key.workload == TOGETHER:
            yield from ((unit, measure) for measure in unit.first.measures[1:])


def _geometric(comparison: Comparison, index: int) -> Sequence[Ratio]:
    """That of the rates, where the whole is over workloads, and there are several."""
    overall = comparison.overall[index]
    return [overall.ratio] if overall.of == "workload" and overall.cells_in_common > 1 else []


def _largest(comparison: Comparison, index: int) -> str:
    """``At 4 tiles, the most that both measured.``"""
    lines = _study_lines(comparison, index)
    scale = lines[0][0].key.scale if lines else None
    if scale is None:
        return ""
    return f"At {scale:g} {comparison.scale_name}, the most that both measured; --form rates has the others. "


def _response(unit: ComparedUnit, index: int) -> Ratio | None:
    return unit.ratios[RESPONSE.name][index] if RESPONSE.name in unit.ratios else None


def _has_scale(comparison: Comparison) -> bool:
    return any(unit.key.scale is not None for unit in comparison.units)


def _columns(comparison: Comparison) -> tuple[Column, ...]:
    """Those that name a row."""
    scale = (comparison.scale_name or "scale",) if _has_scale(comparison) else ()
    return label_columns("phase", *scale, "workload", "operation", "clients", "told by")


def _labels(comparison: Comparison, line: Line) -> tuple[Cell, ...]:
    unit, measure = line
    scale = (_scale(unit.key.scale),) if _has_scale(comparison) else ()
    operation = Cell(unit.key.operation or "all")
    return Cell(unit.key.phase), *scale, Cell(unit.key.workload), operation, _clients(unit), Cell(measure.words)


def _scale(scale: float | None) -> Cell:
    return Cell(NOT_MEASURED) if scale is None else Cell(f"{scale:g}", scale)


def _clients(unit: ComparedUnit) -> Cell:
    """Of each copy."""
    counts = unit.first.clients
    if unit.key.workload == TOGETHER:
        return Cell("")
    return number(counts[0], 0) if len(counts) == 1 else Cell(f"{counts[0]} to {counts[-1]}")


def _of_none(comparison: Comparison, phase: str, what: str, note: str = "") -> tuple[Cell, ...]:
    """The labels of a row that is of no workload, with no quantity."""
    scale = (Cell(""),) if _has_scale(comparison) else ()
    return Cell(phase), *scale, Cell(what, None, (note,) if note else ()), Cell(""), Cell(""), Cell("")


def _median(unit: Unit | None, measure: Measure) -> Cell:
    return number(unit.median(measure) if unit else None, 2 if measure.more_is_better else 3)
