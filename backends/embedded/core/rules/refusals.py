"""Refusals: the errors that the core raises when its rules or its disk do not allow a call.

One idea: the core decides and a server translates. A refusal carries facts, such as the bucket and the retain-until
date. Only the S3 server knows that S3 answers one of them with `403 AccessDenied`. Refusals are answers and not faults:
the store does not log them.
"""

from __future__ import annotations

from archiver.values.errors import StoreError
from archiver.values.sizes import format_bytes, format_instant


class Refusal(StoreError):
    """Base class of the refusals: the store works and refuses the call."""


class NoSuchBucket(Refusal):
    def __init__(self, bucket: str) -> None:
        super().__init__(f"bucket {bucket!r} does not exist")


class BucketExists(Refusal):
    def __init__(self, bucket: str) -> None:
        super().__init__(f"bucket {bucket!r} exists already and is yours")


class BucketNotEmpty(Refusal):
    def __init__(self, bucket: str) -> None:
        super().__init__(f"bucket {bucket!r} still has versions or delete markers; delete every version first")


class NotLockBucket(Refusal):
    """The call sets or changes a lock in a bucket without Object Lock."""

    def __init__(self, bucket: str) -> None:
        super().__init__(f"bucket {bucket!r} has no Object Lock; create it with Object Lock enabled")


class WrongBucketState(Refusal):
    """The call combines a versioning state and an Object Lock state that exclude each other."""


class NoSuchKey(Refusal):
    """The object does not exist, or its newest version is a delete marker, which `marker_id` then names."""

    def __init__(self, key: str, marker_id: str | None = None) -> None:
        super().__init__(f"object {key!r} does not exist" + (" (deleted by a marker)" if marker_id else ""))
        self.marker_id = marker_id


class NoSuchVersion(Refusal):
    def __init__(self, key: str, version_id: str) -> None:
        super().__init__(f"object {key!r} has no version {version_id}")
        self.version_id = version_id


class BadVersionId(Refusal):
    def __init__(self, version_id: str) -> None:
        super().__init__(f"{version_id!r} is not a version id")
        self.version_id = version_id


class IsDeleteMarker(Refusal):
    """The version is a delete marker, which has neither content nor a lock."""

    def __init__(self, key: str, marker_id: str) -> None:
        super().__init__(f"version {marker_id} of {key!r} is a delete marker")
        self.marker_id = marker_id


class NoSuchUpload(Refusal):
    def __init__(self) -> None:
        super().__init__("this key has no such unfinished upload; it was completed or aborted, or never began")


class NoSuchPart(Refusal):
    def __init__(self, number: int) -> None:
        super().__init__(f"part {number} was not uploaded, or has another ETag or checksum; list the parts")


class PartsOutOfOrder(Refusal):
    def __init__(self) -> None:
        super().__init__("parts must be listed by ascending number, each once")


class PartTooSmall(Refusal):
    def __init__(self, number: int, etag: str, size_bytes: int, least_bytes: int) -> None:
        super().__init__(f"part {number} has {size_bytes} bytes; every part but the last needs at least {least_bytes}")
        self.number, self.etag, self.size_bytes, self.least_bytes = number, etag, size_bytes, least_bytes


class UploadTooLarge(Refusal):
    def __init__(self, size_bytes: int, most_bytes: int) -> None:
        super().__init__(f"the parts have {size_bytes} bytes together; an object may have at most {most_bytes}")


class WrongObjectSize(Refusal):
    def __init__(self, expected_bytes: int, size_bytes: int) -> None:
        super().__init__(f"the client announced {expected_bytes} bytes; the listed parts have {size_bytes}")


class PartChecksumMissing(Refusal):
    def __init__(self, number: int, kind: str) -> None:
        super().__init__(
            f"The upload was created using a {kind} checksum. The complete request must include the checksum for each"
            f" part. It was missing for part {number} in the request."
        )


class WrongUploadChecksum(Refusal):
    def __init__(self, computed: str) -> None:
        super().__init__(f"the object's checksum is {computed}; the client sent another")


class AlreadyExists(Refusal):
    """The call stores an object only if it does not exist, and it exists."""

    def __init__(self, key: str) -> None:
        super().__init__(f"object {key!r} exists already")


class WrongETag(Refusal):
    """The call replaces or deletes an object only if it has a given ETag, and it has another."""

    def __init__(self, key: str) -> None:
        super().__init__(f"object {key!r} has another ETag; read it again")


class Locked(Refusal):
    """A lock protects the object, so the store refused to delete it or to weaken its lock."""


class LegallyHeld(Locked):
    def __init__(self) -> None:
        super().__init__("the version is under legal hold; no mode, date or bypass lifts a hold, only its release")


class Retained(Locked):
    def __init__(self, mode: str, until_ms: int, remedy: str) -> None:
        super().__init__(f"the version is retained until {format_instant(until_ms / 1000)}, mode {mode}; {remedy}")


class BadRetainUntil(Refusal):
    """The date of a new lock is in the past, or later than the latest date that a lock may have."""


class NoEventHold(Refusal):
    """A release without a date, of a version that has no event hold whose period could set one."""

    def __init__(self) -> None:
        super().__init__("the version has no event hold to release; a retain until date would be needed")


class StoreFull(Refusal):
    """The store wrote nothing: the device is full, or would have less free space than the store's reserve."""

    def __init__(self, folder: object, free_bytes: int, reserve_bytes: int) -> None:
        super().__init__(
            f"disk full: {folder} has {format_bytes(free_bytes)} free and keeps"
            f" {format_bytes(reserve_bytes)} in reserve; nothing was written."
            " Delete what is no longer retained, or free space there"
        )


class WriteFailed(Refusal):
    """The operating system refused a write. The change is not visible, and reads continue."""


class NoSuchSpace(Refusal):
    """A file space that a transaction uses does not exist or was deleted."""

    def __init__(self) -> None:
        super().__init__("the file space does not exist; register it first")


class NoSuchArchive(Refusal):
    def __init__(self, number: int) -> None:
        super().__init__(f"there is no archived object {number}")


class NotOwner(Refusal):
    def __init__(self, number: int) -> None:
        super().__init__(f"archived object {number} belongs to another node or owner than the session's")


class RuleExists(Refusal):
    def __init__(self) -> None:
        super().__init__("an access rule for the same objects and readers exists already")


class NoSuchRule(Refusal):
    def __init__(self, number: int) -> None:
        super().__init__(f"there is no access rule {number} of this node and owner")


class TooManyRules(Refusal):
    def __init__(self, most: int) -> None:
        super().__init__(f"a node has at most {most} access rules; delete one first")


class NothingArchived(Refusal):
    def __init__(self) -> None:
        super().__init__("no archived object matches the access rule")


class ArchiveHeld(Locked):
    def __init__(self) -> None:
        super().__init__("the archived object is held; release it first")


class ArchiveRetained(Locked):
    """`until_ms` None: the class has no limit, or the retention event has not happened yet."""

    def __init__(self, until_ms: int | None) -> None:
        until = "permanently, or until an event" if until_ms is None else f"until {format_instant(until_ms / 1000)}"
        super().__init__(f"the archived object is retained {until}; no client can delete it before")


class AlreadyHeld(Refusal):
    def __init__(self, number: int) -> None:
        super().__init__(f"archived object {number} is held already")


class WrongRetentionEvent(Refusal):
    """A release of an object that is not held, or an activation of an object that waits for no event."""
