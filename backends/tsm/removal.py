"""Cleanup on a TSM server: delete the objects that the server allows, and report what it keeps and why.

The server refuses a transaction as a whole. So cleanup tries to delete only objects that have expired by the server's
own dates, and leaves the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from archiver.values.errors import PlatformError
from backends.base import Location, RemovalReport
from backends.tsm.index import number_in
from backends.tsm.library.api import ApiSession, ArchivedObject, TsmError, seconds_of
from backends.tsm.library.codes import Code

_UNKNOWN_SPACE = (Code.FILE_SPACE_NOT_FOUND, Code.FSNAME_NOTFOUND, Code.FS_NOT_REGISTERED)


def remove(
    session: ApiSession,
    server: Any,
    location: Location,
    numbers: range | None,
    zone_seconds: int,
    *,
    release_holds: bool,
) -> RemovalReport:
    """Delete a run's expired objects, those under a hold last, then the run's own file space if it is empty.

    ``server`` is the ApiSessInfo. ``numbers`` are those that the run may have used; None: every object is the run's.
    Raises TsmError if the connection is lost, PlatformError if the server lists objects of other names.
    """
    report = RemovalReport()
    limit = server.maxObjPerTxn
    try:
        listed = _listed(session, location)
    except TsmError as error:
        if error.code not in _UNKNOWN_SPACE:
            raise
        report.bucket_missing = True
        return report
    if not listed and not session.has_space(location.bucket):  # some libraries accept queries in unknown spaces
        report.bucket_missing = True
        return report
    objects = _of_run(listed, location, numbers)
    report.names_of_others = len(
        {(one.high_level, one.low_level) for one in listed} - {(one.high_level, one.low_level) for one in objects}
    )
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
        left = _delete(session, _of_run(_listed(session, location), location, numbers), is_due, limit, report)
    report.objects_left = len(left)
    report.on_hold = any(one.held for one in left)
    report.locked_until = max((one.expires - zone_seconds for one in left if one.expires is not None), default=None)
    if location.bucket_created and not left:
        _delete_space(session, location.bucket, report)
    return report


def _listed(session: ApiSession, location: Location) -> list[ArchivedObject]:
    """Return the objects under the run's high-level name. Raises PlatformError for an object that is not under it."""
    top = f"/{location.prefix}/" if location.prefix else "/"  # without a prefix the whole file space is the run's
    listed = list(session.archives(location.bucket, f"{top}*"))
    for one in listed:
        if one.space != location.bucket.encode() or not one.high_level.startswith(top.encode()):
            name = (one.space + one.high_level + one.low_level).decode(errors="replace")
            raise PlatformError(
                f"{location.endpoint}: a query for objects under {location.bucket}{top} returned {name}; such a list "
                "cannot be trusted, so nothing is removed"
            )
    return listed


def _of_run(listed: Sequence[ArchivedObject], location: Location, numbers: range | None) -> Sequence[ArchivedObject]:
    if numbers is None:
        return listed
    return [one for one in listed if number_in(one, location.bucket, location.prefix) in numbers]


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
        if any(True for _ in session.archives(space, "*")):
            report.bucket_kept = "it has content that the run did not put there"
            return
        session.delete_space(space)
        report.bucket_removed = True
    except TsmError as error:
        _quote(error, report)
        report.bucket_kept = "the server refuses to delete it"


def _quote(error: TsmError, report: RemovalReport) -> None:
    """Add the text of a refusal to the report. Raises ``error`` again if the connection is lost."""
    if error.lost:
        raise error
    if str(error) not in report.refusals:
        report.refusals.append(str(error))


def _chunks(objects: Sequence[ArchivedObject], size: int) -> Iterator[Sequence[ArchivedObject]]:
    for first in range(0, len(objects), size):
        yield objects[first : first + size]
