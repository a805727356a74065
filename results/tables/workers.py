"""The workers of a run: what each did, on whichever machine, and how well they were together.

One idea: what the workers counted and what the run counted must agree, so the last row of the table is the run's own
count, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from results.database import RunDatabase, WorkerRow
from results.table import Cell, Column, Table, number

WORKERS_SHOWN_MAX = 16  # one by one; of more each host is a row


@dataclass(frozen=True, slots=True)
class WorkerTotal:
    """What one worker did in the measured times of a run."""

    name: str
    host: str
    phases: int
    objects: int
    bytes: int
    errors: int
    cpu_seconds: float
    prepared_seconds_max: float  # from being told what to do until it was ready to start
    late_ms_max: float  # so long after the agreed instant it began
    clock_offset_ms: float | None  # its clock was so far ahead of the coordinator's, at last; None: the same clock
    clock_error_ms_max: float | None  # by how much that may have been wrong
    clock_drift_ms: float | None  # so much it moved between the first phase and the last
    lost: str | None  # why it did not come to the end


def worker_totals(database: RunDatabase) -> list[WorkerTotal]:
    """Of each worker, by name."""
    rows: dict[str, list[WorkerRow]] = {}
    for phase in database.workers().values():
        for row in phase:
            rows.setdefault(row.name, []).append(row)
    return [_total(rows[name]) for name in sorted(rows)]


def worker_documents(database: RunDatabase) -> list[dict[str, Any]]:
    """The same as plain JSON values."""
    return [asdict(each) for each in worker_totals(database)]


def worker_tables(database: RunDatabase) -> list[Table]:
    """One table where the workers were on a cluster, or one of them was lost; else nothing that is not told already."""
    totals = worker_totals(database)
    if not any(each.clock_offset_ms is not None or each.lost for each in totals):
        return []
    by_host = len(totals) > WORKERS_SHOWN_MAX
    groups: dict[str, list[WorkerTotal]] = {}
    for each in totals:
        groups.setdefault(each.host if by_host else each.name, []).append(each)
    objects = sum(each.objects for each in totals)
    rows = [_row(name, "" if by_host else group[0].host, group, objects) for name, group in groups.items()]
    rows.append(_row("all", "", totals, objects))
    return [
        Table(
            "workers",
            "Workers",
            (
                Column("host" if by_host else "worker", label=True),
                Column("" if by_host else "host", label=True),
                Column("workers"),
                Column("objects"),
                Column("share", "%"),
                Column("MB"),
                Column("errors"),
                Column("client CPU", "s"),
                Column("clock ahead", "ms"),
                Column("known to", "± ms"),
                Column("began late", "ms"),
                Column("lost", words=True),
            ),
            tuple(rows),
            "In the measured times of all phases. Clocks: against the coordinator's, read before every phase over the "
            "way of the start. Late: after the agreed instant, at most; what is not known of the clock is in it.",
        )
    ]


def _total(rows: Sequence[WorkerRow]) -> WorkerTotal:
    offsets = [row.clock_offset_ns / 1e6 for row in rows if row.clock_offset_ns is not None]
    bounds = [row.clock_error_ns / 1e6 for row in rows if row.clock_error_ns is not None]
    return WorkerTotal(
        name=rows[0].name,
        host=rows[0].host,
        phases=len(rows),
        objects=sum(row.objects for row in rows),
        bytes=sum(row.bytes for row in rows),
        errors=sum(row.errors for row in rows),
        cpu_seconds=sum(row.cpu_seconds or 0.0 for row in rows),
        prepared_seconds_max=max((row.prepared_seconds or 0.0 for row in rows), default=0.0),
        late_ms_max=max((row.late_ns or 0 for row in rows), default=0) / 1e6,
        clock_offset_ms=offsets[-1] if offsets else None,
        clock_error_ms_max=max(bounds, default=None),
        clock_drift_ms=offsets[-1] - offsets[0] if offsets else None,
        lost=next((row.lost for row in rows if row.lost), None),
    )


def _row(name: str, host: str, group: Sequence[WorkerTotal], objects: int) -> tuple[Cell, ...]:
    mine = sum(each.objects for each in group)
    offsets = [each.clock_offset_ms for each in group if each.clock_offset_ms is not None]
    bounds = [each.clock_error_ms_max for each in group if each.clock_error_ms_max is not None]
    lost = [each.lost for each in group if each.lost]
    return (
        Cell(name),
        Cell(host),
        number(len(group), 0),
        number(mine, 0),
        number(mine / objects * 100 if objects else None, 1),
        number(sum(each.bytes for each in group) / 1e6, 1),
        number(sum(each.errors for each in group), 0),
        number(sum(each.cpu_seconds for each in group), 2),
        number(max(offsets, key=abs, default=None), 2),
        number(max(bounds, default=None), 2),
        number(max(each.late_ms_max for each in group), 1),
        Cell(f"{len(lost)} of {len(group)}: {lost[0]}" if lost else "no"),
    )
