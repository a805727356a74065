"""Estimates over repetitions, paired ratios, multiple comparisons, and bounds from samples."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from statistics import fmean, stdev

import pytest

from results.measures.statistics import (
    bad_objects_max,
    benjamini_hochberg,
    estimate,
    paired_ratio,
    read_together,
    relative_half_width,
    t_quantile,
    t_two_sided,
)


@pytest.mark.parametrize(
    ("degrees", "t"), [(1, 12.706), (2, 4.303), (9, 2.262), (12, 2.179), (30, 2.042), (120, 1.980)]
)
def test_t_quantile_agrees_with_tables(degrees: int, t: float) -> None:
    assert t_quantile(0.975, degrees) == pytest.approx(t, abs=0.0005)


def test_single_repetition_has_no_interval() -> None:
    found = estimate([500.0])
    assert (found.median, found.low, found.high, found.repetitions) == (500.0, None, None, 1)


def test_repetition_with_zero_rate_gives_no_interval() -> None:
    assert estimate([500.0, 0.0]).low is None


def test_equal_repetitions_have_interval_of_zero_width() -> None:
    found = estimate([500.0, 500.0, 500.0])
    assert found.low == pytest.approx(500.0)
    assert found.high == pytest.approx(500.0)


def test_the_interval_includes_the_median_beside_a_few_slow_repetitions() -> None:
    rates = [100.0 + 0.1 * place for place in range(16)] + [50.0] * 4
    found = estimate(rates)
    logs = list(map(math.log, rates))
    highest = math.exp(fmean(logs) + t_quantile(0.975, 19) * stdev(logs) / math.sqrt(20))
    assert highest < found.median, "the geometric mean's own interval would exclude it"
    assert found.high == found.median


def test_interval_scales_with_unit() -> None:
    one, thousand = estimate([1.0, 2.0, 4.0]), estimate([1000.0, 2000.0, 4000.0])
    assert thousand.low == pytest.approx(one.low * 1000 if one.low else None)
    assert thousand.high == pytest.approx(one.high * 1000 if one.high else None)


def test_interval_covers_truth_in_about_95_percent_of_experiments() -> None:
    generator = random.Random(7)
    held = 0
    for _ in range(2000):
        found = estimate([math.exp(generator.gauss(math.log(700), 0.2)) for _ in range(5)])
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 700 <= found.high
    assert 1860 <= held <= 1940


@pytest.mark.parametrize(
    ("probability", "degrees", "t"),  # Student's t as printed in tables
    [
        (0.975, 1, 12.7062), (0.975, 2, 4.30265), (0.975, 4, 2.77645), (0.975, 9, 2.26216), (0.975, 11, 2.20099),
        (0.975, 30, 2.04227), (0.975, 120, 1.97993), (0.95, 10, 1.81246), (0.995, 5, 4.03214), (0.9995, 3, 12.9240),
    ],
)  # fmt: skip
def test_t_quantiles_agree_with_tables(probability: float, degrees: int, t: float) -> None:
    assert t_quantile(probability, degrees) == pytest.approx(t, rel=3e-6)
    assert t_two_sided(t, degrees) == pytest.approx(2 * (1 - probability), rel=2e-5)


@pytest.mark.parametrize("t", [0.01, 0.5, 1.0, 3.0, 50.0])
def test_t_probabilities_agree_with_closed_forms(t: float) -> None:
    assert t_two_sided(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(t), rel=1e-11)
    assert t_two_sided(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), rel=1e-11)
    assert t_two_sided(t, 4) == pytest.approx(
        1 - t / math.sqrt(4 + t * t) * (1 + 2 / (4 + t * t)), rel=1e-9
    )  # A&S 26.7.4


def test_t_probabilities_are_right_at_extremes_and_near_normal_limit() -> None:
    assert t_two_sided(0.0, 4) == 1.0
    assert t_two_sided(math.inf, 4) == 0.0
    assert t_two_sided(1e4, 4) == pytest.approx(12 / 1e16, rel=1e-6)  # the tail: 12 / t^4
    assert t_two_sided(1.959964, 10**6) == pytest.approx(0.05, rel=1e-4)


def test_paired_ratio_is_paired_t_test_of_logarithms() -> None:
    """Student's sleep data (1908): t = 4.0621 with 9 degrees of freedom, p = 0.002833, 95% from 0.7001 to 2.4599."""
    found = paired_ratio([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])
    assert found.low is not None
    assert found.high is not None
    assert math.log(found.ratio) == pytest.approx(1.58)
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((0.7001142, 2.4598858), abs=1e-7)
    assert found.p == pytest.approx(0.00283289, abs=1e-8)
    assert found.pairs == 10


def test_fewer_than_three_pairs_give_ratio_without_interval() -> None:
    two = paired_ratio([math.log(1.2), math.log(1.3)])
    assert two.ratio == pytest.approx(math.sqrt(1.2 * 1.3))
    assert (two.low, two.high, two.p) == (None, None, None)
    assert two.spread is not None
    assert paired_ratio([0.5]).spread is None


def test_pairs_without_spread_have_p_of_zero_or_one() -> None:
    assert paired_ratio([0.25, 0.25, 0.25]).p == 0.0
    assert paired_ratio([0.0, 0.0, 0.0]).p == 1.0


def test_adjustment_reproduces_example_of_benjamini_and_hochberg() -> None:
    """Section 4 of their paper has 15 p values: at 5% four are rejected; Bonferroni rejects three."""
    p_values = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
        0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000,
    ]  # fmt: skip
    adjusted = benjamini_hochberg(p_values)
    assert sum(each <= 0.05 for each in adjusted) == 4
    assert adjusted[3] == pytest.approx(0.0095 * 15 / 4)
    assert adjusted[5] == adjusted[6] == pytest.approx(0.0298 * 15 / 7)  # adjusted values are monotonic
    shuffled = random.Random(3).sample(range(15), 15)
    assert benjamini_hochberg([p_values[index] for index in shuffled]) == [adjusted[index] for index in shuffled]
    assert benjamini_hochberg([]) == []


def test_joint_intervals_exclude_one_where_difference_is_shown() -> None:
    """Of 50 ratios 20 differ. Among the intervals that show a difference, at most 6% miss the true value."""
    generator = random.Random(13)
    shown = missed = uncorrected = 0
    for _ in range(100):
        true = [0.1 if index < 20 else 0.0 for index in range(50)]
        single = [paired_ratio([log + generator.gauss(0, 0.05) for _ in range(5)]) for log in true]
        for log, each, alone in zip(true, read_together(single), single, strict=True):
            assert each.low is not None
            assert each.high is not None
            assert alone.p is not None
            assert each.differs is not (each.low <= 1 <= each.high)
            shown += each.differs
            missed += each.differs and not each.low <= math.exp(log) <= each.high
            uncorrected += alone.p < 0.05 and not log
    assert shown > 500
    assert missed <= 0.06 * shown
    assert uncorrected > 100  # false differences without correction, of 3,000 equal pairs


def test_single_ratio_keeps_its_interval_after_adjustment() -> None:
    alone = paired_ratio([0.1, 0.2, 0.15])
    (found,) = read_together([alone])
    assert (found.low, found.high, found.adjusted_p) == pytest.approx((alone.low, alone.high, alone.p))


def test_very_wide_interval_has_finite_bounds() -> None:
    assert all(math.isfinite(each.high or 0.0) for each in read_together([paired_ratio([-90.0, 0.0, 90.0])] * 200))


def test_paired_interval_covers_truth_in_about_95_percent_despite_drift() -> None:
    """A drift of 30% from pair to pair affects both sides equally and does not widen the interval."""
    generator = random.Random(11)
    held = 0
    for _ in range(2000):
        logs = []
        for _ in range(5):
            drift = generator.gauss(0, 0.3)
            ours = drift + generator.gauss(0, 0.05)
            theirs = drift + math.log(1.43) + generator.gauss(0, 0.05)
            logs.append(theirs - ours)
        found = paired_ratio(logs)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1.43 <= found.high
    assert 1860 <= held <= 1940


def test_few_matrices_show_false_differences_after_adjustment() -> None:
    """Simulate 100 matrices of 112 cells, 5 pairs with 3% noise each. Unadjusted, nearly all show false differences."""
    generator = random.Random(12)
    matrices = unadjusted = false = 0
    for _ in range(100):
        p_values = []
        for _ in range(112):
            found = paired_ratio([generator.gauss(0, 0.03) for _ in range(5)])
            assert found.p is not None
            p_values.append(found.p)
        unadjusted += min(p_values) < 0.05
        shown = sum(adjusted < 0.05 for adjusted in benjamini_hochberg(p_values))
        matrices += shown > 0
        false += shown
    assert unadjusted >= 95
    assert matrices <= 10  # 5 expected
    assert false <= 0.001 * 100 * 112


def exact_bound(objects: int, sampled: int, bad: int, confidence: str) -> int:
    """Return the bound computed exactly, by counting all possible samples."""

    def likely(among: int) -> Fraction:
        ways = sum(math.comb(among, k) * math.comb(objects - among, sampled - k) for k in range(bad + 1))
        return Fraction(ways, math.comb(objects, sampled))

    return max(m for m in range(bad, objects - sampled + bad + 1) if likely(m) >= 1 - Fraction(confidence))


@pytest.mark.parametrize("confidence", ["0.95", "0.99"])
@pytest.mark.parametrize("objects", [1, 2, 7, 25])
def test_sample_bound_equals_exact_bound_by_enumeration(objects: int, confidence: str) -> None:
    for sampled in range(1, objects + 1):
        for bad in range(sampled + 1):
            expected = exact_bound(objects, sampled, bad, confidence)
            assert bad_objects_max(objects, sampled, bad, float(confidence)) == expected


@pytest.mark.parametrize(
    ("sampled", "bad", "percent"),  # Clopper and Pearson's one-sided 95% limits, from tables
    [(100, 0, 2.951), (59, 0, 4.951), (100, 5, 10.225), (200, 3, 3.831), (50, 10, 31.560)],
)
def test_sample_bound_of_many_objects_is_clopper_pearson_limit(sampled: int, bad: int, percent: float) -> None:
    objects = 10**9
    assert bad_objects_max(objects, sampled, bad, 0.95) / objects * 100 == pytest.approx(percent, abs=2e-3)


def test_bound_of_complete_sample_is_number_of_bad_objects() -> None:
    assert bad_objects_max(1000, 1000, 3, 0.99) == 3


def test_the_half_width_of_independent_values_is_students() -> None:
    values = [10.0, 12.0, 11.0, 9.0, 10.0, 11.0, 12.0, 9.0]
    mean, deviation = 10.5, 1.195229
    assert relative_half_width(values[:7]) == float("inf")
    assert relative_half_width([]) == float("inf")
    assert relative_half_width([5.0] * 30) == 0.0
    # The first autocorrelation is -1.75 / 10, plus 1 / 8 for its bias: none, so this is Student's interval.
    expected = t_quantile(0.995, 7) * deviation / math.sqrt(8) / mean
    assert relative_half_width(values, outside=0.01) == pytest.approx(expected, rel=1e-6)


def test_a_smaller_share_of_the_error_widens_the_interval() -> None:
    values = [10.0, 12.0, 11.0, 9.0, 10.5, 11.5, 10.0, 11.0]
    widths = [relative_half_width(values, outside) for outside in (0.05, 0.04, 0.01)]
    assert widths == sorted(set(widths))


def test_sessions_within_1_3_percent_of_their_mean_are_precise_at_every_look() -> None:
    """A drift of 2.5% over 89 sessions: the mean is known within 2%, and the look with the most data says so, too."""
    drifting = [44.4 + 1.1 * index / 88 for index in range(89)]
    for outside in (0.05, 0.04, 0.01):
        assert relative_half_width(drifting, outside) < 0.02


def test_interval_of_autocorrelated_values_covers_the_mean_in_95_percent() -> None:
    """Sessions with an autocorrelation of 0.56, as on a machine whose disk settles in waves."""
    draw, covered = random.Random(1), 0
    for _ in range(400):
        value, values = 0.0, []
        for _ in range(800):
            value = 0.56 * value + math.sqrt(1 - 0.56**2) * draw.gauss(0, 1)
            values.append(10 + 2 * value)
        mean = sum(values) / len(values)
        covered += abs(mean - 10) / mean <= relative_half_width(values)
    assert 0.93 <= covered / 400 <= 0.985


def test_a_trend_and_autocorrelation_widen_the_interval() -> None:
    alternating, in_two_halves = [9.0, 11.0] * 50, [9.0] * 50 + [11.0] * 50
    assert relative_half_width(in_two_halves) > 10 * relative_half_width(alternating)
