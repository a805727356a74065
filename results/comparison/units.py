"""What a run of workloads side by side has to compare: units, each with a sample for each repetition.

One idea: a unit is a workload at a scale, and copies of it (tiles) are one unit: what they did adds up, and of how long
it took the worst is compared. They ran beside each other, so they are no repetitions, and no pairs. Where a workload
does several things, each is a unit of its own; where it was measured with several numbers of clients, each is, too, and
the workload itself is what was best over these. All workloads of a phase together are a unit: the peak and the steady
rate of its course, in the time in which all of them were under way. Phases that only make data are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any, NamedTuple

from results.comparison.ratios import LATENCIES, P99_OBJECTS_MIN, RATE, RESPONSE, Measure, Sample
from results.database import StoredRun
from results.matrix import connections_per_session
from results.mixed.programme import MEGABYTES as MEGABYTES_OF_COURSE
from results.mixed.programme import OBJECTS, Course, summary
from results.mixed.score import scale_score, score_weights
from results.mixed.tiles import APPLICATIONS, pooled_mean_ms, tile_scales
from results.model import PartResult, Result
from results.report.mixed_contents import MixedRun

TOGETHER = "all workloads"
STEADY, PEAK, SCORED = "steady", "peak", "score"  # of all workloads together
WITHOUT_ASIDE = "all but "  # the objects beside a workload's own: its log
LARGE_BYTES = 256 * 1024  # objects of this size on average are told by MB/s, smaller ones by objects/s


def _megabytes(measured: Result | PartResult) -> float | None:
    """None of an operation that moves no bytes."""
    return measured.megabytes_per_second if measured.bytes or not measured.objects else None


def _sessions(measured: Result | PartResult) -> float | None:
    """Of an open loop: in a closed one they follow from the objects."""
    return measured.achieved_per_second if isinstance(measured, Result) and measured.offered is not None else None


def _response_p99(measured: Result | PartResult) -> float | None:
    return measured.object_response_ms.p99 if measured.object_response_ms else None


MEGABYTE_RATE = Measure("megabytes_per_second", "MB/s", _megabytes, more_is_better=True)
SESSION_RATE = Measure("sessions_per_second", "sessions/s", _sessions, more_is_better=True)
RESPONSE_P99 = Measure("object_response_ms_p99", "p99 response", _response_p99, objects_min=P99_OBJECTS_MIN)
SCORE = Measure("score", "score", lambda _: None, more_is_better=True)  # is of no workload by itself
UNIT_MEASURES = (RATE, MEGABYTE_RATE, SESSION_RATE, *LATENCIES, RESPONSE_P99)
MEASURES = (*UNIT_MEASURES, SCORE)


class UnitKey(NamedTuple):
    """What is compared; ``str`` of it is how conditions name it: ``database small.8@2``."""

    phase: str
    scale: float | None
    workload: str  # its name without the copy
    operation: str  # empty: all that it does
    clients: int | None  # of each copy, where it was measured with several numbers of them

    @property
    def is_workload(self) -> bool:
        """A workload as a whole: neither a part of one, nor one of several numbers of clients, nor all together."""
        return not self.operation and self.clients is None

    def __str__(self) -> str:
        operation = f"/{self.operation}" if self.operation else ""
        clients = f".{self.clients}" if self.clients is not None else ""
        scale = f"@{self.scale:g}" if self.scale is not None else ""
        return f"{self.workload}{operation}{clients}{scale}"


@dataclass(frozen=True, slots=True)
class Unit:
    """One side's samples of a unit, in the order of their repetitions."""

    key: UnitKey
    samples: tuple[Sample, ...]
    measures: tuple[Measure, ...]  # that say something of it; what tells most first
    clients: tuple[int, ...] = ()  # of each copy
    temperature: str | None = None  # of what it retrieved
    ended_early: bool = False  # a repetition used up what it may archive before its time was over
    connections: float = 1.0  # per session

    def median(self, measure: Measure) -> float | None:
        """Over the repetitions that have it."""
        values = [sample.values[measure.name] for sample in self.samples if measure.name in sample.values]
        return median(values) if values else None


@dataclass(frozen=True, slots=True)
class _Found:
    """A unit in one trial."""

    key: UnitKey
    sample: Sample
    measures: tuple[Measure, ...]
    results: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True)
class _Trial:
    """One phase, numbered among those of its scale."""

    phase: str
    scale: float | None
    number: int
    results: tuple[Result, ...]

    def key(self, workload: str, operation: str = "", clients: int | None = None) -> UnitKey:
        return UnitKey(self.phase, self.scale, workload, operation, clients)


def units(
    runs: Sequence[tuple[MixedRun | None, StoredRun]], weights: Mapping[str, float] | None
) -> dict[UnitKey, Unit]:
    """The units of one side, whose runs are given in the order in which they started, each with its own row; their
    repetitions are numbered on. ``weights`` are those of the score."""
    found: dict[UnitKey, list[_Found]] = {}
    before = 0
    for mixed, row in runs:
        trials = _trials(mixed.results) if mixed else []
        for trial in trials:
            assert mixed is not None
            for each in _of_trial(trial, mixed, _successions(row, trial.phase), weights):
                numbered = replace(each.sample, repetition=before + trial.number)
                found.setdefault(each.key, []).append(replace(each, sample=numbered))
        before += max([row.repetitions, *(trial.number for trial in trials)])
    for key in found:
        if key.operation and key.workload != TOGETHER:
            found[key] += _missing(found[key], found[key._replace(operation="")])
    named = dict.fromkeys(name for key in found for name in (key.phase, key.workload))
    order = {name: place for place, name in enumerate(named)}

    def rank(key: UnitKey) -> tuple[object, ...]:
        """By scale, and there each workload with its parts; all together last."""
        last = key.workload == TOGETHER
        operation = "" if last else key.operation
        return order[key.phase], key.scale or 0.0, last, order[key.workload], key.clients or 0, operation

    return {key: _unit(key, found[key]) for key in sorted(found, key=rank)}


def _missing(part: Sequence[_Found], whole: Sequence[_Found]) -> list[_Found]:
    """A part is not told of where nothing was done of it: its rate is zero there."""
    there = {each.sample.repetition for each in part}
    return [
        _Found(part[0].key, Sample(each.sample.repetition, {RATE.name: 0.0}, 0, 0, None), (RATE,))
        for each in whole
        if each.sample.repetition not in there
    ]


def _unit(key: UnitKey, found: Sequence[_Found]) -> Unit:
    found = sorted(found, key=lambda each: each.sample.repetition)
    measures = tuple(dict.fromkeys(measure for each in found for measure in each.measures))
    results = [result for each in found for result in each.results]
    return Unit(
        key,
        tuple(each.sample for each in found),
        measures,
        tuple(sorted({result.clients for result in results})),
        " or ".join(sorted({result.temperature for result in results if result.temperature is not None})) or None,
        any(result.ended_early for result in results),
        connections_per_session(results),
    )


def _trials(results: Sequence[Result]) -> list[_Trial]:
    """The phases, fewest of a scale first. A search tries a scale again without calling that a repetition: there they
    are numbered in the order in which they ran."""
    phases: dict[int, list[Result]] = {}
    for result in results:
        phases.setdefault(result.position, []).append(result)
    groups: dict[tuple[str, float | None], list[list[Result]]] = {}
    for position in sorted(phases):
        first = phases[position][0]
        groups.setdefault((first.phase, first.scale), []).append(phases[position])
    found = []
    for (phase, scale), each in sorted(groups.items(), key=lambda group: group[0][1] or 0.0):
        repetitions = [trial[0].repetition for trial in each]
        numbers = repetitions if len(set(repetitions)) == len(each) else range(1, len(each) + 1)
        found += [_Trial(phase, scale, number, tuple(trial)) for number, trial in zip(numbers, each, strict=True)]
    return found


def _of_trial(
    trial: _Trial, mixed: MixedRun, successions: Mapping[str, str], weights: Mapping[str, float] | None
) -> Iterator[_Found]:
    applications: dict[str, list[Result]] = {}
    for result in trial.results:
        applications.setdefault(result.application, []).append(result)
    for application, own in applications.items():
        counts = sorted({result.clients for result in own})
        if len(counts) == 1:
            yield _measured(trial.key(application), own, own)
            yield from _parts(trial, application, None, own)
            continue
        yield _best(trial.key(application), own)
        for count in counts:
            copies = [result for result in own if result.clients == count]
            yield _measured(trial.key(application, clients=count), copies, copies)
            yield from _parts(trial, application, count, copies)
    for course in mixed.courses:
        if course.position == trial.results[0].position:
            yield from _together(trial, course, successions)
    if set(APPLICATIONS) <= set(applications):
        yield _score(trial, mixed, weights)


def _parts(trial: _Trial, application: str, clients: int | None, copies: Sequence[Result]) -> Iterator[_Found]:
    """What a workload does, kind by kind; and all of its own, where other objects come beside them."""
    parts = [part for result in copies for part in result.parts]
    for name in sorted({part.name for part in parts}):
        named = [part for part in parts if part.name == name]
        yield _measured(trial.key(application, name, clients), named, copies)
    aside = {part.name for part in parts if part.name != part.operation}
    if aside:
        own = [part for part in parts if part.name not in aside]
        key = trial.key(application, f"{WITHOUT_ASIDE}{' and '.join(sorted(aside))}", clients)
        rates = {RATE.name: sum(part.objects_per_second for part in own)}
        errors = sum(part.errors for part in own)
        yield _found(key, rates, (sum(part.objects for part in own), errors), (RATE,), copies)


def _measured(key: UnitKey, copies: Sequence[Result] | Sequence[PartResult], results: Sequence[Result]) -> _Found:
    """What copies did together."""
    values = {measure.name: value for measure in UNIT_MEASURES if (value := _of_copies(copies, measure)) is not None}
    counts = (min(each.objects for each in copies), sum(each.errors for each in copies))
    return _found(key, values, counts, _measures(values, copies), results)


def _of_copies(copies: Sequence[Result] | Sequence[PartResult], measure: Measure) -> float | None:
    values = [value for each in copies if (value := measure.of(each)) is not None]
    if not values or (measure.more_is_better and len(values) < len(copies)):
        return None
    if measure.more_is_better:
        return sum(values)
    return pooled_mean_ms(copies) if measure is RESPONSE else max(values)


def _best(key: UnitKey, points: Sequence[Result]) -> _Found:
    """The best of several numbers of clients, as studies tell it: the highest rates, and the shortest mean response
    time; each copy's own, added up or on average."""

    def of_copies(measure: Measure, best: Callable[[Sequence[float]], float]) -> list[float]:
        copies = sorted({point.copy or 0 for point in points})
        values = [[measure.of(point) for point in points if (point.copy or 0) == copy] for copy in copies]
        known = [[value for value in each if value is not None] for each in values]
        return [best(each) for each in known] if all(known) else []

    values = {
        measure.name: sum(rates) for measure in (RATE, MEGABYTE_RATE) if (rates := of_copies(measure, max))
    }  # fmt: skip
    if times := of_copies(RESPONSE, min):
        values[RESPONSE.name] = fmean(times)
    counts = (sum(point.objects for point in points), sum(point.errors for point in points))
    return _found(key, values, counts, _measures(values, points), points)


def _measures(values: Mapping[str, float], copies: Sequence[Result] | Sequence[PartResult]) -> tuple[Measure, ...]:
    """Those that were measured, and the rate always, what tells most first: MB/s of large objects."""
    found = [measure for measure in UNIT_MEASURES if measure is RATE or measure.name in values]
    moved, objects = sum(each.bytes for each in copies), sum(each.objects for each in copies)
    large = bool(objects) and moved >= LARGE_BYTES * objects and MEGABYTE_RATE in found
    first = MEGABYTE_RATE if large else RATE
    return (first, *(measure for measure in found if measure is not first))


def _together(trial: _Trial, course: Course, successions: Mapping[str, str]) -> Iterator[_Found]:
    """Peak and steady rate of all workloads, in MB/s and objects/s."""
    whole = _while_all(course, successions)
    rates = {MEGABYTE_RATE: summary(whole, MEGABYTES_OF_COURSE), RATE: summary(whole, OBJECTS)} if whole else {}
    reason = "" if whole else "its workloads were never all under way at once"
    counts = (sum(result.objects for result in trial.results), sum(result.errors for result in trial.results))
    for name in (STEADY, PEAK):
        values = {measure.name: float(getattr(rate, name)) for measure, rate in rates.items() if rate is not None}
        yield _found(trial.key(TOGETHER, name), values, counts, (MEGABYTE_RATE, RATE), trial.results, why_none=reason)


def _while_all(course: Course, successions: Mapping[str, str]) -> Course | None:
    """The course from the first to the last second in which all workloads were under way, those that follow one another
    being one; None where there is no such second."""
    groups: dict[str, list[str]] = {}
    for application in course.applications:
        groups.setdefault(successions.get(application, application), []).append(application)
    places = [
        place
        for place in range(*course.window)
        if all(any(course.is_under_way(each, place) for each in group) for group in groups.values())
    ]
    return replace(course, window=(places[0], places[-1] + 1)) if places else None


def _successions(row: StoredRun, phase: str) -> dict[str, str]:
    """The workload with which a succession begins, of each that comes after another in this phase."""
    phases = json.loads(row.scenario_json).get("phase", [])
    tables: list[dict[str, Any]] = next((each.get("workload", []) for each in phases if each.get("name") == phase), [])
    after = {table["name"]: table["after"] for table in tables if "after" in table}
    first = {}
    for name in after:
        root = name
        while root in after:
            root = after[root]
        first[name] = root
    return first


def _score(trial: _Trial, mixed: MixedRun, weights: Mapping[str, float] | None) -> _Found:
    (scale,) = tile_scales(trial.results)
    score = scale_score(scale, mixed.criteria, mixed.reference, score_weights(weights))
    values = {} if score.value is None else {SCORE.name: score.value}
    counts = (sum(result.objects for result in trial.results), sum(result.errors for result in trial.results))
    reason = "" if values else f"no score: {score.reason or 'a tile did nothing'}"
    return _found(trial.key(TOGETHER, SCORED), values, counts, (SCORE,), trial.results, why_none=reason)


def _found(
    key: UnitKey,
    values: Mapping[str, float],
    counts: tuple[int, int],
    measures: tuple[Measure, ...],
    results: Sequence[Result],
    *,
    why_none: str = "",
) -> _Found:
    """``counts``: objects and errors. It is limited by what any of its results was limited by."""
    limits = {result.limited_by for result in results}
    limited_by = next((limit for limit in ("client", "host cpu") if limit in limits), None)
    sample = Sample(results[0].repetition, values, *counts, limited_by, why_none)
    return _Found(key, sample, measures, tuple(results))
