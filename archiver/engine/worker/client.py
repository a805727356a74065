"""One client: a stream of sessions, one at a time, each written down as it goes.

One idea: what a session is does not depend on who decides that it takes place; a client of a sweep goes by the phase's
stop rule, one of a mix by its workload's stage.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Protocol

from archiver.engine.worker.assignment import ClientAssignment
from archiver.engine.worker.stopping import StopDecision
from archiver.measure.folding import Folding, Population
from archiver.values.record import Operation, Recorder, Status
from backends.base import Batch, DataPlane
from scenarios.model import StopRule, Workload

RECORDER_ROWS = 4096
_ROWS_LEAST = 512  # of a client among thousands; fewer would be counted so often that it costs more than the session
_ROWS_OF_ALL = 2_000_000  # of a worker's clients together, as far as that leaves each the least: 120 MB
FAILED_SESSIONS_MAX = 3  # in a row, without a single object: the client gives up
_FIRST_OF_OBJECTS = int(Operation.ARCHIVE)  # looked up once, and plain: a session compares several rows with it
UNREACHED = frozenset(
    (Status.CONNECT_FAILED, Status.NO_LOCAL_PORT, Status.CONNECT_TIMEOUT, Status.TLS_FAILED, Status.READ_TIMEOUT)
)


def operation_of(workload: Workload) -> Operation:
    """What a workload of a sweep does to its objects."""
    return Operation[workload.operation.upper().replace("-", "_")]


class Host(Protocol):
    """What clients need of the worker that runs them."""

    plane: DataPlane
    stop_rule: StopRule
    stop: StopDecision
    start_ns: int  # the phase's
    is_finishing: bool  # no further session is to begin

    def add_client(self, client: Client) -> None:
        """Have its rows counted from now on."""

    def fold(self, client: Client) -> None:
        """Count a client's new rows."""

    def not_tried(self, numbers: Iterable[int]) -> None:
        """An audit names what it could not even ask for."""


def rows_each(clients: int) -> int:
    """How many rows each of a worker's clients gets: their memory is taken before the first session begins."""
    return max(_ROWS_LEAST, min(RECORDER_ROWS, _ROWS_OF_ALL // max(1, clients)))


class Client:
    """Its rows, and how a session goes."""

    def __init__(self, host: Host, number: int, folding: Folding, batch_max: int, rows: int = RECORDER_ROWS) -> None:
        self._host = host
        self.number = number
        self.folding = folding
        self._session_rows = 2 * batch_max + 3  # each object may have a transaction, or a lock, of its own
        self.record = Recorder(max(rows, 2 * self._session_rows))
        self.gave_up: str | None = None

    def make_room(self) -> None:
        """See to it that another session's rows fit."""
        if self.record.room() < self._session_rows:
            self._host.fold(self)
            self.record.clear()

    async def session(self, batch: Batch, due_ns: int) -> int:
        """One session and its row; returns how many objects it completed."""
        record = self.record
        session = self._host.plane.session(self.number)
        sent_ns = time.monotonic_ns()
        first_row = record.used
        opened = await session.open(record, due_ns)
        opened_ns = time.monotonic_ns()
        rows_before = record.used
        if opened:
            await session.perform(batch, record)
        objects = good = size_bytes = 0
        for row in range(rows_before, record.used):
            if record.operation[row] >= _FIRST_OF_OBJECTS:
                objects += 1
                good += not record.status[row]
                size_bytes += record.bytes[row]
        status = next(filter(None, record.status[first_row : record.used]), Status.OK)
        if status == Status.OK and objects < len(batch):
            status = Status.INCOMPLETE
        await session.close(record)
        record.row(Operation.SESSION, 0, due_ns, sent_ns, opened_ns, time.monotonic_ns(), size_bytes, status)
        return good


class SweepClient(Client):
    """Sessions one after another until the phase's stop rule, the share of objects or the platform ends them."""

    def __init__(
        self, host: Host, assignment: ClientAssignment, workload: Workload, start_ns: int, rows: int = RECORDER_ROWS
    ) -> None:
        folding = Folding(assignment.workload, Population.of_size(workload.object_bytes), start_ns)
        super().__init__(host, assignment.client, folding, workload.objects_per_session, rows)
        self._workload = workload
        self._numbers = assignment.numbers
        self._operation = operation_of(workload)
        objects = workload.objects_per_session
        self._operations = [self._operation] * objects
        self._sizes = [workload.object_bytes] * objects
        self._taken = 0

    async def run(self) -> None:
        stop, audits = self._host.stop, self._operation is Operation.AUDIT
        failed_sessions = 0
        any_object = False
        while True:
            now_ns = time.monotonic_ns()
            measured_before = stop.measured_from_ns
            if self._host.is_finishing or not stop.wants_session(now_ns):
                return
            if stop.measured_from_ns != measured_before:
                self._host.fold(self)  # what came before was warm-up
            batch = self._next_batch()
            if batch is None:
                stop.ran_out(now_ns)
                return
            self.make_room()
            first_row = self.record.used
            objects = await self.session(batch, now_ns)
            if audits:
                objects = self._audited(batch, first_row)
            stop.session_ended(now_ns, time.monotonic_ns())
            any_object = any_object or objects > 0
            failed_sessions = 0 if objects else failed_sessions + 1
            # An audit has all there is before it, so it gives up also where the platform goes away midway.
            if failed_sessions >= FAILED_SESSIONS_MAX and (audits or not any_object):
                self.gave_up = f"{failed_sessions} sessions in a row completed no object"
                if audits:
                    self._host.not_tried(self._rest())
                return

    def _audited(self, batch: Batch, first_row: int) -> int:
        """How many objects the platform said something about; a finding is an answer. The others were not tried."""
        record = self.record
        rows = [row for row in range(first_row, record.used) if record.operation[row] == Operation.AUDIT]
        self._host.not_tried(set(batch.number) - {record.number[row] for row in rows})
        return sum(1 for row in rows if record.status[row] not in UNREACHED)

    def _rest(self) -> list[int]:
        """What is left of the client's share."""
        return [] if isinstance(self._numbers, tuple) else self._numbers[self._taken :].tolist()

    def _next_batch(self) -> Batch | None:
        """The objects of the next session; None when the client's share is used up.

        Where everything is to be done, the last session may have fewer objects.
        """
        workload, numbers = self._workload, self._numbers
        count = workload.objects_per_session
        first = self._taken
        if isinstance(numbers, tuple):
            if numbers[0] + first + count > numbers[1]:
                return None
            taken: range | list[int] = range(numbers[0] + first, numbers[0] + first + count)
        else:
            if self._host.stop_rule.everything:
                count = min(count, len(numbers) - first)
            if not count or first + count > len(numbers):
                return None
            taken = numbers[first : first + count].tolist()
        self._taken = first + count
        return Batch(
            self._operations[:count],
            taken,
            self._sizes[:count],
            lock=workload.lock,
            checksum=workload.checksum,
            retain_for_seconds=workload.retain_for_seconds,
        )
