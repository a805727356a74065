"""Sessions of one operation: object numbers for every client, clients spread over the workers, and their sessions.

One idea: every client repeats one operation until the stop rule of its workload ends it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archiver.engine.numbers import LockedTimes, ObjectNumbers
from archiver.engine.worker.assignment import Assignment, ClientAssignment, WorkerShare
from archiver.engine.worker.client import (
    RECORDER_ROWS,
    UNREACHED,
    Client,
    WatchedHost,
    rows_each,
)
from archiver.engine.worker.phase_run import PhaseRun
from archiver.engine.worker.stopping import EverythingStop, SessionStop, SharedWindow, StopDecision, WindowStop
from archiver.measure.folding import Folding, Population
from archiver.measure.reports import PhaseReport, StageReport
from archiver.measure.steadiness import steadiness, unsteady_because
from archiver.values.record import OPERATION_OF, Operation
from backends.base import Batch
from scenarios.model import Phase, Workload
from scenarios.work.sessions import AllObjects, InWindow, Sessions, UntilPrecise


def share_sessions(
    phase: Phase, numbers: ObjectNumbers, times: Sequence[LockedTimes], workers_max: int
) -> list[WorkerShare]:
    """Return object numbers for every client, with the clients spread over the workers. ``times`` are by workload."""
    clients: list[ClientAssignment] = []
    for index, workload in enumerate(phase.workloads):
        share = workload.objects_max // workload.clients
        if workload.work.operation_label == "archive":
            numbers_of: list[tuple[int, int] | NDArray[np.int64]] = [
                numbers.fresh(share) for _ in range(workload.clients)
            ]
        else:
            wanted = share * workload.clients
            pool = numbers.sample(
                workload.work.mean_bytes, wanted, phase.position, workload.work.operation_label, times[index]
            )
            each = len(pool) // workload.clients
            numbers_of = [pool[i * each : (i + 1) * each] for i in range(workload.clients)]
        clients += [ClientAssignment(len(clients) + i, index, part) for i, part in enumerate(numbers_of)]
    workers = min(workers_max, len(clients))
    return [WorkerShare(clients=tuple(clients[worker::workers])) for worker in range(workers)]


def nothing_to_do(assignments: Sequence[Assignment]) -> str | None:
    """Return why a phase has nothing to do, because its sessions lack objects; None if it has work."""
    for assignment in assignments:
        for client in assignment.clients:
            workload = assignment.phase.workloads[client.workload]
            if not isinstance(client.numbers, tuple) and len(client.numbers) < workload.objects_per_session:
                return _TOO_FEW.get(
                    workload.work.operation_label, "too few objects of this size were archived for one session"
                )
    return None


_TOO_FEW = {
    "release": "too few objects of this size are under a hold for one session; a hold sweep comes before it",
    "event-hold": "too few objects of this size have a lock that outlasts the phase, and no event hold, for one "
    "session; --retain-for locks them longer",
    "event-release": "too few objects of this size are under an event hold for one session; an event-hold sweep comes "
    "before it, or --event-hold places them",
    "delete": "too few objects of this size have expired for one session; an archive sweep with a short retain_for "
    "comes before it",
    "extend": "too few objects of this size have a lock that outlasts the phase and ends before the new date for one "
    "session; --retain-for locks them longer",
    "query": "too few objects of this size have a lock for one session",
    "refused-delete": "too few objects of this size are locked for as long as the phase may take; --retain-for locks "
    "them longer",
}


def steadiness_of(counts: Sequence[int]) -> dict[str, Any]:
    """Return the steadiness fields of a result.

    Only sessions of one operation have them: no other work runs concurrently, so their rate should be steady.
    """
    return {"unsteady": unsteady_because(counts), "steadiness": steadiness(counts)}


class SessionsRun(PhaseRun):
    """Clients that each carry out one operation, until the stop rule of their workload ends it."""

    def _sizes(self) -> set[int]:
        return {workload.work.mean_bytes for workload in self._assignment.phase.workloads}

    def _client_numbers(self) -> Iterable[int]:
        return (client.client for client in self._assignment.clients)

    def _reads(self) -> Iterable[NDArray[np.int64]]:
        return (client.numbers for client in self._assignment.clients if not isinstance(client.numbers, tuple))

    def _deletes(self) -> Iterable[NDArray[np.int64]]:
        deletes = self._assignment.phase.workloads[0].work.does & {"delete", "refused-delete"}
        return self._reads() if deletes else ()

    def _begin(self) -> list[Coroutine[Any, Any, None]]:
        workloads = self._assignment.phase.workloads
        assigned = self._assignment.clients
        rows = rows_each(len(assigned))
        stops = _stops(workloads[0], self.start_ns, assigned)
        clients = [
            SessionsClient(self, client, workloads[client.workload], self.start_ns, stop, rows)
            for client, stop in zip(assigned, stops, strict=True)
        ]
        self._clients += clients
        return [client.run() for client in clients]

    def finish(self) -> None:
        super().finish()
        for client in self._clients:
            client.stop.ran_out(time.monotonic_ns())

    def _ended(self, report: PhaseReport) -> None:
        stops: dict[int, list[StopDecision]] = {}
        for client in self._clients:
            stops.setdefault(client.folding.workload, []).append(client.stop)
        report.stages = tuple(_stage(workload, stops[workload], report.ended_ns) for workload in sorted(stops))


def _stage(workload: int, stops: Sequence[StopDecision], ended_ns: int) -> StageReport:
    """Return the report of the clients of one workload. Clients without a measured session count for nothing."""
    measured = [stop for stop in stops if stop.measured_to_ns > stop.measured_from_ns > 0]
    first = stops[0]
    return StageReport(
        workload,
        measured_from_ns=max((stop.measured_from_ns for stop in measured), default=first.measured_from_ns),
        measured_to_ns=min((stop.measured_to_ns for stop in measured), default=first.measured_from_ns),
        ended_ns=ended_ns,
        ended_early=not all(stop.settled for stop in stops),
        client_ns=sum(stop.measured_to_ns - stop.measured_from_ns for stop in measured),
        half_width=first.half_width if isinstance(first, SessionStop) else None,
    )


def _stops(workload: Workload, start_ns: int, clients: Sequence[ClientAssignment]) -> list[StopDecision]:
    """Return the stop decisions of the clients of a phase; its workloads share one stop rule."""
    work = workload.work
    assert isinstance(work, Sessions)
    match work.stop:
        case UntilPrecise() as stop:
            objects = workload.objects_per_session
            return [SessionStop(stop, work.object_bytes * objects, each.objects // objects) for each in clients]
        case InWindow() as stop:
            window = SharedWindow(stop, start_ns, len(clients))
            return [WindowStop(window) for _ in clients]
        case AllObjects():
            return [EverythingStop(start_ns) for _ in clients]


class SessionsClient(Client):
    """Sessions one after another until the stop rule, the share of objects or the platform ends them."""

    def __init__(
        self,
        host: WatchedHost,
        assignment: ClientAssignment,
        workload: Workload,
        start_ns: int,
        stop: StopDecision,
        rows: int = RECORDER_ROWS,
    ) -> None:
        work = workload.work
        assert isinstance(work, Sessions)
        folding = Folding(assignment.workload, Population.of_size(work.object_bytes), start_ns)
        super().__init__(host, assignment.client, folding, workload.objects_per_session, rows)
        self.stop = stop
        self._outage = host.outage
        self._workload = workload
        self._numbers = assignment.numbers
        self._takes_rest = isinstance(work.stop, AllObjects)
        self._operation = OPERATION_OF[work.operation]
        objects = workload.objects_per_session
        self._operations = [self._operation] * objects
        self._sizes = [work.object_bytes] * objects
        self._taken = 0
        self._spare: deque[int] = deque()

    async def run(self) -> None:
        try:
            await self._run()
        finally:
            self.stop.client_ended()

    async def _run(self) -> None:
        stop, audits = self.stop, self._operation is Operation.AUDIT
        while True:
            now_ns = time.monotonic_ns()
            if self._host.is_finishing or not stop.wants_session(now_ns):
                if audits:
                    self._host.not_tried(self._rest())
                return
            batch = self._next_batch()
            if batch is None:
                stop.ran_out(now_ns)
                return
            self.make_room()
            first_row = self.record.used
            uncertain = self.record.uncertain
            objects = await self.session(batch, now_ns)
            if audits:
                objects = self._audited(batch, first_row)
            elif objects < len(batch) and not self._takes_rest:
                self._spare += [batch.number[index] for index in self.without_effect(batch, first_row, uncertain)]
            stop.session_ended(now_ns, time.monotonic_ns())
            await self._outage.session_ended(self.record, self.times, objects, now_ns)

    def _audited(self, batch: Batch, first_row: int) -> int:
        """Return the number of objects that the platform answered for; a finding is an answer.

        The others are reported as not tried.
        """
        record = self.record
        rows = [row for row in range(first_row, record.used) if record.operation[row] == Operation.AUDIT]
        self._host.not_tried(set(batch.number) - {record.number[row] for row in rows})
        return sum(1 for row in rows if record.status[row] not in UNREACHED)

    def _rest(self) -> list[int]:
        """Return the rest of the client's share."""
        return [] if isinstance(self._numbers, tuple) else self._numbers[self._taken :].tolist()

    def _next_batch(self) -> Batch | None:
        """Return the objects of the next session; None if the client's share is used up.

        If all objects are to be handled, the last session may have fewer. Numbers of failed sessions that surely had no
        effect are used again after all others.
        """
        workload, numbers = self._workload, self._numbers
        count, first = workload.objects_per_session, self._taken
        left = (numbers[1] - numbers[0] if isinstance(numbers, tuple) else len(numbers)) - first
        if self._takes_rest:
            count = min(count, left)
        taken: range | list[int]
        if not count or max(left, len(self._spare)) < count:
            return None
        if left < count:
            taken = [self._spare.popleft() for _ in range(count)]
        elif isinstance(numbers, tuple):
            taken = range(numbers[0] + first, numbers[0] + first + count)
        else:
            taken = numbers[first : first + count].tolist()
        self._taken += count if left >= count else 0
        return Batch(
            self._operations[:count],
            taken,
            self._sizes[:count],
            lock=workload.lock,
            checksum=workload.checksum,
            retain_for_seconds=workload.retain_for_seconds,
        )
