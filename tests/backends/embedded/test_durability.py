"""Restarts and damage of a store that runs as a separate process."""

from __future__ import annotations

import random
import resource
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from archiver.values.errors import PlatformError
from backends.embedded import process

MIB = 1 << 20


def content(key: str, size: int) -> bytes:
    """Bytes derived from the key."""
    return random.Random(key).randbytes(size)


def flip_byte(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))


def test_a_restart_keeps_everything(data_dir: Path, connect: Callable[..., Any], until: Any) -> None:
    lock = {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": until, "ObjectLockLegalHoldStatus": "ON"}
    with process.start(data_dir) as store:
        s3 = connect(store)
        s3.create_bucket(Bucket="b-1", ObjectLockEnabledForBucket=True)
        rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 3}}
        configuration = {"ObjectLockEnabled": "Enabled", "Rule": rule}
        for size in (0, 100, 9 * MIB):
            s3.put_object(Bucket="b-1", Key=f"{size}", Body=content(f"{size}", size), Metadata={"m": "v"}, **lock)
        s3.put_object_lock_configuration(Bucket="b-1", ObjectLockConfiguration=configuration)
        s3.delete_object(Bucket="b-1", Key="0")
        listed = s3.list_object_versions(Bucket="b-1")
    with process.start(data_dir) as store:
        s3 = connect(store)
        again = s3.list_object_versions(Bucket="b-1")
        assert (again["Versions"], again["DeleteMarkers"]) == (listed["Versions"], listed["DeleteMarkers"])
        assert s3.get_object_lock_configuration(Bucket="b-1")["ObjectLockConfiguration"] == configuration
        for version in again["Versions"]:
            named = {"Bucket": "b-1", "Key": version["Key"], "VersionId": version["VersionId"]}
            got = s3.get_object(**named)
            assert got["Body"].read() == content(version["Key"], int(version["Key"]))
            assert got["ObjectLockRetainUntilDate"] == until
            assert got["Metadata"] == {"m": "v"}
            with pytest.raises(ClientError, match="AccessDenied"):
                s3.delete_object(**named, BypassGovernanceRetention=True)
        newer = s3.put_object(Bucket="b-1", Key="0", Body=b"new")["VersionId"]
        assert newer not in {each["VersionId"] for each in [*again["Versions"], *again["DeleteMarkers"]]}


@pytest.fixture
def filled(data_dir: Path, connect: Callable[..., Any]) -> Path:
    """A stopped store with a small and a large object; returns its folder."""
    with process.start(data_dir) as store:
        s3 = connect(store)
        s3.create_bucket(Bucket="b-1", ObjectLockEnabledForBucket=True)
        s3.put_object(Bucket="b-1", Key="small", Body=content("small", 5000))
        s3.put_object(Bucket="b-1", Key="large", Body=content("large", 20 * MIB))
    return data_dir


@pytest.mark.parametrize(("key", "position"), [("small", 2000), ("large", 500)])
def test_read_of_damaged_bytes_fails_and_names_the_object(
    filled: Path, connect: Callable[..., Any], key: str, position: int
) -> None:
    segment = filled / "segments" / {"small": "00000001.seg", "large": "00000002.seg"}[key]
    flip_byte(segment, position)
    with process.start(filled) as store:
        with pytest.raises(ClientError) as raised:
            connect(store).get_object(Bucket="b-1", Key=key)
        assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
        error = raised.value.response["Error"]
        assert error["Code"] == "InternalError"
        assert f"object '{key}' is damaged" in error["Message"]
        assert segment.name in error["Message"]
        assert "is damaged" in store.log()
        other = {"small": "large", "large": "small"}[key]
        connect(store).get_object(Bucket="b-1", Key=other)["Body"].read()


def test_damage_far_inside_a_large_object_cuts_the_connection(filled: Path, connect: Callable[..., Any]) -> None:
    flip_byte(filled / "segments" / "00000002.seg", 15 * MIB)
    with process.start(filled) as store:
        body = connect(store).get_object(Bucket="b-1", Key="large")["Body"]
        received = b""
        with pytest.raises(BotoCoreError):  # noqa: PT012 - the bytes before the error matter
            for piece in body.iter_chunks(MIB):
                received += piece
        assert content("large", 20 * MIB).startswith(received)  # They were intact.
        assert len(received) < 15 * MIB


def _cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)


def _zero(path: Path) -> None:
    size = path.stat().st_size
    path.write_bytes(b"\0" * size)


def _damage_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for start in range(4096, len(data), 4096):
        data[start : start + 2000] = b"\xa5" * 2000
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "damage", "says"),
    [
        ("segments/00000001.seg", _cut, r"00000001\.seg is shorter than the catalogue says .*: 1 objects are lost"),
        ("segments/00000001.seg", Path.unlink, r"00000001\.seg is missing .*: 1 objects are lost"),
        ("segments/00000002.seg", _cut, r"00000002\.seg is shorter"),
        ("catalogue.db", _zero, r"catalogue\.db cannot be used: file is not a database"),
        ("catalogue.db", _damage_pages, r"catalogue\.db is damaged|catalogue\.db cannot be used"),
        ("catalogue.db", Path.unlink, r"contains 2 segments, but their catalogue is missing"),
        ("credentials.json", _zero, r"credentials\.json is not a credentials file"),
    ],
)
def test_damage_is_found_at_start_and_named(filled: Path, name: str, damage: Callable[[Path], None], says: str) -> None:
    damage(filled / name)
    with pytest.raises(PlatformError, match=says) as raised:
        process.start(filled)
    assert "Traceback" not in str(raised.value)


def test_a_catalogue_that_lost_its_log_is_detected(data_dir: Path, connect: Callable[..., Any]) -> None:
    store = process.start(data_dir)
    s3 = connect(store)
    s3.create_bucket(Bucket="b-1")
    for number in range(5):
        s3.put_object(Bucket="b-1", Key=f"{number}", Body=b"x")
    store.kill()  # A kill leaves the log unmerged.
    (data_dir / "catalogue.db-wal").unlink()
    with pytest.raises(PlatformError, match=r"it has lost writes|cannot be read"):
        process.start(data_dir)


@pytest.mark.parametrize("change", ["an object", "a hold"])
def test_an_older_copy_of_the_catalogue_is_detected(filled: Path, connect: Callable[..., Any], change: str) -> None:
    """Even if it lacks only the last commit and that commit wrote nothing to a segment."""
    older = (filled / "catalogue.db").read_bytes()
    with process.start(filled) as store:
        if change == "a hold":
            connect(store).put_object_legal_hold(Bucket="b-1", Key="small", LegalHold={"Status": "ON"})
        else:
            connect(store).put_object(Bucket="b-1", Key="small", Body=b"newer")
    (filled / "catalogue.db").write_bytes(older)
    with pytest.raises(PlatformError, match=r"ends at commit \d+, but commit \d+ was acknowledged: it has lost writes"):
        process.start(filled)


def test_bytes_of_a_crashed_commit_are_cut_off(filled: Path, connect: Callable[..., Any]) -> None:
    segment = filled / "segments" / "00000001.seg"
    length = segment.stat().st_size
    with segment.open("ab") as file:
        file.write(b"half a record")
    (filled / "segments" / "00000009.seg").write_bytes(b"an upload that never ended")
    with process.start(filled) as store:
        assert segment.stat().st_size == length
        assert [path.name for path in store.data_files()] == ["00000001.seg", "00000002.seg"]
        connect(store).put_object(Bucket="b-1", Key="new", Body=b"new")
        assert [path.name for path in store.data_files()][-1] == "00000010.seg"


@pytest.mark.parametrize("version", [1, 4, 99])
def test_a_catalogue_of_another_version_is_refused_unchanged(filled: Path, version: int) -> None:
    connection = sqlite3.connect(filled / "catalogue.db")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    with pytest.raises(PlatformError, match=rf"has format version {version}, and this Archiver reads only 5; use"):
        process.start(filled)
    with closing(sqlite3.connect(filled / "catalogue.db")) as unchanged:
        assert unchanged.execute("PRAGMA user_version").fetchone() == (version,)


def test_two_processes_cannot_have_one_store(data_dir: Path) -> None:
    with process.start(data_dir) as store, pytest.raises(PlatformError, match=rf"already open \(process {store.pid}\)"):
        process.start(data_dir)


def test_a_full_disk_is_reported_and_reads_continue(data_dir: Path, connect: Callable[..., Any]) -> None:
    """The kernel's limit on a file's size stands for a full disk: both make the write fail."""
    with process.start(data_dir) as store:
        s3 = connect(store)
        s3.create_bucket(Bucket="b-1")
        s3.put_object(Bucket="b-1", Key="before", Body=content("before", 1000))
        resource.prlimit(store.pid, resource.RLIMIT_FSIZE, (4 * MIB, resource.RLIM_INFINITY))
        for size in (5 * MIB, 9 * MIB):
            with pytest.raises(ClientError) as raised:
                s3.put_object(Bucket="b-1", Key=f"{size}", Body=content("x", size))
            assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
            assert raised.value.response["Error"]["Code"] == "ServiceUnavailable"
            assert str(data_dir) in raised.value.response["Error"]["Message"]
        assert [each["Key"] for each in s3.list_objects_v2(Bucket="b-1")["Contents"]] == ["before"]
        assert s3.get_object(Bucket="b-1", Key="before")["Body"].read() == content("before", 1000)
        resource.prlimit(store.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        s3.put_object(Bucket="b-1", Key="after", Body=b"room again")
