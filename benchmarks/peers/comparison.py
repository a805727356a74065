"""Archiver compared with other clients: warp, minio-go and wrk, on a null responder and on MinIO."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks import own_worker
from benchmarks.benchmark import Benchmark, Contenders, Experiment, Goal, Ratio
from benchmarks.peers import minio_go, warp, wrk
from benchmarks.peers.base import CPU, RATE, Case, Job, Target
from benchmarks.peers.servers import has_minio, minio_server, null_server
from benchmarks.processes import pinned, usable_cores
from benchmarks.values import Figures, Measured, Results, median_ratio
from results.measures.statistics import PAIRS_MIN, estimate, paired_ratio

ARCHIVER, WARP, MINIO_GO, WRK = "archiver", "warp", "minio-go", "wrk"
MINIO_GO_ALIKE, WRK_FORMATTED = "minio-go, Archiver's options", "wrk, formatted"
NULL, MINIO = "null responder", "MinIO"
SMALL_BYTES, LARGE_BYTES = 8 << 10, 1 << 20
OBJECTS_SMALL = 64
FILLED = "filled/"  # prefix of the objects that are retrieved from MinIO


CASES = (
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
CASES_SMALL = (CASES[0], CASES[6])


def options_of(client: str, case: Case) -> dict[str, str]:
    """Return what a client does with each object."""
    archives = case.operation == "archive"
    if client in (ARCHIVER, MINIO_GO_ALIKE):
        lock, checksum = ("governance", "CRC32C") if archives else ("none", "every byte checked")
        return {"signed": "head", "checksum": checksum, "lock": lock}
    signed = "head and content" if archives and not case.with_tls else "head"
    return {"signed": "nothing" if client in (WRK, WRK_FORMATTED) else signed, "checksum": "none", "lock": "none"}


def clients_of(server: str, case: Case) -> dict[str, Callable[[Job], dict[str, float]]]:
    """Return the installed clients that can carry out this case on this server."""
    found: dict[str, Callable[[Job], dict[str, float]]] = {ARCHIVER: own_worker.run}
    installed = programs_found()
    if installed[WARP] and server == MINIO and case.object_bytes == SMALL_BYTES and case.connections > 1:
        found[WARP] = warp.run
    if installed[MINIO_GO]:
        found[MINIO_GO] = minio_go.run
        if case.operation == "archive":
            found[MINIO_GO_ALIKE] = partial(minio_go.run, as_archiver=True)
    if installed[WRK] and server == NULL:
        found[WRK] = partial(wrk.run, seconds=1)
        found[WRK_FORMATTED] = partial(wrk.run, seconds=1, formatted=True)
    return found


def programs_found() -> dict[str, bool]:
    """Return whether each program is installed."""
    return {
        WARP: warp.PROGRAM.is_installed(),
        MINIO_GO: minio_go.PROGRAM.is_installed(),
        WRK: wrk.is_installed(),
        MINIO: has_minio(),
    }


@contextmanager
def _clients(server: str, case: Case, *, small: bool) -> Iterator[Contenders]:
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
            cost = clients[client](case.job(target, objects // share, next(prefixes)))
            return {**options_of(client, case), **cost}

        clients = clients_of(server, case)
        yield {(case.name, client): partial(run, client) for client in clients}


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
            return with_core_percent(minio_go.run(RATES.job(target, objects, next(prefixes)), as_archiver=True))

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
            "--retain-for", minio_go.LOCK, "--json", "--quiet",
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


def _experiments(small: bool) -> list[Experiment]:
    installed = programs_found()
    found = [
        Experiment(
            f"peers-{server.lower().replace(' ', '-')}",
            f"On {'the ' * (server == NULL)}{server}",
            ("", "client"),
            [_clients(server, case, small=small) for case in (CASES_SMALL if small else CASES)],
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
    experiments=_experiments,
    goals=tuple(
        Goal(
            f"{case.name}, CPU, archiver / {client}",
            median_ratio("peers-null-responder", CPU, (case.name, ARCHIVER), (case.name, client)),
            "at most",
            limit,
        )
        for case in CASES
        for client, limit in case.goals.items()
    ),
    remarks=_remarks,
)
