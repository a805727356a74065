"""The small version of the audit benchmark runs. No test depends on a rate."""

from __future__ import annotations

from archiver.values.sizes import format_size
from benchmarks import audit, page


def test_same_objects_are_retrieved_and_audited() -> None:
    document = audit.measure(small=True)
    assert list(document["sizes"]) == [format_size(size) for size in audit.OBJECTS]
    for rounds in document["sizes"].values():
        assert all(each["retrieve"]["objects"] == each["audit"]["objects"] == audit.OBJECTS_SMALL for each in rounds)
    assert set(document["goals_met"]) == set(audit.GOALS)
    assert page.text(audit, document).count("audit / retrieve") == len(audit.OBJECTS)
