"""The null backend, and the null responder: a process that stores nothing and answers reads with verifiable content."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import uvloop
from botocore.config import Config

import backends
from archiver.values.content import Content
from archiver.values.errors import PlatformError
from archiver.values.record import Operation, Recorder, Status
from archiver.values.retention import DateMaker, Retention
from backends.base import Batch, PhaseSetting, RunPlan
from backends.null import NullBackend
from backends.s3 import null_responder
from backends.s3.data_plane import S3DataPlane
from backends.s3.null_responder import CONTENT_SEED, RUN_ID, NullResponder
from backends.s3.setting import S3WorkerSetting
from tests.support import forks
from tests.support.waiting import SECONDS_MAX

SIZES = (1, 8192, 1 << 20)
COLUMNS = ("operation", "number", "bytes", "status", "attempts")


def rows_of(record: Recorder) -> list[tuple[int, ...]]:
    return [tuple(getattr(record, name)[index] for name in COLUMNS) for index in range(record.used)]


def record_of(plane: Any, *batches: Batch) -> Recorder:
    """Run one session for each batch, as the engine does, and return the record."""
    record = Recorder(1000)

    async def work() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            for batch in batches:
                session = plane.session(0)
                assert await session.open(record, 1)
                await session.perform(batch, record)
                await session.close(record)
            await plane.end_phase()

    uvloop.run(work())
    return record


def batch(operation: Operation, size_bytes: int, *numbers: int) -> Batch:
    return Batch([operation] * len(numbers), numbers, [size_bytes] * len(numbers))


# The null backend.


def test_null_session_records_open_operations_and_close() -> None:
    plane = NullBackend.in_worker(None)
    record = record_of(plane, batch(Operation.ARCHIVE, 8192, 3, 4), batch(Operation.RETRIEVE, 100, 4))
    assert rows_of(record) == [
        (Operation.OPEN, 0, 0, Status.OK, 1),
        (Operation.ARCHIVE, 3, 8192, Status.OK, 1),
        (Operation.ARCHIVE, 4, 8192, Status.OK, 1),
        (Operation.CLOSE, 0, 0, Status.OK, 1),
        (Operation.OPEN, 0, 0, Status.OK, 1),
        (Operation.RETRIEVE, 4, 100, Status.OK, 1),
        (Operation.CLOSE, 0, 0, Status.OK, 1),
    ]
    assert record.errors == {}
    for index in range(record.used):
        times = [getattr(record, name)[index] for name in ("due_ns", "sent_ns", "first_byte_ns", "done_ns")]
        assert times == sorted(times)


def test_null_session_moves_expected_bytes_and_keeps_due_times() -> None:
    moved = {
        Operation.ARCHIVE: 8192, Operation.RETRIEVE: 8192, Operation.NEW_VERSION: 8192, Operation.AUDIT: 8192,
        Operation.RANGE_RETRIEVE: 100,
    }  # fmt: skip
    operations = [operation for operation in Operation if operation >= Operation.ARCHIVE]
    assert set(operations) == set(NullBackend.capabilities.operations)
    count = len(operations)
    one = Batch(operations, range(count), [8192] * count, due_ns=77, range=[(5, 100)] * count)
    record = record_of(NullBackend.in_worker(None), one)
    assert [row[2] for row in rows_of(record)[1:-1]] == [moved.get(operation, 0) for operation in operations]
    assert list(record.due_ns[1:3]) == [77, record.done_ns[1]]


def test_the_null_backend_needs_no_platform_and_leaves_nothing() -> None:
    backend = backends.load("null")()
    assert isinstance(backend, NullBackend)
    profile = backend.profile()
    assert (profile.name, profile.endpoints, profile.durability) == ("null", (), "none")
    location = backend.locate(RunPlan("run-1", Retention()))
    backend.prepare()
    assert not location.bucket_created
    assert backend.read_lock(1, Retention(), None, None).problem is None
    report = backend.remove(location, None, bypass_governance=True, release_holds=True)
    assert (report.objects_removed, report.objects_left, report.bucket_removed) == (0, 0, False)
    assert not backend.capabilities.stores_content  # The engine neither retrieves from it nor verifies.


# The null responder.


@pytest.fixture(scope="module", params=SIZES)
def responder(request: pytest.FixtureRequest) -> Iterator[tuple[NullResponder, int]]:
    with null_responder.start(request.param) as running:
        yield running, request.param


def data_plane(endpoint: str, size_bytes: int, content: Content, **changes: Any) -> S3DataPlane:
    values: dict[str, Any] = {
        "endpoints": (endpoint,), "region": "us-east-1", "access_key": "null", "secret_key": "null",
        "session_token": None, "bucket": "null", "prefix": "null/", "ca_bundle": None, "insecure": False,
        "retention": Retention(), "checksum": "crc32c", "payload_signing": False, "session_open": "head-bucket",
        "keep_sessions_open": False, "connect_timeout_seconds": SECONDS_MAX, "read_timeout_seconds": SECONDS_MAX,
        "clock_offset_seconds": 0.0,
    }  # fmt: skip
    setting = S3WorkerSetting(**{**values, **changes})
    plane = S3DataPlane(setting)
    plane.set_phase(PhaseSetting(content, {None: DateMaker(setting.retention, 4e9)}, "all", (size_bytes,)))
    return plane


@pytest.mark.parametrize("session_open", ["connect", "head-bucket", "lock-config"])
def test_null_responder_content_passes_verification(responder: tuple[NullResponder, int], session_open: str) -> None:
    running, size = responder
    plane = data_plane(running.endpoint, size, Content(RUN_ID, CONTENT_SEED, size), session_open=session_open)
    numbers = (0, 1, 63, 64, 1000)
    batches = batch(Operation.ARCHIVE, size, *numbers), batch(Operation.RETRIEVE, size, *numbers)
    record = record_of(plane, *batches)
    assert record.errors == {}
    assert rows_of(record) == [
        row
        for operation in (Operation.ARCHIVE, Operation.RETRIEVE)
        for row in [
            (Operation.OPEN, 0, 0, Status.OK, 1),
            *((operation, number, size, Status.OK, 1) for number in numbers),
            (Operation.CLOSE, 0, 0, Status.OK, 1),
        ]
    ]


def test_content_of_another_run_is_reported_as_damaged(responder: tuple[NullResponder, int]) -> None:
    running, size = responder
    other = Content("another-run", CONTENT_SEED + 1, size)
    numbers = (1, 2) if size > 1 else (10, 21)
    record = record_of(data_plane(running.endpoint, size, other), batch(Operation.RETRIEVE, size + 1, *numbers))
    assert [row[3] for row in rows_of(record)] == [Status.OK, Status.DAMAGED, Status.DAMAGED, Status.OK]


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each responder as a new process, as Archiver does, instead of forking it."""
    forks.execute(monkeypatch)


LARGE = 2 * (5 << 20) + 3000
MIXED_SIZES = ((0, 100), (10, LARGE), (20, 8192))


def test_null_responder_handles_several_sizes_and_mixed_operations() -> None:
    content = Content(RUN_ID, CONTENT_SEED, LARGE)
    sizes = {0: 100, 9: 100, 10: LARGE, 19: LARGE, 20: 8192, 10**11: 8192}
    size_bytes = list(sizes.values())

    def each(operation: Operation, **changes: Any) -> Batch:
        return Batch([operation] * len(sizes), list(sizes), size_bytes, **changes)

    ranges = [(10, 90), (0, 1), (LARGE - 70, 70), (5, LARGE - 5), (8000, 192), (0, 8192)]
    with null_responder.start(MIXED_SIZES) as running:
        plane = data_plane(running.endpoint, LARGE, content)
        plane.set_phase(PhaseSetting(content, {None: DateMaker(Retention(), 4e9)}, "all", (100, 8192, LARGE)))
        batches = [
            each(Operation.ARCHIVE, part_bytes=5 << 20),
            each(Operation.RETRIEVE),
            each(Operation.RANGE_RETRIEVE, range=ranges),
            each(Operation.HEAD),
            each(Operation.COPY, source=[0] * len(sizes)),
            each(Operation.NEW_VERSION, version=[2] * len(sizes)),
            each(Operation.DELETE_MARKER),
            each(Operation.QUERY), each(Operation.EXTEND), each(Operation.HOLD), each(Operation.RELEASE),
        ]  # fmt: skip
        record = record_of(plane, *batches)
    assert record.errors == {}
    objects = [row for row in rows_of(record) if row[0] >= Operation.ARCHIVE]
    assert len(objects) == len(batches) * len(sizes)
    assert {row[3] for row in objects} == {Status.OK}


def test_boto3_puts_with_expect_100_continue_and_gets_the_content(responder: tuple[NullResponder, int]) -> None:
    running, size = responder
    client = boto3.client(
        "s3", endpoint_url=running.endpoint, region_name="us-east-1", aws_access_key_id="null",
        aws_secret_access_key="null",
        config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, read_timeout=SECONDS_MAX),
    )  # fmt: skip
    expected: list[bool] = []
    client.meta.events.register("before-send.s3", lambda request, **_: expected.append("Expect" in request.headers))
    content = Content(RUN_ID, CONTENT_SEED, size)
    for number in (5, 6):  # on one connection: the request after a continued one must parse too
        key = f"null/{number:012d}"
        client.put_object(Bucket="null", Key=key, Body=io.BytesIO(content.whole(number, size)))
        assert client.get_object(Bucket="null", Key=key)["Body"].read() == content.whole(number, size)
    client.head_bucket(Bucket="null")
    client.close()
    assert expected[0::2][:2] == [True, True]


def test_null_responder_answers_expect_with_100_continue(responder: tuple[NullResponder, int]) -> None:
    running, _ = responder
    host, _, port = running.endpoint.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS_MAX) as sock, sock.makefile("rb") as received:
        sock.sendall(b"PUT /null/000000000001 HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        assert [received.readline(), received.readline()] == [b"HTTP/1.1 100 Continue\r\n", b"\r\n"]
        sock.sendall(b"hello")
        assert received.readline() == b"HTTP/1.1 200 OK\r\n"


@pytest.mark.usefixtures("executed")
def test_leaving_the_block_ends_the_responder() -> None:
    with null_responder.start(8192) as running:
        os.kill(running.pid, 0)
        assert running.endpoint.startswith("http://127.0.0.1:")
    with pytest.raises(ProcessLookupError):
        os.kill(running.pid, 0)


def test_a_responder_runs_on_the_cores_it_was_given() -> None:
    core = min(os.sched_getaffinity(0))
    with null_responder.start(8192, [core]) as running:
        assert os.sched_getaffinity(running.pid) == {core}


@pytest.mark.usefixtures("executed")
def test_a_responder_that_does_not_start_is_a_platform_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(PlatformError, match="the null responder did not start"):
        null_responder.start(8192)
