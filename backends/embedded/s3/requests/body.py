"""Request bodies: receive them, decode them, and verify their digests.

One idea: no byte becomes part of an object before the whole body matches its digests: the signed payload hash,
Content-MD5 and x-amz-checksum, those of them that the request has. Small bodies are held in memory. An object above
`LARGE_BYTES` is written to the disk while it arrives, and the store abandons it if a check at its end fails.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from aiohttp import web

from ...core.files.buffers import ReceiveBuffers
from ...core.files.digests import BLOCK_BYTES, CHECKSUM_KINDS, Buffer, Digests
from ...core.files.hashing import Hashing
from ...core.files.segments import LARGE_BYTES, LargeContent
from ...core.store import Store
from ..errors import S3Error, plain_number
from .chunks import KINDS, ChunkDecoder
from .connection import LONG_BYTES_MIN, S3Connection, parsed_body
from .signature import UNSIGNED, Signed

OBJECT_BYTES_MAX = 5 << 30
DOCUMENT_BYTES_MAX = 4 << 20  # enough for 1000 percent-encoded names of 1024 bytes each

_CHECKSUM_PREFIX = "x-amz-checksum-"
_CHECKSUM_BYTES = {kind: len(start().digest()) for kind, start in CHECKSUM_KINDS.items()}
_NOT_CHECKSUMS = ("algorithm", "mode", "type")
_ALGORITHM_HEADER = "x-amz-sdk-checksum-algorithm"
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(slots=True)
class Claims:
    """The digests of its body that the client sent, apart from the signature."""

    md5: bytes | None = None
    kind: str | None = None  # of the x-amz-checksum
    value: bytes | None = None  # None: it comes in the trailer

    @property
    def any(self) -> bool:
        return self.md5 is not None or self.kind is not None

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> Claims:
        """Read them from headers with lower-case names. Raises S3Error if one is malformed or unknown."""
        claims = cls()
        md5 = headers.get("content-md5")
        if md5 is not None:
            claims.md5 = _decode(md5, 16, "InvalidDigest", "Content-MD5")
        for name, value in headers.items():
            if not name.startswith(_CHECKSUM_PREFIX) or name[len(_CHECKSUM_PREFIX) :] in _NOT_CHECKSUMS:
                continue
            claims._take_kind(name)
            claims.value = _decode_checksum(value, name)
        trailer = headers.get("x-amz-trailer")
        if trailer:
            claims._take_kind(trailer.strip().lower())
        claims._check_algorithm(headers.get(_ALGORITHM_HEADER))
        return claims

    def _check_algorithm(self, sent: str | None) -> None:
        """Require a checksum from a client that names an algorithm: it relies on the check. Raises S3Error."""
        if sent is None:
            return
        if sent.lower() not in CHECKSUM_KINDS or self.kind not in (None, sent.lower()):
            raise S3Error("InvalidRequest", f"Value for {_ALGORITHM_HEADER} header is invalid.")
        if self.kind is None:
            raise S3Error(
                "InvalidRequest",
                f"{_ALGORITHM_HEADER} specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers"
                " were found.",
            )

    def _take_kind(self, header: str) -> None:
        kind = header.removeprefix(_CHECKSUM_PREFIX)
        if kind not in CHECKSUM_KINDS:
            raise S3Error("InvalidRequest", f"{header} is not offered; there are: {', '.join(CHECKSUM_KINDS)}")
        if self.kind is not None:
            raise S3Error(
                "InvalidRequest",
                "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
            )
        self.kind = kind


@dataclass(slots=True)
class Received:
    """The verified bytes of an object or part."""

    content: list[Buffer] | LargeContent
    size: int
    block_crcs: bytes
    etag: str
    checksum: str | None  # kind:base64


async def receive_document(
    request: web.BaseRequest, signed: Signed, headers: Mapping[str, str], claims: Claims
) -> bytes:
    """Receive a small body, such as XML. Raises S3Error."""
    size = _announced_bytes(headers, signed)
    if size is not None and size > DOCUMENT_BYTES_MAX:
        raise S3Error("MalformedXML", f"the document is longer than {DOCUMENT_BYTES_MAX} bytes")
    intake = _Intake(request, signed, claims)
    pieces: list[Buffer] = []
    async for piece in intake.pieces():
        intake.digests.update(piece)
        pieces.append(piece)
        if intake.digests.size_bytes > DOCUMENT_BYTES_MAX:
            raise S3Error("MalformedXML", f"the document is longer than {DOCUMENT_BYTES_MAX} bytes")
    intake.check(size)
    return b"".join(pieces)


async def receive_object(
    request: web.BaseRequest,
    signed: Signed,
    headers: Mapping[str, str],
    claims: Claims,
    store: Store,
    bucket: str,
    key: str,
) -> Received:
    """Receive the body of an upload. Raises S3Error, and then no byte of it is left in the store."""
    size = _announced_bytes(headers, signed)
    if size is None:
        raise S3Error("MissingContentLength", "an upload needs Content-Length or x-amz-decoded-content-length")
    if size > OBJECT_BYTES_MAX:
        raise S3Error("EntityTooLarge", f"one upload may have at most {OBJECT_BYTES_MAX} bytes")
    intake = _Intake(request, signed, claims, store.buffers)
    content: list[Buffer] | LargeContent
    if size <= LARGE_BYTES:
        content = await _receive(intake, size, None, store.hashing)
        checksum = intake.check(size)
    else:
        content = await store.begin_large(bucket, key)
        try:
            await _receive(intake, size, content, store.hashing)
            checksum = intake.check(size)
        except BaseException:
            await store.abandon(content)
            raise
    digests = intake.digests
    return Received(content, size, digests.block_crcs(), digests.md5().hex(), checksum)


async def receive_unmeasured(
    request: web.BaseRequest,
    signed: Signed,
    claims: Claims,
    pieces: AsyncIterator[Buffer],
    check_length: Callable[[int, bool], None],
    store: Store,
    bucket: str,
    key: str,
) -> Received:
    """Receive an upload that is part of the body and has no stated length.

    `check_length` gets the bytes received so far and whether the upload is complete. Raises S3Error, and then no byte
    of the upload is left in the store.
    """
    intake = _Intake(request, signed, claims)
    large: LargeContent | None = None
    batch: list[Buffer] = []
    size = batch_bytes = 0
    try:
        async for piece in pieces:
            batch.append(piece)
            size += len(piece)
            batch_bytes += len(piece)
            check_length(size, False)
            if size > LARGE_BYTES and batch_bytes >= BLOCK_BYTES:
                if large is None:
                    large = await store.begin_large(bucket, key)
                await store.hashing.update(intake.digests, batch)
                await asyncio.to_thread(large.write, batch)
                batch, batch_bytes = [], 0
        await store.hashing.update(intake.digests, batch)
        if large is not None:
            await asyncio.to_thread(large.write, batch)
            await asyncio.to_thread(large.sync)
        check_length(size, True)
        checksum = intake.check(size)
    except BaseException:
        if large is not None:
            await store.abandon(large)
        raise
    digests = intake.digests
    content = batch if large is None else large
    return Received(content, size, digests.block_crcs(), digests.md5().hex(), checksum)


async def _receive(intake: _Intake, size: int, large: LargeContent | None, hashing: Hashing) -> list[Buffer]:
    """Receive a body into memory, or write it to `large`. Threads hash and write it, block by block."""
    content: list[Buffer] = []

    async def take(pieces: list[Buffer]) -> None:
        await hashing.update(intake.digests, pieces)
        if large is None:
            content.extend(pieces)
        else:
            await asyncio.to_thread(large.write, pieces)

    batch: list[Buffer] = []
    batch_bytes = 0
    async for piece in intake.pieces():
        batch.append(piece)
        batch_bytes += len(piece)
        if batch_bytes >= BLOCK_BYTES:
            await take(batch)
            batch, batch_bytes = [], 0
            if intake.digests.size_bytes > size:
                return content
    if large is None and batch_bytes < LONG_BYTES_MIN:
        for piece in batch:
            intake.digests.update(piece)
        content.extend(batch)
    else:
        await take(batch)
    if large is not None:
        await asyncio.to_thread(large.sync)
    return content


class _Intake:
    """A body that arrives: its pieces, their digests, and the check at the end."""

    def __init__(
        self, request: web.BaseRequest, signed: Signed, claims: Claims, buffers: ReceiveBuffers | None = None
    ) -> None:
        """A long body is received into the buffers, if there are any."""
        self._request = request
        self._buffers = buffers
        self._claims = claims
        self._signed_sha256: str | None = None
        self._decoder = ChunkDecoder(signed) if signed.payload_hash in KINDS else None
        kinds = {claims.kind} if claims.kind else set()
        if self._decoder is None and signed.payload_hash != UNSIGNED:
            if not _SHA256.fullmatch(signed.payload_hash):
                raise S3Error("InvalidRequest", f"x-amz-content-sha256 {signed.payload_hash!r} is not known")
            self._signed_sha256 = signed.payload_hash
            kinds.add("sha256")
        length = request.content_length
        self.digests = Digests(tuple(kinds), is_long=length is None or length >= LONG_BYTES_MIN)

    async def pieces(self) -> AsyncIterator[Buffer]:
        length = self._request.content_length
        try:
            if self._buffers is not None and length is not None and length >= LONG_BYTES_MIN:
                async for data in self._long(length, self._buffers):
                    for piece in self._decoded(data):
                        yield piece
                return
            content = parsed_body(self._request)
            while not content.at_eof():
                for piece in self._decoded(await content.readany()):
                    yield piece
        except (web.RequestPayloadError, asyncio.IncompleteReadError, ConnectionError) as cut:
            raise S3Error("IncompleteBody", "the connection ended before the body did") from cut

    def _decoded(self, data: Buffer) -> Iterable[Buffer]:
        return (data,) if self._decoder is None else self._decoder.feed(data)

    async def _long(self, left_bytes: int, buffers: ReceiveBuffers) -> AsyncIterator[memoryview]:
        """Yield the body in whole buffers. The parser has only its first bytes: the rest bypasses it."""
        content, connection = self._request.content, cast(S3Connection, self._request.protocol)
        parsed_bytes = 0
        while left_bytes:
            view = memoryview(buffers.take())[:left_bytes]
            room = view
            while room and content.total_bytes > parsed_bytes:
                data = await content.read(len(room))
                room[: len(data)] = data
                room = room[len(data) :]
                parsed_bytes += len(data)
            if room:
                await connection.receive(content, room, left_bytes - len(view) + len(room))
            left_bytes -= len(view)
            yield view

    def check(self, size: int | None) -> str | None:
        """Verify all digests and the length. Return the checksum to keep with the object, as kind:base64. Raises
        S3Error.
        """
        digests, claims = self.digests, self._claims
        if self._decoder is not None and not self._decoder.finished:
            raise S3Error("IncompleteBody", "the aws-chunked body ends before its last chunk")
        if size is not None and digests.size_bytes != size:
            raise S3Error("IncompleteBody", f"{size} bytes were announced, {digests.size_bytes} arrived")
        if self._signed_sha256 is not None and digests.of_kind("sha256").hex() != self._signed_sha256:
            raise S3Error("XAmzContentSHA256Mismatch", "the body does not match the signed hash")
        if claims.md5 is not None and digests.md5() != claims.md5:
            raise S3Error("BadDigest", "the body does not match its Content-MD5")
        if claims.kind is None:
            return None
        computed = digests.of_kind(claims.kind)
        name = _CHECKSUM_PREFIX + claims.kind
        expected = claims.value
        if expected is None:
            trailer = self._decoder.trailers.get(name) if self._decoder else None
            if trailer is None:
                raise S3Error("InvalidRequest", f"the trailer {name} was announced and did not arrive")
            expected = _decode_checksum(trailer, name)
        if computed != expected:
            raise S3Error("BadDigest", f"the body does not match its {name}")
        return f"{claims.kind}:{base64.b64encode(computed).decode()}"


def _announced_bytes(headers: Mapping[str, str], signed: Signed) -> int | None:
    """Return the decoded length of the body; None if the client did not send it."""
    name = "x-amz-decoded-content-length" if signed.payload_hash in KINDS else "content-length"
    text = headers.get(name)
    if text is None:
        return None
    size = plain_number(text)
    if size is None:
        raise S3Error("InvalidArgument", f"{name} must be a number of bytes")
    return size


def _decode_checksum(text: str, name: str) -> bytes:
    return _decode(text, _CHECKSUM_BYTES[name.removeprefix(_CHECKSUM_PREFIX)], "InvalidRequest", name)


def _decode(text: str, length: int | None, code: str, name: str) -> bytes:
    try:
        value = base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError):
        value = b""
    if not value or (length is not None and len(value) != length):
        raise S3Error(code, f"{name} is not the base64 of a digest")
    return value
