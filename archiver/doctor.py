"""What the client can do at most on this machine: the ceilings that every result must stay well under.

One idea: the same engine, phases and sessions as in any run, against platforms that do nothing. The null backend
gives the engine's ceiling, the null responder the wire's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from archiver.coordinator import Coordinator, Fill, RunSetting
from archiver.numbers import Kept, ObjectNumbers
from archiver.processes import WorkerProcesses
from archiver.retention import DateMaker, Retention
from archiver.sampler import ResourceSampler
from backends.s3 import S3Backend, S3Options, null_responder
from backends.s3.control import Credentials
from results.model import Result
from scenarios.model import OperationName, Phase, StopRule, Workload

OBJECT_SIZES_BYTES = (8192, 1 << 20)
CLIENTS = 16
OBJECTS_PER_SESSION = 100
OPERATIONS: tuple[OperationName, ...] = ("archive", "retrieve")
_OBJECTS_PER_SECOND_MAX = 3_000_000  # more than any machine reaches: bounds the object numbers to prepare


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One ceiling of one worker: ``limit`` is engine (null backend) or wire (null responder)."""

    limit: str
    result: Result


def ceilings(seconds: float) -> Iterator[Ceiling]:
    """Measure every ceiling for ``seconds`` each: one worker on one core, the null responder on another."""
    usable = sorted(os.sched_getaffinity(0))
    sampler = ResourceSampler([])
    sampler.start()
    workers = WorkerProcesses(1, usable[-1:])
    try:
        for limit in ("engine", "wire"):
            for size_bytes in OBJECT_SIZES_BYTES:
                for operation in OPERATIONS:
                    with ExitStack() as stack:
                        backend, setting = "null", None
                        if limit == "wire":
                            responder = stack.enter_context(null_responder.start(size_bytes, usable[:1]))
                            backend, setting = "s3", _wire_setting(responder.endpoint)
                        coordinator = Coordinator(_run_setting(backend, setting), workers, sampler, 1)
                        yield Ceiling(limit, _measure(coordinator, operation, size_bytes, seconds))
    finally:
        workers.close()
        sampler.stop()


def _measure(coordinator: Coordinator, operation: OperationName, size_bytes: int, seconds: float) -> Result:
    workload = Workload(operation, operation, size_bytes, OBJECTS_PER_SESSION, CLIENTS)
    objects_max = int(_OBJECTS_PER_SECOND_MAX * (seconds + 0.5))
    stop = StopRule(
        warm_up_sessions=1,
        warm_up_seconds=0.5,
        sessions_min=1,
        large_sessions_min=1,
        large_session_bytes=1 << 40,
        seconds_min=seconds,
        seconds_max=seconds,
        bytes_max=objects_max * size_bytes,
        client_bytes_max=objects_max * size_bytes // CLIENTS,
        precision=0.0,
    )
    phase = Phase("ceiling", 1, 1, (workload,), stop)
    numbers = ObjectNumbers(seed=1)
    numbers.keep(Kept(size_bytes, 0, phase.objects_max(workload) - 1))
    dates = DateMaker(Retention(), time.time() + 7200)
    outcome = coordinator.run_phase(phase, numbers, dates, lambda report: None, Fill())
    return outcome.results[0]


def _run_setting(backend: str, backend_setting: Any) -> RunSetting:
    return RunSetting(
        run_id=null_responder.RUN_ID,
        content_seed=null_responder.CONTENT_SEED,
        backend=backend,
        backend_setting=backend_setting,
        retention=Retention(),
        verify="all",
        session_kind="opened",
        session_open="head-bucket",
        checksum="crc32c",
        payload_signing=False,
    )


def _wire_setting(endpoint: str) -> Any:
    """Everything a real archive has: signature, lock headers, checksum, one connection per session."""
    return S3Backend(
        S3Options(endpoints=(endpoint,), credentials=Credentials("null", "null", None), region="us-east-1")
    ).setting_for("null", "null/", Retention())
