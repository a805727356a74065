"""Memory of a worker, which must not grow with the number of objects.

One worker process archives and then retrieves objects of 8 KiB on the null backend, in the default random order, with
the usual reports of intervals: first few objects, then many. The result is the growth of its peak resident size. The
benchmark also measures the coordinator, because it merges the reports.
"""

from __future__ import annotations

import os
from typing import Any

from benchmarks.own_process import answer_of
from benchmarks.process_memory import memory_of
from benchmarks.tables import Table, labelled, plain, verdict

TITLE = "Memory of a worker"
OBJECT_BYTES = 8192
FEW, MANY = 100_000, 1_000_000
FEW_SMALL, MANY_SMALL = 1_000, 10_000
GROWTH_BYTES_GOAL = 50 << 20


def measure(*, small: bool) -> dict[str, Any]:
    """Peak resident bytes of worker and coordinator for few and for many objects, each in processes of its own."""
    few, many = (FEW_SMALL, MANY_SMALL) if small else (FEW, MANY)
    peaks = {count: answer_of(peaks_of, count) for count in (few, many)}
    growth = {name: peaks[many][name] - peaks[few][name] for name in ("worker", "coordinator")}
    return {
        "unit": "peak resident bytes",
        "object_bytes": OBJECT_BYTES,
        "objects": [few, many],
        "peaks": {str(count): found for count, found in peaks.items()},
        "growth": growth,
        "goals": {"worker": GROWTH_BYTES_GOAL},
        "goals_met": growth["worker"] <= GROWTH_BYTES_GOAL,
    }


def tables(document: dict[str, Any]) -> list[Table]:
    """Peaks for few and for many objects, and what lies between."""
    few, many = document["objects"]
    rows = tuple(
        plain(
            name,
            *(f"{document['peaks'][str(count)][name] / (1 << 20):.1f}" for count in (few, many)),
            f"{document['growth'][name] / (1 << 20):.1f}",
        )
        for name in ("worker", "coordinator")
    )
    columns = labelled(("process",), f"{few:,} objects", f"{many:,} objects", "growth")
    return [Table("memory", "Peak resident MiB: archive, then retrieve, 8 KiB, null backend", columns, rows)]


def notes(document: dict[str, Any]) -> list[str]:
    goal = document["goals"]["worker"] >> 20
    return [f"the worker grows by at most {goal} MiB: {verdict(document['goals_met'])}"]


def peaks_of(objects: int) -> dict[str, int]:
    """Return the peaks after one archive and one retrieve phase of so many objects, in this process and a worker."""
    import multiprocessing

    from archiver.engine.coordinator import Coordinator, Fill, RunSetting
    from archiver.engine.numbers import Kept, ObjectNumbers
    from archiver.engine.workers.processes import WorkerProcesses
    from archiver.values.retention import Retention
    from archiver.watch.sampler import ResourceSampler
    from scenarios.model import Phase, Workload
    from scenarios.work.mix import OperationName
    from scenarios.work.sessions import Sessions, UntilPrecise

    sampler = ResourceSampler([])
    sampler.start()
    workers = WorkerProcesses(1, [])
    setting = RunSetting(
        run_id="memory", content_seed=1, backend="null", backend_setting=None, retention=Retention(), verify="none",
        session_kind="opened", session_open="connect", checksum="none", payload_signing=False,
    )  # fmt: skip
    coordinator = Coordinator(setting, workers, sampler)
    numbers = ObjectNumbers(seed=1)
    stop = UntilPrecise(3600.0, 3600.0, bytes_max=objects * OBJECT_BYTES, precision=0.0)
    operations: tuple[OperationName, ...] = ("archive", "retrieve")
    done = 0
    for position, operation in enumerate(operations, start=1):
        workload = Workload(operation, Sessions(operation, OBJECT_BYTES, stop), 1, 100)
        outcome = coordinator.run_phase(
            Phase(operation, position, 1, (workload,)), numbers, {}, lambda report: None, Fill()
        )
        for each in outcome.archived:
            numbers.keep(Kept(each.object_bytes, each.first, each.last))
        done += outcome.results[0].objects
    assert done == 2 * objects, f"{done} of {2 * objects} objects were done"
    (worker,) = multiprocessing.active_children()
    assert worker.pid is not None
    peaks = {"worker": memory_of(worker.pid).resident_max, "coordinator": memory_of(os.getpid()).resident_max}
    workers.close()
    sampler.stop()
    return peaks
