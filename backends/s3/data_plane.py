"""The S3 data plane of one worker: the requests its sessions send, made and signed.

One idea: all that does not change from object to object is made before the clock starts or once a second, so a
request costs its checksum's last block, two formats and a signature.
"""

from __future__ import annotations

import time

from archiver.content import Content, ContentCheck, LengthCheck
from archiver.retention import DateMaker, RetentionMode
from archiver.sizes import format_instant
from backends.base import PhaseSetting
from backends.s3.checksums import HEADER, WindowChecksums
from backends.s3.connection import Endpoint
from backends.s3.endpoints import resolve, tls_context
from backends.s3.replies import BodyCheck
from backends.s3.session import S3Session
from backends.s3.setting import WorkerSetting
from backends.s3.signing import EMPTY_SHA256, RequestTemplate, Signer, encode_path

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

    def set_phase(self, setting: PhaseSetting) -> None:
        """Make window checksums for the phase's sizes, before its clock starts."""
        if setting.content is not self._content:
            self._checksums.clear()
        self._content = setting.content
        self._dates = setting.dates
        self._verify = setting.verify
        for size_bytes in setting.object_sizes_bytes:
            for algorithm in self._algorithms():
                if (algorithm, size_bytes) not in self._checksums:
                    self._checksums[algorithm, size_bytes] = WindowChecksums(algorithm, setting.content, size_bytes)
            for requests in self._requests:
                requests.add_size(size_bytes)
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

    def archive_request(self, endpoint_index: int, number: int, size_bytes: int) -> tuple[bytes | memoryview, ...]:
        """Head and body, in views of the pool: nothing is copied."""
        self._compile()
        content = self._content
        assert content is not None
        last_block = content.last_block(number, size_bytes)
        setting = self.setting
        values: tuple[bytes, ...] = ()
        if setting.checksum != "none":
            values = (self._checksums[setting.checksum, size_bytes].base64(number, last_block),)
        if setting.payload_signing:
            values = (*values, self._checksums["sha256", size_bytes].hex(number, last_block))
        head = self._requests[endpoint_index].archive(number, size_bytes, values)
        return head, content.window(number, size_bytes), last_block

    def retrieve_request(self, endpoint_index: int, number: int) -> bytes:
        self._compile()
        return self._requests[endpoint_index].retrieve(number)

    def check(self, number: int, size_bytes: int) -> BodyCheck:
        """What looks at the retrieved bytes of this object."""
        assert self._content is not None
        if self._verify == "all" or (self._verify == "sample" and number % SAMPLE_EVERY == 0):
            return ContentCheck(self._content, number, size_bytes)
        return LengthCheck(size_bytes)

    def _algorithms(self) -> list[str]:
        algorithms = [self.setting.checksum] if self.setting.checksum != "none" else []
        return [*algorithms, "sha256"] if self.setting.payload_signing else algorithms

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
        if setting.session_open == "lock-config":
            self._opening = RequestTemplate("GET", self._host, empty, query="object-lock=")
        else:
            self._opening = RequestTemplate("HEAD", self._host, empty)
        self._archive: dict[int, RequestTemplate] = {}

    def add_size(self, size_bytes: int) -> None:
        """Make the archive template for objects of this size."""
        if size_bytes in self._archive:
            return
        setting = self._setting
        fixed = {}
        if setting.retention.legal_hold:
            fixed["x-amz-object-lock-legal-hold"] = "ON"
        if setting.retention.mode is not RetentionMode.NONE:
            fixed["x-amz-object-lock-mode"] = setting.retention.mode.value
        variable = [HEADER[setting.checksum]] if setting.checksum != "none" else []
        if setting.payload_signing:
            variable.append("x-amz-content-sha256")
        self._archive[size_bytes] = RequestTemplate(
            "PUT", self._host, fixed, variable=tuple(variable), unsigned={"Content-Length": str(size_bytes)}
        )

    def compile(self, signer: Signer, second: int, retain_until: int | None) -> None:
        """Bring every template to this second."""
        dated = {}
        if retain_until is not None and self._setting.retention.mode is not RetentionMode.NONE:
            dated["x-amz-object-lock-retain-until-date"] = format_instant(retain_until)
        for template in self._archive.values():
            template.compile(signer, second, dated)
        self._retrieve.compile(signer, second, {})
        self._opening.compile(signer, second, {})

    def opening(self) -> bytes:
        return self._opening.head(self._bucket_path)

    def archive(self, number: int, size_bytes: int, values: tuple[bytes, ...]) -> bytes:
        return self._archive[size_bytes].head(self._object_path + b"%012d" % number, values)

    def retrieve(self, number: int) -> bytes:
        return self._retrieve.head(self._object_path + b"%012d" % number)
