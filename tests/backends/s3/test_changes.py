"""Operations on an object other than its content: every way to lock it, its deletion, and its audit."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from archiver.values.content import Checksum
from archiver.values.errors import PlatformError
from archiver.values.record import Operation, Recorder, Status
from archiver.values.retention import DateMaker, Lock, Retention, RetentionMode
from archiver.values.sizes import format_instant
from backends.base import Batch, ExpectedLock, PhaseSetting
from backends.s3.control import Control, Credentials
from backends.s3.data_plane import S3DataPlane
from tests.backends.s3.botocore_requests import check_signature
from tests.backends.s3.made_buckets import made_bucket
from tests.backends.s3.s3_sessions import CONTENT, SIZE, Row, archives, in_loop, one_session, rows_of, worker_setting
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
from tests.support.servers import real
from tests.support.servers.scripted import Request, ScriptedServer, Step, close, read, replies, reset, serve

Scripted = Callable[..., ScriptedServer]
RETENTION = Retention(retain_for_seconds=300.0)
FAR = 4e9  # the ledger's latest date, later than any date here
HELD = Retention(retain_for_seconds=300.0, legal_hold=True)
NUMBERS = (4, 7)


def plane_for(
    url: str,
    *,
    operation: Operation = Operation.ARCHIVE,
    lock: Lock | None = None,
    checksum: Checksum | None = None,
    deletes: Sequence[int] = (),
    expected: Sequence[ExpectedLock] = (),
    **changes: Any,
) -> S3DataPlane:
    """A worker's data plane, ready for a phase of this operation."""
    setting = worker_setting(url, **changes)
    plane = S3DataPlane(setting)
    plane.set_phase(
        PhaseSetting(
            CONTENT, {None: DateMaker(setting.retention, FAR)}, "all", (SIZE,),
            deletes=[np.array(deletes, dtype=np.int64)], operations=frozenset((operation,)), locks=frozenset((lock,)),
            checksums=frozenset((checksum,)), expected=expected,
        )
    )  # fmt: skip
    return plane


def performed(plane: S3DataPlane, batch: Batch) -> Recorder:
    record = Recorder(100)

    async def work() -> None:
        await one_session(plane, batch, record)
        await plane.end_phase()

    in_loop(work)
    return record


def batch_of(operation: Operation, *numbers: int) -> Batch:
    return Batch([operation] * len(numbers), numbers, [SIZE] * len(numbers))


def objects_of(record: Recorder) -> list[Row]:
    return [row for row in rows_of(record) if row.operation >= Operation.LOCK]


def error_reply(status: int, code: str) -> bytes:
    body = f"<Error><Code>{code}</Code><Message>Because of {code}.</Message></Error>".encode()
    return b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\nx-amz-request-id: R-5\r\n\r\n%s" % (status, len(body), body)


NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"


def listing(versions: dict[int, str]) -> Callable[[Request], bytes]:
    """Answer every request with a listing of these objects."""
    rows = "".join(
        f"<Version><Key>run/{number:012d}</Key><VersionId>{version.replace('&', '&amp;')}</VersionId>"
        "<IsLatest>true</IsLatest><Size>8192</Size></Version>"
        for number, version in versions.items()
    )
    body = f"<ListVersionsResult><IsTruncated>false</IsTruncated>{rows}</ListVersionsResult>".encode()
    return lambda _: b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body), body,
    )  # fmt: skip


def answering(versions: dict[int, str], *answers: bytes) -> Callable[[Request], bytes]:
    """Answer listings with these versions, and all other requests with these answers in turn."""
    listed, rest = listing(versions), iter(answers)
    return lambda request: listed(request) if "versions" in request.target else next(rest)


# ---- requests on the wire

RETENTION_BODY = re.compile(
    rb'<Retention xmlns="http://s3\.amazonaws\.com/doc/2006-03-01/"><Mode>(\w+)</Mode>'
    rb"<RetainUntilDate>(\S+)</RetainUntilDate></Retention>"
)
EVENT_BODY = (
    b'<Retention xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Mode>GOVERNANCE</Mode><EventHold>%s</EventHold>'
    b"%s</Retention>"
)
PERIOD = b"<EventHoldDuration><Days>30</Days></EventHoldDuration>"
HOLD_BODY = b'<LegalHold xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Status>%s</Status></LegalHold>'


def check_md5(request: Request) -> None:
    """Check the digest, which platforms require of lock requests."""
    digest = hashlib.md5(request.body, usedforsecurity=False).digest()
    assert request.headers["content-md5"] == base64.b64encode(digest).decode()
    assert request.headers["content-length"] == str(len(request.body))


@pytest.mark.parametrize(
    ("operation", "method", "query", "body"),
    [
        (Operation.QUERY, "GET", "?retention=", b""),
        (Operation.HOLD, "PUT", "?legal-hold=", HOLD_BODY % b"ON"),
        (Operation.RELEASE, "PUT", "?legal-hold=", HOLD_BODY % b"OFF"),
        (Operation.EXTEND, "PUT", "?retention=", None),
        (Operation.EVENT_HOLD, "PUT", "?retention=", EVENT_BODY % (b"ON", PERIOD)),
        (Operation.EVENT_RELEASE, "PUT", "?retention=", EVENT_BODY % (b"OFF", b"")),
    ],
)
def test_each_operation_is_one_signed_request(
    scripted: Scripted, operation: Operation, method: str, query: str, body: bytes | None
) -> None:
    server = scripted(then=[serve(honest)])
    agreed = Retention(retain_for_seconds=300.0, event_hold_days=30, event_hold_by_operation=True)
    plane = plane_for(server.url, operation=operation, retention=agreed)
    record = performed(plane, batch_of(operation, *NUMBERS))
    assert operations(rows_of(record)) == [Operation.OPEN, operation, operation, Operation.CLOSE]
    assert [(row.status, row.number, row.bytes, row.attempts) for row in objects_of(record)] == [
        (0, 4, 0, 1), (0, 7, 0, 1),
    ]  # fmt: skip
    for number, request in zip(NUMBERS, server.requests, strict=True):
        assert (request.method, request.target) == (method, f"/bucket-1/run/{number:012d}{query}")
        assert "x-amz-bypass-governance-retention" not in request.headers
        check_signature(request)
        if body is not None:
            assert request.body == body
        if request.body:
            check_md5(request)


@pytest.mark.parametrize("mode", [RetentionMode.GOVERNANCE, RetentionMode.COMPLIANCE])
def test_extension_sends_mode_and_whole_second_of_the_servers_clock(scripted: Scripted, mode: RetentionMode) -> None:
    server, offset = scripted(then=[serve(lambda _: OK)]), 86400.25
    before = int(time.time() + offset)
    plane = plane_for(
        server.url, operation=Operation.EXTEND, retention=Retention(mode, 300.0), clock_offset_seconds=offset
    )
    performed(plane, batch_of(Operation.EXTEND, 1))
    after = int(time.time() + offset)
    match = RETENTION_BODY.fullmatch(server.requests[0].body)
    assert match is not None, server.requests[0].body
    assert match[1].decode() == mode.value
    until = datetime.strptime(match[2].decode(), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    assert before + 300 <= until <= after + 300


@pytest.mark.parametrize("operation", [Operation.DELETE, Operation.REFUSED_DELETE])
@pytest.mark.parametrize(
    ("version", "encoded"),
    [
        ("3sL4kqt", "3sL4kqt"),
        ("a+b/c=d&e%25 f", "a%2Bb%2Fc%3Dd%26e%2525%20f"),
        ("%b %s %%", "%25b%20%25s%20%25%25"),
        ("-_.~é", "-_.~%C3%A9"),
        ("null", "null"),
    ],
)
def test_a_deletion_names_the_version_encoded_and_signed(
    scripted: Scripted, operation: Operation, version: str, encoded: str
) -> None:
    answer = NO_CONTENT if operation is Operation.DELETE else DENIED
    server = scripted(then=[serve(answering({4: version, 7: "other"}, answer, answer))])
    record = performed(plane_for(server.url, operation=operation, deletes=NUMBERS), batch_of(operation, *NUMBERS))
    assert [row.status for row in objects_of(record)] == [0, 0]
    first, second = (request for request in server.requests if request.method == "DELETE")
    assert first.target == f"/bucket-1/run/000000000004?versionId={encoded}"
    assert second.target == "/bucket-1/run/000000000007?versionId=other"
    assert "x-amz-bypass-governance-retention" not in first.headers
    check_signature(first)
    check_signature(second)


def test_object_without_a_listed_version_is_not_deleted(scripted: Scripted) -> None:
    """A delete without a version only adds a delete marker, and would look like the deletion of a locked object."""
    server = scripted(then=[serve(answering({4: "a"}))])
    with pytest.raises(PlatformError, match=r"does not list 1 of 2 objects .*such as run/000000000007"):
        plane_for(server.url, operation=Operation.REFUSED_DELETE, deletes=NUMBERS)
    assert {request.method for request in server.requests} == {"GET"}


@pytest.mark.parametrize(
    ("lock", "retention", "expected"),
    [
        (Lock.NONE, HELD, {}),
        (Lock.BUCKET_DEFAULT, HELD, {}),
        (Lock.HEADER, HELD, {"x-amz-object-lock-mode": "GOVERNANCE"}),
        (Lock.HEADER_AND_HOLD, RETENTION,
         {"x-amz-object-lock-mode": "GOVERNANCE", "x-amz-object-lock-legal-hold": "ON"}),
        (Lock.HEADER, Retention(RetentionMode.COMPLIANCE, 300.0), {"x-amz-object-lock-mode": "COMPLIANCE"}),
        (None, HELD, {"x-amz-object-lock-mode": "GOVERNANCE", "x-amz-object-lock-legal-hold": "ON"}),
    ],
)  # fmt: skip
def test_each_way_to_lock_has_its_headers_and_no_other(
    scripted: Scripted, lock: Lock | None, retention: Retention, expected: dict[str, str]
) -> None:
    server = scripted(then=[serve(lambda _: OK)])
    batch = archives(1)
    batch.lock = lock
    record = performed(plane_for(server.url, lock=lock, retention=retention), batch)
    assert operations(rows_of(record)) == [Operation.OPEN, Operation.ARCHIVE, Operation.CLOSE]
    (request,) = server.requests
    locks = {name: value for name, value in request.headers.items() if "object-lock" in name}
    until = locks.pop("x-amz-object-lock-retain-until-date", None)
    assert locks == expected
    assert (until is not None) == ("x-amz-object-lock-mode" in expected)
    check_signature(request)


@pytest.mark.parametrize("checksum", list(Checksum))
def test_workload_checksum_overrides_the_checksum_of_the_run(scripted: Scripted, checksum: Checksum) -> None:
    server = scripted(then=[serve(lambda _: OK)])
    batch = archives(70)
    batch.checksum = checksum
    performed(plane_for(server.url, checksum=checksum, payload_signing=True), batch)
    headers = server.requests[0].headers
    sent = {name: value for name, value in headers.items() if "checksum" in name or name == "content-md5"}
    known = CHECKSUMS.get(checksum.value)
    whole = CONTENT.whole(70, SIZE)
    assert sent == ({known[0]: base64.b64encode(known[1](whole)).decode()} if known else {})
    assert headers["x-amz-content-sha256"] == hashlib.sha256(whole).hexdigest()


# ---- results


@pytest.mark.parametrize("operation", [Operation.QUERY, Operation.EXTEND, Operation.HOLD, Operation.RELEASE])
@pytest.mark.parametrize(
    ("answer", "status", "reason", "unknown"),
    [
        (DENIED, 403, "403 AccessDenied", 0),
        (NOT_FOUND, 404, "404 NoSuchKey", 0),
        (SLOW_DOWN, 503, "503 SlowDown", 1),
        (error_reply(403, "SignatureDoesNotMatch"), 403, "403 SignatureDoesNotMatch", 0),
        (NO_CONTENT, 204, "204", 1),  # not an answer to this request
    ],
)
def test_other_status_than_200_is_a_failure_and_the_session_continues(
    scripted: Scripted, operation: Operation, answer: bytes, status: int, reason: str, unknown: int
) -> None:
    server = scripted([*replies(answer), serve(honest)])
    record = performed(plane_for(server.url, operation=operation), batch_of(operation, *NUMBERS))
    assert [(row.status, row.number) for row in objects_of(record)] == [(status, 4), (0, 7)]
    assert errors_of(record) == [(operation.label, reason, 1)]
    (error,) = record.errors.values()
    assert (error.object_name, error.outcomes_unknown) == ("bucket-1/run/000000000004", unknown)


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (DENIED, 0, None),
        (error_reply(400, "InvalidRequest"), 0, None),
        (error_reply(403, "ObjectLocked"), 0, None),
        (error_reply(403, "SignatureDoesNotMatch"), 403, "403 SignatureDoesNotMatch"),  # not of the deletion itself
        (error_reply(403, "InvalidAccessKeyId"), 403, "403 InvalidAccessKeyId"),
        (error_reply(400, "MalformedXML"), 400, "400 MalformedXML"),
        (error_reply(404, "NoSuchVersion"), 404, "404 NoSuchVersion"),
        (SLOW_DOWN, 503, "503 SlowDown"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 403, "403"),  # without a code
        (error_reply(500, "AccessDenied"), 500, "500 AccessDenied"),
        (NO_CONTENT, Status.DELETED_LOCKED, "deleted what was locked"),
        (OK, Status.DELETED_LOCKED, "deleted what was locked"),
    ],
)
def test_refused_delete_succeeds_only_if_refused_because_of_a_lock(
    scripted: Scripted, answer: bytes, status: int, reason: str | None
) -> None:
    server = scripted(then=[serve(answering({4: "a"}, answer))])
    record = performed(
        plane_for(server.url, operation=Operation.REFUSED_DELETE, deletes=[4]), batch_of(Operation.REFUSED_DELETE, 4)
    )
    assert [row.status for row in objects_of(record)] == [status]
    assert errors_of(record) == ([] if reason is None else [("refused-delete", reason, 1)])
    assert "Retry-After" in SLOW_DOWN.decode()  # not sent again: there are no --retries
    assert len([request for request in server.requests if request.method == "DELETE"]) == 1


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (NO_CONTENT, 0, None),
        (OK, 0, None),
        (DENIED, 403, "403 AccessDenied"),  # still locked, so the deletion failed
        (error_reply(404, "NoSuchVersion"), 404, "404 NoSuchVersion"),
        (SLOW_DOWN, 503, "503 SlowDown"),
    ],
)
def test_deletion_of_an_expired_object_succeeds_or_fails_by_its_status(
    scripted: Scripted, answer: bytes, status: int, reason: str | None
) -> None:
    server = scripted(then=[serve(answering({4: "a"}, answer))])
    record = performed(plane_for(server.url, operation=Operation.DELETE, deletes=[4]), batch_of(Operation.DELETE, 4))
    assert [row.status for row in objects_of(record)] == [status]
    assert errors_of(record) == ([] if reason is None else [("delete", reason, 1)])


@pytest.mark.parametrize("operation", [Operation.QUERY, Operation.EXTEND, Operation.HOLD, Operation.RELEASE])
@pytest.mark.parametrize("end", [close, reset])
def test_a_lost_connection_leaves_the_outcome_unknown_and_ends_the_session(
    scripted: Scripted, operation: Operation, end: Step
) -> None:
    server = scripted([read, end])
    record = performed(plane_for(server.url, operation=operation), batch_of(operation, *NUMBERS))
    (row,) = objects_of(record)
    assert (row.number, row.status) == (4, Status.CONNECTION_LOST)
    (error,) = record.errors.values()
    assert (error.operation, error.reason, error.outcomes_unknown) == (operation.label, "connection lost", 1)
    assert len(server.requests) == 1


# ---- locks by a separate request


def separately(*numbers: int) -> Batch:
    batch = archives(*numbers)
    batch.lock = Lock.SEPARATE
    return batch


def archived_separately(server: ScriptedServer, *numbers: int, **changes: Any) -> Recorder:
    return performed(plane_for(server.url, lock=Lock.SEPARATE, **changes), separately(*numbers))


def test_archive_row_covers_the_upload_and_its_separate_lock_request(scripted: Scripted) -> None:
    server = scripted(then=[serve(lambda _: OK)])
    record = archived_separately(server, 1, 2)
    assert operations(rows_of(record)) == [
        Operation.OPEN, Operation.LOCK, Operation.ARCHIVE, Operation.LOCK, Operation.ARCHIVE, Operation.CLOSE,
    ]  # fmt: skip
    assert [(r.method, r.target) for r in server.requests] == [
        (method, f"/bucket-1/run/00000000000{number}{query}")
        for number in (1, 2) for method, query in (("PUT", ""), ("PUT", "?retention="))
    ]  # fmt: skip
    lock, archive, second_lock, second = objects_of(record)
    assert (lock.status, lock.number, lock.bytes, archive.status, archive.bytes) == (0, 1, 0, 0, SIZE)
    assert archive.sent_ns < server.requests[0].received_ns < archive.first_byte_ns < lock.sent_ns
    assert lock.sent_ns < server.requests[1].received_ns < lock.first_byte_ns < lock.done_ns == archive.done_ns
    assert archive.due_ns <= archive.sent_ns
    assert second.due_ns == archive.done_ns  # the next object is due when this one is locked
    assert second.sent_ns > archive.done_ns < second_lock.sent_ns
    match = RETENTION_BODY.fullmatch(server.requests[1].body)
    assert match is not None
    assert match[1] == b"GOVERNANCE"
    check_md5(server.requests[1])
    check_signature(server.requests[1])


@pytest.mark.parametrize(
    ("script", "rows", "reason", "goes_on"),
    [
        (replies(OK, DENIED), [("LOCK", 403), ("ARCHIVE", 403)], "403 AccessDenied", True),
        (replies(OK, error_reply(503, "SlowDown")), [("LOCK", 503), ("ARCHIVE", 503)], "503 SlowDown", True),
        (replies(OK, NOT_FOUND), [("LOCK", 404), ("ARCHIVE", 404)], "404 NoSuchKey", True),
        ([*replies(OK), read, close],
         [("LOCK", Status.CONNECTION_LOST), ("ARCHIVE", Status.CONNECTION_LOST)], "connection lost", False),
        (replies(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")),
         [("ARCHIVE", Status.CONNECTION_LOST)], "not locked", False),
    ],
    ids=["refused", "in trouble", "not found", "lost", "closed between the two"],
)  # fmt: skip
def test_object_whose_lock_failed_is_a_failed_archive_of_unknown_outcome(
    scripted: Scripted, script: list[Step], rows: list[tuple[str, int]], reason: str, goes_on: bool
) -> None:
    """Without its lock it is not goodput, but the ledger must not count fewer objects than may exist."""
    server = scripted([*script, *([serve(lambda _: OK)] if goes_on else [])])
    record = archived_separately(server, 1, 2, on_close="stop")
    found = [(Operation(row.operation).name, row.status) for row in objects_of(record) if row.number == 1]
    assert found == rows
    assert [row.bytes for row in objects_of(record) if row.number == 1] == [0] * len(rows)
    assert [row.status for row in objects_of(record) if row.number == 2] == ([0, 0] if goes_on else [])
    error = next(iter(record.errors.values()))
    assert (error.operation, error.reason, error.count, error.outcomes_unknown) == ("archive", reason, 1, 1)


def test_an_object_that_was_not_archived_is_not_locked(scripted: Scripted) -> None:
    server = scripted([*replies(DENIED), serve(lambda _: OK)])
    record = archived_separately(server, 1)
    assert [(row.operation, row.status) for row in objects_of(record)] == [(Operation.ARCHIVE, 403)]
    (error,) = record.errors.values()
    assert (error.reason, error.outcomes_unknown) == ("403 AccessDenied", 0)
    assert len(server.requests) == 1


AGAIN = error_reply(503, "SlowDown").replace(b"\r\n\r\n", b"\r\nRetry-After: 0\r\n\r\n", 1)


@pytest.mark.parametrize(
    ("script", "attempts", "statuses"),
    [
        (replies(OK, AGAIN, OK), {"LOCK": 2, "ARCHIVE": 1}, [0, 0]),
        (replies(AGAIN, OK, OK), {"LOCK": 1, "ARCHIVE": 2}, [0, 0]),
        (replies(AGAIN, OK, AGAIN, OK), {"LOCK": 2, "ARCHIVE": 2}, [0, 0]),
        (replies(OK, AGAIN, AGAIN, AGAIN), {"LOCK": 3, "ARCHIVE": 1}, [503, 503]),
        ([*replies(AGAIN, OK), read, close], {"LOCK": 1, "ARCHIVE": 2}, [Status.CONNECTION_LOST] * 2),
    ],
)
def test_upload_and_lock_request_are_retried_separately(
    scripted: Scripted, script: list[Step], attempts: dict[str, int], statuses: list[int]
) -> None:
    server = scripted(script)
    record = archived_separately(server, 1, retries=2)
    rows = objects_of(record)
    assert {Operation(row.operation).name: row.attempts for row in rows} == attempts
    assert [row.status for row in rows] == statuses
    assert len(server.requests) == sum(attempts.values())
    puts = [request for request in server.requests if "retention" not in request.target]
    assert len(puts) == attempts["ARCHIVE"]


def test_retried_lock_is_measured_from_its_first_attempt(scripted: Scripted) -> None:
    server = scripted(replies(AGAIN, OK, AGAIN, OK))
    record = archived_separately(server, 1, retries=1)
    lock, archive = objects_of(record)
    put, put_again, locked, locked_again = (request.received_ns for request in server.requests)
    assert archive.sent_ns <= put < put_again < lock.sent_ns <= locked < locked_again <= lock.done_ns == archive.done_ns
    of_lock, of_object = (record.delays[row].retry_ns for row in (1, 2))
    assert locked < lock.sent_ns + of_lock <= locked_again
    assert put < archive.sent_ns + of_object - of_lock <= put_again


# ---- audits

EARLIEST, LATEST = 1_800_000_000.0, 1_800_000_010.0
IN_TIME = format_instant(1_800_000_005.0)


def locked(number: int, mode: str | None = "GOVERNANCE", until: str | None = IN_TIME, hold: str | None = None,
           **content: Any) -> bytes:  # fmt: skip
    """The reply to a retrieve, with lock headers."""
    given = {"mode": mode, "retain-until-date": until, "legal-hold": hold}
    headers = [f"x-amz-object-lock-{name}: {value}".encode() for name, value in given.items() if value is not None]
    return content_reply(number, *headers, **content)


@pytest.mark.parametrize(
    ("answer", "retention", "status", "reason"),
    [
        (locked(4), RETENTION, 0, None),
        (locked(4, hold="ON"), HELD, 0, None),
        (content_reply(4), Retention(RetentionMode.NONE, None), 0, None),
        (locked(4, body=CONTENT.whole(5, SIZE)), RETENTION, Status.DAMAGED, "damaged"),
        (content_reply(4), RETENTION, Status.UNLOCKED, "unlocked"),
        (locked(4, until=None), RETENTION, Status.UNLOCKED, "unlocked"),
        (locked(4), HELD, Status.UNLOCKED, "unlocked"),
        (locked(4, hold="OFF"), HELD, Status.UNLOCKED, "unlocked"),
        (locked(4, until=format_instant(EARLIEST - 1)), RETENTION, Status.WEAKER, "weaker"),
        (locked(4), Retention(RetentionMode.COMPLIANCE, 300.0), Status.WEAKER, "weaker"),
        (locked(4, until=format_instant(LATEST + 1)), RETENTION, Status.LONGER, "longer"),
        (locked(4, mode="COMPLIANCE"), RETENTION, Status.LONGER, "longer"),
        (locked(4), Retention(RetentionMode.NONE, None), Status.LONGER, "longer"),
        (NOT_FOUND, RETENTION, 404, "404 NoSuchKey"),
    ],
)
def test_audit_finds_wrong_content_or_lock(
    scripted: Scripted, answer: bytes, retention: Retention, status: int, reason: str | None
) -> None:
    expected = [
        ExpectedLock(9, 12, Retention(RetentionMode.NONE, None), None, None),  # not in order
        ExpectedLock(0, 8, retention, EARLIEST, LATEST),
    ]

    def honest(request: Request) -> bytes:
        reply = answer if request.target.endswith("4") else content_reply(10)
        return reply if request.method == "GET" else reply.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"

    server = scripted([serve(honest)])
    plane = plane_for(server.url, operation=Operation.AUDIT, deletes=[4, 10], expected=expected)
    record = performed(plane, batch_of(Operation.AUDIT, 4, 10))
    found = [(row.number, row.status) for row in objects_of(record) if row.operation == Operation.AUDIT]
    assert found == [(4, status), (10, 0)]
    assert errors_of(record) == ([] if reason is None else [("audit", reason, 1)])
    gets = [request.target for request in server.requests if request.method == "GET"]
    assert gets == [f"/bucket-1/run/{number:012d}" for number in (4, 10)]


# ---- real stores: another client checks the effect of each request


@pytest.fixture
def bucket(s3: Any) -> Iterator[str]:
    yield from made_bucket(s3)


def go_through_a_life(client: Any, bucket: str, url: str, access_key: str, secret_key: str) -> None:
    """Archive with every way to lock, then perform every operation. Another client checks each effect."""
    run: dict[str, Any] = {"bucket": bucket, "access_key": access_key, "secret_key": secret_key}
    control = Control(
        url, "us-east-1", Credentials(access_key, secret_key, None), verify=True, connect_timeout_seconds=60,
        read_timeout_seconds=30,
    )  # fmt: skip

    def go(operation: Operation, *numbers: int, lock: Lock | None = None, **changes: Any) -> list[int]:
        changes = {"retention": RETENTION, **changes}
        plane = plane_for(url, operation=operation, lock=lock, deletes=numbers, **run, **changes)
        batch = batch_of(operation, *numbers)
        batch.lock = lock
        record = performed(plane, batch)
        assert record.errors == {}, record.errors
        return [row.status for row in objects_of(record) if row.operation == operation]

    def lock_of(number: int) -> tuple[str | None, float | None, bool]:
        found = control.lock_of(bucket, f"run/{number:012d}")
        return found.mode, found.until, found.on_hold

    for number, lock in enumerate((Lock.NONE, Lock.HEADER, Lock.SEPARATE, Lock.HEADER_AND_HOLD), 1):
        assert go(Operation.ARCHIVE, number, lock=lock) == [0]
        mode, until, held = lock_of(number)
        assert (mode, held) == (None if lock is Lock.NONE else "GOVERNANCE", lock is Lock.HEADER_AND_HOLD)
        assert lock is Lock.NONE or abs((until or 0) - time.time() - 300) < 60
    assert go(Operation.QUERY, 2, 3) == [0, 0]
    assert go(Operation.EXTEND, 2, retention=Retention(retain_for_seconds=3000.0)) == [0]
    assert (lock_of(2)[1] or 0) > time.time() + 2000
    assert go(Operation.HOLD, 2) == [0]
    assert lock_of(2)[2]
    assert go(Operation.RELEASE, 2, 4) == [0, 0]
    assert not lock_of(2)[2]
    assert not lock_of(4)[2]
    assert go(Operation.REFUSED_DELETE, 2, 3, 4) == [0, 0, 0]
    assert go(Operation.DELETE, 1) == [0]
    listed = client.list_object_versions(Bucket=bucket)
    assert sorted(int(row["Key"][-12:]) for row in listed["Versions"]) == [2, 3, 4]
    assert not listed.get("DeleteMarkers")  # The version was removed, not hidden.


def test_embedded_store_performs_each_operation(store: Any, s3: Any, bucket: str) -> None:
    go_through_a_life(s3, bucket, store.endpoint, store.access_key, store.secret_key)


def test_embedded_store_applies_the_bucket_default_retention(store: Any, s3: Any, bucket: str) -> None:
    control = Control(
        store.endpoint, "us-east-1", Credentials(store.access_key, store.secret_key, None), verify=True,
        connect_timeout_seconds=60, read_timeout_seconds=30,
    )  # fmt: skip
    control.set_default_lock(bucket, "GOVERNANCE", 1)
    assert control.lock_of_bucket(bucket).default_retention == "GOVERNANCE, 1 days"
    batch = archives(1)
    batch.lock = Lock.BUCKET_DEFAULT
    keys = {"bucket": bucket, "access_key": store.access_key, "secret_key": store.secret_key}
    assert performed(plane_for(store.endpoint, lock=Lock.BUCKET_DEFAULT, **keys), batch).errors == {}
    found = control.lock_of(bucket, "run/000000000001")
    assert found.mode == "GOVERNANCE"
    assert abs((found.until or 0) - time.time() - 86400) < 60
    control.set_default_lock(bucket, None, 0)
    assert control.lock_of_bucket(bucket).default_retention is None


@pytest.mark.platforms
@pytest.mark.parametrize("name", real.NAMES)
def test_real_platform_performs_each_operation(tmp_path: Path, name: str) -> None:
    with real.real_server(name, tmp_path) as server:
        client = real.client_of(server)
        for bucket in made_bucket(client):
            access = server.access
            go_through_a_life(client, bucket, server.endpoint, access.access_key, access.secret_key)
