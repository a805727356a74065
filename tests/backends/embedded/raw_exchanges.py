"""Requests sent as raw bytes, and their answers."""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from urllib.parse import urlsplit

from backends.embedded.process import StoreProcess
from tests.support.waiting import SECONDS_MAX


def head_of(method: str, target: str, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


def exchanged(store: StoreProcess, data: bytes) -> bytes:
    """Send these bytes. Returns all that the server answers until it closes."""
    parts = urlsplit(store.endpoint)
    received = b""
    with (
        socket.create_connection((parts.hostname, parts.port), timeout=SECONDS_MAX) as connection,
        suppress(ConnectionError),
    ):
        connection.sendall(data)
        while more := connection.recv(65536):
            received += more
    return received


def is_done(received: bytes) -> bool:
    return re.match(rb"HTTP/1\.1 2\d\d ", received) is not None
