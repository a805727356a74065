"""Instances of infrastructure operations: what a worker is told of them, which numbers each has, and what it reports.

One idea: the prepared set lies under numbers of its own, and every instance has fresh ones, so that none meets what
another left; the numbers in the run's own place and those in a second place are two blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from results.model import Infrastructure as InfrastructureResult
from scenarios.infrastructure import Infrastructure, Part


@dataclass(frozen=True, slots=True)
class InfrastructureAssignment:
    """One worker's part of a preparation, or all instances of one kind of operation, which one worker carries out."""

    workload: int
    client: int  # number of its first client here
    clients: int
    prepared: Mapping[Part, int]  # number of the first object of each part that was prepared, or is to be
    preparing: tuple[int, int] = (0, 0)  # of a preparation: which of its objects this worker archives: first, last + 1
    here: int = 0  # number of the first object that it makes in the run's own place, of ``numbers_here``
    there: int = 0  # and in the second place, of ``numbers_there``
    second_setting: Any = field(default=None, repr=False)  # of the backend of the second place; may hold secrets
    earliest: float | None = None  # epoch seconds before which no lock of a copy may end; None: it has no date


@dataclass(frozen=True, slots=True)
class InfrastructureReport:
    """What came of all instances of one kind of operation."""

    workload: int
    completed: int
    failed: int
    seconds: float  # in which they were begun; longer where the last one took longer
    instance_seconds: tuple[float, ...]  # of the completed ones
    findings: tuple[str, ...]
    kept: int  # objects that a migration left where they were, since they are locked
    copied_there: int  # objects in the second place
    copied_there_bytes: int
    gave_up: str | None = None


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
