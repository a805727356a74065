"""Multipart upload, one function for each request: start, part, complete, abort.

One idea: the check decides what each request contains. These functions add only Content-MD5, which S3 requires of
every part of a locked object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from archiver.worm.case import ROOT, Case, ObjectLock, Version, lock_headers, md5_of
from archiver.worm.requests.exchange import Answer, Headers, S3Client
from archiver.worm.verdict import Inconclusive

PART_BYTES_MIN = 5 << 20  # of every part except the last


class StartedUpload(NamedTuple):
    """One multipart upload; its id is empty if the platform returned none."""

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
    """CreateMultipartUpload, with the lock of the finished version."""
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
    """UploadPart with Content-MD5; part numbers start at 1."""
    return (client or case.client).send(
        "PUT", upload.bucket, upload.key, query=(("partNumber", str(number)), ("uploadId", upload.id)),
        headers=[("Content-MD5", md5_of(body)), *headers], body=body,
    )  # fmt: skip


def complete(
    case: Case, upload: StartedUpload, etags: Sequence[str], *, headers: Headers = (), client: S3Client | None = None
) -> Answer:
    """CompleteMultipartUpload of parts 1, 2 and so on.

    Raises Inconclusive for an error inside a 200, as Amazon may send.
    """
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
    """Upload these parts and return their ETags. Raises Inconclusive."""
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
    """Start, send all parts and complete. Return the last answer and the version, as ``Case.put`` does.

    If the platform refuses the start, that answer is returned. Raises Inconclusive if it refuses a part.
    """
    answer, upload = start(case, key, lock=lock, hold=hold, headers=headers, bucket=bucket)
    if answer.ok:
        answer = complete(case, upload, send_parts(case, upload, bodies))
    return answer, Version(upload.bucket, upload.key, answer.version_id or "", b"".join(bodies))
