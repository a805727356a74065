"""Objects of an earlier run, for a run that only reads: their numbers, place and age.

One idea: the ledger is the only source. A run can read the objects again, and check every byte, even if the folder of
the run that archived them is lost.
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
from results.recorded.database import ObjectChange, ObjectsFrom
from scenarios.model import Phase, Scenario, Workload
from scenarios.work.sessions import AllObjects, Sessions


@dataclass(frozen=True, slots=True)
class EarlierObjects:
    """Objects that a run archived and that have not been removed."""

    run: str
    place: Placement  # names backend, platform, bucket and prefix
    content_seed: int
    kept: Sequence[Kept]
    changes: Sequence[ObjectChange]  # holds, releases and deletions by that run, as far as they are known
    archived_from: float  # epoch seconds: start of the first phase that archived some of them
    archived_to: float  # epoch seconds: start of the last phase that archived some of them

    @property
    def location(self) -> Location:
        """Return the location of the objects."""
        place = self.place
        return Location(place.endpoint, place.region, place.bucket, place.bucket_created, place.prefix)

    @property
    def retention(self) -> Retention:
        """Return their lock, as far as the ledger has it: the mode and the latest retain-until date."""
        place = self.place
        mode = RetentionMode(place.retention_mode)
        return Retention(mode, None, place.latest_retain_until, place.legal_hold, event_hold_days=place.event_hold_days)

    @property
    def objects(self) -> int:
        """Return the number of objects."""
        return sum(each.last - each.first + 1 for each in self.kept)

    def numbers(self) -> ObjectNumbers:
        """Return the object numbers to draw from."""
        numbers = ObjectNumbers(self.content_seed)
        for each in self.kept:
            numbers.keep(each)
        for change in self.changes:
            numbers.change(*change)
        return numbers

    def record(self) -> ObjectsFrom:
        """Return the entry for the record of the run that reads them."""
        return ObjectsFrom(self.run, self.objects, self.archived_from, self.archived_to)


def find_earlier(ledger: Ledger, run: str, scenario: Scenario, changes: Sequence[ObjectChange] = ()) -> EarlierObjects:
    """Return the objects of ``run`` that have the sizes that a scenario reads.

    Raises UsageError if the run lacks objects of any of these sizes.
    """
    if not ledger.knows(run):
        raise UsageError(f"--objects-from {run}: the ledger has no run of that name that archived objects")
    rows = ledger.placements(run)
    if not rows:
        raise UsageError(
            f"--objects-from {run}: its objects were removed (archiver cleanup); name another run, or archive new "
            "objects"
        )
    found = [
        (row, Kept(each.object_bytes, each.first, each.last, row.earliest_retain_until, row.latest_retain_until))
        for row in rows
        if row.id is not None and row.content_seed is not None
        for each in ledger.ranges(row.id)
    ]
    have = {kept.object_bytes for _, kept in found}
    want = {workload.work.mean_bytes for workload in scenario.workloads}
    if not want <= have:
        sizes = ", ".join(map(format_size, sorted(have)))
        raise UsageError(
            f"--objects-from {run}: it archived no objects of {', '.join(map(format_size, sorted(want - have)))}; "
            + (f"it has objects of {sizes}: --set object_sizes={sizes.replace(' ', '')}" if have else "it has none")
        )
    used = [(row, kept) for row, kept in found if kept.object_bytes in want]
    place = next((row for row, _ in used if row.retention_mode != RetentionMode.NONE.value), used[0][0])
    assert place.content_seed is not None
    written = [row.written_at for row, _ in used]
    return EarlierObjects(
        run, place, place.content_seed, [kept for _, kept in used], changes, min(written), max(written)
    )


def check_first(earlier: EarlierObjects, backend: Backend) -> None:
    """Read one whole object, to make sure that this is the place of the earlier run.

    Raises PlatformError if the object is missing or has other content.
    """
    numbers = earlier.numbers()
    size = earlier.kept[0].object_bytes
    chosen = numbers.sample(size, 1, 0)
    if not len(chosen):
        raise UsageError(
            f"--objects-from {earlier.run}: it deleted all its objects of {format_size(size)}; name another run"
        )
    phase = Phase("first object", 0, 1, (Workload("retrieve", Sessions("retrieve", size, AllObjects()), 1),))
    client = ClientAssignment(0, 0, np.array(chosen, dtype=np.int64))
    counted, _ = carry_out(
        Assignment(
            earlier.run, earlier.content_seed, backend.name, backend.worker_setting(), phase, (client,), {}, "all"
        )
    )
    if counted.problems or not counted.objects:
        raise PlatformError(
            f"--objects-from {earlier.run}: its object {int(chosen[0])} in {earlier.place.bucket} cannot be read as it "
            f"was archived: {'; '.join(counted.problems) or 'no answer came'}; check that this is the platform of that "
            "run"
        )
