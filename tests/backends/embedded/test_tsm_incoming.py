"""Incoming transactions: when they are written, when their sender must wait, and what remains after their end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.embedded.core.changes.archives import NewArchive, RegisterSpace
from backends.embedded.core.files.buffers import BUFFER_BYTES, ReceiveBuffers
from backends.embedded.core.files.segments import LARGE_BYTES
from backends.embedded.core.store import Store
from backends.embedded.core.tables.archives import Archive, Space
from backends.embedded.tsm import incoming as tsm_incoming
from backends.embedded.tsm.incoming import Flow, Incoming

MIB = 1 << 20


class Sender:
    """The sender of a transaction, and the signals that it received."""

    def __init__(self) -> None:
        self.told: list[str | int] = []

    def flow(self) -> Flow:
        return Flow(lambda: self.told.append("wait"), lambda: self.told.append("go on"), self.told.append)


@pytest.fixture
async def space(core: Store) -> Space:
    return (await core.change(RegisterSpace(Space(0, "N", b"/fs", b"", 0, 0, b"", 0))))[0]


def new(core: Store, space: Space, name: bytes) -> NewArchive:
    return NewArchive(space.id, next(iter(core.management_classes)), 1, 0, b"", 0, b"/d", name, b"", b"")


def add(incoming: Incoming, object_: NewArchive, *pieces: bytes) -> None:
    incoming.begin(object_)
    for piece in pieces:
        incoming.data(memoryview(piece))
    incoming.end()


def rows(core: Store, space: Space) -> list[Archive]:
    return list(core.queries.archives.of_space(space.id, (b"", b""), (b"\xff", b"")))


async def contents(core: Store, space: Space) -> list[bytes]:
    return [bytes(await core.read(row, 0, row.size)) for row in rows(core, space)]


def files(data_dir: Path) -> list[str]:
    return sorted(path.name for path in (data_dir / "segments").iterdir())


async def turns_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - no event reports it
            await asyncio.sleep(0)


async def test_a_small_transaction_is_written_with_the_vote(core: Store, space: Space, data_dir: Path) -> None:
    sender, before = Sender(), files(data_dir)
    incoming = Incoming(core, "N", b"", sender.flow())
    add(incoming, new(core, space, b"/o"), bytes(LARGE_BYTES))
    assert files(data_dir) == before
    assert await incoming.commit() == 0
    assert await contents(core, space) == [bytes(LARGE_BYTES)]
    assert sender.told == []


async def test_a_sender_waits_while_too_many_bytes_are_unwritten(
    core: Store, space: Space, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, gate = Sender(), threading.Event()
    begin: Callable[[], Any] = core.begin_large_transaction
    monkeypatch.setattr(core, "begin_large_transaction", lambda: gate.wait(30) and begin())
    incoming = Incoming(core, "N", b"", sender.flow())
    object_, sent = new(core, space, b"/o"), 0
    incoming.begin(object_)
    while not sender.told:
        incoming.data(memoryview(bytes(MIB)))
        sent += MIB
        assert sent <= 3 * LARGE_BYTES
    assert sender.told == ["wait"]
    gate.set()
    await turns_until(lambda: len(sender.told) > 1)
    incoming.end()
    assert await incoming.commit() == 0
    assert sender.told == ["wait", "go on"]
    assert await contents(core, space) == [bytes(sent)]


async def test_a_sender_of_many_small_pieces_waits_as_well(
    core: Store, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, gate = Sender(), threading.Event()
    begin: Callable[[], Any] = core.begin_large_transaction
    monkeypatch.setattr(core, "begin_large_transaction", lambda: gate.wait(30) and begin())
    monkeypatch.setattr(tsm_incoming, "LARGE_BYTES", 5000)
    monkeypatch.setattr(tsm_incoming, "_WAITING_BYTES_MAX", 20_000)
    monkeypatch.setattr(tsm_incoming, "_WRITE_BYTES_MIN", 5000)
    incoming = Incoming(core, "N", b"", sender.flow())
    incoming.begin(new(core, space, b"/o"))
    sent = b""
    while not sender.told:
        incoming.data(memoryview(b"%07d" % len(sent)))
        sent += b"%07d" % len(sent)
        assert len(sent) <= 50_000
    assert incoming._spool is not None
    assert len(incoming._spool._jobs) < 10
    gate.set()
    await turns_until(lambda: len(sender.told) > 1)
    incoming.end()
    assert await incoming.commit() == 0
    assert await contents(core, space) == [sent]


async def test_large_buffers_do_not_stay_in_memory_for_a_few_bytes(
    core: Store, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece keeps its whole buffer in memory, whatever else the buffer contained."""
    monkeypatch.setattr(tsm_incoming, "_KEPT_BYTES_MAX", 10 * BUFFER_BYTES)
    monkeypatch.setattr(tsm_incoming, "_WRITE_BYTES_MIN", 1)
    buffers = ReceiveBuffers()
    incoming = Incoming(core, "N", b"", Sender().flow())
    incoming.turned_over(100 * BUFFER_BYTES)  # without objects nothing is kept
    spool_without_objects = incoming._spool
    assert spool_without_objects is None
    incoming.begin(new(core, space, b"/o"))
    for _ in range(30):
        incoming.data(memoryview(buffers.take())[:5000])
        incoming.turned_over(BUFFER_BYTES)
    spool = incoming._spool
    assert spool is not None
    await turns_until(lambda: spool._waiting_bytes == 0)
    assert sum(map(len, incoming.transaction.archives[0].content)) == 0
    incoming.end()
    assert await incoming.commit() == 0
    assert [row.size for row in rows(core, space)] == [30 * 5000]


@pytest.mark.parametrize("taken", [0, 1, 7])
async def test_an_abandoned_large_transaction_leaves_no_file(
    core: Store, space: Space, data_dir: Path, taken: int
) -> None:
    """Also before its thread has begun. `taken`: turns of the loop until it is abandoned."""
    before = files(data_dir)
    incoming = Incoming(core, "N", b"", Sender().flow())
    add(incoming, new(core, space, b"/o"), bytes(LARGE_BYTES), bytes(MIB))
    for _ in range(taken):
        await asyncio.sleep(0)
    await incoming.abandon()
    assert files(data_dir) == before
    assert rows(core, space) == []


async def test_waiting_sender_continues_when_its_transaction_is_abandoned(core: Store, space: Space) -> None:
    sender = Sender()
    incoming = Incoming(core, "N", b"", sender.flow())
    incoming.begin(new(core, space, b"/o"))
    while not sender.told:
        incoming.data(memoryview(bytes(MIB)))
    await incoming.abandon()
    assert sender.told == ["wait", "go on"]


async def test_objects_of_a_large_transaction_share_segments_that_compaction_can_move(
    core: Store, space: Space, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tsm_incoming, "LARGE_BYTES", 1000)
    monkeypatch.setattr(tsm_incoming, "_SEGMENT_BYTES_MAX", 3000)
    incoming = Incoming(core, "N", b"", Sender().flow())
    sizes = [1001, 1000, 1000, 1000, 0, 20_000, 1, 0, 5000, 1]
    for number, size in enumerate(sizes):
        add(incoming, new(core, space, b"/%d" % number), bytes([number]) * size)
    before = set(files(data_dir))
    assert await incoming.commit() == 0
    assert await contents(core, space) == [bytes([number]) * size for number, size in enumerate(sizes)]
    by_segment: dict[int, list[int]] = {}
    for row in rows(core, space):
        by_segment.setdefault(row.segment, []).append(row.size)
    # A segment is closed once it passes the limit, so only its last object can exceed the limit.
    assert list(by_segment.values()) == [[1001, 1000, 1000], [1000, 0, 20_000], [1, 0, 5000], [1]]
    assert len(set(files(data_dir)) - before) <= 4


async def test_all_segments_of_a_large_transaction_go_when_it_is_refused(
    core: Store, space: Space, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tsm_incoming, "LARGE_BYTES", 1000)
    monkeypatch.setattr(tsm_incoming, "_SEGMENT_BYTES_MAX", 3000)
    before = files(data_dir)
    incoming = Incoming(core, "N", b"", Sender().flow())
    for number in range(9):
        add(incoming, new(core, space, b"/%d" % number), bytes(2000))
    incoming.delete(999)
    assert await incoming.commit() == 2
    assert files(data_dir) == before
    assert rows(core, space) == []


# Buffers.


def test_a_buffer_without_views_is_used_again() -> None:
    buffers = ReceiveBuffers()
    first = memoryview(buffers.take())
    piece = first[10:20]
    assert len(first) == BUFFER_BYTES
    second = memoryview(buffers.take())
    assert second.obj is not first.obj
    was = first.obj
    del first
    assert memoryview(buffers.take()).obj is not was  # A piece of it is still in use.
    del piece
    assert memoryview(buffers.take()).obj is was
    assert memoryview(was).nbytes == BUFFER_BYTES


def test_more_buffers_than_are_kept_can_be_taken() -> None:
    buffers = ReceiveBuffers()
    taken = [memoryview(buffers.take()) for _ in range(100)]
    assert len({id(each.obj) for each in taken}) == 100
