"""Timing of a replay compared with its trace, memory of a replay, and time to prepare a trace.

The traces are generated: operations at random times (Poisson, from numpy's raw PCG64 stream) in 16 streams. Half of
them archive, half retrieve existing objects, 8 KiB each. `archiver replay` carries them out on the null backend, in one
worker, with an operation log that records when each was sent. The engine's own worker also replays such traces, with a
log, against the null S3 responder, which answers at once over a real socket.

Lateness is the time of sending minus the due time, for operations that did not wait for an earlier one: the previous
operation of their stream was done, and their session was open. The distance of gaps (Kolmogorov-Smirnov; 0: the same
distribution, 1: no overlap) compares the gaps of the trace with those between sends, for all streams together and for
each stream. It is judged if the mean gap is at least 5 ms. "Core missed" is the time in which the worker was ready to
run while another process had the core. The worker is not the cause of delays in that time.

Memory is that of the command's own process (which also compiles the trace) and of its worker, without an operation log,
for few operations and for ten times as many at the same rate. One figure is private memory, the highest of ten samples
per second. The other is the kernel's peak of resident memory. This includes pages of the trace's columns, which are
mapped from files and which the kernel can take back. Compiling is CPU per operation.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from archiver.engine.work.replay.compile.compiled import CompiledTrace
from archiver.engine.work.replay.compile.compiling import compile_trace
from archiver.engine.worker.assignment import ReplayAssignment
from archiver.traces.format import Origin, TracedOperation, TraceWriter
from backends.s3 import null_responder
from benchmarks.open_loop import distance
from benchmarks.own_worker import assignment, carried_out, s3_setting
from benchmarks.peers.base import Target
from benchmarks.process_memory import memory_of
from benchmarks.tables import Table, labelled, plain, spread, verdict
from scenarios.model import Workload
from scenarios.work.replay import Replay

TITLE = "How well a replay keeps its timing"
OBJECT_BYTES = 8192
STREAMS = 16
STOCK_OBJECTS = 1000
ROUNDS = 3
SECONDS, SECONDS_SMALL = 5.0, 0.5
RATES, RATES_SMALL = (200, 500, 1000, 2000), (200,)  # operations/s
WIRE_RATES, WIRE_RATES_SMALL = (500, 1000), (500,)
MEMORY_RATE = 20_000  # operations/s: one core bears nearly twice as many on the null backend
FEW, MANY = 100_000, 1_000_000
FEW_SMALL, MANY_SMALL = 1_000, 10_000
GAP_MS_MIN = 5.0
LOOK_SECONDS = 0.1
GOALS = {
    "lateness_ms_p99": 1.0,  # on the null backend
    "gaps_distance": 0.05,  # there, where the mean gap is GAP_MS_MIN at least
    "growth_bytes": 50 << 20,  # of worker and of coordinator, each
    "compile_microseconds_per_operation": 5.0,
}
NULL, WIRE = "null backend", "null S3 responder"


def measure(*, small: bool) -> dict[str, Any]:
    """By platform and rate, each round: lateness and gaps. Peak bytes by number of operations; CPU of compiling."""
    rounds, seconds = (1, SECONDS_SMALL) if small else (ROUNDS, SECONDS)
    rates, wire_rates = (RATES_SMALL, WIRE_RATES_SMALL) if small else (RATES, WIRE_RATES)
    few, many = (FEW_SMALL, MANY_SMALL) if small else (FEW, MANY)
    found: dict[str, dict[str, list[dict[str, float]]]] = {
        NULL: {str(rate): [] for rate in rates},
        WIRE: {str(rate): [] for rate in wire_rates},
    }
    with tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as inside:
        folder = Path(inside)
        for number in range(rounds):
            for rate in rates:
                path = write_trace(folder / f"{rate}.parquet", round(rate * seconds), rate, seed=number)
                found[NULL][str(rate)].append(_by_command(path, folder, seconds))
            for rate in wire_rates:
                path = write_trace(folder / f"{rate}.parquet", round(rate * seconds), rate, seed=number)
                found[WIRE][str(rate)].append(_on_the_wire(path, folder, seconds))
        memory = {count: _memory(folder, count) for count in (few, many)}
        compiling = [_compiling(folder / "many.parquet", folder, many) for _ in range(rounds)]
    growth = {name: memory[many][name]["own"] - memory[few][name]["own"] for name in ("worker", "coordinator")}
    return {
        "seconds": seconds,
        "rounds": rounds,
        "streams": STREAMS,
        "object_bytes": OBJECT_BYTES,
        "platforms": found,
        "memory_rate": MEMORY_RATE,
        "operations": [few, many],
        "peak_bytes": {str(count): each for count, each in memory.items()},
        "growth": growth,
        "compile_microseconds_per_operation": compiling,
        "goals": GOALS,
        "goals_met": _goals_met(found[NULL], growth, compiling),
    }


def tables(document: dict[str, Any]) -> list[Table]:
    """Timing by platform and rate; memory."""
    timing = []
    for platform, rates in document["platforms"].items():
        for rate, rounds in rates.items():
            cells = [
                spread([each[key] for each in rounds], decimals)
                for key, decimals in (
                    ("sent_per_second", 0), ("lateness_ms_p50", 3), ("lateness_ms_p99", 3), ("lateness_ms_max", 1),
                    ("waited_percent", 1), ("core_waited_percent", 1), ("gap_ms", 1), ("gaps_distance", 3),
                    ("stream_gap_ms_min", 0), ("stream_gaps_distance_max", 3),
                )
            ]  # fmt: skip
            timing.append((*plain(platform, f"{int(rate):,}"), *cells))
    few, many = document["operations"]
    memory = []
    for name, grew in document["growth"].items():
        low, high = (document["peak_bytes"][str(count)][name] for count in (few, many))
        sizes = [f"{each[kind] / (1 << 20):.1f}" for kind in ("own", "resident") for each in (low, high)]
        memory.append(plain(name, *sizes, f"{grew / (1 << 20):.1f}"))
    return [
        Table(
            "replay",
            f"{document['seconds']:g} s in {document['streams']} streams",
            labelled(
                ("platform", "operations/s"), "sent/s", "lateness p50, ms", "p99", "max", "had to wait, %",
                "core missed, %", "mean gap, ms", "distance of gaps", "mean gap of a stream, ms",
                "distance, worst stream",
            ),
            tuple(timing),
        ),
        Table(
            "replay-memory",
            f"Peak MiB at {document['memory_rate']:,} operations/s, null backend",
            labelled(
                ("process",), f"own, {few:,} operations", f"own, {many:,}", f"resident, {few:,}", f"resident, {many:,}",
                "own grew by",
            ),
            tuple(memory),
        ),
    ]  # fmt: skip


def notes(document: dict[str, Any]) -> list[str]:
    compiling = statistics.median(document["compile_microseconds_per_operation"])
    return [
        f"compiling {document['operations'][1]:,} operations: {compiling:.2f} µs of CPU per operation",
        *(
            f"goal: {_GOALS_WORDS[name].format(goal)}: {verdict(document['goals_met'][name])}"
            for name, goal in (GOALS | {"growth_bytes": GOALS["growth_bytes"] / (1 << 20)}).items()
        ),
    ]


def headline(document: dict[str, Any]) -> str:
    """As README.md has it."""
    rates = document["platforms"][NULL]
    medians = {
        rate: {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
        for rate, rounds in rates.items()
    }
    late = ", ".join(f"{each['lateness_ms_p99']:.1f} ms at {int(rate):,}/s" for rate, each in medians.items())
    judged = [each["gaps_distance"] for each in medians.values() if each["gap_ms"] >= GAP_MS_MIN]
    few, many = document["operations"]
    lines = [
        f"99% of the operations begin within {late}",
        f"of when they could (null platform, {document['streams']} streams, operation log on, medians of"
        f" {document['rounds']} rounds of {document['seconds']:g} s);",
    ]
    if judged:
        lines.append(
            f"the gaps between them are the trace's within a Kolmogorov-Smirnov distance of {max(judged):.2f}"
            f" where they are {GAP_MS_MIN:g} ms on average."
        )
    grew = document["growth"]["worker"] / (1 << 20)
    lines.append(f"A worker takes {grew:.0f} MiB more for {many:,} operations than for {few:,}.")
    return "\n".join(lines)


_GOALS_WORDS = {
    "lateness_ms_p99": f"{NULL}, p99 of lateness at most {{:g}} ms at every rate",
    "gaps_distance": f"{NULL}, distance of gaps below {{:g}} where the mean gap is at least {GAP_MS_MIN:g} ms",
    "growth_bytes": "own memory of worker and coordinator grows by at most {:g} MiB each for ten times the operations",
    "compile_microseconds_per_operation": "compiling takes less than {:g} us per operation",
}


def write_trace(path: Path, count: int, rate: float, seed: int) -> Path:
    """A trace of so many operations, ``rate`` of them a second in the mean."""
    raw = np.random.PCG64(seed)
    uniform = (raw.random_raw(count) >> np.uint64(11)) * 2.0**-53
    gaps = -np.log1p(-uniform)
    due_seconds = np.cumsum(gaps) - gaps[0]
    due_seconds *= (count - 1) / rate / due_seconds[-1]  # so that it has the rate exactly, whatever chance gave
    choices = raw.random_raw(count)
    streams, kinds, stock = choices % STREAMS, choices // STREAMS % 2, choices // STREAMS // 2 % STOCK_OBJECTS
    columns = (np.rint(due_seconds * 1e9).astype(np.int64), streams, kinds, stock)
    with TraceWriter(path, 0, [Origin("model", "poisson")], overwrite=True) as writer:
        for i, (due_ns, stream, is_read, place) in enumerate(zip(*(each.tolist() for each in columns), strict=True)):
            writer.add(
                TracedOperation(
                    due_ns,
                    operation="retrieve" if is_read else "archive",
                    key=f"stock/{place:04d}" if is_read else f"new/{i:09d}",
                    size_bytes=OBJECT_BYTES,
                    client=stream,
                    session=0,
                )
            )
    return path


def figures_of(log: Path) -> dict[str, float]:
    """What an operation log says of when operations were due and when they were sent."""
    table = pq.read_table(log, columns=["due_ns", "sent_ns", "done_ns", "client", "key"])
    table = table.filter(table["key"].is_valid()).sort_by([("client", "ascending"), ("due_ns", "ascending")])
    due_ns, sent_ns, done_ns, client = (
        table[name].to_numpy().astype(np.int64) for name in ("due_ns", "sent_ns", "done_ns", "client")
    )
    follows = np.append(False, client[1:] == client[:-1])
    waited = follows & (np.append(0, done_ns[:-1]) > due_ns)
    alone = follows & ~waited  # the first of a stream has its session's opening before it
    lateness_ms = (sent_ns - due_ns)[alone] / 1e6
    p50, p99 = np.percentile(lateness_ms, (50, 99)).tolist()
    streams = [client == each for each in np.unique(client)]
    return {
        "sent_per_second": (len(sent_ns) - 1) / (float(np.ptp(sent_ns)) / 1e9),
        "lateness_ms_p50": p50,
        "lateness_ms_p99": p99,
        "lateness_ms_max": float(lateness_ms.max()),
        "waited_percent": float(waited.mean() * 100),
        "gap_ms": float(np.ptp(due_ns)) / (len(due_ns) - 1) / 1e6,
        "gaps_distance": _gaps_distance(due_ns, sent_ns),
        "stream_gap_ms_min": min(float(np.ptp(due_ns[each])) / (int(each.sum()) - 1) / 1e6 for each in streams),
        "stream_gaps_distance_max": max(_gaps_distance(due_ns[each], sent_ns[each]) for each in streams),
    }


def _gaps_distance(due_ns: NDArray[np.int64], sent_ns: NDArray[np.int64]) -> float:
    return distance(np.diff(np.sort(due_ns)), np.diff(np.sort(sent_ns)))


def _goals_met(
    rates: dict[str, list[dict[str, float]]], growth: dict[str, int], compiling: list[float]
) -> dict[str, bool]:
    def medians(name: str, gap: str = "") -> list[float]:
        """Of every rate, where its ``gap`` is long enough."""
        return [
            statistics.median(figures[name] for figures in rounds)
            for rounds in rates.values()
            if not gap or statistics.median(figures[gap] for figures in rounds) >= GAP_MS_MIN
        ]

    gaps = medians("gaps_distance", "gap_ms") + medians("stream_gaps_distance_max", "stream_gap_ms_min")
    return {
        "lateness_ms_p99": max(medians("lateness_ms_p99")) <= GOALS["lateness_ms_p99"],
        "gaps_distance": max(gaps) < GOALS["gaps_distance"],
        "growth_bytes": max(growth.values()) <= GOALS["growth_bytes"],
        "compile_microseconds_per_operation": statistics.median(compiling)
        < GOALS["compile_microseconds_per_operation"],
    }


def _command(path: Path, folder: Path, *more: str) -> subprocess.Popen[bytes]:
    words = ("replay", str(path), "--backend", "null", "--workers", "1", "--tolerance", "60s", "--quiet", *more)
    environment = {**os.environ, "ARCHIVER_HOME": str(folder / "home")}
    return subprocess.Popen([sys.executable, "-m", "archiver", *words], env=environment)


def _by_command(path: Path, folder: Path, seconds: float) -> dict[str, float]:
    """Of one replay by `archiver replay`."""
    with tempfile.TemporaryDirectory(dir=folder) as logs:
        process = _command(path, folder, "--op-log", logs)
        worker = _watched(process)[1]
        return {**figures_of(max(Path(logs).glob("*.parquet"))), "core_waited_percent": worker.waited_percent(seconds)}


def _memory(folder: Path, count: int) -> dict[str, dict[str, int]]:
    """Peak bytes of worker and coordinator. The trace stays there, as many.parquet."""
    process = _command(write_trace(folder / "many.parquet", count, MEMORY_RATE, seed=0), folder)
    coordinator, worker = _watched(process)
    return {"worker": worker.peak_bytes, "coordinator": coordinator.peak_bytes}


class _Watched:
    """What the kernel says of a process, as long as it is there."""

    def __init__(self) -> None:
        self.peak_bytes = {"own": 0, "resident": 0}
        self._waited_ns: list[int] = []

    def look(self, pid: int) -> None:
        try:
            memory = memory_of(pid)
        except ProcessLookupError:
            return
        # A process that executes a program begins with less memory than the process that it was forked from.
        self.peak_bytes["own"] = max(self.peak_bytes["own"], memory.private)
        self.peak_bytes["resident"] = max(self.peak_bytes["resident"], memory.resident_max)
        self._waited_ns.append(int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]))

    def waited_percent(self, seconds: float) -> float:
        """How much of its last ``seconds`` it was ready to run, but something else had the core."""
        waited_ns = self._waited_ns[-1] - self._waited_ns[-min(len(self._waited_ns), round(seconds / LOOK_SECONDS))]
        return waited_ns / seconds / 1e7


def _watched(process: subprocess.Popen[bytes]) -> tuple[_Watched, _Watched]:
    """The command's own process and its worker, which is the larger of its children, until they have ended."""
    found: dict[int, _Watched] = defaultdict(_Watched)
    while process.poll() is None:
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            for pid in (process.pid, *map(int, children)):
                found[pid].look(pid)
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has just ended
        time.sleep(LOOK_SECONDS)
    assert process.returncode in (0, 1), "the replay did not take place; its error is above"  # 1: it took too long
    own = found.pop(process.pid)
    return own, max(found.values(), key=lambda each: each.peak_bytes["resident"])


def _compiling(path: Path, folder: Path, count: int) -> float:
    """Microseconds of CPU for each operation, in a process of its own."""
    code = (
        "import sys, time; from pathlib import Path; "
        "from archiver.engine.work.replay.compile.compiling import compile_trace; "
        "began = time.process_time(); compile_trace(Path(sys.argv[1]), Path(sys.argv[2])); "
        "print(time.process_time() - began)"
    )
    with tempfile.TemporaryDirectory(dir=folder) as compiled:
        done = subprocess.run(
            [sys.executable, "-c", code, str(path), compiled], stdout=subprocess.PIPE, text=True, check=True
        )
    return float(json.loads(done.stdout)) / count * 1e6


def _on_the_wire(path: Path, folder: Path, seconds: float) -> dict[str, float]:
    """Of one replay by the engine's worker, in a process of its own, against the null S3 responder."""
    with tempfile.TemporaryDirectory(dir=folder) as inside, null_responder.start(OBJECT_BYTES) as responder:
        compiled, log = Path(inside) / "compiled", Path(inside) / "log.parquet"
        compile_trace(path, compiled)
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        worker = context.Process(target=_work, args=(theirs, responder.endpoint, compiled, log))
        worker.start()
        theirs.close()
        waited_seconds: float = ours.recv()
        worker.join()
        return {**figures_of(log), "core_waited_percent": waited_seconds / seconds * 100}


# What follows goes on in the worker's process.


def _work(pipe: Connection[Any, Any], endpoint: str, compiled: Path, log: Path) -> None:
    facts = CompiledTrace.open(compiled).facts
    replay = Replay(None, None, None, 0, 1.0, 0.0, 60.0, None, 1.0, facts=facts, folder=str(compiled))
    prepared = sum(count for _, count in facts.prepared)
    setting = s3_setting(Target(endpoint), keep_sessions_open=False)
    given = assignment(Workload("replay", replay, facts.streams), "s3", setting)
    part = ReplayAssignment(0, str(compiled), 0, 0, 0, prepared, prepared)
    _, report = carried_out(replace(given, op_log=log, replays=(part,)))
    pipe.send(report.cpu[-1].waited_seconds - report.cpu[0].waited_seconds)
