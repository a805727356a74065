"""Damaged HTTP replies: only correct contents succeed, nothing hangs, and a faulty connection is not used again.

One idea: Python's own HTTP client reads the same bytes. It is less strict than our client, so every reply that ours
accepts must also be valid for Python's.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from io import BytesIO
from typing import Any, cast

import uvloop
from hypothesis import given
from hypothesis import strategies as st

from archiver.values.content import Content, ContentCheck
from archiver.values.record import Operation, Recorder, Status
from archiver.values.retention import DateMaker, Retention
from backends.base import Batch, PhaseSetting
from backends.s3.data_plane import S3DataPlane
from backends.s3.setting import S3WorkerSetting
from backends.s3.wire.replies import ReplyError, ReplyReader
from tests.fuzz.hostile import damaged, tries

SIZE, OBJECTS = 300, 3
CONTENT = Content("20261121-run", 7, 1 << 16)
SECONDS_MAX = 60.0  # reached only if something hangs
PATIENCE_SECONDS = 0.3  # read timeout, for a reply that our client does not take for complete


class Kept(BytesIO):
    """A stream that several readers read in turn; none of them closes it."""

    def makefile(self, mode: str) -> Kept:
        return self

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Seen:
    """A reply as Python's HTTP client reads it."""

    status: int = 0
    body: bytes = b""
    is_all: bool = False  # the reply was complete, and only line ends followed it


def seen(data: bytes, method: str = "GET") -> Seen:
    stream = Kept(data)
    try:
        while True:
            reply = HTTPResponse(cast(Any, stream), method=method)
            reply.begin()
            if reply.status >= 200:
                return Seen(reply.status, reply.read(), not stream.read().strip(b"\r\n"))
    except (HTTPException, ValueError, OSError):
        return Seen()


def lines(*each: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join((*each, b"", b"")) + body


def chunked(body: bytes, chunk_bytes: int) -> bytes:
    pieces = [body[at : at + chunk_bytes] for at in range(0, len(body), chunk_bytes)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@st.composite
def answers(draw: st.DrawFn, right: bytes) -> bytes:
    """Draw a reply to a GET of these bytes, in any form of HTTP, in many cases damaged."""
    start = draw(st.sampled_from([b"HTTP/1.1 200 OK"] * 6 + [b"HTTP/1.0 200 OK", b"HTTP/1.1 206 Partial Content",
                                  b"HTTP/1.1 204 No Content", b"HTTP/1.1 304 Not Modified", b"HTTP/1.1 503 Slow Down",
                                  b"HTTP/1.1 404 Not Found", b"HTTP/1.1 307 Elsewhere"]))  # fmt: skip
    more = draw(st.lists(st.sampled_from([b"x-amz-request-id: R", b"Connection: keep-alive", b"Connection: close",
                                          b"ETag: \"e\"", b"Content-Length: 300", b"Transfer-Encoding: identity",
                                          b"Upgrade: h2c", b"X: " + b"y" * 2000]), max_size=2))  # fmt: skip
    body = draw(st.sampled_from([right, right, right, right[:-1], right + b"x", b"", b"<Error><Code>X</Code></Error>"]))
    form = draw(st.sampled_from(["length", "length", "chunks", "end"]))
    if form == "length":
        whole = lines(start, b"Content-Length: %d" % len(body), *more, body=body)
    elif form == "chunks":
        size = draw(st.integers(1, 400))
        whole = lines(start, b"Transfer-Encoding: chunked", *more, body=chunked(body, size))
    else:
        whole = lines(start, *more, body=body)
    early = draw(st.lists(st.sampled_from([lines(b"HTTP/1.1 100 Continue"), lines(b"HTTP/1.1 103 Early Hints",
    b"Link: x")]), max_size=2))  # fmt: skip
    late = draw(st.sampled_from([b"", b"", b"", b"", b"\r\n", whole, b"x"]))
    return draw(damaged(b"".join((*early, whole, late)), faults_max=2) | st.just(b"".join((*early, whole))))


def pieces_of(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges) if start < end]


cuts = st.lists(st.integers(0, 5000), max_size=5)


@tries(120)
@given(answers(CONTENT.whole(1, SIZE)), cuts, st.booleans())
def test_accepted_reply_is_also_valid_for_python_http_client(data: bytes, cuts: list[int], is_head: bool) -> None:
    reader, check = ReplyReader(), ContentCheck(CONTENT, 1, SIZE)
    reader.expect(is_head=is_head, check=None if is_head else check)
    is_whole = False
    try:
        for piece in pieces_of(data, cuts):
            is_whole |= reader.feed(piece)
        is_whole |= reader.connection_ended()
    except ReplyError:
        return
    assert is_whole
    found = seen(data, "HEAD" if is_head else "GET")
    assert found.is_all
    assert found.status == reader.status
    if not is_head and reader.status == 200:
        assert check.finish() == (found.body == CONTENT.whole(1, SIZE))


@dataclass
class Liar:
    """A server that sends the next of its answers, in pieces, for each request.

    It closes the connection after the last answer, or after one that is no valid reply, and records in
    ``asked_too_much`` what the client still sends then.
    """

    answers: list[bytes]
    cuts: list[int]
    asked: list[str] = field(default_factory=list)
    asked_too_much: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                self.asked.append(head.split(b" ", 2)[1].decode())
                answer = self.answers.pop(0)
                for piece in pieces_of(answer, self.cuts):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if not seen(answer).is_all:
                    break
            writer.write_eof()
            self.asked_too_much += [rest] if (rest := await reader.read()) and not self.answers else []
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


def setting(url: str) -> S3WorkerSetting:
    return S3WorkerSetting(
        endpoints=(url,), region="us-east-1", access_key="AKIDEXAMPLE", secret_key="very-secret", session_token=None,
        bucket="bucket-1", prefix="run/", ca_bundle=None, insecure=False, retention=Retention(), checksum="crc32c",
        payload_signing=False, session_open="connect", keep_sessions_open=False, connect_timeout_seconds=SECONDS_MAX,
        read_timeout_seconds=PATIENCE_SECONDS, clock_offset_seconds=0.0,
    )  # fmt: skip


async def one_session(liar: Liar) -> Recorder:
    server = await asyncio.start_server(liar.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    plane = S3DataPlane(setting(f"http://127.0.0.1:{port}"))
    plane.set_phase(PhaseSetting(CONTENT, {None: DateMaker(Retention(), 4e9)}, "all", (SIZE,)))
    record = Recorder(100)
    async with asyncio.timeout(SECONDS_MAX):
        session = plane.session(0)
        assert await session.open(record, 1)
        numbers = range(1, OBJECTS + 1)
        await session.perform(Batch([Operation.RETRIEVE] * OBJECTS, numbers, [SIZE] * OBJECTS), record)
        await session.close(record)
        await plane.end_phase()
        server.close()
        await server.wait_closed()
    return record


def test_only_correct_replies_of_faulty_server_count_as_success() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:

        @tries(15)
        @given(st.tuples(*(answers(CONTENT.whole(number, SIZE)) for number in range(1, OBJECTS + 1))), cuts)
        def check(said: tuple[bytes, ...], cuts: list[int]) -> None:
            liar = Liar(list(said), cuts)
            record = runner.run(one_session(liar))
            right = [seen(each) == Seen(200, CONTENT.whole(number, SIZE), True) for number, each in enumerate(said, 1)]
            statuses = {
                record.number[row]: Status(record.status[row]) if record.status[row] < 100 else record.status[row]
                for row in range(record.used)
                if record.operation[row] == Operation.RETRIEVE
            }
            for number, status in statuses.items():
                if status == Status.OK:
                    assert right[number - 1], number
                    assert record.bytes
            failed = sum(status != Status.OK for status in statuses.values())
            assert sum(kind.count for kind in record.errors.values()) >= failed
            assert all(kind.reason for kind in record.errors.values())
            # After an invalid reply the client sends no request on that connection.
            assert liar.asked_too_much == []

        check()
