"""Test the data set of one worker: no object is read while it changes, and keys follow their distribution."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from archiver.engine.work.mixed.data_set import Choice, DataSet, EachOnce, Sequential, Uniform, Zipf, choose_free
from tests.archiver.engine.work.mixed.members_of import members
from tests.support.examples import share_of


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


class Traffic(RuleBasedStateMachine):
    """Start and end reads and changes of one data set in any order, and compare with a model."""

    reading: Bundle[int] = Bundle("reading")
    changing: Bundle[tuple[int, str]] = Bundle("changing")

    def __init__(self) -> None:
        super().__init__()
        self.data = DataSet(members(12, expired=4, locked=6, held=2, sizes=(512, 8192, 9000)), is_changed=True)
        self.sizes = {100 + place: (512, 8192, 9000)[place % 3] for place in range(12)}
        self.readers = Counter[int]()
        self.being_changed = set[int]()
        self.expired = {100, 101, 102, 103}
        self.locked = {106, 107, 108, 109}
        self.held = {110, 111}
        self.event_held = set[int]()
        self.gone = set[int]()
        self.next = 200

    @initialize(seed=st.integers(0, 1000))
    def choose(self, seed: int) -> None:
        self.choice = Uniform(self.data, generator(seed))

    def take(self, number: int, size_bytes: int) -> None:
        """Check that an object was assigned exclusively."""
        assert number in self.sizes, f"{number} is gone, or was never there"
        assert not self.readers[number], f"{number} is being read"
        assert number not in self.being_changed
        assert size_bytes == self.sizes[number]
        self.being_changed.add(number)
        self.held.discard(number)
        self.event_held.discard(number)

    @rule(target=reading)
    @precondition(lambda self: len(self.data) > 0)
    def read(self) -> int:
        place = self.choice.place()
        assert place is not None
        number, size_bytes = int(self.data.numbers[place]), self.data.sizes[place]
        assert number in self.sizes
        assert number not in self.being_changed, f"{number} is being changed"
        assert number not in self.gone
        assert size_bytes == self.sizes[number] == self.data.size_of(number)
        self.data.pin(number)
        self.readers[number] += 1
        return number

    @rule(number=consumes(reading))
    def was_read(self, number: int) -> None:
        self.data.unpin(number)
        self.readers[number] -= 1

    @rule(target=changing)
    def delete(self) -> tuple[int, str]:
        free = self._untouched(self.expired)
        expired = self.data.take_expired()
        assert (expired is None) == (not free)
        if expired is None:
            return 0, ""
        assert expired[0] in free
        self.take(*expired)
        self.expired.discard(expired[0])
        return expired[0], "delete"

    @rule(target=changing, operation=st.sampled_from(["hide", "replace", "extend"]))
    def change(self, operation: str) -> tuple[int, str]:
        number = choose_free(self.data, (self.choice.place() for _ in range(8)))
        if number is None:
            return 0, ""
        assert number not in self.expired, "what has expired is there to be deleted"
        self.take(number, self.data.size_of(number))
        self.data.take(number)
        return number, operation

    @rule(target=changing)
    def release(self) -> tuple[int, str]:
        return self._taken(self.data.held(), self._unread(self.held), "release")

    @rule(target=changing)
    def hold(self) -> tuple[int, str]:
        number = next((n for n in list(self.data.numbers) if self.data.is_locked(n)), None)
        return self._taken(number, self._untouched(self.locked), "hold")

    @rule(target=changing)
    def event_hold(self) -> tuple[int, str]:
        number = next((n for n in list(self.data.numbers) if self.data.takes_event_hold(n)), None)
        return self._taken(number, self._untouched(self.locked), "event-hold")

    @rule(target=changing)
    def event_release(self) -> tuple[int, str]:
        return self._taken(self.data.event_held(), self._unread(self.event_held), "event-release")

    def _unread(self, numbers: set[int]) -> set[int]:
        return {n for n in numbers if not self.readers[n]}

    def _untouched(self, numbers: set[int]) -> set[int]:
        return {n for n in self._unread(numbers) if n not in self.being_changed and n not in self.gone}

    def _taken(self, number: int | None, free: set[int], operation: str) -> tuple[int, str]:
        """Check that an object is found if one is free, and assign it to the operation."""
        assert (number is None) == (not free)
        if number is None:
            return 0, ""
        assert number in free
        self.take(number, self.data.size_of(number))
        self.data.take(number)
        return number, operation

    @rule(change=consumes(changing))
    def was_changed(self, change: tuple[int, str]) -> None:
        number, operation = change
        if not number:
            return
        self.being_changed.discard(number)
        if operation in ("delete", "hide"):
            self.gone.add(number)
            return
        self.data.add(number, self.sizes[number])
        if operation == "hold":
            self.data.hold(number)
            self.locked.discard(number)
            self.held.add(number)
        elif operation == "event-hold":
            self.data.event_hold(number)
            self.locked.discard(number)
            self.event_held.add(number)

    @rule(size_bytes=st.sampled_from([512, 70_000]))
    def archive(self, size_bytes: int) -> None:
        self.next += 1
        self.sizes[self.next] = size_bytes
        self.data.add(self.next, size_bytes)

    @invariant()
    def there_is_what_the_model_has(self) -> None:
        there = dict(zip(self.data.numbers, self.data.sizes, strict=True))
        assert len(self.data) == len(there)  # no duplicates
        assert there == {
            number: size_bytes
            for number, size_bytes in self.sizes.items()
            if number not in self.gone and number not in self.being_changed
        }


Traffic.TestCase.settings = settings(max_examples=share_of(60), stateful_step_count=30)
TestTraffic = Traffic.TestCase


@given(st.integers(0, 40), st.lists(st.integers(0, 39), max_size=20, unique=True), st.integers(0, 9))
def test_each_once_reads_every_object_once_except_removed_ones(count: int, taken: list[int], after: int) -> None:
    data = DataSet(members(count), is_changed=True)
    choice, seen = EachOnce(data, generator()), list[int]()
    gone = [100 + place for place in taken if place < count]

    def read(most: int) -> None:
        for _ in range(most):
            place = choice.place()
            if place is None:
                return
            seen.append(data.numbers[place])

    read(after)
    unread = [number for number in gone if number not in seen]
    for number in gone:
        data.take(number)
    read(count + 1)
    assert sorted(seen) == sorted(set(range(100, 100 + count)) - set(unread))
    assert choice.place() is None


def test_workers_sharing_a_data_set_read_each_object_once_in_total() -> None:
    read = list[int]()
    for part in range(3):
        data = DataSet(members(100), is_changed=False)
        data.add(1000 + part, 512)  # only this worker knows its own archives
        choice = EachOnce(data, generator(part), part, 3)
        while (place := choice.place()) is not None:
            read.append(data.numbers[place])
    assert sorted(read) == [*range(100, 200), 1000, 1001, 1002]


def test_each_once_reads_in_random_order() -> None:
    data = DataSet(members(200), is_changed=False)
    choice = EachOnce(data, generator())
    order = [choice.place() for _ in range(200)]
    assert order != sorted(order, key=lambda place: place or 0)
    assert np.count_nonzero(np.diff(np.array(order, dtype=float)) == 1) < 10


def drawn(choice: Uniform | Zipf, count: int) -> Counter[int]:
    return Counter(place for _ in range(count) if (place := choice.place()) is not None)


def test_uniform_keys_select_every_object_equally_often() -> None:
    data = DataSet(members(50), is_changed=False)
    counts = drawn(Uniform(data, generator()), 50_000)
    assert sorted(counts) == list(range(50))
    chi_squared = sum((count - 1000) ** 2 / 1000 for count in counts.values())
    assert chi_squared < 85.4  # 49 degrees of freedom: exceeded for one seed in 1,000


@pytest.mark.parametrize("exponent", [0.5, 0.99, 2.0])
def test_zipf_keys_select_rank_r_in_proportion_to_its_power(exponent: float) -> None:
    data = DataSet(members(40), is_changed=False)
    counts = [count for _, count in drawn(Zipf(data, generator(), exponent), 100_000).most_common()]
    weights = np.arange(1, 41, dtype=float) ** -exponent
    expected = 100_000 * weights / weights.sum()
    # High ranks have nearly equal counts, so they are compared in groups of ten.
    for first in (0, 1, 2, 10, 20, 30):
        last = first + (1 if first < 3 else 10)
        assert sum(counts[first:last]) == pytest.approx(expected[first:last].sum(), rel=0.06)


def test_most_popular_zipf_key_depends_on_the_seed() -> None:
    data = DataSet(members(1000), is_changed=False)
    favourites = [drawn(Zipf(data, generator(seed), 1.2), 5000).most_common(1)[0][0] for seed in range(1, 7)]
    assert len(set(favourites)) > 3
    assert favourites[0] == drawn(Zipf(data, generator(1), 1.2), 5000).most_common(1)[0][0]


def test_sequential_keys_wrap_around_from_their_start_place() -> None:
    data = DataSet(members(10), is_changed=False)
    choices = [Sequential(data, 0.0), Sequential(data, 0.5)]
    assert [[choice.place() for _ in range(12)] for choice in choices] == [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1],
        [5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6],
    ]


def test_key_choice_from_empty_data_set_returns_none() -> None:
    data = DataSet(members(0), is_changed=True)
    choices: tuple[Choice, ...] = (
        Uniform(data, generator()), Zipf(data, generator(), 1.0), Sequential(data, 0.5), EachOnce(data, generator()),
    )  # fmt: skip
    for choice in choices:
        assert choice.place() is None
    assert data.take_expired() is None
    assert data.held() is None


@pytest.mark.parametrize("kind", ["uniform", "zipf", "sequential"])
def test_key_choice_stays_within_a_shrinking_data_set(kind: str) -> None:
    data = DataSet(members(30), is_changed=True)
    choices: dict[str, Choice] = {
        "uniform": Uniform(data, generator()),
        "zipf": Zipf(data, generator(), 0.99),
        "sequential": Sequential(data, 0.9),
    }
    for number in range(100, 130):
        place = choices[kind].place()
        assert place is not None
        assert place < len(data)
        data.take(number)
    assert choices[kind].place() is None
