"""A closer look at one object that was found wanting: at every version of it.

One idea: a store that keeps versions loses nothing when a key is overwritten or deleted, it only hides it. So what an
auditor gets under a name is one thing, and what is there another.
"""

from __future__ import annotations

from dataclasses import dataclass

from archiver.content import Content, ContentCheck
from archiver.errors import PlatformError
from backends.base import CloserLook, ExpectedLock
from backends.s3.control import Control
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


def look_closer(control: Control, asked: AskedObject) -> CloserLook:
    """What there is of it. Raises PlatformError where versions cannot be listed."""
    every = control.versions_of(asked.bucket, asked.key)
    versions = [each for each in every if not each.is_marker]
    if not versions:
        return CloserLook("nothing but a delete marker is left of it" if every else "no version of it is left")
    latest = next((each for each in every if each.is_latest), every[0])
    seen: list[str] = []
    for version in versions[:VERSIONS_READ_MAX]:
        try:
            if not _is_whole(control, asked, version.id):
                seen.append(f"version {version.id} has other bytes than were archived")
                continue
            lock = control.lock_of_version(asked.bucket, asked.key, version.id)
        except PlatformError as error:
            seen.append(str(error))
            continue
        problem = lock_problem(lock, asked.lock.retention, asked.lock.earliest, asked.lock.latest)
        state = f"intact, but {problem.words}" if problem else "intact, and locked as it was asked for"
        if version.id == latest.id:
            seen.append(f"on a second reading it was {state}")
            continue
        cover = "a delete marker" if latest.is_marker else "a newer version"
        return CloserLook(f"hidden by {cover}; the version that was archived, {version.id}, is {state}", hidden=True)
    more = f" (of {len(versions):,} versions)" if len(versions) > len(seen) else ""
    return CloserLook("; ".join(seen) + more)


def _is_whole(control: Control, asked: AskedObject, version: str) -> bool:
    check = ContentCheck(asked.content, asked.number, asked.size_bytes)
    for piece in control.content_of(asked.bucket, asked.key, version):
        check.feed(piece)
    return check.finish()
