"""Rates from concurrent workloads and open loops, for runs without lone measurements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from archiver.values.errors import ResultsError
from results.planning.measured_rates import OFFERED, measured_footprints, measured_surface, workload_cells
from results.planning.rate_surface import RateCell
from results.recorded.model import CriterionResult, Offered, Result
from tests.results.conftest import MakeResult, MakeRun
from tests.results.planning.plans import plan_mail
from tests.results.tile_run import criterion, part
from tests.results.watched_run import PLATFORM, phase_record

SCHEDULE = Offered(100, 10.0, 100, 0, 0, 0, None)

MB = 10**6


def workload(make: MakeResult, name: str, position: int = 1, **given: Any) -> Result:
    operation = given.pop("operation", "archive")
    rate = given.pop("rate", 100.0)
    values = {"application": name, "workload": f"{name} {position}", "phase": "load", "position": position}
    return make(operation, 8192, 10, rate, **{**values, **given})


def cells(results: list[Result], criteria: list[CriterionResult] | None = None) -> dict[tuple[str, int], RateCell]:
    return {(cell.operation, cell.clients): cell for cell in workload_cells(results, criteria or [])}


def test_mix_has_rate_per_operation_with_mean_size(make_result: MakeResult) -> None:
    parts = (
        part("archive", 30.0, size=1000),
        part("retrieve", 70.0, size=5000),
        part("log", 500.0, operation="archive"),
    )
    found = cells([workload(make_result, "users", operation="mixed", parts=parts, clients=8)])
    assert set(found) == {("archive", 8), ("retrieve", 8)}
    archive = found["archive", 8]
    assert (archive.object_bytes, archive.objects_per_session, archive.objects_per_second.value) == (1000, 10, 30.0)
    assert archive.doubts[-1] == "measured in a mix of archive, retrieve: without the others it may be faster"


def test_clients_and_rates_of_concurrent_copies_are_added(make_result: MakeResult) -> None:
    tiles = [workload(make_result, "mail", copy=n, workload=f"tile {n} mail", clients=4) for n in (1, 2, 3)]
    (cell,) = workload_cells(tiles, [])
    assert (cell.clients, cell.objects_per_second.value) == (12, 300.0)


def test_phases_of_one_workload_count_as_repetitions(make_result: MakeResult) -> None:
    (cell,) = workload_cells([workload(make_result, "mail", n, rate=rate) for n, rate in ((1, 90.0), (2, 110.0))], [])
    assert cell.objects_per_second.value == 100.0
    assert cell.objects_per_second.low is not None


@pytest.mark.parametrize(("given", "is_offered"), [({"offered": SCHEDULE}, True), ({}, False)])
def test_open_loop_rate_is_warned_as_offered_load(
    make_result: MakeResult, given: dict[str, Any], is_offered: bool
) -> None:
    (cell,) = workload_cells([workload(make_result, "mail", **given)], [])
    assert (OFFERED in cell.doubts) is is_offered
    assert cell.has_session_time is not is_offered


def test_mixed_workload_gives_no_session_time(make_result: MakeResult, make_run: MakeRun) -> None:
    """Eight clients that retrieve 70 objects/s and do other work as well do not take 8 / 70 s for a retrieve."""
    parts = (part("archive", 30.0), part("retrieve", 70.0))
    mixed = workload(make_result, "users", operation="mixed", parts=parts, clients=8)
    surface = measured_surface(make_run([phase_record(1, mixed, 1, 2)]))
    plan = plan_mail(surface, users=10, messages=10, mean_bytes=8192)
    assert plan.archiving is not None
    assert plan.archiving.seconds.value == pytest.approx(100 / 30)
    assert (plan.single, plan.retrieval) == (None, None)
    assert any("do not show how long one retrieve takes" in reason for reason in plan.unanswered)


def test_rates_are_of_largest_scale_that_met_its_criteria(make_result: MakeResult) -> None:
    results = [workload(make_result, "mail", n, scale=float(n), rate=100.0 * n) for n in (1, 2, 3)]
    missed = [criterion("mail", "object_ms.p99 <= 20", 20.0, 50.0, False, scale=3.0, position=3)]
    (cell,) = workload_cells(results, missed)
    assert cell.objects_per_second.value == 200.0


def test_void_and_incomplete_phases_have_no_rate(make_result: MakeResult) -> None:
    missed = [criterion("mail", "object_ms.p99 <= 20", 20.0, 50.0, False, position=1)]
    assert workload_cells([workload(make_result, "mail", limited_by="client")], missed) == []
    assert workload_cells([workload(make_result, "mail", incomplete="a worker was lost")], []) == []
    assert workload_cells([workload(make_result, "mail", is_load=True)], []) == []


def test_lone_measurements_take_precedence_over_mixed(make_result: MakeResult, make_run: MakeRun) -> None:
    alone = make_result("archive", 8192, 25, 500.0)
    mixed = [workload(make_result, "mail", 2), workload(make_result, "readers", 2, operation="retrieve")]
    surface = measured_surface(make_run([phase_record(1, alone, 1, 2), phase_record(2, mixed[0], 3, 4, results=mixed)]))
    assert {key: [cell.objects_per_session for cell in table.values()] for key, table in surface.cells.items()} == {
        ("archive", 1): [25],
        ("retrieve", 1): [10],
    }


def test_plan_repeats_remarks_on_platform(make_result: MakeResult, make_run: MakeRun) -> None:
    phases = [phase_record(1, make_result("archive", 8192, 10, 100.0, settled=False), 1, 2)]
    weak = replace(PLATFORM, details={"retention_protected": False})
    remarks = measured_surface(make_run(phases, platform=weak)).remarks
    assert remarks[0].startswith("the server is not retention-protected")
    assert not any("precision" in remark for remark in remarks)  # a warning of each cell that the plan uses
    assert not any("retention-protected" in remark for remark in measured_surface(make_run(phases)).remarks)


def test_run_with_only_void_or_failed_phases_is_refused(make_result: MakeResult, make_run: MakeRun) -> None:
    unfit = [
        workload(make_result, "mail", incomplete="a worker was lost"),
        workload(make_result, "mail", limited_by="failures"),
        make_result(limited_by="failures"),
    ]
    for each in unfit:
        with pytest.raises(ResultsError, match="every phase is void, limited by failures or missed a criterion"):
            measured_surface(make_run([phase_record(1, each, 1, 2)]))


def test_footprint_is_growth_of_store_by_object_size(make_result: MakeResult) -> None:
    """8 KiB: 10 MB take 20 MB, later 30 MB take 50 MB; 64 KiB: 50 MB take 60 MB; 1 MiB: only 1 MB was archived."""
    steps = [
        ("archive", 8 << 10, 0, 1), ("archive", 64 << 10, 10, 21), ("retrieve", 64 << 10, 60, 81),
        ("archive", 8 << 10, 60, 81), ("archive", 1 << 20, 90, 131), ("retrieve", 1 << 20, 91, 140),
    ]  # fmt: skip
    results = [
        make_result(operation, size, position=n, archived_bytes_before=archived * MB, store_bytes_before=stored * MB)
        for n, (operation, size, archived, stored) in enumerate(steps, 1)
    ]
    assert measured_footprints(results) == pytest.approx({8 << 10: 70 / 40, 64 << 10: 60 / 50})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([("archive", 8 << 10, None)], [("archive", 8 << 10, None)]),  # the store's files are not visible
        ([("archive", 8 << 10, 0), ("archive", 16 << 10, 0)], [("archive", 8 << 10, 100)]),  # two sizes at once
    ],
)
def test_footprint_is_unknown(
    make_result: MakeResult, first: list[tuple[str, int, int]], second: list[tuple[str, int, int]]
) -> None:
    results = [
        make_result(operation, size, position=n, archived_bytes_before=n * 50 * MB, store_bytes_before=stored)
        for n, phase in enumerate((first, second))
        for operation, size, stored in phase
    ]
    assert measured_footprints(results) == {}
