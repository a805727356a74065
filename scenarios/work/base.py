"""The interface of every kind of work: its operations, its upper bounds and its measured time.

One idea: planning, assignment, execution and reports use this interface of a workload's work and never its class. The
kinds are ``Sessions``, ``Mix``, ``Replay`` and ``Infrastructure``.
"""

from __future__ import annotations

from collections.abc import Set
from math import inf
from typing import Literal, NamedTuple

from archiver.values.retention import Lock

# Measured time: whole sessions after a warm-up, whole intervals of a window, or the whole duration.
MeasuredTime = Literal["sessions", "intervals", "all"]
# Traits of some workloads; criteria that require a trait apply only to workloads with it.
Trait = Literal["open loop", "deadline", "replay", "infrastructure"]


class Archived(NamedTuple):
    """Upper bounds of archived objects and bytes."""

    objects: int
    bytes: int


class Work:
    """The source of a workload's operations. Kinds override these defaults."""

    __slots__ = ()

    @property
    def operation_label(self) -> str:
        """Return the label of its only operation; mixed for several."""
        return "mixed"

    @property
    def mean_bytes(self) -> int:
        """Return the mean size of its objects, rounded; 0 if it is known only at the end."""
        return 0

    @property
    def does(self) -> frozenset[str]:
        """Return the labels of its operations on objects."""
        raise NotImplementedError

    @property
    def archives(self) -> bool:
        """Return whether it leaves objects behind."""
        raise NotImplementedError

    @property
    def object_sizes(self) -> tuple[int, ...]:
        """Return the object sizes in bytes, ascending: of archived objects, or of a single operation on one size."""
        raise NotImplementedError

    def data_set(self, workload: str) -> str:
        """Return the data set of its objects, given its workload's name; empty if objects are drawn by size."""
        return ""

    @property
    def part_names(self) -> Set[str]:
        """Return the names of the kinds of object operations that are counted separately."""
        return self.does

    @property
    def traits(self) -> frozenset[Trait]:
        """Return its traits, which not every workload has."""
        return frozenset()

    def locks_with(self, lock: Lock | None) -> frozenset[Lock | None]:
        """Return the ways in which its objects get their locks, given the workload's ``lock``; None: the run's way."""
        return frozenset((lock,))

    @property
    def measured_time(self) -> MeasuredTime:
        return "all"

    @property
    def precision(self) -> float:
        """Return the maximum 95% half-width of the mean session time, relative, of a settled result."""
        return inf

    @property
    def may_leave_out(self) -> bool:
        """Return whether an operation that finds no object is left out, and counted as left out."""
        return True

    @property
    def starts_seconds(self) -> float:
        """Return its start in seconds after the phase's start, or after the end of ``waits_for``."""
        return 0.0

    @property
    def waits_for(self) -> str | None:
        """Return the name of the workload whose end it waits for."""
        return None

    @property
    def ends_with(self) -> str | None:
        """Return the name of the workload whose end also ends this one."""
        return None

    @property
    def planned_seconds(self) -> float | None:
        """Return its duration in seconds, warm-up included; None if it runs until all is done."""
        return None

    @property
    def planned_warm_up_seconds(self) -> float:
        """Return the warm-up part of that duration."""
        return 0.0

    @property
    def seconds_max(self) -> float:
        """Upper bound of its duration in seconds, as far as that is known."""
        raise NotImplementedError

    @property
    def expected_seconds(self) -> float | None:
        """Return its expected duration in seconds; None if it depends only on the platform."""
        return self.planned_seconds

    @property
    def has_time_limit(self) -> bool:
        """Return whether the plan limits its duration to ``seconds_max``.

        Otherwise ``seconds_max`` is an assumption, and the work ends when all is done.
        """
        return True

    @property
    def is_repeatable(self) -> bool:
        """Return whether an interrupted phase with this work can be carried out again."""
        return True

    @property
    def shares_workers(self) -> bool:
        """Return whether its first client runs in the worker of the next workload's first client."""
        return False

    def streams(self, clients: int) -> int:
        """Upper bound of useful workers: each client, or each stream of a trace, runs in one worker."""
        return clients

    def objects_max(self, clients: int, objects_per_session: int) -> int:
        """Upper bound of the objects that it archives, or that a single operation on one size uses."""
        return self.archived_max(clients, objects_per_session).objects

    def archived_max(self, clients: int, objects_per_session: int) -> Archived:
        """Upper bound of its archived objects and bytes, warm-up included."""
        raise NotImplementedError

    @property
    def archived_second_max(self) -> tuple[int, int]:
        """Upper bound of (objects, bytes) that it copies to a second place."""
        return 0, 0

    def archived_given(self, existing: int | None, clients: int, objects_per_session: int) -> Archived:
        """Return ``archived_max`` if its data set has ``existing`` objects; None: it does not exist yet."""
        return self.archived_max(clients, objects_per_session)

    def left_existing(self, existing: int | None, clients: int, objects_per_session: int) -> int | None:
        """Return the number of objects in its data set afterwards; None if it is not known."""
        return existing

    @property
    def aside_data_set(self) -> str:
        """Return the data set of its aside: objects that it archives in addition to its own."""
        return ""

    @property
    def operations_of_phase(self) -> frozenset[str]:
        """Return its operations in the phase's sessions; its other operations have sessions of their own."""
        return self.does

    def sessions_within(self, seconds: float, clients: int, objects_per_session: int) -> float:
        """Upper bound of the sessions that it begins in this many seconds; 0 if no bound is known."""
        return 0.0

    def label(self, clients: int, objects_per_session: int, variant: str) -> str:
        """Return a label for users if the workload has no name of its own; otherwise empty."""
        return ""
