"""Test the dimensions, the rules that make a combination sensible, and the covering array."""

from __future__ import annotations

import subprocess
import sys
from enum import Enum
from itertools import combinations, product

import pytest

from archiver.worm.generated.array import covering_array
from archiver.worm.generated.attacks import ATTACKS
from archiver.worm.generated.dimensions import (
    DIMENSIONS,
    Asking,
    Attack,
    AttackTiming,
    Combination,
    Locking,
    Naming,
    PriorEvent,
    Writing,
    combination_of,
)
from archiver.worm.generated.events import EVENTS
from archiver.worm.generated.names import ENDINGS, TWINS, named
from archiver.worm.generated.rules import Row, is_sensible, is_sensible_combination
from archiver.worm.generated.writing import WRITERS

EVERY = [list(dimension) for dimension in DIMENSIONS]


def met(rows: list[Row], number: int) -> set[frozenset[Enum]]:
    """Return every meeting of this many values in the rows."""
    return {frozenset(each) for row in rows for each in combinations(row.values(), number)}


def test_every_sensible_pair_of_values_is_in_a_row() -> None:
    rows = list(covering_array(EVERY, is_sensible, 7))
    pairs = {frozenset(pair) for one, other in combinations(EVERY, 2) for pair in product(one, other)}
    missing = {pair for pair in pairs - met(rows, 2) if is_sensible({type(value): value for value in pair})}
    assert not missing
    assert all(is_sensible(row) for row in rows)
    assert len(rows) < 2 * len(Attack) * len(PriorEvent)  # the two longest dimensions need half of that at least


def test_dangerous_values_meet_in_threes() -> None:
    threes: list[list[Enum]] = [[Locking.GOVERNANCE, Locking.COMPLIANCE], list(Asking), [Attack.DELETE, Attack.SHORTEN]]
    rows = list(covering_array(EVERY, is_sensible, 7, in_threes=threes))
    wanted = {frozenset(each) for each in product(*threes) if is_sensible({type(value): value for value in each})}
    assert len(wanted) > 50
    assert wanted <= met(rows, 3)


def test_the_array_follows_from_its_seed_in_every_process() -> None:
    script = (
        "from archiver.worm.generated.array import covering_array\n"
        "from archiver.worm.generated.dimensions import DIMENSIONS, combination_of\n"
        "from archiver.worm.generated.rules import is_sensible\n"
        "rows = covering_array([list(each) for each in DIMENSIONS], is_sensible, {seed})\n"
        "print([combination_of(row).words for row, _ in zip(rows, range(50))])\n"
    )

    def rows(seed: int, hash_seed: int) -> str:
        return subprocess.run(
            [sys.executable, "-c", script.format(seed=seed)],
            env={"PYTHONHASHSEED": str(hash_seed)}, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    assert rows(1, 1) == rows(1, 2)
    assert rows(1, 1) != rows(2, 1)


def test_a_value_that_excludes_all_others_is_left_out() -> None:
    rows = list(covering_array(EVERY, lambda row: Naming.HIDDEN not in row.values() or len(row) < 3, 1))
    assert rows
    assert all(Naming.HIDDEN not in row.values() for row in rows)


@pytest.mark.parametrize(
    ("combination", "expected"),
    [
        (Combination(attack=Attack.DELETE), True),
        (Combination(attack=Attack.DELETE, asking=Asking.BYPASS), False),  # the owner may bypass GOVERNANCE
        (Combination(attack=Attack.DELETE, asking=Asking.NO_BYPASS), True),
        (Combination(attack=Attack.DELETE, asking=Asking.BYPASS, locking=Locking.COMPLIANCE), True),
        (Combination(attack=Attack.DELETE, asking=Asking.BYPASS, locking=Locking.WITH_HOLD), True),
        (Combination(attack=Attack.SHORTEN, asking=Asking.BYPASS, locking=Locking.WITH_HOLD), False),
        (Combination(attack=Attack.SHORTEN, locking=Locking.HOLD), False),  # there is no retention to shorten
        (Combination(attack=Attack.WEAKEN_MODE), False),
        (Combination(attack=Attack.RELEASE, locking=Locking.HOLD), False),  # the owner may release it
        (Combination(attack=Attack.RELEASE, locking=Locking.HOLD, asking=Asking.NO_HOLD), True),
        (Combination(attack=Attack.DELETE, locking=Locking.HOLD, events=(PriorEvent.HOLD_TOGGLED,)), False),
        (Combination(attack=Attack.DELETE, events=(PriorEvent.NEWER, PriorEvent.HOLD_TOGGLED)), True),
        (Combination(attack=Attack.DELETE, locking=Locking.TO_2039, timing=AttackTiming.NEAR_THE_DATE), False),
        (Combination(attack=Attack.DELETE_BUCKET, asking=Asking.PRESIGNED), False),
    ],
)
def test_a_combination_is_sensible_if_the_rules_forbid_its_attack(combination: Combination, expected: bool) -> None:
    assert is_sensible_combination(combination) is expected


def test_every_value_can_be_carried_out() -> None:
    assert set(WRITERS) == set(Writing)
    assert set(EVENTS) == set(PriorEvent)
    assert set(ATTACKS) == set(Attack)
    assert set(ENDINGS) == set(Naming)


def test_names_are_keys_of_s3_and_twins_are_other_keys() -> None:
    unique = "worm/GEN-OVERWRITE/001-0a1b2c3d"
    keys = {naming: named(unique, naming) for naming in Naming}
    assert len(set(keys.values())) == len(keys)
    assert len(keys[Naming.LONGEST].encode()) == 1024
    assert all(len(key.encode()) <= 1024 for key in keys.values())
    for key in keys.values():
        assert all(twin(key) != key for twin in TWINS.values()), key


def test_a_combination_says_in_words_what_is_not_plain() -> None:
    row: dict[type[Enum], Enum] = {dimension: next(iter(dimension)) for dimension in DIMENSIONS}
    assert combination_of(row).values == frozenset()
    special = combination_of({**row, PriorEvent: PriorEvent.MARKER, Asking: Asking.ANONYMOUS})
    assert special.values == {PriorEvent.MARKER, Asking.ANONYMOUS}
    assert special.words == (
        "a record written by a PUT with Content-MD5, locked by headers, GOVERNANCE; the key was deleted; "
        "then a client without a credential tries to delete the version"
    )
    assert special.digest("gone") != combination_of(row).digest("gone") != combination_of(row).digest("altered")
