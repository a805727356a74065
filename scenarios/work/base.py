"""What every kind of work answers: what it does, how much it may archive, and when it counts.

One idea: planning, sharing out, running and reporting ask a workload's work these questions, and never which kind it
is. The kinds are ``Sessions``, ``Mix``, ``Replay`` and ``Infrastructure``.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Literal, NamedTuple

from archiver.values.retention import Lock

# Which time counts: whole sessions after a warm-up, whole intervals of a window, or all that it takes.
MeasuredTime = Literal["sessions", "intervals", "all"]
# What only some workloads have, so that only of them it can be limited.
Trait = Literal["open loop", "deadline", "replay", "infrastructure"]


class Archived(NamedTuple):
    """Upper bounds of what is archived."""

    objects: int
    bytes: int


class Work:
    """The source of a workload's operations. Kinds override what differs from these answers."""

    __slots__ = ()

    @property
    def operation_label(self) -> str:
        """The one operation that it carries out; mixed: several."""
        return "mixed"

    @property
    def mean_bytes(self) -> int:
        """Mean size of its objects, rounded; 0: known only when it is done."""
        return 0

    @property
    def does(self) -> frozenset[str]:
        """Labels of the operations that it carries out on objects."""
        raise NotImplementedError

    @property
    def archives(self) -> bool:
        """It leaves objects behind."""
        return bool(self.archived_max(1, 1).objects)

    @property
    def object_sizes(self) -> tuple[int, ...]:
        """Object sizes in bytes that it archives, or that one operation on one size reads; rising."""
        raise NotImplementedError

    def data_set(self, workload: str) -> str:
        """The data set that its objects belong to, given its workload's name; empty: objects are drawn by size."""
        return ""

    @property
    def part_names(self) -> Set[str]:
        """Names of the kinds of object operations that are counted apart."""
        return self.does

    @property
    def traits(self) -> frozenset[Trait]:
        """What it has that not every workload has."""
        return frozenset()

    def locks_with(self, lock: Lock | None) -> frozenset[Lock | None]:
        """How its objects get their locks, given the workload's ``lock``; None: as the run says."""
        return frozenset((lock,))

    @property
    def measured_time(self) -> MeasuredTime:
        return "all"

    @property
    def may_leave_out(self) -> bool:
        """An operation for which no object is left is left out, and counted as such."""
        return True

    @property
    def is_shown_whole(self) -> bool:
        """If nothing is left of its measured time, all that it did is shown, marked as unsettled."""
        return False

    @property
    def starts_seconds(self) -> float:
        """When it begins, after the phase or after the end of ``waits_for``."""
        return 0.0

    @property
    def waits_for(self) -> str | None:
        """Name of the workload whose end it waits for."""
        return None

    @property
    def planned_seconds(self) -> float | None:
        """How long it goes on once it has begun, warm-up included; None: until all is done."""
        return None

    @property
    def planned_warm_up_seconds(self) -> float:
        """How much of that is its warm-up."""
        return 0.0

    @property
    def seconds_max(self) -> float:
        """Upper bound of the seconds from its beginning to its end, as far as that is known."""
        raise NotImplementedError

    @property
    def is_repeatable(self) -> bool:
        """A phase that was interrupted in it can be carried out again."""
        return True

    @property
    def shares_workers(self) -> bool:
        """Its first client is in the worker that also has the first client of the next workload."""
        return False

    def streams(self, clients: int) -> int:
        """How many workers have something to do: a client, or a stream of a trace, is in one of them."""
        return clients

    def objects_max(self, clients: int, objects_per_session: int) -> int:
        """Upper bound of the objects that it archives, or that one operation on one size handles."""
        return self.archived_max(clients, objects_per_session).objects

    def archived_max(self, clients: int, objects_per_session: int) -> Archived:
        """Upper bound of what it archives, warm-up included."""
        raise NotImplementedError

    @property
    def archived_there_max(self) -> tuple[int, int]:
        """Upper bound of (objects, bytes) that it copies to a second place."""
        return 0, 0

    def archived_given(self, there: int | None, clients: int, objects_per_session: int) -> Archived:
        """The same, if its data set has ``there`` objects already; None: it has not been made."""
        return self.archived_max(clients, objects_per_session)

    def left_there(self, there: int | None, clients: int, objects_per_session: int) -> int | None:
        """How many objects its data set is known to have afterwards; None: not known."""
        return there

    @property
    def beside_data_set(self) -> str:
        """The data set of the objects that it archives next to its own."""
        return ""

    @property
    def operations_of_phase(self) -> frozenset[str]:
        """The operations that it carries out over the sessions of its phase; others have sessions of their own."""
        return self.does

    def sessions_within(self, seconds: float, clients: int, objects_per_session: int) -> float:
        """Upper bound of the sessions that it begins within so many seconds; 0 where none is known."""
        return 0.0

    def label(self, clients: int, objects_per_session: int, variant: str) -> str:
        """For people, where the workload has no name of its own; else empty."""
        return ""
