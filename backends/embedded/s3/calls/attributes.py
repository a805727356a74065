"""GetObjectAttributes: the attributes of a version, without its bytes.

One idea: the answer has the attributes that the client names and no others. Parts are numbered as GET with partNumber
numbers them: from 1 without gaps, independent of the numbers of the upload.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import formatdate

from aiohttp import web

from ...core.store import Store
from ...core.tables.catalogue import VersionRow
from ..answers import Respond, checksum_elements, part_checksum_element
from ..errors import S3Error, invalid_argument, number_in
from ..requests.request import S3Call
from ..xml import document, element, group

_HEADER = "x-amz-object-attributes"
_NAMES = frozenset({"ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"})
_PARTS_MAX = 1000


async def get_attributes(store: Store, respond: Respond, call: S3Call) -> web.StreamResponse:
    bucket = store.bucket(call.bucket)
    wanted = {name.strip() for name in call.headers.get(_HEADER, "").split(",")}
    if wanted == {""}:
        raise S3Error(
            "InvalidRequest", f"the {_HEADER} header, which names the requested attributes, is missing or empty"
        )
    if not wanted <= _NAMES:
        raise invalid_argument("Invalid attribute name specified.", _HEADER, ", ".join(sorted(wanted - _NAMES)))
    version = store.queries.object(bucket, call.key, call.version_id)
    parts = {
        "ETag": element("ETag", version.etag),
        "Checksum": group("Checksum", checksum_elements(version.checksum)) if version.checksum else "",
        "ObjectParts": _parts(store, version, call.headers) if version.upload is not None else "",
        "StorageClass": element("StorageClass", "STANDARD"),
        "ObjectSize": element("ObjectSize", version.size),
    }
    headers = {"Last-Modified": formatdate(version.created_ms // 1000, usegmt=True)}
    if bucket.versioning != "Off":
        headers["x-amz-version-id"] = store.queries.version_id(version)
    body = document("GetObjectAttributesResponse", [text for name, text in parts.items() if name in wanted])
    return respond(call, body=body, headers=headers)


def _parts(store: Store, version: VersionRow, headers: Mapping[str, str]) -> str:
    assert version.upload is not None
    marker, limit = _number(headers, "x-amz-part-number-marker", 0), _number(headers, "x-amz-max-parts", _PARTS_MAX)
    limit = min(limit, _PARTS_MAX)
    parts = store.queries.uploads.parts(version.upload)
    shown = list(enumerate(parts, 1))[marker : marker + limit]
    is_truncated = marker + len(shown) < len(parts)
    listed = [
        element("PartsCount", len(parts)),
        element("PartNumberMarker", marker),
        element("NextPartNumberMarker", shown[-1][0] if shown else marker),
        element("MaxParts", limit),
        element("IsTruncated", "true" if is_truncated else "false"),
    ]
    if version.checksum is not None:  # without one Amazon sends only the number of parts
        for number, part in shown:
            about = [
                element("PartNumber", number),
                element("Size", part.size),
                part_checksum_element(part.checksum),
            ]
            listed.append(group("Part", about))
    return group("ObjectParts", listed)


def _number(headers: Mapping[str, str], name: str, default: int) -> int:
    return number_in(headers.get(name, "") or str(default), name, f"{name} must be a number")
