"""Objects of one data set that one worker may request, and the choice of the next one.

One idea: mutable data sets are partitioned, so each object has one writer. An object that is being read is not deleted
or replaced until the read has ended. An object that is deleted, hidden or being replaced is not requested. No measured
absence is then caused by the client itself.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Protocol

import numpy as np
from numpy.random import Generator

from archiver.engine.numbers import Members

TRIES = 16  # random tries to find an object for which an operation makes sense
_DRAWS = 4096


class DataSet:
    """The existing objects, by position in a list.

    Only a set that ``is_changed`` records the readers of its objects.
    """

    def __init__(self, members: Members, *, is_changed: bool) -> None:
        self.numbers = array("q", members.numbers.tolist())
        self.sizes = array("q", members.sizes.tolist())
        self.versions = dict(members.versions)
        self.is_changed = is_changed
        self._places: dict[int, int] = {}
        self._locked: set[int] = set()
        self._expired: list[int] = []
        self._held: dict[int, None] = {}  # in the order of their holds
        self._event_held: dict[int, None] = {}  # in the order of their event holds
        if is_changed:
            self._places = {number: place for place, number in enumerate(self.numbers)}
            self._locked = set(members.numbers[members.locked & ~members.held & ~members.event_held].tolist())
            self._expired = members.numbers[members.expired].tolist()
            self._held = dict.fromkeys(members.numbers[members.held].tolist())
            self._event_held = dict.fromkeys(members.numbers[members.event_held].tolist())
        self._never_read = frozenset(self._expired)
        self._readers = Counter[int]()
        self.at_first = len(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    def place_of(self, number: int) -> int | None:
        """Return the position of an object; None if it does not exist. Only for a set that ``is_changed``."""
        return self._places.get(number)

    def size_of(self, number: int) -> int:
        size_bytes: int = self.sizes[self._places[number]]
        return size_bytes

    def pin(self, number: int) -> None:
        """Record a reader of this object."""
        self._readers[number] += 1

    def unpin(self, number: int) -> None:
        if self._readers[number] > 1:
            self._readers[number] -= 1
        else:
            del self._readers[number]

    def is_free(self, number: int) -> bool:
        """Return whether the object exists and has no reader."""
        return number in self._places and number not in self._readers

    def is_locked(self, number: int) -> bool:
        """Return whether the object stays locked for the longest duration of the phase, and has no reader or writer."""
        return number in self._locked and self.is_free(number)

    def add(self, number: int, size_bytes: int) -> None:
        """Add an object that was archived, or exists again."""
        if self.is_changed:
            self._places[number] = len(self.numbers)
        self.numbers.append(number)
        self.sizes.append(size_bytes)

    def take(self, number: int) -> None:
        """Remove an object, so that it is not requested by other sessions. Its holds are no longer recorded."""
        self._held.pop(number, None)
        self._event_held.pop(number, None)
        place = self._places.pop(number)
        last_number, last_size = self.numbers.pop(), self.sizes.pop()
        if place < len(self.numbers):
            self.numbers[place], self.sizes[place] = last_number, last_size
            self._places[last_number] = place

    def takes_event_hold(self, number: int) -> bool:
        """Return whether the object is locked as archived, in its first version, and has no reader or writer."""
        return self.is_locked(number) and number not in self.versions

    def hold(self, number: int) -> None:
        """Record a legal hold on this object."""
        self._locked.discard(number)
        self._held[number] = None

    def event_hold(self, number: int) -> None:
        """Record an event hold on this object."""
        self._locked.discard(number)
        self._event_held[number] = None

    def held(self) -> int | None:
        """Return an object under a legal hold without reader or writer; None if none was found in TRIES tries."""
        return self._free_of(self._held)

    def event_held(self) -> int | None:
        """Return an object under an event hold without reader or writer; None if none was found in TRIES tries."""
        return self._free_of(self._event_held)

    def _free_of(self, held: dict[int, None]) -> int | None:
        return next((number for number in islice(reversed(held), TRIES) if self.is_free(number)), None)

    def take_expired(self) -> tuple[int, int] | None:
        """Return number and size of an object with an expired lock, and remove it from the set.

        Returns None if none was found in TRIES tries.
        """
        for place in range(len(self._expired) - 1, max(-1, len(self._expired) - 1 - TRIES), -1):
            number = self._expired[place]
            if self.is_free(number):
                del self._expired[place]
                size_bytes = self.size_of(number)
                self.take(number)
                return number, size_bytes
        return None

    def expires(self, number: int) -> bool:
        """Return whether the object's lock had expired when the phase began."""
        return number in self._never_read


class Choice(Protocol):
    """A way to choose objects. Each client has its own choice, or all clients of a workload share one."""

    def place(self) -> int | None:
        """Return the position of the next object in its data set; None if none is left."""


class Uniform:
    """Every object is equally likely."""

    def __init__(self, data: DataSet, generator: Generator) -> None:
        self._data = data
        self._generator = generator
        self._draws: list[float] = []

    def place(self) -> int | None:
        if not self._draws:
            self._draws = self._generator.random(_DRAWS).tolist()
        count = len(self._data)
        return int(self._draws.pop() * count) if count else None


class Zipf:
    """The probability of the object of rank r is proportional to 1 / r^exponent. Ranks are assigned at random."""

    def __init__(self, data: DataSet, generator: Generator, exponent: float) -> None:
        self._data = data
        self._generator = generator
        self._ranked = generator.permutation(len(data))
        self._shares = np.cumsum(1 / np.arange(1, len(data) + 1) ** exponent)
        self._draws: list[int] = []

    def place(self) -> int | None:
        if not len(self._data) or not len(self._ranked):
            return None
        if not self._draws:
            at = np.searchsorted(self._shares, self._generator.random(_DRAWS) * self._shares[-1])
            self._draws = self._ranked[at].tolist()
        return self._draws.pop() % len(self._data)


class Sequential:
    """One object after another from a start position, and from the first one again after the last."""

    def __init__(self, data: DataSet, begin: float) -> None:
        """Start at ``begin``, a fraction (0-1) of the data set."""
        self._data = data
        self._next = int(begin * len(data))

    def place(self) -> int | None:
        if not len(self._data):
            return None
        place = self._next % len(self._data)
        self._next = place + 1
        return place


class EachOnce:
    """Every object that exists at the first request, once, in random order. Removed objects are skipped.

    If other workers read the same objects, each worker takes a part of them: every ``parts``-th object from ``part``
    on.
    """

    def __init__(self, data: DataSet, generator: Generator, part: int = 0, parts: int = 1) -> None:
        self._data = data
        self._generator = generator
        self._part = part
        self._parts = parts
        self._left: list[int] | None = None

    def place(self) -> int | None:
        data = self._data
        if self._left is None:
            at_first = min(data.at_first, len(data))
            shared = np.arange(self._part, at_first, self._parts)
            own = np.arange(at_first, len(data))  # archived by this worker alone
            places = self._generator.permutation(np.concatenate([shared, own])).tolist()
            self._left = [data.numbers[place] for place in places] if data.is_changed else places
        while self._left:
            place = data.place_of(self._left.pop()) if data.is_changed else self._left.pop()
            if place is not None:
                return place
        return None


def choose_free(data: DataSet, candidates: Iterable[int | None]) -> int | None:
    """Return the first object at these positions that has no reader and no writer."""
    for place in candidates:
        if place is None:
            return None
        number: int = data.numbers[place]
        if data.is_free(number) and not data.expires(number):
            return number
    return None
