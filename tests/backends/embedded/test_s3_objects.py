"""Objects read back as stored, through boto3: names, bytes, ranges, versions, metadata, checksums, listings."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.embedded.process import StoreProcess
from tests.support.examples import share_of

MIB = 1 << 20
ODD_KEYS = ["dir/", "dir//x", "../up", "./here", "a b+c%20d", "é/ü/\N{SNOWMAN}", "?query=1&x", "#hash", "~-_.!*'()",
            "x\ty", "<&>\"'", "\N{GRINNING FACE}", "/leading", "trailing//", "a:b@c;d,e=f$g"]  # fmt: skip


@pytest.mark.parametrize("key", ODD_KEYS)
def test_unusual_keys_are_stored_listed_and_deleted_unchanged(s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode()
    assert [each["Key"] for each in s3.list_objects_v2(Bucket=bucket)["Contents"]] == [key]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key}]})
    assert [each["Key"] for each in answer["Deleted"]] == [key]


@pytest.mark.parametrize("size", [0, 1, 8192, MIB - 1, MIB, MIB + 1, 8 * MIB, 8 * MIB + 1, 20 * MIB + 3])
def test_body_etag_and_size_are_returned_as_stored(s3: Any, bucket: str, size: int) -> None:
    data = os.urandom(size)
    answer = s3.put_object(Bucket=bucket, Key="k", Body=data)
    assert answer["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == data
    assert s3.head_object(Bucket=bucket, Key="k")["ContentLength"] == size


@pytest.fixture(scope="module")
def large(s3: Any) -> tuple[str, bytes]:
    """A bucket whose object `k` is large."""
    data = os.urandom(20 * MIB + 3)
    s3.create_bucket(Bucket="ranges")
    s3.put_object(Bucket="ranges", Key="k", Body=data)
    return "ranges", data


@pytest.mark.parametrize(
    ("header", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=5-", 5, None),
        ("bytes=-7", -7, None),
        (f"bytes={MIB - 1}-{MIB}", MIB - 1, MIB + 1),
        (f"bytes={3 * MIB}-{15 * MIB}", 3 * MIB, 15 * MIB + 1),
        (f"bytes={20 * MIB}-{99 * MIB}", 20 * MIB, None),
    ],
)
def test_range_returns_its_bytes_and_content_range(
    s3: Any, large: tuple[str, bytes], header: str, start: int, end: int | None
) -> None:
    name, data = large
    answer = s3.get_object(Bucket=name, Key="k", Range=header)
    body = answer["Body"].read()
    assert body == data[start:end]
    first = start % len(data)
    assert answer["ContentRange"] == f"bytes {first}-{first + len(body) - 1}/{len(data)}"


@pytest.mark.parametrize("header", ["bytes=0-1,5-6", "bytes=-", "lines=1-2", "bytes=9-2"])
def test_invalid_or_multiple_range_gets_the_whole_object(s3: Any, bucket: str, header: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    answer = s3.get_object(Bucket=bucket, Key="k", Range=header)
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert answer["Body"].read() == b"0123456789"


def test_metadata_type_and_version_are_returned(s3: Any, bucket: str) -> None:
    put = s3.put_object(Bucket=bucket, Key="k", Body=b"x", ContentType="text/csv", Metadata={"case": "A-17"})
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["ContentType"], head["Metadata"]) == ("text/csv", {"case": "A-17"})
    assert head["VersionId"] == put["VersionId"]


def test_content_with_an_encoding_is_returned_undecoded(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"not gzip at all", ContentEncoding="gzip")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"not gzip at all"


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
@pytest.mark.parametrize("size", [100, 9 * MIB])
def test_checksums_are_checked_kept_and_returned(s3: Any, bucket: str, algorithm: str, size: int) -> None:
    data = os.urandom(size)
    put = s3.put_object(Bucket=bucket, Key="k", Body=data, ChecksumAlgorithm=algorithm)
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == data  # boto3 compares the checksum as it reads
    assert got[f"Checksum{algorithm}"] == put[f"Checksum{algorithm}"]


@pytest.mark.parametrize("payload_signing", [True, False])
@pytest.mark.parametrize("when", ["when_supported", "when_required"])
@pytest.mark.parametrize("size", [0, 100, 9 * MIB])
def test_boto3_body_reads_back_with_every_signing_and_checksum_setting(
    store: StoreProcess, connect: Callable[..., Any], bucket: str, payload_signing: bool, when: str, size: int
) -> None:
    s3 = connect(store, s3={"payload_signing_enabled": payload_signing}, request_checksum_calculation=when)
    data = os.urandom(size)
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == data


def test_a_lock_is_stored_to_the_millisecond(s3: Any, bucket: str, until: Any) -> None:
    precise = until.replace(microsecond=123_000)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    s3.put_object_retention(
        Bucket=bucket, Key="k", Retention={"Mode": "GOVERNANCE", "RetainUntilDate": precise.isoformat()}
    )
    assert s3.head_object(Bucket=bucket, Key="k")["ObjectLockRetainUntilDate"] == precise


def test_an_unversioned_bucket_replaces_and_deletes_in_place(s3: Any, plain_bucket: str) -> None:
    assert "VersionId" not in s3.put_object(Bucket=plain_bucket, Key="k", Body=b"1")
    s3.put_object(Bucket=plain_bucket, Key="k", Body=b"22")
    versions = s3.list_object_versions(Bucket=plain_bucket)["Versions"]
    assert [(each["VersionId"], each["Size"], each["IsLatest"]) for each in versions] == [("null", 2, True)]
    s3.delete_object(Bucket=plain_bucket, Key="k")
    s3.delete_object(Bucket=plain_bucket, Key="never there")
    assert s3.list_object_versions(Bucket=plain_bucket).get("Versions") is None
    s3.delete_bucket(Bucket=plain_bucket)


def test_suspended_versioning_keeps_old_versions_and_one_null_version(s3: Any, versioned_bucket: str) -> None:
    name = versioned_bucket
    first = s3.put_object(Bucket=name, Key="k", Body=b"1")["VersionId"]
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Suspended"})
    assert s3.put_object(Bucket=name, Key="k", Body=b"22")["VersionId"] == "null"
    assert s3.put_object(Bucket=name, Key="k", Body=b"333")["VersionId"] == "null"
    marker = s3.delete_object(Bucket=name, Key="k")
    assert (marker["VersionId"], marker["DeleteMarker"]) == ("null", True)
    listed = s3.list_object_versions(Bucket=name)
    assert [each["VersionId"] for each in listed["DeleteMarkers"]] == ["null"]
    assert [each["VersionId"] for each in listed["Versions"]] == [first]
    assert s3.get_object(Bucket=name, Key="k", VersionId=first)["Body"].read() == b"1"


def test_buckets_are_listed(s3: Any, bucket: str, plain_bucket: str) -> None:
    names = [each["Name"] for each in s3.list_buckets()["Buckets"]]
    assert {bucket, plain_bucket} <= set(names)
    assert names == sorted(names)
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    assert "Status" not in s3.get_bucket_versioning(Bucket=plain_bucket)
    assert s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] is None


# Listings against a model: the plain definition, computed from all keys at once.

LISTED = sorted(
    ["a", "a/", "a/1", "a/2", "a/b/1", "a/b/2", "a0", "b", "b/c", "é/1", "é/2", "z/\N{GRINNING FACE}", "z\uffee"]
)


@pytest.fixture(scope="module")
def listed_bucket(s3: Any) -> str:
    """Every key with three versions; `gone/...` are deleted by markers."""
    s3.create_bucket(Bucket="listed", ObjectLockEnabledForBucket=True)
    for key in [*LISTED, "gone/1", "gone/2"]:
        for body in (b"1", b"2", b"3"):
            s3.put_object(Bucket="listed", Key=key, Body=body)
    s3.delete_objects(Bucket="listed", Delete={"Objects": [{"Key": "gone/1"}, {"Key": "gone/2"}]})
    return "listed"


def _model(keys: list[str], prefix: str, delimiter: str, after: str) -> tuple[list[str], list[str]]:
    contents, prefixes = [], []
    for key in keys:
        if not key.startswith(prefix) or key <= after:
            continue
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        if cut < 0:
            contents.append(key)
        elif key[: cut + len(delimiter)] not in prefixes:
            prefixes.append(key[: cut + len(delimiter)])
    return contents, prefixes


prefixes = st.sampled_from(["", "a", "a/", "a/b/", "b", "é", "g", "z", "none"])
delimiters = st.sampled_from(["", "/", "b", "/b"])
listing_settings = settings(max_examples=share_of(60), suppress_health_check=[HealthCheck.function_scoped_fixture])


@listing_settings
@given(prefixes, delimiters, st.sampled_from(["", "a/1", "b", "zz"]), st.integers(1, 20))
def test_list_objects_v2_pages_match_the_model(
    s3: Any, listed_bucket: str, prefix: str, delimiter: str, after: str, page_size: int
) -> None:
    if delimiter and after:
        after = ""  # A start inside a folded prefix has no defined result.
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=listed_bucket,
        Prefix=prefix,
        Delimiter=delimiter,
        StartAfter=after,
        PaginationConfig={"PageSize": page_size},
    )
    contents, folded = [], []
    for page in pages:
        assert page["KeyCount"] == len(page.get("Contents", [])) + len(page.get("CommonPrefixes", [])) <= page_size
        contents += [each["Key"] for each in page.get("Contents", [])]
        folded += [each["Prefix"] for each in page.get("CommonPrefixes", [])]
    assert (contents, folded) == _model(LISTED, prefix, delimiter, after)


@listing_settings
@given(prefixes, delimiters, st.integers(1, 20))
def test_list_objects_v1_pages_match_the_model(
    s3: Any, listed_bucket: str, prefix: str, delimiter: str, page_size: int
) -> None:
    contents, folded, marker = [], [], ""
    while True:
        page = s3.list_objects(
            Bucket=listed_bucket, Prefix=prefix, Delimiter=delimiter, Marker=marker, MaxKeys=page_size
        )
        contents += [each["Key"] for each in page.get("Contents", [])]
        folded += [each["Prefix"] for each in page.get("CommonPrefixes", [])]
        if not page["IsTruncated"]:
            break
        assert ("NextMarker" in page) == bool(delimiter)
        marker = page["NextMarker"] if delimiter else contents[-1]
    assert (contents, folded) == _model(LISTED, prefix, delimiter, "")


@listing_settings
@given(prefixes, delimiters, st.integers(1, 20))
def test_list_object_versions_pages_match_the_model(
    s3: Any, listed_bucket: str, prefix: str, delimiter: str, page_size: int
) -> None:
    pages = s3.get_paginator("list_object_versions").paginate(
        Bucket=listed_bucket, Prefix=prefix, Delimiter=delimiter, PaginationConfig={"PageSize": page_size}
    )
    versions: list[dict[str, Any]] = []
    markers, folded = [], []
    for page in pages:
        versions += page.get("Versions", [])
        markers += [each["Key"] for each in page.get("DeleteMarkers", [])]
        folded += [each["Prefix"] for each in page.get("CommonPrefixes", [])]
    all_keys = sorted([*LISTED, "gone/1", "gone/2"])
    contents, expected_folded = _model(all_keys, prefix, delimiter, "")
    assert folded == expected_folded
    assert [each["Key"] for each in versions] == [key for key in contents for _ in range(3)]
    assert len({each["VersionId"] for each in versions}) == len(versions)
    assert markers == [key for key in contents if key.startswith("gone/")]
    latest = [each["Key"] for each in versions if each["IsLatest"]]
    assert latest == [key for key in contents if not key.startswith("gone/")]


def test_content_md5_alone_suffices_for_a_locked_put(
    s3: Any, store: StoreProcess, connect: Any, bucket: str, until: Any
) -> None:
    client = connect(store, request_checksum_calculation="when_required")
    lock = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until}
    md5 = base64.b64encode(hashlib.md5(b"x").digest()).decode()
    client.put_object(Bucket=bucket, Key="k", Body=b"x", ContentMD5=md5, **lock)


@pytest.mark.parametrize("marker", ["f" * 32, "0" * 32, "8" + "0" * 31])
def test_version_marker_of_another_store_is_refused(s3: Any, bucket: str, marker: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    with pytest.raises(ClientError, match=r"\(InvalidArgument\)"):
        s3.list_object_versions(Bucket=bucket, KeyMarker="k", VersionIdMarker=marker)


def test_page_goes_on_after_a_version_that_was_deleted_meanwhile(s3: Any, bucket: str) -> None:
    oldest, deleted, _ = (s3.put_object(Bucket=bucket, Key="k", Body=b"x")["VersionId"] for _ in range(3))
    s3.delete_object(Bucket=bucket, Key="k", VersionId=deleted)
    page = s3.list_object_versions(Bucket=bucket, KeyMarker="k", VersionIdMarker=deleted)
    assert [each["VersionId"] for each in page["Versions"]] == [oldest]


def test_call_that_is_not_offered_is_refused_by_name(s3: Any, bucket: str) -> None:
    with pytest.raises(ClientError, match="does not offer POST key restore"):
        s3.restore_object(Bucket=bucket, Key="k", RestoreRequest={"Days": 1})
