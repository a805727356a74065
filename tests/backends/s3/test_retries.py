"""--retries: attempts are recorded, and service time starts at the first of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from archiver.values.record import Operation, Status
from tests.backends.s3.s3_sessions import SIZE, archives, data_plane, record_of_sessions, retrieves, rows_of
from tests.backends.s3.scripted_answers import NOT_FOUND, OK, SLOW_DOWN, content_reply, honest
from tests.support.servers.scripted import ScriptedServer, close, read, replies, send, serve

Scripted = Callable[..., ScriptedServer]
AT_ONCE = SLOW_DOWN.replace(b"Retry-After: 1", b"Retry-After: 0")
BROKEN = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("refusal", [AT_ONCE, BROKEN])
def test_success_at_third_attempt_is_one_object_and_three_requests(scripted: Scripted, refusal: bytes) -> None:
    server = scripted([*replies(refusal, refusal, OK), serve(honest)])
    record = record_of_sessions(data_plane(server.url, retries=2), archives(1, 2))
    first, second = rows_of(record)[1:-1]
    assert (first.status, first.bytes, first.attempts) == (Status.OK, SIZE, 3)
    assert (second.status, second.attempts) == (Status.OK, 1)
    assert [request.target[-1] for request in server.requests] == ["1", "1", "1", "2"]
    assert not any(each.count for each in record.errors.values())


def test_service_time_runs_from_the_first_attempt_and_the_delay_is_kept(scripted: Scripted) -> None:
    server = scripted([*replies(BROKEN, BROKEN, OK), serve(honest)])
    rows = rows_of(record := record_of_sessions(data_plane(server.url, retries=2), archives(1, 2)))
    row = rows[1]
    first, second, granted, _ = server.requests
    assert row.due_ns <= row.sent_ns <= first.received_ns
    assert second.received_ns < row.sent_ns + record.delays[1].retry_ns <= granted.received_ns
    assert granted.received_ns <= row.first_byte_ns <= row.done_ns
    assert list(record.delays) == [1]  # the second object was not delayed


def test_last_refusal_is_the_error_when_attempts_are_exhausted(scripted: Scripted) -> None:
    server = scripted([*replies(AT_ONCE, AT_ONCE), serve(honest)])
    record = record_of_sessions(data_plane(server.url, retries=1), archives(1, 2))
    refused, good = rows_of(record)[1:-1]
    assert (refused.status, refused.bytes, refused.attempts) == (503, 0, 2)
    assert good.status == Status.OK
    (error,) = record.errors.values()
    assert (error.reason, error.count) == ("503 SlowDown", 1)


def test_retried_retrieve_is_verified_from_its_first_byte(scripted: Scripted) -> None:
    server = scripted(replies(AT_ONCE, content_reply(7)))
    row = rows_of(record_of_sessions(data_plane(server.url, retries=1), retrieves(7)))[1]
    assert (row.status, row.bytes, row.attempts) == (Status.OK, SIZE, 2)


def test_not_found_answer_is_not_retried(scripted: Scripted) -> None:
    server = scripted(replies(NOT_FOUND))
    row = rows_of(record_of_sessions(data_plane(server.url, retries=5), retrieves(7)))[1]
    assert (row.status, row.attempts) == (404, 1)
    assert len(server.requests) == 1


def test_close_during_the_retry_delay_is_a_lost_connection(scripted: Scripted) -> None:
    server = scripted([read, send(BROKEN), close])
    record = record_of_sessions(data_plane(server.url, retries=3, on_close="stop"), archives(1, 2))
    rows = rows_of(record)
    assert [Operation(row.operation) for row in rows] == [Operation.OPEN, Operation.ARCHIVE, Operation.CLOSE]
    assert rows[1].status == Status.CONNECTION_LOST
