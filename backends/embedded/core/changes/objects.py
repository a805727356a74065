"""Every change of the store, and the rules that decide it.

One idea: a change decides and writes in one place, in the one writer's thread, inside the transaction of its
group. What it reads cannot change before it writes, so a delete that races a new lock loses or wins, never
both. A change refuses before it writes anything; the group's other changes go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ..files.digests import Buffer
from ..files.segments import LargeContent, RecordHeader, SegmentLocation
from ..rules import locks
from ..rules.locks import DefaultRetention, VersionLock, VersionRetention
from ..rules.refusals import (
    AlreadyExists,
    BucketExists,
    BucketNotEmpty,
    NoSuchKey,
    NotLockBucket,
    Refusal,
    WrongBucketState,
    WrongETag,
)
from ..tables.catalogue import Bucket, Catalogue, VersionRow


class PutContent(Protocol):
    """A change that brings the bytes of an object or of a part."""

    @property
    def content(self) -> Sequence[Buffer] | LargeContent: ...
    @property
    def size(self) -> int: ...
    @property
    def block_crcs(self) -> bytes: ...


class ChangeGroup(Protocol):
    """The group commit that a change takes part in."""

    catalogue: Catalogue
    now_ms: int
    commit: int  # its number

    def append(self, bucket: str, key: str, sequence: int, change: PutContent) -> SegmentLocation:
        """Take the change's bytes into this commit; says where they will be. Raises StoreFull."""

    def require_space(self) -> None:
        """Raises StoreFull where nothing may be written."""

    def place(self, record: RecordHeader, content: Sequence[Buffer]) -> SegmentLocation:
        """Take a record into this commit; says where its content will be."""

    def count(self, objects: int, size_bytes: int) -> None:
        """So much was written."""


class StoreChange(Protocol):
    def apply(self, group: ChangeGroup) -> object:
        """Decide and write. Raises Refusal before it has written anything."""


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """Which version a change made or met; `version_id` is None where the bucket never had versioning."""

    version_id: str | None
    is_marker: bool = False


@dataclass(frozen=True, slots=True)
class WriteCondition:
    """What has to hold of a key's newest version for a change to be made."""

    only_if_absent: bool = False
    only_if_etag: str | None = None  # "*": any, but there has to be one

    def check(self, catalogue: Catalogue, bucket: Bucket, key: str) -> None:
        """Return if it holds. A delete marker counts as no version."""
        if not self.only_if_absent and self.only_if_etag is None:
            return
        latest = catalogue.latest(bucket, key)
        if self.only_if_absent and latest is not None and not latest.is_marker:
            raise AlreadyExists(key)
        self.check_version(latest, key)

    def check_version(self, version: VersionRow | None, key: str) -> None:
        """The same of one version."""
        if self.only_if_etag is not None:
            if version is None or version.is_marker:
                raise NoSuchKey(key)
            if self.only_if_etag not in ("*", version.etag):
                raise WrongETag(key)


UNCONDITIONAL = WriteCondition()


@dataclass(slots=True)
class PutVersion:
    """Store an object.

    A lock of its own replaces the bucket's default retention; a legal hold alone does not.
    """

    bucket: str
    key: str
    content: Sequence[Buffer] | LargeContent
    size: int
    block_crcs: bytes
    etag: str
    checksum: str | None = None
    content_type: str | None = None
    metadata: str | None = None
    lock: VersionLock = locks.UNLOCKED
    condition: WriteCondition = UNCONDITIONAL
    tags: str | None = None

    def apply(self, group: ChangeGroup) -> ChangeResult:
        catalogue = group.catalogue
        bucket = catalogue.bucket(self.bucket)
        check_lock(bucket, self.lock, group.now_ms)
        retention = self.lock.retention
        if retention is None and bucket.default is not None:
            retention = bucket.default.starting(group.now_ms)
        replaced = takes_place_of(group, bucket, self.key, self.condition)
        sequence = catalogue.take_sequence()
        location = group.append(bucket.name, self.key, sequence, self)
        if replaced is not None:
            catalogue.remove_version(bucket, replaced)
        hold = None if self.lock.legal_hold is None else int(self.lock.legal_hold)
        mode, until_ms = (retention.mode, retention.until_ms) if retention else (None, None)
        version = VersionRow(
            bucket.id, self.key, sequence, bucket.versioning != "Enabled", 0, group.now_ms, self.size,
            *location, self.block_crcs, self.etag, self.checksum,
            self.content_type, self.metadata, mode, until_ms, hold, None, self.tags,
        )  # fmt: skip
        return add_version(group, bucket, version)


def check_lock(bucket: Bucket, lock: VersionLock, now_ms: int) -> None:
    """Return if a version may be made there with this lock of its own."""
    if not bucket.object_lock and lock != locks.UNLOCKED:
        raise NotLockBucket(bucket.name)
    if lock.retention is not None:
        locks.check_new_retention(lock.retention, now_ms)


def takes_place_of(group: ChangeGroup, bucket: Bucket, key: str, condition: WriteCondition) -> VersionRow | None:
    """The version that a new one of that key replaces, if any. Raises the refusal where there may be no new one."""
    condition.check(group.catalogue, bucket, key)
    return _replaced(group, bucket, key)


def add_version(group: ChangeGroup, bucket: Bucket, version: VersionRow) -> ChangeResult:
    catalogue = group.catalogue
    catalogue.add_version(bucket, version)
    return ChangeResult(None if bucket.versioning == "Off" else catalogue.version_id(version))


@dataclass(slots=True)
class Delete:
    """Delete one version, or without a version id put a marker on top; `bypass`: header and right."""

    bucket: str
    key: str
    version_id: str | None
    bypass: bool
    condition: WriteCondition = UNCONDITIONAL

    def apply(self, group: ChangeGroup) -> ChangeResult:
        catalogue = group.catalogue
        bucket = catalogue.bucket(self.bucket)
        if self.version_id is None:
            self.condition.check(catalogue, bucket, self.key)
            return self._put_marker(group, bucket)
        version = catalogue.by_id(bucket, self.key, self.version_id)
        if version is not None:
            locks.check_delete(version.lock, group.now_ms, bypass=self.bypass)
        self.condition.check_version(version, self.key)
        if version is None:
            return ChangeResult(self.version_id)  # gone is what was asked for
        catalogue.remove_version(bucket, version)
        return ChangeResult(self.version_id, bool(version.is_marker))

    def _put_marker(self, group: ChangeGroup, bucket: Bucket) -> ChangeResult:
        catalogue = group.catalogue
        replaced = _replaced(group, bucket, self.key)
        if replaced is not None:
            catalogue.remove_version(bucket, replaced)
        if bucket.versioning == "Off":
            return ChangeResult(None)
        marker = VersionRow(
            bucket.id, self.key, catalogue.take_sequence(), bucket.versioning != "Enabled", 1, group.now_ms,
            0, 0, 0, b"", "", None, None, None, None, None, None, None, None,
        )  # fmt: skip
        catalogue.add_version(bucket, marker)
        return ChangeResult(catalogue.version_id(marker), is_marker=True)


def _replaced(group: ChangeGroup, bucket: Bucket, key: str) -> VersionRow | None:
    """The version that a new one or a marker takes the place of: without versioning a key has one null version."""
    if bucket.versioning == "Enabled":
        return None
    replaced = group.catalogue.null_version(bucket, key)
    if replaced is not None:
        locks.check_delete(replaced.lock, group.now_ms, bypass=False)
    return replaced


@dataclass(slots=True)
class DeleteMany:
    """Several deletes; each succeeds or is refused by itself."""

    deletes: Sequence[Delete]

    def apply(self, group: ChangeGroup) -> list[ChangeResult | Refusal]:
        group.catalogue.bucket(self.deletes[0].bucket)
        return [_answer(delete, group) for delete in self.deletes]


def _answer(delete: Delete, group: ChangeGroup) -> ChangeResult | Refusal:
    try:
        return delete.apply(group)
    except Refusal as refusal:
        return refusal


@dataclass(slots=True)
class SetRetention:
    """Change a version's retention (the newest version's without a version id); None removes it."""

    bucket: str
    key: str
    version_id: str | None
    retention: VersionRetention | None
    bypass: bool

    def apply(self, group: ChangeGroup) -> None:
        version = _lockable(group, self.bucket, self.key, self.version_id)
        locks.check_retention_change(version.retention, self.retention, group.now_ms, bypass=self.bypass)
        group.catalogue.set_lock(version, replace(version.lock, retention=self.retention))


@dataclass(slots=True)
class SetLegalHold:
    bucket: str
    key: str
    version_id: str | None
    on: bool

    def apply(self, group: ChangeGroup) -> None:
        version = _lockable(group, self.bucket, self.key, self.version_id)
        group.catalogue.set_lock(version, replace(version.lock, legal_hold=self.on))


@dataclass(slots=True)
class SetTags:
    """Replace a version's tags (a JSON object; None removes them). No lock stands against that."""

    bucket: str
    key: str
    version_id: str | None
    tags: str | None

    def apply(self, group: ChangeGroup) -> str:
        """The version's id."""
        catalogue = group.catalogue
        version = catalogue.lockable(catalogue.bucket(self.bucket), self.key, self.version_id)
        catalogue.set_tags(version, self.tags)
        return catalogue.version_id(version)


def _lockable(group: ChangeGroup, bucket_name: str, key: str, version_id: str | None) -> VersionRow:
    bucket = group.catalogue.bucket(bucket_name)
    if not bucket.object_lock:
        raise NotLockBucket(bucket_name)
    return group.catalogue.lockable(bucket, key, version_id)


@dataclass(slots=True)
class CreateBucket:
    name: str
    object_lock: bool

    def apply(self, group: ChangeGroup) -> None:
        if self.name in group.catalogue.buckets:
            raise BucketExists(self.name)
        group.catalogue.add_bucket(self.name, group.now_ms, object_lock=self.object_lock)


@dataclass(slots=True)
class DeleteBucket:
    name: str

    def apply(self, group: ChangeGroup) -> None:
        bucket = group.catalogue.bucket(self.name)
        if not group.catalogue.is_empty(bucket):
            raise BucketNotEmpty(self.name)
        group.catalogue.remove_bucket(bucket)


@dataclass(slots=True)
class SetVersioning:
    name: str
    versioning: str  # Enabled or Suspended

    def apply(self, group: ChangeGroup) -> None:
        bucket = group.catalogue.bucket(self.name)
        if bucket.object_lock and self.versioning != "Enabled":
            raise WrongBucketState("an Object Lock configuration is present: versioning cannot be suspended")
        group.catalogue.change_bucket(
            bucket, versioning=self.versioning, object_lock=bucket.object_lock, default=bucket.default
        )


@dataclass(slots=True)
class SetLockConfiguration:
    """Turn Object Lock on, for ever, and set or clear the default retention of versions yet to come."""

    name: str
    default: DefaultRetention | None

    def apply(self, group: ChangeGroup) -> None:
        bucket = group.catalogue.bucket(self.name)
        if bucket.versioning != "Enabled":
            raise WrongBucketState("versioning must be Enabled before Object Lock can be")
        group.catalogue.change_bucket(bucket, versioning="Enabled", object_lock=True, default=self.default)
