"""One connection to an S3 endpoint: the only module of the data plane that owns a socket.

One idea: the whole batch of a session runs inside the protocol. The callback that receives the end of a reply sends
the next request, so an object costs no task switch and no future; there is one future for the batch.

A chunk is consumed inside buffer_updated, so one receive buffer serves every connection of a worker.

A server may end the connection between two requests. Where it had no byte of a request by then, it cannot have done any
of it: the owner hears that, and may send the request over another connection.

No exchange goes on for ever: within every --read-timeout the server has to take PROGRESS_BYTES_MIN of the request (or
its end), begin its answer, send PROGRESS_BYTES_MIN of that, or complete it. A byte now and then is no progress.
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
# A request beyond this is written in several pieces. Where the server has ended the connection, the second of them
# fails before the end is read, so the kernel is asked first. That takes 1 us.
LARGE_BYTES = 64 * 1024
_TCP_CLOSE_WAIT = 8  # Linux: the other side has closed
KEPT_WAITING_MAX = 10  # read time-outs, for answers that a working platform sends blank by blank until it has one
_receive_buffer = memoryview(bytearray(RECEIVE_BUFFER_BYTES))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to connect: an address resolved beforehand, and the name that the URL and the certificate carry."""

    url: str
    host: str
    address: str
    port: int
    tls: ssl.SSLContext | None


class ExchangeOwner(Protocol):
    """Who uses the connection: told when a reply is whole, or that there will be none."""

    def reply_complete(self, reply: ReplyReader, sent_ns: int, first_byte_ns: int, done_ns: int) -> None: ...

    def exchange_failed(self, status: Status, message: str, sent_ns: int, first_byte_ns: int) -> None: ...

    def request_not_taken(self, message: str, sent_ns: int) -> None: ...


class HttpConnection(asyncio.BufferedProtocol):
    """Sends one request at a time and reports its reply to the owner. Ends itself on anything it cannot trust."""

    def __init__(self, owner: ExchangeOwner, read_timeout_seconds: float) -> None:
        self._owner = owner
        self._read_timeout_ns = int(read_timeout_seconds * 1e9)
        self._reader = ReplyReader()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._outstanding = False
        self._sent_since_read = False
        self._is_refused = False  # nothing that came over it is believed any more
        self._has_ended = False  # the server ended it
        self.answered = 0  # requests
        self._patience: asyncio.TimerHandle | None = None
        self._sent_ns = 0
        self._first_byte_ns = 0
        self._heard_ns = 0  # when bytes came last, or were taken
        self._progress_ns = 0  # when enough of them had
        self._arrived_bytes = 0  # since then
        self._request_bytes = 0
        self._untaken_bytes = 0  # of the request, at that time
        self._was_looked_at = False  # the request, by then
        self._slow_ns = self._read_timeout_ns  # how long it may go without progress
        self._lost: asyncio.Future[None] = self._loop.create_future()

    @property
    def usable(self) -> bool:
        """True while another request can be sent: the connection stands and the last reply did not say "close"."""
        return self._reader.keep_alive and not self._has_ended and not self._is_refused

    @property
    def ended_politely(self) -> bool:
        """True where the server ended the connection, or said that it will, while no request was outstanding."""
        return not (self.usable or self._outstanding or self._is_refused)

    def send(
        self,
        parts: Sequence[bytes | memoryview],
        *,
        is_head: bool = False,
        check: BodyCheck | None = None,
        keeps_waiting: bool = False,
    ) -> None:
        """Send one request, head and body; its reply or its failure goes to the owner. ``keeps_waiting``: platforms
        answer such a request at once, and fill the time until they know the answer with blanks."""
        assert self._transport is not None
        self._reader.expect(is_head=is_head, check=check)
        self._outstanding = self._sent_since_read = True
        self._first_byte_ns = 0
        self._arrived_bytes = 0
        self._slow_ns = self._read_timeout_ns * KEPT_WAITING_MAX if keeps_waiting else self._read_timeout_ns
        # Its length alone: a request kept until the next one makes a large archive a quarter dearer, for the memory
        # that its bytes were made in could not be used again while it is in the processor's cache.
        self._request_bytes = self._untaken_bytes = sum(map(len, parts))
        self._was_looked_at = False
        self._heard_ns = self._progress_ns = self._sent_ns = time.monotonic_ns()
        if self._request_bytes > LARGE_BYTES and self.answered and self._end_has_arrived():
            self._outstanding, self._has_ended = False, True
            self._loop.call_soon(self._owner.request_not_taken, CLOSED, self._sent_ns)  # who sends it is not done yet
            return
        self._transport.writelines(parts)
        if self._timer is None:
            self._timer = self._loop.call_later(self._read_timeout_ns / 1e9, self._check_progress)

    def begin_close(self) -> None:
        """Close; the socket may be there for a moment yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None and self._patience is None and not self._lost.done():
            self._transport.close()
            # For a peer that never answers the TLS goodbye. This costs a session 15 us less than wait_for.
            self._patience = self._loop.call_later(CLOSE_SECONDS_MAX, self._transport.abort)

    async def close(self) -> None:
        """Close and wait until the socket is gone."""
        self.begin_close()
        if self._transport is not None:
            await self._lost

    def _check_progress(self) -> None:
        # One timer per connection, re-armed for what is left, instead of one per request.
        self._timer = None
        if not self._outstanding:
            return
        now_ns = time.monotonic_ns()
        if not self._first_byte_ns:
            self._note_what_was_taken(now_ns)
        silent_ns, slow_ns = now_ns - self._heard_ns, now_ns - self._progress_ns
        if silent_ns >= self._read_timeout_ns:
            self._fail(Status.READ_TIMEOUT, f"nothing arrived for {silent_ns / 1e9:.1f} s (--read-timeout)")
        elif slow_ns >= self._slow_ns:
            little = f"less than {PROGRESS_BYTES_MIN >> 10} KiB went over the wire in {slow_ns / 1e9:.1f} s"
            self._fail(Status.TOO_SLOW, f"{little} (--read-timeout)")
        else:
            left_ns = min(self._read_timeout_ns - silent_ns, self._slow_ns - slow_ns)
            self._timer = self._loop.call_later(left_ns / 1e9, self._check_progress)

    def _note_what_was_taken(self, now_ns: int) -> None:
        """A server that takes a large body is not silent; only the kernel knows how much the other side has of it."""
        untaken = self._untaken()
        before = self._untaken_bytes
        if not self._was_looked_at:
            self._was_looked_at = True
            # In the first of these periods a small request has been taken whole long since, and only waits.
            if not untaken and before < PROGRESS_BYTES_MIN:
                self._untaken_bytes = 0
                return
        if untaken < before:
            self._heard_ns = now_ns
            if before - untaken >= PROGRESS_BYTES_MIN or not untaken:
                self._progress_ns, self._untaken_bytes = now_ns, untaken

    def _untaken(self) -> int:
        """Bytes of the request that are still on this side, or on the way."""
        assert self._transport is not None
        queued = fcntl.ioctl(self._transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
        return self._transport.get_write_buffer_size() + int.from_bytes(queued, sys.byteorder)

    def _took_nothing(self) -> bool:
        """True where the server ended the connection before any byte of the request was there."""
        # By TLS the end may have been in what was read before the request was sent. Else the segment that ends a
        # connection acknowledges all that had arrived by then. A new connection that ends at once is not asked for
        # that, or there would be no end of trying.
        return not self._first_byte_ns and (self._sent_since_read or self._untaken() >= self._request_bytes)

    def _end_has_arrived(self) -> bool:
        """True where the server's end of the connection is known to the kernel, but not to the event loop yet."""
        assert self._transport is not None
        sock = self._transport.get_extra_info("socket")
        return bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _TCP_CLOSE_WAIT)

    def refuse(self, status: Status, message: str) -> None:
        """The owner does not believe the reply it was handed: nothing that comes over this connection is believed."""
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
        self._owner.reply_complete(self._reader, self._sent_ns, self._first_byte_ns, time.monotonic_ns())

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # which sends at once: loops set TCP_NODELAY

    def get_buffer(self, sizehint: int) -> memoryview:
        self._sent_since_read = False
        return _receive_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._heard_ns = time.monotonic_ns()
        self._arrived_bytes += nbytes
        if not self._first_byte_ns:
            self._progress_ns = self._first_byte_ns = self._heard_ns
        elif self._arrived_bytes >= PROGRESS_BYTES_MIN:
            self._progress_ns = self._heard_ns
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
    """Connect, with the TLS handshake where the endpoint has it. Raises OSError, ssl.SSLError."""
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(
        lambda: HttpConnection(owner, read_timeout_seconds),
        endpoint.address,
        endpoint.port,
        ssl=endpoint.tls,
        server_hostname=endpoint.host if endpoint.tls is not None else None,
    )
    return protocol
