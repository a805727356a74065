"""An S3 session: opened, used for its objects one after another, closed.

If the server ends its connection between two requests, the session continues over another one (--on-close reconnect). A
connection that breaks while a request is outstanding is an error.

One idea: while a request is outstanding, the next one is already made and signed, so the client's work overlaps with
the platform's. On the wire there is still exactly one request at a time. The time to reconnect is part of the response
time, and a quantity of its own. A request that the server may have seen is never sent again.
"""

from __future__ import annotations

import asyncio
import errno
import math
import ssl
import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from archiver.values.record import NO_LOCAL_PORT_REASON, Delays, Operation, Recorder, Status
from archiver.values.retention import Lock
from backends.base import MOVES_WHOLE, Batch, Failure
from backends.s3.reported_lock import MODE_HEADER
from backends.s3.setting import S3WorkerSetting
from backends.s3.wire import verdicts
from backends.s3.wire.connection import Endpoint, HttpConnection, connect
from backends.s3.wire.endpoint_requests import OPENING
from backends.s3.wire.multipart import MultipartUpload, Parts, UploadStep
from backends.s3.wire.replies import BodyCheck, ReplyReader

MAKES_OF_OURS = frozenset((Operation.ARCHIVE, Operation.NEW_VERSION))  # their bodies are ours
_LOCKED_APART = frozenset((*MAKES_OF_OURS, Operation.COPY))  # locked by a separate request, if the run says so
# Looked up once: reading an enumeration's member takes 0.1 us.
_COPY, _RANGE_RETRIEVE, _AUDIT = Operation.COPY, Operation.RANGE_RETRIEVE, Operation.AUDIT
_RETRIEVE, _HEAD_OPERATION = Operation.RETRIEVE, Operation.HEAD
_SEPARATE = Lock.SEPARATE
RETRIED = frozenset((429, 500, 502, 503, 504))
RETRY_SECONDS_FIRST = 0.1
UNLIKE_IDS_MIN = 8  # answers before a platform is assumed to give each its own id
RETRY_SECONDS_MAX = 30.0
# A request that was made before a longer exchange, as in a process that was suspended, is made again: S3 takes
# signatures of the last 15 minutes, and the date of a lock follows the same second.
OUTDATED_NS = 60 * 10**9

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
# Nothing was sent.
_NOT_CONNECTED = frozenset((Status.CONNECT_FAILED, Status.NO_LOCAL_PORT, Status.CONNECT_TIMEOUT, Status.TLS_FAILED))
# Headers in which a platform repeats the checksum of an object.
_CHECKSUM_HEADER = {"crc32c": b"x-amz-checksum-crc32c", "crc64nvme": b"x-amz-checksum-crc64nvme"}


# The first request for an object; the check of its answer's body; whether the answer has no body; and the multipart
# upload, if further requests follow. A plain tuple: a named one takes 0.4 us to make.
Request: TypeAlias = tuple[Parts, BodyCheck | None, bool, MultipartUpload | None]


class PendingRequest(Enum):
    """The outstanding or next request of a session. An object is one request, an upload, or either with another:

    ========  ==================================  =======================
    request   its answer                          next request
    ========  ==================================  =======================
    OPENING   any                                 none: the session is open, or failed
    OBJECT    done, lock it by a request          LOCK
    OBJECT    audited, shows no lock              HEAD
    OBJECT    any other                           the next object: OBJECT or UPLOAD
    UPLOAD    a further request is due            UPLOAD
    UPLOAD    done, lock it by a request          LOCK
    UPLOAD    over                                the next object
    LOCK      any                                 the next object
    HEAD      any                                 the next object
    ========  ==================================  =======================

    Each except OPENING may be retried or sent over another connection, and keeps its kind.
    """

    OPENING = "opening"
    OBJECT = "object"
    UPLOAD = "upload"
    LOCK = "lock"
    HEAD = "head"


_OPENING, _OBJECT, _UPLOAD, _LOCK, _HEAD = PendingRequest


class Timing(NamedTuple):
    """Times of an object's own request while another request for the object is outstanding."""

    sent_ns: int
    first_byte_ns: int
    attempts: int
    delays: Delays | None  # delays of the requests so far


class RequestSource(Protocol):
    """The source of a session's requests (backends.s3.data_plane.S3DataPlane)."""

    setting: S3WorkerSetting
    names_versions: bool
    unlike_ids: float  # answers with another id than the previous; from UNLIKE_IDS_MIN on, ids are unique

    def endpoint(self, index: int) -> Endpoint: ...

    def object_name(self, number: int) -> str: ...

    def opening_request(self, endpoint_index: int) -> bytes: ...

    def request(self, endpoint_index: int, batch: Batch, index: int) -> Request: ...

    def lock_request(self, endpoint_index: int, batch: Batch, index: int) -> Parts: ...

    def head_request(self, endpoint_index: int, number: int) -> bytes: ...

    def lacks_version(self, batch: Batch, index: int) -> bool: ...

    def note_version(self, batch: Batch, index: int, headers: Mapping[bytes, bytes]) -> None: ...

    def lock_failure(self, number: int, headers: Mapping[bytes, bytes]) -> Failure | None: ...

    def shown_lock_failure(self, number: int, headers: Mapping[bytes, bytes], *, is_head: bool) -> Failure | None: ...

    def note_refusal(self, headers: Mapping[bytes, bytes]) -> None: ...


class S3Session:
    """One session (with --keep-sessions-open: all sessions of one client, over one connection)."""

    def __init__(self, source: RequestSource, endpoint_index: int) -> None:
        self._source = source
        self._endpoint_index = endpoint_index
        self._connection: HttpConnection | None = None
        self._record: Recorder | None = None
        # The function that sends a request over the next connection; None: nothing is left to do.
        self._finished: asyncio.Future[Callable[[], None] | None] | None = None
        self._reconnects = source.setting.on_close == "reconnect"
        self._exchange = _OBJECT
        self._opened = False
        self._is_used = False  # a batch was done over this connection
        self._batch = Batch((), (), ())
        self._index = 0
        self._due_ns = 0
        self._next: Request | None = None
        self._check: BodyCheck | None = None
        self._last_id: bytes | None = None  # of the previous answer on this connection
        self._head: bytes | memoryview = b""  # of the last request
        self._checksum_header: bytes | None = None
        self._upload: MultipartUpload | None = None  # the multipart upload in progress
        self._connected_ns = 0
        self._attempts = 1
        self._first_sent_ns = 0  # first attempt of the outstanding request, if it was retried
        self._delays: Delays | None = None  # of the next row
        self._retry: asyncio.TimerHandle | None = None
        self._own: Timing | None = None  # of the object that LOCK or HEAD is for

    @property
    def is_open(self) -> bool:
        connection = self._connection
        if not self._opened or connection is None:
            return False
        return connection.usable or (self._reconnects and connection.ended_politely)

    async def open(self, record: Recorder, due_ns: int) -> bool:
        if self._connection is not None and self._connection.usable:
            return True  # kept open
        self._is_used = False
        self._record = record
        self._due_ns = due_ns
        self._attempts = 1
        setting = self._source.setting
        sent_ns = time.monotonic_ns()
        failure = await self._connect()
        if failure is not None:
            self._open_failed(*failure, sent_ns)
            return False
        assert self._connection is not None
        self._connected_ns = time.monotonic_ns()
        if setting.session_open == "connect":
            self._opened = True
            self._row(Operation.OPEN, 0, sent_ns, self._connected_ns, self._connected_ns, 0)
            return True
        self._exchange = _OPENING
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
        self._exchange = _OBJECT
        self._checksum_header = _CHECKSUM_HEADER.get(
            batch.checksum.value if batch.checksum is not None else self._source.setting.checksum
        )
        self._due_ns = batch.due_ns if batch.due_ns is not None else time.monotonic_ns()
        self._delays = None
        loop = asyncio.get_running_loop()
        self._finished = loop.create_future()
        self._send_next()
        while (send := await self._finished) is not None:
            self._finished = loop.create_future()
            await self._connect_again(send)
        self._is_used = True

    async def _connect(self) -> tuple[Status, str] | None:
        """Connect; return why that failed, or None."""
        setting, endpoint = self._source.setting, self._source.endpoint(self._endpoint_index)
        try:
            async with asyncio.timeout(setting.connect_timeout_seconds):
                self._connection = await connect(endpoint, self, setting.read_timeout_seconds)
        except TimeoutError:
            waited = f"{endpoint.url}: no connection in {setting.connect_timeout_seconds:g} s (--connect-timeout)"
            return Status.CONNECT_TIMEOUT, waited
        except ssl.SSLError as error:
            return Status.TLS_FAILED, f"{endpoint.url}: {error}"
        except OSError as error:
            is_ours = error.errno == errno.EADDRNOTAVAIL
            return Status.NO_LOCAL_PORT if is_ours else Status.CONNECT_FAILED, f"{endpoint.url}: {error}"
        self._last_id = None
        return None

    async def _connect_again(self, send: Callable[[], None]) -> None:
        """Replace the connection that the server ended, and continue with ``send``."""
        ended = self._connection
        assert ended is not None
        ended.begin_close()
        began_ns = time.monotonic_ns()
        failure = await self._connect()
        connected_ns = time.monotonic_ns()
        if failure is None and self._connection is not None and not self._connection.usable:
            url = self._source.endpoint(self._endpoint_index).url
            failure = Status.CONNECTION_LOST, f"{url}: the server closed the new connection at once"
        if failure is not None:
            self.exchange_failed(*failure, connected_ns, 0)
            return
        self._delays = self._delays or Delays()
        self._delays.add(Delays(0, connected_ns - began_ns, 1, ended.answered))
        send()

    def _over_connection(self, send: Callable[[], None]) -> None:
        """Call ``send``, which sends a request, as soon as there is a connection."""
        connection = self._connection
        assert connection is not None
        if not (self._reconnects and connection.ended_politely):
            send()
        elif self._finished is not None and not self._finished.done():
            self._finished.set_result(send)

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
        """Close the connection, also a kept one."""
        if self._retry is not None:
            self._retry.cancel()
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    # Callbacks of the connection.

    def reply_complete(self, reply: ReplyReader, sent_ns: int, first_byte_ns: int, done_ns: int) -> None:
        anothers = self._belongs_to_another(reply)
        if anothers is not None:
            assert self._connection is not None
            self._connection.refuse(Status.ANOTHERS_ANSWER, anothers)
            return
        if reply.status == 403:
            self._source.note_refusal(reply.headers)
        exchange = self._exchange
        if exchange is not _OPENING:
            if self._is_to_be_sent_again(reply):
                self._first_sent_ns = self._first_sent_ns or sent_ns
                self._count_retry(reply)
                self._retry = asyncio.get_running_loop().call_later(self._retry_delay(reply), self._send_again)
                return
            if self._first_sent_ns:
                sent_ns = self._from_first_attempt(sent_ns)
        if exchange is _OBJECT:  # the usual case
            self._take_object(reply, sent_ns, first_byte_ns, done_ns)
        else:
            _TAKE[exchange](self, reply, sent_ns, first_byte_ns, done_ns)

    def _take_opening(self, reply: ReplyReader, sent_ns: int, first_byte_ns: int, done_ns: int) -> None:
        self._exchange = _OBJECT
        setting = self._source.setting
        failure = verdicts.failure_in(reply, verdicts.SUCCESS[OPENING[setting.session_open]])
        self._opened = failure is None
        if failure is not None:
            assert self._record is not None
            self._record.error(
                Operation.OPEN, failure.reason, failure.message, reply.request_id, setting.bucket,
                outcome_unknown=failure.outcome_unknown,
            )  # fmt: skip
        status = failure.status if failure is not None else Status.OK
        self._row(Operation.OPEN, 0, self._open_sent_ns, self._connected_ns, done_ns, 0, status)
        self._finish()

    def _take_object(self, reply: ReplyReader, sent_ns: int, first_byte_ns: int, done_ns: int) -> None:
        batch, index = self._batch, self._index
        operation = batch.operation[index]
        if operation is _AUDIT and self._shows_no_lock(batch.number[index], reply):
            self._own = Timing(sent_ns, first_byte_ns, self._attempts, None)
            self._go_on_with(_HEAD)
            return
        part = batch.range[index] if batch.range is not None and operation is _RANGE_RETRIEVE else None
        verdict = verdicts.answer(operation, reply, self._check, batch.size_bytes[index], part)
        if verdict is None:
            if operation is _RETRIEVE or operation is _HEAD_OPERATION or operation is _RANGE_RETRIEVE:
                is_head = operation is _HEAD_OPERATION
                verdict = self._source.shown_lock_failure(batch.number[index], reply.headers, is_head=is_head)
            elif operation is _AUDIT:
                verdict = self._lock_verdict(reply)
        self._object_answered(verdict, reply, sent_ns, first_byte_ns, done_ns)

    def _take_upload(self, reply: ReplyReader, sent_ns: int, first_byte_ns: int, done_ns: int) -> None:
        upload = self._upload
        assert upload is not None
        if self._goes_on(upload, reply, sent_ns):
            return
        self._exchange, self._upload = _OBJECT, None
        self._attempts = 1 + upload.again
        self._object_answered(upload.verdict, reply, upload.sent_ns, first_byte_ns, done_ns)

    def _take_lock(self, reply: ReplyReader, sent_ns: int, first_byte_ns: int, done_ns: int) -> None:
        verdict = verdicts.answer(Operation.EXTEND, reply, None, 0)
        if verdict is not None:  # the object may exist all the same
            verdict = verdict._replace(outcome_unknown=True)
        status = verdict.status if verdict is not None else Status.OK
        sent_ns, first_byte_ns = self._locked(sent_ns, first_byte_ns, done_ns, status)
        self._object_done(verdict, reply, sent_ns, first_byte_ns, done_ns)

    def _take_head(self, reply: ReplyReader, sent_ns: int, first_byte_ns: int, done_ns: int) -> None:
        verdict = verdicts.answer(_AUDIT, reply, None, 0) or self._lock_verdict(reply)
        sent_ns, first_byte_ns = self._looked_at()
        self._object_done(verdict, reply, sent_ns, first_byte_ns, done_ns)

    def _object_answered(
        self, verdict: Failure | None, reply: ReplyReader, sent_ns: int, first_byte_ns: int, done_ns: int
    ) -> None:
        """Take the result of an object's own request or upload; an object that needs a lock request is not done yet."""
        batch = self._batch
        if verdict is None:
            if self._source.names_versions:
                self._source.note_version(batch, self._index, reply.headers)
            if batch.lock is _SEPARATE and batch.operation[self._index] in _LOCKED_APART:
                if reply.keep_alive or self._reconnects:
                    self._own = Timing(sent_ns, first_byte_ns, self._attempts, self._delays)
                    self._delays = None
                    self._go_on_with(_LOCK)
                    return
                lost = "the server closed the connection before the object could be locked"
                verdict = Failure(Status.CONNECTION_LOST, "not locked", lost, outcome_unknown=True)
        self._object_done(verdict, reply, sent_ns, first_byte_ns, done_ns)

    def _object_done(
        self, verdict: Failure | None, reply: ReplyReader, sent_ns: int, first_byte_ns: int, done_ns: int
    ) -> None:
        """Write the object's row, and continue with the next object."""
        batch, index = self._batch, self._index
        operation, number = batch.operation[index], batch.number[index]
        if verdict is None:
            moved = batch.size_bytes[index] if operation in MOVES_WHOLE else 0
            if operation is _RANGE_RETRIEVE:
                assert batch.range is not None
                moved = batch.range[index][1]
            self._row(operation, number, sent_ns, first_byte_ns, done_ns, moved)
        else:
            self._failed(operation, number, verdict, reply.request_id)
            self._row(operation, number, sent_ns, first_byte_ns, done_ns, 0, verdict.status)
        if done_ns - sent_ns > OUTDATED_NS:
            self._next = None
        self._due_ns = done_ns
        self._index = index + 1
        if self._index == len(batch):
            self._finish()
        elif reply.keep_alive or self._reconnects:
            self._send_next()
        else:
            self._closed_by_server(reply.request_id, number)

    def _go_on_with(self, exchange: PendingRequest) -> None:
        """Send another request for the same object."""
        self._exchange = exchange
        self._attempts = 1
        self._over_connection(self._send_due)

    def _belongs_to_another(self, reply: ReplyReader) -> str | None:
        """Return how an answer shows that it belongs to another request, or None.

        If the session took a repeated answer for the next one, every later answer would belong to the wrong object.
        """
        headers = reply.headers
        own, last = headers.get(b"x-amz-request-id"), self._last_id
        self._last_id = own
        if own is not None and last is not None:
            if own != last:
                self._source.unlike_ids += 1
            elif self._source.unlike_ids < UNLIKE_IDS_MIN:
                self._source.unlike_ids = -math.inf  # the platform's ids are not unique
            else:
                return f"the answer repeats the previous one: it has the same id, {reply.request_id}"
        if self._checksum_header is None:
            return None
        checksum = headers.get(self._checksum_header)
        if checksum is None or checksum in self._head or reply.status != 200 or not self._sent_content():
            return None
        return f"the answer names the checksum {checksum.decode('latin-1')}, which is not the one that was sent"

    def _sent_content(self) -> bool:
        """Return whether the outstanding request has content of ours: a whole object, or a part."""
        if self._exchange is _UPLOAD:
            return self._upload is not None and self._upload.step is UploadStep.PART
        return self._exchange is _OBJECT and self._batch.operation[self._index] in MAKES_OF_OURS

    def _is_to_be_sent_again(self, reply: ReplyReader) -> bool:
        if self._attempts > self._source.setting.retries or not (reply.keep_alive or self._reconnects):
            return False
        if self._exchange is _UPLOAD:
            assert self._upload is not None
            return self._upload.status_of(reply) in RETRIED
        return verdicts.status_for(self._batch.operation[self._index], reply) in RETRIED

    def _count_retry(self, reply: ReplyReader) -> None:
        batch, index, record = self._batch, self._index, self._record
        assert record is not None
        operation = batch.operation[index]
        refused = verdicts.refusal_for(operation, reply)
        name = self._source.object_name(batch.number[index])
        record.retry(operation, refused.reason, refused.message, reply.request_id, name)

    def _lock_verdict(self, reply: ReplyReader) -> Failure | None:
        """Return what is wrong with the lock that an audit found; None if nothing is."""
        return self._source.lock_failure(self._batch.number[self._index], reply.headers)

    def _goes_on(self, upload: MultipartUpload, reply: ReplyReader, sent_ns: int) -> bool:
        """Take the answer to one request of an upload; return whether the next one was sent."""
        upload.sent_ns = upload.sent_ns or sent_ns
        upload.again += self._attempts - 1
        self._attempts = 1
        upload.take(reply)
        if upload.abort_refused is not None:
            number = self._batch.number[self._index]
            self._failed(self._batch.operation[self._index], number, upload.abort_refused, reply.request_id)
        if upload.step is UploadStep.OVER:
            return False
        if reply.keep_alive or self._reconnects:
            self._over_connection(self._send_due)
            return True
        if upload.verdict is None:
            lost = "the server closed the connection before the upload was complete"
            upload.verdict = Failure(Status.CONNECTION_LOST, "upload not complete", lost)
        return False

    def _send_step(self) -> None:
        """Send the next request of an upload."""
        connection, upload = self._connection, self._upload
        assert connection is not None
        assert upload is not None
        parts = upload.request()
        self._head = parts[0]
        connection.send(parts, keeps_waiting=upload.step is UploadStep.COMPLETE)
        if upload.step is UploadStep.COMPLETE:
            self._make_next()

    def _send_lock(self) -> None:
        """Lock the object that was just archived by a separate request."""
        connection = self._connection
        assert connection is not None
        self._check = None
        connection.send(self._source.lock_request(self._endpoint_index, self._batch, self._index))

    def _locked(self, sent_ns: int, first_byte_ns: int, done_ns: int, status: int) -> tuple[int, int]:
        """Write the row of a lock request; return when the object's own request was sent and answered.

        The object's row has the delays of both.
        """
        own, delays = self._own, self._delays
        assert own is not None
        self._row(Operation.LOCK, self._batch.number[self._index], sent_ns, first_byte_ns, done_ns, 0, status)
        self._delays = own.delays
        if delays is not None:
            self._delays = self._delays or Delays()
            self._delays.add(delays)
        return self._looked_at()

    def _looked_at(self) -> tuple[int, int]:
        """End the object's other request; return when its own was sent and answered."""
        own = self._own
        assert own is not None
        self._exchange, self._own, self._attempts = _OBJECT, None, own.attempts
        return own.sent_ns, own.first_byte_ns

    def _shows_no_lock(self, number: int, reply: ReplyReader) -> bool:
        """Return whether the object is complete but shows no lock: some platforms show it only in HEAD."""
        if MODE_HEADER in reply.headers or reply.status != 200 or not (reply.keep_alive or self._reconnects):
            return False
        if self._check is not None and not self._check.finish():
            return False
        problem = self._source.lock_failure(number, reply.headers)
        return problem is not None and problem.status == Status.UNLOCKED

    def _send_head(self) -> None:
        """Request the lock of the object that was just read."""
        connection = self._connection
        assert connection is not None
        self._check = None
        number = self._batch.number[self._index]
        connection.send((self._source.head_request(self._endpoint_index, number),), is_head=True)

    def request_not_taken(self, message: str, sent_ns: int) -> None:
        if self._reconnects:
            self._over_connection(self._send_due)
        else:
            self.exchange_failed(Status.CONNECTION_LOST, message, sent_ns, 0)

    def exchange_failed(self, status: Status, message: str, sent_ns: int, first_byte_ns: int) -> None:
        done_ns = time.monotonic_ns()
        # Without a connection no byte of the request was sent, but an earlier attempt may have been done.
        unknown = status not in _NOT_CONNECTED or self._exchange is _LOCK or bool(self._first_sent_ns)
        if self._first_sent_ns:
            sent_ns = self._from_first_attempt(sent_ns)
        if self._exchange is _OPENING:
            url = self._source.endpoint(self._endpoint_index).url
            self._open_failed(status, f"{url}: {message}", self._open_sent_ns)
        else:
            self._object_failed(Failure(status, _REASON[status], message, unknown), sent_ns, first_byte_ns, done_ns)
        self._exchange = _OBJECT
        self._finish()

    def _object_failed(self, verdict: Failure, sent_ns: int, first_byte_ns: int, done_ns: int) -> None:
        """Write a row for the object whose request failed with the connection; later objects were not tried."""
        operation, number = self._batch.operation[self._index], self._batch.number[self._index]
        first_byte_ns = first_byte_ns or done_ns
        if self._exchange is _UPLOAD:
            assert self._upload is not None
            verdict = self._upload.lost(verdict)
            sent_ns = self._upload.sent_ns or sent_ns
            self._attempts += self._upload.again
        elif self._exchange is _LOCK:
            sent_ns, first_byte_ns = self._locked(sent_ns, first_byte_ns, done_ns, verdict.status)
        elif self._exchange is _HEAD:
            sent_ns, first_byte_ns = self._looked_at()
        self._failed(operation, number, verdict)
        self._row(operation, number, sent_ns, first_byte_ns, done_ns, 0, verdict.status)
        self._index += 1

    def _closed_by_server(self, request_id: str, number: int) -> None:
        """End the session; the rest of its batch was not tried."""
        total = len(self._batch)
        message = f"the server ended the connection before {total - self._index} of {total} objects were processed"
        self._failed(Operation.SESSION, number, Failure(Status.INCOMPLETE, "closed by server", message), request_id)
        self._finish()

    def _never_sent(self) -> None:
        """Write a row for an object whose connection was gone before its request."""
        operation, number, now_ns = self._batch.operation[0], self._batch.number[0], time.monotonic_ns()
        words = "the server closed the connection before the request could be sent"
        self._failed(operation, number, Failure(Status.CONNECTION_LOST, _REASON[Status.CONNECTION_LOST], words))
        self._row(operation, number, now_ns, now_ns, now_ns, 0, Status.CONNECTION_LOST)
        self._finish()

    def _send_next(self) -> None:
        if self._next is None and self._source.names_versions and not self._passes_over_unknown_versions():
            self._finish()
            return
        connection = self._connection
        if connection is None or not connection.usable:
            if connection is not None and self._reconnects and connection.ended_politely:
                self._over_connection(self._send_next)
            elif self._is_used and self._index == 0:  # it ended between two batches, and this batch needs a row
                self._never_sent()
            else:
                self._closed_by_server("", self._batch.number[self._index])
            return
        made = self._next or self._source.request(self._endpoint_index, self._batch, self._index)
        parts, check, is_head, upload = made
        self._next = None
        self._attempts = 1
        self._check, self._upload, self._head = check, upload, parts[0]
        copies = self._batch.operation[self._index] is _COPY
        connection.send(parts, is_head=is_head, check=check, keeps_waiting=copies)
        # An upload takes long: a request made now would have the signature and the lock date of an earlier time.
        if upload is None:
            self._make_next()
        else:
            self._exchange = _UPLOAD

    def _make_next(self) -> None:
        batch, following, source = self._batch, self._index + 1, self._source
        if following == len(batch):
            return
        # The version to use may follow from the answer that is still outstanding.
        if source.names_versions and (
            batch.number[following] == batch.number[self._index] or source.lacks_version(batch, following)
        ):
            return
        self._next = source.request(self._endpoint_index, batch, following)

    def _passes_over_unknown_versions(self) -> bool:
        """Write a row for each object that cannot be deleted, up to one that can; return False if none is left."""
        batch = self._batch
        while self._index < len(batch) and self._source.lacks_version(batch, self._index):
            operation, number, now_ns = batch.operation[self._index], batch.number[self._index], time.monotonic_ns()
            words = "no answer named the version that is to be deleted, and without it the object would only be hidden"
            self._failed(operation, number, Failure(Status.INCOMPLETE, "version not known", words))
            self._row(operation, number, now_ns, now_ns, now_ns, 0, Status.INCOMPLETE)
            self._due_ns = now_ns
            self._index += 1
        return self._index < len(batch)

    def _send_again(self) -> None:
        connection = self._connection
        if connection is None or not (connection.usable or (self._reconnects and connection.ended_politely)):
            lost = "the server closed the connection before the request could be sent again"
            self.exchange_failed(Status.CONNECTION_LOST, lost, time.monotonic_ns(), 0)
            return
        self._over_connection(self._send_attempt)

    def _send_attempt(self) -> None:
        self._attempts += 1
        self._send_due()

    def _send_due(self) -> None:
        """Send the next request: a further one, a retry, or one over another connection."""
        _SEND[self._exchange](self)

    def _send_object(self) -> None:
        connection = self._connection
        assert connection is not None
        parts, self._check, is_head, _ = self._source.request(self._endpoint_index, self._batch, self._index)
        self._head = parts[0]
        copies = self._batch.operation[self._index] is _COPY
        connection.send(parts, is_head=is_head, check=self._check, keeps_waiting=copies)

    def _from_first_attempt(self, sent_ns: int) -> int:
        """Return when the request sent at ``sent_ns`` was first sent: an object's service time starts there."""
        delays = self._delays = self._delays or Delays()
        delays.retry_ns += sent_ns - self._first_sent_ns
        sent_ns, self._first_sent_ns = self._first_sent_ns, 0
        return sent_ns

    def _retry_delay(self, reply: ReplyReader) -> float:
        """Return the delay in seconds that the server requested, or twice the previous one."""
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
        if self._delays is not None:
            self._record.delays[self._record.used - 1] = self._delays
            self._delays = None

    def _open_failed(self, status: Status, message: str, sent_ns: int) -> None:
        done_ns = time.monotonic_ns()
        assert self._record is not None
        self._record.error(Operation.OPEN, _REASON[status], message)
        self._row(Operation.OPEN, 0, sent_ns, done_ns, done_ns, 0, status)

    def _failed(self, operation: Operation, number: int, verdict: Failure, request_id: str = "") -> None:
        """Count a failure under its reason."""
        assert self._record is not None
        name = self._source.object_name(number)
        self._record.error(
            operation, verdict.reason, verdict.message, request_id, name,
            outcome_unknown=verdict.outcome_unknown, lock=verdict.lock,
        )  # fmt: skip

    def _finish(self) -> None:
        if self._finished is not None and not self._finished.done():
            self._finished.set_result(None)


# The functions that send and finish each request after an object's first.
_SEND: dict[PendingRequest, Callable[[S3Session], None]] = {
    _OBJECT: S3Session._send_object,
    _UPLOAD: S3Session._send_step,
    _LOCK: S3Session._send_lock,
    _HEAD: S3Session._send_head,
}
_TAKE: dict[PendingRequest, Callable[[S3Session, ReplyReader, int, int, int], None]] = {
    _OPENING: S3Session._take_opening,
    _OBJECT: S3Session._take_object,
    _UPLOAD: S3Session._take_upload,
    _LOCK: S3Session._take_lock,
    _HEAD: S3Session._take_head,
}
