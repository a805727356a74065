"""Loads on the embedded store: what they reach, and what both sides use for it.

One idea: Archiver's own engine is the load, in this process. Store and clients are pinned to different cores. Server
CPU is the store process's user and system time; client CPU is this process's, from the start to the last report.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from archiver.machine import description as machine
from backends.embedded import process
from backends.embedded.process import StoreProcess
from backends.tsm.library.api import Library, SignOn, default_library_path
from backends.tsm.library.configuration import private_configuration
from backends.tsm.setting import TsmWorkerSetting
from benchmarks.own_worker import Load, Way, carry_out, s3_way
from benchmarks.peers.base import CPU, RATE, Target, make_bucket
from benchmarks.processes import pinned, usable_cores

BUCKET = "benchmark"
S3, S3_CLOSING, TSM = "S3", "S3, closing", "TSM"
_SPACE = "/benchmark"
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
    """Archive new objects, so many at most; return the figures of ``carry_out_on``, and of commits and syncs."""
    first, before = next(_firsts), statistics_of(store)
    found = carry_out_on(store, way, load, np.arange(first, first + objects), verify="none")
    after = statistics_of(store)
    # With the objects under way at the end.
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
    """Carry out a load on these objects; return rates, times, and what client and server used.

    ``more``: further fields of the worker's assignment.
    """
    server = _Server(store)
    counter, _ = carry_out(way, load, numbers, **more)
    used, latency = server.used(counter.seconds), counter.service.latency()
    assert latency is not None, "nothing was done"
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
    """What the store's process, its busiest thread, its cores and its disk have used since this was made."""

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


@contextmanager
def pinned_store(folder: Path, *, tsm_port: int = 0) -> Iterator[StoreProcess]:
    """Run a store with an empty bucket on all usable cores but one, and pin this process, its client, to that one."""
    client_core = usable_cores()[-1:]
    with ExitStack() as stack:
        with pinned(store_cores()):  # the store inherits them, threads and all
            store = stack.enter_context(process.start(folder, tsm_port=tsm_port))
        stack.enter_context(pinned(client_core))
        make_bucket(target_of(store), BUCKET)
        yield store


def store_cores() -> list[int]:
    """Return all usable cores but the last one; the only one if there is no other."""
    return usable_cores()[:-1] or usable_cores()


class Stores:
    """A folder for stores that are reached by both protocols, on one port one after another.

    The port is always the same because the TSM library reads its option files once per process.
    """

    def __init__(self, folder: Path, port: int, configuration: Path) -> None:
        self._folder = folder
        self._port = port
        self._configuration = configuration

    @contextmanager
    def start(self) -> Iterator[StoreProcess]:
        """Run an empty store."""
        with (
            tempfile.TemporaryDirectory(dir=self._folder) as own,
            pinned_store(Path(own) / "store", tsm_port=self._port) as store,
        ):
            yield store

    def way(self, store: StoreProcess, protocol: str) -> Way:
        """Return the way to a store by S3, S3_CLOSING (with a connection for each session) or TSM."""
        if protocol != TSM:
            return s3_way(target_of(store), BUCKET, "b/", keep_sessions_open=protocol == S3)
        library = Library(str(default_library_path()))
        library.set_up(self._configuration)
        with SignOn(library, store.node, store.node_password, "").open() as session:
            session.register_space(_SPACE)
        setting = TsmWorkerSetting(
            library=library.path,
            configuration=self._configuration,
            options="",
            node=store.node,
            password=store.node_password,
            space=_SPACE,
            prefix="b",
            management_class=None,
            objects_per_transaction=4096,
        )
        return Way("tsm", setting)

    def write_file(self, mebibytes: int) -> dict[str, float]:
        """Let one process write a file, with one sync at the end."""
        with pinned(store_cores()), tempfile.TemporaryDirectory(dir=self._folder) as own:
            command = [sys.executable, "-c", _WRITER, str(Path(own) / "file"), str(mebibytes)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        return {RATE: mebibytes / float(done.stdout), MEGABYTES: (mebibytes << 20) / float(done.stdout) / 1e6}


@contextmanager
def stores() -> Iterator[Stores]:
    """Return a folder without stores."""
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
