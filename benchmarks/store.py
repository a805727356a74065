"""The embedded store's archive rate: what its S3 door takes, durably, and what that costs the server.

Archiver's own engine is the load: signed requests with lock headers and a CRC32C, on connections kept open. Store and
clients are pinned to different cores. Every object is durable before its answer, so one client measures the latency of
the disk's syncs; sixteen share each sync, which is what group commit is for.

1 MiB objects are measured beside one process that writes as many bytes to a file in the same folder, with one
fdatasync at the end: the least that the same durability can cost. Rounds are interleaved: every contender once, then
again. Ratios are taken within a round; medians of the rounds are quoted. Server CPU is the store process's user and
system time.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import psutil

from archiver import machine
from archiver.assignment import Assignment, ClientAssignment, IntervalReport
from archiver.retention import DateMaker, Retention
from archiver.sizes import format_size
from archiver.worker import run_phase
from backends.embedded import process
from backends.embedded.process import StoreProcess
from backends.s3 import S3Backend, S3Options
from backends.s3.control import Credentials
from scenarios.model import Phase, StopRule, Workload

BUCKET = "benchmark"
CONTENT_SEED = 1
CLIENT_OBJECTS_MAX = 1_000_000  # object numbers set aside for each client of a round
OBJECTS_PER_SESSION = 16

GOALS = {"sixteen_clients_to_one_min": 4.0, "server_cpu_microseconds_per_object_max": 250.0}

# Writes argv[2] times 1 MiB to the file argv[1] and prints how many seconds that and one fdatasync took.
_WRITER = """
import os, sys, time
data, count = os.urandom(1 << 20), int(sys.argv[2])
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
begin = time.perf_counter()
for _ in range(count):
    os.write(file, data)
os.fdatasync(file)
print(time.perf_counter() - begin)
"""


@dataclass(frozen=True, slots=True)
class Load:
    """So many clients, for so long or until so many objects were archived."""

    object_bytes: int
    clients: int
    seconds: float
    objects_max: int = CLIENT_OBJECTS_MAX


def measure(*, small: bool) -> dict[str, Any]:
    """Rates, server CPU and group sizes of each load and round; ratios; which goals were met."""
    rounds, seconds = (1, 0.5) if small else (5, 5.0)
    large_objects = 16 if small else 1024
    eight_kib = {f"{clients}": Load(8192, clients, seconds) for clients in (1, 16)}
    one_mib = {f"{clients}": Load(1 << 20, clients, 60.0, large_objects) for clients in (1, 4)}
    large_rounds: list[dict[str, Any]] = []
    with _cores() as (store_cores, client_cores), tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as folder:
        device = machine.block_device(Path(folder))
        os.sched_setaffinity(0, store_cores)  # the store inherits them, threads and all
        with process.start(Path(folder) / "small") as store:
            os.sched_setaffinity(0, client_cores)
            _make_bucket(store)
            small_rounds = [
                {name: _archive(store, load, round_number) for name, load in eight_kib.items()}
                for round_number in range(rounds)
            ]
        for round_number in range(rounds):
            with tempfile.TemporaryDirectory(dir=folder) as once:  # so that one round's bytes are on the disk at a time
                os.sched_setaffinity(0, store_cores)
                writer = _write(Path(once) / "file", large_objects)
                with process.start(Path(once) / "store") as store:
                    os.sched_setaffinity(0, client_cores)
                    _make_bucket(store)
                    results = {name: _archive(store, load, round_number) for name, load in one_mib.items()}
            large_rounds.append({**results, "writer": writer})
    ratio = _median_ratio(small_rounds, "16", "1", "objects_per_second")
    cpu = _median(small_rounds, "16", "server_cpu_microseconds_per_object")
    return {
        "rounds": rounds,
        "device": device,
        "archive_8KiB": small_rounds,
        "archive_1MiB": large_rounds,
        "sixteen_clients_to_one": ratio,
        "server_cpu_microseconds_per_object": cpu,
        "share_of_writer_1MiB": {
            name: _median_ratio(large_rounds, name, "writer", "bytes_per_second") for name in one_mib
        },
        "goals": GOALS,
        "goals_met": {
            "sixteen_clients_to_one_min": ratio >= GOALS["sixteen_clients_to_one_min"],
            "server_cpu_microseconds_per_object_max": cpu <= GOALS["server_cpu_microseconds_per_object_max"],
        },
    }


def text(document: dict[str, Any]) -> str:
    """The same as a table of medians."""
    lines = [
        f"embedded S3 door, archive, median of {document['rounds']} interleaved rounds,"
        f" on {document['device'] or 'memory'}",
        f"{'object':<8}{'clients':>9}{'objects/s':>12}{'MB/s':>9}{'server CPU us':>15}{'objects/commit':>16}"
        f"{'objects/sync':>14}",
    ]
    for object_bytes, rounds in ((8192, document["archive_8KiB"]), (1 << 20, document["archive_1MiB"])):
        for name in rounds[0]:
            rate = _median(rounds, name, "bytes_per_second") / 1e6
            line = f"{format_size(object_bytes):<8}{name:>9}"
            if name == "writer":
                lines.append(f"{line}{'':>12}{rate:>9.1f}")
                continue
            rest = [
                _median(rounds, name, key)
                for key in ("server_cpu_microseconds_per_object", "objects_per_commit", "objects_per_sync")
            ]
            objects = _median(rounds, name, "objects_per_second")
            lines.append(f"{line}{objects:>12.0f}{rate:>9.1f}{rest[0]:>15.0f}{rest[1]:>16.1f}{rest[2]:>14.1f}")
    met = document["goals_met"]
    lines += [
        f"16 clients to one: {document['sixteen_clients_to_one']:.1f} (goal: at least"
        f" {GOALS['sixteen_clients_to_one_min']}: {'met' if met['sixteen_clients_to_one_min'] else 'NOT MET'})",
        f"server CPU per object, 16 clients: {document['server_cpu_microseconds_per_object']:.0f} us (goal: at most"
        f" {GOALS['server_cpu_microseconds_per_object_max']:.0f}:"
        f" {'met' if met['server_cpu_microseconds_per_object_max'] else 'NOT MET'})",
        "1 MiB, share of the writer's rate: "
        + ", ".join(f"{share:.0%} with {name} clients" for name, share in document["share_of_writer_1MiB"].items()),
    ]
    return "\n".join(lines)


class _Stopwatch:
    """A channel that starts at once, and counts objects and seconds from there to the last report."""

    def __init__(self) -> None:
        self._begin_ns = 0
        self.objects = 0
        self.errors = 0
        self.seconds = 0.0

    def wait_for_start(self) -> int:
        self._begin_ns = time.monotonic_ns()
        return self._begin_ns

    def report(self, report: IntervalReport) -> None:
        self.seconds = (time.monotonic_ns() - self._begin_ns) / 1e9
        self.objects += sum(tally.objects for tally in report.tallies.values())
        self.errors += sum(tally.errors for tally in report.tallies.values())

    def should_stop(self) -> bool:
        return False


def _archive(store: StoreProcess, load: Load, round_number: int) -> dict[str, float]:
    options = S3Options(
        endpoints=(store.endpoint,),
        credentials=Credentials(store.access_key, store.secret_key, None),
        region="us-east-1",
        session_open="connect",
        keep_sessions_open=True,
    )
    per_client = load.objects_max // load.clients
    per_session = min(per_client, OBJECTS_PER_SESSION)
    workload = Workload("archive", "archive", load.object_bytes, per_session, load.clients)
    stop = StopRule(0, 0.0, 1, 1, 1 << 60, load.seconds, load.seconds, 1 << 60, 1 << 60, 0.0)
    first = round_number * CLIENT_OBJECTS_MAX * 100
    clients = tuple(
        ClientAssignment(client, 0, (first + client * per_client, first + (client + 1) * per_client))
        for client in range(load.clients)
    )
    stopwatch = _Stopwatch()
    before, server = _statistics(store), psutil.Process(store.pid)
    cpu_before = server.cpu_times()
    run_phase(
        Assignment(
            run_id="benchmark",
            content_seed=CONTENT_SEED,
            backend="s3",
            backend_setting=S3Backend(options).setting_for(BUCKET, f"{load.clients}/", Retention()),
            phase=Phase("store", 1, 1, (workload,), stop),
            clients=clients,
            dates=DateMaker(Retention(), time.time() + 7200),
            verify="none",
        ),
        stopwatch,
    )
    cpu, after = server.cpu_times(), _statistics(store)
    assert stopwatch.objects, "the store archived nothing"
    objects = after["objects_written"] - before["objects_written"]  # those under way at the end included
    return {
        "objects": stopwatch.objects,
        "errors": stopwatch.errors,
        "seconds": stopwatch.seconds,
        "objects_per_second": stopwatch.objects / stopwatch.seconds,
        "bytes_per_second": stopwatch.objects * load.object_bytes / stopwatch.seconds,
        "server_cpu_microseconds_per_object": (cpu.user + cpu.system - cpu_before.user - cpu_before.system)
        / objects
        * 1e6,
        "objects_per_commit": objects / (after["commits"] - before["commits"]),
        "objects_per_sync": objects / (after["syncs"] - before["syncs"]),
    }


def _write(path: Path, count: int) -> dict[str, float]:
    """The same bytes by one writer."""
    done = subprocess.run(
        [sys.executable, "-c", _WRITER, str(path), str(count)], check=True, capture_output=True, text=True
    )
    path.unlink()
    seconds = float(done.stdout)
    return {"seconds": seconds, "bytes_per_second": (count << 20) / seconds}


@contextmanager
def _cores() -> Iterator[tuple[list[int], list[int]]]:
    """The store's cores and the clients'; on the way out this process has its own back."""
    cores = sorted(os.sched_getaffinity(0))
    try:
        yield cores[: max(1, len(cores) - 1)], cores[-1:]
    finally:
        os.sched_setaffinity(0, cores)


def _make_bucket(store: StoreProcess) -> None:
    client = boto3.session.Session().client(
        "s3",
        endpoint_url=store.endpoint,
        region_name="us-east-1",
        aws_access_key_id=store.access_key,
        aws_secret_access_key=store.secret_key,
    )
    client.create_bucket(Bucket=BUCKET, ObjectLockEnabledForBucket=True)
    client.close()


def _statistics(store: StoreProcess) -> dict[str, Any]:
    with urllib.request.urlopen(f"{store.endpoint}/-/statistics") as answer:
        document: dict[str, Any] = json.load(answer)
    return document


def _median(rounds: list[dict[str, Any]], name: str, key: str) -> float:
    return float(statistics.median(each[name][key] for each in rounds))


def _median_ratio(rounds: list[dict[str, Any]], name: str, to: str, key: str) -> float:
    return float(statistics.median(each[name][key] / each[to][key] for each in rounds))
