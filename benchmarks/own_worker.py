"""The engine's own worker in this process, on one server: what Archiver itself costs, and how fast it is."""

from __future__ import annotations

import functools
import resource
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from archiver.engine.work.worker import run_phase
from archiver.engine.worker.assignment import Assignment, ClientAssignment
from archiver.measure.histogram import Histogram
from archiver.measure.reports import IntervalReport, PhaseReport
from archiver.values.retention import DateMaker, Retention
from backends.s3 import S3Backend, S3Options, null_responder
from backends.s3.control import Credentials
from backends.s3.setting import S3WorkerSetting
from benchmarks.peers.base import BUCKET, KEY_PREFIX, Cost, Job, Target
from scenarios.model import Phase, Workload
from scenarios.work.mix import OperationName
from scenarios.work.sessions import AllObjects, Sessions

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

    def should_finish(self) -> bool:
        return False


@functools.cache  # half a second of boto3's
def s3_setting(
    target: Target, bucket: str = BUCKET, prefix: str = KEY_PREFIX, *, keep_sessions_open: bool = True
) -> S3WorkerSetting:
    """Return the setting of a worker on this server."""
    return s3_backend(target, keep_sessions_open=keep_sessions_open).setting_for(bucket, prefix, Retention())


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


def archiver_cost(endpoint: str, operation: OperationName, object_bytes: int, objects: int, connections: int) -> float:
    """Microseconds of client CPU per object, of the engine's own worker on the null responder."""
    return archiver_run(Job(Target(endpoint), operation, object_bytes, connections, objects)).cpu_microseconds


def archiver_run(job: Job) -> Cost:
    """Carry out a job by the engine's own worker, in this process: four sessions of each connection."""
    counter, report = carry_out(job, max(1, job.objects // job.connections // 4))
    seconds = (report.ended_ns - report.began_ns) / 1e9
    return Cost(counter.cpu_seconds / counter.objects * 1e6, counter.objects / seconds)


def carry_out(job: Job, per_session: int, *, polls_busily: bool = False) -> tuple[Counter, PhaseReport]:
    """Carry out a job by the engine's own worker, in this process, in whole sessions of so many objects."""
    per_client = max(1, job.objects // job.connections // per_session) * per_session
    work = Sessions(job.operation, job.object_bytes, AllObjects())
    workload = Workload(job.operation, work, job.connections, per_session)
    clients = []
    for client in range(job.connections):
        first, end = client * per_client, (client + 1) * per_client
        numbers = (first, end) if job.operation == "archive" else np.arange(first, end)
        clients.append(ClientAssignment(client, 0, numbers))
    given = assignment(workload, "s3", replace(s3_setting(job.target), prefix=job.prefix), clients)
    return carried_out(replace(given, polls_busily=polls_busily))


def assignment(workload: Workload, backend: str, setting: Any, clients: Sequence[ClientAssignment] = ()) -> Assignment:
    """Return the assignment of a worker that carries out one workload, with the null responder's content."""
    return Assignment(
        run_id=null_responder.RUN_ID,
        content_seed=null_responder.CONTENT_SEED,
        backend=backend,
        backend_setting=setting,
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
