"""All workloads of a phase as one unit: peak and steady rate of its course, and for tiles the score.

The rates cover the time in which all workloads were running.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from results.measures.metrics import MEGABYTE_RATE, RATE, SCORE
from results.measures.phases import MeasuredPhase
from results.measures.units import ALL_WORKLOADS, Unit, one_sample, phase_key
from results.mixed.programme import MEGABYTES, OBJECTS, Course, summary
from results.mixed.reference_tile import stored_reference
from results.mixed.score import scale_score, score_weights
from results.mixed.tiles import APPLICATIONS, tile_scales
from results.recorded.database import StoredRun
from results.report.mixed_contents import WorkloadsShown

STEADY, PEAK, SCORED = "steady", "peak", "score"


def whole_phase_units(
    phase: MeasuredPhase, mixed: WorkloadsShown, row: StoredRun, weights: Mapping[str, float] | None
) -> Iterator[Unit]:
    """Yield one repetition of these units. ``weights`` are those of the score, ``row`` is the run's."""
    for course in mixed.courses:
        if course.position == phase.position:
            yield from _rates(phase, course, _successions(row, phase.name))
    if {result.application for result in phase.results} >= set(APPLICATIONS):
        yield _score(phase, weights)


def _rates(phase: MeasuredPhase, course: Course, successions: Mapping[str, str]) -> Iterator[Unit]:
    """Yield peak and steady rate of all workloads, in MB/s and objects/s."""
    whole = _while_all(course, successions)
    rates = {MEGABYTE_RATE: summary(whole, MEGABYTES), RATE: summary(whole, OBJECTS)} if whole else {}
    reason = "" if whole else "its workloads never all ran at the same time"
    for name in (STEADY, PEAK):
        values = {measure.name: float(getattr(rate, name)) for measure, rate in rates.items() if rate is not None}
        yield one_sample(
            phase_key(phase, ALL_WORKLOADS, name),
            phase.repetition,
            values,
            _counts(phase),
            (MEGABYTE_RATE, RATE),
            phase.results,
            reason,
        )


def _score(phase: MeasuredPhase, weights: Mapping[str, float] | None) -> Unit:
    (scale,) = tile_scales([phase])
    score = scale_score(scale, stored_reference(), score_weights(weights))
    values = {} if score.value is None else {SCORE.name: score.value}
    reason = "" if values else f"no score: {score.reason or 'a tile did nothing'}"
    key = phase_key(phase, ALL_WORKLOADS, SCORED)
    return one_sample(key, phase.repetition, values, _counts(phase), (SCORE,), phase.results, reason)


def _counts(phase: MeasuredPhase) -> tuple[int, int]:
    return sum(result.objects for result in phase.results), sum(result.errors for result in phase.results)


def _while_all(course: Course, successions: Mapping[str, str]) -> Course | None:
    """Return the course from the first to the last second in which all workloads were running.

    Workloads that follow one another count as one. Returns None if there is no such second.
    """
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
    """Return, for each workload that follows another in this phase, the first workload of its succession."""
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
