"""Decides from an answer whether a request was done, and otherwise the reason of its failure.

One idea: a status alone is not a success. ``SUCCESS`` says what the answer to each request contains if it was done, by
Amazon's API reference. Bytes and lengths are compared. A delete that must be refused succeeds only if a lock is the
reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from archiver.values.record import Operation, Status
from backends.base import Failure
from backends.s3.wire.endpoint_requests import REQUEST_OF
from backends.s3.wire.replies import BodyCheck, ReplyReader


class Success(NamedTuple):
    """What the answer to a request contains if it was done.

    ``header`` has a value, or ``element`` is in the document of the body; ``name`` says in messages what is missing. An
    answer without ``element`` has no body, except the content that was requested.
    """

    statuses: tuple[int, ...] = (200,)
    name: str = ""
    header: bytes = b""
    element: re.Pattern[bytes] | None = None
    may_be_error: bool = False  # Amazon documents that a 200 may have an error as its body


_ETAG = re.compile(rb"<ETag>")
# Less than Amazon documents, so that no honest platform is refused: the ETag element of Ceph RGW's completed uploads is
# empty, and the root of versitygw's retention document has another name. S3 answers a deletion with 204; 200 says the
# same.
SUCCESS: Mapping[str, Success] = {
    "head bucket": Success(),
    "lock configuration": Success(name="lock configuration", element=re.compile(rb"<ObjectLockConfiguration\b")),
    "archive": Success(name="ETag", header=b"etag"),
    "copy": Success(name="ETag", element=_ETAG, may_be_error=True),
    "create upload": Success(name="upload id", element=re.compile(rb"<UploadId>\s*[^<\s]")),
    "part": Success(name="ETag", header=b"etag"),
    "complete upload": Success(name="ETag", element=_ETAG, may_be_error=True),
    "abort upload": Success((204, 200)),
    "retrieve": Success(),
    "range": Success((206,), name="Content-Range", header=b"content-range"),
    "head": Success(name="Content-Length", header=b"content-length"),
    "query": Success(name="retention mode", element=re.compile(rb"<Mode>\s*[^<\s]")),
    "extend": Success(),
    "hold": Success(),
    "release": Success(),
    "event hold": Success(),
    "event release": Success(),
    "delete version": Success((204, 200)),
    "delete": Success((204, 200), name="delete marker", header=b"x-amz-delete-marker"),
}
_OF_OPERATION = {operation: SUCCESS[what] for operation, what in REQUEST_OF.items()}
REFUSALS = frozenset(("AccessDenied", "InvalidRequest", "ObjectLocked"))  # of a delete, because of a lock
# Looked up once: reading an enumeration's member takes 0.1 us.
_REFUSED_DELETE, _DELETE = Operation.REFUSED_DELETE, Operation.DELETE
_RANGE_RETRIEVE, _HEAD = Operation.RANGE_RETRIEVE, Operation.HEAD


def answer(
    operation: Operation,
    reply: ReplyReader,
    check: BodyCheck | None,
    size_bytes: int,
    part: tuple[int, int] | None = None,
) -> Failure | None:
    """Return the failure in the answer for an object of ``size_bytes``; None: the operation was done.

    ``part``: offset and length of the requested range.
    """
    if operation is _REFUSED_DELETE:
        return _answer_to_refused_delete(reply)
    failure = failure_in(reply, _OF_OPERATION[operation])
    if failure is not None:
        if operation is _RANGE_RETRIEVE and reply.status == 200:
            whole = "the platform sent the whole object, not the requested range"
            return Failure(Status.PROTOCOL_ERROR, "range ignored", whole)
        return failure
    if check is not None and not check.finish():
        return _damaged(reply)
    if operation is _HEAD:
        return _answer_to_head(reply, size_bytes)
    if operation is _DELETE:
        return _hidden(reply)
    return _answer_to_range(reply, part) if part is not None else None


def failure_in(reply: ReplyReader, success: Success) -> Failure | None:
    """Return the failure in an answer; None: it contains what a success contains."""
    statuses, name, header, element, may_be_error = success
    body = reply.error_body
    if reply.status not in statuses or (may_be_error and b"<Error" in body):
        return refusal(reply, success)
    if element is None:
        if body and not body.isspace():
            return _unexpected_body(reply)
        if not header or reply.headers.get(header):
            return None
    elif element.search(body) is not None:
        return None
    elif b"<Error" in body:
        return _unexpected_body(reply)
    words = f"the answer has status {reply.status} but no {name}, so it does not show that this was done"
    return Failure(Status.PROTOCOL_ERROR, f"no {name}", words, outcome_unknown=True)


def status_of(reply: ReplyReader, success: Success) -> int:
    """Return the status of an answer; 500 if its body is an error that a 200 may have, as in other clients."""
    if success.may_be_error and reply.status == 200 and b"<Error" in reply.error_body:
        return 500
    return reply.status


def status_for(operation: Operation, reply: ReplyReader) -> int:
    """Return the status of the answer to the request of an operation."""
    return status_of(reply, _OF_OPERATION[operation])


def refusal(reply: ReplyReader, success: Success) -> Failure:
    """Return a failure with the platform's own message."""
    status = status_of(reply, success)
    code, message = reply.s3_error()
    # A refusal is an answer. After a server error, an unexpected success, or an invalid redirect, the operation may
    # have been done.
    refused = 400 <= status < 500 or (300 <= status < 400 and bool(code))
    words = message or code or f"the answer is an HTTP status {reply.status} without an explanation"
    return Failure(status, f"{reply.status} {code}".strip(), words, not refused)


def refusal_for(operation: Operation, reply: ReplyReader) -> Failure:
    """Return the failure in an answer to the request of an operation that was not done."""
    return refusal(reply, _OF_OPERATION[operation])


def _unexpected_body(reply: ReplyReader) -> Failure:
    """Return the failure of an answer that has a body where a success has none: an error, or the page of a proxy."""
    code, message = reply.s3_error()
    reason = f"{reply.status} {code}" if code else "unexpected body"
    words = f"the answer has status {reply.status}, but this as its body: {message or code}"
    return Failure(Status.PROTOCOL_ERROR, reason, words, outcome_unknown=True)


def _damaged(reply: ReplyReader) -> Failure:
    words = "the bytes are not those that were archived"
    encoding = reply.headers.get(b"content-encoding")
    if encoding is not None:
        words += f"; the answer has Content-Encoding {encoding.decode('latin-1')}, which was not requested"
    return Failure(Status.DAMAGED, "damaged", words)


def _answer_to_refused_delete(reply: ReplyReader) -> Failure | None:
    if reply.status in (400, 403) and reply.s3_error()[0] in REFUSALS:
        return None
    failure = failure_in(reply, SUCCESS["delete version"]) or _hidden(reply)
    return failure or Failure(Status.DELETED_LOCKED, "deleted what was locked", "the platform deleted a locked object")


def _hidden(reply: ReplyReader) -> Failure | None:
    """Judge the deletion of a version that is no marker: if the answer names a marker, the version is still there."""
    if reply.headers.get(b"x-amz-delete-marker", b"").lower() != b"true":
        return None
    words = "the platform reports a delete marker instead of the deletion of the version, so it only hid the object"
    return Failure(Status.PROTOCOL_ERROR, "only hidden", words, outcome_unknown=True)


def _answer_to_head(reply: ReplyReader, size_bytes: int) -> Failure | None:
    length = reply.headers[b"content-length"].decode("latin-1")
    if length == str(size_bytes):
        return None
    words = f"the platform reports {length} bytes, not {size_bytes}"
    return Failure(Status.DAMAGED, "damaged", words)


def _answer_to_range(reply: ReplyReader, part: tuple[int, int]) -> Failure | None:
    offset, length = part
    wanted, found = f"bytes {offset}-{offset + length - 1}", reply.headers[b"content-range"].decode("latin-1")
    if found.lower().startswith(f"{wanted}/"):
        return None
    return Failure(Status.PROTOCOL_ERROR, "another range", f"the platform sent {found}, not {wanted}")
