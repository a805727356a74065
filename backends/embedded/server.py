"""The store as a process: `python -m backends.embedded.server --data DIR`.

One idea: the process that started it can rely on three things. The store reports when it is ready (one line of JSON on
a given file descriptor). It finishes current work after a signal to stop. It ends when its owner ends (a pipe closes),
so no store process is ever left behind.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import ipaddress
import json
import os
import resource
import signal
import ssl
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import uvloop

from archiver.values.errors import ArchiverError, StoreError, UsageError

from . import metrics
from .core.rules import policy
from .core.rules.policy import ManagementClass
from .core.store import Statistics, Store, say_to_stderr
from .s3 import credentials
from .s3.requests.connection import S3Connections
from .s3.server import S3Server
from .tsm.incoming import OBJECTS_MAX
from .tsm.nodes import Nodes
from .tsm.server import SESSIONS_MAX, TsmServer

_DRAIN_SECONDS = 10.0
_HANDSHAKE_SECONDS_MAX = 20.0
_OWN_DESCRIPTORS = 200  # for segments, the catalogue and Python: without one the store cannot write
_CONNECTIONS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class ListenAddresses:
    """The addresses on which a running store listens."""

    endpoint: str  # the URL of the S3 server
    tsm_host: str
    tsm_port: int


OnReady = Callable[[ListenAddresses, Statistics], None]  # gets the addresses, and the store's statistics


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a store process."""

    data: Path
    host: str = "127.0.0.1"
    port: int = 0  # 0: a free one
    tsm_port: int = 0  # 0: a free one
    credentials: Sequence[str] = ()  # NAME[:without=...] each
    nodes: Sequence[str] = ()
    node_passwords: Mapping[str, str] = field(default_factory=dict, repr=False)  # of nodes that get a chosen one
    password_seconds_max: float | None = None  # None: passwords of nodes do not expire
    objects_per_transaction_max: int = OBJECTS_MAX
    management_classes: Sequence[ManagementClass] = ()
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    catalogue_dir: Path | None = None  # None: the recorded one, or the data folder


def serve(settings: Settings, on_ready: OnReady, *, exit_with_parent_descriptor: int | None = None) -> None:
    """Run a store until SIGTERM, SIGINT or the end of its owner.

    Raises StoreError if the store cannot be opened or an address is in use.
    """
    tls = _tls(settings)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, tls, on_ready, exit_with_parent_descriptor))


async def _serve(
    settings: Settings,
    tls: ssl.SSLContext | None,
    on_ready: OnReady,
    exit_with_parent_descriptor: int | None,
) -> None:
    loop = asyncio.get_running_loop()
    store = Store.open(
        settings.data, catalogue_dir=settings.catalogue_dir, management_classes=settings.management_classes
    )
    try:
        now_ms = store.clock.now_ms()
        tsm_server = TsmServer(
            store,
            Nodes(settings.data, settings.nodes, settings.node_passwords, now_ms),
            say_to_stderr,
            objects_max=settings.objects_per_transaction_max,
            password_seconds_max=settings.password_seconds_max,
        )
        s3_server = S3Server(
            store,
            credentials.ensure(settings.data, settings.credentials),
            lambda: metrics.page(s3_server.requests, tsm_server.requests, store.written),
        )
        s3_connections = S3Connections(s3_server.handle, connections_max=connections_max())
        s3_listener = await _listen(s3_connections, settings.host, settings.port, "--port", tls)
        tsm_listener = await _listen(tsm_server.session, settings.host, settings.tsm_port, "--tsm-port", tls)
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        if exit_with_parent_descriptor is not None:
            loop.add_reader(exit_with_parent_descriptor, stop.set)
        # A request creates many short-lived objects and no reference cycles: rare garbage collections are enough.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        endpoint = _endpoint(settings.host, _port(s3_listener), tls is not None)
        on_ready(ListenAddresses(endpoint, _reached_as(settings.host), _port(tsm_listener)), store.statistics())
        watches = [asyncio.create_task(watch) for watch in (s3_connections.watch(), tsm_server.watch())]
        await stop.wait()
        for each in watches:
            each.cancel()
        s3_listener.close()
        tsm_listener.close()
        s3_connections.pre_shutdown()
        await s3_connections.shutdown(_DRAIN_SECONDS)
        await tsm_server.close()
    finally:
        store.close()


async def _listen(
    protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int, option: str, tls: ssl.SSLContext | None
) -> asyncio.Server:
    try:
        return await asyncio.get_running_loop().create_server(
            protocol, host, port, ssl=tls, backlog=1024, ssl_handshake_timeout=_HANDSHAKE_SECONDS_MAX if tls else None
        )
    except OSError as failed:
        raise StoreError(
            f"cannot listen on {host} port {port}: {os.strerror(failed.errno or 0)};"
            f" choose another with {option}, or 0 for any free one"
        ) from failed


def connections_max() -> int:
    """Return how many S3 connections leave descriptors for TSM sessions and the store.

    Raises the process's limit of descriptors to the highest that the system allows.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most == resource.RLIM_INFINITY:
        return _CONNECTIONS_MAX
    return min(_CONNECTIONS_MAX, max(most // 2, most - SESSIONS_MAX - _OWN_DESCRIPTORS))


def _port(listener: asyncio.Server) -> int:
    return int(listener.sockets[0].getsockname()[1])


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reached_as(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def _endpoint(host: str, port: int, is_tls: bool) -> str:
    reached = _reached_as(host)
    shown = f"[{reached}]" if ":" in reached else reached
    return f"http{'s' if is_tls else ''}://{shown}:{port}"


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if settings.tls_certificate is None:
        if settings.tls_key is not None:
            raise UsageError("--tls-key needs --tls-certificate")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(settings.tls_certificate, settings.tls_key)
    except OSError as failed:  # ssl.SSLError is one
        raise UsageError(
            f"--tls-certificate {settings.tls_certificate} or its key cannot be used: {failed}; both are PEM files"
        ) from failed
    return context


def main() -> int:
    """Run a store for `backends.embedded.process`. Users call `archiver serve`."""
    parser = argparse.ArgumentParser(prog="python -m backends.embedded.server", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--catalogue-dir", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tsm-port", type=int, default=0)
    parser.add_argument("--credential", action="append", default=[])
    parser.add_argument("--node", action="append", default=[])
    parser.add_argument("--management-class", action="append", default=[])
    parser.add_argument("--tls-certificate", type=Path)
    parser.add_argument("--tls-key", type=Path)
    parser.add_argument("--ready-fd", type=int)
    parser.add_argument("--exit-with-parent-fd", type=int)
    options = parser.parse_args()

    def ready(addresses: ListenAddresses, _: Statistics) -> None:
        line = json.dumps({**asdict(addresses), "pid": os.getpid()}) + "\n"
        if options.ready_fd is None:
            sys.stdout.write(line)
            sys.stdout.flush()
        else:
            os.write(options.ready_fd, line.encode())
            os.close(options.ready_fd)

    try:
        settings = Settings(
            data=options.data,
            host=options.host,
            port=options.port,
            tsm_port=options.tsm_port,
            credentials=options.credential,
            nodes=options.node,
            management_classes=[policy.parse_request(each) for each in options.management_class],
            tls_certificate=options.tls_certificate,
            tls_key=options.tls_key,
            catalogue_dir=options.catalogue_dir,
        )
        serve(settings, ready, exit_with_parent_descriptor=options.exit_with_parent_fd)
    except ArchiverError as failed:
        print(failed, file=sys.stderr)
        return failed.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
