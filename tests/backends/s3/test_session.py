"""An S3 session against a server that plays a script: what it sends and records, and how it ends."""

from __future__ import annotations

import base64
import errno
import hashlib
import itertools
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NoReturn

import pytest

from archiver.values.record import Operation, Recorder, Status
from archiver.values.retention import Retention, RetentionMode
from backends.base import SAMPLE_EVERY, Batch
from backends.s3.wire.connection import HttpConnection
from tests.backends.s3.s3_sessions import (
    CONTENT,
    SIZE,
    archives,
    data_plane,
    in_loop,
    one_session,
    record_of_sessions,
    retrieves,
    rows_of,
)
from tests.backends.s3.scripted_answers import (
    CHECKSUMS,
    DENIED,
    NOT_FOUND,
    OK,
    SLOW_DOWN,
    content_reply,
    errors_of,
    honest,
    operations,
)
from tests.support.servers.scripted import (
    HANG_SECONDS,
    Request,
    ScriptedServer,
    Step,
    close,
    read,
    replies,
    reset,
    send,
    send_byte_by_byte,
    serve,
    wait_for,
)

Scripted = Callable[..., ScriptedServer]
LATE = 1.0  # seconds; the timeouts of tests in which the server is silent

REDIRECT = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://other:9000/\r\nContent-Length: 0\r\n\r\n"


# A session without errors.


@pytest.mark.parametrize("batch", [archives(1, 2, 3), retrieves(1, 2, 3)], ids=["archive", "retrieve"])
def test_session_uses_one_connection_and_records_open_objects_close(scripted: Scripted, batch: Batch) -> None:
    server = scripted(then=[serve(honest)])
    rows = rows_of(record := record_of_sessions(data_plane(server.url), batch, batch))
    one = [Operation.OPEN, *batch.operation, Operation.CLOSE]
    assert operations(rows) == one * 2
    assert [row.number for row in rows] == [0, 1, 2, 3, 0] * 2
    assert [row.bytes for row in rows] == [0, SIZE, SIZE, SIZE, 0] * 2
    assert {(row.status, row.attempts, row.endpoint) for row in rows} == {(Status.OK, 1, 0)}
    assert record.errors == {}
    assert server.connections == 2
    assert [request.connection for request in server.requests] == [0, 0, 0, 1, 1, 1]


def test_row_times_are_ordered_and_next_object_follows_last(scripted: Scripted) -> None:
    server = scripted(then=[serve(honest)])
    before_ns = time.monotonic_ns()
    rows = rows_of(record_of_sessions(data_plane(server.url), archives(1, 2, 3)))
    for row in rows:
        assert row.due_ns <= row.sent_ns <= row.first_byte_ns <= row.done_ns
        assert row.done_ns - row.due_ns >= row.done_ns - row.sent_ns  # response time, service time
    opening, *objects, closing = rows
    assert opening.due_ns == 1  # the engine's due time, not the time of sending
    assert before_ns <= opening.sent_ns
    assert opening.done_ns <= objects[0].due_ns
    assert all(after.due_ns == before.done_ns for before, after in itertools.pairwise(objects))
    assert objects[-1].done_ns <= closing.sent_ns
    for request, row in zip(server.requests, objects, strict=True):
        assert row.sent_ns < request.received_ns < row.first_byte_ns  # the time on the wire is inside


def test_one_request_at_a_time_is_on_the_wire(scripted: Scripted) -> None:
    server = scripted(then=[serve(honest)])
    rows = rows_of(record_of_sessions(data_plane(server.url), archives(1, 2, 3)))[1:-1]
    for row, request in zip(rows[:-1], server.requests[1:], strict=True):
        assert request.received_ns > row.done_ns


def test_reply_that_arrives_byte_by_byte_is_accepted(scripted: Scripted) -> None:
    numbers = (1, 2)
    script = [step for number in numbers for step in (read, send_byte_by_byte(content_reply(number)))]
    server = scripted(script)
    rows = rows_of(record_of_sessions(data_plane(server.url), retrieves(*numbers)))
    assert [row.bytes for row in rows] == [0, SIZE, SIZE, 0]


def test_large_objects_are_archived_and_retrieved_whole(scripted: Scripted) -> None:
    size = 1 << 20
    stored: dict[str, bytes] = {}

    def store(request: Request) -> bytes:
        if request.method == "PUT":
            stored[request.target] = request.body
            return OK
        return content_reply(0, body=stored[request.target])

    server = scripted(then=[serve(store)])
    plane = data_plane(server.url, size_bytes=size)
    batches = archives(1, 2, size_bytes=size), retrieves(2, 1, size_bytes=size)
    rows = rows_of(record := record_of_sessions(plane, *batches))
    assert record.errors == {}
    assert [row.bytes for row in rows] == [0, size, size, 0] * 2
    assert list(stored.values()) == [CONTENT.whole(1, size), CONTENT.whole(2, size)]


def test_clients_go_round_robin_over_the_endpoints(scripted: Scripted) -> None:
    servers = [scripted(then=[serve(honest)]) for _ in range(2)]
    plane, record = data_plane(*(server.url for server in servers)), Recorder(100)

    async def work() -> None:
        for client in range(4):
            await one_session(plane, archives(client), record, client)

    in_loop(work)
    assert [row.endpoint for row in rows_of(record) if row.operation == Operation.ARCHIVE] == [0, 1, 0, 1]
    assert [[request.target[-1] for request in server.requests] for server in servers] == [["0", "2"], ["1", "3"]]
    assert servers[1].requests[0].headers["host"] == f"127.0.0.1:{servers[1].port}"


def test_f13_connection_sets_tcp_nodelay(scripted: Scripted) -> None:
    server = scripted(then=[serve(honest)])
    session = data_plane(server.url).session(0)

    async def work() -> int:
        record = Recorder(10)
        await session.open(record, 1)
        assert session._connection is not None
        transport = session._connection._transport  # nothing else shows the option
        assert transport is not None
        option: int = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await session.close(record)
        return option

    assert in_loop(work) != 0


# Requests on the wire.


@pytest.mark.parametrize(
    ("kind", "request_line"),
    [
        ("connect", None),
        ("head-bucket", "HEAD /bucket-1 HTTP/1.1"),
        ("lock-config", "GET /bucket-1?object-lock= HTTP/1.1"),
    ],
)
def test_session_open_sends_chosen_request(scripted: Scripted, kind: str, request_line: str | None) -> None:
    of_head = b"HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n"
    server = scripted([serve(lambda request: of_head if request.method == "HEAD" else honest(request))])
    rows = rows_of(record_of_sessions(data_plane(server.url, session_open=kind), archives(1, 2)))
    assert operations(rows) == [Operation.OPEN, Operation.ARCHIVE, Operation.ARCHIVE, Operation.CLOSE]
    assert {row.status for row in rows} == {Status.OK}
    lines = [request.head.split(b"\r\n")[0].decode() for request in server.requests]
    puts = [f"PUT /bucket-1/run/00000000000{number} HTTP/1.1" for number in (1, 2)]
    assert lines == [*([request_line] if request_line else []), *puts]
    if request_line:
        opening_row = rows[0]
        assert opening_row.sent_ns < opening_row.first_byte_ns < server.requests[0].received_ns < opening_row.done_ns


@pytest.mark.parametrize("payload_signing", [False, True])
@pytest.mark.parametrize("checksum", [*CHECKSUMS, "none"])
@pytest.mark.parametrize("size_bytes", [1, 63, 64, SIZE])
def test_an_archive_request_carries_body_length_checksum_and_payload_hash(
    scripted: Scripted, checksum: str, payload_signing: bool, size_bytes: int
) -> None:
    server = scripted(then=[serve(honest)])
    plane = data_plane(server.url, checksum=checksum, payload_signing=payload_signing, size_bytes=size_bytes)
    record_of_sessions(plane, archives(70, 71, size_bytes=size_bytes))
    assert len(server.requests) == 2
    for number, request in zip((70, 71), server.requests, strict=True):
        headers, whole = request.headers, CONTENT.whole(number, size_bytes)
        assert request.target == f"/bucket-1/run/{number:012d}"
        assert request.body == whole
        assert headers["content-length"] == str(size_bytes)
        assert headers["host"] == f"127.0.0.1:{server.port}"
        sent = {name: value for name, value in headers.items() if "checksum" in name or name == "content-md5"}
        name_and_function = CHECKSUMS.get(checksum)
        assert sent == (
            {name_and_function[0]: base64.b64encode(name_and_function[1](whole)).decode()} if name_and_function else {}
        )
        payload = hashlib.sha256(whole).hexdigest() if payload_signing else "UNSIGNED-PAYLOAD"
        assert headers["x-amz-content-sha256"] == payload
        assert "expect" not in headers


@pytest.mark.parametrize(
    ("retention", "mode", "hold"),
    [
        (Retention(RetentionMode.GOVERNANCE, 300.0), "GOVERNANCE", None),
        (Retention(RetentionMode.COMPLIANCE, 300.0), "COMPLIANCE", None),
        (Retention(RetentionMode.GOVERNANCE, 300.0, legal_hold=True), "GOVERNANCE", "ON"),
        (Retention(RetentionMode.NONE, None, legal_hold=True), None, "ON"),
        (Retention(RetentionMode.NONE, None), None, None),
    ],
)
def test_f8_each_lock_has_signed_header_and_whole_second_date(
    scripted: Scripted, retention: Retention, mode: str | None, hold: str | None
) -> None:
    server, offset = scripted(then=[serve(honest)]), 86400.25  # a server whose clock is a day ahead
    before = int(time.time() + offset)
    record_of_sessions(data_plane(server.url, retention=retention, clock_offset_seconds=offset), archives(1))
    after = int(time.time() + offset)
    headers = server.requests[0].headers
    locks = {name: value for name, value in headers.items() if "object-lock" in name}
    until = locks.pop("x-amz-object-lock-retain-until-date", None)
    expected = {"x-amz-object-lock-mode": mode, "x-amz-object-lock-legal-hold": hold}
    assert locks == {name: value for name, value in expected.items() if value}
    assert (until is not None) == (mode is not None)
    if until is not None:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", until)
        assert before + 300 <= datetime.fromisoformat(until).timestamp() <= after + 300
    signed = headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    assert set(signed) == set(headers) - {"authorization", "content-length"}
    signed_at = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    assert before <= signed_at <= after  # the server's clock too
    assert "x-amz-bypass-governance-retention" not in headers


def test_event_hold_is_sent_only_with_non_expiring_objects(scripted: Scripted) -> None:
    server = scripted(then=[serve(honest)])
    retention = Retention(RetentionMode.GOVERNANCE, 300.0, event_hold_days=30)
    expiring = replace(archives(2), retain_for_seconds=10.0)
    record_of_sessions(data_plane(server.url, retention=retention), archives(1), expiring)
    held, other = ({n: v for n, v in each.headers.items() if "event-hold" in n} for each in server.requests)
    assert held == {"x-amz-object-lock-event-hold": "ON", "x-amz-object-lock-event-hold-duration-days": "30"}
    assert other == {}


def test_explicit_retain_until_date_is_sent_unchanged(scripted: Scripted) -> None:
    server = scripted(then=[serve(honest)])
    retention = Retention(RetentionMode.GOVERNANCE, None, retain_until=1_900_000_000.0)
    record_of_sessions(data_plane(server.url, retention=retention), archives(1))
    assert server.requests[0].headers["x-amz-object-lock-retain-until-date"] == "2030-03-17T17:46:40Z"


def test_a_retrieve_request_has_no_lock_and_no_body(scripted: Scripted) -> None:
    server = scripted(then=[serve(honest)])
    record_of_sessions(data_plane(server.url, session_token="the-token"), retrieves(7))
    request = server.requests[0]
    assert (request.method, request.target, request.body) == ("GET", "/bucket-1/run/000000000007", b"")
    names = {"host", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token", "authorization"}
    assert set(request.headers) == names
    assert request.headers["x-amz-content-sha256"] == hashlib.sha256(b"").hexdigest()


# Faults of other tools (F1, F2, F5, F6).


def test_f1_denied_archives_are_no_throughput_and_the_session_tries_them_all(scripted: Scripted) -> None:
    server = scripted(replies(DENIED, DENIED, DENIED))
    rows = rows_of(record := record_of_sessions(data_plane(server.url), archives(4, 5, 6)))
    assert operations(rows) == [Operation.OPEN, *[Operation.ARCHIVE] * 3, Operation.CLOSE]
    assert [(row.status, row.bytes, row.number) for row in rows[1:-1]] == [(403, 0, 4), (403, 0, 5), (403, 0, 6)]
    (error,) = record.errors.values()
    assert (error.operation, error.reason, error.count) == ("archive", "403 AccessDenied", 3)
    assert (error.message, error.request_id) == ("Access Denied by policy", "R-9")
    assert error.object_name == "bucket-1/run/000000000004"
    assert len(server.requests) == 3


def test_f2_refused_requests_count_as_attempts_and_are_not_repeated(scripted: Scripted) -> None:
    server = scripted([*replies(SLOW_DOWN, OK, SLOW_DOWN), serve(honest)])
    rows = rows_of(record := record_of_sessions(data_plane(server.url), archives(1, 2, 3, 4)))[1:-1]
    assert [(row.status, row.bytes) for row in rows] == [(503, 0), (0, SIZE), (503, 0), (0, SIZE)]
    assert sum(row.attempts for row in rows) == len(server.requests) == 4
    assert [request.target[-1] for request in server.requests] == ["1", "2", "3", "4"]
    (error,) = record.errors.values()
    assert (error.reason, error.count, error.message) == ("503 SlowDown", 2, "Reduce your request rate.")


@pytest.mark.parametrize(
    ("script", "unknown"),
    [
        (replies(DENIED), 0),
        (replies(REDIRECT), 0),
        (replies(SLOW_DOWN), 1),  # a server with an error may have stored it
        (replies(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"), 1),
        ([read, close], 1),
        ([read], 1),
    ],
    ids=["403", "307", "503", "202", "no answer", "silence"],
)
def test_archive_outcome_is_unknown_without_clear_answer(scripted: Scripted, script: list[Step], unknown: int) -> None:
    record = record_of_sessions(data_plane(scripted(script).url, read_timeout_seconds=LATE), archives(1))
    (error,) = record.errors.values()
    assert (error.count, error.outcomes_unknown) == (1, unknown)


@pytest.mark.parametrize("cut", [10, 100, SIZE])  # in the head, in the body, in its last block
def test_f5_a_retrieve_lasts_from_its_first_byte_to_its_last(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    seen, data = threading.Event(), content_reply(1)
    server = scripted([read, send(data[:cut]), wait_for(seen), send(data[cut:])])
    received = HttpConnection.buffer_updated

    def buffer_updated(self: HttpConnection, count: int) -> None:
        received(self, count)
        seen.set()

    monkeypatch.setattr(HttpConnection, "buffer_updated", buffer_updated)
    row = rows_of(record_of_sessions(data_plane(server.url), retrieves(1)))[1]
    assert row.status == Status.OK
    assert server.requests[0].received_ns < row.first_byte_ns < server.went_on_ns[0] < row.done_ns


def flipped(number: int, at: int) -> bytes:
    body = bytearray(CONTENT.whole(number, SIZE))
    body[at] ^= 1
    return bytes(body)


@pytest.mark.parametrize(
    ("data", "status", "reason"),
    [
        (NOT_FOUND, 404, "404 NoSuchKey"),
        (content_reply(1, body=flipped(1, 0)), Status.DAMAGED, "damaged"),
        (content_reply(1, body=flipped(1, SIZE // 2)), Status.DAMAGED, "damaged"),
        (content_reply(1, body=flipped(1, SIZE - 1)), Status.DAMAGED, "damaged"),
        (content_reply(2), Status.DAMAGED, "damaged"),  # another object, of the same length
        (content_reply(65), Status.DAMAGED, "damaged"),  # one with the same window
        (content_reply(1, body=b"\0" * SIZE), Status.DAMAGED, "damaged"),
        (content_reply(1, body=CONTENT.whole(1, SIZE)[:-1]), Status.DAMAGED, "damaged"),
        (content_reply(1, body=CONTENT.whole(1, SIZE) + b"x"), Status.DAMAGED, "damaged"),
        (content_reply(1, body=b""), Status.DAMAGED, "damaged"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, "204"),
    ],
)
def test_f6_retrieve_of_any_other_bytes_is_a_failure(scripted: Scripted, data: bytes, status: int, reason: str) -> None:
    server = scripted([*replies(data), serve(honest)])
    rows = rows_of(record := record_of_sessions(data_plane(server.url), retrieves(1, 2)))
    assert [(row.status, row.bytes) for row in rows] == [(0, 0), (status, 0), (0, SIZE), (0, 0)]
    assert errors_of(record) == [("retrieve", reason, 1)]
    (error,) = record.errors.values()
    assert error.object_name == "bucket-1/run/000000000001"


@pytest.mark.parametrize(
    ("verify", "found"),
    [
        ("all", {SAMPLE_EVERY: Status.DAMAGED, SAMPLE_EVERY + 1: Status.DAMAGED}),
        ("sample", {SAMPLE_EVERY: Status.DAMAGED, SAMPLE_EVERY + 1: Status.OK}),
        ("none", {SAMPLE_EVERY: Status.OK, SAMPLE_EVERY + 1: Status.OK}),
    ],
)
def test_verify_selects_which_objects_are_compared(scripted: Scripted, verify: str, found: dict[int, Status]) -> None:
    server = scripted(replies(*(content_reply(number, body=flipped(number, 5)) for number in found)))
    rows = rows_of(record_of_sessions(data_plane(server.url, verify=verify), retrieves(*found)))[1:-1]
    assert {row.number: row.status for row in rows} == found


@pytest.mark.parametrize("verify", ["all", "sample", "none"])
def test_wrong_length_is_damaged_in_every_verify_mode(scripted: Scripted, verify: str) -> None:
    server = scripted(replies(content_reply(1, body=CONTENT.whole(1, SIZE)[:-1])))
    rows = rows_of(record_of_sessions(data_plane(server.url, verify=verify), retrieves(1)))
    assert [row.status for row in rows] == [0, Status.DAMAGED, 0]


# Every failure has its own reason, adds no throughput, and does not affect the next session.

HALF = content_reply(1)[: SIZE // 2]
HEAD = content_reply(1)[:30]
FLOOD = b"HTTP/1.1 200 OK\r\n" + b"X-Flood: flood\r\n" * 20_000
FAILURES: dict[str, tuple[list[Step], int, str]] = {
    "reset after the request": ([read, reset], Status.CONNECTION_LOST, "connection lost"),
    "reset mid head": ([read, send(HEAD), reset], Status.CONNECTION_LOST, "connection lost"),
    "reset mid body": ([read, send(HALF), reset], Status.CONNECTION_LOST, "connection lost"),
    "closed after the request": ([read, close], Status.CONNECTION_LOST, "connection lost"),
    "closed mid head": ([read, send(HEAD), close], Status.TRUNCATED, "truncated"),
    "closed mid body": ([read, send(HALF), close], Status.TRUNCATED, "truncated"),
    "a longer Content-Length than body": (
        [read, send(content_reply(1, length=SIZE + 1)), close], Status.TRUNCATED, "truncated",
    ),
    "silence after the request": ([read], Status.READ_TIMEOUT, "read timeout"),
    "silence mid head": ([read, send(HEAD)], Status.READ_TIMEOUT, "read timeout"),
    "silence mid body": ([read, send(HALF)], Status.READ_TIMEOUT, "read timeout"),
    "silence before the last byte": ([read, send(content_reply(1)[:-1])], Status.READ_TIMEOUT, "read timeout"),
    "silence after 100 Continue": (
        [read, send(b"HTTP/1.1 100 Continue\r\n\r\n")], Status.READ_TIMEOUT, "read timeout",
    ),
    "extra bytes": ([read, send(content_reply(1) + b"extra")], Status.PROTOCOL_ERROR, "protocol error"),
    "two replies at once": ([read, send(content_reply(1) + content_reply(2))], Status.PROTOCOL_ERROR, "protocol error"),
    "a shorter Content-Length than body": (
        [read, send(content_reply(1, length=SIZE - 1))], Status.PROTOCOL_ERROR, "protocol error",
    ),
    "garbage": ([read, send(b"\x00\x01garbage\r\n\r\n" * 10)], Status.PROTOCOL_ERROR, "protocol error"),
    "header flood": ([read, send(FLOOD)], Status.PROTOCOL_ERROR, "protocol error"),
    "100 Continue without end": (
        [read, send(b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000)], Status.PROTOCOL_ERROR, "protocol error",
    ),
    "another protocol": (
        [read, send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")],
        Status.PROTOCOL_ERROR, "protocol error",
    ),
}  # fmt: skip


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failing_connection_ends_its_session_and_no_other(scripted: Scripted, failure: str) -> None:
    script, status, reason = FAILURES[failure]
    timeout = LATE if failure.startswith("silence") else HANG_SECONDS
    server = scripted(script, then=[serve(honest)])
    plane = data_plane(server.url, read_timeout_seconds=timeout)
    rows = rows_of(record := record_of_sessions(plane, retrieves(1, 2, 3), retrieves(2, 3)))
    assert operations(rows) == [
        Operation.OPEN, Operation.RETRIEVE, Operation.CLOSE,
        Operation.OPEN, Operation.RETRIEVE, Operation.RETRIEVE, Operation.CLOSE,
    ]  # fmt: skip
    assert [(row.status, row.bytes) for row in rows] == [(0, 0), (status, 0), *[(0, 0)] * 2, *[(0, SIZE)] * 2, (0, 0)]
    assert errors_of(record) == [("retrieve", reason, 1)]
    (error,) = record.errors.values()
    assert error.message
    assert error.object_name == "bucket-1/run/000000000001"
    assert all(row.due_ns <= row.sent_ns <= row.first_byte_ns <= row.done_ns for row in rows)
    assert server.connections == 2
    assert sum(row.attempts for row in rows if row.operation == Operation.RETRIEVE) == len(server.requests)


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_leaves_earlier_objects_unaffected(scripted: Scripted, failure: str) -> None:
    script, status, reason = FAILURES[failure]
    timeout = LATE if failure.startswith("silence") else HANG_SECONDS
    server = scripted([*replies(content_reply(5), content_reply(6)), *script])
    record = record_of_sessions(data_plane(server.url, read_timeout_seconds=timeout), retrieves(5, 6, 1, 7))
    rows = rows_of(record)[1:-1]
    assert [(row.number, row.status, row.bytes) for row in rows] == [(5, 0, SIZE), (6, 0, SIZE), (1, status, 0)]
    assert errors_of(record) == [("retrieve", reason, 1)]


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_of_the_opening_request_leaves_the_session_unopened(scripted: Scripted, failure: str) -> None:
    script, status, reason = FAILURES[failure]
    timeout = LATE if failure.startswith("silence") else HANG_SECONDS
    server = scripted(script, then=[serve(honest)])
    plane = data_plane(server.url, read_timeout_seconds=timeout, session_open="lock-config")
    rows = rows_of(record := record_of_sessions(plane, archives(1), archives(2)))
    assert operations(rows) == [
        Operation.OPEN, Operation.CLOSE, Operation.OPEN, Operation.ARCHIVE, Operation.CLOSE,
    ]  # fmt: skip
    assert [row.status for row in rows] == [status, 0, 0, 0, 0]
    ((operation, found, count),) = errors_of(record)
    assert (operation, found, count) == ("open", reason, 1)
    (error,) = record.errors.values()
    assert error.message.startswith(f"{server.url}: ")


@pytest.mark.parametrize("script", [[reset], [close]], ids=["reset", "close"])
def test_a_connection_that_ends_before_any_request_is_lost(scripted: Scripted, script: list[Step]) -> None:
    server = scripted(script, then=[serve(honest)])
    plane = data_plane(server.url, session_open="head-bucket")
    rows = rows_of(record := record_of_sessions(plane, archives(1, 2), archives(3)))
    # If the connection ends before connecting has completed, connecting is what fails.
    assert rows[0].status in (Status.CONNECTION_LOST, Status.CONNECT_FAILED)
    later = [row for row in rows[1:] if row.operation != Operation.CLOSE]
    assert [(row.operation, row.status, row.bytes) for row in later] == [
        (Operation.OPEN, 0, 0), (Operation.ARCHIVE, 0, SIZE),
    ]  # fmt: skip
    ((operation, reason, count),) = errors_of(record)
    assert (operation, count) == ("open", 1)
    assert reason in ("connection lost", "connect failed")


# The pauses add up to more than the timeout, and each is far below it.
SLOW_SECONDS, PAUSE_SECONDS = 2.0, 0.15


def take(size_bytes: int, pause_seconds: float) -> Step:
    """Read so much of a request, 64 KiB at a time, with a pause before each read."""

    def step(conversation: Any) -> None:
        conversation.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        taken = 0
        while taken < size_bytes:
            time.sleep(pause_seconds)  # simulates a slow server
            taken += len(conversation.sock.recv(1 << 16))

    return step


def test_slowly_reading_server_does_not_hit_read_timeout(scripted: Scripted) -> None:
    server = scripted([take(1 << 20, PAUSE_SECONDS), send(OK)])  # The head counts too, so a few bytes stay unread.
    plane = data_plane(server.url, size_bytes=1 << 20, read_timeout_seconds=SLOW_SECONDS)
    rows = rows_of(record := record_of_sessions(plane, archives(1, size_bytes=1 << 20)))
    assert record.errors == {}
    assert [row.bytes for row in rows] == [0, 1 << 20, 0]
    assert rows[1].done_ns - rows[1].sent_ns > SLOW_SECONDS * 1e9  # longer than the time-out


@pytest.mark.long
@pytest.mark.parametrize("taken_bytes", [0, 1 << 16, 1 << 19])
def test_server_that_stops_reading_a_large_object_is_a_read_timeout(scripted: Scripted, taken_bytes: int) -> None:
    server = scripted([take(taken_bytes, 0.01), wait_for(over := threading.Event())])
    plane = data_plane(server.url, size_bytes=1 << 20, read_timeout_seconds=1.0)
    rows = rows_of(record := record_of_sessions(plane, archives(1, size_bytes=1 << 20)))
    over.set()
    assert [row.status for row in rows] == [0, Status.READ_TIMEOUT, 0]
    (error,) = record.errors.values()
    assert (error.reason, error.outcomes_unknown) == ("read timeout", 1)


def test_slowly_dripped_copy_answer_does_not_hit_the_read_timeout(scripted: Scripted) -> None:
    def drip(conversation: Any) -> None:
        conversation.sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(16):
            time.sleep(PAUSE_SECONDS)  # simulates a slow server
            conversation.sock.sendall(b"1\r\n \r\n")
        body = b"<CopyObjectResult><ETag>1</ETag></CopyObjectResult>"
        conversation.sock.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

    server = scripted([read, drip])
    batch = Batch([Operation.COPY], [1], [SIZE], source=[2])
    rows = rows_of(record := record_of_sessions(data_plane(server.url, read_timeout_seconds=SLOW_SECONDS), batch))
    assert record.errors == {}
    assert rows[1].done_ns - rows[1].sent_ns > SLOW_SECONDS * 1e9


def test_a_redirect_is_its_own_error_and_is_not_followed(scripted: Scripted) -> None:
    server = scripted([*replies(REDIRECT), serve(honest)])
    rows = rows_of(record := record_of_sessions(data_plane(server.url), archives(1, 2)))
    assert [(row.status, row.bytes) for row in rows] == [(0, 0), (307, 0), (0, SIZE), (0, 0)]
    (error,) = record.errors.values()
    assert error.reason == "307 Redirect"
    assert "http://other:9000/" in error.message
    assert len(server.requests) == 2


def test_an_html_answer_to_an_archive_is_an_error_that_quotes_it(scripted: Scripted) -> None:
    page = b"HTTP/1.1 404 Not Found\r\nContent-Length: 29\r\n\r\n<html>This is nginx.\n</html>\n"
    server = scripted(replies(page))
    rows = rows_of(record := record_of_sessions(data_plane(server.url), archives(1)))
    assert [row.status for row in rows] == [0, 404, 0]
    (error,) = record.errors.values()
    assert (error.reason, error.message) == ("404", "not an S3 error reply: <html>This is nginx. </html>")


def test_connection_close_ends_session_and_leaves_rest_untried(scripted: Scripted) -> None:
    closing = content_reply(1, b"Connection: close", b"x-amz-request-id: R-3")
    server = scripted([read, send(closing), close], then=[serve(honest)])
    plane = data_plane(server.url, on_close="stop")
    rows = rows_of(record := record_of_sessions(plane, retrieves(1, 2, 3), retrieves(4)))
    assert operations(rows) == [Operation.OPEN, Operation.RETRIEVE, Operation.CLOSE] * 2
    assert [(row.number, row.status, row.bytes) for row in rows if row.operation == Operation.RETRIEVE] == [
        (1, 0, SIZE), (4, 0, SIZE),
    ]  # fmt: skip
    assert errors_of(record) == [("session", "closed by server", 1)]
    (error,) = record.errors.values()
    assert "before 2 of 3 objects were processed" in error.message
    assert error.request_id == "R-3"
    assert len(server.requests) == 2


def test_connection_close_after_last_object_is_no_error(scripted: Scripted) -> None:
    server = scripted([*replies(content_reply(1)), read, send(content_reply(2, b"Connection: close")), close])
    rows = rows_of(record := record_of_sessions(data_plane(server.url), retrieves(1, 2)))
    assert [(row.status, row.bytes) for row in rows] == [(0, 0), (0, SIZE), (0, SIZE), (0, 0)]
    assert record.errors == {}


def test_body_that_ends_with_the_connection_is_accepted(scripted: Scripted) -> None:
    data = b"HTTP/1.1 200 OK\r\n\r\n" + CONTENT.whole(1, SIZE)
    server = scripted([read, send(data), close])
    rows = rows_of(record := record_of_sessions(data_plane(server.url, on_close="stop"), retrieves(1, 2)))
    assert [(row.status, row.bytes) for row in rows] == [(0, 0), (0, SIZE), (0, 0)]
    assert errors_of(record) == [("session", "closed by server", 1)]


@pytest.mark.parametrize("closes", [True, False])
def test_connection_close_on_opening_request_ends_session(scripted: Scripted, closes: bool) -> None:
    opening = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    server = scripted([*replies(opening), *([close] if closes else [])])
    plane = data_plane(server.url, session_open="head-bucket", on_close="stop")
    record = record_of_sessions(plane, archives(1, 2))
    assert sum(row.bytes for row in rows_of(record)) == 0
    assert errors_of(record) == [("session", "closed by server", 1)]
    assert operations(rows_of(record)) == [Operation.OPEN, Operation.CLOSE]
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [403, 404, 301])
def test_refused_opening_request_leaves_the_session_unopened(scripted: Scripted, status: int) -> None:
    server = scripted(replies(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\nx-amz-request-id: R-2\r\n\r\n" % status))
    rows = rows_of(record := record_of_sessions(data_plane(server.url, session_open="head-bucket"), archives(1)))
    assert [(row.operation, row.status) for row in rows] == [(Operation.OPEN, status), (Operation.CLOSE, 0)]
    (error,) = record.errors.values()
    assert error.reason.split()[0] == str(status)
    assert (error.operation, error.request_id, error.object_name) == ("open", "R-2", "bucket-1")
    assert len(server.requests) == 1


# Connecting.


def test_a_client_without_a_local_port_is_not_the_platforms_failure(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_port(*_: object) -> NoReturn:
        raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")

    monkeypatch.setattr("backends.s3.wire.session.connect", no_port)
    rows = rows_of(record := record_of_sessions(data_plane("http://127.0.0.1:9"), archives(1)))
    assert [(row.operation, row.status) for row in rows] == [(Operation.OPEN, Status.NO_LOCAL_PORT)]
    (error,) = record.errors.values()
    assert (error.operation, error.reason) == ("open", "no local port free")


def test_refused_connection_reports_endpoint(scripted: Scripted) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    rows = rows_of(record := record_of_sessions(data_plane(url), archives(1)))
    assert [(row.operation, row.status) for row in rows] == [
        (Operation.OPEN, Status.CONNECT_FAILED)  # there is nothing to close
    ]
    (error,) = record.errors.values()
    assert (error.operation, error.reason) == ("open", "connect failed")
    assert error.message.startswith(f"{url}: ")
    assert "refused" in error.message


@pytest.fixture
def full_backlog() -> Iterator[str]:
    """An address whose queue of connections is full, so that the kernel answers no further one."""
    with ExitStack() as sockets:
        listening = sockets.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            sock = sockets.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_unanswered_connection_is_connect_timeout(full_backlog: str) -> None:
    rows = rows_of(record := record_of_sessions(data_plane(full_backlog, connect_timeout_seconds=LATE), archives(1)))
    assert [(row.operation, row.status) for row in rows] == [(Operation.OPEN, Status.CONNECT_TIMEOUT)]
    (error,) = record.errors.values()
    assert (error.reason, error.count) == ("connect timeout", 1)
    assert error.message == f"{full_backlog}: no connection in {LATE:g} s (--connect-timeout)"


@pytest.mark.parametrize(
    ("script", "status", "reason"),
    [
        ([send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")], Status.TLS_FAILED, "TLS failed"),
        ([], Status.CONNECT_TIMEOUT, "connect timeout"),  # the handshake is part of connecting
    ],
    ids=["an answer without TLS", "silence in the handshake"],
)
def test_tls_to_server_without_tls_fails_or_times_out(
    scripted: Scripted, script: list[Step], status: int, reason: str
) -> None:
    def handshake_then(step: Step) -> Step:
        def play(conversation: Any) -> None:
            assert conversation.sock.recv(1)  # the client spoke first
            step(conversation)

        return play

    server = scripted([handshake_then(step) for step in script])
    url = server.url.replace("http://", "https://")
    record = record_of_sessions(
        data_plane(url, insecure=True, connect_timeout_seconds=HANG_SECONDS if script else LATE), archives(1)
    )
    rows = rows_of(record)
    assert [(row.operation, row.status) for row in rows] == [(Operation.OPEN, status)]
    assert errors_of(record) == [("open", reason, 1)]


# --keep-sessions-open.


def test_sessions_that_are_kept_open_share_one_connection(scripted: Scripted) -> None:
    server = scripted(then=[serve(honest)])
    plane = data_plane(server.url, keep_sessions_open=True, session_open="head-bucket")
    rows = rows_of(record_of_sessions(plane, archives(1, 2), archives(3), retrieves(1)))
    assert operations(rows) == [Operation.OPEN, *[Operation.ARCHIVE] * 3, Operation.RETRIEVE]
    assert server.connections == 1
    assert [request.method for request in server.requests] == ["HEAD", "PUT", "PUT", "PUT", "GET"]


def test_each_client_keeps_its_own_connection(scripted: Scripted) -> None:
    server = scripted(then=[serve(honest)])
    plane, record = data_plane(server.url, keep_sessions_open=True), Recorder(100)

    async def work() -> None:
        for client in (0, 1, 0, 1):
            await one_session(plane, archives(client), record, client)
        await plane.end_phase()

    in_loop(work)
    assert server.connections == 2
    assert [request.connection for request in server.requests] == [0, 1, 0, 1]


@pytest.mark.parametrize("failure", FAILURES)
def test_failed_kept_connection_is_replaced_in_next_session(scripted: Scripted, failure: str) -> None:
    script, status, reason = FAILURES[failure]
    timeout = LATE if failure.startswith("silence") else HANG_SECONDS
    server = scripted([*replies(OK), *script], then=[serve(honest)])
    plane = data_plane(server.url, keep_sessions_open=True, read_timeout_seconds=timeout)
    rows = rows_of(record := record_of_sessions(plane, archives(1), retrieves(1, 3), archives(4)))
    assert operations(rows) == [
        Operation.OPEN, Operation.ARCHIVE, Operation.RETRIEVE, Operation.CLOSE, Operation.OPEN, Operation.ARCHIVE,
    ]  # fmt: skip
    assert [row.status for row in rows] == [0, 0, status, 0, 0, 0]
    assert errors_of(record) == [("retrieve", reason, 1)]
    assert server.connections == 2


def test_kept_connection_is_not_reused_after_connection_close(scripted: Scripted) -> None:
    closing = OK.removesuffix(b"\r\n") + b"Connection: close\r\n\r\n"
    server = scripted(replies(closing), then=[serve(honest)])  # announces the close, but does not close
    plane = data_plane(server.url, keep_sessions_open=True)
    rows = rows_of(record := record_of_sessions(plane, archives(1), archives(2)))
    assert [(row.status, row.bytes) for row in rows if row.operation == Operation.ARCHIVE] == [(0, SIZE), (0, SIZE)]
    assert record.errors == {}
    assert server.connections == 2


def test_refused_session_is_not_kept_open(scripted: Scripted) -> None:
    refused = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
    server = scripted([*replies(refused), serve(honest)], then=[serve(honest)])
    plane = data_plane(server.url, keep_sessions_open=True, session_open="head-bucket")
    rows = rows_of(record_of_sessions(plane, archives(1), archives(2)))
    assert [(row.operation, row.status) for row in rows] == [
        (Operation.OPEN, 403), (Operation.CLOSE, 0), (Operation.OPEN, 0), (Operation.ARCHIVE, 0),
    ]  # fmt: skip
    assert [request.method for request in server.requests] == ["HEAD", "HEAD", "PUT"]


def test_session_ends_if_its_owner_fails_to_process_an_answer(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> NoReturn:
        raise OverflowError("too large")

    server = scripted(then=[serve(lambda request: DENIED if request.target.endswith("2") else OK)])
    plane = data_plane(server.url)
    monkeypatch.setattr(plane, "note_refusal", fails)
    rows = rows_of(record := record_of_sessions(plane, archives(1, 2, 3)))
    assert [(row.number, row.status) for row in rows][1:-1] == [(1, Status.OK), (2, Status.PROTOCOL_ERROR)]
    (error,) = record.errors.values()
    assert (error.reason, error.count) == ("protocol error", 1)
    assert "OverflowError('too large')" in error.message
