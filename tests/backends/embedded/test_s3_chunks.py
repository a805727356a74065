"""The aws-chunked body, from fixed bytes: whole, byte by byte, and with trailing data."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from backends.embedded.s3.errors import S3Error
from backends.embedded.s3.requests import chunks
from backends.embedded.s3.requests.chunks import ChunkDecoder
from tests.backends.embedded.signed_chunks import (
    _AMAZON_BODY,
    _UNSIGNED_BODY,
    BODIES,
    _signed_trailer_body,
    in_signed_chunks,
)

ARRIVALS: dict[str, Callable[[bytes], list[bytes]]] = {
    "whole": lambda body: [body],
    "byte by byte": lambda body: [body[i : i + 1] for i in range(len(body))],
    "in sevens": lambda body: [body[i : i + 7] for i in range(0, len(body), 7)],
}


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("name", BODIES)
def test_chunked_body_is_decoded_from_any_pieces(name: str, arrival: str) -> None:
    kind, body, content, trailers = BODIES[name]
    decoder = ChunkDecoder(in_signed_chunks(kind))
    decoded = b"".join(bytes(piece) for data in ARRIVALS[arrival](body) for piece in decoder.feed(data))
    assert decoded == content
    assert decoder.finished
    assert decoder.trailers == trailers


@pytest.mark.parametrize("name", BODIES)
def test_truncated_body_is_unfinished(name: str) -> None:
    kind, body, _, _ = BODIES[name]
    for end in {*range(max(0, len(body) - 200), len(body)), *range(min(200, len(body)))}:
        decoder = ChunkDecoder(in_signed_chunks(kind))
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
    decoder = ChunkDecoder(in_signed_chunks(kind))
    with pytest.raises(S3Error) as raised:
        list(decoder.feed(body))
    assert raised.value.code == code
