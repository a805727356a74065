"""A null S3 platform: a process that answers every request at once and stores nothing.

One idea: it adds as little to a request as a real socket allows, so the rate against it is the upper limit of the
client and its wire path. It accepts any PUT. It answers a GET of any object with the content of the key's number (its
first version), so that the client can verify it. The size of an object follows from its number, too.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import uvloop

from archiver.values.content import Content
from archiver.values.errors import PlatformError

RUN_ID = "null"
# With its private key, which protects nothing: the responder listens on loopback and stores nothing, and only the
# clients under measurement trust it.
CERTIFICATE = Path(__file__).with_name("null_certificate.pem")
CONTENT_SEED = 1
_RECEIVE_BYTES = 1 << 20
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_NUMBER = re.compile(rb"(\d{12})(?:[ ?])")
_PART_REPLY = b'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx-amz-request-id: 0\r\nETag: "0"\r\n\r\n'
_PUT_REPLY = _PART_REPLY.removesuffix(b"\r\n") + b"x-amz-version-id: null\r\n\r\n"
_HEAD_REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx-amz-request-id: 0\r\n\r\n"
_DELETE_REPLY = b"HTTP/1.1 204 No Content\r\nx-amz-request-id: 0\r\n\r\n"
_MARKER_REPLY = _DELETE_REPLY.removesuffix(b"\r\n") + b"x-amz-delete-marker: true\r\n\r\n"
# minio-go reads an object only if the answer has this header.
_LAST_MODIFIED = b"Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
_RANGE = re.compile(rb"\r\nrange: *bytes=(\d+)-(\d+)", re.IGNORECASE)
_FIRST_LINE_BYTES_MAX = 300  # a query begins within this


def _document(name: bytes, elements: bytes) -> bytes:
    body = b"<%b>%b</%b>" % (name, elements, name)
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nx-amz-request-id: 0\r\n\r\n%b" % (len(body), body)


_COPY_REPLY = _document(b"CopyObjectResult", b'<ETag>"0"</ETag>')
_CREATE_REPLY = _document(b"InitiateMultipartUploadResult", b"<UploadId>0</UploadId>")
_CONFIGURATION_REPLY = _document(b"ObjectLockConfiguration", b"<ObjectLockEnabled>Enabled</ObjectLockEnabled>")
_RETENTION_REPLY = _document(b"Retention", b"<Mode>GOVERNANCE</Mode>")
_COMPLETE_REPLY = _document(b"CompleteMultipartUploadResult", b'<ETag>"0"</ETag>')


class _ServedObjects:
    """The content of every object that a client can request."""

    def __init__(self, sizes: Sequence[tuple[int, int]]) -> None:
        """``sizes`` are (first number, bytes of the objects from that number), by rising number."""
        self._firsts = [first for first, _ in sizes]
        self._sizes = [size_bytes for _, size_bytes in sizes]
        self._content = Content(RUN_ID, CONTENT_SEED, max(self._sizes))

    def find(self, number: int) -> tuple[int, memoryview, bytes]:
        """Return the size and the two pieces of the content."""
        size_bytes = self._sizes[max(0, bisect_right(self._firsts, number) - 1)]
        content = self._content
        return size_bytes, content.window(number, size_bytes), content.last_block(number, size_bytes)


class _Responder(asyncio.BufferedProtocol):
    """One connection; it parses requests only as far as an answer needs."""

    _buffer = memoryview(bytearray(_RECEIVE_BYTES))

    def __init__(self, objects: _ServedObjects) -> None:
        self._objects = objects
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
            self._reply = self._answer(head, body)
            if body > len(data):
                self._body_left = body - len(data)
                data = b""
            else:
                data = data[body:]
                self._transport.writelines(self._reply)
        self._head = data

    def _answer(self, head: bytes, body_bytes: int) -> tuple[bytes | memoryview, ...]:
        if head.startswith(b"PUT"):
            if head.find(b"?partNumber=", 0, _FIRST_LINE_BYTES_MAX) > 0:
                return (_PART_REPLY,)
            return (_COPY_REPLY if not body_bytes and b"x-amz-copy-source" in head else _PUT_REPLY,)
        if head.startswith((b"GET", b"HEAD")):
            number = _NUMBER.search(head)
            if number is None:  # a request for the bucket
                return (_CONFIGURATION_REPLY if head.startswith(b"GET") else _HEAD_REPLY,)
            if head[number.end() - 1] == ord("?"):
                return (_RETENTION_REPLY,)
            return self._retrieve(head, int(number[1]))
        if head.startswith(b"DELETE"):
            return (_DELETE_REPLY if head.find(b"?", 0, _FIRST_LINE_BYTES_MAX) > 0 else _MARKER_REPLY,)
        return (_CREATE_REPLY if head.find(b"?uploads", 0, _FIRST_LINE_BYTES_MAX) > 0 else _COMPLETE_REPLY,)

    def _retrieve(self, head: bytes, number: int) -> tuple[bytes | memoryview, ...]:
        size_bytes, window, last_block = self._objects.find(number)
        whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%bx-amz-request-id: 0\r\n\r\n" % (size_bytes, _LAST_MODIFIED)
        if head.startswith(b"HEAD"):
            return (whole,)
        part = _RANGE.search(head)
        if part is None:
            return whole, window, last_block
        first, end = int(part[1]), min(int(part[2]) + 1, size_bytes)
        reply = (
            b"HTTP/1.1 206 Partial Content\r\nContent-Length: %d\r\nContent-Range: bytes %d-%d/%d\r\n%b"
            b"x-amz-request-id: 0\r\n\r\n" % (end - first, first, end - 1, size_bytes, _LAST_MODIFIED)
        )
        split = len(window)
        return reply, window[first:end], last_block[max(0, first - split) : max(0, end - split)]


async def _serve(sizes: Sequence[tuple[int, int]], with_tls: bool) -> None:
    objects, tls = _ServedObjects(sizes), None
    if with_tls:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(CERTIFICATE)
    server = await asyncio.get_running_loop().create_server(lambda: _Responder(objects), "127.0.0.1", 0, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    # The parent's end of standard input closes when the parent ends; then this process ends.
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


def start(
    sizes: int | Sequence[tuple[int, int]], cores: Sequence[int] = (), *, with_tls: bool = False
) -> NullResponder:
    """Start a responder on these cores. Raises PlatformError.

    ``sizes``: bytes of every object, or (first number, bytes of the objects from that number), by rising number.
    """
    process = _start_program()
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        objects = [(0, sizes)] if isinstance(sizes, int) else sizes
        process.stdin.write(json.dumps((objects, with_tls)).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except BrokenPipeError:
        line = b""
    if not line:
        process.communicate()
        raise PlatformError("the null responder did not start; its error is above")
    if cores:
        os.sched_setaffinity(process.pid, cores)
    return NullResponder(f"http{'s' * with_tls}://127.0.0.1:{int(line)}", process.pid, process)


def _start_program() -> subprocess.Popen[bytes]:
    """Start a process that reads the sizes from its standard input and then prints its port."""
    return subprocess.Popen(
        [sys.executable, "-m", "backends.s3.null_responder"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def main() -> None:
    """Serve until the parent process ends."""
    uvloop.run(_serve(*json.loads(sys.stdin.readline())))


if __name__ == "__main__":
    main()
