"""The cost of watching: CPU time of one sample of this host, and of a server's processes.

The benchmark samples the host, a Python process of 20 idle threads, and an idle MinIO, if MinIO is installed. Samples
are some time apart, as in a run, so they find cold processor caches. Every tenth sample searches the process table. A
sampler takes one sample per second, so one millisecond of CPU per sample is 0.1% of a core. Rounds are interleaved; the
figures are the mean of a round, and the median of the rounds.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil

from archiver.platforms import programs, servers
from archiver.values.errors import PlatformError
from archiver.watch.host import HostSource
from archiver.watch.process import READS_PER_SEARCH, ProcessSource
from archiver.watch.source import Source
from benchmarks.tables import Table, labelled, plain, spread, verdict

TITLE = "What watching costs"
THREADS = 20
GOAL_PERCENT_OF_CORE = 1.0  # the host and one process of THREADS threads together

_IDLE = f"""
import sys, threading
for _ in range({THREADS} - 1):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print(flush=True)
sys.stdin.read()
"""


def measure(*, small: bool) -> dict[str, Any]:
    """CPU milliseconds per read of each source and round; the share of a core at one read a second."""
    rounds, reads, pause_seconds = (1, READS_PER_SEARCH, 0.0) if small else (5, 4 * READS_PER_SEARCH, 0.05)
    with ExitStack() as running:
        sources: dict[str, Source] = {
            "host": HostSource(),
            "process": ProcessSource.of_pid(running.enter_context(_idle_process())),
        }
        minio = running.enter_context(_minio())
        if minio is not None:
            sources["minio"] = ProcessSource.of_pid(minio)
        items = {name: sum(map(len, source.read().values())) for name, source in sources.items()}
        found: dict[str, list[float]] = {name: [] for name in sources}
        for _ in range(rounds):
            for name, source in sources.items():
                found[name].append(_milliseconds_per_read(source, reads, pause_seconds))
        processes = len(psutil.pids())
    medians = {name: statistics.median(values) for name, values in found.items()}
    percent = (medians["host"] + medians["process"]) / 1000 * 100
    return {
        "unit": "CPU milliseconds per read",
        "rounds": rounds,
        "reads_per_round": reads,
        "pause_seconds": pause_seconds,
        "processes_of_host": processes,
        "threads_of_process": THREADS,
        "values_per_read": items,
        "milliseconds": found,
        "medians": medians,
        "percent_of_core": percent,
        "goals": {"percent_of_core_max": GOAL_PERCENT_OF_CORE},
        "goals_met": percent <= GOAL_PERCENT_OF_CORE,
    }


def tables(document: dict[str, Any]) -> list[Table]:
    """CPU of one read of each source."""
    about = {
        "host": "this host",
        "process": f"a process of {document['threads_of_process']} threads",
        "minio": "MinIO, idle",
    }
    rows = tuple(
        (*plain(about[name], f"{document['values_per_read'][name]}"), spread(values, 2))
        for name, values in document["milliseconds"].items()
    )
    title = f"One read; {document['processes_of_host']} processes on the host"
    return [Table("sampling", title, labelled(("source",), "values", "CPU, ms"), rows)]


def notes(document: dict[str, Any]) -> list[str]:
    goal = document["goals"]["percent_of_core_max"]
    percent = document["percent_of_core"]
    return [
        f"host and process, once a second: {percent:.2f}% of one core (goal: at most {goal:.0f}%:"
        f" {verdict(document['goals_met'])})"
    ]


def headline(document: dict[str, Any]) -> str:
    """As README.md has it."""
    return (
        f"Sampling host and a process of {document['threads_of_process']} threads once a second costs\n"
        f"{document['percent_of_core']:.2f}% of a core (`python -m benchmarks sampling`)."
    )


def _milliseconds_per_read(source: Source, reads: int, pause_seconds: float) -> float:
    used = 0.0
    for _ in range(reads):
        time.sleep(pause_seconds)
        before = time.thread_time()
        source.read()
        used += time.thread_time() - before
    return used / reads * 1000


@contextmanager
def _idle_process() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", _IDLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid


@contextmanager
def _minio() -> Iterator[int | None]:
    """MinIO's process, or None where it is not installed."""
    try:
        programs.find("minio")
    except PlatformError:
        yield None
        return
    with (
        tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as folder,
        servers.running("minio", Path(folder)) as server,
    ):
        yield server.pid
