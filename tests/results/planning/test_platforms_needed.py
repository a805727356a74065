"""Platforms that a load needs by archive rate, capacity, objects and restore time, against hand-computed values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from archiver.values.errors import ResultsError, UsageError
from results.measures.ranges import Range
from results.planning.loads import LoadCourse, PlatformLimits
from results.planning.measured_rates import measured_surface, published_surface
from results.planning.plan import CapacityPlan
from results.planning.rate_surface import MixedTrial, RateCell, RateSurface
from results.planning.sizing import Archiving, Sizing, Year
from results.prices.disclosure import Disclosure
from results.recorded.model import Result
from tests.results.conftest import MakeResult, MakeRun
from tests.results.planning.plans import plan_backup, plan_mail, plan_retrieve, plan_size, plan_video
from tests.results.watched_run import phase_record

KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12
DAY = 86_400.0
MakeSurface = Callable[..., RateSurface]


@pytest.fixture
def surface(make_result: MakeResult, make_run: MakeRun) -> MakeSurface:
    """Return a function that makes a rate surface of results.

    Without results: objects of 100 kB, 10 per session, 100 archived and 200 retrieved per second.
    """

    def make(*results: Result) -> RateSurface:
        measured = results or (
            make_result("archive", 100 * KB, 10, 100.0),
            make_result("retrieve", 100 * KB, 10, 200.0),
        )
        return measured_surface(
            make_run([phase_record(n, each, 2 * n, 2 * n + 1) for n, each in enumerate(measured, 1)])
        )

    return make


def mail(surface: RateSurface, **given: Any) -> CapacityPlan:
    """Plan 1 million messages of 100 kB a day, 100 GB: 10,000 s at 100 objects/s in a window of 20,000 s."""
    asked = {"users": 100_000, "messages": 10, "mean_bytes": 100 * KB, "window_seconds": 20_000.0}
    return plan_mail(surface, **{**asked, "course": LoadCourse(1, 0.0, 0.0), **given})


def archiving(plan: CapacityPlan) -> Archiving:
    assert plan.archiving is not None
    return plan.archiving


def last(plan: CapacityPlan) -> Year:
    return archiving(plan).last_year


def exact(year: Year) -> dict[str, float]:
    return {need.reason: need.exact.value for need in year.needs}


def test_platform_count_follows_largest_need(surface: MakeSurface) -> None:
    limits = PlatformLimits(
        usable_bytes=10 * TB,  # 36.5 TB are kept after a year
        objects_max=300 * 10**6,  # 365 million
        restore_seconds=20 * DAY,  # at 20 MB/s they take 21.12 days
    )
    year = last(mail(surface(), limits=limits))
    assert exact(year) == pytest.approx(
        {"archive rate": 0.5, "capacity": 3.65, "objects": 365 / 300, "restore time": 36.5e12 / 20e6 / (20 * DAY)}
    )
    assert (year.platforms.value, year.decided_by.reason) == (4, "capacity")


@pytest.mark.parametrize(
    ("given", "reason", "platforms"),
    [
        ({"window_seconds": 2_000.0, "limits": PlatformLimits(usable_bytes=10 * TB)}, "archive rate", 5),
        ({"limits": PlatformLimits(usable_bytes=10 * TB, objects_max=50 * 10**6)}, "objects", 8),
        ({"limits": PlatformLimits(usable_bytes=10 * TB, restore_seconds=2 * DAY)}, "restore time", 11),
        ({"limits": PlatformLimits(restore_seconds=DAY, restore_bytes=TB)}, "restore time", 1),
    ],
)
def test_each_kind_of_need_can_decide(surface: MakeSurface, given: dict[str, Any], reason: str, platforms: int) -> None:
    year = last(mail(surface(), **given))
    assert (year.decided_by.reason, year.platforms.value) == (reason, platforms)


def test_capacity_has_headroom_and_redundancy(surface: MakeSurface) -> None:
    course, limits = LoadCourse(1, 0.0, 0.25), PlatformLimits(usable_bytes=10 * TB, redundancy=1.5)
    plan = mail(surface(), course=course, limits=limits)
    assert exact(last(plan))["capacity"] == pytest.approx(36.5 * 1.5 / 7.5)
    assert last(plan).bytes_stored_per_platform == pytest.approx(36.5e12 * 1.5 / 8)


def test_footprint_multiplies_stored_bytes(surface: MakeSurface) -> None:
    """A year's 36.5 TB are in objects of 100 kB, between the measured 50 kB (1.5) and 200 kB (1.1)."""
    measured = replace(surface(), footprints={50 * KB: 1.5, 200 * KB: 1.1})
    limits = PlatformLimits(usable_bytes=10 * TB, redundancy=2.0)
    plan = mail(measured, limits=limits)
    assert exact(last(plan))["capacity"] == pytest.approx(36.5 * 1.5 * 2 / 10)
    given = mail(measured, limits=replace(limits, footprint=1.25))
    assert exact(last(given))["capacity"] == pytest.approx(36.5 * 1.25 * 2 / 10)
    assert not any("--footprint" in doubt for doubt in (*plan.doubts, *given.doubts))
    unknown = mail(surface(), limits=limits)
    assert exact(last(unknown))["capacity"] == pytest.approx(36.5 * 2 / 10)
    assert any("give --footprint" in doubt for doubt in unknown.doubts)


def test_object_below_measured_footprints_takes_as_much_as_smallest(surface: MakeSurface) -> None:
    measured = replace(surface(), footprints={8 << 10: 2.0, 64 << 10: 1.25})
    assert [measured.footprint(size << 10) for size in (2, 8, 32, 64, 1024)] == [8.0, 2.0, 2.0, 1.25, 1.25]
    assert surface().footprint(8 << 10) is None


def test_each_year_gives_its_own_platforms_and_deciding_reason(surface: MakeSurface) -> None:
    """The load doubles: 36.5, 73 and 146 TB are archived."""
    limits = PlatformLimits(usable_bytes=100 * TB)
    years = archiving(mail(surface(), course=LoadCourse(3, 1.0, 0.0), limits=limits)).years
    assert [exact(year)["archive rate"] for year in years] == pytest.approx([0.5, 1.0, 2.0])
    assert [exact(year)["capacity"] for year in years] == pytest.approx([0.365, 1.095, 2.555])
    assert [year.platforms.value for year in years] == [1, 2, 3]
    assert [year.decided_by.reason for year in years] == ["archive rate", "capacity", "capacity"]


@pytest.mark.parametrize(
    ("retention", "kept"), [(None, 109.5), (10.0, 109.5), (1.0, 36.5), (1.5, 54.75), (0.25, 9.125)]
)
def test_kept_objects_are_those_within_retention(surface: MakeSurface, retention: float | None, kept: float) -> None:
    plan = archiving(mail(surface(), course=LoadCourse(3, 0.0, 0.0, retention)))
    assert plan.last_year.bytes_kept == pytest.approx(kept * TB)
    assert plan.last_year.objects_kept == pytest.approx(kept * 1e7)


def test_terabyte_years_are_limited_by_retention(surface: MakeSurface) -> None:
    """36.5 TB a year are kept for 0.25 years; those of the last quarter of three years on average for half of that."""
    plan = archiving(mail(surface(), course=LoadCourse(3, 0.0, 0.0, 0.25)))
    assert plan.terabyte_years == pytest.approx(36.5 * (0.25 * 2.75 + 0.25 * 0.125))


def test_restored_bytes_grow_with_load(surface: MakeSurface) -> None:
    limits = PlatformLimits(restore_seconds=DAY, restore_bytes=TB)
    plan = archiving(mail(surface(), course=LoadCourse(2, 0.5, 0.0), limits=limits))
    assert plan.restored_bytes(2) == pytest.approx(1.5 * TB)
    assert exact(plan.last_year)["restore time"] == pytest.approx(1.5e12 / 20e6 / DAY)


def test_restore_limit_without_retrieve_rates_is_refused(surface: MakeSurface, make_result: MakeResult) -> None:
    archive_only = surface(make_result("archive", 100 * KB, 10, 100.0))
    with pytest.raises(ResultsError, match="it did not measure retrieve"):
        mail(archive_only, limits=PlatformLimits(restore_seconds=DAY))


def test_plan_without_usable_capacity_reports_capacity_unanswered(surface: MakeSurface) -> None:
    assert any("whether 36.5 TB fit" in reason for reason in mail(surface()).unanswered)
    given = mail(surface(), limits=PlatformLimits(usable_bytes=TB))
    assert not any("fit on the platforms" in reason for reason in given.unanswered)
    assert not plan_retrieve(surface(), size_bytes=100 * KB, objects_per_session=10).unanswered


def test_range_of_platforms_follows_range_of_rates(surface: MakeSurface, make_result: MakeResult) -> None:
    rates = (90.0, 100.0, 110.0)
    repeated = [make_result("archive", 100 * KB, 10, rate, repetition=n) for n, rate in enumerate(rates, 1)]
    limits = PlatformLimits(usable_bytes=12 * TB)  # 3.04 platforms
    deciding = last(mail(surface(*repeated), window_seconds=2_000.0)).platforms
    assert (deciding.low, deciding.value, deciding.high) == (4, 7, 7)  # the slow end decides
    capacity = last(mail(surface(*repeated), limits=limits)).platforms
    assert (capacity.low, capacity.value, capacity.high) == (4, 4, 4)
    once = last(mail(surface(), limits=limits)).platforms
    assert (once.low, once.value, once.high) == (None, 4, None)


def parallel(make: MakeResult, rates: dict[int, float], **given: Any) -> list[Result]:
    return [
        make("archive", 100 * KB, 10, rate, clients=clients, phase="parallel", position=clients, **given)
        for clients, rate in rates.items()
    ]


def test_run_with_only_sixteen_clients_can_be_planned_from(surface: MakeSurface, make_result: MakeResult) -> None:
    found = surface(
        *parallel(make_result, {16: 800.0}),
        make_result("retrieve", 100 * KB, 10, 1600.0, clients=16, phase="parallel", position=17),
    )
    plan = mail(found)
    assert archiving(plan).clients == 16
    assert archiving(plan).seconds.value == pytest.approx(1_000_000 / 800)
    assert plan.retrieval is not None
    # 10 messages in one of 16 concurrent sessions, which share 1,600 objects/s.
    assert plan.retrieval.seconds.value == pytest.approx(10 * 16 / 1600)
    one, many = (
        plan_retrieve(found, size_bytes=100 * KB, objects_per_session=10, parallel=count).retrieval for count in (2, 32)
    )
    assert one is not None
    assert many is not None
    assert one.seconds.value == pytest.approx(16 / 1600)  # as measured with sixteen clients
    assert many.seconds.value == pytest.approx(2 * 16 / 1600)


@pytest.mark.parametrize(("rates", "clients"), [({1: 100.0, 4: 300.0, 16: 250.0}, 4), ({1: 100.0, 2: 90.0}, 1)])
def test_plan_uses_fastest_client_count(
    surface: MakeSurface, make_result: MakeResult, rates: dict[int, float], clients: int
) -> None:
    assert archiving(mail(surface(*parallel(make_result, rates)))).clients == clients


def test_plan_client_count_must_be_a_measured_one(surface: MakeSurface, make_result: MakeResult) -> None:
    found = surface(*parallel(make_result, {1: 100.0, 4: 300.0}))
    assert archiving(mail(found, clients=1)).seconds.value == pytest.approx(10_000)
    with pytest.raises(ResultsError, match=r"not measure archive with 8 clients \(measured: 1 client, 4 clients\)"):
        mail(found, clients=8)


def test_sound_cells_come_before_faster_ones_that_fail_a_condition(
    surface: MakeSurface, make_result: MakeResult
) -> None:
    sound = make_result("archive", 100 * KB, 10, 50.0, seconds=8.0)
    for fault in ({"session_half_width": 0.3}, {"limited_by": "client"}):
        faster = parallel(make_result, {4: 300.0}, seconds=8.0, **fault)
        assert archiving(mail(surface(sound, *faster))).clients == 1
        assert archiving(mail(surface(sound, *faster), clients=4)).clients == 4


def test_client_count_with_measured_size_is_preferred_to_extrapolation(
    surface: MakeSurface, make_result: MakeResult
) -> None:
    found = surface(
        make_result("archive", 100 * KB, 10, 100.0),
        make_result("archive", 50 * KB, 10, 900.0, clients=4, phase="parallel", position=2),
    )
    plan = mail(found)
    assert (archiving(plan).clients, plan.warnings) == (1, ())


def test_plan_beyond_measured_fill_level_shows_warning(surface: MakeSurface, make_result: MakeResult) -> None:
    def doubts(stored_bytes: int | None, disclosure: Disclosure | None = None) -> str:
        measured = make_result("archive", 100 * KB, 10, 100.0, store_bytes_before=stored_bytes)
        return " ".join(mail(replace(surface(measured), disclosure=disclosure)).doubts)

    assert "measured on an empty platform: it stored at most 1.0 GB, but the plan stores 36.5 TB" in doubts(GB)
    assert "measured on a platform less full than planned: it stored at most 10.0 TB" in doubts(10 * TB)
    assert "it stored at most 11.0 TB" in doubts(TB, Disclosure(used_tb=10.0))
    assert "it stored" not in doubts(40 * TB)
    assert "it stored" not in doubts(None, Disclosure(used_tb=40.0))


def test_published_study_gives_no_fill_level_warning() -> None:
    surface = published_surface("reference:dr550")
    assert not any("it stored" in doubt for doubt in mail(surface, mean_bytes=20 << 10).doubts)


def test_backup_plans_window_for_full_and_capacity_for_whole_chains(surface: MakeSurface) -> None:
    """A full backup of 500 GB every 5 days, 50 GB on other days: 5 million objects take 50,000 s.

    A chain has 700 GB and is kept for 5 + 30 days. So 7 whole chains are kept at the end of a cycle.
    """
    plan = plan_backup(
        surface(),
        full_bytes=500 * GB,
        change_share=0.1,
        full_every_days=5,
        window_seconds=40_000.0,
        objects_per_session=10,
        course=LoadCourse(2, 0.0, 0.0, 30 / 365),
        limits=PlatformLimits(usable_bytes=2 * TB, restore_seconds=10_000.0),
    )
    found = archiving(plan)
    assert found.seconds.value == pytest.approx(50_000)
    assert found.last_year.bytes_kept == pytest.approx(7 * 700 * GB)
    assert exact(found.last_year) == pytest.approx(
        {"archive rate": 1.25, "capacity": 2.45, "restore time": 700e9 / 20e6 / 10_000}
    )
    assert (found.last_year.platforms.value, found.last_year.decided_by.reason) == (4, "restore time")


def test_full_backup_is_kept_as_long_as_its_increments(surface: MakeSurface) -> None:
    """1 TB every 30 days, 30 GB on the other 29: a chain of 1.87 TB is kept for 30 + 7 days.

    On the seventh day of a chain, 1 TB and six changes of it are kept next to the whole previous chain.
    """
    plan = plan_backup(
        surface(),
        full_bytes=TB,
        change_share=0.03,
        full_every_days=30,
        objects_per_session=10,
        course=LoadCourse(2, 0.0, 0.0, 7 / 365),
    )
    assert last(plan).bytes_kept == pytest.approx(1.87 * TB + 1.18 * TB)
    kept = archiving(plan).kept_by_day
    assert kept[:31] == pytest.approx([1e12 + 3e10 * day for day in range(30)] + [2.87e12])
    assert list(kept[36:38]) == pytest.approx([3.05e12, 1.21e12])  # the previous chain ends


def test_daily_full_backups_are_kept_until_next_and_retention(surface: MakeSurface) -> None:
    plan = plan_backup(
        surface(), full_bytes=TB, change_share=0.03, full_every_days=1, objects_per_session=10,
        course=LoadCourse(1, 0.0, 0.0, 7 / 365),
    )  # fmt: skip
    assert last(plan).bytes_kept == pytest.approx(8 * TB)
    assert archiving(plan).restored_bytes(1) == TB


def test_backup_without_retrieve_rates_leaves_restore_unanswered(surface: MakeSurface, make_result: MakeResult) -> None:
    plan = plan_backup(
        surface(make_result("archive", 100 * KB, 10, 100.0)), full_bytes=TB, change_share=0.03, objects_per_session=10
    )
    assert archiving(plan).seconds.value == pytest.approx(100_000)
    assert any("it did not measure retrieve" in reason for reason in plan.unanswered)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"limits": PlatformLimits(usable_bytes=0)}, "usable capacity: 0 is not possible"),
        ({"limits": PlatformLimits(objects_max=-1)}, "objects of a platform: -1 is not possible"),
        ({"limits": PlatformLimits(restore_seconds=0.0)}, "time to restore: 0 is not possible"),
        ({"limits": PlatformLimits(footprint=0.5)}, "a footprint of 0.5 stores less than the kept data"),
        ({"limits": PlatformLimits(redundancy=0.5)}, "a redundancy of 0.5 stores less than the kept data"),
        ({"course": LoadCourse(1, 0.0, 0.0, float("nan"))}, "retention: nan is not possible"),
        ({"clients": 0}, "clients: 0 is not possible"),
    ],
)
def test_impossible_limits_are_refused(surface: MakeSurface, given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        mail(surface(), **given)


def test_size_mix_uses_client_count_measured_for_every_size(surface: MakeSurface, make_result: MakeResult) -> None:
    def archive(size: int, rate: float, clients: int) -> Result:
        return make_result("archive", size, 10, rate, clients=clients, phase=f"with {clients}", position=clients)

    found = surface(archive(100 * KB, 100.0, 1), archive(10 * MB, 5.0, 1), archive(100 * KB, 900.0, 4))
    shares: Sequence[tuple[int, float]] = ((100 * KB, 0.9), (10 * MB, 0.1))
    plan = plan_size(found, objects_per_day=1000, shares=shares, objects_per_session=10)
    assert archiving(plan).clients == 1
    assert archiving(plan).seconds.value == pytest.approx(900 / 100 + 100 / 5)


@pytest.mark.parametrize(
    ("layout", "seconds", "platforms", "exact_platforms", "on_all"),
    [
        ("together", 500.0, 4, 10 / 3, 3 * 150.0),  # a platform retrieves 3 users in time; 4 have at most 3 each
        ("together", 150.0, 10, 10.0, 150.0),
        ("spread", 500.0, 3, 3.0, 500.0),
        ("spread", 100.0, 15, 15.0, 100.0),  # one user's objects come from all platforms
    ],
)
def test_discovery_of_users_within_time_needs_platforms(
    surface: MakeSurface, layout: str, seconds: float, platforms: int, exact_platforms: float, on_all: float
) -> None:
    """Ten users with 30,000 messages each: at 200 objects/s, one user takes 150 s from one platform."""
    plan = mail(
        surface(), discovery_users=10, discovery_messages=30_000, discovery_seconds=seconds, discovery_layout=layout
    )
    found = archiving(plan).discovery
    assert found is not None
    assert found.rate.objects_per_session == 10  # the longest measured session
    assert not plan.warnings
    assert exact(last(plan))["discovery time"] == pytest.approx(exact_platforms)
    assert (last(plan).platforms.value, last(plan).decided_by.reason) == (platforms, "discovery time")
    assert found.seconds(1).value == pytest.approx(1500)
    assert found.seconds(platforms).value == pytest.approx(on_all)


def test_discovery_beyond_any_number_of_platforms_is_refused(surface: MakeSurface) -> None:
    with pytest.raises(UsageError, match="take up to 2m 30s from one platform, so no number"):
        mail(surface(), discovery_messages=30_000, discovery_seconds=149.0)


def test_slow_end_of_range_decides_discovery(surface: MakeSurface, make_result: MakeResult) -> None:
    rates = (180.0, 200.0, 220.0)
    cells = [make_result("retrieve", 100 * KB, 10, rate, repetition=n) for n, rate in enumerate(rates, 1)]
    found = surface(make_result("archive", 100 * KB, 10, 100.0), *cells)
    plan = mail(
        found, discovery_users=10, discovery_messages=30_000, discovery_seconds=500.0, discovery_layout="spread"
    )
    need = next(need for need in last(plan).needs if need.reason == "discovery time")
    assert need.exact.value == pytest.approx(3.0)
    assert need.platforms.value == need.platforms.high
    assert need.platforms.value > 3


def test_loads_at_same_time_keep_measured_headroom_free(surface: MakeSurface) -> None:
    """The run measured 60 of 100 planned users. Each load needs a quarter of the window."""
    trial = MixedTrial("users in 3 s", 1, planned=100, measured=60, others="discovery")
    course = LoadCourse(1, headroom_share=0.2)
    plan = mail(replace(surface(), mixed=(trial,)), window_seconds=40_000.0, course=course)
    alone = archiving(plan)
    assert exact(last(plan))["archive rate"] == pytest.approx(0.25 / 0.8)
    both = Sizing((alone, alone))
    assert both.window_headroom_share == pytest.approx(0.4)
    assert exact(both.years[0])["archive rate"] == pytest.approx(2 * 0.25 / 0.6)


def test_step_adds_share_of_load_today_and_grows(surface: MakeSurface) -> None:
    course = LoadCourse(4, 0.1, 0.0, steps=((1, 0.5), (3, 0.2)))
    years = archiving(mail(surface(), course=course)).years
    factors = [1.5, 1.65, 1.815 + 0.2, 1.9965 + 0.22]
    assert [year.bytes_archived for year in years] == pytest.approx([36.5e12 * factor for factor in factors])


def test_longer_lock_and_extra_days_are_kept_beyond_retention(surface: MakeSurface) -> None:
    """100 GB a day are needed for 30 days, locked for 60, and removed with a block that is sealed 10 days later."""
    course = LoadCourse(1, 0.0, 0.0, 30 / 365, lock_years=60 / 365, lock_extra_days=10)
    found = archiving(mail(surface(), course=course))
    assert found.last_year.bytes_kept == pytest.approx(70 * 100 * GB)
    assert found.bytes_beyond_retention == pytest.approx(40 * 100 * GB)
    shorter = replace(course, lock_years=20 / 365)
    assert archiving(mail(surface(), course=shorter)).last_year.bytes_kept == pytest.approx(40 * 100 * GB)
    plain = LoadCourse(1, 0.0, 0.0, 30 / 365)
    assert archiving(mail(surface(), course=plain)).bytes_beyond_retention == 0
    with pytest.raises(UsageError, match="give --retention"):
        mail(surface(), course=LoadCourse(1, lock_extra_days=10))


def test_held_objects_are_never_removed(surface: MakeSurface) -> None:
    """Of 100 GB a day, 90 GB are kept for 30 days. 10 GB a day are held: 7.3 TB after two years."""
    found = archiving(mail(surface(), course=LoadCourse(2, 0.0, 0.0, 30 / 365, held_share=0.1)))
    assert found.last_year.bytes_kept == pytest.approx((0.9 * 30 * 100 + 0.1 * 730 * 100) * GB)
    assert found.bytes_beyond_retention == pytest.approx(0.1 * 700 * 100 * GB)


def test_reduction_divides_stored_bytes(surface: MakeSurface) -> None:
    limits = PlatformLimits(usable_bytes=10 * TB, redundancy=1.5, footprint=1.2, reduction=2.0)
    assert exact(last(mail(surface(), limits=limits)))["capacity"] == pytest.approx(3.65 * 1.5 * 1.2 / 2)


def test_extension_of_locks_takes_time_of_platform(surface: MakeSurface) -> None:
    """365 million objects are kept. A thirtieth of them is extended each day, at 500 objects/s."""
    course = LoadCourse(1, 0.0, 0.0, extend_every_days=30)
    rate = RateCell("extend", 100 * KB, 10, 1, Range(500.0))
    without = surface()
    measured = replace(without, cells={**without.cells, ("extend", 1): {(100 * KB, 10): rate}})
    plan = mail(measured, course=course)
    per_day = 365e6 / 30
    assert archiving(plan).extensions_per_day(1) == pytest.approx(per_day)
    assert exact(last(plan))["archive rate"] == pytest.approx(0.5 + per_day / 500 / DAY)
    assert not any("extensions" in reason for reason in plan.unanswered)
    unknown = mail(without, course=course)
    assert exact(last(unknown))["archive rate"] == pytest.approx(0.5)
    assert any(reason.startswith("how long 12,166,667 extensions of locks a day") for reason in unknown.unanswered)


def test_cameras_record_part_of_day(surface: MakeSurface) -> None:
    """10 cameras of 1 MB/s: 36 GB in the busiest hour, and 4 hours of the 8 in which half is motion."""
    plan = plan_video(
        surface(), cameras=10, bytes_per_second=1e6, objects_per_session=10, hours_per_day=8, motion_share=0.5,
        course=LoadCourse(1, 0.0, 0.0),
    )  # fmt: skip
    assert last(plan).bytes_archived == pytest.approx(365 * 4 * 36 * GB)
    assert archiving(plan).seconds.value == pytest.approx(3600 * 100 / 100)
    with pytest.raises(UsageError, match="up to 24 hours a day"):
        plan_video(surface(), cameras=1, bytes_per_second=1e6, motion_share=0.0)
