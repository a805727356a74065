"""The XML documents of S3: those that the server reads and those that it writes.

One idea: parsing turns elements into values of the core, and writing does the reverse. A document that its call does
not accept is MalformedXML, as at Amazon. A well-formed but wrong value is InvalidArgument.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

from ..core.changes.uploads import Listed
from ..core.files.digests import CHECKSUM_KINDS
from ..core.rules.locks import (
    LONGEST_RETENTION_DAYS,
    LONGEST_RETENTION_YEARS,
    DefaultRetention,
    Mode,
    Period,
    VersionRetention,
)
from ..core.tables.uploads import NUMBER_MAX
from . import bounded_xml, event_holds
from .errors import S3Error, invalid_argument, plain_number

_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]")


def malformed() -> S3Error:
    return S3Error(
        "MalformedXML",
        "The XML you provided was not well-formed or did not validate against our published schema",
    )


def text_of_instant(instant_ms: int) -> str:
    """Format an instant as ISO 8601 with milliseconds. A date cut to seconds would be an earlier one."""
    seconds = datetime.fromtimestamp(instant_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{seconds}.{instant_ms % 1000:03d}Z"


@lru_cache(maxsize=64)  # clients send the same date with object after object
def instant_of_text(text: str) -> int:
    """Return the milliseconds of an ISO 8601 instant, rounded up. Raises ValueError."""
    instant = datetime.fromisoformat(text.strip())
    if instant.tzinfo is None:
        raise ValueError("an instant needs a zone")
    whole = int(instant.replace(microsecond=0).timestamp())
    return whole * 1000 + -(-instant.microsecond // 1000)


# Reading.


def parse(body: bytes, root: str) -> Element:
    """Return the root element if it has the name `root`. Names lose their namespace. Raises S3Error MalformedXML."""
    try:
        element = bounded_xml.parse(body)
    except bounded_xml.NotPlain:
        raise malformed() from None
    for each in element.iter():
        each.tag = each.tag.rpartition("}")[2]
    if element.tag != root:
        raise malformed()
    return element


def _mode(element: Element) -> Mode | None:
    text = element.findtext("Mode")
    try:
        return None if text is None else Mode(text)
    except ValueError:
        raise malformed() from None


def parse_retention(body: bytes) -> VersionRetention | None:
    """Parse a Retention document. None for an empty one, which requests the removal of the retention. Raises
    S3Error.
    """
    root = parse(body, "Retention")
    mode, date = _mode(root), root.findtext("RetainUntilDate")
    days, years = root.findtext("EventHoldDuration/Days"), root.findtext("EventHoldDuration/Years")
    hold = event_holds.parse(root.findtext("EventHold"), days, years, has_mode=mode is not None)
    if mode is None and date is None:
        return None
    if mode is None or (date is None and hold is None):
        raise malformed()
    try:
        return VersionRetention(mode, 0 if date is None else instant_of_text(date), hold)
    except ValueError:
        raise malformed() from None


def parse_legal_hold(body: bytes) -> bool:
    status = parse(body, "LegalHold").findtext("Status")
    if status not in ("ON", "OFF"):
        raise malformed()
    return status == "ON"


def parse_versioning(body: bytes) -> str:
    root = parse(body, "VersioningConfiguration")
    status = root.findtext("Status")
    if status not in ("Enabled", "Suspended"):
        raise malformed()
    if root.findtext("MfaDelete") == "Enabled":
        raise S3Error("NotImplemented", "MFA delete is not offered")
    return status


def parse_lock_configuration(body: bytes) -> DefaultRetention | None:
    """Parse the default retention. None for a document without a rule, which clears it. Raises S3Error."""
    root = parse(body, "ObjectLockConfiguration")
    if root.findtext("ObjectLockEnabled") != "Enabled":
        raise malformed()
    rule = root.find("Rule")
    if rule is None:
        return None
    default = rule.find("DefaultRetention")
    if default is None:
        raise malformed()
    mode, days, years = _mode(default), default.findtext("Days"), default.findtext("Years")
    hold = default.find("DefaultEventHold")
    held_for = None if hold is None else event_holds.parse_period(hold.findtext("Days"), hold.findtext("Years"))
    has_period = days is not None or years is not None
    if mode is None or (days is not None and years is not None) or not (has_period or held_for):
        raise malformed()
    if not has_period:
        return DefaultRetention(mode, None, held_for)
    period = Period(
        _period(days, "Days", LONGEST_RETENTION_DAYS),
        _period(years, "Years", LONGEST_RETENTION_YEARS),
    )
    return DefaultRetention(mode, period, held_for)


def _period(text: str | None, name: str, longest: int) -> int | None:
    if text is None:
        return None
    try:
        period = int(text)
    except ValueError:
        raise malformed() from None
    if period <= 0:
        raise invalid_argument("Default retention period must be a positive integer value.", name, text)
    if period > longest:
        raise invalid_argument(f"Default retention period too large; at most {longest} {name.lower()}", name, text)
    return period


class Named(NamedTuple):
    """An object that a Delete document names."""

    key: str
    version_id: str | None
    etag: str | None  # the condition of its deletion


def parse_delete(body: bytes) -> tuple[list[Named], bool]:
    """Parse the objects of a Delete document, and whether it requests a quiet answer. Raises S3Error."""
    root = parse(body, "Delete")
    named = []
    for each in root.findall("Object"):
        key = each.findtext("Key")
        if not key:
            raise malformed()
        object_named = Named(key, each.findtext("VersionId") or None, each.findtext("ETag"))
        for element_name in ("LastModifiedTime", "Size", *(("ETag",) if object_named.version_id else ())):
            if each.find(element_name) is not None:
                raise S3Error("NotImplemented", f"deletes on the condition of {element_name} are not offered here")
        named.append(object_named)
    if not 1 <= len(named) <= 1000:
        raise malformed()
    return named, root.findtext("Quiet") == "true"


def parse_completion(body: bytes) -> list[Listed]:
    """Parse the parts of a CompleteMultipartUpload document. Raises S3Error."""
    listed = []
    for each in parse(body, "CompleteMultipartUpload").findall("Part"):
        number, etag = plain_number(each.findtext("PartNumber", "")), each.findtext("ETag", "").strip().strip('"')
        if number is None or not etag:
            raise malformed()
        checksums = {kind: each.findtext(f"Checksum{kind.upper()}") for kind in CHECKSUM_KINDS}
        listed.append(Listed(number, etag, {kind: value for kind, value in checksums.items() if value}))
    if not 1 <= len(listed) <= NUMBER_MAX:
        raise malformed()
    return listed


def parse_tagging(body: bytes) -> list[tuple[str, str]]:
    """Parse names and values of a Tagging document. Raises S3Error."""
    tag_set = parse(body, "Tagging").find("TagSet")
    if tag_set is None:
        raise malformed()
    return [(each.findtext("Key", ""), each.findtext("Value", "")) for each in tag_set.findall("Tag")]


# Writing. `element` escapes its content; `group` and `document` join elements.


def element(name: str, content: str | int | None) -> str:
    """Return an element with text; an empty string for None."""
    if content is None:
        return ""
    text = escape(str(content))
    if _UNPRINTABLE.search(text):
        text = _UNPRINTABLE.sub(lambda match: f"&#x{ord(match[0]):x};", text)
    return f"<{name}>{text}</{name}>"


def group(name: str, parts: Iterable[str]) -> str:
    return f"<{name}>{''.join(parts)}</{name}>"


def document(name: str, parts: Iterable[str]) -> bytes:
    return f'{_HEAD}<{name} xmlns="{_NAMESPACE}">{"".join(parts)}</{name}>'.encode()


def error_document(code: str, message: str, resource: str, request_id: str, details: dict[str, str]) -> bytes:
    parts = [element("Code", code), element("Message", message)]
    parts += [element(name, value) for name, value in details.items()]
    parts += [element("Resource", resource), element("RequestId", request_id)]
    return (_HEAD + group("Error", parts)).encode("utf-8", "replace")


def retention_document(retention: VersionRetention, now_ms: int) -> bytes:
    parts = [element("Mode", retention.mode), element("RetainUntilDate", text_of_instant(retention.ends_ms(now_ms)))]
    if retention.event_hold is not None:
        held_for = retention.held_for
        parts.append(element("EventHold", "OFF" if held_for is None else "ON"))
        parts += [] if held_for is None else [group("EventHoldDuration", _period_elements(held_for))]
    return document("Retention", parts)


def _period_elements(period: Period) -> list[str]:
    return [element("Days", period.days), element("Years", period.years)]


def lock_configuration_document(default: DefaultRetention | None) -> bytes:
    parts = [element("ObjectLockEnabled", "Enabled")]
    if default is not None:
        inside = [element("Mode", default.mode)]
        if default.period is not None:
            inside += _period_elements(default.period)
        if default.held_for is not None:
            inside.append(group("DefaultEventHold", _period_elements(default.held_for)))
        parts.append(group("Rule", [group("DefaultRetention", inside)]))
    return document("ObjectLockConfiguration", parts)
