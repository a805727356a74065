"""The open-loop benchmark computes the known figures of synthetic schedules, and its small version runs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.open_loop import Kept, distance
from tests.benchmarks.small import document_of

MILLISECOND_NS = 10**6


def array(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1, 2, 3], [3, 1, 2], 0.0),
        ([1, 2], [3, 4], 1.0),
        ([1, 2, 3, 4], [3, 4, 5, 6], 0.5),
        ([5], [5, 5, 5, 9], 0.25),
    ],
)
def test_distance_of_two_samples_is_symmetric_and_as_expected(
    one: list[int], other: list[int], expected: float
) -> None:
    assert distance(array(one), array(other)) == pytest.approx(expected)
    assert distance(array(other), array(one)) == pytest.approx(expected)


def test_early_and_late_count_equally_and_constant_delay_keeps_gaps() -> None:
    due_ns = np.arange(100, dtype=np.int64) ** 2 * MILLISECOND_NS
    late = Kept.of(due_ns, due_ns + 3 * MILLISECOND_NS).figures()
    assert late["lateness_ms_p50"] == late["lateness_ms_max"] == pytest.approx(3.0)
    assert (late["within_percent"], late["gaps_distance"]) == (0.0, 0.0)
    offsets_ns = np.where(np.arange(100) % 4 == 0, -3, 1) * MILLISECOND_NS
    mixed = Kept.of(due_ns, due_ns + offsets_ns).figures()
    assert mixed["lateness_ms_min"] == pytest.approx(-3.0)
    assert mixed["within_percent"] == pytest.approx(75.0)
    assert mixed["gaps_distance"] > 0


def test_open_loop_compares_pacer_with_event_loop_timers() -> None:
    document = document_of("open-loop")
    assert list(document["cases"]) == ["engine alone", "sessions begun", "objects sent"]
    for keepers in document["cases"].values():
        assert list(keepers) == ["pacer", "loop timers"]
        for rounds in keepers.values():
            assert len(rounds) == document["rounds"]
            for figures in rounds:
                assert figures["lateness_ms_p50"] <= figures["lateness_ms_p99"] <= figures["lateness_ms_max"]
                assert 0 <= figures["within_percent"] <= 100
                assert 0 <= figures["gaps_distance"] <= 1
                assert figures["cpu_percent"] > 0
                assert figures["waited_percent"] >= 0
        assert all(figures["lateness_ms_min"] >= 0 for figures in keepers["pacer"]), "the pacer is never early"
