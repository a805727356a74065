"""The merging benchmark runs small and merges everything; how fast it is, is no matter for a test."""

from __future__ import annotations

from benchmarks import merging, page


def test_all_that_was_reported_is_merged() -> None:
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
