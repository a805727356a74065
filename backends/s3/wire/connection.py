"""One connection to an S3 endpoint; the only module of the data plane that owns a socket.

One idea: the protocol object runs the whole batch of a session. The callback that receives the end of a reply sends the
next request. So an object costs no task switch and no future; there is one future for the batch.

buffer_updated consumes each chunk at once, so one receive buffer serves every connection of a worker.

A server may end the connection between two requests. If it had received no byte of a request, it cannot have done any
of it. The connection reports that to its owner, which may send the request over another connection.

Every exchange ends. Within every --read-timeout the server must accept PROGRESS_BYTES_MIN of the request (or its end),
begin its answer, send PROGRESS_BYTES_MIN of it, or complete it. Single bytes do not count, or they could hold a run for
ever. A limit per request would fail large objects on slow links.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import ssl
import sys
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from archiver.values.record import Status
from backends.s3.wire.replies import CLOSED, BodyCheck, ReplyError, ReplyReader

RECEIVE_BUFFER_BYTES = 256 * 1024
CLOSE_SECONDS_MAX = 1.0
PROGRESS_BYTES_MIN = 64 * 1024
# Larger requests are written in several pieces. If the server has ended the connection, the second piece fails before
# the end is read, so the code asks the kernel first. That takes 1 us.
LARGE_BYTES = 64 * 1024
_TCP_CLOSE_WAIT = 8  # Linux: the other side has closed
STANDSTILL_NS = 1_000_000_000  # a timer that is later shows that this process did not run
KEPT_WAITING_MAX = 10  # read timeouts while a platform sends blanks before its answer
_receive_buffer = memoryview(bytearray(RECEIVE_BUFFER_BYTES))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Target of a connection: a resolved address, and the name in the URL and the certificate."""

    url: str
    host: str
    address: str
    port: int
    tls: ssl.SSLContext | None


class ExchangeOwner(Protocol):
    """The user of a connection; it is called when a reply is complete, or when there will be none."""

    def reply_complete(self, reply: ReplyReader, sent_ns: int, first_byte_ns: int, done_ns: int) -> None: ...

    def exchange_failed(self, status: Status, message: str, sent_ns: int, first_byte_ns: int) -> None: ...

    def request_not_taken(self, message: str, sent_ns: int) -> None: ...


class HttpConnection(asyncio.BufferedProtocol):
    """Sends one request at a time and reports its reply to the owner. Closes after anything that it cannot trust."""

    def __init__(self, owner: ExchangeOwner, read_timeout_seconds: float) -> None:
        self._owner = owner
        self._read_timeout_ns = int(read_timeout_seconds * 1e9)
        self._reader = ReplyReader()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ns = 0
        self._stood_still = False  # this process, since the request was sent
        self._outstanding = False
        self._sent_since_read = False
        self._is_refused = False  # its replies are no longer trusted
        self._has_ended = False  # the server ended it
        self.answered = 0  # answered requests
        self._patience: asyncio.TimerHandle | None = None
        self._sent_ns = 0
        self._first_byte_ns = 0
        self._received_ns = 0  # when bytes last came or were accepted
        self._progress_ns = 0  # when there was last enough progress
        self._arrived_bytes = 0  # bytes since then
        self._request_bytes = 0
        self._untaken_bytes = 0  # bytes of the request not accepted at that time
        self._was_looked_at = False  # the request was checked by then
        self._slow_ns = self._read_timeout_ns  # allowed time without progress
        self._lost: asyncio.Future[None] = self._loop.create_future()

    @property
    def usable(self) -> bool:
        """Return whether another request can be sent: the connection is open and the last reply did not say "close"."""
        return self._reader.keep_alive and not self._has_ended and not self._is_refused

    @property
    def ended_politely(self) -> bool:
        """Return whether the server ended the connection, or announced it, while no request was outstanding."""
        return not (self.usable or self._outstanding or self._is_refused)

    def send(
        self,
        parts: Sequence[bytes | memoryview],
        *,
        is_head: bool = False,
        check: BodyCheck | None = None,
        keeps_waiting: bool = False,
    ) -> None:
        """Send one request, head and body; the owner gets its reply or its failure.

        ``keeps_waiting``: platforms answer such a request at once, and send blanks until they know the result.
        """
        assert self._transport is not None
        self._reader.expect(is_head=is_head, check=check)
        self._outstanding = self._sent_since_read = True
        self._first_byte_ns = 0
        self._stood_still = False
        self._arrived_bytes = 0
        self._slow_ns = self._read_timeout_ns * KEPT_WAITING_MAX if keeps_waiting else self._read_timeout_ns
        # Only its length is kept: keeping the request until the next one makes a large archive a quarter slower,
        # because its memory could not be used again while it is in the processor's cache.
        self._request_bytes = self._untaken_bytes = sum(map(len, parts))
        self._was_looked_at = False
        self._received_ns = self._progress_ns = self._sent_ns = time.monotonic_ns()
        if self._request_bytes > LARGE_BYTES and self.answered and self._end_has_arrived():
            self._outstanding, self._has_ended = False, True
            self._loop.call_soon(self._owner.request_not_taken, CLOSED, self._sent_ns)  # after the caller has sent it
            return
        self._transport.writelines(parts)
        if self._timer is None:
            self._check_progress_in(self._read_timeout_ns)

    def begin_close(self) -> None:
        """Close; the socket may exist a moment longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None and self._patience is None and not self._lost.done():
            self._transport.close()
            # For a peer that never answers the TLS close. This costs a session 15 us less than wait_for.
            self._patience = self._loop.call_later(CLOSE_SECONDS_MAX, self._transport.abort)

    async def close(self) -> None:
        """Close and wait until the socket is gone."""
        self.begin_close()
        if self._transport is not None:
            await self._lost

    def _check_progress_in(self, ns: int) -> None:
        self._timer_due_ns = time.monotonic_ns() + ns
        self._timer = self._loop.call_later(ns / 1e9, self._check_progress)

    def _check_progress(self) -> None:
        # One timer per connection, set again for the remaining time, instead of one per request.
        self._timer = None
        if not self._outstanding:
            return
        now_ns = time.monotonic_ns()
        if now_ns - self._timer_due_ns >= STANDSTILL_NS and not self._stood_still:
            # This process did not run, so it has not read what arrived meanwhile. Once for each request, the server has
            # its time again.
            self._stood_still = True
            self._received_ns = self._progress_ns = now_ns
        if not self._first_byte_ns:
            self._note_what_was_taken(now_ns)
        silent_ns, slow_ns = now_ns - self._received_ns, now_ns - self._progress_ns
        if silent_ns >= self._read_timeout_ns:
            self._fail(Status.READ_TIMEOUT, f"nothing arrived for {silent_ns / 1e9:.1f} s (--read-timeout)")
        elif slow_ns >= self._slow_ns:
            little = f"less than {PROGRESS_BYTES_MIN >> 10} KiB went over the wire in {slow_ns / 1e9:.1f} s"
            self._fail(Status.TOO_SLOW, f"{little} (--read-timeout)")
        else:
            left_ns = min(self._read_timeout_ns - silent_ns, self._slow_ns - slow_ns)
            self._check_progress_in(left_ns)

    def _note_what_was_taken(self, now_ns: int) -> None:
        """Count an upload that makes progress as activity; only the kernel knows how much the peer has acknowledged."""
        untaken = self._untaken()
        before = self._untaken_bytes
        if not self._was_looked_at:
            self._was_looked_at = True
            # After the first of these periods a small request has been accepted as a whole, and the client only waits.
            if not untaken and before < PROGRESS_BYTES_MIN:
                self._untaken_bytes = 0
                return
        if untaken < before:
            self._received_ns = now_ns
            if before - untaken >= PROGRESS_BYTES_MIN or not untaken:
                self._progress_ns, self._untaken_bytes = now_ns, untaken

    def _untaken(self) -> int:
        """Return the bytes of the request that the peer has not acknowledged."""
        assert self._transport is not None
        queued = fcntl.ioctl(self._transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
        return self._transport.get_write_buffer_size() + int.from_bytes(queued, sys.byteorder)

    def _took_nothing(self) -> bool:
        """Return whether the server ended the connection before it received any byte of the request."""
        # With TLS, the end may have been in data that was read before the request was sent. Otherwise the segment that
        # ends a connection acknowledges everything that had arrived. This does not apply to a new connection that ends
        # at once, or the client would try forever.
        return not self._first_byte_ns and (self._sent_since_read or self._untaken() >= self._request_bytes)

    def _end_has_arrived(self) -> bool:
        """Return whether the kernel has received the server's end of the connection and the event loop has not."""
        assert self._transport is not None
        sock = self._transport.get_extra_info("socket")
        return bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _TCP_CLOSE_WAIT)

    def refuse(self, status: Status, message: str) -> None:
        """Stop trusting this connection: the owner rejected a reply."""
        assert self._transport is not None
        self._is_refused = True
        self._transport.abort()
        self._owner.exchange_failed(status, message, self._sent_ns, self._first_byte_ns)

    def _fail(self, status: Status, message: str) -> None:
        self._is_refused = True
        if self._transport is not None:
            self._transport.abort()
        if self._outstanding:
            self._outstanding = False
            self._owner.exchange_failed(status, message, self._sent_ns, self._first_byte_ns)

    def _complete(self) -> None:
        self._outstanding = False
        self.answered += 1
        try:
            self._owner.reply_complete(self._reader, self._sent_ns, self._first_byte_ns, time.monotonic_ns())
        except Exception as error:  # noqa: BLE001 - no answer of a platform may end a session without a row
            # The owner waits for a report of every request. A session whose request has none would wait forever.
            self._outstanding = True
            self._fail(Status.PROTOCOL_ERROR, f"the answer cannot be processed: {error!r}")

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # sends at once: event loops set TCP_NODELAY

    def get_buffer(self, sizehint: int) -> memoryview:
        self._sent_since_read = False
        return _receive_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._received_ns = time.monotonic_ns()
        self._arrived_bytes += nbytes
        if not self._first_byte_ns:
            self._progress_ns = self._first_byte_ns = self._received_ns
        elif self._arrived_bytes >= PROGRESS_BYTES_MIN:
            self._progress_ns = self._received_ns
            self._arrived_bytes = 0
        try:
            if self._reader.feed(_receive_buffer[:nbytes]):
                self._complete()
        except ReplyError as error:
            self._fail(error.status, str(error))

    def eof_received(self) -> bool:
        self._has_ended = True
        if not self._outstanding:
            return False
        if self.answered and self._took_nothing():
            self._outstanding = False
            self._owner.request_not_taken(CLOSED, self._sent_ns)
            return False
        try:
            if self._reader.connection_ended():
                self._complete()
        except ReplyError as error:
            self._fail(error.status, str(error))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_ended = True
        if self._patience is not None:
            self._patience.cancel()
        if not self._lost.done():
            self._lost.set_result(None)
        if self._outstanding:
            self._fail(Status.CONNECTION_LOST, f"the connection was lost: {exc or 'closed by the server'}")
        self._reader.release()


async def connect(endpoint: Endpoint, owner: ExchangeOwner, read_timeout_seconds: float) -> HttpConnection:
    """Connect, with a TLS handshake for https. Raises OSError, ssl.SSLError."""
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(
        lambda: HttpConnection(owner, read_timeout_seconds),
        endpoint.address,
        endpoint.port,
        ssl=endpoint.tls,
        server_hostname=endpoint.host if endpoint.tls is not None else None,
    )
    return protocol
