"""The small version of the merging benchmark runs and merges all reports. No test depends on a rate."""

from __future__ import annotations

from benchmarks import merging, page


def test_all_reported_objects_are_merged() -> None:
    reports = merging.made_reports(3)
    phase = merging.a_phase(3)
    assert merging.merge_phase(phase, reports) == 3 * merging.OBJECTS


def test_merging_benchmark_reports_time_memory_and_bytes() -> None:
    document = merging.measure(small=True)
    assert document["seconds"] > 0
    assert 0 < document["report_bytes"] < 10_000
    assert document["grown_bytes"] >= 0
    forms = document["forms"]
    assert forms["sparse arrays"]["bytes"] < forms["dictionary"]["bytes"]
    told = page.text(merging, document)
    assert "sparse arrays" in told
    assert "dictionary" in told
