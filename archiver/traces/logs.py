"""Parsing of lines of servers' logs into requests: AWS S3, MinIO, nginx, HAProxy.

One idea: a line becomes a ``LogEntry`` or is refused with a reason. The operation is then read from the request in the
same way as in a capture, so that a log and a capture of the same traffic give the same trace. Authorization headers and
signatures in a log are never read.

Formats: "Amazon S3 server access log format" in the S3 user guide; MinIO's audit webhook, version 1 of its documents;
nginx "combined" (ngx_http_log_module); HAProxy's "option httplog" (configuration manual, 8.2.3).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote, quote_from_bytes, unquote, unquote_plus

from archiver.traces.capture.calls import range_of
from archiver.values.errors import UsageError


class Refused(Exception):
    """A line without a request. ``str()`` is the reason, which is the same for all lines with this problem."""


class Deleted(NamedTuple):
    """One object of a request that deletes several."""

    name: str  # bucket/key
    has_version: bool


@dataclass(slots=True)
class LogEntry:
    """One request in a log. Times are nanoseconds since the epoch; None is unknown."""

    began_ns: int
    method: bytes
    target: bytes  # path and query, percent-encoded
    status: int
    address: str = ""
    credential: str = field(default="", repr=False)
    connection: str = ""  # identifier of the connection at its address
    first_byte_ns: int | None = None
    done_ns: int | None = None
    headers: dict[bytes, bytes] = field(default_factory=dict)
    object_bytes: int | None = None
    sent_bytes: int | None = None  # bytes of the answer
    received_bytes: int | None = None  # bytes of the request
    label: str | None = None  # the operation, if the log has more than the request
    deleted: tuple[Deleted, ...] = ()
    whole_seconds: bool = False  # the log has no finer times


LogReader = Callable[[str], LogEntry]

# Group names that a pattern may have; required ones are in _NEEDED.
GROUPS = (
    "address", "port", "credential", "connection", "time", "request", "method", "target", "bucket", "status",
    "sent_bytes", "received_bytes", "object_bytes", "seconds", "milliseconds", "first_byte_seconds", "timers", "range",
    "copy_source", "retention_mode", "retain_until", "legal_hold",
)  # fmt: skip
_NGINX = (
    r'(?P<address>\S+) - (?P<credential>.*?) \[(?P<time>[^\]]+)\] "(?P<request>(?:[^"\\]|\\.)*)" (?P<status>\d+)'
    r' (?P<sent_bytes>\S+) "(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*"(?: .*)?'
)
_HAPROXY = (
    r"(?:.*?: )?(?P<address>\S+):(?P<port>\d+) \[(?P<time>[^\]]+)\] \S+ \S+/\S+ (?P<timers>[-+\d]+(?:/[-+\d]+){4})"
    r' (?P<status>-?\d+) (?P<sent_bytes>\+?-?\d+) \S+ \S+ \S{4} [\d/+]+ [\d/]+ (?:\{.*?\} ){0,2}"(?P<request>.*)"'
)
_AWS = re.compile(
    r"\S+ (?P<bucket>\S+) \[(?P<time>[^\]]*)\] (?P<address>\S+) (?P<requester>\S+) \S+ (?P<operation>\S+) (?P<key>\S+)"
    r' (?P<request>"[^"]*"|-) (?P<status>\d+|-) \S+ (?P<sent>\S+) (?P<size>\S+) (?P<total>\S+) (?P<turn>\S+)'
    r' (?:"[^"]*"|-) (?:".*"|-) (?P<version>\S+)(?: .*)?'
)
_AWS_LABELS = {"REST.COPY.OBJECT": "copy", "REST.POST.OBJECT": "archive"}
# Records of the read that a copy causes, and of actions of lifecycle rules, which no client requested.
_AWS_OTHER = ("REST.COPY.OBJECT_GET", "REST.COPY.PART_GET", "S3.")
_AWS_BATCH = "BATCH.DELETE.OBJECT"
_MINIO_METHODS = (
    ("DeleteMultipleObjects", b"POST"), ("NewMultipart", b"POST"), ("CompleteMultipart", b"POST"), ("Put", b"PUT"),
    ("Copy", b"PUT"), ("Get", b"GET"), ("List", b"GET"), ("Head", b"HEAD"), ("Delete", b"DELETE"),
    ("Abort", b"DELETE"),
)  # fmt: skip
_MINIO_HEADERS = (
    "content-length", "x-amz-decoded-content-length", "range", "x-amz-copy-source", "x-amz-copy-source-range",
    "x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date", "x-amz-object-lock-legal-hold",
)  # fmt: skip
_MONTHS = {
    name: number
    for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)  # noqa: SIM905
}
_LOG_TIME = re.compile(r"(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?: ([+-])(\d\d)(\d\d))?")
_ISO_TIME = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?")
_EPOCH_TIME = re.compile(r"(\d{1,10})(?:\.(\d{1,9}))?")
_ESCAPE = {"nginx": re.compile(rb"\\x([0-9A-Fa-f]{2})"), "haproxy": re.compile(rb"#([0-9A-Fa-f]{2})")}
_LARGEST = 1 << 62


def reader_of(kind: str, pattern: str | None = None) -> LogReader:
    """Return a function that parses a line of this kind of log and raises Refused.

    ``pattern`` is a regular expression with named groups, for nginx and HAProxy. Raises UsageError if it is invalid or
    lacks a required group.
    """
    if kind in ("aws", "minio"):
        if pattern is not None:
            raise UsageError(f"--pattern: the format of --kind {kind} is fixed; a pattern is for nginx and haproxy")
        return _read_aws if kind == "aws" else _read_minio
    compiled = _compiled(pattern or (_NGINX if kind == "nginx" else _HAPROXY))
    return lambda line: _read_by(compiled, kind, line)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--pattern: is not a regular expression: {error}") from error
    unknown = [name for name in compiled.groupindex if name not in GROUPS]
    if unknown:
        raise UsageError(f"--pattern: {unknown[0]}: there is no group of that name; the groups are {', '.join(GROUPS)}")
    has = set(compiled.groupindex)
    if not ({"time", "status"} <= has and ("request" in has or {"method", "target"} <= has)):
        raise UsageError("--pattern: needs groups (?P<time>...), (?P<status>...) and (?P<request>...)")
    return compiled


def _read_by(pattern: re.Pattern[str], kind: str, line: str) -> LogEntry:
    """Parse a line of nginx, whose time is the end of the request, or of HAProxy, whose time is its start."""
    found = pattern.fullmatch(line)
    if found is None:
        raise Refused(f"is not a complete line of {kind}'s format")
    fields = {name: value for name, value in found.groupdict().items() if value not in (None, "", "-")}
    if not {"time", "status"} <= fields.keys():
        raise Refused("has no time or no status")
    at_ns, whole_seconds = instant_ns(fields["time"])
    took_ns = _duration_ns(fields.get("seconds"), 10**9)
    if took_ns is None:
        took_ns = _duration_ns(fields.get("milliseconds"), 10**6)
    to_first_ns = _duration_ns(fields.get("first_byte_seconds"), 10**9)
    if "timers" in fields:
        took_ns, to_first_ns = _timers(fields["timers"])
    began_ns = at_ns - (took_ns or 0) if kind == "nginx" else at_ns
    method, target = _request_of(fields, kind)
    bucket = fields.get("bucket")
    return LogEntry(
        began_ns,
        method,
        b"/" + quote(bucket).encode() + target if bucket and target.startswith(b"/") else target,
        _status(fields["status"]),
        fields.get("address", ""),
        fields.get("credential", ""),
        fields.get("connection") or fields.get("port", ""),
        None if to_first_ns is None else began_ns + to_first_ns,
        None if took_ns is None else began_ns + took_ns,
        {name: fields[group].encode() for name, group in _HEADER_GROUPS if group in fields},
        _count("object_bytes", fields),
        _count("sent_bytes", fields),
        _count("received_bytes", fields),
        whole_seconds=whole_seconds,
    )


_HEADER_GROUPS = (
    (b"range", "range"), (b"x-amz-copy-source", "copy_source"), (b"x-amz-object-lock-mode", "retention_mode"),
    (b"x-amz-object-lock-retain-until-date", "retain_until"), (b"x-amz-object-lock-legal-hold", "legal_hold"),
)  # fmt: skip


def _request_of(fields: dict[str, str], kind: str) -> tuple[bytes, bytes]:
    """Return method and target without the log's escapes; empty if the line has no request."""
    if "request" not in fields:
        method, target = (_unescaped(fields.get(name, ""), kind) for name in ("method", "target"))
        return method, quote_from_bytes(target, _AS_SENT).encode()
    return _taken_apart(_unescaped(fields["request"], kind))


def _unescaped(text: str, kind: str) -> bytes:
    return _ESCAPE[kind].sub(lambda found: bytes([int(found[1], 16)]), text.encode())


_AS_SENT = "".join(chr(code) for code in range(0x21, 0x7F))


def _taken_apart(request: bytes) -> tuple[bytes, bytes]:
    """Return method and target of ``PUT /bucket/key HTTP/1.1``; both empty for a truncated line without the version."""
    method, _, rest = request.partition(b" ")
    target, _, version = rest.rpartition(b" ")
    if not version.startswith(b"HTTP/") or not target:
        return b"", b""
    return method, quote_from_bytes(target, _AS_SENT).encode()


def _read_aws(line: str) -> LogEntry:
    found = _AWS.fullmatch(line)
    if found is None:
        raise Refused("is not a complete line of an S3 server access log")
    fields = {name: value for name, value in found.groupdict().items() if value != "-"}
    began_ns, whole_seconds = instant_ns(fields.get("time", ""))
    operation = fields.get("operation", "")
    method, target = _taken_apart(fields.get("request", "").strip('"').encode())
    path, mark, query = target.partition(b"?")
    name = _aws_name(fields, path, once=operation == _AWS_BATCH or operation.startswith("S3."))
    label = _AWS_LABELS.get(operation)
    if operation.startswith(_AWS_OTHER):
        label = "other"
    elif operation == _AWS_BATCH:
        label = "delete" if "version" in fields else "delete-marker"
    took_ns, to_first_ns = (_duration_ns(fields.get(each), 10**6) for each in ("total", "turn"))
    is_read = method in (b"GET", b"HEAD")  # otherwise the time to the answer does not start with the request
    return LogEntry(
        began_ns,
        method or (b"DELETE" if operation == _AWS_BATCH else b""),
        quote("/" + name).encode() + mark + query,
        _status(fields.get("status", "200" if label else "0")),
        fields.get("address", ""),
        fields.get("requester", ""),
        first_byte_ns=began_ns + to_first_ns if to_first_ns is not None and is_read else None,
        done_ns=began_ns + took_ns if took_ns is not None else None,
        object_bytes=_count("size", fields),
        sent_bytes=_count("sent", fields),
        label=label,
        whole_seconds=whole_seconds,
    )


def _aws_name(fields: dict[str, str], path: bytes, *, once: bool) -> str:
    """Return bucket/key. Keys are encoded twice, for batches and lifecycle rules once; a space may be a plus."""
    bucket, key = fields.get("bucket", ""), fields.get("key")
    if key is None:
        return bucket
    if once:
        return f"{bucket}/{unquote_plus(key)}"
    ways = (unquote_plus(unquote_plus(key)), unquote(unquote(key)), unquote(key), key)
    sent = unquote(path.decode("latin-1"))
    return f"{bucket}/{next((way for way in ways if sent.endswith('/' + way)), ways[0])}"


def _read_minio(line: str) -> LogEntry:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise Refused("is not a complete JSON document") from None
    api = document.get("api") if isinstance(document, dict) else None
    if not isinstance(api, dict) or not isinstance(document.get("time"), str):
        raise Refused("is not a document of MinIO's audit log")
    name, bucket = _text(api, "name"), _text(api, "bucket")
    headers = {key.lower(): str(value) for key, value in _table(document, "requestHeader").items()}
    done_ns, _ = instant_ns(document["time"])
    took_ns, to_first_ns = (_nanoseconds(api, each) for each in ("timeToResponse", "timeToFirstByte"))
    began_ns = done_ns - (took_ns or 0)
    path = _text(document, "requestPath") or "/" + "/".join(each for each in (bucket, _text(api, "object")) if each)
    if bucket and path != f"/{bucket}" and not path.startswith(f"/{bucket}/"):
        path = f"/{bucket}{path}"  # the host name contains the bucket
    query = "&".join(f"{quote(k, '')}={quote(str(v), '')}" for k, v in _table(document, "requestQuery").items())
    return LogEntry(
        began_ns,
        next((method for prefix, method in _MINIO_METHODS if name.startswith(prefix)), b""),
        quote(path, errors="replace").encode() + (f"?{query}".encode() if query else b""),
        _status(str(api.get("statusCode", 0))),
        _text(document, "remotehost"),
        _text(document, "accessKey"),
        first_byte_ns=began_ns + to_first_ns if to_first_ns is not None else None,
        done_ns=done_ns,
        headers={each.encode(): headers[each].encode("utf-8", "replace") for each in _MINIO_HEADERS if each in headers},
        object_bytes=_minio_size(name, _table(document, "responseHeader")),
        sent_bytes=_count("tx", api),
        received_bytes=_count("rx", api),
        label="archive" if name.startswith("PostPolicy") else None,
        deleted=tuple(
            Deleted(f"{bucket}/{_text(each, 'objectName')}", bool(each.get("versionId")))
            for each in api.get("objects") or ()
            if isinstance(each, dict)
        ),
    )


def _minio_size(name: str, headers: dict[str, Any]) -> int | None:
    """Return the object's size if the answer to a read contains it; None otherwise."""
    ranged = range_of(_text(headers, "Content-Range").encode())
    length = _text(headers, "Content-Length")
    if ranged is not None:
        return ranged[2]
    return int(length) if name == "HeadObject" and re.fullmatch(r"\d{1,18}", length) else None


def _table(document: dict[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _text(document: dict[str, Any], name: str) -> str:
    found = document.get(name)
    return found.encode("utf-8", "backslashreplace").decode() if isinstance(found, str) else ""


def _nanoseconds(api: dict[str, Any], name: str) -> int | None:
    text = str(api.get(name + "InNS") or api.get(name) or "").removesuffix("ns")
    return _duration_ns(text or None, 1)


def instant_ns(text: str) -> tuple[int, bool]:
    """Return nanoseconds since the epoch, and whether the text has only whole seconds. The default zone is UTC.

    Formats: 06/Feb/2019:00:00:38 +0000, with or without a fraction; ISO 8601; seconds since the epoch. Raises Refused.
    """
    if found := _LOG_TIME.fullmatch(text):
        day, month, year, hour, minute, second, fraction, sign, *zone = found.groups()
        ahead = int(zone[0]) * 60 + int(zone[1]) if sign else 0
        stamp = f"{year}-{_MONTHS.get(month, 0):02d}-{day}T{hour}:{minute}:{second}"
        seconds = _seconds_of(stamp, -ahead if sign == "-" else ahead)
    elif found := _ISO_TIME.fullmatch(text):
        stamp, fraction, zone_text = found.groups()
        digits = (zone_text or "").replace(":", "")
        ahead = int(digits[1:3]) * 60 + int(digits[3:5]) if len(digits) == 5 else 0
        seconds = _seconds_of(stamp, -ahead if digits.startswith("-") else ahead)
    elif found := _EPOCH_TIME.fullmatch(text):
        seconds, fraction = int(found[1]), found[2]
    else:
        raise Refused("has no time that can be read")
    return seconds * 10**9 + int((fraction or "0").ljust(9, "0")), fraction is None


@lru_cache(4096)
def _seconds_of(stamp: str, minutes_ahead: int) -> int:
    try:
        instant = datetime.fromisoformat(stamp).replace(tzinfo=timezone(timedelta(minutes=minutes_ahead)))
    except (ValueError, OverflowError):
        raise Refused("has no time that can be read") from None
    seconds = int(instant.astimezone(UTC).timestamp())
    if seconds < 0:
        raise Refused("has a time before 1970")
    return seconds


def _timers(text: str) -> tuple[int | None, int | None]:
    """Parse HAProxy's TR/Tw/Tc/Tr/Ta to nanoseconds until the end and the first byte; -1 means not reached."""
    values = [int(value) for value in text.replace("+", "").split("/")]
    to_first = sum(values[:4]) * 10**6 if min(values[:4]) >= 0 else None
    return values[4] * 10**6 if values[4] >= 0 else None, to_first


def _duration_ns(text: str | None, unit_ns: int) -> int | None:
    """Return a duration in ns; None for a missing one, and for a list of durations of several upstream servers."""
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    if value is None:
        return None
    if not 0 <= value * unit_ns < _LARGEST:
        raise Refused("has a negative or an impossible duration")
    return round(value * unit_ns)


def _count(name: str, fields: dict[str, Any]) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    try:
        count = int(value)
    except (TypeError, ValueError):
        raise Refused(f"has bytes that are not a number ({name})") from None
    if not 0 <= count < _LARGEST:
        raise Refused(f"has a negative or an impossible number of bytes ({name})")
    return count


def _status(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Refused("has a status that is not a number") from None
