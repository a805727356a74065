"""Server-side copies: CopyObject, and the source of UploadPartCopy.

One idea: a copy is an upload whose bytes come from the store. The server reads and verifies them as for a client, and
writes them to a new record. The two objects share nothing, so damage to one does not affect the other. A lock is not
copied: the new version has the lock that the request sets, or its bucket's default retention.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Mapping

from aiohttp import web

from ...core.changes.objects import PutVersion
from ...core.files.digests import CHECKSUM_KINDS, Buffer, Digests
from ...core.files.segments import LARGE_BYTES, LargeContent
from ...core.rules.locks import UNLOCKED
from ...core.rules.refusals import IsDeleteMarker, NotLockBucket
from ...core.store import Store
from ...core.tables.catalogue import Bucket, VersionRow
from .. import xml
from ..answers import Respond, checksum_elements, part_checksum_element, stored_headers
from ..errors import S3Error, invalid_argument
from ..requests.body import OBJECT_BYTES_MAX, Received
from ..requests.request import S3Call, decode_name, lock_of_headers
from ..xml import document, element
from . import conditions, description, tags

SOURCE_HEADER = "x-amz-copy-source"
_RANGE_HEADER = "x-amz-copy-source-range"
_RANGE = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})")


async def copy_object(store: Store, respond: Respond, call: S3Call) -> web.StreamResponse:
    headers = call.headers
    bucket = store.bucket(call.bucket)
    lock = lock_of_headers(call)
    if not bucket.object_lock and lock != UNLOCKED:
        raise NotLockBucket(bucket.name)
    condition = conditions.of_write(headers)
    source_bucket, source, is_named = find_source(store, headers)
    if source.size > OBJECT_BYTES_MAX:
        raise S3Error("InvalidRequest", f"a copy may have at most {OBJECT_BYTES_MAX} bytes; copy it in parts")
    new_metadata = _replaces(headers, "x-amz-metadata-directive")
    new_tags = _replaces(headers, "x-amz-tagging-directive")
    if (source_bucket.id, source.key) == (bucket.id, call.key) and not (is_named or new_metadata or new_tags):
        raise S3Error(
            "InvalidRequest",
            "This copy request is illegal because it is trying to copy an object to itself without changing the"
            " object's metadata, storage class, website redirect location or encryption attributes.",
        )
    sent = description.of_headers(headers)
    content_type, metadata = (
        (headers.get("content-type"), sent) if new_metadata else (source.content_type, source.metadata)
    )
    tag_set = tags.of_header(headers) if new_tags else source.tags
    kind = checksum_kind(headers) or (source.checksum or "").partition(":")[0] or None
    copied = await copy_content(store, source, 0, source.size, kind, bucket.name, call.key)
    put = PutVersion(
        bucket.name, call.key, copied.content, copied.size, copied.block_crcs, copied.etag, copied.checksum,
        content_type, metadata, lock, condition, tag_set,
    )  # fmt: skip
    stored = await store.put(put)
    body = document("CopyObjectResult", result_elements(copied, store.clock.now_ms(), is_part=False))
    return respond(call, body=body, headers={**stored_headers(stored), **source_headers(store, source_bucket, source)})


def find_source(store: Store, headers: Mapping[str, str]) -> tuple[Bucket, VersionRow, bool]:
    """Return the source bucket and version, and whether the request named the version. Check the request's
    conditions.
    """
    path, _, version_id = headers[SOURCE_HEADER].partition("?versionId=")
    name, _, key = path.removeprefix("/").partition("/")
    if not name or not key:
        raise invalid_argument(
            "Copy Source must mention the source bucket and key: sourcebucket/sourcekey",
            SOURCE_HEADER,
            headers[SOURCE_HEADER],
        )
    bucket = store.bucket(decode_name(name))
    try:
        version = store.queries.object(bucket, decode_name(key), decode_name(version_id) or None)
    except IsDeleteMarker:
        raise S3Error(
            "InvalidRequest",
            "The source of a copy request may not specifically refer to a delete marker by version id.",
        ) from None
    unmet = conditions.unmet(headers, version, f"{SOURCE_HEADER}-")
    if unmet is not None:
        raise conditions.failed(f"{SOURCE_HEADER}-{unmet}")
    return bucket, version, bool(version_id)


def _replaces(headers: Mapping[str, str], directive: str) -> bool:
    sent = headers.get(directive, "COPY")
    if sent not in ("COPY", "REPLACE"):
        raise invalid_argument(f"Unknown {directive}.", directive, sent)
    return sent == "REPLACE"


def checksum_kind(headers: Mapping[str, str]) -> str | None:
    """Return the kind that x-amz-checksum-algorithm names, in lower case; None without the header."""
    sent = headers.get("x-amz-checksum-algorithm")
    if sent is None:
        return None
    if sent.lower() not in CHECKSUM_KINDS:
        raise S3Error(
            "InvalidRequest", f"checksum algorithm {sent!r} is not offered; there are: {', '.join(CHECKSUM_KINDS)}"
        )
    return sent.lower()


def source_range(headers: Mapping[str, str], version: VersionRow) -> tuple[int, int]:
    """Return start and length of the range that a part copies."""
    sent = headers.get(_RANGE_HEADER)
    if sent is None:
        return 0, version.size
    match = _RANGE.fullmatch(sent)
    first, last = map(int, match.groups()) if match else (1, 0)
    if first > last:
        raise invalid_argument(
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the"
            " zero-based offsets of the first and last bytes to copy",
            _RANGE_HEADER,
            sent,
        )
    if last >= version.size:
        raise invalid_argument(
            f"Range specified is not valid for source object of size: {version.size}", _RANGE_HEADER, sent
        )
    return first, last - first + 1


async def copy_content(
    store: Store, source: VersionRow, start: int, length: int, kind: str | None, bucket: str, key: str
) -> Received:
    """Copy bytes of a version to a new record for `key`. After a failure no byte of the copy is left."""
    digests = Digests((kind,) if kind else (), is_long=True)
    content: list[Buffer] | LargeContent
    if length <= LARGE_BYTES:
        content = [await store.read(source, start, length)] if length else []
        await store.hashing.update(digests, content)
    else:
        content = await store.begin_large(bucket, key)
        try:
            async for block in store.read_blocks(source, start, length):
                await store.hashing.update(digests, [block])
                await asyncio.to_thread(content.write, [block])
            await asyncio.to_thread(content.sync)
        except BaseException:
            await store.abandon(content)
            raise
    checksum = f"{kind}:{base64.b64encode(digests.of_kind(kind)).decode()}" if kind else None
    return Received(content, length, digests.block_crcs(), digests.md5().hex(), checksum)


def result_elements(copied: Received, now_ms: int, *, is_part: bool) -> list[str]:
    checksum = [part_checksum_element(copied.checksum)] if is_part else checksum_elements(copied.checksum)
    return [element("LastModified", xml.text_of_instant(now_ms)), element("ETag", f'"{copied.etag}"'), *checksum]


def source_headers(store: Store, bucket: Bucket, source: VersionRow) -> dict[str, str]:
    if bucket.versioning == "Off":
        return {}
    return {"x-amz-copy-source-version-id": store.queries.version_id(source)}
