"""Busy polling: the gain for a client with few connections whose worker polls for answers without a break.

One worker on one core archives 8 KiB objects to the null responder on another core, with signature, lock headers and
CRC32C. It uses 1 connection, and then 16, which stay open. The worker sleeps until an answer comes, or polls busily.
Rounds are interleaved: each way runs once, then again. The ratio of a pair is taken within its round; the page shows
the median of the rounds. CPU time is that of the results: without the passes of the event loop that found no work.
"""

from __future__ import annotations

from typing import Any

from backends.s3 import null_responder
from benchmarks.affinity import pinned, usable_cores
from benchmarks.own_worker import carry_out
from benchmarks.peers.base import Job, Target
from benchmarks.rounds import median_ratio, ratios_of, values_of
from benchmarks.tables import Table, labelled, plain, spread, verdict

TITLE = "Busy polling"
OBJECT_BYTES = 8192
OBJECTS_PER_SESSION = 100
OBJECTS, OBJECTS_SMALL = 32_000, 400
CONNECTIONS = (1, 16)
GOAL = 1.6  # rate of one connection that polls busily, in proportion to one that sleeps
WAYS = ("sleep", "busy")


def measure(*, small: bool) -> dict[str, Any]:
    """Return objects/s, CPU per object and median time of an object, of each way, connections and round."""
    rounds = 1 if small else 7
    objects = OBJECTS_SMALL if small else OBJECTS
    cores = usable_cores()
    with pinned(cores[-1:]), null_responder.start(OBJECT_BYTES, cores[:1]) as responder:
        found = {
            str(connections): [
                {way: _archive(responder.endpoint, connections, objects, way) for way in WAYS} for _ in range(rounds)
            ]
            for connections in CONNECTIONS
        }
    return {
        "rounds": rounds,
        "objects": objects,
        "connections": found,
        "busy_to_sleep": {
            connections: median_ratio(each, "busy", "sleep", "objects_per_second")
            for connections, each in found.items()
        },
        "goal": GOAL,
    }


def tables(document: dict[str, Any]) -> list[Table]:
    rows = []
    for connections, rounds in document["connections"].items():
        for way in WAYS:
            figures = [values_of(rounds, way, name) for name in _FIGURES]
            ratio = (
                spread(ratios_of(rounds, "busy", "sleep", "objects_per_second"), 2) if way == "busy" else plain("")[0]
            )
            rows.append((*plain(connections, way), *(spread(values, 1) for values in figures), ratio))
    return [
        Table(
            "polling",
            "8 KiB archive by one worker",
            labelled(
                ("connections", "waiting"),
                "objects/s",
                "CPU µs per object",
                "median object µs",
                "busy / sleep",
            ),
            tuple(rows),
        )
    ]


def notes(document: dict[str, Any]) -> list[str]:
    ratio = document["busy_to_sleep"]["1"]
    return [
        f"goal: with one connection busy polling archives at least {document['goal']} times as many objects/s: "
        f"{verdict(ratio >= document['goal'])}"
    ]


_FIGURES = ("objects_per_second", "cpu_microseconds_per_object", "median_microseconds")


def _archive(endpoint: str, connections: int, objects: int, way: str) -> dict[str, float]:
    job = Job(Target(endpoint), "archive", OBJECT_BYTES, connections, objects)
    counter, report = carry_out(job, OBJECTS_PER_SESSION, polls_busily=way == "busy")
    used = report.cpu[-1].used_seconds - report.cpu[0].used_seconds
    latency = counter.service.latency()
    assert latency is not None, "nothing was archived"
    return {
        "objects_per_second": counter.objects / ((report.ended_ns - report.began_ns) / 1e9),
        "cpu_microseconds_per_object": used / counter.objects * 1e6,
        "median_microseconds": latency.p50 * 1e3,
    }
