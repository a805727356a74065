"""The S3 data plane of one worker: the requests its sessions send, made and signed.

One idea: all that does not change from object to object is made before the clock starts or once a second, so a
request costs its checksum's last block, two formats and a signature.
"""

from __future__ import annotations

import hashlib
import time
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from archiver.content import Checksum, Content, ContentCheck, LengthCheck
from archiver.errors import PlatformError
from archiver.record import Operation
from archiver.retention import DateMaker, Lock, RetentionMode
from archiver.sizes import format_instant
from backends.base import ExpectedLock, PhaseSetting
from backends.s3.checksums import HEADER, WindowChecksums
from backends.s3.connection import Endpoint
from backends.s3.control import Control, Credentials
from backends.s3.endpoints import resolve, tls_context
from backends.s3.replies import BodyCheck
from backends.s3.reported_lock import LockProblem, ReportedLock, lock_problem
from backends.s3.session import S3Session
from backends.s3.setting import WorkerSetting
from backends.s3.signing import EMPTY_SHA256, RequestTemplate, Signer, encode_path

NAMES_A_VERSION = frozenset((Operation.REFUSED_DELETE, Operation.DELETE))
WITHOUT_HEADERS = frozenset((Lock.NONE, Lock.BUCKET_DEFAULT, Lock.SEPARATE))  # the lock comes otherwise, or not at all
_XMLNS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
RETENTION = f"<Retention {_XMLNS}><Mode>%s</Mode><RetainUntilDate>%s</RetainUntilDate></Retention>"
LEGAL_HOLD = f"<LegalHold {_XMLNS}><Status>%s</Status></LegalHold>"
SAMPLE_EVERY = 16  # --verify sample checks every sixteenth object number


class S3DataPlane:
    """Sessions of one worker, and the requests they send."""

    def __init__(self, setting: WorkerSetting) -> None:
        self.setting = setting
        self._signer = Signer(setting.access_key, setting.secret_key, setting.region, setting.session_token)
        tls = tls_context(setting.ca_bundle, setting.insecure)
        self._requests = [EndpointRequests(resolve(url, tls), setting) for url in setting.endpoints]
        self._dates: DateMaker | None = None
        self._content: Content | None = None
        self._verify = "all"
        self._compiled_second = -1
        self._checksums: dict[tuple[str, int], WindowChecksums] = {}
        self._kept: dict[int, S3Session] = {}
        self._expected: list[ExpectedLock] = []
        self._expected_firsts: list[int] = []
        self._versions: dict[int, bytes] = {}

    def set_phase(self, setting: PhaseSetting) -> None:
        """Make window checksums for the phase's sizes, before its clock starts."""
        if setting.content is not self._content:
            self._checksums.clear()
        self._content = setting.content
        self._dates = setting.dates
        self._verify = setting.verify
        self._expected = sorted(setting.expected, key=lambda expected: expected.first)
        self._expected_firsts = [expected.first for expected in self._expected]
        used = {checksum.value if checksum is not None else self.setting.checksum for checksum in setting.checksums}
        algorithms = (used - {"none"}) | ({"sha256"} if self.setting.payload_signing else set())
        for size_bytes in setting.object_sizes_bytes:
            for algorithm in algorithms:
                if (algorithm, size_bytes) not in self._checksums:
                    self._checksums[algorithm, size_bytes] = WindowChecksums(algorithm, setting.content, size_bytes)
            for requests in self._requests:
                for lock, checksum in product(setting.locks, used):
                    requests.add(ArchiveKind(size_bytes, lock, checksum))
        if setting.operations & NAMES_A_VERSION:
            self._versions = self._find_versions(setting.reads)
        self._compiled_second = -1

    def session(self, client: int) -> S3Session:
        """A new session of this client, or its open one with --keep-sessions-open."""
        if not self.setting.keep_sessions_open:
            return S3Session(self, client % len(self._requests))
        if client not in self._kept:
            self._kept[client] = S3Session(self, client % len(self._requests))
        return self._kept[client]

    async def end_phase(self) -> None:
        """Close what was kept open."""
        for session in self._kept.values():
            await session.disconnect()
        self._kept.clear()

    def endpoint(self, index: int) -> Endpoint:
        return self._requests[index].endpoint

    def object_name(self, number: int) -> str:
        """Bucket and key, for messages."""
        return f"{self.setting.bucket}/{self.setting.prefix}{number:012d}"

    def opening_request(self, endpoint_index: int) -> bytes:
        """The request that opens a session, where one is asked for."""
        self._compile()
        return self._requests[endpoint_index].opening()

    def archive_request(
        self, endpoint_index: int, number: int, size_bytes: int, lock: Lock | None, checksum: Checksum | None
    ) -> tuple[bytes | memoryview, ...]:
        """Head and body, in views of the pool: nothing is copied."""
        self._compile()
        content = self._content
        assert content is not None
        last_block = content.last_block(number, size_bytes)
        setting = self.setting
        values: tuple[bytes, ...] = ()
        kind = ArchiveKind(size_bytes, lock, checksum.value if checksum is not None else setting.checksum)
        if kind.checksum != "none":
            values = (self._checksums[kind.checksum, size_bytes].base64(number, last_block),)
        if setting.payload_signing:
            values = (*values, self._checksums["sha256", size_bytes].hex(number, last_block))
        head = self._requests[endpoint_index].archive(kind, number, values)
        return head, content.window(number, size_bytes), last_block

    def retrieve_request(self, endpoint_index: int, number: int) -> bytes:
        self._compile()
        return self._requests[endpoint_index].retrieve(number)

    def head_request(self, endpoint_index: int, number: int) -> bytes:
        self._compile()
        return self._requests[endpoint_index].head(number)

    def change_request(self, endpoint_index: int, operation: Operation, number: int) -> tuple[bytes, ...]:
        """Head and body of what is asked of an object besides its content: its lock, its deletion."""
        self._compile()
        version = self._versions.get(number, b"") if operation in NAMES_A_VERSION else b""
        return self._requests[endpoint_index].change(operation, number, version)

    def lock_problem(self, number: int, headers: Mapping[bytes, bytes]) -> LockProblem | None:
        """What is wrong with the lock that an answer's headers report for an object that is audited."""
        at = bisect_right(self._expected_firsts, number) - 1
        expected = self._expected[at]
        return lock_problem(ReportedLock.of_headers(headers), expected.retention, expected.earliest, expected.latest)

    def check(self, number: int, size_bytes: int) -> BodyCheck:
        """What looks at the retrieved bytes of this object."""
        assert self._content is not None
        if self._verify == "all" or (self._verify == "sample" and number % SAMPLE_EVERY == 0):
            return ContentCheck(self._content, number, size_bytes)
        return LengthCheck(size_bytes)

    def _find_versions(self, reads: Sequence[NDArray[np.int64]]) -> dict[int, bytes]:
        """The version ids, as a query writes them, of the objects that will be asked for."""
        numbers = np.concatenate([np.empty(0, dtype=np.int64), *reads])
        if not len(numbers):
            return {}
        setting = self.setting
        control = Control(
            setting.endpoints[0],
            setting.region,
            Credentials(setting.access_key, setting.secret_key, setting.session_token),
            verify=False if setting.insecure else (setting.ca_bundle or True),
            connect_timeout_seconds=setting.connect_timeout_seconds,
            read_timeout_seconds=setting.read_timeout_seconds,
        )
        first, last = (f"{setting.prefix}{number:012d}" for number in (max(0, numbers.min() - 1), numbers.max()))
        keys = {f"{setting.prefix}{number:012d}": number for number in numbers.tolist()}
        found = {
            keys[key]: quote(version, safe="-_.~").encode()
            for key, version in control.versions(setting.bucket, setting.prefix, first if numbers.min() else "", last)
            if key in keys
        }
        # Without its version a deletion would only hide an object, which no lock refuses.
        missing = keys.keys() - {f"{setting.prefix}{number:012d}" for number in found}
        if missing:
            raise PlatformError(
                f"{setting.endpoints[0]}: bucket {setting.bucket} does not list {len(missing):,} of {len(keys):,} "
                f"objects that were archived, {min(missing)} for one; none of them was touched"
            )
        return found

    def _compile(self) -> None:
        # Signing time and retain-until dates are the server's, so that a skewed client makes neither refused
        # requests nor longer locks.
        server_now = time.time() + self.setting.clock_offset_seconds
        second = int(server_now)
        if second != self._compiled_second:
            retain_until = self._dates.retain_until(server_now) if self._dates is not None else None
            for requests in self._requests:
                requests.compile(self._signer, second, retain_until)
            self._compiled_second = second


class ArchiveKind(NamedTuple):
    """What sets archive requests apart that differ in more than object and date."""

    size_bytes: int
    lock: Lock | None
    checksum: str


class EndpointRequests:
    """The request templates of one endpoint."""

    def __init__(self, endpoint: Endpoint, setting: WorkerSetting) -> None:
        self.endpoint = endpoint
        self._setting = setting
        default_port = 443 if endpoint.tls is not None else 80
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        self._host = host if endpoint.port == default_port else f"{host}:{endpoint.port}"
        self._bucket_path = encode_path(f"/{setting.bucket}").encode()
        self._object_path = encode_path(f"/{setting.bucket}/{setting.prefix}").encode()
        empty = {"x-amz-content-sha256": EMPTY_SHA256}
        self._retrieve = RequestTemplate("GET", self._host, empty)
        self._head = RequestTemplate("HEAD", self._host, empty)
        if setting.session_open == "lock-config":
            self._opening = RequestTemplate("GET", self._host, empty, query="object-lock=")
        else:
            self._opening = RequestTemplate("HEAD", self._host, empty)
        self._archive: dict[ArchiveKind, RequestTemplate] = {}
        deletion = RequestTemplate("DELETE", self._host, empty, query="versionId=", query_varies=True)
        self._changes = {
            Operation.QUERY: RequestTemplate("GET", self._host, empty, query="retention="),
            Operation.EXTEND: self._put("retention=", RETENTION % (setting.retention.mode.value, format_instant(0))),
            Operation.HOLD: self._put("legal-hold=", LEGAL_HOLD % "ON"),
            Operation.RELEASE: self._put("legal-hold=", LEGAL_HOLD % "OFF"),
            Operation.REFUSED_DELETE: deletion,
            Operation.DELETE: deletion,
        }
        self._bodies = {
            Operation.EXTEND: b"",  # has a date, so it is made once a second
            Operation.HOLD: (LEGAL_HOLD % "ON").encode(),
            Operation.RELEASE: (LEGAL_HOLD % "OFF").encode(),
        }

    def _put(self, query: str, body: str) -> RequestTemplate:
        """A request whose body is short; the platform wants proof that it arrived whole."""
        length = {"Content-Length": str(len(body))}
        return RequestTemplate("PUT", self._host, {"content-md5": _md5(body)}, query=query, unsigned=length)

    def add(self, kind: ArchiveKind) -> None:
        """Make the template of one kind of archive request."""
        if kind in self._archive:
            return
        setting = self._setting
        fixed = {}
        if kind.lock not in WITHOUT_HEADERS:
            retention = setting.retention.locked_by(kind.lock)
            if retention.legal_hold:
                fixed["x-amz-object-lock-legal-hold"] = "ON"
            if retention.mode is not RetentionMode.NONE:
                fixed["x-amz-object-lock-mode"] = retention.mode.value
        variable = [HEADER[kind.checksum]] if kind.checksum != "none" else []
        if setting.payload_signing:
            variable.append("x-amz-content-sha256")
        self._archive[kind] = RequestTemplate(
            "PUT", self._host, fixed, variable=tuple(variable), unsigned={"Content-Length": str(kind.size_bytes)}
        )

    def compile(self, signer: Signer, second: int, retain_until: int | None) -> None:
        """Bring every template to this second."""
        mode = self._setting.retention.mode
        date = format_instant(retain_until) if retain_until is not None and mode is not RetentionMode.NONE else None
        dated = {"x-amz-object-lock-retain-until-date": date} if date is not None else {}
        for kind, template in self._archive.items():
            template.compile(signer, second, {} if kind.lock in WITHOUT_HEADERS else dated)
        extension = {}
        if date is not None:
            body = RETENTION % (mode.value, date)
            self._bodies[Operation.EXTEND] = body.encode()
            extension["content-md5"] = _md5(body)
        for operation, template in self._changes.items():
            template.compile(signer, second, extension if operation is Operation.EXTEND else {})
        self._retrieve.compile(signer, second, {})
        self._head.compile(signer, second, {})
        self._opening.compile(signer, second, {})

    def opening(self) -> bytes:
        return self._opening.head(self._bucket_path)

    def archive(self, kind: ArchiveKind, number: int, values: tuple[bytes, ...]) -> bytes:
        return self._archive[kind].head(self._object_path + b"%012d" % number, values)

    def change(self, operation: Operation, number: int, version: bytes) -> tuple[bytes, ...]:
        """Head and body of a request about an object; ``version`` where the operation names one."""
        values = (version,) if operation in NAMES_A_VERSION else ()
        head = self._changes[operation].head(self._object_path + b"%012d" % number, values)
        return (head, self._bodies[operation]) if operation in self._bodies else (head,)

    def head(self, number: int) -> bytes:
        return self._head.head(self._object_path + b"%012d" % number)

    def retrieve(self, number: int) -> bytes:
        return self._retrieve.head(self._object_path + b"%012d" % number)


def _md5(body: str) -> str:
    return b64encode(hashlib.md5(body.encode(), usedforsecurity=False).digest()).decode()
