"""Replay of a trace in one worker: every operation when it is due, in the order of its stream.

One idea: the trace sets the schedule, which never waits for the platform (open loop). A due operation goes to its
stream. A stream does one thing at a time. Other due operations wait there, which counts in their response time (no
coordinated omission).

The scheduling delay, which is how late the client itself was, is counted separately. It starts when an operation can
begin: it is due, the previous operation of its stream has ended, and the operations that it depends on have ended. It
ends when the operation begins. Operations of one transaction are due, begun and done as one.

Memory does not grow with the trace: its columns are mapped, and read a thousand rows at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archiver.engine.work.mixed.pacer import Pacer
from archiver.engine.work.replay.compile.compiled import CompiledTrace
from archiver.engine.work.replay.turns import Turn, Turns
from archiver.engine.worker.assignment import ReplayAssignment
from archiver.engine.worker.client import Client, Host
from archiver.measure.folding import Folding
from archiver.measure.histogram import Histogram, part_of
from archiver.measure.reports import StageReport
from archiver.values.record import PLATFORM_ERROR, Operation, Status
from archiver.values.retention import Lock
from backends.base import Batch, Session
from scenarios.model import Workload
from scenarios.work.replay import Replay

CHUNK_ROWS = 1024  # rows read at once: a fraction of a millisecond, in which nothing else runs
GIVE_UP_SECONDS = 10.0  # after the allowed time; operations that have not begun by then are dropped
STREAM_ROWS = 512  # rows of a stream's recorder; counted every second, or when it is full
_READS = frozenset((Operation.RETRIEVE, Operation.RANGE_RETRIEVE, Operation.HEAD, Operation.QUERY))
_WRITES = frozenset((Operation.ARCHIVE, Operation.NEW_VERSION, Operation.COPY))
_OPERATIONS = tuple(Operation)
_FIRST_OF_OBJECTS = int(Operation.ARCHIVE)


class _Row(NamedTuple):
    """One row of a compiled trace, in the order of reading."""

    due_ns: int
    operation: int
    stream: int
    ends_session: bool
    object: int
    size_bytes: int
    version: int
    content: int
    source: int
    offset: int
    length: int
    ordered: bool
    unlocked: bool
    with_previous: bool


@dataclass(slots=True)
class _Due:
    """The work that a stream begins at once: one row, or all rows of a transaction."""

    rows: list[_Row]
    due_ns: int
    turn: Turn | None = None  # one for all rows, so that none of them waits for another


def _operations_of(due: _Due) -> int:
    """Return the number of operations on objects."""
    return sum(row.operation != Operation.OPEN for row in due.rows)


def replay_of(workload: Workload) -> Replay:
    """Return the replay of a workload that has one."""
    assert isinstance(workload.work, Replay)
    return workload.work


class Player:
    """One trace of one set in one worker."""

    def __init__(
        self,
        host: Host,
        pacer: Pacer,
        workload: Workload,
        assigned: ReplayAssignment,
        trace: CompiledTrace,
        folding: Folding,
    ) -> None:
        replay = replay_of(workload)
        self.host = host
        self.streams: dict[int, StreamClient] = {}
        self.folding = folding
        self.left_out = 0  # operations on objects whose write had failed
        self.began = self.waited = 0
        self.lateness_ns: list[int] = []
        self.turns = Turns()
        self.lost: set[int] = set()  # objects whose write failed; they are not requested any more
        self.unfinished = 0  # streams with waiting operations
        self.is_over = False
        self._pacer = pacer
        self._assigned = assigned
        self._trace = trace
        self._batch_max = trace.batches_max()
        self._facts = replay.known
        self._begin_ns = host.start_ns + int(replay.begins_seconds * 1e9)
        self._rows: deque[_Row] = deque()  # read, and not due yet
        self.dropped = 0  # due, and not begun at the end
        self._due = 0
        self._is_scheduled = True
        self._failure: Exception | None = None
        self._done = asyncio.Event()
        self._lateness = Histogram()
        self._ended_ns = self._begin_ns

    async def run(self) -> None:
        """Run until every operation is done, or the allowed time is over."""
        self._pacer.start(self._schedule(), self._arrive, self._schedule_ended)
        seconds = self._facts.allowed_seconds + GIVE_UP_SECONDS
        try:
            async with asyncio.timeout((self._begin_ns - time.monotonic_ns()) / 1e9 + seconds):
                await self._done.wait()
        except TimeoutError:
            self.finish()
            await self._done.wait()
        if self._failure is not None:
            raise self._failure
        for stream in self.streams.values():
            await stream.end_session()
        self._ended_ns = max(self._ended_ns, *(stream.free_ns for stream in self.streams.values()), self._begin_ns)

    def finish(self) -> None:
        """Begin no further operation."""
        self.is_over = True
        self._is_scheduled = False
        for stream in self.streams.values():
            self.dropped += stream.drop()
        self._see_whether_done()

    def number(self, index: int) -> int:
        """Return the number of an object from its position in the trace."""
        assigned = self._assigned
        if index < assigned.prepared_objects:
            return assigned.prepared + index
        return assigned.written + index - assigned.prepared_objects

    def ended(self) -> None:
        """Record that a stream has no waiting operation."""
        self.unfinished -= 1
        self._see_whether_done()

    def failed(self, error: Exception) -> None:
        """End the replay, because a stream cannot continue."""
        self._failure = self._failure or error
        self.finish()

    def fold_lateness(self) -> None:
        """Fold the scheduling delays into histograms."""
        if self.lateness_ns:
            self._lateness.add(part_of(np.array(self.lateness_ns, dtype=np.int64)))
            self.lateness_ns.clear()

    def report(self) -> StageReport:
        self.fold_lateness()
        planned_ns = self._begin_ns + int(self._facts.seconds * 1e9)
        return StageReport(
            self._assigned.workload,
            self._begin_ns,
            max(self._ended_ns, planned_ns),
            self._ended_ns,
            self.dropped > 0,
            self.left_out,
            self._due,
            self.began,
            self.waited,
            self.dropped,
            0,
            self._lateness,
        )

    def _schedule(self) -> Iterator[int]:
        """Yield the due time of each row; the row itself is queued."""
        trace, streams = self._trace, self._assigned.streams
        names = _Row._fields
        for first in range(0, len(trace.due_ns), CHUNK_ROWS):
            part = slice(first, first + CHUNK_ROWS)
            chosen = slice(None) if streams is None else np.isin(trace.stream[part], streams)
            columns: list[NDArray[np.int64]] = [getattr(trace, name)[part][chosen] for name in names]
            for row in map(_Row._make, zip(*(column.tolist() for column in columns), strict=True)):
                self._rows.append(row)
                yield self._begin_ns + row.due_ns

    def _arrive(self, due_ns: int) -> None:
        """Pass a due row to its stream."""
        row = self._rows.popleft()
        if self.is_over:
            return
        self._due += row.operation != Operation.OPEN
        stream = self.streams.get(row.stream)
        if stream is None:
            batch_max = self._batch_max.get(row.stream, 1)
            stream = self.streams[row.stream] = StreamClient(self, self._assigned.client + row.stream, batch_max)
            self.host.add_client(stream)
        due = stream.take(row, due_ns)
        if row.ordered:
            place = (self.number(row.object), row.operation not in _READS)
            places = (place,) if row.source < 0 else (place, (self.number(row.source), False))
            due.turn = self.turns.take(*places, turn=due.turn)

    def _schedule_ended(self) -> None:
        self._is_scheduled = False
        self._see_whether_done()

    def _see_whether_done(self) -> None:
        if not self._is_scheduled and not self.unfinished:
            self._done.set()


class StreamClient(Client):
    """One stream: consecutive sessions, and the due operations in them."""

    def __init__(self, player: Player, number: int, batch_max: int) -> None:
        super().__init__(player.host, number, player.folding, batch_max, STREAM_ROWS)
        self._player = player
        self._queue: deque[_Due] = deque()
        self._work: asyncio.Task[None] | None = None
        self.free_ns = 0  # since when it is idle
        self._session: Session | None = None
        self._session_due_ns = self._session_sent_ns = self._session_opened_ns = 0
        self._session_bytes = 0
        self._session_status = int(Status.OK)

    def take(self, row: _Row, due_ns: int) -> _Due:
        """Accept a due row; return the item that contains it."""
        if row.with_previous:
            # The first row of the transaction is still in the queue: rows with one due time arrive in one turn of the
            # loop, in which no stream begins.
            due = self._queue[-1]
            due.rows.append(row)
            return due
        due = _Due([row], due_ns)
        self._queue.append(due)
        if self._work is None:
            self._player.unfinished += 1
            self._work = asyncio.create_task(self._carry_out())
        return due

    def drop(self) -> int:
        """Drop all waiting operations; return their number."""
        count = sum(map(_operations_of, self._queue))
        for due in self._queue:
            if due.turn is not None:
                self._player.turns.done(due.turn)
        self._queue.clear()
        return count

    async def end_session(self) -> None:
        """Close an open session, and write its row."""
        session = self._session
        if session is None:
            return
        self._session = None
        self.make_room()
        await session.close(self.record)
        self.record.row(
            Operation.SESSION, 0, self._session_due_ns, self._session_sent_ns, self._session_opened_ns,
            time.monotonic_ns(), self._session_bytes, self._session_status,
        )  # fmt: skip

    async def _carry_out(self) -> None:
        """Carry out one due item after another until none is left."""
        player = self._player
        try:
            while self._queue:
                due = self._queue.popleft()
                try:
                    await self._begin(due)
                finally:
                    if due.turn is not None:
                        player.turns.done(due.turn)
                self.free_ns = time.monotonic_ns()
        except Exception as error:  # noqa: BLE001 - every failure ends the phase
            player.failed(error)
        finally:
            self._work = None
            player.ended()

    async def _begin(self, due: _Due) -> None:
        """Wait for the turn, drop operations that cannot succeed, and carry out the others."""
        player = self._player
        could_ns = max(due.due_ns, self.free_ns)
        if due.turn is not None:
            await due.turn.wait()
            could_ns = max(could_ns, due.turn.ready_ns)
        if player.is_over:
            player.dropped += _operations_of(due)
            return
        rows = [row for row in due.rows if self._is_possible(row)]
        if rows:
            if rows[0].operation != Operation.OPEN:
                player.began += len(rows)
                player.waited += len(rows) * (could_ns > due.due_ns)
            player.lateness_ns += [time.monotonic_ns() - could_ns] * len(rows)
            await self._perform(rows, due.due_ns)
        if due.rows[-1].ends_session:
            await self.end_session()

    def _is_possible(self, row: _Row) -> bool:
        """Return whether the row's objects exist. If an earlier write of one failed, count the row as left out."""
        player = self._player
        number = player.number(row.object)
        if row.source >= 0 and player.number(row.source) in player.lost:
            player.lost.add(number)
        elif number not in player.lost or row.operation in _WRITES or row.operation == Operation.OPEN:
            return True
        player.left_out += 1
        return False

    async def _perform(self, rows: Sequence[_Row], due_ns: int) -> None:
        """Carry out a row, or all rows of a transaction, in an open session."""
        player, record = self._player, self.record
        if record.folded == record.used:
            record.clear()
        self.make_room()
        if self._session is not None and not self._session.is_open:
            await self.end_session()  # the server closed it meanwhile
        is_open = self._session is not None or await self._open(due_ns)
        if rows[0].operation == Operation.OPEN:
            return
        good: set[int] = set()
        if is_open:
            assert self._session is not None
            first_row = record.used
            await self._session.perform(self._batch(rows, due_ns), record)
            good = self._good_since(first_row, due_ns, len(rows))
        all_good = True
        for row in rows:
            number = player.number(row.object)
            all_good &= number in good
            if row.operation in _WRITES:
                (player.lost.discard if number in good else player.lost.add)(number)
        # After a transport failure the connection is unusable; a refusal by the platform does not affect it.
        if not all_good and self._session_status < PLATFORM_ERROR:
            await self.end_session()

    def _good_since(self, first_row: int, due_ns: int, count: int) -> set[int]:
        """Return the object numbers whose rows report success, of ``count`` objects that were due then."""
        record = self.record
        statuses: dict[int, int] = {}
        rows = 0
        for place in range(first_row, record.used):
            if record.operation[place] >= _FIRST_OF_OBJECTS:
                rows += 1
                statuses[record.number[place]] = status = record.status[place]
                record.due_ns[place] = due_ns  # later rows, too: they waited for the stream as the first one did
                self._session_bytes += record.bytes[place]
                self._session_status = self._session_status or status
        if rows < count:
            self._session_status = self._session_status or int(Status.INCOMPLETE)
        return {number for number, status in statuses.items() if not status}

    async def _open(self, due_ns: int) -> bool:
        """Open a session and return whether it succeeded; its rows give the reason of a failure."""
        record = self.record
        first_row = record.used
        self._session = session = self._host.plane.session(self.number)
        self._session_due_ns, self._session_sent_ns = due_ns, time.monotonic_ns()
        self._session_bytes, self._session_status = 0, int(Status.OK)
        opened = await session.open(record, due_ns)
        self._session_opened_ns = time.monotonic_ns()
        if not opened:
            statuses = record.status[first_row : record.used]
            self._session_status = next(filter(None, statuses), int(Status.INCOMPLETE))
            await self.end_session()
        return opened

    def _batch(self, rows: Sequence[_Row], due_ns: int) -> Batch:
        """Make a batch. Rows of one transaction share all fields that a batch has only once."""
        player, first = self._player, rows[0]
        operation = _OPERATIONS[first.operation]
        is_range = operation is Operation.RANGE_RETRIEVE
        return Batch(
            [_OPERATIONS[row.operation] for row in rows],
            [player.number(row.object) for row in rows],
            [row.size_bytes for row in rows],
            due_ns,
            lock=Lock.NONE if first.unlocked else None,
            part_bytes=first.length or None if operation in _WRITES else None,
            version=[row.version for row in rows] if any(row.version != 1 for row in rows) else None,
            range=((first.offset, first.length),) if is_range else None,
            source=(player.number(first.source),) if first.source >= 0 else None,
            content=[player.number(row.content) for row in rows]
            if any(row.content != row.object for row in rows)
            else None,
        )
