"""A null S3 platform: a process that answers every request at once and keeps nothing.

One idea: what it adds to a request is as little as a real socket allows, so the rate reached against it is the
ceiling of the client and its wire path. It takes any PUT, and answers any GET of an object with the content that the
key's number stands for, so that retrieved bytes can be checked here as everywhere.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import uvloop

from archiver.content import Content
from archiver.errors import PlatformError

RUN_ID = "null"
CONTENT_SEED = 1
_RECEIVE_BYTES = 1 << 20
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_NUMBER = re.compile(rb"(\d{12})(?:[ ?])")
_PUT_REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx-amz-request-id: 0\r\nx-amz-version-id: null\r\n\r\n"
_HEAD_REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx-amz-request-id: 0\r\n\r\n"


class _Responder(asyncio.BufferedProtocol):
    """One connection; requests are parsed no further than an answer needs."""

    _buffer = memoryview(bytearray(_RECEIVE_BYTES))

    def __init__(self, content: Content, object_bytes: int) -> None:
        self._content = content
        self._object_bytes = object_bytes
        self._head = b""
        self._body_left = 0
        self._reply: tuple[bytes | memoryview, ...] = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._body_left > nbytes:
            self._body_left -= nbytes
            return
        data = self._head + bytes(self._buffer[self._body_left : nbytes])
        if self._body_left:
            self._body_left = 0
            self._transport.writelines(self._reply)
        while (end := data.find(b"\r\n\r\n")) >= 0:
            head = data[: end + 2]
            data = data[end + 4 :]
            length = _CONTENT_LENGTH.search(head)
            body = int(length[1]) if length else 0
            if b"100-continue" in head:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._reply = self._answer(head)
            if body > len(data):
                self._body_left = body - len(data)
                data = b""
            else:
                data = data[body:]
                self._transport.writelines(self._reply)
        self._head = data

    def _answer(self, head: bytes) -> tuple[bytes | memoryview, ...]:
        if head.startswith(b"PUT"):
            return (_PUT_REPLY,)
        number = _NUMBER.search(head) if head.startswith(b"GET") else None
        if number is None:
            return (_HEAD_REPLY,)
        index, size, content = int(number[1]), self._object_bytes, self._content
        reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nx-amz-request-id: 0\r\n\r\n" % size
        return reply, content.window(index, size), content.last_block(index, size)


async def _serve(object_bytes: int) -> None:
    content = Content(RUN_ID, CONTENT_SEED, object_bytes)
    server = await asyncio.get_running_loop().create_server(lambda: _Responder(content, object_bytes), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    # The starter's end of standard input closes when it ends: then so do we.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@dataclass(slots=True)
class NullResponder:
    """A running responder. Leaving the ``with`` block stops it."""

    endpoint: str
    pid: int
    _process: subprocess.Popen[bytes] = field(repr=False)

    def __enter__(self) -> NullResponder:
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def start(object_bytes: int, cores: Sequence[int] = ()) -> NullResponder:
    """Start a responder that retrieves objects of ``object_bytes``, on these cores. Raises PlatformError."""
    process = subprocess.Popen(
        [sys.executable, "-m", "backends.s3.null_responder", str(object_bytes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    if cores:
        os.sched_setaffinity(process.pid, cores)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        process.communicate()
        raise PlatformError("the null responder did not start; its error is above")
    return NullResponder(f"http://127.0.0.1:{int(line)}", process.pid, process)


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
