"""Times of sending compared with due times: how open loops and replays keep their schedules; memory of a replay."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from archiver.engine.numbers import ANY_TIME, ObjectNumbers
from archiver.engine.work.mixed import phase_run as mixed_phase_run
from archiver.engine.work.mixed.pacer import Pacer
from archiver.engine.work.mixed.shares import share_mixes
from archiver.engine.work.replay.compile.compiled import CompiledTrace
from archiver.engine.work.replay.compile.compiling import compile_trace
from archiver.engine.worker import phase_run
from archiver.engine.worker.assignment import Assignment, ReplayAssignment
from archiver.measure.folding import Rows, take
from archiver.measure.reports import PhaseReport
from archiver.traces.format import Origin, TracedOperation, TraceWriter
from archiver.values.record import Operation, Recorder
from archiver.values.sizes import format_size
from backends.s3 import null_responder
from benchmarks.benchmark import Benchmark, Contenders, Experiment, Figures, Goal, Ratio, Results, medians
from benchmarks.growth import growth_of, peaks_experiment
from benchmarks.own_worker import Way, assignment, carried_out, s3_way
from benchmarks.peers.base import Target
from benchmarks.processes import in_own_process, peaks_of_command, pinned, usable_cores
from scenarios.model import Workload
from scenarios.notation.distribution import Sizes
from scenarios.work.mix import Arrivals, Mix, Transaction
from scenarios.work.replay import Replay

SESSIONS_PER_SECOND = 2000.0
OBJECT_BYTES = 8192
CLIENTS = 64  # sessions at once; other due sessions wait
WITHIN_MS = 2.0
# Figures, also of replays.
EARLIEST, P50, P99, GAPS = "lateness min, ms", "lateness p50, ms", "lateness p99, ms", "distance of gaps"
WITHIN, CORE, CORE_WAITED = f"within {WITHIN_MS:g} ms, %", "client CPU, %", "waited for it, %"


class LoopTimers:
    """A schedule kept by the event loop's own timers: each call sets the timer of the next."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def start(self, due_ns: NDArray[np.int64], arrive: Callable[[int], None], done: Callable[[], None]) -> None:
        rest = iter(due_ns)

        def set_next() -> None:
            due_ns = next(rest, None)
            if due_ns is None:
                done()
            else:
                self._loop.call_at(due_ns / 1e9, fire, due_ns)

        def fire(due_ns: int) -> None:
            arrive(due_ns)
            set_next()

        set_next()

    def close(self) -> None:
        pass


KEEPERS: dict[str, type[Pacer | LoopTimers]] = {"pacer": Pacer, "loop timers": LoopTimers}
PACER, LOOP_TIMERS = KEEPERS
# Backend, and the operations that are compared with their due times.
CASES = {
    "engine alone": ("null", Operation.SESSION),
    "sessions begun": ("s3", Operation.SESSION),
    "objects sent": ("s3", Operation.ARCHIVE),
}


def timing(due_ns: NDArray[np.int64], came_ns: NDArray[np.int64]) -> dict[str, float]:
    """Return the scheduling delay (lateness) of operations, and the distance of their gaps. ``came_ns``: begins."""
    lateness_ms = (came_ns - due_ns) / 1e6
    p50, p99 = np.percentile(lateness_ms, (50, 99)).tolist()
    return {
        EARLIEST: float(lateness_ms.min()),  # below 0: before it was due
        P50: p50,
        P99: p99,
        "lateness max, ms": float(lateness_ms.max()),
        WITHIN: float(np.mean(np.abs(lateness_ms) <= WITHIN_MS) * 100),
        GAPS: gaps_distance(due_ns, came_ns),
    }


def gaps_distance(due_ns: NDArray[np.int64], came_ns: NDArray[np.int64]) -> float:
    return distance(np.diff(np.sort(due_ns)), np.diff(np.sort(came_ns)))


def distance(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Return the Kolmogorov-Smirnov distance of two samples.

    It is the largest difference of the shares of both samples that lie at or below any value.
    """
    values = np.concatenate((one, other))
    below = [np.searchsorted(np.sort(sample), values, side="right") / len(sample) for sample in (one, other)]
    return float(np.abs(below[0] - below[1]).max())


def used_core(report: PhaseReport) -> dict[str, float]:
    """Return the worker's CPU, and how long it was ready to run while another process had its core."""
    first, last = report.cpu[0], report.cpu[-1]
    seconds = (last.at_ns - first.at_ns) / 1e9
    return {
        CORE: (last.used_seconds - first.used_seconds) / seconds * 100,
        CORE_WAITED: (last.waited_seconds - first.waited_seconds) / seconds * 100,
    }


def carry_out_schedule(keeper: str, given: Assignment, operation: Operation) -> dict[str, float]:
    """Carry out an assignment by the engine's worker in this process; return its timing after the warm-up."""
    rows: list[tuple[array[int], array[int], array[int]]] = []

    def keep_rows(records: Sequence[Recorder], measured: Sequence[tuple[int, int]]) -> Rows | None:
        """Keep the rows before the engine folds them into histograms."""
        for record in records:
            new = slice(record.folded, record.used)
            rows.append((record.operation[new], record.due_ns[new], record.sent_ns[new]))
        return take(records, measured)

    with patch.object(mixed_phase_run, "Pacer", KEEPERS[keeper]), patch.object(phase_run, "take", keep_rows):
        _, report = carried_out(given)
    (stage,) = report.stages
    operations, due_ns, sent_ns = (np.concatenate(column) for column in zip(*rows, strict=True))
    chosen = (operations == operation) & (due_ns >= stage.measured_from_ns)
    assert chosen.sum() == stage.due - stage.dropped
    return {**timing(due_ns[chosen], sent_ns[chosen]), **used_core(report)}


def _assignment(way: Way, warm_up_seconds: float, seconds: float, seed: int) -> Assignment:
    """Return the assignment of an open loop of sessions of one object, all of them one worker's."""
    mix = Mix(
        (Transaction(("archive",), 1.0),),
        data="archived",
        sizes=Sizes.constant(OBJECT_BYTES),
        arrivals=Arrivals("poisson", SESSIONS_PER_SECOND),
        planned_warm_up_seconds=warm_up_seconds,
        planned_seconds=warm_up_seconds + seconds,
    )
    given = assignment(Workload("archive", mix, CLIENTS), way)
    (share,) = share_mixes(given.phase, ObjectNumbers(seed), ANY_TIME, 1)
    return replace(given, mixes=share.mixes, data=share.data)


@contextmanager
def _schedules(warm_up_seconds: float, seconds: float) -> Iterator[Contenders]:
    *_, worker_core = cores = usable_cores()
    with (
        null_responder.start(OBJECT_BYTES, cores[:1]) as responder,
        pinned([worker_core]),
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as worker,
    ):
        s3 = s3_way(Target(responder.endpoint), keep_sessions_open=False)

        def run(seeds: Iterator[int], keeper: str, backend: str, operation: Operation) -> Figures:
            way = s3 if backend == "s3" else Way("null", None)
            given = _assignment(way, warm_up_seconds, seconds, next(seeds))
            return worker.submit(carry_out_schedule, keeper, given, operation).result()

        yield {
            (case, keeper): partial(run, itertools.count(), keeper, *CASES[case])
            for case in CASES
            for keeper in KEEPERS
        }


OPEN_LOOP = Benchmark(
    name="open-loop",
    question="Times of sending compared with due times: the pacer and the event loop's timers.",
    experiments=lambda small: [
        Experiment(
            "open-loop",
            f"{SESSIONS_PER_SECOND:,.0f} sessions/s of one {format_size(OBJECT_BYTES)} object",
            ("case", "kept by"),
            [_schedules(0.05, 0.25) if small else _schedules(1.0, 10.0)],
            rounds=1 if small else 3,
            ratios=tuple(Ratio(f"{name}, pacer / timers", name, PACER, LOOP_TIMERS) for name in (P99, GAPS, CORE)),
        )
    ],
    goals=tuple(
        Goal(
            f"{case}, pacer, {WITHIN}",
            medians("open-loop", WITHIN, (case, PACER)),
            "at least",
            99.0,
        )
        for case in CASES
    ),
)

# Replays.
STREAMS = 16
STOCK_OBJECTS = 1000
NULL, WIRE = "null backend", "null S3 responder"
RATES = {NULL: (200, 500, 1000, 2000), WIRE: (500, 1000)}  # operations/s
ON_NULL = [(NULL, f"{rate:,}") for rate in RATES[NULL]]
MEMORY_RATE = 20_000  # operations/s: one core bears nearly twice as many on the null backend
GAP_MS_MIN = 5.0  # of gaps whose distance is judged
GAP, STREAM_GAP, STREAM_GAPS = "mean gap, ms", "mean gap of a stream, ms", "distance, worst stream"
PROCESSES = ("worker", "coordinator")


def write_trace(path: Path, count: int, rate: float, seed: int) -> Path:
    """Write a trace of ``count`` operations, ``rate`` of them a second in the mean."""
    raw = np.random.PCG64(seed)
    uniform = (raw.random_raw(count) >> np.uint64(11)) * 2.0**-53
    gaps = -np.log1p(-uniform)
    due_seconds = np.cumsum(gaps) - gaps[0]
    due_seconds *= (count - 1) / rate / due_seconds[-1]  # exactly this rate for any random gaps
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
    """Return the figures of an operation log: when operations were due and when they were sent."""
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
    """Return the peaks of `archiver replay` of a trace of ``operations``."""
    with tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as folder:
        trace = write_trace(Path(folder) / "trace.parquet", operations, MEMORY_RATE, seed=0)
        return peaks_of_command(Path(folder), "replay", str(trace), "--tolerance", "60s")


def _replays(small: bool) -> list[Experiment]:
    seconds = 0.5 if small else 5.0
    rates = [(platform, rate) for platform in RATES for rate in RATES[platform][: 1 if small else None]]
    return [
        Experiment(
            "replay",
            f"{seconds:g} s in {STREAMS} streams",
            ("platform", "operations/s"),
            [_timing(platform, rate, seconds) for platform, rate in rates],
            rounds=1 if small else 3,
        ),
        peaks_experiment(
            "replay-memory", f"Peak MiB at {MEMORY_RATE:,} operations/s, null backend", "operations", peaks_of, small
        ),
    ]


def _judged_distances(results: Results) -> list[float]:
    """Return the distances of gaps on the null backend, where the gaps are long enough."""
    median = results["replay"].median
    return [
        median(row, distance)
        for gap, distance in ((GAP, GAPS), (STREAM_GAP, STREAM_GAPS))
        for row in ON_NULL
        if row in results["replay"].rows and median(row, gap) >= GAP_MS_MIN
    ]


REPLAY = Benchmark(
    name="replay",
    question="Replays: times of sending compared with the trace, memory.",
    experiments=_replays,
    goals=(
        Goal(f"{NULL}, p99 of lateness at every rate, ms", medians("replay", P99, *ON_NULL), "at most", 1.0),
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
