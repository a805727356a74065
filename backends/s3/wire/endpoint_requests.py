"""The requests to one endpoint: one template for each kind.

One idea: a kind is made on its first use, and compiled for a second on its first use in that second. So requests that a
phase could send but does not cost nothing.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

from archiver.values.record import Operation
from archiver.values.retention import Lock, RetentionMode
from backends.s3.setting import S3WorkerSetting
from backends.s3.wire.checksums import HEADER
from backends.s3.wire.connection import Endpoint
from backends.s3.wire.signing import EMPTY_SHA256, RequestTemplate, Signer, encode_path

NAMES_A_VERSION = frozenset((Operation.REFUSED_DELETE, Operation.DELETE))
WITHOUT_HEADERS = frozenset((Lock.NONE, Lock.BUCKET_DEFAULT, Lock.SEPARATE))  # the lock is not in headers
XMLNS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
RETENTION = f"<Retention {XMLNS}><Mode>%s</Mode><RetainUntilDate>%s</RetainUntilDate></Retention>"
EVENT_HOLD = f"<Retention {XMLNS}><Mode>%s</Mode><EventHold>%s</EventHold>%s</Retention>"
EVENT_HOLD_PERIOD = "<EventHoldDuration><Days>%d</Days></EventHoldDuration>"
LEGAL_HOLD = f"<LegalHold {XMLNS}><Status>%s</Status></LegalHold>"
_EMPTY = {"x-amz-content-sha256": EMPTY_SHA256}
_UPLOAD_ALGORITHM = {"crc32c": ("CRC32C", "COMPOSITE"), "crc64nvme": ("CRC64NVME", "FULL_OBJECT")}

What = Literal[
    "head bucket", "lock configuration", "retrieve", "range", "head", "archive", "copy", "create upload", "part",
    "complete upload", "abort upload", "query", "extend", "hold", "release", "event hold", "event release",
    "delete version", "delete",
]  # fmt: skip
REQUEST_OF: Mapping[Operation, What] = {
    Operation.ARCHIVE: "archive",
    Operation.NEW_VERSION: "archive",
    Operation.COPY: "copy",
    Operation.RETRIEVE: "retrieve",
    Operation.AUDIT: "retrieve",
    Operation.RANGE_RETRIEVE: "range",
    Operation.HEAD: "head",
    Operation.QUERY: "query",
    Operation.EXTEND: "extend",
    Operation.HOLD: "hold",
    Operation.RELEASE: "release",
    Operation.EVENT_HOLD: "event hold",
    Operation.EVENT_RELEASE: "event release",
    Operation.REFUSED_DELETE: "delete version",
    Operation.DELETE: "delete version",
    Operation.DELETE_MARKER: "delete",
}
OPENING: Mapping[str, What] = {"head-bucket": "head bucket", "lock-config": "lock configuration"}  # by --session-open


class RequestKind(NamedTuple):
    """Kind of a request: everything except object, length and time."""

    what: What
    lock: Lock | None = None
    checksum: str = "none"
    retain_for_seconds: float | None = None

    @property
    def is_dated(self) -> bool:
        """Whether it names a retain-until date, if the run has one."""
        if self.what == "extend":
            return True
        return self.what in ("archive", "copy", "create upload") and self.lock not in WITHOUT_HEADERS


# The key for lookups per object: it has the same hash, and making the named tuple takes longer than the lookup.
KindTuple: TypeAlias = tuple[What, Lock | None, str, float | None]
_RETRIEVE, _RANGE, _HEAD = RequestKind("retrieve"), RequestKind("range"), RequestKind("head")
_COMPLETE, _ABORT = RequestKind("complete upload"), RequestKind("abort upload")


class EndpointRequests:
    """The requests of one endpoint, signed for the second of ``start_second``."""

    def __init__(self, endpoint: Endpoint, setting: S3WorkerSetting, signer: Signer) -> None:
        self.endpoint = endpoint
        self._setting = setting
        self._signer = signer
        default_port = 443 if endpoint.tls is not None else 80
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        self._host = host if endpoint.port == default_port else f"{host}:{endpoint.port}"
        bucket_path = "" if setting.virtual_hosted else f"/{setting.bucket}"
        self._bucket_path = encode_path(bucket_path or "/").encode()
        self._object_path = encode_path(f"{bucket_path}/{setting.prefix}").encode()
        source_prefix = setting.prefix if setting.source_prefix is None else setting.source_prefix
        self._source_path = encode_path(f"/{setting.source_bucket or setting.bucket}/{source_prefix}").encode()
        self._second = 0
        self._dates: Mapping[float | None, str] = {}
        self._made: dict[RequestKind, RequestTemplate] = {}
        self._ready: dict[KindTuple, RequestTemplate] = {}  # compiled for this second
        self._bodies: dict[RequestKind, bytes] = {}

    def start_second(self, second: int, dates: Mapping[float | None, str]) -> None:
        """Sign for this second; ``dates`` are retain-until dates by retention time."""
        self._second, self._dates = second, dates
        self._ready.clear()

    def opening(self) -> bytes:
        return self._template(RequestKind(OPENING[self._setting.session_open])).head(self._bucket_path)

    def retrieve(self, number: int) -> bytes:
        return self._template(_RETRIEVE).head(self._object_path + b"%012d" % number)

    def retrieve_range(self, number: int, offset: int, length: int) -> bytes:
        part = b"bytes=%d-%d" % (offset, offset + length - 1)
        return self._template(_RANGE).head(self._object_path + b"%012d" % number, (part,))

    def head(self, number: int) -> bytes:
        return self._template(_HEAD).head(self._object_path + b"%012d" % number)

    def archive(self, kind: KindTuple, number: int, values: tuple[bytes, ...], length: int) -> bytes:
        """``kind`` is a plain tuple; ``values`` are the checksum and then the payload's hash, if there are any."""
        return self._template(kind).head(self._object_path + b"%012d" % number, values, length)

    def copy(self, kind: RequestKind, number: int, source: int) -> bytes:
        return self._template(kind).head(
            self._object_path + b"%012d" % number, (self._source_path + b"%012d" % source,)
        )

    def change(
        self, operation: Operation, number: int, version: bytes, retain_for_seconds: float | None
    ) -> tuple[bytes, ...]:
        """Return head and body of a request for an object; ``version`` for operations that name one."""
        kind = RequestKind(
            REQUEST_OF[operation], retain_for_seconds=retain_for_seconds if operation is Operation.EXTEND else None
        )
        values = (version,) if operation in NAMES_A_VERSION else ()
        head = self._template(kind).head(self._object_path + b"%012d" % number, values)
        return (head, self._bodies[kind]) if kind in self._bodies else (head,)

    def create_upload(self, kind: RequestKind, number: int) -> bytes:
        return self._template(kind).head(self._object_path + b"%012d" % number)

    def part(self, kind: RequestKind, number: int, query: bytes, values: tuple[bytes, ...], length: int) -> bytes:
        return self._template(kind).head(self._object_path + b"%012d" % number, (query, *values), length)

    def complete_upload(self, number: int, query: bytes, length: int) -> bytes:
        return self._template(_COMPLETE).head(self._object_path + b"%012d" % number, (query,), length)

    def abort_upload(self, number: int, query: bytes) -> bytes:
        return self._template(_ABORT).head(self._object_path + b"%012d" % number, (query,))

    def _template(self, kind: KindTuple) -> RequestTemplate:
        template = self._ready.get(kind)
        if template is None:
            template = self._ready[kind] = self._compiled(RequestKind(*kind))
        return template

    def _compiled(self, kind: RequestKind) -> RequestTemplate:
        template = self._made.get(kind)
        if template is None:
            template = self._made[kind] = self._make(kind)
        dated = {}
        date = self._dates.get(kind.retain_for_seconds) if kind.is_dated else None
        if kind.what == "extend":
            assert date is not None, "an object without a date cannot be extended"
            body = RETENTION % (self._setting.retention.mode.value, date)
            self._bodies[kind] = body.encode()
            dated["content-md5"] = _md5(body)
        elif date is not None:
            dated["x-amz-object-lock-retain-until-date"] = date
        template.compile(self._signer, self._second, dated)
        return template

    def _make(self, kind: RequestKind) -> RequestTemplate:
        host, locks = self._host, self._lock_headers(kind)
        signs_payload = ("x-amz-content-sha256",) if self._setting.payload_signing else ()
        checksum = (HEADER[kind.checksum],) if kind.checksum != "none" else ()
        match kind.what:
            case "lock configuration":
                return RequestTemplate("GET", host, _EMPTY, query="object-lock=")
            case "head bucket" | "head":
                return RequestTemplate("HEAD", host, _EMPTY)
            case "retrieve":
                return RequestTemplate("GET", host, _EMPTY)
            case "range":
                return RequestTemplate("GET", host, _EMPTY, variable=("range",))
            case "archive":
                return RequestTemplate("PUT", host, locks, variable=checksum + signs_payload, length_varies=True)
            case "copy":
                return RequestTemplate(
                    "PUT", host, {**_EMPTY, **locks}, variable=("x-amz-copy-source",), unsigned={"Content-Length": "0"}
                )
            case "create upload":
                fixed = {**_EMPTY, **locks}
                if kind.checksum in _UPLOAD_ALGORITHM:
                    algorithm, of_whole = _UPLOAD_ALGORITHM[kind.checksum]
                    fixed |= {"x-amz-checksum-algorithm": algorithm, "x-amz-checksum-type": of_whole}
                return RequestTemplate("POST", host, fixed, query="uploads=", unsigned={"Content-Length": "0"})
            case "part":
                return RequestTemplate(
                    "PUT", host, {}, variable=checksum + signs_payload, query_varies=True, length_varies=True
                )
            case "complete upload":
                return RequestTemplate("POST", host, {}, query_varies=True, length_varies=True)
            case "abort upload":
                return RequestTemplate("DELETE", host, _EMPTY, query_varies=True)
            case "query":
                return RequestTemplate("GET", host, _EMPTY, query="retention=")
            case "extend":  # the date in its body changes, and so its Content-MD5
                length = len(RETENTION % (self._setting.retention.mode.value, "2026-11-21T11:03:27Z"))
                return RequestTemplate("PUT", host, {}, query="retention=", unsigned={"Content-Length": str(length)})
            case "hold" | "release":
                return self._put(kind, "legal-hold=", LEGAL_HOLD % ("ON" if kind.what == "hold" else "OFF"))
            case "event hold" | "event release":
                return self._put(kind, "retention=", self._event_hold_body(places=kind.what == "event hold"))
            case "delete version":
                return RequestTemplate("DELETE", host, _EMPTY, query="versionId=", query_varies=True)
            case "delete":
                return RequestTemplate("DELETE", host, _EMPTY)

    def _put(self, kind: RequestKind, query: str, body: str) -> RequestTemplate:
        """Return a request for an object whose body is always the same."""
        self._bodies[kind] = body.encode()
        return RequestTemplate(
            "PUT", self._host, {"content-md5": _md5(body)}, query=query, unsigned={"Content-Length": str(len(body))}
        )

    def _event_hold_body(self, *, places: bool) -> str:
        """Return the document that places an event hold with the run's period, or releases it.

        It names no date: the platform keeps the object's date, and sets another one at the release.
        """
        retention = self._setting.retention
        if not places:
            return EVENT_HOLD % (retention.mode.value, "OFF", "")
        assert retention.event_hold_days is not None, "a run that places event holds has agreed to their period"
        return EVENT_HOLD % (retention.mode.value, "ON", EVENT_HOLD_PERIOD % retention.event_hold_days)

    def _lock_headers(self, kind: RequestKind) -> dict[str, str]:
        """Return the lock's headers without the date, which changes with the time."""
        fixed: dict[str, str] = {}
        if kind.lock not in WITHOUT_HEADERS:
            retention = self._setting.retention.locked_by(kind.lock, kind.retain_for_seconds)
            if retention.legal_hold:
                fixed["x-amz-object-lock-legal-hold"] = "ON"
            if retention.mode is not RetentionMode.NONE:
                fixed["x-amz-object-lock-mode"] = retention.mode.value
            if retention.event_hold_days is not None:
                fixed["x-amz-object-lock-event-hold"] = "ON"
                fixed["x-amz-object-lock-event-hold-duration-days"] = str(retention.event_hold_days)
        return fixed


def _md5(body: str) -> str:
    """Return the Content-MD5 of a short body, which platforms require for locks."""
    return b64encode(hashlib.md5(body.encode(), usedforsecurity=False).digest()).decode()
