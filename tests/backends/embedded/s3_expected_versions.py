"""Expectations of S3 clients of versions, delete markers and locks.

`s3_scene` defines an expectation; `test_s3_expectations.py` runs the tables. `tests/backends/s3/test_answers.py` tests
status and code of every refusal by a lock. These tables test the states before and after.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from tests.backends.embedded.s3_scene import BODY, UNKNOWN_VERSION, Expectation, Scene, header, status_of, tried

VERSION, MARKER = "version", "marker"


def twice(s: Scene) -> list[str]:
    """Store two versions of `k`. Returns their ids, oldest first."""
    return [s.put(s.versioned, body=body)["VersionId"] for body in (b"old", b"new")]


def removed(s: Scene, version: str, bucket: str | None = None) -> dict[str, Any]:
    answer: dict[str, Any] = s.s3.delete_object(Bucket=bucket or s.versioned, Key="k", VersionId=version)
    return answer


def status_told(s: Scene, *statuses: str) -> str | None:
    for status in statuses:
        s.set_versioning(s.plain, status)
    told: str | None = s.s3.get_bucket_versioning(Bucket=s.plain).get("Status")
    return told


def before_and_after(s: Scene, status: str, deed: str) -> list[tuple[str, str]]:
    """Store an object, set versioning, and change it. Returns ids (null or id) and kinds, newest first."""
    s.put(body=b"before")
    s.set_versioning(s.plain, status)
    if deed == "put":
        s.put(body=b"after")
    elif deed == "delete":
        s.s3.delete_object(Bucket=s.plain, Key="k")
    answer = s.s3.list_object_versions(Bucket=s.plain)
    found = [(each["VersionId"], VERSION, each["IsLatest"]) for each in answer.get("Versions", [])]
    found += [(each["VersionId"], MARKER, each["IsLatest"]) for each in answer.get("DeleteMarkers", [])]
    found.sort(key=lambda each: not each[2])
    return [("null" if each[0] == "null" else "id", each[1]) for each in found]


VERSIONS: list[Expectation] = [
    ("of a new bucket", status_told, None),
    ("enabled", lambda s: status_told(s, "Enabled"), "Enabled"),
    ("suspended", lambda s: status_told(s, "Suspended"), "Suspended"),
    ("suspended and enabled again", lambda s: status_told(s, "Enabled", "Suspended", "Enabled"), "Enabled"),
    ("enabled twice", lambda s: status_told(s, "Enabled", "Enabled"), "Enabled"),
    ("of a bucket with Object Lock", lambda s: s.s3.get_bucket_versioning(Bucket=s.locked)["Status"], "Enabled"),
    ("MFA delete is not offered", lambda s: s.s3.put_bucket_versioning(
        Bucket=s.plain, VersioningConfiguration={"Status": "Enabled", "MFADelete": "Enabled"}), "501 NotImplemented"),
    ("of a missing bucket", lambda s: s.set_versioning("missing", "Enabled"), "404 NoSuchBucket"),
    ("each version is another", lambda s: len(set(twice(s))), 2),
    ("the newest is read", lambda s: (twice(s), s.read(s.versioned))[1], b"new"),
    ("each is read by its id", lambda s: [s.read(s.versioned, VersionId=each) for each in twice(s)], [b"old", b"new"]),
    ("each has its own metadata", lambda s: [
        s.s3.head_object(**v)["Metadata"] for v in (s.put(s.versioned, Metadata={"a": "1"}), s.put(s.versioned))],
     [{"a": "1"}, {}]),
    ("GET names the version", lambda s: s.s3.get_object(**(v := s.put(s.versioned)))["VersionId"] == v["VersionId"],
     True),
    ("HEAD names the version", lambda s: s.s3.head_object(**(v := s.put(s.versioned)))["VersionId"] == v["VersionId"],
     True),
    ("a missing version", lambda s: s.read(s.put(s.versioned)["Bucket"], VersionId=UNKNOWN_VERSION),
     "404 NoSuchVersion"),
    ("HEAD of a missing version", lambda s: s.s3.head_object(**{**s.put(s.versioned), "VersionId": UNKNOWN_VERSION}),
     "404"),
    ("a version of another key", lambda s: s.s3.get_object(**{**s.put(s.versioned), "Key": "other"}),
     "404 NoSuchVersion"),
    ("the newest is removed", lambda s: (removed(s, twice(s)[1]), s.read(s.versioned))[1], b"old"),
    ("an older one is removed", lambda s: (removed(s, twice(s)[0]), s.read(s.versioned))[1], b"new"),
    ("all are removed", lambda s: ([removed(s, each) for each in twice(s)], s.versions(s.versioned))[1], []),
    ("the answer names what was removed", lambda s: [removed(s, v)["VersionId"] == v for v in twice(s)], [True] * 2),
    ("a removed one is gone", lambda s: (removed(s, v := twice(s)[0]), s.read(s.versioned, VersionId=v)),
     "404 NoSuchVersion"),
    ("removed twice", lambda s: [status_of(removed(s, v)) for v in (twice(s)[:1] * 2)], [204, 204]),
    ("a delete makes a marker", lambda s: (s.marker(), s.versions(s.versioned))[1],
     [("k", VERSION, False), ("k", MARKER, True)]),
    ("the answer tells of the marker", lambda s: [
        (a["DeleteMarker"], len(a["VersionId"])) for a in [s.s3.delete_object(Bucket=s.versioned, Key="k")]],
     [(True, 32)]),
    ("a delete of what is not there makes one, too", lambda s: (
        s.s3.delete_object(Bucket=s.versioned, Key="k"), s.versions(s.versioned))[1], [("k", MARKER, True)]),
    ("two deletes make two", lambda s: (
        s.marker(), s.s3.delete_object(Bucket=s.versioned, Key="k"), len(s.versions(s.versioned)))[2], 3),
    ("what a marker covers", lambda s: s.read(s.marker()["Bucket"]), "404 NoSuchKey"),
    ("HEAD of what a marker covers", lambda s: s.s3.head_object(Bucket=s.marker()["Bucket"], Key="k"), "404"),
    ("and it is still there by its id", lambda s: [
        (s.s3.delete_object(Bucket=s.versioned, Key="k"), s.s3.get_object(**v)["Body"].read())[1]
        for v in [s.put(s.versioned)]], [BODY]),
    ("a marker by its id", lambda s: s.s3.get_object(**s.marker()), "405 MethodNotAllowed"),
    ("HEAD of a marker", lambda s: s.s3.head_object(**s.marker()), "405"),
    ("a marker is removed", lambda s: (s.s3.delete_object(**s.marker()), s.read(s.versioned))[1], BODY),
    ("the answer says that it was one", lambda s: s.s3.delete_object(**s.marker())["DeleteMarker"], True),
    ("an upload over a marker", lambda s: (s.marker(), s.put(s.versioned, body=b"again"), s.read(s.versioned))[2],
     b"again"),
    ("a marker is no longer the newest then", lambda s: (
        s.marker(), s.put(s.versioned), s.versions(s.versioned))[2],
     [("k", VERSION, True), ("k", VERSION, False), ("k", MARKER, False)]),
    ("the null version stays when versioning comes", lambda s: before_and_after(s, "Enabled", "put"),
     [("id", VERSION), ("null", VERSION)]),
    ("it is replaced where versioning is suspended", lambda s: before_and_after(s, "Suspended", "put"),
     [("null", VERSION)]),
    ("a marker covers it", lambda s: before_and_after(s, "Enabled", "delete"), [("id", MARKER), ("null", VERSION)]),
    ("a null marker takes its place", lambda s: before_and_after(s, "Suspended", "delete"), [("null", MARKER)]),
    ("the null version by its id", lambda s: (
        before_and_after(s, "Enabled", "put"), s.read(s.plain, VersionId="null"))[1], b"before"),
    ("the null version is removed by its id", lambda s: (
        before_and_after(s, "Enabled", "put"), removed(s, "null", s.plain), s.read(s.plain))[2], b"after"),
    ("an upload where versioning is suspended", lambda s: s.put(s.suspended)["VersionId"], "null"),
    ("a delete where it is suspended", lambda s: [
        (a["DeleteMarker"], a["VersionId"]) for a in [s.s3.delete_object(Bucket=s.suspended, Key="k")]],
     [(True, "null")]),
    ("versions stay when it is suspended", lambda s: (
        twice(s), s.set_versioning(s.versioned, "Suspended"), s.put(s.versioned), s.put(s.versioned),
        len(s.versions(s.versioned)))[4], 3),
    ("a copy is a version", lambda s: len(s.s3.copy_object(
        Bucket=s.versioned, Key="k", CopySource=s.put(s.versioned), MetadataDirective="REPLACE")["VersionId"]), 32),
    ("an upload in parts is a version", lambda s: len(in_parts(s, s.versioned)["VersionId"]), 32),
    ("an upload in parts where it is suspended", lambda s: in_parts(s, s.suspended)["VersionId"], "null"),
    ("an upload in parts without versioning", lambda s: "VersionId" in in_parts(s, s.plain), False),
    ("a bucket with versions stays", lambda s: (
        s.marker(), s.s3.delete_bucket(Bucket=s.versioned)), "409 BucketNotEmpty"),
    ("an empty version id", lambda s: s.s3.delete_object(**{**s.put(s.versioned), "VersionId": ""}),
     "400 InvalidArgument"),
    ("HEAD tells of the marker", lambda s: marker_told(s), ("true", True)),
]  # fmt: skip


def in_parts(s: Scene, bucket: str, key: str = "k", body: bytes = BODY, **wanted: Any) -> dict[str, Any]:
    """Upload an object as one part."""
    named = {"Bucket": bucket, "Key": key}
    upload = {**named, "UploadId": s.s3.create_multipart_upload(**named, **wanted)["UploadId"]}
    part = s.s3.upload_part(**upload, PartNumber=1, Body=body)
    answer: dict[str, Any] = s.s3.complete_multipart_upload(
        **upload, MultipartUpload={"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
    )
    return answer


def marker_told(s: Scene) -> tuple[str | None, bool]:
    """Return the delete marker's headers in the refusal of a deleted object's HEAD."""
    marker = s.marker()
    try:
        s.s3.head_object(Bucket=s.versioned, Key="k")
    except s.s3.exceptions.ClientError as error:
        return header(error.response, "x-amz-delete-marker"), header(error.response, "x-amz-version-id") == marker[
            "VersionId"
        ]
    raise AssertionError("there is nothing to read")


def lock_of(s: Scene, named: dict[str, Any]) -> tuple[str | None, Any, str | None]:
    told = s.s3.head_object(**named)
    until = told.get("ObjectLockRetainUntilDate")
    return told.get("ObjectLockMode"), until and until == s.until, told.get("ObjectLockLegalHoldStatus")


def retained(s: Scene, **change: Any) -> dict[str, Any]:
    """A version whose retention was set by a separate call."""
    named = s.put(s.locked)
    retention = {"Mode": "GOVERNANCE", "RetainUntilDate": s.until, **change}
    s.s3.put_object_retention(**named, Retention=retention)
    return named


def rule_of(s: Scene, **period: Any) -> Any:
    """Set the bucket's rule and read it."""
    rule = {"Rule": {"DefaultRetention": {"Mode": "COMPLIANCE", **period}}} if period else {}
    s.s3.put_object_lock_configuration(
        Bucket=s.locked, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", **rule}
    )
    return s.s3.get_object_lock_configuration(Bucket=s.locked)["ObjectLockConfiguration"]


HELD: dict[str, Any] = {"ObjectLockLegalHoldStatus": "ON"}
BYPASS = {"BypassGovernanceRetention": True}
NO_LOCK = (None, None, None)

LOCKS: list[Expectation] = [
    ("a new bucket's configuration", lambda s: s.s3.get_object_lock_configuration(Bucket=s.locked)[
        "ObjectLockConfiguration"], {"ObjectLockEnabled": "Enabled"}),
    ("a rule in days comes back", lambda s: rule_of(s, Days=30),
     {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 30}}}),
    ("a rule in years comes back", lambda s: rule_of(s, Years=7)["Rule"],
     {"DefaultRetention": {"Mode": "COMPLIANCE", "Years": 7}}),
    ("a rule is removed", lambda s: (rule_of(s, Days=1), rule_of(s))[1], {"ObjectLockEnabled": "Enabled"}),
    ("a rule locks what comes", lambda s: (rule_of(s, Days=1), lock_of(s, s.put(s.locked))[0])[1], "COMPLIANCE"),
    ("a rule does not lock what was there", lambda s: [
        (rule_of(s, Days=1), lock_of(s, v))[1] for v in [s.put(s.locked)]], [NO_LOCK]),
    ("a marker has no lock", lambda s: (rule_of(s, Days=1), status_of(s.s3.delete_object(**s.marker(s.locked))))[1],
     204),
    ("of an upload", lambda s: lock_of(s, s.put(s.locked, **s.governed())), ("GOVERNANCE", True, None)),
    ("of an upload with a hold", lambda s: lock_of(s, s.put(s.locked, **HELD)), (None, None, "ON")),
    ("of an upload with both", lambda s: lock_of(s, s.put(s.locked, **HELD, **s.governed())),
     ("GOVERNANCE", True, "ON")),
    ("of an upload in parts", lambda s: lock_of(s, {"Bucket": s.locked, "Key": locked_in_parts(s)}),
     ("GOVERNANCE", True, "ON")),
    ("set afterwards", lambda s: lock_of(s, retained(s)), ("GOVERNANCE", True, None)),
    ("read back", lambda s: s.s3.get_object_retention(**retained(s))["Retention"]["Mode"], "GOVERNANCE"),
    ("read back by its version", lambda s: [
        (s.put(s.locked), s.s3.get_object_retention(**v)["Retention"]["Mode"])[1] for v in [retained(s)]],
     ["GOVERNANCE"]),
    ("of the newest where no version is named", lambda s: (
        retained(s), s.s3.get_object_retention(Bucket=s.locked, Key="k")["Retention"]["Mode"])[1], "GOVERNANCE"),
    ("a newer version has none", lambda s: (retained(s), lock_of(s, s.put(s.locked)))[1], NO_LOCK),
    ("extended", lambda s: [
        (s.s3.put_object_retention(**v, Retention={"Mode": "GOVERNANCE", "RetainUntilDate": s.until}),
         lock_of(s, v))[1] for v in [retained(s, RetainUntilDate=s.until - timedelta(minutes=1))]],
     [("GOVERNANCE", True, None)]),
    ("a refused change changes nothing", lambda s: [
        (tried(partial(s.s3.put_object_retention,
            **v, Retention={"Mode": "GOVERNANCE", "RetainUntilDate": s.until - timedelta(minutes=1)})), lock_of(s, v))
        for v in [retained(s)]], [("403 AccessDenied", ("GOVERNANCE", True, None))]),
    ("bypassed, it is gone", lambda s: [
        (s.s3.delete_object(**v, **BYPASS), tried(partial(s.s3.head_object, **v)))[1] for v in [retained(s)]],
     ["404"]),
    ("a hold is set and lifted", lambda s: [
        [(s.s3.put_object_legal_hold(**v, LegalHold={"Status": status}),
          s.s3.get_object_legal_hold(**v)["LegalHold"]["Status"])[1] for status in ("ON", "OFF")]
        for v in [s.put(s.locked)]], [["ON", "OFF"]]),
    ("a lifted hold lets it go", lambda s: [
        (s.s3.put_object_legal_hold(**v, LegalHold={"Status": "OFF"}), status_of(s.s3.delete_object(**v)))[1]
        for v in [s.put(s.locked, **HELD)]], [204]),
    ("a hold keeps it", lambda s: s.s3.delete_object(**s.put(s.locked, **HELD)), "403 AccessDenied"),
    ("a marker may cover it", lambda s: (
        s.put(s.locked, **s.governed()), s.s3.delete_object(Bucket=s.locked, Key="k"), s.versions(s.locked))[2],
     [("k", VERSION, False), ("k", MARKER, True)]),
    ("a newer version may cover it", lambda s: (
        s.put(s.locked, **s.governed()), s.put(s.locked, body=b"newer"), s.read(s.locked))[2], b"newer"),
    ("metadata does not change by a copy onto itself", lambda s: [
        (s.s3.copy_object(Bucket=s.locked, Key="k", CopySource=v, MetadataDirective="REPLACE", Metadata={"a": "b"}),
         s.s3.head_object(**v)["Metadata"])[1] for v in [s.put(s.locked, **s.governed())]], [{}]),
    ("tags may change", lambda s: status_of(s.s3.put_object_tagging(
        **s.put(s.locked, **s.governed()), Tagging={"TagSet": []})), 200),
    ("not told where there is none", lambda s: lock_of(s, s.put(s.locked)), NO_LOCK),
    ("of a bucket without Object Lock", lambda s: s.put(s.versioned, **HELD), "400 InvalidRequest"),
    ("Object Lock comes to a bucket with versions", lambda s: [
        (s.s3.put_object_lock_configuration(
            Bucket=s.versioned, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"}),
         s.s3.put_object_legal_hold(**v, LegalHold={"Status": "ON"}), lock_of(s, v))[2] for v in [s.put(s.versioned)]],
     [(None, None, "ON")]),
    ("a token to turn it on is not needed", lambda s: s.s3.put_object_lock_configuration(
        Bucket=s.plain, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"}, Token="t"),
     "409 InvalidBucketState"),
    ("a date without a fraction and with one", lambda s: [
        s.s3.get_object_retention(**retained(s, RetainUntilDate=date))["Retention"]["RetainUntilDate"] >= date
        for date in (s.until, s.until + timedelta(milliseconds=250), s.until + timedelta(microseconds=1))], [True] * 3),
    ("a date in another zone", lambda s: s.s3.get_object_retention(
        **retained(s, RetainUntilDate=s.until.astimezone()))["Retention"]["RetainUntilDate"] == s.until, True),
    ("a date without a zone", lambda s: s.s3.get_object_retention(**retained(
        s, RetainUntilDate=s.until.replace(tzinfo=None)))["Retention"]["RetainUntilDate"].tzinfo is not None, True),
    ("the day of the store", lambda s: s.s3.get_object_retention(**retained(
        s, RetainUntilDate=datetime.now(UTC) + timedelta(days=1)))["Retention"]["Mode"], "GOVERNANCE"),
    ("deleted in a batch with its marker", lambda s: [
        (each["Code"], each["Key"]) for each in s.s3.delete_objects(Bucket=s.locked, Delete={"Objects": [
            {"Key": "k", "VersionId": s.put(s.locked, **s.governed())["VersionId"]},
            {"Key": "k", "VersionId": s.s3.delete_object(Bucket=s.locked, Key="k")["VersionId"]}]})["Errors"]],
     [("AccessDenied", "k")]),
    ("versions with locks keep the bucket", lambda s: (
        s.put(s.locked, **s.governed()), s.s3.delete_bucket(Bucket=s.locked)), "409 BucketNotEmpty"),
]  # fmt: skip


def locked_in_parts(s: Scene) -> str:
    """Upload a locked version in parts. Returns its key."""
    named = {"Bucket": s.locked, "Key": "k"}
    upload = {**named, "UploadId": s.s3.create_multipart_upload(
        **named, **s.governed(), **HELD, ChecksumAlgorithm="CRC32")["UploadId"]}  # fmt: skip
    part = s.s3.upload_part(**upload, PartNumber=1, Body=BODY, ChecksumAlgorithm="CRC32")
    listed = [{"ETag": part["ETag"], "ChecksumCRC32": part["ChecksumCRC32"], "PartNumber": 1}]
    s.s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": listed})
    return "k"
