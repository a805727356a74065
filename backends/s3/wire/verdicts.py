"""Decides from an answer whether an operation on an object was done, and otherwise the reason of its failure.

One idea: a status alone is not a success. Bytes and lengths are compared. A copy may report an error after its 200. A
delete that must be refused succeeds only if a lock is the reason.
"""

from __future__ import annotations

from archiver.values.record import Operation, Status
from backends.base import Failure
from backends.s3.wire.replies import BodyCheck, ReplyReader

REFUSALS = frozenset(("AccessDenied", "InvalidRequest", "ObjectLocked"))  # of a delete, because of a lock
# Looked up once: reading an enumeration's member takes 0.1 us.
_REFUSED_DELETE, _DELETE, _DELETE_MARKER = Operation.REFUSED_DELETE, Operation.DELETE, Operation.DELETE_MARKER
_RANGE_RETRIEVE, _HEAD, _COPY = Operation.RANGE_RETRIEVE, Operation.HEAD, Operation.COPY


def status_of(reply: ReplyReader, *, decided_by_body: bool) -> int:
    """Return the status of a reply; 500 if a body that decides has an error after a 200, as in other clients."""
    if decided_by_body and reply.status == 200 and b"<Error" in reply.error_body:
        return 500
    return reply.status


def answer(operation: Operation, reply: ReplyReader, check: BodyCheck | None, size_bytes: int) -> Failure | None:
    """Return the failure in the answer for an object of ``size_bytes``; None: the operation was done."""
    status = reply.status
    if operation is _REFUSED_DELETE:
        if status in (400, 403) and reply.s3_error()[0] in REFUSALS:
            return None
        if status < 300:
            return Failure(Status.DELETED_LOCKED, "deleted what was locked", "the platform deleted a locked object")
    elif operation is _COPY:
        return _answer_to_copy(reply)
    elif operation is _RANGE_RETRIEVE:
        if status == 200:
            whole = "the platform sent the whole object, not the requested range"
            return Failure(Status.PROTOCOL_ERROR, "range ignored", whole)
        if status == 206:
            status = 200
    elif operation is _DELETE_MARKER:
        return _answer_to_delete(reply)
    elif status == 204 and operation is _DELETE:
        status = 200
    if status != 200:
        return refusal(reply)
    if check is not None and not check.finish():
        return Failure(Status.DAMAGED, "damaged", "the bytes are not those that were archived")
    if operation is _HEAD:
        return _answer_to_head(reply, size_bytes)
    return None


def _answer_to_copy(reply: ReplyReader) -> Failure | None:
    if status_of(reply, decided_by_body=True) != 200:
        return refusal(reply, decided_by_body=True)
    if b"<ETag>" in reply.error_body:
        return None
    words = "the answer to the copy names no new object"
    return Failure(Status.PROTOCOL_ERROR, "no copy named", words, outcome_unknown=True)


def _answer_to_delete(reply: ReplyReader) -> Failure | None:
    """Judge a delete without a version, which must create a delete marker."""
    if reply.status not in (200, 204):
        return refusal(reply)
    if reply.headers.get(b"x-amz-delete-marker", b"").strip().lower() == b"true":
        return None
    words = "the platform names no delete marker; where a bucket keeps no versions the object itself is gone"
    return Failure(Status.PROTOCOL_ERROR, "no marker named", words, outcome_unknown=True)


def _answer_to_head(reply: ReplyReader, size_bytes: int) -> Failure | None:
    length = reply.headers.get(b"content-length", b"").strip().decode("latin-1")
    if length == str(size_bytes):
        return None
    words = f"the platform reports {length or 'an unknown number of'} bytes, not {size_bytes}"
    return Failure(Status.DAMAGED, "damaged", words)


def refusal(reply: ReplyReader, *, decided_by_body: bool = False) -> Failure:
    """Return a failure with the platform's own message."""
    status = status_of(reply, decided_by_body=decided_by_body)
    code, message = reply.s3_error()
    # A refusal is an answer. After a server error, an unexpected success, or an invalid redirect, the operation may
    # have been done.
    refused = 400 <= status < 500 or (300 <= status < 400 and bool(code))
    words = message or code or f"the answer is an HTTP status {reply.status} without an explanation"
    return Failure(status, f"{reply.status} {code}".strip(), words, not refused)
