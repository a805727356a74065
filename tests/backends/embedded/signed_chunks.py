"""Bodies sent in chunks, each with its signature."""

from __future__ import annotations

import hashlib

from backends.embedded.s3.credentials import Credential
from backends.embedded.s3.requests import chunks
from backends.embedded.s3.requests.signature import Signed, sign, signing_key

# The example of the S3 API reference, "Signature Calculations: Transferring Payload in Multiple Chunks":
# 66560 bytes of "a" in chunks of 64 KiB, 1 KiB and none, with the signatures that Amazon prints.
_KEY = signing_key("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "20130524", "us-east-1")


_SEED = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"


_AMAZON_BODY = (
    b"10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n"
    + b"a" * 65536
    + b"\r\n400;chunk-signature=0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n"
    + b"a" * 1024
    + b"\r\n0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n"
)


_UNSIGNED_BODY = b"5\r\nhello\r\n6\r\n world\r\n0\r\nx-amz-checksum-crc32c:yZRlqg==\r\n\r\n"


def in_signed_chunks(kind: str, seed: str = _SEED) -> Signed:
    return Signed(
        Credential("name", "key", "secret", frozenset()),
        kind,
        seed,
        _KEY,
        "20130524T000000Z",
        "20130524/us-east-1/s3/aws4_request",
    )


def _signed_trailer_body() -> bytes:
    """Built here, by the rules of the same chapter's page on trailing checksums."""
    scope, empty = "20130524T000000Z\n20130524/us-east-1/s3/aws4_request", hashlib.sha256(b"").hexdigest()
    signature, body = _SEED, b""
    for chunk in (b"hello", b""):
        text = f"AWS4-HMAC-SHA256-PAYLOAD\n{scope}\n{signature}\n{empty}\n{hashlib.sha256(chunk).hexdigest()}"
        signature = sign(_KEY, text)
        body += f"{len(chunk):x};chunk-signature={signature}\r\n".encode() + chunk + (b"\r\n" if chunk else b"")
    trailer = hashlib.sha256(b"x-amz-checksum-crc32c:mnG7TA==\n").hexdigest()
    signature = sign(_KEY, f"AWS4-HMAC-SHA256-TRAILER\n{scope}\n{signature}\n{trailer}")
    return body + f"x-amz-checksum-crc32c:mnG7TA==\r\nx-amz-trailer-signature:{signature}\r\n\r\n".encode()


BODIES = {
    "signed": (chunks.SIGNED_CHUNKS, _AMAZON_BODY, b"a" * 66560, {}),
    "unsigned trailer": (
        chunks.UNSIGNED_TRAILER, _UNSIGNED_BODY, b"hello world", {"x-amz-checksum-crc32c": "yZRlqg=="},
    ),
    "signed trailer": (
        chunks.SIGNED_CHUNKS_TRAILER, _signed_trailer_body(), b"hello", {"x-amz-checksum-crc32c": "mnG7TA=="},
    ),
    "empty": (chunks.UNSIGNED_TRAILER, b"0\r\n\r\n", b"", {}),
}  # fmt: skip
