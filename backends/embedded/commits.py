"""Group commit: one writer thread, which takes every change that waits and makes them durable together.

One idea: syncing costs the same for one object as for a hundred. A group is decided change by change inside
one catalogue transaction; then its bytes go to the segment in one write and one fdatasync; then the
transaction commits (its own fsync); and only then does anybody hear of success, all of the group in one call
into the event loop. Bytes come before rows, so that a row never names bytes that a crash could take away.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from awscrt import checksums

from archiver.errors import StoreError

from .catalogue import Catalogue
from .changes import Change, Put
from .compliance_clock import ComplianceClock
from .digests import Buffer
from .refusals import Refusal, StoreFull, WriteFailed
from .segments import ROLL_BYTES, LargeContent, Location, RecordHeader, SegmentFile, Segments

RESERVE_BYTES = 256 << 20
_GROUP_CHANGES_MAX = 1000
_GROUP_BYTES_MAX = 64 << 20
_IDLE_SECONDS = 60.0  # how often the clock's high-water mark is committed when nothing else is


@dataclass(slots=True)
class Commits:
    """What the writer did since the store opened."""

    commits: int = 0
    segment_syncs: int = 0  # fdatasync of segments; each commit of the catalogue syncs its log once besides
    changes: int = 0
    objects: int = 0
    bytes: int = 0
    groups_failed: int = 0

    @property
    def syncs(self) -> int:
        return self.commits + self.segment_syncs


@dataclass(slots=True)
class _Pending:
    change: Change
    future: asyncio.Future[object]
    outcome: object = None


@dataclass(slots=True)
class _Group:
    """A commit in the making: what `changes.Group` offers, and the bytes that are to be written."""

    catalogue: Catalogue
    now_ms: int
    writer: Writer
    buffers: list[Buffer] = field(default_factory=list)
    buffered_bytes: int = 0
    large: list[tuple[LargeContent, bytes]] = field(default_factory=list)
    objects: int = 0
    bytes: int = 0
    has_space: bool = False

    def append(self, bucket: str, key: str, sequence: int, change: Put) -> Location:
        if not self.has_space:
            self.writer.check_space()
            self.has_space = True  # asking once for a group is enough: the reserve is larger than any group
        commit = self.catalogue.state.commits + 1
        crc = checksums.crc32c(change.block_crcs)
        header = RecordHeader(bucket, key, sequence, commit, change.size, crc).encode()
        self.objects += 1
        self.bytes += change.size
        if isinstance(change.content, LargeContent):
            self.large.append((change.content, header))
            return Location(change.content.number, change.content.content_offset)
        segment, offset = self.writer.end_of_segment()
        location = Location(segment, offset + self.buffered_bytes + len(header))
        self.buffers.append(header)
        self.buffers.extend(change.content)
        self.buffered_bytes += len(header) + change.size
        return location


class Writer:
    """Owns the writing side of catalogue and segments, in a thread of its own."""

    def __init__(
        self,
        catalogue: Catalogue,
        segments: Segments,
        clock: ComplianceClock,
        free_bytes: Callable[[], int],
        on_commit: Callable[[], None],
    ) -> None:
        self.commits = Commits()
        self._catalogue = catalogue
        self._segments = segments
        self._clock = clock
        self._free_bytes = free_bytes
        self._on_commit = on_commit
        self._active: tuple[int, SegmentFile] | None = None
        self._offset = 0  # end of the active segment
        self._queue: queue.SimpleQueue[_Pending | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def submit(self, change: Change) -> asyncio.Future[object]:
        """Hand over a change. The future's result is what `apply` returned; refusals are its exception."""
        if self._failure is not None:
            raise StoreError(f"the store's writer has stopped: {self._failure}; restart the store") from self._failure
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._queue.put(_Pending(change, future))
        return future

    def stop(self) -> None:
        """Finish what was submitted, then end."""
        self._queue.put(None)
        self._thread.join()

    # What follows runs in the writer's thread.

    def _run(self) -> None:
        group: list[_Pending] = []
        try:
            last = False
            while not last:
                group, last = self._collect()
                self._carry_out(group)
        except BaseException as failure:
            # A fault of ours. Answering nobody would look like a hang, going on could lose data.
            self._failure = failure
            while not self._queue.empty():
                waiting = self._queue.get()
                group += [waiting] if waiting else []
            for pending in group:
                pending.outcome = StoreError(f"the store's writer has stopped: {failure!r}")
            _answer(group)
            raise

    def _collect(self) -> tuple[list[_Pending], bool]:
        """What waits, up to a group's size, and whether it is the last group. Empty after an idle minute."""
        group: list[_Pending] = []
        size = 0
        try:
            pending = self._queue.get(timeout=_IDLE_SECONDS)
            while pending is not None:
                group.append(pending)
                if isinstance(pending.change, Put):
                    size += pending.change.size
                if len(group) >= _GROUP_CHANGES_MAX or size >= _GROUP_BYTES_MAX:
                    return group, False
                pending = self._queue.get_nowait()
        except queue.Empty:
            return group, False
        return group, True

    def _carry_out(self, pendings: list[_Pending]) -> None:
        catalogue = self._catalogue
        group = _Group(catalogue, self._clock.now_ms(), self)
        try:
            catalogue.begin()
            for pending in pendings:
                try:
                    pending.outcome = pending.change.apply(group)
                except Refusal as refusal:
                    pending.outcome = refusal
            self._write(group)
            emptied = self._empty_segments()
            catalogue.commit(group.now_ms)
        except (OSError, sqlite3.Error) as failed:
            self.commits.groups_failed += 1
            catalogue.rollback()
            for pending in pendings:
                pending.outcome = WriteFailed(f"{self._segments.folder.parent} cannot be written: {failed}")
        else:
            self.commits.commits += 1
            self.commits.changes += len(pendings)
            self.commits.objects += group.objects
            self.commits.bytes += group.bytes
            for number in emptied:
                self._segments.remove(number)
        self._on_commit()
        _answer(pendings)

    def check_space(self) -> None:
        """Raise StoreFull before the device is full: SQLite needs room even to delete."""
        free = self._free_bytes()
        if free < RESERVE_BYTES:
            raise StoreFull(self._segments.folder.parent, free, RESERVE_BYTES)

    def end_of_segment(self) -> tuple[int, int]:
        """The number and end of the segment that is appended to; a group never spans two."""
        if self._active is None:
            self._active = self._segments.create()
            self._offset = 0
        return self._active[0], self._offset

    def _write(self, group: _Group) -> None:
        """Make the group's bytes durable. Where that fails, the segment's end stays and is written over."""
        for content, header in group.large:
            content.file.write([header], 0)
            self._sync(content.file)
        if not group.buffers:
            return
        assert self._active is not None
        file = self._active[1]
        end = file.write(group.buffers, self._offset)
        try:
            self._sync(file)
        except OSError:
            # After a failed sync the kernel may call pages clean that never reached the disk: trust none of
            # them.
            self._active = None
            raise
        # From here on the end has moved, even if the catalogue's commit fails: its log may name these bytes.
        self._offset = end

    def _sync(self, file: SegmentFile) -> None:
        os.fdatasync(file.fd)
        self.commits.segment_syncs += 1

    def _empty_segments(self) -> list[int]:
        """Take segments with nothing alive out of the catalogue; their files go once that is durable."""
        catalogue = self._catalogue
        if self._active is not None and self._offset >= ROLL_BYTES:
            self._active = None
        active = self._active[0] if self._active else None
        emptied = [number for number in catalogue.empty_segments if number != active]
        for number in emptied:
            catalogue.forget_segment(number)
        return emptied


def _answer(pendings: list[_Pending]) -> None:
    """Complete the group's futures, in one call into each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Pending]] = {}
    for pending in pendings:
        by_loop.setdefault(pending.future.get_loop(), []).append(pending)
    for loop, answered in by_loop.items():
        try:
            loop.call_soon_threadsafe(_complete, answered)
        except RuntimeError:  # the loop closed; nobody waits any more
            continue


def _complete(pendings: list[_Pending]) -> None:
    for pending in pendings:
        if pending.future.done():
            continue
        if isinstance(pending.outcome, Exception):
            pending.future.set_exception(pending.outcome)
        else:
            pending.future.set_result(pending.outcome)


def free_bytes(folder: Path) -> int:
    """What a caller without privileges may still write on the folder's device."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize
