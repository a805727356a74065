"""Ceilings of the client on this machine. Every result must stay well below them.

One idea: one worker on one core archives and retrieves objects of two sizes, against platforms that do nothing
(``archiver.engine.ceiling``). Null sessions give the ceiling of the engine, and the null responder gives the ceiling of
the wire.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from archiver.engine.ceiling import answered_at_once, carry_out, null_sessions
from archiver.engine.coordinator import RunSetting
from archiver.engine.numbers import Kept, ObjectNumbers
from archiver.engine.workers.contract import Workers
from archiver.engine.workers.processes import WorkerProcesses
from archiver.machine.cores import cores_here
from archiver.measure.server_usage import ServerView
from archiver.values.retention import DateMaker, Retention
from backends.s3 import S3Backend, S3Options
from backends.s3.control import Credentials
from results.recorded.model import Result
from scenarios.model import Phase, Workload
from scenarios.work.mix import OperationName
from scenarios.work.sessions import InWindow, Sessions

OBJECT_SIZES_BYTES = (8192, 1 << 20)
CLIENTS = 16
OBJECTS_PER_SESSION = 100
OPERATIONS: tuple[OperationName, ...] = ("archive", "retrieve")
_WARM_UP_SECONDS_MAX = 0.5
_OBJECTS_PER_SECOND_MAX = 3_000_000  # more than any machine reaches; bounds the object numbers to prepare


@dataclass(frozen=True, slots=True)
class MeasuredCeiling:
    """One ceiling of one worker. ``limit`` is engine (null backend) or wire (null responder)."""

    limit: str
    result: Result


def ceilings(seconds: float, objects_per_session: int = OBJECTS_PER_SESSION) -> Iterator[MeasuredCeiling]:
    """Measure every ceiling for ``seconds`` each: one worker on one core, the null responder on another."""
    cores = cores_here(shares_host=True)
    setting = _setting()
    workers = WorkerProcesses(1, cores.workers[:1])
    try:
        for limit in ("engine", "wire"):
            for size_bytes in OBJECT_SIZES_BYTES:
                for operation in OPERATIONS:
                    workload = _workload(operation, size_bytes, objects_per_session, seconds)
                    with ExitStack() as stack:
                        null_platform = null_sessions(setting)
                        if limit == "wire":
                            null_platform = stack.enter_context(answered_at_once(setting, size_bytes, cores.server[:1]))
                        yield MeasuredCeiling(limit, _measure(null_platform.setting, workers, workload))
    finally:
        workers.close()


def _workload(operation: OperationName, size_bytes: int, objects_per_session: int, seconds: float) -> Workload:
    warm_up_seconds = min(_WARM_UP_SECONDS_MAX, seconds)
    objects_max = int(_OBJECTS_PER_SECOND_MAX * (warm_up_seconds + seconds))
    stop = InWindow(seconds, objects_max * size_bytes // CLIENTS, warm_up_seconds)
    return Workload(operation, Sessions(operation, size_bytes, stop), CLIENTS, objects_per_session)


def _measure(setting: RunSetting, workers: Workers, workload: Workload) -> Result:
    phase = Phase("ceiling", 1, 1, (workload,))
    numbers = ObjectNumbers(seed=1)
    numbers.keep(Kept(workload.work.mean_bytes, 0, workload.objects_max - 1))
    dates: dict[float | None, DateMaker] = {None: DateMaker(Retention(), time.time() + 7200)}
    return carry_out(phase, numbers, dates, setting, workers).results[0]


def _setting() -> RunSetting:
    """Return the setting of a real archive: signature, lock headers, checksum, one connection per session."""
    options = S3Options(
        endpoints=("http://127.0.0.1",), credentials=Credentials("null", "null", None), region="us-east-1"
    )
    return RunSetting(
        run_id="",
        content_seed=0,
        backend="s3",
        backend_setting=S3Backend(options).setting_for("null", "null/", Retention()),
        retention=Retention(),
        verify="all",
        session_kind="opened",
        session_open="head-bucket",
        checksum="crc32c",
        payload_signing=False,
        server=ServerView(shares_host=True),
    )
