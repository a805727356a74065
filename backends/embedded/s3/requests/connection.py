"""Connections of the S3 server: number, time limits, long bodies, and the answers to input that is not HTTP.

One idea: a client is unknown until its signature is verified, so every connection has limits from its first byte. The
parser limits the size of a request's head. This module limits time: a head must arrive completely, and a body or an
answer must progress, each at a pace that any honest client keeps.

aiohttp's parser copies each byte of a body. So a connection stops reading after the head of a long body, and the
handler chooses: `S3Connection.receive` lets the network write the rest into memory of the store, `parsed_body`
continues with the parser.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from email.utils import formatdate
from typing import Any, cast

from aiohttp import StreamReader, web
from aiohttp.http import HttpRequestParser
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler

from .. import xml

IDLE_SECONDS_MAX = 900.0  # between requests; the TSM server has the same limit between calls
SLOW_SECONDS_MAX = 60.0  # for a whole head, and for PACE_BYTES_MIN of a body or an answer
PACE_BYTES_MIN = 64 << 10
HEADERS_MAX = 128
LINE_BYTES_MAX = 8190  # of a request line, and of each header

_LOOK_EVERY_SECONDS = 5.0
_LINGERING_SECONDS = 5.0  # for the rest of the body of a refused request
_READ_BYTES = 1 << 20
# A body of so many bytes bypasses the parser, and threads hash it: the event loop would be busy with it for over half a
# millisecond.
LONG_BYTES_MIN = 256 << 10
_DISCARDED_AT_ONCE_BYTES = 64 << 10
_UNCLEAR = "the input is not an HTTP/1.1 request, or is ambiguous"


class S3Connections(web.Server):
    """Creates the protocol of each connection: `loop.create_server(connections, ...)`."""

    def __init__(
        self,
        handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        *,
        connections_max: int,
        idle_seconds_max: float = IDLE_SECONDS_MAX,
        slow_seconds_max: float = SLOW_SECONDS_MAX,
    ) -> None:
        super().__init__(
            lambda request: handle(request) if _is_clear(request) else _refuse(),
            access_log=None,
            auto_decompress=False,  # bodies are stored as sent: Content-Encoding is an attribute of the object
            read_bufsize=_READ_BYTES,
            lingering_time=_LINGERING_SECONDS,
            keepalive_timeout=idle_seconds_max,
            max_headers=HEADERS_MAX,
            max_line_size=LINE_BYTES_MAX,
            max_field_size=LINE_BYTES_MAX,
        )
        self.connections_max = connections_max
        self.slow_seconds_max = slow_seconds_max

    def __call__(self) -> S3Connection:
        return S3Connection(self, loop=self._loop, **self._kwargs)

    def _make_request(self, message: Any, *others: Any) -> web.BaseRequest:
        """Accept a target in absolute form if its host is that of the Host header (RFC 9112, 3.2.2)."""
        if not message.path.startswith("/") and message.url.absolute:
            host = message.headers.get("Host", "")
            _, _, rest = message.path.partition("://")
            if host and rest.partition("?")[0].partition("/")[0].lower() == host.lower():
                path = rest[len(host) :]
                message = message._replace(path=path if path.startswith("/") else f"/{path}")
        return super()._make_request(message, *others)

    async def watch(self) -> None:
        """Drop connections that are too slow. Runs until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_SECONDS)
            self.drop_slow()

    def drop_slow(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in self.connections:
            cast(S3Connection, connection).drop_if_slow(now)


class S3Connection(RequestHandler):
    """aiohttp's protocol of a connection, with the time limits that aiohttp lacks."""

    __slots__ = (
        "_arrived_bytes", "_body", "_body_mark", "_connection", "_has_drained", "_head_since", "_limits",
        "_sent_mark",
    )  # fmt: skip

    def __init__(self, limits: S3Connections, **options: Any) -> None:
        super().__init__(limits, **options)
        self._limits = limits
        self._connection: asyncio.Transport
        self._arrived_bytes = 0
        self._body: LongBody | None = None  # the rest of it bypasses the parser
        self._head_since: float | None = None  # when an incomplete head began
        self._body_mark: tuple[float, int] | None = None  # a time, and the bytes received until then
        self._sent_mark: tuple[float, int] | None = None  # a time, and the bytes still unsent then
        self._has_drained = False  # since the last mark

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connection = cast(asyncio.Transport, transport)
        if len(self._limits.connections) > self._limits.connections_max:
            self._connection.write(_refusal(503, "SlowDown", "too many connections; close some, and try again"))
            self.force_close()

    def data_received(self, data: bytes) -> None:
        self._arrived_bytes += len(data)
        super().data_received(data)
        if self._messages and _awaits_long_body(*self._messages[-1]):
            self.hold_reading()
        if self._waiter is None or self._waiter.done():
            self._head_since = None
        elif self._head_since is None:
            self._head_since = self._loop.time()

    def connection_lost(self, error: BaseException | None) -> None:
        self._body = None
        super().connection_lost(error)

    async def receive(self, content: StreamReader, view: memoryview, left_bytes: int) -> None:
        """Fill the view with the next bytes of the body; none of the last `left_bytes` may be in the parser.

        Raises ConnectionError if the connection ends before.
        """
        if self.transport is None:
            raise ConnectionResetError("the connection ended before the body did")
        if self._body is None:
            self._body = LongBody(self, content, left_bytes)
            self.hold_reading()
            self._connection.set_protocol(self._body)
        await self._body.fill(view)

    def count(self, arrived_bytes: int) -> None:
        """Count bytes that arrived past the parser."""
        self._arrived_bytes += arrived_bytes

    @property
    def is_held(self) -> bool:
        return self._reading_paused

    def resume_reading(self, *options: Any, **named: Any) -> None:
        """Resume after a pause. aiohttp also calls it when nothing is paused: for every piece of a body."""
        if self._reading_paused:
            super().resume_reading(*options, **named)

    def hold_reading(self) -> None:
        """Read nothing from the network. Unlike `pause_reading` it leaves the parser as it is."""
        self._reading_paused = True
        self._connection.pause_reading()

    def release_reading(self) -> None:
        self._reading_paused = False
        self._connection.resume_reading()

    def end_body(self, content: StreamReader) -> None:
        """Continue with the next request. The parser still waits for the body: another takes its place."""
        self.hold_reading()
        self._body = None
        self._parser = HttpRequestParser(
            self, self._loop, _READ_BYTES, max_line_size=LINE_BYTES_MAX, max_field_size=LINE_BYTES_MAX,
            max_headers=HEADERS_MAX, payload_exception=web.RequestPayloadError, auto_decompress=False,
        )  # fmt: skip
        self._connection.set_protocol(self)
        content.feed_eof()
        self.release_reading()

    def finish_response(self, *answered: Any) -> Coroutine[Any, Any, tuple[web.StreamResponse, bool]]:
        """Answer. A body that was refused before its end continues to arrive: its client reads the answer after it."""
        if self._body is not None:
            self._body.discard()
        elif self._reading_paused:
            self.resume_reading()
        return super().finish_response(*answered)

    def resume_writing(self) -> None:
        self._has_drained = True
        super().resume_writing()

    def drop_if_slow(self, now: float) -> None:
        """Abort the connection if it is too slow; called periodically."""
        if self._is_slow_head(now) or self._is_slow_body(now) or self._is_slow_reader(now):
            self._connection.abort()

    def _is_slow_head(self, now: float) -> bool:
        return self._head_since is not None and now - self._head_since >= self._limits.slow_seconds_max

    def _is_slow_body(self, now: float) -> bool:
        request = self._current_request
        if (
            request is None or request.content.is_eof() or self._reading_paused
        ):  # paused: the store is slow, not the client
            self._body_mark = None
            return False
        if self._body_mark is None:
            self._body_mark = now, self._arrived_bytes
        since, arrived_bytes = self._body_mark
        if now - since < self._limits.slow_seconds_max:
            return False
        self._body_mark = now, self._arrived_bytes
        return self._arrived_bytes - arrived_bytes < PACE_BYTES_MIN

    def _is_slow_reader(self, now: float) -> bool:
        left_bytes = self._connection.get_write_buffer_size()
        if not left_bytes:
            self._sent_mark = None
            return False
        if self._sent_mark is None or self._has_drained:
            self._sent_mark, self._has_drained = (now, left_bytes), False
        since, marked_bytes = self._sent_mark
        if now - since < self._limits.slow_seconds_max:
            return False
        self._sent_mark = now, left_bytes
        return marked_bytes - left_bytes < PACE_BYTES_MIN  # the server adds nothing while the buffer is full

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer input that is not a request and close the connection. Neither answer nor log repeats the input."""
        if status == 500:
            return super().handle_error(request, status, exc, message)
        if isinstance(exc, LineTooLong):
            why = f"the first line and each header may have at most {LINE_BYTES_MAX} bytes, of headers {HEADERS_MAX}"
            return _last_answer("RequestHeaderSectionTooLarge", why)
        return _last_answer("BadRequest", _UNCLEAR)


class LongBody(asyncio.BufferedProtocol):
    """Receives the rest of a body in place of its connection's own protocol."""

    def __init__(self, connection: S3Connection, content: StreamReader, left_bytes: int) -> None:
        self._connection = connection
        self._content = content
        self._left_bytes = left_bytes
        self._room = memoryview(b"")  # the next bytes arrive here
        self._filled: asyncio.Future[None] | None = None

    async def fill(self, view: memoryview) -> None:
        """Return when the view is full. Raises ConnectionError if the connection ends before."""
        self._room = view
        self._filled = asyncio.get_running_loop().create_future()
        self._connection.release_reading()
        await self._filled

    def discard(self) -> None:
        """Receive the bytes that are left, and drop them."""
        self._filled = None
        self._make_room()
        self._connection.release_reading()

    def _make_room(self) -> None:
        self._room = memoryview(bytearray(min(self._left_bytes, _DISCARDED_AT_ONCE_BYTES)))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self._left_bytes -= nbytes
        self._connection.count(nbytes)
        self._room = self._room[nbytes:]
        if self._room:
            return
        if not self._left_bytes:
            self._connection.end_body(self._content)
        elif self._filled is None:
            self._make_room()
            return
        else:
            self._connection.hold_reading()
        if self._filled is not None and not self._filled.done():
            self._filled.set_result(None)

    def eof_received(self) -> None:
        self._connection.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._room = memoryview(b"")
        if self._filled is not None and not self._filled.done():
            self._filled.set_exception(ConnectionResetError("the connection ended before the body did"))
        self._connection.connection_lost(error)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()


def parsed_body(request: web.BaseRequest) -> StreamReader:
    """Return the body as the parser passes it on, in pieces."""
    connection = cast(S3Connection, request.protocol)
    if connection.is_held:
        connection.resume_reading()
    return request.content


def _awaits_long_body(message: Any, content: StreamReader) -> bool:
    """Return whether the rest of a long body of known length has not arrived."""
    return not content.is_eof() and int(message.headers.get("Content-Length", 0)) >= LONG_BYTES_MIN


def _is_clear(request: web.BaseRequest) -> bool:
    """Return whether no proxy can have read the request in another way than the parser did."""
    target = request.raw_path
    encoding = request.headers.get("Transfer-Encoding", "chunked")
    return target.startswith("/") and "#" not in target and request.version[0] == 1 and encoding.lower() == "chunked"


async def _refuse() -> web.StreamResponse:
    return _last_answer("BadRequest", _UNCLEAR)


def _last_answer(code: str, why: str) -> web.Response:
    body, headers = _document(code, why)
    response = web.Response(status=400, body=body, headers=headers)
    response.force_close()
    return response


def _document(code: str, why: str) -> tuple[bytes, dict[str, str]]:
    request_id = secrets.token_hex(8).upper()
    headers = {
        "Server": "archiver",
        "Date": formatdate(usegmt=True),
        "x-amz-request-id": request_id,
        "Content-Type": "application/xml",
    }
    return xml.error_document(code, why, "", request_id, {}), headers


def _refusal(status: int, code: str, why: str) -> bytes:
    """Return a complete answer as bytes, for a connection whose requests are not read."""
    body, headers = _document(code, why)
    lines = [f"HTTP/1.1 {status} {code}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "Connection: close", "", ""]).encode() + body
