"""The operation of an S3 request, from its head and, if necessary, its body.

One idea: the operation follows from the method, the names in the query and a few headers. Nothing else of the request
is kept: no signature, no token and no value of a presigned URL leaves this module.

Reference: S3 API reference, "Actions".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from urllib.parse import unquote, unquote_to_bytes
from xml.etree import ElementTree

from archiver.traces.capture.framing import ChunkReader, Unreadable, headers_of
from archiver.values.record import Operation

LIST = "list"
OTHER = "other"
# Labels are looked up once instead of with every request.
ARCHIVE = Operation.ARCHIVE.label
RETRIEVE = Operation.RETRIEVE.label
RANGE_RETRIEVE = Operation.RANGE_RETRIEVE.label
HEAD = Operation.HEAD.label
QUERY = Operation.QUERY.label
COPY = Operation.COPY.label
EXTEND = Operation.EXTEND.label
HOLD = Operation.HOLD.label
RELEASE = Operation.RELEASE.label
EVENT_HOLDS = {b"ON": Operation.EVENT_HOLD.label, b"OFF": Operation.EVENT_RELEASE.label}  # by the status in the request
DELETE = Operation.DELETE.label
DELETE_MARKER = Operation.DELETE_MARKER.label

# Query names that select another call. Any other name (versionId, x-id, response-...) does not change the call.
_SUBRESOURCES = frozenset(
    {
        "abac", "accelerate", "acl", "analytics", "attributes", "cors", "delete", "encryption",
        "intelligent-tiering", "inventory", "legal-hold", "lifecycle", "location", "logging", "metadataConfiguration",
        "metadataTable", "metrics", "notification", "object-lock", "ownershipControls", "policy", "policyStatus",
        "publicAccessBlock", "renameObject", "replication", "requestPayment", "restore", "retention", "select",
        "session", "tagging", "torrent", "uploadId", "uploads", "versioning", "versions", "website",
    }
)  # fmt: skip
_RANGE = re.compile(rb"bytes=(\d{1,18})-(\d{1,18})?")
_CONTENT_RANGE = re.compile(rb"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_CREDENTIAL = re.compile(rb"Credential=([^/,\s]+)|^AWS ([^:\s]+):")
_MODES = {"GOVERNANCE", "COMPLIANCE"}
_HTTP_STATUS_OF_CODE = {
    "AccessDenied": 403, "InternalError": 500, "InvalidPart": 400, "NoSuchKey": 404, "NoSuchUpload": 404,
    "NoSuchVersion": 404, "NotImplemented": 501, "PreconditionFailed": 412, "ServiceUnavailable": 503, "SlowDown": 503,
}  # fmt: skip


class PartialRequest(Enum):
    """Kind of request that is only a part of an operation, or a list of operations."""

    CREATE = 1  # create a multipart upload
    PART = 2
    COMPLETE = 3
    ABORT = 4
    DELETE_LIST = 5


@dataclass(slots=True)
class CapturedCall:
    """One parsed request."""

    method: bytes
    operation: str
    key: str  # bucket/key; only the bucket for requests without an object
    source: str | None = None  # bucket/key of a copy's source
    size_bytes: int | None = None  # size of its body, if the head contains it
    offset: int | None = None
    length: int | None = None
    retention_mode: str | None = None
    retain_until: float | None = None  # seconds since the epoch
    legal_hold: bool | None = None
    part: PartialRequest | None = None
    upload_id: str = field(default="", repr=False)
    part_number: int = 0
    wants_body: bool = False  # the body completes the call
    is_chunked: bool = False  # its body is aws-chunked
    credential: bytes = field(default=b"", repr=False)  # the access key's id, which identifies the client


@dataclass(frozen=True, slots=True)
class Deletion:
    """One object in a list of deletions."""

    key: str
    has_version: bool


def read_call(head: bytes, hosts: tuple[bytes, ...]) -> tuple[CapturedCall, dict[bytes, bytes]]:
    """Parse the head of a request; return the call and its headers. Raises Unreadable.

    ``hosts``: names below which the host may contain a bucket.
    """
    first, headers = headers_of(head)
    words = first.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        raise Unreadable("it does not begin with an HTTP/1.1 request")
    method, target, _ = words
    if not target.startswith(b"/") and b"://" in target:  # the form of requests to a proxy (RFC 9112, 3.2.2)
        target = b"/" + target.partition(b"://")[2].partition(b"/")[2]
    path, _, raw_query = target.partition(b"?")
    name = decode_name(path[1:])
    bucket_of_host = _bucket_of(headers.get(b"host", b""), hosts)
    if bucket_of_host:
        name = f"{bucket_of_host}/{name}" if name else bucket_of_host
    query = _query_of(raw_query)
    call = CapturedCall(method, OTHER, name, credential=_credential_of(headers, query))
    bucket, _, key = name.partition("/")
    if not key:
        call.key = bucket
    subresources = sorted(_SUBRESOURCES.intersection(query)) if query else []
    if key:
        _read_object_call(call, headers, query, subresources)
    else:
        _read_bucket_call(call, query, subresources)
    call.is_chunked = b"aws-chunked" in headers.get(b"content-encoding", b"") or headers.get(
        b"x-amz-content-sha256", b""
    ).startswith(b"STREAMING-")
    return call, headers


def decode_name(raw: bytes) -> str:
    """Percent-decode a name once; return it unchanged if the result is not UTF-8."""
    if b"%" in raw:
        try:
            return unquote_to_bytes(raw).decode()
        except UnicodeDecodeError:
            pass
    return raw.decode("utf-8", "backslashreplace")


def _query_of(raw: bytes) -> dict[str, str]:
    """Return names and values without decoding them."""
    if not raw:
        return {}
    pairs = (part.partition("=") for part in raw.decode("latin-1").split("&"))
    return {name: value for name, _, value in pairs}


def _bucket_of(host: bytes, hosts: tuple[bytes, ...]) -> str:
    name = host.rpartition(b":")[0] if host[-1:].isdigit() and b":" in host else host
    for domain in hosts:
        if name.lower().endswith(b"." + domain):
            return name[: -len(domain) - 1].decode("latin-1")
    return ""


def _credential_of(headers: dict[bytes, bytes], query: dict[str, str]) -> bytes:
    authorization = headers.get(b"authorization")
    if authorization is not None:
        found = _CREDENTIAL.search(authorization)
        return (found[1] or found[2]) if found else b""
    given = query.get("X-Amz-Credential") or query.get("AWSAccessKeyId") or ""
    return unquote(given).partition("/")[0].encode()


def _read_bucket_call(call: CapturedCall, query: dict[str, str], subresources: list[str]) -> None:
    if call.method == b"GET" and subresources in ([], ["uploads"], ["versions"]):
        call.operation = LIST
        prefix = unquote(query.get("prefix", "").replace("+", " "))
        if prefix and call.key:
            call.key += "/" + prefix
    elif call.method == b"POST" and subresources == ["delete"]:
        call.part = PartialRequest.DELETE_LIST
        call.wants_body = True


def _read_object_call(
    call: CapturedCall, headers: dict[bytes, bytes], query: dict[str, str], subresources: list[str]
) -> None:
    match call.method, subresources:
        case b"GET", []:
            _read_range(call, headers.get(b"range"), by_part="partNumber" in query)
        case b"HEAD", []:
            call.operation = HEAD
        case b"GET", ["retention"] | ["legal-hold"]:
            call.operation = QUERY
        case b"PUT", []:
            call.operation = ARCHIVE
            call.size_bytes = _size_of(headers)
            _read_lock(call, headers)
            _read_source(call, headers)
        case b"PUT", ["retention"]:
            call.operation = EXTEND
            call.wants_body = True
        case b"PUT", ["legal-hold"]:
            call.operation = HOLD
            call.wants_body = True
        case b"DELETE", []:
            call.operation = DELETE if "versionId" in query else DELETE_MARKER
        case b"POST", ["uploads"]:
            call.operation = ARCHIVE
            call.part = PartialRequest.CREATE
            _read_lock(call, headers)
        case b"PUT", ["uploadId"]:
            call.part = PartialRequest.PART
            call.upload_id = unquote(query["uploadId"])
            number = query.get("partNumber", "")
            call.part_number = int(number) if number.isdecimal() and len(number) < 7 else 0
            call.size_bytes = _size_of(headers)
            _read_source(call, headers)
        case b"POST", ["uploadId"]:
            call.operation = ARCHIVE
            call.part = PartialRequest.COMPLETE
            call.upload_id = unquote(query["uploadId"])
            call.wants_body = True
        case b"DELETE", ["uploadId"]:
            call.part = PartialRequest.ABORT
            call.upload_id = unquote(query["uploadId"])


def _read_range(call: CapturedCall, value: bytes | None, *, by_part: bool) -> None:
    if value is None:
        call.operation = RANGE_RETRIEVE if by_part else RETRIEVE
        return
    call.operation = RANGE_RETRIEVE
    match = _RANGE.fullmatch(value)
    if match is not None:
        call.offset = int(match[1])
        if match[2] is not None:
            call.length = max(0, int(match[2]) + 1 - call.offset)


def _read_source(call: CapturedCall, headers: dict[bytes, bytes]) -> None:
    source = headers.get(b"x-amz-copy-source")
    if source is None:
        return
    if call.part is None:
        call.operation = COPY
    call.source = decode_name(source.partition(b"?versionId=")[0].removeprefix(b"/"))
    match = _RANGE.fullmatch(headers.get(b"x-amz-copy-source-range", b""))
    call.size_bytes = int(match[2]) + 1 - int(match[1]) if match is not None and match[2] is not None else None


def _size_of(headers: dict[bytes, bytes]) -> int | None:
    for name in (b"x-amz-decoded-content-length", b"content-length"):
        value = headers.get(name, b"")
        if value.isdigit() and len(value) <= 18:
            return int(value)
    return None


def _read_lock(call: CapturedCall, headers: dict[bytes, bytes]) -> None:
    mode = headers.get(b"x-amz-object-lock-mode", b"").decode("latin-1")
    call.retention_mode = mode if mode in _MODES else None
    call.retain_until = _instant_of(headers.get(b"x-amz-object-lock-retain-until-date", b""))
    call.legal_hold = {b"ON": True, b"OFF": False}.get(headers.get(b"x-amz-object-lock-legal-hold", b""))


@lru_cache(maxsize=64)  # a client sends the same date with many objects
def _instant_of(text: bytes) -> float | None:
    """Parse an ISO 8601 instant to seconds since the epoch."""
    if not text:
        return None
    try:
        instant = datetime.fromisoformat(text.decode("latin-1").strip())
    except ValueError:
        return None
    return (instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)).timestamp()


def range_of(content_range: bytes) -> tuple[int, int, int | None] | None:
    """Return offset, length and size of the whole object from a Content-Range."""
    match = _CONTENT_RANGE.fullmatch(content_range)
    if match is None:
        return None
    offset = int(match[1])
    return offset, int(match[2]) + 1 - offset, None if match[3] == b"*" else int(match[3])


def read_lock_body(call: CapturedCall, document: bytes) -> None:
    """Read the lock from the body of a PUT of ?retention or ?legal-hold."""
    if call.operation == EXTEND:
        mode = _element(document, b"Mode").decode("latin-1")
        call.retention_mode = mode if mode in _MODES else None
        call.retain_until = _instant_of(_element(document, b"RetainUntilDate"))
        call.operation = EVENT_HOLDS.get(_element(document, b"EventHold"), EXTEND)
        return
    status = _element(document, b"Status")
    call.legal_hold = {b"ON": True, b"OFF": False}.get(status)
    if call.legal_hold is None:
        call.operation = OTHER
    elif not call.legal_hold:
        call.operation = RELEASE


def upload_id_of(document: bytes) -> str:
    """Return the upload id in the answer to a CreateMultipartUpload; empty if there is none."""
    return _unescaped(_element(document, b"UploadId"))


def listed_parts(document: bytes) -> set[int]:
    """Return the part numbers in the body of a CompleteMultipartUpload."""
    return {int(number) for number in re.findall(rb"<(?:\w+:)?PartNumber>\s*(\d{1,6})\s*<", document)}


def error_status(document: bytes) -> int:
    """Return the HTTP status for the error in an answer that began with 200; 0 if there is none."""
    if b"<Error" not in document:
        return 0
    return _status_of(_element(document, b"Code").decode("latin-1"))


def deletions_of(document: bytes) -> list[Deletion] | None:
    """Return the objects in a list of deletions; None if it cannot be read."""
    root = _tree(document)
    if root is None:
        return None
    found = []
    for each in root:
        if _name(each) == "Object":
            values = {_name(child): child.text or "" for child in each}
            found.append(Deletion(values.get("Key", ""), "VersionId" in values))
    return found


def refused_deletions(document: bytes) -> dict[Deletion, int]:
    """Return the statuses of the objects that were not deleted, according to the answer."""
    root = _tree(document)
    refused = {}
    for each in root if root is not None else ():
        if _name(each) == "Error":
            values = {_name(child): child.text or "" for child in each}
            deletion = Deletion(values.get("Key", ""), bool(values.get("VersionId")))
            refused[deletion] = _status_of(values.get("Code", ""))
    return refused


def without_chunks(document: bytes) -> bytes:
    """Return the content of an aws-chunked body, or the body itself if it is not one."""
    content = bytearray()
    try:
        ChunkReader(content).feed(document, 0)
    except Unreadable:
        return document
    return bytes(content)


def _status_of(code: str) -> int:
    return _HTTP_STATUS_OF_CODE.get(code, 400)


def _element(document: bytes, name: bytes) -> bytes:
    """Return the text of the first element of this name that contains only text."""
    found = re.search(rb"<(?:\w+:)?%b(?:\s[^>]*)?>\s*([^<]*?)\s*</" % name, document)
    return found[1] if found else b""


def _unescaped(text: bytes) -> str:
    decoded = text.decode("utf-8", "replace")
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&")):
        decoded = decoded.replace(entity, character)
    return decoded


def _tree(document: bytes) -> ElementTree.Element | None:
    if b"<!DOCTYPE" in document:  # S3 documents have none; its entities could do harm
        return None
    try:
        return ElementTree.fromstring(document)
    except ElementTree.ParseError:
        return None


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
