"""The S3 data plane of one worker: makes and signs the requests of its sessions.

One idea: everything that is the same for many objects is made before the clock starts or once a second. So a request
costs only the checksum of its last block, two formats and a signature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from archiver.values.clock import now_seconds
from archiver.values.content import Content
from archiver.values.errors import PlatformError
from archiver.values.record import Operation
from archiver.values.retention import DateMaker, Lock, RetentionMode
from archiver.values.sizes import format_instant
from backends.base import Batch, ExpectedLocks, Failure, PhaseSetting, check_of
from backends.s3.control import Control, Credentials
from backends.s3.endpoints import resolve, tls_of
from backends.s3.keys import key_of
from backends.s3.setting import S3WorkerSetting
from backends.s3.shown_locks import ShownLocks, lock_failure
from backends.s3.wire.checksums import Checksums, PlainChecksums, WindowChecksums
from backends.s3.wire.connection import Endpoint
from backends.s3.wire.endpoint_requests import NAMES_A_VERSION, EndpointRequests, KindTuple, RequestKind
from backends.s3.wire.multipart import MultipartUpload, Parts, UploadStep, part_bodies
from backends.s3.wire.replies import BodyCheck, instant_of_date_header
from backends.s3.wire.session import Request, S3Session
from backends.s3.wire.signing import Signer

# Looked up once: reading an enumeration's member takes 0.1 us, and an object would need several.
_ARCHIVE, _NEW_VERSION = Operation.ARCHIVE, Operation.NEW_VERSION
_RETRIEVE, _AUDIT, _REFUSED_DELETE = Operation.RETRIEVE, Operation.AUDIT, Operation.REFUSED_DELETE
_MAKES = frozenset((Operation.ARCHIVE, Operation.NEW_VERSION, Operation.COPY))
_CLOCK_SET_SECONDS = 60.0  # a platform whose clock moved further has set its clock
CHECKSUM_SIZES_MAX = 256  # sizes of a phase with checksums computed in advance: 64 windows of each


class S3DataPlane:
    """The sessions of one worker, and their requests."""

    def __init__(self, setting: S3WorkerSetting) -> None:
        self.setting = setting
        self._signer = Signer(setting.access_key, setting.secret_key, setting.region, setting.session_token)
        tls = tls_of(setting.endpoints, setting.ca_bundle, setting.insecure)
        bucket = setting.bucket if setting.virtual_hosted else None
        endpoints = [resolve(url, tls, setting.addresses.get(url, ()), bucket) for url in setting.endpoints]
        self._requests = [EndpointRequests(each, setting, self._signer) for of_url in endpoints for each in of_url]
        self._indices: list[list[int]] = []  # into these, by endpoint and address
        for of_url in endpoints:
            first = sum(map(len, self._indices))
            self._indices.append(list(range(first, first + len(of_url))))
        self._dates: Mapping[float | None, DateMaker] = {}
        self._content: Content | None = None
        self._verify = "all"
        self._second = -1
        self._clock_offset_seconds = setting.clock_offset_seconds
        self._checksums: dict[tuple[str, int, tuple[int, int] | None], Checksums] = {}
        self._keeps_checksums = True
        self._kept: dict[int, S3Session] = {}
        self._expected = ExpectedLocks()
        self._gets, self._heads = ShownLocks(), ShownLocks()
        self.unlike_ids = 0.0  # answers so far whose id differs from the previous answer's
        self.names_versions = False  # some requests of this phase name a version
        self._versions: dict[int, bytes] = {}  # the newest known version of each object
        self._older: dict[int, list[bytes]] = {}  # older versions, if there are several
        self._notes_all = True

    def set_phase(self, setting: PhaseSetting) -> None:
        """Compute window checksums for the phase's sizes before its clock starts."""
        if setting.content is not self._content:
            self._checksums.clear()
        self._content = setting.content
        self._dates = setting.dates
        self._verify = setting.verify
        self._expected = ExpectedLocks(setting.expected)
        for shown in (self._gets, self._heads):
            shown.expect(self._expected)
        used = {checksum.value if checksum is not None else self.setting.checksum for checksum in setting.checksums}
        algorithms = (used - {"none"}) | ({"sha256"} if self.setting.payload_signing else set())
        self._keeps_checksums = len(set(setting.object_sizes_bytes)) <= CHECKSUM_SIZES_MAX
        if self._keeps_checksums:
            for size_bytes in setting.object_sizes_bytes:
                for algorithm in algorithms:
                    self._checksums_of(algorithm, size_bytes)
        self.names_versions = bool(setting.operations & NAMES_A_VERSION)
        if self.names_versions:
            self._versions = self._find_versions(setting.deletes)
            self._older = {}
            self._notes_all = _REFUSED_DELETE in setting.operations or not self.setting.retention.locks
        self._second = -1

    def session(self, client: int) -> S3Session:
        """Return a new session of this client, or its open one with --keep-sessions-open."""
        if not self.setting.keep_sessions_open:
            return S3Session(self, self._index_for(client))
        if client not in self._kept:
            self._kept[client] = S3Session(self, self._index_for(client))
        return self._kept[client]

    def _index_for(self, client: int) -> int:
        """Assign endpoints to clients in turn, and the addresses of an endpoint to its clients in turn."""
        of_endpoint = self._indices[client % len(self._indices)]
        return of_endpoint[client // len(self._indices) % len(of_endpoint)]

    async def end_phase(self) -> None:
        """Close everything that was kept open."""
        for session in self._kept.values():
            await session.disconnect()
        self._kept.clear()

    def endpoint(self, index: int) -> Endpoint:
        return self._requests[index].endpoint

    def object_name(self, number: int) -> str:
        """Return bucket and key, for messages."""
        return f"{self.setting.bucket}/{key_of(self.setting.prefix, number)}"

    def opening_request(self, endpoint_index: int) -> bytes:
        """Return the request that opens a session; empty if there is none."""
        self._start_second()
        return self._requests[endpoint_index].opening()

    def request(self, endpoint_index: int, batch: Batch, index: int) -> Request:
        """Return the request for one object of a batch, without copying its content."""
        operation, number = batch.operation[index], batch.number[index]
        self._start_second()
        if operation is _ARCHIVE or operation is _NEW_VERSION:
            return self._archive(endpoint_index, batch, index)
        requests = self._requests[endpoint_index]
        if operation is _RETRIEVE or operation is _AUDIT:
            return (requests.retrieve(number),), self._check(batch, index, None), False, None
        if operation is Operation.RANGE_RETRIEVE:
            assert batch.range is not None
            part = batch.range[index]
            return (requests.retrieve_range(number, *part),), self._check(batch, index, part), False, None
        if operation is Operation.HEAD:
            return (requests.head(number),), None, True, None
        if operation is Operation.COPY:
            assert batch.source is not None
            kind = RequestKind("copy", batch.lock, retain_for_seconds=batch.retain_for_seconds)
            return (requests.copy(kind, number, batch.source[index]),), None, False, None
        version = self._version_meant(operation, number) if operation in NAMES_A_VERSION else b""
        return requests.change(operation, number, version, batch.retain_for_seconds), None, False, None

    def _archive(self, endpoint_index: int, batch: Batch, index: int) -> Request:
        number, size_bytes = batch.number[index], batch.size_bytes[index]
        version = batch.version[index] if batch.version is not None else 1
        checksum = batch.checksum.value if batch.checksum is not None else self.setting.checksum
        kind: KindTuple = ("archive", batch.lock, checksum, batch.retain_for_seconds)
        if batch.part_bytes is not None and size_bytes > batch.part_bytes:
            upload = MultipartUpload(
                endpoint_index, number, size_bytes, batch.part_bytes, version, RequestKind(*kind), self._upload_request
            )
            return upload.request(), None, False, upload
        content = self._content
        assert content is not None
        last_block = content.last_block(number, size_bytes, version)
        values: tuple[bytes, ...] = ()
        if checksum != "none":
            values = (self._checksums_of(checksum, size_bytes).base64(number, last_block),)
        if self.setting.payload_signing:
            values = (*values, self._checksums_of("sha256", size_bytes).hex(number, last_block))
        head = self._requests[endpoint_index].archive(kind, number, values, size_bytes)
        return (head, content.window(number, size_bytes), last_block), None, False, None

    def _upload_request(self, upload: MultipartUpload) -> Parts:
        """Return the next request of a multipart upload."""
        self._start_second()
        requests, number, kind = self._requests[upload.endpoint_index], upload.number, upload.kind
        match upload.step:
            case UploadStep.CREATE:
                return (requests.create_upload(kind._replace(what="create upload"), number),)
            case UploadStep.PART:
                return self._part(requests, upload)
            case UploadStep.COMPLETE:
                body = upload.completion
                return requests.complete_upload(number, upload.query, len(body)), body
            case _:
                return (requests.abort_upload(number, upload.query),)

    def _part(self, requests: EndpointRequests, upload: MultipartUpload) -> Parts:
        content, number, size_bytes, part = self._content, upload.number, upload.size_bytes, upload.part
        assert content is not None
        window, last_block = content.window(number, size_bytes), content.last_block(number, size_bytes, upload.version)
        offset, length = part
        of_block = last_block[max(0, offset - len(window)) : max(0, offset + length - len(window))]
        values: tuple[bytes, ...] = ()
        if upload.kind.checksum != "none":
            values = (self._checksums_of(upload.kind.checksum, size_bytes, part).base64(number, of_block),)
            upload.part_checksum(values[0])
        if self.setting.payload_signing:
            values = (*values, self._checksums_of("sha256", size_bytes, part).hex(number, of_block))
        kind = RequestKind("part", checksum=upload.kind.checksum)
        return requests.part(kind, number, upload.query, values, length), *part_bodies((window, last_block), part)

    def _checksums_of(self, algorithm: str, size_bytes: int, part: tuple[int, int] | None = None) -> Checksums:
        """Return checksums for one size, cached unless a phase has too many sizes.

        Those of whole objects are computed before the clock starts, those of parts when needed.
        """
        checksums = self._checksums.get((algorithm, size_bytes, part))
        if checksums is None:
            assert self._content is not None
            if not self._keeps_checksums:
                return PlainChecksums(algorithm, self._content, size_bytes, part)
            checksums = WindowChecksums(algorithm, self._content, size_bytes, part)
            self._checksums[algorithm, size_bytes, part] = checksums
        return checksums

    def head_request(self, endpoint_index: int, number: int) -> bytes:
        """Return the request for the lock of an object that was just read."""
        self._start_second()
        return self._requests[endpoint_index].head(number)

    def lock_request(self, endpoint_index: int, batch: Batch, index: int) -> Parts:
        """Return the request that locks an object that was just archived."""
        self._start_second()
        requests = self._requests[endpoint_index]
        return requests.change(Operation.EXTEND, batch.number[index], b"", batch.retain_for_seconds)

    def lacks_version(self, batch: Batch, index: int) -> bool:
        """Return whether the version to delete was neither looked up before the phase nor created in it."""
        # Without a version id a delete would only hide the object, which no lock refuses.
        return batch.operation[index] in NAMES_A_VERSION and batch.number[index] not in self._versions

    def note_version(self, batch: Batch, index: int, headers: Mapping[bytes, bytes]) -> None:
        """Note the version that a later delete of this object is for, after it was archived, copied or deleted.

        Versions of locked objects are not noted if this phase will not try to delete them: there may be very many.
        """
        operation, number = batch.operation[index], batch.number[index]
        if operation is Operation.DELETE:
            older = self._older.get(number)
            if older:
                self._versions[number] = older.pop()
            else:
                self._versions.pop(number, None)
        elif operation in _MAKES and (
            self._notes_all or batch.lock is Lock.NONE or batch.retain_for_seconds is not None
        ):
            version = headers.get(b"x-amz-version-id")
            if version is not None:
                if number in self._versions:
                    self._older.setdefault(number, []).append(self._versions[number])
                self._versions[number] = quote(version.decode("latin-1"), safe="-_.~").encode()

    def _version_meant(self, operation: Operation, number: int) -> bytes:
        """Return the version to delete: the newest; for a refused delete the oldest."""
        older = self._older.get(number) if operation is _REFUSED_DELETE else None
        return older[0] if older else self._versions[number]

    def lock_failure(self, number: int, headers: Mapping[bytes, bytes]) -> Failure | None:
        """Return what is wrong with the lock in an answer's headers for an audited object."""
        expected = self._expected.of(number)
        return lock_failure(number, headers, expected) if expected is not None else None

    def shown_lock_failure(self, number: int, headers: Mapping[bytes, bytes], *, is_head: bool) -> Failure | None:
        """Return what is wrong with the lock that the answer to a read shows."""
        return (self._heads if is_head else self._gets).failure(number, headers, self._second)

    def _check(self, batch: Batch, index: int, part: tuple[int, int] | None) -> BodyCheck:
        """Return the check for the retrieved bytes of this object."""
        assert self._content is not None
        return check_of(
            self._content,
            "all" if batch.operation[index] is _AUDIT else self._verify,
            batch.number[index],
            batch.size_bytes[index],
            version=batch.version[index] if batch.version is not None else 1,
            part=part,
            content_number=batch.content[index] if batch.content is not None else None,
        )

    def _find_versions(self, deletes: Sequence[NDArray[np.int64]]) -> dict[int, bytes]:
        """Return the version ids, encoded for a query, of the objects that the phase will try to delete."""
        numbers = np.concatenate([np.empty(0, dtype=np.int64), *deletes])
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
            addressing="virtual" if setting.virtual_hosted else "path",
        )
        first, last = (key_of(setting.prefix, number) for number in (max(0, numbers.min() - 1), numbers.max()))
        keys = {key_of(setting.prefix, number): number for number in numbers.tolist()}
        found = {
            keys[key]: quote(version, safe="-_.~").encode()
            for key, version in control.versions(setting.bucket, setting.prefix, first if numbers.min() else "", last)
            if key in keys
        }
        # Without a version id a delete would only hide the object, which no lock refuses.
        missing = keys.keys() - {key_of(setting.prefix, number) for number in found}
        if missing:
            raise PlatformError(
                f"{setting.endpoints[0]}: bucket {setting.bucket} does not list {len(missing):,} of {len(keys):,} "
                f"objects that were archived, such as {min(missing)}; the run deleted none of them"
            )
        return found

    def note_refusal(self, headers: Mapping[bytes, bytes]) -> None:
        """After a refusal (403), update the clock offset if the platform has set its clock."""
        date = instant_of_date_header(headers.get(b"date", b"").decode("latin-1"))
        if date is None:
            return
        offset = date + 0.5 - now_seconds()  # whole seconds: on average half a second old
        if abs(offset - self._clock_offset_seconds) > _CLOCK_SET_SECONDS:
            self._clock_offset_seconds = offset
            self._second = -1

    def _start_second(self) -> None:
        # Signing time and retain-until dates follow the server's clock, so that a client with a wrong clock causes
        # neither refused requests nor longer locks.
        server_now = now_seconds() + self._clock_offset_seconds
        second = int(server_now)
        if second != self._second:
            self._second = second
            dates = {}
            if self.setting.retention.mode is not RetentionMode.NONE:
                # A changed clock makes no lock longer than requested, or later than the ledger has it.
                now = min(server_now, now_seconds() + self.setting.clock_offset_seconds)
                dates = {key: format_instant(maker.retain_until(now)) for key, maker in self._dates.items()}
            for requests in self._requests:
                requests.start_second(second, dates)
