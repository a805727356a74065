"""The calls of multipart uploads: create, upload or copy a part, complete, abort, and the two listings.

One idea: the server receives a part as it receives an object (`requests.body`), and the part is durable when it is
answered. The create call sets the attributes of the later version; the complete call only lists its parts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import quote

from aiohttp import web

from ...core.changes.uploads import COMPOSITE, FULL_OBJECT, AbortUpload, BeginUpload, CompleteUpload, PutPart
from ...core.files import digests
from ...core.files.digests import CHECKSUM_KINDS
from ...core.rules.locks import UNLOCKED
from ...core.store import Store
from ...core.tables.catalogue import Bucket, VersionRow
from ...core.tables.uploads import NUMBER_MAX, Upload
from .. import xml
from ..answers import Respond, checksum_elements, part_checksum_element, part_checksum_headers, stored_headers
from ..errors import S3Error, number_in
from ..requests.body import OBJECT_BYTES_MAX, Claims, Received, receive_document, receive_object
from ..requests.request import PUT_OF_A_SOURCE, S3Call, lock_of_headers
from ..xml import document, element, group
from . import conditions, copy, description, pages, tags
from .listings import OWNER, encoder, page_size, prefix_elements

_CHECKSUM_PREFIX = "x-amz-checksum-"
_CHECKSUM_WORD = "checksum-"
_INITIATOR = OWNER.replace("Owner", "Initiator")


class UploadCalls:
    """The calls on one store; `respond` is S3Server's."""

    def __init__(self, store: Store, respond: Respond) -> None:
        self._store = store
        self._respond = respond
        self.table: dict[tuple[str, str, str], tuple[str, Callable[[S3Call], Awaitable[web.StreamResponse]]]] = {
            ("POST", "key", "uploads"): ("NewMultipartUpload", self._create),
            ("PUT", "key", "uploadId"): ("PutObjectPart", self._upload_part),
            (PUT_OF_A_SOURCE, "key", "uploadId"): ("CopyObjectPart", self._copy_part),
            ("POST", "key", "uploadId"): ("CompleteMultipartUpload", self._complete),
            ("DELETE", "key", "uploadId"): ("AbortMultipartUpload", self._abort),
            ("GET", "key", "uploadId"): ("ListObjectParts", self._list_parts),
            ("GET", "bucket", "uploads"): ("ListMultipartUploads", self._list_uploads),
        }

    async def _create(self, call: S3Call) -> web.StreamResponse:
        headers = call.headers
        lock = lock_of_headers(call)
        kind, kind_type = _checksum_of_upload(headers)
        begin = BeginUpload(
            call.bucket, call.key, kind, kind_type,
            headers.get("content-type"), description.of_headers(headers), tags.of_header(headers), lock,
        )  # fmt: skip
        number = await self._store.change(begin)
        parts = [
            element("Bucket", call.bucket),
            element("Key", call.key),
            element("UploadId", self._store.queries.upload_id(number)),
        ]
        shown = (
            {} if kind is None else {"x-amz-checksum-algorithm": kind.upper(), "x-amz-checksum-type": str(kind_type)}
        )
        return self._respond(call, body=document("InitiateMultipartUploadResult", parts), headers=shown)

    def upload_of(self, call: S3Call) -> tuple[Bucket, Upload]:
        """Return the unfinished upload that the call names. Raises NoSuchUpload or NoSuchBucket."""
        bucket = self._store.bucket(call.bucket)
        return bucket, self._store.queries.upload(bucket, call.key, self._number(call))

    def _number(self, call: S3Call) -> int:
        return self._store.queries.upload_number(call.query["uploadId"])

    async def _upload_part(self, call: S3Call) -> web.StreamResponse:
        number = part_number(call.query)
        bucket, upload = self.upload_of(call)
        claims = Claims.of(call.headers)
        if (upload.lock != UNLOCKED or bucket.default is not None) and not claims.any:
            raise S3Error(
                "InvalidRequest", "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Part requests with"
                " Object Lock parameters",
            )  # fmt: skip
        if upload.checksum_kind not in (None, claims.kind):
            raise S3Error(
                "InvalidRequest", f"Checksum Type mismatch occurred, expected checksum Type: {upload.checksum_kind},"
                f" actual checksum Type: {claims.kind or 'null'}",
            )  # fmt: skip
        received = await receive_object(
            call.request, call.signed, call.headers, claims, self._store, bucket.name, call.key
        )
        await self._put_part(call, upload, number, received)
        answer = {"ETag": f'"{received.etag}"', **part_checksum_headers(received.checksum)}
        return self._respond(call, headers=answer)

    async def _copy_part(self, call: S3Call) -> web.StreamResponse:
        number = part_number(call.query)
        _, upload = self.upload_of(call)
        source_bucket, source, _ = copy.find_source(self._store, call.headers)
        start, length = copy.source_range(call.headers, source)
        if length > OBJECT_BYTES_MAX:
            raise S3Error("InvalidRequest", f"a part may have at most {OBJECT_BYTES_MAX} bytes; copy a range")
        copied = await copy.copy_content(
            self._store, source, start, length, upload.checksum_kind, call.bucket, call.key
        )
        await self._put_part(call, upload, number, copied)
        body = document("CopyPartResult", copy.result_elements(copied, self._store.clock.now_ms(), is_part=True))
        return self._respond(call, body=body, headers=copy.source_headers(self._store, source_bucket, source))

    async def _put_part(self, call: S3Call, upload: Upload, number: int, received: Received) -> None:
        await self._store.put_part(
            PutPart(
                call.bucket, call.key, upload.id, number,
                received.content, received.size, received.block_crcs, received.etag, received.checksum,
            )
        )  # fmt: skip

    async def _complete(self, call: S3Call) -> web.StreamResponse:
        headers = call.headers
        # In this call a checksum header is the object's, not the document's.
        about_document = {name: value for name, value in headers.items() if _CHECKSUM_WORD not in name}
        body = await receive_document(call.request, call.signed, headers, Claims.of(about_document))
        self._check_type(call)
        sent = headers.get("x-amz-mp-object-size")
        message = "the size of an object is a number of bytes"
        size = None if sent is None else number_in(sent, "x-amz-mp-object-size", message)
        complete = CompleteUpload(
            call.bucket, call.key, self._number(call), xml.parse_completion(body),
            size, _expected_checksum(headers), conditions.of_write(headers),
        )  # fmt: skip
        completed = await self._store.change(complete)
        parts = [
            element("Location", f"/{quote(call.bucket)}/{quote(call.key, safe='/~')}"),
            element("Bucket", call.bucket),
            element("Key", call.key),
            element("ETag", f'"{completed.etag}"'),
            *checksum_elements(completed.checksum),
        ]
        answer = document("CompleteMultipartUploadResult", parts)
        return self._respond(call, body=answer, headers=stored_headers(completed.stored))

    def _check_type(self, call: S3Call) -> None:
        """Return if the checksum type is the one of the create call. A completed upload is not checked. Raises
        S3Error.
        """
        sent, upload = call.headers.get("x-amz-checksum-type"), self._store.queries.uploads.find(self._number(call))
        if sent is not None and upload is not None and upload.checksum_type not in (None, sent):
            raise S3Error(
                "InvalidRequest", f"The upload was created using the {upload.checksum_type} checksum mode. The complete"
                " request must use the same checksum mode.",
            )  # fmt: skip

    async def _abort(self, call: S3Call) -> web.StreamResponse:
        await self._store.change(AbortUpload(call.bucket, call.key, self._number(call)))
        return self._respond(call, 204)

    async def _list_parts(self, call: S3Call) -> web.StreamResponse:
        bucket, upload = self.upload_of(call)
        limit = page_size(call.query, "max-parts")
        marker = call.query.get("part-number-marker", "") or "0"
        after = number_in(marker, "part-number-marker", "Provided part-number-marker not an integer")
        parts = self._store.queries.uploads.parts(upload.id, min(after, NUMBER_MAX), limit + 1)
        shown = parts[:limit]
        listed = [
            element("Bucket", bucket.name),
            element("Key", call.key),
            element("UploadId", call.query["uploadId"]),
            _INITIATOR,
            OWNER,
            element("StorageClass", "STANDARD"),
            element("PartNumberMarker", marker),
            element("NextPartNumberMarker", shown[-1].number if shown else marker),
            element("MaxParts", limit),
            element("IsTruncated", "true" if len(parts) > len(shown) and shown else "false"),
            *_checksum_elements(upload),
        ]
        for part in shown:
            about = [
                element("PartNumber", part.number),
                element("LastModified", xml.text_of_instant(part.written_ms)),
                element("ETag", f'"{part.etag}"'),
                element("Size", part.size),
                part_checksum_element(part.checksum),
            ]
            listed.append(group("Part", about))
        return self._respond(call, body=document("ListPartsResult", listed))

    async def _list_uploads(self, call: S3Call) -> web.StreamResponse:
        queries, query = self._store.queries, call.query
        bucket = self._store.bucket(call.bucket)
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        key_marker, upload_marker = query.get("key-marker", ""), query.get("upload-id-marker", "")
        limit, encode = page_size(query, "max-uploads"), encoder(query)
        after = queries.upload_number(upload_marker) if upload_marker and key_marker else None
        page = pages.list_uploads(queries, bucket, prefix, delimiter, key_marker, after, limit)
        parts = [
            element("Bucket", bucket.name),
            element("KeyMarker", encode(key_marker)),
            element("UploadIdMarker", upload_marker),
            element("Prefix", encode(prefix)),
            element("Delimiter", encode(delimiter) or None),
            element("EncodingType", query.get("encoding-type")),
            element("MaxUploads", limit),
            element("IsTruncated", "true" if page.is_truncated else "false"),
        ]
        if page.is_truncated:
            last_upload = page.uploads[-1] if page.uploads and page.uploads[-1].key == page.last else None
            parts.append(element("NextKeyMarker", encode(page.last)))
            parts.append(element("NextUploadIdMarker", queries.upload_id(last_upload.id) if last_upload else ""))
        for upload in page.uploads:
            about = [
                element("Key", encode(upload.key)),
                element("UploadId", queries.upload_id(upload.id)),
                _INITIATOR,
                OWNER,
                element("StorageClass", "STANDARD"),
                element("Initiated", xml.text_of_instant(upload.started_ms)),
                *_checksum_elements(upload),
            ]
            parts.append(group("Upload", about))
        return self._respond(
            call, body=document("ListMultipartUploadsResult", [*parts, *prefix_elements(page.prefixes, encode)])
        )


def part_number(query: Mapping[str, str]) -> int:
    message = f"Part number must be an integer between 1 and {NUMBER_MAX}, inclusive"
    return number_in(query.get("partNumber", ""), "partNumber", message, 1, NUMBER_MAX)


def part_span(store: Store, version: VersionRow, number: int) -> tuple[int, int, int | None]:
    """Return start and length of a version's part, counted from 1, and the number of parts.

    The number is None for an object that was uploaded whole, which has one part. Raises S3Error.
    """
    if version.upload is None:
        sizes, count = [version.size], None
    else:
        sizes = [part.size for part in store.queries.uploads.parts(version.upload)]
        count = len(sizes)
    if number > len(sizes):
        raise S3Error("InvalidPartNumber", "The requested partnumber is not satisfiable", {
            "PartNumberRequested": str(number), "ActualPartCount": str(len(sizes)),
        })  # fmt: skip
    return sum(sizes[: number - 1]), sizes[number - 1], count


def _checksum_of_upload(headers: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return kind and type of the checksum that the parts must have, as Amazon combines them. Raises S3Error."""
    kind, kind_type = copy.checksum_kind(headers), headers.get("x-amz-checksum-type")
    if kind is None:
        if kind_type is not None:
            raise S3Error("InvalidRequest", "The x-amz-checksum-type header needs x-amz-checksum-algorithm")
        return None, None
    if kind_type is None:
        return kind, FULL_OBJECT if kind == "crc64nvme" else COMPOSITE
    allowed = {FULL_OBJECT} if kind == "crc64nvme" else {COMPOSITE}
    if kind in digests.COMBINED_KINDS:
        allowed.add(FULL_OBJECT)
    if kind_type not in allowed:
        raise S3Error(
            "InvalidRequest", f"The {kind_type} checksum type cannot be used with the {kind} checksum algorithm."
        )
    return kind, kind_type


def _expected_checksum(headers: Mapping[str, str]) -> str | None:
    """Return the checksum that the client expects of the whole object, as kind:base64, or None."""
    sent = [(kind, headers[_CHECKSUM_PREFIX + kind]) for kind in CHECKSUM_KINDS if _CHECKSUM_PREFIX + kind in headers]
    if len(sent) > 1:
        raise S3Error("InvalidRequest", "Expecting a single x-amz-checksum- header")
    return ":".join(sent[0]) if sent else None


def _checksum_elements(upload: Upload) -> list[str]:
    if upload.checksum_kind is None:
        return []
    return [
        element("ChecksumAlgorithm", upload.checksum_kind.upper()),
        element("ChecksumType", upload.checksum_type),
    ]
