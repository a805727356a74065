"""A transaction that arrives: its objects are collected in memory or, if they are large, in segments of their own.

One idea: a small transaction goes to the writer with the vote and shares a sync with other sessions. A thread writes a
large one while it arrives, and the bytes that wait for the thread are bounded. No object is visible before the writer
has committed the transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from awscrt import checksums

from archiver.values.errors import StoreError

from ..core.changes.archives import ArchiveTransaction, Event, NewArchive
from ..core.files.digests import BLOCK_BYTES, BlockCrcs, Buffer
from ..core.files.segments import LARGE_BYTES, LargeTransaction
from ..core.rules.refusals import NoSuchSpace
from ..core.store import Store
from .codes import TXN_LIMIT_EXCEEDED, reason

OBJECTS_MAX = 4096  # in one transaction; a server may set fewer
_WRITE_BYTES_MIN = 1 << 20  # for fewer bytes the change of threads costs more than the write
_WAITING_BYTES_MAX = 8 << 20
# After this many bytes the next object begins another segment. So compaction never has more than this to move: while a
# very large last object lives, most of its segment is live.
_SEGMENT_BYTES_MAX = 64 << 20
_KEPT_BYTES_MAX = 4 * LARGE_BYTES  # of buffers in memory, including bytes between objects
_PIECE_BYTES_MIN = 4096  # smaller pieces are copied together: the overhead of each is larger than its bytes


@dataclass(slots=True)
class Flow:
    """Callbacks of a transaction: pause and resume its sender, and report that it can no longer commit."""

    pause: Callable[[], None]
    resume: Callable[[], None]
    lost: Callable[[int], None]


class Incoming:
    """One transaction of one session."""

    def __init__(self, store: Store, node: str, owner: bytes, flow: Flow, objects_max: int = OBJECTS_MAX) -> None:
        self._objects_max = objects_max
        self.transaction = ArchiveTransaction(node, owner)
        self.lost: int | None = None  # the reason code if it can no longer commit
        self.in_object = False
        # Counts of received operations, also of a transaction that cannot commit.
        self.objects = self.deletes = self.events = 0
        self._store = store
        self._flow = flow
        self._object: NewArchive | None = None
        self._bytes = 0  # of objects in memory
        self._kept_bytes = 0  # of buffers that may have objects in them
        self._count = 0  # of objects, deletes and events
        self._spool: _Spool | None = None
        self._key_starts: dict[int, bytes] = {}

    def begin(self, new: NewArchive) -> None:
        """Begin an object."""
        self.in_object = True
        self.objects += 1
        self._object = new
        key_start = self._key_starts.get(new.space) or self._key_start(new.space)
        if not self._has_room(1):
            return
        new.record_key = b"%b%b\0%b" % (key_start, new.hl, new.ll)
        self.transaction.archives.append(new)
        if self._spool is not None:
            self._spool.begin(new)

    def _key_start(self, number: int) -> bytes:
        """Return the prefix of record names of a file space. Without the space the transaction is lost."""
        space = self._store.spaces.get(number)
        if space is None or space.node != self.transaction.node:
            self.lose(reason(NoSuchSpace()))
            return b""
        start = self._key_starts[number] = space.record_key_start
        return start

    def data(self, view: memoryview) -> None:
        """Add bytes of the object. Large views are not copied: the caller must not change their bytes."""
        new = self._object
        if self.lost is not None or new is None:
            return
        new.size += len(view)
        if self._spool is not None:
            self._spool.data(view)
            return
        if len(view) >= _PIECE_BYTES_MIN:
            new.content.append(view)
        elif new.content and isinstance(new.content[-1], bytearray):
            new.content[-1] += view
        else:
            new.content.append(bytearray(view))
        self._bytes += len(view)
        if self._bytes > LARGE_BYTES:
            self._to_spool()

    def end(self) -> None:
        """End the object."""
        new, self._object, self.in_object = self._object, None, False
        if self.lost is not None or new is None:
            return
        if self._spool is not None:
            self._spool.end()
            return
        new.block_crcs = _block_crcs(new)

    def turned_over(self, buffer_bytes: int) -> None:
        """Note that the session took a new buffer. The old one stays in memory while an object is in it."""
        self._kept_bytes += buffer_bytes
        if self._kept_bytes > _KEPT_BYTES_MAX and self._spool is None and self.transaction.archives:
            self._to_spool()

    def delete(self, number: int) -> None:
        self.deletes += 1
        if self._has_room(1):
            self.transaction.deletes.append(number)

    def event(self, event: Event, ids: Sequence[int]) -> None:
        self.events += len(ids)
        if self._has_room(len(ids)):
            self.transaction.event, self.transaction.event_ids = event, ids

    async def commit(self) -> int:
        """Return 0 when everything is durable, or the reason code, and then nothing has changed."""
        if self.lost is None and self._spool is not None:
            await self._spool.finish()
            self.transaction.is_written = True
        if self.lost is not None:
            await self.abandon()
            return self.lost
        if not self._count:
            return 0
        try:
            await self._store.change(self.transaction)
        except StoreError as refusal:
            await self.abandon()
            return reason(refusal)
        return 0

    async def abandon(self) -> None:
        """Delete the written segments. None of their objects was visible."""
        if self._spool is not None:
            await self._spool.abandon()
            self._spool = None

    def lose(self, code: int) -> None:
        """Mark the transaction as unable to commit: release its objects and ignore the rest."""
        if self.lost is None:
            self.lost = code
            self.transaction.archives.clear()
            self._object = None
            self._flow.lost(code)

    def _has_room(self, count: int) -> bool:
        if self.lost is not None:
            return False
        self._count += count
        if self._count > self._objects_max:
            self.lose(TXN_LIMIT_EXCEEDED)
            return False
        return True

    def _to_spool(self) -> None:
        """Continue in segments because the transaction is large; write the objects in memory first."""
        self._spool = spool = _Spool(self._store, self._flow, self.lose)
        for new in self.transaction.archives:
            content, new.content = new.content, []
            spool.begin(new)
            for piece in content:
                spool.data(piece)
            if new is not self._object:
                spool.end()


def _block_crcs(new: NewArchive) -> bytes:
    if new.size > BLOCK_BYTES:
        crcs = BlockCrcs()
        for piece in new.content:
            crcs.update(piece)
        return crcs.all()
    crc = 0
    for piece in new.content:
        crc = checksums.crc32c(piece, crc)
    return crc.to_bytes(4, "little") if new.size else b""


class _Spool:
    """Writes a large transaction in a thread, in order."""

    def __init__(self, store: Store, flow: Flow, lose: Callable[[int], None]) -> None:
        self._store = store
        self._flow = flow
        self._lose = lose
        self._jobs: list[tuple[str, NewArchive | Buffer | None]] = []
        self._waiting_bytes = 0
        self._paused = False
        self._segments: list[LargeTransaction] = []
        self._segment_bytes = 0  # in the last segment
        self._object: NewArchive | None = None  # used by the thread only, as is self._crcs
        self._crcs = BlockCrcs()
        self._more = asyncio.Event()
        self._ended = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    def begin(self, new: NewArchive) -> None:
        self._add("begin", new, 0)

    def data(self, piece: Buffer) -> None:
        last = self._jobs[-1][1] if self._jobs else None
        if len(piece) >= _PIECE_BYTES_MIN:
            self._add("data", piece, len(piece))
        elif isinstance(last, bytearray):
            last += piece
            self._wait_for(len(piece))
        else:
            self._add("data", bytearray(piece), len(piece))

    def end(self) -> None:
        self._add("end", None, 0)

    async def finish(self) -> None:
        """Return when everything is written and synced, or the transaction is lost."""
        self._ended = True
        self._more.set()
        await self._task

    async def abandon(self) -> None:
        self._jobs.clear()
        await self.finish()
        while self._segments:
            await self._store.abandon(self._segments.pop())

    def _add(self, what: str, value: NewArchive | Buffer | None, size_bytes: int) -> None:
        self._jobs.append((what, value))
        self._wait_for(size_bytes)

    def _wait_for(self, size_bytes: int) -> None:
        self._waiting_bytes += size_bytes
        if self._waiting_bytes > _WAITING_BYTES_MAX and not self._paused:
            self._paused = True
            self._flow.pause()
        if self._waiting_bytes >= _WRITE_BYTES_MIN:
            self._more.set()

    async def _run(self) -> None:
        try:
            while True:
                await self._more.wait()
                self._more.clear()
                jobs, self._jobs = self._jobs, []
                is_last = self._ended
                written = await asyncio.to_thread(self._write, jobs, is_last)
                self._waiting_bytes -= written
                # Bytes that `abandon` dropped are never written, and would keep the sender waiting.
                if self._paused and (is_last or self._waiting_bytes <= _WAITING_BYTES_MAX // 2):
                    self._paused = False
                    self._flow.resume()
                if is_last:
                    return
        except StoreError as refusal:
            self._lose(reason(refusal))
            self._jobs.clear()
            if self._paused:
                self._flow.resume()

    def _write(self, jobs: list[tuple[str, NewArchive | Buffer | None]], is_last: bool) -> int:
        """Write the waiting jobs, in the thread. Return how many bytes of objects they had."""
        pieces: list[Buffer] = []
        written = 0
        for what, value in jobs:
            if what == "data":
                assert not isinstance(value, NewArchive)
                assert value is not None
                self._crcs.update(value)
                pieces.append(value)
                written += len(value)
                continue
            self._append(pieces)
            pieces = []
            if what == "begin":
                assert isinstance(value, NewArchive)
                self._object, self._crcs = value, BlockCrcs()
                self._segment_for_next().begin(value.record_key)
            else:
                new = self._object
                assert new is not None
                new.block_crcs = self._crcs.all()
                new.id = self._store.take_sequence()
                new.location = self._segments[-1].end(new.record_key, new.id, new.block_crcs)
        self._append(pieces)
        if is_last and self._segments:
            self._segments[-1].sync()
        return written

    def _append(self, pieces: list[Buffer]) -> None:
        if pieces:
            self._segments[-1].write(pieces)
            self._segment_bytes += sum(map(len, pieces))

    def _segment_for_next(self) -> LargeTransaction:
        """Return the segment for the next object."""
        if not self._segments or self._segment_bytes > _SEGMENT_BYTES_MAX:
            if self._segments:
                self._segments[-1].sync()
            self._segments.append(self._store.begin_large_transaction())
            self._segment_bytes = 0
        return self._segments[-1]
