"""The interface of the store's core: asyncio calls over one writer thread, and reads that do not wait for it.

One idea: every change goes through the writer, in order, and returns when it is durable. Reads use the catalogue and
the segments directly. The core has buckets, versions and locks, file spaces, archives and classes. It knows no HTTP
and no TSM frames.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

from archiver.values.errors import Damaged, StoreError

from . import commits, compliance_clock, placement, recovery
from .changes.objects import ChangeResult, PutVersion, StoreChange
from .changes.uploads import PutPart
from .commits import Writer
from .compliance_clock import ComplianceClock
from .files.buffers import ReceiveBuffers
from .files.digests import BLOCK_BYTES, Buffer, first_damaged_block
from .files.hashing import Hashing
from .files.segments import LargeContent, LargeTransaction, OwnSegment, SegmentFile, Segments, block_span
from .files.written import Written
from .recovery import CommitMark
from .rules.policy import ManagementClass
from .rules.refusals import NoSuchBucket, NoSuchKey, Refusal, WriteFailed
from .tables.archives import AccessRule, Archive, Space
from .tables.catalogue import Bucket, Catalogue, VersionRow
from .tables.uploads import UploadPart

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Statistics:
    """The contents of the store, and the work of its writer since the store opened."""

    buckets: int
    objects: int  # versions with content, no delete markers; each part of a multipart upload counts
    bytes: int
    segments: int
    segment_bytes: int
    free_bytes: int
    reserve_bytes: int
    commits: int
    syncs: int  # of catalogue and segments
    changes: int
    objects_written: int
    bytes_written: int
    bytes_moved: int  # by compaction
    groups_failed: int
    clock_ms: int


class Store:
    """An open store. Open it with `Store.open`. Only one process may have a store open."""

    def __init__(
        self, folder: Path, locks: Sequence[IO[str]], catalogue: Catalogue, clock: ComplianceClock,
        segments: Segments, mark: CommitMark, free_bytes: Callable[[], int], say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.folder = folder
        self.clock = clock
        self.buffers = ReceiveBuffers()
        self.hashing = Hashing()
        self._locks = locks
        self._catalogue = catalogue
        self._segments = segments
        self._mark = mark
        self._free_bytes = free_bytes
        self.queries = catalogue.reader()
        self._publish()
        self._writer = Writer(catalogue, segments, clock, free_bytes, mark, self._publish, say)
        self._writer.start()

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        catalogue_dir: Path | None = None,
        wall_seconds: Callable[[], float] = time.time,
        elapsed_seconds: Callable[[], float] = compliance_clock.elapsed_seconds,
        free_bytes: Callable[[], int] | None = None,
        say: Callable[[str], None] | None = None,
        management_classes: Sequence[ManagementClass] = (),
    ) -> Store:
        """Open or create the store in `folder`. `say` gets messages for the operator, from any thread.

        `catalogue_dir`: the catalogue's folder of a new store, which the store records (see `placement`). Raises
        UsageError if the catalogue is in another folder or a management class would become weaker, StoreError if the
        store is in use, Damaged if data is missing or damaged.
        """
        with ExitStack() as undo:
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                locks = [undo.enter_context(_lock(folder, "store"))]
            except OSError as failed:
                raise StoreError(f"{folder} cannot hold a store: {failed.strerror}") from failed
            try:
                place = placement.find(folder, catalogue_dir)
                if place.folder != folder:
                    locks.append(undo.enter_context(_lock(place.made(), "catalogue")))
                    place.take()
                segments = Segments(folder / "segments")
                catalogue = Catalogue(place.folder, management_classes, store_id=place.store_id)
                undo.callback(catalogue.close)
                place.confirm()
                recovery.reconcile(catalogue, segments, CommitMark.read(folder))
                clock = ComplianceClock(catalogue.state.clock_ms, wall_seconds, elapsed_seconds)
                opened = cls(
                    folder,
                    locks,
                    catalogue,
                    clock,
                    segments,
                    CommitMark(folder, catalogue.state.commits),
                    free_bytes or (lambda: min(map(commits.free_bytes, {folder, place.folder}))),
                    say or say_to_stderr,
                )
            except OSError as failed:
                raise StoreError(f"the store in {folder} cannot be opened: {failed}") from failed
            undo.pop_all()
            return opened

    def close(self) -> None:
        """Finish the current writes and release the folder. Blocks."""
        self._writer.stop()
        self.queries.close()
        self._catalogue.close()
        self._segments.close()
        self._mark.close()
        for lock_file in self._locks:
            lock_file.close()

    def _publish(self) -> None:
        """Replace the values that readers on other threads see; called after each commit. The values never change."""
        self._buckets = self._catalogue.buckets
        self._spaces = self._catalogue.archives.spaces
        self._access_rules = list(self._catalogue.archives.rules.values())
        self._committed = self._catalogue.state.commits

    # Reading.

    @property
    def buckets(self) -> Sequence[Bucket]:
        """All buckets, in order of their names."""
        return list(self._buckets.values())

    def bucket(self, name: str) -> Bucket:
        try:
            return self._buckets[name]
        except KeyError:
            raise NoSuchBucket(name) from None

    @property
    def spaces(self) -> Mapping[int, Space]:
        """All file spaces, by their numbers."""
        return self._spaces

    @property
    def access_rules(self) -> Sequence[AccessRule]:
        """All access rules, oldest first."""
        return self._access_rules

    @property
    def management_classes(self) -> Mapping[int, ManagementClass]:
        """All management classes, by their numbers. They do not change while the store is open."""
        return self._catalogue.archives.classes

    async def read(self, version: VersionRow | Archive, start: int, length: int) -> memoryview:
        """Return `length` bytes of an object from `start`, verified by their CRCs. Raises Damaged or NoSuchKey."""
        if isinstance(version, VersionRow) and version.upload is not None:
            pieces = [await self._read_one(*span) for span in self._part_spans(version, start, length)]
            return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))
        row, file = self._find(version)
        return await self._read(file, row, start, length)

    async def _read_one(self, row: VersionRow | Archive | UploadPart, start: int, length: int) -> memoryview:
        row, file = self._find(row)
        return await self._read(file, row, start, length)

    async def read_blocks(self, version: VersionRow | Archive, start: int, length: int) -> AsyncIterator[memoryview]:
        """Yield the bytes that `read` returns, in pieces that end on block boundaries. Each piece is verified first."""
        if isinstance(version, VersionRow) and version.upload is not None:
            for part, first, count in self._part_spans(version, start, length):
                async for block in self._blocks_of_one(part, first, count):
                    yield block
            return
        async for block in self._blocks_of_one(version, start, length):
            yield block

    async def _blocks_of_one(
        self, row: VersionRow | Archive | UploadPart, start: int, length: int
    ) -> AsyncIterator[memoryview]:
        row, file = self._find(row)
        end = start + length
        while start < end:
            stop = min(end, (start // BLOCK_BYTES + 1) * BLOCK_BYTES)
            yield await self._read(file, row, start, stop - start)
            start = stop

    def _part_spans(self, version: VersionRow, start: int, length: int) -> list[tuple[UploadPart, int, int]]:
        """Return the spans of parts that hold a range of a multipart object: part, start in the part, length."""
        assert version.upload is not None
        end = start + length
        spans = []
        for part, begins in self.queries.uploads.parts_between(version.upload, start, end):
            first, last = max(start, begins), min(end, begins + part.size)
            spans.append((part, first - begins, last - first))
        if length and not spans:
            raise NoSuchKey(version.key)  # deleted since the query
        return spans

    def _find(
        self, version: VersionRow | Archive | UploadPart
    ) -> tuple[VersionRow | Archive | UploadPart, SegmentFile]:
        """Return the open segment with the object's bytes, and the row that names the segment.

        Compaction may have moved the object and deleted its segment since the query that returned the row. An open
        segment stays readable.
        """
        while True:
            try:
                return version, self._segments.file(version.segment)
            except Damaged:
                now = self.queries.as_it_is_now(version)
                if now is None:
                    raise NoSuchKey(version.key) from None
                if now.segment == version.segment:
                    raise
                version = now

    async def _read(
        self, file: SegmentFile, version: VersionRow | Archive | UploadPart, start: int, length: int
    ) -> memoryview:
        first, end = block_span(start, length, version.size)
        buffer = bytearray(end - first)
        # The page cache answers in microseconds and needs no thread; only reads from the disk use one.
        if not file.read_cached(buffer, version.offset + first):
            await asyncio.to_thread(file.read, buffer, version.offset + first)
        damaged = first_damaged_block(buffer, version.block_crcs, first // BLOCK_BYTES)
        if damaged is not None:
            raise Damaged(
                f"object {version.key!r} is damaged: its bytes from {damaged * BLOCK_BYTES} on do not match"
                f" their checksum (segment {file.path}, byte {version.offset + damaged * BLOCK_BYTES})"
            )
        return memoryview(buffer)[start - first : start - first + length]

    @property
    def written(self) -> Mapping[str, Written]:
        """Bytes and syncs since the store opened: of `catalogue` and of `segments`."""
        return {"catalogue": self._catalogue.written, "segments": self._segments.written}

    def statistics(self) -> Statistics:
        written = self._writer.commits
        held = self.queries.totals()
        return Statistics(
            buckets=len(self._buckets),
            objects=held.objects,
            bytes=held.bytes,
            segments=held.segments,
            segment_bytes=held.segment_bytes,
            free_bytes=self._free_bytes(),
            reserve_bytes=commits.RESERVE_BYTES,
            commits=written.commits,
            syncs=sum(part.syncs for part in self.written.values()),
            changes=written.changes,
            objects_written=written.objects,
            bytes_written=written.bytes,
            bytes_moved=self._writer.compaction.bytes_moved,
            groups_failed=written.groups_failed,
            clock_ms=self.clock.now_ms(),
        )

    # Changes. Each returns when it is durable, or raises the Refusal, and then nothing has changed.

    async def change(self, change: StoreChange[Result]) -> Result:
        """Apply a change and return its result. A change with content goes through `put` or `put_part`."""
        return await self._writer.submit(change)

    async def put(self, put: PutVersion) -> ChangeResult:
        return await self._submit_content(put, put.content)

    async def put_part(self, part: PutPart) -> None:
        await self._submit_content(part, part.content)

    async def _submit_content(self, change: StoreChange[Result], content: Sequence[Buffer] | LargeContent) -> Result:
        """Apply a change with content. A refused change leaves no bytes."""
        try:
            return await self._writer.submit(change)
        except Refusal:
            if isinstance(content, LargeContent):
                await self.abandon(content)
            raise

    async def begin_large(self, bucket: str, key: str) -> LargeContent:
        """Create a segment for an object or part above LARGE_BYTES, written while the bytes arrive.

        Pass it to `put`, `put_part` or `abandon` then.
        """
        self.bucket(bucket)
        number, file = await asyncio.to_thread(self._create_segment)
        return LargeContent(number, file, bucket, key)

    def begin_large_transaction(self) -> LargeTransaction:
        """Create a segment for a transaction above LARGE_BYTES, for an ArchiveTransaction or `abandon`. Blocks."""
        number, file = self._create_segment()
        return LargeTransaction(number, file, self._committed + 1)

    def take_sequence(self) -> int:
        """Return a number for an object of a large transaction. Any thread may call this."""
        return self._catalogue.take_sequence()

    def _create_segment(self) -> tuple[int, SegmentFile]:
        self._writer.check_space()
        try:
            return self._segments.create()
        except OSError as failed:
            raise WriteFailed(f"{self._segments.folder} cannot be written: {failed}") from failed

    async def abandon(self, content: OwnSegment) -> None:
        """Delete a segment whose bytes did not become objects."""
        await asyncio.to_thread(self._segments.remove, content.number)


def say_to_stderr(words: str) -> None:
    """Write a message for the operator to stderr."""
    print(words, file=sys.stderr, flush=True)


def _lock(folder: Path, what: str) -> IO[str]:
    """Lock the folder for this process. The system releases the lock at any end of the process."""
    lock_file = (folder / "lock").open("a+", encoding="ascii")
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock_file.seek(0)
        holder = lock_file.read().strip() or "unknown"
        lock_file.close()
        raise StoreError(
            f"the {what} in {folder} is already open (process {holder}); stop that one or use another folder"
        ) from None
    lock_file.truncate(0)
    lock_file.write(f"{os.getpid()}\n")
    lock_file.flush()
    return lock_file
