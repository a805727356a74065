"""Objects that an earlier run archived, for a run that only reads: which they are, where, and how old.

One idea: the ledger alone is asked, so that a run's objects can be read again, and every byte of them checked, even
where its folder is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from archiver.engine.numbers import Kept, ObjectNumbers
from archiver.engine.worker.assignment import Assignment, ClientAssignment
from archiver.engine.workers.in_process import carry_out
from archiver.ledger.ledger import Ledger, Placement
from archiver.values.errors import PlatformError, UsageError
from archiver.values.retention import Retention, RetentionMode
from archiver.values.sizes import format_size
from backends.base import Backend, Location
from results.database import ObjectChange, ObjectsFrom
from scenarios.model import Phase, Scenario, Workload
from scenarios.work.sessions import AllObjects, Sessions


@dataclass(frozen=True, slots=True)
class EarlierObjects:
    """What a run archived and nobody has removed."""

    run: str
    place: Placement  # names backend, platform, bucket and prefix
    content_seed: int
    kept: Sequence[Kept]
    changes: Sequence[ObjectChange]  # held, released or deleted by that run, as far as it is known
    archived_from: float  # epoch seconds: when the first phase began that archived some of them
    archived_to: float  # and the last one

    @property
    def location(self) -> Location:
        """Where they are."""
        place = self.place
        return Location(place.endpoint, place.region, place.bucket, place.bucket_created, place.prefix)

    @property
    def retention(self) -> Retention:
        """What they were locked with, as far as the ledger tells: the mode, and until when at most."""
        place = self.place
        return Retention(RetentionMode(place.retention_mode), None, place.latest_retain_until, place.legal_hold)

    @property
    def objects(self) -> int:
        """How many there are."""
        return sum(each.last - each.first + 1 for each in self.kept)

    def numbers(self) -> ObjectNumbers:
        """Their numbers, to draw from."""
        numbers = ObjectNumbers(self.content_seed)
        for each in self.kept:
            numbers.keep(each)
        for change in self.changes:
            numbers.change(*change)
        return numbers

    def record(self) -> ObjectsFrom:
        """For the record of the run that reads them."""
        return ObjectsFrom(self.run, self.objects, self.archived_from, self.archived_to)


def find_earlier(ledger: Ledger, run: str, scenario: Scenario, changes: Sequence[ObjectChange] = ()) -> EarlierObjects:
    """What ``run`` archived of the sizes that a scenario reads. Raises UsageError where it has nothing, or not all of
    these sizes.
    """
    if not ledger.knows(run):
        raise UsageError(f"--objects-from {run}: the ledger knows no run of that name that archived anything")
    rows = ledger.placements(run)
    if not rows:
        raise UsageError(f"--objects-from {run}: its objects were removed (archiver cleanup); archive others")
    found = [
        (row, Kept(each.object_bytes, each.first, each.last, row.earliest_retain_until, row.latest_retain_until))
        for row in rows
        if row.id is not None and row.content_seed is not None
        for each in ledger.ranges(row.id)
    ]
    have = {kept.object_bytes for _, kept in found}
    want = {workload.object_bytes for workload in scenario.workloads}
    if not want <= have:
        there = ", ".join(map(format_size, sorted(have)))
        raise UsageError(
            f"--objects-from {run}: it archived nothing of {', '.join(map(format_size, sorted(want - have)))}; "
            + (f"there are objects of {there}: --set object_sizes={there.replace(' ', '')}" if have else "it has none")
        )
    used = [(row, kept) for row, kept in found if kept.object_bytes in want]
    place = next((row for row, _ in used if row.retention_mode != RetentionMode.NONE.value), used[0][0])
    assert place.content_seed is not None
    written = [row.written_at for row, _ in used]
    return EarlierObjects(
        run, place, place.content_seed, [kept for _, kept in used], changes, min(written), max(written)
    )


def check_first(earlier: EarlierObjects, backend: Backend) -> None:
    """Read one object, whole. Raises PlatformError where it is not there or not what was archived: then this is not
    the place."""
    numbers = earlier.numbers()
    size = earlier.kept[0].object_bytes
    chosen = numbers.sample(size, 1, 0)
    if not len(chosen):
        raise UsageError(f"--objects-from {earlier.run}: all that it archived of {format_size(size)} it has deleted")
    phase = Phase("first object", 0, 1, (Workload("retrieve", Sessions("retrieve", size, AllObjects()), 1),))
    client = ClientAssignment(0, 0, np.array(chosen, dtype=np.int64))
    counted, _ = carry_out(
        Assignment(
            earlier.run, earlier.content_seed, backend.name, backend.worker_setting(), phase, (client,), {}, "all"
        )
    )
    if counted.problems or not counted.objects:
        raise PlatformError(
            f"--objects-from {earlier.run}: object {int(chosen[0])} of it in {earlier.place.bucket} cannot be read as "
            f"it was archived: {'; '.join(counted.problems) or 'it was not answered'}; is this the platform of that "
            "run?"
        )
