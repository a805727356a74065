"""Long bodies, which bypass the parser: how their bytes arrive, invalid bodies, and the connection afterwards."""

from __future__ import annotations

import base64
import hashlib
import random
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, Any
from urllib.parse import urlsplit

import pytest
from awscrt import checksums
from botocore.exceptions import ClientError

from backends.embedded.core.files.digests import BLOCK_BYTES
from backends.embedded.core.files.segments import LARGE_BYTES
from backends.embedded.process import StoreProcess
from backends.embedded.s3.requests import chunks
from backends.embedded.s3.requests.connection import LONG_BYTES_MIN
from tests.backends.embedded.raw_exchanges import head_of
from tests.backends.embedded.signed_requests import signed_by_botocore

LONG = 3 * BLOCK_BYTES + 17
SIZES = [
    LONG_BYTES_MIN - 1, LONG_BYTES_MIN, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, LONG, LARGE_BYTES,
    LARGE_BYTES + 1, LARGE_BYTES + LONG,
]  # fmt: skip


def content(size: int) -> bytes:
    return random.Random(size).randbytes(size)


class Connection:
    """A connection to the store that is kept open."""

    def __init__(self, store: StoreProcess, bucket: str, sent: socket.socket, answers: IO[bytes]) -> None:
        self._store = store
        self._bucket = bucket
        self.socket = sent
        self._answers = answers

    def head(self, method: str, key: str, size: int, **headers: str) -> bytes:
        url = f"{self._store.endpoint}/{self._bucket}/{key}"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        signed = signed_by_botocore(method, url, named, (self._store.access_key, self._store.secret_key))
        length = {} if "Transfer-Encoding" in named else {"Content-Length": str(size)}
        return head_of(method, urlsplit(url).path, signed | length)

    def put(self, key: str, body: bytes, **headers: str) -> bytes:
        return self.head("PUT", key, len(body), **headers) + body

    def answer(self) -> tuple[int, bytes]:
        """Status and body of the next answer; status 0 if the server has closed."""
        status = self._answers.readline()
        size = 0
        while (line := self._answers.readline().strip()) and status:
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        return (int(status.split()[1]) if status else 0), self._answers.read(size)

    def has(self, key: str, body: bytes) -> bool:
        self.socket.sendall(self.head("GET", key, 0))
        return self.answer() == (200, body)


@pytest.fixture
def connection(store: StoreProcess, bucket: str) -> Iterator[Connection]:
    with connected(store, bucket) as opened:
        yield opened


@contextmanager
def connected(store: StoreProcess, bucket: str) -> Iterator[Connection]:
    parts = urlsplit(store.endpoint)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as opened, opened.makefile("rb") as answers:
        yield Connection(store, bucket, opened, answers)


def is_absent(s3: Any, bucket: str) -> bool:
    return "Versions" not in s3.list_object_versions(Bucket=bucket)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("first", [0, 1, 100_000])
def test_a_long_body_is_stored_as_it_was_sent(connection: Connection, size: int, first: int) -> None:
    body = content(size)
    head = connection.head("PUT", "k", size, Expect="100-continue")
    connection.socket.sendall(head)
    assert connection.answer() == (100, b"")  # The server now waits for the body, which arrives in two pieces.
    connection.socket.sendall(body[:first])
    connection.socket.sendall(body[first:])
    assert connection.answer() == (200, b"")
    assert connection.has("k", body)


def test_concurrent_bodies_have_separate_digests(s3: Any, bucket: str) -> None:
    """Also if some of them are refused."""
    bodies = [content(LONG_BYTES_MIN + 70_001 * number) for number in range(24)]
    wrong = base64.b64encode(hashlib.md5(b"another body").digest()).decode()

    def put(number: int) -> str:
        claim = {"ContentMD5": wrong} if number % 5 == 2 else {}
        try:
            return str(s3.put_object(Bucket=bucket, Key=f"k{number}", Body=bodies[number], **claim)["ETag"])
        except ClientError as refused:
            return str(refused.response["Error"]["Code"])

    with ThreadPoolExecutor(len(bodies)) as clients:
        answers = list(clients.map(put, range(len(bodies))))
    assert answers == [
        "BadDigest" if number % 5 == 2 else f'"{hashlib.md5(body).hexdigest()}"' for number, body in enumerate(bodies)
    ]


def test_pipelined_requests_after_long_bodies_are_answered_in_order(connection: Connection) -> None:
    bodies = {f"k{number}": content(size) for number, size in enumerate(SIZES)}
    puts = b"".join(connection.put(key, body) + connection.head("GET", key, 0) for key, body in bodies.items())
    sender = threading.Thread(target=connection.socket.sendall, args=(puts,))
    sender.start()
    for body in bodies.values():
        assert connection.answer() == (200, b"")
        assert connection.answer() == (200, body)
    sender.join()


@pytest.mark.parametrize("size", [LONG_BYTES_MIN, LONG, LARGE_BYTES + LONG])
def test_long_body_in_http_chunks_is_stored(connection: Connection, size: int) -> None:
    body = content(size)
    pieces = [body[start : start + 300_000] for start in range(0, size, 300_000)]
    framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""])
    signed = {"x-amz-content-sha256": chunks.UNSIGNED_TRAILER, "x-amz-decoded-content-length": str(size)}
    wrapped = b"%x\r\n%b\r\n" % (len(framed), framed) + b"0\r\n\r\n"
    connection.socket.sendall(connection.head("PUT", "k", 0, **signed, Transfer_Encoding="chunked") + wrapped)
    assert connection.answer() == (200, b"")
    assert connection.has("k", body)


@pytest.mark.parametrize("size", [LONG_BYTES_MIN, BLOCK_BYTES, LONG, LARGE_BYTES + LONG])
@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("x-amz-content-sha256", "XAmzContentSHA256Mismatch"),
        ("x-amz-checksum-crc32c", "BadDigest"),
        ("Content-MD5", "BadDigest"),
    ],
)
def test_body_with_one_wrong_bit_is_refused_and_not_stored(
    s3: Any, connection: Connection, bucket: str, header: str, code: str, size: int
) -> None:
    body = content(size)
    digest = {
        "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
        "x-amz-checksum-crc32c": base64.b64encode(checksums.crc32c(body).to_bytes(4, "big")).decode(),
        "Content-MD5": base64.b64encode(hashlib.md5(body).digest()).decode(),
    }[header]
    for position in (0, size // 2, size - 1):
        wrong = bytearray(body)
        wrong[position] ^= 1
        connection.socket.sendall(connection.put("k", bytes(wrong), **{header: digest}))
        status, document = connection.answer()
        assert (status, f"<Code>{code}</Code>".encode() in document) == (400, True)
    assert is_absent(s3, bucket)
    connection.socket.sendall(connection.put("k", body, **{header: digest}))
    assert connection.answer() == (200, b"")


@pytest.mark.parametrize("size", [LONG_BYTES_MIN, LONG, LARGE_BYTES + LONG])
@pytest.mark.parametrize("missing", [1, 200_000])
@pytest.mark.parametrize("how", ["half closed", "closed", "reset"])
def test_a_body_that_ends_too_early_leaves_nothing(
    s3: Any, store: StoreProcess, bucket: str, size: int, missing: int, how: str
) -> None:
    with connected(store, bucket) as cut:
        cut.socket.sendall(cut.put("k", content(size))[:-missing])
        if how == "half closed":
            cut.socket.shutdown(socket.SHUT_WR)
            assert cut.answer()[0] in (0, 400)
        elif how == "reset":
            cut.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s3.put_object(Bucket=bucket, Key="other", Body=content(LONG))
    with pytest.raises(ClientError, match="404"):
        s3.head_object(Bucket=bucket, Key="k")


@pytest.mark.parametrize("size", [LONG, LARGE_BYTES + LONG])
def test_body_refused_early_is_read_to_its_end_and_connection_continues(
    s3: Any, connection: Connection, bucket: str, size: int
) -> None:
    """The second chunk is malformed. A client that sends the whole body first gets the answer and may continue."""
    framed = b"%x\r\n%b\r\nno size\r\n" % (BLOCK_BYTES, content(BLOCK_BYTES))
    body = framed + content(size - len(framed))
    signed = {"x-amz-content-sha256": chunks.UNSIGNED_TRAILER, "x-amz-decoded-content-length": str(size)}
    connection.socket.sendall(connection.put("k", body, **signed))
    status, document = connection.answer()
    assert (status, b"<Code>InvalidRequest</Code>" in document) == (400, True)
    assert is_absent(s3, bucket)
    connection.socket.sendall(connection.put("k", body))
    assert connection.answer() == (200, b"")
    assert connection.has("k", body)


def test_body_sent_after_its_answer_is_read_to_its_end(store: StoreProcess) -> None:
    with connected(store, "no-such-bucket") as connection:
        for _ in range(2):
            connection.socket.sendall(connection.head("PUT", "k", LONG))
            status, document = connection.answer()
            assert (status, b"<Code>NoSuchBucket</Code>" in document) == (404, True)
            connection.socket.sendall(content(LONG))


@pytest.mark.parametrize("size", [LONG_BYTES_MIN, LONG, LARGE_BYTES + LONG])
@pytest.mark.parametrize("difference", [-1, 1, -200_000, 2 * BLOCK_BYTES])
def test_a_body_of_another_length_than_announced_leaves_nothing(
    s3: Any, connection: Connection, bucket: str, size: int, difference: int
) -> None:
    sent = content(size + difference)
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(sent), sent)
    signed = {"x-amz-content-sha256": chunks.UNSIGNED_TRAILER, "x-amz-decoded-content-length": str(size)}
    connection.socket.sendall(connection.put("k", framed, **signed))
    status, document = connection.answer()
    assert (status, b"<Code>IncompleteBody</Code>" in document) == (400, True)
    assert is_absent(s3, bucket)
    connection.socket.sendall(connection.put("k", sent))
    assert connection.answer() == (200, b"")
