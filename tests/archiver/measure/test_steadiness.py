"""Test when the rate of a cell counts as unsteady."""

from __future__ import annotations

import random

import pytest

from archiver.measure.steadiness import INTERVALS_MIN, steadiness, unsteady_because


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([100] * 12, None),
        ([100] * 6 + [112] * 6, "the rate moved by +16% over the measured time"),
        ([100] * 6 + [88] * 6, "the rate moved by -18% over the measured time"),
        ([100] * 6 + [104] * 6, None),  # noise of a shared machine
        ([100 - 2 * i for i in range(12)], "-25%"),
        ([0] * 6 + [100] * 6, "the rate moved by +"),
        ([60, 140] * 6, None),  # uneven, but not faster or slower
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


def test_a_drift_of_1_percent_per_second_is_found_once_it_is_more_than_10_percent() -> None:
    seconds = {length: [250 * (1 - 0.01 * at / 4) for at in range(4 * length)] for length in (8, 20)}
    found = {length: unsteady_because([round(count) for count in counts]) for length, counts in seconds.items()}
    assert found == {8: None, 20: "the rate moved by -22% over the measured time"}


@pytest.mark.parametrize(("cv", "autocorrelation"), [(0.04, 0.0), (0.2, 0.0), (0.2, 0.5)])
def test_the_noise_of_a_steady_rate_is_not_called_unsteady(cv: float, autocorrelation: float) -> None:
    generator = random.Random(3)
    found = [unsteady_because(_noise(generator, cv, autocorrelation)) for _ in range(500)]
    assert sum(reason is not None for reason in found) < 0.16 * 500


def _noise(generator: random.Random, cv: float, autocorrelation: float) -> list[int]:
    """Return 20 counts around 1,000 with this coefficient of variation and autocorrelation."""
    state, counts = generator.gauss(0, 1), []
    for _ in range(20):
        counts.append(round(1000 * (1 + cv * state)))
        state = autocorrelation * state + (1 - autocorrelation**2) ** 0.5 * generator.gauss(0, 1)
    return counts
