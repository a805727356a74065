"""Curves over the time of a run: rates from samples, with gaps where no samples were taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan

import pytest

from results.measures.watched import NOTHING_WATCHED, Curve, Watched, watched
from results.recorded.model import Result
from results.recorded.resources import SampleRow, Timeline
from results.recorded.run import RecordedRun
from tests.results.watched_run import phase_record, sample, ten_seconds, two_phases

MakeResult = Callable[..., Result]
MakeRun = Callable[..., RecordedRun]
WatchedFor = Callable[..., Watched]


@pytest.fixture
def watched_for(make_run: MakeRun, make_result: MakeResult) -> WatchedFor:
    """Return a function that makes a run of one phase of this duration with these samples."""

    def of(seconds: float, samples: Sequence[SampleRow]) -> Watched:
        return watched(make_run([phase_record(1, make_result(), 0, seconds)], samples))

    return of


def writing(*moments: tuple[float, float]) -> list[SampleRow]:
    """Return samples of one disk from (second, bytes written until then)."""
    return [sample("local", second, disk_write_bytes={"vda": size}) for second, size in moments]


def points(curve: Curve) -> list[tuple[float, float | None]]:
    return [(round(second, 3), None if isnan(value) else round(value, 3)) for second, value in zip(*curve, strict=True)]


def written(found: Watched) -> Curve:
    return found.curves(found.timelines["local"], "disk_write_bytes")["vda"]


def test_watched_data_is_read_from_run_database(make_run: MakeRun, make_result: MakeResult) -> None:
    phases = [*two_phases(make_result(), make_result("retrieve", position=2)), phase_record(
        3, make_result(position=3), 10, 11, drift_check=True
    )]  # fmt: skip
    found = watched(make_run(phases, ten_seconds(), shared_host=True))
    assert [phase.position for phase in found.phases] == [1, 2, 3]
    assert found.sweeps == {1: "archive", 2: "retrieve", 3: "archive"}
    assert list(found.timelines) == ["local", "pid:7", "minio"]
    assert (found.shares_host, found.disk_roles) == (True, {"vda": "object"})
    assert list(found.sources("process_cpu_seconds")) == ["pid:7"]
    assert found.sources("store_syncs") == NOTHING_WATCHED.sources("process_cpu_seconds") == {}


def test_curve_has_rate_of_each_second_at_its_end(watched_for: WatchedFor) -> None:
    found = watched_for(3, writing((0, 100), (1, 110), (2, 130), (3, 130)))
    assert points(written(found)) == [(0, 10), (1, 10), (2, 20), (3, 0)]


def test_curve_combines_several_counters_and_items(watched_for: WatchedFor) -> None:
    samples = [
        sample("local", second, cpu_user_seconds={"0": second, "1": 0}, cpu_system_seconds={"0": 0, "1": second / 2})
        for second in range(3)
    ]
    found = watched_for(2, samples)
    quantities = ("cpu_user_seconds", "cpu_system_seconds")
    timeline = found.timelines["local"]
    assert points(found.curve(timeline, sum, *quantities)) == [(0, 1.5), (1, 1.5), (2, 1.5)]
    assert points(found.curve(timeline, max, *quantities)) == [(0, 1), (1, 1), (2, 1)]


def test_samples_close_in_time_are_merged(watched_for: WatchedFor) -> None:
    """10 bytes within 1 ms must not give a rate of 10,000 bytes/s."""
    found = watched_for(2, writing((0, 0), (0.999, 10), (1, 20), (2, 20)))
    assert points(written(found)) == [(0, 10.01), (0.999, 10.01), (2, 9.99)]


def test_gap_in_samples_breaks_curve(watched_for: WatchedFor) -> None:
    found = watched_for(9, writing((0, 0), (1, 10), (2, 20), (7, 1020), (8, 1030), (9, 1040)))
    assert points(written(found)) == [(0, 10), (1, 10), (2, 10), (7, None), (7, 10), (8, 10), (9, 10)]


def test_three_seconds_without_sample_are_no_gap(watched_for: WatchedFor) -> None:
    found = watched_for(4, writing((0, 0), (1, 10), (4, 40)))
    assert points(written(found)) == [(0, 10), (1, 10), (4, 10)]


def test_curve_of_late_item_begins_when_it_appears(watched_for: WatchedFor) -> None:
    samples = [
        sample("local", second, disk_write_bytes={"vda": 0, **({"vdb": 5 * second} if second > 1 else {})})
        for second in range(4)
    ]
    found = watched_for(3, samples)
    assert points(found.curves(found.timelines["local"], "disk_write_bytes")["vdb"]) == [
        (1, None), (2, None), (2, 5), (3, 5),
    ]  # fmt: skip


def test_unwatched_quantity_has_no_curves(watched_for: WatchedFor) -> None:
    found = watched_for(3, [])
    assert found.timelines == {}
    assert found.curves(Timeline(), "disk_write_bytes") == {}
    assert found.curve(Timeline(), sum, "disk_write_bytes") == Curve([], [])
