"""The client's resource usage in a phase: usage and work of its workers, and how synchronous they were.

One idea: workers report counters, so the usage between two instants is a difference, for each worker and for all. A
phase is incomplete if it lost a worker, or if a worker did not run for ``STANDSTILL_SECONDS``, as after SIGSTOP: the
platform had no load meanwhile. No criterion of such a run passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from archiver.measure.histogram import merged
from archiver.measure.merging import Merge, Window
from archiver.measure.reports import Carried, PhaseReport
from archiver.measure.server_usage import ServerView, WorkDone, server_usage
from results.recorded.database import WorkerRow
from results.recorded.model import ClientUsage
from results.recorded.resources import CLIENT, Timeline

LATE_NS = 20_000_000
STANDSTILL_SECONDS = 5.0  # a worker samples its CPU time several times a second; in a longer gap it did not run
TIMERS_MIN = 100  # fewer do not show a share of the time


def incomplete(carried: Carried) -> str | None:
    """Return a message that workers were lost or stood still; None if all of them worked all the time."""
    if carried.lost:
        count = len(carried.lost)
        return f"{count} of {count + len(carried.reports)} workers lost: {next(iter(carried.lost.values()))}"
    longest = max(map(_standstill_seconds, carried.reports), default=0.0)
    if longest < STANDSTILL_SECONDS:
        return None
    return f"a worker did not run for {longest:.0f} s: the client's processes or its machine were suspended"


def _standstill_seconds(report: PhaseReport) -> float:
    """Return the longest time in which a worker took no sample of its CPU time, without what it used or waited for."""
    return max(
        (
            (after.at_ns - before.at_ns) / 1e9
            - (after.used_seconds - before.used_seconds)
            - (after.waited_seconds - before.waited_seconds)
            for before, after in pairwise(report.cpu)
        ),
        default=0.0,
    )


def worker_rows(carried: Carried, merge: Merge, start_ns: int, edges: tuple[int, int]) -> list[WorkerRow]:
    """Return the work of each worker between two instants, how late it started, and its clock offset."""
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
    reports: Sequence[PhaseReport],
    window: Window,
    objects: int,
    host: Timeline | None = None,
    sessions_without_port: int = 0,
    *,
    closed_loop_clients: int = 0,
    shares_host: bool = False,
) -> ClientUsage:
    """Return the workers' usage in the window, by counters interpolated at its edges, and the usage of their ``host``.

    A server may share that host. ``closed_loop_clients``: clients that had one object outstanding all the time; 0 if
    the phase had other clients, too.
    """
    seconds = (window.to_ns - window.from_ns) / 1e9
    edges = (window.from_ns, window.to_ns)
    used, busy = [0.0], [0.0]
    for report in reports:
        on_core, waiting = _cpu_seconds(report, edges)
        used.append(on_core)
        busy.append(on_core + waiting)
    lateness = merged(report.lateness for report in reports)
    late = lateness.latency()
    client_seconds = closed_loop_clients * seconds
    usage = ClientUsage(
        cpu_percent=sum(used) / seconds * 100 if seconds else 0.0,
        busiest_worker_percent=max(busy) / seconds * 100 if seconds else 0.0,
        cpu_microseconds_per_object=sum(used) / objects * 1e6 if objects else None,
        lateness_p99_ms=late.p99 if late is not None else 0.0,
        late_share=lateness.share_from(LATE_NS) if lateness.count >= TIMERS_MIN else None,
        object_time_share=min(1.0, sum(busy) / client_seconds) if client_seconds and objects else None,
        sessions_without_port=sessions_without_port,
    )
    return usage if host is None else _with_host(usage, host, edges, shares_host=shares_host)


def _with_host(usage: ClientUsage, host: Timeline, edges: tuple[int, int], *, shares_host: bool) -> ClientUsage:
    """Add usage of the host's links, memory and swap; links that the server shares are left out."""
    seen = server_usage({CLIENT: host}, ServerView(shares_host), WorkDone(0, 0, 0), *edges)
    if seen is None:
        return usage
    totals = [sum(step.values.values()) for step in host.series("memory_total_bytes", *edges)]
    used = [sum(step.values.values()) for step in host.series("memory_used_bytes", *edges)]
    available = [total - taken for total, taken in zip(totals, used, strict=True)]
    rates = {
        quantity: sum(host.used(quantity, *edges).values()) / (edges[1] - edges[0]) * 1e3
        for quantity in ("swap_in_bytes", "swap_out_bytes")
    }
    return replace(
        usage,
        links=() if shares_host else seen.links,
        memory_available_bytes=round(min(available)) if available else None,
        swap_in_megabytes_per_second=rates["swap_in_bytes"],
        swap_out_megabytes_per_second=rates["swap_out_bytes"],
    )


def _cpu_seconds(report: PhaseReport, edges: tuple[int, int]) -> tuple[float, float]:
    """Return seconds (on a core, ready without one) between two instants, by the worker's interpolated counters."""
    at = [sample.at_ns for sample in report.cpu]
    on_core = np.diff(np.interp(edges, at, [sample.used_seconds for sample in report.cpu]))[0]
    waiting = np.diff(np.interp(edges, at, [sample.waited_seconds for sample in report.cpu]))[0]
    return float(on_core), float(waiting)
