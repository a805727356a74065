"""The workers of a run: their work on every machine, and how well they were synchronised.

The sum of the workers' counts must equal the run's count. The last row of the table is therefore the run's own count,
and a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from results.document.table import Column, Table, TableSpec
from results.recorded.database import WorkerRow
from results.recorded.run import RecordedRun

WORKERS_SHOWN_MAX = 16  # workers shown individually; with more, each host is a row


@dataclass(frozen=True, slots=True)
class WorkerTotal:
    """The work of one worker in the measured times of a run."""

    name: str
    host: str
    phases: int
    objects: int
    bytes: int
    errors: int
    cpu_seconds: float
    prepared_seconds_max: float  # from the assignment of a phase until the worker was ready to start
    late_ms_max: float  # delay of the start after the agreed instant
    clock_offset_ms: float | None  # its clock minus the coordinator's, last value; None: the same clock
    clock_error_ms_max: float | None  # possible error of that value
    clock_drift_ms: float | None  # change between the first phase and the last
    lost: str | None  # why it did not finish


def worker_totals(recorded: RecordedRun) -> list[WorkerTotal]:
    """Return the totals of each worker, by name."""
    rows: dict[str, list[WorkerRow]] = {}
    for phase in recorded.workers.values():
        for row in phase:
            rows.setdefault(row.name, []).append(row)
    return [_total(rows[name]) for name in sorted(rows)]


def worker_documents(recorded: RecordedRun) -> list[dict[str, Any]]:
    """Return the totals as plain JSON values."""
    return [asdict(each) for each in worker_totals(recorded)]


def worker_tables(recorded: RecordedRun) -> list[Table]:
    """Return one table if the workers were on a cluster or one of them was lost.

    Otherwise other tables have the same facts.
    """
    totals = worker_totals(recorded)
    if not any(each.clock_offset_ms is not None or each.lost for each in totals):
        return []
    by_host = len(totals) > WORKERS_SHOWN_MAX
    groups: dict[str, list[WorkerTotal]] = {}
    for each in totals:
        groups.setdefault(each.host if by_host else each.name, []).append(each)
    objects = sum(each.objects for each in totals)
    rows = [_WorkerGroup(name, "" if by_host else group[0].host, group) for name, group in groups.items()]
    return [
        TableSpec(
            "workers",
            "Workers",
            (
                Column("host" if by_host else "worker", of=lambda row: row.name, label=True),
                Column("" if by_host else "host", of=lambda row: row.host, label=True),
                Column("workers", of=lambda row: len(row.workers)),
                Column("objects", of=_sum("objects")),
                Column("share", "%", lambda row: _sum("objects")(row) / objects * 100 if objects else None, 1),
                Column("MB", of=lambda row: _sum("bytes")(row) / 1e6, digits=1),
                Column("errors", of=_sum("errors")),
                Column("client CPU", "s", _sum("cpu_seconds"), 2),
                Column("clock ahead", "ms", lambda row: max(row.known("clock_offset_ms"), key=abs, default=None), 2),
                Column("known to", "± ms", lambda row: max(row.known("clock_error_ms_max"), default=None), 2),
                Column("began late", "ms", lambda row: max(row.known("late_ms_max")), 1),
                Column("lost", of=_lost, words=True),
            ),
            "In the measured times of all phases. Clocks: relative to the coordinator's, read before every phase over "
            "the connection that starts it. Late: largest delay after the agreed instant, including the clock's "
            "uncertainty.",
        ).table([*rows, _WorkerGroup("all", "", totals)])
    ]


class _WorkerGroup(NamedTuple):
    """The workers of one row."""

    name: str
    host: str
    workers: Sequence[WorkerTotal]

    def known(self, field: str) -> list[Any]:
        """Return the known values of a field, worker by worker."""
        return [value for each in self.workers if (value := getattr(each, field)) is not None]


def _sum(field: str) -> Callable[[_WorkerGroup], float]:
    return lambda row: sum(row.known(field))


def _lost(row: _WorkerGroup) -> str:
    lost = row.known("lost")
    return f"{len(lost)} of {len(row.workers)}: {lost[0]}" if lost else "no"


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
