"""Variants of MinIO: with several drives and metrics that require a token, and without metrics of version 3.

One idea: both are a real MinIO. In front of the second a proxy answers 403 for the metrics pages of version 3, as
releases without them do.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.servers import real

READY_SECONDS_MAX = 60.0
ACCESS_KEY, SECRET_KEY = "the-access-key", "the-secret-key"
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class GuardedMinio:
    """A MinIO with four drives whose metrics require a token."""

    endpoint: str
    drives: tuple[Path, ...]

    def token(self) -> str:
        """Return a token as MinIO's client makes it: a JWT, signed with the secret key."""
        claims = {"exp": int(time.time()) + 3600, "sub": ACCESS_KEY, "iss": "prometheus"}
        signed = b".".join(_base64(json.dumps(part).encode()) for part in ({"alg": "HS512", "typ": "JWT"}, claims))
        signature = hmac.new(SECRET_KEY.encode(), signed, hashlib.sha512).digest()
        return (signed + b"." + _base64(signature)).decode()


@contextmanager
def guarded_minio(folder: Path) -> Iterator[GuardedMinio]:
    program = real.need("minio")
    drives = tuple(folder / f"drive{number}" for number in range(1, 5))
    for drive in drives:
        drive.mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(program), "server", *map(str, drives), "--address", f"127.0.0.1:{port}", "--quiet"],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "MINIO_ROOT_USER": ACCESS_KEY,
                "MINIO_ROOT_PASSWORD": SECRET_KEY,
                "MINIO_BROWSER": "off",
                "MINIO_UPDATE": "off",
                "MINIO_CI_CD": "1",  # allows several drives on one device
                "MINIO_PROMETHEUS_AUTH_TYPE": "jwt",
            },
        )
    try:
        endpoint = f"http://127.0.0.1:{port}"
        _wait_until_healthy(process, endpoint, folder / "log")
        yield GuardedMinio(endpoint, drives)
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def before_third_form(endpoint: str) -> Iterator[str]:
    """Run a proxy in front of ``endpoint`` that hides the metrics of version 3; yield its address."""

    class WithoutThirdForm(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/minio/metrics/v3"):
                self._answer(403, [("Content-Type", "application/xml")], b"<Error><Code>AccessDenied</Code></Error>")
                return
            asked = urllib.request.Request(endpoint + self.path, headers=dict(self.headers.items()))
            try:
                with _NO_PROXY.open(asked, timeout=20) as answer:
                    self._answer(answer.status, answer.headers.items(), answer.read())
            except urllib.error.HTTPError as refused:
                with refused:
                    self._answer(refused.code, refused.headers.items(), refused.read())

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), WithoutThirdForm) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            serving.join()


def _wait_until_healthy(process: subprocess.Popen[bytes], endpoint: str, log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            with _NO_PROXY.open(f"{endpoint}/minio/health/cluster", timeout=5):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"MinIO did not become healthy: {log.read_text()}")


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
