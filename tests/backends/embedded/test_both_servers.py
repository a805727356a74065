"""S3 and TSM at once on one store: they share catalogue and segments, and neither reaches the other's objects."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from archiver.values.errors import PlatformError
from backends.embedded import process
from backends.embedded.process import StoreProcess
from tests.backends.embedded.tsm_client import HOLD, Client

MIB = 1 << 20


def content(name: str, size: int) -> bytes:
    return hashlib.shake_128(name.encode()).digest(size)


def sign_on(store: StoreProcess) -> Client:
    client = Client(store.tsm_host, store.tsm_port)
    assert store.node_password is not None
    client.sign_on(store.node.encode(), store.node_password)
    return client


@pytest.fixture
def tsm(store: StoreProcess) -> Iterator[Client]:
    with sign_on(store) as client:
        yield client


def test_each_server_reaches_only_its_own_objects(s3: Any, bucket: str, tsm: Client) -> None:
    space = tsm.space(b"/" + bucket.encode())
    s3.put_object(Bucket=bucket, Key="d/o", Body=b"s3")
    assert tsm.archive(space, b"/o", b"tsm", class_index=tsm.class_index("NONE")) == 0
    (row,) = tsm.query(space)
    listed = s3.list_object_versions(Bucket=bucket)
    assert [each["Key"] for each in listed["Versions"]] == ["d/o"]
    # The record's name in the segment, and other names that a client could try.
    for key in ("/o", "/d/o", f"ARCHIVER\0/{bucket}\0/d\0/o", f"{row.id}"):
        s3.delete_object(Bucket=bucket, Key=key)
        assert s3.list_objects_v2(Bucket=bucket, Prefix=key)["KeyCount"] == 0
    version_id = listed["Versions"][0]["VersionId"]
    number = int(version_id[:16], 16)
    assert tsm.get(number) == [(2, b"", 0)]
    assert tsm.delete(number) == 2
    assert tsm.event(HOLD, number) == 2
    disguised = f"{row.id:016x}{version_id[16:]}"
    s3.delete_object(Bucket=bucket, Key="d/o", VersionId=disguised)
    assert tsm.get(row.id)[0].content == b"tsm"
    assert s3.get_object(Bucket=bucket, Key="d/o")["Body"].read() == b"s3"
    assert tsm.delete(row.id) == 0


def test_a_store_with_only_archives_has_no_buckets(data_dir: Path, connect: Callable[..., Any]) -> None:
    with process.start(data_dir) as store, sign_on(store) as client:
        assert client.archive(client.space(), b"/o", b"o") == 0
        assert connect(store).list_buckets()["Buckets"] == []


def test_restart_keeps_concurrent_writes_of_both_servers(data_dir: Path, connect: Callable[..., Any]) -> None:
    sizes = [0, 100, 5000, 300_000, MIB + 1]

    def put_all(store: StoreProcess) -> None:
        s3 = connect(store)
        for number in range(20):
            key = f"s3-{number}"
            s3.put_object(Bucket="b-1", Key=key, Body=content(key, sizes[number % len(sizes)]))

    def archive_all(store: StoreProcess, first: int) -> None:
        with sign_on(store) as client:
            space = client.space()
            for number in range(first, 20, 2):
                name = f"/tsm-{number}"
                client.send_object(space, name.encode(), content(name, sizes[number % len(sizes)]))
                client.send_object(space, name.encode() + b"-too", content(name, 10))
                assert client.vote() == 0

    def check(store: StoreProcess) -> tuple[list[Any], list[Any]]:
        s3 = connect(store)
        listed = s3.list_object_versions(Bucket="b-1")["Versions"]
        assert len(listed) == 20
        for number in range(20):
            key = f"s3-{number}"
            body = s3.get_object(Bucket="b-1", Key=key)["Body"].read()
            assert body == content(key, sizes[number % len(sizes)])
        with sign_on(store) as client:
            rows = client.query(client.space())
            got = {
                row.ll.decode(): each.content
                for row, each in zip(rows, client.get(*(row.id for row in rows)), strict=True)
            }
        expected = {f"/tsm-{number}": content(f"/tsm-{number}", sizes[number % len(sizes)]) for number in range(20)}
        assert got == expected | {f"/tsm-{number}-too": content(f"/tsm-{number}", 10) for number in range(20)}
        return listed, rows

    with process.start(data_dir) as store:
        connect(store).create_bucket(Bucket="b-1", ObjectLockEnabledForBucket=True)
        failed: list[BaseException] = []

        def work(call: Callable[..., None], *arguments: Any) -> None:
            try:
                call(store, *arguments)
            except BaseException as fault:  # noqa: BLE001 - raised below, in the test's own thread
                failed.append(fault)

        threads = [
            threading.Thread(target=work, args=each) for each in ((put_all,), (archive_all, 0), (archive_all, 1))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        before = check(store)
    with process.start(data_dir) as store:
        assert check(store) == before


def test_store_process_adds_nodes_and_classes_and_refuses_a_weaker_class(data_dir: Path) -> None:
    with process.start(data_dir, nodes=["second"], management_classes=["ten:retver=10d"]) as store:
        password = store.nodes["SECOND"].password
        assert password is not None
        with Client(store.tsm_host, store.tsm_port) as client:
            welcome = client.sign_on(b"second", password)
        ten = welcome.classes[-1]
        assert (ten.name, ten.retinit, ten.retver_days) == ("TEN", 0, 10)
    with pytest.raises(PlatformError, match=r"management class TEN: retver is .* and can only grow") as raised:
        process.start(data_dir, management_classes=["ten:retver=9d"])
    assert "Traceback" not in str(raised.value)
    with process.start(data_dir) as store:
        assert store.nodes["SECOND"].password == password
