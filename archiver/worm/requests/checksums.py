"""The checksums that S3 accepts with an object, by their names in its headers.

One idea: a check compares the platform's checksum with one that this module computes from the bytes sent.
"""

from __future__ import annotations

import hashlib
import zlib
from base64 import b64encode
from collections.abc import Callable

from awscrt import checksums as crt

_DIGESTS: dict[str, Callable[[bytes], bytes]] = {
    "crc32": lambda body: zlib.crc32(body).to_bytes(4, "big"),
    "crc32c": lambda body: crt.crc32c(body).to_bytes(4, "big"),
    "crc64nvme": lambda body: crt.crc64nvme(body).to_bytes(8, "big"),
    "sha1": lambda body: hashlib.sha1(body, usedforsecurity=False).digest(),
    "sha256": lambda body: hashlib.sha256(body).digest(),
}
KINDS = tuple(_DIGESTS)


def checksum_of(kind: str, body: bytes) -> str:
    """Return the value of ``x-amz-checksum-<kind>``."""
    return b64encode(_DIGESTS[kind](body)).decode()
