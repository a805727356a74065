"""Test schedules of an open loop: number and distance of arrivals, seeds, and the parts of several workers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from archiver.engine.work.mixed.arrivals import due_times
from scenarios.work.mix import Arrivals

SECOND_NS = 10**9
# For 10,000 values or more, a true sample exceeds this bound for one seed in 1,000.
KOLMOGOROV_SMIRNOV_FACTOR = 1.95

rates = st.floats(0.1, 2000.0)
some_arrivals = st.one_of(
    st.builds(Arrivals, st.sampled_from(["constant", "poisson"]), rates),
    st.builds(Arrivals, st.just("ramp"), st.just(0.0) | rates, st.just(0.0) | rates),
    st.builds(
        lambda rate, sessions, every: Arrivals("bursts", rate, burst_sessions=sessions, every_seconds=every),
        st.just(0.0) | rates,
        st.integers(0, 50),
        st.floats(0.2, 30.0),
    ),
)


def distance(values: NDArray[np.float64], distribution: NDArray[np.float64]) -> float:
    """Return the Kolmogorov-Smirnov distance between values and their distribution.

    ``distribution``: the probability of at most each value, for values in ascending order.
    """
    steps = np.arange(len(values) + 1) / len(values)
    return float(max((steps[1:] - distribution).max(), (distribution - steps[:-1]).max()))


def exponential_distance(gaps: NDArray[np.float64], rate: float) -> float:
    gaps = np.sort(gaps)
    return distance(gaps, -np.expm1(-gaps * rate))


@pytest.mark.parametrize(("rate", "seconds"), [(1.0, 10.0), (3.0, 7.0), (2000.0, 1.5), (0.4, 10.0), (2.2, 25.0)])
def test_constant_arrivals_are_evenly_spaced_from_zero(rate: float, seconds: float) -> None:
    due = due_times(Arrivals("constant", rate), seconds, seed=1)
    assert len(due) == round(rate * seconds)
    assert due[0] == 0
    assert np.abs(due - np.arange(len(due)) * SECOND_NS / rate).max() <= 1


@pytest.mark.parametrize("seed", range(5))
def test_poisson_arrivals_have_requested_count_and_independent_gaps(seed: int) -> None:
    due = due_times(Arrivals("poisson", 500.0), 60.0, seed)
    assert len(due) == pytest.approx(30_000, abs=5 * math.sqrt(30_000))
    gaps = np.diff(due, prepend=0) / SECOND_NS
    assert exponential_distance(gaps, 500.0) < KOLMOGOROV_SMIRNOV_FACTOR / math.sqrt(len(gaps))
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 5 / math.sqrt(len(gaps))


def test_gap_check_detects_a_rate_that_is_3_percent_off() -> None:
    gaps = np.diff(due_times(Arrivals("poisson", 515.0), 60.0, seed=1)) / SECOND_NS
    assert exponential_distance(gaps, 500.0) > KOLMOGOROV_SMIRNOV_FACTOR / math.sqrt(len(gaps))


@pytest.mark.parametrize(("first", "last"), [(100.0, 1900.0), (1900.0, 100.0), (0.0, 2000.0), (2000.0, 0.0)])
def test_ramp_has_expected_rate_in_each_tenth_of_its_time(first: float, last: float) -> None:
    seconds = 50.0
    due = due_times(Arrivals("ramp", first, last), seconds, seed=3)
    counts, _ = np.histogram(due, bins=10, range=(0, seconds * SECOND_NS))
    for tenth, count in enumerate(counts.tolist()):
        expected = (first + (last - first) * (tenth + 0.5) / 10) * seconds / 10
        assert count == pytest.approx(expected, abs=5 * math.sqrt(expected)), tenth


@pytest.mark.parametrize(("first", "last"), [(100.0, 700.0), (700.0, 100.0)])
def test_ramp_arrivals_follow_a_linear_rate(first: float, last: float) -> None:
    seconds = 40.0
    due = due_times(Arrivals("ramp", first, last), seconds, seed=4) / SECOND_NS
    until = first * due + (last - first) * due**2 / (2 * seconds)
    found = distance(due, until / ((first + last) / 2 * seconds))
    assert found < KOLMOGOROV_SMIRNOV_FACTOR / math.sqrt(len(due))


def test_ramp_of_constant_rate_equals_poisson_arrivals() -> None:
    ramp, poisson = Arrivals("ramp", 300.0, 300.0), Arrivals("poisson", 300.0)
    assert np.array_equal(due_times(ramp, 20.0, seed=5), due_times(poisson, 20.0, seed=5))


def test_bursts_arrive_at_single_instants_over_poisson_arrivals() -> None:
    arrivals = Arrivals("bursts", 200.0, burst_sessions=70, every_seconds=4.0)
    due = due_times(arrivals, 30.0, seed=6)
    moments, counts = np.unique(due, return_counts=True)
    bursts = {moment: count for moment, count in zip(moments.tolist(), counts.tolist(), strict=True) if count > 2}
    assert bursts == {second * SECOND_NS: 70 for second in range(0, 30, 4)}
    between = moments[counts <= 2]
    assert len(between) == pytest.approx(6000, abs=5 * math.sqrt(6000))
    gaps = np.diff(between, prepend=0) / SECOND_NS
    assert exponential_distance(gaps, 200.0) < KOLMOGOROV_SMIRNOV_FACTOR / math.sqrt(len(gaps))


@given(some_arrivals, st.floats(0.0, 20.0), st.integers(0, 2**62), st.integers(1, 7))
@example(Arrivals("bursts", 0.0, burst_sessions=7, every_seconds=2.0), 5e-324, 0, 1)
def test_parts_of_a_schedule_add_up_to_the_whole_within_bounds(
    arrivals: Arrivals, seconds: float, seed: int, parts: int
) -> None:
    whole = due_times(arrivals, seconds, seed)
    assert whole.dtype == np.int64
    assert len(whole) <= arrivals.sessions_max(seconds)
    assert np.all(np.diff(whole) >= 0)
    assert not len(whole) or (whole[0] >= 0 and whole[-1] < seconds * SECOND_NS)
    shares = [due_times(arrivals, seconds, seed, part, parts) for part in range(parts)]
    assert np.array_equal(np.sort(np.concatenate(shares)), whole)
    for part, share in enumerate(shares):
        assert np.array_equal(share, whole[part::parts])
        assert share.base is None, "a part must not keep the whole in memory"


@given(some_arrivals.filter(lambda arrivals: arrivals.kind != "constant"), st.integers(0, 2**62))
def test_schedule_is_determined_by_its_seed(arrivals: Arrivals, seed: int) -> None:
    first = due_times(arrivals, 20.0, seed)
    assert np.array_equal(first, due_times(arrivals, 20.0, seed))
    if len(set(first.tolist())) > 3 + 20.0 / (arrivals.every_seconds or 1e9):  # more arrivals than the bursts
        assert not np.array_equal(first, due_times(arrivals, 20.0, seed + 1))


def test_poisson_schedule_of_seed_1_never_changes() -> None:
    """The kind, rate and seed in a database determine when every session was due."""
    due = due_times(Arrivals("poisson", 10.0), 1.0, seed=1)[:4]
    assert due.tolist() == pytest.approx([71707442, 372212389, 387779527, 684687485], abs=1)
