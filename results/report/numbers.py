"""The few numbers that decide about a platform, each with its unit, interval, conditions and measured time.

A run of sweeps has its best rates, the percentiles of the fastest archive cell, the set-up time of a session and the
cost of a lock. A run of simultaneous workloads has the largest scale, its rates, and the criteria nearest their limits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from statistics import median
from typing import Literal

from archiver.values.sizes import format_size
from results.document.document import Number
from results.document.table import NOT_MEASURED
from results.measures.metrics import P99_OBJECTS_MIN, amounts
from results.measures.phases import MeasuredPhase, phases_of, repetitions_of
from results.measures.quality import cautions
from results.measures.stored_times import StoredTimes
from results.measures.units import Unit
from results.measures.verdict import worst, worst_first
from results.recorded.model import CheckRecord, CriterionResult, Result, SearchOutcome
from results.report.key_figures import peaks, where
from results.tables.lock_cost import VariantCost, variant_costs
from results.tables.session_fits import measured_laws

NUMBERS_MAX = 6
PHASES_SHOWN_MAX = 3  # of simultaneous workloads


def key_numbers(
    results: Sequence[Result],
    checks: Sequence[CheckRecord],
    criteria: Sequence[CriterionResult],
    search: SearchOutcome | None,
    times: StoredTimes,
) -> tuple[Number, ...]:
    """Return at most six numbers, the most important first.

    ``times`` has the histograms that percentiles over repetitions need.
    """
    found = [*_of_cells(results, times), *_of_workloads(results, criteria, search), *_of_checks(checks)]
    return tuple(islice(found, NUMBERS_MAX))


def worked_phases(results: Sequence[Result], search: SearchOutcome | None) -> list[MeasuredPhase]:
    """Return the phases of simultaneous workloads that a summary is about.

    With a search these are the phases at the largest scale that met every criterion, or at the last scale tried. Phases
    that only prepare data are excluded.
    """
    phases = phases_of(results, ())
    if search is None or not search.steps:
        return phases
    scale = search.largest if search.largest is not None else search.steps[-1].scale
    return [phase for phase in phases if phase.scale == scale] or phases


def shown_lock_cost(results: Sequence[Result]) -> VariantCost | None:
    """Return the cost of a lock compared with no lock; of the lock in the request's header if it was measured."""
    costs = [cost for cost in variant_costs(results) if cost.rate is not None and cost.baseline.first.lock == "none"]
    return min(costs, key=lambda cost: (cost.cell.first.lock != "header", cost.name), default=None)


def lock_cost_percent(cost: VariantCost) -> tuple[float, str]:
    """Return the loss of objects/s in percent, and its 95% interval in words."""
    ratio = cost.rate
    assert ratio is not None, "a baseline has no cost"
    if ratio.low is None or ratio.high is None:
        return (1 - ratio.ratio) * 100, ""
    return (1 - ratio.ratio) * 100, f"95%: {(1 - ratio.high) * 100:+.1f} to {(1 - ratio.low) * 100:+.1f}%"


def _of_cells(results: Sequence[Result], times: StoredTimes) -> Iterator[Number]:
    best = peaks([result for result in results if not result.application])
    for operation, peak in best.items():
        yield rate_number(operation, peak.by_objects, "objects/s")
    for operation, peak in islice(best.items(), 1):
        yield from percentile_numbers(operation, peak.by_objects, times)
        yield from setup_numbers(results, operation, peak.by_objects.key.object_bytes)
    yield from lock_cost_numbers(results)
    for operation, peak in best.items():
        yield rate_number(operation, peak.by_megabytes, "MB/s")


def rate_number(operation: str, cell: Unit, unit: Literal["objects/s", "MB/s"]) -> Number:
    """Return the rate of a cell with its grade and its 95% interval."""
    per_object = 1.0 if unit == "objects/s" else cell.key.object_bytes / 1e6
    value = cell.objects_per_second if unit == "objects/s" else cell.megabytes_per_second
    found = cell.rate_interval
    interval = ""
    if found is not None:
        low, high = (_number(rate * per_object) for rate in found)
        interval = f"95%: {low} to {high}"
    seconds = amounts(cell.results).seconds_min
    return Number(operation, _number(value), unit, interval, where(cell), seconds, cell.cautions, cell.grade)


def percentile_numbers(
    operation: str, cell: Unit, times: StoredTimes, of: Literal["object", "session"] = "object"
) -> Iterator[Number]:
    """Yield the median and the 99th percentile of the service time of an object, or of a session, of a cell."""
    latency = times.over(f"{of}_service", cell.results)
    if latency is None:
        return
    shown = [("p50", latency.p50), *([("p99", latency.p99)] if latency.count >= P99_OBJECTS_MIN else [])]
    for name, value in shown:
        article = "an" if of == "object" else "a"
        yield Number(f"{operation}, {name} of {article} {of}", _number(value), "ms", "", f"as the {operation} rate")


def setup_numbers(results: Sequence[Result], operation: str, object_bytes: int) -> Iterator[Number]:
    """Yield the set-up time of a session of one client, if its times follow T = a + b n."""
    for fitted, fit in measured_laws(results):
        if (fitted.operation, fitted.object_bytes) == (operation, object_bytes):
            bounds = ""
            if fit.low is not None and fit.high is not None:
                bounds = f"95%: {_number(fit.low.setup_ms)} to {_number(fit.high.setup_ms)}"
            conditions = f"{format_size(fitted.object_bytes)}, 1 client"
            seconds, minded = amounts(fitted.results).seconds_min, cautions(fitted.results)
            name = f"{operation}, set-up of a session"
            yield Number(name, _number(fit.setup_ms), "ms", bounds, conditions, seconds, minded)


def lock_cost_numbers(results: Sequence[Result]) -> Iterator[Number]:
    """Yield the share of objects/s that a lock costs, if it was measured."""
    cost = shown_lock_cost(results)
    if cost is not None:
        percent, interval = lock_cost_percent(cost)
        conditions = f"{cost.name}, compared with {cost.baseline.first.variant}; {where(cost.cell)}"
        yield Number("cost of the lock", f"{percent:+.1f}", "% of objects/s", interval, conditions)


def _of_workloads(
    results: Sequence[Result], criteria: Sequence[CriterionResult], search: SearchOutcome | None
) -> Iterator[Number]:
    phases = worked_phases(results, search)
    if search is not None and search.largest is not None:
        failed_at = f"; a criterion was missed at {search.failed_at:,}" if search.failed_at is not None else ""
        yield Number(search.name, f"{search.largest:,}", "", "", f"every criterion was met{failed_at}")
    groups = repetitions_of(phases)
    for group in groups[:PHASES_SHOWN_MAX]:
        yield from _of_phases(group, search, alone=len(groups) == 1)
    positions = {phase.position for phase in phases}
    yield from _nearest_criteria([each for each in criteria if each.position in positions])


def phase_subject(phase: MeasuredPhase, *, alone: bool) -> str:
    """Return the subject of a phase's numbers. ``alone``: there is no other phase, so the workload's name suffices."""
    if len(phase.results) > 1:
        together = f"{len(phase.results)} simultaneous workloads"
        return together if alone else f"{phase.name}, {together}"
    return phase.results[0].workload if alone else phase.name


def _of_phases(group: Sequence[MeasuredPhase], search: SearchOutcome | None, *, alone: bool) -> Iterator[Number]:
    """Yield the throughput of all workloads of a phase, the median of its repetitions.

    If the phase is the only one, its MB/s and the 99th percentile of its slowest workload are numbers of their own.
    """
    measured = [result for phase in group for result in phase.results]
    seconds, minded = amounts(measured).seconds_min, cautions(measured)
    megabytes = _number(median(phase.megabytes_per_second for phase in group))
    p99_ms = max((each.object_ms.p99 for each in measured if each.object_ms), default=None)
    slowest = "" if p99_ms is None else _number(p99_ms)
    scale = group[0].scale
    at = f", {scale:g} {search.name}" if scale is not None and search is not None else ""
    shown = f"{phase_subject(group[0], alone=alone)}{at}"
    further = "" if alone else f"{megabytes} MB/s{f', p99 of a response {slowest} ms' if slowest else ''}"
    conditions = "; ".join(filter(None, (shown, further)))
    rate = _number(median(phase.objects_per_second for phase in group))
    yield Number("throughput", rate, "objects/s", "", conditions, seconds, minded)
    if alone:
        yield Number("throughput", megabytes, "MB/s", "", shown, seconds, minded)
        if slowest:
            yield Number("p99 of a response", slowest, "ms", "", "of the slowest workload", seconds, minded)


def _of_checks(checks: Sequence[CheckRecord]) -> Iterator[Number]:
    """Yield the violations, then the number of checks with each verdict. A check counts in each round."""
    if not checks:
        return
    violations = sorted({check.id for check in checks if check.is_violation})
    failed = ("a record could be lost, altered or unlocked",) if violations else ()
    yield Number("violations", f"{len(violations):,}", "checks", "", ", ".join(violations[:6]), None, failed)
    for verdict, count in Counter(check.verdict for check in checks).most_common():
        yield Number(verdict.lower(), f"{count:,}", "checks", "", "a check counts in each round")


def _nearest_criteria(criteria: Sequence[CriterionResult]) -> Iterator[Number]:
    """Yield the worst value of each criterion, missed criteria first, then those nearest their limits."""
    by_name: dict[tuple[str, str], list[CriterionResult]] = {}
    for each in criteria:
        by_name.setdefault((each.workload, each.name), []).append(each)
    for each in sorted(map(worst, by_name.values()), key=worst_first):
        of = f"{each.workload}: " if each.workload else ""
        value = NOT_MEASURED if each.measured is None else _number(each.measured)
        met, missed = ("criterion met", ()) if each.passed else ("", ("criterion missed",))
        yield Number(f"{of}{each.name}", value, "", "", met, None, missed)


def _number(value: float) -> str:
    """Return three significant digits, and every digit before the decimal point."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1g}"
