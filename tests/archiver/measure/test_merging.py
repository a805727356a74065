"""Test percentiles of the response times of each interval, from the reports of several workers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from archiver.measure import merging
from archiver.measure.histogram import Histogram, part_of
from archiver.measure.merging import OPEN_INTERVALS, Merge, ReplayMerge, Window
from archiver.measure.reports import IntervalReport, Tally, TallyKey
from results.recorded.database import IntervalRow
from scenarios.model import Phase, Workload
from scenarios.work.sessions import Sessions, UntilPrecise

PHASE = Phase(
    "archive", 1, 1, (Workload("archive", Sessions("archive", 8192, UntilPrecise(1.0, 10.0, 10**6, 0.05)), 1),)
)
WINDOW = Window(0, 1, None, None, True, 1.0)
MERGES = pytest.mark.parametrize("merge_type", [Merge, ReplayMerge])


def report(interval: int, *milliseconds: int, worker: int = 0) -> IntervalReport:
    """Return a worker's report of one interval with objects of these response times."""
    times = Histogram()
    times.add(part_of(np.array(milliseconds, dtype=np.int64) * 10**6))
    tally = Tally(objects=len(milliseconds), histograms={"object": times})
    return IntervalReport({TallyKey(interval, 0, "measured"): tally}, [], [], worker=worker)


def rows_of(merge: Merge, *reports: IntervalReport) -> dict[int, IntervalRow]:
    for each in reports:
        merge.take(each)
    return {row.interval: row for row in merge.interval_rows([WINDOW])}


@MERGES
def test_percentiles_of_an_interval_are_those_of_its_objects_over_all_workers(merge_type: type[Merge]) -> None:
    one, other = range(1, 51), range(51, 101)
    rows = rows_of(
        merge_type(PHASE), report(3, *one), report(4, 7), report(3, *other, worker=1), report(5, 1, 2, worker=1)
    )
    found = {interval: (row.response_p50_ns, row.response_p99_ns) for interval, row in rows.items()}
    assert found[3] == pytest.approx((50e6, 99e6), rel=1e-3)
    assert found[4] == pytest.approx((7e6, 7e6), rel=1e-3)
    assert found[5] == pytest.approx((1e6, 2e6), rel=1e-3)


@MERGES
def test_an_interval_without_objects_has_no_percentiles(merge_type: type[Merge]) -> None:
    failed = IntervalReport({TallyKey(0, 0, "measured"): Tally(errors=3)}, [], [])
    (row,) = rows_of(merge_type(PHASE), failed).values()
    assert (row.response_p50_ns, row.response_p99_ns) == (None, None)


def test_replay_merge_keeps_few_histograms_and_drops_late_ones() -> None:
    merge = ReplayMerge(PHASE)
    for interval in range(3 * OPEN_INTERVALS):
        merge.take(report(interval, 5))
    assert len(merge._responses) <= OPEN_INTERVALS + 1
    rows = rows_of(merge, report(0, 900, worker=1))
    assert (rows[0].objects, rows[0].response_p50_ns) == (2, None)
    assert rows[1].response_p50_ns == pytest.approx(5e6, rel=1e-3)
    assert rows[3 * OPEN_INTERVALS - 1].response_p99_ns == pytest.approx(5e6, rel=1e-3)


def kept_bytes(open_intervals: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the memory that reports of twelve workers use. Every interval has the same response times."""
    monkeypatch.setattr(merging, "OPEN_INTERVALS", open_intervals)
    merge, intervals, workers = Merge(PHASE), 60, 12
    tracemalloc.start()
    for interval in range(intervals):
        for worker in range(workers):
            merge.take(report(interval, *range(1, 400), worker=worker))
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size_bytes


def test_merging_reports_of_earlier_intervals_saves_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept_bytes(5, monkeypatch) < kept_bytes(10**6, monkeypatch) / 2
