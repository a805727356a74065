"""Synthetic runs with concurrent workloads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from results.comparison.compare import MeasuredRun
from results.mixed.programme import course
from results.recorded.database import WorkloadInterval
from results.recorded.model import CriterionResult, Result
from results.report.mixed_contents import WorkloadsShown
from tests.results.comparison.compared_runs import measured_run
from tests.results.tile_run import INTERVAL_NS, TileRun, steps

TILES: dict[str, Any] = {
    "name": "tiles",
    "workload": [
        {"name": "e-mail", "clients": 32},
        {"name": "e-mail check", "clients": 32, "after": "e-mail"},
        {"name": "web", "clients": 16},
    ],
}


def mixed_run(
    results: Sequence[Result],
    platform: str = "minio",
    *,
    intervals: Mapping[int, Iterable[WorkloadInterval]] | None = None,
    criteria: Sequence[CriterionResult] = (),
    weights: Mapping[str, float] | None = None,
    phases: Sequence[dict[str, Any]] = (TILES,),
    **given: Any,
) -> MeasuredRun:
    """Return a run with these results only; ``intervals``: the intervals of each position."""
    run = measured_run(lambda *_, **__: results[0], platform, **given)
    positions = sorted({result.position for result in results})
    courses = [
        course([each for each in results if each.position == position], intervals[position], INTERVAL_NS)
        for position in positions
        if intervals and position in intervals
    ]
    repetitions = max(result.repetition for result in results)
    text = json.dumps({"phase": phases})
    row = replace(run.row, repetitions=repetitions, scenario="tiles", scenario_json=text)
    mixed = WorkloadsShown(results, criteria, None, courses, "tiles", weights, None)
    return replace(run, row=row, results=results, mixed=mixed)


def programme(tiles: TileRun, web: float, email: float, check: float, position: int = 1) -> Any:
    """Return results and intervals of a phase: web for 20 s, e-mail from 2 s to 12 s, its check from 12 s to 18 s."""
    results = [
        tiles.web(1, web, begins_seconds=0.0, seconds=20.0, position=position, repetition=position),
        tiles.email(1, email, begins_seconds=2.0, seconds=10.0, position=position, repetition=position),
        tiles.one("e-mail check", 1, "retrieve", clients=32, begins_seconds=12.0, seconds=6.0, position=position,
                  repetition=position),
    ]  # fmt: skip
    rows = [
        *steps("tile 1 web", [(0, 20, web, 4.0)], 10_000),
        *steps("tile 1 e-mail", [(2, 12, email, 9.0)], 10_000),
        *steps("tile 1 e-mail check", [(12, 18, check, 3.0)], 10_000),
    ]
    return results, rows


def together(tiles: TileRun, platform: str, web: float, email: float, check: float, **given: Any) -> MeasuredRun:
    """Return a run with three repetitions of ``programme`` at these rates, in objects per second."""
    phases = [programme(tiles, web, email, check, position) for position in (1, 2, 3)]
    return mixed_run(
        [result for results, _ in phases for result in results],
        platform,
        intervals={position: rows for position, (_, rows) in enumerate(phases, 1)},
        **given,
    )
