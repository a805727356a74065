"""A lying platform as a server on loopback, for commands in other processes.

One idea: each request goes through a LyingClient, signed again with the keys of the owner of the store behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from archiver.worm.requests.exchange import S3Client
from tests.support.servers.lying_client import Lie, LyingClient, lying

_OF_THE_WAY = {"authorization", "connection", "content-length", "host", "transfer-encoding"}
_SIGNED_ANEW = {"x-amz-content-sha256", "x-amz-date", "x-amz-security-token"}


class LyingServer(ThreadingHTTPServer):
    """A server that sends each request through ``client`` and returns its answer."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.client: LyingClient

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: LyingServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        left_out = _OF_THE_WAY | _SIGNED_ANEW
        headers = [(name, value) for name, value in self.headers.items() if name.lower() not in left_out]
        client = self.server.client
        headers += client.signing_headers(self.command, self.path, headers, body)
        answer = client._exchange(self.command, self.path, headers, body)
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            if name not in _OF_THE_WAY or (self.command == "HEAD" and name == "content-length"):
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


@contextmanager
def lying_server(honest: S3Client, bucket: str) -> Iterator[LyingServer]:
    """Run a server for the block. It forwards all requests until ``tell`` gives it a lie."""
    with LyingServer() as server:
        tell(server, honest, lambda asked, _: asked.pass_on(), bucket)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def tell(server: LyingServer, honest: S3Client, lie: Lie, bucket: str) -> None:
    """Make the server use this lie from now on."""
    server.client = lying(honest, lie, bucket)
