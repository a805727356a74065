"""An S3 request as values: names, query, and the values of its headers.

One idea: names are opaque. The path is percent-decoded once, so `a//b`, `../x` and `dir/` are three ordinary keys.
Every header that the server uses is turned into a value of the core here, or refused here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

from aiohttp import web
from multidict import MultiMapping

from ...core.rules.locks import UNLOCKED, Mode, VersionLock, VersionRetention
from .. import event_holds, xml
from ..credentials import Credential
from ..errors import S3Error, invalid_argument
from .body import Claims, receive_document
from .signature import Signed

KEY_BYTES_MAX = 1024
OWNER_ID = "archiver"  # of everything
REGION = "us-east-1"
_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")
# Amazon reserves these, so a bucket of such a name could not exist there.
_RESERVED_BEGINNINGS = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_ENDINGS = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")
_RANGE = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})")
MODE_HEADER = "x-amz-object-lock-mode"
UNTIL_HEADER = "x-amz-object-lock-retain-until-date"
HOLD_HEADER = "x-amz-object-lock-legal-hold"
EVENT_HOLD_HEADER = "x-amz-object-lock-event-hold"
EVENT_HOLD_DAYS_HEADER = "x-amz-object-lock-event-hold-duration-days"
EVENT_HOLD_YEARS_HEADER = "x-amz-object-lock-event-hold-duration-years"
_RETENTION_HEADERS = (MODE_HEADER, UNTIL_HEADER, EVENT_HOLD_HEADER, EVENT_HOLD_DAYS_HEADER, EVENT_HOLD_YEARS_HEADER)
BYPASS_HEADER = "x-amz-bypass-governance-retention"
PUT_OF_A_SOURCE = "PUT of a source"  # the method of a PUT that names a source object; no client can send it
UNKNOWN = "Unknown"  # the name of a call before the request is parsed

# Every subresource of S3, offered or not: a call on an unknown one would be handled as a plain call.
SUBRESOURCES = frozenset(
    {
        "abac", "accelerate", "acl", "analytics", "annotation", "attributes", "cors", "delete",
        "encryption", "intelligent-tiering", "inventory", "legal-hold", "lifecycle", "location",
        "logging", "metadataConfiguration", "metadataInventoryTable", "metadataJournalTable",
        "metadataTable", "metrics", "notification", "object-lock", "ownershipControls", "partNumber",
        "policy", "policyStatus", "publicAccessBlock", "renameObject", "replication", "requestPayment",
        "restore", "retention", "select", "session", "tagging", "torrent", "uploadId", "uploads",
        "versioning", "versions", "website",
    }
)  # fmt: skip


class S3Call:
    """One request. `name` is MinIO's name of the call, so that the counts of both can be compared."""

    __slots__ = ("bucket", "headers", "key", "name", "query", "request", "request_id", "signed")

    def __init__(self, request: web.BaseRequest, request_id: str) -> None:
        self.request = request
        self.request_id = request_id
        self.headers = lower_headers(request.headers)
        self.name = UNKNOWN
        self.bucket = ""
        self.key = ""
        self.query: Mapping[str, str] = {}
        self.signed: Signed

    @property
    def credential(self) -> Credential:
        return self.signed.credential

    def require(self, right: str) -> None:
        if not self.credential.may(right):
            raise S3Error("AccessDenied", f"credential {self.credential.name!r} lacks the right {right!r}")

    @property
    def version_id(self) -> str | None:
        version_id = self.query.get("versionId")
        if version_id == "":
            raise invalid_argument("Version id cannot be the empty string", "versionId", "")
        return version_id

    async def body(self, *, integrity: bool = False) -> bytes:
        """Receive the body of a call with a document; `integrity`: Amazon requires a digest of it. Raises S3Error."""
        claims = Claims.of(self.headers)
        if integrity and not claims.any:
            raise S3Error("InvalidRequest", "Missing required header for this request: Content-MD5 or x-amz-checksum-*")
        return await receive_document(self.request, self.signed, self.headers, claims)


def lower_headers(headers: MultiMapping[str]) -> dict[str, str]:
    """Return headers by lower-case name. A repeated header has all its values, joined as a signature joins them."""
    lower = {name.lower(): value for name, value in headers.items()}
    if len(lower) != len(headers):
        lower = {name: ",".join(headers.getall(name)) for name in lower}
    return lower


def decode_name(raw: str) -> str:
    if "%" not in raw and raw.isascii():
        return raw
    try:
        return unquote_to_bytes(raw.encode("utf-8", "surrogateescape")).decode()
    except UnicodeDecodeError:
        raise S3Error("InvalidURI", "names must be UTF-8, percent-encoded once") from None


def check_key(key: str) -> None:
    if len(key.encode()) > KEY_BYTES_MAX:
        raise S3Error("KeyTooLongError", f"a key may have at most {KEY_BYTES_MAX} bytes of UTF-8")


def check_bucket_name(name: str) -> None:
    if (
        _BUCKET_NAME.fullmatch(name) is None
        or ".." in name
        or _ADDRESS.fullmatch(name)
        or name.startswith(_RESERVED_BEGINNINGS)
        or name.endswith(_RESERVED_ENDINGS)
    ):
        raise S3Error(
            "InvalidBucketName",
            "3 to 63 lower-case letters, digits, dots and hyphens; no address, and no name that Amazon reserves",
            {"BucketName": name},
        )


def check_owner(headers: Mapping[str, str]) -> None:
    """Return if the expected bucket owners are the one owner of the store. Raises S3Error."""
    for name in ("x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner"):
        if headers.get(name, OWNER_ID) != OWNER_ID:
            raise S3Error("AccessDenied", f"the bucket's owner is {OWNER_ID!r}, not the one of {name}")


def parse_query(raw_query: str) -> dict[str, str]:
    query: dict[str, str] = {}
    for part in raw_query.split("&"):
        name, _, value = part.replace("+", " ").partition("=")
        if query.setdefault(decode_name(name), decode_name(value)) != decode_name(value):
            # Their order is not signed, so a proxy could choose which one counts.
            raise S3Error("InvalidArgument", f"the parameter {decode_name(name)!r} comes twice")
    return query


def lock_of_headers(call: S3Call) -> VersionLock:
    """Return the lock that an upload requests. Raises S3Error if it is malformed or the credential may not set it."""
    headers = call.headers
    hold = headers.get(HOLD_HEADER)
    if hold is None and headers.keys().isdisjoint(_RETENTION_HEADERS):
        return UNLOCKED
    retention = _retention_of_headers(call)
    if hold is None:
        return VersionLock(retention)
    call.require("hold")
    if hold not in ("ON", "OFF"):
        raise invalid_argument("Legal Hold must be either of 'ON' or 'OFF'", HOLD_HEADER, hold)
    return VersionLock(retention, hold == "ON")


def _retention_of_headers(call: S3Call) -> VersionRetention | None:
    mode, until, status, days, years = map(call.headers.get, _RETENTION_HEADERS)
    if mode is until is status is days is years is None:
        return None
    call.require("retention")
    event_hold = event_holds.parse(status, days, years, has_mode=mode is not None)
    if mode is None or (until is None and (event_hold is None or event_hold.period is None)):
        raise invalid_argument(
            "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied",
            MODE_HEADER if mode is None else UNTIL_HEADER,
            "",
        )
    if mode not in Mode.__members__:
        raise invalid_argument("Unknown wormMode directive.", MODE_HEADER, mode)
    try:
        return VersionRetention(Mode(mode), 0 if until is None else xml.instant_of_text(until), event_hold)
    except (ValueError, OverflowError):
        raise invalid_argument("The retain until date must be an ISO 8601 instant", UNTIL_HEADER, until or "") from None


def byte_range(header: str, size: int) -> tuple[int, int, int]:
    """Return start, length and status for a header with one range; for any other header the whole object's."""
    match = _RANGE.fullmatch(header.strip())
    if match is None or match.groups() == ("", ""):
        return 0, size, 200
    first, last = match.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < int(first):
            return 0, size, 200
    if start >= end:
        raise S3Error(
            "InvalidRange",
            "The requested range is not satisfiable",
            {"RangeRequested": header, "ActualObjectSize": str(size)},
            {"Content-Range": f"bytes */{size}"},
        )
    return start, end - start, 206
