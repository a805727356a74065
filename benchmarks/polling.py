"""Busy polling: what a client with few connections gains if its worker asks for answers without a break.

One worker on one core archives 8 KiB objects to the null responder on another, with signature, lock headers and CRC32C,
over 1 connection and over 16 kept open. It sleeps until an answer comes, or polls busily. Rounds are interleaved: each
way once, then again. The ratio of a pair is taken within its round, and the median of the rounds is quoted. CPU time is
what results have: without the passes of the event loop that found nothing to do.
"""

from __future__ import annotations

import os
import statistics
from dataclasses import replace
from typing import Any

from archiver.engine.work.worker import run_phase
from archiver.engine.worker.assignment import ClientAssignment
from archiver.measure.histogram import Histogram, merged
from archiver.measure.reports import IntervalReport
from backends.s3 import null_responder
from benchmarks.client_cost import Counter, assignment, s3_setting
from benchmarks.peers.base import Target
from benchmarks.tables import Table, labelled, plain, spread, verdict
from scenarios.model import Workload
from scenarios.work.sessions import AllObjects, Sessions

TITLE = "Busy polling"
OBJECT_BYTES = 8192
OBJECTS_PER_SESSION = 100
OBJECTS, OBJECTS_SMALL = 32_000, 400
CONNECTIONS = (1, 16)
GOAL = 1.6  # rate of one connection that polls busily, in proportion to one that sleeps
WAYS = ("sleep", "busy")


class _Timed(Counter):
    """Also collects the objects' times."""

    def __init__(self) -> None:
        super().__init__()
        self._service: list[Histogram] = []

    def report(self, report: IntervalReport) -> None:
        super().report(report)
        self._service += [tally.histograms["object_service"] for tally in report.tallies.values()]

    @property
    def median_microseconds(self) -> float:
        latency = merged(self._service).latency()
        assert latency is not None
        return latency.p50 * 1e3


def measure(*, small: bool) -> dict[str, Any]:
    """Return objects/s, CPU per object and median time of an object, of each way, connections and round."""
    rounds = 1 if small else 7
    objects = OBJECTS_SMALL if small else OBJECTS
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[-1:])
    try:
        with null_responder.start(OBJECT_BYTES, cores[:1]) as responder:
            found = {
                str(connections): [
                    {way: _archive(responder.endpoint, connections, objects, way) for way in WAYS}
                    for _ in range(rounds)
                ]
                for connections in CONNECTIONS
            }
    finally:
        os.sched_setaffinity(0, cores)
    return {
        "rounds": rounds,
        "objects": objects,
        "connections": found,
        "busy_to_sleep": {
            connections: statistics.median(_ratios(each, "objects_per_second")) for connections, each in found.items()
        },
        "goal": GOAL,
    }


def tables(document: dict[str, Any]) -> list[Table]:
    rows = []
    for connections, rounds in document["connections"].items():
        for way in WAYS:
            figures = [[each[way][name] for each in rounds] for name in _FIGURES]
            ratio = spread(_ratios(rounds, "objects_per_second"), 2) if way == "busy" else plain("")[0]
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


def _ratios(rounds: list[dict[str, dict[str, float]]], name: str) -> list[float]:
    return [each["busy"][name] / each["sleep"][name] for each in rounds]


def _archive(endpoint: str, connections: int, objects: int, way: str) -> dict[str, float]:
    per_client = objects // connections // OBJECTS_PER_SESSION * OBJECTS_PER_SESSION or OBJECTS_PER_SESSION
    work = Sessions("archive", OBJECT_BYTES, AllObjects())
    workload = Workload("archive", work, connections, OBJECTS_PER_SESSION)
    clients = [
        ClientAssignment(client, 0, (client * per_client, (client + 1) * per_client)) for client in range(connections)
    ]
    channel = _Timed()
    setting = s3_setting(Target(endpoint))
    report = run_phase(replace(assignment(setting, workload, clients), polls_busily=way == "busy"), channel)
    assert channel.errors == 0, "the null responder answered something unexpected"
    seconds = (report.ended_ns - report.began_ns) / 1e9
    used = report.cpu[-1].used_seconds - report.cpu[0].used_seconds
    return {
        "objects_per_second": channel.objects / seconds,
        "cpu_microseconds_per_object": used / channel.objects * 1e6,
        "median_microseconds": channel.median_microseconds,
    }
