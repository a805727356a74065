"""The embedded store under load: through its S3 server, through its TSM server, and audits compared with retrievals."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from archiver.machine import description as machine
from archiver.values.retention import Retention
from archiver.values.sizes import format_size
from backends.base import ExpectedLock
from benchmarks.benchmark import Benchmark, Contenders, Experiment, Goal, Ratio
from benchmarks.embedded_load import (
    BUSY,
    MEGABYTES,
    S3,
    S3_CLOSING,
    SERVER_CPU,
    SYNCS,
    TSM,
    archive,
    carry_out_on,
    stores,
)
from benchmarks.own_worker import LOCKED_SECONDS, Load
from benchmarks.peers.base import CPU, RATE
from benchmarks.values import Figures, Labels, Results, median_ratio, medians

SMALL_BYTES, LARGE_BYTES = 8 << 10, 1 << 20
SMALL, LARGE = format_size(SMALL_BYTES), format_size(LARGE_BYTES)
WRITER = "a writer of one file"
BUSY_PERCENT_MIN = 90.0


class Clients(NamedTuple):
    """Clients that archive by one protocol."""

    number: int
    protocol: str
    objects_per_session: int


@contextmanager
def _on_one_store(rows: Mapping[Labels, Clients], seconds: float) -> Iterator[Contenders]:
    """Archive small objects for so many seconds, one row after another to the same store."""
    with stores() as folder, folder.start() as store:
        ways = {each.protocol: folder.way(store, each.protocol) for each in rows.values()}

        def measure(each: Clients) -> Figures:
            load = Load("archive", SMALL_BYTES, each.number, each.objects_per_session, seconds)
            return archive(store, ways[each.protocol], load)

        yield {row: partial(measure, each) for row, each in rows.items()}


@contextmanager
def _on_new_stores(rows: Mapping[Labels, Clients], objects: int) -> Iterator[Contenders]:
    """Archive so many large objects, each row to a store of its own; or let a process write as many bytes to a file."""
    with stores() as folder:

        def measure(each: Clients) -> Figures:
            per_session = min(each.objects_per_session, objects // each.number)
            load = Load("archive", LARGE_BYTES, each.number, per_session)
            with folder.start() as store:
                return archive(store, folder.way(store, each.protocol), load, objects)

        writer = (*next(iter(rows))[:-1], WRITER)
        yield {
            **{row: partial(measure, each) for row, each in rows.items()},
            writer: partial(folder.write_file, objects),
        }


def clients(count: int) -> str:
    return f"{count} client{'s' * (count > 1)}"


def device() -> str:
    """Return the disks under the stores, for titles."""
    return ", ".join(machine.disks_under(Path(tempfile.gettempdir()))) or "memory"


THROUGH_TSM = "16 clients through TSM"
STORE_SMALL: dict[Labels, Clients] = {(SMALL, clients(count)): Clients(count, S3, 16) for count in (1, 16)}
STORE_LARGE: dict[Labels, Clients] = {
    **{(LARGE, clients(count)): Clients(count, S3, 16) for count in (1, 4, 16)},
    (LARGE, THROUGH_TSM): Clients(16, TSM, 16),
}
ONE, SIXTEEN = STORE_SMALL

STORE = Benchmark(
    name="store",
    question="The embedded store: archive rates, CPU per object, commits per sync.",
    experiments=lambda small: [
        Experiment(
            "store",
            f"Archive through the S3 server, and through the TSM server, on {device()}",
            ("object size", "by"),
            [
                _on_one_store(STORE_SMALL, 0.1 if small else 5.0),
                _on_new_stores(STORE_LARGE, 16 if small else 1024),
            ],
            rounds=1 if small else 3,
            ratios=(Ratio("MB/s to a writer", MEGABYTES, None, WRITER),),
        )
    ],
    goals=(
        Goal("8KiB, objects/s, 16 clients / 1 client", median_ratio("store", RATE, SIXTEEN, ONE), "at least", 4.0),
        Goal("8KiB, 16 clients, server CPU per object, µs", medians("store", SERVER_CPU, SIXTEEN), "at most", 180.0),
        Goal(
            "1MiB, 16 clients, MB/s, S3 / TSM",
            median_ratio("store", MEGABYTES, (LARGE, clients(16)), (LARGE, THROUGH_TSM)),
            "at least",
            0.5,
        ),
    ),
)

PARALLEL = "250"  # objects per session
TSM_SESSIONS: dict[Labels, Clients] = {
    (str(count), name): Clients(1, protocol, count)
    for count in (1, 10, 100, 500)
    for name, protocol in ((TSM, TSM), (S3, S3_CLOSING))
}
PARALLEL_CLIENTS = (1, 2, 4)
TRANSACTIONS = (SMALL, "1", clients(16))
PARALLEL_SMALL: dict[Labels, Clients] = {
    (SMALL, PARALLEL, clients(count)): Clients(count, TSM, 250) for count in PARALLEL_CLIENTS
}
PARALLEL_LARGE: dict[Labels, Clients] = {
    **{(LARGE, PARALLEL, clients(count)): Clients(count, TSM, 250) for count in PARALLEL_CLIENTS},
}


def gains(results: Results, *sizes: str) -> list[float]:
    """Return the rates of more clients in proportion to one client's."""
    ratios = [
        median_ratio("tsm-clients", MEGABYTES, (size, PARALLEL, clients(count)), (size, PARALLEL, clients(1)))(results)
        for size in sizes
        for count in PARALLEL_CLIENTS[1:]
    ]
    return [value for values in ratios for value in values]


def gains_if_idle(results: Results) -> list[float]:
    """Return the largest gain by more clients, for each size with which one client leaves the server idle."""
    measured = results["tsm-clients"]
    return [
        max(gains(results, size))
        for size in (SMALL, LARGE)
        if max(measured.median((size, PARALLEL, clients(1)), name) for name in BUSY) < BUSY_PERCENT_MIN
    ]


TSM_BENCHMARK = Benchmark(
    name="tsm",
    question="TSM sessions on the embedded store: batching, CPU on both sides, clients in parallel.",
    experiments=lambda small: [
        Experiment(
            "tsm",
            f"Archive 8 KiB, one client, on {device()}",
            ("objects per session", "through"),
            [_on_one_store(TSM_SESSIONS, 0.1 if small else 2.0)],
            rounds=1 if small else 3,
            ratios=(Ratio("objects/s, TSM / S3", RATE, TSM, S3),),
        ),
        Experiment(
            "tsm-clients",
            f"Clients in parallel through TSM, on {device()}",
            ("object size", "objects per session", "by"),
            [
                _on_one_store({**PARALLEL_SMALL, TRANSACTIONS: Clients(16, TSM, 1)}, 0.1 if small else 2.0),
                _on_new_stores(PARALLEL_LARGE, 16 if small else 1000),
            ],
            rounds=1 if small else 3,
            ratios=(Ratio("MB/s to one client", MEGABYTES, None, clients(1)),),
        ),
    ],
    goals=(
        Goal(
            "500 a session, objects/s, TSM / S3", median_ratio("tsm", RATE, ("500", TSM), ("500", S3)), "at least", 15
        ),
        Goal("500 a session, server CPU per object, µs", medians("tsm", SERVER_CPU, ("500", TSM)), "at most", 45),
        Goal("500 a session, client CPU per object, µs", medians("tsm", CPU, ("500", TSM)), "at most", 25),
        Goal(
            "1MiB, 1 client / a writer of one file",
            median_ratio("tsm-clients", MEGABYTES, (LARGE, PARALLEL, clients(1)), (LARGE, PARALLEL, WRITER)),
            "at least",
            0.35,
        ),
        Goal("more clients / 1 client", lambda results: gains(results, SMALL, LARGE), "at least", 0.95),
        Goal(
            f"gain by more clients, if 1 client keeps no core, thread or disk {BUSY_PERCENT_MIN:.0f}% busy",
            gains_if_idle,
            "at least",
            1.2,
        ),
        Goal("group commit, syncs per transaction", medians("tsm-clients", SYNCS, TRANSACTIONS), "below", 1.0),
    ),
)

AUDIT_CLIENTS, AUDIT_PER_SESSION = 4, 50


@contextmanager
def _audit(size_bytes: int, objects: int) -> Iterator[Contenders]:
    lock, now = Retention(), time.time()
    earliest = now + (lock.retain_for_seconds or 0.0) - 60
    expected = ExpectedLock(0, objects - 1, lock, earliest, now + LOCKED_SECONDS)
    order = np.random.Generator(np.random.PCG64(1)).permutation(objects)
    with stores() as folder, folder.start() as store:
        way = folder.way(store, S3)
        archives = Load("archive", size_bytes, AUDIT_CLIENTS, AUDIT_PER_SESSION)
        audits, retrieves = replace(archives, operation="audit"), replace(archives, operation="retrieve")
        carry_out_on(store, way, archives, np.arange(objects))
        yield {
            (format_size(size_bytes), load.operation): partial(
                carry_out_on, store, way, load, order, expected=(expected,)
            )
            for load in (retrieves, audits)
        }


def audit_ratios(figure: str, results: Results) -> list[float]:
    """Return the ratios of both sizes."""
    return [
        ratio
        for size in (SMALL, LARGE)
        for ratio in median_ratio("audit", figure, (size, "audit"), (size, "retrieve"))(results)
    ]


AUDIT = Benchmark(
    name="audit",
    question="Auditing compared with retrieving the same objects.",
    experiments=lambda small: [
        Experiment(
            "audit",
            f"{AUDIT_CLIENTS} clients in one worker",
            ("object size", "operation"),
            # Whole sessions for every client.
            [_audit(SMALL_BYTES, 200 if small else 16_000), _audit(LARGE_BYTES, 200 if small else 400)],
            rounds=1 if small else 5,
            ratios=(
                Ratio("objects/s, audit / retrieve", RATE, "audit", "retrieve"),
                Ratio("CPU, audit / retrieve", CPU, "audit", "retrieve"),
            ),
        )
    ],
    goals=(
        Goal("client CPU, audit / retrieve", partial(audit_ratios, CPU), "at most", 1.25),
        Goal("objects/s, audit / retrieve", partial(audit_ratios, RATE), "at least", 0.85),
    ),
)
