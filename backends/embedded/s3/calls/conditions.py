"""Conditional requests: on the object to read, on the source of a copy, on the object to replace or delete.

One idea: the server refuses a condition that it does not know. The client relies on it: without the condition the
request could delete or replace an object that the client wanted to keep.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from ...core.changes.objects import UNCONDITIONAL, WriteCondition
from ...core.tables.catalogue import VersionRow
from ..errors import S3Error

UNCHANGED = frozenset({"if-none-match", "if-modified-since"})  # if one is false, a read is answered 304 and not 412
_OF_READS = ("if-match", "if-none-match", "if-modified-since", "if-unmodified-since")
_NO_CONDITIONS = [None] * len(_OF_READS)
_ONLY_DIRECTORIES = ("x-amz-if-match-last-modified-time", "x-amz-if-match-size")


def unmet(headers: Mapping[str, str], version: VersionRow, prefix: str = "") -> str | None:
    """Return the first condition that is false for the version, or None. `prefix`: of the names of its headers.

    If a pair has both, a matching ETag overrides the date (RFC 9110, 13.2.2).
    """
    sent = [headers.get(prefix + name) for name in _OF_READS]
    if sent == _NO_CONDITIONS:
        return None
    match, no_match = map(_etags, sent[:2])
    after, before = map(_date, sent[2:])
    written = datetime.fromtimestamp(version.created_ms // 1000, UTC)
    if match is not None:
        if not match & {version.etag, "*"}:
            return "if-match"
    elif before is not None and written > before:
        return "if-unmodified-since"
    if no_match is not None:
        return "if-none-match" if no_match & {version.etag, "*"} else None
    return "if-modified-since" if after is not None and written <= after else None


def failed(name: str) -> S3Error:
    return S3Error(
        "PreconditionFailed", "At least one of the pre-conditions you specified did not hold", {"Condition": name}
    )


def of_write(headers: Mapping[str, str]) -> WriteCondition:
    """Return the condition for an upload, a copy or a completed upload to become the newest version."""
    match, no_match = headers.get("if-match"), headers.get("if-none-match")
    if match is no_match is None:
        return UNCONDITIONAL
    if no_match is not None:
        if no_match != "*" or match is not None:
            raise _not_offered("If-None-Match")
        return WriteCondition(only_if_absent=True)
    return of_etag(match)


def of_deletion(headers: Mapping[str, str]) -> WriteCondition:
    """Return the condition for a deletion of an object or a version."""
    for name in _ONLY_DIRECTORIES:
        if name in headers:
            raise _not_offered(name)
    return of_etag(headers.get("if-match"))


def of_etag(etag: str | None) -> WriteCondition:
    return UNCONDITIONAL if etag is None else WriteCondition(only_if_etag=etag.strip().strip('"'))


def _not_offered(header: str) -> S3Error:
    return S3Error(
        "NotImplemented", "A header you provided implies functionality that is not implemented", {"Header": header}
    )


def _etags(header: str | None) -> set[str] | None:
    return None if header is None else {each.strip().strip('"') for each in header.split(",")}


def _date(header: str | None) -> datetime | None:
    """Parse a date. A text that is no date is no condition, as in HTTP."""
    with suppress(ValueError, OverflowError):  # OverflowError: a zone of very many hours
        found = None if header is None else parsedate_to_datetime(header)
        return found if found is None or found.tzinfo is not None else found.replace(tzinfo=UTC)
    return None
