"""Operations of mixed workloads other than whole archives and retrieves: parts, copies, versions, markers."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from awscrt import checksums as crt

from archiver.values.content import Checksum
from archiver.values.record import Operation, Recorder, Status
from archiver.values.retention import DateMaker, Lock, Retention
from backends.base import Batch, PhaseSetting
from backends.s3 import data_plane
from backends.s3.data_plane import S3DataPlane
from tests.backends.s3.botocore_requests import check_signature
from tests.backends.s3.made_buckets import made_bucket
from tests.backends.s3.s3_sessions import CONTENT, SIZE, Row, in_loop, one_session, rows_of, worker_setting
from tests.backends.s3.scripted_answers import BARE, DENIED, NOT_FOUND, OK, SLOW_DOWN, content_reply, errors_of
from tests.support.servers import real
from tests.support.servers.scripted import Request, ScriptedServer, close, read, replies, serve

Scripted = Callable[..., ScriptedServer]
FAR = 4e9
PART = 5 << 20  # the minimum size of a part
LARGE = 2 * PART + 1000
CONTENT_LARGE = type(CONTENT)(CONTENT.run_id, 7, LARGE)


def plane_for(
    url: str, *operations: Operation, deletes: Sequence[int] = (), sizes: Sequence[int] = (SIZE,), **changes: Any
) -> S3DataPlane:
    """A worker's data plane, ready for a phase of these operations."""
    setting = worker_setting(url, **changes)
    plane = S3DataPlane(setting)
    dates = {None: DateMaker(setting.retention, FAR), 30.0: DateMaker(Retention(retain_for_seconds=30.0), FAR)}
    plane.set_phase(
        PhaseSetting(
            CONTENT_LARGE, dates, "all", tuple(sizes), deletes=[np.array(deletes, dtype=np.int64)],
            operations=frozenset(operations), checksums=frozenset((None, *Checksum)),
        )
    )  # fmt: skip
    return plane


def performed(plane: S3DataPlane, *batches: Batch) -> Recorder:
    record = Recorder(200)

    async def work() -> None:
        for batch in batches:
            await one_session(plane, batch, record)
        await plane.end_phase()

    in_loop(work)
    return record


def batch_of(operation: Operation, *numbers: int, size_bytes: int = SIZE, **changes: Any) -> Batch:
    return Batch([operation] * len(numbers), numbers, [size_bytes] * len(numbers), **changes)


def objects_of(record: Recorder) -> list[Row]:
    return [row for row in rows_of(record) if row.operation >= Operation.LOCK]


def xml_reply(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\nx-amz-request-id: R-7\r\n\r\n%b" % (status, len(body), body)


ERROR = b"<Error><Code>InternalError</Code><Message>We had a problem.</Message></Error>"
COPIED = xml_reply(b"<CopyObjectResult><ETag>&quot;e&quot;</ETag></CopyObjectResult>")
ABORTED = b"HTTP/1.1 204 No Content\r\n\r\n"
MARKED = b"HTTP/1.1 204 No Content\r\nx-amz-delete-marker: true\r\n\r\n"
HEAD_OF_ALL = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % SIZE


def partial(number: int, offset: int, length: int, *, version: int = 1, status: bytes = b"206 Partial") -> bytes:
    body = CONTENT.whole(number, SIZE, version)[offset : offset + length]
    span = b"bytes %d-%d/%d" % (offset, offset + length - 1, SIZE)
    return b"HTTP/1.1 %b\r\nContent-Range: %b\r\nContent-Length: %d\r\n\r\n%b" % (status, span, len(body), body)


# ---- due times


def test_first_object_is_due_at_batch_time_next_at_previous_done(scripted: Scripted) -> None:
    server = scripted(then=[serve(lambda _: OK)])
    record = performed(plane_for(server.url, Operation.ARCHIVE), batch_of(Operation.ARCHIVE, 1, 2, due_ns=12345))
    first, second = objects_of(record)
    assert first.due_ns == 12345
    assert second.due_ns == first.done_ns


# ---- one request each


def test_range_is_requested_compared_at_offset_and_counted_by_length(scripted: Scripted) -> None:
    ranges = [(100, 50), (SIZE - 70, 70), (0, SIZE), (SIZE - 1, 1)]
    server = scripted(replies(*(partial(number, *part) for number, part in enumerate(ranges))))
    batch = batch_of(Operation.RANGE_RETRIEVE, *range(4), range=ranges)
    record = performed(plane_for(server.url, Operation.RANGE_RETRIEVE), batch)
    assert record.errors == {}
    assert [(row.status, row.bytes) for row in objects_of(record)] == [(0, length) for _, length in ranges]
    assert [request.headers["range"] for request in server.requests] == [
        "bytes=100-149", f"bytes={SIZE - 70}-{SIZE - 1}", f"bytes=0-{SIZE - 1}", f"bytes={SIZE - 1}-{SIZE - 1}",
    ]  # fmt: skip
    assert [request.target[-1] for request in server.requests] == list("0123")
    for request in server.requests:
        check_signature(request)
        assert "range" in request.headers["authorization"].partition("SignedHeaders=")[2]


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (partial(1, 101, 50), Status.DAMAGED, "damaged"),
        (partial(1, 100, 49), Status.DAMAGED, "damaged"),
        (partial(1, 100, 51), Status.DAMAGED, "damaged"),
        (partial(2, 100, 50), Status.DAMAGED, "damaged"),
        (content_reply(1), Status.PROTOCOL_ERROR, "range ignored"),
        (NOT_FOUND, 404, "404 NoSuchKey"),
        (xml_reply(ERROR, b"416 Range Not Satisfiable"), 416, "416 InternalError"),
    ],
)
def test_wrong_range_answer_is_a_failure(scripted: Scripted, answer: bytes, status: int, reason: str) -> None:
    server = scripted(replies(answer))
    batch = batch_of(Operation.RANGE_RETRIEVE, 1, range=[(100, 50)])
    record = performed(plane_for(server.url, Operation.RANGE_RETRIEVE), batch)
    assert [(row.status, row.bytes) for row in objects_of(record)] == [(status, 0)]
    assert errors_of(record) == [("range-retrieve", reason, 1)]


def test_batch_content_version_is_expected_on_retrieve(scripted: Scripted) -> None:
    server = scripted(
        replies(
            content_reply(1, body=CONTENT.whole(1, SIZE, 3)), content_reply(2), content_reply(3),
            partial(4, SIZE - 64, 64, version=2), partial(5, SIZE - 64, 64),
        )
    )  # fmt: skip
    operations = [Operation.RETRIEVE] * 3 + [Operation.RANGE_RETRIEVE] * 2
    tail = (SIZE - 64, 64)
    batch = Batch(operations, range(1, 6), [SIZE] * 5, version=[3, 1, 2, 2, 2], range=[(0, 0)] * 3 + [tail] * 2)
    record = performed(plane_for(server.url, *operations), batch)
    assert [row.status for row in objects_of(record)] == [0, 0, Status.DAMAGED, 0, Status.DAMAGED]


@pytest.mark.parametrize(
    ("length", "status"), [(b"%d" % SIZE, 0), (b"%d" % (SIZE + 1), Status.DAMAGED), (b"0", Status.DAMAGED)]
)
def test_head_with_wrong_object_size_is_damaged(scripted: Scripted, length: bytes, status: int) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: " + length + b"\r\n\r\n"
    server = scripted(replies(head, HEAD_OF_ALL))
    record = performed(plane_for(server.url, Operation.HEAD), batch_of(Operation.HEAD, 1, 2))
    assert [(row.status, row.bytes) for row in objects_of(record)] == [(status, 0), (0, 0)]
    assert [(request.method, request.target) for request in server.requests] == [
        ("HEAD", "/bucket-1/run/000000000001"), ("HEAD", "/bucket-1/run/000000000002"),
    ]  # fmt: skip
    check_signature(server.requests[0])


def test_a_head_without_a_length_or_without_the_object_is_a_failure(scripted: Scripted) -> None:
    server = scripted(replies(b"HTTP/1.1 404 Not Found\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"))
    record = performed(plane_for(server.url, Operation.HEAD), batch_of(Operation.HEAD, 1, 2))
    assert [row.status for row in objects_of(record)] == [404, Status.PROTOCOL_ERROR]
    assert errors_of(record) == [("head", "404", 1), ("head", "no Content-Length", 1)]


@pytest.mark.parametrize(
    ("lock", "headers"),
    [
        (None, {"x-amz-object-lock-mode": "GOVERNANCE"}),
        (Lock.HEADER_AND_HOLD, {"x-amz-object-lock-mode": "GOVERNANCE", "x-amz-object-lock-legal-hold": "ON"}),
        (Lock.NONE, {}),
        (Lock.BUCKET_DEFAULT, {}),
    ],
)
def test_copy_is_server_side_and_locked_like_archive(
    scripted: Scripted, lock: Lock | None, headers: dict[str, str]
) -> None:
    server = scripted(replies(COPIED))
    batch = batch_of(Operation.COPY, 8, source=[3], lock=lock)
    record = performed(plane_for(server.url, Operation.COPY), batch)
    assert record.errors == {}
    assert [(row.number, row.status, row.bytes) for row in objects_of(record)] == [(8, 0, 0)]
    (request,) = server.requests
    assert (request.method, request.target, request.body) == ("PUT", "/bucket-1/run/000000000008", b"")
    assert request.headers["x-amz-copy-source"] == "/bucket-1/run/000000000003"
    assert request.headers["content-length"] == "0"
    check_signature(request)
    locks = {name: value for name, value in request.headers.items() if "object-lock" in name}
    assert ("x-amz-object-lock-retain-until-date" in locks) == bool(headers)
    locks.pop("x-amz-object-lock-retain-until-date", None)
    assert locks == headers


@pytest.mark.parametrize(
    ("answer", "status", "reason", "unknown"),
    [
        (DENIED, 403, "403 AccessDenied", 0),
        (xml_reply(ERROR), 500, "200 InternalError", 1),  # status 200 with an error as its body
        (BARE, Status.PROTOCOL_ERROR, "no ETag", 1),
        (NOT_FOUND, 404, "404 NoSuchKey", 0),
    ],
)
def test_copy_fails_unless_its_answer_names_the_copy(
    scripted: Scripted, answer: bytes, status: int, reason: str, unknown: int
) -> None:
    server = scripted(replies(answer))
    record = performed(plane_for(server.url, Operation.COPY), batch_of(Operation.COPY, 8, source=[3]))
    assert [row.status for row in objects_of(record)] == [status]
    (error,) = record.errors.values()
    assert (error.operation, error.reason, error.outcomes_unknown) == ("copy", reason, unknown)


def test_error_in_200_reply_is_retried_like_server_error(scripted: Scripted) -> None:
    server = scripted(replies(xml_reply(ERROR), COPIED))
    record = performed(plane_for(server.url, Operation.COPY, retries=1), batch_of(Operation.COPY, 8, source=[3]))
    assert [(row.status, row.attempts) for row in objects_of(record)] == [(0, 2)]


def test_copy_can_be_locked_by_separate_request(scripted: Scripted) -> None:
    server = scripted(replies(COPIED, OK))
    batch = batch_of(Operation.COPY, 8, source=[3], lock=Lock.SEPARATE)
    record = performed(plane_for(server.url, Operation.COPY), batch)
    assert [(row.operation, row.status) for row in objects_of(record)] == [(Operation.LOCK, 0), (Operation.COPY, 0)]
    assert [request.target for request in server.requests] == [
        "/bucket-1/run/000000000008", "/bucket-1/run/000000000008?retention=",
    ]  # fmt: skip


def test_new_version_is_archived_like_first_with_new_content(scripted: Scripted) -> None:
    server = scripted(replies(OK, OK))
    batch = batch_of(Operation.NEW_VERSION, 5, 6, version=[2, 17])
    record = performed(plane_for(server.url, Operation.NEW_VERSION), batch)
    assert [(row.status, row.bytes) for row in objects_of(record)] == [(0, SIZE)] * 2
    for request, number, version in zip(server.requests, (5, 6), (2, 17), strict=True):
        assert (request.method, request.target) == ("PUT", f"/bucket-1/run/{number:012d}")
        assert request.body == CONTENT.whole(number, SIZE, version) != CONTENT.whole(number, SIZE)
        assert request.headers["x-amz-object-lock-mode"] == "GOVERNANCE"
        crc = crt.crc32c(request.body).to_bytes(4, "big")
        assert request.headers["x-amz-checksum-crc32c"] == base64.b64encode(crc).decode()


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (MARKED, 0, None),
        (ABORTED, Status.PROTOCOL_ERROR, "no delete marker"),
        (DENIED, 403, "403 AccessDenied"),
        (SLOW_DOWN, 503, "503 SlowDown"),
    ],
)
def test_delete_marker_request_names_no_version(
    scripted: Scripted, answer: bytes, status: int, reason: str | None
) -> None:
    server = scripted(replies(answer))
    record = performed(plane_for(server.url, Operation.DELETE_MARKER), batch_of(Operation.DELETE_MARKER, 5))
    assert [(row.status, row.bytes) for row in objects_of(record)] == [(status, 0)]
    assert errors_of(record) == ([] if reason is None else [("delete-marker", reason, 1)])
    (request,) = server.requests
    assert (request.method, request.target) == ("DELETE", "/bucket-1/run/000000000005")
    assert "x-amz-bypass-governance-retention" not in request.headers
    check_signature(request)


def test_object_without_known_version_is_not_deleted(scripted: Scripted) -> None:
    """A delete without a version only adds a delete marker, and would look like a success."""
    server = scripted(then=[serve(lambda _: OK)])
    plane = plane_for(server.url, Operation.ARCHIVE, Operation.DELETE)
    operations = [Operation.DELETE, Operation.ARCHIVE, Operation.DELETE, Operation.DELETE, Operation.ARCHIVE]
    record = performed(plane, Batch(operations, [4, 5, 6, 5, 7], [SIZE] * 5))
    statuses = [(row.number, row.status) for row in objects_of(record)]
    assert statuses == [(4, Status.INCOMPLETE), (5, 0), (6, Status.INCOMPLETE), (5, Status.INCOMPLETE), (7, 0)]
    assert errors_of(record) == [("delete", "version not known", 3)]
    assert [request.method for request in server.requests] == ["PUT", "PUT"]


# ---- retention periods


def test_requests_use_the_retention_period_of_their_workload(scripted: Scripted) -> None:
    server = scripted(then=[serve(lambda _: OK)])
    plane = plane_for(server.url, Operation.ARCHIVE, Operation.COPY)
    before = int(time.time())
    performed(
        plane,
        batch_of(Operation.ARCHIVE, 1),
        batch_of(Operation.ARCHIVE, 2, retain_for_seconds=30.0),
        batch_of(Operation.ARCHIVE, 3, retain_for_seconds=30.0, lock=Lock.SEPARATE),
        batch_of(Operation.ARCHIVE, 4, retain_for_seconds=31.0),  # not declared for the phase: no date
    )
    after = int(time.time())
    bodies = [request.headers.get("x-amz-object-lock-retain-until-date") for request in server.requests]
    found = re.search(rb"<RetainUntilDate>(.*?)<", server.requests[3].body)
    assert found is not None
    for text, seconds in ((bodies[0], 300), (bodies[1], 30), (found[1].decode(), 30)):
        assert text is not None
        assert before + seconds <= datetime.fromisoformat(text).timestamp() <= after + seconds
    assert bodies[2:] == [None, None, None]


# ---- in parts

SMALL_PART = 1000
TOTAL = 2 * SMALL_PART + 30  # the last block spans two parts
CREATED = xml_reply(b"<InitiateMultipartUploadResult><UploadId>a&amp;b/c+d</UploadId></InitiateMultipartUploadResult>")
UPLOAD_ID = "a%26b%2Fc%2Bd"
COMPLETED = xml_reply(
    b'<?xml version="1.0"?>  <CompleteMultipartUploadResult><ETag>"e-3"</ETag></CompleteMultipartUploadResult>'
)
FAILED = xml_reply(ERROR)
TARGET = "/bucket-1/run/000000000070"


def part_done(number: int) -> bytes:
    return b'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: "t-%d"\r\n\r\n' % number


PARTS = (part_done(1), part_done(2), part_done(3))


def in_parts(*numbers: int, operation: Operation = Operation.ARCHIVE, **changes: Any) -> Batch:
    return batch_of(operation, *numbers, size_bytes=TOTAL, part_bytes=SMALL_PART, **changes)


def archived_in_parts(server: ScriptedServer, batch: Batch, **changes: Any) -> Recorder:
    return performed(plane_for(server.url, *set(batch.operation), sizes=(TOTAL,), **changes), batch)


def steps(server: ScriptedServer) -> list[str]:
    """Return method and query of each request."""
    return [f"{request.method} {request.target.partition('?')[2]}" for request in server.requests]


WHOLE_UPLOAD = [
    "POST uploads=",
    *(f"PUT partNumber={number}&uploadId={UPLOAD_ID}" for number in (1, 2, 3)),
    f"POST uploadId={UPLOAD_ID}",
]
ABORT = f"DELETE uploadId={UPLOAD_ID}"


@pytest.mark.parametrize("payload_signing", [False, True])
@pytest.mark.parametrize("checksum", ["crc32c", "crc64nvme", "md5", "none"])
def test_multipart_archive_is_one_row_over_all_its_requests(
    scripted: Scripted, checksum: str, payload_signing: bool
) -> None:
    server = scripted(replies(CREATED, *PARTS, COMPLETED, OK))
    batch = in_parts(70, 71)
    batch.size_bytes = [TOTAL, SMALL_PART]  # An object of one part is not split.
    setting: dict[str, Any] = {"checksum": checksum, "payload_signing": payload_signing}
    plane = plane_for(server.url, Operation.ARCHIVE, sizes=(SMALL_PART, TOTAL), **setting)
    record = performed(plane, batch)
    assert record.errors == {}
    first, second = objects_of(record)
    assert (first.operation, first.number, first.status, first.bytes, first.attempts) == (
        Operation.ARCHIVE, 70, 0, TOTAL, 1,
    )  # fmt: skip
    assert first.due_ns <= first.sent_ns < server.requests[0].received_ns
    assert server.requests[4].received_ns < first.first_byte_ns <= first.done_ns == second.due_ns
    assert steps(server) == [*WHOLE_UPLOAD, "PUT "]
    create, *parts, complete, _ = server.requests
    assert {request.target.partition("?")[0] for request in server.requests[:5]} == {TARGET}
    assert create.headers["x-amz-object-lock-mode"] == "GOVERNANCE"
    assert "x-amz-object-lock-retain-until-date" in create.headers
    whole = CONTENT.whole(70, TOTAL)
    assert [request.body for request in parts] == [whole[:1000], whole[1000:2000], whole[2000:]]
    elements = {"crc32c": ("CRC32C", 4, crt.crc32c), "crc64nvme": ("CRC64NVME", 8, crt.crc64nvme)}
    listed = ""
    for number, request in enumerate(parts, 1):
        assert not [name for name in request.headers if "object-lock" in name]
        element = ""
        if checksum in elements:
            name, width, function = elements[checksum]
            value = base64.b64encode(function(request.body).to_bytes(width, "big")).decode()
            assert request.headers[f"x-amz-checksum-{checksum}"] == value
            assert create.headers["x-amz-checksum-algorithm"] == name
            element = f"<Checksum{name}>{value}</Checksum{name}>"
        elif checksum == "md5":
            digest = hashlib.md5(request.body, usedforsecurity=False).digest()
            assert request.headers["content-md5"] == base64.b64encode(digest).decode()
        digest_of_payload = hashlib.sha256(request.body).hexdigest() if payload_signing else "UNSIGNED-PAYLOAD"
        assert request.headers["x-amz-content-sha256"] == digest_of_payload
        listed += f"<Part><PartNumber>{number}</PartNumber><ETag>&quot;t-{number}&quot;</ETag>{element}</Part>"
    assert complete.body.decode().partition(">")[2] == f"{listed}</CompleteMultipartUpload>"
    for request in server.requests:
        check_signature(request)


def test_multipart_new_version_has_its_own_content(scripted: Scripted) -> None:
    server = scripted(replies(CREATED, *PARTS, COMPLETED))
    record = archived_in_parts(server, in_parts(70, operation=Operation.NEW_VERSION, version=[2]))
    assert [(row.operation, row.status, row.bytes) for row in objects_of(record)] == [
        (Operation.NEW_VERSION, 0, TOTAL)
    ]  # fmt: skip
    assert b"".join(request.body for request in server.requests[1:4]) == CONTENT.whole(70, TOTAL, 2)


def test_multipart_object_can_be_locked_by_separate_request(scripted: Scripted) -> None:
    server = scripted(replies(CREATED, *PARTS, COMPLETED, OK))
    record = archived_in_parts(server, in_parts(70, lock=Lock.SEPARATE))
    assert [(row.operation, row.status) for row in objects_of(record)] == [(Operation.LOCK, 0), (Operation.ARCHIVE, 0)]
    assert steps(server) == [*WHOLE_UPLOAD, "PUT retention="]
    assert not [name for name in server.requests[0].headers if "object-lock" in name]


NO_ID = xml_reply(b"<InitiateMultipartUploadResult/>")


@pytest.mark.parametrize(
    ("script", "sent", "status", "reasons", "unknown"),
    [
        ([DENIED], 1, 403, ["create upload: 403 AccessDenied"], 0),
        ([NO_ID], 1, Status.PROTOCOL_ERROR, ["create upload: no upload id"], 0),
        ([CREATED, PARTS[0], DENIED, ABORTED], 3, 403, ["part: 403 AccessDenied"], 0),
        ([CREATED, SLOW_DOWN, ABORTED], 2, 503, ["part: 503 SlowDown"], 0),
        ([CREATED, BARE, ABORTED], 2, Status.PROTOCOL_ERROR, ["part: no ETag"], 0),
        ([CREATED, *PARTS, DENIED, ABORTED], 5, 403, ["complete upload: 403 AccessDenied"], 0),
        ([CREATED, *PARTS, FAILED, ABORTED], 5, 500, ["complete upload: 200 InternalError"], 1),
        ([CREATED, *PARTS, BARE, ABORTED], 5, Status.PROTOCOL_ERROR, ["complete upload: no ETag"], 1),
        ([CREATED, *PARTS, FAILED, NOT_FOUND], 5, 500, ["complete upload: 200 InternalError"], 1),
        ([CREATED, DENIED, DENIED], 2, 403, ["abort upload: 403 AccessDenied", "part: 403 AccessDenied"], 0),
    ],
)
def test_failed_multipart_upload_is_aborted_and_counted_by_reason(
    scripted: Scripted, script: list[bytes], sent: int, status: int, reasons: list[str], unknown: int
) -> None:
    server = scripted([*replies(*script), serve(lambda _: OK)])
    batch = in_parts(70, 71)
    batch.size_bytes = [TOTAL, SMALL_PART]
    plane = plane_for(server.url, Operation.ARCHIVE, sizes=(SMALL_PART, TOTAL))
    record = performed(plane, batch)
    assert [(row.number, row.status, row.bytes) for row in objects_of(record)] == [
        (70, status, 0), (71, 0, SMALL_PART),
    ]  # fmt: skip
    aborts = [ABORT] if script[0] is CREATED else []
    assert steps(server) == [*WHOLE_UPLOAD[:sent], *aborts, "PUT "]
    assert sorted(error.reason for error in record.errors.values()) == reasons
    assert sum(error.outcomes_unknown for error in record.errors.values()) == unknown


@pytest.mark.parametrize(
    ("answered", "reason", "unknown"),
    [
        ([], "create upload: connection lost", 0),
        ([CREATED, PARTS[0]], "part: connection lost", 0),
        ([CREATED, *PARTS], "complete upload: connection lost", 1),
        ([CREATED, DENIED], "part: 403 AccessDenied", 0),  # lost during the abort
    ],
)
def test_connection_lost_during_a_multipart_upload_fails_the_object(
    scripted: Scripted, answered: list[bytes], reason: str, unknown: int
) -> None:
    server = scripted([*replies(*answered), read, close])
    record = archived_in_parts(server, in_parts(70, 71))
    (row,) = objects_of(record)
    assert (row.number, row.bytes) == (70, 0)
    assert row.status == (403 if "403" in reason else Status.CONNECTION_LOST)
    assert row.sent_ns < server.requests[0].received_ns
    (error,) = record.errors.values()
    assert (error.reason, error.outcomes_unknown) == (reason, unknown)


def test_connection_closed_between_parts_fails_the_object(scripted: Scripted) -> None:
    ending = PARTS[0].replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    server = scripted(replies(CREATED, ending))
    record = archived_in_parts(server, in_parts(70, 71), on_close="stop")
    assert [(row.number, row.status) for row in objects_of(record)] == [(70, Status.CONNECTION_LOST)]
    assert sorted(errors_of(record)) == [("archive", "upload not complete", 1), ("session", "closed by server", 1)]
    assert len(server.requests) == 2


AGAIN = SLOW_DOWN.replace(b"Retry-After: 1", b"Retry-After: 0")


def test_each_multipart_request_is_retried_separately(scripted: Scripted) -> None:
    server = scripted(replies(AGAIN, CREATED, AGAIN, *PARTS[:1], AGAIN, AGAIN, *PARTS[1:], FAILED, COMPLETED))
    record = archived_in_parts(server, in_parts(70), retries=2)
    assert not any(each.count for each in record.errors.values())
    assert [(row.status, row.attempts, row.bytes) for row in objects_of(record)] == [(0, 1 + 5, TOTAL)]
    (row,) = objects_of(record)
    assert row.sent_ns <= server.requests[0].received_ns
    assert 0 < record.delays[1].retry_ns < row.done_ns - row.sent_ns
    one, *rest = WHOLE_UPLOAD
    assert steps(server) == [one, one, rest[0], rest[0], rest[1], rest[1], rest[1], rest[2], rest[3], rest[3]]


def test_object_after_an_upload_is_signed_with_the_current_time(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload can take longer than the minutes for which a signature or a lock's date is valid."""
    began = time.time()

    def later(request: Request) -> bytes:
        answer = next(answers)
        if answer is PARTS[1]:
            monkeypatch.setattr(data_plane, "now_seconds", lambda: began + 1000)
        return answer

    answers = iter([CREATED, *PARTS, COMPLETED, OK])
    server = scripted([serve(later)])
    batch = in_parts(70, 71)
    batch.size_bytes = [TOTAL, SMALL_PART]
    performed(plane_for(server.url, Operation.ARCHIVE, sizes=(SMALL_PART, TOTAL)), batch)
    signed = [request.headers["x-amz-date"] for request in server.requests]
    assert signed[3:] == [signed[3]] * 3
    assert signed[3] > signed[0]


# ---- real stores: another client checks the effect of each request


@pytest.fixture
def bucket(s3: Any) -> Iterator[str]:
    yield from made_bucket(s3)


def go_through_a_mix(client: Any, bucket: str, url: str, access_key: str, secret_key: str) -> None:
    """Perform every operation in turn. Another client checks each effect."""
    run: dict[str, Any] = {"bucket": bucket, "access_key": access_key, "secret_key": secret_key}

    def go(
        operation: Operation, *numbers: int, size_bytes: int = SIZE, plane: dict[str, Any] | None = None, **batch: Any
    ) -> None:
        made = plane_for(url, operation, deletes=numbers, sizes=(size_bytes,), **run, **(plane or {}))
        record = performed(made, batch_of(operation, *numbers, size_bytes=size_bytes, **batch))
        assert record.errors == {}, record.errors
        assert {row.status for row in objects_of(record)} == {0}

    def key(number: int) -> dict[str, str]:
        return {"Bucket": bucket, "Key": f"run/{number:012d}"}

    def content_of(number: int, **version: str) -> bytes:
        body: bytes = client.get_object(**key(number), **version)["Body"].read()
        return body

    def lock_of(number: int) -> tuple[str | None, float, bool]:
        head = client.head_object(**key(number))
        until = head.get("ObjectLockRetainUntilDate")
        return (
            head.get("ObjectLockMode"),
            until.timestamp() if until else 0,
            head.get("ObjectLockLegalHoldStatus") == "ON",
        )

    go(Operation.ARCHIVE, 1, 2, 3)
    go(Operation.RANGE_RETRIEVE, 1, 2, 3, range=[(0, 100), (SIZE - 100, 100), (4000, 1)])
    go(Operation.HEAD, 1, 2)
    before = time.time()
    go(Operation.COPY, 4, source=[1], retain_for_seconds=30.0)
    go(Operation.COPY, 5, source=[1], lock=Lock.NONE)
    go(Operation.COPY, 6, source=[2], lock=Lock.HEADER_AND_HOLD)
    go(Operation.COPY, 7, source=[2], lock=Lock.SEPARATE)
    assert [content_of(number) for number in (4, 7)] == [CONTENT.whole(1, SIZE), CONTENT.whole(2, SIZE)]
    mode, until, held = lock_of(4)
    assert (mode, held) == ("GOVERNANCE", False)
    assert before + 28 < until < before + 90  # its own period, not the source's
    assert lock_of(5) == (None, 0, False)  # A copy does not take its source's lock.
    assert (lock_of(6)[0], lock_of(6)[2]) == ("GOVERNANCE", True)
    assert (lock_of(7)[0], lock_of(7)[2]) == ("GOVERNANCE", False)

    go(Operation.NEW_VERSION, 2, version=[2])
    assert content_of(2) == CONTENT.whole(2, SIZE, 2)
    assert lock_of(2)[0] == "GOVERNANCE"
    go(Operation.RETRIEVE, 2, version=[2])
    versions = client.list_object_versions(Bucket=bucket, Prefix=key(2)["Key"])["Versions"]
    assert len(versions) == 2
    (old,) = [row["VersionId"] for row in versions if not row["IsLatest"]]
    assert content_of(2, VersionId=old) == CONTENT.whole(2, SIZE)

    go(Operation.DELETE_MARKER, 3)
    listed = client.list_object_versions(Bucket=bucket, Prefix=key(3)["Key"])
    assert [row["IsLatest"] for row in listed["DeleteMarkers"]] == [True]
    (hidden,) = listed["Versions"]
    assert content_of(3, VersionId=hidden["VersionId"]) == CONTENT.whole(3, SIZE)

    for number, (checksum, signing) in enumerate(
        (("crc32c", False), ("crc64nvme", False), ("md5", False), ("none", False), ("crc32c", True)), 20
    ):
        options = {"checksum": checksum, "payload_signing": signing}
        lock = Lock.NONE if checksum == "none" else None  # a lock needs a checksum in every part
        go(Operation.ARCHIVE, number, size_bytes=LARGE, part_bytes=PART, lock=lock, plane=options)
        assert content_of(number) == CONTENT_LARGE.whole(number, LARGE), checksum
        mode, until, _ = lock_of(number)
        assert mode == (None if lock else "GOVERNANCE")
        assert lock or abs(until - time.time() - 300) < 60
        go(Operation.RETRIEVE, number, size_bytes=LARGE)
        go(Operation.HEAD, number, size_bytes=LARGE)
        go(Operation.RANGE_RETRIEVE, number, size_bytes=LARGE, range=[(PART - 10, 20)])
    go(Operation.ARCHIVE, 30, size_bytes=LARGE, part_bytes=PART, lock=Lock.SEPARATE)
    assert lock_of(30)[0] == "GOVERNANCE"
    assert client.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []

    # A failed multipart upload leaves nothing unfinished. The store refuses parts below 5 MiB, except the last.
    made = plane_for(url, Operation.ARCHIVE, sizes=(3000,), **run)
    record = performed(made, batch_of(Operation.ARCHIVE, 40, size_bytes=3000, part_bytes=1000))
    assert [row.status for row in objects_of(record)] == [400]
    assert errors_of(record) == [("archive", "complete upload: 400 EntityTooSmall", 1)]
    assert client.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []


def test_mixed_operations_work_on_embedded_store(store: Any, s3: Any, bucket: str) -> None:
    go_through_a_mix(s3, bucket, store.endpoint, store.access_key, store.secret_key)


@pytest.mark.platforms
@pytest.mark.parametrize("name", real.NAMES)
def test_mixed_operations_work_on_real_platform(tmp_path: Path, name: str) -> None:
    with real.real_server(name, tmp_path) as server:
        client = real.client_of(server)
        for bucket in made_bucket(client):
            access = server.access
            go_through_a_mix(client, bucket, server.endpoint, access.access_key, access.secret_key)
