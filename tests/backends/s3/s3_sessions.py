"""The data plane of one worker for tests: its setting, its sessions, and the rows that they record."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import uvloop

from archiver.values.content import Content
from archiver.values.record import Operation, Recorder
from archiver.values.retention import DateMaker, Retention
from backends.base import Batch, PhaseSetting
from backends.s3.data_plane import S3DataPlane
from backends.s3.setting import S3WorkerSetting
from tests.support.servers.scripted import HANG_SECONDS

T = TypeVar("T")
RUN_ID = "20261121-run"
SIZE = 8192
CONTENT = Content(RUN_ID, 7, 1 << 20)
RETENTION = Retention()  # GOVERNANCE for five minutes


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a Recorder."""

    operation: int
    status: int
    attempts: int
    endpoint: int
    number: int
    bytes: int
    due_ns: int
    sent_ns: int
    first_byte_ns: int
    done_ns: int


def rows_of(record: Recorder) -> list[Row]:
    """A record's rows, oldest first."""
    return [Row(*(getattr(record, name)[index] for name, _ in Recorder.COLUMNS)) for index in range(record.used)]


def in_loop(work: Callable[[], Awaitable[T]]) -> T:
    """Run the asynchronous part of a test in the kind of loop that workers use. A hang fails the test."""

    async def bounded() -> T:
        async with asyncio.timeout(HANG_SECONDS):
            return await work()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(bounded())


def archives(*numbers: int, size_bytes: int = SIZE) -> Batch:
    return Batch([Operation.ARCHIVE] * len(numbers), numbers, [size_bytes] * len(numbers))


def retrieves(*numbers: int, size_bytes: int = SIZE) -> Batch:
    return Batch([Operation.RETRIEVE] * len(numbers), numbers, [size_bytes] * len(numbers))


def worker_setting(*urls: str, **changes: Any) -> S3WorkerSetting:
    values: dict[str, Any] = {
        "endpoints": urls, "region": "us-east-1", "access_key": "AKIDEXAMPLE", "secret_key": "very-secret",
        "session_token": None, "bucket": "bucket-1", "prefix": "run/", "ca_bundle": None, "insecure": False,
        "retention": RETENTION, "checksum": "crc32c", "payload_signing": False, "session_open": "connect",
        "keep_sessions_open": False, "connect_timeout_seconds": HANG_SECONDS, "read_timeout_seconds": HANG_SECONDS,
        "clock_offset_seconds": 0.0,
    }  # fmt: skip
    return S3WorkerSetting(**{**values, **changes})


def data_plane(*urls: str, verify: str = "all", size_bytes: int = SIZE, **changes: Any) -> S3DataPlane:
    """A worker's data plane, ready for a phase."""
    setting = worker_setting(*urls, **changes)
    plane = S3DataPlane(setting)
    plane.set_phase(PhaseSetting(CONTENT, {None: DateMaker(setting.retention, 4e9)}, verify, (size_bytes,)))
    return plane


async def one_session(plane: S3DataPlane, batch: Batch, record: Recorder, client: int = 0) -> bool:
    """Open, perform and close a session, as the engine does. Returns whether it opened."""
    session = plane.session(client)
    opened = await session.open(record, 1)
    if opened:
        await session.perform(batch, record)
    await session.close(record)
    return opened


def record_of_sessions(plane: S3DataPlane, *batches: Batch) -> Recorder:
    """Run one session for each batch, by one client, and return the record."""
    record = Recorder(100)

    async def work() -> None:
        for batch in batches:
            await one_session(plane, batch, record)
        await plane.end_phase()

    in_loop(work)
    return record
