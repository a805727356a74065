"""The cost of an audit compared with retrieving the same objects: client CPU per object, and objects per second.

An audit retrieves an object, compares every byte, and compares the lock that the answer reports. A retrieval compares
every byte, too. Both read the same locked objects of one embedded store, in the same random order, over connections
that stay open, in this process. Store and client are pinned to different cores. Rounds are interleaved, and ratios are
taken within a round.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from archiver.engine.worker.assignment import ClientAssignment
from archiver.values.retention import Retention
from archiver.values.sizes import format_size
from backends.base import ExpectedLock
from benchmarks.embedded_load import (
    Way,
    pinned_store,
    s3_way,
)
from benchmarks.goals import goals_met
from benchmarks.own_worker import LOCKED_SECONDS, assignment, carried_out
from benchmarks.rounds import median_ratio, values_of
from benchmarks.tables import Table, labelled, plain, spread, verdict
from scenarios.model import Workload
from scenarios.work.sessions import AllObjects, Sessions

TITLE = "What an audit costs"
CLIENTS = 4
OBJECTS_PER_SESSION = 50
OBJECTS = {8192: 16_000, 1 << 20: 400}  # by their size: whole sessions for every client
OBJECTS_SMALL = 200
GOALS = {"cpu_ratio_max": 1.25, "rate_ratio_min": 0.85}


def measure(*, small: bool) -> dict[str, Any]:
    """Every size: objects/s and client CPU per object of retrieving and auditing, by round, and the median ratios."""
    rounds = 1 if small else 5
    sizes = {}
    with (
        tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as folder,
        pinned_store(Path(folder) / "store") as store,
    ):
        way = s3_way(store, keep_sessions_open=True)
        for position, size_bytes in enumerate(OBJECTS):
            objects = OBJECTS_SMALL if small else OBJECTS[size_bytes]
            first = position * 10_000_000
            sizes[format_size(size_bytes)] = _rounds(way, size_bytes, first, objects, rounds)
    ratios = {
        size: {
            "cpu": median_ratio(found, "audit", "retrieve", "cpu_microseconds_per_object"),
            "rate": median_ratio(found, "audit", "retrieve", "objects_per_second"),
        }
        for size, found in sizes.items()
    }
    return {
        "rounds": rounds,
        "sizes": sizes,
        "ratios": ratios,
        "goals": GOALS,
        "goals_met": goals_met(
            GOALS, {f"{name}_ratio": [ratio[name] for ratio in ratios.values()] for name in ("cpu", "rate")}
        ),
    }


def tables(document: dict[str, Any]) -> list[Table]:
    """Both, and what an audit takes of a retrieval."""
    rows = []
    for size, rounds in document["sizes"].items():
        for name in ("retrieve", "audit"):
            keys = (("objects_per_second", 0), ("cpu_microseconds_per_object", 1))
            rows.append(
                (*plain(size, name), *(spread(values_of(rounds, name, key), decimals) for key, decimals in keys))
            )
        ratio = document["ratios"][size]
        rows.append(plain(size, "audit / retrieve", f"{ratio['rate']:.2f}", f"{ratio['cpu']:.2f}"))
    columns = labelled(("object size", "operation"), "objects/s", "client CPU per object, µs")
    return [Table("audit", f"{CLIENTS} clients in one worker", columns, tuple(rows))]


def notes(document: dict[str, Any]) -> list[str]:
    words = {"cpu_ratio_max": "CPU of an audit to a retrieval's at most", "rate_ratio_min": "its rate at least"}
    return [f"{words[name]} {goal}: {verdict(document['goals_met'][name])}" for name, goal in document["goals"].items()]


def _rounds(way: Way, size_bytes: int, first: int, objects: int, rounds: int) -> list[dict[str, dict[str, float]]]:
    lock = Retention()
    now = time.time()
    earliest = now + (lock.retain_for_seconds or 0.0) - 60
    expected = ExpectedLock(first, first + objects - 1, lock, earliest, now + LOCKED_SECONDS)
    _phase(way, "archive", size_bytes, np.arange(first, first + objects), expected)
    order = np.random.Generator(np.random.PCG64(1)).permutation(objects) + first
    return [
        {name: _phase(way, name, size_bytes, order, expected) for name in ("retrieve", "audit")} for _ in range(rounds)
    ]


def _phase(way: Way, operation: Any, size_bytes: int, numbers: Any, expected: ExpectedLock) -> dict[str, float]:
    """One operation on every object."""
    share = len(numbers) // CLIENTS
    archives = operation == "archive"
    clients = tuple(
        ClientAssignment(
            client,
            0,
            (int(numbers[client * share]), int(numbers[client * share]) + share)
            if archives
            else numbers[client * share : (client + 1) * share],
        )
        for client in range(CLIENTS)
    )
    workload = Workload(operation, Sessions(operation, size_bytes, AllObjects()), CLIENTS, OBJECTS_PER_SESSION)
    given = assignment(workload, way.backend, way.setting, clients)
    counter, _ = carried_out(replace(given, expected=(expected,)))
    return {
        "objects": counter.objects,
        "objects_per_second": counter.objects / counter.seconds,
        "cpu_microseconds_per_object": counter.cpu_seconds / counter.objects * 1e6,
    }
