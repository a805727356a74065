"""Group commit: one writer thread takes all waiting changes and makes them durable together.

One idea: a sync costs the same for one object as for a hundred. The writer decides the changes of a group one after
another inside one catalogue transaction. Then it writes their bytes to the segment in one write and one fdatasync, then
it commits the transaction (with its own fsync). Only then does it report success, for the whole group in one call into
the event loop. Bytes are durable before rows, so a row never names bytes that a crash could lose.

Clients that send their next change after the answer to the last one would fall into two halves, each of which waits for
the commit of the other. So a group also waits, not for long, for as many changes as are under way.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from awscrt import checksums

from archiver.values.databases import words_of
from archiver.values.errors import StoreError

from .changes.archives import ArchiveTransaction
from .changes.objects import PutContent, PutVersion, StoreChange
from .changes.uploads import PutPart
from .compaction import Compaction
from .compliance_clock import ComplianceClock
from .files.digests import Buffer
from .files.segments import LARGE_BYTES, LargeContent, RecordHeader, SegmentFile, SegmentLocation, Segments
from .recovery import CommitMark
from .rules.refusals import Refusal, StoreFull, WriteFailed
from .tables.catalogue import Catalogue

ROLL_BYTES = 256 << 20  # the writer appends to a segment up to this length
RESERVE_BYTES = 256 << 20
_GROUP_CHANGES_MAX = 1000
_GROUP_BYTES_MAX = 64 << 20
_GATHERING_SHARE = 0.5  # of the duration of the last commit: how long a group waits at most for further changes
_IDLE_SECONDS = 60.0  # between commits of the clock's high-water mark if there are no changes

Result = TypeVar("Result")


@dataclass(slots=True)
class Commits:
    """Counters of the writer since the store opened."""

    commits: int = 0
    changes: int = 0
    objects: int = 0
    bytes: int = 0
    groups_failed: int = 0


@dataclass(slots=True)
class _Pending:
    change: StoreChange[object]
    future: asyncio.Future[Any]
    outcome: object = None


@dataclass(slots=True)
class _Group:
    """An open group: a `ChangeGroup`, and the bytes to write."""

    catalogue: Catalogue
    now_ms: int
    writer: Writer
    commit: int  # the number that this commit will have
    buffers: list[Buffer] = field(default_factory=list)
    buffered_bytes: int = 0
    large: list[tuple[LargeContent, bytes]] = field(default_factory=list)
    objects: int = 0
    bytes: int = 0
    has_space: bool = False

    def require_space(self) -> None:
        if not self.has_space:
            self.writer.check_space()
            self.has_space = True  # one check is enough for a group: the reserve is larger than any group

    def append(self, bucket: str, key: str, sequence: int, change: PutContent) -> SegmentLocation:
        self.require_space()
        crc = checksums.crc32c(change.block_crcs)
        record = RecordHeader(bucket.encode(), key.encode(), sequence, self.commit, change.size, crc)
        self.count(1, change.size)
        if isinstance(change.content, LargeContent):
            self.large.append((change.content, record.encode()))
            return SegmentLocation(change.content.number, change.content.content_offset)
        return self.place(record, change.content)

    def place(self, record: RecordHeader, content: Sequence[Buffer]) -> SegmentLocation:
        header = record.encode()
        segment, offset = self.writer.end_of_segment()
        location = SegmentLocation(segment, offset + self.buffered_bytes + len(header))
        self.buffers.append(header)
        self.buffers.extend(content)
        self.buffered_bytes += len(header) + record.content_bytes
        return location

    def count(self, objects: int, size_bytes: int) -> None:
        self.objects += objects
        self.bytes += size_bytes


class Writer:
    """The thread that writes the catalogue and the segments."""

    def __init__(
        self,
        catalogue: Catalogue,
        segments: Segments,
        clock: ComplianceClock,
        free_bytes: Callable[[], int],
        mark: CommitMark,
        on_commit: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self.commits = Commits()
        self.compaction = Compaction(catalogue, segments, say)
        self._catalogue = catalogue
        self._segments = segments
        self._clock = clock
        self._free_bytes = free_bytes
        self._mark = mark
        self._on_commit = on_commit
        self._say = say
        self._refuses = False  # whether the last message of `say` was that writes are refused
        self._active: tuple[int, SegmentFile] | None = None
        self._offset = 0  # end of the active segment
        self._continue_last_segment()
        self._queue: queue.SimpleQueue[_Pending | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._failure: BaseException | None = None
        self._under_way = 1  # changes that the last commit answered, and those that came during it
        self._gathering_seconds = 0.0

    def start(self) -> None:
        self._thread.start()

    def submit(self, change: StoreChange[Result]) -> asyncio.Future[Result]:
        """Queue a change. The future's result is what `apply` returns; a refusal is its exception."""
        if self._failure is not None:
            raise StoreError(f"the store's writer has stopped: {self._failure}; restart the store") from self._failure
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._queue.put(_Pending(change, future))
        return future

    def stop(self) -> None:
        """Finish the submitted changes, then end the thread."""
        self._queue.put(None)
        self._thread.join()
        self._active = None  # the file closes

    # The methods below run in the writer's thread.

    def _run(self) -> None:
        group: list[_Pending] = []
        try:
            last = False
            while not last:
                has_moves = self._has_moves()
                group, last = self._collect(0.0 if has_moves else _IDLE_SECONDS)
                if group or not has_moves:
                    self._carry_out(group)
                if not last and self._has_moves():  # again: the group may have emptied the segment to move
                    self._move()
        except BaseException as failure:
            # A bug. Without an answer clients would hang, and continuing could lose data.
            self._failure = failure
            while not self._queue.empty():
                waiting = self._queue.get()
                group += [waiting] if waiting else []
            for pending in group:
                pending.outcome = StoreError(f"the store's writer has stopped: {failure!r}")
            _answer(group)
            raise

    def _collect(self, wait_seconds: float) -> tuple[list[_Pending], bool]:
        """Return the changes of one group, none after the timeout, and whether the writer stops after them."""
        group: list[_Pending] = []
        size = 0
        try:
            pending = self._queue.get(timeout=wait_seconds)
            deadline = time.monotonic() + self._gathering_seconds
            while pending is not None:
                group.append(pending)
                if isinstance(pending.change, PutVersion | PutPart | ArchiveTransaction):
                    size += pending.change.size
                if len(group) >= _GROUP_CHANGES_MAX or size >= _GROUP_BYTES_MAX:
                    return group, False
                left = deadline - time.monotonic() if len(group) < self._under_way else 0.0
                pending = self._queue.get(timeout=left) if left > 0 else self._queue.get_nowait()
        except queue.Empty:
            return group, False
        return group, True

    def _carry_out(self, pendings: list[_Pending]) -> None:
        def decide(group: _Group) -> None:
            for pending in pendings:
                try:
                    pending.outcome = pending.change.apply(group)
                except Refusal as refusal:
                    pending.outcome = refusal

        began = time.monotonic()
        group, failure = self._commit(decide)
        self._gathering_seconds = (time.monotonic() - began) * _GATHERING_SHARE
        self._under_way = len(pendings) + self._queue.qsize()
        if failure is None:
            self.commits.changes += len(pendings)
            self.commits.objects += group.objects
            self.commits.bytes += group.bytes
            if group.objects:
                self._say_taken()
        else:
            self._say_refused(failure)
            for pending in pendings:
                pending.outcome = failure
        self._on_commit()
        _answer(pendings)

    def _has_moves(self) -> bool:
        """Return whether a segment should be rewritten and the device has space for its copy.

        The copy may use the reserve: it takes less than the deletion of the segment frees.
        """
        to_move = self.compaction.choose(self._active[0] if self._active else None)
        return to_move is not None and self._free_bytes() >= to_move + RESERVE_BYTES // 4

    def _move(self) -> None:
        _, failure = self._commit(self.compaction.step)
        if failure is not None:
            self.compaction.leave_alone(str(failure))
        self._on_commit()

    def _commit(self, decide: Callable[[_Group], None]) -> tuple[_Group, WriteFailed | None]:
        """Commit what `decide` does to a new group. After a failure nothing has changed."""
        catalogue = self._catalogue
        group = _Group(catalogue, self._clock.now_ms(), self, catalogue.state.commits + 1)
        try:
            catalogue.begin()
            decide(group)
            self._write(group)
            emptied = self._empty_segments()
            catalogue.commit(group.now_ms)
        except (OSError, sqlite3.Error) as failed:
            self.commits.groups_failed += 1
            catalogue.rollback()
            folder = catalogue.folder if isinstance(failed, sqlite3.Error) else self._segments.folder.parent
            return group, WriteFailed(f"{folder} cannot be written: {words_of(failed)}")
        catalogue.count_commit()
        self.commits.commits += 1
        # The group is durable even if the two steps below fail, for example on a full disk: an older mark is allowed,
        # and the store deletes files that the catalogue does not name when it opens.
        with suppress(OSError):
            self._mark.write(catalogue.state.commits)
        for number in emptied:
            with suppress(OSError):
                self._segments.remove(number)
        return group, None

    def check_space(self) -> None:
        """Raise StoreFull before the device is full, because SQLite needs space even to delete."""
        free = self._free_bytes()
        if free < RESERVE_BYTES:
            fullest = min(self._segments.folder.parent, self._catalogue.folder, key=free_bytes)
            full = StoreFull(fullest, free, RESERVE_BYTES)
            self._say_refused(full)
            raise full

    def _say_refused(self, why: Refusal) -> None:
        if not self._refuses:
            self._refuses = True
            self._say(f"writes are refused from now on: {why}")

    def _say_taken(self) -> None:
        if self._refuses:
            self._refuses = False
            self._say("writes are accepted again")

    def _continue_last_segment(self) -> None:
        """Append to the last segment of the last process, so that many restarts do not leave many small files."""
        number = max(self._catalogue.segments, default=None)
        if number is None or self._catalogue.segments[number].length >= ROLL_BYTES:
            return
        file = self._segments.reopen(number)
        first = file.header_at(0)
        if first is not None and first.content_bytes <= LARGE_BYTES:  # a large object keeps its own segment
            self._active = number, file
            self._offset = self._catalogue.segments[number].length

    def end_of_segment(self) -> tuple[int, int]:
        """Return the number and end of the active segment. A group never spans two segments."""
        if self._active is None:
            self._active = self._segments.create()
            self._offset = 0
        return self._active[0], self._offset

    def _write(self, group: _Group) -> None:
        """Make the group's bytes durable. After a failure the segment's end is unchanged, and the next group
        overwrites.
        """
        for content, header in group.large:
            content.file.write([header], 0)
            content.file.sync()
        if not group.buffers:
            return
        assert self._active is not None
        file = self._active[1]
        end = file.write(group.buffers, self._offset)
        try:
            file.sync()
        except OSError:
            # After a failed sync the kernel may mark pages as clean that never reached the disk: trust none of them.
            self._active = None
            raise
        # The end moves now, even if the catalogue's commit fails: its log may name these bytes.
        self._offset = end

    def _empty_segments(self) -> list[int]:
        """Remove segments without live objects from the catalogue. Return them: their files go after the commit."""
        catalogue = self._catalogue
        active = self._active[0] if self._active else None
        if active is not None and self._is_done(active):
            self._active = active = None
        emptied = [number for number in catalogue.empty_segments if number != active]
        for number in emptied:
            catalogue.forget_segment(number)
        return emptied

    def _is_done(self, active: int) -> bool:
        """Return whether the active segment is full, or so sparse that it must be rewritten."""
        use = self._catalogue.segments.get(active)
        return self._offset >= ROLL_BYTES or (use is not None and use.dead_bytes >= ROLL_BYTES // 2)


def _answer(pendings: list[_Pending]) -> None:
    """Complete the group's futures, in one call into each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Pending]] = {}
    for pending in pendings:
        by_loop.setdefault(pending.future.get_loop(), []).append(pending)
    for loop, answered in by_loop.items():
        try:
            loop.call_soon_threadsafe(_complete, answered)
        except RuntimeError:  # the loop is closed, so no caller waits
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
    """Return the bytes that an unprivileged process can still write to the folder's device."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize
