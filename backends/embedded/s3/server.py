"""The S3 server: HTTP requests in, calls of the core, HTTP answers out.

One idea: a table maps method, resource and subresource to a call. A call reads its inputs, calls the core once, and
answers. The module uses aiohttp's low-level server without routing or middlewares, which would cost more than the rest
of a small request.

The server verifies an object of at most `LARGE_BYTES` completely before the first byte of the answer. It verifies a
larger one block by block while it sends it. At a damaged block it cuts the connection, so that no client can take the
object for complete. A request for something that the server does not do is refused by name: to ignore a condition or an
encryption would break a promise. docs/s3-conformance.md has the list. Forms with a POST policy stay, because two
conformance checks use them as a reference.
"""

from __future__ import annotations

import itertools
import json
import secrets
import sys
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from email.utils import formatdate
from functools import partial
from ipaddress import ip_address
from urllib.parse import quote

from aiohttp import web

from archiver.values.errors import Damaged, StoreError

from ..core.changes.objects import (
    ChangeResult,
    CreateBucket,
    Delete,
    DeleteBucket,
    DeleteMany,
    PutVersion,
    SetLegalHold,
    SetLockConfiguration,
    SetRetention,
    SetVersioning,
)
from ..core.files.segments import LARGE_BYTES
from ..core.rules.locks import UNLOCKED
from ..core.rules.refusals import NoSuchKey, NotLockBucket, Refusal
from ..core.store import Store
from ..core.tables.catalogue import VersionRow
from . import errors, xml
from .answers import checksum_headers, lock_headers, stored_headers
from .calls import attributes, conditions, copy, description, listings, settings, tags, uploads
from .credentials import Credential
from .errors import S3Error, invalid_argument
from .requests import post
from .requests.body import OBJECT_BYTES_MAX, Claims, Received, receive_object, receive_unmeasured
from .requests.connection import parsed_body
from .requests.request import (
    BYPASS_HEADER,
    KEY_BYTES_MAX,
    PUT_OF_A_SOURCE,
    REGION,
    SUBRESOURCES,
    UNKNOWN,
    UNTIL_HEADER,
    S3Call,
    byte_range,
    check_bucket_name,
    check_key,
    check_owner,
    decode_name,
    lock_of_headers,
    parse_query,
)
from .requests.signature import Verifier
from .xml import document, element, group

METRICS_PATH = "/-/metrics"  # no bucket can be called "-"
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STATISTICS_PATH = "/-/statistics"
_UNANSWERED = 499  # the status that proxies log if the connection ended before the answer


Handler = Callable[[S3Call], Awaitable[web.StreamResponse]]


class S3Server:
    """Serves S3 for one store. `handle` is the handler of an `aiohttp.web.Server`."""

    def __init__(self, store: Store, credentials: Mapping[str, Credential], metrics_page: Callable[[], str]) -> None:
        """`metrics_page` returns the text that `METRICS_PATH` serves."""
        self._metrics_page = metrics_page
        self.requests: Counter[tuple[str, int]] = Counter()
        self._store = store
        self._verifier = Verifier(credentials, lambda: store.clock.now_ms() / 1000)
        self._request_ids = map(f"{secrets.token_hex(4).upper()}{{:08X}}".format, itertools.count(1))
        self._uploads = uploads.UploadCalls(store, self._respond)
        # Method (PUT_OF_A_SOURCE for a PUT with a source object), "service", "bucket" or "key", and subresource: the
        # call's name and its handler.
        self._calls: dict[tuple[str, str, str], tuple[str, Handler]] = {
            ("GET", "service", ""): ("ListBuckets", self._list_buckets),
            ("PUT", "bucket", ""): ("PutBucket", self._create_bucket),
            ("HEAD", "bucket", ""): ("HeadBucket", self._head_bucket),
            ("DELETE", "bucket", ""): ("DeleteBucket", self._delete_bucket),
            ("GET", "bucket", ""): ("ListObjectsV1", self._list_objects),
            ("GET", "bucket", "versions"): ("ListObjectVersions", self._list_versions),
            ("GET", "bucket", "location"): ("GetBucketLocation", self._get_location),
            ("GET", "bucket", "versioning"): ("GetBucketVersioning", self._get_versioning),
            ("PUT", "bucket", "versioning"): ("PutBucketVersioning", self._put_versioning),
            ("GET", "bucket", "object-lock"): ("GetBucketObjectLockConfig", self._get_lock_configuration),
            ("PUT", "bucket", "object-lock"): ("PutBucketObjectLockConfig", self._put_lock_configuration),
            ("POST", "bucket", ""): ("PostPolicyBucket", self._post_object),
            ("POST", "bucket", "delete"): ("DeleteMultipleObjects", self._delete_objects),
            ("PUT", "key", ""): ("PutObject", self._put_object),
            ("GET", "key", ""): ("GetObject", self._get_object),
            ("HEAD", "key", ""): ("HeadObject", self._get_object),
            ("DELETE", "key", ""): ("DeleteObject", self._delete_object),
            ("GET", "key", "retention"): ("GetObjectRetention", self._get_retention),
            ("PUT", "key", "retention"): ("PutObjectRetention", self._put_retention),
            ("GET", "key", "legal-hold"): ("GetObjectLegalHold", self._get_legal_hold),
            ("PUT", "key", "legal-hold"): ("PutObjectLegalHold", self._put_legal_hold),
            ("GET", "key", "partNumber"): ("GetObject", self._get_object),
            ("HEAD", "key", "partNumber"): ("HeadObject", self._get_object),
            (PUT_OF_A_SOURCE, "key", ""): ("CopyObject", partial(copy.copy_object, store, self._respond)),
            ("GET", "key", "tagging"): ("GetObjectTagging", partial(tags.get_tags, store, self._respond)),
            ("PUT", "key", "tagging"): ("PutObjectTagging", partial(tags.put_tags, store, self._respond)),
            ("DELETE", "key", "tagging"): ("DeleteObjectTagging", partial(tags.delete_tags, store, self._respond)),
            ("GET", "key", "attributes"): (
                "GetObjectAttributes",
                partial(attributes.get_attributes, store, self._respond),
            ),
            **settings.table(store, self._respond),
            **self._uploads.table,
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.raw_path == METRICS_PATH and request.method == "GET":
            return self._metrics()
        call = S3Call(request, next(self._request_ids))
        status = _UNANSWERED
        try:
            response = await self._answer(call)
            status = response.status
        except Exception as failed:  # noqa: BLE001 - the one place that answers every fault
            response = self._error(call, failed)
            status = response.status
        finally:
            self.requests[call.name, status] += 1
        return response

    async def _answer(self, call: S3Call) -> web.StreamResponse:
        request = call.request
        raw_path, _, raw_query = request.raw_path.partition("?")
        if raw_path == _STATISTICS_PATH and self._is_local(request):
            return self._statistics(call)
        if not post.is_form(request.method, raw_path, raw_query, call.headers):  # a form's signature is in its body
            call.signed = self._verifier.verify(request.method, raw_path, raw_query, call.headers)
        if raw_path == _STATISTICS_PATH:
            return self._statistics(call)
        handler = self._find(call, raw_path, raw_query)
        check_owner(call.headers)
        if "expect" in call.headers:
            if call.headers["expect"].lower() != "100-continue":
                raise S3Error("InvalidRequest", "Expect may only be 100-continue")
            self._check_before_body(call)
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        return await handler(call)

    def _find(self, call: S3Call, raw_path: str, raw_query: str) -> Handler:
        """Parse path and query, and return the handler of the call. Raises S3Error if there is none."""
        raw_bucket, _, raw_key = raw_path[1:].partition("/")
        if not raw_path.startswith("/"):
            raise S3Error("InvalidURI", "the request's path must begin with /")
        call.bucket, call.key = decode_name(raw_bucket), decode_name(raw_key)
        if len(raw_key) > KEY_BYTES_MAX:
            check_key(call.key)
        if raw_query:
            call.query = parse_query(raw_query)
        level = "key" if call.key else "bucket" if call.bucket else "service"
        subresource = next((name for name in call.query if name in SUBRESOURCES), "")
        if subresource == "partNumber" and "uploadId" in call.query:
            subresource = "uploadId"
        method = call.request.method
        if method == "PUT" and copy.SOURCE_HEADER in call.headers:
            method = PUT_OF_A_SOURCE
        found = self._calls.get((method, level, subresource))
        if found is None:
            call.name = f"{method} {level} {subresource}".strip()
            raise S3Error("NotImplemented", f"the embedded store does not offer {call.name}")
        call.name, handler = found
        return handler

    def _name(self, call: S3Call) -> None:
        """Find the name of a call that was refused before it was parsed."""
        raw_path, _, raw_query = call.request.raw_path.partition("?")
        with suppress(S3Error):
            self._find(call, raw_path, raw_query)

    def _check_before_body(self, call: S3Call) -> None:
        """Raise what can be refused before the client sends its body (Expect: 100-continue)."""
        if call.name == "PutObject":
            self._store.bucket(call.bucket)
        elif call.name == "PutObjectPart":
            self._uploads.upload_of(call)

    @staticmethod
    def _is_local(request: web.BaseRequest) -> bool:
        peer = request.transport.get_extra_info("peername") if request.transport else None
        return peer is not None and ip_address(peer[0]).is_loopback

    # Answers.

    def _head(self, call: S3Call) -> dict[str, str]:
        return {
            "Server": "archiver",
            "Date": self._store.clock.http_date(),
            "x-amz-request-id": call.request_id,
        }

    def _respond(
        self,
        call: S3Call,
        status: int = 200,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        content_type: str = "application/xml",
    ) -> web.Response:
        merged = self._head(call)
        if body is not None:
            merged["Content-Type"] = content_type
        if headers:
            merged.update(headers)
        return web.Response(status=status, body=body, headers=merged)

    def _error(self, call: S3Call, failed: Exception) -> web.Response:
        if call.name == UNKNOWN:
            self._name(call)
        if isinstance(failed, Refusal):
            in_document = call.name == "PutObjectRetention"
            failed = errors.of_refusal(failed, "RetainUntilDate" if in_document else UNTIL_HEADER)
        elif isinstance(failed, StoreError):
            print(f"{call.name} {call.request_id}: {failed}", file=sys.stderr, flush=True)
            failed = S3Error("InternalError", str(failed))
        elif isinstance(failed, ConnectionError):
            raise failed  # the client is gone: no one reads the answer
        elif not isinstance(failed, S3Error):
            traceback.print_exception(failed)
            failed = S3Error("InternalError", f"an internal fault of the store; see its log for {call.request_id}")
        body = xml.error_document(
            failed.code,
            failed.message,
            call.request.raw_path.partition("?")[0],
            call.request_id,
            failed.details,
        )
        response = self._respond(call, failed.status, body, failed.headers)
        if "expect" in call.headers and not call.request.content.is_eof():
            # The client may or may not send its body now. The next bytes may be the body or a request: close.
            response.force_close()
        return response

    def _metrics(self) -> web.Response:
        """Answer the metrics page. It has counts only, so it needs no signature. The request is not counted itself."""
        return web.Response(
            body=self._metrics_page().encode(), headers={"Server": "archiver", "Content-Type": _METRICS_TYPE}
        )

    def _statistics(self, call: S3Call) -> web.Response:
        call.name = "Statistics"
        requests: dict[str, dict[str, int]] = {}
        for (name, status), count in sorted(self.requests.items()):
            requests.setdefault(name, {})[str(status)] = count
        body = json.dumps({**asdict(self._store.statistics()), "requests": requests}).encode()
        return self._respond(call, body=body, content_type="application/json")

    # Buckets.

    async def _list_buckets(self, call: S3Call) -> web.StreamResponse:
        return self._respond(call, body=listings.buckets_document(self._store.buckets, call.query))

    async def _create_bucket(self, call: S3Call) -> web.StreamResponse:
        check_bucket_name(call.bucket)
        settings.check_new_bucket(call.headers)
        body = await call.body()
        if body:
            xml.parse(body, "CreateBucketConfiguration")
        object_lock = call.headers.get("x-amz-bucket-object-lock-enabled", "").lower() == "true"
        await self._store.change(CreateBucket(call.bucket, object_lock))
        return self._respond(call, headers={"Location": f"/{call.bucket}"})

    async def _head_bucket(self, call: S3Call) -> web.StreamResponse:
        self._store.bucket(call.bucket)
        return self._respond(call, headers={"x-amz-bucket-region": REGION})

    async def _delete_bucket(self, call: S3Call) -> web.StreamResponse:
        call.require("delete")
        await self._store.change(DeleteBucket(call.bucket))
        return self._respond(call, 204)

    async def _get_location(self, call: S3Call) -> web.StreamResponse:
        self._store.bucket(call.bucket)
        return self._respond(call, body=document("LocationConstraint", []))

    async def _get_versioning(self, call: S3Call) -> web.StreamResponse:
        versioning = self._store.bucket(call.bucket).versioning
        status = None if versioning == "Off" else versioning
        return self._respond(call, body=document("VersioningConfiguration", [element("Status", status)]))

    async def _put_versioning(self, call: S3Call) -> web.StreamResponse:
        versioning = xml.parse_versioning(await call.body())
        await self._store.change(SetVersioning(call.bucket, versioning))
        return self._respond(call)

    async def _get_lock_configuration(self, call: S3Call) -> web.StreamResponse:
        bucket = self._store.bucket(call.bucket)
        if not bucket.object_lock:
            raise S3Error(
                "ObjectLockConfigurationNotFoundError",
                "Object Lock configuration does not exist for this bucket",
                {"BucketName": call.bucket},
            )
        return self._respond(call, body=xml.lock_configuration_document(bucket.default))

    async def _put_lock_configuration(self, call: S3Call) -> web.StreamResponse:
        default = xml.parse_lock_configuration(await call.body(integrity=True))
        await self._store.change(SetLockConfiguration(call.bucket, default))
        return self._respond(call)

    # Objects.

    async def _put_object(self, call: S3Call) -> web.StreamResponse:
        def receive(claims: Claims) -> Awaitable[Received]:
            return receive_object(call.request, call.signed, call.headers, claims, self._store, call.bucket, call.key)

        return self._respond(call, headers=await self._upload(call, receive))

    async def _post_object(self, call: S3Call) -> web.StreamResponse:
        """Handle a form upload: if its policy allows it, it is an upload like any other."""
        request = call.request
        raw_path, _, raw_query = request.raw_path.partition("?")
        if not post.is_form(request.method, raw_path, raw_query, call.headers):
            raise S3Error("PreconditionFailed", "Bucket POST must be of the enclosure-type multipart/form-data")
        size = call.headers.get("content-length")
        if size is None:
            raise S3Error("MissingContentLength", "a form needs Content-Length")
        if int(size) > OBJECT_BYTES_MAX + post.FIELDS_BYTES_MAX:
            raise S3Error("EntityTooLarge", f"one upload may have at most {OBJECT_BYTES_MAX} bytes")
        form = post.UploadForm(parsed_body(request), call.headers)
        await form.read_fields()
        upload = post.allowed_upload(form, call.bucket, self._verifier, self._store.clock.now_ms())
        call.key, call.headers, call.signed = upload.key, upload.headers, upload.signed
        check_key(call.key)

        def receive(claims: Claims) -> Awaitable[Received]:
            check_length = upload.policy.check_length
            return receive_unmeasured(
                request, call.signed, claims, form.file(), check_length, self._store, call.bucket, call.key
            )

        headers = await self._upload(call, receive)
        headers["Location"] = f"/{quote(call.bucket)}/{quote(call.key, safe='/~')}"
        if upload.status != 201:
            return self._respond(call, upload.status, headers=headers)
        body = post.stored_document(call.bucket, call.key, headers["ETag"], headers["Location"])
        return self._respond(call, 201, body, headers=headers)

    async def _upload(self, call: S3Call, receive: Callable[[Claims], Awaitable[Received]]) -> dict[str, str]:
        """Receive and store an object with the lock that the headers request. Return the answer's headers."""
        store, headers = self._store, call.headers
        bucket = store.bucket(call.bucket)
        lock = lock_of_headers(call)
        claims = Claims.of(headers)
        if (lock != UNLOCKED or bucket.default is not None) and not claims.any:
            raise S3Error(
                "InvalidRequest", "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object"
                " requests with Object Lock parameters",
            )  # fmt: skip
        if not bucket.object_lock and lock != UNLOCKED:
            raise NotLockBucket(bucket.name)
        condition, tag_set = conditions.of_write(headers), tags.of_header(headers)
        metadata = description.of_headers(headers)
        received = await receive(claims)
        put = PutVersion(
            bucket.name, call.key, received.content, received.size, received.block_crcs, received.etag,
            received.checksum, headers.get("content-type"), metadata, lock, condition, tag_set,
        )  # fmt: skip
        stored = await store.put(put)
        return {
            "ETag": f'"{received.etag}"',
            **stored_headers(stored),
            **checksum_headers(received.checksum),
        }

    async def _get_object(self, call: S3Call) -> web.StreamResponse:
        """Handle GetObject and HeadObject, which differ in the bytes only."""
        store = self._store
        bucket = store.bucket(call.bucket)
        version = store.queries.object(bucket, call.key, call.version_id)
        headers = self._head(call)
        headers["ETag"] = f'"{version.etag}"'
        headers["Content-Type"] = version.content_type or "binary/octet-stream"
        headers["Last-Modified"] = formatdate(version.created_ms // 1000, usegmt=True)
        headers["Accept-Ranges"] = "bytes"
        if bucket.versioning != "Off":
            headers["x-amz-version-id"] = store.queries.version_id(version)
        if version.mode is not None or version.legal_hold is not None:
            headers.update(lock_headers(version.lock, store.clock.now_ms()))
        headers.update(description.shown(version.metadata, call.query))
        headers.update(tags.count_headers(version.tags))
        unmet = conditions.unmet(call.headers, version)
        if unmet is not None:
            if unmet in conditions.UNCHANGED:
                return web.Response(status=304, headers=headers)
            raise conditions.failed(unmet)
        start, length, status = 0, version.size, 200
        if "partNumber" in call.query:
            start, length, status = self._part_of(call, version, headers)
        elif "range" in call.headers:
            start, length, status = byte_range(call.headers["range"], version.size)
        if status == 206 and length:
            headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{version.size}"
        elif call.headers.get("x-amz-checksum-mode", "").upper() == "ENABLED":
            headers.update(checksum_headers(version.checksum))
        headers["Content-Length"] = str(length)
        if call.request.method == "HEAD":
            return web.Response(status=status, headers=headers)
        if length > LARGE_BYTES:
            return await self._send_large(call, version, start, length, status, headers)
        body = await store.read(version, start, length) if length else b""
        return web.Response(status=status, body=body, headers=headers)

    def _part_of(self, call: S3Call, version: VersionRow, headers: dict[str, str]) -> tuple[int, int, int]:
        """Return start, length and status of the requested part; add its header to `headers`."""
        if "range" in call.headers:
            raise S3Error("InvalidRequest", "Cannot specify both Range header and partNumber query parameter")
        start, length, count = uploads.part_span(self._store, version, uploads.part_number(call.query))
        if count is not None:
            headers["x-amz-mp-parts-count"] = str(count)
        return start, length, 206

    async def _send_large(
        self, call: S3Call, version: VersionRow, start: int, length: int, status: int, headers: dict[str, str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers=headers)
        blocks = self._store.read_blocks(version, start, length)
        first = await anext(blocks)  # damage in the first block still gets an error answer
        await response.prepare(call.request)
        try:
            await response.write(first)
            async for block in blocks:
                await response.write(block)
        except (Damaged, NoSuchKey) as damage:  # or a part was deleted since
            print(f"{call.name} {call.request_id}: {damage}", file=sys.stderr, flush=True)
            if call.request.transport is not None:
                call.request.transport.abort()
            raise ConnectionResetError(str(damage)) from damage
        await response.write_eof()
        return response

    async def _delete_object(self, call: S3Call) -> web.StreamResponse:
        call.require("delete")
        bypass = self._bypass(call)
        condition = conditions.of_deletion(call.headers)
        stored = await self._store.change(Delete(call.bucket, call.key, call.version_id, bypass, condition))
        return self._respond(call, 204, headers=stored_headers(stored))

    async def _delete_objects(self, call: S3Call) -> web.StreamResponse:
        self._store.bucket(call.bucket)
        named_objects, quiet = xml.parse_delete(await call.body(integrity=True))
        bypass = self._bypass(call)
        deletes = [
            Delete(call.bucket, each.key, each.version_id, bypass, conditions.of_etag(each.etag))
            for each in named_objects
        ]
        parts = []
        for delete, answer in zip(deletes, await self._answers_to(call, deletes), strict=True):
            named = [element("Key", delete.key), element("VersionId", delete.version_id)]
            if isinstance(answer, Exception):
                error = answer if isinstance(answer, S3Error) else errors.of_refusal(answer)
                parts.append(group("Error", [*named, element("Code", error.code), element("Message", error.message)]))
            elif not quiet:
                if answer.is_marker:
                    named += [
                        element("DeleteMarker", "true"),
                        element("DeleteMarkerVersionId", answer.version_id),
                    ]
                parts.append(group("Deleted", named))
        return self._respond(call, body=document("DeleteResult", parts))

    async def _answers_to(self, call: S3Call, deletes: Sequence[Delete]) -> Sequence[ChangeResult | Refusal | S3Error]:
        """Return one answer for each deletion. Without the right each one is refused, as at Amazon."""
        try:
            call.require("delete")
        except S3Error as denied:
            return [denied] * len(deletes)
        return await self._store.change(DeleteMany(deletes))

    def _bypass(self, call: S3Call) -> bool:
        """Return whether the request bypasses governance: it has the header, and its credential has the right."""
        header = call.headers.get(BYPASS_HEADER)
        if header is None:
            return False
        if not self._store.bucket(call.bucket).object_lock:
            raise invalid_argument(
                "x-amz-bypass-governance-retention is only applicable to Object Lock enabled buckets.",
                BYPASS_HEADER,
                header,
            )
        return header.lower() == "true" and call.credential.may("bypass")

    # Locks.

    def _lockable(self, call: S3Call) -> VersionRow:
        bucket = self._store.bucket(call.bucket)
        if not bucket.object_lock:
            raise NotLockBucket(bucket.name)
        return self._store.queries.lockable(bucket, call.key, call.version_id)

    async def _get_retention(self, call: S3Call) -> web.StreamResponse:
        retention = self._lockable(call).retention
        if retention is None:
            raise _no_lock()
        return self._respond(call, body=xml.retention_document(retention, self._store.clock.now_ms()))

    async def _put_retention(self, call: S3Call) -> web.StreamResponse:
        call.require("retention")
        retention = xml.parse_retention(await call.body(integrity=True))
        bypass = self._bypass(call) if self._store.bucket(call.bucket).object_lock else False
        await self._store.change(SetRetention(call.bucket, call.key, call.version_id, retention, bypass))
        return self._respond(call)

    async def _get_legal_hold(self, call: S3Call) -> web.StreamResponse:
        hold = self._lockable(call).legal_hold
        if hold is None:
            raise _no_lock()
        return self._respond(call, body=document("LegalHold", [element("Status", "ON" if hold else "OFF")]))

    async def _put_legal_hold(self, call: S3Call) -> web.StreamResponse:
        call.require("hold")
        on = xml.parse_legal_hold(await call.body(integrity=True))
        await self._store.change(SetLegalHold(call.bucket, call.key, call.version_id, on))
        return self._respond(call)

    # Listings.

    async def _list_objects(self, call: S3Call) -> web.StreamResponse:
        is_v2 = call.query.get("list-type") == "2"
        call.name = "ListObjectsV2" if is_v2 else "ListObjectsV1"
        bucket = self._store.bucket(call.bucket)
        body = listings.objects_document(self._store.queries, bucket, call.query, is_v2=is_v2)
        return self._respond(call, body=body)

    async def _list_versions(self, call: S3Call) -> web.StreamResponse:
        bucket = self._store.bucket(call.bucket)
        return self._respond(call, body=listings.versions_document(self._store.queries, bucket, call.query))


def _no_lock() -> S3Error:
    return S3Error("NoSuchObjectLockConfiguration", "The specified object does not have a ObjectLock configuration")
