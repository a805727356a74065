"""Archiver's own resources: CPU of watching; growth of memory, descriptors and files with objects and in long runs."""

from __future__ import annotations

import os
import pty
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

import psutil

from archiver.platforms import servers
from archiver.watch.host import HostSource
from archiver.watch.process import READS_PER_SEARCH, ProcessSource
from archiver.watch.source import Source
from benchmarks.benchmark import (
    Benchmark,
    Contenders,
    Experiment,
    Figures,
    Goal,
    Labels,
    Results,
    measured_at_once,
    medians,
)
from benchmarks.peers.base import has_minio
from benchmarks.processes import MIB, peaks_of_command, processes_of
from results.measures.statistics import t_quantile
from results.recorded.database import RunDatabase

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


def read_of(source: Source, reads: int, pause_seconds: float) -> Figures:
    """Return the CPU time of a sample. Samples are some time apart, as in a run, so they find cold processor caches."""
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
        yield {(name,): partial(read_of, source, reads, pause_seconds) for name, source in sources.items()}


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
    goals=(
        Goal(
            "host and process, once a second, % of a core",
            lambda results: [sum(medians("sampling", MILLISECONDS, (HOST,), (PROCESS,))(results)) / 10],
            "at most",
            1.0,
        ),
    ),
)

# Memory.
MEMORY_OBJECT_BYTES = 8192
MEMORY_SWEEP = """
[[sweep]]
name = "{operation}"
operation = "{operation}"
object_sizes = [{object_bytes}]
objects_per_session = [100]
clients = [1]
[sweep.stop]
seconds_min = "3600s"
seconds_max = "3600s"
bytes_max = {bytes_max}
precision = 0.0
"""


def peaks_of(objects: int) -> Figures:
    """Return the peaks of a run that archives and then retrieves this number of objects."""
    with tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as folder:
        path, size = Path(folder) / "memory.toml", MEMORY_OBJECT_BYTES
        sweeps = [
            MEMORY_SWEEP.format(operation=operation, object_bytes=size, bytes_max=objects * size)
            for operation in ("archive", "retrieve")
        ]
        path.write_text("\n".join(['name = "memory"', 'title = "Many objects"', *sweeps]))
        peaks = peaks_of_command(Path(folder), "run", str(path))
        (database,) = Path(folder).glob("runs/*/run.db")
        with closing(RunDatabase.open(database)) as recorded:
            done = sum(result.objects for result in recorded.results())
    assert done == 2 * objects, f"{done} of {2 * objects} objects were done"
    return peaks


def growth_of(experiment: str, figure_name: str, results: Results) -> list[float]:
    """Return the difference of a figure between the last row and the first."""
    few, *_, many = results[experiment].rows
    return [results[experiment].median(many, figure_name) - results[experiment].median(few, figure_name)]


def peaks_experiment(name: str, title: str, label: str, peaks: Callable[[int], Figures], small: bool) -> Experiment:
    """Return an experiment that measures the peaks of few and of ten times as many objects or operations."""
    counts = (1_000, 10_000) if small else (100_000, 1_000_000)
    return Experiment(
        name, title, (label,), [nullcontext({(f"{count:,}",): partial(peaks, count)}) for count in counts]
    )


MEMORY = Benchmark(
    name="memory",
    question="Memory of a worker for 100,000 and for 1,000,000 objects.",
    experiments=lambda small: [
        peaks_experiment(
            "memory", "Peak memory: archive, then retrieve, 8 KiB, null backend", "objects", peaks_of, small
        )
    ],
    goals=(
        Goal("worker, growth, MiB", partial(growth_of, "memory", "worker, resident MiB"), "at most", 50),
        Goal("coordinator, growth, MiB", partial(growth_of, "memory", "coordinator, resident MiB")),
    ),
)

# Long runs.
BACKENDS = ("s3", "tsm")
SOAK_MINUTES = 30.0
PHASE_SECONDS_MAX = 3300.0
BLOCKS = 8
WARM_UP_SHARE = 1 / 3
SHORT, LONG = "phases", "long phases"
GOALS = {"resident MiB": 16.0, "descriptors": 2.0, "threads": 2.0}  # growth per hour that is still flat
SOAK_SCENARIO = """
name = "soak"
title = "The same small load, for as long as you like"

[[phase]]
name = "load"
load = true

[[phase.workload]]
name = "files"
operation = "archive"
data = "files"
sizes = "8KiB"
clients = 2
objects_per_session = 10
fill = 200
"""
SOAK_PHASE = """
[[phase]]
name = "{name}"

[[phase.workload]]
name = "archive"
operation = "archive"
data = "new {name}"
sizes = "8KiB"
clients = 2
objects_per_session = 2
arrivals = {{ kind = "poisson", per_second = 5 }}
seconds = "{seconds}s"

[[phase.workload]]
name = "retrieve"
operation = "retrieve"
data = "files"
clients = 2
objects_per_session = 2
arrivals = {{ kind = "poisson", per_second = 5 }}
seconds = "{seconds}s"
"""

Series = list[tuple[float, float]]  # (seconds, value)


class WatchedRun:
    """One run, watched while it runs: a series by (process or file, quantity)."""

    def __init__(self, backend: str, folder: Path, scenario: Path) -> None:
        self.series: dict[tuple[str, str], Series] = defaultdict(list)
        self.finished: Series = []  # phases
        self._backend = backend
        self._home = folder / backend
        self._scenario = scenario

    @contextmanager
    def running(self, period_seconds: float) -> Iterator[None]:
        """Start the run with a terminal of its own, read the terminal, and watch the run. Wait for it at the end.

        Raises RuntimeError if the run fails.
        """
        screen, terminal = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "archiver", "run", str(self._scenario), "--backend", self._backend],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=terminal,
            env={**os.environ, "ARCHIVER_HOME": str(self._home), "TERM": "xterm", "COLUMNS": "100"},
        )  # fmt: skip
        os.close(terminal)
        printed = bytearray()
        threads = [
            threading.Thread(target=_read, args=(screen, printed)),
            threading.Thread(target=self._watch, args=(process, period_seconds)),
        ]
        for thread in threads:
            thread.start()
        try:
            yield
            if process.wait() != 0:
                raise RuntimeError(f"the run through {self._backend} failed: {printed.decode()[-2000:]}")
        finally:
            process.kill()
            process.wait()
            for thread in threads:
                thread.join()
            os.close(screen)

    def _watch(self, process: subprocess.Popen[bytes], period_seconds: float) -> None:
        began, watched = time.monotonic(), psutil.Process(process.pid)
        while process.returncode is None and watched.is_running() and watched.status() != psutil.STATUS_ZOMBIE:
            at_seconds = time.monotonic() - began
            for name, each in processes_of(watched):
                with suppress(psutil.Error), each.oneshot():
                    self.series[name, "resident MiB"].append((at_seconds, each.memory_info().rss / MIB))
                    self.series[name, "descriptors"].append((at_seconds, each.num_fds()))
                    self.series[name, "threads"].append((at_seconds, each.num_threads()))
            for name, size_bytes in self._sizes().items():
                self.series[name, "file MiB"].append((at_seconds, size_bytes / MIB))
            self.finished.append((at_seconds, self._phases_finished()))
            time.sleep(period_seconds)

    def _sizes(self) -> dict[str, int]:
        found = {"segments": 0, "catalogue": 0, "other state": 0}
        for path in self._home.rglob("*"):
            with suppress(OSError):
                size_bytes = path.stat().st_size if path.is_file() else 0
                if path.suffix == ".seg":
                    found["segments"] += size_bytes
                elif path.name.startswith(("run.db", "ledger.db")):
                    found[path.name] = size_bytes
                elif "store" in path.relative_to(self._home).parts:
                    found["catalogue"] += size_bytes
                else:
                    found["other state"] += size_bytes
        return found

    def _phases_finished(self) -> int:
        for path in self._home.glob("runs/*/run.db"):
            with suppress(Exception), closing(RunDatabase.open(path)) as database:  # it may have just been made
                return database.finished()
        return 0

    def growth(self, phases: int) -> dict[Labels, Figures]:
        """Return the growth in the first ``phases`` short phases and in the long ones; a third of each is warm-up."""

        def reached(count: float) -> float:
            return next((at for at, done in self.finished if done >= count), self.finished[-1][0])

        ends = reached(self.finished[-1][1])
        halves = {SHORT: (reached(1), reached(phases + 1)), LONG: (reached(phases + 1), ends)}
        found: dict[Labels, Figures] = {}
        for part, (begins, end) in halves.items():
            measured_from = begins + (end - begins) * WARM_UP_SHARE
            for (name, quantity), series in self.series.items():
                grown = growth([each for each in series if measured_from <= each[0] < end], GOALS.get(quantity))
                if grown is not None:
                    found[self._backend, part, name, quantity] = grown
        return found


def _read(screen: int, printed: bytearray) -> None:
    """Read a terminal to its end, and keep the last of it."""
    with suppress(OSError):  # the other end has gone
        while data := os.read(screen, 65536):
            printed += data
            del printed[:-4000]


def growth(series: Series, goal: float | None) -> Figures | None:
    """Return the slope per hour of a line through the means of blocks, and a verdict on its 95% interval.

    None if there are too few values. There is no verdict without a goal.
    """
    size = len(series) // BLOCKS
    if not size:
        return None
    blocks = [series[block * size : (block + 1) * size] for block in range(BLOCKS)]
    x = [statistics.fmean(at for at, _ in block) / 3600 for block in blocks]
    y = [statistics.fmean(value for _, value in block) for block in blocks]
    slope, begins = statistics.linear_regression(x, y)
    spread = sum((value - begins - slope * at) ** 2 for at, value in zip(x, y, strict=True)) / (BLOCKS - 2)
    mean = statistics.fmean(x)
    half_width = t_quantile(0.975, BLOCKS - 2) * (spread / sum((at - mean) ** 2 for at in x)) ** 0.5
    verdict = "no limit"
    if goal is not None:
        grows = "grows" if slope - half_width > goal else "too short to tell"
        verdict = "flat" if slope + half_width <= goal else grows
    return {
        "verdict": verdict,
        "at first": y[0],
        "at last": y[-1],
        "growth per hour": slope,
        "95% interval ±": half_width,
    }


def _soak(phases: int, seconds: float, long_seconds: float, period_seconds: float) -> dict[Labels, Figures]:
    lengths = [(f"short {number}", seconds) for number in range(1, phases + 1)]
    while long_seconds > 0:
        lengths.append((f"long {len(lengths) - phases + 1}", min(long_seconds, PHASE_SECONDS_MAX)))
        long_seconds -= PHASE_SECONDS_MAX
    with tempfile.TemporaryDirectory(prefix="archiver-soak-") as folder:
        path = Path(folder) / "soak.toml"
        text = [SOAK_PHASE.format(name=name, seconds=length) for name, length in lengths]
        path.write_text("".join([SOAK_SCENARIO, *text]))
        runs = [WatchedRun(backend, Path(folder), path) for backend in BACKENDS]
        with ExitStack() as stack:
            for run in runs:
                stack.enter_context(run.running(period_seconds))
        return {row: figures for run in runs for row, figures in run.growth(phases).items()}


def soak_experiments(small: bool, minutes: float = SOAK_MINUTES) -> list[Experiment]:
    phases, seconds, long_seconds, period = max(3, round(minutes * 5)), 5.0, minutes * 30, 2.0
    if small:
        phases, seconds, long_seconds, period = 3, 1.0, 2.0, 0.02
    return [
        Experiment(
            "soak",
            f"{phases} phases of {seconds:g} s, then phases of {long_seconds:,.1f} s",
            ("through", "in", "of", "what"),
            [measured_at_once(partial(_soak, phases, seconds, long_seconds, period))],
        )
    ]


SOAK = Benchmark(
    name="soak",
    question="Memory, file descriptors and files in long runs: what is flat, and what grows.",
    experiments=soak_experiments,
    remarks=lambda results: [
        f"flat: an hour adds at most {GOALS['resident MiB']:g} MiB, {GOALS['descriptors']:g} descriptors and "
        f"{GOALS['threads']:g} threads to a process, at the upper end of the 95% interval"
    ],
    is_on_page=False,
)
