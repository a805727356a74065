"""An S3 session: one connection, opened, used for its objects one after another, closed.

One idea: while a request is outstanding the next one is already made and signed, so the client's own work hides
behind the platform's; on the wire there is still exactly one request at a time.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from typing import Protocol

from archiver.content import Checksum
from archiver.record import Operation, Recorder, Status
from archiver.retention import Lock
from backends.base import Batch
from backends.s3.connection import Connection, Endpoint, connect
from backends.s3.replies import BodyCheck, ReplyReader
from backends.s3.reported_lock import MODE_HEADER, LockProblem
from backends.s3.setting import WorkerSetting

MOVES_CONTENT = frozenset((Operation.ARCHIVE, Operation.RETRIEVE, Operation.AUDIT))
REFUSALS = frozenset(("AccessDenied", "InvalidRequest", "ObjectLocked"))  # of a deletion, because of a lock
RETRIED = frozenset((429, 500, 502, 503, 504))
RETRY_SECONDS_FIRST = 0.1
RETRY_SECONDS_MAX = 30.0

_REASON = {
    Status.CONNECT_FAILED: "connect failed",
    Status.CONNECT_TIMEOUT: "connect timeout",
    Status.TLS_FAILED: "TLS failed",
    Status.READ_TIMEOUT: "read timeout",
    Status.CONNECTION_LOST: "connection lost",
    Status.TRUNCATED: "truncated",
    Status.PROTOCOL_ERROR: "protocol error",
}


class RequestSource(Protocol):
    """Where a session gets its requests (backends.s3.data_plane.S3DataPlane)."""

    setting: WorkerSetting

    def endpoint(self, index: int) -> Endpoint: ...

    def object_name(self, number: int) -> str: ...

    def opening_request(self, endpoint_index: int) -> bytes: ...

    def archive_request(
        self, endpoint_index: int, number: int, size_bytes: int, lock: Lock | None, checksum: Checksum | None
    ) -> tuple[bytes | memoryview, ...]: ...

    def retrieve_request(self, endpoint_index: int, number: int) -> bytes: ...

    def head_request(self, endpoint_index: int, number: int) -> bytes: ...

    def change_request(self, endpoint_index: int, operation: Operation, number: int) -> tuple[bytes, ...]: ...

    def lock_problem(self, number: int, headers: Mapping[bytes, bytes]) -> LockProblem | None: ...

    def check(self, number: int, size_bytes: int) -> BodyCheck: ...


class S3Session:
    """One session (with --keep-sessions-open: all sessions of one client, over one connection)."""

    def __init__(self, source: RequestSource, endpoint_index: int) -> None:
        self._source = source
        self._endpoint_index = endpoint_index
        self._connection: Connection | None = None
        self._record: Recorder | None = None
        self._finished: asyncio.Future[None] | None = None
        self._opening = False
        self._opened = False
        self._batch = Batch((), (), ())
        self._index = 0
        self._due_ns = 0
        self._next: tuple[tuple[bytes | memoryview, ...], BodyCheck | None] | None = None
        self._check: BodyCheck | None = None
        self._connected_ns = 0
        self._attempts = 1
        self._retry: asyncio.TimerHandle | None = None
        # Sent, first byte and attempts of an object that is being locked by a request of its own.
        self._archived: tuple[int, int, int] | None = None
        self._audited: tuple[int, int, int] | None = None  # the same of one that was read, while its lock is asked for

    async def open(self, record: Recorder, due_ns: int) -> bool:
        if self._connection is not None and self._connection.usable:
            return True  # kept open
        self._record = record
        self._due_ns = due_ns
        self._attempts = 1
        setting = self._source.setting
        endpoint = self._source.endpoint(self._endpoint_index)
        sent_ns = time.monotonic_ns()
        try:
            async with asyncio.timeout(setting.connect_timeout_seconds):
                self._connection = await connect(endpoint, self, setting.read_timeout_seconds)
        except TimeoutError:
            waited = f"{endpoint.url}: no connection in {setting.connect_timeout_seconds:g} s (--connect-timeout)"
            self._open_failed(Status.CONNECT_TIMEOUT, waited, sent_ns)
            return False
        except ssl.SSLError as error:
            self._open_failed(Status.TLS_FAILED, f"{endpoint.url}: {error}", sent_ns)
            return False
        except OSError as error:
            self._open_failed(Status.CONNECT_FAILED, f"{endpoint.url}: {error}", sent_ns)
            return False
        self._connected_ns = time.monotonic_ns()
        if setting.session_open == "connect":
            self._opened = True
            self._row(Operation.OPEN, 0, sent_ns, self._connected_ns, self._connected_ns, 0)
            return True
        self._opening = True
        self._opened = False
        self._open_sent_ns = sent_ns
        self._finished = asyncio.get_running_loop().create_future()
        is_head = setting.session_open == "head-bucket"
        self._connection.send((self._source.opening_request(self._endpoint_index),), is_head=is_head)
        await self._finished
        return self._opened

    async def perform(self, batch: Batch, record: Recorder) -> None:
        self._record = record
        self._batch = batch
        self._index = 0
        self._due_ns = time.monotonic_ns()
        self._finished = asyncio.get_running_loop().create_future()
        self._next = self._make_request(0)
        self._send_next()
        await self._finished

    async def close(self, record: Recorder) -> None:
        kept = self._source.setting.keep_sessions_open and self._opened
        if kept and self._connection is not None and self._connection.usable:
            return
        if self._connection is None:
            return  # it never opened
        sent_ns = time.monotonic_ns()
        await self.disconnect()
        done_ns = time.monotonic_ns()
        record.row(Operation.CLOSE, 0, sent_ns, sent_ns, done_ns, done_ns, 0, endpoint=self._endpoint_index)

    async def disconnect(self) -> None:
        """Close the connection, whatever was kept."""
        if self._retry is not None:
            self._retry.cancel()
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    # The connection's owner.

    def reply_complete(self, reply: ReplyReader, sent_ns: int, first_byte_ns: int, done_ns: int) -> None:
        if self._opening:
            self._opening = False
            self._opened = reply.status < 300
            status = Status.OK if self._opened else reply.status
            if not self._opened:
                self._reply_error(Operation.OPEN, reply, self._source.setting.bucket)
            self._row(Operation.OPEN, 0, self._open_sent_ns, self._connected_ns, done_ns, 0, status)
            self._finish()
            return
        batch, index = self._batch, self._index
        operation, number, size_bytes = batch.operation[index], batch.number[index], batch.size_bytes[index]
        if reply.status in RETRIED and self._attempts <= self._source.setting.retries and reply.keep_alive:
            self._retry = asyncio.get_running_loop().call_later(self._retry_delay(reply), self._send_again)
            return
        if operation is Operation.AUDIT and self._audited is None and self._shows_no_lock(number, reply):
            self._audited = (sent_ns, first_byte_ns, self._attempts)
            self._attempts = 1
            self._send_head()
            return
        status = self._judge(operation, number, reply)
        if self._audited is not None:
            (sent_ns, first_byte_ns, self._attempts), self._audited = self._audited, None
        if operation is Operation.ARCHIVE and batch.lock is Lock.SEPARATE:
            if self._archived is None and status == Status.OK and reply.keep_alive:
                self._archived = (sent_ns, first_byte_ns, self._attempts)
                self._attempts = 1
                self._send_lock()
                return
            if self._archived is None and status == Status.OK:
                lost = "the server closed the connection before the object could be locked"
                self._error(operation, "not locked", lost, reply.request_id, number, outcome_unknown=True)
                status = Status.CONNECTION_LOST
            elif self._archived is not None:
                self._row(Operation.LOCK, number, sent_ns, first_byte_ns, done_ns, 0, status)
                (sent_ns, first_byte_ns, self._attempts), self._archived = self._archived, None
        moved = status == Status.OK and operation in MOVES_CONTENT
        self._row(operation, number, sent_ns, first_byte_ns, done_ns, size_bytes if moved else 0, status)
        self._due_ns = done_ns
        self._index = index + 1
        if self._index == len(batch):
            self._finish()
        elif not reply.keep_alive:
            self._closed_by_server(reply.request_id, number)
        else:
            self._send_next()

    def _judge(self, operation: Operation, number: int, reply: ReplyReader) -> int:
        """The status of an object's row; what failed is counted under its reason."""
        if operation is Operation.REFUSED_DELETE:
            if reply.status in (400, 403) and reply.s3_error()[0] in REFUSALS:
                return Status.OK
            if reply.status < 300:
                gone = "the platform deleted what was locked"
                self._error(operation, "deleted what was locked", gone, reply.request_id, number)
                return Status.DELETED_LOCKED
        if reply.status != 200 and not (operation is Operation.DELETE and reply.status == 204):
            self._reply_error(operation, reply, self._source.object_name(number), was_archived=bool(self._archived))
            return reply.status
        if self._check is not None and not self._check.finish():
            self._error(operation, "damaged", "the bytes are not those that were archived", reply.request_id, number)
            return Status.DAMAGED
        if operation is Operation.AUDIT:
            problem = self._source.lock_problem(number, reply.headers)
            if problem is not None:
                self._error(operation, problem.status.name.lower(), problem.words, reply.request_id, number)
                return problem.status
        return Status.OK

    def _send_lock(self) -> None:
        """Lock the object that was just archived, by a request of its own."""
        connection = self._connection
        assert connection is not None
        self._check = None
        number = self._batch.number[self._index]
        connection.send(self._source.change_request(self._endpoint_index, Operation.EXTEND, number))

    def _shows_no_lock(self, number: int, reply: ReplyReader) -> bool:
        """Whole, but without its lock: some platforms show that to HEAD only."""
        if MODE_HEADER in reply.headers or reply.status != 200 or not reply.keep_alive:
            return False
        if self._check is not None and not self._check.finish():
            return False
        problem = self._source.lock_problem(number, reply.headers)
        return problem is not None and problem.status == Status.UNLOCKED

    def _send_head(self) -> None:
        """Ask for the lock of the object that was just read."""
        connection = self._connection
        assert connection is not None
        self._check = None
        number = self._batch.number[self._index]
        connection.send((self._source.head_request(self._endpoint_index, number),), is_head=True)

    def exchange_failed(self, status: Status, message: str, sent_ns: int, first_byte_ns: int) -> None:
        done_ns = time.monotonic_ns()
        if self._opening:
            self._opening = False
            self._open_failed(
                status, f"{self._source.endpoint(self._endpoint_index).url}: {message}", self._open_sent_ns
            )
        else:
            operation, number = self._batch.operation[self._index], self._batch.number[self._index]
            self._error(operation, _REASON[status], message, "", number, outcome_unknown=True)
            if self._archived is not None:
                self._row(Operation.LOCK, number, sent_ns, first_byte_ns or done_ns, done_ns, 0, status)
                (sent_ns, first_byte_ns, self._attempts), self._archived = self._archived, None
            if self._audited is not None:
                (sent_ns, first_byte_ns, self._attempts), self._audited = self._audited, None
            self._row(operation, number, sent_ns, first_byte_ns or done_ns, done_ns, 0, status)
            self._index += 1
        self._finish()

    def _closed_by_server(self, request_id: str, number: int) -> None:
        """The session ends here; what is left of its batch is neither good nor tried."""
        total = len(self._batch)
        message = f"the server ended the connection with {total - self._index} of {total} objects still to come"
        self._error(Operation.SESSION, "closed by server", message, request_id, number)
        self._finish()

    def _send_next(self) -> None:
        assert self._next is not None
        parts, check = self._next
        self._attempts = 1
        connection = self._connection
        if connection is None or not connection.usable:
            self._closed_by_server("", self._batch.number[self._index])
            return
        self._check = check
        connection.send(parts, check=check)
        following = self._index + 1
        if following < len(self._batch):
            self._next = self._make_request(following)

    def _send_again(self) -> None:
        connection = self._connection
        if connection is None or not connection.usable:
            lost = "the server closed the connection before the request could be sent again"
            self.exchange_failed(Status.CONNECTION_LOST, lost, self._due_ns, 0)
            return
        self._attempts += 1
        if self._archived is not None:
            self._send_lock()
            return
        if self._audited is not None:
            self._send_head()
            return
        parts, self._check = self._make_request(self._index)
        connection.send(parts, check=self._check)

    def _retry_delay(self, reply: ReplyReader) -> float:
        """Seconds that the server asked for, or twice as long each time."""
        asked = reply.headers.get(b"retry-after", b"").strip()
        if asked.isdigit():
            return min(float(asked), RETRY_SECONDS_MAX)
        return min(RETRY_SECONDS_FIRST * float(2 ** (self._attempts - 1)), RETRY_SECONDS_MAX)

    def _make_request(self, index: int) -> tuple[tuple[bytes | memoryview, ...], BodyCheck | None]:
        batch, source, at = self._batch, self._source, self._endpoint_index
        operation, number, size_bytes = batch.operation[index], batch.number[index], batch.size_bytes[index]
        if operation is Operation.ARCHIVE:
            return source.archive_request(at, number, size_bytes, batch.lock, batch.checksum), None
        if operation not in MOVES_CONTENT:
            return source.change_request(at, operation, number), None
        return (source.retrieve_request(at, number),), source.check(number, size_bytes)

    def _row(
        self,
        operation: Operation,
        number: int,
        sent_ns: int,
        first_byte_ns: int,
        done_ns: int,
        size_bytes: int,
        status: int = Status.OK,
    ) -> None:
        assert self._record is not None
        self._record.row(
            operation,
            number,
            self._due_ns,
            sent_ns,
            first_byte_ns,
            done_ns,
            size_bytes,
            status,
            self._attempts,
            self._endpoint_index,
        )

    def _open_failed(self, status: Status, message: str, sent_ns: int) -> None:
        done_ns = time.monotonic_ns()
        assert self._record is not None
        self._record.error(Operation.OPEN, _REASON[status], message)
        self._row(Operation.OPEN, 0, sent_ns, done_ns, done_ns, 0, status)

    def _reply_error(self, operation: Operation, reply: ReplyReader, name: str, *, was_archived: bool = False) -> None:
        code, message = reply.s3_error()
        assert self._record is not None
        # A refusal is an answer; a server in trouble, or an odd success, may have kept the object all the same.
        unclear = was_archived or not 300 <= reply.status < 500
        reason = f"{reply.status} {code}".strip()
        self._record.error(operation, reason, message, reply.request_id, name, outcome_unknown=unclear)

    def _error(
        self,
        operation: Operation,
        reason: str,
        message: str,
        request_id: str,
        number: int,
        *,
        outcome_unknown: bool = False,
    ) -> None:
        assert self._record is not None
        name = self._source.object_name(number)
        self._record.error(operation, reason, message, request_id, name, outcome_unknown=outcome_unknown)

    def _finish(self) -> None:
        if self._finished is not None and not self._finished.done():
            self._finished.set_result(None)
