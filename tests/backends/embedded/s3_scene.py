"""Buckets for the expectations of S3 clients. Each is created when a test first uses it.

An expectation is a name, a function and its result. The result is the returned value, or status and code of the refusal
as one text, such as "404 NoSuchKey".
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

UNKNOWN_VERSION = "0" * 32
BODY = b"the record's bytes"
ETAG = '"23a16937e8171caf587093db621430c0"'
OTHER_ETAG = '"5e2bab0ecb94c4ea40777733195abe1b"'


class Scene:
    """One test's own buckets and objects."""

    def __init__(self, s3: Any, access: dict[str, str], number: int, until: datetime, shared: dict[str, str]) -> None:
        """`shared`: the buckets that `made_once` has made."""
        self.s3 = s3
        self._access = access
        self._number = number
        self.until = until
        self._shared = shared

    @cached_property
    def resource(self) -> Any:
        """A boto3 resource for the same store."""
        return boto3.resource("s3", **self._access)

    @cached_property
    def unchecked(self) -> Any:
        """A client that sends no checksum by itself."""
        return boto3.client("s3", **self._access, config=Config(request_checksum_calculation="when_required"))

    @cached_property
    def plain(self) -> str:
        return self.new_bucket("plain")

    @cached_property
    def other(self) -> str:
        """Another plain bucket."""
        return self.new_bucket("other")

    @cached_property
    def versioned(self) -> str:
        return self._with_versioning("versioned", "Enabled")

    @cached_property
    def suspended(self) -> str:
        return self._with_versioning("suspended", "Suspended")

    @cached_property
    def locked(self) -> str:
        return self.new_bucket("locked", ObjectLockEnabledForBucket=True)

    def new_bucket(self, kind: str, **wanted: Any) -> str:
        name = f"{kind}-expected-{self._number}"
        self.s3.create_bucket(Bucket=name, **wanted)
        return name

    def _with_versioning(self, kind: str, status: str) -> str:
        name = self.new_bucket(kind)
        self.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": status})
        return name

    def set_versioning(self, bucket: str, status: str) -> Any:
        return self.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})

    def put(self, bucket: str | None = None, key: str = "k", body: bytes = BODY, **wanted: Any) -> dict[str, Any]:
        """Store an object. Returns the arguments that name it in further calls, with a version id if it has one."""
        bucket = bucket or self.plain
        answer = self.s3.put_object(Bucket=bucket, Key=key, Body=body, **wanted)
        named = {"Bucket": bucket, "Key": key}
        return named | ({"VersionId": answer["VersionId"]} if "VersionId" in answer else {})

    def put_all(self, *keys: str, bucket: str | None = None) -> str:
        """Store objects with these keys. Returns their bucket."""
        bucket = bucket or self.plain
        for key in keys:
            self.put(bucket, key)
        return bucket

    def shared(self, *keys: str) -> str:
        """A bucket with these keys that no test changes."""
        return self.made_once("\0".join(("keys", *keys)), lambda bucket: self.put_all(*keys, bucket=bucket))

    def made_once(self, name: str, fill: Callable[[str], Any]) -> str:
        """A bucket that is filled on its first use, and never changed."""
        if name not in self._shared:
            bucket = self.new_bucket("shared")
            fill(bucket)
            self._shared[name] = bucket
        return self._shared[name]

    def marker(self, bucket: str | None = None) -> dict[str, Any]:
        """A delete marker over a version of `k`."""
        bucket = bucket or self.versioned
        self.put(bucket)
        return {"Bucket": bucket, "Key": "k", "VersionId": self.s3.delete_object(Bucket=bucket, Key="k")["VersionId"]}

    def read(self, bucket: str, key: str = "k", **wanted: Any) -> bytes:
        body: bytes = self.s3.get_object(Bucket=bucket, Key=key, **wanted)["Body"].read()
        return body

    def governed(self, minutes: float = 0) -> dict[str, Any]:
        """The arguments of an upload with governance retention."""
        return {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": self.until + timedelta(minutes=minutes)}

    def keys(self, bucket: str) -> list[str]:
        return [each["Key"] for each in self.s3.list_objects_v2(Bucket=bucket).get("Contents", [])]

    def versions(self, bucket: str) -> list[tuple[str, str, bool]]:
        """Return key, kind and whether it is the newest, of every version and every marker."""
        answer = self.s3.list_object_versions(Bucket=bucket)
        found = [(each["Key"], "version", each["IsLatest"]) for each in answer.get("Versions", [])]
        return found + [(each["Key"], "marker", each["IsLatest"]) for each in answer.get("DeleteMarkers", [])]


Expectation = tuple[str, Callable[[Scene], Any], Any]


def checksum(algorithm: str, value: str) -> dict[str, Any]:
    """The argument of an upload with this checksum."""
    return {f"Checksum{algorithm}": value}


def refusal(error: ClientError) -> str:
    status, code = error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]
    return f"{status}" if code == str(status) else f"{status} {code}"  # A HEAD answer has no body, so no code.


def outcome(deed: Callable[[Scene], Any], scene: Scene) -> Any:
    try:
        return deed(scene)
    except ClientError as error:
        return refusal(error)


def tried(deed: Callable[[], Any]) -> Any:
    """Call one of several functions of an expectation. Returns "ok" or the refusal."""
    try:
        deed()
    except ClientError as error:
        return refusal(error)
    return "ok"


def status_of(answer: dict[str, Any]) -> int:
    status: int = answer["ResponseMetadata"]["HTTPStatusCode"]
    return status


def header(answer: dict[str, Any], name: str) -> str | None:
    value: str | None = answer["ResponseMetadata"]["HTTPHeaders"].get(name)
    return value
