"""Instances of infrastructure operations: what a worker is told of them, which numbers each has, and what it reports.

One idea: the prepared set lies under numbers of its own, and every instance has fresh ones, so that none meets what
another left; the numbers in the run's own place and those in a second place are two blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from archiver.engine.worker.assignment import Assignment, InfrastructureAssignment
from archiver.measure.reports import InfrastructureReport
from results.model import InfrastructureResult
from scenarios.work.infrastructure import Infrastructure


@dataclass(frozen=True, slots=True)
class Instance:
    """The numbers of one instance."""

    copies: range  # of the set, in its order
    sources: tuple[range, ...]  # from which they are copied, one after another in the same order
    unlocked: range = range(0)  # of a migration: those among the sources that it archives itself

    @property
    def source_of(self) -> dict[int, int]:
        """What each copy was copied from."""
        return dict(zip(self.copies, (number for each in self.sources for number in each), strict=True))


def infrastructure_of(assignment: Assignment, mine: InfrastructureAssignment) -> Infrastructure:
    """The infrastructure operation of which a worker has a part."""
    what = assignment.phase.workloads[mine.workload].work
    assert isinstance(what, Infrastructure)
    return what


def instance(what: Infrastructure, mine: InfrastructureAssignment, index: int) -> Instance:
    """The ``index``th, from 0."""
    objects = what.objects
    if what.kind == "clone and deploy":
        golden, first = mine.prepared["locked"], mine.here + index * objects
        return Instance(range(first, first + objects), (range(golden, golden + objects),))
    prepared = [range(mine.prepared[part], mine.prepared[part] + len(what.places(part))) for part in what.parts]
    own = len(what.places("unlocked"))
    unlocked = range(mine.here + index * own, mine.here + (index + 1) * own)
    first = mine.there + index * objects
    return Instance(range(first, first + objects), (*prepared, unlocked), unlocked)


def infrastructure_result(what: Infrastructure, report: InfrastructureReport) -> InfrastructureResult:
    """As results keep it."""
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
