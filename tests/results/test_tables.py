"""What the tables say: which cells, which ratios, which doubts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from archiver.errors import ResultsError
from results.matrix import CLIENT_LIMITED, ERRORS, UNSETTLED
from results.model import FirstError, Latency, Result, ServerUsage
from results.published import dr550
from results.tables import (
    Cell,
    Table,
    beside_table,
    build_tables,
    error_table,
    latency_table,
    parallel_tables,
    rate_table,
    resource_table,
    session_time_table,
)

MakeResult = Callable[..., Result]


def row(table: Table, *labels: str) -> dict[str, Cell]:
    """The cells of the one row with these labels, by heading."""
    found = [cells for cells in table.rows if [cell.text for cell in cells[: len(labels)]] == list(labels)]
    assert len(found) == 1, f"{labels}: {len(found)} rows"
    return {column.name: cell for column, cell in zip(table.columns, found[0], strict=True)}


def test_a_full_run_fills_every_table(full_run: list[Result]) -> None:
    assert [table.name for table in build_tables(full_run)] == [
        "archive-objects-per-second",
        "archive-megabytes-per-second",
        "retrieve-objects-per-second",
        "retrieve-megabytes-per-second",
        "parallel-archive",
        "parallel-retrieve",
        "session-time",
        "latency",
        "resource-usage",
    ]


def test_no_results_is_an_error_that_says_so() -> None:
    with pytest.raises(ResultsError, match="no phase finished"):
        build_tables([])


def test_measured_published_and_ratio_stand_together(make_result: MakeResult) -> None:
    table = rate_table([make_result(objects_per_second=714.28)], "archive", "objects_per_second")
    assert row(table, "8KiB", "measured")["25"] == Cell("714.28", 714.28)
    assert row(table, "8KiB", "published")["25"] == Cell("357.14", 357.14)
    assert row(table, "8KiB", "ratio")["25"] == Cell("2.00", 2.0)


def test_megabyte_ratios_use_the_papers_unit_on_both_sides(make_result: MakeResult) -> None:
    """1,000 objects/s of 1 MiB are 1,024 of the paper's MB/s, 1,048.6 MB/s and 1,000 MiB/s."""
    result = make_result(object_bytes=2**20, objects_per_session=500, objects_per_second=1000.0)
    table = rate_table([result], "archive", "megabytes_per_second")
    assert row(table, "1MiB", "measured")["500"].number == pytest.approx(1024.0)
    assert row(table, "1MiB", "published")["500"].number == 36.18
    assert row(table, "1MiB", "ratio")["500"].number == pytest.approx(1024 / 36.18)
    assert "MB/s on both sides is objects/s x KiB / 1000" in table.caption


def test_the_same_speed_gives_a_ratio_of_one_in_both_units(make_result: MakeResult) -> None:
    cell = dr550().cells["archive", 2**20, 500]
    same = [make_result("archive", 2**20, 500, cell.objects_per_second)]
    for quantity in ("objects_per_second", "megabytes_per_second"):
        ratio = row(rate_table(same, "archive", quantity), "1MiB", "ratio")["500"].number
        assert ratio == pytest.approx(1, abs=0.001)


def test_the_three_contradicted_cells_are_marked_in_both_forms(full_run: list[Result]) -> None:
    for quantity in ("objects_per_second", "megabytes_per_second"):
        table = rate_table(full_run, "retrieve", quantity)
        marked = [
            (cells[0].text, column.name)
            for cells in table.rows
            for column, cell in zip(table.columns, cells, strict=True)
            if any("contradicts itself" in note for note in cell.notes)
        ]
        assert marked == [("8KiB", "250"), ("16KiB", "250"), ("32KiB", "250")]
    assert row(rate_table(full_run, "retrieve", "objects_per_second"), "8KiB", "published")["250"].number == 833.33


def test_a_subset_shows_only_what_was_measured(make_result: MakeResult) -> None:
    results = [
        make_result(objects_per_session=25, objects_per_second=500),
        make_result(object_bytes=2**20, objects_per_session=100, objects_per_second=50, position=2),
    ]
    table = rate_table(results, "archive", "objects_per_second")
    assert [column.name for column in table.columns] == ["object size", "", "25", "100"]
    assert len(table.rows) == 2 * 3
    for label in ("measured", "published", "ratio"):
        assert row(table, "8KiB", label)["100"] == Cell("–")  # not measured: the published value says nothing


def test_a_size_that_the_paper_lacks_has_no_ratio(make_result: MakeResult) -> None:
    table = rate_table([make_result(object_bytes=2**22)], "archive", "objects_per_second")
    assert row(table, "4MiB", "measured")["25"].number == 500
    assert row(table, "4MiB", "published")["25"] == row(table, "4MiB", "ratio")["25"] == Cell("–")


def test_doubtful_cells_carry_their_doubts(make_result: MakeResult) -> None:
    results = [
        make_result(objects_per_session=1, errors=3, objects=0, objects_per_second=0.0),
        make_result(objects_per_session=2, settled=False, position=2),
        make_result(objects_per_session=10, limited_by="client", position=3),
    ]
    measured = row(rate_table(results, "archive", "objects_per_second"), "8KiB", "measured")
    assert measured["1"] == Cell("0.00", 0.0, (ERRORS,))
    assert measured["2"].notes == (UNSETTLED,)
    assert measured["10"].notes == (CLIENT_LIMITED,)


def test_retrieve_says_the_temperature_and_marks_cells_that_differ(make_result: MakeResult) -> None:
    cold = make_result("retrieve", objects_per_session=1)
    unknown = make_result("retrieve", objects_per_session=2, temperature="unknown", position=2)
    assert rate_table([cold], "retrieve", "objects_per_second").title == "Retrieve: objects/s, cold data"
    table = rate_table([cold, unknown], "retrieve", "objects_per_second")
    assert table.title == "Retrieve: objects/s, cold or unknown data"
    measured = row(table, "8KiB", "measured")
    assert (measured["1"].notes, measured["2"].notes) == (("cold data",), ("unknown data",))


def test_repetitions_are_named_in_the_caption(make_result: MakeResult) -> None:
    results = [make_result(repetition=n, position=n, objects_per_second=n * 100.0) for n in (1, 2, 3)]
    table = rate_table(results, "archive", "objects_per_second")
    assert "median of 3 repetitions" in table.caption
    assert row(table, "8KiB", "measured")["25"].number == 200


def test_parallel_clients_are_compared_with_one_client_of_the_same_phase(full_run: list[Result]) -> None:
    archive, retrieve = parallel_tables(full_run)
    rates = row(archive, "1MiB", "objects/s")
    gains = row(archive, "1MiB", "× one client")
    assert [gains[clients].text for clients in "124"] == ["1.00", "1.68", "1.58"]
    assert gains["4"].number == pytest.approx((rates["4"].number or 0) / (rates["1"].number or 1))
    assert [row(archive, "1MiB", "× published")[clients].text for clients in "124"] == ["–", "1.26", "1.50"]
    megabytes = row(archive, "1MiB", "MB/s")["2"].number
    assert megabytes == pytest.approx((rates["2"].number or 0) * 2**20 / 1e6)
    assert not [cells for cells in retrieve.rows if cells[1].text == "× published"]
    assert "Published" not in retrieve.caption


def test_session_time_stands_beside_that_of_the_paper(full_run: list[Result]) -> None:
    """The synthetic run is the paper's archive at a constant factor: so are its times."""
    table = session_time_table(full_run)
    ours, theirs = (row(table, "archive", "1MiB", label) for label in ("measured", "published"))
    factor = (theirs["set-up a"].number or 0) / (ours["set-up a"].number or 1)
    assert factor == pytest.approx(21.6)
    assert theirs["marginal b"].number == pytest.approx((ours["marginal b"].number or 0) * factor)
    assert ours["half ceiling at a/b"].text == theirs["half ceiling at a/b"].text == "5.9"
    assert theirs["worst residual"].text == "1.2"


def test_session_time_says_when_it_cannot_say(make_result: MakeResult) -> None:
    one = row(session_time_table([make_result()]), "archive", "8KiB", "measured")
    assert one["set-up a"].text == "–"
    assert "two different objects per session" in one["set-up a"].notes[0]
    two = [make_result(objects_per_session=n, objects_per_second=100.0 * n**0.5, position=n) for n in (1, 25)]
    worst = row(session_time_table(two), "archive", "8KiB", "measured")["worst residual"]
    assert (worst.text, len(worst.notes)) == ("–", 1)


def test_session_time_marks_a_set_up_held_at_zero(make_result: MakeResult) -> None:
    rates = {1: 500.0, 25: 300.0, 100: 100.0}
    results = [make_result(objects_per_session=n, objects_per_second=rate) for n, rate in rates.items()]
    setup = row(session_time_table(results), "archive", "8KiB", "measured")["set-up a"]
    assert (setup.number, len(setup.notes)) == (0.0, 1)


def test_latencies_of_repetitions_are_never_averaged(make_result: MakeResult) -> None:
    def latency(scale: float) -> Latency:
        return Latency(10, *(scale * value for value in (1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)))

    results = [
        make_result(repetition=n, position=n, object_service_ms=latency(scale), session_open_ms=None)
        for n, scale in enumerate((1, 100, 3), start=1)
    ]
    table = latency_table(results)
    cells = row(table, "archive", "8KiB", "25", "1", "object")
    assert [cells[name].number for name in ("count", "p50", "p90", "p99", "p99.9", "max")] == [
        30, 3, 9, 12, 15, 600,
    ]  # fmt: skip
    assert {cells[4].text for cells in table.rows} == {"object", "session close"}


def test_transactions_are_shown_where_there_were_any(make_result: MakeResult) -> None:
    send, commit = (Latency(10, *[ms] * 7) for ms in (30.0, 12.0))
    table = latency_table([make_result(transaction_send_ms=send, transaction_commit_ms=commit)])
    assert row(table, "archive", "8KiB", "25", "1", "transaction send")["p50"].number == 30
    assert row(table, "archive", "8KiB", "25", "1", "transaction commit")["p50"].number == 12


def test_two_runs_stand_side_by_side_in_the_cells_that_both_measured(make_result: MakeResult) -> None:
    ours = [
        make_result(objects_per_session=1, objects_per_second=50.0),
        make_result(objects_per_session=500, objects_per_second=9000.0, position=2),
        make_result(objects_per_session=25, objects_per_second=1.0, position=3),
    ]
    theirs = [
        make_result(objects_per_session=1, objects_per_second=100.0, errors=1),
        make_result(objects_per_session=500, objects_per_second=300.0, position=2),
        make_result("retrieve", objects_per_session=25, objects_per_second=1.0, position=3),
    ]
    table = beside_table(ours, theirs, ("tsm", "s3"), ("run-1", "run-2"))
    assert [column.name for column in table.columns[4:]] == ["tsm", "s3", "ratio"]
    assert [[cell.number for cell in cells[2:]] for cells in table.rows] == [
        [1, 1, 50.0, 100.0, 0.5],
        [500, 1, 9000.0, 300.0, 30.0],
    ]
    assert table.rows[0][5].notes
    assert not table.rows[0][4].notes


def test_two_runs_of_one_backend_are_told_apart_by_their_ids(make_result: MakeResult) -> None:
    table = beside_table([make_result()], [make_result()], ("tsm", "tsm"), ("run-1", "run-2"))
    assert [column.name for column in table.columns[4:]] == ["run-1", "run-2", "ratio"]


def test_two_runs_without_a_cell_in_common_are_refused(make_result: MakeResult) -> None:
    with pytest.raises(ResultsError, match="run-1 and run-2 have no cell in common"):
        beside_table([make_result()], [make_result("retrieve")], ("tsm", "s3"), ("run-1", "run-2"))


def test_resources_are_weighted_by_the_seconds_they_were_used(make_result: MakeResult) -> None:
    busy = ServerUsage(100.0, 50.0, 100.0, None, 0, 3_000_000, 8.0)
    idle = ServerUsage(10.0, 5.0, 10.0, None, None, 1_000_000, 2.0)
    results = [
        make_result(objects_per_session=25, seconds=1.0, server=busy),
        make_result(objects_per_session=100, seconds=9.0, server=idle, position=2, limited_by="client"),
        make_result(objects_per_session=250, seconds=90.0, server=None, position=3, limited_by=None),
        make_result(objects_per_session=500, seconds=90.0, server=None, position=4),
    ]
    cells = row(resource_table(results), "archive", "8KiB", "1")
    assert cells["server CPU"].number == pytest.approx((100 + 9 * 10) / 10)
    assert cells["disk busy"].text == "–"
    assert (cells["disk read"].number, cells["disk written"].number) == (0, 4)
    assert cells["network"].number == pytest.approx((8 + 9 * 2) / 10)
    assert cells["limited by"].text == "server cpu 2/4, client 1/4"


def test_errors_show_the_first_of_each_kind_and_count_all(make_result: MakeResult) -> None:
    denied = FirstError("archive", "403 AccessDenied", 3, "first", "id1", "o/1")
    results = [
        make_result(position=2, first_errors=(replace(denied, count=4, message="second"),)),
        make_result(first_errors=(denied, replace(denied, reason="read timeout", count=1, request_id=""))),
    ]
    table = error_table(results)
    assert [[cell.text for cell in cells[:5]] for cells in table.rows] == [
        ["archive", "403 AccessDenied", "7", "first", "id1"],
        ["archive", "read timeout", "1", "first", "–"],
    ]
    assert not error_table([make_result()]).rows
