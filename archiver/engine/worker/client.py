"""One client: a stream of sessions, one at a time, each recorded while it runs.

One idea: a session is the same for every kind of work. Each kind of work has its own class of clients, which
determines when sessions take place.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Protocol

from archiver.engine.worker.outage import Outage, SessionTimes
from archiver.engine.worker.stopping import EverythingStop, StopDecision
from archiver.measure.folding import Folding
from archiver.values.record import Operation, Recorder, Status
from backends.base import Batch, DataPlane

RECORDER_ROWS = 4096
_ROWS_MIN = 512  # rows of a client among thousands; with fewer, counting would cost more than the session
_ROWS_TOTAL = 2_000_000  # rows of all clients of a worker (120 MB), unless a client would get fewer than _ROWS_MIN
_FIRST_OF_OBJECTS = int(Operation.ARCHIVE)  # looked up once, as a plain int: a session compares several rows with it
_ALL = EverythingStop(0)
UNREACHED = frozenset(
    (Status.CONNECT_FAILED, Status.NO_LOCAL_PORT, Status.CONNECT_TIMEOUT, Status.TLS_FAILED, Status.READ_TIMEOUT)
)


class Host(Protocol):
    """Interface of the worker that clients run in."""

    plane: DataPlane
    start_ns: int  # start of the phase
    is_finishing: bool  # no further session may begin

    def add_client(self, client: Client) -> None:
        """Count the client's rows from now on."""

    def fold(self, client: Client) -> None:
        """Count a client's new rows."""

    def not_tried(self, numbers: Iterable[int]) -> None:
        """Record objects of an audit that were not requested."""


class WatchedHost(Host, Protocol):
    """Host of clients that share one schedule or window, and end together if the platform does."""

    outage: Outage


def rows_each(clients: int) -> int:
    """Return the number of rows per client of a worker, which are allocated before the first session begins."""
    return max(_ROWS_MIN, min(RECORDER_ROWS, _ROWS_TOTAL // max(1, clients)))


class Client:
    """The rows of a client, and its sessions."""

    def __init__(self, host: Host, number: int, folding: Folding, batch_max: int, rows: int = RECORDER_ROWS) -> None:
        self._host = host
        self.number = number
        self.folding = folding
        self._session_rows = 2 * batch_max + 3  # each object may have a transaction, or a lock, of its own
        self.record = Recorder(max(rows, 2 * self._session_rows))
        self.gave_up: str | None = None
        self.times = SessionTimes()
        self.stop: StopDecision = _ALL

    def make_room(self) -> None:
        """Ensure that the rows of another session fit."""
        if self.record.room() < self._session_rows:
            self._host.fold(self)
            self.record.clear()

    async def session(self, batch: Batch, due_ns: int) -> int:
        """Carry out one session and write its row; return the number of completed objects."""
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

    def without_effect(self, batch: Batch, first_row: int, uncertain: int) -> list[int]:
        """Return the operations of a session, by index, that surely had no effect: not tried, or a refused archive.

        ``first_row`` and ``uncertain`` are the record's ``used`` and ``uncertain`` before the session. If any attempt
        of the session may have been carried out, each operation that was tried may have had an effect.
        """
        record = self.record
        is_certain = record.uncertain == uncertain
        spent = {
            (record.operation[row], record.number[row])
            for row in range(first_row, record.used)
            if not (is_certain and record.operation[row] == Operation.ARCHIVE and record.status[row] != Status.OK)
        }
        done = zip(batch.operation, batch.number, strict=True)
        return [index for index, each in enumerate(done) if each not in spent]
