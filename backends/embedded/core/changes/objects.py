"""The changes of buckets and S3 objects, and what every change has in common.

One idea: a change decides and writes in one place, in the one writer's thread, inside the transaction of its group.
What it reads cannot change before it writes. So of a delete and a new lock that race, exactly one wins. A change
refuses before it writes anything; the other changes of the group continue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

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
from ..tables.lock_columns import columns_of

Result_co = TypeVar("Result_co", covariant=True)


class PutContent(Protocol):
    """A change with the bytes of an object or a part."""

    @property
    def content(self) -> Sequence[Buffer] | LargeContent: ...
    @property
    def size(self) -> int: ...
    @property
    def block_crcs(self) -> bytes: ...


class ChangeGroup(Protocol):
    """The group commit that a change is part of."""

    catalogue: Catalogue
    now_ms: int
    commit: int  # its number

    def append(self, bucket: str, key: str, sequence: int, change: PutContent) -> SegmentLocation:
        """Add the change's bytes to this commit. Return where they will be. Raises StoreFull."""

    def require_space(self) -> None:
        """Raise StoreFull if the store may not write."""

    def place(self, record: RecordHeader, content: Sequence[Buffer]) -> SegmentLocation:
        """Add a record to this commit. Return where its content will be."""

    def count(self, objects: int, size_bytes: int) -> None:
        """Count written objects and their bytes, for the statistics."""


class StoreChange(Protocol[Result_co]):
    def apply(self, group: ChangeGroup) -> Result_co:
        """Decide, write and return the result. Raises Refusal before it writes anything."""


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The version that a change created or deleted. `version_id` is None if the bucket never had versioning."""

    version_id: str | None
    is_marker: bool = False


@dataclass(frozen=True, slots=True)
class WriteCondition:
    """A precondition of a change on the newest version of its key."""

    only_if_absent: bool = False
    only_if_etag: str | None = None  # "*": any, but the object must exist

    def check(self, catalogue: Catalogue, bucket: Bucket, key: str) -> None:
        """Return if the condition is true. A delete marker counts as no version. Raises AlreadyExists, NoSuchKey,
        WrongETag.
        """
        if not self.only_if_absent and self.only_if_etag is None:
            return
        latest = catalogue.latest(bucket, key)
        if self.only_if_absent and latest is not None and not latest.is_marker:
            raise AlreadyExists(key)
        self.check_version(latest, key)

    def check_version(self, version: VersionRow | None, key: str) -> None:
        """Return if `only_if_etag` is true of this version. Raises NoSuchKey or WrongETag."""
        if self.only_if_etag is not None:
            if version is None or version.is_marker:
                raise NoSuchKey(key)
            if self.only_if_etag not in ("*", version.etag):
                raise WrongETag(key)


UNCONDITIONAL = WriteCondition()


@dataclass(slots=True)
class PutVersion:
    """Store an object. A retention in `lock` replaces the bucket's default retention; a legal hold alone does not."""

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
        mode, until_ms, event_hold = columns_of(retention)
        version = VersionRow(
            bucket.id, self.key, sequence, bucket.versioning != "Enabled", 0, group.now_ms, self.size,
            *location, self.block_crcs, self.etag, self.checksum,
            self.content_type, self.metadata, mode, until_ms, hold, None, self.tags,
            event_hold,
        )  # fmt: skip
        return add_version(group, bucket, version)


def check_lock(bucket: Bucket, lock: VersionLock, now_ms: int) -> None:
    """Return if a new version in the bucket may have this lock. Raises NotLockBucket or BadRetainUntil."""
    if not bucket.object_lock and lock != locks.UNLOCKED:
        raise NotLockBucket(bucket.name)
    if lock.retention is not None:
        locks.check_new_retention(lock.retention, now_ms)


def takes_place_of(group: ChangeGroup, bucket: Bucket, key: str, condition: WriteCondition) -> VersionRow | None:
    """Return the version that a new one of that key replaces, if any. Raises Refusal if no new one is allowed."""
    condition.check(group.catalogue, bucket, key)
    return _replaced(group, bucket, key)


def add_version(group: ChangeGroup, bucket: Bucket, version: VersionRow) -> ChangeResult:
    catalogue = group.catalogue
    catalogue.add_version(bucket, version)
    return ChangeResult(None if bucket.versioning == "Off" else catalogue.version_id(version))


@dataclass(slots=True)
class Delete:
    """Delete one version; without a version id, add a delete marker. `bypass`: the caller may bypass governance."""

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
            return ChangeResult(self.version_id)  # already deleted
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
            0, 0, 0, b"", "", None, None, None, None, None, None, None, None, None,
        )  # fmt: skip
        catalogue.add_version(bucket, marker)
        return ChangeResult(catalogue.version_id(marker), is_marker=True)


def _replaced(group: ChangeGroup, bucket: Bucket, key: str) -> VersionRow | None:
    """Return the null version, which a new version or marker replaces unless versioning is enabled. Raises Locked."""
    if bucket.versioning == "Enabled":
        return None
    replaced = group.catalogue.null_version(bucket, key)
    if replaced is not None:
        locks.check_delete(replaced.lock, group.now_ms, bypass=False)
    return replaced


@dataclass(slots=True)
class DeleteMany:
    """Several deletions. Each succeeds or is refused independently."""

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
    """Change the retention of a version, or of the newest version if there is no id; None removes it."""

    bucket: str
    key: str
    version_id: str | None
    retention: VersionRetention | None
    bypass: bool

    def apply(self, group: ChangeGroup) -> None:
        version = _lockable(group, self.bucket, self.key, self.version_id)
        changed = locks.changed_retention(version.retention, self.retention, group.now_ms, bypass=self.bypass)
        group.catalogue.set_lock(version, replace(version.lock, retention=changed))


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
    """Replace a version's tags (a JSON object; None removes them). Locks do not protect tags."""

    bucket: str
    key: str
    version_id: str | None
    tags: str | None

    def apply(self, group: ChangeGroup) -> str:
        """Return the version's id."""
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
    """Enable Object Lock, permanently, and set or clear the default retention of future versions."""

    name: str
    default: DefaultRetention | None

    def apply(self, group: ChangeGroup) -> None:
        bucket = group.catalogue.bucket(self.name)
        if bucket.versioning != "Enabled":
            raise WrongBucketState("versioning must be Enabled before Object Lock can be")
        group.catalogue.change_bucket(bucket, versioning="Enabled", object_lock=True, default=self.default)
