"""Describes all versions of an object that failed an audit.

One idea: a store with versions loses no object when its key is overwritten or deleted; it only hides the object. So
what a name returns may differ from what the store has.
"""

from __future__ import annotations

from dataclasses import dataclass

from archiver.values.content import LAST_BLOCK_BYTES, Content, ContentCheck
from archiver.values.errors import PlatformError
from backends.base import CloserLook, ExpectedLock
from backends.s3.control import Control, KeyVersion
from backends.s3.reported_lock import unexpected_lock

VERSIONS_READ_MAX = 20  # versions of one object


@dataclass(frozen=True, slots=True)
class ExpectedObject:
    """An object as it was archived."""

    bucket: str
    key: str
    number: int
    size_bytes: int
    content: Content
    lock: ExpectedLock


@dataclass(frozen=True, slots=True)
class _Seen:
    """One version of an object, read again."""

    id: str
    is_latest: bool
    content: tuple[int, int] | None  # object number and content version, if complete; None: other bytes
    problem: str | None = None  # what is wrong with the lock of the archived content
    unreadable: str | None = None  # why it cannot be read

    def words(self, expected: ExpectedObject) -> str:
        """Describe a version that is not the archived one, or has changed."""
        if self.unreadable is not None:
            return self.unreadable
        if self.content is None:
            return f"version {self.id} has other bytes than were archived"
        number, version = self.content
        if number != expected.number:
            return f"version {self.id} is a copy of object {number} of the same run"
        if version != 1:
            return f"version {self.id} is a later content of it, number {version}"
        return f"on a second reading it was {_state(self.problem)}"


def look_closer(control: Control, expected: ExpectedObject) -> CloserLook:
    """Describe the object's versions. Raises PlatformError if they cannot be listed."""
    every = control.versions_of(expected.bucket, expected.key)
    versions = [each for each in every if not each.is_marker]
    if not versions:
        return CloserLook("only a delete marker is left of it" if every else "no version of it is left")
    latest = next((each for each in every if each.is_latest), every[0])
    # If there are too many, read the newest and the oldest: the first archived version is the last in the list.
    read = versions if len(versions) <= VERSIONS_READ_MAX else [versions[0], *versions[1 - VERSIONS_READ_MAX :]]
    seen = [_read(control, expected, version, is_latest=version.id == latest.id) for version in read]
    archived = _archived(expected, seen)
    if archived is None or archived.is_latest:
        copy_of = _copied(expected, seen) if len(versions) == 1 else None
        more = f" (of {len(versions):,} versions)" if len(versions) > len(seen) else ""
        return CloserLook("; ".join(each.words(expected) for each in seen) + more, copy_of=copy_of)
    state = f"the version that was archived, {archived.id}, is {_state(archived.problem)}"
    # The other versions must be ours too: unknown bytes come from another writer.
    is_ours = archived.problem is None and all(
        each is archived or (each.content is not None and each.content[0] == expected.number and each.content[1] > 1)
        for each in seen
    )
    if latest.is_marker:
        return CloserLook(f"hidden by a delete marker; {state}", hidden=True, marked=is_ours)
    if is_ours:
        return CloserLook(f"replaced by later content of the same run; {state}", replaced=True)
    return CloserLook(f"hidden by a newer version; {state}", hidden=True)


def _archived(expected: ExpectedObject, seen: list[_Seen]) -> _Seen | None:
    """Return the version that was archived first: of several with its bytes, the one with its lock."""
    whole = [each for each in seen if each.content == (expected.number, 1)]
    return next((each for each in whole if each.problem is None), next(iter(whole), None))


def _copied(expected: ExpectedObject, seen: list[_Seen]) -> int | None:
    """Return the number of another object whose content it has, locked as requested; None if there is none."""
    content = seen[0].content
    return content[0] if content is not None and content[0] != expected.number and seen[0].problem is None else None


def _state(problem: str | None) -> str:
    return f"intact, but {problem}" if problem else "intact, and locked as requested"


def _read(control: Control, expected: ExpectedObject, version: KeyVersion, *, is_latest: bool) -> _Seen:
    try:
        content = _content(control, expected, version)
        problem = None
        if content is not None and (content == (expected.number, 1) or content[0] != expected.number):
            lock = control.lock_of_version(expected.bucket, expected.key, version.id)
            found = unexpected_lock(lock, expected.lock)
            problem = found.words if found else None
    except PlatformError as error:
        return _Seen(version.id, is_latest, None, unreadable=str(error))
    return _Seen(version.id, is_latest, content, problem)


def _content(control: Control, expected: ExpectedObject, version: KeyVersion) -> tuple[int, int] | None:
    """Return object number and content version of a complete version; None: other bytes."""
    size_bytes = version.size_bytes
    end_at = max(0, size_bytes - LAST_BLOCK_BYTES)
    end = b"".join(control.content_of(expected.bucket, expected.key, version.id, end_at)) if size_bytes else b""
    number, content_version = named = expected.content.named_in(end) or (expected.number, 1)  # too small for its number
    if (number, content_version) == (expected.number, 1) and size_bytes != expected.size_bytes:
        return None
    check = ContentCheck(expected.content.reaching(size_bytes), number, size_bytes, content_version)
    for piece in control.content_of(expected.bucket, expected.key, version.id):
        check.feed(piece)
    return named if check.finish() else None
