"""The work of a workload that replays a trace, as plain values.

One idea: a trace is read once before anything runs. The amounts that it archives, changes and requests are then known,
so the guards bound a replay like any other work. A replay is void if 1% of its operations are later than the tolerance
because of the client. It locks by the run's rules: a tester must not repeat a captured retention period of years.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

from archiver.values.retention import PHASE_SECONDS_MAX, Lock
from scenarios.work.application_model import ApplicationModel
from scenarios.work.base import Archived, Trait, Work
from scenarios.work.mix import OperationName

ALLOWED_SHARE = 15 / 3600  # allowed overrun of a replay: 15 s per hour, pro rata (IOmark's 1 hour and 15 seconds)
ALLOWED_SECONDS_MIN = 1.0
NOT_READ_YET_SECONDS = 60.0  # assumed duration of a trace before it is read


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """Facts about a trace after reading it, for one set at the requested speed."""

    name: str  # name of the file, or of the model
    origin: str  # description, such as: capture; operation-log 20261122t...; model
    sha256: str  # of the file
    anonymised: bool
    seconds: float  # from its start to the last operation's due time
    operations: tuple[tuple[str, int], ...]  # replayed operations by label
    left_out: tuple[tuple[str, int], ...]  # reason and count of rows left out
    streams: int
    prepared: tuple[tuple[int, int], ...]  # (object bytes, objects) that must exist before it; ascending sizes
    written: tuple[tuple[int, int], ...]  # the same for objects that it archives and copies
    replaced: tuple[tuple[int, int], ...]  # the same for objects that it archives under existing names
    deletes: bool  # deletes some archived or prepared objects, which must therefore not be locked
    changes_prepared: bool = False  # each replay then requires a new preparation

    @property
    def does(self) -> frozenset[str]:
        """Return the labels of its operations."""
        return frozenset(label for label, _ in self.operations)

    @property
    def allowed_seconds(self) -> float:
        """Return the maximum duration of its replay in seconds."""
        return self.seconds + max(ALLOWED_SECONDS_MIN, self.seconds * ALLOWED_SHARE)


@dataclass(frozen=True, slots=True)
class Replay(Work):
    """One trace of one set, or the preparation for it."""

    trace: str | None  # the file; None: generated from the model
    model: ApplicationModel | None
    seconds: float | None  # length of the model's trace; None: the file determines it
    seed: int  # for the model's trace
    speed: float
    begins_seconds: float  # this set's shift, after the phase's start
    tolerance_seconds: float  # largest scheduling delay (how late the client itself is) in 99% of the operations
    capacity_bytes: int | None  # full size of an application; None: the objects that its trace reads
    capacity_scale: float
    prepares: bool = False  # archive what the trace needs; replay nothing
    facts: TraceFacts | None = None  # None: not read yet
    folder: str = ""  # folder of the compiled trace

    @property
    def known(self) -> TraceFacts:
        """Return the facts of the trace, which must have been read."""
        assert self.facts is not None, "the trace was not read yet"
        return self.facts

    @property
    def archived(self) -> tuple[tuple[int, int], ...]:
        """Upper bound of archived objects, as (object bytes, objects)."""
        return self.known.prepared if self.prepares else (*self.known.written, *self.known.replaced)

    @property
    def lies_there_bytes(self) -> int | None:
        """Return the bytes that must exist before the trace begins; None: the objects that it reads."""
        return math.ceil(self.capacity_bytes * self.capacity_scale) if self.capacity_bytes is not None else None

    @property
    def operation_label(self) -> str:
        return "archive" if self.prepares else "mixed"

    @property
    def does(self) -> frozenset[str]:
        return frozenset(("archive",)) if self.prepares else self.known.does

    @property
    def part_names(self) -> frozenset[str]:
        """Return the operations of its trace. Before the trace is read, these are all operations."""
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

    @property
    def expected_seconds(self) -> float | None:
        return None if self.prepares or self.facts is None else self.facts.seconds

    @property
    def has_time_limit(self) -> bool:
        return not self.prepares

    def streams(self, clients: int) -> int:
        return clients if self.prepares else self.known.streams

    def archived_max(self, clients: int, objects_per_session: int) -> Archived:
        return Archived(sum(count for _, count in self.archived), sum(size * count for size, count in self.archived))

    @property
    def _is_kept(self) -> bool:
        """Return whether the prepared objects serve every replay of the trace."""
        return self.prepares and not self.known.changes_prepared

    def archived_given(self, existing: int | None, clients: int, objects_per_session: int) -> Archived:
        if self._is_kept and existing is not None:  # from an earlier step of a search
            return Archived(0, 0)
        return self.archived_max(clients, objects_per_session)

    def left_existing(self, existing: int | None, clients: int, objects_per_session: int) -> int | None:
        return self.archived_given(existing, clients, objects_per_session).objects if self._is_kept else existing
