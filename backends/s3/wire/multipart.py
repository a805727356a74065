"""An object that is archived in parts: which request is due, and what each answer means.

One idea: for its session this is one object and one row. Parts go one after another over the session's connection, and
are no object before the last answer has come; where a request fails, the upload is aborted, so that nothing stays which
no listing of objects shows. What a lost connection leaves, clean-up ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from html import unescape
from urllib.parse import quote

from archiver.values.record import Status
from backends.s3.wire.endpoint_requests import XMLNS, RequestKind
from backends.s3.wire.replies import ReplyReader
from backends.s3.wire.verdicts import FailureVerdict, refusal, status_of

_UPLOAD_ID = re.compile(rb"<UploadId>\s*([^<]+?)\s*</UploadId>")
_CHECKSUM_ELEMENT = {"crc32c": "ChecksumCRC32C", "crc64nvme": "ChecksumCRC64NVME"}

Parts = tuple[bytes | memoryview, ...]


class UploadStep(Enum):
    """The request that is due."""

    CREATE = "create upload"
    PART = "part"
    COMPLETE = "complete upload"
    ABORT = "abort upload"
    OVER = "over"


class MultipartUpload:
    """One object on its way. ``request`` is what to send now, ``take`` its answer."""

    def __init__(
        self,
        endpoint_index: int,
        number: int,
        size_bytes: int,
        part_bytes: int,
        version: int,
        kind: RequestKind,
        make: Callable[[MultipartUpload], Parts],
    ) -> None:
        self.endpoint_index = endpoint_index
        self.number = number
        self.size_bytes = size_bytes
        self.version = version  # of the content
        self.kind = kind  # of the archive request that this one stands for
        self.step = UploadStep.CREATE
        self.verdict: FailureVerdict | None = None  # why the object was not archived
        self.abort_refused: FailureVerdict | None = None  # why its parts may stay
        self.sent_ns = 0  # the first request
        self.again = 0  # how many requests were sent once more
        self._make = make
        self._part_bytes = part_bytes
        self._id = b""
        self._sent_checksum = b""
        self._parts: list[str] = []  # done, as the request that completes the upload lists them

    @property
    def part_number(self) -> int:
        """Of the part that is due, from 1."""
        return len(self._parts) + 1

    @property
    def part(self) -> tuple[int, int]:
        """Offset and length of the part that is due."""
        offset = len(self._parts) * self._part_bytes
        return offset, min(self._part_bytes, self.size_bytes - offset)

    @property
    def query(self) -> bytes:
        """Which upload, and which part of it, as a request names them."""
        upload = b"uploadId=" + self._id
        return b"partNumber=%d&%b" % (self.part_number, upload) if self.step is UploadStep.PART else upload

    @property
    def completion(self) -> bytes:
        """The body that lists all parts."""
        parts = "".join(self._parts)
        return f"<CompleteMultipartUpload {XMLNS}>{parts}</CompleteMultipartUpload>".encode()

    def request(self) -> Parts:
        """Head and body of the request that is due."""
        return self._make(self)

    def part_checksum(self, value: bytes) -> None:
        """The checksum that is sent with the part that is due."""
        self._sent_checksum = value

    def status_of(self, reply: ReplyReader) -> int:
        """The status of an answer; that of a completion is in its body."""
        return status_of(reply, decided_by_body=self.step is UploadStep.COMPLETE)

    def take(self, reply: ReplyReader) -> None:
        """Go on after this answer."""
        match self.step:
            case UploadStep.CREATE:
                self._created(reply)
            case UploadStep.PART:
                self._part_done(reply)
            case UploadStep.COMPLETE:
                self._completed(reply)
            case UploadStep.ABORT:
                # Gone is gone: another request may have ended it.
                if reply.status not in (200, 204, 404):
                    self.abort_refused = self._said(refusal(reply), "its parts stay until clean-up")
                self.step = UploadStep.OVER

    def lost(self, verdict: FailureVerdict) -> FailureVerdict:
        """Why the object was not archived, where the connection failed over the request that is due."""
        if self.verdict is not None:
            return self.verdict
        unknown = verdict.outcome_unknown and self.step is UploadStep.COMPLETE
        return FailureVerdict(verdict.status, f"{self.step.value}: {verdict.reason}", verdict.message, unknown)

    def _created(self, reply: ReplyReader) -> None:
        found = _UPLOAD_ID.search(reply.error_body)
        if reply.status == 200 and found is not None:
            self._id = quote(unescape(found[1].decode("utf-8", "replace")), safe="-_.~").encode()
            self.step = UploadStep.PART
            return
        if reply.status == 200:
            self.verdict = FailureVerdict(Status.PROTOCOL_ERROR, "create upload: no id", "the answer names no upload")
        else:
            self.verdict = self._said(refusal(reply))
        self.step = UploadStep.OVER  # there is nothing to abort

    def _part_done(self, reply: ReplyReader) -> None:
        tag = reply.headers.get(b"etag", b"").strip().decode("latin-1")
        if reply.status != 200 or not tag:
            untold = FailureVerdict(Status.PROTOCOL_ERROR, "part: no ETag", "the answer to a part has no ETag")
            self.verdict = untold if reply.status == 200 else self._said(refusal(reply))
            self.step = UploadStep.ABORT
            return
        element = _CHECKSUM_ELEMENT.get(self.kind.checksum)
        checksum = f"<{element}>{self._sent_checksum.decode()}</{element}>" if element else ""
        tag = tag.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
        self._parts.append(f"<Part><PartNumber>{self.part_number}</PartNumber><ETag>{tag}</ETag>{checksum}</Part>")
        if self._part_bytes * len(self._parts) >= self.size_bytes:
            self.step = UploadStep.COMPLETE

    def _completed(self, reply: ReplyReader) -> None:
        if self.status_of(reply) == 200 and b"<ETag>" in reply.error_body:
            self.step = UploadStep.OVER
            return
        if self.status_of(reply) == 200:
            words = "the answer names no object that was made"
            self.verdict = FailureVerdict(
                Status.PROTOCOL_ERROR, "complete upload: no ETag", words, outcome_unknown=True
            )
        else:
            self.verdict = self._said(refusal(reply, decided_by_body=True))
        self.step = UploadStep.ABORT

    def _said(self, verdict: FailureVerdict, more: str = "") -> FailureVerdict:
        """Under its own reason. Parts are no object: only the completion leaves a doubt whether there is one."""
        message = "; ".join(filter(None, (verdict.message, more)))
        unknown = verdict.outcome_unknown and self.step is UploadStep.COMPLETE
        return FailureVerdict(verdict.status, f"{self.step.value}: {verdict.reason}", message, unknown)


def part_bodies(views: Sequence[memoryview | bytes], part: tuple[int, int]) -> Parts:
    """What a part has of an object that lies in these pieces, without copying."""
    offset, length = part
    found: list[bytes | memoryview] = []
    for view in views:
        piece = view[max(0, offset) : max(0, offset + length)]
        if len(piece):
            found.append(piece)
        offset -= len(view)
    return tuple(found)
