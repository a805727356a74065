"""Assignments for workers on the null backend, short ones and such as go on until they are stopped."""

from __future__ import annotations

import time
from dataclasses import replace

from archiver.engine.worker.assignment import Assignment, ClientAssignment
from scenarios.model import Phase, StopRule, Workload

SHORT = StopRule(
    warm_up_sessions=1,
    warm_up_seconds=0.0,
    sessions_min=10,
    large_sessions_min=10,
    large_session_bytes=10**9,
    seconds_min=1e6,
    seconds_max=1e6,
    bytes_max=1,
    client_bytes_max=11_000,
    precision=0.05,
)


LONG = replace(SHORT, client_bytes_max=10**15)


def assignments(rule: StopRule, backend: str = "null") -> list[Assignment]:
    """One client for each of two workers."""
    workload = Workload("archive", "archive", 200, 5, 2)
    phase = Phase("archive", 1, 1, (workload,), rule)
    share = phase.objects_max(workload) // 2
    return [
        Assignment("run-1", 7, backend, None, phase, (ClientAssignment(i, 0, (i * share, (i + 1) * share)),), {}, "all")
        for i in range(2)
    ]


def at_once(delay_ns: int) -> int:
    """The start, as soon as all can know it."""
    return time.monotonic_ns() + delay_ns


TIMER_NS = 1_000_000  # the event loop's timers go by whole milliseconds
