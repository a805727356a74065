"""Boundaries of HTTP/1.1 messages in a stream of bytes.

One idea: the reader only observes. It gets bytes that the proxy has already forwarded, and reports the end of a
message's head and of its body. It counts the bytes of a body and keeps only short documents, on request. It raises
Unreadable for bytes that are not HTTP/1.1.

Reference: RFC 9112, section 6.3, "Message Body Length".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

HEAD_BYTES_MAX = 64 * 1024
DOCUMENT_BYTES_MAX = 4 << 20  # more than 1000 keys to delete, or 10,000 parts
_LINE_BYTES_MAX = 16 * 1024
_LENGTH = re.compile(rb"\d{1,18}")
_CHUNK_SIZE = re.compile(rb"\s*([0-9A-Fa-f]{1,15})\s*(?:;.*)?", re.DOTALL)


class Unreadable(Exception):
    """The bytes are not an HTTP/1.1 message; the rest of the connection cannot be parsed either."""


class Framing(Enum):
    """Rule that determines the end of a body."""

    LENGTH = 1
    CHUNKED = 2
    TO_END = 3  # to the end of the connection


@dataclass(frozen=True, slots=True)
class Body:
    """The body that follows a head: its framing, its length if known, and whether to keep its bytes."""

    framing: Framing
    length: int = 0
    wanted: bool = False


# Called with a head, without its blank line, and the time of its first byte; returns the body. Raises Unreadable.
HeadRead = Callable[[bytes, int], Body]
# Called at the end of a body with its size without framing, the kept body or None, and the time.
BodyRead = Callable[[int, bytes | None, int], None]


def headers_of(head: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """Return the first line, and headers by lower-case name; the last of repeated headers wins."""
    first, *lines = head.split(b"\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(b":")
        headers[name.lower()] = value.strip()
    return first, headers


def body_of(headers: dict[bytes, bytes], otherwise: Body, *, wanted: bool = False) -> Body:
    """Return the framing that the headers specify, or ``otherwise`` if they specify none. Raises Unreadable."""
    if headers.get(b"transfer-encoding", b"").lower().endswith(b"chunked"):
        return Body(Framing.CHUNKED, wanted=wanted)
    length = headers.get(b"content-length")
    if length is None:
        return otherwise
    if _LENGTH.fullmatch(length) is None:
        raise Unreadable("its Content-Length is not a number")
    return Body(Framing.LENGTH, int(length), wanted)


class ChunkReader:
    """Reader of chunks of HTTP and of aws-chunked, which have the same form.

    ``payload``, if given, collects the bytes inside the chunks.
    """

    def __init__(self, payload: bytearray | None = None) -> None:
        self.size_bytes = 0
        self.finished = False
        self.payload = payload
        self._left = 0  # bytes of the chunk and of its line end
        self._line = b""
        self._in_trailer = False

    def feed(self, data: bytes, at: int) -> int:
        """Read from position ``at``; return the position after the last byte read. Raises Unreadable."""
        end = len(data)
        while at < end and not self.finished:
            if self._left:
                taken = min(self._left, end - at)
                content = min(taken, max(0, self._left - 2))
                self.size_bytes += content
                if self.payload is not None and len(self.payload) <= DOCUMENT_BYTES_MAX:
                    self.payload += data[at : at + content]
                self._left -= taken
                at += taken
                continue
            newline = data.find(b"\n", at)
            if newline < 0:
                self._line += data[at:]
                at = end
                if len(self._line) > _LINE_BYTES_MAX:
                    raise Unreadable("a chunk's size line is too long")
                break
            line = (self._line + data[at:newline]).rstrip(b"\r")
            self._line = b""
            at = newline + 1
            self._take(line)
        return at

    def _take(self, line: bytes) -> None:
        if self._in_trailer:
            self.finished = not line
            return
        size = _CHUNK_SIZE.fullmatch(line)
        if size is None:
            raise Unreadable("a chunk does not begin with its size")
        self._left = int(size[1], 16)
        if self._left:
            self._left += 2
        else:
            self._in_trailer = True


class MessageReader:
    """Reader of the messages in one direction of one connection."""

    __slots__ = (
        "_begun_ns",
        "_body",
        "_body_read",
        "_chunks",
        "_head",
        "_head_read",
        "_left",
        "_payload",
        "body_bytes",
    )

    def __init__(self, head_read: HeadRead, body_read: BodyRead) -> None:
        self._head_read = head_read
        self._body_read = body_read
        self.body_bytes = 0  # of the current message, so far
        self._head = b""
        self._begun_ns = 0
        self._body: Body | None = None  # of the current message, after its head
        self._left = 0
        self._chunks: ChunkReader | None = None
        self._payload: bytearray | None = None

    def feed(self, data: bytes, now_ns: int) -> None:
        """Read the next bytes, which arrived at ``now_ns``. Raises Unreadable."""
        size = len(data)
        if self._left > size and self._payload is None:  # most bytes of a large body take this path
            self._left -= size
            self.body_bytes += size
            return
        at = 0
        while at < size:
            if self._body is None:
                at = self._feed_head(data, at, now_ns)
            elif self._chunks is not None:
                at = self._chunks.feed(data, at)
                self.body_bytes = self._chunks.size_bytes
                if self._chunks.finished:
                    self._end(now_ns)
            else:
                at = self._feed_body(data, at, now_ns)

    def connection_ended(self, now_ns: int) -> None:
        """Record the end of the connection, which is the end of some bodies."""
        if self._body is not None and self._body.framing is Framing.TO_END:
            self._end(now_ns)

    def _feed_head(self, data: bytes, at: int, now_ns: int) -> int:
        if not self._head:
            while at < len(data) and data[at] in b"\r\n":  # ignore blank lines before a message
                at += 1
            if at == len(data):
                return at
            self._begun_ns = now_ns
        length = len(self._head)
        if length:
            self._head += data[at : at + HEAD_BYTES_MAX + 4]
            end = self._head.find(b"\r\n\r\n", max(0, length - 3))
            head, after = self._head[:end], at + end + 4 - length
        else:
            end = data.find(b"\r\n\r\n", at)
            head, after = data[at:end], end + 4
            if end < 0:
                self._head = data[at:]
        if end < 0:
            if len(self._head) > HEAD_BYTES_MAX:
                raise Unreadable(f"no head ends within {HEAD_BYTES_MAX} bytes")
            return len(data)
        self._head = b""
        self._begin(self._head_read(head, self._begun_ns), now_ns)
        return after

    def _begin(self, body: Body, now_ns: int) -> None:
        self._body = body
        self.body_bytes = 0
        self._payload = bytearray() if body.wanted else None
        if body.framing is Framing.CHUNKED:
            self._chunks = ChunkReader(self._payload)
        elif body.framing is Framing.LENGTH:
            self._left = body.length
            if not self._left:
                self._end(now_ns)

    def _feed_body(self, data: bytes, at: int, now_ns: int) -> int:
        assert self._body is not None
        ends = self._body.framing is Framing.LENGTH
        taken = min(self._left, len(data) - at) if ends else len(data) - at
        self.body_bytes += taken
        if self._payload is not None and len(self._payload) <= DOCUMENT_BYTES_MAX:
            self._payload += data[at : at + taken]
        if ends:
            self._left -= taken
            if not self._left:
                self._end(now_ns)
        return at + taken

    def _end(self, now_ns: int) -> None:
        kept = self._payload
        document = bytes(kept) if kept is not None and len(kept) <= DOCUMENT_BYTES_MAX else None
        size_bytes = self.body_bytes
        self._body = self._chunks = self._payload = None
        self.body_bytes = 0
        self._body_read(size_bytes, document, now_ns)
