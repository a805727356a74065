"""A simulated S3 platform that stores no data. The test sets its clock, its locks and its refusals."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}  # the platform accepts any keys
LOCK_ENABLED = b"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>"


class _Server(ThreadingHTTPServer):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.archived: dict[str, dict[str, str]] = {}  # lock headers by path


class Pretender(BaseHTTPRequestHandler):
    """The request handler of the platform. Its class attributes are the behaviour that a test can change."""

    server: _Server
    protocol_version = "HTTP/1.1"
    clock_ahead = timedelta()
    lock: Callable[[dict[str, str]], dict[str, str]] = staticmethod(lambda asked: asked)  # requested -> reported lock
    refuses_buckets = False
    configuration = LOCK_ENABLED
    objects_max = 1 << 30  # further objects are refused

    def log_message(self, format: str, *args: object) -> None:
        pass

    def date_time_string(self, timestamp: float | None = None) -> str:
        return format_datetime(datetime.now(UTC) + type(self).clock_ahead, usegmt=True)

    def do_GET(self) -> None:
        lists = {"versions": b"ListVersionsResult", "uploads": b"ListMultipartUploadsResult"}
        name = next((name for word, name in lists.items() if f"?{word}" in self.path), b"ListAllMyBucketsResult")
        self._answer(200, {}, self.configuration if "object-lock" in self.path else b"<%s></%s>" % (name, name))

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.path.count("/") < 2 or self.path.endswith("/"):
            self._answer(503 if self.refuses_buckets else 200, {})
            return
        if len(self.server.archived) >= self.objects_max:
            self._answer(403, {}, b"<Error><Code>AccessDenied</Code></Error>")
            return
        names = ("mode", "retain-until-date", "legal-hold")
        asked = {name: self.headers[f"x-amz-object-lock-{name}"] for name in names}
        self.server.archived[self.path] = {name: text for name, text in asked.items() if text}
        self._answer(200, {"ETag": '"e"'})

    def do_DELETE(self) -> None:
        self._answer(204, {})

    def do_HEAD(self) -> None:
        asked = self.server.archived.get(self.path, {})
        locks = type(self).lock(dict(asked)) if self.path.count("/") > 2 else {}
        self._answer(200, {f"x-amz-object-lock-{name}": text for name, text in locks.items()})

    def _answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def pretending(**behaviour: Any) -> Iterator[tuple[str, dict[str, dict[str, str]]]]:
    """Run a platform with this behaviour. Yield its endpoint, and the lock headers of each archived object by path."""
    with _Server(("127.0.0.1", 0), type("Platform", (Pretender,), behaviour)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", server.archived
        finally:
            server.shutdown()
