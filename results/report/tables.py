"""Tables of the full report: the requested work, the cells with warnings, and every published value for comparison.

A report omits nothing published. It also shows the paper's values that this run did not measure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from results.document.table import NOT_MEASURED, Cell, Column, Table, TableSpec, number
from results.measures.doubts import Drift
from results.measures.units import Unit, UnitKey, parallel_cells, single_cells
from results.recorded.model import Result
from results.reference.published import NAME, PublishedCell, dr550, megabytes_in_the_papers_unit
from results.tables.columns import UNIT_AMOUNT_COLUMNS, UNIT_COLUMNS


def asked_table(scenario: Mapping[str, Any]) -> Table:
    """Return the sweeps of a scenario: their operations, sizes, sessions and clients."""
    return _ASKED.table(scenario.get("sweep", ()))


def _asked(name: str) -> Column:
    return Column(name.replace("_", " "), of=lambda sweep: _words(sweep.get(name)), words=True)


def doubted_cells_table(cells: Sequence[Unit]) -> Table:
    """Return the cells with warnings, and the reasons."""
    found = dict.fromkeys(doubt for cell in cells for doubt in cell.doubts)
    return TableSpec(
        "doubted-cells",
        "Cells to be read with care",
        (
            *UNIT_COLUMNS,
            Column("objects/s", of=lambda cell: _measured(cell.objects_per_second, cell.key)),
            *UNIT_AMOUNT_COLUMNS,
            Column("why", of=lambda cell: "; ".join(map(_briefly, cell.doubts)), words=True),
        ),
        " ".join(f"{doubt[0].upper()}{doubt[1:]}." for doubt in found),
    ).table(cell for cell in cells if cell.doubts)


def drift_table(drifts: Sequence[Drift]) -> Table:
    """Return the change of the first cell of each sweep between its first and last measurement."""
    return _DRIFT.table(drifts)


class _Published(NamedTuple):
    """A published cell, and the run's cell if it was measured."""

    key: UnitKey
    theirs: PublishedCell
    ours: Unit | None

    @property
    def megabytes(self) -> float | None:
        """Return the run's rate, in the unit of the paper."""
        return megabytes_in_the_papers_unit(self.ours.objects_per_second, self.key.object_bytes) if self.ours else None


def published_table(results: Sequence[Result]) -> Table:
    """Return all printed values of one client, with the run's if measured; no rows if nothing was measured."""
    ours = single_cells(results)
    keys = {UnitKey(*key, 1): theirs for key, theirs in dr550().cells.items()}
    rows = [_Published(key, theirs, ours.get(key)) for key, theirs in keys.items()]
    return _PUBLISHED.table(rows if any(row.ours for row in rows) else [])


class _Gain(NamedTuple):
    """The rate of several clients divided by that of one, published and measured."""

    key: UnitKey
    published: float
    ours: float | None


def published_parallel_table(results: Sequence[Result]) -> Table:
    """Return the gains of parallel clients that the paper quotes, with the run's; no rows if none was measured."""
    cells = parallel_cells(results)
    study = dr550()
    rows = []
    for (size, clients), gain in study.improvements.items():
        key = UnitKey(study.parallel_operation, size, study.parallel_objects_per_session, clients)
        many, one = cells.get(key), cells.get(key._replace(clients=1))
        rows.append(_Gain(key, gain, _ratio(many.objects_per_second, one.objects_per_second) if many and one else None))
    return _GAINS.table(rows if any(row.ours is not None for row in rows) else [])


def _briefly(doubt: str) -> str:
    """Return the first words of a warning. The caption has the rest."""
    return doubt.partition(":")[0].partition(";")[0]


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    if value is None:
        return NOT_MEASURED
    return str(value)


def _ratio(value: float | None, base: float) -> float | None:
    return None if value is None or not base else value / base


def _measured(value: float | None, key: UnitKey) -> Cell:
    """Return a value with the cell that it links to."""
    return number(None, 2) if value is None else Cell(f"{value:,.2f}", value, (), key)


def _ours(row: _Published) -> Cell:
    return _measured(row.ours.objects_per_second if row.ours else None, row.key)


def _contradicted(row: _Published) -> tuple[str, ...]:
    notes = ("the paper prints another value, which its MB/s and its time grid contradict",)
    return notes if row.theirs.contradicted_objects_per_second else ()


_ASKED = TableSpec(
    "asked",
    "What was asked",
    (
        Column("sweep", of=lambda sweep: str(sweep.get("name", "")), label=True),
        *map(_asked, ("operation", "object_sizes", "objects_per_session", "clients")),
    ),
    "Every combination of a row is a cell. Each repetition measures every cell once.",
)
_DRIFT = TableSpec(
    "drift",
    "Drift: the first cell of a sweep, measured again last",
    (
        Column("sweep", of=lambda drift: drift.phase, label=True),
        Column("cell", of=lambda drift: drift.cell, label=True),
        Column("objects/s changed by", "%", lambda drift: drift.percent, 1),
    ),
)
_PUBLISHED = TableSpec(
    "published",
    "Every published value compared with ours, one client",
    (
        *UNIT_COLUMNS[:3],
        Column("published", "objects/s", lambda row: row.theirs.objects_per_second, 2, _contradicted),
        Column("ours", "objects/s", _ours),
        Column("ratio", of=lambda row: _ratio(_ours(row).number, row.theirs.objects_per_second), digits=2),
        Column("published", "MB/s", lambda row: row.theirs.megabytes_per_second, 2),
        Column("ours", "MB/s", lambda row: row.megabytes, 2),
        Column("ratio", of=lambda row: _ratio(row.megabytes, row.theirs.megabytes_per_second), digits=2),
    ),
    f"All values of {NAME}, Figures 9 and 10. {NOT_MEASURED}: not measured in this run. MB/s on both sides is objects/s"
    " x KiB / 1000, as in the paper.",
)
_GAINS = TableSpec(
    "published-parallel",
    "Parallel clients: published gains compared with ours",
    (
        *UNIT_COLUMNS,
        Column("published", "× one client", lambda row: row.published, 2),
        Column("ours", "× one client", lambda row: _measured(row.ours, row.key)),
    ),
    f"{NAME}, Figure 5, as quoted in its text.",
)
