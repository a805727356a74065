"""Quality of the method: coverage of settled cells, bias of several clients' rates, and the engine's tail latency.

Two parts are simulations, in which the true values are known. They drive the engine's own stop rules with random
session times: lognormal, and autocorrelated (an autoregressive process of first order in their logarithms).

- Coverage: of the settled cells, the share whose mean session time is within 5% of the true mean. For comparison:
  Student's interval without corrections, checked after every session.
- Bias: the mean rate of many windows of 3 s with four clients, relative to the true rate, and the spread of these
  rates. For comparison: the sessions that end within a fixed window, divided by its seconds.

The third part is a measurement. A server with one connection answers each archive of 8 KiB after 0.5 ms, with a busy
wait, and the engine's worker archives to it. The rows are folded in a thread, as in the engine, or in the event loop,
in turn.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from archiver.engine.worker import phase_run
from archiver.engine.worker.stopping import SessionStop, SharedWindow, WindowStop
from benchmarks.own_worker import carry_out
from benchmarks.peers.base import Job, Target
from benchmarks.tables import Table, labelled, plain, spread, verdict
from results.statistics import t_quantile
from scenarios.work.sessions import InWindow, UntilPrecise

TITLE = "Coverage, bias and the engine's own tail"
RULE = UntilPrecise(3.0, 10.0, 1 << 60, 0.05, sessions_min=3)
WINDOW = InWindow(3.0, client_bytes_max=1 << 60, warm_up_seconds=0.5)
CELLS, CELLS_SMALL = 4_000, 8
WINDOWS, WINDOWS_SMALL = 4000, 20
CLIENTS = 4
VOTES_SECONDS = (0.45, 1.0, 2.5)
VOTES_SPREAD = 0.3
ANSWER_SECONDS = 0.0005
OBJECTS, OBJECTS_SMALL = 20_000, 400
OBJECTS_PER_SESSION = 100
OBJECT_BYTES = 8192
ROUNDS = 3
COVERAGE_GOAL, BIAS_GOAL = 0.90, 0.02


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


def measure(*, small: bool) -> dict[str, Any]:
    random = np.random.Generator(np.random.PCG64(1))
    cells = CELLS_SMALL if small else CELLS
    coverage = [coverage_of(random, sample, cells) for sample in SAMPLES]
    settled = sum(each["settled"] for each in coverage)
    bias = [bias_of(random, seconds, WINDOWS_SMALL if small else WINDOWS) for seconds in VOTES_SECONDS]
    rounds = 1 if small else ROUNDS
    tail = _tail(rounds, OBJECTS_SMALL if small else OBJECTS)
    return {
        "rounds": rounds,
        "cells": cells,
        "coverage": coverage,
        "coverage_of_all": sum(each["settled"] * each["coverage"] for each in coverage) / settled if settled else None,
        "bias": bias,
        "tail": tail,
        "goals_met": {
            "coverage": all(each["coverage"] >= COVERAGE_GOAL for each in coverage if each["settled"] >= 0.1),
            "bias": all(abs(each["bias"]) < BIAS_GOAL for each in bias),
        },
    }


def tables(document: dict[str, Any]) -> list[Table]:
    return [
        Table(
            "coverage",
            f"Cells that are settled, of {document['cells']} each, and the share of these within 5% of the truth",
            labelled(("session times",), "settled", "within 5%", "Student's: settled", "within 5%"),
            tuple(
                plain(
                    each["sample"], *(f"{each[name]:.0%}" for name in ("settled", "coverage")),
                    *(f"{each['uncorrected'][name]:.0%}" for name in ("settled", "coverage")),
                )
                for each in document["coverage"]
            ),
        ),
        Table(
            "bias",
            f"Rate of {CLIENTS} clients in a window of {WINDOW.seconds:g} s, relative to the true rate",
            labelled(("votes every",), "whole sessions", "their spread", "cut by the window", "their spread"),
            tuple(
                plain(
                    f"{each['votes_seconds']:g} s", f"{each['bias']:+.1%}", f"{each['spread']:.1%}",
                    f"{each['cut']['bias']:+.1%}", f"{each['cut']['spread']:.1%}",
                )
                for each in document["bias"]
            ),
        ),
        Table(
            "tail",
            f"Service times in ms on a server that answers after {ANSWER_SECONDS * 1e3:g} ms",
            labelled(("rows are folded",), "p50", "p99", "p99.9"),
            tuple(
                (*plain(where), *(spread(document["tail"][where][name], 3) for name in ("p50", "p99", "p99_9")))
                for where in document["tail"]
            ),
        ),
    ]  # fmt: skip


def notes(document: dict[str, Any]) -> list[str]:
    met = document["goals_met"]
    thread, loop = (statistics.median(document["tail"][where]["p99_9"]) for where in FOLDERS)
    return [
        f"at least {COVERAGE_GOAL:.0%} of the settled cells within 5% wherever a tenth of the cells is settled: "
        f"{verdict(met['coverage'])}",
        f"bias of several clients' rates below {BIAS_GOAL:.0%}: {verdict(met['bias'])}",
        f"p99.9 with the rows folded in a thread, relative to the event loop: {thread / loop:.2f}",
    ]


def _session_seconds(random: np.random.Generator, sample: Sample) -> Iterator[float]:
    """Yield session times one after another, without end."""
    sigma = math.sqrt(math.log(1 + sample.variation**2))
    state = random.standard_normal()
    fresh = math.sqrt(1 - sample.lag_1**2)
    while True:
        for noise in random.standard_normal(256).tolist():
            yield sample.mean_seconds * math.exp(sigma * state - sigma**2 / 2)
            state = sample.lag_1 * state + fresh * noise


def coverage_of(random: np.random.Generator, sample: Sample, cells: int) -> dict[str, Any]:
    """Return the share of settled cells, and of these the share within the precision, with and without corrections."""
    found: dict[str, list[bool]] = {"corrected": [], "uncorrected": []}
    for _ in range(cells):
        stop, now_ns = SessionStop(RULE, 1, 1 << 60), 1
        times = _session_seconds(random, sample)
        while stop.wants_session(now_ns):
            opened_ns, now_ns = now_ns, now_ns + int(next(times) * 1e9)
            stop.session_ended(opened_ns, now_ns)
        if stop.settled:
            found["corrected"].append(_is_precise(stop.mean_session_seconds, sample))
        mean = _uncorrected(_session_seconds(random, sample))
        if mean is not None:
            found["uncorrected"].append(_is_precise(mean, sample))
    shares = {
        name: {"settled": len(each) / cells, "coverage": statistics.fmean(each) if each else 0.0}
        for name, each in found.items()
    }
    return {"sample": str(sample), **shares["corrected"], "uncorrected": shares["uncorrected"]}


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


def bias_of(random: np.random.Generator, votes_seconds: float, windows: int) -> dict[str, Any]:
    """Return bias and spread of the rate of clients whose sessions end with a vote."""
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
    found = {
        name: {"bias": statistics.fmean(rates) - 1, "spread": statistics.pstdev(rates)}
        for name, rates in (("whole", whole), ("cut", cut))
    }
    return {"votes_seconds": votes_seconds, **found["whole"], "cut": found["cut"]}


class _InTheLoop:
    """Stands in for the thread that folds: does the work at once."""

    def __init__(self, threads: int) -> None:
        pass

    def submit(self, work: Callable[..., None], *arguments: Any) -> Future[None]:
        done: Future[None] = Future()
        work(*arguments)
        done.set_result(None)
        return done

    def shutdown(self) -> None:
        pass


FOLDERS = {"in a thread": ThreadPoolExecutor, "in the event loop": _InTheLoop}


def _tail(rounds: int, objects: int) -> dict[str, dict[str, list[float]]]:
    """Return percentiles in ms by where the rows are folded, and round."""
    found: dict[str, dict[str, list[float]]] = {where: {"p50": [], "p99": [], "p99_9": []} for where in FOLDERS}
    with _server() as endpoint:
        job = Job(Target(endpoint), "archive", OBJECT_BYTES, 1, objects)
        for number in range(rounds):
            for where in sorted(FOLDERS, reverse=bool(number % 2)):
                with patch.object(phase_run, "ThreadPoolExecutor", FOLDERS[where]):
                    counter, _ = carry_out(job, OBJECTS_PER_SESSION)
                latency = counter.service.latency()
                assert latency is not None, "nothing was archived"
                for name, values in found[where].items():
                    values.append(getattr(latency, name))
    return found


@contextmanager
def _server() -> Iterator[str]:
    """Serve one connection after another in a process of its own; yield its endpoint."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        process = multiprocessing.get_context("fork").Process(target=_answer, args=(listening,), daemon=True)
        process.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            process.terminate()
            process.join()


def _answer(listening: socket.socket) -> None:
    """Answer every request of every connection after the same time."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx-amz-request-id: 0\r\nx-amz-version-id: null\r\n\r\n"
    while True:
        connection, _ = listening.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while _receive(connection):
                answer_at = time.perf_counter() + ANSWER_SECONDS
                while time.perf_counter() < answer_at:
                    pass
                connection.sendall(reply)


def _receive(connection: socket.socket) -> bool:
    """Receive one request; return False at the connection's end."""
    received = b""
    while b"\r\n\r\n" not in received:
        more = connection.recv(1 << 16)
        if not more:
            return False
        received += more
    head, _, body = received.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    rest = int(lengths[0]) - len(body) if lengths else 0
    while rest > 0:
        rest -= len(connection.recv(min(rest, 1 << 16)))
    return True
