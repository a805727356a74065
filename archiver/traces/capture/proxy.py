"""`archiver capture`: a proxy between S3 clients and their store that records the traffic.

One idea: every client connection has its own connection to the upstream, and the proxy forwards bytes unchanged. It
parses a copy of them (recording.py). Header order, signatures, chunks and trailers, 100 Continue, half-closed
connections and broken bodies therefore stay as they were. The proxy stops reading from one side while the other side
does not accept more, so it holds no body in memory.

aiohttp is not used here, because it normalises headers, answers 100 Continue itself and joins chunks.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from archiver.traces.capture.journal import VERSION, Beginning, Journal
from archiver.traces.capture.recording import ConnectionRecording, Recording
from archiver.traces.format import TracedOperation
from archiver.values.errors import ArchiverError, PlatformError, UsageError
from archiver.values.record import Status

CONNECT_SECONDS_MAX = 10.0
FLUSH_SECONDS = 0.25
DRAIN_SECONDS_MAX = 5.0  # time for operations in progress when the capture ends
_DRAIN_LOOK_SECONDS = 0.05
_BACKLOG = 1024
_WAITING_BYTES_MAX = 256 * 1024  # bytes waiting for one side at which reading from the other stops
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: the connection ends with a reset


@dataclass(frozen=True, slots=True)
class Upstream:
    """The store behind the proxy."""

    url: str
    host: str
    port: int
    tls: ssl.SSLContext | None = field(repr=False)


def upstream_of(url: str, tls: ssl.SSLContext | None) -> Upstream:
    """Parse the upstream's URL; ``tls`` applies to https. Raises UsageError for an invalid URL."""
    if "@" in url:
        raise UsageError(
            "--upstream: leave the credentials out; the clients sign their requests, and the proxy needs none"
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        good = parts.scheme in ("http", "https") and bool(host) and port != 0
    except ValueError:  # a port beyond 65535, an unclosed bracket
        good, host, port = False, None, None
    if not good or host is None:
        raise UsageError(f"--upstream {url}: not an address; write it like https://s3.example.org:9000")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise UsageError(
            f"--upstream {url}: leave out path, query and fragment; requests are forwarded as the clients signed them"
        )
    secure = parts.scheme == "https"
    return Upstream(url.rstrip("/"), host, port or (443 if secure else 80), tls if secure else None)


@dataclass(slots=True)
class CaptureResult:
    """The result of a capture."""

    operations: int
    connections: int
    refused: int  # connections without an upstream
    unreadable: int  # connections with bytes that are not HTTP/1.1: forwarded, not recorded
    cut_off: int  # operations in progress at the end
    fault: str | None  # why recording ended early


class Proxy:
    """The proxy: it forwards connections and records them until it is stopped."""

    def __init__(self, upstream: Upstream, journal: Journal, began_at_ns: int, began_ns: int, listen_host: str) -> None:
        """Make a proxy for a capture that began at ``began_ns`` (monotonic) and ``began_at_ns`` (since the epoch)."""
        self.upstream = upstream
        self.began_ns = began_ns
        self.connections = 0
        self.refused = 0
        self.tunnels: set[Tunnel] = set()
        self.fault: str | None = None
        self._journal = journal
        hosts = tuple(host.lower().encode() for host in (upstream.host, listen_host, "localhost"))
        self.recording = Recording(self._write, hosts, began_at_ns)

    def _write(self, row: TracedOperation) -> None:
        if self.fault is None:
            self._journal.write(row)

    def flush(self) -> None:
        """Append recorded rows. If that fails, recording ends but the proxy continues to forward."""
        if self.fault is None:
            try:
                self._journal.flush()
            except ArchiverError as error:
                self.fault = str(error)


class Tunnel:
    """A client's connection, and the proxy's connection to the upstream for it."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.client = _Side(self)
        self.server = _Side(self)
        self.client.other, self.server.other = self.server, self.client
        self.recording: ConnectionRecording | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._is_decided = False  # the upstream connection was made or failed
        self._refused: Status | None = None  # why the upstream cannot be reached
        self._early = b""  # bytes that came before the decision

    def close(self, *, at_once: bool) -> bool:
        """End the tunnel if it is idle or ``at_once``; return whether it was idle, so that no operation is cut off."""
        assert self.recording is not None
        is_idle = self.recording.is_idle
        if at_once:
            self.recording.lost(time.monotonic_ns() - self.proxy.began_ns)
            self.client.abort()
            self.server.abort()
        elif is_idle:
            self.client.close()
            self.server.close()
        return is_idle

    def opened(self, side: _Side) -> None:
        if side is self.client:
            proxy = self.proxy
            proxy.connections += 1
            proxy.tunnels.add(self)
            peer = side.transport.get_extra_info("peername")
            self.recording = ConnectionRecording(proxy.recording, str(peer[0]) if peer else "")
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        try:
            await connect(self.proxy.upstream, lambda: self.server)
        except (OSError, TimeoutError) as error:  # TLS errors are OSErrors
            self.proxy.refused += 1
            self._refused = failure_of(error)
        self._is_decided = True
        if not self.client.is_open:
            self.server.close()
            return
        early, self._early = self._early, b""
        if early:
            self.passed(self.client, early)
        if self.client.has_ended:
            self.ended(self.client)
        self.client.resume()

    def passed(self, side: _Side, data: bytes) -> None:
        """Forward bytes of one side, then record them."""
        recording = self.recording
        assert recording is not None
        if not self._is_decided:  # a request came before the upstream connection
            self._early += data
            side.pause()
            return
        now_ns = time.monotonic_ns() - self.proxy.began_ns
        if side is self.server:
            self.client.send(data)
            recording.answer_bytes(data, now_ns)
            if self.client.has_ended and self.proxy.upstream.tls is not None:
                self._close_when_idle()
        else:
            self.server.send(data)
            recording.request_bytes(data, now_ns)
            if self._refused is not None and not recording.is_idle:
                recording.lost(now_ns, self._refused)
                self.client.reset()

    def ended(self, side: _Side) -> None:
        """Record that one side sends no more. The other direction continues."""
        assert self.recording is not None
        if not self._is_decided:
            return
        if side is self.server:
            self.recording.answers_ended(time.monotonic_ns() - self.proxy.began_ns)
        if self.client.has_ended and self.server.has_ended:
            self.client.close()
            self.server.close()
        elif side is self.client and self.proxy.upstream.tls is not None:
            self._close_when_idle()  # TLS has no half-closed connections
        elif side is self.client and self._refused is not None:
            self.client.close()
        else:
            side.other.end_sending()

    def _close_when_idle(self) -> None:
        assert self.recording is not None
        if self.recording.is_idle:
            self.server.close()

    def lost(self, side: _Side, error: Exception | None) -> None:
        """Record that one side is gone, and close the other one after it has received all bytes."""
        now_ns = time.monotonic_ns() - self.proxy.began_ns
        assert self.recording is not None
        if side is self.server and error is None:
            self.recording.answers_ended(now_ns)
        self.recording.lost(now_ns)
        if error is None:
            side.other.close()
        else:
            side.other.reset()
        if not self.client.is_open and not self.server.is_open:
            self.proxy.tunnels.discard(self)


class _Side(asyncio.Protocol):
    """The connection to the client or to the upstream."""

    other: _Side

    def __init__(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel
        self.transport: asyncio.Transport
        self.is_open = False
        self.has_ended = False  # the peer sends no more

    def send(self, data: bytes) -> None:
        if self.is_open:
            self.transport.write(data)

    def pause(self) -> None:
        """Stop reading from the peer for now."""
        if self.is_open and not self.transport.is_closing():
            self.transport.pause_reading()

    def resume(self) -> None:
        if self.is_open and not self.transport.is_closing():
            self.transport.resume_reading()

    def end_sending(self) -> None:
        if self.is_open and not self.transport.is_closing() and self.transport.can_write_eof():
            self.transport.write_eof()

    def close(self) -> None:
        """Close after everything has been sent."""
        if self.is_open:
            self.transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self.is_open:
            self.transport.abort()

    def reset(self) -> None:
        """Close with a reset, so that the peer sees a broken connection."""
        if self.is_open and not self.transport.is_closing():
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.transport.close()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=_WAITING_BYTES_MAX)
        self.is_open = True
        self._tunnel.opened(self)

    def data_received(self, data: bytes) -> None:
        self._tunnel.passed(self, data)

    def eof_received(self) -> bool:
        self.has_ended = True
        self._tunnel.ended(self)
        return not (self is self._tunnel.server and self._tunnel.proxy.upstream.tls is not None)

    def pause_writing(self) -> None:
        self.other.pause()

    def resume_writing(self) -> None:
        self.other.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._tunnel.lost(self, exc)


async def connect(upstream: Upstream, protocol: Callable[[], asyncio.Protocol]) -> asyncio.BaseTransport:
    """Connect to the upstream. Raises OSError, TimeoutError and ssl.SSLError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(CONNECT_SECONDS_MAX):
        transport, _ = await loop.create_connection(
            protocol,
            upstream.host,
            upstream.port,
            ssl=upstream.tls,
            server_hostname=upstream.host if upstream.tls is not None else None,
        )
    return transport


def failure_of(error: Exception) -> Status:
    """Return the status of operations whose upstream could not be reached."""
    if isinstance(error, TimeoutError):
        return Status.CONNECT_TIMEOUT
    return Status.TLS_FAILED if isinstance(error, ssl.SSLError) else Status.CONNECT_FAILED


async def check(upstream: Upstream) -> None:
    """Check that the upstream can be reached. Raises PlatformError with the remedy."""
    try:
        transport = await connect(upstream, asyncio.Protocol)
    except ssl.SSLCertVerificationError as error:
        raise PlatformError(
            f"--upstream {upstream.url}: its certificate is not trusted: {error.verify_message}; name its authority "
            "with --ca-bundle"
        ) from error
    except (OSError, TimeoutError, UnicodeError) as error:
        why = str(error) or f"nothing answered within {CONNECT_SECONDS_MAX:.0f} s"
        raise PlatformError(f"--upstream {upstream.url}: cannot be reached: {why}") from error
    transport.close()


async def capture(
    host: str, port: int, upstream: Upstream, journal_at: Path, ready: Callable[[int], None]
) -> CaptureResult:
    """Forward traffic until SIGINT or SIGTERM and write the journal.

    Calls ``ready`` with the port. Operations in progress at the end get five seconds; a second signal ends them at
    once. Raises UsageError if the address is not available or the journal cannot be created, PlatformError if the
    upstream cannot be reached.
    """
    loop = asyncio.get_running_loop()
    await check(upstream)
    proxy: Proxy  # created after everything that can fail

    try:
        server = await loop.create_server(
            lambda: Tunnel(proxy).client, host, port, backlog=_BACKLOG, start_serving=False
        )
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--listen {host}:{port}: cannot listen there: {error}") from error
    began_at_ns, began_ns = time.time_ns(), time.monotonic_ns()
    journal = Journal(journal_at, Beginning(VERSION, began_at_ns, upstream.url))
    proxy = Proxy(upstream, journal, began_at_ns, began_ns, host)
    _allow_many_connections()
    stop = _StopSignals(loop)
    await server.start_serving()
    ready(server.sockets[0].getsockname()[1])
    while not stop.requested.is_set():
        try:
            await asyncio.wait_for(stop.requested.wait(), FLUSH_SECONDS)
        except TimeoutError:
            proxy.flush()
    server.close()
    cut_off = await _drain(proxy, stop)
    proxy.recording.end()
    proxy.flush()
    journal.close()
    recording = proxy.recording
    return CaptureResult(
        recording.operations, proxy.connections, proxy.refused, recording.unreadable, cut_off, proxy.fault
    )


class _StopSignals:
    """SIGINT and SIGTERM as events: the first requests the end, the second an immediate end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.requested = asyncio.Event()
        self.hurried = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        (self.hurried if self.requested.is_set() else self.requested).set()


async def _drain(proxy: Proxy, stop: _StopSignals) -> int:
    """Let operations in progress end; return how many were cut off."""
    until = time.monotonic() + DRAIN_SECONDS_MAX
    while proxy.tunnels:
        over = stop.hurried.is_set() or time.monotonic() >= until
        cut_off = sum(not tunnel.close(at_once=over) for tunnel in list(proxy.tunnels))
        if over:
            return cut_off
        try:
            await asyncio.wait_for(stop.hurried.wait(), _DRAIN_LOOK_SECONDS)
        except TimeoutError:
            pass
    return 0


def _allow_many_connections() -> None:
    """Raise the limit of open files: each connection needs two, and the usual limit is 1024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
