"""The conditions of a headline rate, and the choice of its cell."""

from __future__ import annotations

from typing import Any

import pytest

from results.measures.headline import best, failed_conditions
from results.measures.units import Unit, all_cells
from results.recorded.model import Result
from results.report.key_figures import findings, peaks
from results.report.summary import RunSummary, summary
from tests.results.conftest import MakeResult, MakeRun
from tests.results.watched_run import phase_record

SOUND = {"seconds": 10.0, "steadiness": "steady"}


def cells(*results: Result) -> list[Unit]:
    return list(all_cells(results).values())


def rate(cell: Unit) -> float:
    return cell.objects_per_second


@pytest.mark.parametrize(
    ("of_the_result", "failed"),
    [
        ({}, ()),
        ({"limited_by": None}, ()),
        ({"limited_by": "server disk"}, ()),
        ({"limited_by": "failures"}, ("limited by failures",)),
        ({"limited_by": "client"}, ("limited by the client",)),
        ({"limited_by": "host cpu"}, ("limited by the host's processor",)),
        ({"settled": False}, ("unsettled",)),
        ({"unsteady": "it slowed", "steadiness": "unsteady"}, ("unsteady",)),
        ({"incomplete": "a worker was lost"}, ("incomplete",)),
        ({"seconds": 3.0}, ()),
        ({"seconds": 2.99}, ("measured for 2.99 s",)),
        ({"errors": 1}, ("disturbed by errors",)),
        ({"seconds": 0.45, "steadiness": "too short to judge", "settled": False}, ("unsettled", "measured for 0.45 s")),
        ({"steadiness": "too short to judge"}, ("too short to judge",)),
    ],
)
def test_each_condition_of_a_headline(
    make_result: MakeResult, of_the_result: dict[str, Any], failed: tuple[str, ...]
) -> None:
    assert failed_conditions([make_result(**{**SOUND, **of_the_result})]) == failed


def test_one_failing_repetition_fails_the_cell(make_result: MakeResult) -> None:
    results = [make_result(**SOUND), make_result(**{**SOUND, "seconds": 1.0}, repetition=2)]
    assert failed_conditions(results) == ("measured for 1.00 s",)


def test_the_fastest_point_is_the_headline_and_its_quality_a_mark(make_result: MakeResult) -> None:
    fast = make_result(objects_per_second=23_802.0, seconds=0.45, sessions=1, position=1)
    slow = make_result(object_bytes=1024, objects_per_second=900.0, **SOUND, position=2)
    slower = make_result(object_bytes=1 << 20, objects_per_second=90.0, **SOUND, position=3)
    found = best(cells(fast, slow, slower), rate)
    assert (rate(found.cell), found.failed) == (23_802.0, ("measured for 0.45 s",))
    assert found.notes == ("read with care: measured for 0.45 s",)


@pytest.mark.parametrize("meaningless", [{"limited_by": "failures"}, {"incomplete": "a worker was lost"}])
def test_a_rate_that_means_nothing_is_a_headline_only_alone(
    make_result: MakeResult, meaningless: dict[str, Any]
) -> None:
    lost = make_result(objects_per_second=9000.0, **{**SOUND, **meaningless}, position=1)
    sound = make_result(object_bytes=1024, objects_per_second=900.0, **SOUND, position=2)
    assert rate(best(cells(lost, sound), rate).cell) == 900.0
    assert rate(best(cells(lost), rate).cell) == 9000.0


def test_retrieving_is_shown_at_the_point_of_archiving(make_result: MakeResult) -> None:
    """Not where retrieving is fastest: two points in one sentence compare nothing."""
    results = [
        make_result("archive", 8192, 100, 1800.0, clients=4, position=1),
        make_result("archive", 8192, 100, 900.0, clients=1, position=2),
        make_result("archive", 1 << 20, 100, 186.0, clients=4, position=3),
        make_result("retrieve", 8192, 100, 1161.0, clients=4, position=4, settled=False),
        make_result("retrieve", 8192, 100, 1846.0, clients=1, position=5),
        make_result("retrieve", 1 << 20, 100, 80.0, clients=4, position=6),
    ]
    found = peaks(results)
    assert rate(found["archive"].by_objects.cell) == 1800.0
    assert rate(found["retrieve"].by_objects.cell) == 1161.0
    assert found["retrieve"].by_objects.failed == ("unsettled",)
    assert found["archive"].by_megabytes.cell.key.object_bytes == 1 << 20
    assert rate(found["retrieve"].by_megabytes.cell) == 80.0


def test_the_summary_names_the_failed_conditions_next_to_the_number(make_result: MakeResult, make_run: MakeRun) -> None:
    fast = make_result(objects_per_second=5000.0, objects_per_session=100, seconds=0.45, position=1)
    sound = make_result(objects_per_second=500.0, objects_per_session=25, **SOUND, position=2)

    def shown(*results: Result) -> RunSummary:
        return summary(make_run([phase_record(each.position, each, 1.0, 2.0) for each in results]), [])

    both = shown(fast, sound)
    rates = {each.unit: each for each in both.numbers if each.name == "archive"}
    assert (rates["objects/s"].value, rates["MB/s"].value) == ("5,000", "41")
    assert all(each.failed == ("measured for 0.45 s",) for each in rates.values())
    run = make_run().run
    found = {each.about: each.text for each in findings(run, (fast, sound), (), ())}
    beside = found["Archive compared with IBM DR550, 2005"]
    assert "the median of 2 cells" in beside
    assert beside.endswith("; 1 of them to be read with care")
    alone = shown(fast)
    assert (alone.numbers[0].value, alone.numbers[0].failed) == ("5,000", ("measured for 0.45 s",))
    assert alone.caution == "Read with care: the archive rate was measured for 0.45 s."
    assert peaks([fast])["archive"].by_objects.failed == ("measured for 0.45 s",)
