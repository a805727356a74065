"""The small version of the TSM benchmark runs. No test depends on a rate."""

from __future__ import annotations

import re
import shutil

import pytest

from benchmarks import page, tsm


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler, so no TSM library")
def test_tsm_loads_have_no_errors_and_text_has_all_sessions() -> None:
    document = tsm.measure(small=True)
    for name in ("tsm", "s3", "8KiB", "small_transactions", "1MiB"):
        assert len(document[name]) == document["rounds"]
        loads = [result for each in document[name] for load, result in each.items() if load != "writer"]
        assert loads
        assert all(result["objects"] > 0 and result["errors"] == 0 for result in loads), name
    # Each session is one transaction, so the number of syncs does not depend on the number of objects.
    assert document["tsm"][0]["500"]["syncs_per_session"] <= 3
    assert document["tsm"][0]["500"]["objects_per_commit"] >= 250
    text = page.text(tsm, document)
    for count in tsm.SESSIONS:
        assert re.search(rf"^{count} ", text, re.MULTILINE)
    assert set(document["goals_met"]) == set(tsm.GOALS)
