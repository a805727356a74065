"""Cleanup on a TSM server: delete the objects that the server allows, and report what it keeps and why.

The server refuses a transaction as a whole. So cleanup tries to delete only objects that have expired by the server's
own dates, and leaves the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from backends.base import Location, RemovalReport
from backends.tsm.library.api import ApiSession, ArchivedObject, TsmError, seconds_of
from backends.tsm.library.codes import Code

_UNKNOWN_SPACE = (Code.FILE_SPACE_NOT_FOUND, Code.FSNAME_NOTFOUND, Code.FS_NOT_REGISTERED)


def remove(
    session: ApiSession, server: Any, location: Location, zone_seconds: int, *, release_holds: bool
) -> RemovalReport:
    """Delete a run's expired objects, those under a hold last, then the run's own file space if it is empty.

    ``server`` is the ApiSessInfo. Raises TsmError if the connection is lost.
    """
    report = RemovalReport()
    pattern = f"/{location.prefix}/*"
    limit = server.maxObjPerTxn
    try:
        objects = list(session.archives(location.bucket, pattern))
    except TsmError as error:
        if error.code not in _UNKNOWN_SPACE:
            raise
        report.bucket_missing = True
        return report
    if not objects and not session.has_space(location.bucket):  # some libraries accept queries in unknown spaces
        report.bucket_missing = True
        return report
    # A protected server deletes no object before it expires; another deletes any object that is not on hold.
    now = seconds_of(server.serverDate) or 0
    protected = bool(server.archiveRetentionProtection)

    def is_due(one: ArchivedObject) -> bool:
        return not one.held and not (protected and (one.expires is None or one.expires > now))

    left = _delete(session, objects, is_due, limit, report)
    held = [one for one in left if one.held]
    if release_holds and held:
        for chunk in _chunks(held, limit):
            try:
                session.release([one.id for one in chunk])
            except TsmError as error:
                _quote(error, report)
        left = _delete(session, list(session.archives(location.bucket, pattern)), is_due, limit, report)
    report.objects_left = len(left)
    report.on_hold = any(one.held for one in left)
    report.locked_until = max((one.expires - zone_seconds for one in left if one.expires is not None), default=None)
    if location.bucket_created and not left:
        _delete_space(session, location.bucket, report)
    return report


def _delete(
    session: ApiSession,
    objects: Sequence[ArchivedObject],
    is_due: Callable[[ArchivedObject], bool],
    limit: int,
    report: RemovalReport,
) -> list[ArchivedObject]:
    """Delete the objects that are due; return those that are left."""
    gone: set[int] = set()
    for chunk in _chunks([one for one in objects if is_due(one)], limit):
        try:
            session.delete([one.id for one in chunk])
        except TsmError as error:
            _quote(error, report)
        else:
            gone |= {one.id for one in chunk}
            report.objects_removed += len(chunk)
            report.bytes_removed += sum(one.size_bytes for one in chunk)
    return [one for one in objects if one.id not in gone]


def _delete_space(session: ApiSession, space: str, report: RemovalReport) -> None:
    """Delete the run's own file space unless it contains objects of others."""
    try:
        if not any(True for _ in session.archives(space, "*")):
            session.delete_space(space)
            report.bucket_removed = True
    except TsmError as error:
        _quote(error, report)


def _quote(error: TsmError, report: RemovalReport) -> None:
    """Add the text of a refusal to the report. Raises ``error`` again if the connection is lost."""
    if error.lost:
        raise error
    if str(error) not in report.refusals:
        report.refusals.append(str(error))


def _chunks(objects: Sequence[ArchivedObject], size: int) -> Iterator[Sequence[ArchivedObject]]:
    for first in range(0, len(objects), size):
        yield objects[first : first + size]
