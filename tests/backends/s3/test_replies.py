"""HTTP replies from fixed bytes: whole, byte by byte, with trailing data, and invalid ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.values.content import Content, ContentCheck, LengthCheck
from archiver.values.record import Status
from backends.s3.wire.replies import (
    BEYOND_BYTES_MAX,
    ERROR_BODY_BYTES_MAX,
    HEAD_BYTES_MAX,
    BodyCheck,
    ReplyError,
    ReplyReader,
)

CHUNK_BYTES = 64 * 1024
LARGE = 1 << 20
CONTENT = Content("20261121-run", 7, LARGE)
DENIED = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code>'
    b"<Message>Access Denied by policy</Message><Resource>/bucket/run/1</Resource><RequestId>R-1</RequestId></Error>"
)
HTML = b"<!DOCTYPE html>\n<html>\n  <title>Console</title></html>"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx-amz-request-id: R-1\r\n\r\n"
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx-amz-request-id: R-2\r\n\r\nhello"


class Expects:
    """A body check with the expected body."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.size_bytes = len(body)
        self.fed = b""

    def feed(self, chunk: bytes | memoryview) -> None:
        self.fed += bytes(chunk)

    def finish(self) -> bool:
        return self.fed == self.body


def whole(data: bytes) -> list[bytes]:
    return [data]


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[index : index + 1] for index in range(len(data))]


def in_sevens(data: bytes) -> list[bytes]:
    return [data[index : index + 7] for index in range(0, len(data), 7)]


Arrival = Callable[[bytes], list[bytes]]
ARRIVALS: list[Arrival] = [whole, byte_by_byte, in_sevens]


def feed_all(reader: ReplyReader, pieces: Iterable[bytes]) -> bool:
    """Feed the pieces through one reused buffer, as the connection does. Returns the last answer."""
    buffer = bytearray(LARGE * 2)
    done = False
    for piece in pieces:
        assert not done, "the reply was said to be whole before its last byte"
        buffer[: len(piece)] = piece
        done = reader.feed(memoryview(buffer)[: len(piece)])
    return done


def feed_blindly(reader: ReplyReader, pieces: Iterable[bytes], *, ended: bool = False) -> None:
    """Feed pieces that the reader must refuse."""
    for piece in pieces:
        reader.feed(piece)
    if ended:
        reader.connection_ended()


@dataclass(frozen=True)
class Case:
    """One fixed reply and the results that the reader must give."""

    data: bytes
    status: int = 200
    keep_alive: bool = True
    body: bytes | None = None  # the body that a retrieve expects, or None for an archive
    is_head: bool = False
    ends_with_connection: bool = False
    request_id: str = ""
    s3_error: tuple[str, str] = ("", "")


def reply(start: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    return b"".join(line + b"\r\n" for line in (b"HTTP/1.1 " + start, *headers)) + b"\r\n" + body


def length(body: bytes) -> bytes:
    return b"Content-Length: %d" % len(body)


NO_S3 = f"not an S3 error reply: {' '.join(HTML.decode().split())}"
CASES = {
    "200 empty": Case(EMPTY, request_id="R-1"),
    "200 with a checked body": Case(HELLO, body=b"hello", request_id="R-2"),
    "200 with a body nobody asked about": Case(HELLO, request_id="R-2", s3_error=("", "not an S3 error reply: hello")),
    "header names in any case": Case(
        reply(b"200 OK", b"CONTENT-LENGTH:5", b"X-Amz-Request-Id:  R-3 ", body=b"hello"), body=b"hello",
        request_id="R-3",
    ),
    "chunked": Case(
        reply(b"200 OK", b"Transfer-Encoding: chunked", body=b"2\r\nhe\r\n3;ext=1\r\nllo\r\n0\r\n\r\n"), body=b"hello"
    ),
    "chunked with a trailer": Case(
        reply(
            b"200 OK", b"Transfer-Encoding: chunked", b"Trailer: x-amz-checksum-crc32c",
            body=b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32c: mnG7TA==\r\n\r\n",
        ),
        body=b"hello",
    ),
    "chunked and empty": Case(reply(b"200 OK", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"), body=b""),
    "100 Continue, then 200": Case(reply(b"100 Continue") + HELLO, body=b"hello", request_id="R-2"),
    "several 1xx, then 200": Case(
        reply(b"100 Continue") + reply(b"102 Processing", b"x-amz-request-id: no") + reply(b"103 Early Hints") + HELLO,
        body=b"hello", request_id="R-2",
    ),
    "204": Case(reply(b"204 No Content", b"x-amz-request-id: R-4"), status=204, request_id="R-4"),
    "304 with the length of what it does not send": Case(
        reply(b"304 Not Modified", b"Content-Length: 5"), status=304
    ),
    "HEAD with Content-Length": Case(
        reply(b"200 OK", b"Content-Length: 500", b"x-amz-request-id: R-5"), is_head=True, request_id="R-5"
    ),
    "HEAD with Content-Length 0": Case(EMPTY, is_head=True, request_id="R-1"),
    "HEAD without Content-Length": Case(reply(b"200 OK", b"x-amz-request-id: R-6"), is_head=True, request_id="R-6"),
    "HEAD of a chunked reply": Case(reply(b"200 OK", b"Transfer-Encoding: chunked"), is_head=True),
    "HEAD denied": Case(
        reply(b"403 Forbidden", b"Content-Length: 300", b"x-amz-request-id: R-7"),
        status=403, is_head=True, request_id="R-7",
    ),
    "HEAD and close": Case(
        reply(b"200 OK", b"Content-Length: 5", b"Connection: close"), is_head=True, keep_alive=False
    ),
    "HTTP/1.0": Case(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", body=b"hello", keep_alive=False),
    "HTTP/1.0 kept alive": Case(
        b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 5\r\n\r\nhello", body=b"hello"
    ),
    "HTTP/1.0 ended by the connection": Case(
        b"HTTP/1.0 200 OK\r\n\r\nhello", body=b"hello", keep_alive=False, ends_with_connection=True
    ),
    "Connection: close": Case(
        reply(b"200 OK", b"Connection: Close", b"Content-Length: 5", body=b"hello"), body=b"hello", keep_alive=False
    ),
    "ended by the connection": Case(
        reply(b"200 OK", body=b"hello"), body=b"hello", keep_alive=False, ends_with_connection=True
    ),
    "403 S3 error": Case(
        reply(b"403 Forbidden", length(DENIED), b"Content-Type: text/xml", b"x-amz-request-id: R-1", body=DENIED),
        status=403, request_id="R-1", s3_error=("AccessDenied", "Access Denied by policy"),
    ),
    "404 S3 error to a retrieve": Case(
        reply(b"404 Not Found", length(b"<Error><Code>NoSuchKey</Code></Error>"),
              body=b"<Error><Code>NoSuchKey</Code></Error>"),
        status=404, s3_error=("NoSuchKey", ""),
    ),
    "chunked S3 error": Case(
        reply(b"403 Forbidden", b"Transfer-Encoding: chunked", body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(DENIED), DENIED)),
        status=403, s3_error=("AccessDenied", "Access Denied by policy"),
    ),
    "S3 error ended by the connection": Case(
        reply(b"403 Forbidden", body=DENIED), status=403, keep_alive=False, ends_with_connection=True,
        s3_error=("AccessDenied", "Access Denied by policy"),
    ),
    "503 with Retry-After": Case(
        reply(b"503 Slow Down", b"Retry-After: 3", b"Content-Length: 78",
              body=b"<Error><Code> SlowDown </Code><Message>\nReduce your rate.\n</Message></Error>\n "),
        status=503, s3_error=("SlowDown", "Reduce your rate."),
    ),
    "500 without a body": Case(reply(b"500 Oops", b"Content-Length: 0"), status=500),
    "307 redirect": Case(
        reply(b"307 Temporary Redirect", b"Location: http://elsewhere:9000/b", b"Content-Length: 0"),
        status=307, s3_error=("Redirect", "redirected to http://elsewhere:9000/b; name that endpoint and its region"),
    ),
    "HTML 200": Case(reply(b"200 OK", length(HTML), b"Content-Type: text/html", body=HTML), s3_error=("", NO_S3)),
    "HTML 404": Case(reply(b"404 Not Found", length(HTML), body=HTML), status=404, s3_error=("", NO_S3)),
}  # fmt: skip
SELF_ENDING = [name for name, case in CASES.items() if not case.ends_with_connection]


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("name", CASES)
def test_reply_is_parsed_alike_from_any_pieces(name: str, arrival: Arrival) -> None:
    case = CASES[name]
    check = Expects(case.body) if case.body is not None else None
    reader = ReplyReader()
    reader.expect(is_head=case.is_head, check=check)
    done = feed_all(reader, arrival(case.data))
    if case.ends_with_connection:
        assert not done
        assert reader.connection_ended()
    else:
        assert done
        assert not reader.connection_ended()  # no reply is pending
    assert (reader.status, reader.keep_alive) == (case.status, case.keep_alive)
    assert reader.request_id == case.request_id
    assert reader.s3_error() == case.s3_error
    assert check is None or check.finish()


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("name", SELF_ENDING)
def test_truncated_reply_is_never_complete(name: str, arrival: Arrival) -> None:
    case = CASES[name]
    for end in range(len(case.data)):
        reader = ReplyReader()
        reader.expect(is_head=case.is_head, check=Expects(case.body or b""))
        assert not feed_all(reader, arrival(case.data[:end]))
        with pytest.raises(ReplyError) as caught:
            reader.connection_ended()
        assert caught.value.status in (Status.TRUNCATED, Status.CONNECTION_LOST)


@pytest.mark.parametrize("trailing", [b"x", EMPTY, b"\0"])
@pytest.mark.parametrize("name", SELF_ENDING)
def test_bytes_after_reply_are_refused_in_same_or_next_chunk(name: str, trailing: bytes) -> None:
    case = CASES[name]
    for pieces in ([case.data + trailing], [case.data, trailing], [*byte_by_byte(case.data), trailing]):
        reader = ReplyReader()
        reader.expect(is_head=case.is_head, check=None if case.body is None else Expects(case.body))
        with pytest.raises(ReplyError) as caught:
            feed_blindly(reader, pieces)
        assert caught.value.status is Status.PROTOCOL_ERROR


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize(
    ("data", "status", "message"),
    [
        (b"hello world\r\n\r\n", Status.PROTOCOL_ERROR, "not an HTTP reply"),
        (b"\x16\x03\x01\x02\x00\x01", Status.PROTOCOL_ERROR, "not an HTTP reply"),  # TLS
        (b"SSH-2.0-OpenSSH_9.6\r\n", Status.PROTOCOL_ERROR, "not an HTTP reply"),
        (b"HTTP/1.1 abc OK\r\n\r\n", Status.PROTOCOL_ERROR, "not an HTTP reply"),
        (reply(b"200 OK", b"Content-Length: five"), Status.PROTOCOL_ERROR, "Content-Length"),
        (reply(b"200 OK", b"Content-Length: -1"), Status.PROTOCOL_ERROR, "Content-Length"),
        (reply(b"200 OK", b"Content-Length: 99999999999999999999"), Status.PROTOCOL_ERROR, "Content-Length"),
        (reply(b"200 OK", b"Content-Length: 1", b"Content-Length: 2"), Status.PROTOCOL_ERROR, "Content-Length"),
        (reply(b"200 OK", b"Content-Length: 1", b"Transfer-Encoding: chunked"), Status.PROTOCOL_ERROR, "Transfer"),
        (reply(b"200 OK", b"Transfer-Encoding: chunked", body=b"zz\r\n"), Status.PROTOCOL_ERROR, "not an HTTP reply"),
        (
            reply(b"101 Switching Protocols", b"Upgrade: h2c", b"Connection: Upgrade"),
            Status.PROTOCOL_ERROR,
            "switched protocols, which was not requested",
        ),
        (reply(b"101 Switching Protocols"), Status.PROTOCOL_ERROR, "not an HTTP reply: .*Upgrade"),
    ],
)
def test_invalid_reply_is_protocol_error(data: bytes, status: Status, message: str, arrival: Arrival) -> None:
    reader = ReplyReader()
    reader.expect()
    with pytest.raises(ReplyError, match=message) as caught:
        feed_blindly(reader, arrival(data))
    assert caught.value.status is status


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize(
    ("data", "status", "message"),
    [
        (b"", Status.CONNECTION_LOST, "closed the connection without a reply"),
        (b"H", Status.TRUNCATED, "in the middle of the reply's head"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", Status.TRUNCATED, "in the middle of the reply's head"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", Status.TRUNCATED, "in the middle of the reply's head"),
        (HELLO[:-1], Status.TRUNCATED, "in the middle of the reply's body"),
        (HELLO[:-5], Status.TRUNCATED, "in the middle of the reply's body"),
        (reply(b"200 OK", b"Transfer-Encoding: chunked", body=b"5\r\nhello\r\n"), Status.TRUNCATED, "body"),
        (reply(b"403 Forbidden", b"Content-Length: 5000", body=DENIED), Status.TRUNCATED, "body"),
        (reply(b"100 Continue"), Status.TRUNCATED, "in the middle of the reply's head"),
    ],
)
@pytest.mark.parametrize("checked", [False, True])
def test_truncated_reply_reports_where_it_ended(
    data: bytes, status: Status, message: str, arrival: Arrival, checked: bool
) -> None:
    reader = ReplyReader()
    reader.expect(check=LengthCheck(5) if checked else None)
    assert not feed_all(reader, arrival(data))
    with pytest.raises(ReplyError, match=message) as caught:
        reader.connection_ended()
    assert caught.value.status is status


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(lambda: b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2 * HEAD_BYTES_MAX, id="one long header"),
        pytest.param(lambda: b"HTTP/1.1 200 OK\r\n" + b"X-Y: z\r\n" * (HEAD_BYTES_MAX // 4), id="many headers"),
        pytest.param(lambda: b"HTTP/1.1 200 " + b"O" * 2 * HEAD_BYTES_MAX, id="a long reason"),
        pytest.param(lambda: reply(b"100 Continue") * (HEAD_BYTES_MAX // 12), id="1xx replies without end"),
    ],
)
@pytest.mark.parametrize("piece_bytes", [997, CHUNK_BYTES])
def test_a_head_flood_is_refused_after_64_kib(flood: Callable[[], bytes], piece_bytes: int) -> None:
    data = flood()
    starts = iter(range(0, len(data), piece_bytes))
    reader = ReplyReader()
    reader.expect()
    with pytest.raises(ReplyError, match=f"head is longer than {HEAD_BYTES_MAX} bytes") as caught:
        feed_blindly(reader, (data[start : start + piece_bytes] for start in starts))
    assert caught.value.status is Status.PROTOCOL_ERROR
    assert next(starts) <= HEAD_BYTES_MAX + piece_bytes


def test_a_head_just_below_the_limit_is_read() -> None:
    data = reply(b"200 OK", b"Content-Length: 0", b"X: " + b"x" * (HEAD_BYTES_MAX - 200))
    reader = ReplyReader()
    reader.expect()
    assert feed_all(reader, in_sevens(data))


def test_a_long_error_body_is_not_collected() -> None:
    reader = ReplyReader()
    reader.expect()
    reader.feed(reply(b"500 Oops"))
    for _ in range(BEYOND_BYTES_MAX // CHUNK_BYTES):
        reader.feed(b"x" * CHUNK_BYTES)
    assert len(reader.error_body) <= ERROR_BODY_BYTES_MAX + CHUNK_BYTES


CHUNKED = b"Transfer-Encoding: chunked"


@pytest.mark.parametrize("status", [b"200 OK", b"500 Oops"])
@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("length", [(), (CHUNKED,), (b"Content-Length: 999999999999",)])
def test_body_far_longer_than_requested_is_abandoned(length: tuple[bytes, ...], checked: bool, status: bytes) -> None:
    piece = b"x" * CHUNK_BYTES
    piece = b"%x\r\n%b\r\n" % (len(piece), piece) if length == (CHUNKED,) else piece
    pieces = itertools.chain([reply(status, *length)], itertools.repeat(piece, 100))
    reader = ReplyReader()
    reader.expect(check=LengthCheck(5) if checked else None)
    with pytest.raises(ReplyError, match="far longer than the requested length") as caught:
        feed_blindly(reader, pieces)
    assert caught.value.status is Status.PROTOCOL_ERROR
    assert next(pieces)  # there would be more


@pytest.mark.parametrize(
    ("announced", "body", "error", "damaged"),
    [
        (5, b"hell", Status.TRUNCATED, None),
        (5, b"hello!", Status.PROTOCOL_ERROR, None),
        (4, b"hello", Status.PROTOCOL_ERROR, None),
        (4, b"hell", None, True),  # the reply is valid, but its body is too short
        (5, b"hallo", None, True),
        (5, b"hello", None, False),
    ],
)
@pytest.mark.parametrize("split", [0, 1, 4])
def test_a_wrong_content_length_and_wrong_bytes_are_two_different_faults(
    announced: int, body: bytes, error: Status | None, damaged: bool | None, split: int
) -> None:
    check = Expects(b"hello")
    reader = ReplyReader()
    reader.expect(check=check)
    pieces = [reply(b"200 OK", b"Content-Length: %d" % announced, body=body[:split]), body[split:]]
    pieces = [piece for piece in pieces if piece]
    if error is None:
        assert feed_all(reader, pieces)
        assert check.finish() is not damaged
        return
    with pytest.raises(ReplyError) as caught:
        feed_blindly(reader, pieces, ended=True)
    assert caught.value.status is error


def large_reply(number: int) -> bytes:
    return reply(b"200 OK", b"Content-Length: %d" % LARGE, body=CONTENT.whole(number, LARGE))


@pytest.mark.parametrize("first_piece", [1, 60, 1000, CHUNK_BYTES, 256 * 1024 + 1])
@pytest.mark.parametrize("verified", [ContentCheck, LengthCheck])
def test_next_reply_is_read_after_a_large_body(first_piece: int, verified: type) -> None:
    reader = ReplyReader()
    for number in range(3):
        check: BodyCheck = ContentCheck(CONTENT, number, LARGE) if verified is ContentCheck else LengthCheck(LARGE)
        data = large_reply(number)
        rest = range(first_piece, len(data), CHUNK_BYTES)
        reader.expect(check=check)
        assert feed_all(reader, [data[:first_piece], *(data[start : start + CHUNK_BYTES] for start in rest)])
        assert check.finish()
        assert (reader.status, reader.keep_alive, reader.headers[b"content-length"]) == (200, True, b"%d" % LARGE)
    reader.expect()
    assert feed_all(reader, [EMPTY])
    assert reader.request_id == "R-1"


@pytest.mark.parametrize("extra", [b"x", EMPTY])
def test_bytes_after_a_large_body_are_refused(extra: bytes) -> None:
    data = large_reply(1) + extra
    for boundary in (len(data), len(data) - len(extra)):
        reader = ReplyReader()
        reader.expect(check=ContentCheck(CONTENT, 1, LARGE))
        with pytest.raises(ReplyError) as caught:
            feed_blindly(reader, [data[:1000], data[1000:boundary], data[boundary:]])
        assert caught.value.status is Status.PROTOCOL_ERROR


def test_a_large_body_cut_short_is_truncated() -> None:
    reader = ReplyReader()
    reader.expect(check=ContentCheck(CONTENT, 1, LARGE))
    assert not feed_all(reader, [large_reply(1)[:-1]])
    with pytest.raises(ReplyError, match="body") as caught:
        reader.connection_ended()
    assert caught.value.status is Status.TRUNCATED


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("first", [name for name, case in CASES.items() if case.keep_alive])
@pytest.mark.parametrize("second", ["200 empty", "200 with a checked body", "HEAD with Content-Length", "403 S3 error"])
def test_successive_replies_of_one_reader_are_independent(first: str, second: str, arrival: Arrival) -> None:
    reader = ReplyReader()
    for case in (CASES[first], CASES[second]):
        check = Expects(case.body) if case.body is not None else None
        reader.expect(is_head=case.is_head, check=check)
        assert feed_all(reader, arrival(case.data))
        assert (reader.status, reader.keep_alive, reader.request_id) == (case.status, True, case.request_id)
        assert reader.s3_error() == case.s3_error
        assert check is None or check.finish()


def test_bytes_before_any_request_are_refused() -> None:
    with pytest.raises(ReplyError, match="belong to no request") as caught:
        ReplyReader().feed(EMPTY)
    assert caught.value.status is Status.PROTOCOL_ERROR


@given(st.lists(st.sampled_from(sorted(CASES)), min_size=1, max_size=5), st.data())
def test_any_split_of_any_sequence_of_replies_reads_the_same(names: list[str], data: st.DataObject) -> None:
    reader = ReplyReader()
    for case in (CASES[name] for name in names):
        if not case.keep_alive:
            return
        cuts = sorted(data.draw(st.sets(st.integers(1, len(case.data) - 1), max_size=4)))
        edges = [0, *cuts, len(case.data)]
        check = Expects(case.body) if case.body is not None else None
        reader.expect(is_head=case.is_head, check=check)
        assert feed_all(reader, [case.data[start:end] for start, end in itertools.pairwise(edges)])
        assert (reader.status, reader.request_id, reader.s3_error()) == (case.status, case.request_id, case.s3_error)
        assert check is None or check.finish()


@given(st.binary(max_size=2000), st.booleans())
def test_random_bytes_raise_nothing_but_reply_errors(data: bytes, is_head: bool) -> None:
    reader = ReplyReader()
    reader.expect(is_head=is_head, check=LengthCheck(5))
    status = Status.OK
    try:
        if not reader.feed(b"HTTP/1.1 200 OK\r\n"[: len(data) % 18] + data):
            reader.connection_ended()
    except ReplyError as error:
        status = error.status
    assert status in (Status.OK, Status.PROTOCOL_ERROR, Status.TRUNCATED, Status.CONNECTION_LOST)
