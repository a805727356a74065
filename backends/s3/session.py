"""An S3 session: one connection, opened, used for its objects one after another, closed.

One idea: while a request is outstanding the next one is already made and signed, so the client's own work hides
behind the platform's; on the wire there is still exactly one request at a time.
"""

from __future__ import annotations

import asyncio
import errno
import math
import ssl
import time
from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeAlias

from archiver.record import NO_LOCAL_PORT_REASON, Operation, Recorder, Status
from archiver.retention import Lock
from backends.base import Batch
from backends.s3 import verdicts
from backends.s3.connection import Connection, Endpoint, connect
from backends.s3.multipart import MultipartUpload, Parts, Step
from backends.s3.replies import BodyCheck, ReplyReader
from backends.s3.reported_lock import MODE_HEADER, LockProblem
from backends.s3.setting import WorkerSetting
from backends.s3.verdicts import Verdict

# A row's bytes are those that passed between client and platform: none of a copy, which the platform makes itself.
MOVES_WHOLE = frozenset((Operation.ARCHIVE, Operation.RETRIEVE, Operation.AUDIT, Operation.NEW_VERSION))
MAKES_OF_OURS = frozenset((Operation.ARCHIVE, Operation.NEW_VERSION))  # with a body that we send
# Looked up once: to read a member of an enumeration takes 0.1 us.
_ARCHIVE, _NEW_VERSION, _COPY = Operation.ARCHIVE, Operation.NEW_VERSION, Operation.COPY
_RANGE_RETRIEVE, _AUDIT, _SEPARATE = Operation.RANGE_RETRIEVE, Operation.AUDIT, Lock.SEPARATE
RETRIED = frozenset((429, 500, 502, 503, 504))
RETRY_SECONDS_FIRST = 0.1
UNLIKE_IDS_MIN = 8  # before a platform is believed to give every answer an id of its own
RETRY_SECONDS_MAX = 30.0

_REASON = {
    Status.CONNECT_FAILED: "connect failed",
    Status.NO_LOCAL_PORT: NO_LOCAL_PORT_REASON,
    Status.CONNECT_TIMEOUT: "connect timeout",
    Status.TLS_FAILED: "TLS failed",
    Status.READ_TIMEOUT: "read timeout",
    Status.CONNECTION_LOST: "connection lost",
    Status.TRUNCATED: "truncated",
    Status.PROTOCOL_ERROR: "protocol error",
    Status.TOO_SLOW: "too slow",
    Status.ANOTHERS_ANSWER: "another's answer",
}
# What a platform repeats of the checksum that came with an object.
_CHECKSUM_HEADER = {"crc32c": b"x-amz-checksum-crc32c", "crc64nvme": b"x-amz-checksum-crc64nvme"}


# What is sent first for an object; what looks at the body of its answer; whether that has none; and the upload where
# further requests follow until its last part is there. A plain tuple: a named one takes 0.4 us to make.
Request: TypeAlias = tuple[Parts, BodyCheck | None, bool, MultipartUpload | None]


class Timing(NamedTuple):
    """Of a row, while a further request is outstanding that belongs to it."""

    sent_ns: int
    first_byte_ns: int
    attempts: int


class RequestSource(Protocol):
    """Where a session gets its requests (backends.s3.data_plane.S3DataPlane)."""

    setting: WorkerSetting
    names_versions: bool
    unlike_ids: float  # answers whose id was not that of the one before; from UNLIKE_IDS_MIN on each has its own

    def endpoint(self, index: int) -> Endpoint: ...

    def object_name(self, number: int) -> str: ...

    def opening_request(self, endpoint_index: int) -> bytes: ...

    def request(self, endpoint_index: int, batch: Batch, index: int) -> Request: ...

    def lock_request(self, endpoint_index: int, batch: Batch, index: int) -> Parts: ...

    def head_request(self, endpoint_index: int, number: int) -> bytes: ...

    def lacks_version(self, batch: Batch, index: int) -> bool: ...

    def note_version(self, batch: Batch, index: int, headers: Mapping[bytes, bytes]) -> None: ...

    def lock_problem(self, number: int, headers: Mapping[bytes, bytes]) -> LockProblem | None: ...

    def note_refusal(self, headers: Mapping[bytes, bytes]) -> None: ...


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
        self._is_used = False  # a batch was performed over this connection
        self._batch = Batch((), (), ())
        self._index = 0
        self._due_ns = 0
        self._next: Request | None = None
        self._check: BodyCheck | None = None
        self._last_id: bytes | None = None  # of the answer before, over this connection
        self._head: bytes | memoryview = b""  # of the request that was sent last
        self._checksum_header: bytes | None = None
        self._upload: MultipartUpload | None = None  # of the object that is on its way in parts
        self._connected_ns = 0
        self._attempts = 1
        self._retry: asyncio.TimerHandle | None = None
        self._archived: Timing | None = None  # of an object that is being locked by a request of its own
        self._audited: Timing | None = None  # of one that was read, while its lock is asked for

    @property
    def is_open(self) -> bool:
        return self._opened and self._connection is not None and self._connection.usable

    async def open(self, record: Recorder, due_ns: int) -> bool:
        if self._connection is not None and self._connection.usable:
            return True  # kept open
        self._is_used = False
        self._record = record
        self._due_ns = due_ns
        self._attempts = 1
        self._last_id = None
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
            is_ours = error.errno == errno.EADDRNOTAVAIL
            status = Status.NO_LOCAL_PORT if is_ours else Status.CONNECT_FAILED
            self._open_failed(status, f"{endpoint.url}: {error}", sent_ns)
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
        self._next = self._upload = None
        self._checksum_header = _CHECKSUM_HEADER.get(
            batch.checksum.value if batch.checksum is not None else self._source.setting.checksum
        )
        self._due_ns = batch.due_ns if batch.due_ns is not None else time.monotonic_ns()
        self._finished = asyncio.get_running_loop().create_future()
        self._send_next()
        await self._finished
        self._is_used = True

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
        anothers = self._belongs_to_another(reply)
        if anothers is not None:
            assert self._connection is not None
            self._connection.refuse(Status.ANOTHERS_ANSWER, anothers)
            return
        if reply.status == 403:
            self._source.note_refusal(reply.headers)
        if self._opening:
            self._opening = False
            self._opened = reply.status < 300
            status = Status.OK if self._opened else reply.status
            if not self._opened:
                assert self._record is not None
                refused, bucket = verdicts.refusal(reply), self._source.setting.bucket
                self._record.error(
                    Operation.OPEN, refused.reason, refused.message, reply.request_id, bucket,
                    outcome_unknown=refused.outcome_unknown,
                )  # fmt: skip
            self._row(Operation.OPEN, 0, self._open_sent_ns, self._connected_ns, done_ns, 0, status)
            self._finish()
            return
        if self._is_to_be_sent_again(reply):
            self._retry = asyncio.get_running_loop().call_later(self._retry_delay(reply), self._send_again)
            return
        batch, index = self._batch, self._index
        operation, number, size_bytes = batch.operation[index], batch.number[index], batch.size_bytes[index]
        upload = self._upload
        if upload is not None and self._archived is None:
            if self._goes_on(upload, reply, sent_ns):
                return
            verdict = upload.verdict
            sent_ns, self._attempts = upload.sent_ns, 1 + upload.again
        elif operation is _AUDIT and self._audited is None and self._shows_no_lock(number, reply):
            self._audited = Timing(sent_ns, first_byte_ns, self._attempts)
            self._attempts = 1
            self._send_head()
            return
        else:
            verdict = self._judge(operation, number, reply)
        if self._audited is not None:
            (sent_ns, first_byte_ns, self._attempts), self._audited = self._audited, None
        if self._source.names_versions and verdict is None and self._archived is None:
            self._source.note_version(batch, index, reply.headers)
        if operation is _ARCHIVE or operation is _NEW_VERSION or operation is _COPY:
            if batch.lock is _SEPARATE and self._archived is None and verdict is None:
                if reply.keep_alive:
                    self._archived = Timing(sent_ns, first_byte_ns, self._attempts)
                    self._attempts = 1
                    self._send_lock()
                    return
                lost = "the server closed the connection before the object could be locked"
                verdict = Verdict(Status.CONNECTION_LOST, "not locked", lost, outcome_unknown=True)
            elif self._archived is not None:
                status = verdict.status if verdict is not None else Status.OK
                self._row(Operation.LOCK, number, sent_ns, first_byte_ns, done_ns, 0, status)
                (sent_ns, first_byte_ns, self._attempts), self._archived = self._archived, None
        if verdict is None:
            moved = size_bytes if operation in MOVES_WHOLE else 0
            if operation is _RANGE_RETRIEVE:
                assert batch.range is not None
                moved = batch.range[index][1]
            self._row(operation, number, sent_ns, first_byte_ns, done_ns, moved)
        else:
            self._failed(operation, number, verdict, reply.request_id)
            self._row(operation, number, sent_ns, first_byte_ns, done_ns, 0, verdict.status)
        self._due_ns = done_ns
        self._index = index + 1
        if self._index == len(batch):
            self._finish()
        elif not reply.keep_alive:
            self._closed_by_server(reply.request_id, number)
        else:
            self._send_next()

    def _belongs_to_another(self, reply: ReplyReader) -> str | None:
        """What shows that it answers another request: one that came twice would be taken for the next one's, and from
        then on every answer for the wrong object's."""
        headers = reply.headers
        own, last = headers.get(b"x-amz-request-id"), self._last_id
        self._last_id = own
        if own is not None and last is not None:
            if own != last:
                self._source.unlike_ids += 1
            elif self._source.unlike_ids < UNLIKE_IDS_MIN:
                self._source.unlike_ids = -math.inf  # a platform whose ids say nothing
            else:
                return f"the answer is the one before it once more: it has the same id, {reply.request_id}"
        if self._opening or self._upload is not None or self._archived is not None or self._checksum_header is None:
            return None
        checksum = headers.get(self._checksum_header)
        if checksum is None or checksum in self._head or reply.status != 200:
            return None
        if self._batch.operation[self._index] not in MAKES_OF_OURS:
            return None
        return f"the answer names the checksum {checksum.decode('latin-1')}, which is not the one that was sent"

    def _is_to_be_sent_again(self, reply: ReplyReader) -> bool:
        if self._attempts > self._source.setting.retries or not reply.keep_alive:
            return False
        if self._upload is not None and self._archived is None:
            return self._upload.status_of(reply) in RETRIED
        copies = self._batch.operation[self._index] is _COPY
        return verdicts.status_of(reply, decided_by_body=copies) in RETRIED

    def _judge(self, operation: Operation, number: int, reply: ReplyReader) -> Verdict | None:
        """Why an object's row is a failure; None: it is none."""
        if self._archived is not None:  # and is being locked; without its lock it may be there all the same
            failed = verdicts.answer(Operation.EXTEND, reply, None, 0)
            return failed._replace(outcome_unknown=True) if failed is not None else None
        failed = verdicts.answer(operation, reply, self._check, self._batch.size_bytes[self._index])
        if failed is None and operation is _AUDIT:
            problem = self._source.lock_problem(number, reply.headers)
            if problem is not None:
                return Verdict(problem.status, problem.status.name.lower(), problem.words)
        return failed

    def _goes_on(self, upload: MultipartUpload, reply: ReplyReader, sent_ns: int) -> bool:
        """Take the answer to one request of an upload; True where the next one was sent."""
        upload.sent_ns = upload.sent_ns or sent_ns
        upload.again += self._attempts - 1
        self._attempts = 1
        upload.take(reply)
        if upload.abort_refused is not None:
            number = self._batch.number[self._index]
            self._failed(self._batch.operation[self._index], number, upload.abort_refused, reply.request_id)
        if upload.step is Step.OVER:
            return False
        if reply.keep_alive:
            self._send_step(upload)
            return True
        if upload.verdict is None:
            lost = "the server closed the connection before the upload was complete"
            upload.verdict = Verdict(Status.CONNECTION_LOST, "upload not complete", lost)
        return False

    def _send_step(self, upload: MultipartUpload) -> None:
        """Send the request of an upload that is due."""
        connection = self._connection
        assert connection is not None
        connection.send(upload.request(), keeps_waiting=upload.step is Step.COMPLETE)
        if upload.step is Step.COMPLETE:
            self._make_next()

    def _send_lock(self) -> None:
        """Lock the object that was just archived, by a request of its own."""
        connection = self._connection
        assert connection is not None
        self._check = None
        connection.send(self._source.lock_request(self._endpoint_index, self._batch, self._index))

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
            verdict = Verdict(status, _REASON[status], message, outcome_unknown=True)
            if self._upload is not None and self._archived is None:
                verdict = self._upload.lost(verdict)
            self._failed(operation, number, verdict)
            if self._archived is not None:
                self._row(Operation.LOCK, number, sent_ns, first_byte_ns or done_ns, done_ns, 0, status)
                (sent_ns, first_byte_ns, self._attempts), self._archived = self._archived, None
            elif self._upload is not None:
                sent_ns = self._upload.sent_ns or sent_ns
                self._attempts += self._upload.again
            if self._audited is not None:
                (sent_ns, first_byte_ns, self._attempts), self._audited = self._audited, None
            self._row(operation, number, sent_ns, first_byte_ns or done_ns, done_ns, 0, verdict.status)
            self._index += 1
        self._finish()

    def _closed_by_server(self, request_id: str, number: int) -> None:
        """The session ends here; what is left of its batch is neither good nor tried."""
        total = len(self._batch)
        message = f"the server ended the connection with {total - self._index} of {total} objects still to come"
        self._failed(Operation.SESSION, number, Verdict(Status.INCOMPLETE, "closed by server", message), request_id)
        self._finish()

    def _never_sent(self) -> None:
        """A row for an object that found its connection gone."""
        operation, number, now_ns = self._batch.operation[0], self._batch.number[0], time.monotonic_ns()
        words = "the server closed the connection before the request could be sent"
        self._failed(operation, number, Verdict(Status.CONNECTION_LOST, _REASON[Status.CONNECTION_LOST], words))
        self._row(operation, number, now_ns, now_ns, now_ns, 0, Status.CONNECTION_LOST)
        self._finish()

    def _send_next(self) -> None:
        self._attempts = 1
        if self._next is None and self._source.names_versions and not self._passes_over_unknown_versions():
            self._finish()
            return
        made = self._next or self._source.request(self._endpoint_index, self._batch, self._index)
        parts, check, is_head, upload = made
        self._next = None
        connection = self._connection
        if connection is None or not connection.usable:
            if self._is_used and self._index == 0:  # it went between two batches; somebody waits for this one's row
                self._never_sent()
            else:
                self._closed_by_server("", self._batch.number[self._index])
            return
        self._check, self._upload, self._head = check, upload, parts[0]
        copies = self._batch.operation[self._index] is _COPY
        connection.send(parts, is_head=is_head, check=check, keeps_waiting=copies)
        # An upload takes long: by its end a request made now would be signed, and its lock dated, for another time.
        if upload is None:
            self._make_next()

    def _make_next(self) -> None:
        batch, following, source = self._batch, self._index + 1, self._source
        if following == len(batch):
            return
        # Which version is meant may follow from the answer that is still to come.
        if source.names_versions and (
            batch.number[following] == batch.number[self._index] or source.lacks_version(batch, following)
        ):
            return
        self._next = source.request(self._endpoint_index, batch, following)

    def _passes_over_unknown_versions(self) -> bool:
        """A row for each object that cannot be deleted, up to the next that something can be asked for; False where
        there is none left."""
        batch = self._batch
        while self._index < len(batch) and self._source.lacks_version(batch, self._index):
            operation, number, now_ns = batch.operation[self._index], batch.number[self._index], time.monotonic_ns()
            words = "no answer named the version that is to be deleted, and without it the object would only be hidden"
            self._failed(operation, number, Verdict(Status.INCOMPLETE, "version not known", words))
            self._row(operation, number, now_ns, now_ns, now_ns, 0, Status.INCOMPLETE)
            self._due_ns = now_ns
            self._index += 1
        return self._index < len(batch)

    def _send_again(self) -> None:
        connection = self._connection
        if connection is None or not connection.usable:
            lost = "the server closed the connection before the request could be sent again"
            self.exchange_failed(Status.CONNECTION_LOST, lost, self._due_ns, 0)
            return
        self._attempts += 1
        if self._archived is not None:
            self._send_lock()
        elif self._audited is not None:
            self._send_head()
        elif self._upload is not None:
            connection.send(self._upload.request())
        else:
            parts, self._check, is_head, _ = self._source.request(self._endpoint_index, self._batch, self._index)
            self._head = parts[0]
            connection.send(parts, is_head=is_head, check=self._check)

    def _retry_delay(self, reply: ReplyReader) -> float:
        """Seconds that the server asked for, or twice as long each time."""
        asked = reply.headers.get(b"retry-after", b"").strip()
        if asked.isdigit():
            return min(float(asked), RETRY_SECONDS_MAX)
        return min(RETRY_SECONDS_FIRST * float(2 ** (self._attempts - 1)), RETRY_SECONDS_MAX)

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

    def _failed(self, operation: Operation, number: int, verdict: Verdict, request_id: str = "") -> None:
        """Count a failure under its reason."""
        assert self._record is not None
        name = self._source.object_name(number)
        self._record.error(
            operation, verdict.reason, verdict.message, request_id, name, outcome_unknown=verdict.outcome_unknown
        )

    def _finish(self) -> None:
        if self._finished is not None and not self._finished.done():
            self._finished.set_result(None)
