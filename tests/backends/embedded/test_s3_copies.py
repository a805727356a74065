"""Server-side copies and tags, through boto3: what is copied, what is not, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import os
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.embedded.s3.calls.copy import source_range
from backends.embedded.s3.errors import S3Error
from tests.backends.embedded.boto3_uploads import FIRST, LAST, uploaded
from tests.support.examples import share_of

MIB = 1 << 20
TAGS = [{"Key": "case", "Value": "A 17/ä"}, {"Key": "empty", "Value": ""}]


def refused(code: str) -> Any:
    return pytest.raises(ClientError, match=rf"\({code}\)")


def source(bucket: str, key: str = "source", **version: str) -> dict[str, str]:
    return {"Bucket": bucket, "Key": key, **version}


def body(s3: Any, bucket: str, key: str, **wanted: Any) -> bytes:
    content: bytes = s3.get_object(Bucket=bucket, Key=key, **wanted)["Body"].read()
    return content


@pytest.mark.parametrize("size", [0, 1, MIB + 1, 9 * MIB])
def test_copy_has_the_bytes_checksum_and_metadata_of_its_source(
    s3: Any, bucket: str, plain_bucket: str, size: int
) -> None:
    data = os.urandom(size)
    put = s3.put_object(Bucket=bucket, Key="source", Body=data, ContentType="text/csv", Metadata={"case": "A-17"})
    answer = s3.copy_object(Bucket=plain_bucket, Key="copy", CopySource=source(bucket))
    assert answer["CopySourceVersionId"] == put["VersionId"]
    assert answer["CopyObjectResult"]["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
    assert answer["CopyObjectResult"]["ChecksumCRC32"] == put["ChecksumCRC32"]
    got = s3.get_object(Bucket=plain_bucket, Key="copy")
    assert (got["Body"].read(), got["ContentType"], got["Metadata"]) == (data, "text/csv", {"case": "A-17"})


@settings(max_examples=share_of(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_copy_source_may_have_any_key(s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=source(bucket, key))
    assert body(s3, bucket, "copy") == key.encode()


def test_an_older_version_is_copied_by_its_id(s3: Any, bucket: str) -> None:
    older = s3.put_object(Bucket=bucket, Key="source", Body=b"older")["VersionId"]
    s3.put_object(Bucket=bucket, Key="source", Body=b"newer")
    s3.copy_object(Bucket=bucket, Key="source", CopySource=source(bucket, VersionId=older))
    assert body(s3, bucket, "source") == b"older"
    assert len(s3.list_object_versions(Bucket=bucket)["Versions"]) == 3


def test_copy_of_a_multipart_object_has_whole_object_checksums(s3: Any, bucket: str) -> None:
    uploaded(s3, bucket, [FIRST, LAST], "source", ChecksumAlgorithm="CRC32")
    answer = s3.copy_object(Bucket=bucket, Key="copy", CopySource=source(bucket))
    whole = base64.b64encode(zlib.crc32(FIRST + LAST).to_bytes(4, "big")).decode()
    assert answer["CopyObjectResult"]["ChecksumCRC32"] == whole
    assert answer["CopyObjectResult"]["ETag"] == f'"{hashlib.md5(FIRST + LAST).hexdigest()}"'
    assert body(s3, bucket, "copy") == FIRST + LAST


def test_copy_does_not_take_the_lock_of_its_source(s3: Any, bucket: str, until: datetime) -> None:
    locked = {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": until, "ObjectLockLegalHoldStatus": "ON"}
    s3.put_object(Bucket=bucket, Key="source", Body=b"x", **locked)
    copy = s3.copy_object(Bucket=bucket, Key="copy", CopySource=source(bucket))
    head = s3.head_object(Bucket=bucket, Key="copy")
    assert not [name for name in head if name.startswith("ObjectLock")]
    s3.delete_object(Bucket=bucket, Key="copy", VersionId=copy["VersionId"])


def test_copy_gets_the_requested_lock(s3: Any, bucket: str, until: datetime) -> None:
    s3.put_object(Bucket=bucket, Key="source", Body=b"x")
    locked = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until, "ObjectLockLegalHoldStatus": "ON"}
    copy = s3.copy_object(Bucket=bucket, Key="copy", CopySource=source(bucket), **locked)
    head = s3.head_object(Bucket=bucket, Key="copy")
    assert {name: head[name] for name in locked} == locked
    with refused("AccessDenied"):
        s3.delete_object(Bucket=bucket, Key="copy", VersionId=copy["VersionId"], BypassGovernanceRetention=True)


def test_copy_gets_the_default_retention_of_its_bucket(s3: Any, bucket: str, plain_bucket: str) -> None:
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 2}}
    s3.put_object_lock_configuration(
        Bucket=bucket, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    s3.put_object(Bucket=plain_bucket, Key="source", Body=b"x")
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=source(plain_bucket))
    head = s3.head_object(Bucket=bucket, Key="copy")
    days = (head["ObjectLockRetainUntilDate"] - head["LastModified"]) // timedelta(days=1)
    assert (head["ObjectLockMode"], days) == ("GOVERNANCE", 2)


def test_invalid_lock_headers_are_refused_for_a_copy(
    s3: Any, bucket: str, plain_bucket: str, as_credential: Any, until: datetime
) -> None:
    s3.put_object(Bucket=bucket, Key="source", Body=b"x")
    wanted = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until}
    with refused("InvalidRequest"):
        s3.copy_object(Bucket=plain_bucket, Key="copy", CopySource=source(bucket), **wanted)
    with refused("AccessDenied"):
        as_credential("no-retention").copy_object(Bucket=bucket, Key="copy", CopySource=source(bucket), **wanted)
    with refused("InvalidArgument"):
        past = {**wanted, "ObjectLockRetainUntilDate": datetime.now(UTC) - timedelta(seconds=5)}
        s3.copy_object(Bucket=bucket, Key="copy", CopySource=source(bucket), **past)
    assert [each["Key"] for each in s3.list_object_versions(Bucket=bucket)["Versions"]] == ["source"]


def test_a_copy_in_place_is_another_version_and_must_change_something(s3: Any, bucket: str, until: datetime) -> None:
    locked = {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": until}
    old = s3.put_object(Bucket=bucket, Key="source", Body=b"x", Metadata={"is": "old"}, **locked)
    with refused("InvalidRequest"):
        s3.copy_object(Bucket=bucket, Key="source", CopySource=source(bucket))
    new = s3.copy_object(
        Bucket=bucket, Key="source", CopySource=source(bucket), MetadataDirective="REPLACE", Metadata={"is": "new"}
    )
    assert new["VersionId"] != old["VersionId"]
    assert s3.head_object(Bucket=bucket, Key="source")["Metadata"] == {"is": "new"}
    kept = s3.head_object(Bucket=bucket, Key="source", VersionId=old["VersionId"])
    assert (kept["Metadata"], kept["ObjectLockMode"]) == ({"is": "old"}, "COMPLIANCE")


def test_copy_happens_only_if_its_conditions_are_met(s3: Any, bucket: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key="source", Body=b"x")["ETag"]
    now = datetime.now(UTC)
    earlier, later = now - timedelta(days=1), now + timedelta(days=1)
    met: list[dict[str, Any]] = [
        {"CopySourceIfMatch": etag}, {"CopySourceIfNoneMatch": '"other"'}, {"CopySourceIfModifiedSince": earlier},
        {"CopySourceIfUnmodifiedSince": later}, {"CopySourceIfMatch": etag, "CopySourceIfUnmodifiedSince": earlier},
    ]  # fmt: skip
    unmet: list[dict[str, Any]] = [
        {"CopySourceIfMatch": '"other"'}, {"CopySourceIfNoneMatch": etag}, {"CopySourceIfModifiedSince": later},
        {"CopySourceIfUnmodifiedSince": earlier}, {"CopySourceIfNoneMatch": etag, "CopySourceIfModifiedSince": earlier},
    ]  # fmt: skip
    for condition in met:
        s3.copy_object(Bucket=bucket, Key="copy", CopySource=source(bucket), **condition)
    for condition in unmet:
        with refused("PreconditionFailed"):
            s3.copy_object(Bucket=bucket, Key="copy", CopySource=source(bucket), **condition)
    with refused("PreconditionFailed"):
        s3.copy_object(Bucket=bucket, Key="copy", CopySource=source(bucket), IfNoneMatch="*")


@pytest.mark.parametrize("sent", ["bytes=0-" + "9" * 5000, f"bytes={'9' * 5000}-{'9' * 5001}", "bytes=0-\u0663"])
def test_source_range_with_too_many_or_non_ascii_digits_is_refused(sent: str) -> None:
    with pytest.raises(S3Error, match="must be of the form") as failed:
        source_range({"x-amz-copy-source-range": sent}, None)  # type: ignore[arg-type]  # it has a range
    assert failed.value.code == "InvalidArgument"


def test_copy_of_a_missing_or_invalid_source_is_refused(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="deleted", Body=b"x")
    marker = s3.delete_object(Bucket=bucket, Key="deleted")["VersionId"]
    for named, code in [
        (source(bucket, "none"), "NoSuchKey"),
        (source(bucket, "deleted"), "NoSuchKey"),
        (source(bucket, "deleted", VersionId=marker), "InvalidRequest"),
        (source(bucket, "deleted", VersionId="0" * 32), "NoSuchVersion"),
        (source("no-such-bucket"), "NoSuchBucket"),
        ("no-key", "InvalidArgument"),
    ]:
        with refused(code):
            s3.copy_object(Bucket=bucket, Key="copy", CopySource=named)


# Tags.


def tags_of(s3: Any, bucket: str, key: str = "k", **version: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = s3.get_object_tagging(Bucket=bucket, Key=key, **version)["TagSet"]
    return found


def test_tags_are_set_shown_and_removed(s3: Any, plain_bucket: str) -> None:
    s3.put_object(Bucket=plain_bucket, Key="k", Body=b"x", Tagging="a=1&b=two%20words")
    assert tags_of(s3, plain_bucket) == [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "two words"}]
    s3.put_object_tagging(Bucket=plain_bucket, Key="k", Tagging={"TagSet": TAGS})
    assert tags_of(s3, plain_bucket) == TAGS
    head = s3.head_object(Bucket=plain_bucket, Key="k")
    assert head["ResponseMetadata"]["HTTPHeaders"]["x-amz-tagging-count"] == "2"
    s3.delete_object_tagging(Bucket=plain_bucket, Key="k")
    assert tags_of(s3, plain_bucket) == []


def test_tags_change_neither_content_nor_lock(s3: Any, bucket: str, until: datetime) -> None:
    locked = {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": until, "ObjectLockLegalHoldStatus": "ON"}
    first = s3.put_object(Bucket=bucket, Key="k", Body=b"first", **locked)["VersionId"]
    second = s3.put_object(Bucket=bucket, Key="k", Body=b"second")["VersionId"]
    before = s3.head_object(Bucket=bucket, Key="k", VersionId=first)
    s3.put_object_tagging(Bucket=bucket, Key="k", VersionId=first, Tagging={"TagSet": TAGS})
    assert tags_of(s3, bucket, VersionId=second) == []
    assert tags_of(s3, bucket, VersionId=first) == TAGS
    after = s3.head_object(Bucket=bucket, Key="k", VersionId=first)
    for name in ("ETag", "LastModified", *locked):
        assert before[name] == after[name]
    assert body(s3, bucket, "k", VersionId=first) == b"first"
    with refused("AccessDenied"):
        s3.delete_object(Bucket=bucket, Key="k", VersionId=first, BypassGovernanceRetention=True)


def test_copy_takes_the_tags_of_its_source_unless_replaced(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="source", Body=b"x", Tagging="a=1")
    s3.copy_object(Bucket=bucket, Key="k", CopySource=source(bucket))
    assert tags_of(s3, bucket) == [{"Key": "a", "Value": "1"}]
    s3.copy_object(Bucket=bucket, Key="k", CopySource=source(bucket), TaggingDirective="REPLACE", Tagging="b=2")
    assert tags_of(s3, bucket) == [{"Key": "b", "Value": "2"}]
    uploaded(s3, bucket, [LAST], "k", Tagging="c=3")
    assert tags_of(s3, bucket) == [{"Key": "c", "Value": "3"}]


def test_invalid_tags_and_tags_of_missing_objects_are_refused(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for tags, code in [
        ([{"Key": f"{number}", "Value": ""} for number in range(11)], "BadRequest"),
        ([{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}], "InvalidTag"),
        ([{"Key": "k" * 129, "Value": "1"}], "InvalidTag"),
        ([{"Key": "a", "Value": "v" * 257}], "InvalidTag"),
    ]:
        with refused(code):
            s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": tags})
    assert tags_of(s3, bucket) == []
    with refused("InvalidTag"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="=no+name")
    with refused("NoSuchKey"):
        s3.put_object_tagging(Bucket=bucket, Key="none", Tagging={"TagSet": TAGS})
    s3.delete_object(Bucket=bucket, Key="k")
    with refused("MethodNotAllowed"):
        s3.get_object_tagging(Bucket=bucket, Key="k")
