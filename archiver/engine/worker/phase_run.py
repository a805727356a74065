"""One phase in one worker: the common part of every kind of phase.

One idea: every phase is prepared, waits for the start instant that all workers share, and runs in one event loop. The
worker folds rows once an interval and reports once a second.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import backends
from archiver.engine.worker.assignment import Assignment, Channel
from archiver.engine.worker.client import Client
from archiver.engine.worker.core_sharing import share_core
from archiver.engine.worker.outage import Outage
from archiver.engine.worker.polling import BusyPolling
from archiver.measure.folding import Folding, Rows, fold, last_archived, take
from archiver.measure.histogram import Histogram, part_of
from archiver.measure.reports import (
    INTERVAL_NS,
    Change,
    CpuSample,
    IntervalReport,
    PhaseReport,
    Tally,
    TallyKey,
    joined,
)
from archiver.values.content import Content
from archiver.values.record import OPERATION_OF, Operation, Recorder, Status
from archiver.values.retention import Retention
from backends.base import DataPlane, PhaseSetting

if TYPE_CHECKING:
    from archiver.engine.worker.op_log import OpLog

BEGIN_NS = 250_000_000  # time in which workers that share a core let each other begin
TICK_SECONDS = 0.05
LATENESS_SECONDS = 0.01  # between two measurements of the scheduling delay: 5 us of CPU each
REPORT_SECONDS = 1.0
THREAD_SWITCH_SECONDS = 0.0001


def findings(record: Recorder) -> list[tuple[int, int]]:
    """Return (object number, status) of the objects with audit findings among the rows not folded yet."""
    return [
        (record.number[row], record.status[row])
        for row in range(record.folded, record.used)
        if record.operation[row] == Operation.AUDIT and record.status[row] != Status.OK
    ]


def _cpu_now(idle_seconds: float) -> CpuSample:
    """Return the CPU time of this process without the ``idle_seconds`` in which it polled for nothing."""
    try:
        waited_ns = int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    except (OSError, IndexError):  # kernel without scheduler statistics
        waited_ns = 0
    return CpuSample(time.monotonic_ns(), time.process_time() - idle_seconds, waited_ns / 1e9)


@contextmanager
def _short_thread_switches() -> Iterator[None]:
    """Let the event loop interrupt the thread that folds rows after a tenth of a millisecond, instead of five."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(THREAD_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _op_log(assignment: Assignment) -> OpLog | None:
    """Return the log that an assignment requests; None if it requests none."""
    if assignment.op_log is None:
        return None
    from archiver.engine.worker.op_log import OpLog  # takes 0.1 s, and most workers do not need it

    return OpLog(assignment.op_log, assignment.run_id)


class PhaseRun:
    """One phase in this worker: its clients of any kind, and their reports."""

    _fold_every_ns = INTERVAL_NS

    def __init__(self, assignment: Assignment, channel: Channel) -> None:
        self._assignment = assignment
        self._channel = channel
        phase = assignment.phase
        self.is_finishing = False
        self.outage = Outage(self.finish)
        sizes = tuple(sorted(self._sizes()))
        self.plane: DataPlane = backends.load(assignment.backend).in_worker(assignment.backend_setting)
        content = Content(assignment.run_id, assignment.content_seed, sizes[-1])
        self.plane.set_phase(
            PhaseSetting(
                content,
                assignment.dates,
                assignment.verify,
                sizes,
                clients=tuple(self._client_numbers()),
                reads=tuple(self._reads()),
                deletes=tuple(self._deletes()),
                operations=frozenset(
                    OPERATION_OF[label] for workload in phase.workloads for label in workload.work.operations_of_phase
                ),
                locks=frozenset(lock for workload in phase.workloads for lock in workload.locks),
                checksums=frozenset(workload.checksum for workload in phase.workloads),
                expected=assignment.expected,
                retentions=frozenset(workload.retain_for_seconds for workload in phase.workloads),
            )
        )
        self._clients: list[Client] = []
        self._audits = any("audit" in workload.work.operations_of_phase for workload in phase.workloads)
        self._op_log = _op_log(assignment)
        self._tallies: dict[TallyKey, Tally] = {}
        self._changed: list[Change] = []
        self._last_archived: dict[tuple[int, int], tuple[int, int]] = {}  # see IntervalReport
        self._findings: list[tuple[int, int]] = []
        self._lateness_ns: list[int] = []  # of the loop's timers, see _measure_lateness
        self._lateness = Histogram()
        self._cpu: list[CpuSample] = []
        self._polling = BusyPolling()
        self.start_ns = 0
        self._has_ended = False
        self._folder = ThreadPoolExecutor(1)
        self._folds: list[Future[None]] = []

    def _sizes(self) -> set[int]:
        """Return the sizes of all objects that are archived or requested."""
        raise NotImplementedError

    def _client_numbers(self) -> Iterable[int]:
        raise NotImplementedError

    def _reads(self) -> Iterable[NDArray[np.int64]]:
        """Yield the numbers of archived objects that may be requested."""
        raise NotImplementedError

    def _deletes(self) -> Iterable[NDArray[np.int64]]:
        """Yield the numbers of archived objects that may be deleted."""
        raise NotImplementedError

    def _prepare(self) -> None:
        """Do slow preparations before the clock starts."""

    def _begin(self) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines that run concurrently from now on."""
        raise NotImplementedError

    def finish(self) -> None:
        """Begin no further session."""
        self.is_finishing = True

    def _ended(self, report: PhaseReport) -> None:
        """Complete the report."""

    def _interval_passed(self) -> None:
        """Called before new rows are counted."""

    def add_client(self, client: Client) -> None:
        self._clients.append(client)

    async def run(self) -> PhaseReport:
        with _short_thread_switches():
            return await self._run()

    async def _run(self) -> PhaseReport:
        self._prepare()
        self.start_ns = self._channel.wait_for_start()
        if self._assignment.polls_busily:
            await self._polling.begin()
        await asyncio.sleep(max(0.0, (self.start_ns - time.monotonic_ns()) / 1e9))
        self._cpu.append(_cpu_now(self._polling.idle_seconds))
        began_ns = time.monotonic_ns()
        work = [] if self._channel.should_stop() else self._begin()
        self.outage.clients = max(1, len(self._clients))
        tasks = [asyncio.create_task(each) for each in work]
        helpers = [asyncio.create_task(self._tick(tasks))]
        if self._assignment.shares_core:
            helpers.append(asyncio.create_task(share_core(began_ns + BEGIN_NS)))
        self._measure_lateness(loop := asyncio.get_running_loop(), loop.time())
        results = await asyncio.gather(*tasks, return_exceptions=True)
        ended_ns = time.monotonic_ns()
        self._has_ended = True
        self._polling.end()
        for each in helpers:
            each.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
        await self.plane.end_phase()
        self.flush()
        self._folder.shutdown()
        self._cpu.append(_cpu_now(self._polling.idle_seconds))
        if self._op_log is not None:
            self._op_log.close()
        for result in results:
            if isinstance(result, Exception):
                raise result
        reasons = [self.outage.ended_because, *(client.gave_up for client in self._clients)]
        report = PhaseReport(
            ended_ns,
            self._cpu,
            self._lateness,
            next(filter(None, reasons), None),
            began_ns=began_ns,
            failed_session_ns=self._failed_session_ns(),
        )
        self._ended(report)
        return report

    def _failed_session_ns(self) -> dict[int, tuple[int, int]]:
        return {
            clients[0].folding.workload: (
                sum(client.times.failed_ns for client in clients),
                sum(client.times.all_ns for client in clients),
            )
            for clients in self._by_workload()
        }

    def fold(self, *clients: Client) -> None:
        """Count the new rows of clients of one workload.

        The event loop only copies the rows. A thread counts them, so that answers that arrive meanwhile do not wait.
        """
        if self._op_log is not None:
            named = [(client.number, client.record) for client in clients]
            self._op_log.write(named, clients[0].folding.population, self._retention(clients[0]))
        if self._audits:
            for client in clients:
                self._findings += findings(client.record)
        records = [client.record for client in clients]
        rows = take(records, [client.stop.measured for client in clients])
        if rows is not None:
            self._folds.append(self._folder.submit(self._fold_rows, rows, clients[0].folding))

    def _fold_rows(self, rows: Rows, how: Folding) -> None:
        self._changed += fold(rows, how, self._tallies)
        for endpoint, last in last_archived(rows).items():
            key = how.workload, endpoint
            self._last_archived[key] = max(last, self._last_archived.get(key, last))

    def _retention(self, client: Client) -> Retention | None:
        """Return the lock of a client's objects; None if nothing gets a date."""
        workload = self._assignment.phase.workloads[client.folding.workload]
        dates = self._assignment.dates.get(workload.retain_for_seconds)
        if dates is None:
            return None
        return dates.retention.locked_by(workload.lock, workload.retain_for_seconds)

    def not_tried(self, numbers: Iterable[int]) -> None:
        """Record objects of an audit that were not requested."""
        self._findings += [(number, Status.INCOMPLETE) for number in numbers]

    def flush(self) -> None:
        """Fold and report all rows."""
        for clients in self._by_workload():
            self.fold(*clients)
        self._report()

    def _report(self) -> None:
        """Send the folded rows."""
        for each in self._folds:
            each.result()
        self._folds = []
        if self._lateness_ns:
            self._lateness.add(part_of(np.array(self._lateness_ns, dtype=np.int64)))
            self._lateness_ns.clear()
        errors = [
            replace(error, workload=client.folding.workload)
            for client in self._clients
            for error in client.record.errors.values()
        ]
        self._channel.report(
            IntervalReport(
                self._tallies, joined(self._changed), errors, self._findings, last_archived=self._last_archived
            )
        )
        self._tallies, self._changed, self._findings, self._last_archived = {}, [], [], {}
        for client in self._clients:
            client.record.errors = {}

    def _by_workload(self) -> list[list[Client]]:
        """Return clients in groups; the rows of a group are counted at once."""
        groups: dict[int, list[Client]] = {}
        for client in self._clients:
            groups.setdefault(client.folding.workload, []).append(client)
        return list(groups.values())

    def _measure_lateness(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        """Record the delay of this call, and schedule the next one."""
        now = loop.time()
        self._lateness_ns.append(int((now - due) * 1e9))
        if not self._has_ended:
            loop.call_at(now + LATENESS_SECONDS, self._measure_lateness, loop, now + LATENESS_SECONDS)

    async def _tick(self, tasks: list[asyncio.Task[None]]) -> None:
        """Check for a stop, fold once an interval, and report once a second."""
        loop = asyncio.get_running_loop()
        report_at = loop.time() + REPORT_SECONDS
        folded_ns = time.monotonic_ns()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now_ns = time.monotonic_ns()
            if now_ns - self._cpu[-1].at_ns >= INTERVAL_NS:
                self._cpu.append(_cpu_now(self._polling.idle_seconds))
            if now_ns - folded_ns >= self._fold_every_ns:
                folded_ns = now_ns
                self._interval_passed()
                for clients in self._by_workload():  # at every interval, because nothing else runs during a fold
                    self.fold(*clients)
                    await asyncio.sleep(0)  # sessions that became due run before the next workload is counted
            if self._channel.should_stop():
                for task in tasks:
                    task.cancel()
                return
            if self._channel.should_finish() and not self.is_finishing:
                self.finish()
            if loop.time() >= report_at:
                report_at += REPORT_SECONDS
                # Shielded, because the end of the phase cancels this task, and not one row may be lost.
                await asyncio.shield(asyncio.gather(*map(asyncio.wrap_future, self._folds)))
                self._report()
