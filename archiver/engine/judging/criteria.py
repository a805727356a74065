"""Verdicts on the scenario's criteria, at the end of a phase, and during it to end a phase that cannot pass.

One idea: a missing measurement fails its criterion, and a criterion that can still be met is not yet missed. A phase
therefore ends early only if its end would give the same verdict, as far as that can be known. Two things are known
early: a count that only grows, and a mean that would be missed even if everything to come took no time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from archiver.measure.histogram import HIGHEST_NS, Histogram, index_of, percentiles
from archiver.measure.reports import INTERVAL_NS, IntervalReport, PartTally, Tally, TallyKey
from archiver.values.metrics import METRICS, PERCENTS
from results.measures.metrics import value_of
from results.recorded.model import CriterionResult, PartResult, Result
from scenarios.criteria import Criterion
from scenarios.model import Phase, Workload

MEASURED_SECONDS_MIN = 5.0
MEASURED_VALUES_MIN = 100


def judge(
    criteria: Sequence[Criterion],
    phase: Phase,
    results: Sequence[Result],
    broken: CriterionResult | None = None,
    whole: PartResult | None = None,
) -> list[CriterionResult]:
    """Return the result of every applicable criterion for every workload of a finished phase. A load has no criteria.

    ``broken``: the criterion for which the phase ended early. It keeps its result of that time. The others
    are judged by the measurements until then.
    ``whole``: the sum of all applications.
    """
    workloads = {workload.name: workload for workload in phase.workloads}
    judged = []
    for criterion in criteria:
        if criterion.of_all and not phase.is_load:
            of_all = value_of(criterion.metric, criterion.statistic, whole) if whole is not None else None
            judged.append(_outcome(criterion, phase, "", of_all, criterion.holds(of_all)))
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
    """Return the value that a criterion limits, in its metric's unit; None if nothing was measured."""
    part = _part(criterion, result)
    return None if part is None else value_of(criterion.metric, criterion.statistic, part)


class Watch:
    """Evaluation, during a phase, of the criteria that end it (``abort``).

    Some metrics never fall: errors, missed deadlines, a maximum, the seconds of a workload with a fixed number of
    objects. Such a criterion is missed as soon as the value is beyond its upper limit.

    A mean or a percentile is missed if it would be missed even if all values still to come, at the rate so far, took no
    time. That requires 100 values, 5 s of measurement and a planned measured time. The current value alone would end
    phases for a bad beginning that the rest would compensate. Close to the limit it would also end them by chance,
    because the watch checks hundreds of times. The worse the value, the sooner the end: a mean of ten times the limit
    ends the phase after a tenth of the time.

    All other criteria, lower limits among them, can be judged only at the end.
    """

    def __init__(self, criteria: Sequence[Criterion], phase: Phase) -> None:
        self._phase = phase
        self._broken: CriterionResult | None = None
        self._watched: dict[int, list[_Watched]] = {}  # by workload
        for criterion in criteria:
            for index, workload in enumerate(phase.workloads):
                may_abort = criterion.abort and criterion.speaks_of(phase, workload)
                if may_abort and _is_reported(criterion, phase, workload):
                    self._watched.setdefault(index, []).append(_Watched(criterion, phase, workload))

    def take(self, report: IntervalReport) -> None:
        """Add a worker's report."""
        for key, tally in report.tallies.items():
            for watched in self._watched.get(key.workload, ()):
                watched.add(key, tally)

    def broken(self) -> CriterionResult | None:
        """Return the first criterion that can no longer be met, with its value at that time; None if all still can."""
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
    """One criterion of one workload, and the values reported so far."""

    def __init__(self, criterion: Criterion, phase: Phase, workload: Workload) -> None:
        self.criterion = criterion
        self.workload = workload
        self._in_parts = criterion.operation is not None and len(workload.work.part_names) > 1
        self._window = _measured_intervals(phase, workload)
        self._is_open_loop = "open loop" in workload.work.traits
        self._first: int | None = None  # first interval with a value
        self._last = 0
        self._errors = 0
        self._missed_deadlines = 0
        self._count = self._total_ns = self._max_ns = 0
        # For a percentile, count the values beyond the limit. Sorting all values took 600 times as long at every check.
        self._percent = PERCENTS.get(criterion.statistic or "")
        self._limit_index = int(index_of(np.array([np.clip(criterion.limit * 1e6, 0, HIGHEST_NS)], dtype=np.int64))[0])
        self._beyond = 0
        self._times = Histogram()

    def add(self, key: TallyKey, tally: Tally) -> None:
        part = self._part(tally)
        if part is None:
            return
        first, end = self._window if self._window is not None else (0, math.inf)
        measured = key.part == "measured" and first <= key.interval < end
        if measured or not self._in_parts:
            self._errors += part.errors
        # Sessions of an open loop that end after its measured time were due before. They count in its times, not in its
        # amounts.
        if not measured and not (self._is_open_loop and key.interval >= end):
            return
        self._first = key.interval if self._first is None else min(self._first, key.interval)
        self._last = max(self._last, key.interval)
        self._missed_deadlines += part.missed_deadlines
        times = part.histograms.get(self.criterion.metric.removesuffix("_ms"))
        if times is None:
            return
        self._count += times.count
        self._total_ns += times.total_ns
        self._max_ns = max(self._max_ns, times.max_ns)
        if self._percent is not None:
            sparse = times.part()
            self._beyond += int(sparse.counts[sparse.indices > self._limit_index].sum())
            self._times.add_all(times)

    def missed_at(self) -> float | None:
        """Return the current value if the criterion can no longer be met; None otherwise."""
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
        share = passed / (end - first)  # share of all values, at this rate, that are present
        if self._percent is None:
            mean = self._total_ns / self._count / 1e6
            return mean if criterion.is_exceeded(mean * share) else None
        # Half a value more may be beyond the limit, because a percentile's rank is rounded.
        may = self._count / share * (100 - self._percent) / 100 + 0.5
        return percentiles([self._times.part()], [self._percent])[0] if self._beyond > may else None

    def _growing(self) -> float | None:
        """Return the lower bound of a metric that never falls; None for a metric that may fall."""
        match self.criterion.metric:
            case "errors":
                return self._errors
            case "missed_deadlines":
                return self._missed_deadlines
            case "seconds":  # lower bound: from the first object's end to the last one's
                return 0.0 if self._first is None else max(0, self._last - self._first - 1) * INTERVAL_NS / 1e9
            case _:
                return self._max_ns / 1e6 if self.criterion.statistic == "max" else None

    def _part(self, tally: Tally) -> Tally | PartTally | None:
        return tally.parts.get(self.criterion.operation or "") if self._in_parts else tally


def _is_reported(criterion: Criterion, phase: Phase, workload: Workload) -> bool:
    """Return whether the criterion can be evaluated before the end.

    This requires an upper limit, a metric that workers report, and a measured time that is known in advance.
    """
    work = workload.work
    if criterion.operator in (">=", ">"):
        return False
    if criterion.metric == "errors" and criterion.operation is None:
        return True
    if work.measured_time == "intervals" and _measured_intervals(phase, workload) is None:
        return False
    if criterion.metric == "seconds":
        return work.planned_seconds is None
    if criterion.metric in ("errors", "missed_deadlines"):
        return True
    return METRICS[criterion.metric].has_statistics and criterion.metric != "lateness_ms"


def _measured_intervals(phase: Phase, workload: Workload) -> tuple[int, int] | None:
    """Return a workload's measured time as intervals (first, one after the last); None if it is not planned."""
    seconds = workload.work.planned_seconds
    begins = phase.begins_seconds(workload)
    if seconds is None or begins is None:
        return None
    first = math.ceil((begins + workload.work.planned_warm_up_seconds) * 1e9 / INTERVAL_NS)
    end = math.floor((begins + seconds) * 1e9 / INTERVAL_NS)
    return (first, end) if first < end else None


def _part(criterion: Criterion, result: Result) -> Result | PartResult | None:
    """Return the result, or the part of it, that the criterion limits; None if there was no such operation.

    A workload with one operation has no parts; its result is the part.
    """
    if criterion.operation is None or not result.parts:
        return result
    return next((part for part in result.parts if part.name == criterion.operation), None)


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
