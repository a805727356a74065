"""What cleanup does on a TSM server: delete what the server lets go, and say what it keeps and why.

One idea: a transaction is refused as a whole, so only what is due by the server's own dates is asked for; the rest is
left without trying.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from backends.base import Location, RemovalReport
from backends.tsm.api import ApiSession, ArchivedObject, TsmError, seconds_of
from backends.tsm.codes import Code

_UNKNOWN_SPACE = (Code.FILE_SPACE_NOT_FOUND, Code.FSNAME_NOTFOUND, Code.FS_NOT_REGISTERED)


def remove(
    session: ApiSession, server: Any, location: Location, zone_seconds: int, *, release_holds: bool
) -> RemovalReport:
    """Delete a run's objects as far as they are due, those held last, and its own file space once that is empty.

    ``server`` is its ApiSessInfo. Raises TsmError where the connection is lost.
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
    if not objects and not session.has_space(location.bucket):  # not every library minds asking in a space unknown
        report.bucket_missing = True
        return report
    # A protected server lets nothing go before its expiry; another lets go whatever is not held.
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
    """Delete those of the objects that are due; returns what is left."""
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
    """Delete the run's own file space, unless somebody else has put something into it."""
    try:
        if not any(True for _ in session.archives(space, "*")):
            session.delete_space(space)
            report.bucket_removed = True
    except TsmError as error:
        _quote(error, report)


def _quote(error: TsmError, report: RemovalReport) -> None:
    """Keep a refusal's words; a connection that is lost refuses nothing."""
    if error.lost:
        raise error
    if str(error) not in report.refusals:
        report.refusals.append(str(error))


def _chunks(objects: Sequence[ArchivedObject], size: int) -> Iterator[Sequence[ArchivedObject]]:
    for first in range(0, len(objects), size):
        yield objects[first : first + size]
