"""Samples of the server: usage between any two instants, also if they are not those of samples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.recorded.resources import QUANTITIES, Reading, SampleRow, Timeline, percentile_95

SECOND = 1_000_000_000


def timeline(*points: tuple[float, Reading]) -> Timeline:
    return Timeline(SampleRow("local", 1e9 + at, int(at * SECOND), reading) for at, reading in points)


def cpu(seconds: float, core: str = "0") -> Reading:
    return {"cpu_user_seconds": {core: seconds}}


def used(line: Timeline, from_s: float, to_s: float, quantity: str = "cpu_user_seconds") -> dict[str, float]:
    return line.used(quantity, int(from_s * SECOND), int(to_s * SECOND))


def test_usage_is_interpolated_at_interval_edges() -> None:
    line = timeline((0, cpu(100)), (1, cpu(101)), (2, cpu(105)), (3, cpu(105)))
    assert used(line, 0, 3) == {"0": pytest.approx(5)}
    assert used(line, 0.5, 1.5) == {"0": pytest.approx(0.5 + 2)}
    assert used(line, 1.25, 1.75) == {"0": pytest.approx(2)}
    assert used(line, 2, 3) == {"0": 0}


@given(st.lists(st.tuples(st.floats(0.01, 3), st.floats(0, 10)), min_size=2, max_size=12), st.data())
def test_usage_of_parts_sums_to_usage_of_whole(steps: list[tuple[float, float]], data: st.DataObject) -> None:
    at = total = 0.0
    points = [(0.0, cpu(0.0))]
    for wait, grown in steps:
        at, total = at + wait, total + grown
        points.append((at, cpu(total)))
    line = timeline(*points)
    cut = data.draw(st.floats(0, at))
    parts = used(line, 0, cut).get("0", 0.0) + used(line, cut, at).get("0", 0.0)
    assert parts == pytest.approx(total, rel=1e-6, abs=1e-6)


def test_counter_reset_by_restart_does_not_reduce_usage() -> None:
    line = timeline((0, cpu(50)), (1, cpu(60)), (2, cpu(3)), (3, cpu(4)))
    assert used(line, 0, 3) == {"0": pytest.approx(10 + 3 + 1)}


def test_new_item_counts_from_zero_only_for_threads_and_requests() -> None:
    before: Reading = {"thread_cpu_seconds": {"1/1": 5.0}, "disk_read_bytes": {"vda": 1e9}}
    after: Reading = {"thread_cpu_seconds": {"1/1": 6.0, "1/2": 0.5}, "disk_read_bytes": {"vda": 1e9, "vdb": 7e9}}
    line = timeline((0, before), (1, after))
    assert used(line, 0, 1, "thread_cpu_seconds") == {"1/1": 1.0, "1/2": 0.5}
    assert used(line, 0, 1, "disk_read_bytes") == {"vda": 0.0}  # disks count since boot
    requests = timeline((0, {}), (1, {"requests": {"PutObject": 3.0}}))  # the series appears with the first request
    assert used(requests, 0, 1, "requests") == {"PutObject": 3.0}


def test_disk_that_disappears_keeps_its_earlier_usage() -> None:
    both: Reading = {"disk_read_bytes": {"vda": 10.0, "vdb": 20.0}}
    later: Reading = {"disk_read_bytes": {"vda": 11.0, "vdb": 25.0}}
    gone: Reading = {"disk_read_bytes": {"vda": 12.0}}
    assert used(timeline((0, both), (1, later), (2, gone)), 0, 2, "disk_read_bytes") == {"vda": 2.0, "vdb": 5.0}


def test_no_usage_for_interval_outside_samples() -> None:
    line = timeline((1, cpu(1)), (2, cpu(2)))
    assert used(line, 0.5, 2) == {}
    assert used(line, 1, 2.001) == {}
    assert used(line, 1, 1) == {}
    assert used(Timeline(), 0, 1) == {}
    assert used(line, 1, 2, "disk_reads") == {}


def test_count_uses_samples_before_and_after_interval() -> None:
    def requests(count: float) -> Reading:
        return {"requests": {"PutObject": count}}

    line = timeline((0.9, requests(10)), (2, requests(50)), (3.01, requests(110)), (9, requests(999)))
    assert line.counted("requests", SECOND, 3 * SECOND) == {"PutObject": pytest.approx(100)}
    assert used(line, 1, 3, "requests")["PutObject"] < 100


def test_overlap_is_share_of_phase_in_sampled_time() -> None:
    line = timeline((0, cpu(0)), (1, cpu(1)), (3, cpu(3)))
    assert line.overlap(0, 3 * SECOND) == 1.0
    assert line.overlap(SECOND // 2, 3 * SECOND) == pytest.approx(2.5 / 3)
    assert line.overlap(int(1.5 * SECOND), 2 * SECOND) == pytest.approx(0.5 / 2)
    assert line.overlap(2 * SECOND, 4 * SECOND) == 0.0


def test_spread_uses_rate_of_counter_and_value_of_gauge() -> None:
    line = timeline(*((at, {**cpu(at**2 / 2), "process_resident_bytes": {"": at}}) for at in range(11)))
    rates = line.spread("cpu_user_seconds", 0, 10 * SECOND)["0"]
    assert (rates.mean, rates.p95, rates.max) == pytest.approx((5.0, 9.5, 9.5))
    memory = line.spread("process_resident_bytes", 2 * SECOND, 6 * SECOND)[""]
    assert (memory.mean, memory.p95, memory.max) == (4.0, 6.0, 6.0)


def test_rates_of_unevenly_spaced_samples_are_weighted_by_time() -> None:
    line = timeline((0, cpu(0)), (1, cpu(1)), (4, cpu(1)))
    spread = line.spread("cpu_user_seconds", 0, 4 * SECOND)["0"]
    assert (spread.mean, spread.max) == pytest.approx((1 / 4, 1.0))


def test_gap_in_samples_gives_no_usage_but_keeps_counts() -> None:
    def both(value: float) -> Reading:
        return {**cpu(value), "requests": {"PutObject": value}}

    line = timeline((0, both(0)), (3, both(3)), (14, both(90)), (15, both(91)))
    assert used(line, 0, 3) == {"0": 3.0}
    assert used(line, 1, 14.5) == {}
    assert line.spread("cpu_user_seconds", SECOND, 14 * SECOND) == {}
    assert line.counted("requests", SECOND, 15 * SECOND) == {"PutObject": 91.0}


def test_remaining_time_belongs_to_last_step_of_series() -> None:
    line = timeline((0, cpu(0)), (1, cpu(0.1)), (1.4, cpu(0.5)))
    (step,) = line.series("cpu_user_seconds", 0, int(1.4 * SECOND))
    assert step.values["0"] == pytest.approx(0.5 / 1.4)
    spread = line.spread("cpu_user_seconds", 0, int(1.4 * SECOND))["0"]
    assert spread.mean == pytest.approx(spread.max)


def test_last_value_may_be_older_than_last_sample() -> None:
    line = timeline((0, {"network_speed_bytes_per_second": {"eth0": 125e6}}), (1, cpu(1)), (2, cpu(2)))
    assert line.last("network_speed_bytes_per_second", 2 * SECOND) == {"eth0": 125e6}
    assert line.last("process_open_files", 2 * SECOND) == {}


@given(st.lists(st.floats(0, 100), min_size=1, max_size=60))
def test_at_least_95_percent_do_not_exceed_95th_percentile(values: list[float]) -> None:
    found = percentile_95(values)
    assert found in values
    assert sum(value <= found for value in values) >= 0.95 * len(values)
    smaller = [value for value in values if value < found]
    assert len(smaller) < 0.95 * len(values)


def test_names_of_quantities_have_units() -> None:
    counts = {"disk_reads", "disk_writes", "process_open_files", "process_context_switches", "process_cpu_limit_cores",
              "requests", "request_errors", "first_byte_requests", "store_syncs"}  # fmt: skip
    for name in QUANTITIES.keys() - counts:
        assert name.endswith(("_seconds", "_bytes", "_bytes_per_second")), name
