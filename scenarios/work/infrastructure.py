"""Infrastructure operations: repeated operations on whole sets of objects, concurrent with applications.

One idea: a set has a number of objects of given sizes, in an order that follows from their count alone. Its first
object number therefore identifies the whole set. One instance works on one set. The number of instances is bounded
before anything runs.

Clone and deploy copies every object of a golden set on the platform and reads the copies. A part of them gets an
upgrade as a new version, and then the clone is removed.

Storage migration has a set in thirds: held and locked, locked, neither. It copies all objects to a second place with
lock and hold, and audits them there. Sources that are not locked are then removed.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import msgspec

from archiver.values.errors import ScenarioError
from archiver.values.retention import PHASE_SECONDS_MAX, Lock
from scenarios.notation.distribution import Sizes
from scenarios.notation.ranges import KeyRange, check_ranges
from scenarios.notation.sizes import SizesTable, sizes_of
from scenarios.notation.units import Seconds, SizeBytes
from scenarios.work.base import Archived, Trait, Work

Kind = Literal["clone and deploy", "storage migration"]
Part = Literal["locked", "held"]  # prepared part: locked as the run's objects, or locked with a legal hold

OBJECTS_MAX = 1_000_000  # of a set
OBJECT_BYTES_MAX = 64 << 20
CLIENTS_MAX = 64
INSTANCES_MAX = 1000
SMALL_BYTES = 2_000_000_000  # instances in addition to the requested ones may archive this much
_FEWEST: dict[Kind, int] = {"clone and deploy": 2, "storage migration": 3}


class InfrastructureTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    kind: Kind
    capacity: Annotated[SizeBytes, KeyRange(1)]  # of one set
    sizes: SizesTable | str | int = "1MiB"
    minimum_per_hour: Annotated[float, KeyRange(0, 3600, is_above=True)]
    upgrade_share: Annotated[float, KeyRange(0, 1, is_above=True)] = 0.1  # of a clone's objects that get a new version
    clients: Annotated[int, KeyRange(1, CLIENTS_MAX)] = 4
    # Between the starts of two successive instances; None: no pause.
    every: Annotated[Seconds | None, KeyRange(0, is_above=True)] = None
    instances_max: Annotated[int | None, KeyRange(1, INSTANCES_MAX)] = None
    # Time in which instances begin; None: as long as the traces take.
    seconds: Annotated[Seconds | None, KeyRange(0, is_above=True)] = None
    quick: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Infrastructure(Work):
    """One kind of infrastructure operation, or the preparation for it."""

    kind: Kind
    minimum_per_hour: float
    seconds: float  # time in which instances begin, one after another
    objects: int  # of one set
    size_cycle: tuple[int, ...]  # bytes of its objects, repeated from the first after the last
    capacity_bytes: int  # full size of a set
    capacity_scale: float
    upgrade_share: float
    clients: int
    instances_max: int
    every_seconds: float = 0.0  # minimum time between the starts of two successive instances
    prepares: Part | Literal[""] = ""  # only archive this part of the set
    has_own_seconds: bool = False  # the file gives the duration, independent of the traces
    has_own_instances: bool = False  # the file gives the maximum number of instances

    @property
    def clones(self) -> bool:
        """Return whether it is clone and deploy; otherwise it is a storage migration."""
        return self.kind == "clone and deploy"

    @property
    def does(self) -> frozenset[str]:
        """Return the labels of its operations."""
        if self.prepares:
            return frozenset(("archive",))
        if self.clones:
            return frozenset(("copy", "retrieve", "new-version", "delete"))
        return frozenset(("archive", "copy", "audit", "delete"))

    @property
    def lock(self) -> Lock | None:
        """Return the way in which archived objects in the run's own place get their lock; None: as the run does."""
        if self.prepares:
            return Lock.HEADER_AND_HOLD if self.prepares == "held" else None
        return Lock.NONE

    def locks_with(self, lock: Lock | None) -> frozenset[Lock | None]:
        """Return the ways in which its objects get their locks, in the second place as well."""
        if self.prepares or self.clones:
            return frozenset((self.lock,))
        return frozenset((None, Lock.NONE, Lock.HEADER_AND_HOLD))

    @property
    def object_sizes(self) -> tuple[int, ...]:
        """Return the object sizes of a set, ascending."""
        return tuple(sorted(set(self.size_cycle[: self.objects])))

    def size_of(self, index: int) -> int:
        """Return the size in bytes of an object, by its position in the set."""
        return self.size_cycle[index % len(self.size_cycle)]

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return the parts that must be prepared for it."""
        return ("locked",) if self.clones else ("held", "locked")

    def places(self, part: Part | Literal["", "unlocked"]) -> range:
        """Return the positions in the set of the objects of a part.

        For a migration, held objects come first, then locked objects, then the others. For a clone, all objects are
        locked.
        """
        if self.clones:
            return range(self.objects if part == "locked" else 0)
        third = self.objects // 3
        edges = {"held": (0, third), "locked": (third, 2 * third), "unlocked": (2 * third, self.objects)}
        return range(*edges[part])

    @property
    def upgrades(self) -> int:
        """Return the number of a clone's objects that get a new version."""
        return math.ceil(self.upgrade_share * self.objects) if self.clones else 0

    @property
    def archived_own_max(self) -> tuple[int, int]:
        """Upper bound of (objects, bytes) that it archives in the run's own place.

        These are clones and their upgrades, or the unlocked objects of a migration.
        """
        if self.prepares:
            return self._of(self.places(self.prepares))
        if self.clones:
            return self._times(self._of(range(self.objects)), self._of(range(self.upgrades)))
        return self._times(self._of(self.places("unlocked")))

    @property
    def archived_second_max(self) -> tuple[int, int]:
        """Upper bound of (objects, bytes) that it copies to a second place."""
        if self.prepares or self.clones:
            return 0, 0
        return self._times(self._of(range(self.objects)))

    @property
    def archived_anywhere_max(self) -> Archived:
        """Upper bound of its archived objects and bytes in both places."""
        own, second = self.archived_own_max, self.archived_second_max
        return Archived(own[0] + second[0], own[1] + second[1])

    @property
    def operation_label(self) -> str:
        return "archive" if self.prepares else "mixed"

    @property
    def archives(self) -> bool:
        return True

    @property
    def operations_of_phase(self) -> frozenset[str]:
        return self.does if self.prepares else frozenset()

    @property
    def traits(self) -> frozenset[Trait]:
        return frozenset(("infrastructure",))

    @property
    def seconds_max(self) -> float:
        return PHASE_SECONDS_MAX if self.prepares else self.seconds

    @property
    def expected_seconds(self) -> float | None:
        return None if self.prepares else self.seconds

    @property
    def has_time_limit(self) -> bool:
        return not self.prepares

    def archived_max(self, clients: int, objects_per_session: int) -> Archived:
        return self.archived_anywhere_max

    @property
    def own_numbers(self) -> int:
        """Upper bound of new object numbers in the run's own place."""
        if self.prepares:
            return len(self.places(self.prepares))
        of_one = self.objects if self.clones else len(self.places("unlocked"))
        return self.instances_max * of_one

    @property
    def second_numbers(self) -> int:
        """Upper bound of new object numbers in a second place."""
        return self.archived_second_max[0]

    @property
    def set_bytes(self) -> int:
        """Return the bytes of a whole set."""
        return self._of(range(self.objects))[1]

    def preparing(self, part: Part) -> Infrastructure:
        """Return the work that archives this part of the set."""
        return replace(self, prepares=part)

    def lasting(self, seconds: float) -> Infrastructure:
        """Return this work with the duration of the traces."""
        if self.has_own_seconds:
            return self
        longer = replace(self, seconds=seconds)
        return longer if self.has_own_instances else replace(longer, instances_max=_instances(longer))

    def _of(self, places: range) -> tuple[int, int]:
        """Return objects and bytes of these positions of the set."""
        return len(places), self._first_bytes(places.stop) - self._first_bytes(places.start)

    def _first_bytes(self, objects: int) -> int:
        rounds, rest = divmod(objects, len(self.size_cycle))
        return rounds * sum(self.size_cycle) + sum(self.size_cycle[:rest])

    def _times(self, *each: tuple[int, int]) -> tuple[int, int]:
        """Return the sum of these (objects, bytes), multiplied by the maximum number of instances."""
        return (
            self.instances_max * sum(objects for objects, _ in each),
            self.instances_max * sum(size_bytes for _, size_bytes in each),
        )


def infrastructure(table: InfrastructureTable, key: str, capacity_scale: float, seconds: float) -> Infrastructure:
    """Return the work that a file requests, with its set scaled by ``capacity_scale``.

    ``seconds`` is the duration of the phase's traces. Raises ScenarioError, ``key`` in front, for inconsistent values.
    """
    check_ranges(table, key)
    try:
        sizes = sizes_of(table.sizes)
    except ValueError as wrong:
        raise ScenarioError(f"{key}: {wrong}") from wrong
    if sizes.classes[0][0] < 1 or sizes.largest > OBJECT_BYTES_MAX:
        raise ScenarioError(f"{key}: sizes: an object must have 1 byte to 64MiB")
    objects, size_cycle = _set_of(sizes, math.ceil(table.capacity * capacity_scale), _FEWEST[table.kind])
    if objects > OBJECTS_MAX:
        raise ScenarioError(
            f"{key}: {objects:,} objects are too many for one set; write larger sizes, or a lower capacity"
        )
    seconds_max = float(table.seconds) if table.seconds is not None else seconds
    made = Infrastructure(
        table.kind, table.minimum_per_hour, seconds_max, objects, size_cycle, int(table.capacity), capacity_scale,
        table.upgrade_share, table.clients, table.instances_max or 1,
        every_seconds=float(table.every or 0.0), has_own_seconds=table.seconds is not None,
        has_own_instances=table.instances_max is not None,
    )  # fmt: skip
    return made if made.has_own_instances else replace(made, instances_max=_instances(made))


def _set_of(sizes: Sizes, size_bytes: int, fewest: int) -> tuple[int, tuple[int, ...]]:
    """Return the number of objects with at least this total size, and their sizes in cyclic order.

    The sizes are shuffled, so that any part has some of each.
    """
    size_cycle = sizes.shuffle_items()
    random.Random(0).shuffle(size_cycle)
    rounds, rest = divmod(size_bytes, sum(size_cycle))
    objects = rounds * len(size_cycle)
    while rest > 0:
        rest -= size_cycle[objects % len(size_cycle)]
        objects += 1
    return max(objects, fewest), tuple(size_cycle)


def _instances(one: Infrastructure) -> int:
    """Return the maximum number of instances.

    With a fixed interval, this is the number that fits into the time. Otherwise it is twice the requested number, or
    more if the instances are small.
    """
    if one.every_seconds:
        return min(INSTANCES_MAX, math.ceil(one.seconds / one.every_seconds))
    seconds_max = math.ceil(2 * one.minimum_per_hour * one.seconds / 3600)
    of_one = replace(one, instances_max=1).archived_anywhere_max.bytes
    return max(seconds_max, min(INSTANCES_MAX, SMALL_BYTES // of_one), 1)
