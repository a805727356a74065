"""What the client itself was like in a phase: what its workers spent and did, and how together they were.

One idea: workers report counters, so whatever lies between two instants is a difference, of each of them and of all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from archiver.assignment import PhaseReport
from archiver.histogram import Histogram
from archiver.merging import Merge, Window
from archiver.workers import Carried
from results.database import WorkerRow
from results.model import ClientUsage


def incomplete(carried: Carried) -> str | None:
    """That workers were lost, and the first reason."""
    if not carried.lost:
        return None
    count = len(carried.lost)
    return f"{count} of {count + len(carried.reports)} workers lost: {next(iter(carried.lost.values()))}"


def worker_rows(carried: Carried, merge: Merge, start_ns: int, edges: tuple[int, int]) -> list[WorkerRow]:
    """What each worker did between two instants, and how together they were."""
    reports = {report.worker: report for report in carried.reports}
    rows = []
    for worker, place in sorted(carried.places.items()):
        report, clock = reports.get(worker), carried.clocks.get(worker)
        objects, size_bytes, errors = merge.done_by(worker, start_ns, edges)
        rows.append(
            WorkerRow(
                worker=worker,
                name=place.name,
                host=place.host,
                objects=objects,
                bytes=size_bytes,
                errors=errors,
                cpu_seconds=_cpu_seconds(report, edges)[0] if report is not None else None,
                prepared_seconds=carried.prepared_seconds.get(worker),
                late_ns=max(0, report.began_ns - start_ns) if report is not None else None,
                clock_offset_ns=clock.offset_ns if clock is not None else None,
                clock_error_ns=clock.error_ns if clock is not None else None,
                lost=carried.lost.get(worker),
            )
        )
    return rows


def client_usage(
    reports: Sequence[PhaseReport], window: Window, objects: int, sessions_without_port: int = 0
) -> ClientUsage:
    """What the workers spent in the window: their counters, interpolated at its edges."""
    seconds = (window.to_ns - window.from_ns) / 1e9
    edges = (window.from_ns, window.to_ns)
    used, busy = [0.0], [0.0]
    lateness = Histogram()
    for report in reports:
        on_core, waiting = _cpu_seconds(report, edges)
        used.append(on_core)
        busy.append(on_core + waiting)
        lateness.add(report.lateness.part())
    late = lateness.latency()
    return ClientUsage(
        cpu_percent=sum(used) / seconds * 100 if seconds else 0.0,
        busiest_worker_percent=max(busy) / seconds * 100 if seconds else 0.0,
        cpu_microseconds_per_object=sum(used) / objects * 1e6 if objects else None,
        lateness_p99_ms=late.p99 if late is not None else 0.0,
        sessions_without_port=sessions_without_port,
    )


def _cpu_seconds(report: PhaseReport, edges: tuple[int, int]) -> tuple[float, float]:
    """(on a core, ready but without one) between two instants: the worker's counters, interpolated."""
    at = [sample.at_ns for sample in report.cpu]
    on_core = np.diff(np.interp(edges, at, [sample.used_seconds for sample in report.cpu]))[0]
    waiting = np.diff(np.interp(edges, at, [sample.waited_seconds for sample in report.cpu]))[0]
    return float(on_core), float(waiting)
