"""Audit sessions: the content first, then the lock, in the answer of GET or of HEAD."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from archiver.values.content import Content
from archiver.values.record import Operation, Recorder, Status
from backends.base import Batch, ExpectedLock, PhaseSetting
from backends.s3.data_plane import S3DataPlane
from tests.backends.s3.s3_sessions import CONTENT, RETENTION, SIZE, Row, record_of_sessions, rows_of, worker_setting
from tests.support.servers.scripted import Request, ScriptedServer, serve

UNTIL = 1_900_000_000.0
LOCK = b"x-amz-object-lock-mode: GOVERNANCE\r\nx-amz-object-lock-retain-until-date: 2030-03-17T17:46:40Z\r\n"
EARLIER, LATER = LOCK.replace(b"2030", b"2029"), LOCK.replace(b"2030", b"2031")
FORBIDDEN = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"

Scripted = Callable[..., ScriptedServer]


def answer(request: Request, *, on_get: bytes = b"", on_head: bytes = b"", body: bytes | None = None) -> bytes:
    """Answer as a store that shows locks only for the given methods."""
    content = CONTENT.whole(int(request.target[-12:]), SIZE) if body is None else body
    length = b"Content-Length: %d\r\n" % len(content)
    if request.method == "HEAD":
        return b"HTTP/1.1 200 OK\r\n" + length + on_head + b"\r\n"
    return b"HTTP/1.1 200 OK\r\n" + length + on_get + b"\r\n" + content


def audited(server: ScriptedServer, *numbers: int) -> tuple[list[Row], Recorder]:
    plane = S3DataPlane(worker_setting(server.url))
    expected = ExpectedLock(0, 99, RETENTION, UNTIL - 2, UNTIL + 2)
    content: Content = CONTENT
    plane.set_phase(PhaseSetting(content, {}, "all", (SIZE,), expected=(expected,)))
    batch = Batch([Operation.AUDIT] * len(numbers), numbers, [SIZE] * len(numbers))
    record = record_of_sessions(plane, batch)
    return [row for row in rows_of(record) if row.operation == Operation.AUDIT], record


def methods(server: ScriptedServer) -> list[str]:
    return [request.method for request in server.requests]


def test_lock_in_the_get_answer_needs_no_further_request(scripted: Scripted) -> None:
    server = scripted(then=[serve(lambda request: answer(request, on_get=LOCK))])
    rows, _ = audited(server, 5, 6)
    assert [(row.number, row.status, row.bytes) for row in rows] == [(5, Status.OK, SIZE), (6, Status.OK, SIZE)]
    assert methods(server) == ["GET", "GET"]


def test_audit_sends_head_if_get_shows_no_lock(scripted: Scripted) -> None:
    server = scripted(then=[serve(lambda request: answer(request, on_head=LOCK))])
    rows, record = audited(server, 5, 6)
    assert [(row.number, row.status, row.bytes, row.attempts) for row in rows] == [
        (5, Status.OK, SIZE, 1), (6, Status.OK, SIZE, 1),
    ]  # fmt: skip
    assert methods(server) == ["GET", "HEAD", "GET", "HEAD"]
    assert record.errors == {}
    assert all(row.sent_ns <= row.first_byte_ns <= row.done_ns for row in rows)


@pytest.mark.parametrize(
    ("on_head", "status"), [(b"", Status.UNLOCKED), (EARLIER, Status.WEAKER), (LATER, Status.LONGER)]
)
def test_audit_compares_the_lock_shown_by_head(scripted: Scripted, on_head: bytes, status: Status) -> None:
    server = scripted(then=[serve(lambda request: answer(request, on_head=on_head))])
    rows, record = audited(server, 5)
    assert [(row.number, row.status, row.bytes) for row in rows] == [(5, status, 0)]
    (error,) = record.errors.values()
    assert (error.operation, error.reason, error.object_name) == (
        "audit",
        status.name.lower(),
        "bucket-1/run/000000000005",
    )


def test_lock_of_an_object_without_expectation_is_not_compared(scripted: Scripted) -> None:
    server = scripted(then=[serve(answer)])
    rows, _ = audited(server, 99, 100)  # no lock is expected of the second
    assert [(row.number, row.status) for row in rows] == [(99, Status.UNLOCKED), (100, Status.OK)]


def test_damaged_content_is_reported_without_reading_the_lock(scripted: Scripted) -> None:
    server = scripted(then=[serve(lambda request: answer(request, on_head=LOCK, body=bytes(SIZE)))])
    rows, _ = audited(server, 5)
    assert [row.status for row in rows] == [Status.DAMAGED]
    assert methods(server) == ["GET"]


def test_audit_survives_an_event_hold_of_5000_digits(scripted: Scripted) -> None:
    hold = b"x-amz-object-lock-event-hold: ON\r\nx-amz-object-lock-event-hold-duration-days: " + b"9" * 5000 + b"\r\n"
    server = scripted(then=[serve(lambda request: answer(request, on_get=LOCK + hold))])
    rows, _ = audited(server, 5, 6)
    assert [(row.number, row.status) for row in rows] == [(5, Status.LONGER), (6, Status.LONGER)]


def test_failed_head_counts_for_its_object_and_the_session_continues(scripted: Scripted) -> None:
    server = scripted(then=[serve(lambda request: FORBIDDEN if request.method == "HEAD" else answer(request))])
    rows, _ = audited(server, 5, 6)
    assert [(row.number, row.status) for row in rows] == [(5, 403), (6, 403)]
