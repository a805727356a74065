"""Test histograms: HdrHistogram's layout, merged by addition, percentiles only of the whole (fault F3)."""

from __future__ import annotations

import pickle
import tracemalloc
from random import Random

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from archiver.measure.histogram import HIGHEST_NS, Histogram, HistogramPart, index_of, part_of, percentiles
from results.report.hdr_log import SIGNIFICANT_DIGITS, hdr_histogram
from tests.support.examples import share_of

REFERENCE = HdrHistogram(1, HIGHEST_NS, SIGNIFICANT_DIGITS)
QUANTITIES = {"p50": 50, "p70": 70, "p90": 90, "p99": 99, "p99_9": 99.9}
# Even over bit lengths, not over values: covers small values and the edges of every bucket.
nanoseconds = st.integers(0, HIGHEST_NS) | st.builds(
    lambda shift, off: max(0, min(HIGHEST_NS, (1 << shift) + off)), st.integers(0, 46), st.integers(-2, 2)
)
samples = st.lists(nanoseconds, max_size=60)


def array(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def merged(parts: list[HistogramPart]) -> Histogram:
    histogram = Histogram()
    for part in parts:
        histogram.add(part)
    return histogram


def state(histogram: Histogram) -> tuple[object, ...]:
    part = histogram.part()
    return part.indices.tolist(), part.counts.tolist(), part.total_ns, part.max_ns, histogram.count


@given(nanoseconds)
def test_the_index_of_a_value_is_the_librarys(value: int) -> None:
    assert index_of(array([value]))[0] == REFERENCE._counts_index_for(value)


@pytest.mark.parametrize("value", [0, 1, 1023, 1024, 2047, 2048, 2049, 4095, 4096, 10**9, HIGHEST_NS - 1, HIGHEST_NS])
def test_index_at_bucket_edges_equals_the_librarys(value: int) -> None:
    assert index_of(array([value]))[0] == REFERENCE._counts_index_for(value)


@given(samples)
def test_part_has_ascending_indices_positive_counts_and_exact_sums(values: list[int]) -> None:
    part = part_of(array(values))
    assert np.all(np.diff(part.indices) > 0)
    assert np.all(part.counts > 0)
    assert int(part.counts.sum()) == len(values)
    assert part.total_ns == sum(values)
    assert part.max_ns == max(values, default=0)


@pytest.mark.parametrize(("value", "counted_as"), [(-1, 0), (-(10**12), 0), (HIGHEST_NS + 1, HIGHEST_NS)])
def test_values_out_of_range_are_counted_at_its_edge(value: int, counted_as: int) -> None:
    ours, edge = part_of(array([value])), part_of(array([counted_as]))
    assert state(merged([ours])) == state(merged([edge]))


@given(st.lists(samples, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_merge_order_and_grouping_do_not_matter(groups: list[list[int]], random: Random) -> None:
    parts = [part_of(array(group)) for group in groups]
    shuffled = list(parts)
    random.shuffle(shuffled)
    at_once = merged([part_of(array([value for group in groups for value in group]))])
    nested = merged([merged(parts[:2]).part(), merged(parts[2:]).part()])
    assert state(merged(parts)) == state(merged(shuffled)) == state(nested) == state(at_once)


@given(st.lists(samples.filter(len), min_size=1, max_size=5))
@example([[number * 1000 for number in range(1, 46)]])  # the rank of p70 is 31.5, which rounds up
def test_merged_percentiles_are_those_of_one_histogram_fed_everything(groups: list[list[int]]) -> None:
    whole = HdrHistogram(1, HIGHEST_NS, SIGNIFICANT_DIGITS)
    values = [value for group in groups for value in group]
    for value in values:
        whole.record_value(value)
    latency = merged([part_of(array(group)) for group in groups]).latency()
    assert latency is not None
    for name, percentile in QUANTITIES.items():
        expected = min(whole.get_value_at_percentile(percentile), max(values))
        assert getattr(latency, name) == pytest.approx(expected / 1e6, rel=1e-12), name
    assert latency.count == len(values)
    assert latency.mean == pytest.approx(sum(values) / len(values) / 1e6, rel=1e-12)
    assert latency.max == max(values) / 1e6


@pytest.mark.parametrize("spread", [0.1, 0.5, 1.5])
def test_percentiles_of_large_sample_are_within_0_1_percent_of_numpy(spread: float) -> None:
    values = np.random.default_rng(1).lognormal(np.log(3e6), spread, 400_000).astype(np.int64)
    latency = merged([part_of(chunk) for chunk in np.array_split(values, 37)]).latency()
    assert latency is not None
    for name, percentile in QUANTITIES.items():
        exact = float(np.percentile(values, percentile, method="closest_observation")) / 1e6
        assert getattr(latency, name) == pytest.approx(exact, rel=1e-3), name


def test_percentiles_are_never_means_of_window_percentiles() -> None:
    """Nine quiet seconds and one stalled second. A mean of ten medians or p99s is 101 ms, which no object had."""
    quiet, stalled = part_of(array([1_000_000] * 1000)), part_of(array([1_000_000_000] * 1000))
    latency = merged([quiet] * 9 + [stalled]).latency()
    assert latency is not None
    assert latency.p50 == pytest.approx(1.0, rel=1e-3)
    assert latency.p70 == pytest.approx(1.0, rel=1e-3)
    assert latency.p99 == pytest.approx(1000.0, rel=1e-3)


def test_an_empty_histogram_has_no_latency() -> None:
    assert Histogram().latency() is None
    assert merged([part_of(array([]))]).latency() is None


@given(st.lists(samples, min_size=1, max_size=5).filter(any))
def test_percentiles_equal_those_of_hdrhistogram_for_the_same_counts(lists: list[list[int]]) -> None:
    parts = [part_of(array(values)) for values in lists]
    histogram = merged(parts)
    counted = histogram.part()
    library = hdr_histogram(counted.indices.astype("<i8").tobytes(), counted.counts.astype("<i8").tobytes())
    expected = [
        min(library.get_value_at_percentile(percent), histogram.max_ns) / 1e6 for percent in QUANTITIES.values()
    ]
    assert percentiles(parts, list(QUANTITIES.values())) == expected
    latency = histogram.latency()
    assert latency is not None
    assert [getattr(latency, name) for name in QUANTITIES] == expected


@given(st.lists(samples, max_size=5))
def test_pickled_histogram_is_read_back_equal(lists: list[list[int]]) -> None:
    histogram = merged([part_of(array(values)) for values in lists])
    copy = pickle.loads(pickle.dumps(histogram))
    assert copy == histogram
    assert state(copy) == state(merged([part_of(array([value for values in lists for value in values]))]))
    copy.add(part_of(array([HIGHEST_NS])))
    assert copy != histogram
    assert copy.count == histogram.count + 1


@pytest.mark.parametrize("count", [1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**40])
def test_counts_and_gaps_of_any_size_can_be_pickled(count: int) -> None:
    part = HistogramPart(array([0, 255, 511, 66_047, 66_048]), array([1, 1, count, 1, 1]), count, 7)
    assert state(pickle.loads(pickle.dumps(merged([part])))) == state(merged([part]))


def test_counts_of_different_magnitudes_are_added() -> None:
    counts = [1, 300, 70_000, 2**33]
    parts = [HistogramPart(array([7, 600 + at]), array([each, each]), each, each) for at, each in enumerate(counts)]
    part = merged(parts).part()
    assert part.indices.tolist() == [7, 600, 601, 602, 603]
    assert part.counts.tolist() == [sum(counts), *counts]
    assert (part.total_ns, part.max_ns) == (sum(counts), max(counts))


def test_added_histogram_stays_unchanged() -> None:
    source, whole = merged([part_of(array([1000]))]), Histogram()
    whole.add_all(source)
    whole.add(part_of(array([2000])))
    assert (source.count, whole.count) == (1, 2)


def test_pickled_histogram_has_at_most_4_bytes_per_count() -> None:
    values = np.random.default_rng(1).lognormal(np.log(3e6), 0.3, 2000).astype(np.int64)
    histogram = merged([part_of(values)])
    assert len(pickle.dumps(histogram)) < 4 * len(histogram.part().indices) + 200


@settings(max_examples=share_of(30))
@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_count_is_right_at_any_time_while_parts_are_added(looks: int, seed: int) -> None:
    """Adds more parts than the buffer holds and reads the count in between."""
    random = np.random.default_rng(seed)
    histogram, everything = Histogram(), array([])
    for _ in range(looks):
        for _ in range(int(random.integers(0, 5))):
            values = random.integers(0, HIGHEST_NS, int(random.integers(0, 400)))
            histogram.add(part_of(values))
            everything = np.concatenate((everything, values))
        assert histogram.count == len(everything)
    assert state(histogram) == state(merged([part_of(everything)]))


def test_adding_many_parts_does_not_grow_memory() -> None:
    """A workload's histogram of an hour is added in hundreds of thousands of parts."""
    parts = [part_of(array([value])) for value in range(1000, 1100)]
    histogram = Histogram()
    tracemalloc.start()
    try:
        for part in parts * 10:
            histogram.add(part)
        few = tracemalloc.get_traced_memory()[0]
        for part in parts * 90:
            histogram.add(part)
        assert tracemalloc.get_traced_memory()[0] - few < 100_000
    finally:
        tracemalloc.stop()
    assert histogram.count == 10_000
