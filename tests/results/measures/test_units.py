"""The results that make up a cell, its warnings, and its error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from archiver.values.errors import ResultsError
from results.comparison.scorecard.tables import client_cpu_ms, server_cpu_ms, write_amplification
from results.measures.quality import CLIENT_LIMITED, CONNECTIONS_ENDED, ERRORS, Doubt
from results.measures.units import UnitKey, parallel_cells, single_cells
from results.recorded.model import Result
from results.tables.rates import build_tables
from results.tables.usage import per_object_table

MakeResult = Callable[..., Result]
KEY = UnitKey("archive", 8192, 25, 1)


def test_cell_rate_is_median_of_repetitions(make_result: MakeResult) -> None:
    results = [
        make_result(objects_per_second=rate, repetition=n, position=n)
        for n, rate in enumerate((500, 100, 300), start=1)
    ]
    assert single_cells(results)[KEY].objects_per_second == 300
    assert single_cells(results)[KEY].megabytes_per_second == pytest.approx(300 * 8192 / 1e6)


def test_first_cell_measured_again_changes_no_value(make_result: MakeResult) -> None:
    results = [
        make_result(objects_per_second=450, position=9),
        make_result(objects_per_second=500, position=1),
        make_result(objects_per_session=100, objects_per_second=900, position=2),
    ]
    assert single_cells(results)[KEY].objects_per_second == 500


def test_parallel_phases_are_not_in_single_client_matrix(make_result: MakeResult) -> None:
    alone = make_result(objects_per_second=500, position=1)
    parallel = [make_result(objects_per_second=510.0 * n, clients=n, phase="parallel", position=n + 1) for n in (1, 2)]
    elsewhere = make_result(objects_per_session=250, phase="parallel", position=4)
    cells = single_cells([*parallel, alone, elsewhere])
    assert {key: cell.objects_per_second for key, cell in cells.items()} == {KEY: 500}
    assert [cell.objects_per_second for cell in parallel_cells([alone, *parallel]).values()] == [510, 1020]


def test_single_client_cells_of_other_phases_replace_missing_matrix(make_result: MakeResult) -> None:
    results = [make_result(clients=n, position=n) for n in (1, 2)]
    assert list(single_cells(results)) == [KEY]
    alone = [make_result(position=1), make_result(clients=2, phase="parallel", position=2)]
    assert [key.clients for key in parallel_cells(alone)] == [1, 2]


@pytest.mark.parametrize(
    ("overrides", "doubts"),
    [
        ({}, ()),
        ({"errors": 1}, (ERRORS,)),
        ({"limited_by": "client"}, (CLIENT_LIMITED,)),
        ({"connections_per_session": 2.0, "requests_per_connection": 100.0}, (CONNECTIONS_ENDED,)),
        ({"limited_by": "server cpu"}, ()),
        ({"errors": 1, "limited_by": "client"}, (ERRORS, CLIENT_LIMITED)),
    ],
)
def test_warning_of_one_repetition_applies_to_cell(
    make_result: MakeResult, overrides: dict[str, Any], doubts: tuple[Doubt, ...]
) -> None:
    results = [make_result(), make_result(repetition=2, position=2, **overrides)]
    assert single_cells(results)[KEY].doubts == tuple(doubt.sentence for doubt in doubts)


def test_results_with_different_settings_in_one_cell_are_refused(make_result: MakeResult) -> None:
    results = [make_result(), make_result(position=2, retention_mode="COMPLIANCE")]
    with pytest.raises(ResultsError, match=r"GOVERNANCE.*COMPLIANCE.*different settings apart"):
        single_cells(results)


@pytest.mark.parametrize(
    ("repetitions", "doubtful", "overrides", "doubts"),
    [
        (6, 2, {"limited_by": "client"}, ()),  # two thirds are without doubt
        (6, 3, {"limited_by": "client"}, (CLIENT_LIMITED,)),
        (3, 1, {"limited_by": "client"}, (CLIENT_LIMITED,)),  # two are too few
        (6, 1, {"errors": 1}, (ERRORS,)),  # failures are always named
    ],
)
def test_a_few_doubtful_repetitions_make_no_doubtful_cell(
    make_result: MakeResult, repetitions: int, doubtful: int, overrides: dict[str, Any], doubts: tuple[Doubt, ...]
) -> None:
    results = [
        make_result(position=number, repetition=number, **(overrides if number <= doubtful else {}))
        for number in range(1, repetitions + 1)
    ]
    assert single_cells(results)[KEY].doubts == tuple(doubt.sentence for doubt in doubts)


def test_no_results_error_states_that_no_phase_finished() -> None:
    with pytest.raises(ResultsError, match="no phase finished"):
        build_tables([])


def test_error_of_single_repetition_is_that_of_mean_session_time(make_result: MakeResult) -> None:
    cell = single_cells([make_result(session_half_width=0.2)])[KEY]  # 40 sessions at 500 objects/s
    assert cell.relative_error == pytest.approx(
        (0.2 / 2.0930, 19), rel=1e-4
    )  # twenty batches: t with 19 degrees of freedom
    assert cell.rate_interval is not None
    low, high = cell.rate_interval
    assert (low * high) ** 0.5 == pytest.approx(500)
    assert high / low == pytest.approx(math.exp(2 * 0.2), rel=1e-4)


def test_error_of_too_few_sessions_is_that_of_the_objects_in_its_intervals(make_result: MakeResult) -> None:
    cell = single_cells([make_result(session_half_width=None, rate_half_width=0.2, seconds=3.0)])[KEY]
    assert cell.relative_error == pytest.approx((0.2 / 2.2010, 11), rel=1e-4)  # twelve intervals


def test_error_of_few_sessions_uses_one_batch_per_session(make_result: MakeResult) -> None:
    cell = single_cells([make_result(session_half_width=0.2, sessions=6)])[KEY]
    assert cell.relative_error == pytest.approx((0.2 / 2.5706, 5), rel=1e-4)


def test_error_of_repetitions_is_error_of_their_rates(make_result: MakeResult) -> None:
    rates = (90.0, 100.0, 110.0)
    cell = single_cells(
        [make_result(objects_per_second=rate, repetition=n, session_half_width=0.9) for n, rate in enumerate(rates, 1)]
    )[KEY]
    assert cell.relative_error is not None
    assert cell.relative_error.degrees == 2
    assert cell.rate_interval == (cell.estimate.low, cell.estimate.high)
    assert cell.relative_error.half_width() == pytest.approx(math.log((cell.estimate.high or 0) / 99.666), rel=1e-3)


@pytest.mark.parametrize(
    "overrides",
    [{"session_half_width": None}, {"session_half_width": 1.0}, {"session_half_width": 0.2, "objects_per_second": 0.0}],
)
def test_cell_without_precise_session_time_or_rate_has_no_interval(
    make_result: MakeResult, overrides: dict[str, Any]
) -> None:
    cell = single_cells([make_result(**overrides)])[KEY]
    assert cell.relative_error is None
    assert cell.rate_interval is None


def test_means_of_a_cell_are_over_its_objects_bytes_and_seconds(make_result: MakeResult) -> None:
    """A repetition counts by what it measured, in the tables of resources as on the scorecard."""
    first = make_result()
    assert first.server is not None
    small = replace(
        first,
        objects=100,
        bytes=1000,
        seconds=1.0,
        server=replace(first.server, cpu_milliseconds_per_object=1.0, write_amplification=2.0),
        client=replace(first.client, cpu_microseconds_per_object=1000.0, object_time_share=0.1),
    )
    large = replace(
        first,
        repetition=2,
        position=2,
        objects=300,
        bytes=4000,
        seconds=4.0,
        server=replace(first.server, cpu_milliseconds_per_object=3.0, write_amplification=1.0),
        client=replace(first.client, cpu_microseconds_per_object=2000.0, object_time_share=0.2),
    )
    cell = single_cells([small, large])[KEY]
    assert server_cpu_ms(cell) == pytest.approx(2.5)
    assert client_cpu_ms(cell) == pytest.approx(1.75)
    assert write_amplification(cell) == pytest.approx(1.2)
    assert cell.client_share == pytest.approx(0.18)
    table = per_object_table([small, large])
    (row,) = table.rows
    values = dict(zip([column.name for column in table.columns], row, strict=True))
    assert values["server CPU"].number == pytest.approx(2.5)
    assert values["device written"].number == pytest.approx(1.2)
