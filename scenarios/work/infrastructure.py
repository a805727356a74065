"""Infrastructure operations: what goes on beside applications, on whole sets of objects, again and again.

One idea: a set is so many objects of these sizes, in an order that follows from their count alone, so that everybody
who knows its first number knows all of it. One instance works on one set; how many instances there can be is bounded
before anything runs, like everything else.

Clone and deploy: every object of a golden set is copied on the platform, the copies are read back, a part of them gets
its upgrade as a new version, and the clone is removed. Storage migration: a third of the set is held and locked, a
third is locked, a third is neither; all are copied to a second place with lock and hold, audited there, and what is not
locked is removed where it came from.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from archiver.values.errors import ScenarioError
from archiver.values.retention import PHASE_SECONDS_MAX, Lock
from scenarios.notation.distribution import Sizes
from scenarios.notation.sizes import SizesTable, sizes_of
from scenarios.notation.units import Seconds, SizeBytes
from scenarios.work.base import Archived, Trait, Work
from scenarios.work.mix import MAKES_OBJECTS

Kind = Literal["clone and deploy", "storage migration"]
Part = Literal["locked", "held"]  # of what is prepared: locked as the run says, and locked with a legal hold

OBJECTS_MAX = 1_000_000  # of a set
OBJECT_BYTES_MAX = 64 << 20
CLIENTS_MAX = 64
INSTANCES_MAX = 1000
SMALL_BYTES = 2_000_000_000  # so much may be archived by instances beyond those that are asked for
_FEWEST: dict[Kind, int] = {"clone and deploy": 2, "storage migration": 3}


class InfrastructureTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    kind: Kind
    capacity: SizeBytes  # of one set
    sizes: SizesTable | str | int = "1MiB"
    minimum_per_hour: float
    upgrade_share: float = 0.1  # of a clone's objects, that get a new version
    clients: int = 4
    every: Seconds | None = None  # from the beginning of one instance to that of the next; None: when it is done
    instances_max: int | None = None
    seconds: Seconds | None = None  # in which instances are begun; None: as long as the traces take
    quick: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Infrastructure(Work):
    """One kind of infrastructure operation, or the preparation for it."""

    kind: Kind
    minimum_per_hour: float
    seconds: float  # in which instances are begun, one after another
    objects: int  # of one set
    cards: tuple[int, ...]  # sizes of its objects, in turn
    capacity_bytes: int  # of a set in full
    capacity_scale: float
    upgrade_share: float
    clients: int
    instances_max: int
    every_seconds: float = 0.0  # from one instance's beginning to the next one's at least
    prepares: Part | Literal[""] = ""  # only archive this part of the set
    has_own_seconds: bool = False  # the file says how long, whatever the traces take
    has_own_instances: bool = False  # and how many at most

    @property
    def does(self) -> frozenset[str]:
        """Labels of the operations that it carries out."""
        if self.prepares:
            return frozenset(("archive",))
        if self.kind == "clone and deploy":
            return frozenset(("copy", "retrieve", "new-version", "delete"))
        return frozenset(("archive", "copy", "audit", "delete"))

    @property
    def lock(self) -> Lock | None:
        """How what it archives in the run's own place comes by its lock; None: as the run says."""
        if self.prepares:
            return Lock.HEADER_AND_HOLD if self.prepares == "held" else None
        return Lock.NONE

    def locks_with(self, lock: Lock | None) -> frozenset[Lock | None]:
        """How its objects get their locks, in the second place as well."""
        if self.prepares or self.kind == "clone and deploy":
            return frozenset((self.lock,))
        return frozenset((None, Lock.NONE, Lock.HEADER_AND_HOLD))

    @property
    def object_sizes(self) -> tuple[int, ...]:
        """Of a set's objects; rising."""
        return tuple(sorted(set(self.cards[: self.objects])))

    def size_of(self, index: int) -> int:
        """Bytes of an object, by its place in the set."""
        return self.cards[index % len(self.cards)]

    @property
    def parts(self) -> tuple[Part, ...]:
        """What must be prepared for it."""
        return ("locked",) if self.kind == "clone and deploy" else ("held", "locked")

    def places(self, part: Part | Literal["", "unlocked"]) -> range:
        """Places in the set of the objects of a part: of a migration first those held, then those locked, then those
        neither; of a clone all are locked."""
        if self.kind == "clone and deploy":
            return range(self.objects if part == "locked" else 0)
        third = self.objects // 3
        edges = {"held": (0, third), "locked": (third, 2 * third), "unlocked": (2 * third, self.objects)}
        return range(*edges[part])

    @property
    def upgrades(self) -> int:
        """Objects of a clone that get a new version."""
        return math.ceil(self.upgrade_share * self.objects) if self.kind == "clone and deploy" else 0

    @property
    def archived_here_max(self) -> tuple[int, int]:
        """(objects, bytes) that it archives at most in the run's own place: clones and their upgrades; of a migration
        those that are not locked."""
        if self.prepares:
            return self._of(self.places(self.prepares))
        if self.kind == "clone and deploy":
            return self._times(self._of(range(self.objects)), self._of(range(self.upgrades)))
        return self._times(self._of(self.places("unlocked")))

    @property
    def archived_there_max(self) -> tuple[int, int]:
        """(objects, bytes) that it copies at most to a second place."""
        if self.prepares or self.kind == "clone and deploy":
            return 0, 0
        return self._times(self._of(range(self.objects)))

    @property
    def archived_anywhere_max(self) -> Archived:
        """What it archives at most, in both places."""
        here, there = self.archived_here_max, self.archived_there_max
        return Archived(here[0] + there[0], here[1] + there[1])

    @property
    def operation_label(self) -> str:
        return "archive" if self.prepares else "mixed"

    @property
    def archives(self) -> bool:
        return bool(self.does & (MAKES_OBJECTS | {"new-version"}))

    @property
    def operations_of_phase(self) -> frozenset[str]:
        return self.does if self.prepares else frozenset()

    @property
    def traits(self) -> frozenset[Trait]:
        return frozenset(("infrastructure",))

    @property
    def seconds_max(self) -> float:
        return PHASE_SECONDS_MAX if self.prepares else self.seconds

    def archived_max(self, clients: int, objects_per_session: int) -> Archived:
        return self.archived_anywhere_max

    @property
    def numbers_here(self) -> int:
        """New object numbers that it may need in the run's own place."""
        if self.prepares:
            return len(self.places(self.prepares))
        of_one = self.objects if self.kind == "clone and deploy" else len(self.places("unlocked"))
        return self.instances_max * of_one

    @property
    def numbers_there(self) -> int:
        """New object numbers that it may need in a second place."""
        return self.archived_there_max[0]

    @property
    def set_bytes(self) -> int:
        """Bytes of a whole set."""
        return self._of(range(self.objects))[1]

    def preparing(self, part: Part) -> Infrastructure:
        """What archives this part of the set."""
        return replace(self, prepares=part)

    def lasting(self, seconds: float) -> Infrastructure:
        """The same, once it is known that the traces take so long."""
        if self.has_own_seconds:
            return self
        longer = replace(self, seconds=seconds)
        return longer if self.has_own_instances else replace(longer, instances_max=_instances(longer))

    def _of(self, places: range) -> tuple[int, int]:
        """Objects and bytes of these places of the set."""
        return len(places), self._first_bytes(places.stop) - self._first_bytes(places.start)

    def _first_bytes(self, objects: int) -> int:
        rounds, rest = divmod(objects, len(self.cards))
        return rounds * sum(self.cards) + sum(self.cards[:rest])

    def _times(self, *each: tuple[int, int]) -> tuple[int, int]:
        """All of these, as often as there are instances at most."""
        return (
            self.instances_max * sum(objects for objects, _ in each),
            self.instances_max * sum(size_bytes for _, size_bytes in each),
        )


def infrastructure(table: InfrastructureTable, key: str, capacity_scale: float, seconds: float) -> Infrastructure:
    """What a file asks for, its set scaled down by ``capacity_scale``; ``seconds``: how long the phase's traces take.

    Raises ScenarioError, ``key`` in front, for what makes no sense.
    """
    try:
        sizes = sizes_of(table.sizes)
    except ValueError as wrong:
        raise ScenarioError(f"{key}: {wrong}") from wrong
    if sizes.classes[0][0] < 1 or sizes.largest > OBJECT_BYTES_MAX:
        raise ScenarioError(f"{key}: sizes: from 1 byte to 64MiB an object")
    if not 0 < table.minimum_per_hour <= 3600:
        raise ScenarioError(f"{key}: minimum_per_hour: {table.minimum_per_hour:g} is above 0, and at most 3600")
    if not 0 < table.upgrade_share <= 1:
        raise ScenarioError(f"{key}: upgrade_share: {table.upgrade_share:g} is no share; above 0, and at most 1")
    if not 1 <= table.clients <= CLIENTS_MAX:
        raise ScenarioError(f"{key}: clients: {table.clients} is not from 1 to {CLIENTS_MAX}")
    if table.instances_max is not None and not 1 <= table.instances_max <= INSTANCES_MAX:
        raise ScenarioError(f"{key}: instances_max: {table.instances_max} is not from 1 to {INSTANCES_MAX}")
    if table.capacity < 1:
        raise ScenarioError(f"{key}: capacity: at least 1 byte")
    objects, cards = _set_of(sizes, math.ceil(table.capacity * capacity_scale), _FEWEST[table.kind])
    if objects > OBJECTS_MAX:
        raise ScenarioError(f"{key}: {objects:,} objects are too many for one set; larger sizes, or a lower capacity")
    asked = float(table.seconds) if table.seconds is not None else seconds
    if table.every is not None and table.every <= 0:
        raise ScenarioError(f"{key}: every: above 0s; leave it out where instances are to follow each other")
    if asked <= 0:
        raise ScenarioError(f"{key}: seconds: above 0")
    made = Infrastructure(
        table.kind, table.minimum_per_hour, asked, objects, cards, int(table.capacity), capacity_scale,
        table.upgrade_share, table.clients, table.instances_max or 1,
        every_seconds=float(table.every or 0.0), has_own_seconds=table.seconds is not None,
        has_own_instances=table.instances_max is not None,
    )  # fmt: skip
    return made if made.has_own_instances else replace(made, instances_max=_instances(made))


def _set_of(sizes: Sizes, size_bytes: int, fewest: int) -> tuple[int, tuple[int, ...]]:
    """How many objects make so many bytes, and their sizes in turn: shuffled, so that any part has some of each."""
    cards = sizes.deck()
    random.Random(0).shuffle(cards)
    rounds, rest = divmod(size_bytes, sum(cards))
    objects = rounds * len(cards)
    while rest > 0:
        rest -= cards[objects % len(cards)]
        objects += 1
    return max(objects, fewest), tuple(cards)


def _instances(one: Infrastructure) -> int:
    """Those that there is time for; where they follow each other, twice what is asked for, and more where they are
    small."""
    if one.every_seconds:
        return min(INSTANCES_MAX, math.ceil(one.seconds / one.every_seconds))
    asked = math.ceil(2 * one.minimum_per_hour * one.seconds / 3600)
    of_one = replace(one, instances_max=1).archived_anywhere_max.bytes
    return max(asked, min(INSTANCES_MAX, SMALL_BYTES // of_one), 1)
