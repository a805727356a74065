"""Power of the paired t test: textbook values and simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest

from results.comparison.power import POWER, detectable, pairs_needed, power
from results.measures.statistics import t_quantile


@pytest.mark.parametrize(("effect", "pairs"), [(0.5, 34), (0.8, 15), (0.2, 199)])
def test_textbook_number_of_pairs_reaches_80_percent_power(effect: float, pairs: int) -> None:
    """Cohen, Statistical Power Analysis: a medium effect (half the spread) needs 34 pairs, a large 15, a small 199."""
    assert power(effect * math.sqrt(pairs), pairs, 0.05) >= POWER
    assert power(effect * math.sqrt(pairs - 1), pairs - 1, 0.05) < POWER


@pytest.mark.parametrize(("pairs", "level"), [(3, 0.05), (3, 0.001), (5, 0.01), (12, 0.05)])
def test_simulation_finds_detectable_effect_with_80_percent_power(pairs: int, level: float) -> None:
    generator = np.random.default_rng(7)
    logs = generator.normal(detectable(pairs, level) / math.sqrt(pairs), 1.0, (100_000, pairs))
    t = logs.mean(axis=1) / (logs.std(axis=1, ddof=1) / math.sqrt(pairs))
    assert (t > t_quantile(1 - level / 2, pairs - 1)).mean() == pytest.approx(POWER, abs=0.006)


def test_power_without_effect_is_half_of_two_sided_level() -> None:
    assert power(0.0, 8, 0.05) == pytest.approx(0.025, abs=1e-5)  # in one direction


@pytest.mark.parametrize("cells", [1, 112])
@pytest.mark.parametrize("pairs", [2, 3, 5, 10])
def test_the_pairs_needed_give_a_verdict_in_four_cases_of_five(pairs: int, cells: int) -> None:
    """Simulate experiments of ``pairs`` pairs with a true spread of 5%, each repeated with the pairs that it needed."""
    generator = np.random.default_rng(8)
    level, difference, spread = 0.05 / cells, math.log(1.05), 0.05
    found = []
    for _ in range(300):
        shown = float(generator.normal(0, spread, pairs).std(ddof=1))
        needed = pairs_needed(shown, pairs, difference, level) or 1000
        found.append(power(difference * math.sqrt(needed) / spread, needed, level))
    assert np.mean(found) == pytest.approx(POWER, abs=0.06)


def test_pairs_needed_is_smallest_count_that_detects_difference() -> None:
    needed = pairs_needed(0.1, 100_000, math.log(1.05), 0.001)
    assert needed is not None
    assert detectable(needed, 0.001) * 0.1 / math.sqrt(needed) <= math.log(1.05)
    assert detectable(needed - 1, 0.001) * 0.1 / math.sqrt(needed - 1) > math.log(1.05)


def test_pairs_needed_is_at_least_pairs_done_and_none_if_too_many() -> None:
    assert pairs_needed(0.0, 3, 0.1, 0.05) == 3
    assert pairs_needed(1.0, 3, 0.01, 0.05) is None
