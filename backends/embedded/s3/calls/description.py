"""The description of an object: user metadata, and headers such as Content-Disposition.

One idea: both are kept together as one JSON object, since the server only returns them. The name of an HTTP header has
a colon before it there, which a metadata name cannot have. A header that would require an action of the store, which
the store does not offer, is refused here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ..errors import S3Error, invalid_argument

_META_PREFIX = "x-amz-meta-"
_META_BYTES_MAX = 2048
_KEPT = ("cache-control", "content-disposition", "content-encoding", "content-language", "expires")
_REDIRECT = "x-amz-website-redirect-location"
# The parameters with which a reader overrides stored headers in the answer.
_OVERRIDES = {f"response-{name}": name.title() for name in (*_KEPT, "content-type")}
_ACL_HEADERS = tuple(f"x-amz-grant-{what}" for what in ("full-control", "read", "read-acp", "write", "write-acp"))
_OWNERS_ACLS = ("bucket-owner-full-control", "private")  # both describe the only possible state
_ENCRYPTION = "x-amz-server-side-encryption"


def of_headers(headers: Mapping[str, str]) -> str | None:
    """Return the description to keep (a JSON object), None for none. Raises S3Error for a feature not offered."""
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
    """Return if the request gives rights to the owner only. ACLs are off, as in a new bucket of Amazon's. Raises
    S3Error.
    """
    acl = headers.get("x-amz-acl")
    if (acl is not None and acl not in _OWNERS_ACLS) or any(name in headers for name in _ACL_HEADERS):
        raise S3Error("AccessControlListNotSupported", "The bucket does not allow ACLs")


def shown(description: str | None, query: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a description, with the overrides of the reader's query. Names are Words-Like-This."""
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
    """Remove aws-chunked, which describes the transfer and not the object."""
    return ",".join(each.strip() for each in encodings.split(",") if each.strip().lower() != "aws-chunked")
