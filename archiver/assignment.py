"""What a worker is told, what it reports, and the three calls it reports through.

One idea: a worker is a plain function, run_phase(assignment, channel), of plain values; pipes carry the channel
between local processes, and anything else that can carry three calls will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from archiver.histogram import Histogram
from archiver.record import ErrorKind
from archiver.retention import DateMaker
from backends.base import ExpectedLock
from scenarios.model import Phase

INTERVAL_NS = 250_000_000  # the grain of the time line, and of the measured window of several clients


@dataclass(frozen=True, slots=True)
class ClientAssignment:
    """One client of a worker: which workload, and which object numbers it may use.

    ``numbers`` is (first, last + 1) for archiving; for all else the numbers themselves, in order.
    """

    client: int
    workload: int
    numbers: tuple[int, int] | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Assignment:
    """One phase, as one worker carries it out."""

    run_id: str
    content_seed: int
    backend: str
    backend_setting: Any  # may hold secrets: travels, is never stored
    phase: Phase
    clients: tuple[ClientAssignment, ...]
    dates: DateMaker | None
    verify: str
    op_log: Path | None = None  # the file for this worker's operations in this phase
    expected: Sequence[ExpectedLock] = ()  # for an audit: what the objects were locked with


@dataclass(slots=True)
class Tally:
    """Counts and histograms of one workload in one interval."""

    sessions: int = 0
    objects: int = 0
    bytes: int = 0
    attempts: int = 0
    errors: int = 0
    refusals: int = 0
    histograms: dict[str, Histogram] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Merge another tally of the same workload."""
        self.sessions += other.sessions
        self.objects += other.objects
        self.bytes += other.bytes
        self.attempts += other.attempts
        self.errors += other.errors
        self.refusals += other.refusals
        for quantity, histogram in other.histograms.items():
            self.histograms.setdefault(quantity, Histogram()).add(histogram.part())


class TallyKey(NamedTuple):
    """Which rows a tally counts: those that ended in one interval, of one workload, in or after the warm-up."""

    interval: int  # counts INTERVAL_NS from the phase's start
    workload: int
    warm_up: bool


@dataclass(slots=True)
class IntervalReport:
    """What happened in a worker since its last report.

    ``changed`` are (workload, first, last) ranges of object numbers of which the platform acknowledged that they were
    archived, extended, held, released or deleted; ``findings`` what an audit found: (object number, status), INCOMPLETE
    where it could not even ask.
    """

    tallies: dict[TallyKey, Tally]
    changed: list[tuple[int, int, int]]
    errors: list[ErrorKind]
    findings: list[tuple[int, int]] = field(default_factory=list)


class CpuSample(NamedTuple):
    """What a worker's process has used so far. Counters, so that any two instants have a difference."""

    at_ns: int  # CLOCK_MONOTONIC
    used_seconds: float  # on a core
    waited_seconds: float  # ready to run, but without a core


@dataclass(slots=True)
class PhaseReport:
    """What a worker says at the end of a phase. Times are CLOCK_MONOTONIC nanoseconds.

    ``measured_from_ns`` and ``measured_to_ns`` bound what counts: for one client from the first measured session's
    opening to the last one's closing; for several, from the end of the warm-up to when the first client ran out of
    its share (or the deadline).
    """

    measured_from_ns: int
    measured_to_ns: int
    ended_ns: int  # when the last client had ended
    settled: bool
    cpu: list[CpuSample]  # of the worker, through the phase
    lateness: Histogram
    gave_up: str | None  # why no client could go on


class Channel(Protocol):
    """A worker's three calls."""

    def wait_for_start(self) -> int:
        """Say that everything is prepared; returns the start instant, CLOCK_MONOTONIC nanoseconds."""

    def report(self, report: IntervalReport) -> None:
        """Send what happened since the last report."""

    def should_stop(self) -> bool:
        """True when the run is being ended early."""
