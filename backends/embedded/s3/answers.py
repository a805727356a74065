"""Parts of answers that several S3 calls share: headers and elements for versions, checksums and locks.

One idea: a checksum is kept as `kind:base64`. The digest of a multipart object's part digests ends with the number of
parts, as Amazon writes it. So the text alone tells its type.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from ..core.changes.objects import ChangeResult
from ..core.changes.uploads import COMPOSITE, FULL_OBJECT
from ..core.rules.locks import VersionLock
from .requests.request import (
    EVENT_HOLD_DAYS_HEADER,
    EVENT_HOLD_HEADER,
    EVENT_HOLD_YEARS_HEADER,
    HOLD_HEADER,
    MODE_HEADER,
    UNTIL_HEADER,
)
from .xml import element, text_of_instant

Respond = Callable[..., web.Response]  # S3Server's: call, status, body, headers


def stored_headers(stored: ChangeResult) -> dict[str, str]:
    headers = {} if stored.version_id is None else {"x-amz-version-id": stored.version_id}
    if stored.is_marker:
        headers["x-amz-delete-marker"] = "true"
    return headers


def lock_headers(lock: VersionLock, now_ms: int) -> dict[str, str]:
    """Return the headers of a version's lock at `now_ms`: the date moves while an event hold is on."""
    headers = {}
    retention = lock.retention
    if retention is not None:
        headers[MODE_HEADER] = retention.mode.value
        headers[UNTIL_HEADER] = text_of_instant(retention.ends_ms(now_ms))
        if retention.event_hold is not None:
            held_for = retention.held_for
            headers[EVENT_HOLD_HEADER] = "OFF" if held_for is None else "ON"
            if held_for is not None and held_for.days is not None:
                headers[EVENT_HOLD_DAYS_HEADER] = str(held_for.days)
            elif held_for is not None:
                headers[EVENT_HOLD_YEARS_HEADER] = str(held_for.years)
    if lock.legal_hold is not None:
        headers[HOLD_HEADER] = "ON" if lock.legal_hold else "OFF"
    return headers


def checksum_headers(checksum: str | None) -> dict[str, str]:
    """Return the checksum headers of an object."""
    if checksum is None:
        return {}
    return {**part_checksum_headers(checksum), "x-amz-checksum-type": _type_of(checksum)}


def part_checksum_headers(checksum: str | None) -> dict[str, str]:
    if checksum is None:
        return {}
    kind, _, value = checksum.partition(":")
    return {f"x-amz-checksum-{kind}": value}


def checksum_elements(checksum: str | None) -> list[str]:
    """Return the checksum elements of an object."""
    return [] if checksum is None else [part_checksum_element(checksum), element("ChecksumType", _type_of(checksum))]


def listed_checksum_elements(checksum: str | None) -> list[str]:
    """Return the elements of an object in a listing: the kind of the checksum without the checksum."""
    if checksum is None:
        return []
    kind = checksum.partition(":")[0]
    return [element("ChecksumAlgorithm", kind.upper()), element("ChecksumType", _type_of(checksum))]


def part_checksum_element(checksum: str | None) -> str:
    kind, _, value = (checksum or "").partition(":")
    return element(f"Checksum{kind.upper()}", value) if value else ""


def _type_of(checksum: str) -> str:
    return COMPOSITE if "-" in checksum else FULL_OBJECT  # base64 has no hyphen
