"""Object numbers of a run: numbers for new objects, and numbers of existing objects by size and lock.

One idea: an operation draws only from objects for which it makes sense. No measured refusal, expiry or absence is then
caused by the client itself. For example, deletions that must be refused target objects that stay locked for longer than
the phase takes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from archiver.values.retention import DateMaker
from scenarios.notation.distribution import Sizes
from scenarios.work.mix import EVENT_HOLDS

LOCKED_RESERVE_SECONDS = 10.0  # objects for refused deletions stay locked this much longer than the phase may take


class LockedTimes(NamedTuple):
    """Times of a phase, by the platform's clock.

    A lock that ends after ``ends`` refuses deletion. A lock that ended before ``begins`` has expired. A lock that ends
    before ``extended_to`` can be extended.
    """

    begins: float
    ends: float
    extended_to: float

    @classmethod
    def of_phase(cls, server_now: float, seconds_max: float, dates: DateMaker | None) -> LockedTimes:
        """Return the times of a phase that begins now, may take this long, and sets ``dates``."""
        extended_to = dates.retain_until(server_now) if dates is not None else server_now
        return cls(server_now, server_now + seconds_max + LOCKED_RESERVE_SECONDS, extended_to)


ANY_TIME = LockedTimes(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Kept:
    """Objects ``first`` to ``last`` on a platform, and the range of their retain-until dates (epoch seconds)."""

    object_bytes: int
    first: int
    last: int
    earliest: float | None = None
    latest: float | None = None
    data: str = ""  # data set of the scenario; empty for sweeps


class Members(NamedTuple):
    """The objects of a data set that exist and are visible, in ascending order of number.

    ``expired`` objects may be deleted. ``locked`` objects stay locked for the longest duration of the phase, by dates
    that no release of an event hold has set. ``versions`` has the content version of every object that has more than
    one.
    """

    numbers: NDArray[np.int64]
    sizes: NDArray[np.int64]
    expired: NDArray[np.bool_]
    locked: NDArray[np.bool_]
    held: NDArray[np.bool_]
    event_held: NDArray[np.bool_]
    versions: Mapping[int, int]

    def part(self, chosen: NDArray[np.bool_] | slice) -> Members:
        """Return a subset."""
        numbers = self.numbers[chosen]
        here = set(numbers.tolist()) if self.versions else set()
        versions = {number: version for number, version in self.versions.items() if number in here}
        return Members(
            numbers,
            self.sizes[chosen],
            self.expired[chosen],
            self.locked[chosen],
            self.held[chosen],
            self.event_held[chosen],
            versions,
        )


class ObjectNumbers:
    """Numbers for objects to archive, and the numbers of objects archived so far."""

    def __init__(self, seed: int, first: int = 0) -> None:
        self._seed = seed
        self._next = first
        self._blocks: dict[str, int] = {}
        self._kept: dict[int, list[Kept]] = {}
        self._held: defaultdict[int, _Numbers] = defaultdict(_Numbers)
        self._event_held: defaultdict[int, _Numbers] = defaultdict(_Numbers)
        self._event_dated: defaultdict[int, _Numbers] = defaultdict(_Numbers)  # their dates depend on an event hold
        self._extended: defaultdict[int, _Numbers] = defaultdict(_Numbers)  # objects with extended dates
        self._deleted: defaultdict[int, _Numbers] = defaultdict(_Numbers)
        self._versions: dict[int, int] = {}  # of objects with more than one version

    @property
    def next(self) -> int:
        """Return the lowest number above all object numbers."""
        return self._next

    def seed_of(self, *what: int) -> int:
        """Return a reproducible seed for one random draw of this run."""
        return int(SeedSequence([self._seed, *what]).generate_state(1, np.uint64)[0])

    def fresh(self, count: int) -> tuple[int, int]:
        """Return ``count`` unused numbers, as (first, last + 1)."""
        first = self._next
        self._next += count
        return first, self._next

    def block(self, name: str, count: int) -> tuple[int, bool]:
        """Return the first of ``count`` numbers that belong to ``name``, and whether this call took them."""
        is_new = name not in self._blocks
        if is_new:
            self._blocks[name] = self.fresh(count)[0]
        return self._blocks[name], is_new

    def keep(self, kept: Kept, *, held: bool = False, event_held: bool = False) -> None:
        """Record objects as archived. ``held``: under a legal hold."""
        self._kept.setdefault(kept.object_bytes, []).append(kept)
        if held:
            self.change("hold", kept.object_bytes, kept.first, kept.last)
        if event_held:
            self.change("event-hold", kept.object_bytes, kept.first, kept.last)

    def change(self, operation: str, object_bytes: int, first: int, last: int) -> None:
        """Record objects as extended, held, released or deleted."""
        if operation in ("hold", "release"):
            self._held[object_bytes].change(first, last, join=operation == "hold")
        elif operation in EVENT_HOLDS:
            self._event_held[object_bytes].change(first, last, join=operation == "event-hold")
            self._event_dated[object_bytes].change(first, last, join=True)
        elif operation == "extend":
            self._extended[object_bytes].change(first, last, join=True)
        elif operation in ("delete", "delete-marker"):
            self._deleted[object_bytes].change(first, last, join=True)
        elif operation == "new-version":
            for number in range(first, last + 1):
                self._versions[number] = self._versions.get(number, 1) + 1

    def members(self, data: str, times: LockedTimes = ANY_TIME) -> Members:
        """Return the data set called ``data``."""
        kept = sorted((k for each in self._kept.values() for k in each if k.data == data), key=lambda k: k.first)
        counts = [k.last - k.first + 1 for k in kept]
        numbers = _all([(k.first, k.last) for k in kept])
        sizes = np.repeat(np.array([k.object_bytes for k in kept], dtype=np.int64), counts)
        expired = np.repeat(np.array([_fits(k, "delete", times) for k in kept], dtype=np.bool_), counts)
        locked = np.repeat(np.array([_fits(k, "refused-delete", times) for k in kept], dtype=np.bool_), counts)
        held = np.isin(numbers, self._union(self._held))
        event_held = np.isin(numbers, self._union(self._event_held))
        event_dated = np.isin(numbers, self._union(self._event_dated))
        extended = np.isin(numbers, self._union(self._extended))
        # A replaced object has a later lock of its own, which is not recorded here.
        replaced = np.isin(numbers, np.array(sorted(self._versions), dtype=np.int64))
        members = Members(
            numbers,
            sizes,
            expired & ~held & ~event_dated & ~extended & ~replaced,
            locked & (event_held | ~event_dated),
            held,
            event_held & ~replaced,  # requests for an object concern its latest version
            self._versions,
        )
        return members.part(~np.isin(numbers, self._union(self._deleted)))

    def counts(self) -> dict[str, int]:
        """Return the number of existing and visible objects of each data set."""
        names = {kept.data for each in self._kept.values() for kept in each} - {""}
        return {name: len(self.members(name).numbers) for name in names}

    def new_objects(self, sizes: Sizes, count: int, position: int, workload: int) -> tuple[NDArray[np.int64], ...]:
        """Return numbers and sizes of ``count`` new objects, in the order of archiving.

        A weighted shuffle orders the sizes by their shares; the seed and the phase's position determine it. Objects of
        one size have adjacent numbers.
        """
        items = np.array(sizes.shuffle_items(), dtype=np.int64)
        generator = Generator(PCG64([self._seed, position, workload]))
        rounds = np.tile(items, (-(-count // len(items)), 1))
        shuffled = generator.permuted(rounds, axis=1).ravel()[:count]
        numbers = np.empty(count, dtype=np.int64)
        for size, _ in sizes.classes:
            here = np.flatnonzero(shuffled == size)
            first, last = self.fresh(len(here))
            numbers[here] = np.arange(first, last)
        return numbers, shuffled

    @staticmethod
    def _union(by_size: Mapping[int, _Numbers]) -> NDArray[np.int64]:
        return np.concatenate([np.empty(0, dtype=np.int64), *(each.all() for each in by_size.values())])

    def sample(
        self,
        object_bytes: int,
        count: int,
        position: int,
        operation: str = "retrieve",
        times: LockedTimes = ANY_TIME,
    ) -> NDArray[np.int64]:
        """Return up to ``count`` distinct objects of one size for which ``operation`` makes sense, in random order.

        The seed and ``position`` (the position of the phase) determine the order.
        """
        generator = Generator(PCG64([self._seed, position]))
        held, event_held = self._held[object_bytes].all(), self._event_held[object_bytes].all()
        ranges = [(k.first, k.last) for k in self._kept.get(object_bytes, []) if _fits(k, operation, times)]
        unfit = [self._deleted[object_bytes].all()]
        if operation in ("hold", "delete"):
            unfit.append(held)
        if operation == "delete":
            unfit.append(self._extended[object_bytes].all())
        if operation in ("delete", "extend", "event-hold"):
            unfit.append(self._event_dated[object_bytes].all())
        released_by = {"release": held, "event-release": event_held}
        if operation in released_by or any(map(len, unfit)):
            fit = _without(released_by[operation] if operation in released_by else _all(ranges), np.concatenate(unfit))
            return fit[generator.permutation(len(fit))[:count]]
        if not ranges:
            return np.empty(0, dtype=np.int64)
        # While no number is excluded, a few ranges represent all numbers.
        firsts = np.array([first for first, _ in ranges], dtype=np.int64)
        sizes = np.array([last - first + 1 for first, last in ranges], dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        chosen = generator.permutation(int(sizes.sum()))[:count]
        which = np.searchsorted(starts, chosen, side="right") - 1
        return firsts[which] + (chosen - starts[which])


class _Numbers:
    """A set of numbers with batched additions and removals, up to a hundred thousand at a time.

    The last change of a number decides.
    """

    def __init__(self) -> None:
        self._numbers = np.empty(0, dtype=np.int64)
        self._changes: list[tuple[bool, int, int]] = []  # pending changes: join, first, last

    def change(self, first: int, last: int, *, join: bool) -> None:
        self._changes.append((join, first, last))

    def all(self) -> NDArray[np.int64]:
        """Return all current numbers in ascending order, each once."""
        for join, changes in groupby(self._changes, key=itemgetter(0)):
            changed = _all([(first, last) for _, first, last in changes])
            self._numbers = np.union1d(self._numbers, changed) if join else _without(self._numbers, changed)
        self._changes.clear()
        return self._numbers


def _fits(kept: Kept, operation: str, times: LockedTimes) -> bool:
    """Return whether an operation makes sense on objects with these dates."""
    if operation == "delete":
        return kept.latest is not None and kept.latest < times.begins
    if operation == "query":
        return kept.earliest is not None
    if operation in ("refused-delete", "event-hold"):
        return kept.earliest is not None and kept.earliest > times.ends
    if operation == "hold":  # objects that expire soon are reserved for deletion
        return kept.earliest is None or kept.earliest > times.ends
    if operation == "extend":
        return (
            kept.earliest is not None
            and kept.latest is not None
            and times.ends < kept.earliest
            and (kept.latest < times.extended_to)
        )
    return True


def _all(ranges: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Return every number of these ranges in ascending order, each once."""
    if not ranges:
        return np.empty(0, dtype=np.int64)
    return np.unique(np.concatenate([np.arange(first, last + 1, dtype=np.int64) for first, last in ranges]))


def _without(numbers: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.setdiff1d(numbers, others)
