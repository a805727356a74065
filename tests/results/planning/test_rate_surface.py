"""Rates at, between and beyond the cells of the measured matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from archiver.values.errors import ResultsError
from results.measures.ranges import Range
from results.planning.measured_rates import measured_surface, published_surface
from results.planning.rate_surface import BEYOND_MAX, RateSurface
from results.recorded.model import Result
from results.recorded.run import read_run
from tests.results.conftest import MakeDatabase, MakeResult, MakeRun
from tests.results.watched_run import phase_record

KIB, MIB = 1 << 10, 1 << 20
MakeSurface = Callable[[Sequence[Result]], RateSurface]


@pytest.fixture
def surface_of(make_run: MakeRun) -> MakeSurface:
    def make(results: Sequence[Result]) -> RateSurface:
        phases = [phase_record(at, result, 2 * at, 2 * at + 1) for at, result in enumerate(results, 1)]
        return measured_surface(make_run(phases))

    return make


@pytest.fixture
def small(make_result: MakeResult, surface_of: MakeSurface) -> RateSurface:
    """Return a surface of archive only: 8 KiB and 128 KiB, 5 and 50 objects per session."""
    rates = {(8 * KIB, 5): 400.0, (128 * KIB, 5): 100.0, (8 * KIB, 50): 1600.0, (128 * KIB, 50): 200.0}
    return surface_of([make_result("archive", size, count, rate) for (size, count), rate in rates.items()])


@pytest.mark.parametrize(
    ("size", "objects", "column", "rate"),
    [
        (8 * KIB, 5, 5, 400.0),  # as measured
        (8 * KIB, 49, 5, 400.0),  # the next smaller column
        (8 * KIB, 50, 50, 1600.0),
        (32 * KIB, 5, 5, 200.0),  # half way between the sizes, and the rates, on log axes
        (16 * KIB, 50, 50, 1600 * (200 / 1600) ** 0.25),
        (128 * KIB, 200, 50, 200.0),  # above the longest session: its rate
        (256 * KIB, 5, 5, 50.0),  # above the largest size: its MB/s
        (2 * KIB, 5, 5, 400.0),  # below the smallest size: its objects/s
        (8 * KIB, 2, 5, 400 * 2 / 5),  # below the shortest session: its session time
    ],
)
def test_rate_is_measured_interpolated_or_extrapolated_by_rule(
    small: RateSurface, size: int, objects: int, column: int, rate: float
) -> None:
    found = small.rate("archive", size, objects)
    assert found.column == column
    assert found.objects_per_second.value == pytest.approx(rate)


@pytest.mark.parametrize(
    ("size", "objects", "words"),
    [
        (8 * KIB, 5, ()),
        (100 * KIB, 49, ()),
        (256 * KIB, 5, ("256KiB is 2.0 times the largest measured size, 128KiB; the plan assumes the same MB/s",)),
        (
            4 * KIB,
            5,
            ("4KiB is 2.0 times below the smallest measured size, 8KiB; the plan assumes the same objects/s",),
        ),
        (8 * KIB, 2, ("2 objects per session are below the fewest measured, 5",)),
        (256 * KIB, 200, ("256KiB is 2.0 times", "200 objects per session are above the most measured, 50")),
    ],
)
def test_extrapolated_rate_has_warning(small: RateSurface, size: int, objects: int, words: tuple[str, ...]) -> None:
    warnings = small.rate("archive", size, objects).warnings
    assert len(warnings) == len(words)
    for warning, expected in zip(warnings, words, strict=True):
        assert warning.startswith("EXTRAPOLATED: ")
        assert expected in warning


@pytest.mark.parametrize(("size", "objects"), [(513 * KIB, 5), (2 * KIB - 1, 5), (8 * KIB, 1), (8 * KIB, 201), (20, 5)])
def test_extrapolation_beyond_four_times_is_refused_with_measured_range(
    small: RateSurface, size: int, objects: int
) -> None:
    with pytest.raises(ResultsError) as refused:
        small.rate("archive", size, objects)
    for words in (f"more than {BEYOND_MAX:g} times beyond", "8KiB to 128KiB; 5 to 50 per session", "check the units"):
        assert words in str(refused.value)


@pytest.mark.parametrize(("size", "objects"), [(512 * KIB, 5), (2 * KIB, 5), (8 * KIB, 200)])
def test_extrapolation_up_to_four_times_is_allowed(small: RateSurface, size: int, objects: int) -> None:
    assert small.rate("archive", size, objects).beyond == pytest.approx(BEYOND_MAX)


def test_unmeasured_operation_is_refused_with_measured_ones(small: RateSurface) -> None:
    with pytest.raises(ResultsError, match=r"run run-1: it did not measure retrieve.*measured: archive"):
        small.rate("retrieve", 8 * KIB, 5)


def test_column_with_measured_size_is_preferred_to_longer_column(
    make_result: MakeResult, surface_of: MakeSurface
) -> None:
    surface = surface_of(
        [
            make_result("archive", 8 * KIB, 5, 400.0),
            make_result("archive", MIB, 5, 50.0),
            make_result("archive", 8 * KIB, 50, 1600.0),  # the run ended before 1 MiB x 50
        ]
    )
    found = surface.rate("archive", MIB, 50)
    assert (found.column, found.beyond, found.objects_per_second.value) == (5, 1.0, 50.0)
    assert surface.rate("archive", 8 * KIB, 50).column == 50


def test_single_repetition_has_no_range_and_is_noted(small: RateSurface) -> None:
    assert small.rate("archive", 16 * KIB, 5).objects_per_second.low is None
    assert "measured once; run again with --repeat" in small.spread


def test_interpolated_rate_has_interpolated_range(make_result: MakeResult, surface_of: MakeSurface) -> None:
    repeated = {(8 * KIB, rate): number for number, rate in enumerate((380.0, 400.0, 420.0), 1)}
    repeated |= {(32 * KIB, rate): number for number, rate in enumerate((90.0, 100.0, 110.0), 1)}
    surface = surface_of(
        [make_result("archive", size, 5, rate, repetition=number) for (size, rate), number in repeated.items()]
    )
    ends = [surface.rate("archive", size, 5).objects_per_second for size in (8 * KIB, 32 * KIB)]
    middle = surface.rate("archive", 16 * KIB, 5).objects_per_second
    assert middle.low is not None
    assert middle.high is not None
    assert middle.low < middle.value < middle.high
    assert middle.low == pytest.approx(math.sqrt((ends[0].low or 0) * (ends[1].low or 0)))
    assert "95% intervals" in surface.spread


def test_interpolation_with_cell_measured_once_has_no_range(make_result: MakeResult, surface_of: MakeSurface) -> None:
    surface = surface_of(
        [
            make_result("archive", 8 * KIB, 5, 400.0),
            make_result("archive", 8 * KIB, 5, 420.0, repetition=2),
            make_result("archive", 32 * KIB, 5, 100.0),
        ]
    )
    assert surface.rate("archive", 8 * KIB, 5).objects_per_second.low is not None
    between = surface.rate("archive", 16 * KIB, 5).objects_per_second
    assert between.value == pytest.approx(math.sqrt(41_000))
    assert between == Range(between.value)


def test_rate_has_warnings_of_its_cells(make_result: MakeResult, surface_of: MakeSurface) -> None:
    surface = surface_of(
        [
            make_result("archive", 8 * KIB, 5, 400.0, limited_by="client"),
            make_result("archive", 32 * KIB, 5, 100.0, retries=1),
            make_result("archive", 64 * KIB, 5, 0.0, errors=3),  # no object succeeded, so there is no rate
        ]
    )
    first, last = surface.rate("archive", 16 * KIB, 5).cells
    assert any("limited by the client" in doubt for doubt in first.doubts)
    assert any("sent again" in doubt for doubt in last.doubts)
    assert surface.size_max("archive") == 32 * KIB


def test_parallel_rate_is_given_only_for_measured_column_and_size(
    make_result: MakeResult, surface_of: MakeSurface
) -> None:
    alone = [make_result("retrieve", size, count, 100.0) for size in (8 * KIB, MIB) for count in (1, 25)]
    parallel = [
        make_result("retrieve", MIB, 25, rate, clients=clients, phase="parallel", position=9)
        for clients, rate in ((1, 100.0), (2, 170.0), (4, 250.0))
    ]
    surface = surface_of([*alone, *parallel])

    def together(size: int, objects: int, clients: int) -> tuple[int, float] | None:
        found = surface.parallel_rate(surface.rate("retrieve", size, objects), clients)
        return None if found is None else (found.clients, found.objects_per_second.value)

    assert together(MIB, 25, 2) == (2, 170.0)
    assert together(MIB, 25, 3) == (2, 170.0)  # the largest measured number of at most 3
    assert together(MIB, 25, 9) == (4, 250.0)
    assert together(MIB, 25, 1) is None
    assert together(MIB, 1, 2) is None
    assert together(8 * KIB, 25, 2) is None


def test_run_wide_warnings_are_in_remarks(make_result: MakeResult, make_database: MakeDatabase) -> None:
    warm = make_result("retrieve", temperature="warm")
    database = make_database([phase_record(1, warm, 1, 2)], shared_host=True)
    remarks = " ".join(measured_surface(read_run(database.path)).remarks)
    for words in ("not for capacity", "has not finished, or was interrupted", "perhaps in a cache"):
        assert words in remarks
    database.finish(9.0, "none")
    assert "has not finished" not in " ".join(measured_surface(read_run(database.path)).remarks)


def test_run_without_results_is_refused(make_run: MakeRun) -> None:
    with pytest.raises(ResultsError, match="holds no results"):
        measured_surface(make_run())


def test_published_rates_have_range_of_rounding_in_paper() -> None:
    surface = published_surface("reference:dr550")
    found = surface.rate("retrieve", 16 * KIB, 1).objects_per_second
    assert (found.low, found.high) == pytest.approx((1000 / 73.5, 1000 / 72.5), abs=0.01)
    contradicted = surface.rate("retrieve", 8 * KIB, 250)
    assert contradicted.objects_per_second.low == 526.32  # the printed rate, which contradicts the printed MB/s
    assert "contradicts itself" in contradicted.cells[0].doubts[0]
    with pytest.raises(ResultsError, match="no such published study; choose one of: reference:dr550"):
        published_surface("reference:dr990")


def test_highest_rate_gives_lowest_time() -> None:
    assert Range(50.0, 40.0, 100.0).quotient_of(200) == Range(4.0, 2.0, 5.0)
