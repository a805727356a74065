"""The documents of S3's listings of buckets, objects and versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote

from ...core.tables.catalogue import Bucket, Queries, VersionRow
from .. import xml
from ..answers import listed_checksum_elements
from ..errors import invalid_argument, number_in
from ..requests.request import OWNER_ID, REGION
from ..xml import document, element, group
from . import pages

_PAGE_MAX = 1000
_BUCKETS_MAX = 10_000
OWNER = group("Owner", [element("ID", OWNER_ID), element("DisplayName", OWNER_ID)])


def buckets_document(buckets: Sequence[Bucket], query: Mapping[str, str]) -> bytes:
    """Return the document of ListBuckets. Its continuation token is the last name of the previous page."""
    prefix, sent = query.get("prefix", ""), query.get("max-buckets", "") or str(_BUCKETS_MAX)
    message = f"Argument max-buckets must be an integer between 1 and {_BUCKETS_MAX}"
    limit = number_in(sent, "max-buckets", message, 1, _BUCKETS_MAX)
    after = _decode_token(query.get("continuation-token", ""))
    region = query.get("bucket-region", REGION)
    found = [each for each in buckets if each.name.startswith(prefix) and each.name > after and region == REGION]
    page = found[:limit]
    listed = [
        group(
            "Bucket",
            [element("Name", each.name), element("CreationDate", xml.text_of_instant(each.created_ms))],
        )
        for each in page
    ]
    parts = [OWNER, group("Buckets", listed)]
    if len(page) < len(found):
        parts.append(element("ContinuationToken", _encode_token(page[-1].name)))
    return document("ListAllMyBucketsResult", [*parts, element("Prefix", prefix or None)])


def objects_document(queries: Queries, bucket: Bucket, query: Mapping[str, str], *, is_v2: bool) -> bytes:
    """Return the document of ListObjectsV2, or of the older ListObjects, which uses markers."""
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    limit, encode = page_size(query, "max-keys"), encoder(query)
    marker = query.get("start-after" if is_v2 else "marker", "")
    token = query.get("continuation-token")
    if is_v2 and token is not None:
        low = _decode_token(token)
    else:
        low = pages.after_marker(marker, prefix, delimiter) if marker else ""
    page = pages.list_objects(queries, bucket, prefix, delimiter, low, limit)
    parts = [
        element("Name", bucket.name),
        element("Prefix", encode(prefix)),
        element("Delimiter", encode(delimiter) or None),
        element("MaxKeys", limit),
        element("EncodingType", query.get("encoding-type")),
        element("IsTruncated", "false" if page.resume_at is None else "true"),
    ]
    if is_v2:
        parts += [element("KeyCount", page.count), element("ContinuationToken", token)]
        parts.append(element("StartAfter", encode(marker) or None))
        if page.resume_at is not None:
            parts.append(element("NextContinuationToken", _encode_token(page.resume_at)))
    else:
        parts.append(element("Marker", encode(marker)))
        if page.resume_at is not None and delimiter:  # without one the last key is the marker
            parts.append(element("NextMarker", encode(page.last)))
    owner = [OWNER] if not is_v2 or query.get("fetch-owner") == "true" else []
    for version in page.versions:
        parts.append(group("Contents", [element("Key", encode(version.key)), *_listed(version), *owner]))
    return document("ListBucketResult", [*parts, *prefix_elements(page.prefixes, encode)])


def versions_document(queries: Queries, bucket: Bucket, query: Mapping[str, str]) -> bytes:
    """Return the document of ListObjectVersions."""
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    key_marker, version_marker = query.get("key-marker", ""), query.get("version-id-marker", "")
    if version_marker and not key_marker:
        raise invalid_argument(
            "A version-id marker cannot be specified without a key marker.",
            "version-id-marker",
            version_marker,
        )
    limit, encode = page_size(query, "max-keys"), encoder(query)
    page = pages.list_versions(queries, bucket, prefix, delimiter, key_marker, version_marker, limit)
    parts = [
        element("Name", bucket.name),
        element("Prefix", encode(prefix)),
        element("Delimiter", encode(delimiter) or None),
        element("KeyMarker", encode(key_marker)),
        element("VersionIdMarker", version_marker),
        element("MaxKeys", limit),
        element("EncodingType", query.get("encoding-type")),
        element("IsTruncated", "false" if page.resume_at is None else "true"),
    ]
    if page.resume_at is not None:
        parts.append(element("NextKeyMarker", encode(page.last)))
        if page.versions and page.versions[-1].key == page.last:
            parts.append(element("NextVersionIdMarker", queries.page_marker(page.versions[-1])))
    for version, is_latest in zip(page.versions, page.latest, strict=True):
        named = [
            element("Key", encode(version.key)),
            element("VersionId", queries.version_id(version)),
            element("IsLatest", "true" if is_latest else "false"),
        ]
        if version.is_marker:
            modified = element("LastModified", xml.text_of_instant(version.created_ms))
            parts.append(group("DeleteMarker", [*named, modified, OWNER]))
        else:
            parts.append(group("Version", [*named, *_listed(version), OWNER]))
    return document("ListVersionsResult", [*parts, *prefix_elements(page.prefixes, encode)])


def page_size(query: Mapping[str, str], name: str) -> int:
    """Return the page size of the parameter `name`; the largest one without the parameter."""
    text = query.get(name, "") or str(_PAGE_MAX)
    return min(number_in(text, name, f"Provided {name} not an integer or within integer range"), _PAGE_MAX)


def encoder(query: Mapping[str, str]) -> Callable[[str], str]:
    """Return the function that encodes names as the query requests."""
    encoding = query.get("encoding-type")
    if encoding is None:
        return str
    if encoding != "url":
        raise invalid_argument("Invalid Encoding Method specified in Request", "encoding-type", encoding)
    return lambda text: quote(text, safe="/-_.~*")


def _encode_token(key: str) -> str:
    return key.encode().hex()


def _decode_token(token: str) -> str:
    try:
        return bytes.fromhex(token).decode()
    except ValueError:
        raise invalid_argument("The continuation token provided is incorrect", "continuation-token", token) from None


def _listed(version: VersionRow) -> list[str]:
    return [
        element("LastModified", xml.text_of_instant(version.created_ms)),
        element("ETag", f'"{version.etag}"'),
        *listed_checksum_elements(version.checksum),
        element("Size", version.size),
        element("StorageClass", "STANDARD"),
    ]


def prefix_elements(prefixes: Sequence[str], encode: Callable[[str], str]) -> list[str]:
    return [group("CommonPrefixes", [element("Prefix", encode(prefix))]) for prefix in prefixes]
