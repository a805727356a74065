"""Ending a server as a crash would, and starting it again on the same data, port and credentials.

One idea: only a server that Archiver started may be killed; what it had acknowledged must be there again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from urllib.parse import urlsplit

from archiver.platforms import servers
from archiver.platforms.hosted import HostedStore
from archiver.platforms.opening import EmbeddedStore
from backends.embedded import process as embedded

Restart = Callable[[], AbstractContextManager[None]]  # the new server runs for as long as the block lasts


def restart_of(hosted: HostedStore | None) -> Restart | None:
    """How this store is restarted; None for one that somebody else started.

    To restart raises PlatformError, in the server's own words, where it does not come back.
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
    os.kill(server.pid, signal.SIGKILL)
    os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)  # whoever started it still asks how it ended
    with servers.running(server.name, server.folder, port=_port(server.endpoint), access=server.access):
        yield


def _port(endpoint: str) -> int:
    port = urlsplit(endpoint).port
    assert port is not None
    return port
