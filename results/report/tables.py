"""Tables that only a whole report has: what was asked, which cells to doubt, and everything published beside ours.

One idea: a report leaves nothing published out: what the paper measured and this run did not stands there, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from results.doubts import Drift
from results.model import Result
from results.published import NAME, dr550, megabytes_in_the_papers_unit
from results.table import (
    KEY_COLUMNS,
    NOT_MEASURED,
    UNIT_COLUMNS,
    Cell,
    Column,
    Table,
    filled,
    label_columns,
    number,
)
from results.units import Unit, UnitKey, parallel_cells, single_cells

_ASKED = ("operation", "object_sizes", "objects_per_session", "clients")


def asked_table(scenario: Mapping[str, Any]) -> Table:
    """The sweeps of a scenario: what each measures, and over which sizes, sessions and clients."""
    rows = [
        (Cell(str(sweep.get("name", ""))), *(Cell(_words(sweep.get(name))) for name in _ASKED))
        for sweep in scenario.get("sweep", ())
    ]
    return Table(
        name="asked",
        title="What was asked",
        columns=(
            Column("sweep", label=True),
            *(Column(name.replace("_", " "), words=True) for name in _ASKED),
        ),
        rows=tuple(rows),
        caption="Every combination of a row is a cell, measured as often as there are repetitions.",
    )


def settings_table(name: str, title: str, values: Mapping[str, Any]) -> Table:
    """Whatever was recorded under a heading, one value in a row, as it was recorded."""
    return Table(
        name=name,
        title=title,
        columns=(Column("setting", label=True), Column("value", words=True)),
        rows=tuple((Cell(path), Cell(text)) for path, text in _flat(values)),
    )


def doubted_cells_table(cells: Sequence[Unit]) -> Table:
    """The cells whose numbers are to be read with care, and why."""
    found = dict.fromkeys(doubt for cell in cells for doubt in cell.doubts)
    return Table(
        name="doubted-cells",
        title="Cells to be read with care",
        columns=(
            *label_columns("operation", "object size", "objects/session", "clients"),
            Column("objects/s"),
            Column("why", words=True),
        ),
        rows=tuple(
            (
                *filled(UNIT_COLUMNS, cell),
                Cell(f"{cell.objects_per_second:,.2f}", cell.objects_per_second, (), cell.key),
                Cell("; ".join(map(_briefly, cell.doubts))),
            )
            for cell in cells
            if cell.doubts
        ),
        caption=" ".join(f"{doubt[0].upper()}{doubt[1:]}." for doubt in found),
    )


def drift_table(drifts: Sequence[Drift]) -> Table:
    """How far the first cell of each sweep had moved when it was measured again, last."""
    return Table(
        name="drift",
        title="Drift: the first cell of a sweep, measured again last",
        columns=(*label_columns("sweep", "cell"), Column("objects/s changed by", "%")),
        rows=tuple((Cell(each.phase), Cell(each.cell), number(each.percent, 1)) for each in drifts),
    )


def published_table(results: Sequence[Result]) -> Table:
    """All that the paper printed of one client, beside ours where it was measured; no rows where nothing was."""
    ours = single_cells(results)
    rows = []
    for key, theirs in dr550().cells.items():
        cell = ours.get(UnitKey(*key, 1))
        rate = cell.objects_per_second if cell else None
        mega = megabytes_in_the_papers_unit(rate, key[1]) if rate is not None else None
        notes = ("printed otherwise: the MB/s and the time grid contradict it",)
        rows.append(
            (
                *filled(KEY_COLUMNS[:3], UnitKey(*key, 1)),
                number(theirs.objects_per_second, 2, notes if theirs.contradicted_objects_per_second else ()),
                Cell(NOT_MEASURED) if rate is None else Cell(f"{rate:,.2f}", rate, (), cell.key if cell else None),
                number(_ratio(rate, theirs.objects_per_second), 2),
                number(theirs.megabytes_per_second, 2),
                number(mega, 2),
                number(_ratio(mega, theirs.megabytes_per_second), 2),
            )
        )
    if not any(UnitKey(*key, 1) in ours for key in dr550().cells):
        rows = []
    return Table(
        name="published",
        title="Every published value beside ours, one client",
        columns=(
            *label_columns("operation", "object size", "objects/session"),
            Column("published", "objects/s"),
            Column("ours", "objects/s"),
            Column("ratio"),
            Column("published", "MB/s"),
            Column("ours", "MB/s"),
            Column("ratio"),
        ),
        rows=tuple(rows),
        caption=f"{NAME}, Figures 9 and 10, whole; {NOT_MEASURED}: not measured in this run. MB/s on both sides is"
        " objects/s x KiB / 1000, as the paper has it.",
    )


def published_parallel_table(results: Sequence[Result]) -> Table:
    """The gains of parallel clients that the paper quotes, beside ours; no rows where none was measured."""
    cells = parallel_cells(results)
    study = dr550()
    operation, count = study.parallel_operation, study.parallel_objects_per_session
    rows = []
    for (size, clients), gain in study.improvements.items():
        many, one = (cells.get(UnitKey(operation, size, count, each)) for each in (clients, 1))
        ours = many.objects_per_second / one.objects_per_second if many and one and one.objects_per_second else None
        rows.append(
            (
                *filled(KEY_COLUMNS, UnitKey(operation, size, count, clients)),
                number(gain, 2),
                Cell(NOT_MEASURED) if ours is None else Cell(f"{ours:,.2f}", ours, (), many.key if many else None),
            )
        )
    if all(row[-1].number is None for row in rows):
        rows = []
    return Table(
        name="published-parallel",
        title="Parallel clients: published gains beside ours",
        columns=(
            *label_columns("operation", "object size", "objects/session", "clients"),
            Column("published", "× one client"),
            Column("ours", "× one client"),
        ),
        rows=tuple(rows),
        caption=f"{NAME}, Figure 5, as quoted in its text.",
    )


def _briefly(doubt: str) -> str:
    """Its first words; the caption has the rest."""
    return doubt.partition(":")[0].partition(";")[0]


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    if value is None:
        return NOT_MEASURED
    return str(value)


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """``retries`` within ``details`` is ``details.retries``; nothing and empty lists are said as such."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _flat(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple):
        yield path, ", ".join(each if isinstance(each, str) else json.dumps(each) for each in value) or NOT_MEASURED
    elif value is None or value == {}:
        yield path, NOT_MEASURED
    else:
        yield path, value if isinstance(value, str) else json.dumps(value)


def _ratio(value: float | None, base: float) -> float | None:
    return None if value is None or not base else value / base
