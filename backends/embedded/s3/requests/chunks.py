"""The aws-chunked body: an object in chunks, with signatures and checksums after the bytes.

One idea: the decoder takes the bytes that arrived and returns the object's bytes in them. The S3 API reference,
"Signature Calculations: Transferring Payload in Multiple Chunks", defines the form:

    hex-size [;chunk-signature=...] \\r\\n  bytes \\r\\n   ...   0 [;chunk-signature=...] \\r\\n
    [trailer-name:value \\r\\n ...] [x-amz-trailer-signature:... \\r\\n] \\r\\n
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator

from ...core.files.digests import Buffer
from ..errors import S3Error
from .signature import Signed, sign

UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
SIGNED_CHUNKS = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_CHUNKS_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
KINDS = (UNSIGNED_TRAILER, SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER)

_LINE_BYTES_MAX = 8192
_SIZE = re.compile("[0-9a-fA-F]{1,12}")
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


class ChunkDecoder:
    """A decoder of one body; `feed` takes the bytes as they arrive. `trailers` is complete when `finished` is true."""

    def __init__(self, signed: Signed) -> None:
        self.finished = False
        self.trailers: dict[str, str] = {}
        self._signed = signed
        self._has_signatures = signed.payload_hash != UNSIGNED_TRAILER
        self._has_trailer = signed.payload_hash != SIGNED_CHUNKS
        self._previous_signature = signed.signature
        self._line = b""  # the received start of a size or trailer line
        self._left = 0  # bytes of the chunk that have not arrived
        self._in_chunk = False
        self._last = False  # this chunk is the empty one
        self._in_trailer = False
        self._chunk_signature = ""
        self._chunk_hash = hashlib.sha256()

    def feed(self, data: Buffer) -> Iterator[memoryview]:
        """Yield the object's bytes in `data`. Raises S3Error if the form or a signature is wrong."""
        view = memoryview(data)
        while view and not self.finished:
            if self._left:
                part, view = view[: self._left], view[self._left :]
                self._left -= len(part)
                if self._has_signatures:
                    self._chunk_hash.update(part)
                yield part
                continue
            line, view = self._take_line(view)
            if line is None:
                return
            if self._in_trailer:
                self._trailer_line(line)
            elif self._in_chunk:
                if line:
                    raise _malformed("a chunk is longer than its size says")
                self._end_chunk()
            else:
                self._size_line(line)
        if view:
            raise _malformed("bytes follow the last chunk")

    def _take_line(self, view: memoryview) -> tuple[bytes | None, memoryview]:
        """Return the next complete line without its end, or None if its end has not arrived, and the remaining
        bytes.
        """
        start = bytes(view[: _LINE_BYTES_MAX + 1])
        joined = self._line + start
        end = joined.find(b"\r\n")
        if end < 0:
            if len(joined) > _LINE_BYTES_MAX:
                raise _malformed("a chunk's size line is too long")
            self._line = joined
            return None, view[len(view) :]
        rest = view[end + 2 - len(self._line) :]
        self._line = b""
        return joined[:end], rest

    def _size_line(self, line: bytes) -> None:
        size, _, extension = line.decode("latin-1").partition(";")
        if _SIZE.fullmatch(size) is None:
            raise _malformed("a chunk does not begin with its size")
        self._left = int(size, 16)
        if self._has_signatures:
            name, _, self._chunk_signature = extension.strip().partition("=")
            if name != "chunk-signature":
                raise S3Error("AccessDenied", "a chunk is not signed")
        self._last = self._left == 0
        self._in_chunk = True
        if self._last and self._has_trailer:
            self._end_chunk()
            self._in_trailer = True

    def _end_chunk(self) -> None:
        """Check a chunk after its last byte. The empty chunk is the last; only a trailer may follow."""
        self._in_chunk = False
        if self._has_signatures:
            digests = f"{_EMPTY_SHA256}\n{self._chunk_hash.hexdigest()}"
            self._check_signature("AWS4-HMAC-SHA256-PAYLOAD", digests, self._chunk_signature)
            self._chunk_hash = hashlib.sha256()
        self.finished = self._last and not self._has_trailer

    def _trailer_line(self, line: bytes) -> None:
        if line:
            name, _, value = line.decode("latin-1").partition(":")
            self.trailers[name.strip().lower()] = value.strip()
            return
        signature = self.trailers.pop("x-amz-trailer-signature", None)
        if self._has_signatures:
            # The signed text is the trailer's lines as they arrived, each with a newline at its end.
            lines = "".join(f"{name}:{value}\n" for name, value in self.trailers.items())
            digest = hashlib.sha256(lines.encode("latin-1")).hexdigest()
            self._check_signature("AWS4-HMAC-SHA256-TRAILER", digest, signature or "")
        self.finished = True

    def _check_signature(self, algorithm: str, digests: str, signature: str) -> None:
        signed = self._signed
        text = f"{algorithm}\n{signed.timestamp}\n{signed.scope}\n{self._previous_signature}\n{digests}"
        if not hmac.compare_digest(sign(signed.signing_key, text).encode(), signature.encode()):
            raise S3Error("SignatureDoesNotMatch", "the signature of a chunk or trailer does not match")
        self._previous_signature = signature


def _malformed(what: str) -> S3Error:
    return S3Error("InvalidRequest", f"the aws-chunked body is malformed: {what}")
