"""What a workload does that replays a trace, as plain values.

One idea: a trace is read once before anything runs, and what it will archive, change and ask for is known from then on,
so the guards bound a replay like everything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

from archiver.values.retention import PHASE_SECONDS_MAX, Lock
from scenarios.work.application_model import ApplicationModel
from scenarios.work.base import Archived, Trait, Work
from scenarios.work.mix import OperationName

ALLOWED_SHARE = 15 / 3600  # of the trace's time, that a replay may take longer: IOmark's 1 hour and 15 seconds
ALLOWED_SECONDS_MIN = 1.0
NOT_READ_YET_SECONDS = 60.0  # what a trace is taken to last before it was read


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """What is known of a trace once it was read. Of one set, at the speed asked for."""

    name: str  # of the file, or of the model
    origin: str  # where it came from, in words: capture; operation-log 20261122t...; model
    sha256: str  # of the file
    anonymised: bool
    seconds: float  # from its beginning to the last operation's due time
    operations: tuple[tuple[str, int], ...]  # by label, those that are replayed
    left_out: tuple[tuple[str, int], ...]  # why, and how many
    streams: int
    prepared: tuple[tuple[int, int], ...]  # (object bytes, objects): what must be there before; sizes rise
    written: tuple[tuple[int, int], ...]  # what it archives and copies, likewise
    replaced: tuple[tuple[int, int], ...]  # and what it archives under names that are there
    deletes: bool  # some of what it archives or finds there is deleted in it, and so must not be locked
    changes_prepared: bool = False  # so that what was prepared serves one replay only

    @property
    def does(self) -> frozenset[str]:
        """Labels of the operations that it asks for."""
        return frozenset(label for label, _ in self.operations)

    @property
    def allowed_seconds(self) -> float:
        """In which it has to be replayed."""
        return self.seconds + max(ALLOWED_SECONDS_MIN, self.seconds * ALLOWED_SHARE)


@dataclass(frozen=True, slots=True)
class Replay(Work):
    """One trace of one set, or the preparation for it."""

    trace: str | None  # the file; None: made by the model
    model: ApplicationModel | None
    seconds: float | None  # of the model's trace; None: a file has a length of its own
    seed: int  # of the model's trace
    speed: float
    begins_seconds: float  # this set's shift, after the phase
    tolerance_seconds: float  # how late the client itself may be, in 99% of the operations
    capacity_bytes: int | None  # of an application in full; None: whatever its trace reads
    capacity_scale: float
    prepares: bool = False  # archive what the trace needs; replay nothing
    facts: TraceFacts | None = None  # None: not read yet
    folder: str = ""  # of the trace as it was compiled

    @property
    def known(self) -> TraceFacts:
        """The facts, once they are there."""
        assert self.facts is not None, "the trace was not read yet"
        return self.facts

    @property
    def archived(self) -> tuple[tuple[int, int], ...]:
        """(object bytes, objects) of what is archived at most."""
        return self.known.prepared if self.prepares else (*self.known.written, *self.known.replaced)

    @property
    def lies_there_bytes(self) -> int | None:
        """How much is to lie there before the trace begins; None: what it reads."""
        return math.ceil(self.capacity_bytes * self.capacity_scale) if self.capacity_bytes is not None else None

    @property
    def operation_label(self) -> str:
        return "archive" if self.prepares else "mixed"

    @property
    def does(self) -> frozenset[str]:
        return frozenset(("archive",)) if self.prepares else self.known.does

    @property
    def part_names(self) -> frozenset[str]:
        """Before its trace was read it may do anything."""
        return self.facts.does if self.facts is not None else frozenset(get_args(OperationName))

    @property
    def archives(self) -> bool:
        return bool(self.archived)

    @property
    def object_sizes(self) -> tuple[int, ...]:
        return tuple(sorted({size for size, _ in self.archived}))

    def data_set(self, workload: str) -> str:
        return workload if self.prepares else ""

    @property
    def traits(self) -> frozenset[Trait]:
        return frozenset(("replay",))

    def locks_with(self, lock: Lock | None) -> frozenset[Lock | None]:
        return frozenset((None, Lock.NONE)) if self.known.deletes else frozenset((lock,))

    @property
    def starts_seconds(self) -> float:
        return self.begins_seconds

    @property
    def seconds_max(self) -> float:
        if self.prepares:
            return PHASE_SECONDS_MAX
        if self.facts is None:
            return self.seconds or NOT_READ_YET_SECONDS
        return min(self.facts.allowed_seconds, PHASE_SECONDS_MAX - self.begins_seconds)

    def streams(self, clients: int) -> int:
        return clients if self.prepares else self.known.streams

    def archived_max(self, clients: int, objects_per_session: int) -> Archived:
        return Archived(sum(count for _, count in self.archived), sum(size * count for size, count in self.archived))

    @property
    def _is_kept(self) -> bool:
        """What was prepared serves every replay of it."""
        return self.prepares and not self.known.changes_prepared

    def archived_given(self, there: int | None, clients: int, objects_per_session: int) -> Archived:
        if self._is_kept and there is not None:  # from an earlier step of a search
            return Archived(0, 0)
        return self.archived_max(clients, objects_per_session)

    def left_there(self, there: int | None, clients: int, objects_per_session: int) -> int | None:
        return self.archived_given(there, clients, objects_per_session).objects if self._is_kept else there
