"""The tables of a tile run, with ESG's numbers as known answers: sums, mailboxes, rates per drive, missing values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from results.document.table import NOT_MEASURED, Table
from results.document.text import render_csv, render_text
from results.mixed.drives import drives_table
from results.mixed.mailboxes import all_mailboxes, tile_mailboxes
from results.mixed.published import ds5020, storwize_v7000
from results.mixed.tile_tables import (
    database_table,
    email_operations_table,
    email_table,
    tile_tables,
    totals_table,
    web_scan_table,
)
from results.mixed.tiles import Scale
from results.mixed.workloads import workloads_table
from results.recorded.model import CriterionResult, Result
from tests.results.tile_run import TileRun, criterion, latency, scales_of

TABLE_3 = [(882.0, 108.0, 5.42), (899.0, 111.0, 5.54), (875.0, 106.0, 5.43), (883.0, 108.0, 5.35)]
WEB = [846.0, 838.0, 800.0, 833.0]
SCAN = [96.0, 97.0, 90.0, 91.0]


@pytest.fixture
def run(make_result: Callable[..., Result]) -> TileRun:
    return TileRun(make_result)


@pytest.fixture
def four(run: TileRun) -> list[Result]:
    """Return the results of ESG's four tiles, with 4,340 e-mail operations/s in total."""
    results: list[Result] = []
    for tile in range(1, 5):
        small, large, least = TABLE_3[tile - 1]
        results += [
            run.email(tile, 1085.0, 17.0, scale=4.0),
            *run.database(
                tile, {1: (184.0, least), 5: (590.0, 8.4), 25: (small, 28.3)}, {9: large, 10: 90.0}, scale=4.0
            ),
            run.web(tile, WEB[tile - 1], scale=4.0),
            run.scan(tile, SCAN[tile - 1], scale=4.0),
        ]  # fmt: skip
    return results


def measured(table: Table) -> list[list[str]]:
    """Return the texts of the measured rows, without the label "measured"."""
    return [[cell.text for cell in row if cell.text != "measured"] for row in table.rows if row[2].text == "measured"]


def only(results: Sequence[Result], criteria: Sequence[CriterionResult] = ()) -> Scale:
    (scale,) = scales_of(results, criteria)
    return scale


def test_workloads_table_shows_time_sessions_and_objects(run: TileRun) -> None:
    """Sessions and objects of copies are added; the shortest time is shown. A part has only objects."""
    copies = [
        run.email(1, seconds=90.0, sessions=30, objects=300),
        run.email(2, seconds=80.0, sessions=20, objects=200),
    ]
    table = workloads_table(copies, "tiles")
    rows = {row[3].text: {c.name: cell for c, cell in zip(table.columns, row, strict=True)} for row in table.rows}
    assert [rows["all"][name].number for name in ("measured", "sessions", "objects")] == [80.0, 50, 500]
    assert [rows["log"][name].text for name in ("measured", "sessions", "objects")] == ["", "", "55,978"]


def test_achieved_rate_of_workloads_is_sessions_per_second_of_any_kind(run: TileRun) -> None:
    """The field of a mix counts sessions; that of a replay or an infrastructure operation counts objects."""
    mix = run.email(1, seconds=80.0, sessions=20, objects=200, achieved_per_second=0.25)
    replay = run.web(1, seconds=40.0, sessions=20, objects=200, achieved_per_second=5.0)
    table = workloads_table([mix, replay], "tiles")
    achieved = next(place for place, column in enumerate(table.columns) if column.name == "achieved")
    assert [row[achieved].number for row in table.rows if row[3].text == "all"] == [0.25, 0.5]


# ---- e-mail


@pytest.mark.parametrize(
    ("rate", "page", "mailboxes"),
    [
        (1233.0, 8192, 2466),  # Table 2, one tile
        (1077.105, 8192, 2154),  # the report's sample of Jetstress' output
        (3530.04, 32768, 29417),  # V7000, one tile: Jetstress 2010
        (0.9, 8192, 1),
    ],
)
def test_mailboxes_are_operations_divided_by_mailbox_rate(run: TileRun, rate: float, page: int, mailboxes: int) -> None:
    found = tile_mailboxes(only([run.email(1, rate, page=page)]), 1)
    assert (found.supported, found.reasons) == (mailboxes, ())


def test_log_is_not_counted_as_email_operation(run: TileRun) -> None:
    (scale,) = scales_of([run.email(1, 1000.0)])
    assert scale.all_tiles[0].email_rate == pytest.approx(1000.0)
    (row,) = email_operations_table([scale]).rows
    assert [cell.text for cell in row][2:10] == ["200.0", "80.0", "70.0", "80.0", "570.0", "227.0", "57", "0.227"]


def test_unknown_page_size_gives_no_mailboxes(run: TileRun) -> None:
    found = tile_mailboxes(only([run.email(1, page=16384)]), 1)
    assert found.supported is None
    assert "8KiB" in found.reasons[0]
    assert "not of 16KiB" in found.reasons[0]


@pytest.mark.parametrize(
    ("retrieve_ms", "log_ms", "reason"),
    [
        (20.0, 5.0, None),
        (20.4, 5.0, "mean retrieve 20.4 ms > 20 ms"),
        (14.0, 5.3, "mean log archive 5.3 ms > 5 ms"),
        (None, 3.0, "mean retrieve: not measured"),
        (14.0, None, "mean log archive: not measured"),
    ],
)
def test_too_slow_tile_supports_no_mailboxes_and_gives_reason(
    run: TileRun, retrieve_ms: float | None, log_ms: float | None, reason: str | None
) -> None:
    found = tile_mailboxes(only([run.email(1, 1233.0, retrieve_ms, log_ms)]), 1)
    assert found.reasons == ((reason,) if reason else ())
    assert found.supported == (None if reason else 2466)
    assert found.possible == 2466


def test_mailboxes_are_void_where_the_client_was_the_limit(run: TileRun) -> None:
    """This also applies to the limits of Jetstress, which no criterion of the scenario judges."""
    slow = [run.email(1, retrieve_ms=30.0), run.web(1, limited_by="client")]
    for criteria in ([], [criterion("tile 1 e-mail", "object_ms.mean <= 20 (retrieve)", 20, 30.0, False)]):
        (scale,) = scales_of(slow, criteria)
        found = all_mailboxes(scale)
        assert (found.supported, found.is_void) == (None, True)
        assert [row[-1] for row in measured(email_table([scale]))] == ["void", "void"]
    (scale,) = scales_of([run.email(1), run.web(1, limited_by="client")])
    assert all_mailboxes(scale).supported == 2466
    (scale,) = scales_of([*slow, run.email(2, retrieve_ms=30.0, position=2, scale=1.0)])
    assert not all_mailboxes(scale).is_void  # the second trial is valid, and failed


def test_mailboxes_of_short_measurement_are_marked(run: TileRun) -> None:
    table = totals_table([only([run.email(1, seconds=2.0)])])
    assert (table.rows[0][1].text, table.rows[0][1].notes) == ("2,466", ("measured for 2.00 s",))


def test_criteria_of_scenario_replace_limits_of_jetstress(run: TileRun) -> None:
    results = [run.email(1, 1233.0, retrieve_ms=35.0, log_ms=9.0)]
    looser = [
        criterion("tile 1 e-mail", "object_ms.mean <= 40 (retrieve)", 40, 35.0, True),
        criterion("tile 1 e-mail", "object_ms.mean <= 10 (log)", 10, 9.0, True),
    ]
    assert tile_mailboxes(only(results, looser), 1).supported == 2466
    assert tile_mailboxes(only(results, looser[:1]), 1).reasons == ("mean log archive 9.0 ms > 5 ms",)
    stricter = [criterion("tile 1 e-mail", "object_ms.mean <= 30 (retrieve)", 30, 35.0, False), looser[1]]
    assert tile_mailboxes(only(results, stricter), 1).reasons == ("failed: object_ms.mean <= 30 (retrieve): it was 35",)


def test_other_criteria_do_not_replace_limit_on_mean_retrieve(run: TileRun) -> None:
    """With criteria on a percentile, another operation or the whole workload, the limits of Jetstress still apply."""
    results = [run.email(1, 1233.0, retrieve_ms=35.0)]
    for name in ("object_ms.p70 <= 40 (retrieve)", "object_ms.mean <= 40 (archive)", "object_ms.mean <= 40"):
        held = [criterion("tile 1 e-mail", name, 40, 35.0, True)]
        assert tile_mailboxes(only(results, held), 1).reasons == ("mean retrieve 35.0 ms > 20 ms",)


@pytest.mark.parametrize(
    ("workload", "position", "counts"),
    [("tile 1 e-mail", 1, True), ("tile 2 e-mail", 1, False), ("tile 1 e-mail", 2, False), ("tile 1 web", 1, False)],
)
def test_any_failed_criterion_of_tiles_own_email_removes_mailboxes(
    run: TileRun, workload: str, position: int, counts: bool
) -> None:
    failed = [criterion(workload, "errors == 0", 0, 3, False, position=position)]
    found = tile_mailboxes(only([run.email()], failed), 1)
    assert (found.supported is None) == counts


def test_errors_in_data_check_leave_no_supported_mailboxes(run: TileRun) -> None:
    check = run.one("e-mail check", 1, "retrieve", errors=2)
    found = tile_mailboxes(only([run.email(), check]), 1)
    assert found.reasons == ("reading its data again found 2 errors",)


def test_one_unsupported_tile_removes_total_of_mailboxes(run: TileRun) -> None:
    scale = only([run.email(1, scale=2.0), run.email(2, retrieve_ms=21.0, scale=2.0)])
    found = all_mailboxes(scale)
    assert found.supported is None
    assert found.possible == 4932
    assert found.reasons == ("tile 2: mean retrieve 21.0 ms > 20 ms",)
    rows = measured(email_table([scale]))
    assert [row[-1] for row in rows] == ["2,466", "none", "none"]


def test_mailboxes_require_every_trial_to_pass(run: TileRun) -> None:
    results = [run.email(1, 1200.0), run.email(1, 1300.0, retrieve_ms=25.0, position=2)]
    assert tile_mailboxes(only(results), 1).reasons == ("mean retrieve 25.0 ms > 20 ms",)
    held = [results[0], run.email(1, 1300.0, position=2)]
    assert tile_mailboxes(only(held), 1).supported == 2400  # the lower one of two trials


# ---- tables


def test_email_table_reproduces_table_2_of_esg(four: list[Result]) -> None:
    rows = measured(email_table(scales_of(four)))
    assert rows[0] == ["4", "1", "1,085", "17.0", "3.0", "2,170"]
    assert rows[-1] == ["4", "all", "4,340", "17.0", "3.0", "8,680"]


def test_database_table_reproduces_table_3_of_esg(four: list[Result]) -> None:
    rows = measured(database_table(scales_of(four)))
    assert rows[0] == ["4", "1", "882", "28.30", "25", "5.42", "184", "590", "108.0", "9", "–"]
    assert rows[-1] == ["4", "all", "3,539", "28.30", "–", "5.43", "–", "2,360", "433.0", "–", "low"]


def test_rate_is_shown_with_latency_of_same_point(four: list[Result]) -> None:
    """By Little's law, 25 outstanding operations at 882/s take 28.3 ms; the 5.42 ms belong to another point."""
    row = measured(database_table(scales_of(four)))[0]
    assert float(row[2]) * float(row[3]) / 1000 == pytest.approx(float(row[4]), rel=0.01)


def test_cell_without_point_within_limit_is_noted(run: TileRun) -> None:
    table = database_table(scales_of(run.database(1, {1: (50.0, 11.0), 2: (90.0, 22.0)}, {1: 40.0})))
    assert table.rows[0][8].text == NOT_MEASURED
    assert table.rows[0][8].notes == ("no point had a mean within the limit",)


def test_web_scan_table_reproduces_table_4_of_esg(four: list[Result]) -> None:
    rows = measured(web_scan_table(scales_of(four)))
    assert [row[2] for row in rows] == ["846", "838", "800", "833", "3,317"]
    assert [row[6] for row in rows] == ["96.0", "97.0", "90.0", "91.0", "374.0"]
    assert rows[-1][5] == "392.2"  # MB/s


def test_totals_table_has_one_row_for_all_tiles(four: list[Result]) -> None:
    (row,) = totals_table(scales_of(four)).rows
    assert [cell.text for cell in row] == ["4", "8,680", "4,340", "3,539", "5.43", "433.0", "3,317", "392.2"]


def test_total_with_missing_tile_is_not_measured(four: list[Result]) -> None:
    without = [result for result in four if result.workload != "tile 3 web"]
    rows = measured(web_scan_table(scales_of(without)))
    assert [row[2] for row in rows] == ["846", "838", NOT_MEASURED, "833", NOT_MEASURED]


def test_published_rows_name_source_and_leave_measured_rows_unchanged(four: list[Result]) -> None:
    scales, studies = scales_of(four), [ds5020(), storwize_v7000()]
    for table, ours in (
        (email_table(scales, studies), email_table(scales)),
        (database_table(scales, studies), database_table(scales)),
        (web_scan_table(scales, studies), web_scan_table(scales)),
    ):
        assert measured(table) == measured(ours)
        others = [row for row in table.rows if row[2].text != "measured"]
        assert others
        assert {row[2].text for row in others} == {"ESG: DS5020", "ESG: V7000"}
        assert "block storage" in table.caption
        assert "ESG" not in ours.caption
    assert tile_tables([], studies) == []  # no published rows without measured ones


def test_published_rows_of_the_v7000_are_of_four_tiles_and_in_mib(four: list[Result]) -> None:
    web_scan = web_scan_table(scales_of(four), [storwize_v7000()]).rows[-1]
    assert [cell.text for cell in web_scan] == ["4", "all", "ESG: V7000", "5,015", "–", "–", "675.3", "644"]
    database = database_table(scales_of(four), [storwize_v7000()]).rows[-1]
    assert (database[0].text, database[-1].text) == ("4", "medium")


def test_database_table_has_sizing_class_of_all_tiles(four: list[Result]) -> None:
    """ESG's four tiles have 3,539 small operations/s and 433 MB/s: class low. A single tile has no class."""
    *tiles, whole = measured(database_table(scales_of(four)))
    assert [row[-1] for row in tiles] == ["–"] * 4
    assert whole[-1] == "low"


def test_deletes_markers_versions_and_skipped_steps_count_separately(run: TileRun) -> None:
    email = replace(run.email(1, 100.0), steps_left_out=7, errors=2)
    table = email_operations_table(scales_of([email]))
    row = dict(zip((column.name for column in table.columns), (cell.text for cell in table.rows[0]), strict=True))
    assert (row["deleted, expired"], row["deletion markers"], row["new versions"]) == ("8.0", "7.0", "8.0")
    assert (row["left out"], row["failed"]) == ("7", "2")


def test_load_phases_are_in_no_tile_table(run: TileRun) -> None:
    load = [replace(result, phase="load", is_load=True, position=9) for result in run.tile(1)]
    assert scales_of(load) == []
    assert len(scales_of([*run.tile(1), *load])[0].trials) == 1


def test_workloads_other_than_tiles_give_no_scales_of(make_result: Callable[..., Result]) -> None:
    assert scales_of([make_result(), make_result("retrieve", application="camera", scale=3.0)]) == []


def test_medians_over_trials_use_values_measured_together(run: TileRun) -> None:
    results = [
        result
        for position, (rate, mean, count) in enumerate([(900.0, 28.0, 25), (700.0, 20.0, 14), (800.0, 27.0, 22)], 1)
        for result in run.database(1, {count: (rate, mean)}, {1: rate / 10}, position=position)
    ]
    table = database_table(scales_of(results))
    assert [cell.text for cell in table.rows[0]][3:6] == ["800", "27.00", "22"]
    assert "medians over up to 3 trials" in table.caption


def test_mean_response_of_all_tiles_is_weighted_by_objects(run: TileRun) -> None:
    webs = [
        run.web(tile, scale=2.0, object_ms=latency(mean, count))
        for tile, mean, count in ((1, 10.0, 900), (2, 40.0, 100))
    ]
    rows = measured(web_scan_table(scales_of(webs)))
    assert [row[4] for row in rows] == ["10.00", "40.00", "13.00"]


def test_workload_that_ended_early_is_marked(run: TileRun) -> None:
    table = email_table(scales_of([run.email(ended_early=True)]))
    assert "before its time was over" in table.rows[0][3].notes[0]


def test_every_tile_table_renders_as_text_and_csv(four: list[Result]) -> None:
    tables = tile_tables(scales_of(four), [ds5020()])
    assert [table.name for table in tables] == [
        "tiles", "tiles-email", "tiles-email-operations", "tiles-database", "tiles-web-scan",
    ]  # fmt: skip
    for table in tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}
        assert render_text(table).startswith(table.title)
        assert len(render_csv(table).splitlines()) == len(table.rows) + 1


# ---- drives


def test_rates_per_drive_equal_those_of_esg(four: list[Result]) -> None:
    tables = {drives: drives_table(scales_of(four), drives) for drives in (32, 16)}
    rows = {row[1].text: row for row in tables[16].rows}
    rows["e-mail"] = tables[32].rows[0]
    for name, per_drive, guideline, esg in (("e-mail", 135, 100, 135), ("database small", 221, 30, 221)):
        row = rows[name]
        assert row[5].number is not None
        assert int(row[5].number) == per_drive
        assert (row[6].number, row[8].number) == (guideline, esg)
        assert row[7].number == pytest.approx(row[5].number / guideline)
    assert rows["database large"][5].text == "27.1"  # 433 MB/s / 16 drives
    assert rows["database large"][8].text == NOT_MEASURED


def test_shared_drives_are_noted_in_caption(four: list[Result]) -> None:
    table = drives_table(scales_of(four), 12)
    assert {row[4].text for row in table.rows} == {"12"}
    assert "All applications share the drives" in table.caption
