"""The coordinator that merges workers' reports, and the client cores, machines and links for a rate."""

from __future__ import annotations

import functools
import itertools
import math
import os
import pickle
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from archiver.engine.worker.stopping import NO_END_NS
from archiver.measure.folding import Folding, Population, fold, take
from archiver.measure.histogram import Histogram, HistogramPart, part_of
from archiver.measure.merging import Merge, Window
from archiver.measure.reports import (
    INTERVAL_NS,
    Change,
    IntervalReport,
    PhaseReport,
    StageReport,
    Tally,
    TallyKey,
    joined,
)
from archiver.values.record import Operation, Recorder
from archiver.values.sizes import format_size
from benchmarks import own_worker
from benchmarks.benchmark import Benchmark, Contenders, Experiment, Figures, Goal, Labels, Results, medians, table_of
from benchmarks.peers.base import CPU, Job, null_server
from benchmarks.processes import MIB, in_own_process, memory_of, pinned, usable_cores
from scenarios.model import Phase, Workload
from scenarios.work.mix import OperationName
from scenarios.work.sessions import InWindow, Sessions

OBJECT_BYTES = 8192
MEDIAN_MS, SPREAD = 3.0, 0.3  # of lognormal times
REPORT_CPU = "CPU per report, µs"


def times_ns(random: np.random.Generator, count: int) -> Any:
    return random.lognormal(np.log(MEDIAN_MS * 1e6), SPREAD, count).astype(np.int64)


def phase_of(clients: int) -> Phase:
    """Return a phase in which this number of clients archives objects."""
    work = Sessions("archive", OBJECT_BYTES, InWindow(1.0, client_bytes_max=1 << 50))
    return Phase("benchmark", 1, 1, (Workload("archive", work, clients, OBJECTS_PER_SESSION),))


# Client cores, machines and links for a rate.
SIZES = (8 << 10, 64 << 10, 256 << 10, 1 << 20)
OPERATIONS: tuple[OperationName, ...] = ("archive", "retrieve")
CLIENTS = 16
AT_ONCE, WAITED_FOR = "at once", "waited for"
CONNECTIONS = {AT_ONCE: CLIENTS, WAITED_FOR: 1}
BYTES_OF_ROUND, OBJECTS_OF_ROUND = 1 << 30, 16_000  # at most
TARGETS = (10_000, 100_000, 1_000_000)  # objects/s
MACHINE_CORES = (16, 32, 64)
LINK_GIGABITS = (10, 25, 100)
CORES, PER_CORE, SHARE = "client cores", "objects/s per core", "coordinator, % of a core"


def need(objects_per_second: float, object_bytes: int, object_cpu: float, report_cpu: float) -> dict[str, float]:
    """Return the minimum hardware for a rate: client cores, machines, links, and the share of a coordinator's core.

    ``object_cpu``: µs of client CPU per object; ``report_cpu``: µs of coordinator CPU per report.
    """
    cores = math.ceil(objects_per_second * object_cpu / 1e6)
    bits_per_second = objects_per_second * object_bytes * 8
    return {
        CORES: cores,
        **{f"machines of {each} cores": math.ceil(cores / each) for each in MACHINE_CORES},
        **{f"links of {each} Gbit/s": math.ceil(bits_per_second / (each * 1e9)) for each in LINK_GIGABITS},
        SHARE: cores * report_cpu / 1e6 * 100,
    }


def workers_at_most(report_cpu: float) -> int:
    """Return the number of workers whose reports, one per second each, fill one core of the coordinator."""
    return math.floor(1e6 / report_cpu)


@contextmanager
def _client(operation: OperationName, size: int, *, small: bool) -> Iterator[Contenders]:
    objects, cores = min(OBJECTS_OF_ROUND, BYTES_OF_ROUND // size), usable_cores()

    def run(connections: int) -> Figures:
        # Waiting takes longer, so fewer objects are enough.
        count = 32 if small else objects if connections > 1 else objects // 4
        cpu = own_worker.run(Job(target, operation, size, connections, count))[CPU]
        return {CPU: cpu, PER_CORE: 1e6 / cpu}

    with null_server(size, cores[:1]) as target, pinned(cores[-1:]):
        yield {
            (operation, format_size(size), name): partial(run, connections) for name, connections in CONNECTIONS.items()
        }


# Reports of a worker whose core is full.
SECONDS = 2  # of reports
OBJECTS_PER_REPORT, OBJECTS_PER_SESSION = 20_000, 50
INTERVALS = 10**9 // INTERVAL_NS  # of a second
CLIENT_NUMBERS = 10_000_000  # object numbers of one client
_WHOLE = Window(0, SECONDS * 10**9, 0, SECONDS * INTERVALS, settled=True, seconds=SECONDS)


@functools.cache
def full_reports() -> list[IntervalReport]:
    """Return a worker's reports, second by second: its clients' rows, counted as it counts them."""
    random = np.random.Generator(np.random.PCG64(1))
    how = Folding(0, Population.of_size(OBJECT_BYTES), 0)
    reports = []
    for second in range(SECONDS):
        tallies: dict[TallyKey, Tally] = {}
        changed: list[Change] = []
        for interval in range(second * INTERVALS, (second + 1) * INTERVALS):
            records = [_rows(random, client, interval) for client in range(CLIENTS)]
            rows = take(records, [(0, NO_END_NS)] * len(records))
            assert rows is not None
            changed += fold(rows, how, tallies)
        reports.append(IntervalReport(tallies, joined(changed), []))
    return reports


def _rows(random: np.random.Generator, client: int, interval: int) -> Recorder:
    """Return one client's archives in one interval, with a session for every OBJECTS_PER_SESSION of them."""
    objects = OBJECTS_PER_REPORT // INTERVALS // CLIENTS
    times = times_ns(random, objects).tolist()
    sent = (interval * INTERVAL_NS + np.arange(objects) * (INTERVAL_NS // 2) // objects).tolist()
    record = Recorder(objects + 3 * (objects // OBJECTS_PER_SESSION + 1))
    first = client * CLIENT_NUMBERS + interval * objects
    for at, (sent_ns, took_ns) in enumerate(zip(sent, times, strict=True)):
        done_ns = sent_ns + took_ns
        record.row(Operation.ARCHIVE, first + at, sent_ns, sent_ns, done_ns - took_ns // 10, done_ns, OBJECT_BYTES)
        if at % OBJECTS_PER_SESSION == 0:
            for operation in (Operation.OPEN, Operation.CLOSE, Operation.SESSION):
                record.row(operation, 0, sent_ns, sent_ns, done_ns, done_ns, 0)
    return record


@contextmanager
def _coordinator(numbers: Sequence[int]) -> Iterator[Contenders]:
    reports = full_reports()
    encoded = [[_of_worker(report, worker) for worker in range(max(numbers))] for report in reports]

    def merge(workers: int) -> Figures:
        merged = Merge(phase_of(workers * CLIENTS))
        began = time.process_time()
        for of_workers in encoded:
            for each in of_workers[:workers]:
                merged.take(pickle.loads(each))
        merged.totals([_WHOLE])
        merged.archived_ranges()
        used = (time.process_time() - began) / workers / len(encoded) * 1e6
        return {REPORT_CPU: used, "one core busy, %": workers * used / 1e4, "full at, workers": workers_at_most(used)}

    yield {(f"{workers:,}",): partial(merge, workers) for workers in numbers}


def _of_worker(report: IntervalReport, worker: int) -> bytes:
    """Return the same report of another worker, whose objects have other numbers."""
    by = worker * CLIENTS * CLIENT_NUMBERS
    changed = [change._replace(first=change.first + by, last=change.last + by) for change in report.changed]
    return pickle.dumps(replace(report, changed=changed, worker=worker))


def _encode() -> Figures:
    reports = full_reports()
    fresh = [pickle.loads(pickle.dumps(report)) for report in reports]
    began = time.process_time()
    encoded = [pickle.dumps(report) for report in fresh]
    used = time.process_time() - began
    objects = sum(tally.objects for report in reports for tally in report.tallies.values())
    return {
        "objects": objects / len(reports),
        "bytes": statistics.mean(map(len, encoded)),
        "CPU to encode, µs": used / len(reports) * 1e6,
    }


def needs(results: Results) -> dict[Labels, dict[str, float]]:
    """Return the hardware for every rate with answers that are waited for, and the cores with answers at once."""
    clients = results["client-cores"]
    found: dict[Labels, dict[str, float]] = {}
    report = max(medians("coordinator", REPORT_CPU)(results))
    for operation, size in itertools.product(OPERATIONS, SIZES):
        rows = [(operation, format_size(size), name) for name in (AT_ONCE, WAITED_FOR)]
        if rows[0] in clients.rows:
            at_once, waited = (clients.median(row, CPU) for row in rows)
            for rate in TARGETS:
                least, most = (need(rate, size, cpu, report) for cpu in (at_once, waited))
                found[operation, format_size(size), f"{rate:,}"] = {f"{CORES}, {AT_ONCE}": least[CORES], **most}
    return found


def _quote(results: Results) -> str:
    """Return the summary of docs/client-machines.md."""
    rows = [("archive", format_size(SIZES[0]), name) for name in (AT_ONCE, WAITED_FOR)]
    at_once, waited = (results["client-cores"].median(row, CPU) for row in rows)
    largest = needs(results)["archive", format_size(SIZES[0]), f"{TARGETS[-1]:,}"]
    report = max(medians("coordinator", REPORT_CPU)(results))
    return "\n".join(
        [
            f"- An archived object of 8 KiB costs a client {at_once:.1f} µs where it is answered at once and"
            f" {waited:.1f} µs where it is waited for:",
            f"  {1e6 / at_once:,.0f} and {1e6 / waited:,.0f} objects/s per core.",
            f"- {TARGETS[-1]:,} such objects/s take {largest[f'{CORES}, {AT_ONCE}']:,} to {largest[CORES]:,} cores:"
            f" {largest['machines of 64 cores']} machines of 64 for the dearer, and"
            f" {largest['links of 100 Gbit/s']} link(s) of 100 Gbit/s.",
            f"- A report costs the coordinator {report:,.0f} µs at most: one of its cores is full at"
            f" {workers_at_most(report):,} workers, and",
            f"  {largest[SHARE]:.0f}% busy with those {largest[CORES]:,}.",
        ]
    )


def _scale_out(small: bool) -> list[Experiment]:
    rounds, sizes, workers = (1, SIZES[:1], (2, 3)) if small else (5, SIZES, (10, 100, 1000))
    clients = [_client(operation, size, small=small) for operation in OPERATIONS for size in sizes]
    coordinator = "The coordinator, by the workers that report to it once a second"
    return [
        Experiment(
            "client-cores", "Client CPU per object", ("operation", "object size", "answers"), clients, rounds=rounds
        ),
        Experiment("coordinator", coordinator, ("workers",), [_coordinator(workers)], rounds=rounds),
        Experiment(
            "report",
            "A report of a second",
            ("of",),
            [nullcontext({("a worker whose core is full",): _encode})],
            rounds=rounds,
        ),
    ]


SCALE_OUT = Benchmark(
    name="scale-out",
    question="Client cores, machines and links for a rate; limit of a coordinator.",
    experiments=_scale_out,
    more_tables=lambda results: [
        table_of(
            "client-machines", "What a rate takes at least", ("operation", "object size", "objects/s"), needs(results)
        )
    ],
    quote=_quote,
)

# Merging the reports of many workers over many phases.
QUANTITIES = ("session_service", "object_service", "object", "first_byte")
MERGED_OBJECTS = 250  # of one worker in one interval
MERGE_CPU, MEMORY = "CPU, s", "memory above the start, MiB"


def small_reports(workers: int) -> list[bytes]:
    """Return one encoded report of each worker, with one interval of objects."""
    random = np.random.Generator(np.random.PCG64(1))
    reports = []
    for worker in range(workers):
        tally = Tally(sessions=1, objects=MERGED_OBJECTS, bytes=MERGED_OBJECTS * OBJECT_BYTES, attempts=MERGED_OBJECTS)
        for quantity in QUANTITIES:
            histogram = tally.histograms[quantity] = Histogram()
            histogram.add(part_of(times_ns(random, MERGED_OBJECTS)))
        reports.append(pickle.dumps(IntervalReport({TallyKey(4, 0, "measured"): tally}, [], [], worker=worker)))
    return reports


def merge_phase(phase: Phase, reports: Sequence[bytes]) -> int:
    """Do the coordinator's work, from encoded reports to stored rows; return the number of objects."""
    merge = Merge(phase)
    for report in reports:
        merge.take(pickle.loads(report))
    stages = (StageReport(0, 10**9, 2 * 10**9, 2 * 10**9, ended_early=False, client_ns=10**9),)
    ended = [PhaseReport(2 * 10**9, [], Histogram(), None, stages, worker=i) for i in range(len(reports))]
    windows = merge.windows(ended, 0)
    merge.interval_rows(windows)
    for worker in range(len(reports)):
        merge.done_by(worker, 0, (windows[0].from_ns, windows[0].to_ns))
    objects = 0
    for tally, _ in merge.totals(windows):
        objects += tally.objects
        for histogram in tally.histograms.values():
            histogram.latency()
            part = histogram.part()
            part.indices.astype("<i8").tobytes(), part.counts.astype("<i8").tobytes()
    return objects


def cost_of_merging(workers: int, phases: int) -> dict[str, float]:
    """Return the CPU time and memory of all phases in this process."""
    reports, phase = small_reports(workers), phase_of(workers)
    resident_before = memory_of(os.getpid()).resident
    began, used_before = time.perf_counter(), time.process_time()
    for _ in range(phases):
        assert merge_phase(phase, reports) == workers * MERGED_OBJECTS
    used = time.process_time() - used_before
    return {
        MERGE_CPU: used,
        "elapsed, s": time.perf_counter() - began,
        MEMORY: (memory_of(os.getpid()).resident_max - resident_before) / MIB,
        REPORT_CPU: used / workers / phases * 1e6,
        "bytes of a report": statistics.mean(map(len, reports)),
    }


def _encoded_arrays(part: HistogramPart) -> bytes:
    histogram = Histogram()
    histogram.add(part)
    return pickle.dumps(histogram)


def _merge_arrays(encoded: Sequence[bytes]) -> None:
    merged = Histogram()
    for each in encoded:
        merged.add_all(pickle.loads(each))
    merged.part()


def _encoded_dictionary(part: HistogramPart) -> bytes:
    counts = dict(zip(part.indices.tolist(), part.counts.tolist(), strict=True))
    return pickle.dumps((counts, part.total_ns, part.max_ns))


def _merge_dictionary(encoded: Sequence[bytes]) -> None:
    merged: dict[int, int] = {}
    for each in encoded:
        for index, count in pickle.loads(each)[0].items():
            merged[index] = merged.get(index, 0) + count


def _cost_of_form(
    parts: list[HistogramPart], encode: Callable[[HistogramPart], bytes], merge: Callable[[Sequence[bytes]], None]
) -> Figures:
    moments = [time.process_time()]
    encoded = [encode(part) for part in parts]
    moments.append(time.process_time())
    merge(encoded)
    moments.append(time.process_time())
    encode_seconds, merge_seconds = np.diff(moments)
    return {
        "bytes": statistics.mean(map(len, encoded)),
        "encode, µs": encode_seconds / len(parts) * 1e6,
        "decode and merge, µs": merge_seconds / len(parts) * 1e6,
    }


def _merging(small: bool) -> list[Experiment]:
    workers, phases = (4, 3) if small else (200, 1000)
    random = np.random.Generator(np.random.PCG64(2))
    parts = [part_of(times_ns(random, MERGED_OBJECTS)) for _ in range(10 if small else 400)]
    merging: Contenders = {(str(workers), f"{phases:,}"): partial(in_own_process, cost_of_merging, workers, phases)}
    forms: Contenders = {
        ("sparse arrays",): partial(_cost_of_form, parts, _encoded_arrays, _merge_arrays),
        ("dictionary",): partial(_cost_of_form, parts, _encoded_dictionary, _merge_dictionary),
    }
    title = f"A histogram of {MERGED_OBJECTS} values"
    return [
        Experiment("merging", "Reports of four histograms", ("workers", "phases"), [nullcontext(merging)]),
        Experiment("histogram-forms", title, ("form",), [nullcontext(forms)], rounds=1 if small else 5),
    ]


MERGING = Benchmark(
    name="merging",
    question="Merging the reports of 200 workers over 1,000 phases: time and memory.",
    experiments=_merging,
    goals=(
        Goal(MERGE_CPU, medians("merging", MERGE_CPU), "below", 30),
        Goal(MEMORY, medians("merging", MEMORY), "below", 500),
    ),
)
