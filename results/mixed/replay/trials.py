"""A run that replayed traces, by phase: number of simultaneous sets, application results, infrastructure operations.

The result of a run is one phase: the slowest at the largest number of sets that met all criteria. All other phases
are steps of the search.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from archiver.values.metrics import PERCENTS
from results.measures.metrics import pooled_mean_ms
from results.measures.phases import MeasuredPhase, phases_of
from results.measures.responses import NO_RESPONSES, Responses, merged, responses_of
from results.mixed.replay.verdicts import replay_verdict, void_reasons
from results.prices.cost import PlanCost
from results.recorded.database import StoredRun
from results.recorded.model import CriterionResult, InfrastructureResult, PartResult, Replayed, Result, SearchOutcome
from results.recorded.run import RecordedRun

READS = frozenset(("retrieve", "range-retrieve", "head", "query"))
WRITES = frozenset(("archive", "copy", "new-version"))
LIMIT_MS = 20.0  # default if the run has no limit


@dataclass(frozen=True)
class ReplayTrial:
    """One phase that replayed traces."""

    position: int
    sets: float | None  # None: the traces were replayed once, without sets
    results: tuple[Result, ...]  # results of applications
    infrastructure: tuple[InfrastructureResult, ...]  # one of each kind, in the order of their names
    criteria: tuple[CriterionResult, ...]
    by_workload: Mapping[str, Responses]
    void: tuple[str, ...] = ()  # why the phase proves nothing

    @property
    def applications(self) -> list[str]:
        """The kinds of applications, by name."""
        return sorted({result.application for result in self.results})

    @property
    def application_count(self) -> int:
        """The number of applications in all sets."""
        return len({(result.application, result.copy) for result in self.results})

    @property
    def verdict(self) -> str:
        """The verdict in words, with all mandatory notes."""
        return replay_verdict(self.results, self.criteria, self.infrastructure, self.void)

    @property
    def held(self) -> bool:
        return self.verdict.startswith("pass")

    @property
    def limit_ms(self) -> float:
        """The limit for the reported share of all responses."""
        asked = self.asked_of_all
        return asked[1] if asked is not None else LIMIT_MS

    @property
    def asked_of_all(self) -> tuple[float, float] | None:
        """The criterion (percent, milliseconds) for all responses; None if there is none."""
        for each in self.criteria:
            metric, _, statistic = each.condition.left.partition(".")
            if (
                metric == "object_ms"
                and statistic in PERCENTS
                and each.condition.operator[0] == "<"
                and not each.workload
            ):
                return PERCENTS[statistic], each.limit
        return None

    @cached_property
    def responses(self) -> Responses:
        """Return the responses of all applications together."""
        return self.responses_of(self.results)

    def responses_of(self, results: Iterable[Result]) -> Responses:
        return merged(self.by_workload.get(result.workload, NO_RESPONSES) for result in results)

    @property
    def nearest(self) -> Replayed:
        """Return the replay that ended latest relative to its limit."""
        return min((_replayed(result) for result in self.results), key=lambda each: each.margin_seconds)

    def of(self, application: str) -> list[Result]:
        """Return the results of that application in every set."""
        return [result for result in self.results if result.application == application]


@dataclass(frozen=True, slots=True)
class ReplayedRun:
    """A run that replayed traces, with the values that other runs do not have."""

    run: StoredRun
    scenario: Mapping[str, Any]
    trials: tuple[ReplayTrial, ...]
    search: SearchOutcome | None
    cost: PlanCost | None = None  # set if prices were given

    @property
    def has_sets(self) -> bool:
        """Whether the run replayed sets of several applications."""
        return any(len(trial.applications) > 1 for trial in self.trials)

    @property
    def result(self) -> ReplayTrial:
        """Return the result of the run: the slowest phase of the most sets that met all criteria, else of the fewest.

        A number of sets counts only if all its phases met all criteria.
        """
        by_sets: dict[float, list[ReplayTrial]] = {}
        for trial in self.trials:
            by_sets.setdefault(trial.sets or 0.0, []).append(trial)
        held = [sets for sets, trials in by_sets.items() if all(trial.held for trial in trials)]
        chosen = max(held) if held else min(by_sets)
        if self.search is not None and self.search.largest in by_sets:
            chosen = float(self.search.largest or 0)
        return max(by_sets[chosen], key=lambda trial: mean_ms(trial.results) or 0.0)


def replay_run(recorded: RecordedRun, results: Sequence[Result]) -> ReplayedRun | None:
    """Return the replays of the run with these ``results``. Returns None if it replayed nothing."""
    phases = [
        phase
        for phase in phases_of(results, recorded.criteria)
        if any(result.replayed is not None for result in phase.results)
    ]
    if not phases:
        return None
    run = recorded.run
    histograms = {(each.position, each.workload): each for each in recorded.cell_histograms("object")}

    def responses(result: Result) -> Responses:
        found = histograms.get((result.position, result.workload))
        times = result.object_ms
        return (
            responses_of(found.indices, found.counts, times.max)
            if found is not None and times is not None
            else NO_RESPONSES
        )

    def trial(phase: MeasuredPhase) -> ReplayTrial:
        own = tuple(result for result in phase.results if result.replayed is not None)
        return ReplayTrial(
            phase.position,
            own[0].scale,
            own,
            tuple(result.infrastructure for result in phase.results if result.infrastructure),
            phase.criteria,
            {result.workload: responses(result) for result in own},
            tuple(void_reasons(phase.results, phase.criteria)) if phase.verdict == "void" else (),
        )

    return ReplayedRun(run, json.loads(run.scenario_json or "{}"), tuple(map(trial, phases)), recorded.search)


def mean_ms(results: Sequence[Result], operations: frozenset[str] | None = None) -> float | None:
    """Return the mean response time of all objects, or of the given operations; None if there are no responses."""
    if operations is None:
        return pooled_mean_ms(results)
    return pooled_mean_ms(part for result in results for part in _parts(result) if part.operation in operations)


def _parts(result: Result) -> Sequence[PartResult | Result]:
    """Return the parts of a result. A result with one operation has no parts and is its own part."""
    return result.parts or (result,)


def _replayed(result: Result) -> Replayed:
    assert result.replayed is not None, "trials contain only results of replays"
    return result.replayed
