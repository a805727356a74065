"""Objects that S3 removal deletes and keeps: embedded store, moto, MinIO, versitygw, and a lying platform."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from moto.server import ThreadedMotoServer

from archiver.values.errors import PlatformError
from backends.base import Location, RemovalReport
from backends.embedded import process as embedded
from backends.s3.control import Control, Credentials
from backends.s3.keys import key_of
from tests.support.servers import real
from tests.support.servers.scripted import Request, ScriptedServer, serve

NUMBERS = range(100)  # of the run
Scripted = Callable[..., ScriptedServer]


class Platform:
    """One platform, called by the owner of its buckets."""

    def __init__(self, endpoint: str, access_key: str, secret_key: str) -> None:
        self.endpoint = endpoint
        self.s3 = boto3.client(
            "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=access_key,
            aws_secret_access_key=secret_key, config=Config(retries={"total_max_attempts": 1}),
        )  # fmt: skip
        self.keys = (access_key, secret_key)

    def make_bucket(self, name: str) -> str:
        self.s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
        return name

    def put(self, bucket: str, key: str, **lock: Any) -> None:
        self.s3.put_object(Bucket=bucket, Key=key, Body=b"record", **lock)

    def start_upload(self, bucket: str, key: str) -> None:
        upload = self.s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        self.s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=1, Body=b"part")

    def keys_in(self, bucket: str) -> list[str]:
        return [row["Key"] for row in self.s3.list_object_versions(Bucket=bucket).get("Versions", [])]

    def uploads_in(self, bucket: str) -> list[str]:
        return sorted(row["Key"] for row in self.s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []))

    def has(self, bucket: str) -> bool:
        return bucket in [each["Name"] for each in self.s3.list_buckets()["Buckets"]]

    def remove(
        self, bucket: str, *, created: bool = True, bypass: bool = False, holds: bool = False,
        keys: tuple[str, str] | None = None,
    ) -> RemovalReport:  # fmt: skip
        location = Location(self.endpoint, "us-east-1", bucket, created, "run-1/")
        control = control_of(self.endpoint, *(keys or self.keys))
        return control.remove(location, NUMBERS, bypass_governance=bypass, release_holds=holds)


def control_of(endpoint: str, access_key: str, secret_key: str) -> Control:
    credentials = Credentials(access_key, secret_key, None)
    return Control(endpoint, "us-east-1", credentials, verify=True, connect_timeout_seconds=60, read_timeout_seconds=60)


LIMITED = ("clerk:without=bypass", "mate:without=hold", "guest:without=delete")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.StoreProcess]:
    with embedded.start(tmp_path_factory.mktemp("store"), credentials=LIMITED) as running:
        yield running


@pytest.fixture(scope="module")
def embedded_platform(store: embedded.StoreProcess) -> Platform:
    return Platform(store.endpoint, store.access_key, store.secret_key)


@pytest.fixture(
    scope="module",
    params=["embedded", "moto", *(pytest.param(name, marks=pytest.mark.platforms) for name in real.STORES)],
)
def platform(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    name: str = request.param
    if name == "embedded":
        yield request.getfixturevalue("embedded_platform")
    elif name == "moto":
        running = ThreadedMotoServer(port=0, verbose=False)
        running.start()
        host, port = running.get_host_and_port()
        try:
            yield Platform(f"http://{host}:{port}", "moto", "moto")
        finally:
            running.stop()
    else:
        with real.real_server(name, tmp_path_factory.mktemp(name)) as server:
            yield Platform(server.endpoint, server.access.access_key, server.access.secret_key)


def governed(minutes: float = 10) -> dict[str, Any]:
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=minutes)
    return {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until}


def test_removal_deletes_objects_markers_unfinished_uploads_and_the_bucket(platform: Platform) -> None:
    bucket = platform.make_bucket("all-of-it")
    for number in range(3):
        platform.put(bucket, key_of("run-1/", number))
    platform.s3.delete_object(Bucket=bucket, Key="run-1/000000000000")  # a marker
    platform.start_upload(bucket, key_of("run-1/", 3))
    report = platform.remove(bucket)
    assert (report.objects_left, report.bucket_removed, report.refusals) == (0, True, [])
    assert report.bytes_removed == 18
    assert not platform.has(bucket)


def test_removal_keeps_objects_of_others_and_does_not_count_them(platform: Platform) -> None:
    bucket = platform.make_bucket("shared-bucket")
    for key in ("run-1/000000000000", "run-10/0", "records/1"):
        platform.put(bucket, key)
        platform.start_upload(bucket, f"{key}-large")
    report = platform.remove(bucket)
    assert (report.objects_removed, report.bytes_removed, report.objects_left) == (1, 6, 0)
    assert report.bucket_removed is False
    assert platform.keys_in(bucket) == ["records/1", "run-10/0"]
    assert platform.uploads_in(bucket) == ["records/1-large", f"{key_of('run-1/', 0)}-large", "run-10/0-large"]
    again = platform.remove(bucket)
    assert (again.objects_removed, again.objects_left, again.bucket_removed) == (0, 0, False)


def test_locked_objects_remain_with_their_date_until_bypassed(platform: Platform) -> None:
    bucket = platform.make_bucket("locked-bucket")
    lock = governed()
    platform.put(bucket, "run-1/000000000000")
    platform.put(bucket, "run-1/000000000001", **lock)
    kept = platform.remove(bucket)
    assert (kept.objects_removed, kept.objects_left, kept.bucket_removed, kept.on_hold) == (1, 1, False, False)
    assert kept.locked_until == lock["ObjectLockRetainUntilDate"].timestamp()
    assert kept.refusals
    assert platform.keys_in(bucket) == ["run-1/000000000001"]
    gone = platform.remove(bucket, bypass=True)
    assert (gone.objects_removed, gone.objects_left, gone.bucket_removed) == (1, 0, True)


def test_held_object_remains_until_its_hold_is_released(platform: Platform) -> None:
    bucket = platform.make_bucket("held-bucket")
    platform.put(bucket, "run-1/000000000000", ObjectLockLegalHoldStatus="ON")
    kept = platform.remove(bucket, bypass=True)
    assert (kept.objects_left, kept.on_hold) == (1, True)
    assert platform.remove(bucket, holds=True).bucket_removed is True


def test_event_hold_is_released_and_its_lock_date_is_reported(embedded_platform: Platform) -> None:
    bucket = embedded_platform.make_bucket("event-held")
    event_hold = {"ObjectLockMode": "GOVERNANCE", "ObjectLockEventHold": "ON", "ObjectLockEventHoldDurationDays": 2}
    embedded_platform.put(bucket, "run-1/000000000000", ChecksumAlgorithm="CRC32C", **event_hold)
    embedded_platform.put(bucket, "run-1/000000000001", ObjectLockLegalHoldStatus="ON")
    report = embedded_platform.remove(bucket)
    assert (report.objects_removed, report.objects_left, report.on_hold) == (0, 2, True)
    report = embedded_platform.remove(bucket, holds=True)
    assert (report.objects_removed, report.objects_left, report.on_hold) == (1, 1, False)
    assert report.governance
    in_two_days = datetime.now(UTC) + timedelta(days=2)
    assert report.locked_until == pytest.approx(in_two_days.timestamp(), abs=60)
    report = embedded_platform.remove(bucket, bypass=True)
    assert (report.objects_left, report.bucket_removed) == (0, True)


def test_latest_retain_until_date_of_many_is_reported(embedded_platform: Platform) -> None:
    bucket = embedded_platform.make_bucket("many-dates")
    last = governed(30)
    for number in range(14):
        embedded_platform.put(bucket, key_of("run-1/", number), **governed(10))
    embedded_platform.put(bucket, "run-1/000000000014", **last)
    report = embedded_platform.remove(bucket)
    assert (report.objects_left, report.locked_until) == (15, last["ObjectLockRetainUntilDate"].timestamp())


@pytest.mark.parametrize("name", ["clerk", "guest"])
def test_credential_without_permission_removes_nothing_with_access_denied(
    embedded_platform: Platform, store: embedded.StoreProcess, name: str
) -> None:
    bucket = embedded_platform.make_bucket(f"no-right-{name}")
    embedded_platform.put(bucket, "run-1/000000000000", **governed())
    limited = store.credentials[name]
    try:
        report = embedded_platform.remove(bucket, bypass=True, keys=(limited.access_key, limited.secret_key))
        assert (report.objects_removed, report.objects_left, report.bucket_removed) == (0, 1, False)
        words = " ".join(report.refusals)
    except PlatformError as refused:
        words = str(refused)
    assert "AccessDenied" in words
    assert embedded_platform.keys_in(bucket) == ["run-1/000000000000"]


def test_credential_without_hold_permission_still_removes_the_rest(
    embedded_platform: Platform, store: embedded.StoreProcess
) -> None:
    bucket = embedded_platform.make_bucket("no-hold-right")
    embedded_platform.put(bucket, "run-1/000000000000", ObjectLockLegalHoldStatus="ON")
    embedded_platform.put(bucket, "run-1/000000000001")
    mate = store.credentials["mate"]
    report = embedded_platform.remove(bucket, holds=True, keys=(mate.access_key, mate.secret_key))
    assert (report.objects_removed, report.objects_left, report.on_hold) == (1, 1, True)
    assert any("release the legal hold: AccessDenied" in each for each in report.refusals)


def xml(status: bytes, root: bytes, inner: bytes = b"") -> bytes:
    body = b"<%b>%b</%b>" % (root, inner, root)
    return b"HTTP/1.1 %b\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


VERSION = b"<Version><Key>run-1/000000000000</Key><VersionId>v1</VersionId><Size>6</Size></Version>"


def test_falsely_confirmed_deletion_is_detected(scripted: Scripted) -> None:
    def answer(request: Request) -> bytes:
        if request.method == "POST":
            return xml(b"200 OK", b"DeleteResult")
        return xml(b"200 OK", b"ListVersionsResult", b"<IsTruncated>false</IsTruncated>" + VERSION)

    server = scripted(then=[serve(answer)])
    location = Location(server.url, "us-east-1", "b", True, "run-1/")
    with pytest.raises(
        PlatformError, match=r"reported run-1/000000000000 \(version v1\) as deleted, but still lists it"
    ):
        control_of(server.url, "a", "b").remove(location, NUMBERS, bypass_governance=False, release_holds=False)


@pytest.mark.parametrize(
    ("status", "code", "said"), [(b"403 Forbidden", b"AccessDenied", True), (b"501 No", b"NotImplemented", False)]
)
def test_refused_upload_listing_does_not_stop_the_removal(
    scripted: Scripted, status: bytes, code: bytes, said: bool
) -> None:
    def answer(request: Request) -> bytes:
        if "uploads" in request.target:
            return xml(status, b"Error", b"<Code>%b</Code><Message>no</Message>" % code)
        if request.method == "DELETE":
            return b"HTTP/1.1 204 No Content\r\n\r\n"
        return xml(b"200 OK", b"ListVersionsResult", b"<IsTruncated>false</IsTruncated>")

    server = scripted(then=[serve(answer)])
    location = Location(server.url, "us-east-1", "b", True, "run-1/")
    report = control_of(server.url, "a", "b").remove(location, NUMBERS, bypass_governance=False, release_holds=False)
    assert report.bucket_removed is not said
    assert (report.bucket_kept is not None) is said
    assert report.refusals == (["unfinished uploads may remain: AccessDenied: no"] if said else [])


def test_a_lost_connection_is_a_platform_error_and_no_report(embedded_platform: Platform, tmp_path: Path) -> None:
    with embedded.start(tmp_path / "store") as running:
        gone = running.endpoint
    with pytest.raises(PlatformError, match="check --endpoint"):
        control_of(gone, "a", "b").remove(
            Location(gone, "us-east-1", "b", True, "run-1/"), NUMBERS, bypass_governance=False, release_holds=False
        )
