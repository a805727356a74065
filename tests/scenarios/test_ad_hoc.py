"""The scenarios of `archiver bench` are valid and bounded, and archive the objects that they retrieve."""

from __future__ import annotations

from typing import Any

import pytest

from archiver.values.errors import ScenarioError
from scenarios.ad_hoc import ARCHIVE, RETRIEVE, AdHoc, AdHocOperation, ad_hoc_text, parse_operation
from scenarios.model import Scenario
from scenarios.reading.reader import read_scenario
from scenarios.work.mix import Mix
from scenarios.work.sessions import InWindow, Sessions, StopRule, UntilPrecise

MIXED = AdHocOperation(70, 30)
GUARD = 40 * 10**9


def wanted(**given: Any) -> AdHoc:
    values: dict[str, Any] = {
        "operations": (ARCHIVE, RETRIEVE), "object_bytes": (8192,), "objects_per_session": (10,), "clients": (2,),
        "seconds": 6.0,
    }  # fmt: skip
    return AdHoc(**{**values, **given})


def made(guard: int = GUARD, **given: Any) -> Scenario:
    return read_scenario("archiver bench", text=ad_hoc_text(wanted(**given), guard))


def stops(scenario: Scenario) -> list[StopRule]:
    works = [workload.work for phase in scenario.phases if not phase.is_load for workload in phase.workloads]
    return [work.stop for work in works if isinstance(work, Sessions)]


def mixes(scenario: Scenario) -> list[Mix]:
    works = [workload.work for phase in scenario.phases if not phase.is_load for workload in phase.workloads]
    return [work for work in works if isinstance(work, Mix)]


def test_every_combination_becomes_a_separate_phase() -> None:
    scenario = made(object_bytes=(8192, 1 << 20), objects_per_session=(1, 100), clients=(1, 16))
    names = [phase.label for phase in scenario.phases]
    assert len(names) == len(set(names)) == 16
    assert names[:3] == ["archive 8KiB x 1, 1 client", "archive 8KiB x 100, 1 client", "archive 8KiB x 1, 16 clients"]
    assert names[-1] == "retrieve 1MiB x 100, 16 clients"
    assert {each.work.operation_label for each in scenario.workloads} == {"archive", "retrieve"}
    assert {stop.warm_up_seconds + stop.seconds for stop in stops(scenario) if isinstance(stop, InWindow)} == {6.0}
    alone = [stop for stop in stops(scenario) if isinstance(stop, UntilPrecise)]
    assert {(stop.warm_up_seconds, stop.seconds_min, stop.seconds_max) for stop in alone} == {(0.6, 5.4, 5.4)}


def test_retrieve_reads_data_of_archive_phase() -> None:
    archive, retrieve = made(object_bytes=(8192,)).workloads
    assert archive.data == retrieve.data
    assert not any(phase.is_load for phase in made().phases)


@pytest.mark.parametrize("operations", [(RETRIEVE,), (RETRIEVE, ARCHIVE)])
def test_sweeps_archive_objects_first_if_the_first_operation_retrieves(operations: tuple[AdHocOperation, ...]) -> None:
    phases = made(operations=operations, object_bytes=(8192, 1 << 20)).phases
    assert [phase.is_load for phase in phases] == [True, True, *[False] * (len(phases) - 2)]
    assert [phase.workloads[0].work.mean_bytes for phase in phases[:2]] == [8192, 1 << 20]


@pytest.mark.parametrize("operations", [(MIXED,), (MIXED, ARCHIVE)])
def test_load_phase_archives_objects_if_first_operation_is_mixed(operations: tuple[AdHocOperation, ...]) -> None:
    first, *others = made(operations=operations, object_bytes=(8192, 64 << 20)).phases
    assert first.is_load
    assert not any(phase.is_load for phase in others)
    assert [(each.work.operation_label, each.work.mean_bytes) for each in first.workloads] == [
        ("archive", 8192),
        ("archive", 64 << 20),
    ]
    assert first.archived_max().objects == 1000 + 16


def test_mixed_operation_has_requested_shares() -> None:
    (mix,) = mixes(made(operations=(MIXED,)))
    assert [(each.steps, each.share) for each in mix.transactions] == [(("retrieve",), 70), (("archive",), 30)]


def test_session_rate_makes_an_open_loop() -> None:
    for mix in mixes(made(operations=(ARCHIVE, RETRIEVE, MIXED), sessions_per_second=12.5)):
        assert mix.arrivals is not None
        assert (mix.arrivals.kind, mix.arrivals.per_second, mix.bytes_max) == ("poisson", 12.5, None)


@pytest.mark.parametrize("operations", [(ARCHIVE,), (ARCHIVE, RETRIEVE, MIXED), (MIXED,)])
@pytest.mark.parametrize("guard", [10**9, GUARD])
def test_closed_loops_use_most_of_locked_bytes_limit(operations: tuple[AdHocOperation, ...], guard: int) -> None:
    scenario = made(
        guard, operations=operations, object_bytes=(8192, 1 << 20), objects_per_session=(1, 10), clients=(1, 4),
        seconds=60.0,
    )  # fmt: skip
    assert 0.5 * guard < scenario.archived_max().bytes <= guard


def test_short_measurement_bound_allows_for_fast_platforms() -> None:
    small, large = (mixes(made(operations=(MIXED,), object_bytes=(size,)))[0].bytes_max for size in (8192, 1 << 20))
    assert (small, large) == (984 * 10**6, 6 * 10**9)  # 20,000 objects/s and 1 GB/s
    (small_stop,), (large_stop,) = (stops(made(operations=(ARCHIVE,), object_bytes=(s,))) for s in (8192, 1 << 20))
    assert isinstance(small_stop, InWindow)
    assert isinstance(large_stop, InWindow)
    assert 2 * small_stop.client_bytes_max == 20_000 * 6 * 8192
    assert 2 * large_stop.client_bytes_max == 6 * 10**9


def test_bound_allows_two_long_sessions_per_client_beyond_limit() -> None:
    scenario = made(10**6, operations=(ARCHIVE,), object_bytes=(1 << 20,), objects_per_session=(100,), clients=(8,))
    assert scenario.archived_max().bytes >= 2 * 8 * 100 << 20


def test_one_hour_of_one_byte_objects_is_possible() -> None:
    assert made(operations=(ARCHIVE,), object_bytes=(1,), seconds=3600.0).archived_max().objects == 10_000_000


def test_criteria_of_options_are_in_scenario() -> None:
    assert [each.text for each in made(criteria=("errors == 0", "object_ms.p99 <= 20")).criteria] == [
        "errors == 0", "object_ms.p99 <= 20",
    ]  # fmt: skip
    with pytest.raises(ScenarioError, match=r"--criterion: criterion 'errors \?': write it as"):
        made(criteria=("errors ?",))


@pytest.mark.parametrize(
    ("text", "operation"), [("archive", ARCHIVE), ("retrieve", RETRIEVE), ("mixed:70/30", MIXED), ("mixed:1/999", None)]
)
def test_operations_are_parsed(text: str, operation: AdHocOperation | None) -> None:
    assert parse_operation(text) == (operation or AdHocOperation(1, 999))


@pytest.mark.parametrize(
    "text", ["", "delete", "mixed", "mixed:", "mixed:70", "mixed:0/100", "mixed:70/1000", "mixed:-1/3", "mixed:a/b",
             "mixed:1/2/3", "archive:1/2", "mixed:²/3"]
)  # fmt: skip
def test_unknown_operation_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an operation: archive, retrieve, or mixed:70/30"):
        parse_operation(text)
