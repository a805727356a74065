"""Client CPU per object: compared with other clients, with busy polling, and the maximum rates of one core.

One idea: one worker on one core works against a server on another core: a null responder, which answers at once, or
MinIO.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from archiver.engine.doctor import CLIENTS, OBJECTS_PER_SESSION, ceilings
from archiver.values.sizes import format_size
from benchmarks import own_worker
from benchmarks.benchmark import (
    Benchmark,
    Contenders,
    Experiment,
    Figures,
    Goal,
    Labels,
    Measured,
    Ratio,
    Results,
    measured_at_once,
    median_ratio,
    medians,
)
from benchmarks.peers import programs
from benchmarks.peers.base import CPU, RATE, Case, Job, Target, has_minio, minio_server, null_server
from benchmarks.peers.python_clients import run_aiohttp, run_boto3
from benchmarks.processes import pinned, usable_cores
from results.measures.statistics import PAIRS_MIN, estimate, paired_ratio

ARCHIVER, AIOHTTP, BOTO3, TLS = "archiver", "aiohttp", "boto3", "archiver, TLS"
WARP, MINIO_GO, WRK = "warp", "minio-go", "wrk"
MINIO_GO_ALIKE, WRK_FORMATTED = "minio-go, Archiver's options", "wrk, formatted"
NULL, MINIO = "null responder", "MinIO"
SMALL_BYTES, LARGE_BYTES = 8 << 10, 1 << 20
OBJECTS_SMALL = 64
FILLED = "filled/"  # prefix of the objects that are retrieved from MinIO
Client = Callable[[Job], Figures]

CASES = (
    Case("archive", SMALL_BYTES, 32_000, goals={AIOHTTP: 0.25, WRK: 2.5, TLS: 1.4}),
    Case("retrieve", SMALL_BYTES, 32_000, goals={AIOHTTP: 0.25, TLS: 1.4}),
    Case("archive", LARGE_BYTES, 1_600, goals={AIOHTTP: 0.85, TLS: 1.8}),
    Case("retrieve", LARGE_BYTES, 1_600, goals={AIOHTTP: 0.33, TLS: 1.8}),
)


@contextmanager
def _in_turns(server: str, case: Case, clients: Mapping[str, Client], *, small: bool) -> Iterator[Contenders]:
    """Start this server on one core, and let the clients carry out a case on another."""
    *_, client_core = cores = usable_cores()
    on_minio, archives = server == MINIO, case.operation == "archive"
    objects = OBJECTS_SMALL if small else case.minio_objects if on_minio else case.objects
    start = minio_server if on_minio else partial(null_server, case.object_bytes)
    prefixes = (f"{turn}/" if archives else FILLED for turn in itertools.count())  # each archived object is new
    with start(cores[:1], with_tls=case.with_tls) as target, pinned([client_core]):
        if on_minio and not archives:
            own_worker.run(replace(case.job(target, objects, FILLED), operation="archive"))

        def run(client: str) -> Figures:
            share = 2 if client.startswith(MINIO_GO) and not on_minio else 1  # it is slower on the null responder
            return clients[client](case.job(target, objects // share, next(prefixes)))

        yield {(case.name, client): partial(run, client) for client in clients}


@contextmanager
def _client_cost(case: Case, *, small: bool) -> Iterator[Contenders]:
    clients: dict[str, Client] = {ARCHIVER: own_worker.run, AIOHTTP: run_aiohttp, BOTO3: run_boto3}
    if programs.has_wrk():
        clients[WRK] = partial(programs.run_wrk, seconds=1 if small else 2)
    with null_server(case.object_bytes, usable_cores()[:1], with_tls=True) as target:
        clients[TLS] = lambda job: own_worker.run(replace(job, target=target))
        with _in_turns(NULL, case, clients, small=small) as contenders:
            yield contenders


def _ratio(case: Case, client: str) -> tuple[Labels, Labels]:
    """Return the rows of which a ratio is judged: Archiver's to the client's; with TLS to without."""
    ours, other = (case.name, ARCHIVER), (case.name, client)
    return (other, ours) if client == TLS else (ours, other)


def _goals(experiment: str, cases: Sequence[Case]) -> tuple[Goal, ...]:
    return tuple(
        Goal(
            f"{case.name}, CPU, {'with TLS / without' if client == TLS else f'archiver / {client}'}",
            median_ratio(experiment, CPU, _ratio(case, client)),
            "at most",
            limit,
        )
        for case in cases
        for client, limit in case.goals.items()
    )


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
            found = median_ratio("client-cost", CPU, _ratio(case, client))(results)
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
            [_client_cost(case, small=small) for case in CASES],
            rounds=1 if small else 5,
            ratios=(
                Ratio("archiver's CPU / its CPU", CPU, ARCHIVER, None),
                Ratio("CPU with TLS / without", CPU, TLS, ARCHIVER),
            ),
        )
    ],
    goals=_goals("client-cost", CASES),
    quote=_quote,
)


# Archiver compared with warp, minio-go and wrk.
PEER_CASES = (
    Case("archive", SMALL_BYTES, 16_384, 1_024, goals={WRK: 2.0, MINIO_GO: 0.20}),
    Case("retrieve", SMALL_BYTES, 16_384, 4_096, goals={MINIO_GO: 0.25}),
    Case("archive", LARGE_BYTES, 768, 128),
    Case("retrieve", LARGE_BYTES, 768, 256),
    Case("archive", SMALL_BYTES, 4_096, 256, connections=1),
    Case("archive", SMALL_BYTES, 8_192, 1_024, with_tls=True, goals={MINIO_GO: 0.5}),
    Case("retrieve", SMALL_BYTES, 8_192, 4_096, with_tls=True, goals={MINIO_GO: 0.5}),
    Case("archive", LARGE_BYTES, 512, 128, with_tls=True, goals={MINIO_GO: 0.7}),
    Case("retrieve", LARGE_BYTES, 512, 256, with_tls=True, goals={MINIO_GO: 0.7}),
)
PEER_CASES_SMALL = (PEER_CASES[0], PEER_CASES[6])


def options_of(client: str, case: Case) -> dict[str, str]:
    """Return what a client does with each object."""
    archives = case.operation == "archive"
    if client in (ARCHIVER, MINIO_GO_ALIKE):
        lock, checksum = ("governance", "CRC32C") if archives else ("none", "every byte checked")
        return {"signed": "head", "checksum": checksum, "lock": lock}
    signed = "head and content" if archives and not case.with_tls else "head"
    return {"signed": "nothing" if client in (WRK, WRK_FORMATTED) else signed, "checksum": "none", "lock": "none"}


def peers_of(server: str, case: Case) -> dict[str, Client]:
    """Return the installed clients that can carry out this case on this server. Their figures have their options."""
    found: dict[str, Client] = {ARCHIVER: own_worker.run}
    installed = programs_found()
    if installed[WARP] and server == MINIO and case.object_bytes == SMALL_BYTES and case.connections > 1:
        found[WARP] = programs.run_warp
    if installed[MINIO_GO]:
        found[MINIO_GO] = programs.run_minio_go
        if case.operation == "archive":
            found[MINIO_GO_ALIKE] = partial(programs.run_minio_go, as_archiver=True)
    if installed[WRK] and server == NULL:
        found[WRK] = partial(programs.run_wrk, seconds=1)
        found[WRK_FORMATTED] = partial(programs.run_wrk, seconds=1, formatted=True)

    def run(name: str, job: Job) -> Figures:
        return {**options_of(name, case), **found[name](job)}

    return {name: partial(run, name) for name in found}


def programs_found() -> dict[str, bool]:
    """Return whether each program is installed."""
    return {
        WARP: programs.WARP.is_installed(),
        MINIO_GO: programs.MINIO_GO.is_installed(),
        WRK: programs.has_wrk(),
        MINIO: has_minio(),
    }


# The rates that Archiver and minio-go report for the same work. The server's core is the limit, so clients that count
# alike agree on them.
RATES = Case("archive", 64 << 10, 0, 1_600)
OURS, OTHER = (RATES.name, ARCHIVER), (RATES.name, MINIO_GO_ALIKE)
SCENARIO = f"""
name = "agreement"
title = "The work that two clients carry out in turns"
[[sweep]]
name = "archive"
operation = "archive"
object_sizes = [{RATES.object_bytes}]
objects_per_session = [10]
clients = [{RATES.connections}]
"""


@contextmanager
def _rates(seconds: float, objects: int) -> Iterator[Contenders]:
    *_, client_core = cores = usable_cores()
    prefixes = (f"agreement/{turn}/" for turn in itertools.count())
    with minio_server(cores[:1]) as target, tempfile.TemporaryDirectory() as home, pinned([client_core]):

        def run_archiver() -> Figures:
            return with_core_percent(_reported(target, Path(home), seconds))

        def run_minio_go() -> Figures:
            return with_core_percent(
                programs.run_minio_go(RATES.job(target, objects, next(prefixes)), as_archiver=True)
            )

        yield {OURS: run_archiver, OTHER: run_minio_go}


def with_core_percent(cost: dict[str, float]) -> Figures:
    """Return the rate, and how busy the client's core was."""
    return {RATE: cost[RATE], "client's core, %": cost[CPU] * cost[RATE] / 1e4}


def _reported(target: Target, home: Path, seconds: float) -> dict[str, float]:
    """Return the rate and the client's CPU as `archiver run` reports them."""
    scenario = home / "agreement.toml"
    scenario.write_text(SCENARIO)
    done = subprocess.run(
        [
            sys.executable, "-m", "archiver", "run", str(scenario), "--endpoint", target.endpoint, "--workers", "1",
            "--session-open", "connect", "--keep-sessions-open", "--set", f"stop.seconds_min={seconds}s",
            "--retain-for", programs.LOCK, "--json", "--quiet",
        ],
        env={
            **os.environ,
            "ARCHIVER_HOME": str(home),
            "AWS_ACCESS_KEY_ID": target.access_key,
            "AWS_SECRET_ACCESS_KEY": target.secret_key,
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )  # fmt: skip
    (result,) = json.loads(done.stdout)["results"]
    return {CPU: result["client"]["cpu_microseconds_per_object"], RATE: result["objects_per_second"]}


def agreement(measured: Measured) -> str:
    """Return in words whether the 95% intervals of both clients' rates overlap, and their ratio."""
    ours, other = (_interval(measured.values(row, RATE)) for row in (OURS, OTHER))
    agree = ours[0] <= other[1] and other[0] <= ours[1]
    found = paired_ratio([math.log(each) for each in measured.ratios(OURS, OTHER, RATE)])
    return (
        f"{RATES.name}: the 95% intervals of archiver's and minio-go's rates, {ours[0]:,.0f} to {ours[1]:,.0f} and"
        f" {other[0]:,.0f} to {other[1]:,.0f}, {'overlap: they agree' if agree else 'do not overlap: THEY DISAGREE'};"
        f" archiver / minio-go within a round: {found.ratio:.2f} ({found.low:.2f} to {found.high:.2f})"
    )


def _interval(rates: list[float]) -> tuple[float, float]:
    found = estimate(rates)
    assert found.low is not None, "too few rounds"
    assert found.high is not None, "too few rounds"
    return found.low, found.high


def _remarks(results: Results) -> list[str]:
    missing = [name for name, found in programs_found().items() if not found]
    lines = [f"{name} is not installed (`make peers`): not measured" for name in missing]
    return [*lines, agreement(results["agreement"])] if "agreement" in results else lines


def _peer_experiments(small: bool) -> list[Experiment]:
    installed, cases = programs_found(), PEER_CASES_SMALL if small else PEER_CASES
    found = [
        Experiment(
            f"peers-{server.lower().replace(' ', '-')}",
            f"On {'the ' * (server == NULL)}{server}",
            ("", "client"),
            [_in_turns(server, case, peers_of(server, case), small=small) for case in cases],
            rounds=1 if small else 3,
            ratios=(Ratio("archiver's CPU / its CPU", CPU, ARCHIVER, None),),
        )
        for server in (NULL, MINIO)
        if installed.get(server, True)
    ]
    if installed[MINIO] and installed[MINIO_GO]:
        rates = _rates(0.1, OBJECTS_SMALL) if small else _rates(4.0, RATES.minio_objects)
        title = "Rates on one MinIO"
        found.append(Experiment("agreement", title, ("", "client"), [rates], rounds=PAIRS_MIN if small else 6))
    return found


PEERS = Benchmark(
    name="peers",
    question="Client CPU and rates compared with warp, minio-go and wrk, on a null responder and MinIO.",
    experiments=_peer_experiments,
    goals=_goals("peers-null-responder", PEER_CASES),
    remarks=_remarks,
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
    with null_server(SMALL_BYTES, cores[:1]) as target, pinned(cores[-1:]):
        job = Job(target, "archive", SMALL_BYTES, connections, objects)
        yield {
            (str(connections), name): partial(_poll, job, busily) for name, busily in (("sleep", False), ("busy", True))
        }


def _poll(job: Job, busily: bool) -> Figures:
    counter, report = own_worker.carry_out_job(job, 100, polls_busily=busily)
    return {
        RATE: counter.objects / ((report.ended_ns - report.began_ns) / 1e9),
        CPU: (report.cpu[-1].used_seconds - report.cpu[0].used_seconds) / counter.objects * 1e6,
        "median object, µs": counter.latency().p50 * 1e3,
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
            median_ratio("polling", RATE, (("1", "busy"), ("1", "sleep"))),
            "at least",
            1.6,
        ),
    ),
)
