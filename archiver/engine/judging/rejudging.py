"""Check of the consistency of a run's database.

It compares percentiles with histograms, amounts with intervals, and verdicts with results.

One idea: nothing is measured again. The same code recomputes recorded values from more basic data in the same database,
and each difference is reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from archiver.engine.judging.criteria import judge
from archiver.engine.work.mixed.shares import part_result
from archiver.measure.histogram import Histogram, HistogramPart
from archiver.measure.reports import PartTally
from results.measures.verdict import phases_verdict, verdict
from results.recorded.database import HistogramRow
from results.recorded.model import CriterionResult, Latency, PartResult, Result, SearchOutcome
from scenarios.model import Phase, Scenario
from scenarios.reading.reader import phases_at

_Place = tuple[int, str]  # position of the phase, workload
_TIMES = tuple(field.name for field in fields(Result) if field.name.endswith("_ms"))
_PART_TIMES = tuple(field.name for field in fields(PartResult) if field.name.endswith("_ms"))
_MEASURED = ("sessions", "objects", "bytes", "attempts")


@dataclass(frozen=True, slots=True)
class Recorded:
    """The records of all phases in a run's database."""

    scenario: Scenario
    verdict: str | None
    results: Sequence[Result]
    criteria: Sequence[CriterionResult]
    search: SearchOutcome | None
    measured_seconds: Mapping[int, float]  # by position: of the phase, over all its workloads
    histograms: Mapping[_Place, Sequence[HistogramRow]]
    counts: Mapping[_Place, Mapping[str, Mapping[str, int]]]  # part of the phase -> quantity -> amount


def what_does_not_follow(recorded: Recorded) -> Iterator[str]:
    """Yield a message for every value that differs when it is recomputed.

    Raises ScenarioError if this version of Archiver does not know the scenario.
    """
    precisions = {
        (phase.position, workload.name): workload.work.precision
        for phase in recorded.scenario.phases
        for workload in phase.workloads
    }
    for result in recorded.results:
        place = (result.position, result.workload)
        wrong = [
            *_times_that_do_not_follow(result, recorded.histograms.get(place, ())),
            *_amounts_that_do_not_follow(result, recorded.counts.get(place, {})),
            *_settled_that_does_not_follow(result, precisions.get(place, math.inf)),
            *_void_that_does_not_follow(result),
        ]
        yield from (f"{result.workload} in phase {result.position}: {each}" for each in wrong)
    yield from _criteria_that_do_not_follow(recorded)
    if recorded.search is not None:
        yield from _search_that_does_not_follow(recorded.search, recorded)
    is_judged = bool(recorded.scenario.criteria)
    found = verdict(recorded.results, recorded.criteria, recorded.search, is_judged=is_judged)
    if recorded.verdict not in ("fail", "interrupted", found):
        yield f"the run's verdict is {recorded.verdict!r}, but its results give {found!r}"


def _times_that_do_not_follow(result: Result, rows: Sequence[HistogramRow]) -> Iterator[str]:
    """Yield every latency of a result that differs from that of its histogram in the database."""
    histograms = {row.quantity: _merged(row) for row in rows}
    latencies = {quantity: histogram.latency() for quantity, histogram in histograms.items()}
    if result.replayed is not None:
        yield from _difference("lateness", result.replayed.lateness_ms, latencies.get("lateness"))
    for name in _TIMES:
        yield from _difference(name, getattr(result, name), latencies.get(name.removesuffix("_ms")))
    for part in result.parts:
        for name in _PART_TIMES:
            latency = latencies.get(f"{name.removesuffix('_ms')}:{part.name}")
            yield from _difference(f"{part.name}: {name}", getattr(part, name), latency)


def _settled_that_does_not_follow(result: Result, precision: float) -> Iterator[str]:
    """Yield a message for a settled result whose mean session time is less precise than the scenario requires."""
    half_width = result.session_half_width
    if result.settled and half_width is not None and half_width > precision:
        yield f"settled is true, but session_half_width is {half_width:g}, above {precision:g}"


def _amounts_that_do_not_follow(result: Result, counts: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield every amount and rate of a result that is not the sum of its intervals."""
    measured = counts.get("measured", {})
    sums = {name: measured.get(name, 0) for name in _MEASURED}
    sums["errors"] = sum(part["errors"] for part in counts.values())
    sums["warm_up_objects"] = counts.get("warm-up", {}).get("objects", 0)
    sums["drained_objects"] = counts.get("drain", {}).get("objects", 0)
    for name, amount in sums.items():
        if getattr(result, name) != amount:
            yield f"{name} is {getattr(result, name):,}, but its intervals add up to {amount:,}"
    rates: dict[str, float] = {"objects_per_second": result.objects, "megabytes_per_second": result.bytes / 1e6}
    for name, done in rates.items():
        rate = done / result.seconds if result.seconds else 0.0
        if not math.isclose(getattr(result, name), rate, rel_tol=1e-9):
            yield f"{name} is {getattr(result, name):g}, but amount and seconds give {rate:g}"


def _void_that_does_not_follow(result: Result) -> Iterator[str]:
    """Yield a message if a replay with excessive scheduling delay is not marked as void."""
    replayed = result.replayed
    if replayed is None or replayed.void or replayed.lateness_ms is None:
        return
    if replayed.lateness_ms.p99 > replayed.tolerance_ms:
        yield (
            f"lateness of p99 {replayed.lateness_ms.p99:g} ms is above the tolerance, but the replay is not marked as "
            "void"
        )


def _criteria_that_do_not_follow(recorded: Recorded) -> Iterator[str]:
    """Yield every criterion with a different verdict.

    A criterion that ended a phase early keeps its recorded verdict.
    """
    phases = _phases(recorded)
    of_phase: dict[int, list[Result]] = {}
    for result in recorded.results:
        of_phase.setdefault(result.position, []).append(result)
    broken = {each.position: each for each in recorded.criteria if each.aborted}
    again: list[CriterionResult] = []
    for position, results in of_phase.items():
        whole = (
            _sum_of_workloads(results, recorded) if any(each.of_all for each in recorded.scenario.criteria) else None
        )
        again += judge(recorded.scenario.criteria, phases[position], results, broken.get(position), whole)
    was, now = ({_key(each): each for each in judged} for judged in (recorded.criteria, again))
    replays = {(each.position, each.workload) for each in recorded.results if each.replayed is not None}
    for key in sorted(was.keys() | now.keys()):
        if key not in was and now[key].measured is None and key[:2] in replays:
            continue  # its trace may lack the operation; the trace is not read here
        if was.get(key) != now.get(key):
            yield f"{_words(key)} is recorded as {_outcome(was.get(key))}, but judged again {_outcome(now.get(key))}"
    if len(recorded.criteria) - len(was) != len(again) - len(now):
        yield "a criterion is recorded more often than the scenario requests it"
    if any(each.passed for each in broken.values()):
        yield "a criterion that ended a phase is recorded as met"


def _sum_of_workloads(results: Sequence[Result], recorded: Recorded) -> PartResult:
    """Return the sum of all workloads of a phase except infrastructure operations."""
    whole = PartTally("mixed")
    for result in results:
        if result.infrastructure is None:
            rows = recorded.histograms.get((result.position, result.workload), ())
            times = {row.quantity: _merged(row) for row in rows}
            whole.add(
                PartTally(
                    "mixed", result.objects, result.bytes, result.attempts, result.errors, result.missed_deadlines,
                    times,
                )
            )  # fmt: skip
    return part_result("", whole, recorded.measured_seconds[results[0].position])


def _phases(recorded: Recorded) -> Mapping[int, Phase]:
    """Return the phases by position; for a search, those of the tried steps, the last of which may be incomplete."""
    scenario = recorded.scenario
    phases = {phase.position: phase for phase in scenario.phases}
    if scenario.search is not None:
        steps = recorded.search.steps if recorded.search is not None else ()
        tried = {step.positions[0]: step.scale for step in steps}
        after = max((position for step in steps for position in step.positions), default=0)
        rest = [each.scale for each in recorded.results if each.position > after and each.scale is not None]
        if rest:
            tried[after + 1] = round(rest[0])
        for position, scale in tried.items():
            phases |= {phase.position: phase for phase in phases_at(scenario, scale, position)}
    return phases


def _search_that_does_not_follow(search: SearchOutcome, recorded: Recorded) -> Iterator[str]:
    for step in search.steps:
        results = [result for result in recorded.results if result.position in step.positions]
        criteria = [criterion for criterion in recorded.criteria if criterion.position in step.positions]
        found = phases_verdict(results, criteria)
        verdict = "void" if step.void else "pass" if step.passed else "fail"
        if verdict != found:
            yield f"the search's trial of {search.name} {step.scale} does not match its criteria"
    failed_at = min((step.scale for step in search.steps if not step.passed and not step.void), default=None)
    passed = [step.scale for step in search.steps if step.passed and (failed_at is None or step.scale < failed_at)]
    largest = max(passed, default=None)
    if (search.failed_at, search.largest) != (failed_at, largest):
        yield f"the search ended at {search.name} {search.largest}, but its trials give {largest}"


def _merged(row: HistogramRow) -> Histogram:
    histogram = Histogram()
    indices, counts = (np.frombuffer(column, dtype="<i8").astype(np.int64) for column in (row.indices, row.counts))
    histogram.add(HistogramPart(indices, counts, row.total_ns, row.max_ns))
    return histogram


def _difference(name: str, recorded: Latency | None, found: Latency | None) -> Iterator[str]:
    if recorded is None or found is None:
        if recorded != found:
            yield f"{name} has no histogram" if found is None else f"{name} is missing, but has a histogram"
        return
    different = [field.name for field in fields(Latency) if getattr(recorded, field.name) != getattr(found, field.name)]
    if different:
        first = different[0]
        yield (
            f"{name} differs from its histogram: {', '.join(different)} ({first} {getattr(recorded, first):g}, but the "
            f"histogram gives {getattr(found, first):g})"
        )


def _key(criterion: CriterionResult) -> tuple[Any, ...]:
    return criterion.position, criterion.workload, criterion.name


def _words(key: tuple[Any, ...]) -> str:
    position, workload, name = key
    return f"{name} of {workload or 'all'} in phase {position}"


def _outcome(criterion: CriterionResult | None) -> str:
    if criterion is None:
        return "nothing"
    measured = "nothing measured" if criterion.measured is None else f"{criterion.measured:g}"
    return f"{'met' if criterion.passed else 'missed'} with {measured}"
