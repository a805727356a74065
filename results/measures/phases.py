"""The phases of simultaneous workloads of a run: what was measured and judged at the same time.

Tables, scores, summaries and comparisons group results by phase here, and only here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from results.measures.verdict import phases_verdict, void_because
from results.recorded.model import CriterionResult, Result


@dataclass(frozen=True)
class MeasuredPhase:
    """One phase of simultaneous workloads."""

    position: int
    name: str
    scale: float | None  # None: its scenario has no scale
    repetition: int  # among the phases of the same name and scale, from 1
    results: tuple[Result, ...]
    criteria: tuple[CriterionResult, ...]

    @cached_property
    def void(self) -> tuple[str, ...]:
        """Why the phase says nothing about the platform, in the order of its results; empty if it is valid."""
        reasons = (void_because(result, self.results, self.criteria) for result in self.results)
        return tuple(dict.fromkeys(filter(None, reasons)))

    @cached_property
    def verdict(self) -> Literal["void", "pass", "fail"]:
        return phases_verdict(self.results, self.criteria)

    @property
    def objects_per_second(self) -> float:
        """The sum over all workloads."""
        return sum(result.objects_per_second for result in self.results)

    @property
    def megabytes_per_second(self) -> float:
        """The sum over all workloads."""
        return sum(result.megabytes_per_second for result in self.results)


def phases_of(results: Sequence[Result], criteria: Sequence[CriterionResult]) -> list[MeasuredPhase]:
    """Return the phases of these results in the order in which they ran, without phases that only prepare data.

    A search may try a scale again without declaring a repetition. Its phases are numbered in the order in which they
    ran. ``criteria`` are those of the run.
    """
    found: dict[int, list[Result]] = {}
    for result in results:
        if result.application and not result.is_load:
            found.setdefault(result.position, []).append(result)
    judged: dict[int, list[CriterionResult]] = {}
    for each in criteria:
        judged.setdefault(each.position, []).append(each)
    phases = [
        MeasuredPhase(
            position,
            own[0].phase,
            own[0].scale,
            own[0].repetition,
            tuple(own),
            tuple(judged.get(position, ())),
        )
        for position, own in sorted(found.items())
    ]
    numbers: dict[int, int] = {}
    for group in repetitions_of(phases):
        declared = [phase.repetition for phase in group]
        distinct = len(set(declared)) == len(group)
        numbers |= {phase.position: phase.repetition if distinct else number for number, phase in enumerate(group, 1)}
    return [replace(phase, repetition=numbers[phase.position]) for phase in phases]


def repetitions_of(phases: Iterable[MeasuredPhase]) -> list[list[MeasuredPhase]]:
    """Return the phases by name and scale, in the order of the first of each: a group has the repetitions of one."""
    groups: dict[tuple[str, float | None], list[MeasuredPhase]] = {}
    for phase in phases:
        groups.setdefault((phase.name, phase.scale), []).append(phase)
    return list(groups.values())
