"""Test when the rate of a cell counts as unsteady."""

from __future__ import annotations

import random

import pytest

from archiver.measure.steadiness import INTERVALS_MIN, steadiness, unsteady_because


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([100] * 12, None),
        ([100] * 6 + [112] * 6, "second half of the measured time ran +12%"),
        ([100] * 6 + [88] * 6, "second half of the measured time ran -12%"),
        ([100] * 6 + [104] * 6, None),  # noise of a shared machine
        ([100 - 2 * i for i in range(12)], "-1"),
        ([0] * 6 + [100] * 6, "second half"),
        ([100] * (INTERVALS_MIN - 1), None),
        ([100, 10, 10, 10], None),  # too few intervals
        ([], None),
        ([0] * 12, None),
    ],
)
def test_unsteady_is_a_rule(counts: list[int], words: str | None) -> None:
    found = unsteady_because(counts)
    assert (found is None) == (words is None), found
    assert words is None or (found is not None and words in found)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([100] * INTERVALS_MIN, "steady"),
        ([100] * 6 + [112] * 6, "unsteady"),
        ([100] * (INTERVALS_MIN - 1), "too short to judge"),
        ([100, 10, 10, 10], "too short to judge"),
        ([], "too short to judge"),
        ([0] * 12, "too short to judge"),
    ],
)
def test_a_short_cell_is_not_called_steady(counts: list[int], words: str) -> None:
    assert steadiness(counts) == words


def test_slope_is_found_even_if_both_halves_look_alike() -> None:
    counts = [round(100 * (1 + 0.14 * i / 39)) for i in range(40)]
    assert unsteady_because(counts) == "the rate moved by +13% over the measured time"


def test_plain_noise_is_steady() -> None:
    generator = random.Random(3)
    found = [unsteady_because([round(generator.gauss(1000, 40)) for _ in range(20)]) for _ in range(500)]
    assert sum(reason is not None for reason in found) < 10
