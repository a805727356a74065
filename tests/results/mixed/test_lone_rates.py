"""The table of workloads that ran one at a time, which an ad-hoc run prints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from results.document.table import Table
from results.mixed.workloads import lone_rates_table
from results.recorded.model import Ceiling, Result
from tests.results.tile_run import TileRun


@pytest.fixture
def run(make_result: Callable[..., Result]) -> TileRun:
    return TileRun(make_result)


def shown(table: Table) -> list[dict[str, str]]:
    return [dict(zip([c.name for c in table.columns], [cell.text for cell in row], strict=True)) for row in table.rows]


def test_each_workload_and_each_of_its_operations_has_a_row(run: TileRun) -> None:
    rows = shown(lone_rates_table([run.web(rate=846.0, position=1), run.email(rate=1000.0, position=2)]))
    assert [(row["workload"], row["operation"]) for row in rows[:3]] == [
        ("tile 1 web", "all"), ("tile 1 e-mail", "all"), ("tile 1 e-mail", "archive"),
    ]  # fmt: skip
    assert (rows[0]["done"], rows[2]["done"]) == ("846.0", "200.0")
    assert [row["limited by"] for row in rows[:3]] == ["server cpu", "server cpu", ""]
    assert {"p50", "p99", "p99.9", "errors", "moved"} <= set(rows[0])
    assert "repetition" not in rows[0]


def test_repetitions_have_separate_rows(run: TileRun) -> None:
    rows = shown(lone_rates_table([run.web(position=1), run.web(position=2, repetition=2)]))
    assert [row["repetition"] for row in rows] == ["1", "2"]


def test_concurrent_workloads_are_not_in_table(run: TileRun) -> None:
    results = [run.web(position=1), run.scan(position=1)]
    assert not lone_rates_table(results).rows
    with_ceiling = replace(results[0], ceiling=Ceiling("null sessions", 1000.0, 0.5))
    assert lone_rates_table(results[:1]).rows
    assert not lone_rates_table([with_ceiling]).rows
