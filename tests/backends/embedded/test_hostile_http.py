"""Untrusted input to the S3 server: bytes that are no requests, ambiguous requests, and slow connections."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from backends.embedded.core.changes.objects import CreateBucket
from backends.embedded.core.store import Store
from backends.embedded.process import StoreProcess
from backends.embedded.s3 import credentials, xml
from backends.embedded.s3.credentials import Credential
from backends.embedded.s3.errors import S3Error
from backends.embedded.s3.requests.connection import HEADERS_MAX, LINE_BYTES_MAX, PACE_BYTES_MIN, S3Connections
from backends.embedded.s3.server import S3Server
from tests.backends.embedded.signed_requests import signed_by_botocore
from tests.support.waiting import SECONDS_MAX

HOST = "Host: store"
CHUNKED = "Transfer-Encoding: chunked"


def request(line: str, *headers: str, body: str = "") -> bytes:
    return "\r\n".join([line, *headers, "", body]).encode("latin-1")


def put(*headers: str, body: str = "") -> bytes:
    return request("PUT /b/k HTTP/1.1", HOST, *headers, body=body)


def get(*headers: str) -> bytes:
    return request("GET /b/k HTTP/1.1", HOST, *headers)


NOT_CLEAR = {
    "a length and chunks": put("Content-Length: 5", CHUNKED, body="0\r\n\r\n"),
    "chunks and a length": put(CHUNKED, "Content-Length: 5", body="0\r\n\r\n"),
    "one length twice": put("Content-Length: 1", "Content-Length: 1", body="x"),
    "two lengths": put("Content-Length: 1", "Content-Length: 2", body="xy"),
    "a list of lengths": put("Content-Length: 1, 1", body="x"),
    "a length with a sign": put("Content-Length: +1", body="x"),
    "a negative length": put("Content-Length: -1", body="x"),
    "a length in hexadecimal": put("Content-Length: 0x1", body="x"),
    "a length behind a blank": put("Content-Length : 1", body="x"),
    "no length": put("Content-Length:", body="x"),
    "a length beyond all numbers": put("Content-Length: 99999999999999999999", body="x"),
    "an unknown coding": put("Transfer-Encoding: xchunked", body="0\r\n\r\n"),
    "chunks that are not last": put("Transfer-Encoding: chunked, identity", body="0\r\n\r\n"),
    "a coding beside chunks": put("Transfer-Encoding: gzip, chunked", body="0\r\n\r\n"),
    "chunks twice": put(CHUNKED, CHUNKED, body="0\r\n\r\n"),
    "a coding with a control character": put("Transfer-Encoding:\x0bchunked", body="0\r\n\r\n"),
    "a folded header": get("x-a: b", " c"),
    "a header folded by a tab": get("x-a: b", "\tc"),
    "a first header that is folded": request("GET /b/k HTTP/1.1", " " + HOST),
    "line feeds alone": b"GET /b/k HTTP/1.1\nHost: store\n\n",
    "one line feed alone": b"GET /b/k HTTP/1.1\r\nHost: store\nx-a: y\r\n\r\n",
    "a carriage return alone": b"GET /b/k HTTP/1.1\r\nHost: store\rx-a: y\r\n\r\n",
    "a NUL in a value": get("x-a: a\0b"),
    "a NUL in the target": request("GET /b\0/k HTTP/1.1", HOST),
    "a header without a colon": get("nocolon"),
    "a blank in a name": get("a b: c"),
    "no name": get(": c"),
    "no host": request("GET /b/k HTTP/1.1"),
    "two hosts": get("Host: other"),
    "a chunk's size with a prefix": put(CHUNKED, body="0x1\r\nx\r\n0\r\n\r\n"),
    "a chunk beyond all numbers": put(CHUNKED, body="ffffffffffffffffff\r\nx\r\n0\r\n\r\n"),
    "a line feed in a chunk's extension": put(CHUNKED, body="1;a=\nb\r\nx\r\n0\r\n\r\n"),
    "chunks between line feeds": put(CHUNKED, body="1\nx\n0\n\n"),
    "a chunk that is longer than it says": put(CHUNKED, body="1\r\nxyz\r\n0\r\n\r\n"),
    "another version": request("GET /b/k HTTP/1.2", HOST),
    "version 2": request("GET /b/k HTTP/2.0", HOST),
    "the beginning of version 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no version": b"GET /b/k\r\n\r\n",
    "a method that is none": request("FOO /b/k HTTP/1.1", HOST),
    "a tunnel": request("CONNECT store:443 HTTP/1.1", HOST),
    "no target": request("OPTIONS * HTTP/1.1", HOST),
    "another host in the target": request("GET http://other/b/k HTTP/1.1", HOST),
    "a target with a beginning of the host": request("GET http://stor/b/k HTTP/1.1", HOST),
    "a target with a user": request("GET http://store@other/b/k HTTP/1.1", HOST),
    "a target that begins with no slash": request("GET b/k HTTP/1.1", HOST),
    "a fragment": request("GET /b/k#x HTTP/1.1", HOST),
    "bytes that are not UTF-8": request("GET /b/\xff HTTP/1.1", HOST),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abc\r\n\r\n",
    "too many headers": get(*(f"x-{number}: y" for number in range(HEADERS_MAX))),
}
TOO_LONG = {
    "a long value": get("x-a: " + "y" * 2 * LINE_BYTES_MAX),
    "a long name": get("x" * 2 * LINE_BYTES_MAX + ": y"),
    "a long line": request(f"GET /b/{'k' * LINE_BYTES_MAX} HTTP/1.1", HOST),
}


@contextmanager
def connected(store: StoreProcess) -> Iterator[socket.socket]:
    parts = urlsplit(store.endpoint)
    with socket.create_connection((parts.hostname, parts.port), timeout=SECONDS_MAX) as connection:
        yield connection


def answers(connection: socket.socket) -> bytes:
    """Return everything until the server closes."""
    received = b""
    with suppress(ConnectionResetError):  # The server closed with bytes unread.
        while data := connection.recv(65536):
            received += data
    return received


def codes(received: bytes) -> list[str]:
    return re.findall("<Code>(.*?)</Code>", received.decode())


@pytest.mark.parametrize("what", NOT_CLEAR)
def test_an_ambiguous_request_is_refused_and_the_rest_is_ignored(store: StoreProcess, what: str) -> None:
    with connected(store) as connection:
        connection.sendall(NOT_CLEAR[what] + request("GET /-/statistics HTTP/1.1", HOST))
        received = answers(connection)
    # If the body is invalid, the request may already be answered: it is unsigned, and so refused.
    assert codes(received) in (["BadRequest"], ["AccessDenied"])
    assert len(re.findall(rb"HTTP/1\.[01] \d\d\d", received)) == 1
    assert b" 400 " in received or CHUNKED.encode() in NOT_CLEAR[what]


@pytest.mark.parametrize("what", TOO_LONG)
def test_too_long_request_head_is_refused(store: StoreProcess, what: str) -> None:
    with connected(store) as connection:
        connection.sendall(TOO_LONG[what])
        assert codes(answers(connection)) == ["RequestHeaderSectionTooLarge"]


def test_a_refused_input_is_neither_repeated_nor_logged(store: StoreProcess) -> None:
    before = store.log()
    with connected(store) as connection:
        connection.sendall(b"GET /<script>alert(1)</script> HTTP/9.9\r\nHost: <b>store</b>\r\n\r\n")
        received = answers(connection)
    assert b"script" not in received
    assert store.log() == before


def test_values_in_error_documents_are_escaped(store: StoreProcess) -> None:
    with connected(store) as connection:
        connection.sendall(request("GET /b/<script>'&%22 HTTP/1.1", HOST, "Connection: close"))
        received = answers(connection)
    assert b"<Resource>/b/&lt;script&gt;'&amp;%22</Resource>" in received
    assert b"Content-Type: application/xml" in received


@pytest.mark.parametrize("form", ["http://{host}{path}", "HTTPS://{host}{path}"])
def test_absolute_target_with_the_servers_host_is_accepted(
    store: StoreProcess, s3: Any, bucket: str, form: str
) -> None:
    s3.put_object(Bucket=bucket, Key="a/b c", Body=b"content")
    for path in (f"/{bucket}/a/b%20c", f"/{bucket}?list-type=2&prefix=a", "/"):
        headers = signed_by_botocore("GET", store.endpoint + path, {}, (store.access_key, store.secret_key))
        target = form.format(host=headers["Host"], path=path)
        lines = [f"{name}: {value}" for name, value in {**headers, "Connection": "close"}.items()]
        with connected(store) as connection:
            connection.sendall(request(f"GET {target} HTTP/1.1", *lines))
            received = answers(connection)
        assert received.startswith(b"HTTP/1.1 200 OK")
        assert (b"content" if "b%20c" in path else bucket.encode()) in received


def test_pipelined_requests_are_answered_in_order(store: StoreProcess, bucket: str) -> None:
    paths = [f"/{bucket}/{number}" for number in range(100)]
    with connected(store) as connection:
        connection.sendall(b"".join(request(f"GET {path} HTTP/1.1", HOST) for path in paths))
        connection.sendall(request("GET /last HTTP/1.1", HOST, "Connection: close"))
        received = answers(connection).decode()
    assert re.findall("<Resource>(.*?)</Resource>", received) == [*paths, "/last"]


# Malicious and invalid documents.

ENTITIES = "".join(f'<!ENTITY e{number} "{f"&e{number - 1};" * 10}">' for number in range(1, 6))
BOMB = f'<!DOCTYPE Retention [<!ENTITY e0 "xxxxxxxxxx">{ENTITIES}]><Retention><Mode>&e5;</Mode></Retention>'
DOCUMENTS = {
    "entities": BOMB.encode(),
    "entities in UTF-16": f'<?xml version="1.0" encoding="utf-16"?>{BOMB}'.encode("utf-16"),
    "a file of the host": b'<!DOCTYPE Retention [<!ENTITY f SYSTEM "file:///etc/passwd">]><Retention>&f;</Retention>',
    "a document type of elsewhere": b'<!DOCTYPE Retention SYSTEM "http://127.0.0.1:1/x.dtd"><Retention/>',
    "a document type in small letters": b"<!doctype Retention><Retention/>",
    "elements in elements": b"<Retention>" + b"<a>" * 500_000 + b"</a>" * 500_000 + b"</Retention>",
    "elements beside elements": b"<Retention>" + b"<a/>" * 1_000_000 + b"</Retention>",
    "a name that never ends": b"<Retention" + b"x" * (3 << 20),
    "an encoding that is none": b'<?xml version="1.0" encoding="none-such"?><Retention/>',
    "an encoding of several bytes": b'<?xml version="1.0" encoding="utf-7"?><Retention/>',
    "bytes that are no text": b"<Retention>\xff\xfe\x00</Retention>",
    "more than a document may have": b"<Retention>" + b" " * (4 << 20) + b"</Retention>",
}


@pytest.mark.parametrize("what", DOCUMENTS)
def test_malicious_or_invalid_document_is_refused_as_malformed(
    store: StoreProcess, s3: Any, bucket: str, what: str
) -> None:
    version = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["VersionId"]
    body = DOCUMENTS[what]
    path = f"/{bucket}/k?retention"
    named = {"Content-MD5": base64.b64encode(hashlib.md5(body).digest()).decode()}
    headers = signed_by_botocore("PUT", store.endpoint + path, named, (store.access_key, store.secret_key))
    lines = [f"{name}: {value}" for name, value in headers.items()]
    with connected(store) as connection:
        connection.sendall(
            request(f"PUT {path} HTTP/1.1", *lines, f"Content-Length: {len(body)}", "Connection: close") + body
        )
        received = answers(connection)
    assert codes(received) == ["MalformedXML"]
    assert b"root:" not in received
    assert "ObjectLockMode" not in s3.head_object(Bucket=bucket, Key="k", VersionId=version)


def test_longest_documents_are_accepted_and_one_more_part_is_refused() -> None:
    part = "<Part><PartNumber>{0}</PartNumber><ETag>{1}</ETag><ChecksumCRC32C>yZRlqg==</ChecksumCRC32C></Part>"
    parts = "".join(part.format(number, "0" * 32) for number in range(1, 10_001))
    body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"
    assert len(xml.parse_completion(body.encode())) == 10_000
    one_more = parts + part.format(10_001, "0" * 32)
    with pytest.raises(S3Error, match="well-formed"):
        xml.parse_completion(f"<CompleteMultipartUpload>{one_more}</CompleteMultipartUpload>".encode())
    named = "<Object><Key>{0:01024}</Key><VersionId>00000000000000000000000000000000</VersionId></Object>"
    keys = "".join(map(named.format, range(1000)))
    assert len(xml.parse_delete(f"<Delete>{keys}</Delete>".encode("utf-16"))[0]) == 1000


# Limits of time and of connections, on a server in this process.


class RunningS3Server:
    """An S3 server with time limits that the test sets."""

    def __init__(self, store: Store, credential: Credential, connections: S3Connections, port: int) -> None:
        self.store = store
        self.connections = connections
        self._credential = credential
        self._port = port

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port)

    def signed(self, method: str, path: str, *lines: str) -> bytes:
        url = f"http://127.0.0.1:{self._port}{path}"
        keys = self._credential.access_key, self._credential.secret_key
        headers = signed_by_botocore(method, url, {}, keys)
        return request(f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), *lines)

    async def all_are(self, condition: Callable[[Any], bool], count: int) -> None:
        """Wait until there are `count` connections and the condition is true of all."""
        async with asyncio.timeout(SECONDS_MAX):
            while len(found := self.connections.connections) != count or not all(map(condition, found)):  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    def look(self, seconds_later: float) -> None:
        now = asyncio.get_running_loop().time() + seconds_later
        for each in self.connections.connections:
            each.drop_if_slow(now)  # type: ignore[attr-defined]


@pytest.fixture
async def s3_server(data_dir: Path) -> AsyncIterator[RunningS3Server]:
    store = Store.open(data_dir)
    await store.change(CreateBucket("b", object_lock=False))
    known = credentials.ensure(data_dir, ())
    connections = S3Connections(S3Server(store, known, lambda: "").handle, connections_max=3)
    listener = await asyncio.get_running_loop().create_server(connections, "127.0.0.1", 0)
    yield RunningS3Server(store, known["default"], connections, listener.sockets[0].getsockname()[1])
    listener.close()
    await connections.shutdown(1)
    store.close()


def has_sent(count: int, connection: Any) -> bool:
    return bool(connection._arrived_bytes == count)


async def ended(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(SECONDS_MAX):
        with suppress(ConnectionResetError):
            return await reader.read()
    return b""


async def test_a_slow_head_is_dropped(s3_server: RunningS3Server) -> None:
    reader, writer = await s3_server.connect()
    writer.write(b"GET / HTTP/1.1\r\nHost: ")
    await s3_server.all_are(lambda each: each._head_since is not None, 1)
    s3_server.look(50)
    writer.write(b"st")
    await s3_server.all_are(lambda each: each._arrived_bytes == 24, 1)
    s3_server.look(59)
    writer.write(b"ore\r\n\r\n")
    assert b"403" in await reader.readline()  # in time
    writer.write(b"GET / HTTP/1.1\r\n")
    await s3_server.all_are(lambda each: each._head_since is not None, 1)
    s3_server.look(61)
    assert b"HTTP/" not in await ended(reader)
    writer.close()


async def test_idle_connection_is_not_dropped(s3_server: RunningS3Server) -> None:
    reader, writer = await s3_server.connect()
    writer.write(s3_server.signed("GET", "/b"))
    assert b"200" in await reader.readline()
    for seconds in (30, 61, 122):
        s3_server.look(seconds)
    writer.write(s3_server.signed("GET", "/b", "Connection: close"))
    assert b"HTTP/1.1 200" in await ended(reader)
    writer.close()


async def test_a_slow_body_is_dropped_and_leaves_nothing(s3_server: RunningS3Server) -> None:
    size = 40 << 20
    reader, writer = await s3_server.connect()
    writer.write(s3_server.signed("PUT", "/b/k", f"Content-Length: {size}"))
    await s3_server.all_are(lambda each: each._current_request is not None, 1)
    s3_server.look(0)
    for minute, sent_bytes in ((1, PACE_BYTES_MIN), (2, PACE_BYTES_MIN), (3, PACE_BYTES_MIN - 1)):
        enough = s3_server.connections.connections[0]._arrived_bytes + sent_bytes  # type: ignore[attr-defined]
        writer.write(bytes(sent_bytes))
        await s3_server.all_are(partial(has_sent, enough), 1)
        s3_server.look(minute * 60 + 1)
    assert await ended(reader) == b""
    await s3_server.all_are(bool, 0)
    writer.close()
    reader, writer = await s3_server.connect()
    writer.write(s3_server.signed("HEAD", "/b/k", "Connection: close"))
    assert b" 404 " in await ended(reader)
    writer.close()


async def test_an_answer_that_is_not_read_is_dropped(s3_server: RunningS3Server) -> None:
    reader, writer = await s3_server.connect()
    size = 24 << 20
    writer.write(s3_server.signed("PUT", "/b/k", f"Content-Length: {size}") + bytes(size))
    assert b"200" in await reader.readline()
    writer.close()
    await s3_server.all_are(bool, 0)
    with socket.create_connection(("127.0.0.1", s3_server._port)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(s3_server.signed("GET", "/b/k"))
        await s3_server.all_are(lambda each: each._connection.get_write_buffer_size() > 0 and each._paused, 1)
        s3_server.look(0)
        s3_server.look(59)
        assert len(s3_server.connections.connections) == 1
        s3_server.look(61)
        await s3_server.all_are(bool, 0)


async def test_the_number_of_connections_is_limited(s3_server: RunningS3Server) -> None:
    first = [await s3_server.connect() for _ in range(3)]
    await s3_server.all_are(bool, 3)
    reader, writer = await s3_server.connect()
    refused = await ended(reader)
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert codes(refused) == ["SlowDown"]
    writer.close()
    first[0][1].close()
    await s3_server.all_are(bool, 2)
    reader, writer = await s3_server.connect()
    writer.write(s3_server.signed("GET", "/b", "Connection: close"))
    assert b"HTTP/1.1 200" in await ended(reader)
    for _, each in (*first[1:], (reader, writer)):
        each.close()


def test_slow_heads_and_bodies_do_not_delay_others(store: StoreProcess, s3: Any, bucket: str) -> None:
    with ExitStack() as slow:
        for number in range(200):
            connection = slow.enter_context(connected(store))
            connection.sendall(b"GET / HTTP/1.1\r\n" if number % 2 else put("Content-Length: 1000", body="x"))
        s3.put_object(Bucket=bucket, Key="k", Body=b"x")
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"
