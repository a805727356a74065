"""The tables of the characterization: each point compared with its ceiling, each criterion at its worst point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from results.document.table import Table
from results.recorded.model import Ceiling, ClientUsage, CriterionResult, Latency, Offered, Result
from results.reference.esg_peaks import published_peaks
from results.tables.characterization import (
    characterization_criteria_table,
    characterization_table,
    characterization_tables,
)

MakeResult = Callable[..., Result]
LATE = Latency(100, 0.5, 0.4, 0.5, 0.7, 1.2, 1.4, 1.5)


def point(make_result: MakeResult, name: str, rate: float, ceiling: float | None, **given: Any) -> Result:
    client = given.pop("client", ClientUsage(40.0, 60.0, 100.0, 3.0))
    beside = Ceiling(given.pop("against", "null S3 responder"), ceiling, rate / ceiling) if ceiling else None
    return make_result(
        phase=name, workload=name, application=name, objects_per_second=rate, megabytes_per_second=rate / 100,
        ceiling=beside, client=client, **given,
    )  # fmt: skip


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_point_row_includes_its_ceiling_and_share(make_result: MakeResult) -> None:
    cached = point(make_result, "from cache", 500, 1000, position=2, clients=16, temperature="warm",
                   limited_by="host cpu", object_bytes=1 << 20)  # fmt: skip
    loop = point(make_result, "open loop", 100, 2000, position=3, clients=32, temperature="warm", limited_by=None,
                 offered=Offered(1000, 100.0, 1000, 0, 0, 0, LATE))  # fmt: skip
    load = point(make_result, "load", 100, None, position=1)
    table = characterization_table([loop, cached, load])
    assert texts(table) == [
        [
            "from cache",
            "16",
            "1MiB",
            "5.0",
            "500.0",
            "32.00",
            "640",
            "16,000",
            "warm",
            "1,000",
            "0.50",
            "3.00",
            "40",
            "60",
            "host cpu",
        ],
        [
            "open loop",
            "32",
            "8KiB",
            "1.0",
            "100.0",
            "320.00",
            "1,280",
            "32,000",
            "warm",
            "2,000",
            "0.05",
            "1.20",
            "40",
            "60",
            "nothing",
        ],
    ]
    assert "checks against null S3 responder." in table.caption


def test_published_rows_follow_measured_rows(make_result: MakeResult) -> None:
    table = characterization_table([point(make_result, "reads", 10, 100)], published_peaks())
    assert [[row[0], row[3], row[8]] for row in texts(table)[1:]] == [
        ["ESG: DS5020", "3,100", "42% from cache"], ["ESG: V7000", "2,980", "–"],
    ]  # fmt: skip
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert any("1 MB sequential reads" in note and "not known" in note for note in table.notes)
    assert characterization_table([], published_peaks()).rows == ()


def test_repetitions_show_median_rates_and_worst_client_values(make_result: MakeResult) -> None:
    alike = point(make_result, "from disk", 500, 1000, temperature="cold", limited_by=None)
    repetitions = [
        replace(alike, position=1, client=ClientUsage(40.0, 40.0, 1.0, 2.0), limited_by="client"),
        replace(alike, position=2, client=ClientUsage(50.0, 50.0, 1.0, 4.0), temperature="unknown"),
        replace(alike, position=3, client=ClientUsage(30.0, 30.0, 1.0, 6.0), ended_early=True),
    ]
    for place, rate in ((1, 900.0), (2, 400.0)):
        repetitions[place] = replace(
            repetitions[place], objects_per_second=rate, ceiling=Ceiling("null S3 responder", 1000, rate / 1000)
        )
    (row,) = texts(characterization_table(repetitions))
    assert row[4:8] == ["500.0", "2.00", "40", "1,000"]
    assert row[8:] == ["cold or unknown", "1,000", "0.90", "6.00", "50", "50", "client or nothing"]
    assert characterization_table(repetitions).notes == ("it ended before its time was over",)


def test_points_with_different_ceilings_name_their_ceiling(make_result: MakeResult) -> None:
    results = [
        point(make_result, "one", 10, 100, position=1),
        point(make_result, "two", 10, 100, position=2, against="null sessions"),
    ]
    assert characterization_table(results).notes == ("against null S3 responder", "against null sessions")


def test_share_above_ceiling_adds_busy_machine_note(make_result: MakeResult) -> None:
    (note,) = characterization_table([point(make_result, "reads", 153, 100)]).notes
    assert "something else used this machine" in note
    assert characterization_table([point(make_result, "reads", 100, 100)]).notes == ()


def test_each_client_count_is_a_separate_point(make_result: MakeResult) -> None:
    results = [replace(point(make_result, "reads", 10.0 * n, 100, clients=n), workload=f"reads {n}") for n in (4, 16)]
    assert [row[:2] for row in texts(characterization_table(results))] == [["reads", "4"], ["reads", "16"]]


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ([0.3, 0.6, 0.5], ["share_of_ceiling <= 0.7", "held", "3", "3", "point 2", "0.6"]),
        ([0.3, 0.9, 0.8], ["share_of_ceiling <= 0.7", "missed", "1", "3", "point 2", "0.9"]),
        ([0.3, None, 0.8], ["share_of_ceiling <= 0.7", "missed", "1", "3", "point 2", "–"]),
    ],
)
def test_criterion_row_shows_its_worst_point(
    make_result: MakeResult, measured: list[float | None], expected: list[str]
) -> None:
    results = [point(make_result, f"point {i}", 10, 100, position=i) for i in (1, 2, 3)]
    criteria = [
        CriterionResult("share_of_ceiling <= 0.7", f"point {i}", i, 0.7, value, value is not None and value <= 0.7)
        for i, value in enumerate(measured, 1)
    ]
    elsewhere = CriterionResult("share_of_ceiling <= 0.7", "tile", 9, 0.7, 0.99, False)
    assert texts(characterization_criteria_table(results, [*criteria, elsewhere])) == [expected]


def test_worst_point_of_lower_limit_is_lowest_and_of_equality_farthest(make_result: MakeResult) -> None:
    results = [point(make_result, f"point {i}", 10, 100, position=i) for i in (1, 2)]
    criteria = [
        CriterionResult("objects_per_second >= 5", "point 1", 1, 5, 6, True),
        CriterionResult("objects_per_second >= 5", "point 2", 2, 5, 90, True),
        CriterionResult("errors == 0", "point 1", 1, 0, 2, False),
        CriterionResult("errors == 0", "point 2", 2, 0, 7, False),
    ]
    worst = [(row[0], row[4]) for row in texts(characterization_criteria_table(results, criteria))]
    assert worst == [("objects_per_second >= 5", "point 1"), ("errors == 0", "point 2")]


def test_run_without_ceilings_has_no_characterization_tables(make_result: MakeResult) -> None:
    assert characterization_tables([point(make_result, "load", 10, None)], []) == []
