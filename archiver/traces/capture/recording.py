"""Conversion of forwarded traffic into rows of a trace.

One idea: the recording parses both directions of a connection, and matches answers to requests by their order. An
operation becomes a row when its answer ends or the connection is lost. Several requests may become the one operation
that a replay repeats. A multipart upload is one archive, due with its creation and done with its completion, with the
part size as ``length``; if its parts are copied, it is one copy. A list of deletions is one request and becomes a row
for each object.

No row has a signature, a token, a version, an upload id or the values of a presigned URL. The recording uses them only
to match requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from archiver.traces.capture.calls import (
    ARCHIVE,
    COPY,
    DELETE,
    DELETE_MARKER,
    HEAD,
    LIST,
    OTHER,
    RANGE_RETRIEVE,
    RETRIEVE,
    CapturedCall,
    PartialRequest,
    deletions_of,
    error_status,
    listed_parts,
    range_of,
    read_call,
    read_lock_body,
    refused_deletions,
    upload_id_of,
    without_chunks,
)
from archiver.traces.capture.framing import Body, Framing, MessageReader, Unreadable, body_of, headers_of
from archiver.traces.format import TracedOperation
from archiver.values.record import Status

NO_BODY = Body(Framing.LENGTH)
_TO_END = Body(Framing.TO_END)
_KEPT_ANSWERS = (PartialRequest.CREATE, PartialRequest.COMPLETE, PartialRequest.DELETE_LIST)


@dataclass(slots=True)
class CapturedExchange:
    """A request that has begun, and the known part of its answer."""

    call: CapturedCall
    client: int
    session: int
    sent_ns: int
    request_bytes: int | None = None  # of its body, after its end
    request_document: bytes | None = field(default=None, repr=False)
    first_byte_ns: int | None = None
    answer_status: int = 0
    answer_headers: dict[bytes, bytes] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class _CapturedUpload:
    """A multipart upload in progress, as far as the capture observed it."""

    begun: CapturedExchange
    sizes: dict[int, int | None] = field(default_factory=dict)  # of its parts, by their number
    source: str | None = None
    attempts: int = 1
    status: int = Status.INCOMPLETE
    first_byte_ns: int | None = None
    done_ns: int | None = None
    was_completed: bool = False  # a completion was attempted


class Recording:
    """All connections of one capture. It calls ``write`` with every row."""

    def __init__(self, write: Callable[[TracedOperation], None], hosts: tuple[bytes, ...], began_at_ns: int) -> None:
        """``began_at_ns``: start of the capture since the epoch; all other times count from it."""
        self.operations = 0
        self.unreadable = 0  # connections with bytes that are not HTTP/1.1
        self.hosts = hosts
        self._write = write
        self._began_at_ns = began_at_ns
        self._clients: dict[tuple[str, bytes], int] = {}
        self._sessions: list[int] = []  # of each client so far
        self._uploads: dict[tuple[str, str], _CapturedUpload] = {}

    def client(self, address: str, credential: bytes) -> int:
        """Return the number of the client at this address with this credential."""
        known = self._clients.get((address, credential))
        if known is None:
            known = self._clients[address, credential] = len(self._clients)
            self._sessions.append(0)
        return known

    def new_session(self, client: int) -> int:
        """Return the number of this client's next session."""
        self._sessions[client] += 1
        return self._sessions[client] - 1

    def end(self) -> None:
        """Write the uploads still in progress: as their operation if a completion was attempted, else as `other`."""
        for upload in self._uploads.values():
            operation = _whole_operation(upload) if upload.was_completed else OTHER
            self._write_upload(upload, operation, upload.status, sum(size or 0 for size in upload.sizes.values()))
        self._uploads.clear()

    def answered(self, exchange: CapturedExchange, answer_bytes: int, document: bytes | None, done_ns: int) -> None:
        """Record an answer that ended normally."""
        status = exchange.answer_status
        self._finish(exchange, Status.OK if 200 <= status < 300 else status, answer_bytes, document, done_ns)

    def failed(self, exchange: CapturedExchange, status: Status, answer_bytes: int, at_ns: int) -> None:
        """Record an exchange without an answer or with a broken one."""
        self._finish(exchange, status, answer_bytes, None, at_ns)

    def _finish(
        self, exchange: CapturedExchange, status: int, answer_bytes: int, document: bytes | None, done_ns: int
    ) -> None:
        call = exchange.call
        if status == Status.OK and document and call.part in (None, PartialRequest.COMPLETE, PartialRequest.PART):
            status = error_status(document)  # a slow call may be answered with 200 before it fails
        if call.part is PartialRequest.DELETE_LIST:
            self._finish_deletions(exchange, status, document, done_ns)
        elif call.part is not None:
            self._finish_part(exchange, status, document, done_ns)
        else:
            if call.wants_body:
                read_lock_body(call, exchange.request_document or b"")
            size_bytes = _size_by_answer(exchange, answer_bytes)
            self._write_row(exchange, call.operation, status, size_bytes, done_ns)

    def _finish_deletions(self, exchange: CapturedExchange, status: int, document: bytes | None, done_ns: int) -> None:
        bucket = exchange.call.key
        deletions = deletions_of(exchange.request_document or b"")
        if not deletions:
            self._write_row(exchange, OTHER, status, exchange.request_bytes, done_ns)
            return
        refused = refused_deletions(document) if document and status == Status.OK else {}
        for each in deletions:
            operation = DELETE if each.has_version else DELETE_MARKER
            exchange.call.key = f"{bucket}/{each.key}"
            self._write_row(exchange, operation, refused.get(each, status), None, done_ns)

    def _finish_part(self, exchange: CapturedExchange, status: int, document: bytes | None, done_ns: int) -> None:
        call = exchange.call
        if call.part is PartialRequest.CREATE:
            upload_id = upload_id_of(document or b"") if status == Status.OK else ""
            if upload_id:
                self._uploads[call.key, upload_id] = _CapturedUpload(exchange)
            else:
                self._write_row(exchange, call.operation, status or Status.PROTOCOL_ERROR, None, done_ns)
            return
        # The first captured part of an upload that was created before the capture began makes the upload known.
        upload = self._uploads.setdefault((call.key, call.upload_id), _CapturedUpload(exchange))
        upload.first_byte_ns, upload.done_ns = exchange.first_byte_ns, done_ns
        upload.attempts += status != Status.OK
        if call.part is PartialRequest.PART:
            if status == Status.OK:
                upload.sizes[call.part_number] = exchange.request_bytes if call.size_bytes is None else call.size_bytes
                if call.source is not None:
                    upload.source = call.source
                    upload.sizes[call.part_number] = call.size_bytes
        elif call.part is PartialRequest.COMPLETE:
            self._finish_upload(upload, exchange, status)
        elif status == Status.OK:
            self._write_upload(upload, OTHER, status, sum(size or 0 for size in upload.sizes.values()))
            del self._uploads[call.key, call.upload_id]

    def _finish_upload(self, upload: _CapturedUpload, exchange: CapturedExchange, status: int) -> None:
        upload.status = status
        upload.was_completed = True
        if status != Status.OK:
            return  # the client may complete it again
        listed = listed_parts(exchange.request_document or b"")
        upload.sizes = {number: upload.sizes.get(number) for number in sorted(listed)}
        sizes = [size for size in upload.sizes.values() if size is not None]
        whole = sum(sizes) if listed and len(sizes) == len(listed) else None
        self._write_upload(upload, _whole_operation(upload), status, whole)
        del self._uploads[exchange.call.key, exchange.call.upload_id]

    def _write_upload(self, upload: _CapturedUpload, operation: str, status: int, size_bytes: int | None) -> None:
        begun = upload.begun
        begun.first_byte_ns = upload.first_byte_ns
        begun.call.source = upload.source
        begun.call.offset = None
        begun.call.length = next(iter(upload.sizes.values()), None) if operation != OTHER else None
        done_ns = begun.sent_ns if upload.done_ns is None else upload.done_ns
        self._write_row(begun, operation, status, size_bytes, done_ns, upload.attempts)

    def _write_row(
        self,
        exchange: CapturedExchange,
        operation: str,
        status: int,
        size_bytes: int | None,
        done_ns: int,
        attempts: int = 1,
    ) -> None:
        call = exchange.call
        retain_for_seconds = None
        if call.retain_until is not None:
            retain_for_seconds = max(0.0, call.retain_until - (exchange.sent_ns + self._began_at_ns) / 1e9)
        self.operations += 1
        self._write(
            TracedOperation(
                exchange.sent_ns,
                exchange.sent_ns,
                exchange.first_byte_ns,
                done_ns,
                operation,
                call.key,
                call.source,
                size_bytes,
                call.offset,
                call.length,
                call.retention_mode,
                retain_for_seconds,
                call.legal_hold,
                exchange.client,
                exchange.session,
                0,
                status,
                attempts,
            )
        )


class ConnectionRecording:
    """One connection; its methods take the bytes of both directions as they pass."""

    def __init__(self, recording: Recording, address: str) -> None:
        self._recording = recording
        self._address = address
        self._sessions: dict[int, int] = {}  # of each client that uses the connection
        self._under_way: deque[CapturedExchange] = deque()
        self._requests: MessageReader | None = MessageReader(self._request_head, self._request_body)
        self._answers = MessageReader(self._answer_head, self._answer_body)
        self._request: CapturedExchange | None = None  # the request whose body is passing
        self._interim = False  # the current answer is an interim one

    @property
    def is_idle(self) -> bool:
        """Return whether every request has its whole answer."""
        return not self._under_way

    def request_bytes(self, data: bytes, now_ns: int) -> None:
        """Take bytes from the client."""
        if self._requests is not None:
            try:
                self._requests.feed(data, now_ns)
            except Unreadable:
                self._give_up(now_ns)

    def answer_bytes(self, data: bytes, now_ns: int) -> None:
        """Take bytes from the upstream."""
        if self._requests is not None:
            try:
                self._answers.feed(data, now_ns)
            except Unreadable:
                self._give_up(now_ns)

    def answers_ended(self, now_ns: int) -> None:
        """Record that the upstream sends no more."""
        if self._requests is not None:
            self._answers.connection_ended(now_ns)

    def lost(self, now_ns: int, status: Status = Status.CONNECTION_LOST) -> None:
        """Record the end of the connection. Operations in progress fail, with ``status`` if no answer had begun."""
        while self._under_way:
            exchange = self._under_way.popleft()
            begun = exchange.first_byte_ns is not None
            answer_bytes = self._answers.body_bytes if begun else 0
            self._recording.failed(exchange, Status.TRUNCATED if begun else status, answer_bytes, now_ns)
        self._requests = None

    def _give_up(self, now_ns: int) -> None:
        """Stop parsing. Write a row for the bytes that are not HTTP/1.1 if no operation is in progress."""
        self._recording.unreadable += 1
        if not self._under_way:
            self._begin(CapturedCall(b"", OTHER, ""), now_ns)
        self.lost(now_ns, Status.PROTOCOL_ERROR)

    def _begin(self, call: CapturedCall, first_byte_ns: int) -> CapturedExchange:
        client = self._recording.client(self._address, call.credential)
        session = self._sessions.get(client)
        if session is None:
            session = self._sessions[client] = self._recording.new_session(client)
        exchange = CapturedExchange(call, client, session, first_byte_ns)
        self._under_way.append(exchange)
        return exchange

    # Callbacks of the message readers.

    def _request_head(self, head: bytes, first_byte_ns: int) -> Body:
        call, headers = read_call(head, self._recording.hosts)
        self._request = self._begin(call, first_byte_ns)
        return body_of(headers, NO_BODY, wanted=call.wants_body)

    def _request_body(self, size_bytes: int, document: bytes | None, _: int) -> None:
        exchange = self._request
        assert exchange is not None
        exchange.request_bytes = size_bytes
        exchange.request_document = without_chunks(document) if document and exchange.call.is_chunked else document
        self._request = None

    def _answer_head(self, head: bytes, first_byte_ns: int) -> Body:
        first, headers = headers_of(head)
        words = first.split(b" ", 2)
        if not first.startswith(b"HTTP/1.") or len(words) < 2 or len(words[1]) != 3 or not words[1].isdigit():
            raise Unreadable("it does not begin with an HTTP/1.1 answer")
        status = int(words[1])
        self._interim = status < 200
        if status == 101:
            raise Unreadable("the connection continues in another protocol")
        if self._interim or not self._under_way:  # a server may explain why it closes an idle connection
            return NO_BODY if self._interim else body_of(headers, _TO_END)
        exchange = self._under_way[0]
        exchange.first_byte_ns, exchange.answer_status, exchange.answer_headers = first_byte_ns, status, headers
        if exchange.call.method == b"HEAD" or status in (204, 304):
            return NO_BODY
        return body_of(headers, _TO_END, wanted=_wants_answer(exchange))

    def _answer_body(self, size_bytes: int, document: bytes | None, done_ns: int) -> None:
        if not self._interim and self._under_way:
            self._recording.answered(self._under_way.popleft(), size_bytes, document, done_ns)


def _wants_answer(exchange: CapturedExchange) -> bool:
    """Return whether the answer's body decides the result, because a call may fail after a 200."""
    call = exchange.call
    return exchange.answer_status == 200 and (call.part in _KEPT_ANSWERS or call.source is not None)


def _whole_operation(upload: _CapturedUpload) -> str:
    return ARCHIVE if upload.source is None else COPY


def _size_by_answer(exchange: CapturedExchange, answer_bytes: int) -> int | None:
    """Return the object's size if known, otherwise the bytes transferred.

    The answer also decides whether the call was a range, and which one. This function corrects the call accordingly.
    """
    call, status, headers = exchange.call, exchange.answer_status, exchange.answer_headers
    length_text = headers.get(b"content-length", b"")
    length = int(length_text) if length_text.isdigit() else None
    if call.operation == HEAD:
        return length if status == 200 else None
    if call.operation in (RETRIEVE, RANGE_RETRIEVE):
        if status == 206:
            sent = range_of(headers.get(b"content-range", b""))
            call.operation = RANGE_RETRIEVE
            if sent is not None:
                call.offset, call.length, size_bytes = sent
                return size_bytes
            return None
        if status != 200:
            return None
        if call.operation == RANGE_RETRIEVE:  # the platform sent the whole object
            call.operation = RETRIEVE
            call.offset = call.length = None
        return answer_bytes if length is None else length
    if call.operation == ARCHIVE:
        return exchange.request_bytes if call.size_bytes is None else call.size_bytes
    if call.operation in (LIST, OTHER):
        return (exchange.request_bytes or 0) + answer_bytes
    return None
