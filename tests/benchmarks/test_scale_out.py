"""The hardware that a rate needs, and merged reports, for numbers with a known answer."""

from __future__ import annotations

import pytest

from benchmarks.scale_out import (
    CORES,
    MERGED_OBJECTS,
    OBJECTS_PER_REPORT,
    SHARE,
    full_reports,
    merge_phase,
    need,
    phase_of,
    small_reports,
    workers_at_most,
)


def test_need_computes_cores_machines_and_links_for_rate() -> None:
    found = need(1_000_000, 8192, object_cpu=50.0, report_cpu=500.0)
    assert found[CORES] == 50
    assert [found[f"machines of {cores} cores"] for cores in (16, 32, 64)] == [4, 2, 1]
    assert [found[f"links of {gigabits} Gbit/s"] for gigabits in (10, 25, 100)] == [7, 3, 1]  # 65.5 Gbit/s
    assert found[SHARE] == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("rate", "cost", "cores", "machines_of_16"),
    [(1, 1.0, 1, 1), (16_000, 1000.0, 16, 1), (16_001, 1000.0, 17, 2), (10_000, 100.0, 1, 1), (10_001, 100.0, 2, 1)],
)
def test_cores_and_machines_are_rounded_up(rate: int, cost: float, cores: int, machines_of_16: int) -> None:
    found = need(rate, 1 << 20, cost, 1.0)
    assert (found[CORES], found["machines of 16 cores"]) == (cores, machines_of_16)


def test_link_count_follows_archive_throughput() -> None:
    assert need(12_500, 100_000, 1.0, 1.0)["links of 10 Gbit/s"] == 1  # 10 Gbit/s, exactly
    assert need(12_501, 100_000, 1.0, 1.0)["links of 10 Gbit/s"] == 2


def test_coordinator_is_full_when_reports_take_one_second_per_second() -> None:
    assert workers_at_most(500.0) == 2000
    full = need(2000, 1, 1e6, 500.0)  # each object takes one core, and one worker, for one second
    assert full[CORES] == 2000
    assert full[SHARE] == pytest.approx(100.0)


def test_all_reported_objects_are_counted_and_merged() -> None:
    assert merge_phase(phase_of(3), small_reports(3)) == 3 * MERGED_OBJECTS
    for report in full_reports():
        assert sum(tally.objects for tally in report.tallies.values()) == pytest.approx(OBJECTS_PER_REPORT, rel=0.01)
