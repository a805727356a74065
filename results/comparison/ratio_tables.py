"""The ratios of a comparison as tables, of cells or of workloads.

One rate represents a workload: MB/s of large objects and objects/s of small ones. The copies of a workload of tiles
count together. A matrix has the ratios in the layout of the DR550 paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from archiver.values.sizes import format_size
from results.comparison.compare import ComparedUnit, Comparison, Kind
from results.comparison.ratio_cells import DIFFERENCE_COLUMNS, difference_caption, interval, noted_ratio
from results.comparison.ratios import Ratio
from results.document.table import NOT_MEASURED, Cell, Column, Table, TableSpec, columns_of, label_columns, number
from results.measures.metrics import (
    P50,
    P99,
    RATE,
    RESPONSE,
    RESPONSE_P99,
    SESSION,
    SESSION_RATE,
    Measure,
)
from results.measures.units import ALL_WORKLOADS, LARGE_BYTES, Unit, UnitKey
from results.mixed.programme import PEAK_SECONDS
from results.tables.columns import KEY_COLUMNS, rate_cell

_TOLD_BY = (
    f"The rate of workloads with objects of {format_size(LARGE_BYTES)} or more on average is MB/s (10^6 bytes), of"
    " others objects/s; open loops also have sessions/s. If a workload ran with several numbers of clients, the tables"
    " show the best of each copy; the JSON and the CSV have all."
)
_COPIES = (
    "Rates of copies of a workload (tiles) are added up. Only repetitions (--repeat) form pairs, because the tiles of"
    " one run ran at the same time."
)
_WHOLE_PHASE = (
    "All workloads: the sum, from the first to the last second in which all of them were running. Steady: the median of"
    f" the seconds outside spikes. Peak: the best {PEAK_SECONDS:g} s."
)
_OF_RATES = f"{_TOLD_BY} {_COPIES} {_WHOLE_PHASE}"
_OF_OBJECTS = " Others: service time of an object."
_OBJECT_TIME = {  # definition by protocol
    "s3": "from an object's first request to the end of its last response; each request has its own acknowledgement",
    "tsm": "archive: from sending the object to the commit of its transaction, which it shares with the objects sent"
    " after it; retrieve: from the request to the last byte",
}
_OBJECT_TIME_ELSE = "as its client measures it"
_NOTED = "A ratio without a note is a shown difference, better or worse."


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a table: a unit, in one measure."""

    unit: ComparedUnit
    measure: Measure

    @property
    def key(self) -> UnitKey:
        return self.unit.key

    def ratio(self, index: int) -> Ratio | None:
        return self.unit.ratio(self.measure, index)

    def median(self, side: int) -> float | None:
        measured = self.unit.measured[side]
        return measured.median(self.measure) if measured else None


def rates_table(comparison: Comparison, kind: Kind) -> Table:
    """Return every common cell, or every workload, its parts and the sum of all, at every scale.

    The columns are the rates of each side, then the ratios to the first with their intervals.
    """
    not_interleaved = "" if comparison.interleaved else ", which were not interleaved"
    rates = [
        column for side in range(len(comparison.sides)) for column in _rates(comparison.sides[side].label, side, kind)
    ]
    return TableSpec(
        "comparison" if kind == "cell" else "workloads",
        f"{listed(comparison)} compared" if kind == "cell" else "Workloads side by side",
        (
            *_labels(comparison, kind),
            *rates,
            *(column for index in range(len(comparison.overall)) for column in _ratio(comparison.pair(index), index)),
        ),
        "Rates: medians over repetitions; MB are 10^6 bytes. Ratios: geometric means over pairs of repetitions"
        f"{not_interleaved}. {_NOTED}"
        if kind == "cell"
        else f"Rates: medians over repetitions; ratios: geometric means over pairs of them. {_NOTED} {_OF_RATES}",
    ).table(lines(comparison, kind))


def matrix_table(comparison: Comparison, kind: Kind) -> Table:
    """Return the ratios of every further platform.

    For cells, rows are object sizes and columns are objects per session. For workloads, the columns are scales.
    """
    rows: dict[tuple[Cell, ...], dict[float, Line]] = {}
    for line in _in_matrix_order(comparison, kind):
        rows.setdefault(_series(line), {})[_across(line)] = line
    counts = sorted({count for row in rows.values() for count in row})
    names = ("operation", "clients", "object size") if kind == "cell" else ("phase", "workload", "operation", "measure")
    return Table(
        name=f"{_prefix(kind)}matrix",
        title=f"{'Objects/s' if kind == 'cell' else 'Workloads'}, ratio to {comparison.sides[0].label}",
        columns=(
            *(Column(name, label=True, words=kind == "cell" and name == "operation") for name in names),
            *label_columns("platform"),
            *(Column(f"{count:g}" if count else "ratio") for count in counts),
        ),
        rows=tuple(
            (
                *labels,
                Cell(side.label),
                *(noted_ratio(row[count].ratio(index) if count in row else None) for count in counts),
            )
            for labels, row in rows.items()
            for index, side in enumerate(comparison.sides[1:])
        ),
        caption=f"Geometric means over pairs of repetitions. {_NOTED}{'' if kind == 'cell' else f' {_COPIES}'}",
        across="objects per session" if kind == "cell" else comparison.scale_name,
    )


def differences_table(comparison: Comparison, kind: Kind, index: int) -> Table:
    """Return the basis of the verdicts on one further side."""
    return TableSpec(
        f"{_prefix(kind)}differences-{index + 1}",
        f"Differences{'' if kind == 'cell' else ' of workloads'}: {comparison.pair(index)}",
        (
            *_labels(comparison, kind),
            *columns_of(lambda line: line.ratio(index), DIFFERENCE_COLUMNS),
            *([_without_client(index)] if kind == "cell" else []),
        ),
        f"{difference_caption('cells')} Without client: the ratio of the rates without the client's time."
        if kind == "cell"
        else f"{difference_caption('workloads, parts and scales')} {_COPIES}",
    ).table(line for line in lines(comparison, kind) if line.ratio(index) is not None)


def _without_client(index: int) -> Column:
    return Column("without client", of=lambda line: line.unit.ratio_without_client(index), digits=2)


def latencies_table(comparison: Comparison, kind: Kind, index: int) -> Table:
    """Return times on the first and on one further side, with their ratios.

    For cells they are the mean session, and the median and the 99th percentile of the service time of an object. For
    workloads they are the mean and the 99th percentile of the response time. Between protocols the times of objects are
    omitted; ``object_times_table`` has them without ratios.
    """
    measures = {"session": SESSION} if kind == "cell" else {}
    if comparison.is_one_protocol(index):
        measures |= _object_measures(kind)
    labels = _labels(comparison, kind)
    return TableSpec(
        f"{_prefix(kind)}{'latencies' if kind == 'cell' else 'responses'}-{index + 1}",
        f"{'Latencies' if kind == 'cell' else 'Response times of workloads'}: {comparison.pair(index)}",
        (
            *(labels if kind == "cell" else labels[:-1]),
            *(column for name, each in measures.items() for column in _latency_columns(comparison, index, name, each)),
        ),
        f"Session: mean time from opening to the end of closing.{_OF_OBJECTS if len(measures) > 1 else ''} Medians over"
        " repetitions, ratios over pairs of them. A ratio without a note is a shown difference: below 1 better, above 1"
        " worse. Each measure is corrected separately over all cells."
        if kind == "cell"
        else "Response time of an object, from when it was due to its end: medians over repetitions, ratios over"
        " pairs of them. For several copies, the mean is over all objects, and the p99 is the worst. A ratio without a"
        " note is a shown difference: below 1 better, above 1 worse.",
    ).table(_timed_lines(comparison, kind, index, measures))


def object_times_table(comparison: Comparison, kind: Kind, index: int) -> Table:
    """Return the times of objects on two sides with different protocols, each with its definition, without ratios."""
    sides = (comparison.sides[0], comparison.sides[index + 1])
    places = (0, index + 1)
    measures = _object_measures(kind)
    labels = _labels(comparison, kind)
    definitions = "; ".join(f"{side.protocol}: {_OBJECT_TIME.get(side.protocol, _OBJECT_TIME_ELSE)}" for side in sides)
    return TableSpec(
        f"{_prefix(kind)}object-times-{index + 1}",
        f"Times of objects, not comparable: {sides[1].label} and {sides[0].label}",
        (
            *(labels if kind == "cell" else labels[:-1]),
            *(
                _time_column(f"{name} {side.label}", each, place)
                for name, each in measures.items()
                for side, place in zip(sides, places, strict=True)
            ),
        ),
        f"{'Service' if kind == 'cell' else 'Response'} time of an object, medians over repetitions. Its definition"
        f" differs: {definitions}. Compare the two by their rates and sessions.",
    ).table(_timed_lines(comparison, kind, index, measures))


def _object_measures(kind: Kind) -> dict[str, Measure]:
    return {"p50": P50, "p99": P99} if kind == "cell" else {"mean": RESPONSE, "p99": RESPONSE_P99}


def _timed_lines(comparison: Comparison, kind: Kind, index: int, measures: Mapping[str, Measure]) -> list[Line]:
    """Return the units that both sides measured in one of these measures."""
    units = comparison.cells if kind == "cell" else study_units(comparison)
    chosen = list(measures.values())
    return [Line(unit, chosen[0]) for unit in units if any(unit.ratio(each, index) is not None for each in chosen)]


def lines(comparison: Comparison, kind: Kind) -> Iterator[Line]:
    """Yield each unit with its main rate. Open loops also have sessions; the sum of all has MB/s and objects/s."""
    if kind == "cell":
        yield from (Line(cell, RATE) for cell in comparison.cells)
        return
    for unit in study_units(comparison):
        yield Line(unit, unit.main_measure)
        if SESSION_RATE.name in unit.ratios:
            yield Line(unit, SESSION_RATE)
        if unit.key.workload == ALL_WORKLOADS:
            yield from (Line(unit, measure) for measure in unit.first.measures[1:])


def whole_phase_lines(comparison: Comparison) -> list[Line]:
    """Return the sum of all workloads of the largest scale, and the score, for the overall sentence."""
    of_workloads = list(lines(comparison, "workload"))
    largest = max((line.key.scale or 0.0 for line in of_workloads), default=0.0)
    return [line for line in of_workloads if (line.key.scale or 0.0, line.key.workload) == (largest, ALL_WORKLOADS)]


def study_units(comparison: Comparison) -> list[ComparedUnit]:
    """Return workloads with their parts and the sum of all, without single numbers of clients."""
    return [unit for unit in comparison.workloads if not unit.key.clients]


def listed(comparison: Comparison) -> str:
    """Return the labels of all sides, in a sentence."""
    *others, last = (side.label for side in comparison.sides)
    return f"{', '.join(others)} and {last}"


def _prefix(kind: Kind) -> str:
    return "" if kind == "cell" else "workloads-"


_OPERATION = Column("operation", of=lambda key: key.operation, label=True, words=True)  # its variant may be long
_CELL_LABELS = columns_of(lambda line: line.key, (_OPERATION, *KEY_COLUMNS[1:]))


def _labels(comparison: Comparison, kind: Kind) -> tuple[Column, ...]:
    """Return the columns that name a row."""
    if kind == "cell":
        return _CELL_LABELS
    scale = Column(comparison.scale_name or "scale", of=_scale, label=True)
    return (
        Column("phase", of=lambda line: line.key.phase, label=True),
        *((scale,) if _has_scale(comparison) else ()),
        Column("workload", of=lambda line: line.key.workload, label=True),
        Column("operation", of=lambda line: line.key.operation or "all", label=True),
        Column("clients", of=_clients, label=True),
        Column("measure", of=lambda line: line.measure.words, label=True),
    )


def _has_scale(comparison: Comparison) -> bool:
    return any(unit.key.scale is not None for unit in comparison.workloads)


def _scale(line: Line) -> Cell:
    scale = line.key.scale
    return Cell(NOT_MEASURED) if scale is None else Cell(f"{scale:g}", scale)


def _clients(line: Line) -> Cell:
    """Return the clients of each copy."""
    counts = line.unit.first.clients
    if line.key.workload == ALL_WORKLOADS:
        return Cell("")
    return number(counts[0], 0) if len(counts) == 1 else Cell(f"{counts[0]} to {counts[-1]}")


def _rates(label: str, side: int, kind: Kind) -> Iterable[Column]:
    """Return the columns of one side's rates: for cells objects/s, with warnings, and MB/s."""
    if kind == "workload":
        return (_rate(label, side, kind),)

    def measured(line: Line) -> Unit | None:
        return line.unit.measured[side]

    return (
        Column(
            label, "objects/s", lambda line: rate_cell(unit, line.median(side), 2) if (unit := measured(line)) else None
        ),
        Column(label, "MB/s", lambda line: unit.megabytes_per_second if (unit := measured(line)) else None, 2),
    )


def _rate(label: str, side: int, kind: Kind) -> Column:
    unit = "objects/s" if kind == "cell" else ""
    return Column(label, unit, lambda line: number(line.median(side), 2 if line.measure.more_is_better else 3))


def _ratio(name: str, index: int) -> tuple[Column, Column]:
    """Return the columns of a ratio and of its interval."""
    return (
        Column(name, of=lambda line: noted_ratio(line.ratio(index))),
        Column("95%", of=lambda line: interval(line.ratio(index))),
    )


def _time_column(name: str, measure: Measure, side: int) -> Column:
    return Column(name, "ms", lambda line: Line(line.unit, measure).median(side), 3)


def _latency_columns(comparison: Comparison, index: int, name: str, measure: Measure) -> tuple[Column, ...]:
    """Return the columns of both sides, then the ratio with its interval."""
    first, label = comparison.sides[0].label, comparison.sides[index + 1].label
    return (
        _time_column(f"{name} {first}", measure, 0),
        _time_column(f"{name} {label}", measure, index + 1),
        *columns_of(lambda line: Line(line.unit, measure), _ratio("ratio", index)),
    )


def _series(line: Line) -> tuple[Cell, ...]:
    """Return the labels of a row of the matrix."""
    key = line.key
    if key.is_cell:
        return Cell(key.operation), number(key.clients, 0), Cell(format_size(key.object_bytes))
    return Cell(key.phase), Cell(key.workload), Cell(key.operation or "all"), Cell(line.measure.words)


def _in_matrix_order(comparison: Comparison, kind: Kind) -> Iterable[Line]:
    """Return the cells by operation, clients and object size."""
    if kind == "workload":
        return lines(comparison, kind)
    return sorted(
        lines(comparison, kind), key=lambda line: (line.key.operation, line.key.clients, line.key.object_bytes)
    )


def _across(line: Line) -> float:
    return line.key.objects_per_session if line.key.is_cell else line.key.scale or 0.0
