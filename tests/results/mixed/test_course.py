"""A phase second by second: bins, peak and steady rates, spikes, their causes, and their effect on other workloads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.mixed.programme import MEGABYTES, OBJECTS, Course, course, spikes, standing_out, summary
from results.mixed.programme_tables import others_table, programme_table, programme_tables, rates_table, spikes_table
from results.recorded.database import WorkloadInterval
from results.recorded.model import Result
from results.reference.esg_peaks import published_peaks
from tests.results.tile_run import INTERVAL_NS, TileRun, steps

KIB = 1024


@pytest.fixture
def run(make_result: Callable[..., Result]) -> TileRun:
    return TileRun(make_result)


def at(run: TileRun, application: str, begins: float, ends: float, **given: object) -> Result:
    return run.one(application, 1, "mixed", **{"begins_seconds": begins, "seconds": ends - begins, **given})


@pytest.fixture
def programme(run: TileRun) -> Course:
    """Return a course of 100 s of web at 1,000/s and 4 ms. From 40 s to 60 s e-mail reads 3,000/s; web has 700/s."""
    results = [at(run, "web", 0, 100, clients=16), at(run, "e-mail check", 40, 60, clients=32)]
    rows = [
        *steps("tile 1 web", [(0, 40, 1000, 4.0), (40, 60, 700, 8.0), (60, 100, 1000, 5.0)], 16 * KIB),
        *steps("tile 1 e-mail check", [(40, 60, 3000, 2.0)], 8 * KIB),
    ]
    return course(results, rows, INTERVAL_NS)


# ---- bins


def test_intervals_are_added_up_to_seconds(run: TileRun) -> None:
    rows = [WorkloadInterval("tile 1 web", n, 10 + n, 10_000, 0, 5_000_000, 900_000) for n in range(8)]
    found = course([at(run, "web", 0, 2)], rows, INTERVAL_NS)
    assert found.rates(OBJECTS) == [10 + 11 + 12 + 13, 14 + 15 + 16 + 17]
    assert found.rates(MEGABYTES) == pytest.approx([0.04, 0.04])


def test_intervals_longer_than_one_second_are_separate_bins(run: TileRun) -> None:
    rows = [WorkloadInterval("tile 1 web", n, 40, 4_000_000, 0, 1, 1) for n in range(3)]
    found = course([at(run, "web", 0, 6)], rows, 2 * 10**9)
    assert (found.bin_seconds, found.rates(OBJECTS), found.rates(MEGABYTES)) == (2.0, [20.0] * 3, [2.0] * 3)


def test_rates_of_copies_of_an_application_are_added(run: TileRun) -> None:
    results = [run.web(1, begins_seconds=0.0, seconds=2.0), run.web(2, begins_seconds=0.0, seconds=2.0)]
    rows = [*steps("tile 1 web", [(0, 2, 100, 1.0)]), *steps("tile 2 web", [(0, 2, 40, 1.0)])]
    found = course(results, rows, INTERVAL_NS)
    assert found.applications == ["web"]
    assert found.rates(OBJECTS, "web") == [140.0, 140.0]


def test_partial_seconds_are_excluded_from_peak_and_median(run: TileRun) -> None:
    """The workload runs from 1.5 s to 4.5 s, so only the seconds from 2 to 4 are complete."""
    found = course([at(run, "web", 1.5, 4.5)], steps("tile 1 web", [(1.5, 4.5, 100, 1.0)]), INTERVAL_NS)
    assert found.window == (2, 4)
    rate = summary(found, OBJECTS)
    assert rate is not None
    assert (rate.peak, rate.peak_seconds, rate.steady) == (100.0, 2.0, 100.0)


def test_phase_without_operations_has_no_rates_or_spikes(run: TileRun) -> None:
    found = course([at(run, "web", 0, 3)], [], INTERVAL_NS)
    assert summary(found, MEGABYTES) is None
    assert spikes(found) == []
    assert programme_tables([course([], [], INTERVAL_NS)], "tiles") == []


# ---- peak, steady, spikes


def test_peak_is_best_ten_seconds_and_steady_is_median_without_spikes(programme: Course) -> None:
    rate = summary(programme, OBJECTS)
    assert rate is not None
    assert (rate.peak, rate.peak_seconds, rate.steady) == (3700.0, 10.0, 1000.0)
    megabytes = summary(programme, MEGABYTES)
    assert megabytes is not None
    assert megabytes.steady == pytest.approx(16.384)
    assert megabytes.peak == pytest.approx(700 * 0.016384 + 3000 * 0.008192)


def test_steady_rate_excludes_spikes(run: TileRun) -> None:
    """The spike takes a third of the time: the median of all seconds is 110, that of the other seconds 100."""
    levels = [(0, 11, 90, 1.0), (11, 20, 100, 1.0), (20, 30, 110, 1.0), (30, 45, 300, 1.0)]
    rate = summary(course([at(run, "web", 0, 45)], steps("tile 1 web", levels), INTERVAL_NS), OBJECTS)
    assert rate is not None
    assert rate.steady == 100.0


def test_peak_shorter_than_ten_seconds_is_averaged_over_ten_seconds(run: TileRun) -> None:
    rows = steps("tile 1 web", [(0, 20, 100, 1.0), (20, 25, 300, 1.0), (25, 40, 100, 1.0)])
    rate = summary(course([at(run, "web", 0, 40)], rows, INTERVAL_NS), OBJECTS)
    assert rate is not None
    assert rate.peak == 200.0


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([100] * 8 + [126, 126] + [100] * 8, [8, 9]),  # 25% above, for two seconds
        ([100] * 8 + [124, 124] + [100] * 8, []),  # less than 25% above
        ([100] * 8 + [400] + [100] * 8, []),  # only one second
        ([100] * 8 + [400, 100, 400] + [100] * 8, [8, 9, 10]),  # one second between two belongs to the spike
        ([100] * 8 + [20, 20] + [100] * 8, []),  # a dip is no spike
        ([100, 60, 140] * 6 + [170, 170], []),  # within the usual scatter
        ([100, 104, 96] * 6 + [170, 170], [18, 19]),
        ([10] * 6 + [40] * 4 + [14, 14] + [10] * 6, [6, 7, 8, 9, 10, 11]),  # found after the larger one is removed
        ([7], []),
    ],
)
def test_spike_seconds_follow_written_rule(rates: Sequence[float], expected: Sequence[int]) -> None:
    assert [place for place, out in enumerate(standing_out(rates)) if out] == expected


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.floats(0.001, 1000))
def test_spikes_never_cover_all_seconds(rates: list[float], factor: float) -> None:
    marked = standing_out(rates)
    assert len(marked) == len(rates)
    assert not all(marked)
    steady = sorted(rate for rate, out in zip(rates, marked, strict=True) if not out)
    spiking = [rate for rate, out in zip(rates, marked, strict=True) if out]
    assert not spiking or max(spiking) > steady[len(steady) // 2]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40))
def test_spikes_do_not_depend_on_unit_of_rate(rates: list[int]) -> None:
    assert standing_out([float(rate) for rate in rates]) == standing_out([rate * 1024.0 for rate in rates])


# ---- causes, and other workloads


def test_a_spike_is_tied_to_the_workload_that_began(programme: Course) -> None:
    (spike,) = spikes(programme)
    assert (spike.begins, spike.ends, spike.quantities) == (40.0, 60.0, (MEGABYTES, OBJECTS))
    assert (spike.carrier, spike.cause) == ("e-mail check", "e-mail check began")
    assert spike.rate / spike.steady == pytest.approx((700 * 16 + 3000 * 8) / (1000 * 16))


def test_other_workloads_are_shown_before_during_and_after_spike(programme: Course) -> None:
    ((beside,),) = [spike.others for spike in spikes(programme)]
    assert beside.application == "web"
    assert beside.objects_per_second == (1000.0, 700.0, 1000.0)
    assert beside.response_ms == pytest.approx((4.0, 8.0, 5.0))
    row = others_table([programme], "tiles").rows[0]
    assert [cell.text for cell in row] == [
        "1", "1", "1", "web", "1,000", "700", "1,000", "-30", "4.00", "8.00", "5.00", "+100",
    ]  # fmt: skip


def test_workload_that_ended_is_named_as_cause_of_spike(run: TileRun) -> None:
    results = [at(run, "scan", 0, 60), at(run, "web", 0, 30)]
    rows = [*steps("tile 1 scan", [(0, 30, 100, 5.0), (30, 60, 400, 2.0)]), *steps("tile 1 web", [(0, 30, 12, 5.0)])]
    (spike,) = spikes(course(results, [*rows, *steps("tile 1 scan", [(60, 200, 100, 5.0)])], INTERVAL_NS))
    assert spike.cause == "web ended; scan rose most"
    assert spike.others == ()


def test_unexplained_spike_names_workload_that_rose_most(run: TileRun) -> None:
    rows = steps("tile 1 web", [(0, 30, 100, 1.0), (30, 35, 300, 1.0), (35, 60, 100, 1.0)])
    (spike,) = spikes(course([at(run, "web", 0, 60)], rows, INTERVAL_NS))
    assert spike.cause == "no workload began or ended; web rose most"


def test_copies_starting_together_are_one_change(run: TileRun) -> None:
    results = [run.one("e-mail", tile, "mixed", begins_seconds=20.0 + tile / 10, seconds=10.0) for tile in (1, 2, 3)]
    found = course([at(run, "web", 0, 60), *results], steps("tile 1 web", [(0, 60, 10, 1.0)]), INTERVAL_NS)
    assert [change.words for change in found.changes] == [
        "web began", "e-mail began in 3 tiles", "e-mail ended in 3 tiles", "web ended",
    ]  # fmt: skip


def points(
    run: TileRun, seconds: float, rates: Sequence[float], begins: float
) -> tuple[list[Result], list[WorkloadInterval]]:
    """Return results and intervals of consecutive database points, each with one more operation outstanding."""
    results: list[Result] = []
    rows: list[WorkloadInterval] = []
    for place, rate in enumerate(rates):
        start, name = begins + place * seconds, f"tile 1 database large {place + 1}"
        results.append(at(run, "database large", start, start + seconds, clients=place + 1, workload=name))
        rows += steps(name, [(start, start + seconds, rate, 9.0)], KIB * KIB)
    return results, rows


def test_gradual_start_is_spike_cause_and_baseline_precedes_it(run: TileRun) -> None:
    """With 1 operation outstanding the database adds less than 25%, but slows the web server from its first second."""
    large, rows = points(run, 4.0, [1, 20, 30], 40.0)
    rows += steps("tile 1 web", [(0, 40, 1000, 4.0), (40, 52, 500, 8.0), (52, 100, 1000, 4.0)], 8 * KIB)
    found = spikes(course([at(run, "web", 0, 100), *large], rows, INTERVAL_NS))
    spike = found[0]
    assert (spike.begins, spike.ends) == (44.0, 52.0)
    assert spike.cause == "database large with 2 outstanding began"
    assert spike.others[0].objects_per_second == (1000.0, 500.0, 1000.0)
    late, rows = points(run, 8.0, [1], 40.0)
    rows += steps("tile 1 web", [(0, 40, 1000, 4.0), (40, 48, 500, 8.0), (48, 100, 1000, 4.0)], 8 * KIB)
    rows += steps("tile 1 database large 1", [(45, 48, 30, 9.0)], KIB * KIB)
    assert (
        spikes(course([at(run, "web", 0, 100), *late], rows, INTERVAL_NS))[0].cause == "database large began 5 s before"
    )


def test_workload_ending_at_spike_start_is_named_and_not_in_baseline(run: TileRun) -> None:
    """The web server has 700/s next to the small operations, 900/s next to the large ones, and 1,000/s alone."""
    small = at(run, "database small", 0, 40, clients=25)
    large, rows = points(run, 20.0, [30], 40.0)
    rows += steps("tile 1 database small", [(0, 40, 500, 5.0)], 8 * KIB)
    rows += steps("tile 1 web", [(0, 40, 700, 8.0), (40, 60, 900, 5.0), (60, 100, 1000, 4.0)], 8 * KIB)
    found = course([at(run, "web", 0, 100), small, *large], rows, INTERVAL_NS)
    (spike,) = [each for each in spikes(found) if MEGABYTES in each.quantities]
    assert spike.cause == "database large began; database small ended at that moment"
    assert spike.relieved == ("database small",)
    (line,) = others_table([found], "tiles").rows
    cells = [cell.text for cell in line]
    assert cells[3:] == ["web", "700", "900", "1,000", "-10", "8.00", "5.00", "4.00", "+25"]  # not +29 and -38
    assert line[7].notes == ("during / after, because database small ran before",)


def test_end_of_one_sweep_point_does_not_end_workload(run: TileRun) -> None:
    """The points of a database sweep follow each other: the end of one point is not the end of the database."""
    small, rows = points(run, 10.0, [1, 1, 1, 1, 1, 1], 0.0)
    results = [*small, at(run, "scan", 30, 40)]
    rows += steps("tile 1 scan", [(30, 40, 400, 2.0)], 256 * KIB)
    (spike,) = spikes(course(results, rows, INTERVAL_NS))
    assert (spike.cause, spike.relieved) == ("scan began", ())


def test_gradual_start_names_workload_that_ended_then(run: TileRun) -> None:
    small = at(run, "database small", 0, 40, clients=25)
    large, rows = points(run, 4.0, [1, 20, 30], 40.0)
    rows += steps("tile 1 database small", [(0, 40, 100, 5.0)], 8 * KIB)
    rows += steps("tile 1 web", [(0, 100, 1000, 4.0)], 8 * KIB)
    found = spikes(course([at(run, "web", 0, 100), small, *large], rows, INTERVAL_NS))
    assert found[0].cause == "database large with 2 outstanding began; database small ended 4 s before"


def test_other_workloads_with_changing_concurrency_are_marked(run: TileRun) -> None:
    small, rows = points(run, 5.0, [100, 100, 100, 100], 0.0)
    results = [*small, at(run, "scan", 8, 14)]
    rows += steps("tile 1 scan", [(8, 14, 2000, 1.0)], 256 * KIB)
    table = others_table([course(results, rows, INTERVAL_NS)], "tiles")
    assert table.rows[0][3].notes == ("its own outstanding requests changed meanwhile",)


def test_spikes_in_objects_only_are_listed(run: TileRun) -> None:
    """E-mail reads many small objects, with few bytes compared with the scan."""
    results = [at(run, "scan", 0, 60), at(run, "e-mail", 20, 30)]
    rows = [*steps("tile 1 scan", [(0, 60, 400, 2.0)], 256 * KIB), *steps("tile 1 e-mail", [(20, 30, 900, 1.0)], KIB)]
    found = course(results, rows, INTERVAL_NS)
    (spike,) = spikes(found)
    assert spike.quantities == (OBJECTS,)
    (row,) = spikes_table([found], "tiles").rows
    assert [cell.text for cell in row] == [
        "1",
        "1",
        "1",
        "objects/s",
        "20",
        "30",
        "1,300",
        "1,300",
        "3.25",
        "e-mail began",
    ]


# ---- tables


def test_programme_table_shows_workload_times_including_warm_up(run: TileRun) -> None:
    email = at(run, "e-mail", 10, 30, clients=32)
    large, rows = points(run, 4.0, [5, 6, 7], 30.0)
    found = course([email, *large], [*steps("tile 1 e-mail", [(4, 30, 100, 1.0)]), *rows], INTERVAL_NS)
    table = programme_table([found], "tiles")
    assert [[cell.text for cell in row][2:] for row in table.rows] == [
        ["e-mail", "4.0", "10.0", "30.0", "32", "2,600", "21.3"],
        ["database large", "30.0", "30.0", "42.0", "1 to 3", "72", "75.5"],
    ]  # fmt: skip


def test_rates_table_counts_spikes_and_states_rule(programme: Course) -> None:
    table = rates_table([programme], "tiles")
    assert [cell.text for cell in table.rows[0]] == ["1", "1", "36.0", "16.4", "3,700", "1,000", "1"]
    for words in ("best 10 s", "by 25%", "median of all seconds outside spikes"):
        assert words in table.caption


def test_published_peaks_follow_measured_rows_with_unknowns_noted(programme: Course) -> None:
    table = rates_table([programme], "tiles", published_peaks())
    assert [[cell.text for cell in row] for row in table.rows[1:]] == [
        ["4", "ESG: DS5020", "1,210", "–", "19,046", "12,688", "–"],
        ["4", "ESG: V7000", "1,900", "–", "20,343", "–", "–"],
    ]
    assert "printed as 1.21 GB/s; it is not known whether GB are 10^9 or 2^30 bytes" in table.notes
    assert "of block storage" in table.caption
    assert rates_table([], "tiles", published_peaks()).rows == ()


def test_phase_shorter_than_peak_window_is_noted(run: TileRun) -> None:
    found = course([at(run, "web", 0, 4)], steps("tile 1 web", [(0, 4, 100, 1.0)]), INTERVAL_NS)
    assert rates_table([found], "tiles").rows[0][2].notes == ("over 4 s, the whole time",)


def test_every_row_has_all_columns(programme: Course) -> None:
    tables = programme_tables([programme], "tiles")
    assert [table.name for table in tables] == ["programme", "aggregate-rates", "spikes", "spikes-others"]
    for table in tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}
