"""How well an open loop keeps its schedule: times of sending compared with due times."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from archiver.engine.numbers import ANY_TIME, ObjectNumbers
from archiver.engine.work.mixed import phase_run as mixed_phase_run
from archiver.engine.work.mixed.pacer import Pacer
from archiver.engine.work.mixed.shares import share_mixes
from archiver.engine.worker import phase_run
from archiver.engine.worker.assignment import Assignment
from archiver.measure.folding import Rows, take
from archiver.measure.reports import PhaseReport
from archiver.values.record import Operation, Recorder
from archiver.values.sizes import format_size
from backends.s3 import null_responder
from benchmarks.benchmark import Benchmark, Contenders, Experiment, Goal, Ratio
from benchmarks.own_worker import Way, assignment, carried_out, s3_way
from benchmarks.peers.base import Target
from benchmarks.processes import pinned, usable_cores
from benchmarks.values import Figures, medians
from scenarios.model import Workload
from scenarios.notation.distribution import Sizes
from scenarios.work.mix import Arrivals, Mix, Transaction

SESSIONS_PER_SECOND = 2000.0
OBJECT_BYTES = 8192
CLIENTS = 64  # sessions at once; what is due beyond waits
WITHIN_MS = 2.0
# Figures, also of replays.
EARLIEST, P50, P99, GAPS = "lateness min, ms", "lateness p50, ms", "lateness p99, ms", "distance of gaps"
WITHIN, CORE, CORE_WAITED = f"within {WITHIN_MS:g} ms, %", "client CPU, %", "waited for it, %"


class LoopTimers:
    """A schedule kept by the event loop's own timers: each call sets the timer of the next."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def start(self, due_ns: NDArray[np.int64], arrive: Callable[[int], None], done: Callable[[], None]) -> None:
        self._rest: Iterator[int] = iter(due_ns)
        self._arrive, self._done = arrive, done
        self._set_next()

    def close(self) -> None:
        pass

    def _set_next(self) -> None:
        due_ns = next(self._rest, None)
        if due_ns is None:
            self._done()
        else:
            self._loop.call_at(due_ns / 1e9, self._fire, due_ns)

    def _fire(self, due_ns: int) -> None:
        self._arrive(due_ns)
        self._set_next()


KEEPERS: dict[str, type[Pacer | LoopTimers]] = {"pacer": Pacer, "loop timers": LoopTimers}
PACER, LOOP_TIMERS = KEEPERS
# Backend, and the operations that are compared with their due times.
CASES = {
    "engine alone": ("null", Operation.SESSION),
    "sessions begun": ("s3", Operation.SESSION),
    "objects sent": ("s3", Operation.ARCHIVE),
}


def timing(due_ns: NDArray[np.int64], came_ns: NDArray[np.int64]) -> dict[str, float]:
    """Return how late operations came, and the distance of the gaps between them. ``came_ns``: when each came."""
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


class _Moments:
    """The rows of operations, kept before the engine folds them into histograms."""

    def __init__(self) -> None:
        self._rows: list[tuple[array[int], array[int], array[int]]] = []

    def take(self, records: Sequence[Recorder], measured: Sequence[tuple[int, int]]) -> Rows | None:
        """Do as archiver.measure.folding.take."""
        for record in records:
            new = slice(record.folded, record.used)
            self._rows.append((record.operation[new], record.due_ns[new], record.sent_ns[new]))
        return take(records, measured)

    def of(self, operation: Operation, from_ns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return due times and times of sending of the operations that were due from this instant."""
        operations, due_ns, sent_ns = (np.concatenate(column) for column in zip(*self._rows, strict=True))
        chosen = (operations == operation) & (due_ns >= from_ns)
        return due_ns[chosen], sent_ns[chosen]


def carry_out_schedule(keeper: str, given: Assignment, operation: Operation) -> dict[str, float]:
    """Carry out an assignment by the engine's worker in this process; return its timing after the warm-up."""
    moments = _Moments()
    with patch.object(mixed_phase_run, "Pacer", KEEPERS[keeper]), patch.object(phase_run, "take", moments.take):
        _, report = carried_out(given)
    (stage,) = report.stages
    due_ns, sent_ns = moments.of(operation, stage.measured_from_ns)
    assert len(due_ns) == stage.due - stage.dropped
    return {**timing(due_ns, sent_ns), **used_core(report)}


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
