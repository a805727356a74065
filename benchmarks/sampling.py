"""The cost of watching: CPU time of one sample of this host, and of a server's processes.

One idea: samples are some time apart, as in a run, so they find cold processor caches.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import psutil

from archiver.platforms import servers
from archiver.watch.host import HostSource
from archiver.watch.process import READS_PER_SEARCH, ProcessSource
from archiver.watch.source import Source
from benchmarks.benchmark import Benchmark, Contenders, Experiment, Goal
from benchmarks.peers.base import has_minio
from benchmarks.values import Figures, Results

THREADS = 20
HOST, PROCESS, MINIO = "this host", f"a process of {THREADS} threads", "MinIO, idle"
MILLISECONDS = "CPU, ms"
_IDLE = f"""
import sys, threading
for _ in range({THREADS} - 1):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print(flush=True)
sys.stdin.read()
"""


def _read(source: Source, reads: int, pause_seconds: float) -> Figures:
    used, values = 0.0, 0
    for _ in range(reads):
        time.sleep(pause_seconds)
        before = time.thread_time()
        found = source.read()
        used += time.thread_time() - before
        values = max(values, sum(map(len, found.values())))
    return {"values": values, MILLISECONDS: used / reads * 1000}


@contextmanager
def _sources(reads: int, pause_seconds: float) -> Iterator[Contenders]:
    with ExitStack() as running:
        idle = running.enter_context(
            subprocess.Popen([sys.executable, "-c", _IDLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        )
        assert idle.stdout is not None
        idle.stdout.readline()
        sources: dict[str, Source] = {HOST: HostSource(), PROCESS: ProcessSource.of_pid(idle.pid)}
        if has_minio():
            folder = running.enter_context(tempfile.TemporaryDirectory(prefix="archiver-benchmark-"))
            server = running.enter_context(servers.running("minio", Path(folder)))
            sources[MINIO] = ProcessSource.of_pid(server.pid)
        yield {(name,): partial(_read, source, reads, pause_seconds) for name, source in sources.items()}


def _percent(results: Results) -> list[float]:
    """Return the share of a core for host and process, at one sample a second."""
    return [sum(results["sampling"].median((name,), MILLISECONDS) for name in (HOST, PROCESS)) / 10]


SAMPLING = Benchmark(
    name="sampling",
    question="CPU of watching: one sample of this host, and of a server's processes.",
    experiments=lambda small: [
        Experiment(
            "sampling",
            f"One read; {len(psutil.pids())} processes on the host",
            ("source",),
            [_sources(READS_PER_SEARCH, 0.0) if small else _sources(4 * READS_PER_SEARCH, 0.05)],
            rounds=1 if small else 5,
        )
    ],
    goals=(Goal("host and process, once a second, % of a core", _percent, "at most", 1.0),),
)
