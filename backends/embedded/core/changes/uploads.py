"""The changes of multipart uploads: begin, put a part, complete, abort.

One idea: a part is not visible before the upload is completed. Until then no lock exists, as no version exists. The one
commit that creates the version writes its lock. The lock is the one that the begin request set, or else the bucket's
default retention at that commit.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..files import digests
from ..files.digests import Buffer
from ..files.segments import LargeContent
from ..rules import locks
from ..rules.locks import VersionLock
from ..rules.refusals import (
    NoSuchPart,
    NoSuchUpload,
    PartChecksumMissing,
    PartsOutOfOrder,
    PartTooSmall,
    UploadTooLarge,
    WrongObjectSize,
    WrongUploadChecksum,
)
from ..tables.catalogue import Bucket, VersionRow
from ..tables.lock_columns import columns_of
from ..tables.uploads import Upload, UploadPart
from .objects import UNCONDITIONAL, ChangeGroup, ChangeResult, WriteCondition, add_version, check_lock, takes_place_of

PART_BYTES_MIN = 5 << 20  # of every part but the last
OBJECT_BYTES_MAX = 5 << 40
COMPOSITE, FULL_OBJECT = "COMPOSITE", "FULL_OBJECT"  # a digest of the parts' digests, or of the bytes themselves


@dataclass(slots=True)
class BeginUpload:
    """Begin an upload, with the attributes of the later version, as in `PutVersion`."""

    bucket: str
    key: str
    checksum_kind: str | None = None
    checksum_type: str | None = None
    content_type: str | None = None
    metadata: str | None = None
    tags: str | None = None
    lock: VersionLock = locks.UNLOCKED

    def apply(self, group: ChangeGroup) -> int:
        """Return the upload's number."""
        group.require_space()
        catalogue = group.catalogue
        bucket = catalogue.bucket(self.bucket)
        check_lock(bucket, self.lock, group.now_ms)
        number = catalogue.take_sequence()
        hold = self.lock.legal_hold
        mode, until_ms, event_hold = columns_of(self.lock.retention)
        catalogue.uploads.add(
            Upload(
                number, bucket.id, self.key, group.now_ms, self.checksum_kind, self.checksum_type,
                self.content_type, self.metadata, self.tags, mode, until_ms, None if hold is None else int(hold),
                event_hold,
            )
        )  # fmt: skip
        return number


@dataclass(slots=True)
class PutPart:
    """Store a part. It replaces an earlier part with its number."""

    bucket: str
    key: str
    upload: int
    number: int
    content: Sequence[Buffer] | LargeContent
    size: int
    block_crcs: bytes
    etag: str
    checksum: str | None = None

    def apply(self, group: ChangeGroup) -> None:
        catalogue = group.catalogue
        bucket = catalogue.bucket(self.bucket)
        catalogue.upload(bucket, self.key, self.upload)
        sequence = catalogue.take_sequence()
        location = group.append(bucket.name, self.key, sequence, self)
        catalogue.uploads.put_part(
            UploadPart(
                sequence, self.upload, self.number, group.now_ms, self.size,
                *location, self.block_crcs, self.etag, self.checksum,
            ),
            len(bucket.name.encode()) + len(self.key.encode()),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Listed:
    """A part in the list of the complete request. `checksums`: base64 by kind."""

    number: int
    etag: str
    checksums: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Completed:
    """The version that an upload became."""

    stored: ChangeResult
    etag: str
    checksum: str | None


@dataclass(slots=True)
class CompleteUpload:
    """Make the listed parts a version and remove the other parts. A repeated request gets the same answer.

    `size` and `checksum` (kind:base64): what the client expects of the whole object, or None.
    """

    bucket: str
    key: str
    upload: int
    listed: Sequence[Listed]
    size: int | None = None
    checksum: str | None = None
    condition: WriteCondition = UNCONDITIONAL

    def apply(self, group: ChangeGroup) -> Completed:
        catalogue = group.catalogue
        bucket = catalogue.bucket(self.bucket)
        try:
            upload = catalogue.upload(bucket, self.key, self.upload)
        except NoSuchUpload:
            return self._again(group, bucket)
        parts = catalogue.uploads.parts(upload.id)
        chosen = self._chosen(parts)
        self._check_sizes(chosen)
        checksum = self._checksum(upload, chosen)
        replaced = takes_place_of(group, bucket, self.key, self.condition)
        retention = upload.lock.retention
        if retention is None and bucket.default is not None:
            retention = bucket.default.starting(group.now_ms)
        if replaced is not None:
            catalogue.remove_version(bucket, replaced)
        left_out = {part.id for part in parts} - {part.id for part in chosen}
        names_bytes = len(bucket.name.encode()) + len(self.key.encode())
        catalogue.uploads.remove_parts([part for part in parts if part.id in left_out], names_bytes)
        catalogue.uploads.remove(upload.id)
        mode, until_ms, event_hold = columns_of(retention)
        version = VersionRow(
            bucket.id, self.key, catalogue.take_sequence(), bucket.versioning != "Enabled", 0, group.now_ms,
            sum(part.size for part in chosen), 0, 0, b"", _etag(chosen), checksum,
            upload.content_type, upload.metadata, mode, until_ms, upload.legal_hold, upload.id, upload.tags,
            event_hold,
        )  # fmt: skip
        return Completed(add_version(group, bucket, version), version.etag, checksum)

    def _again(self, group: ChangeGroup, bucket: Bucket) -> Completed:
        catalogue = group.catalogue
        version = catalogue.completed(bucket, self.key, self.upload)
        self._chosen(catalogue.uploads.parts(self.upload))
        version_id = None if bucket.versioning == "Off" else catalogue.version_id(version)
        return Completed(ChangeResult(version_id), version.etag, version.checksum)

    def _chosen(self, parts: Sequence[UploadPart]) -> list[UploadPart]:
        """Return the listed parts. Raises NoSuchPart or PartsOutOfOrder."""
        by_number = {part.number: part for part in parts}
        chosen: list[UploadPart] = []
        for listed in self.listed:
            if chosen and listed.number <= chosen[-1].number:
                raise PartsOutOfOrder
            part = by_number.get(listed.number)
            if part is None or part.etag != listed.etag:
                raise NoSuchPart(listed.number)
            chosen.append(part)
        return chosen

    def _check_sizes(self, chosen: Sequence[UploadPart]) -> None:
        for part in chosen[:-1]:
            if part.size < PART_BYTES_MIN:
                raise PartTooSmall(part.number, part.etag, part.size, PART_BYTES_MIN)
        size = sum(part.size for part in chosen)
        if size > OBJECT_BYTES_MAX:
            raise UploadTooLarge(size, OBJECT_BYTES_MAX)
        if self.size is not None and size != self.size:
            raise WrongObjectSize(self.size, size)

    def _checksum(self, upload: Upload, chosen: Sequence[UploadPart]) -> str | None:
        """Return the version's checksum, kind:base64. A digest of digests ends with the number of parts."""
        kind = upload.checksum_kind
        if kind is None:
            return None
        values: list[bytes] = []
        for listed, part in zip(self.listed, chosen, strict=True):
            value = (part.checksum or "").partition(":")[2]
            expected = listed.checksums.get(kind)
            if expected is None and upload.checksum_type == COMPOSITE:
                raise PartChecksumMissing(part.number, kind)
            if expected not in (None, value):
                raise NoSuchPart(part.number)
            values.append(base64.b64decode(value))
        if upload.checksum_type == COMPOSITE:
            whole, ending = digests.of_digests(kind, values), f"-{len(values)}"
        else:
            whole, ending = digests.combined(kind, values, [part.size for part in chosen]), ""
        checksum = f"{kind}:{base64.b64encode(whole).decode()}{ending}"
        if self.checksum not in (None, checksum):
            raise WrongUploadChecksum(checksum)
        return checksum


def _etag(parts: Sequence[UploadPart]) -> str:
    """Return Amazon's multipart ETag: the MD5 of the parts' MD5s, and the number of parts."""
    whole = hashlib.md5(b"".join(bytes.fromhex(part.etag) for part in parts), usedforsecurity=False)
    return f"{whole.hexdigest()}-{len(parts)}"


@dataclass(slots=True)
class AbortUpload:
    bucket: str
    key: str
    upload: int

    def apply(self, group: ChangeGroup) -> None:
        bucket = group.catalogue.bucket(self.bucket)
        group.catalogue.remove_upload(bucket, group.catalogue.upload(bucket, self.key, self.upload))
