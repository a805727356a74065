"""Whether a phase met the scenario's criteria: at its end, and while it runs, so that a hopeless one can be ended.

One idea: what was not measured does not hold, and what can still be mended is not yet missed. So a phase is ended early
only for what its end would have said too, as far as that can be known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from archiver.measure.histogram import HIGHEST_NS, Histogram, index_of, percentiles
from archiver.measure.reports import INTERVAL_NS, IntervalReport, PartTally, Tally, TallyKey
from results.model import CriterionResult, Latency, PartResult, Result
from scenarios.criteria import Criterion
from scenarios.model import Phase, Workload

MEASURED_SECONDS_MIN = 5.0
MEASURED_VALUES_MIN = 100

_Value = Latency | float | None

_OF_PARTS: dict[str, Callable[[Result | PartResult], _Value]] = {
    "object_ms": lambda part: part.object_response_ms,
    "object_service_ms": lambda part: part.object_service_ms,
    "first_byte_ms": lambda part: part.first_byte_ms,
    "errors": lambda part: part.errors if part.attempts or part.errors else None,
    "missed_deadlines": lambda part: part.missed_deadlines if part.objects or part.missed_deadlines else None,
    "objects_per_second": lambda part: part.objects_per_second if part.objects else None,
    "megabytes_per_second": lambda part: part.megabytes_per_second if part.objects else None,
}
_OF_WORKLOADS: dict[str, Callable[[Result], _Value]] = {
    "session_ms": lambda result: result.session_response_ms,
    "session_service_ms": lambda result: result.session_service_ms,
    "session_start_ms": lambda result: result.session_start_ms,
    "lateness_ms": lambda result: _lateness(result),
    "sessions_per_second": lambda result: result.sessions / result.seconds if result.sessions else None,
    "achieved_over_offered": lambda result: _per_session_due(result, result.sessions),
    "dropped": lambda result: result.offered.dropped if result.offered and result.offered.sessions else None,
    "waited_share": lambda result: _per_session_due(result, _found_no_client(result)),
    "seconds": lambda result: result.seconds if result.objects else None,
    "share_of_ceiling": lambda result: result.ceiling.share if result.ceiling and result.objects else None,
    "replay_margin_seconds": lambda result: result.replayed.margin_seconds if result.replayed else None,
    "infrastructure_ratio": lambda result: result.infrastructure.ratio if result.infrastructure else None,
    "client_cpu_percent": lambda result: result.client.cpu_percent if result.objects else None,
}
MEASURED_METRICS = frozenset((*_OF_PARTS, *_OF_WORKLOADS))

# The histograms in which a worker reports what is measured.
_QUANTITIES = {
    "object_ms": "object_response",
    "object_service_ms": "object_service",
    "first_byte_ms": "first_byte",
    "session_ms": "session_response",
    "session_service_ms": "session_service",
    "session_start_ms": "session_start",
}
_PERCENTS = {"p50": 50.0, "p70": 70.0, "p90": 90.0, "p99": 99.0, "p99_9": 99.9}


def judge(
    criteria: Sequence[Criterion],
    phase: Phase,
    results: Sequence[Result],
    broken: CriterionResult | None = None,
    whole: PartResult | None = None,
) -> list[CriterionResult]:
    """Every criterion for every workload of a finished phase that it speaks of; of a load none.

    ``broken``: the one for which the phase was ended early, which stands as it was found then. The others are judged by
    what was measured until then. ``whole``: all applications together.
    """
    workloads = {workload.name: workload for workload in phase.workloads}
    judged = []
    for criterion in criteria:
        if criterion.of_all and not phase.is_load:
            together = _value_of(criterion, _OF_PARTS[criterion.metric](whole)) if whole is not None else None
            judged.append(_outcome(criterion, phase, "", together, criterion.holds(together)))
        for result in results:
            if not criterion.speaks_of(phase, workloads[result.workload]):
                continue
            if broken is not None and (broken.name, broken.workload) == (criterion.name, result.workload):
                judged.append(broken)
                continue
            measured = measure(criterion, result)
            judged.append(_outcome(criterion, phase, result.workload, measured, criterion.holds(measured)))
    return judged


def measure(criterion: Criterion, result: Result) -> float | None:
    """What a criterion limits, in its metric's unit; None where nothing was measured: no object was done, say."""
    if criterion.metric in _OF_PARTS:
        part = _part(criterion, result)
        value = _OF_PARTS[criterion.metric](part) if part is not None else None
    else:
        value = _OF_WORKLOADS[criterion.metric](result)
    return _value_of(criterion, value)


def _value_of(criterion: Criterion, value: _Value) -> float | None:
    """The statistic that is limited, of a time of many."""
    if isinstance(value, Latency):
        assert criterion.statistic is not None
        return float(getattr(value, criterion.statistic))
    return value


class Watch:
    """The criteria that end a phase (``abort``), looked at while it runs.

    What only grows (errors, missed deadlines, a maximum, the seconds of a workload that goes on until so many objects
    are done) is missed as soon as it is beyond its upper limit. A mean or a percentile is missed when it would be even
    if all that is still to come took no time at all, coming at the rate so far; not before 100 values and 5 s were
    measured, and only where it is known how long the workload is measured. The value so far alone would end phases for
    a bad beginning that the rest would have made good, and near the limit by chance: it is looked at hundreds of
    times. So the worse it is the sooner the end: with a mean of ten times the limit after a tenth of the time.

    All else, lower limits among them, can only be judged at the end.
    """

    def __init__(self, criteria: Sequence[Criterion], phase: Phase) -> None:
        self._phase = phase
        self._broken: CriterionResult | None = None
        self._watched: dict[int, list[_Watched]] = {}  # by workload
        for criterion in criteria:
            for index, workload in enumerate(phase.workloads):
                asked = criterion.abort and criterion.speaks_of(phase, workload)
                if asked and _is_reported(criterion, phase, workload):
                    self._watched.setdefault(index, []).append(_Watched(criterion, phase, workload))

    def take(self, report: IntervalReport) -> None:
        """Count what a worker reported."""
        for key, tally in report.tallies.items():
            for watched in self._watched.get(key.workload, ()):
                watched.add(key, tally)

    def broken(self) -> CriterionResult | None:
        """The criterion that was the first to be missed whatever comes, with its value then; None: none as yet."""
        if self._broken is None:
            self._broken = self._look()
        return self._broken

    def _look(self) -> CriterionResult | None:
        for each in self._watched.values():
            for watched in each:
                measured = watched.missed_at()
                if measured is not None:
                    return _outcome(watched.criterion, self._phase, watched.workload.name, measured, False, True)
        return None


class _Watched:
    """One criterion of one workload, and what was reported of it so far."""

    def __init__(self, criterion: Criterion, phase: Phase, workload: Workload) -> None:
        self.criterion = criterion
        self.workload = workload
        self._in_parts = criterion.operation is not None and len(workload.work.part_names) > 1
        self._window = _measured_intervals(phase, workload)
        self._is_open_loop = "open loop" in workload.work.traits
        self._first: int | None = None  # interval in which something was measured
        self._last = 0
        self._errors = 0
        self._missed_deadlines = 0
        self._count = self._total_ns = self._max_ns = 0
        # Of a percentile: how many are beyond the limit. Sorting all of them took 600 times as long at every look.
        self._percent = _PERCENTS.get(criterion.statistic or "")
        self._limit_index = int(index_of(np.array([np.clip(criterion.limit * 1e6, 0, HIGHEST_NS)], dtype=np.int64))[0])
        self._beyond = 0
        self._times = Histogram()

    def add(self, key: TallyKey, tally: Tally) -> None:
        part = self._part(tally)
        if part is None:
            return
        first, end = self._window if self._window is not None else (0, math.inf)
        measured = not key.warm_up and first <= key.interval < end
        if measured or not self._in_parts:
            self._errors += part.errors
        # What an open loop still does after its end was due before, and counts: in its times, not in its amounts.
        if not measured and not (self._is_open_loop and key.interval >= end):
            return
        self._first = key.interval if self._first is None else min(self._first, key.interval)
        self._last = max(self._last, key.interval)
        self._missed_deadlines += part.missed_deadlines
        times = part.histograms.get(_QUANTITIES.get(self.criterion.metric, ""))
        if times is None:
            return
        self._count += times.count
        self._total_ns += times.total_ns
        self._max_ns = max(self._max_ns, times.max_ns)
        if self._percent is not None:
            sparse = times.part()
            self._beyond += int(sparse.counts[sparse.indices > self._limit_index].sum())
            self._times.add(sparse)

    def missed_at(self) -> float | None:
        """The value so far, where the criterion is missed whatever comes."""
        criterion = self.criterion
        growing = self._growing()
        if growing is not None:
            return growing if criterion.is_exceeded(growing) else None
        if self._window is None or self._count < MEASURED_VALUES_MIN:
            return None
        first, end = self._window
        passed = min(self._last, end) - first
        if passed * INTERVAL_NS < MEASURED_SECONDS_MIN * 1e9:
            return None
        share = passed / (end - first)  # of all values, at this rate: those that are there
        if self._percent is None:
            mean = self._total_ns / self._count / 1e6
            return mean if criterion.is_exceeded(mean * share) else None
        # Half a value more than may lie beyond the limit, because a percentile's rank is rounded.
        may = self._count / share * (100 - self._percent) / 100 + 0.5
        return percentiles([self._times.part()], [self._percent])[0] if self._beyond > may else None

    def _growing(self) -> float | None:
        """Of what only grows, what it is by now, at least; None for what may still fall."""
        match self.criterion.metric:
            case "errors":
                return self._errors
            case "missed_deadlines":
                return self._missed_deadlines
            case "seconds":  # at least: from the first object's end to the last one's
                return 0.0 if self._first is None else max(0, self._last - self._first - 1) * INTERVAL_NS / 1e9
            case _:
                return self._max_ns / 1e6 if self.criterion.statistic == "max" else None

    def _part(self, tally: Tally) -> Tally | PartTally | None:
        return tally.parts.get(self.criterion.operation or "") if self._in_parts else tally


def _is_reported(criterion: Criterion, phase: Phase, workload: Workload) -> bool:
    """Whether it can be told missed before the end: an upper limit, of what is reported, in a measured time that is
    known by then."""
    work = workload.work
    if criterion.operator in (">=", ">"):
        return False
    if criterion.metric == "errors" and criterion.operation is None:
        return True
    if work.measured_time == "intervals" and _measured_intervals(phase, workload) is None:
        return False
    if criterion.metric == "seconds":
        return work.planned_seconds is None
    return criterion.metric in _QUANTITIES or criterion.metric in ("errors", "missed_deadlines")


def _measured_intervals(phase: Phase, workload: Workload) -> tuple[int, int] | None:
    """The first interval of a workload's measured time and the one after its last, where they are planned."""
    seconds = workload.work.planned_seconds
    begins = phase.begins_seconds(workload)
    if seconds is None or begins is None:
        return None
    first = math.ceil((begins + workload.work.planned_warm_up_seconds) * 1e9 / INTERVAL_NS)
    end = math.floor((begins + seconds) * 1e9 / INTERVAL_NS)
    return (first, end) if first < end else None


def _part(criterion: Criterion, result: Result) -> Result | PartResult | None:
    """What the criterion is about: the result, or the part of it; None where nothing of it was done.

    A workload that does one thing alone has no parts: it is that one.
    """
    if criterion.operation is None or not result.parts:
        return result
    return next((part for part in result.parts if part.name == criterion.operation), None)


def _lateness(result: Result) -> _Value:
    if result.replayed is not None:
        return result.replayed.lateness_ms
    return result.offered.lateness_ms if result.offered is not None else result.client.lateness_p99_ms


def _found_no_client(result: Result) -> int:
    """Sessions due that found every client busy: those that found one free have their lateness counted."""
    offered = result.offered
    if offered is None:
        return 0
    return offered.sessions - (offered.lateness_ms.count if offered.lateness_ms is not None else 0)


def _per_session_due(result: Result, sessions: int) -> float | None:
    offered = result.offered
    return sessions / offered.sessions if offered is not None and offered.sessions else None


def _outcome(
    criterion: Criterion, phase: Phase, workload: str, measured: float | None, passed: bool, aborted: bool = False
) -> CriterionResult:
    return CriterionResult(
        name=criterion.name,
        workload=workload,
        position=phase.position,
        limit=criterion.limit,
        measured=measured,
        passed=passed,
        scale=phase.scale,
        aborted=aborted,
    )
