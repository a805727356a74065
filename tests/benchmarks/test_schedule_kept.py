"""The open-loop benchmark computes the known figures of synthetic schedules."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.schedules import EARLIEST, GAPS, P50, WITHIN, distance, timing

MILLISECOND_NS = 10**6


def array(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [([1, 2, 3], [3, 1, 2], 0.0), ([1, 2], [3, 4], 1.0), ([1, 2, 3, 4], [3, 4, 5, 6], 0.5), ([5], [5, 5, 5, 9], 0.25)],
)
def test_distance_of_two_samples_is_symmetric_and_as_expected(
    one: list[int], other: list[int], expected: float
) -> None:
    assert distance(array(one), array(other)) == pytest.approx(expected)
    assert distance(array(other), array(one)) == pytest.approx(expected)


def test_early_and_late_count_equally_and_constant_delay_keeps_gaps() -> None:
    due_ns = np.arange(100, dtype=np.int64) ** 2 * MILLISECOND_NS
    late = timing(due_ns, due_ns + 3 * MILLISECOND_NS)
    assert late[P50] == late["lateness max, ms"] == pytest.approx(3.0)
    assert (late[WITHIN], late[GAPS]) == (0.0, 0.0)
    offsets_ns = np.where(np.arange(100) % 4 == 0, -3, 1) * MILLISECOND_NS
    mixed = timing(due_ns, due_ns + offsets_ns)
    assert mixed[EARLIEST] == pytest.approx(-3.0)
    assert mixed[WITHIN] == pytest.approx(75.0)
    assert mixed[GAPS] > 0
