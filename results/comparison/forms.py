"""The ratios of a comparison in the forms that people know: percent of the first, times more, and the matrix.

One idea: the numbers are those of the comparison, and a form only writes them otherwise, so that no form says more
than the others. The percent form is that of storage validation reports ("99% of the eight-path system"), the times form
that of reports on tiering ("3.2 times more, 33% faster response"), the matrix form that of the DR550 paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from archiver.values.sizes import format_size
from results.comparison.compare import ComparedCell, Comparison, Overall
from results.comparison.ratio_cells import faster_cells, noted_ratio, percent_cells, times_cells
from results.comparison.ratios import RATE, RESPONSE, Ratio
from results.matrix import CellKey, columns
from results.table import Cell, Column, Table, key_labels, label_columns, number

_OPERATION = Column("operation", label=True, words=True)  # with its variant it may be long: archive, lock header, md5
KEY_COLUMNS = (_OPERATION, *label_columns("object size", "objects/session", "clients"))
_ALL_CELLS = (Cell("all cells"), Cell(""), Cell(""), Cell(""))


def percent_tables(comparison: Comparison) -> list[Table]:
    """A table per further platform: its rate as percent of the first's, by cell and over all cells."""
    first = comparison.sides[0].label
    return [
        Table(
            name=f"percent-{index + 1}",
            title=f"{side.label} as percent of {first}",
            columns=(
                *KEY_COLUMNS,
                Column(first, "objects/s"),
                Column(side.label, "objects/s"),
                Column(side.label, f"% of {first}"),
                Column("95%"),
                Column("verdict", words=True),
            ),
            rows=(
                *(_percent_row(cell, index, ratio) for cell in comparison.cells if (ratio := cell.ratios[index])),
                (*_ALL_CELLS, Cell(""), Cell(""), *percent_cells(comparison.overall[index].ratio)),
            ),
            caption="Rates: medians over repetitions. Percent: geometric means over pairs of repetitions, and over"
            " cells in the last row.",
        )
        for index, side in enumerate(comparison.sides[1:])
    ]


def times_tables(comparison: Comparison) -> list[Table]:
    """A table per further platform: how many times the first's rate, and by how much its response is faster."""
    first = comparison.sides[0].label
    return [
        Table(
            name=f"times-{index + 1}",
            title=f"{side.label} beside {first}: times more, and faster response",
            columns=(
                *KEY_COLUMNS,
                Column("objects/s"),
                Column("95%"),
                Column("verdict", words=True),
                Column("response"),
                Column("95%", "% faster"),
                Column("verdict", words=True),
            ),
            rows=(
                *(
                    (*key_labels(cell.key), *times_cells(ratio), *faster_cells(cell.latencies[RESPONSE.name][index]))
                    for cell in comparison.cells
                    if (ratio := cell.ratios[index])
                ),
                (*_ALL_CELLS, *_times_overall(comparison.overall[index])),
            ),
            caption=f"Times: the rate over that of {first}. Response: the mean time of an object, from when it was due"
            " to its end; 33% faster takes a third less time, 50% slower half as much again. The last row is the"
            " geometric mean over cells.",
        )
        for index, side in enumerate(comparison.sides[1:])
    ]


def matrix_table(comparison: Comparison) -> Table:
    """The ratio of every further platform by object size (down) and objects per session (across)."""
    cells = {cell.key: cell for cell in comparison.cells}
    counts = columns(cells)
    return Table(
        name="matrix",
        title=f"Objects/s, ratio to {comparison.sides[0].label}",
        columns=(
            _OPERATION,
            *label_columns("clients", "object size", "platform"),
            *(Column(f"{count}") for count in counts),
        ),
        rows=tuple(
            _matrix_row(comparison, cells, series, index, counts)
            for series in _series(cells)
            for index in range(len(comparison.overall))
        ),
        caption="Geometric means over pairs of repetitions. A ratio is a difference, better or worse, unless its note"
        " says otherwise.",
        across="objects per session",
    )


def _percent_row(cell: ComparedCell, index: int, ratio: Ratio) -> tuple[Cell, ...]:
    rates = (each.objects_per_second if each else None for each in (cell.measured[0], cell.measured[index + 1]))
    return (*key_labels(cell.key), *(number(rate, 2) for rate in rates), *percent_cells(ratio))


def _times_overall(overall: Overall) -> tuple[Cell, ...]:
    return *times_cells(overall.ratio_of(RATE)), *faster_cells(overall.ratio_of(RESPONSE))


def _series(cells: Iterable[CellKey]) -> list[tuple[str, int, int]]:
    """Operation, clients and object size: the rows of the matrix."""
    return sorted({(key.operation, key.clients, key.object_bytes) for key in cells})


def _matrix_row(
    comparison: Comparison,
    cells: Mapping[CellKey, ComparedCell],
    series: tuple[str, int, int],
    index: int,
    counts: Sequence[int],
) -> tuple[Cell, ...]:
    operation, clients, object_bytes = series
    keys = [CellKey(operation, object_bytes, count, clients) for count in counts]
    return (
        Cell(operation),
        number(clients, 0),
        Cell(format_size(object_bytes)),
        Cell(comparison.sides[index + 1].label),
        *(noted_ratio(cells[key].ratios[index] if key in cells else None) for key in keys),
    )
