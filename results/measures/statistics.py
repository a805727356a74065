"""Statistics over repetitions: of one rate, of two rates measured in pairs, and of samples of objects.

Rates are ratios, so their spread is computed on the logarithm. An interval is then never negative, and reads as "within
so many percent". Two platforms are compared pair by pair. A change between repetitions that affects both platforms
therefore cancels out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PAIRS_MIN = 3  # fewer pairs leave at most one degree of freedom: an interval of twelve standard errors, or none
_JUST_BELOW = 1 - 1e-9  # prevents rounding from breaking a tie
FALSE_DISCOVERY_RATE = 0.05  # expected share of false ones among the differences shown together
LOGARITHM_MAX = 100.0  # limit of an interval's half-width; JSON cannot express infinity
RATIOS_APART_MAX = 10  # of the ratios of cells that one ratio may stand for: largest / smallest
LEVEL = 0.05  # of a single test, and of its 95% interval
_Index = TypeVar("_Index", int, "NDArray[np.int64]")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median over repetitions. With two or more it has the 95% interval of the geometric mean, which includes it."""

    median: float
    low: float | None
    high: float | None
    repetitions: int

    @property
    def within(self) -> float | None:
        """Return how far the ends of the interval are from the median at most, as a share of it; None: no interval."""
        if self.low is None or self.high is None or not self.median:
            return None
        return reach(self.median, self.low, self.high)


class RelativeError(NamedTuple):
    """Standard error of a mean, divided by the mean, with its degrees of freedom (at least 1)."""

    error: float
    degrees: int

    def half_width(self) -> float:
        """Return the half-width of the 95% interval of the logarithm of the mean."""
        return t_quantile(0.975, self.degrees) * self.error


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """The geometric mean of the ratios of pairs, from PAIRS_MIN pairs on with 95% interval and two-sided p value.

    Ratios that are read together have adjusted p values and wider intervals; see ``read_together``.
    """

    ratio: float
    low: float | None
    high: float | None
    p: float | None  # probability of a difference this large, or larger, if there were none
    pairs: int
    spread: float | None  # standard deviation of the logarithms; None for one pair
    adjusted_p: float | None = None  # over all ratios read together
    level: float = LEVEL  # p value below which it shows a difference; the interval excludes 1 just then

    @property
    def differs(self) -> bool:
        """Whether a difference is shown, among all ratios read together."""
        return self.adjusted_p is not None and self.adjusted_p < FALSE_DISCOVERY_RATE


VALUES_MIN = 8
BATCHES_MAX = 20  # of batch means; Schmeiser: more of them add little
_LAG_1_MAX = 0.6  # a larger autocorrelation of twenty batch means is their trend or their noise


def relative_half_width(values: Sequence[float], outside: float = LEVEL) -> float:
    """Return the half-width of an interval of the mean of a series, relative to the mean.

    Infinite for fewer than eight values, which do not show whether they are autocorrelated.

    ``values`` are in the order of time, such as session times, and may be autocorrelated. They are divided into at most
    twenty batches of consecutive values (batch means: Schmeiser, Operations Research 30 (1982)), and the batch means'
    own autocorrelation increases their variance (``autocorrelation_inflation``).

    ``outside``: probability that the interval misses the mean. A stop rule that looks twice shares it out.
    """
    count = len(values)
    mean = fmean(values) if values else 0.0
    if count < VALUES_MIN or not mean:
        return math.inf
    batches = min(count, BATCHES_MAX)
    edges = [round(index * count / batches) for index in range(batches + 1)]
    off = [fmean(values[start:end]) - mean for start, end in pairwise(edges)]
    squares = sum(each * each for each in off)
    if not squares:
        return 0.0
    error = math.sqrt(squares / (batches - 1) * autocorrelation_inflation(off) / batches)
    return t_quantile(1 - outside / 2, batches - 1) * error / mean


def autocorrelation_inflation(deviations: Sequence[float]) -> float:
    """Return the factor by which autocorrelation increases the variance of a mean, from deviations in time order.

    It is that of an autoregressive process of first order, (1 + r) / (1 - r). The estimate of the first autocorrelation
    r is too low by about one value's share, which is added; r below 0 counts as 0, and above 0.6 as 0.6.
    """
    squares = sum(each * each for each in deviations)
    if not squares:
        return 1.0
    lag_1 = sum(one * other for one, other in pairwise(deviations)) / squares + 1 / len(deviations)
    lag_1 = min(max(lag_1, 0.0), _LAG_1_MAX)
    return (1 + lag_1) / (1 - lag_1)


def t_two_sided(t: float, degrees: int) -> float:
    """Return the probability of a Student's t at least as far from zero as ``t``, on either side.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.1: 1 - A(t|v) = I_x(v/2, 1/2), x = v / (v + t²).
    """
    if math.isinf(t):
        return 0.0
    return _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t), t * t / (degrees + t * t))


@cache
def t_quantile(probability: float, degrees: int) -> float:
    """Return the t that a Student's t stays below with this probability (above 0.5, below 1).

    This is the inverse of ``t_two_sided``.
    """
    outside = 2 * (1 - probability)
    low, high = 0.0, 1.0
    while t_two_sided(high, degrees) > outside:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:  # until no float is between them
        low, high = (middle, high) if t_two_sided(middle, degrees) > outside else (low, middle)
    return high


def estimate(values: Sequence[float]) -> Estimate:
    """Estimate one rate from equal repetitions. The interval is None for one repetition, or if a value is zero.

    A few slow repetitions of many can move the geometric mean so far that its interval excludes the median. It then
    reaches to the median, so that nobody reads a number outside its own interval.
    """
    middle = median(values)
    if len(values) < 2 or min(values) <= 0:
        return Estimate(middle, None, None, len(values))
    logs = [math.log(value) for value in values]
    low, high = _interval(fmean(logs), stdev(logs), len(logs), LEVEL)
    return Estimate(middle, min(low, middle), max(high, middle), len(values))


def reach(value: float, low: float, high: float) -> float:
    """Return how far the ends of an interval are from a value at most, as a share of the value."""
    return max(high / value - 1, 1 - low / value)


def paired_ratio(log_ratios: Sequence[float]) -> PairedRatio:
    """Estimate a ratio from the logarithms of its pairs (at least one), with Student's t for paired observations.

    Snedecor and Cochran, Statistical Methods, "Paired samples": t = mean / (s / sqrt(n)), n - 1 degrees of freedom.
    """
    pairs = len(log_ratios)
    centre = fmean(log_ratios)
    spread = stdev(log_ratios) if pairs > 1 else None
    if spread is None or pairs < PAIRS_MIN:
        return PairedRatio(math.exp(centre), None, None, None, pairs, spread)
    error = spread / math.sqrt(pairs)
    t = abs(centre) / error if error else math.inf if centre else 0.0
    low, high = _interval(centre, spread, pairs, LEVEL)
    return PairedRatio(math.exp(centre), low, high, t_two_sided(t, pairs - 1), pairs, spread)


def read_together(ratios: Sequence[PairedRatio]) -> list[PairedRatio]:
    """Return the ratios of one table with p values and intervals that allow for their number.

    P values are adjusted (``benjamini_hochberg``). If R of m ratios show a difference, their intervals have the level
    5% x R / m: of such intervals on average at most 5% miss the true ratio (Benjamini and Yekutieli, "False Discovery
    Rate-Adjusted Multiple Confidence Intervals", J. Am. Statist. Assoc. 100 (2005), definition 1). The others have 5%
    x (R + 1) / m, the level that they missed. An interval therefore excludes 1 if and only if a difference is shown.
    """
    adjusted = iter(benjamini_hochberg([each.p for each in ratios if each.p is not None]))
    found = [replace(each, adjusted_p=None if each.p is None else next(adjusted)) for each in ratios]
    shown = sum(each.differs for each in found)
    tested = sum(each.p is not None for each in found) or len(found)
    return [_at_level(each, FALSE_DISCOVERY_RATE * (shown if each.differs else shown + 1) / tested) for each in found]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return adjusted p values, in the order given. Of those below q, on average a share of at most q is false.

    Benjamini and Hochberg, "Controlling the False Discovery Rate", J. R. Statist. Soc. B 57 (1995), section 3.1. As
    values: the i-th smallest of m becomes the least of m / j x p(j) over all j from i to m.
    """
    count = len(p_values)
    adjusted = [1.0] * count
    least = 1.0
    falling = sorted(range(count), key=lambda index: -p_values[index])
    for rank, index in zip(range(count, 0, -1), falling, strict=True):
        least = min(least, p_values[index] * count / rank)
        adjusted[index] = least
    return adjusted


def bad_objects_max(objects: int, sampled: int, bad: int, confidence: float) -> int:
    """Return the upper bound of bad objects among ``objects``, with this confidence.

    ``bad`` of ``sampled`` objects were bad; the sample was drawn at random without replacement. This is the exact
    one-sided bound of the hypergeometric distribution. It is the largest number of bad objects for which a sample with
    so few of them has a probability of at least 1 - confidence (Cochran, Sampling Techniques, 3rd edition, section
    3.6).
    """
    most = objects - (sampled - bad)
    # Below the number that the sample suggests, such a sample is more likely than not. The bound is therefore above it.
    low, high = max(bad, bad * objects // sampled if sampled else 0), most
    while low < high:
        middle = (low + high + 1) // 2
        likely = _hypergeometric_up_to(bad, objects, middle, sampled) >= (1 - confidence) * _JUST_BELOW
        low, high = (middle, high) if likely else (low, middle - 1)
    return low


def _at_level(ratio: PairedRatio, level: float) -> PairedRatio:
    """Return the ratio with the interval of this level."""
    if ratio.low is None or ratio.spread is None:
        return replace(ratio, level=level)
    low, high = _interval(math.log(ratio.ratio), ratio.spread, ratio.pairs, level)
    return replace(ratio, low=low, high=high, level=level)


def _interval(centre: float, spread: float, count: int, level: float) -> tuple[float, float]:
    """Return the ends of the interval of a geometric mean, from mean and standard deviation of the logarithms."""
    half_width = min(t_quantile(1 - level / 2, count - 1) * spread / math.sqrt(count), LOGARITHM_MAX)
    return math.exp(centre - half_width), math.exp(centre + half_width)


def _hypergeometric_up_to(found: int, objects: int, bad: int, sampled: int) -> float:
    """Return the probability of at most ``found`` bad ones in a sample.

    The sample is ``sampled`` of ``objects``, of which ``bad`` are bad.

    The sum starts at the last term. If ``found`` is below its expected value, each term is smaller than the previous
    one.
    """
    if found >= min(bad, sampled):
        return 1.0
    ways = _log_choices(bad, found) + _log_choices(objects - bad, sampled - found) - _log_choices(objects, sampled)
    total = term = math.exp(ways)
    good = objects - bad
    for count in range(found, 0, -1):
        term *= count * (good - sampled + count) / ((bad - count + 1) * (sampled - count + 1))
        total += term
        if term <= total * 1e-17:
            break
    return total


def _log_choices(among: int, chosen: int) -> float:
    """Return the logarithm of the binomial coefficient."""
    if not 0 <= chosen <= among:
        return -math.inf
    return math.lgamma(among + 1) - math.lgamma(chosen + 1) - math.lgamma(among - chosen + 1)


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b).

    ``rest`` is 1 - x; callers pass it because it may be tiny compared with 1.

    NIST Digital Library of Mathematical Functions, 8.17.22: a continued fraction that converges fast below (a + 1) / (a
    + b + 2). Above, 8.17.4 applies: I_x(a, b) = 1 - I_(1-x)(b, a).
    """
    if not x or not rest:
        return 0.0 if not x else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, rest, x)
    log_factor = a * math.log(x) + b * math.log(rest) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(log_factor) / a * _beta_fraction(a, b, x)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return DLMF 8.17.22's continued fraction 1 / (1 + d1 / (1 + d2 / ...)), by Lentz's method (DLMF 3.10(iii))."""
    tiny = 1e-300  # replaces a denominator of zero
    value = ratio_c = 1.0
    ratio_d = 0.0
    for step in range(1, 10_000):
        m = step // 2
        if step % 2:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        ratio_d = 1 / (1 + d * ratio_d or tiny)
        ratio_c = 1 + d / ratio_c or tiny
        value *= ratio_c * ratio_d
        if abs(ratio_c * ratio_d - 1) < 1e-15:
            break
    return 1 / value


def lowest_ns(index: _Index) -> _Index:
    """Return the lowest value of each index in the counts of a recorded histogram, in nanoseconds.

    The layout is HdrHistogram's for three digits: 2048 sub-buckets; each further bucket adds the upper half of them.
    """
    bucket = (index >> 10) - (index >= 1024)
    lowest: _Index = (index - (bucket << 10)) << bucket
    return lowest


def highest_ns(index: _Index) -> _Index:
    """Return the highest value of each index, as ``lowest_ns`` does the lowest."""
    return lowest_ns(index + 1) - 1
