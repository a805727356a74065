"""The engine's own worker in this process, on one server: Archiver's own cost and rate."""

from __future__ import annotations

import functools
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from archiver.engine.work.worker import run_phase
from archiver.engine.worker.assignment import Assignment, ClientAssignment
from archiver.measure.histogram import Histogram
from archiver.measure.reports import IntervalReport, PhaseReport
from archiver.values.retention import DateMaker, Retention
from backends.s3 import S3Backend, S3Options, null_responder
from backends.s3.control import Credentials
from benchmarks.peers.base import BUCKET, KEY_PREFIX, Job, Target, cost
from results.recorded.model import Latency
from scenarios.model import Phase, Workload
from scenarios.work.mix import OperationName
from scenarios.work.sessions import AllObjects, InWindow, Sessions

LOCKED_SECONDS = 7200.0  # at most: the objects' dates are no later


class Counter:
    """A channel that starts at once, and counts from there to the last report."""

    def __init__(self) -> None:
        self.sessions = 0
        self.objects = 0
        self.errors = 0
        self.service = Histogram()
        self.seconds = 0.0
        self.cpu_seconds = 0.0

    def latency(self) -> Latency:
        """Return the service times of all objects."""
        latency = self.service.latency()
        assert latency is not None, "nothing was done"
        return latency

    def wait_for_start(self) -> int:
        self._cpu_from, self._began_ns = own_cpu_seconds(), time.monotonic_ns()
        return self._began_ns

    def report(self, report: IntervalReport) -> None:
        self.seconds = (time.monotonic_ns() - self._began_ns) / 1e9
        self.cpu_seconds = own_cpu_seconds() - self._cpu_from
        for tally in report.tallies.values():
            self.sessions += tally.sessions
            self.objects += tally.objects
            self.errors += tally.errors
            if "object_service" in tally.histograms:
                self.service.add_all(tally.histograms["object_service"])

    def should_stop(self) -> bool:
        return False

    should_finish = should_stop


@dataclass(frozen=True, slots=True)
class Way:
    """How a worker reaches a platform: a backend and its worker setting."""

    backend: str
    setting: Any


@dataclass(frozen=True, slots=True)
class Load:
    """The work of a worker's clients, for ``seconds``; None: until they have done all objects."""

    operation: OperationName | Literal["audit"]
    object_bytes: int
    clients: int
    objects_per_session: int
    seconds: float | None = None


@functools.cache  # making boto3's client takes half a second
def s3_way(target: Target, bucket: str = BUCKET, prefix: str = KEY_PREFIX, *, keep_sessions_open: bool = True) -> Way:
    """Return the way to a server's bucket by S3."""
    backend = s3_backend(target, keep_sessions_open=keep_sessions_open)
    return Way("s3", backend.setting_for(bucket, prefix, Retention()))


def s3_backend(target: Target, *, keep_sessions_open: bool = True) -> S3Backend:
    """Return the backend of this server."""
    return S3Backend(
        S3Options(
            endpoints=(target.endpoint,),
            credentials=Credentials(target.access_key, target.secret_key, None),
            region="us-east-1",
            session_open="connect",
            keep_sessions_open=keep_sessions_open,
            ca_bundle=str(null_responder.CERTIFICATE) if target.has_tls else None,
        )
    )


def run(job: Job) -> dict[str, float]:
    """Carry out a job by the engine's own worker, in this process: four sessions of each connection."""
    counter, report = carry_out_job(job, max(1, job.objects // job.connections // 4))
    return cost(counter.cpu_seconds, (report.ended_ns - report.began_ns) / 1e9, counter.objects)


def carry_out_job(job: Job, per_session: int, *, polls_busily: bool = False) -> tuple[Counter, PhaseReport]:
    """Carry out a job by the engine's own worker, in this process, in whole sessions of ``per_session`` objects."""
    per_client = max(1, job.objects // job.connections // per_session) * per_session
    load = Load(job.operation, job.object_bytes, job.connections, per_session)
    way = s3_way(job.target)
    way = replace(way, setting=replace(way.setting, prefix=job.prefix))
    return carry_out(way, load, np.arange(job.connections * per_client), polls_busily=polls_busily)


def carry_out(way: Way, load: Load, numbers: NDArray[np.int64], **more: Any) -> tuple[Counter, PhaseReport]:
    """Carry out a load by the engine's own worker, in this process. Every operation must succeed.

    Each client gets an equal share of the object numbers. ``more``: further fields of the worker's assignment.
    """
    share = len(numbers) // load.clients
    parts = [numbers[client * share : (client + 1) * share] for client in range(load.clients)]
    clients = [
        ClientAssignment(client, 0, (int(part[0]), int(part[-1]) + 1) if load.operation == "archive" else part)
        for client, part in enumerate(parts)
    ]
    stop = AllObjects() if load.seconds is None else InWindow(load.seconds, client_bytes_max=1 << 60)
    work = Sessions(load.operation, load.object_bytes, stop)
    workload = Workload(load.operation, work, load.clients, load.objects_per_session)
    return carried_out(replace(assignment(workload, way, clients), **more))


def assignment(workload: Workload, way: Way, clients: Sequence[ClientAssignment] = ()) -> Assignment:
    """Return the assignment of a worker that carries out one workload, with the null responder's content."""
    return Assignment(
        run_id=null_responder.RUN_ID,
        content_seed=null_responder.CONTENT_SEED,
        backend=way.backend,
        backend_setting=way.setting,
        phase=Phase("benchmark", 1, 1, (workload,)),
        clients=tuple(clients),
        dates={None: DateMaker(Retention(), time.time() + LOCKED_SECONDS)},
        verify="all",
    )


def carried_out(given: Assignment) -> tuple[Counter, PhaseReport]:
    """Carry out an assignment by the engine's own worker, in this process. Every operation must succeed."""
    counter = Counter()
    report = run_phase(given, counter)
    assert not counter.errors, f"{counter.errors} operations failed"
    assert counter.objects, "no operation was carried out"
    return counter, report


def own_cpu_seconds() -> float:
    """Return this process's user and system time."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
