"""The aws-chunked body, from fixed bytes: whole, byte by byte, and with trailing data."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable

import pytest

from backends.embedded.s3.credentials import Credential
from backends.embedded.s3.errors import S3Error
from backends.embedded.s3.requests import chunks
from backends.embedded.s3.requests.chunks import ChunkDecoder
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


def _signed(kind: str, seed: str = _SEED) -> Signed:
    return Signed(
        Credential("name", "key", "secret"), kind, seed, _KEY, "20130524T000000Z", "20130524/us-east-1/s3/aws4_request"
    )


def _signed_trailer_body() -> bytes:
    """Our own, by the rules of the same chapter's page on trailing checksums."""
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
ARRIVALS: dict[str, Callable[[bytes], list[bytes]]] = {
    "whole": lambda body: [body],
    "byte by byte": lambda body: [body[i : i + 1] for i in range(len(body))],
    "in sevens": lambda body: [body[i : i + 7] for i in range(0, len(body), 7)],
}


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("name", BODIES)
def test_decoding(name: str, arrival: str) -> None:
    kind, body, content, trailers = BODIES[name]
    decoder = ChunkDecoder(_signed(kind))
    decoded = b"".join(bytes(piece) for data in ARRIVALS[arrival](body) for piece in decoder.feed(data))
    assert decoded == content
    assert decoder.finished
    assert decoder.trailers == trailers


@pytest.mark.parametrize("name", BODIES)
def test_every_proper_beginning_is_unfinished(name: str) -> None:
    kind, body, _, _ = BODIES[name]
    for end in {*range(max(0, len(body) - 200), len(body)), *range(min(200, len(body)))}:
        decoder = ChunkDecoder(_signed(kind))
        list(decoder.feed(body[:end]))
        assert not decoder.finished


@pytest.mark.parametrize(
    ("kind", "body", "code"),
    [
        (chunks.UNSIGNED_TRAILER, _UNSIGNED_BODY + b"more", "InvalidRequest"),
        (chunks.UNSIGNED_TRAILER, b"five\r\nhello\r\n", "InvalidRequest"),
        (chunks.UNSIGNED_TRAILER, b"-5\r\nhello\r\n", "InvalidRequest"),
        (chunks.UNSIGNED_TRAILER, b"4\r\nhello\r\n", "InvalidRequest"),
        (chunks.UNSIGNED_TRAILER, b"5" * 9000, "InvalidRequest"),
        (chunks.SIGNED_CHUNKS, b"5\r\nhello\r\n0\r\n\r\n", "AccessDenied"),
        (chunks.SIGNED_CHUNKS, _AMAZON_BODY.replace(b"aaa\r\n", b"aab\r\n"), "SignatureDoesNotMatch"),
        (chunks.SIGNED_CHUNKS, _AMAZON_BODY.replace(b"=b6c6", b"=c6c6"), "SignatureDoesNotMatch"),
        (chunks.SIGNED_CHUNKS_TRAILER, _signed_trailer_body().replace(b":mn", b":nn"), "SignatureDoesNotMatch"),
    ],
    ids=itertools.count(1),
)
def test_a_body_of_wrong_form_or_signature_is_refused(kind: str, body: bytes, code: str) -> None:
    decoder = ChunkDecoder(_signed(kind))
    with pytest.raises(S3Error) as raised:
        list(decoder.feed(body))
    assert raised.value.code == code
