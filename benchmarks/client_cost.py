"""Client CPU per object: compared with other clients, with busy polling, and the maximum rates of one core.

One idea: one worker on one core works against a null responder on another core, which answers at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from archiver.engine.doctor import CLIENTS, OBJECTS_PER_SESSION, ceilings
from archiver.values.sizes import format_size
from benchmarks import own_worker
from benchmarks.benchmark import Benchmark, Contenders, Experiment, Goal, Ratio, measured_at_once
from benchmarks.peers import wrk
from benchmarks.peers.base import CPU, RATE, Case, Job
from benchmarks.peers.python_clients import run_aiohttp, run_boto3
from benchmarks.peers.servers import null_server
from benchmarks.processes import pinned, usable_cores
from benchmarks.values import Figures, Labels, Results, median_ratio, medians

ARCHIVER, AIOHTTP, BOTO3, WRK, TLS = "archiver", "aiohttp", "boto3", "wrk", "archiver, TLS"
CASES = (
    Case("archive", 8192, 32_000, goals={AIOHTTP: 0.25, WRK: 2.5, TLS: 1.4}),
    Case("retrieve", 8192, 32_000, goals={AIOHTTP: 0.25, TLS: 1.4}),
    Case("archive", 1 << 20, 1_600, goals={AIOHTTP: 0.85, TLS: 1.8}),
    Case("retrieve", 1 << 20, 1_600, goals={AIOHTTP: 0.33, TLS: 1.8}),
)


@contextmanager
def _clients(case: Case, *, small: bool) -> Iterator[Contenders]:
    *_, client_core = cores = usable_cores()
    clients = {ARCHIVER: own_worker.run, AIOHTTP: run_aiohttp, BOTO3: run_boto3}
    if wrk.is_installed():
        clients[WRK] = partial(wrk.run, seconds=1 if small else 2)
    with (
        null_server(case.object_bytes, cores[:1]) as target,
        null_server(case.object_bytes, cores[:1], with_tls=True) as tls_target,
        pinned([client_core]),
    ):
        job = case.job(target, 64 if small else case.objects)
        jobs = {name: partial(run, job) for name, run in clients.items()}
        jobs[TLS] = partial(own_worker.run, replace(job, target=tls_target))
        yield {(case.name, name): run for name, run in jobs.items()}


def _ratio(case: Case, client: str) -> tuple[Labels, Labels]:
    """Return the rows of which a ratio is judged: Archiver's to the client's; with TLS to without."""
    ours, other = (case.name, ARCHIVER), (case.name, client)
    return (other, ours) if client == TLS else (ours, other)


def _quote(results: Results) -> str:
    """Return the table of README.md."""
    lines = [
        "| | Archiver | aiohttp | boto3 | wrk | Archiver / aiohttp | Archiver / wrk |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for case in CASES:
        cells = [f"{case.operation} {'8 KiB' if case.object_bytes == 8192 else '1 MiB'}"]
        for client, digits in ((ARCHIVER, 1), (AIOHTTP, 1), (BOTO3, 0), (WRK, 1)):
            found = medians("client-cost", CPU, (case.name, client))(results)
            cells.append(f"{found[0]:.{digits}f} µs" if found else "–")
        for client in (AIOHTTP, WRK):
            found = median_ratio("client-cost", CPU, *_ratio(case, client))(results)
            cells.append(f"{found[0]:.2f}" if found else "–")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


CLIENT_COST = Benchmark(
    name="client-cost",
    question="Client CPU per object: Archiver compared with aiohttp, boto3 and wrk.",
    experiments=lambda small: [
        Experiment(
            "client-cost",
            "Cost of an object, 16 connections",
            ("", "client"),
            [_clients(case, small=small) for case in CASES],
            rounds=1 if small else 5,
            ratios=(
                Ratio("archiver's CPU / its CPU", CPU, ARCHIVER, None),
                Ratio("CPU with TLS / without", CPU, TLS, ARCHIVER),
            ),
        )
    ],
    goals=tuple(
        Goal(
            f"{case.name}, CPU, {'with TLS / without' if client == TLS else f'archiver / {client}'}",
            median_ratio("client-cost", CPU, *_ratio(case, client)),
            "at most",
            limit,
        )
        for case in CASES
        for client, limit in case.goals.items()
    ),
    quote=_quote,
)


def _ceilings(seconds: float, objects_per_session: int) -> dict[Labels, Figures]:
    found: dict[Labels, Figures] = {}
    for limit, result in ((each.limit, each.result) for each in ceilings(seconds, objects_per_session)):
        assert not result.errors, f"{result.errors} operations failed"
        found[limit, str(result.operation), format_size(result.object_bytes)] = {RATE: result.objects_per_second}
    return found


CEILINGS = Benchmark(
    name="ceilings",
    question="Maximum rates of one worker on one core.",
    experiments=lambda small: [
        Experiment(
            "ceilings",
            f"{CLIENTS} clients",
            ("limit", "operation", "object size"),
            [measured_at_once(partial(_ceilings, 0.05 if small else 5.0, 5 if small else OBJECTS_PER_SESSION))],
        )
    ],
)


@contextmanager
def _polling(connections: int, objects: int) -> Iterator[Contenders]:
    cores = usable_cores()
    with null_server(8192, cores[:1]) as target, pinned(cores[-1:]):
        job = Job(target, "archive", 8192, connections, objects)
        yield {
            (str(connections), name): partial(_poll, job, busily) for name, busily in (("sleep", False), ("busy", True))
        }


def _poll(job: Job, busily: bool) -> Figures:
    counter, report = own_worker.carry_out_job(job, 100, polls_busily=busily)
    latency = counter.service.latency()
    assert latency is not None, "nothing was archived"
    return {
        RATE: counter.objects / ((report.ended_ns - report.began_ns) / 1e9),
        CPU: (report.cpu[-1].used_seconds - report.cpu[0].used_seconds) / counter.objects * 1e6,
        "median object, µs": latency.p50 * 1e3,
    }


POLLING = Benchmark(
    name="polling",
    question="Busy polling: objects/s, CPU and times of 1 and 16 connections.",
    experiments=lambda small: [
        Experiment(
            "polling",
            "8 KiB archive by one worker",
            ("connections", "waiting"),
            [_polling(connections, 400 if small else 32_000) for connections in (1, 16)],
            rounds=1 if small else 7,
            ratios=(Ratio("objects/s, busy / sleep", RATE, "busy", "sleep"),),
        )
    ],
    goals=(
        Goal(
            "1 connection, objects/s, busy / sleep",
            median_ratio("polling", RATE, ("1", "busy"), ("1", "sleep")),
            "at least",
            1.6,
        ),
    ),
)
