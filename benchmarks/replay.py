"""Timing of a replay compared with its trace, and the memory of a replay."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from archiver.engine.work.replay.compile.compiled import CompiledTrace
from archiver.engine.work.replay.compile.compiling import compile_trace
from archiver.engine.worker.assignment import ReplayAssignment
from archiver.traces.format import Origin, TracedOperation, TraceWriter
from backends.s3 import null_responder
from benchmarks.benchmark import Benchmark, Contenders, Experiment, Goal
from benchmarks.growth import growth_of
from benchmarks.open_loop import GAPS, P99, gaps_distance, timing, used_core
from benchmarks.own_worker import Way, assignment, carried_out, s3_way
from benchmarks.peers.base import Target
from benchmarks.processes import in_own_process, peaks_of_command
from benchmarks.values import Figures, Results
from scenarios.model import Workload
from scenarios.work.replay import Replay

OBJECT_BYTES = 8192
STREAMS = 16
STOCK_OBJECTS = 1000
NULL, WIRE = "null backend", "null S3 responder"
RATES = {NULL: (200, 500, 1000, 2000), WIRE: (500, 1000)}  # operations/s
MEMORY_RATE = 20_000  # operations/s: one core bears nearly twice as many on the null backend
GAP_MS_MIN = 5.0  # of gaps whose distance is judged
GAP, STREAM_GAP, STREAM_GAPS = "mean gap, ms", "mean gap of a stream, ms", "distance, worst stream"
PROCESSES = ("worker", "coordinator")


def write_trace(path: Path, count: int, rate: float, seed: int) -> Path:
    """Write a trace of so many operations, ``rate`` of them a second in the mean."""
    raw = np.random.PCG64(seed)
    uniform = (raw.random_raw(count) >> np.uint64(11)) * 2.0**-53
    gaps = -np.log1p(-uniform)
    due_seconds = np.cumsum(gaps) - gaps[0]
    due_seconds *= (count - 1) / rate / due_seconds[-1]  # exactly this rate, whatever the random gaps are
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
    """Return what an operation log shows of when operations were due and when they were sent."""
    table = pq.read_table(log, columns=["due_ns", "sent_ns", "done_ns", "client", "key"])
    table = table.filter(table["key"].is_valid()).sort_by([("client", "ascending"), ("due_ns", "ascending")])
    due_ns, sent_ns, done_ns, client = (
        table[name].to_numpy().astype(np.int64) for name in ("due_ns", "sent_ns", "done_ns", "client")
    )
    follows = np.append(False, client[1:] == client[:-1])
    waited = follows & (np.append(0, done_ns[:-1]) > due_ns)
    ready = follows & ~waited  # the first of a stream has its session's opening before it
    streams = [client == each for each in np.unique(client)]
    return {
        "sent/s": (len(sent_ns) - 1) / (float(np.ptp(sent_ns)) / 1e9),
        **timing(due_ns[ready], sent_ns[ready]),
        "had to wait, %": float(waited.mean() * 100),
        GAP: float(np.ptp(due_ns)) / (len(due_ns) - 1) / 1e6,
        GAPS: gaps_distance(due_ns, sent_ns),
        STREAM_GAP: min(float(np.ptp(due_ns[each])) / (int(each.sum()) - 1) / 1e6 for each in streams),
        STREAM_GAPS: max(gaps_distance(due_ns[each], sent_ns[each]) for each in streams),
    }


def carry_out_trace(way: Way, trace: Path) -> dict[str, float]:
    """Replay a trace by the engine's worker in this process, with an operation log; return the log's figures."""
    with tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as inside:
        compiled, log = Path(inside) / "compiled", Path(inside) / "log.parquet"
        compile_trace(trace, compiled)
        facts = CompiledTrace.open(compiled).facts
        replay = Replay(None, None, None, 0, 1.0, 0.0, 60.0, None, 1.0, facts=facts, folder=str(compiled))
        prepared = sum(count for _, count in facts.prepared)
        part = ReplayAssignment(0, str(compiled), 0, 0, 0, prepared, prepared)
        given = assignment(Workload("replay", replay, facts.streams), way)
        _, report = carried_out(replace(given, op_log=log, replays=(part,)))
        return {**figures_of(log), **used_core(report)}


@contextmanager
def _timing(platform: str, rate: int, seconds: float) -> Iterator[Contenders]:
    seeds = itertools.count()
    with (
        tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as folder,
        null_responder.start(OBJECT_BYTES) as responder,
    ):
        way = Way("null", None)
        if platform == WIRE:
            way = s3_way(Target(responder.endpoint), keep_sessions_open=False)

        def run() -> Figures:
            trace = write_trace(Path(folder) / "trace.parquet", round(rate * seconds), rate, next(seeds))
            found: Figures = in_own_process(carry_out_trace, way, trace)
            return found

        yield {(platform, f"{rate:,}"): run}


def peaks_of(operations: int) -> Figures:
    """Return the peaks of `archiver replay` of a trace of so many operations."""
    with tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as folder:
        trace = write_trace(Path(folder) / "trace.parquet", operations, MEMORY_RATE, seed=0)
        return peaks_of_command(Path(folder), "replay", str(trace), "--tolerance", "60s")


def _experiments(small: bool) -> list[Experiment]:
    seconds = 0.5 if small else 5.0
    return [
        Experiment(
            "replay",
            f"{seconds:g} s in {STREAMS} streams",
            ("platform", "operations/s"),
            [
                _timing(platform, rate, seconds)
                for platform, rates in RATES.items()
                for rate in (rates[:1] if small else rates)
            ],
            rounds=1 if small else 3,
        ),
        Experiment(
            "replay-memory",
            f"Peak MiB at {MEMORY_RATE:,} operations/s, null backend",
            ("operations",),
            [
                nullcontext({(f"{count:,}",): partial(peaks_of, count)})
                for count in ((1_000, 10_000) if small else (100_000, 1_000_000))
            ],
        ),
    ]


def _lateness(results: Results) -> list[float]:
    measured = results["replay"]
    return [measured.median(row, P99) for row in measured.rows if row[0] == NULL]


def _judged_distances(results: Results) -> list[float]:
    """Return the distances of gaps on the null backend, where the gaps are long enough."""
    measured = results["replay"]
    pairs = ((GAP, GAPS), (STREAM_GAP, STREAM_GAPS))
    return [
        measured.median(row, distance)
        for gap, distance in pairs
        for row in measured.rows
        if row[0] == NULL and measured.median(row, gap) >= GAP_MS_MIN
    ]


REPLAY = Benchmark(
    name="replay",
    question="Replays: times of sending compared with the trace, memory.",
    experiments=_experiments,
    goals=(
        Goal(f"{NULL}, p99 of lateness at every rate, ms", _lateness, "at most", 1.0),
        Goal(f"{NULL}, distance of gaps of {GAP_MS_MIN:g} ms or more", _judged_distances, "below", 0.05),
        *(
            Goal(
                f"{process}, growth for ten times the operations, private MiB",
                partial(growth_of, "replay-memory", f"{process}, private MiB"),
                "at most",
                50,
            )
            for process in PROCESSES
        ),
    ),
)
