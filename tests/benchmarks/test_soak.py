"""The soak benchmark judges synthetic series correctly, and its small version runs."""

from __future__ import annotations

import pytest

from benchmarks.growth import GOALS, LONG, SHORT, Series, growth
from tests.benchmarks.small import document_of

GOAL = GOALS["resident MiB"]


def course(per_hour: float, moved: float = 0.0) -> Series:
    """Return one hour of samples, 10 s apart, that grow linearly with an alternating offset of ``moved``."""
    return [
        (second, 100 + per_hour * second / 3600 + (moved if second // 10 % 2 else -moved))
        for second in range(0, 3600, 10)
    ]


@pytest.mark.parametrize(
    ("per_hour", "moved", "verdict"),
    [(0, 0, "flat"), (0, 5, "flat"), (-100, 0, "flat"), (10, 1, "flat"), (30, 1, "grows"), (1000, 5, "grows")],
)
def test_series_is_judged_flat_or_growing(per_hour: float, moved: float, verdict: str) -> None:
    found = growth(course(per_hour, moved), GOAL)
    assert found is not None
    assert found["verdict"] == verdict
    assert found["growth per hour"] == pytest.approx(per_hour, abs=max(1e-6, float(found["95% interval ±"])))


def test_strongly_varying_series_is_not_judged() -> None:
    varying: Series = [(place, value) for place, value in enumerate([0.0, 90.0, 10.0, 80.0, 0.0, 95.0, 5.0, 60.0] * 3)]
    found = growth(varying, GOAL)
    assert found is not None
    assert found["verdict"] == "too short to tell"
    uncertain = growth([(second, second // 450 % 2 * 20.0) for second in range(0, 3600, 10)], GOAL)
    assert uncertain is not None
    assert float(uncertain["growth per hour"]) < GOAL
    assert uncertain["verdict"] == "too short to tell"
    assert growth([(1.0, 1.0)], GOAL) is None


@pytest.mark.long
def test_soak_watches_every_process_and_file() -> None:
    rows = document_of("soak")["experiments"]["soak"]
    for backend in ("s3", "tsm"):
        for part in (SHORT, LONG):
            watched = {row["labels"][2] for row in rows if row["labels"][:2] == [backend, part]}
            assert {"coordinator", "worker 1", "store", "run.db", "ledger.db", "segments", "catalogue"} <= watched
