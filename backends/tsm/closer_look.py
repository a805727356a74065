"""Details of one object that failed an audit: all objects that the server has under its name.

A name may have been archived more than once. Each archive is an object of its own and stays visible.
"""

from __future__ import annotations

from collections.abc import Sequence

from archiver.values.sizes import format_instant
from backends.base import ExpectedLock
from backends.tsm.index import Target, archived_at, version_of
from backends.tsm.library.api import ApiSession, ArchivedObject
from backends.tsm.lock import LockRule
from backends.tsm.transfer import Transfer

OBJECTS_READ_MAX = 20  # of one name


def look_closer(
    session: ApiSession,
    objects: Sequence[ArchivedObject],
    transfer: Transfer,
    number: int,
    size_bytes: int,
    rule: LockRule,
    lock: ExpectedLock,
) -> str:
    """Describe each of ``objects``, which all have the name of object ``number``."""
    if not objects:
        return "the server has no object of that name"
    seen = []
    for one in sorted(objects, key=archived_at)[:OBJECTS_READ_MAX]:
        version = version_of(one)
        failure = transfer.retrieve_whole(session.handle, Target(number, size_bytes, version, id=one.id)).failure
        state = failure.message if failure else "intact"
        archived = format_instant(one.archived - rule.zone_seconds)
        if version > 1:
            # Versions that the run archived later have other dates, and the audit was not about them.
            seen.append(f"object {one.id}, archived at {archived} as content version {version}: {state}")
            continue
        problem = rule.problem(one, lock.retention, lock.earliest, lock.latest)
        kept = problem.words if problem else "kept as requested"
        seen.append(f"object {one.id}, archived at {archived}: {state}; {kept}")
    more = [f"{len(objects) - len(seen):,} more of that name"] if len(objects) > len(seen) else []
    return ". ".join([*seen, *more])
