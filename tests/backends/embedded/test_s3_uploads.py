"""Multipart uploads through boto3: Amazon's documented rules of parts, order, sizes, checksums, locks and listings."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from awscrt import checksums
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from tests.backends.embedded.boto3_uploads import FIRST, LAST, MIB, complete, create, send, uploaded


def body(s3: Any, bucket: str, key: str = "k", **wanted: Any) -> bytes:
    content: bytes = s3.get_object(Bucket=bucket, Key=key, **wanted)["Body"].read()
    return content


def refused(code: str) -> Any:
    return pytest.raises(ClientError, match=rf"\({code}\)")


def test_parts_become_one_object(s3: Any, bucket: str) -> None:
    done = uploaded(s3, bucket, [FIRST, LAST], ContentType="text/csv", Metadata={"case": "A-17"})
    md5s = hashlib.md5(FIRST).digest() + hashlib.md5(LAST).digest()
    assert done["ETag"] == f'"{hashlib.md5(md5s).hexdigest()}-2"'
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == FIRST + LAST
    assert (got["ETag"], got["VersionId"]) == (done["ETag"], done["VersionId"])
    assert (got["ContentType"], got["Metadata"]) == ("text/csv", {"case": "A-17"})
    (listed,) = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert (listed["Size"], listed["ETag"]) == (len(FIRST + LAST), done["ETag"])


def test_multipart_transfer_downloads_the_uploaded_bytes(s3: Any, bucket: str) -> None:
    """Threads send parts below and above the size that the store keeps in memory."""
    data = os.urandom(43 * MIB + 7)
    for size in (5 * MIB, 9 * MIB):
        several = TransferConfig(multipart_threshold=MIB, multipart_chunksize=size, max_concurrency=4)
        s3.upload_fileobj(io.BytesIO(data), bucket, f"by {size}", Config=several)
        back = io.BytesIO()
        s3.download_fileobj(bucket, f"by {size}", back, Config=several)
        assert back.getvalue() == data
        assert s3.head_object(Bucket=bucket, Key=f"by {size}")["ETag"].endswith(f'-{-(-len(data) // size)}"')


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 0), (5 * MIB - 1, 5 * MIB), (5 * MIB, 5 * MIB), (3 * MIB, 16 * MIB), (10 * MIB + 999, 99 * MIB)],
)
def test_ranges_cross_parts(s3: Any, three_parts: tuple[str, bytes], start: int, end: int) -> None:
    name, data = three_parts
    answer = s3.get_object(Bucket=name, Key="k", Range=f"bytes={start}-{end}")
    assert answer["Body"].read() == data[start : end + 1]


@pytest.fixture(scope="module")
def three_parts(s3: Any) -> tuple[str, bytes]:
    """A bucket whose object `k` has parts of 5, 5 and 7 MiB."""
    pieces = [os.urandom(5 * MIB), os.urandom(5 * MIB), os.urandom(7 * MIB)]
    s3.create_bucket(Bucket="parts")
    uploaded(s3, "parts", pieces)
    return "parts", b"".join(pieces)


def test_a_part_can_be_read_by_its_number(s3: Any, three_parts: tuple[str, bytes]) -> None:
    name, data = three_parts
    answer = s3.get_object(Bucket=name, Key="k", PartNumber=2)
    assert answer["Body"].read() == data[5 * MIB : 10 * MIB]
    assert (answer["PartsCount"], answer["ContentRange"]) == (3, f"bytes {5 * MIB}-{10 * MIB - 1}/{17 * MIB}")
    assert s3.head_object(Bucket=name, Key="k", PartNumber=3)["ContentLength"] == 7 * MIB
    with refused("InvalidPartNumber"):
        s3.get_object(Bucket=name, Key="k", PartNumber=4)
    with refused("InvalidArgument"):
        s3.get_object(Bucket=name, Key="k", PartNumber=0)


def test_object_of_a_single_put_is_readable_as_part_one(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"whole")
    assert body(s3, bucket, PartNumber=1) == b"whole"
    with refused("InvalidPartNumber"):
        s3.get_object(Bucket=bucket, Key="k", PartNumber=2)


def test_object_is_invisible_until_the_upload_completes(s3: Any, bucket: str) -> None:
    upload = create(s3, bucket)
    parts = send(s3, upload, [LAST])
    assert "Versions" not in s3.list_object_versions(Bucket=bucket)
    with refused("NoSuchKey"):
        s3.get_object(Bucket=bucket, Key="k")
    complete(s3, upload, parts)
    assert body(s3, bucket) == LAST


def test_part_sent_again_replaces_the_first_one(s3: Any, bucket: str) -> None:
    upload = create(s3, bucket)
    (first,) = send(s3, upload, [b"one"])
    (second,) = send(s3, upload, [b"two"])
    with refused("InvalidPart"):
        complete(s3, upload, [first])
    complete(s3, upload, [second])
    assert body(s3, bucket) == b"two"


def test_completion_keeps_only_the_listed_parts(s3: Any, bucket: str) -> None:
    upload = create(s3, bucket)
    parts = send(s3, upload, [FIRST, b"left out", LAST])
    complete(s3, upload, [parts[0], parts[2]])
    assert body(s3, bucket) == FIRST + LAST
    assert body(s3, bucket, PartNumber=2) == LAST


def test_completing_twice_returns_the_same_version(s3: Any, bucket: str) -> None:
    upload = create(s3, bucket)
    parts = send(s3, upload, [LAST])
    first, second = complete(s3, upload, parts), complete(s3, upload, parts)
    assert (first["VersionId"], first["ETag"]) == (second["VersionId"], second["ETag"])
    assert len(s3.list_object_versions(Bucket=bucket)["Versions"]) == 1
    with refused("InvalidPart"):
        complete(s3, upload, [{"PartNumber": 2, "ETag": parts[0]["ETag"]}])
    s3.delete_object(Bucket=bucket, Key="k", VersionId=first["VersionId"])
    with refused("NoSuchUpload"):
        complete(s3, upload, parts)


@pytest.mark.parametrize(
    ("order", "code"),
    [([2, 1], "InvalidPartOrder"), ([1, 1], "InvalidPartOrder"), ([1, 3], "InvalidPart"), ([2, 4], "InvalidPart")],
)
def test_invalid_part_list_is_refused_and_the_upload_stays(s3: Any, bucket: str, order: list[int], code: str) -> None:
    upload = create(s3, bucket)
    parts = send(s3, upload, [FIRST, LAST])
    listed = [{**parts[(number - 1) % 2], "PartNumber": number} for number in order]
    with refused(code):
        complete(s3, upload, listed)
    complete(s3, upload, parts)


def test_a_small_part_may_only_be_the_last(s3: Any, bucket: str) -> None:
    upload = create(s3, bucket)
    parts = send(s3, upload, [b"small", FIRST])
    with refused("EntityTooSmall"):
        complete(s3, upload, parts)


def test_completion_with_another_object_size_is_refused(s3: Any, bucket: str) -> None:
    upload = create(s3, bucket)
    parts = send(s3, upload, [LAST])
    with refused("InvalidRequest"):
        complete(s3, upload, parts, MpuObjectSize=len(LAST) + 1)
    complete(s3, upload, parts, MpuObjectSize=len(LAST))


@pytest.mark.parametrize("number", [0, 10_001])
def test_part_numbers_have_bounds(s3: Any, bucket: str, number: int) -> None:
    upload = create(s3, bucket)
    with refused("InvalidArgument"):
        s3.upload_part(**upload, PartNumber=number, Body=b"x")
    s3.upload_part(**upload, PartNumber=10_000, Body=b"x")


def test_upload_id_is_refused_for_another_key_or_bucket(s3: Any, bucket: str, plain_bucket: str) -> None:
    upload = create(s3, bucket)
    parts = send(s3, upload, [LAST])
    for other in ({**upload, "Key": "other"}, {**upload, "Bucket": plain_bucket}, {**upload, "UploadId": "nonsense"}):
        with refused("NoSuchUpload"):
            s3.upload_part(**other, PartNumber=2, Body=b"x")
        with refused("NoSuchUpload"):
            complete(s3, other, parts)
        with refused("NoSuchUpload"):
            s3.abort_multipart_upload(**other)
    complete(s3, upload, parts)


def test_aborting_leaves_nothing(s3: Any, bucket: str) -> None:
    upload = create(s3, bucket)
    parts = send(s3, upload, [LAST])
    s3.abort_multipart_upload(**upload)
    for call in (s3.abort_multipart_upload, s3.list_parts):
        with refused("NoSuchUpload"):
            call(**upload)
    with refused("NoSuchUpload"):
        complete(s3, upload, parts)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_completion_honours_if_none_match(s3: Any, bucket: str) -> None:
    upload = create(s3, bucket)
    parts = send(s3, upload, [LAST])
    s3.put_object(Bucket=bucket, Key="k", Body=b"there")
    with refused("PreconditionFailed"):
        complete(s3, upload, parts, IfNoneMatch="*")
    s3.delete_object(Bucket=bucket, Key="k")
    complete(s3, upload, parts, IfNoneMatch="*")


# Locks.


def test_lock_set_at_upload_start_applies_to_the_completed_object(s3: Any, bucket: str, until: datetime) -> None:
    done = uploaded(
        s3, bucket, [LAST],
        ObjectLockMode="COMPLIANCE", ObjectLockRetainUntilDate=until, ObjectLockLegalHoldStatus="ON",
    )  # fmt: skip
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"]) == ("COMPLIANCE", until)
    assert head["ObjectLockLegalHoldStatus"] == "ON"
    with refused("AccessDenied"):
        s3.delete_object(Bucket=bucket, Key="k", VersionId=done["VersionId"], BypassGovernanceRetention=True)


def test_bucket_default_retention_applies_to_the_completed_object(s3: Any, bucket: str) -> None:
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    s3.put_object_lock_configuration(
        Bucket=bucket, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    done = uploaded(s3, bucket, [LAST], ObjectLockLegalHoldStatus="OFF")
    head = s3.head_object(Bucket=bucket, Key="k")
    days = head["ObjectLockRetainUntilDate"] - head["LastModified"]
    assert (head["ObjectLockMode"], days // timedelta(days=1)) == ("GOVERNANCE", 1)
    with refused("AccessDenied"):
        s3.delete_object(Bucket=bucket, Key="k", VersionId=done["VersionId"])


def test_invalid_lock_headers_are_refused_at_upload_start(
    s3: Any, bucket: str, versioned_bucket: str, as_credential: Callable[[str], Any], until: datetime
) -> None:
    wanted: dict[str, Any] = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until}
    with refused("InvalidRequest"):
        create(s3, versioned_bucket, **wanted)
    past = {**wanted, "ObjectLockRetainUntilDate": datetime.now(UTC) - timedelta(seconds=5)}
    with refused("InvalidArgument"):
        create(s3, bucket, **past)
    with refused("AccessDenied"):
        create(as_credential("no-retention"), bucket, **wanted)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_part_of_a_locked_upload_needs_a_digest(
    connect: Callable[..., Any], store: Any, s3: Any, bucket: str, until: datetime
) -> None:
    silent = connect(store, request_checksum_calculation="when_required")
    upload = create(s3, bucket, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)
    with refused("InvalidRequest"):
        silent.upload_part(**upload, PartNumber=1, Body=LAST)
    md5 = base64.b64encode(hashlib.md5(LAST).digest()).decode()
    silent.upload_part(**upload, PartNumber=1, Body=LAST, ContentMD5=md5)
    with refused("BadDigest"):
        silent.upload_part(**upload, PartNumber=1, Body=FIRST, ContentMD5=md5)


def test_an_upload_over_a_locked_object_is_another_version(s3: Any, bucket: str, until: datetime) -> None:
    locked = s3.put_object(
        Bucket=bucket, Key="k", Body=b"locked", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until
    )
    uploaded(s3, bucket, [LAST])
    assert body(s3, bucket) == LAST
    assert body(s3, bucket, VersionId=locked["VersionId"]) == b"locked"


def test_without_versioning_the_upload_replaces(s3: Any, plain_bucket: str) -> None:
    uploaded(s3, plain_bucket, [b"first"])
    assert "VersionId" not in uploaded(s3, plain_bucket, [b"second"])
    assert body(s3, plain_bucket) == b"second"
    assert len(s3.list_object_versions(Bucket=plain_bucket)["Versions"]) == 1


# Checksums.


def _text(value: int | bytes, width: int = 4) -> str:
    return base64.b64encode(value.to_bytes(width, "big") if isinstance(value, int) else value).decode()


KINDS: dict[str, Callable[[bytes], str]] = {
    "CRC32": lambda data: _text(zlib.crc32(data)),
    "CRC32C": lambda data: _text(checksums.crc32c(data)),
    "CRC64NVME": lambda data: _text(checksums.crc64nvme(data), 8),
    "SHA1": lambda data: _text(hashlib.sha1(data).digest()),
    "SHA256": lambda data: _text(hashlib.sha256(data).digest()),
}


@pytest.mark.parametrize("kind", ["CRC32", "CRC32C", "SHA1", "SHA256"])
def test_a_composite_checksum_is_the_digest_of_the_parts_digests(s3: Any, bucket: str, kind: str) -> None:
    upload = create(s3, bucket, ChecksumAlgorithm=kind)
    parts = send(s3, upload, [FIRST, LAST], ChecksumAlgorithm=kind)
    digests = b"".join(base64.b64decode(KINDS[kind](piece)) for piece in (FIRST, LAST))
    done = complete(s3, upload, parts)
    assert (done[f"Checksum{kind}"], done["ChecksumType"]) == (f"{KINDS[kind](digests)}-2", "COMPOSITE")
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert (head[f"Checksum{kind}"], head["ChecksumType"]) == (done[f"Checksum{kind}"], "COMPOSITE")


@pytest.mark.parametrize("kind", ["CRC32", "CRC32C", "CRC64NVME"])
def test_full_object_checksum_covers_all_bytes(s3: Any, bucket: str, kind: str) -> None:
    upload = create(s3, bucket, ChecksumAlgorithm=kind, ChecksumType="FULL_OBJECT")
    parts = send(s3, upload, [FIRST, LAST], ChecksumAlgorithm=kind)
    named = f"Checksum{kind}"
    with refused("BadDigest"):
        complete(s3, upload, parts, **{named: KINDS[kind](LAST)})
    done = complete(s3, upload, parts, **{named: KINDS[kind](FIRST + LAST)})
    assert (done[named], done["ChecksumType"]) == (KINDS[kind](FIRST + LAST), "FULL_OBJECT")


def test_checksums_that_do_not_fit_the_upload_are_refused(s3: Any, bucket: str) -> None:
    with refused("InvalidRequest"):
        create(s3, bucket, ChecksumAlgorithm="SHA256", ChecksumType="FULL_OBJECT")
    with refused("InvalidRequest"):
        create(s3, bucket, ChecksumAlgorithm="CRC64NVME", ChecksumType="COMPOSITE")
    upload = create(s3, bucket, ChecksumAlgorithm="SHA256")
    with refused("InvalidRequest"):
        s3.upload_part(**upload, PartNumber=1, Body=LAST, ChecksumAlgorithm="CRC32")
    (part,) = send(s3, upload, [LAST], ChecksumAlgorithm="SHA256")
    with refused("InvalidRequest"):
        complete(s3, upload, [{"PartNumber": 1, "ETag": part["ETag"]}])
    with refused("InvalidPart"):
        complete(s3, upload, [{**part, "ChecksumSHA256": KINDS["SHA256"](b"other")}])
    complete(s3, upload, [part])


# Listings, and buckets with unfinished uploads.


def test_parts_are_listed_in_pages(s3: Any, bucket: str) -> None:
    upload = create(s3, bucket)
    sent = send(s3, upload, [b"a", b"bb", b"ccc"])
    first = s3.list_parts(**upload, MaxParts=2)
    assert (first["IsTruncated"], first["NextPartNumberMarker"]) == (True, 2)
    rest = s3.list_parts(**upload, MaxParts=2, PartNumberMarker=2)
    assert rest["IsTruncated"] is False
    listed = [*first["Parts"], *rest["Parts"]]
    assert [(each["PartNumber"], each["Size"], each["ETag"]) for each in listed] == [
        (part["PartNumber"], size, part["ETag"]) for part, size in zip(sent, [1, 2, 3], strict=True)
    ]


@pytest.mark.parametrize("page", [1, 2, 3, 1000])
def test_uploads_are_listed_in_pages(s3: Any, bucket: str, page: int) -> None:
    keys = ["a", "dir/1", "dir/2", "ä b", "ä b", "z"]
    made = [(key, create(s3, bucket, key)["UploadId"]) for key in keys]
    made.sort(key=lambda each: each[0].encode())
    pages = s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, PaginationConfig={"PageSize": page})
    found = [each for answer in pages for each in answer.get("Uploads", [])]
    assert [(each["Key"], each["UploadId"]) for each in found] == made
    folded = s3.get_paginator("list_multipart_uploads").paginate(
        Bucket=bucket, Delimiter="/", PaginationConfig={"PageSize": page}
    )
    answers = list(folded)
    assert [each["Prefix"] for answer in answers for each in answer.get("CommonPrefixes", [])] == ["dir/"]
    assert sum(len(answer.get("Uploads", [])) for answer in answers) == 4
    only = s3.list_multipart_uploads(Bucket=bucket, Prefix="dir/")["Uploads"]
    assert [each["Key"] for each in only] == ["dir/1", "dir/2"]
    encoded = s3.list_multipart_uploads(Bucket=bucket, Prefix="ä", EncodingType="url")["Uploads"]
    assert {each["Key"] for each in encoded} == {"%C3%A4%20b"}


def test_bucket_with_only_unfinished_uploads_can_be_deleted(s3: Any, plain_bucket: str) -> None:
    upload = create(s3, plain_bucket)
    send(s3, upload, [LAST])
    s3.delete_bucket(Bucket=plain_bucket)
    s3.create_bucket(Bucket=plain_bucket)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=plain_bucket)
    with refused("NoSuchUpload"):
        s3.list_parts(**upload)


# Copied parts.


def test_parts_can_be_copied_from_an_object(s3: Any, bucket: str) -> None:
    source = s3.put_object(Bucket=bucket, Key="source", Body=FIRST + LAST)
    named = {"Bucket": bucket, "Key": "source", "VersionId": source["VersionId"]}
    upload = create(s3, bucket, ChecksumAlgorithm="CRC32")
    parts = []
    for number, (start, end) in enumerate([(0, len(FIRST) - 1), (10, 19)], 1):
        answer = s3.upload_part_copy(
            **upload, PartNumber=number, CopySource=named, CopySourceRange=f"bytes={start}-{end}"
        )
        assert answer["CopySourceVersionId"] == source["VersionId"]
        result = answer["CopyPartResult"]
        parts.append({"PartNumber": number, "ETag": result["ETag"], "ChecksumCRC32": result["ChecksumCRC32"]})
    complete(s3, upload, parts)
    assert body(s3, bucket) == FIRST + FIRST[10:20]


@pytest.mark.parametrize("said", ["bytes=0-5", "bytes=3-2", "bytes=-2", "bytes=0-", "0-1"])
def test_part_copy_with_an_invalid_range_is_refused(s3: Any, bucket: str, said: str) -> None:
    s3.put_object(Bucket=bucket, Key="source", Body=b"12345")
    upload = create(s3, bucket)
    source = {"Bucket": bucket, "Key": "source"}
    with refused("InvalidArgument"):
        s3.upload_part_copy(**upload, PartNumber=1, CopySource=source, CopySourceRange=said)
    assert "Parts" not in s3.list_parts(**upload)


def test_a_large_part_is_copied(s3: Any, bucket: str) -> None:
    data = os.urandom(20 * MIB + 1)
    s3.put_object(Bucket=bucket, Key="source", Body=data)
    upload = create(s3, bucket)
    answer = s3.upload_part_copy(**upload, PartNumber=1, CopySource={"Bucket": bucket, "Key": "source"})
    complete(s3, upload, [{"PartNumber": 1, "ETag": answer["CopyPartResult"]["ETag"]}])
    assert body(s3, bucket) == data
