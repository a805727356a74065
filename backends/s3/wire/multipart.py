"""Multipart upload of one object: the next request, and the meaning of each answer.

One idea: for its session an upload is one object and one row. Parts follow each other on the session's connection, and
form an object only after the last answer. If a request fails, the upload is aborted, so that no parts remain, which no
listing of objects shows. Clean-up aborts uploads that a lost connection left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from html import unescape
from urllib.parse import quote

from backends.base import Failure
from backends.s3.wire.endpoint_requests import XMLNS, RequestKind
from backends.s3.wire.replies import ReplyReader
from backends.s3.wire.verdicts import SUCCESS, failure_in, status_of

_UPLOAD_ID = re.compile(rb"<UploadId>\s*([^<]+?)\s*</UploadId>")
_CHECKSUM_ELEMENT = {"crc32c": "ChecksumCRC32C", "crc64nvme": "ChecksumCRC64NVME"}

Parts = tuple[bytes | memoryview, ...]


class UploadStep(Enum):
    """The next request."""

    CREATE = "create upload"
    PART = "part"
    COMPLETE = "complete upload"
    ABORT = "abort upload"
    OVER = "over"


class MultipartUpload:
    """The upload of one object. ``request`` is the next request; ``take`` takes its answer."""

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
        self.version = version  # content version
        self.kind = kind  # kind of the archive request that it replaces
        self.step = UploadStep.CREATE
        self.verdict: Failure | None = None  # why the object was not archived
        self.abort_refused: Failure | None = None  # why its parts may stay
        self.sent_ns = 0  # of the first request
        self.again = 0  # number of retried requests
        self._make = make
        self._part_bytes = part_bytes
        self._id = b""
        self._sent_checksum = b""
        self._parts: list[str] = []  # completed parts, as the completion lists them

    @property
    def part_number(self) -> int:
        """Number of the next part, from 1."""
        return len(self._parts) + 1

    @property
    def part(self) -> tuple[int, int]:
        """Offset and length of the next part."""
        offset = len(self._parts) * self._part_bytes
        return offset, min(self._part_bytes, self.size_bytes - offset)

    @property
    def query(self) -> bytes:
        """The query of the next request: upload id, and part number."""
        upload = b"uploadId=" + self._id
        return b"partNumber=%d&%b" % (self.part_number, upload) if self.step is UploadStep.PART else upload

    @property
    def completion(self) -> bytes:
        """The body that lists all parts."""
        parts = "".join(self._parts)
        return f"<CompleteMultipartUpload {XMLNS}>{parts}</CompleteMultipartUpload>".encode()

    def request(self) -> Parts:
        """Return head and body of the next request."""
        return self._make(self)

    def part_checksum(self, value: bytes) -> None:
        """Set the checksum of the next part."""
        self._sent_checksum = value

    def status_of(self, reply: ReplyReader) -> int:
        """Return the status of an answer. A completion may have an error in its body."""
        return status_of(reply, SUCCESS[self.step.value])

    def take(self, reply: ReplyReader) -> None:
        """Take an answer and choose the next request."""
        match self.step:
            case UploadStep.CREATE:
                self._created(reply)
            case UploadStep.PART:
                self._part_done(reply)
            case UploadStep.COMPLETE:
                self._completed(reply)
            case UploadStep.ABORT:
                # 404: the upload no longer exists, because another request has ended it.
                refused = self._failure(reply) if reply.status != 404 else None
                if refused is not None:
                    message = f"{refused.message}; its parts stay until clean-up"
                    self.abort_refused = refused._replace(message=message)
                self.step = UploadStep.OVER

    def lost(self, verdict: Failure) -> Failure:
        """Return why the object was not archived, after the connection failed during a request."""
        return self._of_this_step(verdict) if self.verdict is None else self.verdict

    def _created(self, reply: ReplyReader) -> None:
        self.verdict = self._failure(reply)
        found = _UPLOAD_ID.search(reply.error_body)
        if self.verdict is None and found is not None:
            self._id = quote(unescape(found[1].decode("utf-8", "replace")), safe="-_.~").encode()
            self.step = UploadStep.PART
        else:
            self.step = UploadStep.OVER  # no upload to abort

    def _part_done(self, reply: ReplyReader) -> None:
        self.verdict = self._failure(reply)
        if self.verdict is not None:
            self.step = UploadStep.ABORT
            return
        tag = reply.headers[b"etag"].strip().decode("latin-1")
        element = _CHECKSUM_ELEMENT.get(self.kind.checksum)
        checksum = f"<{element}>{self._sent_checksum.decode()}</{element}>" if element else ""
        tag = tag.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
        self._parts.append(f"<Part><PartNumber>{self.part_number}</PartNumber><ETag>{tag}</ETag>{checksum}</Part>")
        if self._part_bytes * len(self._parts) >= self.size_bytes:
            self.step = UploadStep.COMPLETE

    def _completed(self, reply: ReplyReader) -> None:
        self.verdict = self._failure(reply)
        self.step = UploadStep.OVER if self.verdict is None else UploadStep.ABORT

    def _failure(self, reply: ReplyReader) -> Failure | None:
        """Return the failure in the answer to this step."""
        failure = failure_in(reply, SUCCESS[self.step.value])
        return self._of_this_step(failure) if failure is not None else None

    def _of_this_step(self, verdict: Failure) -> Failure:
        """Return a verdict with the step in its reason. Only after a completion the object may exist all the same."""
        unknown = verdict.outcome_unknown and self.step is UploadStep.COMPLETE
        return Failure(verdict.status, f"{self.step.value}: {verdict.reason}", verdict.message, unknown)


def part_bodies(views: Sequence[memoryview | bytes], part: tuple[int, int]) -> Parts:
    """Return the pieces of a part of an object, without copying."""
    offset, length = part
    found: list[bytes | memoryview] = []
    for view in views:
        piece = view[max(0, offset) : max(0, offset + length)]
        if len(piece):
            found.append(piece)
        offset -= len(view)
    return tuple(found)
