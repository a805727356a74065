"""Time and memory of the coordinator that merges the reports of many workers, and the bytes of a report.

200 simulated workers take part in 1,000 phases in sequence. In each phase, every worker reports one interval of 250
objects with four histograms, encoded as between processes. The coordinator decodes and merges all reports, computes the
percentiles, makes the rows of the database, and releases the memory of the phase. All of this runs in one process. Its
CPU time is the load on one core of the coordinator; the elapsed time is longer if other processes use the core. Times
are lognormal around 3 ms, and different for each worker.

The benchmark also measures the time of a worker to encode a report. It compares both with plain dictionaries of the
same counts, which an earlier version used, in turns within the same process.
"""

from __future__ import annotations

import os
import pickle
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from archiver.measure.histogram import Histogram, HistogramPart, part_of
from archiver.measure.merging import Merge
from archiver.measure.reports import IntervalReport, PhaseReport, StageReport, Tally, TallyKey
from benchmarks.own_process import answer_of
from benchmarks.process_memory import memory_of
from benchmarks.tables import Table, labelled, plain, spread, verdict
from scenarios.model import Phase, Workload
from scenarios.work.sessions import InWindow, Sessions

TITLE = "Merging the reports of 200 workers"
QUANTITIES = ("session_service", "object_service", "object_response", "first_byte")
WORKERS, PHASES = 200, 1000
WORKERS_SMALL, PHASES_SMALL = 4, 3
OBJECTS = 250  # of one worker in one interval
MEDIAN_MS, SPREAD = 3.0, 0.3
ROUNDS, REPEATS = 5, 400
GOALS = {"cpu_seconds_max": 30.0, "mebibytes_max": 500.0}


def measure(*, small: bool) -> dict[str, Any]:
    """Seconds, CPU and memory of the whole, and microseconds per report of its parts."""
    workers, phases = (WORKERS_SMALL, PHASES_SMALL) if small else (WORKERS, PHASES)
    found = answer_of(cost_of_merging, workers, phases)
    return {
        "workers": workers,
        "phases": phases,
        "objects_per_report": OBJECTS,
        **found,
        "forms": _forms(1 if small else ROUNDS, 10 if small else REPEATS),
        "goals": GOALS,
        "goals_met": {
            "cpu_seconds_max": found["cpu_seconds"] < GOALS["cpu_seconds_max"],
            "mebibytes_max": found["grown_bytes"] / (1 << 20) < GOALS["mebibytes_max"],
        },
    }


def tables(document: dict[str, Any]) -> list[Table]:
    """What it took, and a histogram's forms side by side."""
    reports = document["workers"] * document["phases"]
    whole = Table(
        "merging",
        f"{document['workers']} workers, {document['phases']:,} phases, {len(QUANTITIES)} histograms each",
        labelled(("",), "value", "goal"),
        (
            plain("CPU, seconds", f"{document['cpu_seconds']:.1f}", f"below {GOALS['cpu_seconds_max']:g}"),
            plain("from beginning to end, seconds", f"{document['seconds']:.1f}", ""),
            plain(
                "memory above the start, MiB",
                f"{document['grown_bytes'] / (1 << 20):.0f}",
                f"below {GOALS['mebibytes_max']:g}",
            ),
            plain("CPU per report, µs", f"{document['cpu_seconds'] / reports * 1e6:.0f}", ""),
            plain("a report on its way, bytes", f"{document['report_bytes']:,.0f}", ""),
        ),
    )
    forms = Table(
        "histogram-forms",
        f"A histogram of {document['objects_per_report']} values",
        labelled(("form",), "bytes", "encode, µs", "decode and merge, µs"),
        tuple(
            (
                *plain(name, f"{each['bytes']:,}"),
                spread(each["encode_microseconds"], 1),
                spread(each["merge_microseconds"], 1),
            )
            for name, each in document["forms"].items()
        ),
    )
    return [whole, forms]


def notes(document: dict[str, Any]) -> list[str]:
    met = document["goals_met"]
    return [
        f"less than {GOALS['cpu_seconds_max']:g} s of one core: {verdict(met['cpu_seconds_max'])};"
        f" less than {GOALS['mebibytes_max']:g} MiB: {verdict(met['mebibytes_max'])}"
    ]


def made_reports(workers: int) -> list[bytes]:
    """One of each worker, as they travel."""
    random = np.random.Generator(np.random.PCG64(1))
    return [pickle.dumps(_report(random, worker)) for worker in range(workers)]


def _report(random: np.random.Generator, worker: int) -> IntervalReport:
    tally = Tally(sessions=1, objects=OBJECTS, bytes=OBJECTS * 8192, attempts=OBJECTS)
    for quantity in QUANTITIES:
        histogram = tally.histograms[quantity] = Histogram()
        histogram.add(part_of(_times(random)))
    return IntervalReport({TallyKey(4, 0, "measured"): tally}, [], [], worker=worker)


def _times(random: np.random.Generator) -> Any:
    return random.lognormal(np.log(MEDIAN_MS * 1e6), SPREAD, OBJECTS).astype(np.int64)


def a_phase(clients: int) -> Phase:
    """Of as many clients, which archive 8 KiB objects."""
    workload = Workload("archive", Sessions("archive", 8192, InWindow(1.0, client_bytes_max=1)), clients, 100)
    return Phase("merging", 1, 1, (workload,))


def merge_phase(phase: Phase, reports: Sequence[bytes]) -> int:
    """As the coordinator does, from what came to what is stored; returns the objects."""
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
    """Return what all phases take in this process."""
    reports = made_reports(workers)
    phase = a_phase(workers)
    resident_before = memory_of(os.getpid()).resident
    began, used = time.perf_counter(), time.process_time()
    for _ in range(phases):
        assert merge_phase(phase, reports) == workers * OBJECTS
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - used,
        "grown_bytes": memory_of(os.getpid()).resident_max - resident_before,
        "report_bytes": sum(map(len, reports)) / workers,
    }


def _forms(rounds: int, repeats: int) -> dict[str, dict[str, Any]]:
    """Bytes, and microseconds of CPU to encode and to decode and merge, in both forms."""
    random = np.random.Generator(np.random.PCG64(2))
    parts = [part_of(_times(random)) for _ in range(repeats)]
    forms: dict[str, tuple[Callable[[HistogramPart], bytes], Callable[[Sequence[bytes]], object]]] = {
        "sparse arrays": (_encoded_arrays, _merged_arrays),
        "dictionary": (_encoded_dictionary, _merged_dictionary),
    }
    found: dict[str, dict[str, Any]] = {
        name: {"bytes": 0, "encode_microseconds": [], "merge_microseconds": []} for name in forms
    }
    for _ in range(rounds):
        for name, (encode, merge) in forms.items():
            moments = [time.process_time()]
            encoded = [encode(part) for part in parts]
            moments.append(time.process_time())
            merge(encoded)
            moments.append(time.process_time())
            found[name]["bytes"] = round(statistics.mean(map(len, encoded)))
            for key, since, until in zip(
                ("encode_microseconds", "merge_microseconds"), moments, moments[1:], strict=False
            ):
                found[name][key].append((until - since) / repeats * 1e6)
    return found


def _encoded_arrays(part: HistogramPart) -> bytes:
    histogram = Histogram()
    histogram.add(part)
    return pickle.dumps(histogram)


def _merged_arrays(encoded: Sequence[bytes]) -> HistogramPart:
    merged = Histogram()
    for each in encoded:
        merged.add_all(pickle.loads(each))
    return merged.part()


def _encoded_dictionary(part: HistogramPart) -> bytes:
    counts: dict[int, int] = {}
    counts.update(zip(part.indices.tolist(), part.counts.tolist(), strict=True))
    return pickle.dumps((counts, part.total_ns, part.max_ns))


def _merged_dictionary(encoded: Sequence[bytes]) -> dict[int, int]:
    merged: dict[int, int] = {}
    for each in encoded:
        for index, count in pickle.loads(each)[0].items():
            merged[index] = merged.get(index, 0) + count
    return merged
