"""A store process on a full disk keeps what it acknowledged, continues to serve, and recovers without a restart.

The kernel itself refuses the writes: either the process has a limit on file sizes, or its disk is a small tmpfs, if
this machine can mount one.
"""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest

from backends.embedded import process
from backends.embedded.core import commits
from backends.embedded.core.files.segments import LARGE_BYTES
from backends.embedded.process import StoreProcess
from tests.backends.conftest import s3_client
from tests.backends.embedded.tsm_client import Client
from tests.support.waiting import SECONDS_MAX

BUCKET = "full"
SMALL = b"s" * 65536
PART = b"p" * (5 << 20)
WRITE_FAILED, NO_SPACE = 43, 11  # in the TSM API's return codes


def refusal(call: Callable[[], object]) -> tuple[int, str] | None:
    """Return status and code of a refused call, or None if it was carried out."""
    try:
        call()
    except botocore.exceptions.ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]
    return None


def sign_on(store: StoreProcess) -> Client:
    client = Client(store.tsm_host, store.tsm_port)
    client.sign_on(store.node.encode(), store.node_password or "")
    return client


@contextmanager
def files_that_may_not_grow(store: StoreProcess, bytes_max: int) -> Iterator[None]:
    """Limit the length of every file of the store inside the block."""
    before = resource.prlimit(store.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(store.pid, resource.RLIMIT_FSIZE, (bytes_max, before[1]))
    yield
    resource.prlimit(store.pid, resource.RLIMIT_FSIZE, before)


def keys(s3: Any) -> set[str]:
    return {each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])}


@pytest.mark.parametrize("full", ["segments", "catalogue"])
def test_a_store_whose_files_cannot_grow_continues_and_recovers(data_dir: Path, full: str) -> None:
    with process.start(data_dir) as store:
        s3 = s3_client(store)
        s3.create_bucket(Bucket=BUCKET, ObjectLockEnabledForBucket=True)
        for number in range(4):
            s3.put_object(Bucket=BUCKET, Key=f"before {number}", Body=SMALL)
        upload = s3.create_multipart_upload(Bucket=BUCKET, Key="in parts")["UploadId"]
        with sign_on(store) as tsm:
            space = tsm.space()
            assert tsm.archive(space, b"/before", SMALL) == 0
            longest = max(path.stat().st_size for path in (data_dir / "segments").iterdir())
            with files_that_may_not_grow(store, longest if full == "segments" else 4096):
                writes: list[Callable[[], object]] = [
                    lambda: s3.put_object(Bucket=BUCKET, Key="small", Body=SMALL),
                    lambda: s3.put_object(Bucket=BUCKET, Key="large", Body=b"l" * (LARGE_BYTES + 1)),
                    lambda: s3.upload_part(Bucket=BUCKET, Key="in parts", UploadId=upload, PartNumber=1, Body=PART),
                ]
                assert [refusal(write) for write in writes] == [(503, "ServiceUnavailable")] * 3
                assert tsm.archive(space, b"/refused", SMALL) == WRITE_FAILED
                for number in range(4):  # Stored objects remain readable.
                    assert s3.get_object(Bucket=BUCKET, Key=f"before {number}")["Body"].read() == SMALL
                assert keys(s3) == {f"before {number}" for number in range(4)}
                assert [row.ll for row in tsm.query(space)] == [b"/before"]
            assert [refusal(write) for write in writes] == [None] * 3  # with space again, without a restart
            assert tsm.archive(space, b"/after", SMALL) == 0
        assert "writes are refused from now on: " in store.log()
        assert "writes are accepted again" in store.log()
        store.kill()
    with process.start(data_dir) as store:
        s3 = s3_client(store)
        assert keys(s3) == {*(f"before {number}" for number in range(4)), "small", "large"}
        assert s3.get_object(Bucket=BUCKET, Key="small")["Body"].read() == SMALL
        with sign_on(store) as tsm:
            assert sorted(row.ll for row in tsm.query(space)) == [b"/after", b"/before"]


def test_a_store_that_cannot_be_created_is_not_reported_as_damaged(data_dir: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f'ulimit -f 8; exec "$0" -m backends.embedded.server --data {data_dir}', process._PROGRAM[0]],
        capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert "restore" not in done.stderr
    assert str(data_dir) in done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for the reserve and little else."""
    folder = tmp_path / "disk"
    folder.mkdir()
    size = commits.RESERVE_BYTES + (24 << 20)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no disk can be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.long
def test_store_on_a_full_disk_keeps_acknowledged_objects_after_a_kill(small_disk: Path) -> None:
    def fill(path: Path) -> None:
        with path.open("wb", buffering=0) as file:
            for piece in (1 << 20, 4096):
                try:
                    while True:
                        file.write(b"\0" * piece)
                except OSError:
                    continue

    data_dir = small_disk / "store"
    acknowledged: list[str] = []
    with process.start(data_dir) as store:
        s3 = s3_client(store)
        s3.create_bucket(Bucket=BUCKET, ObjectLockEnabledForBucket=True)
        while len(acknowledged) < 100:
            name = f"{len(acknowledged)}"
            refused = refusal(partial(s3.put_object, Bucket=BUCKET, Key=name, Body=PART))
            if refused is not None:
                break
            acknowledged.append(name)
        assert refused == (503, "ServiceUnavailable")  # with the reserve still free
        assert os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize > commits.RESERVE_BYTES // 2
        with sign_on(store) as tsm:
            space = tsm.space()
            assert tsm.archive(space, b"/refused", SMALL) == NO_SPACE
            fill(small_disk / "somebody else's")
            assert refusal(lambda: s3.put_object(Bucket=BUCKET, Key="refused", Body=SMALL)) == (
                503,
                "ServiceUnavailable",
            )
            assert tsm.archive(space, b"/refused", SMALL) in (NO_SPACE, WRITE_FAILED)
        assert keys(s3) == set(acknowledged)
        store.kill()
    with process.start(data_dir) as store:  # without a free byte
        s3 = s3_client(store)
        assert keys(s3) == set(acknowledged)
        (small_disk / "somebody else's").unlink()
        first = s3.head_object(Bucket=BUCKET, Key="0")["VersionId"]
        s3.delete_object(Bucket=BUCKET, Key="0", VersionId=first)
        for name in acknowledged[1:]:
            assert s3.get_object(Bucket=BUCKET, Key=name)["Body"].read() == PART
