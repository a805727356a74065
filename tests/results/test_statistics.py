"""Estimates over repetitions."""

from __future__ import annotations

import math
import random

import pytest

from results.statistics import estimate, t_975


@pytest.mark.parametrize(
    ("degrees", "t"), [(1, 12.706), (2, 4.303), (9, 2.262), (12, 2.179), (30, 2.042), (120, 1.980)]
)
def test_students_t_is_that_of_the_tables(degrees: int, t: float) -> None:
    assert t_975(degrees) == pytest.approx(t, rel=0.01)


def test_one_repetition_has_no_interval() -> None:
    found = estimate([500.0])
    assert (found.median, found.low, found.high, found.repetitions) == (500.0, None, None, 1)


def test_a_repetition_without_any_object_leaves_no_interval() -> None:
    assert estimate([500.0, 0.0]).low is None


def test_equal_repetitions_leave_no_doubt() -> None:
    found = estimate([500.0, 500.0, 500.0])
    assert found.low == pytest.approx(500.0)
    assert found.high == pytest.approx(500.0)


def test_the_interval_scales_with_the_unit() -> None:
    one, thousand = estimate([1.0, 2.0, 4.0]), estimate([1000.0, 2000.0, 4000.0])
    assert thousand.low == pytest.approx(one.low * 1000 if one.low else None)
    assert thousand.high == pytest.approx(one.high * 1000 if one.high else None)


def test_the_interval_holds_the_truth_in_about_95_of_100_experiments() -> None:
    generator = random.Random(7)
    held = 0
    for _ in range(2000):
        found = estimate([math.exp(generator.gauss(math.log(700), 0.2)) for _ in range(5)])
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 700 <= found.high
    assert 1860 <= held <= 1940
