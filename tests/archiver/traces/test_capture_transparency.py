"""Test that `archiver capture` passes every byte unchanged, also if one side breaks off.

The test is both client and store, with plain sockets.
"""

from __future__ import annotations

import hashlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from archiver.values.record import Status
from tests.archiver.traces.capturing import HANG_SECONDS, Capture, capturing

MIB = 1 << 20
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Ends:
    """Open connections through the proxy and accept them at the other end."""

    def __init__(self, capture: Capture, listener: socket.socket) -> None:
        self.capture = capture
        self._listener = listener
        self._open: list[socket.socket] = []

    def connect(self) -> tuple[socket.socket, socket.socket]:
        client = socket.create_connection(("127.0.0.1", self.capture.port), HANG_SECONDS)
        store, _ = self._listener.accept()
        store.settimeout(HANG_SECONDS)
        self._open += [client, store]
        return client, store

    def close(self) -> None:
        for each in self._open:
            each.close()
        self._open.clear()


@pytest.fixture(scope="module")
def capture_and_listener(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Capture, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        listener.settimeout(HANG_SECONDS)
        out = tmp_path_factory.mktemp("capture") / "raw.parquet"
        with capturing(out, f"http://127.0.0.1:{listener.getsockname()[1]}") as capture:
            listener.accept()[0].close()  # the capture checked that the upstream answers
            yield capture, listener


@pytest.fixture
def ends(capture_and_listener: tuple[Capture, socket.socket]) -> Iterator[Ends]:
    ends = Ends(*capture_and_listener)
    yield ends
    ends.close()


def exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = sock.recv(min(MIB, size - len(data)))
        assert piece, f"the connection ended after {len(data)} of {size} bytes"
        data += piece
    return data


def to_end(sock: socket.socket) -> bytes:
    data = b""
    while piece := sock.recv(MIB):
        data += piece
    return data


def pass_on(source: socket.socket, target: socket.socket, data: bytes) -> None:
    source.sendall(data)
    assert exactly(target, len(data)) == data


def send_while_it_is_taken(sock: socket.socket, size: int, digest: hashlib._Hash) -> int:
    """Send up to ``size`` bytes until no more are accepted for 0.3 s; return the number sent."""
    piece = bytes(range(256)) * 4096
    sock.settimeout(0.3)
    passed = 0
    while passed < size:
        start = passed % MIB
        try:
            count = sock.send(piece[start:])
        except TimeoutError:
            break
        digest.update(piece[start : start + count])
        passed += count
    return passed


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def get(key: str, headers: bytes = b"") -> bytes:
    return b"GET /b/%b HTTP/1.1\r\nHost: h\r\n%b\r\n" % (key.encode(), headers)


def put(key: str, size: int, headers: bytes = b"") -> bytes:
    return b"PUT /b/%b HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n%b\r\n" % (key.encode(), size, headers)


def test_headers_pass_unchanged_in_order_case_and_spaces(ends: Ends) -> None:
    client, store = ends.connect()
    request = (
        b"PUT /b/odd?x-id=PutObject HTTP/1.1\r\nx-AMZ-Date:20261121T110327Z\r\nhOST:   elsewhere:1 \r\nX-Twice: b\r\n"
        b"x-twice: a\r\nAccept-Encoding: identity\r\nContent-Length:3\r\n\r\nabc"
    )
    answer = (
        b"HTTP/1.1 200 Fine Indeed\r\nx-amz-Z: 1\r\nX-AMZ-a:2\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked"
        b"\r\n\r\n4;x=y\r\n\x1f\x8b\x00\x01\r\n0\r\nX-Trailer: t\r\n\r\n"
    )
    pass_on(client, store, request)
    pass_on(store, client, answer)
    (row,) = ends.capture.rows_so_far("b/odd", 1)
    assert (row.operation, row.size_bytes, row.status) == ("archive", 3, Status.OK)
    assert row.sent_ns is not None
    assert row.first_byte_ns is not None
    assert row.done_ns is not None
    assert row.due_ns == row.sent_ns <= row.first_byte_ns <= row.done_ns


def test_body_after_100_continue_passes_with_chunks_and_trailer(ends: Ends) -> None:
    client, store = ends.connect()
    chunks = b"5;chunk-signature=%b\r\nhello\r\n0;chunk-signature=%b\r\nx-amz-checksum-crc32c:AAAAAA==\r\n\r\n" % (
        b"a" * 64,
        b"b" * 64,
    )
    headers = b"Expect: 100-continue\r\nContent-Encoding: aws-chunked\r\nx-amz-decoded-content-length: 5\r\n"
    pass_on(client, store, put("waits", len(chunks), headers))
    pass_on(store, client, b"HTTP/1.1 100 Continue\r\n\r\n")
    pass_on(client, store, chunks)
    pass_on(store, client, OK)
    (row,) = ends.capture.rows_so_far("b/waits", 1)
    assert (row.operation, row.size_bytes, row.status) == ("archive", 5, Status.OK)


def test_early_refusal_reaches_a_client_that_is_still_sending(ends: Ends) -> None:
    client, store = ends.connect()
    pass_on(client, store, put("early", 10) + b"01234")
    pass_on(store, client, b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
    pass_on(client, store, b"56789" + get("early"))
    pass_on(store, client, OK)
    refused, read = ends.capture.rows_so_far("b/early", 2)
    assert (refused.operation, refused.status, refused.size_bytes) == ("archive", 403, 10)
    assert (read.operation, read.status) == ("retrieve", Status.OK)


def test_answers_without_a_body_do_not_hide_the_next_answer(ends: Ends) -> None:
    client, store = ends.connect()
    pass_on(client, store, b"HEAD /b/none HTTP/1.1\r\nHost: h\r\n\r\n")
    pass_on(store, client, b"HTTP/1.1 200 OK\r\nContent-Length: 4711\r\n\r\n")
    pass_on(client, store, get("none", b'If-None-Match: "e"\r\n'))
    pass_on(store, client, b"HTTP/1.1 304 Not Modified\r\nContent-Length: 4711\r\n\r\n")
    pass_on(client, store, b"DELETE /b/none?versionId=v HTTP/1.1\r\nHost: h\r\n\r\n")
    pass_on(store, client, b"HTTP/1.1 204 No Content\r\n\r\n")
    pass_on(client, store, get("none", b"Range: bytes=-2\r\n"))
    answer = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 8-9/10\r\nContent-Length: 2\r\n\r\nxy"
    pass_on(store, client, answer)
    found = [
        (row.operation, row.status, row.size_bytes, row.offset, row.length)
        for row in ends.capture.rows_so_far("b/none", 4)
    ]
    assert found == [
        ("head", 0, 4711, None, None),
        ("retrieve", 304, None, None, None),
        ("delete", 0, None, None, None),
        ("range-retrieve", 0, 10, 8, 2),
    ]


def test_pipelined_requests_are_recorded_in_order(ends: Ends) -> None:
    client, store = ends.connect()
    pass_on(client, store, put("ahead", 2) + b"ab" + get("ahead") + get("ahead", b"Range: bytes=0-0\r\n"))
    pass_on(store, client, OK + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab")
    pass_on(store, client, b"HTTP/1.1 206 P\r\nContent-Range: bytes 0-0/2\r\nContent-Length: 1\r\n\r\na")
    rows = ends.capture.rows_so_far("b/ahead", 3)
    assert [(row.operation, row.size_bytes) for row in rows] == [("archive", 2), ("retrieve", 2), ("range-retrieve", 2)]
    assert len({(row.client, row.session) for row in rows}) == 1


def test_a_half_closed_connection_still_gets_its_answer(ends: Ends) -> None:
    client, store = ends.connect()
    client.sendall(get("half"))
    client.shutdown(socket.SHUT_WR)
    assert to_end(store) == get("half")
    answer = b"HTTP/1.0 200 OK\r\n\r\nuntil the end"
    store.sendall(answer)
    store.close()
    assert to_end(client) == answer
    (row,) = ends.capture.rows_so_far("b/half", 1)
    assert (row.operation, row.size_bytes, row.status) == ("retrieve", 13, Status.OK)


def test_upstream_close_in_mid_body_is_recorded_as_truncated(ends: Ends) -> None:
    client, store = ends.connect()
    pass_on(client, store, get("dies"))
    part = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this"
    store.sendall(part)
    store.close()
    assert to_end(client) == part
    client.close()
    (row,) = ends.capture.rows_so_far("b/dies", 1)
    assert (row.operation, row.size_bytes, row.status) == ("retrieve", 1000, Status.TRUNCATED)
    assert row.first_byte_ns is not None


def test_upstream_reset_reaches_the_client_and_is_recorded_as_truncated(ends: Ends) -> None:
    client, store = ends.connect()
    pass_on(client, store, get("reset"))
    pass_on(store, client, b"HTTP/1.1 200 OK\r\n\r\nnot all of it")
    reset(store)
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    (row,) = ends.capture.rows_so_far("b/reset", 1)
    assert row.status == Status.TRUNCATED


def test_upstream_close_without_an_answer_is_recorded(ends: Ends) -> None:
    client, store = ends.connect()
    pass_on(client, store, get("nothing"))
    store.close()
    assert to_end(client) == b""
    client.close()
    (row,) = ends.capture.rows_so_far("b/nothing", 1)
    assert (row.operation, row.status, row.first_byte_ns) == ("retrieve", Status.CONNECTION_LOST, None)


def test_client_reset_in_mid_upload_reaches_the_store_and_is_recorded(ends: Ends) -> None:
    client, store = ends.connect()
    pass_on(client, store, put("gone", 1000) + b"x" * 10)
    reset(client)
    with pytest.raises(ConnectionResetError):
        store.recv(1)
    (row,) = ends.capture.rows_so_far("b/gone", 1)
    assert (row.operation, row.size_bytes, row.status) == ("archive", 1000, Status.CONNECTION_LOST)


@pytest.mark.parametrize("direction", ["upload", "download"])
def test_blocked_receiver_stops_the_sender_without_buffering_in_memory(ends: Ends, direction: str) -> None:
    client, store = ends.connect()
    size = 256 * MIB
    source, sink = (client, store) if direction == "upload" else (store, client)
    if direction == "upload":
        pass_on(client, store, put(direction, size))
    else:
        pass_on(client, store, get(direction))
        pass_on(store, client, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
    before = psutil.Process(ends.capture.process.pid).memory_info().rss
    sent, taken = hashlib.sha256(), hashlib.sha256()
    passed = send_while_it_is_taken(source, size, sent)
    assert passed < 64 * MIB
    assert psutil.Process(ends.capture.process.pid).memory_info().rss - before < 32 * MIB
    total = passed
    while total:
        data = sink.recv(min(MIB, total))
        taken.update(data)
        total -= len(data)
    assert taken.digest() == sent.digest()


def test_non_http_bytes_pass_and_are_one_row(ends: Ends) -> None:
    client, store = ends.connect()
    pass_on(client, store, b"\x16\x03\x01\x02\x00" + bytes(200) + b"\r\n\r\n")
    pass_on(store, client, b"whatever\r\n\r\n")
    pass_on(client, store, b"more")
    (row, *_) = ends.capture.rows_so_far("", 1)
    assert (row.operation, row.status) == ("other", Status.PROTOCOL_ERROR)


def test_concurrent_connections_are_recorded_as_separate_sessions(ends: Ends) -> None:
    pairs = [ends.connect() for _ in range(300)]
    by_name = {}
    for number, (client, _) in enumerate(pairs):
        client.sendall(get(f"many{number:04d}"))
        by_name[b"many%04d" % number] = client
    for _, store in pairs:
        request = exactly(store, len(get("many0000")))
        store.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n" + request[7:15])
        assert exactly(by_name[request[7:15]], 46)[-8:] == request[7:15]
    sessions = {
        (row.client, row.session) for number in range(300) for row in ends.capture.rows_so_far(f"b/many{number:04d}", 1)
    }
    assert len(sessions) == 300


def test_no_secret_reaches_the_journal(ends: Ends) -> None:
    client, store = ends.connect()
    signed = (
        b"Authorization: AWS4-HMAC-SHA256 Credential=AKIDSECRET/20261121/us-east-1/s3/aws4_request, Signature=feedface"
    )
    pass_on(client, store, get("signed", signed + b"\r\nx-amz-security-token: TOKENSECRET\r\n"))
    pass_on(store, client, OK)
    pass_on(
        client,
        store,
        b"GET /b/signed?X-Amz-Credential=AKIDSECRET%2F20261121&X-Amz-Signature=feedface"
        b"&X-Amz-Security-Token=TOKENSECRET&versionId=VERSIONSECRET HTTP/1.1\r\nHost: h\r\n\r\n",
    )
    pass_on(store, client, OK)
    first, second = ends.capture.rows_so_far("b/signed", 2)
    assert first.client == second.client  # the same credential in a header and in a URL
    text = "\n".join(ends.capture.journal_lines())
    assert "SECRET" not in text
    assert "feedface" not in text


def test_second_ctrl_c_cuts_off_a_running_operation_and_records_it(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        capturing(tmp_path / "cut.parquet", f"http://127.0.0.1:{listener.getsockname()[1]}") as capture,
    ):
        listener.accept()[0].close()
        ends = Ends(capture, listener)
        client, store = ends.connect()
        pass_on(client, store, get("whole"))
        pass_on(store, client, OK)
        pass_on(client, store, get("under-way"))
        rows = capture.end(at_once=True)
        ends.close()
    assert [(row.key, row.status) for row in rows] == [("b/whole", Status.OK), ("b/under-way", Status.CONNECTION_LOST)]
    assert "1 operations had not ended when the capture ended, and are cut off" in capture.said
