"""Scripted S3 servers, started for one test and stopped after it."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest

from tests.support.servers.scripted import ScriptedServer, Step

Scripted = Callable[..., ScriptedServer]


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    """Starts scripted servers: ``scripted(script, script, then=script)``, a script for each connection in turn."""
    with ExitStack() as running:

        def start(
            *scripts: Sequence[Step], then: Sequence[Step] = (), tls: ssl.SSLContext | None = None
        ) -> ScriptedServer:
            server = ScriptedServer(scripts, then, tls)
            server.start()

            def stop() -> None:
                server.stop()
                assert server.failures == []

            running.callback(stop)
            return server

        yield start
