"""Measured load of every workload of a phase, compared with the offered load.

Copies of a workload (tiles) are one row. Their work adds up; of their times the worst is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from results.document.table import Column, Table, TableSpec
from results.measures.metrics import Measured, pooled_mean_ms
from results.recorded.model import Offered, Result
from results.tables.usage import limited_by


def workloads_table(results: Sequence[Result], scale_name: str) -> Table:
    """Return a row for each workload of each phase, followed by one for each kind of operation if it has several."""
    groups: dict[tuple[int, str, int], list[Result]] = {}
    for result in results:
        groups.setdefault((result.position, result.application, result.clients), []).append(result)
    return TableSpec(
        name="workloads",
        title="What every workload did",
        columns=(
            Column("phase", of=lambda row: _phase(row.copies[0], scale_name), label=True),
            Column("workload", of=lambda row: row.copies[0].application, label=True),
            Column("clients", of=lambda row: sum(result.clients for result in row.copies), label=True),
            Column("operation", of=lambda row: row.part or "all", label=True),
            _of_whole("offered", "sessions/s", lambda row: _sum(r.offered_per_second for r in row.copies), 1),
            _of_whole(
                "achieved", "sessions/s", lambda row: sum(r.sessions / r.seconds for r in row.copies if r.seconds), 1
            ),
            _of_whole("measured", "s", lambda row: min(result.seconds for result in row.copies), 2),
            _of_whole("sessions", "", lambda row: sum(result.sessions for result in row.copies)),
            Column("objects", of=lambda row: sum(each.objects for each in row.measured)),
            Column("done", "objects/s", lambda row: sum(each.objects_per_second for each in row.measured), 1),
            Column("moved", "MB/s", lambda row: sum(each.megabytes_per_second for each in row.measured), 2),
            Column("mean response", "ms", lambda row: pooled_mean_ms(row.measured), 2),
            Column("p50", "ms", lambda row: _worst(row, "p50"), 2),
            Column("p99", "ms", lambda row: _worst(row, "p99"), 2),
            Column("longest", "ms", lambda row: _worst(row, "max"), 2),
            _of_whole("waited", "sessions", lambda row: _sum(each.waited for each in row.loops)),
            _of_whole("dropped", "sessions", lambda row: _sum(each.dropped for each in row.loops)),
            Column("errors", of=lambda row: sum(each.errors for each in row.measured), notes=_problems),
        ),
        caption="In the measured time of each. Response times are objects', from when they were due; of several copies"
        " the worst percentiles. Waited and dropped: sessions of an open loop that found every client busy, or the"
        " backlog full. MB are 10^6 bytes.",
    ).table(row for copies in groups.values() for row in _rows(copies))


def lone_rates_table(results: Sequence[Result]) -> Table:
    """Return the rates and times of workloads that ran one at a time, in the order of measurement.

    The table has no rows if two workloads ran at once, because their rates depend on each other. It has none either for
    replays and for measured ceilings, which have tables of their own.
    """
    is_repeated = any(result.repetition > 1 for result in results)
    columns = (
        Column("workload", of=lambda row: row.copies[0].workload, label=True),
        Column("repetition", of=lambda row: row.copies[0].repetition, label=True),
        Column("operation", of=lambda row: row.part or "all", label=True),
        Column("done", "objects/s", lambda row: row.measured[0].objects_per_second, 1),
        Column("moved", "MB/s", lambda row: row.measured[0].megabytes_per_second, 2),
        *(Column(name.replace("_", "."), "ms", partial(_worst, name=name), 2) for name in ("p50", "p99", "p99_9")),
        Column("errors", of=lambda row: row.measured[0].errors, notes=_problems),
        Column("limited by", of=lambda row: "" if row.part else limited_by(row.copies[0]), words=True),
    )
    ran_alone = len({result.position for result in results}) == len(results)
    has_own_tables = any(result.replayed is not None or result.ceiling is not None for result in results)
    return TableSpec(
        name="lone-rates",
        title="Rates and response times",
        columns=columns if is_repeated else (columns[0], *columns[2:]),
        caption="In the measured time of each. Response times are objects', from when they were due. MB are 10^6"
        " bytes.",
    ).table(row for result in results if ran_alone and not has_own_tables for row in _rows([result]))


class _WorkloadRow(NamedTuple):
    """The copies of a workload, or of one part of it, in one phase."""

    copies: Sequence[Result]
    part: str  # empty: all operations
    measured: Sequence[Measured]

    @property
    def loops(self) -> list[Offered]:
        """The offered load of open loops."""
        return [result.offered for result in self.copies if result.offered is not None]


def _rows(copies: Sequence[Result]) -> Iterator[_WorkloadRow]:
    yield _WorkloadRow(copies, "", copies)
    parts = [part for result in copies for part in result.parts]
    for name in sorted({part.name for part in parts}):
        yield _WorkloadRow(copies, name, [part for part in parts if part.name == name])


def _of_whole(name: str, unit: str, of: Callable[[_WorkloadRow], float | None], digits: int = 0) -> Column:
    """Return a column that is empty in the rows of parts."""
    return Column(name, unit, lambda row: "" if row.part else of(row), digits)


def _phase(result: Result, scale_name: str) -> str:
    scale = f", {result.scale:g} {scale_name}" if result.scale is not None else ""
    return f"{result.position} {result.phase}{scale}"


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of the known values. Returns None if there are none."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _worst(row: _WorkloadRow, name: str) -> float | None:
    times = (each.object_ms for each in row.measured)
    return max((getattr(time, name) for time in times if time is not None), default=None)


def _problems(row: _WorkloadRow) -> tuple[str, ...]:
    if row.part:
        return ()
    early = "used up what it may archive before its time was over"
    left_out = "left steps out for want of an object"
    return (
        *((early,) if any(result.ended_early for result in row.copies) else ()),
        *((left_out,) if any(result.steps_left_out for result in row.copies) else ()),
    )
