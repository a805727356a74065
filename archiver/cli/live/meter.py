"""A run in progress: the work of its phases so far and in the last seconds.

The run only passes on its workers' reports, and adding them takes microseconds. The reader's thread computes rates and
percentiles on demand. No result of the run comes from this module.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from archiver.engine.coordinator import PhaseOutcome
from archiver.engine.run import ServerLately
from archiver.engine.worker.phase_run import REPORT_SECONDS
from archiver.measure.histogram import Histogram, HistogramPart, index_of, merged, percentiles
from archiver.measure.reports import INTERVAL_NS, IntervalReport, PartTally, Tally
from archiver.values.sizes import format_size
from archiver.web.live_state import LiveFigures, LiveState, LogLine
from results.recorded.model import ServerUsage
from scenarios.model import Phase, Scenario, Workload

LAST_SECONDS = 5.0  # period of current rates and percentiles
HISTORY_SECONDS = 60
FINISHED_SHOWN = 3
# Upper bounds of the classes in which service times are counted, as Prometheus has them.
SERVICE_BOUNDS_SECONDS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
_SERVICE_INDICES = index_of(np.array([round(each * 1e9) for each in SERVICE_BOUNDS_SECONDS], dtype=np.int64))
LOG_LINES = 20
_REPORT_INTERVALS = round(REPORT_SECONDS * 1e9 / INTERVAL_NS) + 1  # some workers may not have reported these yet
_LAST_INTERVALS = round(LAST_SECONDS * 1e9 / INTERVAL_NS)


@dataclass(slots=True)
class Totals:
    """All work so far of one operation on one platform, warm-up included."""

    objects: int = 0
    bytes: int = 0
    errors: int = 0
    retries: int = 0  # failed attempts that were sent again
    service: Histogram = field(default_factory=Histogram)  # of the objects

    def add(self, counts: Tally | PartTally) -> None:
        self.objects += counts.objects
        self.bytes += counts.bytes
        self.errors += counts.errors
        if (service := counts.histograms.get("object_service")) is not None:
            self.service.add_all(service)

    @property
    def service_counts(self) -> list[int]:
        """Return the number of objects up to each of SERVICE_BOUNDS_SECONDS, and above the last one."""
        part = self.service.part()
        within = np.searchsorted(_SERVICE_INDICES, part.indices)
        return [int(count) for count in np.bincount(within, part.counts, len(SERVICE_BOUNDS_SECONDS) + 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment(LiveState):
    """The state of a run at one moment, with what only its own process shows."""

    title: str
    totals: Mapping[tuple[str, str], Totals]  # by platform and operation

    @property
    def tried(self) -> list[str]:
        """Names of the platforms so far."""
        return list(dict.fromkeys(platform for platform, _ in self.totals))

    def failures_on(self, platform: str) -> tuple[int, int]:
        """Return (errors, failed attempts that were sent again) of the whole run on one platform, so far."""
        own = [totals for (name, _), totals in self.totals.items() if name == platform]
        return sum(each.errors for each in own), sum(each.retries for each in own)


class Meter:
    """Follows a run. Every method may be called from any thread."""

    def __init__(
        self,
        scenario: Scenario,
        platforms: int,
        budget_seconds: float | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._clock_ns = clock_ns
        self._title = scenario.title
        self._phases = max((phase.position for phase in scenario.phases), default=0)
        self._first = min((phase.position for phase in scenario.phases), default=1)
        self._operations = sorted({each for phase in scenario.phases for w in phase.workloads for each in w.work.does})
        self._platforms = platforms
        self._budget_seconds = budget_seconds  # None: until all phases are finished
        self._lock = threading.Lock()
        self._began: float | None = None  # start of the first phase; in seconds of the clock, as all times here
        self._position_began = 0.0
        self._current: _Current | None = None
        self._finished: deque[LiveFigures] = deque(maxlen=FINISHED_SHOWN)
        self._by_second: dict[int, int] = {}
        self._totals: dict[tuple[str, str], Totals] = {}
        self._log: deque[LogLine] = deque(maxlen=LOG_LINES)

    def phase_started(self, phase: Phase, platform: str, server_lately: ServerLately) -> None:
        now = self._clock_ns() / 1e9
        with self._lock:
            if self._began is None:
                self._began = now
            if self._current is None or self._current.phase.position != phase.position:
                self._position_began = now
            self._current = _Current(phase, platform, server_lately)
            self._add_to_log(f"phase {phase.position}, {phase.label}, began{self._where(platform)}")
            self._phases = max(self._phases, phase.position)  # the number of phases of a search is unknown
            for operation in self._operations:
                self._totals.setdefault((platform, operation), Totals())

    def reported(self, report: IntervalReport) -> None:
        with self._lock:
            assert self._current is not None
            now_ns = self._clock_ns()
            self._current.add(report, now_ns)
            self._by_second.setdefault(int(now_ns / 1e9), 0)  # an idle second counts too
            for key, tally in report.tallies.items():
                operation = self._current.phase.workloads[key.workload].work.operation_label
                done: list[tuple[str, Tally | PartTally]] = [(part.operation, part) for part in tally.parts.values()]
                for what, counts in done or [(operation, tally)]:
                    self._totals.setdefault((self._current.platform, what), Totals()).add(counts)
                second = self._current.second(key.interval)
                self._by_second[second] = self._by_second.get(second, 0) + tally.objects
            for error in report.errors:
                if error.retried:
                    totals = self._totals.setdefault((self._current.platform, error.operation), Totals())
                    totals.retries += error.retried
            self._forget_before(_newest_second(now_ns / 1e9) - HISTORY_SECONDS)

    def phase_finished(self, outcome: PhaseOutcome) -> None:
        with self._lock:
            assert self._current is not None
            self._finished.append(_of_finished(outcome, self._current.platform))
            self._current.ended = True
            ended = f"ended: {outcome.gave_up}" if outcome.gave_up is not None else "ended"
            phase = outcome.phase
            self._add_to_log(f"phase {phase.position}, {phase.label}, {ended}{self._where(self._current.platform)}")

    def warned(self, warning: str) -> None:
        with self._lock:
            self._add_to_log(warning)

    def now(self) -> Moment:
        """Return the current state of the run."""
        now = self._clock_ns() / 1e9
        newest = _newest_second(now)
        with self._lock:
            self._forget_before(newest - HISTORY_SECONDS)
            current = self._current
            return Moment(
                written_at=time.time(),
                title=self._title,
                phases=self._phases,
                platforms=self._platforms,
                seconds=now - self._began if self._began is not None else 0.0,
                seconds_left=self._seconds_left(now),
                errors=sum(totals.errors for totals in self._totals.values()),
                current=current.figures(self._clock_ns()) if current is not None and not current.ended else None,
                finished=tuple(self._finished),
                objects_by_second=[count for second, count in sorted(self._by_second.items()) if second <= newest],
                totals={key: replace(totals, service=merged([totals.service])) for key, totals in self._totals.items()},
                log=tuple(self._log),
            )

    def _add_to_log(self, text: str) -> None:
        self._log.append(LogLine(time.time(), text))

    def _where(self, platform: str) -> str:
        return f", on {platform}" if self._platforms > 1 else ""

    def _forget_before(self, oldest: int) -> None:
        """Forget old values even without a reader, because a quiet run may take days."""
        for second in [each for each in self._by_second if each <= oldest]:
            del self._by_second[second]

    def _seconds_left(self, now: float) -> float | None:
        """Estimate the remaining time from the mean time of the phases so far, on all platforms together."""
        if self._current is None or self._began is None:
            return None
        done = self._current.phase.position - self._first
        if not done:
            return None
        each = (self._position_began - self._began) / done
        left = each * (self._phases - self._first + 1 - done) - (now - self._position_began)
        if self._budget_seconds is not None:
            left = min(left, self._budget_seconds - (now - self._began))
        return max(0.0, left)


@dataclass(slots=True)
class _Current:
    """The current phase."""

    phase: Phase
    platform: str
    server_lately: ServerLately
    ended: bool = False
    errors: int = 0
    start_ns: int | None = None
    intervals: dict[int, _Interval] = field(default_factory=dict)

    def add(self, report: IntervalReport, now_ns: int) -> None:
        if report.tallies:
            # The workers' start is not reported. It is not later than this, and each report may show that it was
            # earlier.
            begun_ns = now_ns - max(key.interval for key in report.tallies) * INTERVAL_NS
            self.start_ns = begun_ns if self.start_ns is None else min(self.start_ns, begun_ns)
        for key, tally in report.tallies.items():
            interval = self.intervals.setdefault(key.interval, _Interval())
            interval.objects += tally.objects
            interval.bytes += tally.bytes
            if "object_service" in tally.histograms:
                interval.service.add_all(tally.histograms["object_service"])
            self.errors += tally.errors
        oldest = self.told_up_to(now_ns) - _LAST_INTERVALS
        for index in [index for index in self.intervals if index < oldest]:
            del self.intervals[index]

    def second(self, interval: int) -> int:
        """Return the second of the clock that contains an interval."""
        assert self.start_ns is not None
        return int((self.start_ns + interval * INTERVAL_NS) / 1e9)

    def told_up_to(self, now_ns: int) -> int:
        """Return the first interval that some worker may not have reported."""
        return 0 if self.start_ns is None else (now_ns - self.start_ns) // INTERVAL_NS - _REPORT_INTERVALS

    def figures(self, now_ns: int) -> LiveFigures:
        until = self.told_up_to(now_ns)
        since = max(0, until - _LAST_INTERVALS)
        here = [interval for index, interval in self.intervals.items() if since <= index < until]
        seconds = max(0, until - since) * INTERVAL_NS / 1e9
        known = seconds >= REPORT_SECONDS
        p50, p99 = _p50_and_p99([interval.service.part() for interval in here] if known else [])
        return _figures(
            self.phase,
            self.platform,
            self.server_lately(LAST_SECONDS),
            errors=self.errors,
            objects_per_second=sum(interval.objects for interval in here) / seconds if known else None,
            megabytes_per_second=sum(interval.bytes for interval in here) / seconds / 1e6 if known else None,
            p50_milliseconds=p50,
            p99_milliseconds=p99,
        )


@dataclass(slots=True)
class _Interval:
    objects: int = 0
    bytes: int = 0
    service: Histogram = field(default_factory=Histogram)  # of the objects


def _newest_second(now: float) -> int:
    """Return the newest second that every worker has reported."""
    return int(now - REPORT_SECONDS) - 1


def _of_finished(outcome: PhaseOutcome, platform: str) -> LiveFigures:
    rows = [row for row in outcome.histograms if row.quantity == "object_service"]
    p50, p99 = _p50_and_p99(
        [
            HistogramPart(np.frombuffer(row.indices, "<i8"), np.frombuffer(row.counts, "<i8"), row.total_ns, row.max_ns)
            for row in rows
        ]
    )
    return _figures(
        outcome.phase,
        platform,
        outcome.results[0].server if outcome.results else None,  # no results: the first objects were refused
        errors=sum(result.errors for result in outcome.results),
        objects_per_second=sum(result.objects_per_second for result in outcome.results),
        megabytes_per_second=sum(result.megabytes_per_second for result in outcome.results),
        p50_milliseconds=p50,
        p99_milliseconds=p99,
    )


def _figures(phase: Phase, platform: str, server: ServerUsage | None, **measured: Any) -> LiveFigures:
    return LiveFigures(
        label=phase.label,
        name=" + ".join(map(_name, phase.workloads)),
        position=phase.position,
        platform=platform,
        clients=phase.clients,
        server_cpu_percent=server.cpu_percent if server is not None else None,
        host_cpu_percent=server.host_cpu_percent if server is not None else None,
        disk_busy_percent=server.disk_busy_percent if server is not None else None,
        **measured,
    )


def _name(workload: Workload) -> str:
    """Return what a workload does, without the size if it follows from the objects of another workload."""
    size = f" {format_size(workload.work.mean_bytes)}" if workload.work.mean_bytes else ""
    return f"{workload.work.operation_label}{size} x {workload.objects_per_session} {workload.variant}".rstrip()


def _p50_and_p99(parts: Sequence[HistogramPart]) -> tuple[float | None, float | None]:
    if not any(len(part.indices) for part in parts):
        return None, None
    p50, p99 = percentiles(parts, (50, 99))
    return p50, p99
