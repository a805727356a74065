"""The small version of the store benchmark runs. No test depends on a rate."""

from __future__ import annotations

import shutil

import pytest

from benchmarks import page, store


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler, so no TSM library")
def test_store_loads_have_no_errors_and_text_has_all_figures() -> None:
    document = store.measure(small=True)
    for loads in (document["archive_8KiB"], document["archive_1MiB"]):
        assert len(loads) == document["rounds"]
        for result in (result for round_results in loads for name, result in round_results.items() if name != "writer"):
            assert result["objects"] > 0
            assert result["errors"] == 0
            assert result["server_cpu_microseconds_per_object"] > 0
            # Each commit syncs the catalogue and, for small objects, one segment.
            assert result["objects_per_sync"] < result["objects_per_commit"]
    assert [document["archive_1MiB"][0][name]["objects"] for name in ("4", "16", store.TSM)] == [16, 16, 16]
    assert set(document["goals_met"]) == set(document["goals"]) == set(store.GOALS)
    shown = page.text(store, document)
    assert "16 clients to one" in shown
    assert "16 clients through TSM" in shown
    assert "16 clients, S3 to TSM" in shown
    assert "share of the writer's rate" in shown
