"""A transaction of the TSM server happens as a whole or not at all, with any content and in any pieces."""

from __future__ import annotations

import asyncio
import os
import random
import struct
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from backends.embedded.core.changes.archives import (
    ArchiveTransaction,
    DeleteSpace,
    NewArchive,
    RegisterSpace,
    UpdateObject,
)
from backends.embedded.core.changes.objects import CreateBucket
from backends.embedded.core.files.segments import LARGE_BYTES
from backends.embedded.core.rules.refusals import ArchiveRetained
from backends.embedded.core.store import Store
from backends.embedded.core.tables.archives import Space
from backends.embedded.tsm import incoming as tsm_incoming
from tests.backends.embedded.running_server import RunningTsmServer
from tests.backends.embedded.tsm_client import (
    ANSWER,
    DATA,
    DELETE,
    DIRECTORY,
    END_TRANSACTION,
    EVENT,
    HOLD,
    LAST,
    OBJECT,
    PING,
    UPDATE_SPACE,
    WILL_ABORT,
    Client,
    Ended,
    event_body,
    frame,
    object_body,
    text,
)

MIB = 1 << 20


@cache
def content(size: int, seed: int = 0) -> bytes:
    return random.Random(f"{size} {seed}").randbytes(size)


def held(tsm_server: RunningTsmServer) -> tuple[int, int, list[Path]]:
    """Return the store's counts and its segment files."""
    statistics = tsm_server.store.statistics()
    return statistics.objects, statistics.bytes, tsm_server.segments()


# What is visible, and when.


@pytest.mark.parametrize("first_bytes", [10, LARGE_BYTES + 1])
def test_a_commit_makes_everything_visible_at_once(tsm_server: RunningTsmServer, tsm: Client, first_bytes: int) -> None:
    space, expired = tsm.space(), tsm.class_index("NONE")
    for ll in (b"/gone", b"/held"):
        assert tsm.archive(space, ll, class_index=expired) == 0
    gone, kept = tsm.query(space)
    tsm.send_object(space, b"/new-1", content(first_bytes))
    tsm.send_object(space, b"/new-2", b"second")
    tsm.send_delete(gone.id)
    tsm.send(EVENT, event_body(HOLD, [kept.id]))
    tsm.ping()  # The server has received all of it.
    with tsm_server.sign_on() as witness:
        assert witness.query(space) == [gone, kept]
        assert tsm.vote() == 0
        now = witness.query(space)
        assert [row.ll for row in now] == [b"/held", b"/new-1", b"/new-2"]
        assert now[0] == kept._replace(held=2)
        got = witness.get(*(row.id for row in now))
        assert [each.content for each in got] == [b"", content(first_bytes), b"second"]
        assert witness.get(gone.id) == [(2, b"", 0)]


@pytest.mark.parametrize("end", ["abort", "abort in an object", "close", "vanish", "bye", "nonsense"])
@pytest.mark.parametrize("size", [100, 2 * MIB, 20 * MIB])
def test_an_uncommitted_transaction_leaves_nothing(
    tsm_server: RunningTsmServer, tsm: Client, end: str, size: int
) -> None:
    space = tsm.space()
    assert tsm.archive(space, b"/before", b"before") == 0
    before, rows = held(tsm_server), tsm.query(space)
    with tsm_server.sign_on() as client:
        client.send_object(space, b"/small", b"small")
        client.send_object(space, b"/o", content(size))
        client.send(EVENT, event_body(HOLD, [rows[0].id]))
        if end == "abort":
            assert client.vote(commit=False) == 3
            assert client.query(space) == rows
        else:
            client.send(OBJECT, object_body(space, b"/d", b"/half") + b"some of it")
        if end == "abort in an object":
            assert client.vote(commit=False) == 3
            assert client.query(space) == rows
        elif end == "bye":
            client.send(0x50)
            assert client.receive() is None
        elif end == "nonsense":
            client.send(0x7F)
            assert client.ended() == 136
        elif end == "vanish":
            client.reset()
    tsm_server.settled(sessions=1)
    assert held(tsm_server) == before
    assert tsm.query(space) == rows


def test_an_aborted_transaction_can_be_tried_again(tsm: Client) -> None:
    space = tsm.space()
    for size in (10, 9 * MIB):
        tsm.send_object(space, b"/o", content(size))
        assert tsm.vote(commit=False) == 3
        tsm.send_object(space, b"/o", content(size))
        assert tsm.vote() == 0
    assert [row.size for row in tsm.query(space)] == [10, 9 * MIB]


def test_an_empty_transaction_commits(tsm: Client) -> None:
    assert tsm.vote() == 0
    assert tsm.vote(commit=False) == 3


def test_statistics_count_archived_and_deleted_objects(tsm_server: RunningTsmServer, tsm: Client) -> None:
    space, expired = tsm.space(), tsm.class_index("NONE")
    start = tsm_server.store.statistics()
    for size in (0, 100, 9 * MIB):
        assert tsm.archive(space, b"/%d" % size, content(size), class_index=expired) == 0
    full = tsm_server.store.statistics()
    assert (full.objects, full.bytes) == (3, 100 + 9 * MIB)
    assert full.objects_written - start.objects_written == 3
    assert full.bytes_written - start.bytes_written == 100 + 9 * MIB
    assert full.commits - start.commits == 3
    assert tsm.delete(*(row.id for row in tsm.query(space))) == 0
    empty = tsm_server.store.statistics()
    assert (empty.objects, empty.bytes) == (0, 0)
    assert len(tsm_server.segments()) == 1  # the one that is appended to


# Refused transactions.


def test_a_refused_delete_refuses_the_whole_transaction(tsm_server: RunningTsmServer, tsm: Client) -> None:
    space, expired, kept = tsm.space(), tsm.class_index("NONE"), tsm.class_index("STANDARD")
    assert tsm.archive(space, b"/expired", b"e", class_index=expired) == 0
    assert tsm.archive(space, b"/kept", b"k", class_index=kept) == 0
    rows, before = tsm.query(space), held(tsm_server)
    for large in (b"", content(9 * MIB)):
        tsm.send_object(space, b"/new", b"n" + large)
        tsm.send_delete(rows[0].id)
        tsm.send_delete(rows[1].id)
        tsm.send(EVENT, event_body(HOLD, [rows[0].id]))
        assert tsm.vote() == 248
        assert tsm.query(space) == rows
        assert held(tsm_server) == before
    assert tsm.delete(rows[0].id) == 0
    assert tsm.query(space) == [rows[1]]


@pytest.mark.parametrize("number", [999, 0, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_missing_object_refuses_the_whole_transaction(tsm: Client, number: int) -> None:
    space = tsm.space()
    assert tsm.archive(space, b"/o", b"o", class_index=tsm.class_index("NONE")) == 0
    (row,) = tsm.query(space)
    assert tsm.delete(row.id, number) == 2
    assert tsm.event(HOLD, row.id, number) == 2
    assert tsm.query(space) == [row]


def test_object_cannot_be_deleted_twice_or_both_deleted_and_held(tsm: Client) -> None:
    space = tsm.space()
    assert tsm.archive(space, b"/o", b"o", class_index=tsm.class_index("NONE")) == 0
    (row,) = tsm.query(space)
    assert tsm.delete(row.id, row.id) == 2
    tsm.send_delete(row.id)
    tsm.send(EVENT, event_body(HOLD, [row.id]))
    assert tsm.vote() == 2
    assert tsm.query(space) == [row]
    assert tsm.delete(row.id) == 0
    assert tsm.delete(row.id) == 2


def test_a_transaction_has_at_most_4096_operations(tsm: Client) -> None:
    space, expired = tsm.space(), tsm.class_index("NONE")
    for number in range(4096):
        tsm.send_object(space, b"/%d" % number, class_index=expired)
    assert tsm.vote() == 0
    ids = [row.id for row in tsm.query(space)]
    assert len(ids) == 4096
    tsm.send_object(space, b"/one-more", class_index=expired)
    for number in ids[:4095]:
        tsm.send_delete(number)
    tsm.send_delete(ids[4095])
    assert tsm.expect(WILL_ABORT).body == struct.pack("<H", 249)
    tsm.send_object(space, b"/and-another", class_index=expired)
    assert tsm.vote() == 249
    assert tsm.warnings == []  # reported once
    tsm.send_delete(ids[0])
    tsm.send(EVENT, event_body(HOLD, ids))
    assert tsm.vote() == 249
    assert [row.id for row in tsm.query(space)] == ids
    assert tsm.event(HOLD, *ids) == 0
    assert {row.held for row in tsm.query(space)} == {2}


def test_an_unknown_space_is_reported_before_the_vote(tsm_server: RunningTsmServer, tsm: Client) -> None:
    space = tsm.space()
    before = held(tsm_server)
    tsm.send_object(space, b"/good", b"good")
    tsm.send_object(space + 1, b"/bad", b"bad")
    assert tsm.expect(WILL_ABORT).body == struct.pack("<H", 20)
    tsm.send_object(space, b"/late", content(9 * MIB))
    assert tsm.vote() == 20
    assert tsm.query(space) == []
    assert held(tsm_server) == before


def test_a_space_deleted_before_the_vote_refuses_the_vote(tsm_server: RunningTsmServer, tsm: Client) -> None:
    space = tsm.space()
    with tsm_server.sign_on() as other:
        for size in (1, 9 * MIB):
            space = tsm.space()
            before = held(tsm_server)
            tsm.send_object(space, b"/o", content(size))
            tsm.ping()
            assert other.delete_space(b"/fs") == (0, 0)
            assert tsm.vote() == 20
            assert held(tsm_server) == before


def test_a_full_disk_is_reported_at_the_vote_or_earlier(tsm_server: RunningTsmServer, tsm: Client) -> None:
    space, expired = tsm.space(), tsm.class_index("NONE")
    assert tsm.archive(space, b"/before", b"b", class_index=expired) == 0
    before, rows = held(tsm_server), tsm.query(space)
    tsm_server.disk.free = 0
    assert tsm.archive(space, b"/small", b"s") == 11
    assert tsm.warnings == []
    tsm.send_object(space, b"/large", content(9 * MIB))
    assert tsm.expect(WILL_ABORT).body == struct.pack("<H", 11)
    tsm.send_object(space, b"/small", b"s")
    assert tsm.vote() == 11
    assert (held(tsm_server), tsm.query(space)) == (before, rows)
    assert tsm.event(HOLD, rows[0].id) == 0  # Changes that need no space continue.
    tsm_server.disk.free = 1 << 40
    assert tsm.archive(space, b"/large", content(9 * MIB)) == 0


@pytest.mark.parametrize("broken", ["pwritev", "fdatasync"])
def test_a_write_that_fails_fails_the_transaction(
    tsm_server: RunningTsmServer, tsm: Client, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    space = tsm.space()
    assert tsm.archive(space, b"/before", b"b") == 0
    before, rows = held(tsm_server), tsm.query(space)

    def failing(*_: Any) -> int:
        raise OSError(5, "Input/output error")

    for size in (10, 20 * MIB):
        with monkeypatch.context() as patch:
            patch.setattr(os, broken, failing)
            assert tsm.archive(space, b"/o", content(size)) == 43
        assert (held(tsm_server), tsm.query(space)) == (before, rows)
    assert tsm.archive(space, b"/o", content(9 * MIB)) == 0


# Arrival in pieces.


def splits(data: bytes) -> dict[str, list[bytes]]:
    """The frames of one object in different pieces."""
    head = object_body(1, b"/d", b"/o")
    ones = [data[at : at + 1] for at in range(len(data))]
    return {
        "all with the head": [frame(OBJECT, head + data, LAST)],
        "none with the head": [frame(OBJECT, head), frame(DATA, data, LAST)],
        "some with the head": [frame(OBJECT, head + data[:5]), frame(DATA, data[5:], LAST)],
        "an empty end": [frame(OBJECT, head + data), frame(DATA, b"", LAST)],
        "many empty ones": [
            frame(OBJECT, head), *[frame(DATA)] * 9, frame(DATA, data), *[frame(DATA)] * 9, frame(DATA, b"", LAST)
        ],
        "byte by byte": [frame(OBJECT, head), *(frame(DATA, each) for each in ones), frame(DATA, b"", LAST)],
    }  # fmt: skip


@pytest.mark.parametrize("size", [0, 1, 3000])
def test_an_object_arrives_in_any_pieces(tsm: Client, size: int) -> None:
    assert tsm.space() == 1
    data = content(size)
    for frames in splits(data).values():
        tsm.send_bytes(b"".join(frames) + frame(END_TRANSACTION, b"\1"))  # all at once
        assert tsm.voted() == 0
        for each in frames:
            tsm.send_bytes(each)
        assert tsm.vote() == 0
    rows = tsm.query(1)
    assert len(rows) == 2 * len(splits(data))
    assert {row.size for row in rows} == {size}
    assert {each.content for each in tsm.get(*(row.id for row in rows))} == {data}


def test_frames_arrive_in_any_pieces(tsm: Client) -> None:
    """The client sends one byte at a time, so every field is split at every position."""
    space, data = tsm.space(), content(50)
    whole = frame(OBJECT, object_body(space, b"/d", b"/o") + data[:20])
    whole += (
        frame(DATA, data[20:], LAST) + frame(PING) + frame(EVENT, event_body(HOLD, [])) + frame(END_TRANSACTION, b"\1")
    )
    for at in range(len(whole)):
        tsm.send_bytes(whole[at : at + 1])
    tsm.expect(0x90)
    assert tsm.voted() == 0
    (row,) = tsm.query(space)
    assert tsm.get(row.id) == [(0, data, 0)]


def test_pipelined_transactions_are_handled_in_order(tsm: Client) -> None:
    space = tsm.space()
    one = frame(OBJECT, object_body(space, b"/d", b"/o") + b"x", LAST) + frame(END_TRANSACTION, b"\1")
    tsm.send_bytes(one * 50 + frame(PING))
    assert [tsm.voted() for _ in range(50)] == [0] * 50
    tsm.expect(0x90)
    assert len(tsm.query(space)) == 50


SIZES = (0, 1, 100, MIB - 1, MIB, MIB + 1, 3 * MIB, LARGE_BYTES, LARGE_BYTES + 1, 20 * MIB)


def ranges(size: int) -> set[tuple[int, int]]:
    """Return valid offsets and lengths in an object of that size, including those at block boundaries."""
    found = {(0, size), (0, min(1, size)), (size // 2, 0), (size, 0)}
    for edge in (MIB - 1, MIB, MIB + 1, size - 1):
        if 0 <= edge < size:
            found |= {(edge, 0), (edge, 1), (edge, min(5000, size - edge)), (0, edge)}
    return found


def test_objects_of_any_size_read_back_whole_and_in_part(tsm: Client) -> None:
    space = tsm.space()
    for size in SIZES:
        assert tsm.archive(space, b"/%09d" % size, content(size)) == 0
    rows = tsm.query(space)
    assert [row.size for row in rows] == list(SIZES)
    assert [each.content for each in tsm.get(*(row.id for row in rows))] == [content(size) for size in SIZES]
    for row in rows:
        wanted = sorted(ranges(row.size))
        expected = [content(row.size)[offset:][: length or None] for offset, length in wanted]
        got = tsm.get(*((row.id, offset, length) for offset, length in wanted))
        assert [each.code for each in got] == [0] * len(wanted)
        assert [each.content for each in got] == expected
        beyond = [(row.size + 1, 0), (NEVER_OFFSET, 0), (0, row.size + 1), (row.size, 1), (0, NEVER_OFFSET)]
        got = tsm.get(*((row.id, offset, length) for offset, length in beyond))
        assert [each.code for each in got] == [33, 33, 34, 34, 34]


NEVER_OFFSET = (1 << 64) - 1


def test_a_large_transaction_of_many_objects_reads_back(tsm_server: RunningTsmServer, tsm: Client) -> None:
    """Objects before, at and after the point at which the transaction becomes large, with empty ones among them."""
    space = tsm.space()
    sizes = [0, 10, 3 * MIB, 0, 4 * MIB + 7, 2 * MIB, 0, 1, 5 * MIB, 0]
    for number, size in enumerate(sizes):
        tsm.send_object(space, b"/%d" % number, content(size, number))
    assert tsm.vote() == 0
    rows = tsm.query(space)
    assert [row.size for row in rows] == sizes
    expected = [content(size, number) for number, size in enumerate(sizes)]
    assert [each.content for each in tsm.get(*(row.id for row in rows))] == expected
    assert tsm_server.store.statistics().objects == len(sizes)


def test_the_attributes_of_an_object_are_kept_unchanged(tsm_server: RunningTsmServer, tsm: Client) -> None:
    space = tsm.space()
    said: dict[str, Any] = {
        "hl": b"/" + b"h" * 1023, "owner": b"o" * 64, "description": b"d" * 255, "info": bytes(range(250)) * 6,
        "estimate": (1 << 64) - 1, "kind": DIRECTORY, "attributes": 1, "class_index": tsm.class_index("EVENT"),
    }  # fmt: skip
    assert tsm.archive(space, b"/" + b"l" * 255, b"12345", **said) == 0
    assert tsm.archive(space, b"", b"", hl=b"") == 0
    plain, full = tsm.query(space)
    assert tuple(full) == (
        full.id, tsm_server.clock.now_ms, (1 << 64) - 1, (1 << 64) - 1, 5, full.restore_order, said["class_index"],
        DIRECTORY, 2, 1, 1, said["hl"], b"/" + b"l" * 255, said["owner"], said["description"], said["info"],
    )  # fmt: skip
    assert (plain.hl, plain.ll, plain.type, plain.compressed, plain.initiated, plain.held) == (b"", b"", 1, 2, 1, 1)
    assert full.id != plain.id
    assert full.restore_order < plain.restore_order  # the order of the bytes on the disk


@pytest.mark.parametrize(
    "body",
    [
        object_body(1, b"h" * 1025, b"/o"),
        object_body(1, b"/d", b"l" * 257),
        object_body(1, b"/d", b"/o", owner=b"o" * 65),
        object_body(1, b"/d", b"/o", description=b"d" * 256),
        object_body(1, b"/d", b"/o", info=b"i" * 1501),
        object_body(1, b"/d", b"/o", class_index=4),
        object_body(1, b"/d", b"/o", class_index=0xFFFF),
        object_body(1, b"/d", b"/o", kind=0),
        object_body(1, b"/d", b"/o", kind=3),
        object_body(1, b"/d", b"/o", attributes=2),
        object_body(1, b"/d", b"/o")[:-1],
        object_body(1, b"/d", b"/o")[:10],
        b"",
    ],
    ids=["hl", "ll", "owner", "description", "info", "class", "no-class", "type-0", "type-3", "attributes", "cut",
         "short", "empty"],
)  # fmt: skip
def test_a_malformed_object_ends_the_session(tsm: Client, body: bytes) -> None:
    assert tsm.space() == 1
    tsm.send(OBJECT, body, LAST)
    assert tsm.ended() == 136


@pytest.mark.parametrize(
    "frames",
    [
        frame(DATA),
        frame(OBJECT, object_body(1, b"/d", b"/o"), 2),
        frame(OBJECT, object_body(1, b"/d", b"/o")) + frame(PING),
        frame(OBJECT, object_body(1, b"/d", b"/o")) + frame(OBJECT, object_body(1, b"/d", b"/o")),
        frame(OBJECT, object_body(1, b"/d", b"/o")) + frame(DELETE, bytes(8)),
        frame(OBJECT, object_body(1, b"/d", b"/o")) + frame(END_TRANSACTION, b"\1"),
        frame(OBJECT, object_body(1, b"/d", b"/o"), LAST) + frame(DATA),
        frame(OBJECT, object_body(1, b"/d", b"/o"), LAST) + frame(0x11, b"\0\0"),
        frame(OBJECT, object_body(1, b"/d", b"/o"), LAST) + frame(0x30),
        frame(OBJECT, object_body(1, b"/d", b"/o"), LAST) + frame(END_TRANSACTION, b"\3"),
        frame(OBJECT, object_body(1, b"/d", b"/o"), LAST) + frame(END_TRANSACTION, b"\1\0"),
        frame(OBJECT, object_body(1, b"/d", b"/o"), LAST) + frame(END_TRANSACTION, b"\1", LAST),
        frame(EVENT, event_body(HOLD, [])) * 2,
        frame(EVENT, event_body(3, [])),
        frame(EVENT, event_body(HOLD, [1])[:-1]),
        frame(EVENT, event_body(HOLD, [1]) + b"\0"),
        frame(DELETE, bytes(7)),
        frame(DELETE, bytes(9)),
        frame(END_TRANSACTION, b"\0"),
        frame(END_TRANSACTION),
        struct.pack("<IBBH", (1 << 20) + 8193, OBJECT, 0, 0),
        struct.pack("<IBBH", (600 << 10) + 1, EVENT, 0, 0),
        struct.pack("<IBBH", 0, PING, 0, 1),
    ],
)
def test_a_frame_in_the_wrong_state_ends_the_session(tsm_server: RunningTsmServer, frames: bytes) -> None:
    with tsm_server.sign_on() as client:
        assert client.space() == 1
        client.send_bytes(frames)
        assert client.ended() == 136
    tsm_server.settled(sessions=0)
    with tsm_server.sign_on() as client:
        assert client.query(1) == []


# The server's memory and its time limits.


def incoming(tsm_server: RunningTsmServer) -> Any:
    return tsm_server.session._incoming


def test_a_lost_transaction_keeps_nothing_in_memory(tsm_server: RunningTsmServer, tsm: Client) -> None:
    space = tsm.space()
    tsm.send_object(space, b"/good", b"good")
    tsm.send_object(space + 1, b"/bad", b"bad")
    for number in range(20):
        tsm.send_object(space, b"/%d" % number, content(MIB))
    tsm.send_delete(1)
    tsm.send(EVENT, event_body(HOLD, [1, 2, 3]))
    tsm.ping()
    lost = tsm_server.do(lambda: incoming(tsm_server))
    assert lost.lost == 20
    assert (lost.transaction.archives, lost._object, lost._spool) == ([], None, None)
    assert tsm.vote() == 20


def test_large_transaction_is_not_kept_in_memory(tsm_server: RunningTsmServer, tsm: Client) -> None:
    space = tsm.space()
    for number in range(4):
        tsm.send_object(space, b"/%d" % number, content(6 * MIB))
    tsm.ping()

    async def written() -> None:
        spool = incoming(tsm_server)._spool
        await tsm_server.until(lambda: spool._waiting_bytes <= MIB)  # so few bytes may wait in memory

    tsm_server.call(written())
    assert [each.content for each in incoming(tsm_server).transaction.archives] == [[]] * 4
    assert tsm.vote() == 0
    assert [row.size for row in tsm.query(space)] == [6 * MIB] * 4


def test_many_small_pieces_are_joined_in_memory(tsm_server: RunningTsmServer, tsm: Client) -> None:
    space, count = tsm.space(), 40_000
    tsm.send(OBJECT, object_body(space, b"/d", b"/o"))
    tsm.send_bytes(frame(DATA, b"x") * count)
    tsm.send(DATA, b"", LAST)
    tsm.ping()
    (new,) = incoming(tsm_server).transaction.archives
    assert len(new.content) < count / 100
    assert tsm.vote() == 0
    (row,) = tsm.query(space)
    assert tsm.get(row.id) == [(0, b"x" * count, 0)]


def test_a_little_data_in_many_buffers_is_not_kept_in_memory(
    tsm_server: RunningTsmServer, tsm: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tsm_incoming, "_KEPT_BYTES_MAX", 2 * MIB)
    space = tsm.space()
    tsm.send(OBJECT, object_body(space, b"/d", b"/o") + content(5000))
    tsm.send_bytes(frame(DATA) * (4 * MIB // 8))
    tsm.send(DATA, b"end", LAST)
    tsm.ping()
    assert incoming(tsm_server)._spool is not None
    assert tsm.vote() == 0
    (row,) = tsm.query(space)
    assert tsm.get(row.id)[0].content == content(5000) + b"end"


class Gate:
    """Delays a call of the store until the test opens the gate."""

    def __init__(self, tsm_server: RunningTsmServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self._server = tsm_server
        self.reached = 0
        self._open = tsm_server.do(asyncio.Event)
        self._call: Callable[..., Any] = tsm_server.store.change
        monkeypatch.setattr(tsm_server.store, "change", self._held_back)

    async def _held_back(self, *arguments: Any) -> Any:
        self.reached += 1
        await self._open.wait()
        return await self._call(*arguments)

    def wait(self, count: int = 1) -> None:
        self._server.call(self._server.until(lambda: self.reached >= count))

    def open(self) -> None:
        self._server.do(self._open.set)


@pytest.mark.parametrize("how", ["close", "vanish"])
def test_vote_is_carried_out_after_its_client_disconnects(
    tsm_server: RunningTsmServer, tsm: Client, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    space = tsm.space()
    gate = Gate(tsm_server, monkeypatch)
    with tsm_server.sign_on() as client:
        client.send_object(space, b"/o", b"o")
        client.send(END_TRANSACTION, b"\1")
        gate.wait()
        if how == "vanish":
            client.reset()
    gate.open()
    tsm_server.settled(sessions=1)
    assert len(tsm.query(space)) == 1


def look_for_silence(tsm_server: RunningTsmServer) -> None:
    """Make every session silent for hours, and let the server check."""

    def look() -> None:
        for session in tsm_server.server._sessions:
            session.heard_at -= 10_000
        tsm_server.server.drop_silent()

    tsm_server.do(look)


def test_a_session_that_waits_for_its_vote_is_not_silent(
    tsm_server: RunningTsmServer, tsm: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = tsm.space()
    gate = Gate(tsm_server, monkeypatch)
    tsm.send_object(space, b"/o", b"o")
    tsm.send(END_TRANSACTION, b"\1")
    gate.wait()
    look_for_silence(tsm_server)
    gate.open()
    assert tsm.voted() == 0


def test_a_session_that_waits_for_an_answer_is_not_silent(
    tsm_server: RunningTsmServer, tsm: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    tsm.space()
    gate = Gate(tsm_server, monkeypatch)
    tsm.send(UPDATE_SPACE, bytes(4) + text(b"/fs") + text(b"") + bytes(16) + text(b""))
    gate.wait()
    look_for_silence(tsm_server)
    gate.open()
    tsm.expect(ANSWER)


def test_a_session_whose_data_waits_for_the_disk_is_not_silent(
    tsm_server: RunningTsmServer, tsm: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, gate = tsm.space(), threading.Event()
    begin = tsm_server.store.begin_large_transaction
    monkeypatch.setattr(tsm_server.store, "begin_large_transaction", lambda: gate.wait(30) and begin())
    sending = threading.Thread(target=tsm.send_object, args=(space, b"/o", content(30 * MIB)))
    sending.start()
    tsm_server.call(tsm_server.until(lambda: tsm_server.session._reading_paused > 0))
    look_for_silence(tsm_server)
    gate.set()
    sending.join()
    assert tsm.vote() == 0
    assert [row.size for row in tsm.query(space)] == [30 * MIB]


def test_a_closing_server_finishes_the_running_vote_and_begins_no_other(
    tsm_server: RunningTsmServer, tsm: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = tsm.space()
    gate = Gate(tsm_server, monkeypatch)
    one = frame(OBJECT, object_body(space, b"/d", b"/o") + b"x", LAST) + frame(END_TRANSACTION, b"\1")
    tsm.send_bytes(one * 5)
    gate.wait()
    idle = tsm_server.sign_on()

    async def close() -> None:
        closing = asyncio.ensure_future(tsm_server.server.close())
        await tsm_server.until(lambda: len(tsm_server.server._sessions) == 1)
        gate._open.set()
        await closing

    tsm_server.call(close())
    assert idle.receive() is None
    idle.close()
    assert tsm.voted() == 0
    with pytest.raises(Ended):
        tsm.voted()
    assert gate.reached == 1
    assert tsm_server.store.statistics().objects == 1


# Many sessions.


async def test_waiting_transactions_share_their_commits(core: Store) -> None:
    space, _ = await core.change(RegisterSpace(Space(0, "N", b"/fs", b"", 0, 0, b"", 0)))
    standard = next(iter(core.management_classes))

    def transaction(first: int) -> ArchiveTransaction:
        made = ArchiveTransaction("N", b"")
        for number in range(first, first + 5):
            name = b"/%d" % number
            new = NewArchive(space.id, standard, 1, 0, b"", 0, b"/d", name, b"", b"", record_key=b"N\0/fs\0/d\0" + name)
            made.archives.append(new)
        return made

    before = core.statistics()
    await asyncio.gather(*(core.change(transaction(first)) for first in range(0, 500, 5)))
    after = core.statistics()
    assert after.objects_written - before.objects_written == 500
    assert after.commits - before.commits <= 20
    assert len(list(core.queries.archives.of_space(space.id, (b"", b""), (b"\xff", b"")))) == 500


async def test_refused_transaction_does_not_fail_others_waiting_with_it(core: Store) -> None:
    space, _ = await core.change(RegisterSpace(Space(0, "N", b"/fs", b"", 0, 0, b"", 0)))
    standard = next(iter(core.management_classes))

    def archive(name: bytes) -> ArchiveTransaction:
        new = NewArchive(space.id, standard, 1, 0, b"", 0, b"/d", name, b"", b"", record_key=b"N\0/fs\0/d\0" + name)
        return ArchiveTransaction("N", b"", [new])

    await core.change(archive(b"/kept"))
    (kept,) = core.queries.archives.of_space(space.id, (b"", b""), (b"\xff", b""))
    bad = archive(b"/bad")
    bad.deletes.append(kept.id)
    outcomes = await asyncio.gather(
        core.change(archive(b"/good")), core.change(bad), core.change(archive(b"/too")), return_exceptions=True
    )
    assert [type(each) for each in outcomes] == [type(None), ArchiveRetained, type(None)]
    rows = core.queries.archives.of_space(space.id, (b"", b""), (b"\xff", b""))
    assert [row.ll for row in rows] == [b"/good", b"/kept", b"/too"]


async def test_changes_see_objects_archived_in_the_same_group(core: Store) -> None:
    """The changes wait for the first one and so share a group."""
    space, _ = await core.change(RegisterSpace(Space(0, "N", b"/fs", b"", 0, 0, b"", 0)))
    standard = next(iter(core.management_classes))
    new = NewArchive(space.id, standard, 1, 0, b"", 0, b"/d", b"/o", b"", b"", record_key=b"N\0/fs\0/d\0/o")
    describe = UpdateObject("N", b"", space.id, 0, b"/d", b"/o", None, None, None, b"described")
    outcomes = await asyncio.gather(
        core.change(CreateBucket("first", object_lock=False)),
        core.change(ArchiveTransaction("N", b"", [new])),
        core.change(describe),
        core.change(DeleteSpace("N", b"", b"/fs")),
    )
    assert outcomes[3] == 1
    (row,) = core.queries.archives.of_space(space.id, (b"", b""), (b"\xff", b""))
    assert row.description == b"described"


async def test_concurrent_registrations_create_one_space(core: Store) -> None:
    asked = Space(0, "N", b"/fs", b"", 0, 0, b"", 0)
    answers: list[Any] = await asyncio.gather(*(core._writer.submit(RegisterSpace(asked)) for _ in range(10)))
    assert [known for _, known in answers] == [False] + [True] * 9
    assert len({space.id for space, _ in answers}) == 1
