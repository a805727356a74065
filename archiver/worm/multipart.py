"""Multipart uploads, step by step: start, part, complete, abort.

One idea: a check decides what each step carries. Nothing is done on its behalf but the integrity header that every
part of an object under a lock must have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from archiver.worm.case import ROOT, Case, ObjectLock, Version, lock_headers, md5_of
from archiver.worm.requests.exchange import Answer, Headers, S3Client
from archiver.worm.verdict import Inconclusive

PART_BYTES_MIN = 5 << 20  # of every part but the last


class StartedUpload(NamedTuple):
    """One multipart upload; its id is empty where none came back."""

    bucket: str
    key: str
    id: str


def start(
    case: Case,
    key: str | None = None,
    *,
    lock: ObjectLock | None = None,
    hold: str | None = None,
    headers: Headers = (),
    bucket: str | None = None,
    client: S3Client | None = None,
) -> tuple[Answer, StartedUpload]:
    """CreateMultipartUpload, with what the finished version is to be locked by."""
    bucket, key = bucket or case.bucket, key or case.key()
    wanted = [*headers, *lock_headers(lock, hold)]
    answer = (client or case.client).send("POST", bucket, key, query=(("uploads", None),), headers=wanted)
    return answer, StartedUpload(bucket, key, answer.text_of("UploadId") if answer.ok else "")


def part(
    case: Case,
    upload: StartedUpload,
    number: int,
    body: bytes,
    *,
    headers: Headers = (),
    client: S3Client | None = None,
) -> Answer:
    """UploadPart (with Content-MD5); numbers begin with 1."""
    return (client or case.client).send(
        "PUT", upload.bucket, upload.key, query=(("partNumber", str(number)), ("uploadId", upload.id)),
        headers=[("Content-MD5", md5_of(body)), *headers], body=body,
    )  # fmt: skip


def complete(
    case: Case, upload: StartedUpload, etags: Sequence[str], *, headers: Headers = (), client: S3Client | None = None
) -> Answer:
    """CompleteMultipartUpload of parts 1, 2 ...; raises Inconclusive for an error inside a 200, as Amazon may send."""
    listed = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag)}</ETag></Part>"
        for number, etag in enumerate(etags, start=1)
    )
    body = f'<CompleteMultipartUpload xmlns="{ROOT}">{listed}</CompleteMultipartUpload>'.encode()
    answer = (client or case.client).send(
        "POST", upload.bucket, upload.key, query=(("uploadId", upload.id),), headers=headers, body=body
    )
    if answer.ok and answer.elements("Error"):
        raise Inconclusive(f"completing a multipart upload was answered 200 with an error inside: {answer.code}")
    return answer


def abort(case: Case, upload: StartedUpload, *, client: S3Client | None = None) -> Answer:
    """AbortMultipartUpload."""
    return (client or case.client).send("DELETE", upload.bucket, upload.key, query=(("uploadId", upload.id),))


def send_parts(case: Case, upload: StartedUpload, bodies: Sequence[bytes]) -> list[str]:
    """Upload these parts and give their ETags. Raises Inconclusive."""
    etags = []
    for number, body in enumerate(bodies, start=1):
        answer = part(case, upload, number, body)
        if not answer.ok:
            raise Inconclusive(f"part {number} of a multipart upload was answered {answer}")
        etags.append(answer.headers.get("etag", ""))
    return etags


def uploaded(
    case: Case,
    bodies: Sequence[bytes],
    key: str | None = None,
    *,
    lock: ObjectLock | None = None,
    hold: str | None = None,
    headers: Headers = (),
    bucket: str | None = None,
) -> tuple[Answer, Version]:
    """Start, parts and completion in one: the last answer, and the version as ``Case.put`` gives it.

    Where the start was refused, that answer is given. Raises Inconclusive where a part was.
    """
    answer, upload = start(case, key, lock=lock, hold=hold, headers=headers, bucket=bucket)
    if answer.ok:
        answer = complete(case, upload, send_parts(case, upload, bodies))
    return answer, Version(upload.bucket, upload.key, answer.version_id or "", b"".join(bodies))
