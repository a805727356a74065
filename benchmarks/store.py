"""The embedded store under load: through its S3 server, through its TSM server, and audits compared with retrievals.

One idea: Archiver's own engine is the load, in this process. Store and clients are pinned to different cores. Server
CPU is the store process's user and system time; client CPU is this process's, from the start to the last report.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from archiver.machine import description as machine
from archiver.values.content import Content
from archiver.values.retention import Retention
from archiver.values.sizes import format_size
from backends.base import ExpectedLock, Location, RunPlan
from backends.embedded import process
from backends.embedded.core.changes.objects import CreateBucket, PutVersion
from backends.embedded.core.files.digests import Digests
from backends.embedded.core.store import Store
from backends.embedded.process import StoreProcess
from backends.s3 import null_responder
from backends.tsm.backend import TsmBackend, TsmOptions
from backends.tsm.library.configuration import private_configuration
from benchmarks.benchmark import (
    Benchmark,
    Contenders,
    Experiment,
    Figures,
    Goal,
    Labels,
    Ratio,
    Results,
    median_ratio,
    medians,
)
from benchmarks.own_worker import LOCKED_SECONDS, Load, Way, carry_out, s3_backend, s3_way
from benchmarks.peers.base import CPU, RATE, Target, boto3_client, make_bucket
from benchmarks.processes import memory_of, pinned, usable_cores
from scenarios.work.mix import OperationName

BUCKET = "benchmark"
S3, S3_CLOSING, TSM = "S3", "S3, closing", "TSM"
PREFIX = "b/"
MEGABYTES, SERVER_CPU, SYNCS = "MB/s", "server CPU per object, µs", "syncs per session"
OBJECTS, SESSIONS, P50, P99 = "objects", "sessions", "p50, ms", "p99, ms"
BUSY = ("server's cores, %", "its busiest thread, %", "disk busy, %")
OBJECTS_MAX = 1_000_000  # of a load that ends after some seconds

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
_firsts = itertools.count(step=100 * OBJECTS_MAX)  # no two loads archive the same object


def archive(store: StoreProcess, way: Way, load: Load, objects: int = OBJECTS_MAX) -> dict[str, float]:
    """Archive at most this number of new objects; return the figures of ``carry_out_on``, and of commits and syncs."""
    first, before = next(_firsts), statistics_of(store)
    found = carry_out_on(store, way, load, np.arange(first, first + objects), verify="none")
    after = statistics_of(store)
    # These counts include the objects that are under way at the end.
    written, commits, syncs = (after[name] - before[name] for name in ("objects_written", "commits", "syncs"))
    return {
        **found,
        SERVER_CPU: found[SERVER_CPU] * found[OBJECTS] / written,
        "objects per commit": written / commits,
        "objects per sync": written / syncs,
        SYNCS: syncs / max(1, found[SESSIONS]),
    }


def carry_out_on(
    store: StoreProcess, way: Way, load: Load, numbers: NDArray[np.int64], **more: Any
) -> dict[str, float]:
    """Carry out a load on these objects; return rates, times, and the usage of client and server.

    ``more``: further fields of the worker's assignment.
    """
    server = _Server(store)
    counter, _ = carry_out(way, load, numbers, **more)
    used, latency = server.used(counter.seconds), counter.latency()
    return {
        OBJECTS: counter.objects,
        SESSIONS: counter.sessions,
        RATE: counter.objects / counter.seconds,
        MEGABYTES: counter.objects * load.object_bytes / counter.seconds / 1e6,
        P50: latency.p50,
        P99: latency.p99,
        CPU: counter.cpu_seconds / counter.objects * 1e6,
        SERVER_CPU: used.pop("seconds") / counter.objects * 1e6,
        **used,
    }


class _Server:
    """Usage of the store's process, its busiest thread, its cores and its disk since this object was made."""

    def __init__(self, store: StoreProcess) -> None:
        self._process = psutil.Process(store.pid)
        self._cores = os.sched_getaffinity(store.pid)
        self._devices = machine.disks_under(store.data_dir)
        self._before = self._now()

    def _now(self) -> tuple[float, dict[int, float], float, float]:
        cpu = self._process.cpu_times()
        threads = {each.id: each.user_time + each.system_time for each in self._process.threads()}
        disks = psutil.disk_io_counters(perdisk=True)
        busy_ms = max((disks[device].busy_time for device in self._devices if device in disks), default=0)
        cores = psutil.cpu_times(percpu=True)
        # Everything on these cores counts: the kernel writes back what the store wrote, and does its network traffic.
        cores_busy = sum(sum(cores[core][:3]) + sum(cores[core][5:8]) for core in self._cores)
        return cpu.user + cpu.system, threads, busy_ms / 1000, cores_busy

    def used(self, seconds: float) -> dict[str, float]:
        cpu_before, threads_before, busy_before, cores_before = self._before
        cpu, threads, busy, cores_busy = self._now()
        busiest = max(used - threads_before.get(thread, 0.0) for thread, used in threads.items())
        shares = (cores_busy - cores_before) / len(self._cores), busiest, busy - busy_before
        percent = dict(zip(BUSY, (share / seconds * 100 for share in shares), strict=True))
        return {"seconds": cpu - cpu_before, **percent}


def store_cores() -> list[int]:
    """Return all usable cores but the last one; the only one if there is no other."""
    return usable_cores()[:-1] or usable_cores()


@dataclass(frozen=True, slots=True)
class Stores:
    """A folder for stores that are reached by both protocols, on one port one after another.

    The port is always the same because the TSM library reads its option files once per process.
    """

    folder: Path
    tsm_port: int
    configuration: Path

    @contextmanager
    def start(self) -> Iterator[StoreProcess]:
        """Run a store with an empty bucket on all usable cores but one. Pin this process, its client, to that one."""
        client_core = usable_cores()[-1:]
        with tempfile.TemporaryDirectory(dir=self.folder) as own:
            with pinned(store_cores()):  # the store inherits them, threads and all
                starting = process.start(Path(own) / "store", tsm_port=self.tsm_port)
            with starting as store, pinned(client_core):
                make_bucket(target_of(store), BUCKET)
                yield store

    def way(self, store: StoreProcess, protocol: str) -> Way:
        """Return the way to a store by S3, S3_CLOSING (with a connection for each session) or TSM."""
        if protocol != TSM:
            return s3_way(target_of(store), BUCKET, PREFIX, keep_sessions_open=protocol == S3)
        options = TsmOptions(node=store.node, password=store.node_password, configuration=self.configuration)
        backend = TsmBackend(options)
        backend.profile()
        backend.locate(RunPlan("b", Retention()))
        backend.prepare()
        return Way("tsm", backend.worker_setting())

    def write_file(self, mebibytes: int) -> dict[str, float]:
        """Let one process write a file, with one sync at the end."""
        with pinned(store_cores()), tempfile.TemporaryDirectory(dir=self.folder) as own:
            command = [sys.executable, "-c", _WRITER, str(Path(own) / "file"), str(mebibytes)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        return {RATE: mebibytes / float(done.stdout), MEGABYTES: (mebibytes << 20) / float(done.stdout) / 1e6}


@contextmanager
def stores() -> Iterator[Stores]:
    """Return an empty folder for stores."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    with (
        tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as folder,
        private_configuration("127.0.0.1", port) as configuration,
    ):
        yield Stores(Path(folder), port, configuration)


def target_of(store: StoreProcess) -> Target:
    """Return the store's S3 server."""
    return Target(store.endpoint, store.access_key, store.secret_key)


def statistics_of(store: StoreProcess) -> dict[str, Any]:
    with urllib.request.urlopen(f"{store.endpoint}/-/statistics") as answer:
        document: dict[str, Any] = json.load(answer)
    return document


SMALL_BYTES, LARGE_BYTES = 8 << 10, 1 << 20
SMALL, LARGE = format_size(SMALL_BYTES), format_size(LARGE_BYTES)
WRITER = "a writer of one file"
BUSY_PERCENT_MIN = 90.0


Rows = Mapping[Labels, tuple[str, Load]]  # protocol and load


@contextmanager
def _on_one_store(rows: Rows, seconds: float) -> Iterator[Contenders]:
    """Archive small objects for ``seconds``, one row after another to the same store."""
    with stores() as folder, folder.start() as store:
        ways = {protocol: folder.way(store, protocol) for protocol, _ in rows.values()}

        def measure(protocol: str, load: Load) -> Figures:
            return archive(store, ways[protocol], replace(load, seconds=seconds))

        yield {row: partial(measure, *each) for row, each in rows.items()}


@contextmanager
def _on_new_stores(rows: Rows, objects: int) -> Iterator[Contenders]:
    """Archive large objects, each row to a store of its own. The last row is a process that writes a file as large."""
    with stores() as folder:

        def measure(protocol: str, load: Load) -> Figures:
            per_session = min(load.objects_per_session, objects // load.clients)
            with folder.start() as store:
                way = folder.way(store, protocol)
                return archive(store, way, replace(load, objects_per_session=per_session), objects)

        writer = (*next(iter(rows))[:-1], WRITER)
        yield {
            **{row: partial(measure, *each) for row, each in rows.items()},
            writer: partial(folder.write_file, objects),
        }


def clients(count: int) -> str:
    return f"{count} client{'s' * (count > 1)}"


def device() -> str:
    """Return the disks under the stores, for titles."""
    return ", ".join(machine.disks_under(Path(tempfile.gettempdir()))) or "memory"


THROUGH_TSM = "16 clients through TSM"
STORE_SMALL: Rows = {(SMALL, clients(count)): (S3, Load("archive", SMALL_BYTES, count, 16)) for count in (1, 16)}
STORE_LARGE: Rows = {
    **{(LARGE, clients(count)): (S3, Load("archive", LARGE_BYTES, count, 16)) for count in (1, 4, 16)},
    (LARGE, THROUGH_TSM): (TSM, Load("archive", LARGE_BYTES, 16, 16)),
}
ONE, SIXTEEN = STORE_SMALL

STORE = Benchmark(
    name="store",
    question="The embedded store: archive rates, CPU per object, commits per sync.",
    experiments=lambda small: [
        Experiment(
            "store",
            f"Archive through the S3 server, and through the TSM server, on {device()}",
            ("object size", "by"),
            [
                _on_one_store(STORE_SMALL, 0.1 if small else 5.0),
                _on_new_stores(STORE_LARGE, 16 if small else 1024),
            ],
            rounds=1 if small else 3,
            ratios=(Ratio("MB/s to a writer", MEGABYTES, None, WRITER),),
        )
    ],
    goals=(
        Goal("8KiB, objects/s, 16 clients / 1 client", median_ratio("store", RATE, (SIXTEEN, ONE)), "at least", 4.0),
        Goal("8KiB, 16 clients, server CPU per object, µs", medians("store", SERVER_CPU, SIXTEEN), "at most", 180.0),
        Goal(
            "1MiB, 16 clients, MB/s, S3 / TSM",
            median_ratio("store", MEGABYTES, ((LARGE, clients(16)), (LARGE, THROUGH_TSM))),
            "at least",
            0.5,
        ),
    ),
)

PARALLEL = "250"  # objects per session
TSM_SESSIONS: Rows = {
    (str(count), name): (protocol, Load("archive", SMALL_BYTES, 1, count))
    for count in (1, 10, 100, 500)
    for name, protocol in ((TSM, TSM), (S3, S3_CLOSING))
}
TRANSACTIONS = (SMALL, "1", clients(16))


def _parallel(size_bytes: int) -> Rows:
    rows = {clients(count): (TSM, Load("archive", size_bytes, count, 250)) for count in (1, 2, 4)}
    return {(format_size(size_bytes), PARALLEL, name): row for name, row in rows.items()}


PARALLEL_SMALL, PARALLEL_LARGE = _parallel(SMALL_BYTES), _parallel(LARGE_BYTES)
# The rows of more clients, each with that of one client.
MORE_CLIENTS = {one: [(row, one) for row in others] for one, *others in map(list, (PARALLEL_SMALL, PARALLEL_LARGE))}
ONE_LARGE, WRITER_LARGE = next(iter(PARALLEL_LARGE)), (LARGE, PARALLEL, WRITER)


def gains_if_idle(results: Results) -> list[float]:
    """Return the largest gain by more clients, for each size with which one client leaves the server idle."""
    return [
        max(median_ratio("tsm-clients", MEGABYTES, *pairs)(results))
        for one, pairs in MORE_CLIENTS.items()
        if max(results["tsm-clients"].median(one, name) for name in BUSY) < BUSY_PERCENT_MIN
    ]


TSM_BENCHMARK = Benchmark(
    name="tsm",
    question="TSM sessions on the embedded store: batching, CPU on both sides, clients in parallel.",
    experiments=lambda small: [
        Experiment(
            "tsm",
            f"Archive 8 KiB, one client, on {device()}",
            ("objects per session", "through"),
            [_on_one_store(TSM_SESSIONS, 0.1 if small else 2.0)],
            rounds=1 if small else 3,
            ratios=(Ratio("objects/s, TSM / S3", RATE, TSM, S3),),
        ),
        Experiment(
            "tsm-clients",
            f"Clients in parallel through TSM, on {device()}",
            ("object size", "objects per session", "by"),
            [
                _on_one_store(
                    {**PARALLEL_SMALL, TRANSACTIONS: (TSM, Load("archive", SMALL_BYTES, 16, 1))}, 0.1 if small else 2.0
                ),
                _on_new_stores(PARALLEL_LARGE, 16 if small else 1000),
            ],
            rounds=1 if small else 3,
            ratios=(Ratio("MB/s to one client", MEGABYTES, None, clients(1)),),
        ),
    ],
    goals=(
        Goal(
            "500 a session, objects/s, TSM / S3", median_ratio("tsm", RATE, (("500", TSM), ("500", S3))), "at least", 15
        ),
        Goal("500 a session, server CPU per object, µs", medians("tsm", SERVER_CPU, ("500", TSM)), "at most", 45),
        Goal("500 a session, client CPU per object, µs", medians("tsm", CPU, ("500", TSM)), "at most", 25),
        Goal(
            "1MiB, 1 client / a writer of one file",
            median_ratio("tsm-clients", MEGABYTES, (ONE_LARGE, WRITER_LARGE)),
            "at least",
            0.35,
        ),
        Goal(
            "more clients / 1 client",
            median_ratio("tsm-clients", MEGABYTES, *itertools.chain(*MORE_CLIENTS.values())),
            "at least",
            0.95,
        ),
        Goal(
            f"gain by more clients, if 1 client keeps no core, thread or disk {BUSY_PERCENT_MIN:.0f}% busy",
            gains_if_idle,
            "at least",
            1.2,
        ),
        Goal("group commit, syncs per transaction", medians("tsm-clients", SYNCS, TRANSACTIONS), "below", 1.0),
    ),
)

AUDIT_CLIENTS, AUDIT_PER_SESSION = 4, 50
AUDITED = [((size, "audit"), (size, "retrieve")) for size in (SMALL, LARGE)]


@contextmanager
def _audit(size_bytes: int, objects: int) -> Iterator[Contenders]:
    lock, now = Retention(), time.time()
    earliest = now + (lock.retain_for_seconds or 0.0) - 60
    expected = ExpectedLock(0, objects - 1, lock, earliest, now + LOCKED_SECONDS)
    order = np.random.Generator(np.random.PCG64(1)).permutation(objects)
    with stores() as folder, folder.start() as store:
        way = folder.way(store, S3)
        archives = Load("archive", size_bytes, AUDIT_CLIENTS, AUDIT_PER_SESSION)
        audits, retrieves = replace(archives, operation="audit"), replace(archives, operation="retrieve")
        carry_out_on(store, way, archives, np.arange(objects))
        yield {
            (format_size(size_bytes), load.operation): partial(
                carry_out_on, store, way, load, order, expected=(expected,)
            )
            for load in (retrieves, audits)
        }


AUDIT = Benchmark(
    name="audit",
    question="Auditing compared with retrieving the same objects.",
    experiments=lambda small: [
        Experiment(
            "audit",
            f"{AUDIT_CLIENTS} clients in one worker",
            ("object size", "operation"),
            # Whole sessions for every client.
            [_audit(SMALL_BYTES, 200 if small else 16_000), _audit(LARGE_BYTES, 200 if small else 400)],
            rounds=1 if small else 5,
            ratios=(
                Ratio("objects/s, audit / retrieve", RATE, "audit", "retrieve"),
                Ratio("CPU, audit / retrieve", CPU, "audit", "retrieve"),
            ),
        )
    ],
    goals=(
        Goal("client CPU, audit / retrieve", median_ratio("audit", CPU, *AUDITED), "at most", 1.25),
        Goal("objects/s, audit / retrieve", median_ratio("audit", RATE, *AUDITED), "at least", 0.85),
    ),
)

# Many objects in one bucket. A ratio is to the smallest store: near 1, it does not depend on the number.
MANY_BYTES = 1024  # of each object
PAGES = 10
NUMBERS = 20_000  # of a load: more than it does
OPERATIONS: tuple[OperationName, ...] = ("archive", "retrieve", "head")
_IN_FLIGHT = 1000
RATES, REMOVE = [f"{operation}, {RATE}" for operation in OPERATIONS], f"remove, {RATE}"


class Filled:
    """A store with ``count`` objects in one bucket."""

    def __init__(self, folder: Path, count: int, stack: ExitStack) -> None:
        self.once: dict[str, float] = {}  # figures that are measured once
        self._folder = folder / str(count)
        self._count = count
        self._bucket = f"objects-{count}"
        self._random = random.Random(count)
        self._new = itertools.count(count, NUMBERS)
        self._stack = stack
        self.once["fill, objects/s"] = count / asyncio.run(_fill(self._folder, self._bucket, count))
        self._store = self._start("start, s")
        self.once["store after start, MB"] = memory_of(self._store.pid).resident / 1e6

    def _start(self, name: str) -> StoreProcess:
        began = time.perf_counter()
        store = self._stack.enter_context(process.start(self._folder, ready_seconds_max=600))
        self.once[name] = time.perf_counter() - began
        return store

    def measure(self, seconds: float) -> Figures:
        """Carry out each operation for ``seconds`` by one client, and list some pages."""
        new = next(self._new) + np.arange(NUMBERS)
        old = np.array(self._random.choices(range(self._count), k=NUMBERS), dtype=np.int64)
        way = s3_way(target_of(self._store), self._bucket, PREFIX)
        found: dict[str, float | str] = {}
        for operation in OPERATIONS:
            load = Load(operation, MANY_BYTES, 1, 20, seconds)
            figures = carry_out_on(self._store, way, load, new if operation == "archive" else old)
            found |= {f"{operation}, {name}": figures[name] for name in (RATE, P50, P99)}
        return {**found, **self._listings()}

    def _listings(self) -> Figures:
        """Return the median milliseconds for 1,000 keys and for 1,000 versions, from random places."""
        client = boto3_client(target_of(self._store))
        keys, versions = [], []
        page_keys = min(self._count, 1000) // 2  # so that a page is full, wherever it begins
        for _ in range(PAGES):
            after = f"{PREFIX}{self._random.randrange(self._count - page_keys):012d}"
            began = time.perf_counter()
            page = client.list_objects_v2(Bucket=self._bucket, Prefix=PREFIX, StartAfter=after, MaxKeys=page_keys)
            keys.append(time.perf_counter() - began)
            assert page["KeyCount"] == page_keys
            began = time.perf_counter()
            client.list_object_versions(Bucket=self._bucket, Prefix=PREFIX, KeyMarker=after, MaxKeys=page_keys)
            versions.append(time.perf_counter() - began)
        client.close()
        per_thousand = 1e6 / page_keys
        return {
            "list 1,000, ms": per_thousand * statistics.median(keys),
            "list 1,000 versions, ms": per_thousand * statistics.median(versions),
        }

    def restart_and_remove(self) -> Figures:
        """Kill the store, start it again, and clean the bucket up; return all figures that are measured once."""
        self._store.kill()
        self._store = self._start("start after a kill, s")
        before, began = psutil.Process().memory_info().rss, time.perf_counter()
        location = Location(self._store.endpoint, "us-east-1", self._bucket, True, PREFIX)
        report = s3_backend(target_of(self._store)).remove(location, None, bypass_governance=True, release_holds=False)
        assert report.bucket_removed, report
        self.once[REMOVE] = report.objects_removed / (time.perf_counter() - began)
        self.once["client of the removal grew by, MB"] = (psutil.Process().memory_info().rss - before) / 1e6
        self.once["store, peak MB"] = memory_of(self._store.pid).resident_max / 1e6
        return self.once


async def _fill(folder: Path, bucket: str, count: int) -> float:
    """Put objects into a new store, by its core; return the seconds that took. Many of them share a sync."""
    content = Content(null_responder.RUN_ID, null_responder.CONTENT_SEED, MANY_BYTES)

    def put(number: int) -> PutVersion:
        body, digests = content.whole(number, MANY_BYTES), Digests()
        digests.update(body)
        key = f"{PREFIX}{number:012d}"
        return PutVersion(bucket, key, [body], MANY_BYTES, digests.block_crcs(), digests.md5().hex())

    with closing(Store.open(folder)) as store:
        await store.change(CreateBucket(bucket, object_lock=True))
        began = time.perf_counter()
        for first in range(0, count, _IN_FLIGHT):
            numbers = range(first, min(count, first + _IN_FLIGHT))
            await asyncio.gather(*(store.put(put(number)) for number in numbers))
        return time.perf_counter() - began


def _many_objects(small: bool) -> list[Experiment]:
    counts, seconds = ((100, 1_000), 0.3) if small else ((1_000, 100_000, 1_000_000), 2.0)
    rows, fewest = [f"{count:,}" for count in counts], f"{counts[0]:,}"
    filled: dict[str, Filled] = {}
    stack = ExitStack()

    @contextmanager
    def fill() -> Iterator[Contenders]:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="archiver-benchmark-")))
        for row, count in zip(rows, counts, strict=True):
            filled[row] = Filled(folder, count, stack)
        yield {(row,): partial(each.measure, seconds) for row, each in filled.items()}

    @contextmanager
    def remove() -> Iterator[Contenders]:
        with stack:
            yield {(row,): each.restart_and_remove for row, each in filled.items()}

    return [
        Experiment(
            "many-objects",
            f"Embedded store, objects of {MANY_BYTES:,} bytes in one bucket, one client",
            ("objects",),
            [fill()],
            rounds=1 if small else 5,
            ratios=tuple(Ratio(f"{rate}, to {fewest}", rate, None, fewest) for rate in RATES),
        ),
        Experiment(
            "many-objects-store",
            "Filling, starting and cleaning up",
            ("objects",),
            [remove()],
            ratios=(Ratio(f"{REMOVE}, to {fewest}", REMOVE, None, fewest),),
        ),
    ]


def _most_to_fewest(results: Results) -> list[float]:
    """Return each rate with the most objects in proportion to that with the fewest."""
    many = results["many-objects"]
    few_row, *_, many_row = many.rows
    found = [many.median(many_row, rate) / many.median(few_row, rate) for rate in RATES]
    return found + results["many-objects-store"].ratios(many_row, few_row, REMOVE)


MANY_OBJECTS = Benchmark(
    name="many-objects",
    question="1,000 to 1,000,000 objects in one bucket of the embedded store.",
    experiments=_many_objects,
    goals=(Goal("every rate, most / fewest objects", _most_to_fewest, "at least", 0.5),),
    is_on_page=False,
)
