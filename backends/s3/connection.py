"""One connection to an S3 endpoint: the only module of the data plane that owns a socket.

One idea: the whole batch of a session runs inside the protocol. The callback that receives the end of a reply sends
the next request, so an object costs no task switch and no future; there is one future for the batch.

A chunk is consumed inside buffer_updated, so one receive buffer serves every connection of a worker.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from archiver.record import Status
from backends.s3.replies import BodyCheck, ReplyError, ReplyReader

RECEIVE_BUFFER_BYTES = 256 * 1024
CLOSE_SECONDS_MAX = 1.0
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


class Connection(asyncio.BufferedProtocol):
    """Sends one request at a time and reports its reply to the owner. Ends itself on anything it cannot trust."""

    def __init__(self, owner: ExchangeOwner, read_timeout_seconds: float) -> None:
        self._owner = owner
        self._read_timeout_ns = int(read_timeout_seconds * 1e9)
        self._reader = ReplyReader()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._outstanding = False
        self._sent_ns = 0
        self._first_byte_ns = 0
        self._progress_ns = 0
        self._lost: asyncio.Future[None] = self._loop.create_future()

    @property
    def usable(self) -> bool:
        """True while another request can be sent: the connection stands and the last reply did not say "close"."""
        return self._transport is not None and self._reader.keep_alive and not self._transport.is_closing()

    def send(
        self, parts: Sequence[bytes | memoryview], *, is_head: bool = False, check: BodyCheck | None = None
    ) -> None:
        """Send one request, head and body; its reply or its failure goes to the owner."""
        assert self._transport is not None
        self._reader.expect(is_head=is_head, check=check)
        self._outstanding = True
        self._first_byte_ns = 0
        self._progress_ns = self._sent_ns = time.monotonic_ns()
        self._transport.writelines(parts)
        if self._timer is None:
            self._timer = self._loop.call_later(self._read_timeout_ns / 1e9, self._check_progress)

    async def close(self) -> None:
        """Close and wait until the socket is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None and not self._lost.done():
            self._transport.close()
            # For a peer that never answers the TLS goodbye. This costs a session 15 us less than wait_for.
            patience = self._loop.call_later(CLOSE_SECONDS_MAX, self._transport.abort)
            try:
                await self._lost
            finally:
                patience.cancel()

    def _check_progress(self) -> None:
        # One timer per connection, re-armed for what is left, instead of one per request.
        self._timer = None
        if not self._outstanding:
            return
        silent_ns = time.monotonic_ns() - self._progress_ns
        if silent_ns >= self._read_timeout_ns:
            self._fail(Status.READ_TIMEOUT, f"nothing arrived for {silent_ns / 1e9:.1f} s (--read-timeout)")
        else:
            self._timer = self._loop.call_later((self._read_timeout_ns - silent_ns) / 1e9, self._check_progress)

    def _fail(self, status: Status, message: str) -> None:
        if self._transport is not None:
            self._transport.abort()
        if self._outstanding:
            self._outstanding = False
            self._owner.exchange_failed(status, message, self._sent_ns, self._first_byte_ns)

    def _complete(self) -> None:
        self._outstanding = False
        self._owner.reply_complete(self._reader, self._sent_ns, self._first_byte_ns, time.monotonic_ns())

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # which sends at once: loops set TCP_NODELAY

    def get_buffer(self, sizehint: int) -> memoryview:
        return _receive_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._progress_ns = time.monotonic_ns()
        if not self._first_byte_ns:
            self._first_byte_ns = self._progress_ns
        try:
            if self._reader.feed(_receive_buffer[:nbytes]):
                self._complete()
        except ReplyError as error:
            self._fail(error.status, str(error))

    def eof_received(self) -> bool:
        try:
            if self._reader.connection_ended():
                self._complete()
        except ReplyError as error:
            self._fail(error.status, str(error))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_result(None)
        if self._outstanding:
            self._fail(Status.CONNECTION_LOST, f"the connection was lost: {exc or 'closed by the server'}")
        self._reader.release()


async def connect(endpoint: Endpoint, owner: ExchangeOwner, read_timeout_seconds: float) -> Connection:
    """Connect, with the TLS handshake where the endpoint has it. Raises OSError, ssl.SSLError."""
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(
        lambda: Connection(owner, read_timeout_seconds),
        endpoint.address,
        endpoint.port,
        ssl=endpoint.tls,
        server_hostname=endpoint.host if endpoint.tls is not None else None,
    )
    return protocol
