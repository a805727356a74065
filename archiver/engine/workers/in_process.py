"""A worker's part of a phase, carried out by this process itself: for what is too little to have workers for.

One idea: it is the same function with the same channel; only nobody is on its other end who could stop it.
"""

from __future__ import annotations

import time

from archiver.engine.work.worker import run_phase
from archiver.engine.worker.assignment import Assignment
from archiver.machine import interruption
from archiver.measure.reports import IntervalReport, PhaseReport
from archiver.values.record import ErrorKind


class Alone:
    """The channel of a phase that nobody else takes part in, and what came through it."""

    def __init__(self) -> None:
        self.sessions = 0
        self.objects = 0
        self.errors: list[ErrorKind] = []

    def wait_for_start(self) -> int:
        return time.monotonic_ns()

    def report(self, report: IntervalReport) -> None:
        self.sessions += sum(tally.sessions for tally in report.tallies.values())
        self.objects += sum(tally.objects for tally in report.tallies.values())
        self.errors += report.errors

    @property
    def problems(self) -> list[str]:
        """The failures in words."""
        return [f"{error.reason}: {error.message}" for error in self.errors]

    def should_stop(self) -> bool:
        return False

    def should_finish(self) -> bool:
        return False


def carry_out(assignment: Assignment) -> tuple[Alone, PhaseReport]:
    """What was counted, and how the phase ended. SIGTERM and SIGHUP take effect at its end: an event loop takes what a
    signal raises within a connection for that connection's failure, and goes on."""
    alone = Alone()
    with interruption.put_off():
        return alone, run_phase(assignment, alone)
