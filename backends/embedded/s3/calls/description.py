"""What an uploader says of an object: its metadata, and the headers that a browser acts on.

One idea: both are kept together, as one JSON object, since both are only handed back. The name of a header of HTTP
has a colon before it there, which no name of metadata can have. What would have to be acted on by the store, and is
not, is refused here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ..errors import S3Error, invalid_argument

_META_PREFIX = "x-amz-meta-"
_META_BYTES_MAX = 2048
_KEPT = ("cache-control", "content-disposition", "content-encoding", "content-language", "expires")
_REDIRECT = "x-amz-website-redirect-location"
# The parameters with which a reader has headers answered otherwise than they were stored.
_OVERRIDES = {f"response-{name}": name.title() for name in (*_KEPT, "content-type")}
_ACL_HEADERS = tuple(f"x-amz-grant-{what}" for what in ("full-control", "read", "read-acp", "write", "write-acp"))
_OWNERS_ACLS = ("bucket-owner-full-control", "private")  # both say what holds anyway
_ENCRYPTION = "x-amz-server-side-encryption"


def of_headers(headers: Mapping[str, str]) -> str | None:
    """What is to be kept (a JSON object), None for nothing. Raises S3Error for what cannot be done."""
    _check_offered(headers)
    metadata = {name[len(_META_PREFIX) :]: value for name, value in headers.items() if name.startswith(_META_PREFIX)}
    size = sum(len(name) + len(value.encode("utf-8", "surrogateescape")) for name, value in metadata.items())
    if size > _META_BYTES_MAX:
        raise S3Error("MetadataTooLarge", f"user metadata may have at most {_META_BYTES_MAX} bytes")
    for name in (*_KEPT, _REDIRECT):
        value = headers.get(name)
        if value is not None and name == "content-encoding":
            value = _without_transport(value)
        if value:
            metadata[f":{name}"] = value
    return json.dumps(metadata) if metadata else None


def _check_offered(headers: Mapping[str, str]) -> None:
    storage_class = headers.get("x-amz-storage-class", "STANDARD")
    if storage_class != "STANDARD":
        raise S3Error("InvalidStorageClass", f"the embedded store has one storage class, STANDARD, not {storage_class}")
    if any(name.startswith(_ENCRYPTION) for name in headers):
        raise S3Error("NotImplemented", f"the embedded store does not encrypt: {_ENCRYPTION} is not offered")
    check_acl(headers)


def check_acl(headers: Mapping[str, str]) -> None:
    """Return if the request gives no rights to anybody but the owner: ACLs are off, as in a new bucket of Amazon's."""
    acl = headers.get("x-amz-acl")
    if (acl is not None and acl not in _OWNERS_ACLS) or any(name in headers for name in _ACL_HEADERS):
        raise S3Error("AccessControlListNotSupported", "The bucket does not allow ACLs")


def shown(description: str | None, query: Mapping[str, str]) -> dict[str, str]:
    """The headers that tell it, and those that the reader wants to have instead: Words-Like-This, to replace others."""
    headers = {}
    for name, value in json.loads(description).items() if description else ():
        headers[name[1:].title() if name.startswith(":") else _META_PREFIX + name] = value
    for parameter in query.keys() & _OVERRIDES:
        headers[_OVERRIDES[parameter]] = _printable(parameter, query[parameter])
    return headers


def _printable(parameter: str, value: str) -> str:
    if not value.isprintable():  # a line break would begin another header
        raise invalid_argument("a header has printable characters only", parameter, "")
    return value


def _without_transport(encodings: str) -> str:
    """Without aws-chunked, which is how the body was sent and not what it is."""
    return ",".join(each.strip() for each in encodings.split(",") if each.strip().lower() != "aws-chunked")
