"""A worker's part of a phase in this process, for work that is too small for worker processes.

The function is the one that worker processes run. Its channel never stops it.
"""

from __future__ import annotations

import time

from archiver.engine.work.worker import run_phase
from archiver.engine.worker.assignment import Assignment
from archiver.machine import interruption
from archiver.measure.reports import IntervalReport, PhaseReport
from archiver.values.record import ErrorKind


class InProcessChannel:
    """The channel of a phase in this process, and the reports that passed through it."""

    def __init__(self) -> None:
        self.sessions = 0
        self.objects = 0
        self.errors: list[ErrorKind] = []

    def wait_for_start(self) -> int:
        return time.monotonic_ns()

    def report(self, report: IntervalReport) -> None:
        self.sessions += sum(tally.sessions for tally in report.tallies.values())
        self.objects += sum(tally.objects for tally in report.tallies.values())
        self.errors += [error for error in report.errors if error.count]

    @property
    def problems(self) -> list[str]:
        """Return the failures as messages."""
        return [f"{error.reason}: {error.message}" for error in self.errors]

    def should_stop(self) -> bool:
        return False

    def should_finish(self) -> bool:
        return False


def carry_out(assignment: Assignment) -> tuple[InProcessChannel, PhaseReport]:
    """Return the counts, and how the phase ended.

    SIGINT, SIGTERM and SIGHUP take effect at its end. An event loop treats an exception that a signal raises within a
    connection as a failure of that connection, and continues. It loses an interrupt that comes as its last task ends.
    """
    channel = InProcessChannel()
    with interruption.deferred():
        report = run_phase(assignment, channel)
        interruption.check()
        return channel, report
