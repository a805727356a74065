"""Each way of writing an object, as a function that sends the requests and returns the last answer.

One idea: a record is written, and an attack overwrites it, by the same functions. An attack passes another client.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from archiver.worm import multipart
from archiver.worm.case import Case, Version, md5_of
from archiver.worm.forms import send_form
from archiver.worm.generated.dimensions import Writing
from archiver.worm.multipart import PART_BYTES_MIN
from archiver.worm.requests.checksums import checksum_of
from archiver.worm.requests.exchange import (
    SIGNED_CHUNKS,
    UNSIGNED_TRAILER,
    Answer,
    Headers,
    PayloadNamed,
    S3Client,
    target_of,
)

_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


class WritePlace(NamedTuple):
    """Where an object is written, how, and by whom."""

    client: S3Client
    bucket: str
    key: str
    headers: Headers = ()  # its lock, and others
    other_bucket: str = ""  # source of copies across buckets


Writer = Callable[[Case, WritePlace], tuple[Answer, Version]]


def new_body(case: Case, size_bytes: int | None = None) -> bytes:
    """Return bytes that no other object has: a short text, or random bytes of this size."""
    if size_bytes is None:
        return f"{case.check_id} {secrets.token_hex(8)}".encode()
    return secrets.token_bytes(size_bytes)


def put(
    case: Case,
    place: WritePlace,
    *,
    size_bytes: int | None = None,
    headers: Headers = (),
    query: tuple[tuple[str, str | None], ...] = (),
) -> tuple[Answer, Version]:
    """PUT with Content-MD5 and further headers."""
    return _put(case, place, new_body(case, size_bytes), headers, query)


def _put(
    case: Case, place: WritePlace, body: bytes, headers: Headers = (), query: tuple[tuple[str, str | None], ...] = ()
) -> tuple[Answer, Version]:
    answer = place.client.send(
        "PUT", place.bucket, place.key, query=query, body=body,
        headers=[("Content-MD5", md5_of(body)), *headers, *place.headers],
    )  # fmt: skip
    return answer, _version(place, answer, body)


def put_with_checksum(kind: str, case: Case, place: WritePlace) -> tuple[Answer, Version]:
    """PUT with a checksum of this kind and no Content-MD5."""
    body = new_body(case)
    headers = [(f"x-amz-checksum-{kind}", checksum_of(kind, body)), *place.headers]
    answer = place.client.send("PUT", place.bucket, place.key, headers=headers, body=body)
    return answer, _version(place, answer, body)


def put_of_nothing(case: Case, place: WritePlace) -> tuple[Answer, Version]:
    """PUT without a byte."""
    return _put(case, place, b"")


def put_presigned(case: Case, place: WritePlace) -> tuple[Answer, Version]:
    """PUT by a presigned URL whose signature covers the lock."""
    body = new_body(case)
    headers = (("Content-MD5", md5_of(body)), *place.headers)
    answer = place.client.send_presigned("PUT", place.bucket, place.key, signed=headers, headers=headers, body=body)
    return answer, _version(place, answer, body)


def put_chunks(case: Case, place: WritePlace) -> tuple[Answer, Version]:
    """PUT as aws-chunked with a signature for each chunk."""
    body = new_body(case)
    client, target = place.client, target_of(place.bucket, place.key, ())
    # The parts of a signed chunk have a fixed length, so the length of the whole is known before it is signed.
    length = sum(len(f"{size:x};chunk-signature=") + 64 + 4 + size for size in (len(body), 0))
    checksum = ("x-amz-checksum-crc32", checksum_of("crc32", body))
    headers = [*_chunked(body, length), checksum, *place.headers]
    signing = client.signing_headers("PUT", target, headers, b"", partial(PayloadNamed, SIGNED_CHUNKS))
    signed = {name.lower(): value for name, value in signing}
    previous, sent, signatures = signed["authorization"].rpartition("Signature=")[2], b"", []
    for chunk in (body, b""):
        previous = _chunk_signature(client, signed["x-amz-date"], previous, chunk)
        signatures.append(previous)
        sent += f"{len(chunk):x};chunk-signature={previous}\r\n".encode() + chunk + b"\r\n"
    answer = client.send_as_is("PUT", target, [*headers, *signing], sent, secrets=signatures)
    return answer, _version(place, answer, body)


def put_trailer(case: Case, place: WritePlace) -> tuple[Answer, Version]:
    """PUT as aws-chunked with a checksum after the bytes."""
    body = new_body(case)
    client, target = place.client, target_of(place.bucket, place.key, ())
    trailer = f"x-amz-checksum-crc32:{checksum_of('crc32', body)}\r\n\r\n"
    sent = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n" + trailer.encode()
    headers = [*_chunked(body, len(sent)), ("x-amz-trailer", "x-amz-checksum-crc32"), *place.headers]
    signing = client.signing_headers("PUT", target, headers, b"", partial(PayloadNamed, UNSIGNED_TRAILER))
    answer = client.send_as_is("PUT", target, [*headers, *signing], sent)
    return answer, _version(place, answer, body)


def post_form(case: Case, place: WritePlace) -> tuple[Answer, Version]:
    """Upload with a browser's form whose policy is signed. The lock is in its fields."""
    body = new_body(case)
    wanted = {**dict(place.headers), "x-amz-checksum-sha256": checksum_of("sha256", body)}
    return send_form(case, place.client, (place.bucket, place.key), wanted, body)


def upload(case: Case, place: WritePlace, *sizes_bytes: int) -> tuple[Answer, Version]:
    """Multipart upload of parts of these sizes. Returns the first refusal."""
    answer, started = multipart.start(
        case, place.key, headers=place.headers, bucket=place.bucket, client=place.client
    )  # fmt: skip
    bodies, etags = [new_body(case, size) for size in sizes_bytes], []
    for number, body in enumerate(bodies, 1):
        if answer.ok:
            answer = multipart.part(case, started, number, body, client=place.client)
            etags.append(answer.headers.get("etag", ""))
    if answer.ok:
        answer = multipart.complete(case, started, etags, client=place.client)
    return answer, _version(place, answer, b"".join(bodies))


def upload_copied_part(case: Case, place: WritePlace) -> tuple[Answer, Version]:
    """Multipart upload whose only part is a copy of another object."""
    _, source = put(case, WritePlace(case.client, place.bucket, case.key()))
    answer, started = multipart.start(
        case, place.key, headers=place.headers, bucket=place.bucket, client=place.client
    )  # fmt: skip
    if answer.ok:
        answer = place.client.send(
            "PUT", place.bucket, place.key, query=(("partNumber", "1"), ("uploadId", started.id)),
            headers=[("x-amz-copy-source", target_of(source.bucket, source.key, (("versionId", source.id),)))],
        )  # fmt: skip
    if answer.ok:
        answer = multipart.complete(case, started, [answer.text_of("ETag")], client=place.client)
    return answer, _version(place, answer, source.body)


def copy(case: Case, place: WritePlace, source_bucket: str | None = None) -> tuple[Answer, Version]:
    """Copy another object of this bucket or of another one."""
    _, source = put(case, WritePlace(case.client, source_bucket or place.bucket, case.key()))
    return copy_of(case, place, source)


def copy_across(case: Case, place: WritePlace) -> tuple[Answer, Version]:
    """Copy an object of a bucket without Object Lock."""
    return copy(case, place, place.other_bucket)


def copy_of(case: Case, place: WritePlace, source: Version) -> tuple[Answer, Version]:
    """Copy this version, or the current one if it has no id. Metadata is replaced, so that it may be onto itself."""
    named = target_of(source.bucket, source.key, (("versionId", source.id),) if source.id else ())
    headers = [
        ("x-amz-copy-source", named),
        ("x-amz-metadata-directive", "REPLACE"),
        ("x-amz-meta-copied", case.check_id),
    ]
    answer = place.client.send("PUT", place.bucket, place.key, headers=[*headers, *place.headers])
    return answer, _version(place, answer, source.body)


def copy_onto_itself(case: Case, place: WritePlace) -> tuple[Answer, Version]:
    """PUT an object, then copy it onto itself. The copy is the version that is locked."""
    answer, source = put(case, place._replace(client=case.client, headers=()))
    return copy_of(case, place, source) if answer.ok else (answer, source)


WRITERS: Mapping[Writing, Writer] = {
    Writing.PUT: put,
    Writing.CRC32: partial(put_with_checksum, "crc32"),
    Writing.CRC32C: partial(put_with_checksum, "crc32c"),
    Writing.CRC64NVME: partial(put_with_checksum, "crc64nvme"),
    Writing.SHA1: partial(put_with_checksum, "sha1"),
    Writing.SHA256: partial(put_with_checksum, "sha256"),
    Writing.CHUNKS: put_chunks,
    Writing.TRAILER: put_trailer,
    Writing.CONDITIONAL: partial(put, headers=(("If-None-Match", "*"),)),
    Writing.TAGS: partial(put, headers=(("x-amz-tagging", "case=4711&kind=record"),)),
    Writing.METADATA: partial(put, headers=(("x-amz-meta-case", "4711"),)),
    Writing.ENCODING: partial(put, headers=(("Content-Encoding", "gzip"),)),
    Writing.STORAGE_CLASS: partial(put, headers=(("x-amz-storage-class", "STANDARD"),)),
    Writing.EXPECT: partial(put, headers=(("Expect", "100-continue"),)),
    Writing.EMPTY: put_of_nothing,
    Writing.ONE_BYTE: partial(put, size_bytes=1),
    Writing.OVER_128_KIB: partial(put, size_bytes=(128 << 10) + 1),
    Writing.OVER_1_MIB: partial(put, size_bytes=(1 << 20) + 1),
    Writing.OVER_8_MIB: partial(put, size_bytes=(8 << 20) + 1),
    Writing.ONE_PART: lambda case, place: upload(case, place, 1000),
    Writing.TWO_PARTS: lambda case, place: upload(case, place, PART_BYTES_MIN, 1000),
    Writing.COPIED_PART: upload_copied_part,
    Writing.COPY: copy,
    Writing.COPY_ACROSS: copy_across,
    Writing.COPY_ONTO_ITSELF: copy_onto_itself,
    Writing.FORM: post_form,
    Writing.PRESIGNED: put_presigned,
}


def _version(place: WritePlace, answer: Answer, body: bytes) -> Version:
    return Version(place.bucket, place.key, answer.version_id or "", body)


def _chunked(body: bytes, length_bytes: int) -> list[tuple[str, str]]:
    return [
        ("Content-Encoding", "aws-chunked"),
        ("x-amz-decoded-content-length", str(len(body))),
        ("Content-Length", str(length_bytes)),
    ]


def _chunk_signature(client: S3Client, date: str, previous: str, chunk: bytes) -> str:
    """Return the signature of a chunk, which follows that of the chunk before.

    Source: Amazon S3 API Reference, "Signature calculations: transferring a payload in multiple chunks".
    """
    scope = f"{date[:8]}/{client.region}/s3/aws4_request"
    text = "\n".join(
        ("AWS4-HMAC-SHA256-PAYLOAD", date, scope, previous, _EMPTY_SHA256, hashlib.sha256(chunk).hexdigest())
    )
    key = f"AWS4{client.signing_credentials.secret_key}".encode()
    for word in (*scope.split("/"), text):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return key.hex()
