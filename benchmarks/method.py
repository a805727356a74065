"""Quality of the method: coverage of settled cells, bias of several clients' rates, and the engine's tail latency.

One idea: simulations, in which the true values are known, drive the engine's own stop rules.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import socket
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from archiver.engine.rounds import CONFIRMING_ROUNDS, PRECISION, ROUNDS_MAX, ROUNDS_MIN, is_known
from archiver.engine.worker import phase_run
from archiver.engine.worker.stopping import SessionStop, SharedWindow, WindowStop
from benchmarks.benchmark import Benchmark, Contenders, Experiment, Figures, Goal, Results, median_ratio, medians
from benchmarks.own_worker import carry_out_job
from benchmarks.peers.base import Job, Target
from results.measures.statistics import estimate, t_quantile
from scenarios.work.sessions import InWindow, UntilPrecise

RULE = UntilPrecise(3.0, 10.0, 1 << 60, 0.05, sessions_min=3)
WINDOW = InWindow(3.0, client_bytes_max=1 << 60, warm_up_seconds=0.5)
CLIENTS = 4
VOTES_SECONDS = (0.45, 1.0, 2.5)
VOTES_SPREAD = 0.3
ANSWER_SECONDS = 0.0005
OBJECTS_PER_SESSION = 100
OBJECT_BYTES = 8192
COVERAGE_PERCENT_GOAL, BIAS_PERCENT_GOAL, INTERVALS_PERCENT_GOAL = 90, 2, 93
VARIATIONS = (0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3)  # of a rate between rounds
ROUNDS, COVERED = "rounds", "intervals with the true rate, %"
SETTLED, WITHIN = "settled, %", "within 5%, %"
BIAS, SPREAD = "bias, %", "spread, %"


class Sample(NamedTuple):
    """Session times of one simulated cell: their mean, coefficient of variation and first autocorrelation."""

    mean_seconds: float
    variation: float
    lag_1: float

    def __str__(self) -> str:
        return f"{self.mean_seconds * 1e3:g} ms ± {self.variation:.0%}, autocorrelation {self.lag_1:g}"


SAMPLES = tuple(
    Sample(mean_seconds, variation, lag_1)
    for mean_seconds, variations in ((0.02, (0.1, 0.3)), (0.2, (0.05, 0.1)), (0.8, (0.02, 0.05)))
    for variation in variations
    for lag_1 in (0.0, 0.3, 0.56)
)


def _session_seconds(random: np.random.Generator, sample: Sample) -> Iterator[float]:
    """Yield session times one after another, without end."""
    sigma = math.sqrt(math.log(1 + sample.variation**2))
    state = random.standard_normal()
    fresh = math.sqrt(1 - sample.lag_1**2)
    while True:
        for noise in random.standard_normal(256).tolist():
            yield sample.mean_seconds * math.exp(sigma * state - sigma**2 / 2)
            state = sample.lag_1 * state + fresh * noise


def coverage_of(random: np.random.Generator, sample: Sample, cells: int) -> dict[str, float]:
    """Return the share of settled cells, and of these the share within the precision, in percent.

    For comparison, the same by Student's interval without corrections.
    """
    found: dict[str, list[bool]] = {"": [], "Student's ": []}
    for _ in range(cells):
        stop, now_ns = SessionStop(RULE, 1, 1 << 60), 1
        times = _session_seconds(random, sample)
        while stop.wants_session(now_ns):
            opened_ns, now_ns = now_ns, now_ns + int(next(times) * 1e9)
            stop.session_ended(opened_ns, now_ns)
        if stop.settled:
            found[""].append(_is_precise(stop.mean_session_seconds, sample))
        mean = _uncorrected(_session_seconds(random, sample))
        if mean is not None:
            found["Student's "].append(_is_precise(mean, sample))
    return {
        f"{name}{what}": share * 100
        for name, precise in found.items()
        for what, share in (
            (SETTLED, len(precise) / cells),
            (WITHIN, statistics.fmean(precise) if precise else 0.0),
        )
    }


def _is_precise(mean_seconds: float, sample: Sample) -> bool:
    return abs(mean_seconds / sample.mean_seconds - 1) <= RULE.precision


def _uncorrected(times: Iterator[float]) -> float | None:
    """Return the mean at which Student's interval, looked at after every session, is first precise; None if never."""
    count, mean, squares, elapsed = 0, 0.0, 0.0, 0.0
    while elapsed < RULE.seconds_max:
        each = next(times)
        count, elapsed = count + 1, elapsed + each
        off = each - mean
        mean += off / count
        squares += off * (each - mean)
        if count >= RULE.sessions_min and elapsed >= RULE.seconds_min:
            degrees = min(count - 1, 200)
            if t_quantile(0.975, degrees) * math.sqrt(squares / (count - 1) / count) <= RULE.precision * mean:
                return mean
    return None


def bias_of(random: np.random.Generator, votes_seconds: float, windows: int) -> dict[str, float]:
    """Return bias and spread of the rate of clients whose sessions end with a vote, in percent.

    For comparison, the same for the sessions that end within a fixed window, divided by its seconds.
    """
    sample = Sample(votes_seconds, VOTES_SPREAD, 0.0)
    true_rate = CLIENTS / votes_seconds
    whole, cut = [], []
    for _ in range(windows):
        window = SharedWindow(WINDOW, 0, CLIENTS)
        stops = [WindowStop(window) for _ in range(CLIENTS)]
        sessions = measured_ns = within = 0
        for stop in stops:
            now_ns = 1
            times = _session_seconds(random, sample)
            while stop.measured.to_ns > now_ns:
                opened_ns, now_ns = now_ns, now_ns + int(next(times) * 1e9)
                was_measured = stop.measured_from_ns > 0
                stop.session_ended(opened_ns, now_ns)
                sessions += was_measured
                within += window.warm_up_to_ns <= now_ns < window.end_ns
            measured_ns += stop.measured_to_ns - stop.measured_from_ns
        whole.append(CLIENTS * sessions / (measured_ns / 1e9) / true_rate)
        cut.append(within / WINDOW.seconds / true_rate)
    return {
        BIAS: statistics.fmean(whole) * 100 - 100,
        SPREAD: statistics.pstdev(whole) * 100,
        f"{BIAS}, cut by the window": statistics.fmean(cut) * 100 - 100,
        f"{SPREAD}, cut by the window": statistics.pstdev(cut) * 100,
    }


def known_rates(random: np.random.Generator, variation: float, cells: int) -> dict[str, float]:
    """Return the rounds of a cell until its rate is known, and the percentage of 95% intervals that contain the truth.

    For comparison, the percentage without the confirming rounds.
    """
    sigma = math.sqrt(math.log(1 + variation**2))
    counts, covered, covered_at_once = [], [], []
    for _ in range(cells):
        rates = np.exp(sigma * random.standard_normal(ROUNDS_MAX)).tolist()
        for count in range(ROUNDS_MIN + CONFIRMING_ROUNDS, ROUNDS_MAX + 1):
            if is_known(rates[:count]) or count == ROUNDS_MAX:
                break
        counts.append(count)
        covered.append(_has_truth(rates[:count]))
        covered_at_once.append(_has_truth(rates[: count - CONFIRMING_ROUNDS]))
    return {
        ROUNDS: statistics.fmean(counts),
        COVERED: statistics.fmean(covered) * 100,
        f"{COVERED}, without confirming rounds": statistics.fmean(covered_at_once) * 100,
    }


def _has_truth(rates: Sequence[float]) -> bool:
    found = estimate(rates)
    return found.low is not None and found.high is not None and found.low <= 1.0 <= found.high


class _InTheLoop(ThreadPoolExecutor):
    """Stands in for the thread that folds: does the work at once."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **more: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*arguments, **more))
        return done


FOLDERS = {"in a thread": ThreadPoolExecutor, "in the event loop": _InTheLoop}
IN_THREAD, IN_LOOP = FOLDERS


@contextmanager
def _tail(objects: int) -> Iterator[Contenders]:
    def archive(folder: type) -> Figures:
        with patch.object(phase_run, "ThreadPoolExecutor", folder):
            counter, _ = carry_out_job(job, OBJECTS_PER_SESSION)
        latency = counter.latency()
        return {"p50": latency.p50, "p99": latency.p99, "p99.9": latency.p99_9}

    with socket.create_server(("127.0.0.1", 0)) as listening:
        endpoint = f"http://127.0.0.1:{listening.getsockname()[1]}"
        job = Job(Target(endpoint), "archive", OBJECT_BYTES, 1, objects)
        server = multiprocessing.get_context("fork").Process(target=_answer, args=(listening,), daemon=True)
        server.start()
        try:
            yield {(where,): partial(archive, folder) for where, folder in FOLDERS.items()}
        finally:
            server.terminate()
            server.join()


def _answer(listening: socket.socket) -> None:
    """Answer every request of every connection after the same time, with a busy wait."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    reply = (
        b'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: "0"\r\nx-amz-request-id: 0\r\nx-amz-version-id: null\r\n\r\n'
    )
    while True:
        connection, _ = listening.accept()
        with connection, connection.makefile("rb") as requests:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while requests.readline():
                body_bytes = 0
                while (line := requests.readline().lower()) not in (b"\r\n", b""):
                    if line.startswith(b"content-length:"):
                        body_bytes = int(line.partition(b":")[2])
                requests.read(body_bytes)
                answer_at = time.perf_counter() + ANSWER_SECONDS
                while time.perf_counter() < answer_at:
                    pass
                connection.sendall(reply)


def _experiments(small: bool) -> list[Experiment]:
    random = np.random.Generator(np.random.PCG64(1))
    cells, windows = (8, 20) if small else (4_000, 4_000)
    return [
        Experiment(
            "coverage",
            f"Cells that are settled, of {cells:,} each, and the share of these within 5% of the truth",
            ("session times",),
            [nullcontext({(str(sample),): partial(coverage_of, random, sample, cells) for sample in SAMPLES})],
        ),
        Experiment(
            "bias",
            f"Rate of {CLIENTS} clients in a window of {WINDOW.seconds:g} s, relative to the true rate",
            ("votes every",),
            [nullcontext({(f"{each:g} s",): partial(bias_of, random, each, windows) for each in VOTES_SECONDS})],
        ),
        Experiment(
            "rounds",
            f"Rounds until a rate is known within {PRECISION:.0%}, and 95% intervals that contain the true rate",
            ("variation between rounds",),
            [nullcontext({(f"{each:.0%}",): partial(known_rates, random, each, cells // 4) for each in VARIATIONS})],
        ),
        Experiment(
            "tail",
            f"Service times in ms on a server that answers after {ANSWER_SECONDS * 1e3:g} ms",
            ("rows are folded",),
            [_tail(400 if small else 20_000)],
            rounds=1 if small else 3,
        ),
    ]


def _coverage(results: Results) -> list[float]:
    """Return the coverage of the cells of which a tenth is settled."""
    measured = results["coverage"]
    return [measured.median(row, WITHIN) for row in measured.rows if measured.median(row, SETTLED) >= 10]


METHOD = Benchmark(
    name="method",
    question="Coverage of settled cells, bias of several clients' rates, the engine's own tail latency.",
    experiments=_experiments,
    goals=(
        Goal("settled cells within 5%, if a tenth is settled, %", _coverage, "at least", COVERAGE_PERCENT_GOAL),
        Goal(
            "bias of several clients' rates, %",
            lambda results: [*map(abs, medians("bias", BIAS)(results))],
            "below",
            BIAS_PERCENT_GOAL,
        ),
        Goal(
            "95% intervals after rounds that contain the true rate, %",
            medians("rounds", COVERED),
            "at least",
            INTERVALS_PERCENT_GOAL,
        ),
        Goal(
            "p99.9, rows folded in a thread / in the event loop",
            median_ratio("tail", "p99.9", ((IN_THREAD,), (IN_LOOP,))),
        ),
    ),
)
