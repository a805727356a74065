"""Which results make a cell, and what is said about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from archiver.values.errors import ResultsError
from results.model import Result
from results.tables.rates import build_tables
from results.units import (
    CLIENT_LIMITED,
    CONNECTIONS_ENDED,
    ERRORS,
    UNSETTLED,
    UnitKey,
    parallel_cells,
    single_cells,
)

MakeResult = Callable[..., Result]
KEY = UnitKey("archive", 8192, 25, 1)


def test_a_cell_is_the_median_of_its_repetitions(make_result: MakeResult) -> None:
    results = [
        make_result(objects_per_second=rate, repetition=n, position=n)
        for n, rate in enumerate((500, 100, 300), start=1)
    ]
    assert single_cells(results)[KEY].objects_per_second == 300
    assert single_cells(results)[KEY].megabytes_per_second == pytest.approx(300 * 8192 / 1e6)


def test_the_first_cell_measured_again_changes_no_value(make_result: MakeResult) -> None:
    results = [
        make_result(objects_per_second=450, position=9),
        make_result(objects_per_second=500, position=1),
        make_result(objects_per_session=100, objects_per_second=900, position=2),
    ]
    assert single_cells(results)[KEY].objects_per_second == 500


def test_a_phase_of_several_clients_stays_out_of_the_matrix(make_result: MakeResult) -> None:
    alone = make_result(objects_per_second=500, position=1)
    parallel = [make_result(objects_per_second=510.0 * n, clients=n, phase="parallel", position=n + 1) for n in (1, 2)]
    elsewhere = make_result(objects_per_session=250, phase="parallel", position=4)
    cells = single_cells([*parallel, alone, elsewhere])
    assert {key: cell.objects_per_second for key, cell in cells.items()} == {KEY: 500}
    assert [cell.objects_per_second for cell in parallel_cells([alone, *parallel]).values()] == [510, 1020]


def test_without_a_matrix_phase_the_single_clients_of_the_others_stand_in(make_result: MakeResult) -> None:
    results = [make_result(clients=n, position=n) for n in (1, 2)]
    assert list(single_cells(results)) == [KEY]
    alone = [make_result(position=1), make_result(clients=2, phase="parallel", position=2)]
    assert [key.clients for key in parallel_cells(alone)] == [1, 2]


@pytest.mark.parametrize(
    ("overrides", "doubts"),
    [
        ({}, ()),
        ({"errors": 1}, (ERRORS,)),
        ({"settled": False}, (UNSETTLED,)),
        ({"limited_by": "client"}, (CLIENT_LIMITED,)),
        ({"connections_per_session": 2.0, "requests_per_connection": 100.0}, (CONNECTIONS_ENDED,)),
        ({"limited_by": "server cpu"}, ()),
        ({"errors": 1, "settled": False, "limited_by": "client"}, (ERRORS, UNSETTLED, CLIENT_LIMITED)),
    ],
)
def test_one_doubtful_repetition_makes_the_cell_doubtful(
    make_result: MakeResult, overrides: dict[str, Any], doubts: tuple[str, ...]
) -> None:
    results = [make_result(), make_result(repetition=2, position=2, **overrides)]
    assert single_cells(results)[KEY].doubts == doubts


def test_one_number_never_stands_for_two_settings(make_result: MakeResult) -> None:
    results = [make_result(), make_result(position=2, retention_mode="COMPLIANCE")]
    with pytest.raises(ResultsError, match=r"GOVERNANCE.*COMPLIANCE.*different settings apart"):
        single_cells(results)


def test_no_results_is_said_clearly() -> None:
    with pytest.raises(ResultsError, match="no phase finished"):
        build_tables([])
