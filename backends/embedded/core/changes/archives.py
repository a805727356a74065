"""The changes of TSM sessions: transactions, file spaces, attributes of archived objects.

One idea: a transaction is one change, so a group commit has all of it or none of it. The transaction checks all its
operations before it does the first one. If one operation is refused, the whole transaction is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import groupby
from typing import Any

from awscrt import checksums

from ..files.digests import Buffer
from ..files.segments import RecordHeader, SegmentLocation
from ..rules import policy
from ..rules.refusals import AlreadyHeld, NoSuchArchive, NoSuchSpace, NotOwner, WrongRetentionEvent
from ..tables.archives import Archive, Archives, Space, find_space
from .objects import ChangeGroup


class Event(IntEnum):
    ACTIVATE = 0
    HOLD = 1
    RELEASE = 2


@dataclass(slots=True)
class NewArchive:
    """An object to archive: the attributes that the client sent, and its bytes or the place where they already are."""

    space: int
    class_id: int
    type: int
    attributes: int
    owner: bytes
    estimate: int
    hl: bytes
    ll: bytes
    description: bytes
    info: bytes
    content: list[Buffer] = field(default_factory=list)
    size: int = 0
    block_crcs: bytes = b""
    record_key: bytes = b""  # the name of its record in a segment
    id: int = 0  # set, with the location, if the transaction has a segment of its own
    location: SegmentLocation | None = None


@dataclass(slots=True)
class ArchiveTransaction:
    """The operations that one node commits together. `owner` empty: the session acts for all owners."""

    node: str
    owner: bytes
    archives: list[NewArchive] = field(default_factory=list)
    deletes: list[int] = field(default_factory=list)
    event: Event | None = None
    event_ids: Sequence[int] = ()
    is_written: bool = False  # to segments of its own

    @property
    def size(self) -> int:
        """The bytes that the group commit will write."""
        return 0 if self.is_written else sum(archive.size for archive in self.archives)

    def apply(self, group: ChangeGroup) -> None:
        archives = group.catalogue.archives
        for number in {new.space for new in self.archives}:
            space = archives.spaces.get(number)
            if space is None or space.node != self.node:
                raise NoSuchSpace
        if self.archives and not self.is_written:
            group.require_space()
        deleted = list(self._own_rows(archives, self.deletes))
        for row in deleted:
            policy.check_delete(
                archives.classes[row.class_id], row.archived_ms, row.event_ms, bool(row.held), group.now_ms
            )
        changed = [self._after_event(archives, row, group.now_ms) for row in self._own_rows(archives, self.event_ids)]
        deleted_ids = {row.id for row in deleted}
        if len(deleted_ids) != len(deleted):
            raise NoSuchArchive(next(number for number in self.deletes if self.deletes.count(number) > 1))
        for row in changed:
            if row.id in deleted_ids:
                raise NoSuchArchive(row.id)
        # Nothing below refuses.
        self._add(group, archives)
        for row in deleted:
            archives.remove(row)
        for row in changed:
            archives.change(row)

    def _own_rows(self, archives: Archives, ids: Sequence[int]) -> Iterator[Archive]:
        found = archives.find(ids) if ids else {}
        for number in ids:
            row = found.get(number)
            if row is None:
                raise NoSuchArchive(number)
            if archives.spaces[row.space].node != self.node or (self.owner and row.owner != self.owner):
                raise NotOwner(number)
            yield row

    def _after_event(self, archives: Archives, row: Archive, now_ms: int) -> Archive:
        if self.event is Event.HOLD:
            if row.held:
                raise AlreadyHeld(row.id)
            return row._replace(held=1)
        if self.event is Event.RELEASE:
            if not row.held:
                raise WrongRetentionEvent(f"archived object {row.id} is not held")
            return row._replace(held=0)
        if archives.classes[row.class_id].retinit != "event":
            raise WrongRetentionEvent(
                f"archived object {row.id} waits for no event: its retention period starts at creation"
            )
        return row if row.event_ms is not None else row._replace(event_ms=now_ms)

    def _add(self, group: ChangeGroup, archives: Archives) -> None:
        if not self.archives:
            return
        now_ms, commit, take_sequence = group.now_ms, group.commit, group.catalogue.take_sequence
        rows = []
        for new in self.archives:
            number, location = new.id, new.location
            if location is None:
                number = take_sequence()
                crc = checksums.crc32c(new.block_crcs)
                location = group.place(RecordHeader(b"", new.record_key, number, commit, new.size, crc), new.content)
            rows.append(Archive(
                number, new.space, new.hl, new.ll, new.type, new.attributes, new.owner, new.class_id, now_ms,
                None, 0, new.estimate, new.size, location.segment, location.offset, new.block_crcs, new.description,
                new.info,
            ))  # fmt: skip
        for _, part in groupby(zip(rows, self.archives, strict=True), key=lambda pair: pair[0].segment):
            of_segment = list(part)
            archives.add([row for row, _ in of_segment], sum(len(new.record_key) for _, new in of_segment))
        for number in {new.space for new in self.archives}:
            archives.put_space(archives.spaces[number]._replace(archived_ms=now_ms))
        group.count(len(rows), sum(row.size for row in rows))


@dataclass(slots=True)
class RegisterSpace:
    """Register a file space. `apply` returns it, and whether it existed before."""

    space: Space

    def apply(self, group: ChangeGroup) -> tuple[Space, bool]:
        archives = group.catalogue.archives
        existing = find_space(archives.spaces.values(), self.space.node, self.space.name)
        if existing is not None:
            return existing, True
        return archives.put_space(self.space), False


@dataclass(slots=True)
class UpdateSpace:
    """Change a file space's attributes; None leaves a value unchanged."""

    node: str
    name: bytes
    type: bytes | None
    occupancy: int | None
    capacity: int | None
    info: bytes | None

    def apply(self, group: ChangeGroup) -> Space:
        archives = group.catalogue.archives
        existing = find_space(archives.spaces.values(), self.node, self.name)
        if existing is None:
            raise NoSuchSpace
        given: dict[str, Any] = {
            "type": self.type,
            "occupancy": self.occupancy,
            "capacity": self.capacity,
            "info": self.info,
        }
        return archives.put_space(
            existing._replace(**{key: value for key, value in given.items() if value is not None})
        )


@dataclass(slots=True)
class DeleteSpace:
    """Remove the expired objects that are not held, and the space if it is then empty.

    `apply` returns how many objects remain.
    """

    node: str
    owner: bytes
    name: bytes

    def apply(self, group: ChangeGroup) -> int:
        archives = group.catalogue.archives
        space = find_space(archives.spaces.values(), self.node, self.name)
        if space is None:
            raise NoSuchSpace
        left = 0
        for row in list(archives.of_space(space.id, (b"", b""), (b"\xff" * 2000, b""))):
            expires_ms = archives.classes[row.class_id].expires_ms(row.archived_ms, row.event_ms)
            is_own = not self.owner or row.owner == self.owner
            if is_own and not row.held and expires_ms is not None and group.now_ms >= expires_ms:
                archives.remove(row)
            else:
                left += 1
        if not left:
            archives.remove_space(space)
        return left


@dataclass(slots=True)
class UpdateObject:
    """Change an object's attributes; content, class and retention stay. `number` 0: the newest object of the name."""

    node: str
    session_owner: bytes
    space: int
    number: int
    hl: bytes
    ll: bytes
    owner: bytes | None
    info: bytes | None
    estimate: int | None
    description: bytes | None

    def apply(self, group: ChangeGroup) -> None:
        archives = group.catalogue.archives
        space = archives.spaces.get(self.space)
        if self.number:
            row = archives.find([self.number]).get(self.number)
        else:
            row = archives.newest(self.space, self.hl, self.ll)
        if space is None or space.node != self.node or row is None or row.space != self.space:
            raise NoSuchArchive(self.number)
        if self.session_owner and row.owner != self.session_owner:
            raise NotOwner(row.id)
        given: dict[str, Any] = {
            "owner": self.owner,
            "info": self.info,
            "estimate": self.estimate,
            "description": self.description,
        }
        archives.change(row._replace(**{key: value for key, value in given.items() if value is not None}))
