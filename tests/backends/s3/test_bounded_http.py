"""The control plane reads an answer up to a length and for a time, and uses its connection again."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

import pytest

from archiver.values.errors import PlatformError
from backends.s3 import bounded_http
from backends.s3.control import Control, Credentials
from tests.backends.s3.conftest import Scripted
from tests.backends.s3.scripted_answers import LOCK_CONFIGURATION
from tests.support.servers.hostile import Answer, hostile
from tests.support.servers.scripted import serve


def control_of(endpoint: str) -> Control:
    keys = Credentials("any", "key", None)
    return Control(endpoint, "us-east-1", keys, verify=True, connect_timeout_seconds=60, read_timeout_seconds=60)


def endless(handler: BaseHTTPRequestHandler) -> None:
    """Send a listing without an end, until the client closes the connection."""
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    try:
        while True:
            handler.wfile.write(b"10000\r\n" + b"<A/>".ljust(0x10000) + b"\r\n")
    except OSError:
        pass


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [("ANSWER_BYTES_MAX", 1 << 20, "longer than 1 MiB"), ("READ_TIMEOUTS_MAX", 0.0, "has begun, but does not end")],
)
def test_listing_without_end_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: float, words: str
) -> None:
    monkeypatch.setattr(bounded_http, limit, value)
    with (
        hostile(
            "answers chosen requests otherwise",
            chosen=lambda asked: "versions" in asked.query,
            otherwise=lambda *_: Answer(200, sends=endless),
        ) as server,
        pytest.raises(PlatformError, match=words),
    ):
        control_of(server.endpoint).versions_of("b", "k")


def test_control_plane_uses_its_connection_again(scripted: Scripted) -> None:
    server = scripted(then=[serve(lambda _: LOCK_CONFIGURATION)])
    control = control_of(server.url)
    assert [control.lock_of_bucket("b").enabled for _ in range(3)] == [True] * 3
    assert (server.connections, len(server.requests)) == (1, 3)
