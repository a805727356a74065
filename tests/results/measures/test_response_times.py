"""Merged response times: shares and percentiles agree with those of the histogram."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from archiver.measure.histogram import Histogram, part_of
from results.measures.responses import NO_RESPONSES, Responses, merged, responses_of
from results.measures.stored_times import stored_times
from results.recorded.database import HistogramRow, RunDatabase, RunRecord
from results.recorded.model import Latency, Result
from results.recorded.run import read_run
from tests.results.watched_run import RECORD, phase_record


def of(milliseconds: list[float]) -> Responses:
    part = part_of(np.array([round(each * 1e6) for each in milliseconds], dtype=np.int64))
    indices, counts = part.indices.astype("<i8").tobytes(), part.counts.astype("<i8").tobytes()
    return responses_of(indices, counts, part.max_ns / 1e6)


def test_share_within_limit_covers_all_merged_parts() -> None:
    together = merged([of([1.0, 2.0, 30.0]), of([3.0]), NO_RESPONSES])
    assert together.count == 4
    assert [together.share_within(limit) for limit in (0.5, 1.5, 10.0, 29.0, 30.0, 1e6)] == [0, 0.25, 0.75, 0.75, 1, 1]
    assert together.shares(np.array([1.5, 10.0])).tolist() == [0.25, 0.75]


def test_merged_percentiles_equal_those_of_criteria_exactly() -> None:
    random = np.random.Generator(np.random.PCG64(7))
    parts = [random.lognormal(1.5, 1.2, 700).tolist() for _ in range(3)]
    whole = Histogram()
    for times in parts:
        whole.add(part_of(np.array([round(each * 1e6) for each in times], dtype=np.int64)))
    latency, found = whole.latency(), merged(of(times) for times in parts)
    assert latency is not None
    assert (found.percentile(70), found.percentile(99)) == (latency.p70, latency.p99)
    # So the share reaches 70% exactly at the 70th percentile.
    within = found.share_within(latency.p70)
    below = found.share_within(np.nextafter(latency.p70, 0))
    assert within is not None
    assert below is not None
    assert below < 0.7 <= within


def test_values_in_bucket_of_limit_do_not_count_as_within() -> None:
    assert of([20.0, 20.001, 500.0]).share_within(20.0) == 0.0  # their bucket also contains 20.005


def test_no_responses_have_no_share_and_no_percentile() -> None:
    assert merged([]) is NO_RESPONSES
    assert (NO_RESPONSES.share_within(20.0), NO_RESPONSES.percentile(70)) == (None, None)
    assert of([4.0]).percentile(70) == pytest.approx(4.0)


@pytest.mark.parametrize(("repetitions", "are_needed"), [(1, False), (3, True)])
def test_histograms_are_read_only_for_repeated_results(
    tmp_path: Path, make_result: Callable[..., Result], repetitions: int, are_needed: bool
) -> None:
    """Of three repetitions with 1, 2 and 3 ms the median is 2 ms, and the 99th percentile 3 ms."""
    database = RunDatabase.create(tmp_path / "run.db", RunRecord(**{**RECORD, "repetitions": repetitions}))
    results = []
    for number in range(1, repetitions + 1):
        part = part_of(np.full(100, number * 10**6, dtype=np.int64))
        latency = Latency(100, *[float(number)] * 7)
        result = make_result(repetition=number, position=number, session_service_ms=latency)
        row = HistogramRow(
            result.workload, "session_service", part.total_ns, part.max_ns,
            part.indices.astype("<i8").tobytes(), part.counts.astype("<i8").tobytes(),
        )  # fmt: skip
        database.add_phase(phase_record(number, result, number * 2.0, number * 2.0 + 1.0, histograms=[row]))
        results.append(result)
    times = stored_times(read_run(database.path))
    database.close()
    assert bool(times.histograms) is are_needed
    found = times.over("session_service", results)
    assert found is not None
    assert (found.count, found.p99, found.max) == pytest.approx(
        (100 * repetitions, repetitions, repetitions), rel=0.001
    )
    assert (found.p50, found.mean) == pytest.approx(((repetitions + 1) / 2,) * 2, rel=0.001)
