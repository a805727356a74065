"""Plans: the four examples of the paper, and the answers for a load."""

from __future__ import annotations

import json
import math
from importlib import resources
from typing import Any

import pytest

from archiver.values.errors import ResultsError, UsageError
from results.measures.ranges import Range
from results.planning.loads import LoadCourse
from results.planning.measured_rates import measured_surface, published_surface
from results.planning.plan import CapacityPlan
from results.planning.rate_surface import RateSurface
from results.planning.sizing import Archiving
from tests.results.conftest import MakeResult, MakeRun
from tests.results.planning.plans import plan_mail, plan_retrieve, plan_size, plan_video
from tests.results.watched_run import phase_record

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
HOUR = 3600.0
DR550 = published_surface("reference:dr550")
EXAMPLES = {
    each["name"]: each
    for each in json.loads(resources.files("results").joinpath("reference/dr550.json").read_text())["planning_examples"]
}


def mail(surface: RateSurface = DR550, **changed: Any) -> CapacityPlan:
    asked: dict[str, Any] = {
        "users": 30_000, "messages": 30, "mean_bytes": 20 * KIB, "course": LoadCourse(7), "window_seconds": 8 * HOUR,
    }  # fmt: skip
    return plan_mail(surface, **{**asked, **changed})


def archiving(plan: CapacityPlan) -> Archiving:
    assert plan.archiving is not None
    return plan.archiving


def known(found: Range) -> tuple[float, float, float]:
    assert found.low is not None
    assert found.high is not None
    return found.low, found.value, found.high


def test_plan_reproduces_mail_example_of_paper() -> None:
    example = EXAMPLES["e-mail archive"]
    found = archiving(mail())
    assert found.load.objects == example["objects"]
    assert found.load.sessions == example["users"]
    assert found.rates[0].column == example["nearest_column_objects_per_session"]
    assert 48 * 60 <= found.seconds.value <= 53 * 60  # the paper reads 300 objects/s from its graph: 50 minutes
    low, value, high = known(found.seconds)
    assert low < example["answer_seconds"] < high
    assert low < value < high
    assert found.fits(high)


def test_plan_reproduces_single_message_example_of_paper() -> None:
    single = mail().single
    assert single is not None
    low, high = EXAMPLES["single e-mail retrieve"]["answer_from_the_table_milliseconds"]
    assert low <= single.milliseconds_per_object.value <= high
    alone = plan_retrieve(DR550, size_bytes=20 * KIB).retrieval
    assert alone is not None
    assert alone.milliseconds_per_object == single.milliseconds_per_object
    assert alone.seconds.value * 1000 == pytest.approx(single.milliseconds_per_object.value)


@pytest.mark.parametrize(("bytes_per_second", "needed"), [(0.28e6, 28.0), (1e9 / HOUR, 27.8)])
def test_plan_reproduces_camera_example_of_paper(bytes_per_second: float, needed: float) -> None:
    example = EXAMPLES["digital cameras"]
    found = archiving(
        plan_video(DR550, cameras=example["cameras"], bytes_per_second=bytes_per_second, course=LoadCourse(1))
    )
    assert found.load.objects_per_session == example["objects_per_session"]
    assert found.load.bytes / found.load.window_seconds / 1e6 == pytest.approx(needed, abs=0.05)
    assert found.megabytes_per_second.value == pytest.approx(example["limit_megabytes_per_second"], abs=0.5)
    assert found.fits(found.seconds.value)
    assert not found.fits(found.seconds_for(found.units_max.value + 1).value)


@pytest.mark.parametrize(("parallel", "seconds"), [(1, 100.4), (2, 200.8)])
def test_plan_reproduces_film_example_of_paper(parallel: int, seconds: float) -> None:
    found = plan_retrieve(DR550, size_bytes=GIB, parallel=parallel).retrieval
    assert found is not None
    assert found.objects == 1024
    assert found.seconds.value == pytest.approx(seconds, abs=0.05)
    assert found.overlapping is None
    example = EXAMPLES["movie retrieve"]
    assert found.seconds.value == pytest.approx(
        example["answer_seconds" if parallel == 1 else "two_at_once_seconds"], rel=0.05
    )


def test_film_is_one_hour_of_a_camera_by_default() -> None:
    hour = plan_video(DR550, cameras=3, bytes_per_second=1e9 / HOUR, course=LoadCourse(1)).retrieval
    named = plan_video(
        DR550, cameras=3, bytes_per_second=1e9 / HOUR, course=LoadCourse(1), film_bytes=5 * MIB
    ).retrieval
    assert hour is not None
    assert named is not None
    assert (hour.objects, named.objects) == (math.ceil(1e9 / MIB), 5)


def test_sessions_are_one_per_user_unless_objects_per_session_is_given() -> None:
    per_user, longer = archiving(mail()), archiving(mail(objects_per_session=500))
    assert (per_user.load.sessions, longer.load.sessions) == (30_000, 1_800)
    assert longer.rates[0].column == 500
    assert longer.seconds.value < per_user.seconds.value


def test_discovery_uses_one_session_per_user() -> None:
    found = mail(discovery_users=20, discovery_messages=100).retrieval
    assert found is not None
    assert found.objects == 2_000
    assert found.parts[0][1].column == 100
    assert found.seconds.value == pytest.approx(2_000 / DR550.rate("retrieve", 20 * KIB, 100).objects_per_second.value)


def test_yearly_bytes_follow_growth_and_retention() -> None:
    years = archiving(mail(course=LoadCourse(3, growth_share=0.1))).years
    first = 900_000 * 20 * KIB * 365
    assert [year.bytes_archived for year in years] == pytest.approx([first, first * 1.1, first * 1.21])
    assert [year.bytes_kept for year in years] == pytest.approx([first, first * 2.1, first * 3.31])
    assert years[2].window_share.value == pytest.approx(years[0].window_share.value * 1.21)


def test_data_archived_in_year_counts_half_of_it() -> None:
    found = archiving(mail(course=LoadCourse(2)))
    yearly = 900_000 * 20 * KIB * 365 / 1e12
    assert found.terabyte_years == pytest.approx(yearly * (0.5 + 1.5))


@pytest.mark.parametrize(
    ("window", "headroom", "platforms"),
    [(3300.0, 0.0, 1), (3300.0, 0.2, 2), (1000.0, 0.0, 4), (1000.0, 0.5, 7), (1e6, 0.9, 1)],
)
def test_platform_count_includes_headroom(window: float, headroom: float, platforms: int) -> None:
    found = archiving(
        mail(course=LoadCourse(1, 0, headroom), window_seconds=window)
    )  # 3,095 s of work, 3,275 s at the slow end
    assert found.last_year.platforms.value == platforms


def test_load_that_fills_platforms_exactly_needs_no_extra_platform() -> None:
    found = archiving(mail(course=LoadCourse(1, 0, 0.0)))
    assert found.seconds.high is not None
    window = found.seconds.high / 3
    exact = archiving(mail(course=LoadCourse(1, 0, 0.0), window_seconds=window))
    assert exact.last_year.platforms.value == 3


def test_what_if_names_last_load_that_fits() -> None:
    found = archiving(mail())
    trials = {trial.units: trial for trial in found.trials}
    (last,) = (units for units, trial in trials.items() if trial.remark == "the last that fits")
    assert last == found.units_max.low
    assert trials[last].fits
    assert trials[last].archive_seconds.high == pytest.approx(0.8 * 8 * HOUR, rel=1e-4)  # 20% is kept free
    assert not trials[last + 1].fits
    assert trials[last + 1].remark == "no longer fits"
    assert trials[30_000].remark == "asked for"
    assert list(trials) == sorted(trials)
    assert all(trial.fits == (units <= last) for units, trial in trials.items())


def test_what_if_covers_load_of_which_no_unit_fits() -> None:
    trials = archiving(mail(users=2, messages=500, mean_bytes=MIB, window_seconds=1.0)).trials
    assert trials[0].units == 1
    assert not any(trial.fits for trial in trials)


def test_plan_of_size_mix_is_sum_over_sizes() -> None:
    found = plan_size(
        DR550,
        objects_per_day=10_000,
        shares=[(8 * KIB, 0.75), (MIB, 0.25)],
        course=LoadCourse(1),
        window_seconds=8 * HOUR,
    )
    assert archiving(found).seconds.value == pytest.approx(7_500 / 27.03 + 2_500 / 5.18)
    assert archiving(found).load.bytes == pytest.approx(7_500 * 8 * KIB + 2_500 * MIB)
    assert found.single is not None
    assert found.single.milliseconds_per_object.value == pytest.approx(750 / 12.99 + 250 / 10.2)
    assert found.retrieval is not None
    assert found.retrieval.seconds.value == pytest.approx(7_500 / 12.99 + 2_500 / 10.2)


def surface_of(make_run: MakeRun, *results: Any) -> RateSurface:
    return measured_surface(
        make_run([phase_record(at, each, 2 * at, 2 * at + 1) for at, each in enumerate(results, 1)])
    )


def test_plan_from_single_repetition_has_no_ranges(make_result: MakeResult, make_run: MakeRun) -> None:
    surface = surface_of(
        make_run, make_result("archive", 16 * KIB, 25, 300.0), make_result("retrieve", 16 * KIB, 1, 100.0)
    )
    plan = mail(surface, mean_bytes=16 * KIB, messages=25)
    found = archiving(plan)
    assert plan.single is not None
    ranges = (
        found.seconds, found.units_max, found.last_year.platforms, found.objects_per_second,
        plan.single.milliseconds_per_object,
    )  # fmt: skip
    assert all((each.low, each.high) == (None, None) for each in ranges)


def test_interval_of_repetitions_gives_answers_a_range(make_result: MakeResult, make_run: MakeRun) -> None:
    rates = (290.0, 300.0, 310.0)
    surface = surface_of(
        make_run, *(make_result("archive", 16 * KIB, 25, rate, repetition=n) for n, rate in enumerate(rates, 1))
    )
    found = archiving(mail(surface, mean_bytes=16 * KIB, messages=25))
    rate = surface.rate("archive", 16 * KIB, 25).objects_per_second
    assert known(found.seconds) == pytest.approx([750_000 / each for each in reversed(known(rate))])
    low, value, high = known(found.units_max)
    assert low < value < high


def test_plan_without_retrieve_rates_answers_archiving_only(make_result: MakeResult, make_run: MakeRun) -> None:
    surface = surface_of(make_run, make_result("archive", 16 * KIB, 25, 300.0))
    for plan in (
        mail(surface, mean_bytes=16 * KIB),
        plan_video(surface, cameras=1, bytes_per_second=1e5, course=LoadCourse(1)),
    ):
        assert archiving(plan).seconds.value > 0
        assert (plan.single, plan.retrieval) == (None, None)
        assert "it did not measure retrieve" in plan.unanswered[0]
    with pytest.raises(ResultsError, match="it did not measure retrieve"):
        plan_retrieve(surface, size_bytes=16 * KIB)


def test_parallel_retrievals_overlap_only_if_measured(make_result: MakeResult, make_run: MakeRun) -> None:
    surface = surface_of(
        make_run,
        make_result("retrieve", MIB, 1, 50.0),
        make_result("retrieve", MIB, 25, 100.0),
        *(
            make_result("retrieve", MIB, 25, rate, clients=clients, phase="parallel", position=3)
            for clients, rate in ((1, 100.0), (2, 160.0))
        ),
    )
    overlapping = plan_retrieve(surface, size_bytes=100 * MIB, parallel=2, objects_per_session=25).retrieval
    apart = plan_retrieve(surface, size_bytes=100 * MIB, parallel=2).retrieval
    assert overlapping is not None
    assert apart is not None
    assert overlapping.seconds.value == pytest.approx(200 / 160)
    assert overlapping.seconds_alone.value == pytest.approx(100 / 100)
    assert apart.seconds.value == pytest.approx(2 * 100 / 50)


def test_film_has_first_byte_time_and_single_object_has_p99(make_result: MakeResult, make_run: MakeRun) -> None:
    result = make_result("retrieve", MIB, 1, 50.0)
    surface = surface_of(make_run, result)
    film, single = (plan_retrieve(surface, size_bytes=size).retrieval for size in (3 * MIB, MIB))
    assert film is not None
    assert single is not None
    assert result.session_open_ms is not None
    assert result.first_byte_ms is not None
    assert result.session_service_ms is not None
    assert (film.is_stream, single.is_stream) == (True, False)
    assert film.first_byte_ms == pytest.approx(result.session_open_ms.mean + result.first_byte_ms.mean)
    assert film.first_byte_p99_ms == result.first_byte_ms.p99
    assert single.p99_ms == result.session_service_ms.p99


def test_plan_shows_only_warnings_of_used_cells(make_result: MakeResult, make_run: MakeRun) -> None:
    surface = surface_of(
        make_run,
        make_result("archive", 16 * KIB, 25, 300.0, limited_by="client"),
        make_result("archive", MIB, 25, 30.0, settled=False),
    )
    doubts = " ".join(mail(surface, mean_bytes=16 * KIB).doubts)
    assert "archive 16KiB x 25: limited by the client" in doubts
    assert "unsettled" not in doubts


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"users": 0}, "users: 0 is not possible"),
        ({"messages": 0}, "is not possible"),
        ({"mean_bytes": 0}, "object bytes: 0 is not possible"),
        ({"window_seconds": 0.0}, "a window of 0 s is not possible"),
        ({"course": LoadCourse(0)}, "years: 0 is not possible"),
        ({"course": LoadCourse(1, 0, 1.0)}, "a headroom of 100% leaves no room"),
    ],
)
def test_invalid_load_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        mail(**changed)


def test_camera_with_zero_bytes_per_second_is_refused() -> None:
    with pytest.raises(UsageError, match="bytes per second is not possible"):
        plan_video(DR550, cameras=1, bytes_per_second=0.0, course=LoadCourse(1))
