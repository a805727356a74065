"""Tags of versions: the header that sets them, their documents, and the three calls.

One idea: tags are notes on a version. Locks do not protect them, and they change neither content nor lock.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl

from aiohttp import web

from ...core.changes.objects import SetTags
from ...core.store import Store
from ...core.tables.catalogue import Bucket
from .. import xml
from ..answers import Respond
from ..errors import S3Error
from ..requests.request import S3Call
from ..xml import document, element, group

HEADER = "x-amz-tagging"
COUNT_HEADER = "x-amz-tagging-count"
_TAGS_MAX = 10
_NAME_CHARACTERS_MAX = 128
_VALUE_CHARACTERS_MAX = 256
_CHARACTERS = re.compile(r"[\w\s+\-=.:/@]*")  # letters of any script, digits, spaces and these signs


def of_header(headers: Mapping[str, str]) -> str | None:
    """Parse the tags of an upload from `name=value&...` to a JSON object; None for none. Raises S3Error.

    A name without `=` has an empty value.
    """
    sent = headers.get(HEADER)
    if not sent:
        return None
    try:
        return _checked(parse_qsl(sent, keep_blank_values=True, errors="strict"))
    except ValueError:
        raise S3Error("InvalidArgument", "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL"
                      " query parameters without tag name duplicates.") from None  # fmt: skip


def _checked(tags: Sequence[tuple[str, str]]) -> str | None:
    if len(tags) > _TAGS_MAX:
        raise S3Error("BadRequest", f"Object tags cannot be greater than {_TAGS_MAX}")
    if len({name for name, _ in tags}) != len(tags):
        raise S3Error("InvalidTag", "Cannot provide multiple Tags with the same key")
    for name, value in tags:
        if name.startswith("aws:"):
            raise S3Error("InvalidTag", "System tags cannot be added/updated by requester", {"TagKey": name})
        if not 1 <= len(name) <= _NAME_CHARACTERS_MAX or _CHARACTERS.fullmatch(name) is None:
            raise S3Error("InvalidTag", "The TagKey you have provided is invalid", {"TagKey": name})
        if len(value) > _VALUE_CHARACTERS_MAX or _CHARACTERS.fullmatch(value) is None:
            raise S3Error("InvalidTag", "The TagValue you have provided is invalid", {"TagValue": value})
    return json.dumps(dict(tags)) if tags else None


def count_headers(tags: str | None) -> dict[str, str]:
    return {} if tags is None else {COUNT_HEADER: str(len(json.loads(tags)))}


async def get_tags(store: Store, respond: Respond, call: S3Call) -> web.StreamResponse:
    bucket = store.bucket(call.bucket)
    version = store.queries.lockable(bucket, call.key, call.version_id)
    tags = json.loads(version.tags) if version.tags else {}
    named = [group("Tag", [element("Key", name), element("Value", value)]) for name, value in tags.items()]
    return respond(
        call,
        body=document("Tagging", [group("TagSet", named)]),
        headers=_version_headers(bucket, store.queries.version_id(version)),
    )


async def put_tags(store: Store, respond: Respond, call: S3Call) -> web.StreamResponse:
    tags = _checked(xml.parse_tagging(await call.body(integrity=True)))
    version_id = await store.change(SetTags(call.bucket, call.key, call.version_id, tags))
    return respond(call, headers=_version_headers(store.bucket(call.bucket), version_id))


async def delete_tags(store: Store, respond: Respond, call: S3Call) -> web.StreamResponse:
    version_id = await store.change(SetTags(call.bucket, call.key, call.version_id, None))
    return respond(call, 204, headers=_version_headers(store.bucket(call.bucket), version_id))


def _version_headers(bucket: Bucket, version_id: str) -> dict[str, str]:
    """Return the version id header; none for a bucket that never had versioning."""
    return {} if bucket.versioning == "Off" else {"x-amz-version-id": version_id}
