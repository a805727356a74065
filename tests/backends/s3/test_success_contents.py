"""An answer with the status of a success but without what a success contains is a failure, for every request."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from archiver.values.errors import PlatformError
from archiver.values.record import Operation, Recorder, Status
from archiver.values.retention import DateMaker, Retention
from backends.base import Batch, Location, PhaseSetting
from backends.s3.control import Control, Credentials
from backends.s3.data_plane import S3DataPlane
from tests.backends.s3.conftest import Scripted
from tests.backends.s3.s3_sessions import CONTENT, SIZE, data_plane, record_of_sessions, rows_of, worker_setting
from tests.backends.s3.scripted_answers import (
    BARE,
    DENIED,
    OK,
    RETENTION_READ,
    content_reply,
    document_reply,
    errors_of,
    honest,
)
from tests.support.commands import archiver
from tests.support.runs import left_in
from tests.support.servers.hostile import Answer, Hostile, hostile
from tests.support.servers.scripted import replies, serve

_ERROR = b"<Error><Code>InternalError</Code><Message>We had a problem.</Message></Error>"
_PAGE = b"<html><body>It works!</body></html>"
MARKER = b"HTTP/1.1 204 No Content\r\nx-amz-delete-marker: true\r\n\r\n"
GONE = b"HTTP/1.1 204 No Content\r\n\r\n"
PART = (100, 50)  # offset and length of ranges
BENCH = (
    "bench", "--operation", "archive", "--size", "8KiB", "--objects-per-session", "4", "--clients", "1",
    "--duration", "200ms", "--max-locked-bytes", "20MB",
)  # fmt: skip
READS = (Operation.RETRIEVE, Operation.RANGE_RETRIEVE)
CHANGES = (Operation.EXTEND, Operation.HOLD, Operation.RELEASE, Operation.EVENT_HOLD, Operation.EVENT_RELEASE)


def with_body(reply: bytes, body: bytes) -> bytes:
    return reply.replace(b"Content-Length: 0", b"Content-Length: %d" % len(body)) + body


def ranged(span: bytes | None) -> bytes:
    header = b"Content-Range: %b\r\n" % span if span is not None else b""
    body = CONTENT.whole(1, SIZE)[PART[0] : sum(PART)]
    return b"HTTP/1.1 206 Partial\r\n%bContent-Length: %d\r\n\r\n%b" % (header, len(body), body)


# operation, answer, status, reason
CASES: list[tuple[Operation, bytes, int, str]] = [
    *(
        (operation, answer, Status.PROTOCOL_ERROR, reason)
        for operation in (Operation.ARCHIVE, Operation.NEW_VERSION)
        for answer, reason in (
            (BARE, "no ETag"),
            (OK.replace(b'"e"', b""), "no ETag"),
            (with_body(BARE, _ERROR), "200 InternalError"),
            (with_body(OK, _ERROR), "200 InternalError"),
            (with_body(OK, _PAGE), "unexpected body"),
        )
    ),
    *(
        (operation, with_body(BARE, body), Status.PROTOCOL_ERROR, reason)
        for operation in CHANGES
        for body, reason in ((_ERROR, "200 InternalError"), (_PAGE, "unexpected body"))
    ),
    (Operation.QUERY, BARE, Status.PROTOCOL_ERROR, "no retention mode"),
    (Operation.QUERY, with_body(BARE, _PAGE), Status.PROTOCOL_ERROR, "no retention mode"),
    (Operation.QUERY, with_body(BARE, b"<Retention><Mode/></Retention>"), Status.PROTOCOL_ERROR, "no retention mode"),
    (Operation.QUERY, with_body(BARE, _ERROR), Status.PROTOCOL_ERROR, "200 InternalError"),
    (Operation.COPY, with_body(BARE, _PAGE), Status.PROTOCOL_ERROR, "no ETag"),
    (Operation.COPY, with_body(BARE, _ERROR), 500, "200 InternalError"),
    (Operation.DELETE, MARKER, Status.PROTOCOL_ERROR, "only hidden"),
    (Operation.DELETE, with_body(BARE, _PAGE), Status.PROTOCOL_ERROR, "unexpected body"),
    (Operation.REFUSED_DELETE, MARKER, Status.PROTOCOL_ERROR, "only hidden"),
    (Operation.REFUSED_DELETE, with_body(BARE, _PAGE), Status.PROTOCOL_ERROR, "unexpected body"),
    (Operation.DELETE_MARKER, GONE, Status.PROTOCOL_ERROR, "no delete marker"),
    (Operation.RANGE_RETRIEVE, ranged(None), Status.PROTOCOL_ERROR, "no Content-Range"),
    (Operation.RANGE_RETRIEVE, ranged(b"bytes 0-49/8192"), Status.PROTOCOL_ERROR, "another range"),
    (Operation.HEAD, b"HTTP/1.1 200 OK\r\n\r\n", Status.PROTOCOL_ERROR, "no Content-Length"),
    (Operation.RETRIEVE, with_body(BARE, _ERROR), Status.DAMAGED, "damaged"),
]
NEXT = {  # the answer to the second request, if it is not OK
    Operation.QUERY: RETENTION_READ,
    Operation.COPY: document_reply(b"<CopyObjectResult><ETag>&quot;e&quot;</ETag></CopyObjectResult>"),
    Operation.DELETE: GONE,
    Operation.REFUSED_DELETE: DENIED,
    Operation.DELETE_MARKER: MARKER,
    Operation.RANGE_RETRIEVE: ranged(b"bytes 100-149/8192"),
    Operation.HEAD: b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % SIZE,
    Operation.RETRIEVE: content_reply(2),
}


def performed(url: str, operation: Operation, *numbers: int, verify: str = "all", **changes: Any) -> Recorder:
    agreed = Retention(retain_for_seconds=300.0, event_hold_days=30, event_hold_by_operation=True)
    plane = S3DataPlane(worker_setting(url, retention=agreed, **changes))
    dates: dict[float | None, DateMaker] = {None: DateMaker(agreed, 4e9)}
    plane.set_phase(PhaseSetting(CONTENT, dates, verify, (SIZE,), operations=frozenset((operation,))))
    plane._versions = dict.fromkeys(numbers, b"v-1")
    count = len(numbers)
    batch = Batch([operation] * count, numbers, [SIZE] * count, range=[PART] * count, source=[9] * count)
    return record_of_sessions(plane, batch)


@pytest.mark.parametrize(("operation", "answer", "status", "reason"), CASES)
def test_success_without_its_contents_is_a_failure(
    scripted: Scripted, operation: Operation, answer: bytes, status: int, reason: str
) -> None:
    server = scripted([*replies(answer, NEXT.get(operation, OK))])
    record = performed(server.url, operation, 1, 2, verify="none")
    first, second = (row for row in rows_of(record) if row.operation == operation)
    assert (first.status, first.bytes) == (status, 0)
    assert second.status == Status.OK  # the session goes on
    assert errors_of(record) == [(operation.label, reason, 1)]
    (error,) = record.errors.values()
    assert error.outcomes_unknown or operation in READS
    if _PAGE in answer and reason == "unexpected body":
        assert "It works!" in error.message


@pytest.mark.parametrize(
    ("session_open", "answer", "reason"),
    [
        ("lock-config", BARE, "no lock configuration"),
        ("lock-config", document_reply(_PAGE), "no lock configuration"),
        ("lock-config", document_reply(_ERROR), "200 InternalError"),
        ("head-bucket", GONE, "204"),
    ],
)
def test_session_does_not_open_without_the_answer_of_its_request(
    scripted: Scripted, session_open: str, answer: bytes, reason: str
) -> None:
    server = scripted(replies(answer), then=[serve(honest)])
    record = performed(server.url, Operation.ARCHIVE, 1, session_open=session_open)
    assert [row.operation for row in rows_of(record)] == [Operation.OPEN, Operation.CLOSE]
    assert errors_of(record) == [("open", reason, 1)]


def test_compressed_answer_is_damaged_and_names_its_encoding(scripted: Scripted) -> None:
    body = gzip.compress(CONTENT.whole(1, SIZE))
    server = scripted(replies(content_reply(1, b"Content-Encoding: gzip", body=body), content_reply(2)))
    record = performed(server.url, Operation.RETRIEVE, 1, 2)
    assert [row.status for row in rows_of(record) if row.number] == [Status.DAMAGED, Status.OK]
    (error,) = record.errors.values()
    assert "Content-Encoding gzip, which was not requested" in error.message


def test_part_answer_with_another_checksum_ends_the_session(scripted: Scripted) -> None:
    created = document_reply(b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
    wrong = OK.removesuffix(b"\r\n") + b"x-amz-checksum-crc32c: AAAAAA==\r\n\r\n"
    server = scripted(replies(created, OK, wrong))
    batch = Batch([Operation.ARCHIVE], [70], [SIZE], part_bytes=SIZE // 2)
    record = record_of_sessions(data_plane(server.url), batch)
    assert [row.status for row in rows_of(record) if row.number] == [Status.ANOTHERS_ANSWER]
    assert errors_of(record) == [("archive", "part: another's answer", 1)]


# ---- the control plane


@contextmanager
def paging() -> Iterator[Hostile]:
    """Run a server that answers chosen requests by a page; ``setting["chosen"]`` chooses, at first none."""
    mode = "answers chosen requests otherwise"
    with hostile(mode, chosen=lambda _: False, otherwise=lambda *_: Answer(200, _PAGE)) as server:
        yield server


def control_of(server: Hostile) -> Control:
    keys = Credentials("any", "key", None)
    return Control(server.endpoint, "us-east-1", keys, verify=True, connect_timeout_seconds=60, read_timeout_seconds=60)


@pytest.mark.parametrize("query", ["versions", "uploads", "delete", "legal-hold"])
def test_cleanup_ends_at_a_page_instead_of_an_answer(query: str) -> None:
    with paging() as server:
        control = control_of(server)
        control.create_bucket("b")
        server.put("b", "run/000000000000", b"x", legal_hold="ON")
        server.setting["chosen"] = lambda asked: query in asked.query
        place = Location(server.endpoint, "us-east-1", "b", True, "run/")
        with pytest.raises(PlatformError, match="It works!"):
            control.remove(place, range(1), bypass_governance=True, release_holds=True)


@pytest.mark.parametrize("query", ["object-lock", "retention"])
def test_lock_is_not_read_from_a_page(query: str) -> None:
    with paging() as server:
        control = control_of(server)
        control.create_bucket("b")
        version = server.put("b", "k", b"x")
        server.setting["chosen"] = lambda asked: query in asked.query
        read = control.lock_of_bucket if query == "object-lock" else partial(control.lock_of_version, "b", "k")
        with pytest.raises(PlatformError, match="It works!"):
            read("b" if query == "object-lock" else version.id)


# ---- commands


def test_run_and_cleanup_believe_no_success_without_its_contents(tmp_path: Path) -> None:
    """From the sixth object on the platform answers 200 with an error and stores nothing; its listing is a page."""
    with hostile(
        "answers chosen requests otherwise",
        chosen=lambda asked: asked.is_upload and asked.number > 5,
        otherwise=lambda *_: Answer(200, _ERROR),
    ) as server:
        home = {"ARCHIVER_HOME": str(tmp_path), **server.keys}
        done = archiver(*BENCH, "--endpoint", server.endpoint, "--json", **home)
        assert done.returncode == 1, done.stderr
        document = json.loads(done.stdout)
        (archive,) = document["results"]
        assert archive["objects"] + archive["warm_up_objects"] + archive["drained_objects"] < 5
        assert {each["reason"] for each in archive["first_errors"]} == {"200 InternalError"}
        left = [tuple(row) for row in left_in(tmp_path)]
        server.setting |= {
            "chosen": lambda asked: "versions" in asked.query, "otherwise": lambda *_: Answer(200, _PAGE),
        }  # fmt: skip
        cleaned = archiver("cleanup", "latest", "--bypass-governance", **home)
        assert cleaned.returncode == 3
        assert "It works!" in cleaned.stderr
        assert [tuple(row) for row in left_in(tmp_path)] == left != []


@pytest.mark.parametrize(("status", "words"), [(403, "clock is wrong"), (404, "it is not there")])
def test_refused_head_says_what_its_status_can_mean(status: int, words: str) -> None:
    with hostile(
        "answers chosen requests otherwise",
        chosen=lambda asked: asked.method == "HEAD" and bool(asked.key),
        otherwise=lambda *_: Answer(status),
    ) as server:
        control = control_of(server)
        control.create_bucket("b")
        with pytest.raises(PlatformError, match=words):
            control.lock_of("b", "k")
