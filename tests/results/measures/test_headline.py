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
        (
            {"seconds": 0.45, "steadiness": "too short to judge", "settled": False},
            ("unsettled", "measured for 0.45 s"),
        ),
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


def test_a_slower_cell_that_meets_all_conditions_is_the_headline(make_result: MakeResult) -> None:
    fast = make_result(objects_per_second=23_802.0, seconds=0.45, sessions=1, position=1)
    slow = make_result(object_bytes=1024, objects_per_second=900.0, **SOUND, position=2)
    slower = make_result(object_bytes=1 << 20, objects_per_second=90.0, **SOUND, position=3)
    found = best(cells(fast, slow, slower), rate)
    assert (rate(found.cell), found.failed, found.notes) == (900.0, (), ())


def test_fallback_headline_fails_fewest_conditions_and_is_longest_measured(make_result: MakeResult) -> None:
    several = make_result(object_bytes=1024, objects_per_second=900.0, seconds=2.9, settled=False, position=1)
    brief = make_result(object_bytes=2048, objects_per_second=800.0, seconds=0.5, position=2)
    nearest = make_result(object_bytes=4096, objects_per_second=90.0, seconds=2.5, position=3)
    found = best(cells(several, brief, nearest), rate)
    assert (rate(found.cell), found.failed) == (90.0, ("measured for 2.50 s",))
    assert found.notes == (
        "no cell is settled, steady, free of errors, limited by the platform and measured for 3 s; of the nearest: "
        "measured for 2.50 s",
    )


def test_the_summary_names_the_failed_conditions_next_to_the_number(make_result: MakeResult, make_run: MakeRun) -> None:
    """The sound rate is the headline, not the faster one that was measured for only 0.45 s."""
    fast = make_result(objects_per_second=5000.0, objects_per_session=100, seconds=0.45, position=1)
    sound = make_result(objects_per_second=500.0, objects_per_session=25, **SOUND, position=2)

    def shown(*results: Result) -> RunSummary:
        return summary(make_run([phase_record(each.position, each, 1.0, 2.0) for each in results]), [])

    both = shown(fast, sound)
    rates = {each.unit: each for each in both.numbers if each.name == "archive"}
    assert (rates["objects/s"].value, rates["MB/s"].value) == ("500", "4.1")
    assert all(each.conditions == "8KiB x 25, 1 client" and not each.failed for each in rates.values())
    assert both.caution == ""
    run = make_run().run
    found = {each.about: each.text for each in findings(run, (fast, sound), (), ())}
    assert "the median of 1 of 2 cells" in found["Archive compared with IBM DR550, 2005"]
    alone = shown(fast)
    assert (alone.numbers[0].value, alone.numbers[0].failed) == ("5,000", ("measured for 0.45 s",))
    assert alone.caution == "Read with care: the archive rate was measured for 0.45 s."
    assert peaks([fast])["archive"].by_objects.failed == ("measured for 0.45 s",)
