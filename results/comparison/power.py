"""Statistical power of a comparison: the smallest true difference that its pairs find in four of five cases.

"No difference shown" has little meaning by itself. The power of the paired t test, at the level that a cell had to
reach among all cells, shows how large an undetected difference can be.
"""

from __future__ import annotations

import math
from functools import cache

from results.statistics import t_quantile

POWER = 0.8
_STEPS = 400  # of Simpson's rule; the integrand is smooth, and its error below 1e-6
_HALVINGS = 40


@cache
def detectable(pairs: int, level: float) -> float:
    """Return the true mean, in standard errors, that the test detects with a probability of POWER.

    The test is a two-sided t test of this many pairs (three or more) at this level. Detection means a difference in the
    right direction.
    """
    low, high = 0.0, 1.0
    while power(high, pairs, level) < POWER:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle, pairs, level) >= POWER else (middle, high)
    return high


def power(errors: float, pairs: int, level: float) -> float:
    """Return the probability with which such a test detects a true mean of so many standard errors.

    The test detects it if Z + errors > t S. Z is normal, t is the test's threshold, and S is the estimated over the
    true spread. The square of S is chi-squared over its degrees of freedom. The function integrates over S (Johnson,
    Kotz and Balakrishnan, Continuous Univariate Distributions 2, chapter 31: the noncentral t).
    """
    degrees = pairs - 1
    threshold = t_quantile(1 - level / 2, degrees)
    end = 1 + 10 / math.sqrt(2 * degrees)
    step = end / _STEPS
    total = 0.0
    for index in range(1, _STEPS + 1):  # at S = 0 the density is 0
        weight = 1 if index == _STEPS else 4 if index % 2 else 2
        total += weight * _density(index * step, degrees) * _normal(errors - threshold * index * step)
    return total * step / 3


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
