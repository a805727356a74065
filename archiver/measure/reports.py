"""What a worker reports: counts of each interval, and how its phase went.

One idea: reports are plain values that any carrier can take from a worker to the coordinator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from archiver.measure.histogram import Histogram
from archiver.values.record import ErrorKind

INTERVAL_NS = 250_000_000  # the grain of the time line, and of the measured window of several clients


@dataclass(slots=True)
class PartTally:
    """Counts and histograms of one kind of object operation, of a workload that does several."""

    operation: str
    objects: int = 0
    bytes: int = 0
    attempts: int = 0
    errors: int = 0
    missed_deadlines: int = 0
    histograms: dict[str, Histogram] = field(default_factory=dict)

    def add(self, other: PartTally) -> None:
        """Merge another tally of the same part."""
        self.objects += other.objects
        self.bytes += other.bytes
        self.attempts += other.attempts
        self.errors += other.errors
        self.missed_deadlines += other.missed_deadlines
        _merge(self.histograms, other.histograms)


@dataclass(slots=True)
class Tally:
    """Counts and histograms of one workload in one interval."""

    sessions: int = 0
    objects: int = 0
    bytes: int = 0
    attempts: int = 0
    errors: int = 0
    refusals: int = 0
    missed_deadlines: int = 0
    reconnects: int = 0  # since the server had ended the connection within a session
    requests_before_close: int = 0  # that it had answered over the connections that it ended
    histograms: dict[str, Histogram] = field(default_factory=dict)
    parts: dict[str, PartTally] = field(default_factory=dict)  # by name

    def add(self, other: Tally) -> None:
        """Merge another tally of the same workload."""
        self.sessions += other.sessions
        self.objects += other.objects
        self.bytes += other.bytes
        self.attempts += other.attempts
        self.errors += other.errors
        self.refusals += other.refusals
        self.missed_deadlines += other.missed_deadlines
        self.reconnects += other.reconnects
        self.requests_before_close += other.requests_before_close
        _merge(self.histograms, other.histograms)
        for name, part in other.parts.items():
            self.parts.setdefault(name, PartTally(part.operation)).add(part)

    def add_times(self, other: Tally) -> None:
        """Take over how long something took, and what came too late, but not how much it was."""
        self.missed_deadlines += other.missed_deadlines
        _merge(self.histograms, other.histograms)
        for name, part in other.parts.items():
            mine = self.parts.setdefault(name, PartTally(part.operation))
            mine.missed_deadlines += part.missed_deadlines
            _merge(mine.histograms, part.histograms)


def _merge(histograms: dict[str, Histogram], others: Mapping[str, Histogram]) -> None:
    for quantity, histogram in others.items():
        histograms.setdefault(quantity, Histogram()).add(histogram.part())


class TallyKey(NamedTuple):
    """Which rows a tally counts: those that ended in one interval, of one workload, in or after the warm-up."""

    interval: int  # counts INTERVAL_NS from the phase's start
    workload: int
    warm_up: bool


class Change(NamedTuple):
    """What became of objects ``first`` to ``last``."""

    workload: int
    operation: str
    object_bytes: int
    first: int
    last: int
    is_beside: bool = False  # of the objects beside the workload's own


@dataclass(slots=True)
class IntervalReport:
    """What happened in a worker since its last report.

    ``changed`` are ranges of objects of which the platform acknowledged that they were archived, extended, held,
    released, deleted, hidden, copied or given a new version; ``findings`` what an audit found: (object number,
    status), INCOMPLETE where it could not even ask.
    """

    tallies: dict[TallyKey, Tally]
    changed: list[Change]
    errors: list[ErrorKind]
    findings: list[tuple[int, int]] = field(default_factory=list)
    worker: int = 0  # who says so; whoever carries the report fills it in


@dataclass(slots=True)
class StageReport:
    """How a workload went in one worker. Times are CLOCK_MONOTONIC nanoseconds.

    ``measured_from_ns`` and ``measured_to_ns`` bound what counts. Of one client that is measured in whole sessions:
    from the first measured session's opening to the last one's closing. Of others: from the end of the warm-up to the
    planned end, or to when a client had used up its share.
    """

    workload: int
    measured_from_ns: int
    measured_to_ns: int
    ended_ns: int  # when its last client had ended
    ended_early: bool  # before its stop rule was met: it used up what it may archive, or met a limit
    steps_left_out: int = 0
    due: int = 0  # of an open loop: sessions in the measured time
    started: int = 0
    waited: int = 0
    dropped: int = 0
    backlog_max: int = 0
    lateness: Histogram = field(default_factory=Histogram)

    def moved(self, by_ns: int) -> StageReport:
        """The same on a clock that is ahead by so much."""
        return replace(
            self,
            measured_from_ns=_moved(self.measured_from_ns, by_ns),
            measured_to_ns=_moved(self.measured_to_ns, by_ns),
            ended_ns=_moved(self.ended_ns, by_ns),
        )


class CpuSample(NamedTuple):
    """What a worker's process has used so far. Counters, so that any two instants have a difference."""

    at_ns: int  # CLOCK_MONOTONIC
    used_seconds: float  # on a core
    waited_seconds: float  # ready to run, but without a core


@dataclass(slots=True)
class PhaseReport:
    """What a worker says at the end of a phase. Times are CLOCK_MONOTONIC nanoseconds."""

    ended_ns: int  # when the last client had ended
    cpu: list[CpuSample]  # of the worker, through the phase
    lateness: Histogram
    gave_up: str | None  # why no client could go on
    stages: tuple[StageReport, ...] = ()
    infrastructures: tuple[InfrastructureReport, ...] = ()
    began_ns: int = 0  # when its clients began
    worker: int = 0  # who says so; whoever carries the report fills it in

    def moved(self, by_ns: int) -> PhaseReport:
        """The same on a clock that is ahead by so much."""
        return replace(
            self,
            ended_ns=_moved(self.ended_ns, by_ns),
            cpu=[sample._replace(at_ns=sample.at_ns + by_ns) for sample in self.cpu],
            stages=tuple(stage.moved(by_ns) for stage in self.stages),
            began_ns=_moved(self.began_ns, by_ns),
        )


def _moved(at_ns: int, by_ns: int) -> int:
    """0 is no instant, but says that there was none."""
    return at_ns and at_ns + by_ns


@dataclass(frozen=True, slots=True)
class InfrastructureReport:
    """What came of all instances of one kind of operation."""

    workload: int
    completed: int
    failed: int
    seconds: float  # in which they were begun; longer where the last one took longer
    instance_seconds: tuple[float, ...]  # of the completed ones
    findings: tuple[str, ...]
    kept: int  # objects that a migration left where they were, since they are locked
    copied_there: int  # objects in the second place
    copied_there_bytes: int
    gave_up: str | None = None


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """Where a worker runs."""

    name: str
    host: str


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """How far a worker's clock is ahead of the coordinator's, and by how much that may be wrong.

    Between the two ends of one round trip the worker read its clock, nobody knows when: half of the quickest trip is
    the bound.
    """

    offset_ns: int = 0
    error_ns: int = 0


@dataclass(slots=True)
class Carried:
    """A phase, as its workers carried it out."""

    reports: list[PhaseReport] = field(default_factory=list)  # of those that came to its end
    lost: dict[int, str] = field(default_factory=dict)  # by worker: why it did not
    places: dict[int, WorkerPlace] = field(default_factory=dict)
    clocks: dict[int, ClockOffset] = field(default_factory=dict)  # of those whose clock is another
    prepared_seconds: dict[int, float] = field(default_factory=dict)  # until each was ready to start
