"""Long runs: does anything grow that should not?

Two runs go on at the same time, through S3 and through the TSM client API, each on an embedded store of its own and
with the live table on a terminal of its own. Half of the time is phases of seconds, many of them, the other half
is one long phase (or more, of less than an hour each): the first shows what a phase leaves behind, the second what a
phase keeps while it lasts. The load is small and the same all along, so what grows grows with time, phases and objects.

Memory (resident size), file descriptors and threads of every process are read again and again; the first third of a
half is warm-up. The rest is cut into blocks, and a line through their means has a slope and a 95% interval. A process
is flat where the whole interval lies below the goal, and grows where all of it lies above; else the time was too short
to tell. Files are measured the same way, without a goal for those that keep results: how much is kept per hour.
"""

from __future__ import annotations

import os
import pty
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.tables import Cell, Table, labelled, plain
from results.database import RunDatabase
from results.statistics import t_quantile

TITLE = "Long runs"
BACKENDS = ("s3", "tsm")
MINUTES = 30.0
PHASE_SECONDS, PHASE_SECONDS_SMALL = 5.0, 1.0
PHASE_SECONDS_MAX = 3300.0
LONG_SECONDS_SMALL = 2.0
PERIOD_SECONDS = 2.0
PERIOD_SECONDS_SMALL = 0.02
BLOCKS = 8
WARM_UP_SHARE = 1 / 3
HOUR_SECONDS = 3600.0
SHORT, LONG = "phases", "long phases"
GOALS = {"resident_bytes": 16 << 20, "descriptors": 2.0, "threads": 2.0}  # growth per hour that is still flat
SCENARIO = """
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
PHASE = """
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


@dataclass(slots=True)
class Series:
    """What was seen of one thing, over time."""

    at_seconds: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, at_seconds: float, value: float) -> None:
        self.at_seconds.append(at_seconds)
        self.values.append(value)

    def between(self, from_seconds: float, to_seconds: float) -> Series:
        chosen = [
            (at, value)
            for at, value in zip(self.at_seconds, self.values, strict=True)
            if from_seconds <= at < to_seconds
        ]
        return Series([at for at, _ in chosen], [value for _, value in chosen])


@dataclass(slots=True)
class _Watched:
    """One run, and everything that was seen of it."""

    backend: str
    home: Path
    process: psutil.Process
    processes: dict[tuple[str, str], Series] = field(default_factory=dict)  # by process and quantity
    files: dict[str, Series] = field(default_factory=dict)
    finished: Series = field(default_factory=Series)  # phases

    def look(self, at_seconds: float) -> None:
        for name, process in self._running():
            with suppress(psutil.Error), process.oneshot():
                seen = {
                    "resident_bytes": process.memory_info().rss,
                    "descriptors": process.num_fds(),
                    "threads": process.num_threads(),
                }
                for quantity, value in seen.items():
                    self.processes.setdefault((name, quantity), Series()).add(at_seconds, value)
        for name, size_bytes in self._sizes().items():
            self.files.setdefault(name, Series()).add(at_seconds, size_bytes)

    def _running(self) -> Iterator[tuple[str, psutil.Process]]:
        """The run's processes by what they are."""
        yield "coordinator", self.process
        workers = 0
        with suppress(psutil.Error):
            for child in sorted(self.process.children(), key=lambda each: each.pid):
                with suppress(psutil.Error):
                    words = " ".join(child.cmdline())
                    if "backends.embedded.server" in words:
                        yield "store", child
                    elif "spawn_main" in words:
                        workers += 1
                        yield f"worker {workers}", child

    def _sizes(self) -> dict[str, int]:
        found = {"segments": 0, "catalogue": 0, "other state": 0}
        for path in self.home.rglob("*"):
            with suppress(OSError):
                size_bytes = path.stat().st_size if path.is_file() else 0
                if path.suffix == ".seg":
                    found["segments"] += size_bytes
                elif path.name.startswith(("run.db", "ledger.db")):
                    found[path.name] = size_bytes
                elif "store" in path.relative_to(self.home).parts:
                    found["catalogue"] += size_bytes
                else:
                    found["other state"] += size_bytes
        return found


def measure(*, small: bool = False, minutes: float = MINUTES) -> dict[str, Any]:
    """Carry out the runs, watch them, and judge."""
    seconds = PHASE_SECONDS_SMALL if small else PHASE_SECONDS
    long_seconds = LONG_SECONDS_SMALL if small else minutes * 30
    phases = 3 if small else max(3, round(minutes * 30 / (seconds + 1)))
    period = PERIOD_SECONDS_SMALL if small else PERIOD_SECONDS
    with tempfile.TemporaryDirectory(prefix="archiver-soak-") as folder:
        path = Path(folder) / "soak.toml"
        path.write_text(_scenario(phases, seconds, long_seconds))
        with _started(BACKENDS[0], Path(folder), path) as first, _started(BACKENDS[1], Path(folder), path) as second:
            watched = [_watch(each, period) for each in (first, second)]
            for thread, _ in watched:
                thread.join()
        return {
            "minutes": minutes,
            "phases": phases,
            "phase_seconds": seconds,
            "long_seconds": long_seconds,
            "runs": {each.backend: _judged(each, phases) for _, each in watched},
            "goals": GOALS,
            "unit": "per hour, with the half width of the 95% interval",
        }


def tables(document: dict[str, Any]) -> list[Table]:
    """What each process and each file had at first and at last, and what it grows by in an hour."""
    columns = labelled(("of", "what"), "at first", "at last", "growth per hour", "95% interval ±", "verdict")
    return [
        Table(f"soak-{backend}-{part.replace(' ', '-')}", _title(backend, part, document, found), columns, rows)
        for backend, run in document["runs"].items()
        for part, found in run["parts"].items()
        if (rows := tuple(_row(each) for each in found["growth"]))
    ]


def notes(document: dict[str, Any]) -> list[str]:
    goals = document["goals"]
    return [
        f"flat: an hour adds at most {goals['resident_bytes'] >> 20} MiB, {goals['descriptors']:g} descriptors and "
        f"{goals['threads']:g} threads to a process, at the upper end of the 95% interval"
    ]


def _title(backend: str, part: str, document: dict[str, Any], found: dict[str, Any]) -> str:
    seconds = document["phase_seconds" if part == SHORT else "long_seconds"]
    return f"{backend}, {part} of {seconds:,.1f} s: {found['minutes']:.1f} minutes after the warm-up"


def _row(grown: dict[str, Any]) -> tuple[Cell, ...]:
    in_bytes = grown["quantity"] in ("resident_bytes", "bytes")
    scale, unit = (1 << 20, "MiB") if in_bytes else (1, grown["quantity"])
    values = (f"{grown[name] / scale:,.2f}" for name in ("first", "last", "per_hour", "half_width"))
    return plain(grown["of"], unit, *values, grown["verdict"])


def _scenario(phases: int, seconds: float, long_seconds: float) -> str:
    parts = [PHASE.format(name=f"short {number}", seconds=seconds) for number in range(1, phases + 1)]
    number = 0
    while long_seconds > 0:
        number += 1
        parts.append(PHASE.format(name=f"long {number}", seconds=min(long_seconds, PHASE_SECONDS_MAX)))
        long_seconds -= PHASE_SECONDS_MAX
    return SCENARIO + "".join(parts)


@contextmanager
def _started(backend: str, folder: Path, scenario: Path) -> Iterator[_Watched]:
    """A run with a terminal of its own, which somebody reads. It ends with the block."""
    home = folder / backend
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "archiver", "run", str(scenario), "--backend", backend],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=terminal,
        env={**os.environ, "ARCHIVER_HOME": str(home), "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(terminal)
    said = bytearray()
    reader = threading.Thread(target=_read, args=(screen, said))
    reader.start()
    try:
        yield _Watched(backend, home, psutil.Process(process.pid))
        if process.wait() != 0:
            raise RuntimeError(f"the run through {backend} ended with {process.returncode}: {said.decode()[-2000:]}")
    finally:
        process.kill()
        process.wait()
        reader.join()
        os.close(screen)


def _read(screen: int, said: bytearray) -> None:
    """Take what the terminal is told, and remember the last of it."""
    with suppress(OSError):  # the other end has gone
        while data := os.read(screen, 65536):
            said += data
            del said[:-4000]


def _watch(run: _Watched, period_seconds: float) -> tuple[threading.Thread, _Watched]:
    """Look at a run until it has ended."""
    began = time.monotonic()

    def look() -> None:
        while run.process.is_running() and run.process.status() != psutil.STATUS_ZOMBIE:
            at_seconds = time.monotonic() - began
            run.look(at_seconds)
            run.finished.add(at_seconds, _finished(run.home))
            time.sleep(period_seconds)

    thread = threading.Thread(target=look)
    thread.start()
    return thread, run


def _finished(home: Path) -> int:
    """Phases in the run's database; opened for reading only, as a report does it."""
    for path in home.glob("runs/*/run.db"):
        with suppress(Exception):  # it is only just being made
            database = RunDatabase.open(path)
            try:
                return database.finished()
            finally:
                database.close()
    return 0


def _judged(run: _Watched, phases: int) -> dict[str, Any]:
    """The halves of a run, each with what grew in it."""
    finished = run.finished
    times = finished.at_seconds
    begins = next((at for at, done in zip(times, finished.values, strict=True) if done >= 1), 0.0)
    changes = next((at for at, done in zip(times, finished.values, strict=True) if done >= phases + 1), times[-1])
    ends = next(at for at, done in zip(times, finished.values, strict=True) if done == finished.values[-1])
    halves = {SHORT: (begins, changes), LONG: (changes, ends)}
    return {"parts": {name: _part(run, *edges) for name, edges in halves.items()}, "series": _whole(run)}


def _part(run: _Watched, begins: float, ends: float) -> dict[str, Any]:
    from_seconds = begins + (ends - begins) * WARM_UP_SHARE
    found = [
        growth(name, quantity, series.between(from_seconds, ends), GOALS[quantity])
        for (name, quantity), series in run.processes.items()
    ]
    found += [growth(name, "bytes", series.between(from_seconds, ends), None) for name, series in run.files.items()]
    done = run.finished.between(from_seconds, ends).values
    return {
        "minutes": (ends - from_seconds) / 60,
        "phases": done[-1] - done[0] if done else 0,
        "growth": [each for each in found if each is not None],
    }


def growth(name: str, quantity: str, series: Series, goal: float | None) -> dict[str, Any] | None:
    """A line through the means of blocks; None where there are too few values."""
    size = len(series.values) // BLOCKS
    if not size:
        return None
    blocks = [slice(block * size, (block + 1) * size) for block in range(BLOCKS)]
    x = [statistics.fmean(series.at_seconds[block]) / HOUR_SECONDS for block in blocks]
    y = [statistics.fmean(series.values[block]) for block in blocks]
    slope, begins = statistics.linear_regression(x, y)
    spread = sum((value - begins - slope * at) ** 2 for at, value in zip(x, y, strict=True)) / (BLOCKS - 2)
    mean = statistics.fmean(x)
    half_width = t_quantile(0.975, BLOCKS - 2) * (spread / sum((at - mean) ** 2 for at in x)) ** 0.5
    return {
        "of": name,
        "quantity": quantity,
        "first": y[0],
        "last": y[-1],
        "largest": max(series.values),
        "per_hour": slope,
        "half_width": half_width,
        "verdict": _verdict(slope, half_width, goal),
    }


def _verdict(slope: float, half_width: float, goal: float | None) -> str:
    if goal is None:
        return ""
    return "flat" if slope + half_width <= goal else "grows" if slope - half_width > goal else "too short to tell"


def _whole(run: _Watched) -> dict[str, Any]:
    """At most a hundred values of each, for drawing."""
    every = {f"{name}, {quantity}": series for (name, quantity), series in run.processes.items()}
    every |= {f"{name}, bytes": series for name, series in run.files.items()} | {"phases": run.finished}
    return {
        name: [
            [round(at, 1), value]
            for at, value in list(zip(series.at_seconds, series.values, strict=True))[:: len(series.values) // 100 + 1]
        ]
        for name, series in every.items()
    }
