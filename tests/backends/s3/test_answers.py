"""Amazon's answers, one row for each call: status and code.

boto3 calls four servers: the embedded store, moto, MinIO and versitygw. deviations.py declares where a server deviates
from Amazon. An undeclared deviation fails, and so does a declared one that no longer occurs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from moto.server import ThreadedMotoServer

from archiver.platforms.programs import PROGRAMS
from tests.backends.s3.answers import (
    BAD_ARGUMENT,
    BAD_REQUEST,
    DENIED,
    MALFORMED,
    NO_CONTENT,
    NO_KEY,
    NO_LOCK,
    NO_VERSION,
    OK,
    Answer,
)  # fmt: skip
from tests.backends.s3.deviations import ANSWERS, STATES, VERSIONS, answer_of, reason_of
from tests.backends.s3.limited_credentials import MinioCredentials, VersityGatewayCredentials
from tests.support.servers import real

UNKNOWN_VERSION = "0" * 32
LIMITED: dict[str, type[MinioCredentials] | type[VersityGatewayCredentials]] = {
    "minio": MinioCredentials,
    "versitygw": VersityGatewayCredentials,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A server: a client with every permission, and clients with fewer."""

    name: str
    client: Any
    limited: Callable[[str, str], Any]  # by the credential's name, and the bucket that it may use


@contextmanager
def moto() -> Iterator[Any]:
    """moto's server, which has no permissions."""
    running = ThreadedMotoServer(port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    try:
        yield boto3.client(
            "s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1",
            aws_access_key_id="moto", aws_secret_access_key="moto", config=Config(retries={"total_max_attempts": 1}),
        )  # fmt: skip
    finally:
        running.stop()


@dataclass
class Scene:
    """What a row can use: a bucket of each kind, and versions under each kind of lock."""

    server: str
    s3: Any
    as_credential: Callable[[str], Any]
    locked: str
    plain: str
    versioned: str
    until: datetime

    def put(self, lock: str = "", bucket: str | None = None) -> dict[str, Any]:
        """Store a new version of key `k` under a lock: "", "G", "C", "hold" or several of them.

        Returns the arguments that name it.
        """
        extra: dict[str, Any] = {}
        for mode in ("GOVERNANCE", "COMPLIANCE"):
            if mode[0] in lock.split():
                extra |= {"ObjectLockMode": mode, "ObjectLockRetainUntilDate": self.until}
        if "hold" in lock:
            extra["ObjectLockLegalHoldStatus"] = "ON"
        bucket = bucket or self.locked
        answer = self.s3.put_object(Bucket=bucket, Key="k", Body=b"record", **extra)
        return {"Bucket": bucket, "Key": "k", "VersionId": answer["VersionId"]}

    def refusal(self, row: str) -> str:
        """Return the code with which this server refuses the row's call."""
        return (answer_of(self.server, row) or DENIED)[1]

    def retention(self, mode: str = "GOVERNANCE", minutes: float = 0) -> dict[str, Any]:
        return {"Mode": mode, "RetainUntilDate": self.until + timedelta(minutes=minutes)}

    def marker(self) -> dict[str, Any]:
        self.put()
        version = self.s3.delete_object(Bucket=self.locked, Key="k")["VersionId"]
        return {"Bucket": self.locked, "Key": "k", "VersionId": version}


@pytest.fixture(
    scope="module", params=["embedded", "moto", *(pytest.param(name, marks=pytest.mark.platforms) for name in VERSIONS)]
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    name: str = request.param
    if name == "embedded":
        as_credential = request.getfixturevalue("as_credential")
        yield Asked(name, request.getfixturevalue("s3"), lambda credential, _: as_credential(credential))
    elif name == "moto":
        with moto() as client:
            yield Asked(name, client, lambda *_: client)
    else:
        with real.real_server(name, tmp_path_factory.mktemp(name)) as running:
            yield Asked(name, real.client_of(running), LIMITED[name](running).client)


_numbers = itertools.count()


@pytest.fixture
def scene(server: Asked, until: datetime, request: pytest.FixtureRequest) -> Scene:
    why = reason_of(server.name, request.node.originalname)
    if why is not None:
        request.applymarker(pytest.mark.xfail(strict=True, reason=why))
    number, s3 = next(_numbers), server.client
    locked, plain, versioned = (f"{kind}-answers-{number}" for kind in ("locked", "plain", "versioned"))
    s3.create_bucket(Bucket=locked, ObjectLockEnabledForBucket=True)
    s3.create_bucket(Bucket=plain)
    s3.create_bucket(Bucket=versioned)
    s3.put_bucket_versioning(Bucket=versioned, VersioningConfiguration={"Status": "Enabled"})
    return Scene(server.name, s3, lambda name: server.limited(name, locked), locked, plain, versioned, until)


def outcome(call: Callable[[], dict[str, Any]]) -> Answer:
    """Status and code; a success has no code. A HEAD has no body, so its code is its status."""
    try:
        return call()["ResponseMetadata"]["HTTPStatusCode"], ""
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]


PAST = datetime(2020, 1, 1, tzinfo=UTC)
BYPASS = {"BypassGovernanceRetention": True}

Row = tuple[str, Callable[[Scene], dict[str, Any]], Answer]

DELETES: list[Row] = [
    ("a version without lock", lambda s: s.s3.delete_object(**s.put()), NO_CONTENT),
    ("GOVERNANCE", lambda s: s.s3.delete_object(**s.put("G")), DENIED),
    ("GOVERNANCE, bypass", lambda s: s.s3.delete_object(**s.put("G"), **BYPASS), NO_CONTENT),
    ("GOVERNANCE, bypass without the right",
     lambda s: s.as_credential("no-bypass").delete_object(**s.put("G"), **BYPASS), DENIED),
    ("GOVERNANCE, bypass header false",
     lambda s: s.s3.delete_object(**s.put("G"), BypassGovernanceRetention=False), DENIED),
    ("COMPLIANCE", lambda s: s.s3.delete_object(**s.put("C")), DENIED),
    ("COMPLIANCE, bypass", lambda s: s.s3.delete_object(**s.put("C"), **BYPASS), DENIED),
    ("legal hold", lambda s: s.s3.delete_object(**s.put("hold")), DENIED),
    ("legal hold, bypass", lambda s: s.s3.delete_object(**s.put("hold"), **BYPASS), DENIED),
    ("by key only, locked", lambda s: s.s3.delete_object(Bucket=s.put("C hold")["Bucket"], Key="k"), NO_CONTENT),
    ("a delete marker", lambda s: s.s3.delete_object(**s.marker()), NO_CONTENT),
    ("without the right", lambda s: s.as_credential("no-delete").delete_object(**s.put()), DENIED),
    ("a version that is not there",
     lambda s: s.s3.delete_object(Bucket=s.locked, Key="k", VersionId=UNKNOWN_VERSION), NO_CONTENT),
    ("a malformed version id", lambda s: s.s3.delete_object(Bucket=s.locked, Key="k", VersionId="no!"), BAD_ARGUMENT),
    ("bypass header in a plain bucket", lambda s: s.s3.delete_object(Bucket=s.plain, Key="k", **BYPASS), BAD_ARGUMENT),
    ("bypass header false in a plain bucket",
     lambda s: s.s3.delete_object(Bucket=s.plain, Key="k", BypassGovernanceRetention=False), BAD_ARGUMENT),
    ("a bucket with a locked version",
     lambda s: s.s3.delete_bucket(Bucket=s.put("G")["Bucket"]), (409, "BucketNotEmpty")),
    ("a bucket with only a marker", lambda s: (
        s.s3.delete_object(Bucket=s.locked, Key="k"), s.s3.delete_bucket(Bucket=s.locked))[1], (409, "BucketNotEmpty")),
    ("an empty bucket", lambda s: s.s3.delete_bucket(Bucket=s.locked), NO_CONTENT),
]  # fmt: skip


def put_retention(s: Scene, lock: str, retention: dict[str, Any], **extra: Any) -> dict[str, Any]:
    answer: dict[str, Any] = s.s3.put_object_retention(**s.put(lock), Retention=retention, **extra)
    return answer


RETENTION: list[Row] = [
    ("on a version with none", lambda s: put_retention(s, "", s.retention()), OK),
    ("extend GOVERNANCE", lambda s: put_retention(s, "G", s.retention(minutes=1)), OK),
    ("extend COMPLIANCE", lambda s: put_retention(s, "C", s.retention("COMPLIANCE", 1)), OK),
    ("the same again", lambda s: put_retention(s, "C", s.retention("COMPLIANCE")), OK),
    ("shorten GOVERNANCE", lambda s: put_retention(s, "G", s.retention(minutes=-1)), DENIED),
    ("shorten GOVERNANCE, bypass", lambda s: put_retention(s, "G", s.retention(minutes=-1), **BYPASS), OK),
    ("remove GOVERNANCE", lambda s: put_retention(s, "G", {}), DENIED),
    ("remove GOVERNANCE, bypass", lambda s: put_retention(s, "G", {}, **BYPASS), OK),
    ("GOVERNANCE to COMPLIANCE", lambda s: put_retention(s, "G", s.retention("COMPLIANCE", 1)), DENIED),
    ("GOVERNANCE to COMPLIANCE, bypass",
     lambda s: put_retention(s, "G", s.retention("COMPLIANCE", 1), **BYPASS), OK),
    ("shorten COMPLIANCE, bypass",
     lambda s: put_retention(s, "C", s.retention("COMPLIANCE", -1), **BYPASS), DENIED),
    ("COMPLIANCE to GOVERNANCE, later, bypass",
     lambda s: put_retention(s, "C", s.retention("GOVERNANCE", 1), **BYPASS), DENIED),
    ("remove COMPLIANCE, bypass", lambda s: put_retention(s, "C", {}, **BYPASS), DENIED),
    ("under legal hold", lambda s: put_retention(s, "hold", s.retention()), OK),
    ("a date in the past",
     lambda s: put_retention(s, "", {"Mode": "GOVERNANCE", "RetainUntilDate": PAST}), BAD_ARGUMENT),
    ("more than a hundred years",
     lambda s: put_retention(s, "", s.retention(minutes=60 * 24 * 366 * 101)), OK),
    ("an unknown mode", lambda s: put_retention(s, "", s.retention("governance")), MALFORMED),
    ("only a mode", lambda s: put_retention(s, "", {"Mode": "GOVERNANCE"}), MALFORMED),
    ("only a date", lambda s: put_retention(s, "", {"RetainUntilDate": s.until}), MALFORMED),
    ("without the right", lambda s: s.as_credential("no-retention").put_object_retention(
        **s.put(), Retention=s.retention()), DENIED),
    ("bypass without the right", lambda s: s.as_credential("no-bypass").put_object_retention(
        **s.put("G"), Retention={}, **BYPASS), DENIED),
    ("in a plain bucket", lambda s: s.s3.put_object_retention(
        Bucket=s.plain, Key="k", Retention=s.retention()), BAD_REQUEST),
    ("in a versioned bucket without Object Lock", lambda s: s.s3.put_object_retention(
        **s.put(bucket=s.versioned), Retention=s.retention()), BAD_REQUEST),
    ("on a missing key", lambda s: s.s3.put_object_retention(
        Bucket=s.locked, Key="none", Retention=s.retention()), NO_KEY),
    ("in a missing bucket", lambda s: s.s3.put_object_retention(
        Bucket="missing", Key="k", Retention=s.retention()), (404, "NoSuchBucket")),
    ("on a missing version", lambda s: s.s3.put_object_retention(
        **{**s.put(), "VersionId": UNKNOWN_VERSION}, Retention=s.retention()), NO_VERSION),
    ("on a malformed version id", lambda s: s.s3.put_object_retention(
        **{**s.put(), "VersionId": "no!"}, Retention=s.retention()), BAD_ARGUMENT),
    ("on a delete marker", lambda s: s.s3.put_object_retention(
        **s.marker(), Retention=s.retention()), (405, "MethodNotAllowed")),
    ("where the newest is a marker", lambda s: s.s3.put_object_retention(
        Bucket=s.marker()["Bucket"], Key="k", Retention=s.retention()), (405, "MethodNotAllowed")),
    ("read, never set", lambda s: s.s3.get_object_retention(**s.put()), NO_LOCK),
    ("read, under hold only", lambda s: s.s3.get_object_retention(**s.put("hold")), NO_LOCK),
    ("read in a plain bucket", lambda s: s.s3.get_object_retention(Bucket=s.plain, Key="k"), BAD_REQUEST),
    ("read on a marker", lambda s: s.s3.get_object_retention(**s.marker()), (405, "MethodNotAllowed")),
]  # fmt: skip


HOLDS: list[Row] = [
    ("on", lambda s: s.s3.put_object_legal_hold(**s.put(), LegalHold={"Status": "ON"}), OK),
    ("off under COMPLIANCE", lambda s: s.s3.put_object_legal_hold(**s.put("C hold"), LegalHold={"Status": "OFF"}), OK),
    ("a bad status", lambda s: s.s3.put_object_legal_hold(**s.put(), LegalHold={"Status": "on"}), MALFORMED),
    ("no status", lambda s: s.s3.put_object_legal_hold(**s.put(), LegalHold={}), MALFORMED),
    ("without the right", lambda s: s.as_credential("no-hold").put_object_legal_hold(
        **s.put(), LegalHold={"Status": "ON"}), DENIED),
    ("in a plain bucket", lambda s: s.s3.put_object_legal_hold(
        Bucket=s.plain, Key="k", LegalHold={"Status": "ON"}), BAD_REQUEST),
    ("on a missing key", lambda s: s.s3.put_object_legal_hold(
        Bucket=s.locked, Key="none", LegalHold={"Status": "ON"}), NO_KEY),
    ("on a delete marker", lambda s: s.s3.put_object_legal_hold(
        **s.marker(), LegalHold={"Status": "ON"}), (405, "MethodNotAllowed")),
    ("read, never set", lambda s: s.s3.get_object_legal_hold(**s.put("G")), NO_LOCK),
    ("read in a plain bucket", lambda s: s.s3.get_object_legal_hold(Bucket=s.plain, Key="k"), BAD_REQUEST),
]  # fmt: skip


def upload(s: Scene, bucket: str | None = None, client: Any = None, **extra: Any) -> dict[str, Any]:
    answer: dict[str, Any] = (client or s.s3).put_object(Bucket=bucket or s.locked, Key="k", Body=b"x", **extra)
    return answer


def locked(s: Scene, mode: str = "GOVERNANCE") -> dict[str, Any]:
    return {"ObjectLockMode": mode, "ObjectLockRetainUntilDate": s.until}


UPLOADS: list[Row] = [
    ("over a locked key", lambda s: (s.put("C hold"), upload(s))[1], OK),
    ("a date in the past", lambda s: upload(
        s, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=PAST), BAD_ARGUMENT),
    ("a mode without a date", lambda s: upload(s, ObjectLockMode="GOVERNANCE"), BAD_ARGUMENT),
    ("a date without a mode", lambda s: upload(s, ObjectLockRetainUntilDate=s.until), BAD_ARGUMENT),
    ("an unknown mode", lambda s: upload(s, **locked(s, "compliance")), BAD_ARGUMENT),
    ("an unknown hold", lambda s: upload(s, ObjectLockLegalHoldStatus="on"), BAD_ARGUMENT),
    ("a lock in a plain bucket", lambda s: upload(s, s.plain, **locked(s)), BAD_REQUEST),
    ("a hold in a versioned bucket", lambda s: upload(s, s.versioned, ObjectLockLegalHoldStatus="ON"), BAD_REQUEST),
    ("a lock without the right", lambda s: upload(s, client=s.as_credential("no-retention"), **locked(s)), DENIED),
    ("a hold without the right", lambda s: upload(
        s, client=s.as_credential("no-hold"), ObjectLockLegalHoldStatus="ON"), DENIED),
    ("no lock, without the right to lock", lambda s: upload(s, client=s.as_credential("no-retention")), OK),
    ("a wrong Content-MD5", lambda s: upload(s, ContentMD5="AAAAAAAAAAAAAAAAAAAAAA=="), (400, "BadDigest")),
    ("a malformed Content-MD5", lambda s: upload(s, ContentMD5="AAAA"), (400, "InvalidDigest")),
    ("a wrong checksum", lambda s: upload(s, ChecksumCRC32C="AAAAAA=="), (400, "BadDigest")),
    ("if absent, and it is", lambda s: upload(s, IfNoneMatch="*"), OK),
    ("if absent, and it is not", lambda s: (s.put(), upload(s, IfNoneMatch="*"))[1], (412, "PreconditionFailed")),
    ("if absent, after a marker", lambda s: (s.marker(), upload(s, IfNoneMatch="*"))[1], OK),
    ("into a missing bucket", lambda s: upload(s, "missing"), (404, "NoSuchBucket")),
    ("a key above 1024 bytes", lambda s: s.s3.put_object(
        Bucket=s.locked, Key="\N{SNOWMAN}" * 342, Body=b""), (400, "KeyTooLongError")),
    ("a key of 1024 bytes", lambda s: s.s3.put_object(Bucket=s.locked, Key="k" * 1024, Body=b""), OK),
    ("metadata above 2 KiB", lambda s: upload(s, Metadata={"m": "v" * 2048}), (400, "MetadataTooLarge")),
    ("a copy", lambda s: s.s3.copy_object(
        Bucket=s.locked, Key="copy", CopySource=f"{s.put()['Bucket']}/k", ChecksumAlgorithm="CRC32"), OK),
    ("in parts", lambda s: s.s3.create_multipart_upload(Bucket=s.locked, Key="k"), OK),
]  # fmt: skip


READS: list[Row] = [
    ("a missing key", lambda s: s.s3.get_object(Bucket=s.locked, Key="none"), NO_KEY),
    ("a missing bucket", lambda s: s.s3.get_object(Bucket="missing", Key="k"), (404, "NoSuchBucket")),
    ("a missing version", lambda s: s.s3.get_object(
        **{**s.put(), "VersionId": UNKNOWN_VERSION}), NO_VERSION),
    ("a malformed version", lambda s: s.s3.get_object(**{**s.put(), "VersionId": "no!"}), BAD_ARGUMENT),
    ("a version id of another key", lambda s: s.s3.get_object(
        **{**s.put(), "Key": "other"}), NO_VERSION),
    ("where the newest is a marker", lambda s: s.s3.get_object(
        Bucket=s.marker()["Bucket"], Key="k"), NO_KEY),
    ("a marker by its id", lambda s: s.s3.get_object(**s.marker()), (405, "MethodNotAllowed")),
    ("the head of a marker", lambda s: s.s3.head_object(**s.marker()), (405, "405")),
    ("the head of a missing key", lambda s: s.s3.head_object(Bucket=s.locked, Key="none"), (404, "404")),
    ("if the ETag is another", lambda s: s.s3.get_object(
        **s.put(), IfMatch='"de9b9ed78d7e2e1dceeffee780e2f919"'), (412, "PreconditionFailed")),
    ("a range behind the end", lambda s: s.s3.get_object(**s.put(), Range="bytes=6-"), (416, "InvalidRange")),
    ("the last bytes, none", lambda s: s.s3.get_object(**s.put(), Range="bytes=-0"), (416, "InvalidRange")),
    ("with the rights of a reader", lambda s: s.as_credential("reader").get_object(**s.put("G")), OK),
]  # fmt: skip


def lock_configuration(s: Scene, bucket: str, rule: Any = None, enabled: str | None = "Enabled") -> dict[str, Any]:
    configuration: dict[str, Any] = {} if enabled is None else {"ObjectLockEnabled": enabled}
    if rule is not None:
        configuration["Rule"] = rule
    answer: dict[str, Any] = s.s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration=configuration)
    return answer


def default(**retention: Any) -> dict[str, Any]:
    return {"DefaultRetention": {"Mode": "GOVERNANCE", **retention}}


BUCKETS: list[Row] = [
    ("made twice", lambda s: s.s3.create_bucket(Bucket=s.plain), (409, "BucketAlreadyOwnedByYou")),
    ("a bad name", lambda s: s.s3.create_bucket(Bucket="Capital"), (400, "InvalidBucketName")),
    ("made with a location", lambda s: s.s3.create_bucket(
        Bucket=f"eu-{s.plain}", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}), OK),
    ("the head of a missing one", lambda s: s.s3.head_bucket(Bucket="missing"), (404, "404")),
    ("lock configuration of a plain one", lambda s: s.s3.get_object_lock_configuration(Bucket=s.plain),
     (404, "ObjectLockConfigurationNotFoundError")),
    ("lock on, versioning off", lambda s: lock_configuration(s, s.plain), (409, "InvalidBucketState")),
    ("lock on, versioning on", lambda s: lock_configuration(s, s.versioned), OK),
    ("lock on, versioning suspended", lambda s: (
        s.s3.put_bucket_versioning(Bucket=s.versioned, VersioningConfiguration={"Status": "Suspended"}),
        lock_configuration(s, s.versioned))[1], (409, "InvalidBucketState")),
    ("a default in days", lambda s: lock_configuration(s, s.locked, default(Days=36500)), OK),
    ("a default in years", lambda s: lock_configuration(s, s.locked, default(Years=100)), OK),
    ("days and years", lambda s: lock_configuration(s, s.locked, default(Days=1, Years=1)), MALFORMED),
    ("neither days nor years", lambda s: lock_configuration(s, s.locked, default()), MALFORMED),
    ("an unknown mode", lambda s: lock_configuration(s, s.locked, default(Mode="governance", Days=1)), MALFORMED),
    ("no mode", lambda s: lock_configuration(s, s.locked, {"DefaultRetention": {"Days": 1}}), MALFORMED),
    ("an empty rule", lambda s: lock_configuration(s, s.locked, {}), MALFORMED),
    ("an empty default", lambda s: lock_configuration(s, s.locked, {"DefaultRetention": {}}), MALFORMED),
    ("no days", lambda s: lock_configuration(s, s.locked, default(Days=0)), BAD_ARGUMENT),
    ("too many days", lambda s: lock_configuration(s, s.locked, default(Days=36501)), BAD_ARGUMENT),
    ("too many years", lambda s: lock_configuration(s, s.locked, default(Years=101)), BAD_ARGUMENT),
    ("lock disabled", lambda s: lock_configuration(s, s.locked, enabled="Disabled"), MALFORMED),
    ("lock not said", lambda s: lock_configuration(s, s.locked, enabled=None), MALFORMED),
    ("versioning suspended under lock", lambda s: s.s3.put_bucket_versioning(
        Bucket=s.locked, VersioningConfiguration={"Status": "Suspended"}), (409, "InvalidBucketState")),
    ("versioning enabled again under lock", lambda s: s.s3.put_bucket_versioning(
        Bucket=s.locked, VersioningConfiguration={"Status": "Enabled"}), OK),
    ("versioning nonsense", lambda s: s.s3.put_bucket_versioning(
        Bucket=s.plain, VersioningConfiguration={"Status": "Off"}), MALFORMED),
    ("a policy", lambda s: s.s3.get_bucket_policy(Bucket=s.plain), (404, "NoSuchBucketPolicy")),
    ("tags of an object", lambda s: s.s3.get_object_tagging(Bucket=s.plain, Key="k"), NO_KEY),
    ("1001 deletes", lambda s: s.s3.delete_objects(
        Bucket=s.locked, Delete={"Objects": [{"Key": str(i)} for i in range(1001)]}), MALFORMED),
]  # fmt: skip


TABLES = {
    "delete": DELETES, "retention": RETENTION, "hold": HOLDS, "upload": UPLOADS, "read": READS, "bucket": BUCKETS,
}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "call", "amazon"),
    [
        pytest.param(f"{title}: {name}", call, expected, id=f"{title}: {name}")
        for title, rows in TABLES.items()
        for name, call, expected in rows
    ],
)  # fmt: skip
def test_server_gives_the_expected_answer(
    server: Asked, scene: Scene, row: str, call: Callable[[Scene], dict[str, Any]],
    amazon: Answer,
) -> None:  # fmt: skip
    deviation = answer_of(server.name, row)
    assert deviation != amazon, "declared as a deviation, and is none"
    assert outcome(lambda: call(scene)) == (deviation or amazon)


def test_every_declared_deviation_is_of_a_row_or_test() -> None:
    rows = {f"{title}: {name}" for title, table in TABLES.items() for name, _, _ in table}
    for declared in ANSWERS.values():
        named = [row for answers in declared.values() for row in answers]
        assert len(named) == len(set(named))
        assert set(named) <= rows
    for tests in STATES.values():
        assert tests.keys() <= globals().keys()


def test_the_declared_versions_are_the_pinned_ones() -> None:
    assert {name: PROGRAMS[name].version for name in VERSIONS} == VERSIONS


@pytest.mark.parametrize("lock", ["G", "C", "hold", "C hold"])
def test_a_refused_delete_leaves_content_and_lock_as_they_were(scene: Scene, lock: str) -> None:
    version = scene.put(lock)
    before = scene.s3.head_object(**version)
    with pytest.raises(ClientError, match=scene.refusal("delete: legal hold")):
        scene.s3.delete_object(**version)
    after = scene.s3.head_object(**version)
    for fact in ("ETag", "LastModified", "ObjectLockMode", "ObjectLockRetainUntilDate", "ObjectLockLegalHoldStatus"):
        assert after.get(fact) == before.get(fact)
    assert scene.s3.get_object(**version)["Body"].read() == b"record"


def delete_batch(scene: Scene, *versions: dict[str, Any], quiet: bool) -> dict[str, Any]:
    objects = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in versions]
    answer: dict[str, Any] = scene.s3.delete_objects(Bucket=scene.locked, Delete={"Objects": objects, "Quiet": quiet})
    return answer


def test_batch_delete_refuses_each_locked_version_individually(scene: Scene) -> None:
    free, held = scene.put(), scene.put("hold")
    answer = delete_batch(scene, free, held, quiet=False)
    assert [each["VersionId"] for each in answer["Deleted"]] == [free["VersionId"]]
    assert [(each["Key"], each["VersionId"], each["Code"]) for each in answer["Errors"]] == [
        ("k", held["VersionId"], scene.refusal("delete: legal hold"))
    ]
    scene.s3.head_object(**held)


def test_a_quiet_batch_delete_names_refusals_only(scene: Scene) -> None:
    answer = delete_batch(scene, scene.put(), scene.put("hold"), quiet=True)
    assert "Deleted" not in answer
    assert len(answer["Errors"]) == 1


def test_a_batch_delete_needs_the_right(scene: Scene) -> None:
    version = scene.put()
    batch = {"Objects": [{"Key": "k"}, {"Key": "k", "VersionId": version["VersionId"]}]}
    answer = scene.as_credential("no-delete").delete_objects(Bucket=scene.locked, Delete=batch)
    assert [each["Code"] for each in answer["Errors"]] == ["AccessDenied"] * 2
    assert scene.s3.head_object(Bucket=scene.locked, Key="k")["VersionId"] == version["VersionId"]


def test_hold_set_and_released_reads_off(scene: Scene) -> None:
    version = scene.put("hold")
    scene.s3.put_object_legal_hold(**version, LegalHold={"Status": "OFF"})
    assert scene.s3.get_object_legal_hold(**version)["LegalHold"] == {"Status": "OFF"}
    assert scene.s3.head_object(**version)["ObjectLockLegalHoldStatus"] == "OFF"


def test_removed_retention_is_gone(scene: Scene) -> None:
    version = scene.put("G")
    scene.s3.put_object_retention(**version, Retention={}, **BYPASS)
    none = answer_of(scene.server, "retention: read, never set") or NO_LOCK
    assert outcome(lambda: scene.s3.get_object_retention(**version)) == none
    scene.s3.delete_object(**version)


def test_default_retention_is_stamped_at_creation_and_stays(scene: Scene) -> None:
    lock_configuration(scene, scene.locked, default(Days=1))
    stamped = scene.put()
    explicit = scene.put("C")  # An explicit lock replaces the default, even if it is shorter.
    lock_configuration(scene, scene.locked)  # without a rule: no default for later versions
    unlocked = scene.put()
    assert_locked_for_a_day(scene, stamped)
    assert scene.s3.get_object_retention(**explicit)["Retention"] == scene.retention("COMPLIANCE")
    assert "ObjectLockMode" not in scene.s3.head_object(**unlocked)


def test_a_hold_does_not_replace_the_default_retention(scene: Scene) -> None:
    lock_configuration(scene, scene.locked, default(Days=1))
    held = scene.put("hold")
    assert_locked_for_a_day(scene, held)


def assert_locked_for_a_day(scene: Scene, version: dict[str, Any]) -> None:
    head = scene.s3.head_object(**version)
    assert head["ObjectLockMode"] == "GOVERNANCE"
    period = head["ObjectLockRetainUntilDate"] - head["LastModified"]
    assert timedelta(days=1) <= period < timedelta(days=1, seconds=1)


def test_a_version_that_is_not_the_newest_shows_its_lock(scene: Scene) -> None:
    older = scene.put("C hold")
    scene.put()
    head = scene.s3.head_object(**older)
    assert (head["ObjectLockMode"], head["ObjectLockLegalHoldStatus"]) == ("COMPLIANCE", "ON")
    assert head["ObjectLockRetainUntilDate"] == scene.until


def locked_for_moments(scene: Scene) -> dict[str, Any]:
    """Put a version with a hold, and with the shortest of these retentions that the machine is fast enough for."""
    for seconds in (2, 10, 60):
        scene.until = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=seconds)
        with suppress(ClientError):  # the date has passed before the request arrives
            return scene.put("G hold")
    raise AssertionError("the server takes no date")


def test_a_hold_outlives_the_retention(scene: Scene) -> None:
    version = locked_for_moments(scene)
    while datetime.now(UTC) <= scene.until:  # the servers have this machine's clock
        scene.s3.head_object(**version)
    with pytest.raises(ClientError, match=scene.refusal("delete: legal hold")):
        scene.s3.delete_object(**version)


def test_deleting_the_marker_brings_the_object_back(scene: Scene) -> None:
    version = scene.put("G")
    marker = scene.s3.delete_object(Bucket=scene.locked, Key="k")
    assert marker["DeleteMarker"] is True
    removed = scene.s3.delete_object(Bucket=scene.locked, Key="k", VersionId=marker["VersionId"])
    assert removed["DeleteMarker"] is True
    assert scene.s3.head_object(Bucket=scene.locked, Key="k")["VersionId"] == version["VersionId"]


def test_a_listing_in_pages_names_each_version_once(scene: Scene) -> None:
    expected = []
    for key in ("a", "b", "c"):
        version = scene.s3.put_object(Bucket=scene.locked, Key=key, Body=b"x")["VersionId"]
        expected.append((key, version))
    pages = scene.s3.get_paginator("list_object_versions").paginate(
        Bucket=scene.locked, PaginationConfig={"PageSize": 2}
    )
    listed = [(each["Key"], each["VersionId"]) for page in pages for each in page.get("Versions", [])]
    assert listed == expected
