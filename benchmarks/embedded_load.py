"""What the embedded store's benchmarks share: a store, loads of archiving clients on it, and what both of them used.

Archiver's own engine is the load, in this process. Store and clients are pinned to different cores. Server CPU is the
store process's user and system time; client CPU is this process's, from the start instant to the last report.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from archiver.engine.worker.assignment import ClientAssignment
from archiver.machine import description as machine
from backends.embedded import process
from backends.embedded.process import StoreProcess
from backends.tsm.library.api import Library, SignOn, default_library_path
from backends.tsm.setting import TsmWorkerSetting
from benchmarks.affinity import pinned, usable_cores
from benchmarks.own_worker import assignment, carried_out, s3_setting
from benchmarks.peers.base import Target, make_bucket
from scenarios.model import Workload
from scenarios.work.sessions import InWindow, Sessions

BUCKET = "benchmark"
WRITER = "writer"
_SPACE = "/benchmark"
CLIENT_OBJECTS_MAX = 1_000_000  # object numbers set aside for each client of a load

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
class Way:
    """How a load reaches the store: a backend and its worker setting."""

    backend: str
    setting: Any


@dataclass(frozen=True, slots=True)
class Load:
    """So many clients, for so long or until so many objects were archived."""

    object_bytes: int
    clients: int
    objects_per_session: int
    seconds: float
    objects_max: int = CLIENT_OBJECTS_MAX


_firsts = itertools.count(step=100 * CLIENT_OBJECTS_MAX)  # no two loads archive the same object


def archive(store: StoreProcess, way: Way, load: Load) -> dict[str, float]:
    """Archive in one way: rates, CPU on both sides, commits and syncs."""
    first = next(_firsts)
    per_client = load.objects_max // load.clients
    per_session = min(per_client, load.objects_per_session)
    work = Sessions("archive", load.object_bytes, InWindow(load.seconds, client_bytes_max=1 << 60))
    workload = Workload("archive", work, load.clients, per_session)
    clients = tuple(
        ClientAssignment(client, 0, (first + client * per_client, first + (client + 1) * per_client))
        for client in range(load.clients)
    )
    given = replace(assignment(workload, way.backend, way.setting, clients), verify="none")
    before, server = store_statistics(store), _Server(store)
    counter, _ = carried_out(given)
    used, after = server.used(counter.seconds), store_statistics(store)
    objects = after["objects_written"] - before["objects_written"]  # those under way at the end included
    syncs = after["syncs"] - before["syncs"]
    return {
        "objects": counter.objects,
        "sessions": counter.sessions,
        "errors": counter.errors,
        "seconds": counter.seconds,
        "objects_per_second": counter.objects / counter.seconds,
        "bytes_per_second": counter.objects * load.object_bytes / counter.seconds,
        "server_cpu_microseconds_per_object": used["cpu_seconds"] / objects * 1e6,
        "server_busiest_thread_percent": used["busiest_thread_percent"],
        "server_cores_percent": used["cores_percent"],
        "disk_busy_percent": used["disk_busy_percent"],
        "client_cpu_microseconds_per_object": counter.cpu_seconds / counter.objects * 1e6,
        "objects_per_commit": objects / (after["commits"] - before["commits"]),
        "objects_per_sync": objects / syncs,
        "syncs_per_session": syncs / max(1, counter.sessions),
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
        # Whatever runs there counts: writing back what the store wrote, and its network traffic, are the kernel's.
        cores_busy = sum(sum(cores[core][:3]) + sum(cores[core][5:8]) for core in self._cores)
        return cpu.user + cpu.system, threads, busy_ms / 1000, cores_busy

    def used(self, seconds: float) -> dict[str, float]:
        cpu_before, threads_before, busy_before, cores_before = self._before
        cpu, threads, busy, cores_busy = self._now()
        busiest = max(used - threads_before.get(thread, 0.0) for thread, used in threads.items())
        return {
            "cpu_seconds": cpu - cpu_before,
            "busiest_thread_percent": busiest / seconds * 100,
            "cores_percent": (cores_busy - cores_before) / seconds / len(self._cores) * 100,
            "disk_busy_percent": (busy - busy_before) / seconds * 100,
        }


def write(path: Path, count: int) -> dict[str, float]:
    """So many MiB by one writer."""
    done = subprocess.run(
        [sys.executable, "-c", _WRITER, str(path), str(count)], check=True, capture_output=True, text=True
    )
    path.unlink()
    seconds = float(done.stdout)
    return {"seconds": seconds, "bytes_per_second": (count << 20) / seconds}


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


def in_turn(
    rounds: int,
    loads: Mapping[str, Callable[[StoreProcess], dict[str, float]]],
    writer_mib: int,
    folder: Path,
    tsm_port: int,
) -> list[dict[str, dict[str, float]]]:
    """Carry out every load on a store of its own, and a writer of one file, in every round.

    Another one is first in each round: what one leaves to the disk, the next would pay for.
    """

    def carry_out(name: str, empty: Path) -> dict[str, float]:
        if name == WRITER:
            with pinned(store_cores()):
                return write(empty / "file", writer_mib)
        with pinned_store(empty / "store", tsm_port=tsm_port) as store:
            return loads[name](store)

    found, names = [], (*loads, WRITER)
    for number in range(rounds):
        turn = number % len(names)
        results = {}
        for name in (*names[turn:], *names[:turn]):
            with tempfile.TemporaryDirectory(dir=folder) as once:
                results[name] = carry_out(name, Path(once))
        found.append({name: results[name] for name in names})
    return found


def target_of(store: StoreProcess) -> Target:
    """Return the store's S3 server."""
    return Target(store.endpoint, store.access_key, store.secret_key)


def s3_way(store: StoreProcess, *, keep_sessions_open: bool) -> Way:
    """Through the S3 server, into the benchmark's bucket."""
    return Way("s3", s3_setting(target_of(store), BUCKET, "b/", keep_sessions_open=keep_sessions_open))


def tsm_way(store: StoreProcess, configuration: Path) -> Way:
    """Through the TSM server, into the benchmark's file space."""
    library = Library(str(default_library_path()))
    library.set_up(configuration)
    with SignOn(library, store.node, store.node_password, "").open() as session:
        session.register_space(_SPACE)
    setting = TsmWorkerSetting(
        library=library.path,
        configuration=configuration,
        options="",
        node=store.node,
        password=store.node_password,
        space=_SPACE,
        prefix="b",
        management_class=None,
        objects_per_transaction=4096,
    )
    return Way("tsm", setting)


def free_port() -> int:
    """Return a TCP port of loopback that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def store_statistics(store: StoreProcess) -> dict[str, Any]:
    with urllib.request.urlopen(f"{store.endpoint}/-/statistics") as answer:
        document: dict[str, Any] = json.load(answer)
    return document
