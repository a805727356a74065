"""Statistical power of a comparison: the difference that its pairs detect, and the number of pairs for a difference.

"No difference shown" has little meaning by itself. The power (80%) of the paired t test, at the corrected level of a
cell, shows how large an undetected difference can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from statistics import NormalDist

from results.measures.statistics import PAIRS_MIN, t_quantile

POWER = 0.8
REPETITIONS_MAX = 1000  # limit of the numbers of repetitions that are reported exactly
_STEPS = 400  # of Simpson's rule; the integrand is smooth, and its error below 1e-6
_HALVINGS = 40


@cache
def detectable(pairs: int, level: float) -> float:
    """Return the true mean, in standard errors, that the test detects with a probability of POWER.

    The test is a two-sided t test of this many pairs (three or more) at this level. Detection means a difference in the
    right direction.
    """
    return _least(lambda errors: power(errors, pairs, level) >= POWER)


def pairs_needed(spread: float, pairs: int, log_difference: float, level: float) -> int | None:
    """Return how many pairs a test at this level needs to detect this true difference with a probability of POWER.

    ``spread`` is the standard deviation of ``pairs`` pairs (two or more). Few pairs estimate it badly, and too small an
    estimate would give too few pairs. The function therefore multiplies the spread by an allowance, with which the
    probability is POWER over all spreads that such pairs may show. Returns None for more than REPETITIONS_MAX.
    """
    normal = NormalDist()
    allowed = spread * _allowance(pairs, level)
    quantiles = normal.inv_cdf(1 - level / 2) + normal.inv_cdf(POWER)
    fewest = (quantiles * allowed / log_difference) ** 2  # the normal distribution's number; Student's t needs more
    for count in range(max(PAIRS_MIN, math.ceil(fewest)), REPETITIONS_MAX + 1):
        if not allowed or power(log_difference * math.sqrt(count) / allowed, count, level) >= POWER:
            return count
    return None


@cache
def _allowance(pairs: int, level: float) -> float:
    """Return the factor by which to multiply the spread of so few pairs before planning with it.

    Julious and Owen, "Sample size calculations for clinical studies allowing for uncertainty about the variance",
    Pharmaceutical Statistics 5 (2006), section 3: the 80% quantile of the noncentral t replaces the sum of the normal
    quantiles of level and power.
    """
    normal = NormalDist()
    z = normal.inv_cdf(1 - level / 2)
    quantile = _least(lambda threshold: _exceeds(z, threshold, pairs - 1) <= 1 - POWER)
    return quantile / (z + normal.inv_cdf(POWER))


def _least(is_enough: Callable[[float], bool]) -> float:
    """Return the least positive value that is enough, if all larger ones are, too."""
    low, high = 0.0, 1.0
    while not is_enough(high):
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def power(errors: float, pairs: int, level: float) -> float:
    """Return the probability with which such a test detects a true mean of so many standard errors."""
    return _exceeds(errors, t_quantile(1 - level / 2, pairs - 1), pairs - 1)


def _exceeds(errors: float, threshold: float, degrees: int) -> float:
    """Return the probability that a noncentral t exceeds this threshold.

    It exceeds it if Z + errors > threshold S. Z is normal, and S is the estimated over the true spread. The square of S
    is chi-squared over its degrees of freedom. The function integrates over S (Johnson, Kotz and Balakrishnan,
    Continuous Univariate Distributions 2, chapter 31: the noncentral t).
    """
    return sum(weight * _normal(errors - threshold * spread) for spread, weight in _spreads(degrees))


@cache
def _spreads(degrees: int) -> list[tuple[float, float]]:
    """Return values of S, each with its density times its weight in Simpson's rule."""
    end = 1 + 10 / math.sqrt(2 * degrees)
    step = end / _STEPS
    found = []
    for index in range(1, _STEPS + 1):  # at S = 0 the density is 0, or for one degree of freedom of little weight
        weight = 1 if index == _STEPS else 4 if index % 2 else 2
        found.append((index * step, weight * _density(index * step, degrees) * step / 3))
    return found


def _density(spread: float, degrees: int) -> float:
    """Return the density of the estimated over the true spread.

    It is a chi variable over the root of its degrees of freedom.
    """
    half = degrees / 2
    logarithm = math.log(2) + half * math.log(half) - math.lgamma(half)
    return math.exp(logarithm + (degrees - 1) * math.log(spread) - half * spread * spread)


def _normal(value: float) -> float:
    """Return the standard normal distribution function."""
    return math.erfc(-value / math.sqrt(2)) / 2
