"""A worker: carries out its clients' part of one phase at a time and reports it.

One idea: run_phase(assignment, channel) is all there is. It prepares everything, waits for the start instant that all
workers share, runs its clients in one event loop, and folds their rows once a second and whenever a recorder fills.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import uvloop

import backends
from archiver.assignment import (
    INTERVAL_NS,
    Assignment,
    Channel,
    ClientAssignment,
    CpuSample,
    IntervalReport,
    PhaseReport,
    Tally,
    TallyKey,
)
from archiver.content import Content
from archiver.folding import fold
from archiver.histogram import Histogram, part_of
from archiver.op_log import OpLog
from archiver.record import Operation, Recorder, Status
from archiver.stopping import EverythingStop, SessionStop, StopDecision, WindowStop
from backends.base import Batch, DataPlane, PhaseSetting
from scenarios.model import Workload

RECORDER_ROWS = 4096
TICK_SECONDS = 0.05
REPORT_SECONDS = 1.0
FAILED_SESSIONS_MAX = 3  # in a row, without a single object: the client gives up
UNREACHED = frozenset((Status.CONNECT_FAILED, Status.CONNECT_TIMEOUT, Status.TLS_FAILED, Status.READ_TIMEOUT))


def run_phase(assignment: Assignment, channel: Channel) -> PhaseReport:
    """Carry out one phase's clients; returns when they are done or the run is being stopped."""
    worker = _PhaseRun(assignment, channel)
    # What exists by now stays: let no collection in the measured time walk over it.
    gc.collect()
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(worker.run())
    finally:
        gc.unfreeze()


def operation_of(workload: Workload) -> Operation:
    """What a workload does to its objects."""
    return Operation[workload.operation.upper().replace("-", "_")]


def findings(record: Recorder) -> list[tuple[int, int]]:
    """(object number, status) of the objects, among the rows not folded yet, that an audit found wanting."""
    return [
        (record.number[row], record.status[row])
        for row in range(record.folded, record.used)
        if record.operation[row] == Operation.AUDIT and record.status[row] != Status.OK
    ]


def _cpu_now() -> CpuSample:
    try:
        waited_ns = int(Path("/proc/self/schedstat").read_text().split()[1])
    except (OSError, IndexError):  # a kernel without scheduler statistics
        waited_ns = 0
    return CpuSample(time.monotonic_ns(), time.process_time(), waited_ns / 1e9)


class _PhaseRun:
    def __init__(self, assignment: Assignment, channel: Channel) -> None:
        self._assignment = assignment
        self._channel = channel
        phase = assignment.phase
        self.stop_rule = phase.stop
        sizes = tuple(sorted({workload.object_bytes for workload in phase.workloads}))
        self.plane: DataPlane = backends.load(assignment.backend).in_worker(assignment.backend_setting)
        content = Content(assignment.run_id, assignment.content_seed, sizes[-1])
        self.plane.set_phase(
            PhaseSetting(
                content,
                assignment.dates,
                assignment.verify,
                sizes,
                clients=tuple(client.client for client in assignment.clients),
                reads=tuple(client.numbers for client in assignment.clients if not isinstance(client.numbers, tuple)),
                operations=frozenset(operation_of(workload) for workload in phase.workloads),
                locks=frozenset(workload.lock for workload in phase.workloads),
                checksums=frozenset(workload.checksum for workload in phase.workloads),
                expected=assignment.expected,
            )
        )
        self._clients = [_Client(self, client) for client in assignment.clients]
        self._op_log = OpLog(assignment.op_log) if assignment.op_log is not None else None
        self._tallies: dict[TallyKey, Tally] = {}
        self._changed: list[tuple[int, int, int]] = []
        self._findings: list[tuple[int, int]] = []
        self._lateness_ns: list[int] = []
        self._lateness = Histogram()
        self._cpu: list[CpuSample] = []
        self.start_ns = 0

    async def run(self) -> PhaseReport:
        phase = self._assignment.phase
        self.start_ns = self._channel.wait_for_start()
        await asyncio.sleep(max(0.0, (self.start_ns - time.monotonic_ns()) / 1e9))
        self.stop: StopDecision
        if phase.stop.everything:
            self.stop = EverythingStop(self.start_ns)
        elif phase.clients == 1:
            self.stop = SessionStop(phase, phase.workloads[0])
        else:
            self.stop = WindowStop(phase, self.start_ns)
        self._cpu.append(_cpu_now())
        clients = [] if self._channel.should_stop() else self._clients
        tasks = [asyncio.create_task(client.run()) for client in clients]
        ticker = asyncio.create_task(self._tick(tasks))
        results = await asyncio.gather(*tasks, return_exceptions=True)
        ended_ns = time.monotonic_ns()
        ticker.cancel()
        await asyncio.gather(ticker, return_exceptions=True)
        await self.plane.end_phase()
        self.flush()
        self._cpu.append(_cpu_now())
        if self._op_log is not None:
            self._op_log.close()
        for result in results:
            if isinstance(result, Exception):
                raise result
        reasons = [client.gave_up for client in self._clients if client.gave_up]
        return PhaseReport(
            self.stop.measured_from_ns,
            self.stop.measured_to_ns,
            ended_ns,
            self.stop.settled,
            self._cpu,
            self._lateness,
            reasons[0] if reasons else None,
        )

    def fold(self, client: _Client) -> None:
        """Count one client's new rows."""
        workload = client.assignment.workload
        if self._op_log is not None:
            object_bytes = self._assignment.phase.workloads[workload].object_bytes
            self._op_log.write(client.assignment.client, client.record, object_bytes)
        if client.operation is Operation.AUDIT:
            self._findings += findings(client.record)
        ranges = fold(client.record, workload, self.start_ns, self.stop.warm_up_ns, self._tallies)
        self._changed += [(workload, first, last) for first, last in ranges]

    def not_tried(self, numbers: Iterable[int]) -> None:
        """An audit names what it could not even ask for."""
        self._findings += [(number, Status.INCOMPLETE) for number in numbers]

    def flush(self) -> None:
        """Fold everything and report it."""
        for client in self._clients:
            self.fold(client)
        if self._lateness_ns:
            self._lateness.add(part_of(np.array(self._lateness_ns, dtype=np.int64)))
            self._lateness_ns.clear()
        errors = [error for client in self._clients for error in client.record.errors.values()]
        self._channel.report(IntervalReport(self._tallies, self._changed, errors, self._findings))
        self._tallies, self._changed, self._findings = {}, [], []
        for client in self._clients:
            client.record.errors = {}

    async def _tick(self, tasks: list[asyncio.Task[None]]) -> None:
        """Watch how late timers fire, whether to stop, and report once a second."""
        loop = asyncio.get_running_loop()
        report_at = loop.time() + REPORT_SECONDS
        while True:
            due = loop.time() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            now_ns = time.monotonic_ns()
            self._lateness_ns.append(int((loop.time() - due) * 1e9))
            if now_ns - self._cpu[-1].at_ns >= INTERVAL_NS:
                self._cpu.append(_cpu_now())
            if self._channel.should_stop():
                for task in tasks:
                    task.cancel()
                return
            if loop.time() >= report_at:
                report_at += REPORT_SECONDS
                self.flush()


class _Client:
    """One stream of sessions, one at a time."""

    def __init__(self, run: _PhaseRun, assignment: ClientAssignment) -> None:
        self._run = run
        self.assignment = assignment
        self._workload = run._assignment.phase.workloads[assignment.workload]
        objects = self._workload.objects_per_session
        self.operation = operation_of(self._workload)
        self._operations = [self.operation] * objects
        self._sizes = [self._workload.object_bytes] * objects
        self._taken = 0
        self._session_rows = 2 * objects + 3  # each object may have a transaction, or a lock, of its own
        self.record = Recorder(max(RECORDER_ROWS, 2 * self._session_rows))
        self.gave_up: str | None = None

    async def run(self) -> None:
        """Sessions one after another until the stop rule, the share of objects or the platform ends them."""
        stop = self._run.stop
        failed_sessions = 0
        any_object = False
        while True:
            now_ns = time.monotonic_ns()
            measured_before = stop.measured_from_ns
            if not stop.wants_session(now_ns):
                return
            if stop.measured_from_ns != measured_before:
                self._run.fold(self)  # what came before was warm-up
            batch = self._next_batch()
            if batch is None:
                stop.ran_out(now_ns)
                return
            if self.record.room() < self._session_rows:
                self._run.fold(self)
                self.record.clear()
            objects = await self._session(batch, now_ns)
            stop.session_ended(now_ns, time.monotonic_ns())
            any_object = any_object or objects > 0
            failed_sessions = 0 if objects else failed_sessions + 1
            # An audit has all there is before it, so it gives up also where the platform goes away midway.
            audits = self.operation is Operation.AUDIT
            if failed_sessions >= FAILED_SESSIONS_MAX and (audits or not any_object):
                self.gave_up = f"{failed_sessions} sessions in a row completed no object"
                if audits:
                    self._run.not_tried(self._rest())
                return

    def _rest(self) -> list[int]:
        """What is left of the client's share."""
        numbers = self.assignment.numbers
        return [] if isinstance(numbers, tuple) else numbers[self._taken :].tolist()

    def _next_batch(self) -> Batch | None:
        """The objects of the next session; None when the client's share is used up.

        Where everything is to be done, the last session may have fewer objects.
        """
        workload, numbers = self._workload, self.assignment.numbers
        count = workload.objects_per_session
        first = self._taken
        if isinstance(numbers, tuple):
            if numbers[0] + first + count > numbers[1]:
                return None
            taken: range | list[int] = range(numbers[0] + first, numbers[0] + first + count)
        else:
            if self._run.stop_rule.everything:
                count = min(count, len(numbers) - first)
            if not count or first + count > len(numbers):
                return None
            taken = numbers[first : first + count].tolist()
        self._taken = first + count
        return Batch(
            self._operations[:count], taken, self._sizes[:count], lock=workload.lock, checksum=workload.checksum
        )

    async def _session(self, batch: Batch, due_ns: int) -> int:
        """One session and its row; returns how many objects it completed (of an audit: was told of)."""
        record = self.record
        session = self._run.plane.session(self.assignment.client)
        sent_ns = time.monotonic_ns()
        first_row = record.used
        opened = await session.open(record, due_ns)
        opened_ns = time.monotonic_ns()
        rows_before = record.used
        if opened:
            await session.perform(batch, record)
        rows = [row for row in range(rows_before, record.used) if record.operation[row] >= Operation.ARCHIVE]
        good = sum(1 for row in rows if record.status[row] == Status.OK)
        size_bytes = sum(record.bytes[row] for row in rows)
        status = next((record.status[row] for row in range(first_row, record.used) if record.status[row]), Status.OK)
        if status == Status.OK and len(rows) < len(batch):
            status = Status.INCOMPLETE
        await session.close(record)
        record.row(Operation.SESSION, 0, due_ns, sent_ns, opened_ns, time.monotonic_ns(), size_bytes, status)
        if self.operation is Operation.AUDIT:
            self._run.not_tried(set(batch.number) - {record.number[row] for row in rows})
            return sum(1 for row in rows if record.status[row] not in UNREACHED)  # a finding is an answer
        return good
