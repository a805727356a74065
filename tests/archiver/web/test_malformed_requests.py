"""Test that `archiver web` answers malformed requests with 400, and that none of them reaches the terminal."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.archiver.web.served import started_web

HEADS = {  # {host} is the server's own, {path} its first page
    "OPTIONS *": "OPTIONS * HTTP/1.1\r\nHost: {host}",
    "CONNECT": "CONNECT a:1 HTTP/1.1\r\nHost: {host}",
    "two Hosts": "GET {path} HTTP/1.1\r\nHost: {host}\r\nHost: evil.example",
    "no Host": "GET {path} HTTP/1.1",
    "absolute target": "GET http://{host}{path} HTTP/1.1\r\nHost: {host}",
    "absolute target without a path": "GET http://{host} HTTP/1.1\r\nHost: {host}",
    "absolute target on another host": "GET http://evil.example{path} HTTP/1.1\r\nHost: {host}",
    "absolute target with a wrong port": "GET http://a:99999/ HTTP/1.1\r\nHost: {host}",
    "target without a slash": "GET page HTTP/1.1\r\nHost: {host}",
    "control character in the target": "GET {path}\x00\x1b[31m HTTP/1.1\r\nHost: {host}",
    "long target": "GET /" + "a" * 100_000 + " HTTP/1.1\r\nHost: {host}",
    "long header": "GET {path} HTTP/1.1\r\nHost: {host}\r\nX: " + "a" * 100_000,
    "many headers": "GET {path} HTTP/1.1\r\nHost: {host}" + "\r\nX: a" * 30_000,
    "two lengths": "GET {path} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nContent-Length: 5",
    "HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM",
    "TLS": "\x16\x03\x01\x02\x00\x01",
}


def test_malformed_requests_get_400_and_no_line_on_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCHIVER_HOME", str(tmp_path))
    with started_web("--port", "0", stderr=subprocess.PIPE) as (process, address):
        found = urlsplit(address)
        statuses = {}
        for name, head in HEADS.items():
            with socket.create_connection(("127.0.0.1", found.port or 0), timeout=20.0) as client:
                client.sendall((head.format(host=found.netloc, path=found.path) + "\r\n\r\n").encode("latin-1"))
                statuses[name] = client.makefile("rb").readline().split()[1:2]
        with socket.create_connection(("127.0.0.1", found.port or 0), timeout=20.0) as client:
            client.sendall(
                f"POST {found.path} HTTP/1.1\r\nHost: {found.netloc}\r\nContent-Encoding: gzip\r\n"
                "Content-Length: 5\r\n\r\nwrong".encode()
            )
            assert client.makefile("rb").read(12) == b"HTTP/1.1 405"
        process.terminate()
        assert process.communicate(timeout=20.0)[1] == ""
    assert statuses == {name: [b"400"] for name in HEADS}
