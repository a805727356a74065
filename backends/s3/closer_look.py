"""A closer look at one object that was found wanting: at every version of it.

One idea: a store that keeps versions loses nothing when a key is overwritten or deleted, it only hides it. So what an
auditor gets under a name is one thing, and what is there another.
"""

from __future__ import annotations

from dataclasses import dataclass

from archiver.values.content import LAST_BLOCK_BYTES, Content, ContentCheck
from archiver.values.errors import PlatformError
from backends.base import CloserLook, ExpectedLock
from backends.s3.control import Control, KeyVersion
from backends.s3.reported_lock import lock_problem

VERSIONS_READ_MAX = 20  # of one object


@dataclass(frozen=True, slots=True)
class AskedObject:
    """An object as it was archived."""

    bucket: str
    key: str
    number: int
    size_bytes: int
    content: Content
    lock: ExpectedLock


@dataclass(frozen=True, slots=True)
class _Seen:
    """One version of an object as it was read again."""

    id: str
    is_latest: bool
    content: tuple[int, int] | None  # object number and content version that it is, whole; None: other bytes
    problem: str | None = None  # with its lock, where it is the content that was archived
    unreadable: str | None = None  # why

    def words(self, asked: AskedObject) -> str:
        """Of a version that is not the one that was archived, or not as it was."""
        if self.unreadable is not None:
            return self.unreadable
        if self.content is None:
            return f"version {self.id} has other bytes than were archived"
        number, version = self.content
        if number != asked.number:
            return f"version {self.id} is a copy of object {number} of the same run"
        if version != 1:
            return f"version {self.id} is a later content of it, number {version}"
        return f"on a second reading it was {_state(self.problem)}"


def look_closer(control: Control, asked: AskedObject) -> CloserLook:
    """What there is of it. Raises PlatformError where versions cannot be listed."""
    every = control.versions_of(asked.bucket, asked.key)
    versions = [each for each in every if not each.is_marker]
    if not versions:
        return CloserLook("nothing but a delete marker is left of it" if every else "no version of it is left")
    latest = next((each for each in every if each.is_latest), every[0])
    # Where there are too many, the newest and the oldest: the first that was archived is the last of them.
    read = versions if len(versions) <= VERSIONS_READ_MAX else [versions[0], *versions[1 - VERSIONS_READ_MAX :]]
    seen = [_read(control, asked, version, is_latest=version.id == latest.id) for version in read]
    archived = _archived(asked, seen)
    if archived is None or archived.is_latest:
        copy_of = _copied(asked, seen) if len(versions) == 1 else None
        more = f" (of {len(versions):,} versions)" if len(versions) > len(seen) else ""
        return CloserLook("; ".join(each.words(asked) for each in seen) + more, copy_of=copy_of)
    state = f"the version that was archived, {archived.id}, is {_state(archived.problem)}"
    # What else is there must be ours, too: other bytes among it are somebody else's doing.
    is_ours = archived.problem is None and all(
        each is archived or (each.content is not None and each.content[0] == asked.number and each.content[1] > 1)
        for each in seen
    )
    if latest.is_marker:
        return CloserLook(f"hidden by a delete marker; {state}", hidden=True, marked=is_ours)
    if is_ours:
        return CloserLook(f"replaced by later content of the same run; {state}", replaced=True)
    return CloserLook(f"hidden by a newer version; {state}", hidden=True)


def _archived(asked: AskedObject, seen: list[_Seen]) -> _Seen | None:
    """The version that was archived first: the one with its lock, where several have its bytes."""
    whole = [each for each in seen if each.content == (asked.number, 1)]
    return next((each for each in whole if each.problem is None), next(iter(whole), None))


def _copied(asked: AskedObject, seen: list[_Seen]) -> int | None:
    """Of which other object it is a copy, locked as asked for; None: of none."""
    content = seen[0].content
    return content[0] if content is not None and content[0] != asked.number and seen[0].problem is None else None


def _state(problem: str | None) -> str:
    return f"intact, but {problem}" if problem else "intact, and locked as it was asked for"


def _read(control: Control, asked: AskedObject, version: KeyVersion, *, is_latest: bool) -> _Seen:
    try:
        content = _content(control, asked, version)
        problem = None
        if content is not None and (content == (asked.number, 1) or content[0] != asked.number):
            lock = control.lock_of_version(asked.bucket, asked.key, version.id)
            found = lock_problem(lock, asked.lock.retention, asked.lock.earliest, asked.lock.latest)
            problem = found.words if found else None
    except PlatformError as error:
        return _Seen(version.id, is_latest, None, unreadable=str(error))
    return _Seen(version.id, is_latest, content, problem)


def _content(control: Control, asked: AskedObject, version: KeyVersion) -> tuple[int, int] | None:
    """Which object of the run, and which content of it, a version is, whole; None: other bytes."""
    size_bytes = version.size_bytes
    end_at = max(0, size_bytes - LAST_BLOCK_BYTES)
    end = b"".join(control.content_of(asked.bucket, asked.key, version.id, end_at)) if size_bytes else b""
    number, content_version = named = asked.content.named_in(end) or (asked.number, 1)  # too small to name itself
    if (number, content_version) == (asked.number, 1) and size_bytes != asked.size_bytes:
        return None
    check = ContentCheck(asked.content.reaching(size_bytes), number, size_bytes, content_version)
    for piece in control.content_of(asked.bucket, asked.key, version.id):
        check.feed(piece)
    return named if check.finish() else None
