"""Reports of a worker: counts of each interval, and the results of its phase.

One idea: reports are plain values that any transport can carry from a worker to the coordinator.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from awscrt import checksums

from archiver.measure.histogram import Histogram
from archiver.values.errors import RunFailed
from archiver.values.record import ErrorKind
from results.recorded.model import INTERVAL_SECONDS

PartOfPhase = Literal["warm-up", "measured", "drain"]
INTERVAL_NS = round(INTERVAL_SECONDS * 1e9)


@dataclass(slots=True)
class PartTally:
    """Counts and histograms of one kind of object operation in a workload with several kinds."""

    operation: str
    objects: int = 0
    bytes: int = 0
    attempts: int = 0
    errors: int = 0
    missed_deadlines: int = 0
    histograms: dict[str, Histogram] = field(default_factory=dict)

    def add(self, other: PartTally) -> None:
        """Add another tally of the same kind."""
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
    reconnects: int = 0  # times that a client connected again after the server ended the connection within a session
    requests_before_close: int = 0  # requests answered on the connections that the server ended
    histograms: dict[str, Histogram] = field(default_factory=dict)
    parts: dict[str, PartTally] = field(default_factory=dict)  # by name

    @property
    def mean_bytes(self) -> int:
        """Return the mean size of the objects, rounded; 0 if there are none."""
        return round(self.bytes / self.objects) if self.objects else 0

    def add(self, other: Tally) -> None:
        """Add another tally of the same workload."""
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

    def sum_up(self) -> None:
        """Merge the histograms that were added. Call this when no more are expected."""
        for histograms in (self.histograms, *(part.histograms for part in self.parts.values())):
            for histogram in histograms.values():
                histogram.sum_up()

    def add_times(self, other: Tally) -> None:
        """Add the times and delays of another tally, but not its counts."""
        self.missed_deadlines += other.missed_deadlines
        _merge(self.histograms, other.histograms)
        for name, part in other.parts.items():
            total = self.parts.setdefault(name, PartTally(part.operation))
            total.missed_deadlines += part.missed_deadlines
            _merge(total.histograms, part.histograms)


def _merge(histograms: dict[str, Histogram], others: Mapping[str, Histogram]) -> None:
    for quantity, histogram in others.items():
        if quantity not in histograms:
            histograms[quantity] = Histogram()
        histograms[quantity].add_all(histogram)


class TallyKey(NamedTuple):
    """The rows that a tally counts: rows of one workload that ended in one interval and one part of the phase."""

    interval: int  # number of INTERVAL_NS since the phase's start
    workload: int
    part: PartOfPhase


class Change(NamedTuple):
    """One operation on objects ``first`` to ``last``."""

    workload: int
    operation: str
    object_bytes: int
    first: int
    last: int
    is_aside: bool = False  # objects of the workload's aside


def joined(changes: Sequence[Change]) -> list[Change]:
    """Return the changes with adjacent archived ranges joined; all others keep their order."""
    ranges: list[Change] = []
    end, kind = -1, None
    for change in sorted([each for each in changes if each.operation == "archive"]):
        workload, operation, object_bytes, first, last, is_aside = change
        if first == end and kind == (workload, object_bytes, is_aside):
            ranges[-1] = Change(workload, operation, object_bytes, ranges[-1].first, last, is_aside)
        else:
            ranges.append(change)
            kind = (workload, object_bytes, is_aside)
        end = last + 1
    return ranges + [each for each in changes if each.operation != "archive"]


@dataclass(slots=True)
class IntervalReport:
    """The work of a worker since its last report.

    ``changed`` are ranges of objects that the platform acknowledged as archived, extended, held, released, deleted,
    hidden, copied or given a new version. ``findings`` are (object number, status) of an audit; INCOMPLETE if the
    platform could not be queried.
    """

    tallies: dict[TallyKey, Tally]
    changed: list[Change]
    errors: list[ErrorKind]
    findings: list[tuple[int, int]] = field(default_factory=list)
    worker: int = 0  # number of the worker, set by the transport
    # By workload and endpoint: when the last object so far was archived (CLOCK_MONOTONIC of the worker), its number.
    last_archived: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.tallies, self.changed, self.errors, self.findings, self.worker, self.last_archived)
        content = pickle.dumps(fields, -1)
        return _received, (content, checksums.crc32c(content))


def _received(content: bytes, checksum: int) -> IntervalReport:
    """Rebuild a report that another process pickled. Raises RunFailed if it is damaged."""
    if checksums.crc32c(content) != checksum:
        raise RunFailed("a worker's report arrived damaged; check the network and repeat the run")
    return IntervalReport(*pickle.loads(content))


@dataclass(slots=True)
class StageReport:
    """Result of a workload in one worker. Times are CLOCK_MONOTONIC nanoseconds.

    ``measured_from_ns`` and ``measured_to_ns`` bound the measured time. For clients that are measured in whole
    sessions, this is the time in which all of them are measured, and ``client_ns`` is the sum of their own measured
    times. For others it lasts from the end of the warm-up to the planned end, or until a client has used up its share.
    """

    workload: int
    measured_from_ns: int
    measured_to_ns: int
    ended_ns: int  # when its last client ended
    ended_early: bool  # before its stop rule was met: its objects were used up, or it reached a limit
    steps_left_out: int = 0
    due: int = 0  # open loop: sessions due in the measured time
    started: int = 0
    waited: int = 0
    dropped: int = 0
    backlog_max: int = 0
    lateness: Histogram = field(default_factory=Histogram)
    client_ns: int = 0
    half_width: float | None = None  # half-width of one client's mean session time at the last look of its stop rule

    def moved(self, by_ns: int) -> StageReport:
        """Return the same on a clock that is ahead by ``by_ns``."""
        return replace(
            self,
            measured_from_ns=_moved(self.measured_from_ns, by_ns),
            measured_to_ns=_moved(self.measured_to_ns, by_ns),
            ended_ns=_moved(self.ended_ns, by_ns),
        )


class CpuSample(NamedTuple):
    """CPU time that a worker's process has used so far. The values are counters, so usage is a difference.

    A worker that polls busily is on a core all the time. The time in which it only polled does not count as used.
    """

    at_ns: int  # CLOCK_MONOTONIC
    used_seconds: float  # on a core
    waited_seconds: float  # ready to run without a core


@dataclass(slots=True)
class PhaseReport:
    """A worker's report at the end of a phase. Times are CLOCK_MONOTONIC nanoseconds."""

    ended_ns: int  # when the last client ended
    cpu: list[CpuSample]  # of the worker, through the phase
    lateness: Histogram
    gave_up: str | None  # why no client could continue
    stages: tuple[StageReport, ...] = ()
    infrastructures: tuple[InfrastructureReport, ...] = ()
    began_ns: int = 0  # when its clients started
    # By workload: time of its clients' sessions without an object, and of all their sessions, pauses included.
    failed_session_ns: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    worker: int = 0  # number of the worker, set by the transport

    def moved(self, by_ns: int) -> PhaseReport:
        """Return the same on a clock that is ahead by ``by_ns``."""
        return replace(
            self,
            ended_ns=_moved(self.ended_ns, by_ns),
            cpu=[sample._replace(at_ns=sample.at_ns + by_ns) for sample in self.cpu],
            stages=tuple(stage.moved(by_ns) for stage in self.stages),
            began_ns=_moved(self.began_ns, by_ns),
        )


def _moved(at_ns: int, by_ns: int) -> int:
    """Move an instant; 0 means that there was none."""
    return at_ns and at_ns + by_ns


@dataclass(frozen=True, slots=True)
class InfrastructureReport:
    """The results of all instances of one kind of operation."""

    workload: int
    completed: int
    failed: int
    seconds: float  # time in which they began, or until the last one ended
    instance_seconds: tuple[float, ...]  # of the completed instances
    findings: tuple[str, ...]
    kept: int  # objects that a migration did not move because they are locked
    copied_second: int  # objects in the second place
    copied_second_bytes: int
    gave_up: str | None = None


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """Name and host of a worker."""

    name: str
    host: str


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """Offset of a worker's clock: how far it is ahead of the coordinator's, and the error of that value.

    The worker reads its clock at an unknown moment of a round trip, so the error is half of the quickest round trip.
    """

    offset_ns: int = 0
    error_ns: int = 0


@dataclass(slots=True)
class Carried:
    """The reports of a phase that workers carried out."""

    reports: list[PhaseReport] = field(default_factory=list)  # of workers that reached its end
    lost: dict[int, str] = field(default_factory=dict)  # by worker: why it did not reach the end
    places: dict[int, WorkerPlace] = field(default_factory=dict)
    clocks: dict[int, ClockOffset] = field(default_factory=dict)  # of workers with another clock
    prepared_seconds: dict[int, float] = field(default_factory=dict)  # time until each worker was ready to start
