"""What a comparison would have shown: the smallest true difference that its pairs find in four cases of five.

One idea: "no difference shown" means little by itself. The power of the paired t test at the level that a cell had to
reach among all cells tells how large a difference can hide behind it.
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
    """The true mean, in standard errors, that a two-sided t test of so many pairs (three or more) at this level calls a
    difference of the right direction with a probability of POWER.
    """
    low, high = 0.0, 1.0
    while power(high, pairs, level) < POWER:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle, pairs, level) >= POWER else (middle, high)
    return high


def power(errors: float, pairs: int, level: float) -> float:
    """The probability with which such a test shows a true mean of so many standard errors.

    It does where Z + errors > t S: Z normal, t the test's threshold and S the estimated over the true spread, whose
    square is chi-squared over its degrees of freedom (Johnson, Kotz and Balakrishnan, Continuous Univariate
    Distributions 2, chapter 31: the noncentral t); integrated over S.
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
    """Of the estimated spread over the true one: a chi variable over the root of its degrees of freedom."""
    half = degrees / 2
    logarithm = math.log(2) + half * math.log(half) - math.lgamma(half)
    return math.exp(logarithm + (degrees - 1) * math.log(spread) - half * spread * spread)


def _normal(value: float) -> float:
    """The standard normal distribution function."""
    return math.erfc(-value / math.sqrt(2)) / 2
