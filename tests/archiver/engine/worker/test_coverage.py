"""Test the stop rules on simulated session times with a known true mean."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.method import (
    BIAS,
    BIAS_PERCENT_GOAL,
    COVERAGE_PERCENT_GOAL,
    SETTLED,
    SPREAD,
    WITHIN,
    Sample,
    bias_of,
    coverage_of,
)  # fmt: skip


@pytest.mark.parametrize(
    "sample",
    [Sample(0.2, 0.05, 0.0), Sample(0.2, 0.05, 0.56), Sample(0.8, 0.02, 0.56), Sample(0.8, 0.05, 0.3)],
    ids=str,
)
def test_settled_cells_reach_the_coverage_goal(sample: Sample) -> None:
    found = coverage_of(np.random.Generator(np.random.PCG64(1)), sample, 100)
    assert found[SETTLED] >= 10
    assert found[WITHIN] >= COVERAGE_PERCENT_GOAL


@pytest.mark.parametrize("votes_seconds", [0.45, 2.5])
def test_mean_of_sessions_nearly_as_long_as_the_window_is_unbiased(votes_seconds: float) -> None:
    found = bias_of(np.random.Generator(np.random.PCG64(1)), votes_seconds, 1000)
    assert abs(found[BIAS]) < BIAS_PERCENT_GOAL + 3 * found[SPREAD] / 1000**0.5
