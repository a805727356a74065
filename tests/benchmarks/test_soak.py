"""The soak benchmark judges synthetic series correctly, and its small version runs."""

from __future__ import annotations

import pytest

from benchmarks.soak import GOALS, LONG, SHORT, Series, growth
from tests.benchmarks.small import document_of

MIB = 1 << 20
GOAL = GOALS["resident_bytes"]


def course(per_hour: float, moved: float = 0.0) -> Series:
    """Return one hour of samples, 10 s apart, that grow linearly with an alternating offset of ``moved``."""
    series = Series()
    for second in range(0, 3600, 10):
        series.add(second, 100 * MIB + per_hour * second / 3600 + (moved if second // 10 % 2 else -moved))
    return series


@pytest.mark.parametrize(
    ("per_hour", "moved", "verdict"),
    [(0, 0, "flat"), (0, 5, "flat"), (-100, 0, "flat"), (10, 1, "flat"), (30, 1, "grows"), (1000, 5, "grows")],
)
def test_series_is_judged_flat_or_growing(per_hour: float, moved: float, verdict: str) -> None:
    found = growth("worker", "resident_bytes", course(per_hour * MIB, moved * MIB), GOAL)
    assert found is not None
    assert found["verdict"] == verdict
    assert found["per_hour"] == pytest.approx(per_hour * MIB, abs=max(1.0, found["half_width"]))


def test_strongly_varying_series_is_not_judged() -> None:
    series = Series()
    for place, value in enumerate([0, 90, 10, 80, 0, 95, 5, 60] * 3):
        series.add(place, value * MIB)
    found = growth("worker", "resident_bytes", series, GOAL)
    assert found is not None
    assert found["verdict"] == "too short to tell"
    assert growth("worker", "resident_bytes", Series([1.0], [1.0]), GOAL) is None


@pytest.mark.long
def test_soak_watches_every_process_and_file() -> None:
    document = document_of("soak")
    assert document["runs"].keys() == {"s3", "tsm"}
    for run in document["runs"].values():
        assert run["parts"].keys() == {SHORT, LONG}
        watched = {each["of"] for each in run["parts"][SHORT]["growth"]}
        assert {"coordinator", "worker 1", "store", "run.db", "ledger.db", "segments", "catalogue"} <= watched
