"""Servers that close connections between requests: a session continues over others, without losing or repeating an
object.
"""

from __future__ import annotations

import random
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest
import trustme

from archiver.values.record import Operation, Recorder, Status
from archiver.values.retention import DateMaker, Lock
from backends.base import Batch, ExpectedLock, PhaseSetting
from backends.s3.data_plane import S3DataPlane
from tests.backends.s3.s3_sessions import (
    CONTENT,
    RETENTION,
    SIZE,
    Row,
    archives,
    data_plane,
    in_loop,
    one_session,
    record_of_sessions,
    retrieves,
    rows_of,
    worker_setting,
)
from tests.backends.s3.scripted_answers import NOT_FOUND, OK, SLOW_DOWN, content_reply, honest
from tests.support.servers.scripted import (
    Conversation,
    Request,
    ScriptedServer,
    close,
    close_with,
    read,
    replies,
    send,
    serve,
    serve_and_close,
)

Scripted = Callable[..., ScriptedServer]
OBJECTS = 250
TRIES = 5
AT_ONCE = SLOW_DOWN.replace(b"Retry-After: 1", b"Retry-After: 0")


@pytest.fixture(scope="module")
def tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


def counts_of(name: str) -> Iterator[int]:
    """Yield the number of requests after which each connection ends."""
    at_random = random.Random(7)
    while True:
        yield {"one": 1, "hundred": 100}.get(name) or at_random.randint(1, 9)


def answers(request: Request) -> bytes:
    """Answer as a store that has every object and accepts every object."""
    return content_reply(int(request.target[-12:])) if request.method == "GET" else OK


def objects_of(record: Recorder) -> list[Row]:
    return [row for row in rows_of(record) if row.operation >= Operation.LOCK]


def failures(record: Recorder) -> list[tuple[str, str, int, int]]:
    return [(e.operation, e.reason, e.count, e.outcomes_unknown) for e in record.errors.values() if e.count]


def reconnects(record: Recorder) -> int:
    return sum(each.reconnects for each in record.delays.values())


async def _archive_and_retrieve(plane: S3DataPlane, numbers: Sequence[int], record: Recorder) -> None:
    for batch in (archives(*numbers), retrieves(*numbers)):
        await one_session(plane, batch, record)


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("announces", [True, False], ids=["announced", "unannounced"])
@pytest.mark.parametrize("count", ["one", "hundred", "random"])
def test_no_object_is_lost_nor_done_twice_where_the_server_ends_connections(
    scripted: Scripted, tls: ssl.SSLContext, count: str, announces: bool, encrypted: bool
) -> None:
    numbers = range(1, OBJECTS + 1)
    for _ in range(TRIES):  # again on a busy machine, where an answer came without the end of its connection
        counts, record = counts_of(count), Recorder(1000)
        scripts = [serve_and_close(answers, next(counts), announces=announces) for _ in range(3 * OBJECTS)]
        server = scripted(*scripts, tls=tls if encrypted else None)
        plane = data_plane(server.url, session_open="head-bucket", insecure=True)
        in_loop(partial(_archive_and_retrieve, plane, numbers, record))
        if not server.late_closes:
            break
    assert record.errors == {}
    assert {row.status for row in rows_of(record)} == {Status.OK}
    done = Counter((row.operation, row.number) for row in objects_of(record))
    assert done == {(op, number): 1 for op in (Operation.ARCHIVE, Operation.RETRIEVE) for number in numbers}
    asked = Counter((request.method, request.target[-12:]) for request in server.requests if request.method != "HEAD")
    assert asked == {(method, f"{number:012d}"): 1 for method in ("PUT", "GET") for number in numbers}
    # The session is opened once; each connection after the first of a session counts for one object.
    assert sum(request.method == "HEAD" for request in server.requests) == 2
    assert reconnects(record) == server.connections - 2 > 0
    on_each = Counter(request.connection for request in server.requests)
    lasts = {
        max(request.connection for request in server.requests if request.method == method) for method in ("PUT", "GET")
    }
    of_ended = sum(requests for connection, requests in on_each.items() if connection not in lasts)
    assert sum(each.answered for each in record.delays.values()) == of_ended
    assert all(each.reconnect_ns > 0 for each in record.delays.values())


def test_reconnecting_counts_in_response_time_not_in_service_time(scripted: Scripted) -> None:
    server = scripted(serve_and_close(honest, 1, announces=True), then=[serve(honest)])
    record = record_of_sessions(data_plane(server.url), archives(1, 2))
    first, second = objects_of(record)
    assert list(record.delays) == [2]
    assert second.due_ns == first.done_ns
    assert second.due_ns + record.delays[2].reconnect_ns <= second.sent_ns


def test_connection_lost_during_request_is_error_without_resend(scripted: Scripted) -> None:
    server = scripted([*replies(OK), read, close], then=[serve(honest)])
    record = record_of_sessions(data_plane(server.url), archives(1, 2, 3))
    assert [(row.number, row.status) for row in objects_of(record)] == [(1, 0), (2, Status.CONNECTION_LOST)]
    assert failures(record) == [("archive", "connection lost", 1, 1)]
    assert [request.target[-1] for request in server.requests] == ["1", "2"]


@pytest.mark.parametrize("how", ["close", "half"])
def test_request_received_before_close_is_not_sent_again(scripted: Scripted, how: str) -> None:
    """The server never read the request, but the client cannot know that."""

    def end_when_there_is_a_request(conversation: Conversation) -> None:
        assert conversation.sock.recv(1, socket.MSG_PEEK)
        if how == "half":
            conversation.sock.shutdown(socket.SHUT_WR)
        else:
            conversation.sock.close()

    server = scripted([*replies(OK), end_when_there_is_a_request], then=[serve(honest)])
    record = record_of_sessions(data_plane(server.url), archives(1, 2, 3))
    assert [(row.number, row.status) for row in objects_of(record)] == [(1, 0), (2, Status.CONNECTION_LOST)]
    assert failures(record) == [("archive", "connection lost", 1, 1)]
    assert server.connections == 1


def test_unread_large_object_is_connection_lost_with_on_close_stop(scripted: Scripted) -> None:
    large = 1 << 20
    server = scripted(serve_and_close(lambda _: OK, 1, announces=False))
    plane = S3DataPlane(worker_setting(server.url, on_close="stop"))
    plane.set_phase(PhaseSetting(CONTENT.reaching(large), {None: DateMaker(RETENTION, 4e9)}, "all", (large,)))
    record = record_of_sessions(plane, archives(1, 2, size_bytes=large))
    assert [(row.number, row.status) for row in objects_of(record)] == [(1, 0), (2, Status.CONNECTION_LOST)]
    assert failures(record) == [("archive", "connection lost", 1, 1)]


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_unread_large_objects_are_sent_again_after_close(
    scripted: Scripted, tls: ssl.SSLContext, encrypted: bool
) -> None:
    large = 4 << 20  # more than the socket's buffer takes at once
    server = scripted(then=serve_and_close(lambda _: OK, 2, announces=False), tls=tls if encrypted else None)
    plane = S3DataPlane(worker_setting(server.url, insecure=True))
    plane.set_phase(PhaseSetting(CONTENT.reaching(large), {None: DateMaker(RETENTION, 4e9)}, "all", (large,)))
    record = record_of_sessions(plane, archives(1, 2, 3, 4, 5, size_bytes=large))
    assert record.errors == {}
    assert [request.target[-1] for request in server.requests] == ["1", "2", "3", "4", "5"]
    assert server.connections == 3


@pytest.mark.parametrize("session_open", ["connect", "head-bucket", "lock-config"])
def test_every_connection_makes_a_full_tls_handshake(
    scripted: Scripted, tls: ssl.SSLContext, session_open: str
) -> None:
    resumed: list[bool | None] = []

    def note(conversation: Conversation) -> None:
        assert isinstance(conversation.sock, ssl.SSLSocket)
        resumed.append(conversation.sock.session_reused)

    server = scripted(then=[note, *serve_and_close(honest, 2, announces=True)], tls=tls)
    plane = data_plane(server.url, session_open=session_open, insecure=True)
    record = record_of_sessions(plane, archives(1, 2, 3), archives(4, 5, 6))
    assert record.errors == {}
    assert len(resumed) == server.connections > 2
    assert not any(resumed)


@pytest.mark.parametrize("notified", [True, False], ids=["notified", "cut"])
def test_tls_body_without_length_needs_close_notify(scripted: Scripted, tls: ssl.SSLContext, notified: bool) -> None:
    data = b"HTTP/1.1 200 OK\r\n\r\n" + CONTENT.whole(1, SIZE)
    server = scripted([read, close_with(data)] if notified else [read, send(data), close], tls=tls)
    record = record_of_sessions(data_plane(server.url, insecure=True), retrieves(1))
    expected = (Status.OK, SIZE) if notified else (Status.CONNECTION_LOST, 0)
    assert [(row.status, row.bytes) for row in objects_of(record)] == [expected]


@pytest.mark.parametrize("cut_bytes", [1, SIZE // 2, SIZE + 10], ids=["last byte", "body", "head"])
def test_an_answer_cut_short_within_tls_is_an_error(scripted: Scripted, tls: ssl.SSLContext, cut_bytes: int) -> None:
    server = scripted([*replies(content_reply(1)), read, send(content_reply(2)[:-cut_bytes]), close], tls=tls)
    record = record_of_sessions(data_plane(server.url, insecure=True), retrieves(1, 2, 3))
    assert [(row.number, row.status) for row in objects_of(record)] == [(1, 0), (2, Status.CONNECTION_LOST)]
    assert failures(record) == [("retrieve", "connection lost", 1, 1)]


def test_whole_answer_is_accepted_although_tls_is_cut_after_it(scripted: Scripted, tls: ssl.SSLContext) -> None:
    server = scripted([*replies(content_reply(1)), close], then=[serve(answers)], tls=tls)
    record = record_of_sessions(data_plane(server.url, insecure=True), retrieves(1))
    assert [(row.number, row.status, row.bytes) for row in objects_of(record)] == [(1, Status.OK, SIZE)]


def test_a_new_connection_that_ends_before_any_answer_is_an_error(scripted: Scripted) -> None:
    """A server that accepts connections and never answers must not be retried forever."""
    server = scripted(serve_and_close(honest, 1, announces=True), [close])
    record = record_of_sessions(data_plane(server.url), archives(1, 2, 3))
    assert [(row.number, row.status) for row in objects_of(record)] == [(1, 0), (2, Status.CONNECTION_LOST)]
    assert server.connections == 2


def test_failed_reconnect_fails_next_object(scripted: Scripted) -> None:
    server = scripted(serve_and_close(honest, 1, announces=True))
    plane, record = data_plane(server.url), Recorder(10)
    server.refuse_others()
    in_loop(lambda: one_session(plane, archives(1, 2, 3), record))
    assert [(row.number, row.status) for row in objects_of(record)] == [(1, 0), (2, Status.CONNECT_FAILED)]
    assert failures(record) == [("archive", "connect failed", 1, 0)]  # nothing of it was sent


def test_surplus_bytes_are_a_protocol_error_without_reconnect(scripted: Scripted) -> None:
    server = scripted([read, send(OK), read, send(OK + OK)], then=[serve(honest)])
    record = record_of_sessions(data_plane(server.url), archives(1, 2, 3))
    assert [row.status for row in objects_of(record)] == [0, Status.PROTOCOL_ERROR]
    assert server.connections == 1


def test_a_refused_request_is_sent_again_over_another_connection(scripted: Scripted) -> None:
    server = scripted(
        serve_and_close(lambda _: AT_ONCE, 1, announces=True),
        serve_and_close(lambda _: AT_ONCE, 1, announces=False),
        then=[serve(honest)],
    )
    record = record_of_sessions(data_plane(server.url, retries=2), archives(1, 2))
    first, second = objects_of(record)
    assert [(row.status, row.attempts) for row in (first, second)] == [(0, 3), (0, 1)]
    assert first.sent_ns <= server.requests[0].received_ns
    (delays,) = record.delays.values()
    assert (delays.reconnects, delays.answered) == (2, 2)
    assert delays.retry_ns > delays.reconnect_ns > 0
    assert [request.target[-1] for request in server.requests] == ["1", "1", "1", "2"]


def test_refused_request_has_unknown_outcome_if_the_retry_cannot_connect(scripted: Scripted) -> None:
    server = scripted(serve_and_close(lambda _: AT_ONCE, 1, announces=True))
    server.refuse_others()
    record = record_of_sessions(data_plane(server.url, retries=2), archives(1))
    assert failures(record) == [("archive", "connect failed", 1, 1)]


@pytest.mark.parametrize("announces", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_object_and_its_lock_request_may_use_different_connections(
    scripted: Scripted, count: int, announces: bool
) -> None:
    server = scripted(then=serve_and_close(lambda _: OK, count, announces=announces))
    plane = data_plane(server.url)
    plane.set_phase(
        PhaseSetting(CONTENT, {None: DateMaker(RETENTION, 4e9)}, "all", (SIZE,), locks=frozenset((Lock.SEPARATE,)))
    )
    batch = archives(1, 2, 3)
    batch.lock = Lock.SEPARATE
    record = record_of_sessions(plane, batch)
    assert record.errors == {}
    assert [(Operation(row.operation).name, row.number, row.status) for row in objects_of(record)] == [
        (name, number, 0) for number in (1, 2, 3) for name in ("LOCK", "ARCHIVE")
    ]
    assert [request.target[14:] for request in server.requests] == [
        f"00000000000{number}{query}" for number in (1, 2, 3) for query in ("", "?retention=")
    ]
    of_objects = [delays for row, delays in record.delays.items() if row % 2 == 0]  # OPEN, LOCK, ARCHIVE, LOCK ...
    assert sum(delays.reconnects for delays in of_objects) == server.connections - 1


@pytest.mark.parametrize("announces", [True, False])
@pytest.mark.parametrize("count", [1, 2])
def test_upload_parts_may_use_several_connections(scripted: Scripted, count: int, announces: bool) -> None:
    def upload(request: Request) -> bytes:
        etag = b'ETag: "1"\r\n'
        body = b""
        if request.method == "POST":
            body = b"<UploadId>u</UploadId>" if "uploads" in request.target else b"<ETag>1</ETag>"
        return b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (etag, len(body), body)

    server = scripted(then=serve_and_close(upload, count, announces=announces))
    batch = archives(1, 2)
    batch.part_bytes = SIZE // 2
    record = record_of_sessions(data_plane(server.url), batch)
    assert record.errors == {}
    assert [(row.number, row.status, row.bytes) for row in objects_of(record)] == [(1, 0, SIZE), (2, 0, SIZE)]
    assert [request.method for request in server.requests] == ["POST", "PUT", "PUT", "POST"] * 2
    assert b"".join(request.body for request in server.requests if request.method == "PUT") == b"".join(
        bytes(CONTENT.whole(number, SIZE)) for number in (1, 2)
    )
    assert reconnects(record) == server.connections - 1


def test_completed_upload_is_not_in_next_objects_connect_failure(scripted: Scripted) -> None:
    upload = [b"<UploadId>u</UploadId>", b"", b"", b"<ETag>1</ETag>"]
    bodies = iter(upload)

    def answer(_: Request) -> bytes:
        body = next(bodies)
        return b"HTTP/1.1 200 OK\r\nETag: 1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    server = scripted(serve_and_close(answer, len(upload), announces=True))
    server.refuse_others()
    batch = archives(1, 2)
    batch.part_bytes = SIZE // 2
    record = record_of_sessions(data_plane(server.url), batch)
    whole, failed = objects_of(record)
    assert (whole.status, failed.status, failed.attempts) == (0, Status.CONNECT_FAILED, 1)
    assert failed.sent_ns >= whole.done_ns
    assert failures(record) == [("archive", "connect failed", 1, 0)]


def test_audit_reads_lock_over_new_connection_after_close(scripted: Scripted) -> None:
    lock = b"x-amz-object-lock-mode: GOVERNANCE\r\nx-amz-object-lock-retain-until-date: 2030-03-17T17:46:40Z\r\n"

    def shows_locks_to_head_only(request: Request) -> bytes:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % SIZE
        return head + lock + b"\r\n" if request.method == "HEAD" else head + b"\r\n" + CONTENT.whole(5, SIZE)

    server = scripted(then=serve_and_close(shows_locks_to_head_only, 1, announces=True))
    plane = S3DataPlane(worker_setting(server.url))
    expected = ExpectedLock(0, 9, RETENTION, 1_899_999_998.0, 1_900_000_002.0)
    plane.set_phase(PhaseSetting(CONTENT, {}, "all", (SIZE,), expected=(expected,)))
    record = record_of_sessions(plane, Batch([Operation.AUDIT], [5], [SIZE]))
    assert [(row.number, row.status) for row in objects_of(record)] == [(5, 0)]
    assert [(request.method, request.connection) for request in server.requests] == [("GET", 0), ("HEAD", 1)]


@pytest.mark.parametrize("announces", [True, False])
def test_session_reconnects_in_each_batch_after_close(scripted: Scripted, announces: bool) -> None:
    server = scripted(then=serve_and_close(answers, 1, announces=announces))
    plane, record = data_plane(server.url), Recorder(100)

    async def work() -> None:
        session = plane.session(0)
        assert await session.open(record, 1)
        for number in (1, 2, 3):
            assert session.is_open
            await session.perform(retrieves(number), record)
        await session.close(record)
        assert not session.is_open

    in_loop(work)
    assert record.errors == {}
    assert [row.status for row in objects_of(record)] == [0, 0, 0]
    assert server.connections == 3


def test_failed_session_is_closed_and_does_not_reconnect(scripted: Scripted) -> None:
    server = scripted([*replies(content_reply(1)), read, close], then=[serve(answers)])
    plane, record = data_plane(server.url), Recorder(100)

    async def work() -> None:
        session = plane.session(0)
        assert await session.open(record, 1)
        await session.perform(retrieves(1, 2), record)
        assert not session.is_open
        await session.perform(retrieves(3), record)
        await session.close(record)

    in_loop(work)
    assert [(row.number, row.status) for row in objects_of(record)] == [
        (1, 0), (2, Status.CONNECTION_LOST), (3, Status.CONNECTION_LOST),
    ]  # fmt: skip
    assert server.connections == 1


def test_kept_open_session_reconnects_after_a_close(scripted: Scripted) -> None:
    server = scripted(then=serve_and_close(answers, 2, announces=True))
    plane = data_plane(server.url, keep_sessions_open=True)
    record = record_of_sessions(plane, archives(1, 2, 3), retrieves(1, 2, 3))
    assert record.errors == {}
    assert [row.status for row in objects_of(record)] == [0] * 6
    assert len(server.requests) == 6
    assert server.connections == 3


def test_session_reconnects_after_404_and_close(scripted: Scripted) -> None:
    server = scripted(then=serve_and_close(lambda _: NOT_FOUND, 1, announces=True))
    record = record_of_sessions(data_plane(server.url), retrieves(1, 2))
    assert [row.status for row in objects_of(record)] == [404, 404]  # a refusal is an answer
    assert server.connections == 2
