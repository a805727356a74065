"""What every workload of a phase did, beside what was asked of it.

One idea: copies of a workload (tiles) are one row: what they did adds up, and of how long it took the worst is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from results.measures import pooled_mean_ms
from results.model import Latency, Offered, PartResult, Result
from results.table import NOT_MEASURED, Cell, Column, Table, label_columns, number


def workloads_table(results: Sequence[Result], scale_name: str) -> Table:
    """A row for each workload of each phase, and below it one for each kind of operation where it has several."""
    groups: dict[tuple[int, str, int], list[Result]] = {}
    for result in results:
        groups.setdefault((result.position, result.application, result.clients), []).append(result)
    rows: list[tuple[Cell, ...]] = []
    for (_, application, clients), copies in groups.items():
        labels = (_phase(copies[0], scale_name), Cell(application), number(clients * len(copies), 0))
        rows.append((*labels, Cell("all"), *_asked(copies), *_done(copies), *_problems(copies)))
        for name in sorted({part.name for result in copies for part in result.parts}):
            parts = [part for result in copies for part in result.parts if part.name == name]
            blank = [Cell("")] * 4
            rows.append(
                (*labels, Cell(name), *blank[:2], *_done(parts), *blank[:2], number(sum(p.errors for p in parts), 0))
            )
    return Table(
        name="workloads",
        title="What every workload did",
        columns=(
            *label_columns("phase", "workload", "clients", "operation"),
            Column("offered", "sessions/s"),
            Column("achieved", "sessions/s"),
            Column("done", "objects/s"),
            Column("moved", "MB/s"),
            Column("mean response", "ms"),
            Column("p50", "ms"),
            Column("p99", "ms"),
            Column("longest", "ms"),
            Column("waited", "sessions"),
            Column("dropped", "sessions"),
            Column("errors"),
        ),
        rows=tuple(rows),
        caption="In the measured time of each. Response times are objects', from when they were due; of several copies"
        " the worst percentiles. Waited and dropped: sessions of an open loop that found every client busy, or the"
        " backlog full. MB are 10^6 bytes.",
    )


def _phase(result: Result, scale_name: str) -> Cell:
    scale = f", {result.scale:g} {scale_name}" if result.scale is not None else ""
    return Cell(f"{result.position} {result.phase}{scale}")


def _asked(copies: Sequence[Result]) -> tuple[Cell, Cell]:
    offered = [result.offered_per_second for result in copies if result.offered_per_second is not None]
    achieved = sum(result.achieved_per_second or 0.0 for result in copies)
    return (number(sum(offered), 1) if offered else Cell(NOT_MEASURED)), number(achieved, 1)


def _done(each: Sequence[Result] | Sequence[PartResult]) -> tuple[Cell, ...]:
    times = [one.object_response_ms for one in each if one.object_response_ms is not None]
    return (
        number(sum(one.objects_per_second for one in each), 1),
        number(sum(one.megabytes_per_second for one in each), 2),
        number(pooled_mean_ms(each), 2),
        *(number(_worst(times, name), 2) for name in ("p50", "p99", "max")),
    )


def _worst(times: Sequence[Latency], name: str) -> float | None:
    return max((getattr(time, name) for time in times), default=None)


def _problems(copies: Sequence[Result]) -> tuple[Cell, ...]:
    loops = [result.offered for result in copies if result.offered is not None]

    def count(name: str, offered: Sequence[Offered] = loops) -> Cell:
        return number(sum(getattr(one, name) for one in offered), 0) if offered else Cell(NOT_MEASURED)

    notes = tuple(
        note
        for note, is_so in (
            ("used up what it may archive before its time was over", any(result.ended_early for result in copies)),
            ("left steps out for want of an object", any(result.steps_left_out for result in copies)),
        )
        if is_so
    )
    errors = sum(result.errors for result in copies)
    return count("waited"), count("dropped"), Cell(f"{errors:,}", errors, notes)
