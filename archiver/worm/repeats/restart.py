"""Kills a server as a crash would, and starts it again on the same data, port and credentials.

One idea: Archiver kills only servers that it started. The restarted server must have everything that it acknowledged.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

import psutil

from archiver.platforms import servers
from archiver.platforms.hosted import HostedStore
from archiver.platforms.opening import EmbeddedStore
from backends.embedded import process as embedded

Restart = Callable[[], AbstractContextManager[None]]  # the new server runs for the length of the block


def restart_of(hosted: HostedStore | None) -> Restart | None:
    """Return a function that restarts this store; None if Archiver did not start it.

    The function raises PlatformError, with the server's messages, if the server does not start again.
    """
    if isinstance(hosted, EmbeddedStore):
        return lambda: _embedded(hosted.process)
    if isinstance(hosted, servers.Server):
        return lambda: _server(hosted)
    return None


@contextmanager
def _embedded(store: embedded.StoreProcess) -> Iterator[None]:
    store.kill()
    with embedded.start(store.data_dir, port=_port(store.endpoint), tsm_port=store.tsm_port):
        yield


@contextmanager
def _server(server: servers.Server) -> Iterator[None]:
    kill(server.pid)
    with servers.running(server.name, server.folder, port=_port(server.endpoint), access=server.access):
        yield


def kill(pid: int) -> None:
    """Kill a process with all its descendants, and wait until they have ended; their parents collect the statuses."""
    server = psutil.Process(pid)
    with ExitStack() as opened:
        handles = []
        for process in (server, *server.children(recursive=True)):
            with suppress(ProcessLookupError):  # it has ended meanwhile
                handles.append(os.pidfd_open(process.pid))
                opened.callback(os.close, handles[-1])
        for handle in handles:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        for handle in handles:
            end = select.poll()
            end.register(handle, select.POLLIN)
            end.poll()


def _port(endpoint: str) -> int:
    port = urlsplit(endpoint).port
    assert port is not None
    return port
