"""Runs of a scorecard: synthetic conformance runs, and runs that measured every point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from results.comparison.compare import MeasuredRun
from results.comparison.conformance import ConformanceRun
from results.comparison.scorecard.cards import scored_run
from results.recorded.database import RunDatabase
from results.recorded.model import CheckRecord
from results.recorded.run import read_run
from tests.results.comparison.compared_runs import MakeRun
from tests.results.watched_run import PLATFORM

SMALL, LARGE = 8 << 10, 1 << 20
STARTED = {"platform_started": True}
ALL_CELLS = {(operation, size, 25): (500.0,) for operation in ("archive", "retrieve") for size in (SMALL, LARGE)}


def check(identifier: str, verdict: str, severity: str = "S1", round_: str = "alone", reason: str = "") -> CheckRecord:
    return CheckRecord(
        identifier, "Family", "delete a locked version", "refuse", "403", ("R1",), severity, verdict, reason, 1.0, 0.1,
        round_,
    )  # fmt: skip


def checked_run(
    make_database: Callable[..., RunDatabase], name: str, *checks: CheckRecord, version: str = "1", **record: Any
) -> ConformanceRun:
    platform = replace(PLATFORM, name=name, version=version, endpoints=("http://127.0.0.1:1",))
    values = {"id": f"checked-{name}-{version}", "platform": platform, "settings": STARTED, **record}
    database = make_database(**values)
    for each in checks:
        database.add_check(each, [])
    run = scored_run(read_run(database.path))
    assert isinstance(run, ConformanceRun)
    return run


def with_all_points(make_measured: MakeRun, name: str) -> MeasuredRun:
    one, sixteen = (make_measured(name, ALL_CELLS, clients=clients, phase=f"{clients}") for clients in (1, 16))
    return replace(one, results=[*one.results, *sixteen.results])
