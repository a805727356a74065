"""Answers for scripted servers, and short views of the records that follow."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from awscrt import checksums as crt

from archiver.values.record import Operation, Recorder
from tests.backends.s3.s3_sessions import CONTENT, SIZE, Row
from tests.support.servers.scripted import Request

BARE = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx-amz-request-id: R-1\r\n\r\n"


OK = BARE.removesuffix(b"\r\n") + b'ETag: "e"\r\n\r\n'


DENIED_BODY = b"<Error><Code>AccessDenied</Code><Message>Access Denied by policy</Message></Error>"


DENIED = (
    b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\nx-amz-request-id: R-9\r\n\r\n" % len(DENIED_BODY) + DENIED_BODY
)


SLOW_DOWN_BODY = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"


SLOW_DOWN = (
    b"HTTP/1.1 503 Slow Down\r\nRetry-After: 1\r\nx-amz-request-id: R-8\r\nContent-Length: %d\r\n\r\n"
    % len(SLOW_DOWN_BODY)
    + SLOW_DOWN_BODY
)


NOT_FOUND_BODY = b"<Error><Code>NoSuchKey</Code><Message>The key does not exist.</Message></Error>"


NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n" % len(NOT_FOUND_BODY) + NOT_FOUND_BODY


def content_reply(number: int, *headers: bytes, body: bytes | None = None, length: int | None = None) -> bytes:
    """The reply to a retrieve, correct unless the arguments change it."""
    if body is None:
        body = CONTENT.whole(number, SIZE)
    lines = [b"HTTP/1.1 200 OK", b"Content-Length: %d" % (len(body) if length is None else length), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def document_reply(body: bytes) -> bytes:
    """The reply of a success with a document."""
    return BARE.replace(b"Content-Length: 0", b"Content-Length: %d" % len(body)) + body


LOCK_CONFIGURATION = document_reply(
    b"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>"
)


RETENTION_READ = document_reply(b"<Retention><Mode>GOVERNANCE</Mode></Retention>")


def honest(request: Request) -> bytes:
    """Answer as a working store does."""
    if request.method != "GET":
        return OK
    if request.target.endswith("?object-lock="):
        return LOCK_CONFIGURATION
    return RETENTION_READ if request.target.endswith("?retention=") else content_reply(int(request.target[-12:]))


def operations(rows: Sequence[Row]) -> list[Operation]:
    return [Operation(row.operation) for row in rows]


def errors_of(record: Recorder) -> list[tuple[str, str, int]]:
    return [(kind.operation, kind.reason, kind.count) for kind in record.errors.values()]


CHECKSUMS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "crc32c": ("x-amz-checksum-crc32c", lambda data: crt.crc32c(data).to_bytes(4, "big")),
    "crc64nvme": ("x-amz-checksum-crc64nvme", lambda data: crt.crc64nvme(data).to_bytes(8, "big")),
    "md5": ("content-md5", lambda data: hashlib.md5(data, usedforsecurity=False).digest()),
}
