"""Assignments for workers on the null backend, short ones and such as go on until they are stopped."""

from __future__ import annotations

import time

from archiver.engine.worker.assignment import Assignment, ClientAssignment
from scenarios.model import Phase, Workload
from scenarios.work.sessions import AllObjects, InWindow, Sessions

SHORT = AllObjects()  # of 55 objects for each client, measured from the start
LONG = InWindow(seconds=1e6, client_bytes_max=10**15)


def assignments(rule: InWindow | AllObjects, backend: str = "null") -> list[Assignment]:
    """One client for each of two workers."""
    workload = Workload("archive", Sessions("archive", 200, rule), clients=2, objects_per_session=5)
    phase = Phase("archive", 1, 1, (workload,))
    share = 55 if isinstance(rule, AllObjects) else workload.objects_max // 2
    return [
        Assignment("run-1", 7, backend, None, phase, (ClientAssignment(i, 0, (i * share, (i + 1) * share)),), {}, "all")
        for i in range(2)
    ]


def at_once(delay_ns: int) -> int:
    """The start, as soon as all can know it."""
    return time.monotonic_ns() + delay_ns


TIMER_NS = 1_000_000  # the event loop's timers go by whole milliseconds
