"""How well a number is known and what makes it doubtful, and the choice of the cell that stands for a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from results.document.grades import grade_of, worst_grade
from results.measures.quality import cautions
from results.measures.units import Unit, all_cells, fastest
from results.recorded.model import Result
from results.report.key_figures import findings, peaks
from results.report.summary import RunSummary, summary
from tests.results.conftest import MakeResult, MakeRun
from tests.results.watched_run import phase_record


def cells(*results: Result) -> list[Unit]:
    return list(all_cells(results).values())


def rate(cell: Unit) -> float:
    return cell.objects_per_second


@pytest.mark.parametrize(
    ("within", "grade"),
    [
        (0.0, "A"),
        (0.05, "A"),
        (0.051, "B"),
        (0.15, "B"),
        (0.16, "C"),
        (0.5, "C"),
        (0.51, "?"),
        (8.78, "?"),
        (None, "?"),
    ],
)
def test_a_grade_says_how_far_the_interval_reaches(within: float | None, grade: str) -> None:
    assert grade_of(within) == grade
    assert worst_grade(["A", grade]) == grade


@pytest.mark.parametrize(
    ("of_the_results", "grade"),
    [
        ([{"session_half_width": 0.04}], "A"),
        ([{"session_half_width": 0.12}], "B"),
        ([{"session_half_width": 0.3}], "C"),
        ([{"session_half_width": 0.9}], "?"),
        ([{"session_half_width": None}], "?"),
        (
            [{"session_half_width": 0.04, "settled": False, "seconds": 0.45}],
            "A",
        ),  # its interval decides, not its limits
        ([{"session_half_width": 0.04, "unsteady": "it slowed"}], "C"),
        ([{"session_half_width": 0.9, "unsteady": "it slowed"}], "?"),
        ([{"limited_by": "failures"}], "?"),
        ([{"incomplete": "a worker was lost"}], "?"),
        ([{"objects_per_second": rate} for rate in (990.0, 1000.0, 1010.0)], "A"),
        ([{"objects_per_second": rate} for rate in (700.0, 1000.0, 1400.0)], "?"),
        ([{"unsteady": "it slowed"}] * 3, "C"),
        ([{"unsteady": "it slowed"}] + [{}] * 2, "C"),  # two are too few for the others to decide
        ([{"unsteady": "it slowed"}] + [{}] * 3, "A"),
        ([{"unsteady": "it slowed"}] * 5, "A"),  # the interval over the repetitions shows how much it changes
    ],
)
def test_the_grade_of_a_cell(make_result: MakeResult, of_the_results: list[dict[str, Any]], grade: str) -> None:
    (cell,) = cells(*(make_result(repetition=n, **own) for n, own in enumerate(of_the_results, 1)))
    assert cell.grade == grade


@pytest.mark.parametrize(
    ("of_the_result", "expected"),
    [
        ({}, ()),
        ({"limited_by": None}, ()),
        ({"limited_by": "server disk"}, ()),
        ({"limited_by": "failures"}, ("limited by failures",)),
        ({"limited_by": "client"}, ("limited by the client",)),
        ({"limited_by": "host cpu"}, ("limited by the host's processor",)),
        ({"incomplete": "a worker was lost"}, ("incomplete",)),
        ({"errors": 1}, ("disturbed by errors",)),
        ({"retries": 1}, ("with retries",)),
        ({"settled": False, "unsteady": "it slowed", "seconds": 0.45}, ()),  # in its grade
        ({"application": "database", "seconds": 0.45}, ("measured for 0.45 s",)),  # it has no interval
        ({"application": "database", "seconds": 3.0}, ()),
    ],
)
def test_what_to_mind_about_a_result(
    make_result: MakeResult, of_the_result: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert cautions([make_result(**of_the_result)]) == expected


def test_errors_of_one_repetition_are_named_and_its_limit_only_if_too_few_others_remain(
    make_result: MakeResult,
) -> None:
    sound = [make_result(repetition=n) for n in (2, 3, 4)]
    assert cautions([make_result(errors=1), *sound]) == ("disturbed by errors",)
    assert cautions([make_result(limited_by="client"), *sound]) == ()
    assert cautions([make_result(limited_by="client"), *sound[:2]]) == ("limited by the client",)


def test_the_fastest_point_stands_for_the_run_and_its_quality_is_a_mark(make_result: MakeResult) -> None:
    fast = make_result(objects_per_second=23_802.0, seconds=0.45, session_half_width=None, position=1)
    slow = make_result(object_bytes=1024, objects_per_second=900.0, position=2)
    slower = make_result(object_bytes=1 << 20, objects_per_second=90.0, position=3)
    found = fastest(cells(fast, slow, slower), rate)
    assert (rate(found), found.grade) == (23_802.0, "?")


@pytest.mark.parametrize("meaningless", [{"limited_by": "failures"}, {"incomplete": "a worker was lost"}])
def test_a_rate_that_means_nothing_is_a_headline_only_alone(
    make_result: MakeResult, meaningless: dict[str, Any]
) -> None:
    lost = make_result(objects_per_second=9000.0, **meaningless, position=1)
    sound = make_result(object_bytes=1024, objects_per_second=900.0, position=2)
    assert rate(fastest(cells(lost, sound), rate)) == 900.0
    assert rate(fastest(cells(lost), rate)) == 9000.0


def test_retrieving_is_shown_at_the_point_of_archiving(make_result: MakeResult) -> None:
    """Not where retrieving is fastest: two points in one sentence compare nothing."""
    results = [
        make_result("archive", 8192, 100, 1800.0, clients=4, position=1),
        make_result("archive", 8192, 100, 900.0, clients=1, position=2),
        make_result("archive", 1 << 20, 100, 186.0, clients=4, position=3),
        make_result("retrieve", 8192, 100, 1161.0, clients=4, position=4, session_half_width=0.9),
        make_result("retrieve", 8192, 100, 1846.0, clients=1, position=5),
        make_result("retrieve", 1 << 20, 100, 80.0, clients=4, position=6),
    ]
    found = peaks(results)
    assert rate(found["archive"].by_objects) == 1800.0
    assert rate(found["retrieve"].by_objects) == 1161.0
    assert found["retrieve"].by_objects.grade == "?"
    assert found["archive"].by_megabytes.key.object_bytes == 1 << 20
    assert rate(found["retrieve"].by_megabytes) == 80.0


def test_the_summary_has_one_line_of_quality(make_result: MakeResult, make_run: MakeRun) -> None:
    fast = make_result(objects_per_second=5000.0, objects_per_session=100, session_half_width=0.9, position=1)
    sound = make_result(objects_per_second=500.0, objects_per_session=25, position=2)
    read = make_result("retrieve", objects_per_second=700.0, objects_per_session=25, limited_by="client", position=3)

    def shown(*results: Result, **of_the_run: Any) -> RunSummary:
        return summary(make_run([phase_record(each.position, each, 1.0, 2.0) for each in results], **of_the_run), [])

    both = shown(fast, sound)
    rates = {each.unit: each for each in both.numbers if each.name == "archive"}
    assert (rates["objects/s"].value, rates["MB/s"].value) == ("5,000", "41")
    assert all(each.grade == "?" for each in rates.values())
    assert both.quality == "Quality: not known. The archive rate is not known (95%: ±146%)."
    assert shown(sound, read).quality == (
        "Quality: A. The archive rate is known within 4%, the retrieve rate known within 4%; the retrieve rate was "
        "limited by the client."
    )
    run = make_run().run
    found = {each.about: each.text for each in findings(run, (fast, sound), (), ())}
    assert "the median of 2 cells" in found["Archive compared with IBM DR550, 2005"]


def test_a_workload_alone_is_known_by_the_objects_in_its_intervals(make_result: MakeResult, make_run: MakeRun) -> None:
    alone = {"application": "mail", "session_half_width": None, "rate_half_width": 0.1, "seconds": 9.0}

    def quality(*results: Result) -> str:
        phase = phase_record(1, results[0], 1.0, 2.0, results=list(results))
        return summary(make_run([phase]), []).quality

    assert quality(make_result(**alone)).startswith("Quality: B. The rate of ")
    beside = make_result(**alone, workload="beside it")
    assert quality(make_result(**alone), replace(beside, application="video")).startswith("Quality: not known. ")
