"""Client cores, machines and links for a rate, and the number of workers that one coordinator can serve.

Client: CPU per object of one worker against the null S3 responder, by size and operation. With 16 connections, an
answer is always available. With one connection, the worker waits for every answer, and each object includes a wake-up.
Objects are locked, checksummed and checked as in any run; rounds are interleaved. The first case is the minimum for an
object. The second is the cost for a client that wakes up for each object. If the store shares the client's machine, the
cost is higher still.

Coordinator: reports of a worker whose core is full, with 20,000 objects of 8 KiB per second from 16 clients and
lognormal times around 3 ms. The worker's own code counts and encodes them as it does in a run. The benchmark merges
them, as a run does, as the reports of 10, 100 and 1,000 workers. CPU per report covers decoding and merging, up to the
totals and the ranges of archived objects; it does not include the transport. A worker reports once a second, so a
coordinator's core is full at 1,000,000 / (µs per report) workers.

The rest is arithmetic: cores = rate x CPU per object; machines = cores / cores of one machine; links = rate x object
size x 8 / rate of the link; share of the coordinator = workers x CPU per report, with one worker per core. Everything
is rounded up, without a reserve.
"""

from __future__ import annotations

import math
import pickle
import statistics
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from archiver.engine.worker.stopping import NO_END_NS
from archiver.measure.folding import Folding, Population, fold, take
from archiver.measure.merging import Merge, Window
from archiver.measure.reports import INTERVAL_NS, Change, IntervalReport, Tally, TallyKey, joined
from archiver.values.record import Operation, Recorder
from archiver.values.sizes import format_size
from backends.s3 import null_responder
from benchmarks.affinity import pinned, usable_cores
from benchmarks.client_cost import CONNECTIONS
from benchmarks.own_worker import archiver_cost
from benchmarks.tables import Table, labelled, plain, spread
from scenarios.model import Phase, Workload
from scenarios.work.mix import OperationName
from scenarios.work.sessions import InWindow, Sessions

TITLE = "Client machines for a rate"
SIZES = (8 << 10, 64 << 10, 256 << 10, 1 << 20)
SIZES_SMALL = (8 << 10,)
OPERATIONS: tuple[OperationName, ...] = ("archive", "retrieve")
WAITED_FOR, AT_ONCE = 1, CONNECTIONS  # connections: every answer is waited for; some answer is always there
BYTES_OF_ROUND, OBJECTS_OF_ROUND = 1 << 30, 16_000  # at most
ROUNDS = 5
WORKERS, WORKERS_SMALL = (10, 100, 1000), (2, 3)
SECONDS = 2  # of reports
OBJECTS_PER_REPORT, OBJECTS_PER_SESSION = 20_000, 50  # of a core that does nothing else
MEDIAN_MS, SPREAD = 3.0, 0.3
INTERVALS = 10**9 // INTERVAL_NS  # of a second
OBJECTS_OF_CLIENT = 10_000_000  # numbers of its own
_WHOLE = Window(0, SECONDS * 10**9, 0, SECONDS * INTERVALS, settled=True, seconds=SECONDS)

TARGETS = (10_000, 100_000, 1_000_000)  # objects/s
MACHINE_CORES = (16, 32, 64)
LINK_GIGABITS = (10, 25, 100)


@dataclass(frozen=True, slots=True)
class Need:
    """What a rate takes at least."""

    cores: int  # of clients, each with one worker
    machines: dict[int, int]  # by their cores
    links: dict[int, int]  # by their Gbit/s
    coordinator_percent: float  # of one core

    @classmethod
    def of(
        cls, objects_per_second: float, object_bytes: int, client_microseconds: float, report_microseconds: float
    ) -> Need:
        """``client_microseconds``: of client CPU per object; ``report_microseconds``: of coordinator CPU per report."""
        cores = math.ceil(objects_per_second * client_microseconds / 1e6)
        bits_per_second = objects_per_second * object_bytes * 8
        return cls(
            cores=cores,
            machines={each: math.ceil(cores / each) for each in MACHINE_CORES},
            links={each: math.ceil(bits_per_second / (each * 1e9)) for each in LINK_GIGABITS},
            coordinator_percent=cores * report_microseconds / 1e6 * 100,
        )


def workers_at_most(report_microseconds: float) -> int:
    """With so many, each reporting once a second, one core of the coordinator is full."""
    return math.floor(1e6 / report_microseconds)


def measure(*, small: bool) -> dict[str, Any]:
    """CPU per object by operation, size and connections, and per report by number of workers; by round."""
    rounds = 1 if small else ROUNDS
    cores = usable_cores()
    with pinned(cores[-1:]):
        client = _client(rounds, cores[:1], small=small)
    reports = _reports(1 if small else SECONDS)
    return {
        "rounds": rounds,
        "client_microseconds": client,
        "report_bytes": statistics.mean(len(pickle.dumps(report)) for report in reports),
        "report_objects": statistics.mean(_objects(report) for report in reports),
        "encode_microseconds": [_encoding(reports) for _ in range(rounds)],
        "merge_microseconds": _merging(WORKERS_SMALL if small else WORKERS, reports, rounds),
    }


def tables(document: dict[str, Any]) -> list[Table]:
    """What was measured, then what follows for each target."""
    client = [
        (
            *plain(row["operation"], format_size(row["object_bytes"])),
            spread(row["at_once"], 1),
            spread(row["waited_for"], 1),
            *plain(f"{1e6 / statistics.median(row['at_once']):,.0f}"),
            *plain(f"{1e6 / statistics.median(row['waited_for']):,.0f}"),
        )
        for row in document["client_microseconds"]
    ]
    reports = [
        (
            *plain(f"{int(workers):,}"),
            spread(values, 0),
            *plain(f"{int(workers) * statistics.median(values) / 1e4:.1f}"),
            *plain(f"{workers_at_most(statistics.median(values)):,}"),
        )
        for workers, values in document["merge_microseconds"].items()
    ]
    needs = []
    for row in document["client_microseconds"]:
        for target in TARGETS:
            least, most = (_need(document, row, target, kind) for kind in ("at_once", "waited_for"))
            needs.append(
                plain(
                    row["operation"],
                    format_size(row["object_bytes"]),
                    f"{target:,}",
                    f"{least.cores:,}",
                    f"{most.cores:,}",
                    *(f"{machines:,}" for machines in most.machines.values()),
                    *(f"{links:,}" for links in most.links.values()),
                    f"{most.coordinator_percent:,.0f}",
                )
            )
    return [
        Table(
            "client-cores",
            "Client CPU per object, and what one core of a client does",
            labelled(
                ("operation", "object size"), "answered at once, µs", "waited for, µs", "objects/s per core, at once",
                "objects/s per core, waited for",
            ),
            tuple(client),
        ),
        Table(
            "coordinator",
            "The coordinator, by the workers that report to it once a second",
            labelled(("workers",), "CPU per report, µs", "one core busy, %", "full at, workers"),
            tuple(reports),
        ),
        Table(
            "client-machines",
            "What a rate takes at least",
            labelled(
                ("operation", "object size", "objects/s"), "cores, at once", "cores, waited for",
                *(f"machines of {cores} cores" for cores in MACHINE_CORES),
                *(f"links of {gigabits} Gbit/s" for gigabits in LINK_GIGABITS), "coordinator, % of a core",
            ),
            tuple(needs),
            "Machines and coordinator for answers that are waited for. Links carry the objects alone, at full rate.",
        ),
    ]  # fmt: skip


def notes(document: dict[str, Any]) -> list[str]:
    encode = statistics.median(document["encode_microseconds"])
    return [
        f"a report: {document['report_objects']:,.0f} objects of a second, {document['report_bytes']:,.0f} bytes;"
        f" {encode:.0f} µs of CPU for the worker to encode"
    ]


def headline(document: dict[str, Any]) -> str:
    """As docs/client-machines.md has it."""
    dearest = max(document["merge_microseconds"].values(), key=statistics.median)
    microseconds = statistics.median(dearest)
    at_8_kib = document["client_microseconds"][0]
    least, most = (_need(document, at_8_kib, TARGETS[-1], kind) for kind in ("at_once", "waited_for"))
    costs = [statistics.median(at_8_kib[kind]) for kind in ("at_once", "waited_for")]
    return "\n".join(
        [
            f"- An archived object of 8 KiB costs a client {costs[0]:.1f} µs where it is answered at once and"
            f" {costs[1]:.1f} µs where it is waited for:",
            f"  {1e6 / costs[0]:,.0f} and {1e6 / costs[1]:,.0f} objects/s per core.",
            f"- {TARGETS[-1]:,} such objects/s take {least.cores:,} to {most.cores:,} cores:"
            f" {most.machines[64]} machines of 64 for the dearer, and {most.links[100]} link(s) of 100 Gbit/s.",
            f"- A report costs the coordinator {microseconds:,.0f} µs at most: one of its cores is full at"
            f" {workers_at_most(microseconds):,} workers, and",
            f"  {most.coordinator_percent:.0f}% busy with those {most.cores:,}.",
        ]
    )


def _need(document: dict[str, Any], row: dict[str, Any], target: int, kind: str) -> Need:
    report = max(map(statistics.median, document["merge_microseconds"].values()))
    return Need.of(target, row["object_bytes"], statistics.median(row[kind]), report)


def _client(rounds: int, responder_cores: list[int], *, small: bool) -> list[dict[str, Any]]:
    found = []
    for object_bytes in SIZES_SMALL if small else SIZES:
        objects = 32 if small else min(OBJECTS_OF_ROUND, BYTES_OF_ROUND // object_bytes)
        with null_responder.start(object_bytes, responder_cores) as responder:
            for operation in OPERATIONS:
                row: dict[str, Any] = {"operation": operation, "object_bytes": object_bytes, "objects": objects}
                row |= {"at_once": [], "waited_for": []}
                for _ in range(rounds):
                    for kind, connections in (("at_once", AT_ONCE), ("waited_for", WAITED_FOR)):
                        count = objects if connections > 1 or small else objects // 4
                        row[kind].append(archiver_cost(responder.endpoint, operation, object_bytes, count, connections))
                found.append(row)
    return sorted(found, key=lambda row: OPERATIONS.index(row["operation"]))


def _phase(clients: int) -> Phase:
    work = Sessions("archive", SIZES[0], InWindow(1.0, client_bytes_max=1 << 50))
    return Phase("scale-out", 1, 1, (Workload("archive", work, clients, OBJECTS_PER_SESSION),))


def _reports(seconds: int) -> list[IntervalReport]:
    """What a worker whose core is full tells, second by second: its clients' rows, counted as it counts them."""
    random = np.random.Generator(np.random.PCG64(1))
    how = Folding(0, Population.of_size(SIZES[0]), 0)
    reports = []
    for second in range(seconds):
        tallies: dict[TallyKey, Tally] = {}
        changed: list[Change] = []
        for interval in range(second * INTERVALS, (second + 1) * INTERVALS):
            records = [_rows(random, client, interval) for client in range(CONNECTIONS)]
            rows = take(records, [(0, NO_END_NS)] * len(records))
            assert rows is not None
            changed += fold(rows, how, tallies)
        reports.append(IntervalReport(tallies, joined(changed), []))
    return reports


def _rows(random: np.random.Generator, client: int, interval: int) -> Recorder:
    """One client's archives in one interval, with a session for every OBJECTS_PER_SESSION of them."""
    objects = OBJECTS_PER_REPORT // INTERVALS // CONNECTIONS
    times = random.lognormal(np.log(MEDIAN_MS * 1e6), SPREAD, objects).astype(np.int64).tolist()
    sent = (interval * INTERVAL_NS + np.arange(objects) * (INTERVAL_NS // 2) // objects).tolist()
    record = Recorder(objects + 3 * (objects // OBJECTS_PER_SESSION + 1))
    first = client * OBJECTS_OF_CLIENT + interval * objects
    for at, (sent_ns, took_ns) in enumerate(zip(sent, times, strict=True)):
        done_ns = sent_ns + took_ns
        record.row(Operation.ARCHIVE, first + at, sent_ns, sent_ns, done_ns - took_ns // 10, done_ns, SIZES[0])
        if at % OBJECTS_PER_SESSION == 0:
            for operation in (Operation.OPEN, Operation.CLOSE, Operation.SESSION):
                record.row(operation, 0, sent_ns, sent_ns, done_ns, done_ns, 0)
    return record


def _objects(report: IntervalReport) -> int:
    return sum(tally.objects for tally in report.tallies.values())


def _encoding(reports: list[IntervalReport]) -> float:
    """Microseconds of CPU per report."""
    fresh = [pickle.dumps(report) for report in reports]
    again = [pickle.loads(each) for each in fresh]
    began = time.process_time()
    for report in again:
        pickle.dumps(report)
    return (time.process_time() - began) / len(again) * 1e6


def _merging(numbers: tuple[int, ...], reports: list[IntervalReport], rounds: int) -> dict[str, list[float]]:
    """Microseconds of CPU per report, by how many workers report; every round all of them."""
    encoded = [[_of_worker(report, worker) for worker in range(max(numbers))] for report in reports]
    found: dict[str, list[float]] = {str(workers): [] for workers in numbers}
    for _ in range(rounds):
        for workers in numbers:
            merge = Merge(_phase(workers * CONNECTIONS))
            began = time.process_time()
            for of_workers in encoded:
                for each in of_workers[:workers]:
                    merge.take(pickle.loads(each))
            merge.totals([_WHOLE])
            merge.archived_ranges()
            found[str(workers)].append((time.process_time() - began) / (workers * len(encoded)) * 1e6)
    return found


def _of_worker(report: IntervalReport, worker: int) -> bytes:
    """The same as another worker tells it: its objects have other numbers."""
    by = worker * CONNECTIONS * OBJECTS_OF_CLIENT
    changed = [change._replace(first=change.first + by, last=change.last + by) for change in report.changed]
    return pickle.dumps(replace(report, changed=changed, worker=worker))
