"""How well an open loop keeps its schedule: times of sending compared with due times.

2,000 sessions/s of one 8 KiB object are due at random times (Poisson), in one worker on one core. Each session opens a
connection (``--session-open connect``: no request other than the object's) and closes it. A null responder on another
core answers. The worker is the engine's own, with its clients, records and reports. Two pacers keep the same schedule:
Archiver's pacer, which uses one kernel timer, and the timers of the event loop, which are the usual alternative. Null
sessions with the same schedule show the share of the engine alone.

Two times are compared with the due time. The first is the begin of the session (its connection), which depends on the
client alone. The second is the sending of the object, which includes the platform's time to connect. Lateness is the
difference to the due time. The distance of the gaps (Kolmogorov-Smirnov; 0: the same distribution, 1: no overlap) shows
whether the platform received the requested load. The first second is warm-up.

Rounds are interleaved, with the same schedule for both. The ratio of a pair is taken within its round; the page shows
the median of the rounds. Other processes can take the core away. A round in which the worker waited for its core is
weak evidence about the worker.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import statistics
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from archiver.engine.numbers import ANY_TIME, ObjectNumbers
from archiver.engine.work.mixed import phase_run as mixed_phase_run
from archiver.engine.work.mixed.pacer import Pacer
from archiver.engine.work.mixed.shares import share_mixes
from archiver.engine.work.worker import run_phase
from archiver.engine.worker import phase_run
from archiver.engine.worker.assignment import Assignment
from archiver.engine.workers.processes import PipeChannel
from archiver.measure.folding import Rows, take
from archiver.measure.reports import CpuSample, IntervalReport, PhaseReport
from archiver.values.record import Operation, Recorder
from archiver.values.sizes import format_size
from backends.s3 import null_responder
from backends.s3.setting import S3WorkerSetting
from benchmarks.affinity import pinned, usable_cores
from benchmarks.own_worker import assignment, s3_setting
from benchmarks.peers.base import Target
from benchmarks.tables import Table, labelled, plain, spread, verdict
from scenarios.model import Workload
from scenarios.notation.distribution import Sizes
from scenarios.work.mix import Arrivals, Mix, Transaction

TITLE = "How well an open loop keeps its schedule"
SESSIONS_PER_SECOND = 2000.0
OBJECT_BYTES = 8192
SECONDS, SECONDS_SMALL = 10.0, 0.25
WARM_UP_SECONDS, WARM_UP_SECONDS_SMALL = 1.0, 0.05
ROUNDS = 3
CLIENTS = 64  # sessions at once; what is due beyond waits
WITHIN_MS = 2.0
WITHIN_PERCENT_GOAL = 99.0


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
CASES = ("engine alone", "sessions begun", "objects sent")


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a schedule: the same moments as they were due and as they came, each in order of its own."""

    lateness_ms: NDArray[np.float64]
    gaps_distance: float

    @classmethod
    def of(cls, due_ns: NDArray[np.int64], came_ns: NDArray[np.int64]) -> Kept:
        """``came_ns``: when each of ``due_ns`` came."""
        return cls((came_ns - due_ns) / 1e6, distance(np.diff(np.sort(due_ns)), np.diff(np.sort(came_ns))))

    def figures(self) -> dict[str, float]:
        p50, p90, p99 = np.percentile(self.lateness_ms, (50, 90, 99)).tolist()
        return {
            "lateness_ms_min": float(self.lateness_ms.min()),  # below 0: before it was due
            "lateness_ms_p50": p50,
            "lateness_ms_p90": p90,
            "lateness_ms_p99": p99,
            "lateness_ms_max": float(self.lateness_ms.max()),
            "within_percent": float(np.mean(np.abs(self.lateness_ms) <= WITHIN_MS) * 100),
            "gaps_distance": self.gaps_distance,
        }


def distance(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Of two samples, Kolmogorov-Smirnov: how far apart, at most, the shares are that lie at or below any value."""
    values = np.concatenate((one, other))
    below = [np.searchsorted(np.sort(sample), values, side="right") / len(sample) for sample in (one, other)]
    return float(np.abs(below[0] - below[1]).max())


def measure(*, small: bool) -> dict[str, Any]:
    """Per round and keeper: lateness, gaps and client CPU of sessions begun, null and real, and of objects sent."""
    rounds, seconds = (1, SECONDS_SMALL) if small else (ROUNDS, SECONDS)
    warm_up_seconds = WARM_UP_SECONDS_SMALL if small else WARM_UP_SECONDS
    cores = usable_cores()
    found: dict[str, dict[str, list[dict[str, float]]]] = {case: {name: [] for name in KEEPERS} for case in CASES}
    with (
        pinned(cores[:1]),
        null_responder.start(OBJECT_BYTES, cores[:1]) as responder,
        _worker(cores[-1:]) as pipe,
    ):
        setting = s3_setting(Target(responder.endpoint), keep_sessions_open=False)
        for seed in range(rounds):
            null = _assignment("null", None, warm_up_seconds, seconds, seed)
            s3 = _assignment("s3", setting, warm_up_seconds, seconds, seed)
            for name in KEEPERS:
                for case, figures in (_carried_out(pipe, name, null) | _carried_out(pipe, name, s3)).items():
                    found[case][name].append(figures)
    within = {
        case: statistics.median(figures["within_percent"] for figures in keepers[PACER])
        for case, keepers in found.items()
    }
    return {
        "sessions_per_second": SESSIONS_PER_SECOND,
        "object_bytes": OBJECT_BYTES,
        "clients": CLIENTS,
        "seconds": seconds,
        "rounds": rounds,
        "within_ms": WITHIN_MS,
        "cases": found,
        "ratios": {case: _ratios(keepers) for case, keepers in found.items()},
        "goals": {"within_percent": WITHIN_PERCENT_GOAL},
        "goals_met": {case: percent >= WITHIN_PERCENT_GOAL for case, percent in within.items()},
    }


def tables(document: dict[str, Any]) -> list[Table]:
    """By case and keeper."""
    rows = []
    for case, keepers in document["cases"].items():
        for name, rounds in keepers.items():
            cells = [
                spread([each[key] for each in rounds], decimals)
                for key, decimals in (
                    ("lateness_ms_p50", 2), ("lateness_ms_p99", 2), ("lateness_ms_max", 1), ("within_percent", 2),
                    ("gaps_distance", 3), ("cpu_percent", 0), ("waited_percent", 1),
                )
            ]  # fmt: skip
            rows.append((*plain(case, name), *cells))
        of = document["ratios"][case]
        ratios = ["", f"{of['lateness_ms_p99']:.2f}", "", "", f"{of['gaps_distance']:.2f}", f"{of['cpu_percent']:.2f}"]
        rows.append(plain(case, "pacer / loop timers", *ratios, ""))
    title = f"{document['sessions_per_second']:,.0f} sessions/s of one {format_size(document['object_bytes'])} object"
    headings = (
        "lateness p50, ms", "p99", "max", f"within {document['within_ms']:g} ms, %", "distance of gaps",
        "client CPU, %", "waited for it, %",
    )  # fmt: skip
    return [Table("open-loop", title, labelled(("case", "kept by"), *headings), tuple(rows))]


def notes(document: dict[str, Any]) -> list[str]:
    met = ", ".join(f"{case}: {verdict(met)}" for case, met in document["goals_met"].items())
    return [
        f"goal: the pacer keeps at least {document['goals']['within_percent']:g}% within {document['within_ms']:g} ms "
        f"of their due times: {met}"
    ]


def headline(document: dict[str, Any]) -> str:
    """As README.md has it."""
    within = {
        (case, name): statistics.median(each["within_percent"] for each in rounds)
        for case, keepers in document["cases"].items()
        for name, rounds in keepers.items()
    }
    alone, begun, sent = CASES
    return (
        f"{within[begun, PACER]:.1f}% of sessions begin within {document['within_ms']:.0f} ms of their due time,"
        f" with the event loop's own timers\n{within[begun, LOOP_TIMERS]:.1f}%; objects are sent in time in"
        f" {within[sent, PACER]:.1f}% and {within[sent, LOOP_TIMERS]:.1f}%; without a wire"
        f" {within[alone, PACER]:.1f}% begin in time."
    )


def _ratios(keepers: dict[str, list[dict[str, float]]]) -> dict[str, float]:
    pairs = list(zip(keepers[PACER], keepers[LOOP_TIMERS], strict=True))
    return {
        key: statistics.median(ours[key] / theirs[key] for ours, theirs in pairs)
        for key in ("lateness_ms_p99", "gaps_distance", "cpu_percent")
    }


def _assignment(
    backend: str, setting: S3WorkerSetting | None, warm_up_seconds: float, seconds: float, seed: int
) -> Assignment:
    """An open loop of sessions of one object, all of them one worker's."""
    mix = Mix(
        (Transaction(("archive",), 1.0),),
        data="archived",
        sizes=Sizes.constant(OBJECT_BYTES),
        arrivals=Arrivals("poisson", SESSIONS_PER_SECOND),
        warm_up_seconds=warm_up_seconds,
        seconds=warm_up_seconds + seconds,
    )
    given = assignment(Workload("archive", mix, CLIENTS), backend, setting)
    (share,) = share_mixes(given.phase, ObjectNumbers(seed), ANY_TIME, 1)
    return replace(given, mixes=share.mixes, data=share.data)


@contextmanager
def _worker(cores: Sequence[int]) -> Iterator[Connection[Any, Any]]:
    """A process for the engine's worker, and the pipe to it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, cores))
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        process.join()


def _carried_out(pipe: Connection[Any, Any], keeper: str, assignment: Assignment) -> dict[str, dict[str, float]]:
    """What the worker finds, once it is done; its reports come by the same way as in a run."""
    pipe.send((keeper, assignment))
    while isinstance(message := pipe.recv(), IntervalReport):
        assert not message.errors, "the null responder answered something unexpected"
    found: dict[str, dict[str, float]] = message
    return found


# What follows goes on in the worker's process.


def _work(pipe: Connection[Any, Any], cores: Sequence[int]) -> None:
    os.sched_setaffinity(0, cores)
    while True:
        try:
            keeper, assignment = pipe.recv()
        except EOFError:
            return
        moments = _Moments()
        with patch.object(mixed_phase_run, "Pacer", KEEPERS[keeper]), patch.object(phase_run, "take", moments.take):
            report = run_phase(assignment, _AtOnce(pipe))
        pipe.send(moments.figures(assignment.backend, report))


class _AtOnce(PipeChannel):
    """Starts without being told."""

    def wait_for_start(self) -> int:
        return time.monotonic_ns()


class _Moments:
    """When sessions and objects were due, and when they came: what the engine folds into histograms, kept apart."""

    def __init__(self) -> None:
        self._rows: list[tuple[array[int], array[int], array[int]]] = []

    def take(self, records: Sequence[Recorder], measured: Sequence[tuple[int, int]]) -> Rows | None:
        """Do as archiver.measure.folding.take."""
        for record in records:
            new = slice(record.folded, record.used)
            self._rows.append((record.operation[new], record.due_ns[new], record.sent_ns[new]))
        return take(records, measured)

    def figures(self, backend: str, report: PhaseReport) -> dict[str, dict[str, float]]:
        """By case, after the warm-up."""
        (stage,) = report.stages
        operation, due_ns, sent_ns = (np.concatenate(column) for column in zip(*self._rows, strict=True))
        used = _cpu(report.cpu)
        operations = {"engine alone": Operation.SESSION}
        if backend == "s3":
            operations = {"sessions begun": Operation.SESSION, "objects sent": Operation.ARCHIVE}
        found = {}
        for case, code in operations.items():
            rows = (operation == code) & (due_ns >= stage.measured_from_ns)
            assert rows.sum() == stage.due - stage.dropped
            found[case] = {**Kept.of(due_ns[rows], sent_ns[rows]).figures(), **used, "dropped": float(stage.dropped)}
        return found


def _cpu(samples: Sequence[CpuSample]) -> dict[str, float]:
    """``waited``: ready to run, but something else had the core; what was late then is not the worker's doing."""
    first, last = samples[0], samples[-1]
    seconds = (last.at_ns - first.at_ns) / 1e9
    return {
        "cpu_percent": (last.used_seconds - first.used_seconds) / seconds * 100,
        "waited_percent": (last.waited_seconds - first.waited_seconds) / seconds * 100,
    }
