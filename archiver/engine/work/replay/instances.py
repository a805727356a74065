"""Instances of infrastructure operations: a worker's assignment, the object numbers, and the report.

One idea: the prepared set has numbers of its own, and every instance has fresh ones. No instance therefore uses
objects of another. The numbers in the run's own place and those in a second place are two blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from archiver.engine.worker.assignment import Assignment, InfrastructureAssignment
from archiver.measure.reports import InfrastructureReport
from results.recorded.model import InfrastructureResult
from scenarios.work.infrastructure import Infrastructure


@dataclass(frozen=True, slots=True)
class Instance:
    """The object numbers of one instance."""

    copies: range  # of the set, in its order
    sources: tuple[range, ...]  # sources of the copies, concatenated in the same order
    unlocked: range = range(0)  # of a migration: the sources that the instance archives itself

    @property
    def source_of(self) -> dict[int, int]:
        """Return the source of each copy."""
        return dict(zip(self.copies, (number for each in self.sources for number in each), strict=True))


def infrastructure_of(assignment: Assignment, assigned: InfrastructureAssignment) -> Infrastructure:
    """Return the infrastructure operation of a worker's assignment."""
    what = assignment.phase.workloads[assigned.workload].work
    assert isinstance(what, Infrastructure)
    return what


def instance(what: Infrastructure, assigned: InfrastructureAssignment, index: int) -> Instance:
    """Return instance number ``index``, counted from 0."""
    objects = what.objects
    if what.clones:
        golden, first = assigned.prepared["locked"], assigned.own_first + index * objects
        return Instance(range(first, first + objects), (range(golden, golden + objects),))
    prepared = [range(assigned.prepared[part], assigned.prepared[part] + len(what.places(part))) for part in what.parts]
    own = len(what.places("unlocked"))
    unlocked = range(assigned.own_first + index * own, assigned.own_first + (index + 1) * own)
    first = assigned.second_first + index * objects
    return Instance(range(first, first + objects), (*prepared, unlocked), unlocked)


def infrastructure_result(what: Infrastructure, report: InfrastructureReport) -> InfrastructureResult:
    """Return the report in the form that results store."""
    taken = report.instance_seconds
    return InfrastructureResult(
        kind=what.kind,
        completed=report.completed,
        failed=report.failed,
        seconds=report.seconds,
        minimum_per_hour=what.minimum_per_hour,
        mean_seconds=sum(taken) / len(taken) if taken else None,
        objects=what.objects,
        bytes=what.set_bytes,
        findings=report.findings,
    )
