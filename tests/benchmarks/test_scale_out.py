"""The hardware that a rate needs, for numbers with a known answer. The small version of the benchmark runs."""

from __future__ import annotations

import pytest

from benchmarks import page, scale_out
from benchmarks.scale_out import Need, workers_at_most


def test_need_computes_cores_machines_and_links_for_rate() -> None:
    need = Need.of(1_000_000, 8192, client_microseconds=50.0, report_microseconds=500.0)
    assert need.cores == 50
    assert need.machines == {16: 4, 32: 2, 64: 1}
    assert need.links == {10: 7, 25: 3, 100: 1}  # 65.5 Gbit/s
    assert need.coordinator_percent == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("rate", "cost", "cores", "machines_of_16"),
    [(1, 1.0, 1, 1), (16_000, 1000.0, 16, 1), (16_001, 1000.0, 17, 2), (10_000, 100.0, 1, 1), (10_001, 100.0, 2, 1)],
)
def test_cores_and_machines_are_rounded_up(rate: int, cost: float, cores: int, machines_of_16: int) -> None:
    need = Need.of(rate, 1 << 20, cost, 1.0)
    assert (need.cores, need.machines[16]) == (cores, machines_of_16)


def test_link_count_follows_archive_throughput() -> None:
    assert Need.of(12_500, 100_000, 1.0, 1.0).links == {10: 1, 25: 1, 100: 1}  # 10 Gbit/s, exactly
    assert Need.of(12_501, 100_000, 1.0, 1.0).links == {10: 2, 25: 1, 100: 1}


def test_coordinator_is_full_when_reports_take_one_second_per_second() -> None:
    assert workers_at_most(500.0) == 2000
    full = Need.of(2000, 1, 1e6, 500.0)  # each object takes one core, and one worker, for one second
    assert full.cores == 2000
    assert full.coordinator_percent == pytest.approx(100.0)


def test_every_size_and_worker_count_is_measured_and_reported() -> None:
    document = scale_out.measure(small=True)
    rows = document["client_microseconds"]
    assert [(row["operation"], row["object_bytes"]) for row in rows] == [
        (operation, size) for operation in scale_out.OPERATIONS for size in scale_out.SIZES_SMALL
    ]
    assert all(cost > 0 for row in rows for kind in ("at_once", "waited_for") for cost in row[kind])
    assert list(document["merge_microseconds"]) == [str(workers) for workers in scale_out.WORKERS_SMALL]
    assert document["report_objects"] == pytest.approx(scale_out.OBJECTS_PER_REPORT, rel=0.01)
    told = page.text(scale_out, document)
    assert told.count("1,000,000") == len(rows)
    assert "workers" in scale_out.headline(document)
