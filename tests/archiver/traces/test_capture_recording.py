"""Test which rows each S3 request is recorded as, in whatever pieces its bytes arrive."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.traces.capture.calls import decode_name, read_call
from archiver.traces.capture.framing import DOCUMENT_BYTES_MAX, HEAD_BYTES_MAX, Unreadable
from archiver.traces.capture.recording import ConnectionRecording, Recording
from archiver.traces.format import CODES, TracedOperation, batch_of
from archiver.values.record import Status

EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def request(line: str, headers: str = "", body: bytes = b"") -> bytes:
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{line} HTTP/1.1\r\nHost: h\r\n{headers}{length}\r\n".encode() + body


def answer(body: bytes = b"", status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Watched:
    """A recording with one connection."""

    def __init__(self) -> None:
        self.rows: list[TracedOperation] = []
        self.recording = Recording(self.rows.append, (b"s3.example.org",), 1_000_000_000 * 10**9)
        self.connection = ConnectionRecording(self.recording, "127.0.0.1")
        self.now_ns = 0

    def exchange(self, sent: bytes, answered: bytes, step: int = 1 << 30) -> None:
        for data, take in ((sent, self.connection.request_bytes), (answered, self.connection.answer_bytes)):
            for start in range(0, len(data), step):
                self.now_ns += 1
                take(data[start : start + step], self.now_ns)


HOLD = b"<LegalHold xmlns='x'><Status>%b</Status></LegalHold>"
PLACED = b"<EventHold>ON</EventHold><EventHoldDuration><Days>1</Days></EventHoldDuration>"
EVENT_HOLD = b"<Retention><Mode>GOVERNANCE</Mode>%b</Retention>"
RETENTION = b"<Retention><Mode>COMPLIANCE</Mode><RetainUntilDate>2001-09-09T01:47:40Z</RetainUntilDate></Retention>"
LIST = (
    b"<Delete xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><Object><Key>a&amp;b</Key></Object>"
    b"<Object><Key>c</Key><VersionId>v</VersionId></Object><Quiet>true</Quiet></Delete>"
)
REFUSED = b"<DeleteResult><Error><Key>c</Key><VersionId>v</VersionId><Code>AccessDenied</Code></Error></DeleteResult>"
RANGE = "Content-Range: bytes 5-7/100\r\n"

# Request and answer, then operation, key, size, offset, length and status of every row
CASES: dict[str, tuple[bytes, bytes, list[tuple[Any, ...]]]] = {
    "archive": (request("PUT /b/k", body=b"abc"), EMPTY, [("archive", "b/k", 3, None, None, 0)]),
    "archive in chunks of HTTP": (
        request("PUT /b/k", "Transfer-Encoding: chunked\r\n") + b"3\r\nabc\r\nA;x\r\n0123456789\r\n0\r\nt: v\r\n\r\n",
        EMPTY,
        [("archive", "b/k", 13, None, None, 0)],
    ),
    "archive to a bucket in the host": (
        b"PUT /k HTTP/1.1\r\nHost: B.s3.example.org:80\r\n\r\n", EMPTY, [("archive", "B/k", 0, None, None, 0)],
    ),
    "archive by absolute target": (
        request("PUT http://h:1/b/k%2F?x-id=PutObject"), EMPTY, [("archive", "b/k/", 0, None, None, 0)],
    ),
    "retrieve in chunks": (
        request("GET /b//k?versionId=1&response-content-type=x"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        [("retrieve", "b//k", 3, None, None, 0)],
    ),
    "range": (
        request("GET /b/k", "Range: bytes=5-\r\n"),
        answer(b"abc", "206 P", RANGE),
        [("range-retrieve", "b/k", 100, 5, 3, 0)],
    ),
    "range beyond the end": (
        request("GET /b/k", "Range: bytes=5-9\r\n"),
        answer(b"x", "416 R"),
        [("range-retrieve", "b/k", None, 5, 5, 416)],
    ),
    "range that is not heeded": (
        request("GET /b/k", "Range: bytes=5-9\r\n"), answer(b"abc"), [("retrieve", "b/k", 3, None, None, 0)],
    ),
    "part by its number": (
        request("GET /b/k?partNumber=2"), answer(b"abc", "206 P", RANGE), [("range-retrieve", "b/k", 100, 5, 3, 0)],
    ),
    "head of a part": (
        request("HEAD /b/k?partNumber=2"),
        b"HTTP/1.1 206 P\r\nContent-Length: 3\r\n\r\n",
        [("head", "b/k", None, None, None, 0)],
    ),
    "hold": (request("PUT /b/k?legal-hold", body=HOLD % b"ON"), EMPTY, [("hold", "b/k", None, None, None, 0)]),
    "release": (request("PUT /b/k?legal-hold", body=HOLD % b"OFF"), EMPTY, [("release", "b/k", None, None, None, 0)]),
    "neither": (request("PUT /b/k?legal-hold", body=b"<x/>"), EMPTY, [("other", "b/k", 4, None, None, 0)]),
    "extend": (request("PUT /b/k?retention", body=RETENTION), EMPTY, [("extend", "b/k", None, None, None, 0)]),
    "event hold": (
        request("PUT /b/k?retention", body=EVENT_HOLD % PLACED),
        EMPTY,
        [("event-hold", "b/k", None, None, None, 0)],
    ),
    "event release": (
        request("PUT /b/k?retention", body=EVENT_HOLD % b"<EventHold>OFF</EventHold>"),
        EMPTY,
        [("event-release", "b/k", None, None, None, 0)],
    ),
    "query": (request("GET /b/k?retention="), answer(b"<x/>"), [("query", "b/k", None, None, None, 0)]),
    "copy that fails late": (
        request("PUT /b/k", "x-amz-copy-source: /b/a%20b?versionId=7\r\n"),
        answer(b"<Error><Code>InternalError</Code></Error>"),
        [("copy", "b/k", None, None, None, 500)],
    ),
    "deletions": (
        request("POST /b?delete", body=LIST),
        answer(REFUSED),
        [("delete-marker", "b/a&b", None, None, None, 0), ("delete", "b/c", None, None, None, 403)],
    ),
    "deletions that are refused": (
        request("POST /b/?delete", body=LIST),
        answer(b"<Error/>", "403 F"),
        [("delete-marker", "b/a&b", None, None, None, 403), ("delete", "b/c", None, None, None, 403)],
    ),
    "deletions with an entity": (
        request("POST /b?delete", body=b"<!DOCTYPE x>" + LIST),
        EMPTY,
        [("other", "b", len(LIST) + 12, None, None, 0)],
    ),
    "list": (request("GET /b?list-type=2&prefix=a%2F+b"), answer(b"<x/>"), [("list", "b/a/ b", 4, None, None, 0)]),
    "list of buckets": (request("GET /"), answer(b"<x/>"), [("list", "", 4, None, None, 0)]),
    "tags": (request("PUT /b/k?tagging", body=b"<x/>"), EMPTY, [("other", "b/k", 4, None, None, 0)]),
    "new bucket": (request("PUT /b"), EMPTY, [("other", "b", 0, None, None, 0)]),
    "bytes of no key in UTF-8": (request("GET /b/%ff%41"), answer(b"x"), [("retrieve", "b/%ff%41", 1, None, None, 0)]),
}  # fmt: skip


def told(rows: list[TracedOperation]) -> list[tuple[Any, ...]]:
    return [(row.operation, row.key, row.size_bytes, row.offset, row.length, row.status) for row in rows]


@pytest.mark.parametrize("step", [1 << 30, 1, 7], ids=["whole", "byte by byte", "in sevens"])
@pytest.mark.parametrize("name", CASES)
def test_each_request_is_recorded_as_the_expected_rows(name: str, step: int) -> None:
    sent, answered, expected = CASES[name]
    watched = Watched()
    for _ in range(2):  # the second exchange proves that the first ended at the right byte
        watched.exchange(sent, b"HTTP/1.1 100 Continue\r\n\r\n" + answered, step)
    assert told(watched.rows) == expected * 2
    assert watched.connection.is_idle
    batch_of(watched.rows)  # every value is valid in a trace


@given(st.lists(st.sampled_from(sorted(CASES)), min_size=1, max_size=4), st.data())
def test_recorded_rows_do_not_depend_on_how_bytes_are_split(names: list[str], data: st.DataObject) -> None:
    sent = b"".join(CASES[name][0] for name in names)
    answered = b"".join(CASES[name][1] for name in names)
    watched = Watched()
    for whole, take in ((sent, watched.connection.request_bytes), (answered, watched.connection.answer_bytes)):
        cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=6))
        places = [0, *sorted(cuts), len(whole)]
        for start, end in pairwise(places):
            take(whole[start:end], 1)
    assert told(watched.rows) == [row for name in names for row in CASES[name][2]]


def test_rows_have_retention_legal_hold_and_times() -> None:
    watched = Watched()
    lock = (
        "x-amz-object-lock-mode: GOVERNANCE\r\nx-amz-object-lock-retain-until-date: 2001-09-09T01:47:10.500Z\r\n"
        "x-amz-object-lock-legal-hold: ON\r\n"
    )
    watched.exchange(request("PUT /b/k", lock, b"abc"), EMPTY)
    watched.exchange(request("PUT /b/k?retention", body=RETENTION), EMPTY)
    archived, extended = watched.rows
    assert (archived.retention_mode, archived.legal_hold) == ("GOVERNANCE", True)
    assert archived.retain_for_seconds == pytest.approx(30.5)  # the capture began at second 1,000,000,000
    assert (extended.retention_mode, extended.legal_hold) == ("COMPLIANCE", None)
    assert extended.retain_for_seconds == pytest.approx(60)
    assert [(row.due_ns, row.sent_ns, row.first_byte_ns, row.done_ns) for row in watched.rows] == [
        (1, 1, 2, 2),
        (3, 3, 4, 4),
    ]


def upload(watched: Watched, *parts: bytes, source: str = "") -> None:
    created = b"<InitiateMultipartUploadResult><UploadId>id/&amp;1</UploadId></InitiateMultipartUploadResult>"
    watched.exchange(request("POST /b/k?uploads"), answer(created))
    for number, part in enumerate(parts, start=1):
        watched.exchange(request(f"PUT /b/k?partNumber={number}&uploadId=id%2F%261", source, part), EMPTY)


COMPLETE = (
    b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part><Part><PartNumber>2</PartNumber></Part>"
    b"</CompleteMultipartUpload>"
)


def test_multipart_upload_is_one_archive_of_the_listed_parts() -> None:
    watched = Watched()
    upload(watched, b"12345", b"678", b"of no use")
    busy = answer(b"<Error><Code>SlowDown</Code></Error>")
    watched.exchange(request("POST /b/k?uploadId=id%2F%261", body=COMPLETE), busy)
    assert watched.rows == []
    watched.exchange(request("POST /b/k?uploadId=id%2F%261", body=COMPLETE), answer(b"<x/>"))
    (row,) = watched.rows
    assert told([row]) == [("archive", "b/k", 8, None, 5, 0)]
    assert (row.due_ns, row.done_ns, row.attempts) == (1, watched.now_ns, 2)


def test_upload_whose_start_was_not_seen_has_no_size() -> None:
    watched = Watched()
    watched.exchange(request("PUT /b/k?partNumber=2&uploadId=u", body=b"678"), EMPTY)
    watched.exchange(request("POST /b/k?uploadId=u", body=COMPLETE), answer(b"<x/>"))
    (row,) = watched.rows
    assert (row.operation, row.size_bytes, row.due_ns) == ("archive", None, 1)


def test_an_upload_of_copied_parts_is_a_copy() -> None:
    watched = Watched()
    upload(watched, b"", b"", source="x-amz-copy-source: b/from\r\nx-amz-copy-source-range: bytes=0-99\r\n")
    watched.exchange(request("POST /b/k?uploadId=id%2F%261", body=COMPLETE), answer(b"<x/>"))
    (row,) = watched.rows
    assert told([row]) == [("copy", "b/k", 200, None, 100, 0)]
    assert row.source == "b/from"


def test_incomplete_uploads_are_recorded_at_the_end() -> None:
    watched = Watched()
    upload(watched, b"12345")
    watched.recording.end()
    assert told(watched.rows) == [("other", "b/k", 5, None, None, Status.INCOMPLETE)]


def test_oversized_delete_list_is_recorded_as_one_other_row() -> None:
    watched = Watched()
    body = b"<Delete>" + b" " * DOCUMENT_BYTES_MAX + b"</Delete>"
    watched.exchange(request("POST /b?delete", body=body), EMPTY, 1 << 20)
    assert told(watched.rows) == [("other", "b", len(body), None, None, 0)]


def test_aws_chunked_body_is_decoded() -> None:
    watched = Watched()
    body = b"%x;chunk-signature=00\r\n%b\r\n0;chunk-signature=00\r\n\r\n" % (len(LIST), LIST)
    watched.exchange(request("POST /b?delete", "Content-Encoding: aws-chunked\r\n", body), EMPTY)
    assert [row.key for row in watched.rows] == ["b/a&b", "b/c"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\r\n\r\n",
        b"GET /b/k HTTP/2\r\n\r\n",
        b"GET /b/k\r\n\r\n",
        b"PUT /b/k HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"PUT /b/k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"x" * (HEAD_BYTES_MAX + 1),
    ],
)
def test_unreadable_request_is_one_row_and_ends_recording_of_the_connection(garbage: bytes) -> None:
    watched = Watched()
    watched.exchange(garbage, EMPTY)
    watched.exchange(request("GET /b/k"), EMPTY)
    assert [row.status for row in watched.rows] == [Status.PROTOCOL_ERROR]
    assert watched.recording.unreadable == 1


def test_clients_differ_by_address_and_credential_and_sessions_by_connection() -> None:
    watched = Watched()
    other = ConnectionRecording(watched.recording, "127.0.0.1")
    far = ConnectionRecording(watched.recording, "10.0.0.1")
    one, two = (f"Authorization: AWS4-HMAC-SHA256 Credential={name}/2026/r/s3/aws4_request, x\r\n" for name in "AB")
    for connection, headers in ((watched.connection, one), (watched.connection, two), (other, one), (far, one)):
        connection.request_bytes(request("GET /b/k", headers), 1)
        connection.answer_bytes(EMPTY, 2)
    assert [(row.client, row.session) for row in watched.rows] == [(0, 0), (1, 0), (0, 1), (2, 0)]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: "/" not in text))
def test_encoded_name_decodes_to_the_original(name: str) -> None:
    assert decode_name(quote(name, safe="").encode()) == name


@given(st.binary(max_size=300))
def test_any_request_head_is_parsed_or_refused(head: bytes) -> None:
    try:
        call, _ = read_call(b"GET /" + head, ())
    except Unreadable:
        return
    call.key.encode()
    assert call.operation in CODES
