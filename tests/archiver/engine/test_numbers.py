"""Test which objects an operation gets: only suitable ones, each once."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from archiver.engine.numbers import ANY_TIME, LOCKED_RESERVE_SECONDS, Kept, LockedTimes, ObjectNumbers
from archiver.values.retention import DateMaker, Retention
from tests.support.examples import share_of

SIZES = (512, 8192)
CHANGES = ("extend", "hold", "release", "event-hold", "event-release", "delete")
OPERATIONS = ("retrieve", "query", "refused-delete", *CHANGES)
TIMES = LockedTimes(begins=1000.0, ends=1070.0, extended_to=1400.0)
ALL = 10**6
DATES: dict[str, tuple[float | None, float | None]] = {
    "none": (None, None),
    "expired": (900.0, 999.0),
    "about to expire": (1001.0, 1003.0),
    "ends midway": (1060.0, 1064.0),
    "locked": (1100.0, 1105.0),
    "for a day": (80_000.0, 80_010.0),
}


@dataclass(slots=True)
class Known:
    """One object of the model."""

    object_bytes: int
    dates: str
    is_held: bool = False
    is_event_held: bool = False
    is_event_dated: bool = False
    is_extended: bool = False
    is_deleted: bool = False

    def fits(self, operation: str) -> bool:
        """Return whether the platform carries out the operation on the object during TIMES, or refuses it if it
        should."""
        if self.is_deleted:
            return False
        dated = self.dates != "none"
        expired = self.dates == "expired" and not self.is_extended
        outlasts = self.dates in ("locked", "for a day")  # an extended object lasts even longer
        return {
            "retrieve": True,
            "query": dated,
            "refused-delete": outlasts,
            "extend": self.dates == "locked" and not self.is_event_dated,
            "hold": not self.is_held and (outlasts or not dated),
            "release": self.is_held,
            "event-hold": outlasts and not self.is_event_dated,
            "event-release": self.is_event_held,
            "delete": expired and not self.is_held and not self.is_event_dated,
        }[operation]


class Objects(RuleBasedStateMachine):
    """Archive and change objects in any order, and compare every sample with a model of single objects."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = ObjectNumbers(7)
        self.known: dict[int, Known] = {}
        self.handed_out = 0

    @rule(
        object_bytes=st.sampled_from(SIZES),
        count=st.integers(1, 9),
        good=st.integers(0, 9),
        dates=st.sampled_from(list(DATES)),
        held=st.booleans(),
        event_held=st.booleans(),
    )
    def archive(self, object_bytes: int, count: int, good: int, dates: str, held: bool, event_held: bool) -> None:
        first, end = self.numbers.fresh(count)
        assert (first, end) == (self.handed_out, self.handed_out + count)  # no number is used twice
        self.handed_out = end
        assert self.numbers.next == end
        last = first + min(good, count) - 1
        if last >= first:  # some of the numbers were archived
            self.numbers.keep(Kept(object_bytes, first, last, *DATES[dates]), held=held, event_held=event_held)
            self.known |= {
                number: Known(object_bytes, dates, held, event_held, event_held) for number in range(first, last + 1)
            }

    @rule(object_bytes=st.sampled_from(SIZES), operation=st.sampled_from(CHANGES), count=st.integers(1, 12),
          position=st.integers(1, 99))  # fmt: skip
    def change(self, object_bytes: int, operation: str, count: int, position: int) -> None:
        for number in self.numbers.sample(object_bytes, count, position, operation, TIMES).tolist():
            self.numbers.change(operation, object_bytes, number, number)
            known = self.known[number]
            known.is_held = operation == "hold" or (known.is_held and operation != "release")
            known.is_event_held = operation == "event-hold" or (known.is_event_held and operation != "event-release")
            known.is_event_dated |= operation in ("event-hold", "event-release")
            known.is_extended |= operation == "extend"
            known.is_deleted |= operation == "delete"

    @rule(object_bytes=st.sampled_from(SIZES), first=st.integers(0, 40), more=st.integers(0, 20))
    def hold_and_release_a_range(self, object_bytes: int, first: int, more: int) -> None:
        for operation in ("hold", "release"):
            self.numbers.change(operation, object_bytes, first, first + more)
        for number in range(first, first + more + 1):
            if number in self.known and self.known[number].object_bytes == object_bytes:
                self.known[number].is_held = False

    @invariant()
    def every_sample_is_what_the_model_allows(self) -> None:
        for object_bytes in SIZES:
            for operation in OPERATIONS:
                sample = self.numbers.sample(object_bytes, ALL, 3, operation, TIMES).tolist()
                allowed = [n for n, each in self.known.items() if each.object_bytes == object_bytes]
                assert sorted(sample) == [number for number in allowed if self.known[number].fits(operation)], operation


Objects.TestCase.settings = settings(max_examples=share_of(40), stateful_step_count=15)
TestObjects = Objects.TestCase


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 5)), max_size=8), st.integers(0, 60), st.integers(1, 9))
def test_sample_depends_on_seed_and_position_and_has_no_duplicates(
    ranges: list[tuple[int, int]], count: int, position: int
) -> None:
    numbers, again = ObjectNumbers(11), ObjectNumbers(11)
    for kept, lost in ranges:
        for each in (numbers, again):
            first, _ = each.fresh(kept + lost)
            each.keep(Kept(512, first, first + kept - 1))
    sample = numbers.sample(512, count, position).tolist()
    total = sum(kept for kept, _ in ranges)
    assert len(sample) == len(set(sample)) == min(count, total)
    assert sample == again.sample(512, count, position).tolist()
    assert sample == numbers.sample(512, ALL, position).tolist()[:count]


def test_sample_order_differs_between_phases() -> None:
    numbers = ObjectNumbers(1)
    numbers.keep(Kept(512, 0, 999))
    orders = [numbers.sample(512, ALL, position).tolist() for position in (1, 2)]
    assert orders[0] != orders[1]
    numbers.change("delete", 512, 5, 5)
    assert numbers.sample(512, ALL, 1).tolist() != sorted(numbers.sample(512, ALL, 1).tolist())


def test_numbers_of_resumed_run_start_at_given_first_number() -> None:
    numbers = ObjectNumbers(1, first=500)
    assert numbers.next == 500
    assert numbers.fresh(10) == (500, 510)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_sample_of_missing_objects_is_empty(operation: str) -> None:
    assert ObjectNumbers(1).sample(512, 5, 1, operation, TIMES).tolist() == []
    numbers = ObjectNumbers(1)
    numbers.keep(Kept(8192, 0, 9, *DATES["locked"]), held=True)
    assert numbers.sample(512, 5, 1, operation, TIMES).tolist() == []


def test_sample_without_times_has_all_objects_for_retrieve_only() -> None:
    numbers = ObjectNumbers(1)
    numbers.keep(Kept(512, 3, 6, *DATES["expired"]))
    assert sorted(numbers.sample(512, ALL, 1).tolist()) == [3, 4, 5, 6]
    assert numbers.sample(512, ALL, 1, "delete", ANY_TIME).tolist() == []


def test_extended_objects_have_not_expired_after_their_first_date() -> None:
    numbers = ObjectNumbers(1)
    numbers.keep(Kept(512, 0, 9, *DATES["locked"]))
    numbers.change("extend", 512, 2, 4)
    later = LockedTimes(begins=2000.0, ends=2070.0, extended_to=2400.0)
    assert sorted(numbers.sample(512, ALL, 1, "delete", later).tolist()) == [0, 1, 5, 6, 7, 8, 9]


def test_locked_times_of_phase_include_reserve_and_extension() -> None:
    dates = DateMaker(Retention(retain_for_seconds=300.0), latest=5000.0)
    assert LockedTimes.of_phase(1000.5, 5.0, dates) == (1000.5, 1005.5 + LOCKED_RESERVE_SECONDS, 1300.0)
    assert LockedTimes.of_phase(1000.5, 5.0, None).extended_to == 1000.5  # without dates nothing can be extended


def test_many_single_changes_are_recorded_fast() -> None:
    """Clients change objects in random order. With quadratic time this test would take many minutes."""
    numbers, count = ObjectNumbers(1), 50_000
    numbers.keep(Kept(512, 0, count - 1, *DATES["locked"]))
    for operation, left in (("hold", 0), ("release", 0), ("extend", count)):  # an object can be extended again
        for number in numbers.sample(512, ALL, 1, operation, TIMES).tolist():
            numbers.change(operation, 512, number, number)
        assert len(numbers.sample(512, ALL, 1, operation, TIMES)) == left


def test_data_set_tracks_objects_under_event_hold() -> None:
    numbers = ObjectNumbers(seed=1)
    numbers.keep(Kept(8192, 0, 9, *DATES["locked"], data="mail"))
    numbers.change("event-hold", 8192, 2, 7)
    numbers.change("event-release", 8192, 2, 3)
    numbers.change("new-version", 8192, 6, 6)  # the latest version is under no event hold
    there = numbers.members("mail", TIMES)
    assert there.numbers[there.event_held].tolist() == [4, 5, 7]
    assert there.numbers[there.locked].tolist() == [0, 1, 4, 5, 6, 7, 8, 9]  # the release of 2 and 3 set other dates
    later = numbers.members("mail", LockedTimes(begins=2000.0, ends=2070.0, extended_to=2400.0))
    assert later.numbers[later.expired].tolist() == [0, 1, 8, 9]


def test_replaced_objects_do_not_expire_with_their_first_version() -> None:
    numbers = ObjectNumbers(seed=1)
    numbers.keep(Kept(8192, 0, 9, earliest=100.0, latest=101.0, data="mail"))
    numbers.change("new-version", 8192, 3, 4)
    there = numbers.members("mail", LockedTimes(begins=200.0, ends=300.0, extended_to=200.0))
    assert there.numbers[there.expired].tolist() == [0, 1, 2, 5, 6, 7, 8, 9]
    assert dict(there.versions) == {3: 2, 4: 2}
