"""Power of the paired t test: known answers, and what a simulation finds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from results.comparison.power import POWER, detectable, power
from results.statistics import t_quantile


@pytest.mark.parametrize(("effect", "pairs"), [(0.5, 34), (0.8, 15), (0.2, 199)])
def test_as_many_pairs_as_the_textbooks_say_reach_four_cases_of_five(effect: float, pairs: int) -> None:
    """Cohen, Statistical Power Analysis: a medium effect (half the spread) takes 34 pairs, a large 15, a small 199."""
    assert power(effect * math.sqrt(pairs), pairs, 0.05) >= POWER
    assert power(effect * math.sqrt(pairs - 1), pairs - 1, 0.05) < POWER


@pytest.mark.parametrize(("pairs", "level"), [(3, 0.05), (3, 0.001), (5, 0.01), (12, 0.05)])
def test_what_is_detectable_is_found_in_four_cases_of_five(pairs: int, level: float) -> None:
    generator = np.random.default_rng(7)
    logs = generator.normal(detectable(pairs, level) / math.sqrt(pairs), 1.0, (100_000, pairs))
    t = logs.mean(axis=1) / (logs.std(axis=1, ddof=1) / math.sqrt(pairs))
    assert (t > t_quantile(1 - level / 2, pairs - 1)).mean() == pytest.approx(POWER, abs=0.006)


def test_no_difference_is_called_one_as_often_as_the_level_says() -> None:
    assert power(0.0, 8, 0.05) == pytest.approx(0.025, abs=1e-5)  # in one direction
