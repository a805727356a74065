"""Short and endless assignments for workers on the null backend."""

from __future__ import annotations

import time

from archiver.engine.worker.assignment import Assignment, ClientAssignment
from scenarios.model import Phase, Workload
from scenarios.work.sessions import AllObjects, InWindow, Sessions

SHORT = AllObjects()  # 55 objects for each client, measured from the start
LONG = InWindow(seconds=1e6, client_bytes_max=10**15)


def assignments(rule: InWindow | AllObjects, backend: str = "null") -> list[Assignment]:
    """Return an assignment for each of two workers, with one client each."""
    workload = Workload("archive", Sessions("archive", 200, rule), clients=2, objects_per_session=5)
    phase = Phase("archive", 1, 1, (workload,))
    share = 55 if isinstance(rule, AllObjects) else workload.objects_max // 2
    return [
        Assignment("run-1", 7, backend, None, phase, (ClientAssignment(i, 0, (i * share, (i + 1) * share)),), {}, "all")
        for i in range(2)
    ]


def at_once(delay_ns: int) -> int:
    """Return the earliest start that all workers can receive in time."""
    return time.monotonic_ns() + delay_ns


TIMER_NS = 1_000_000  # the event loop's timers have a resolution of 1 ms
