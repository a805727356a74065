"""The tables of a report: their cells, ratios and warnings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from archiver.measure.histogram import Histogram, part_of
from archiver.values.errors import ResultsError
from results.document.table import Cell, Table
from results.measures.quality import CLIENT_LIMITED, ERRORS
from results.measures.requests import RequestCount
from results.measures.stored_times import StoredTimes
from results.measures.watched import Watched, watched
from results.recorded.database import WorkloadHistogram
from results.recorded.model import (
    ClientUsage,
    DiskUsage,
    FirstError,
    Latency,
    LinkUsage,
    Result,
    ServerUsage,
    Utilisation,
)
from results.recorded.run import RecordedRun
from results.reference.published import dr550
from results.tables.rates import amounts_table, build_tables, error_table, latency_table, parallel_tables, rate_table
from results.tables.session_fits import session_time_table
from results.tables.usage import limits_table, per_object_table, requests_table, resource_table, server_resources_table
from tests.results.watched_run import sample, ten_seconds, two_phases

MakeResult = Callable[..., Result]
MakeRun = Callable[..., RecordedRun]


def row(table: Table, *labels: str) -> dict[str, Cell]:
    """Return the cells of the only row with these labels, by heading."""
    found = [cells for cells in table.rows if [cell.text for cell in cells[: len(labels)]] == list(labels)]
    assert len(found) == 1, f"{labels}: {len(found)} rows"
    return {column.name: cell for column, cell in zip(table.columns, found[0], strict=True)}


def test_full_run_has_every_table(full_run: list[Result]) -> None:
    assert [table.name for table in build_tables(full_run)] == [
        "cells",
        "archive-objects-per-second",
        "retrieve-objects-per-second",
        "archive-megabytes-per-second",
        "retrieve-megabytes-per-second",
        "parallel-archive",
        "parallel-retrieve",
        "session-time",
        "amounts",
        "latency",
        "resource-usage",
        "limits",
        "per-object",
    ]


def test_amounts_table_and_captions_show_smallest_amounts_per_cell(make_result: MakeResult) -> None:
    """A cell shows the smallest amounts of its repetitions; a caption shows those of the smallest cell."""
    results = [
        make_result(seconds=10.0, sessions=400, objects=10_000),
        make_result(seconds=9.5, sessions=410, objects=10_250, repetition=2, position=2),
        make_result(object_bytes=1 << 20, seconds=0.45, sessions=1, session_half_width=None, objects=25, position=3),
    ]
    table = amounts_table(results)
    cells = row(table, "archive", "8KiB", "25", "1")
    assert [cells[name].number for name in ("measured", "sessions", "objects")] == [9.5, 400, 10_000]
    assert row(table, "archive", "1MiB", "25", "1")["sessions"].number == 1
    said = "Each cell was measured for at least 0.45 s, and has at least 1 session and 25 objects."
    assert said in rate_table(results, "archive", "objects_per_second").caption
    several = [replace(result, clients=2, phase="parallel") for result in results]
    assert said in parallel_tables([*results, *several])[0].caption


def test_build_tables_without_results_is_an_error() -> None:
    with pytest.raises(ResultsError, match="no phase finished"):
        build_tables([])


def test_rate_table_shows_measured_published_and_ratio(make_result: MakeResult) -> None:
    table = rate_table([make_result(objects_per_second=714.28)], "archive", "objects_per_second")
    assert row(table, "8KiB", "measured")["25"] == Cell("714.28", 714.28, grade="A")
    assert row(table, "8KiB", "published")["25"] == Cell("357.14", 357.14)
    assert row(table, "8KiB", "ratio")["25"] == Cell("2.00", 2.0)


def test_megabyte_ratios_use_unit_of_paper_on_both_sides(make_result: MakeResult) -> None:
    """1,000 objects/s of 1 MiB are 1,024 of the paper's MB/s, 1,048.6 MB/s and 1,000 MiB/s."""
    result = make_result(object_bytes=2**20, objects_per_session=500, objects_per_second=1000.0)
    table = rate_table([result], "archive", "megabytes_per_second")
    assert row(table, "1MiB", "measured")["500"].number == pytest.approx(1024.0)
    assert row(table, "1MiB", "published")["500"].number == 36.18
    assert row(table, "1MiB", "ratio")["500"].number == pytest.approx(1024 / 36.18)
    assert "MB/s on both sides is objects/s x KiB / 1000" in table.caption


def test_equal_rates_give_ratio_of_one_in_both_units(make_result: MakeResult) -> None:
    cell = dr550().cells["archive", 2**20, 500]
    same = [make_result("archive", 2**20, 500, cell.objects_per_second)]
    for quantity in ("objects_per_second", "megabytes_per_second"):
        ratio = row(rate_table(same, "archive", quantity), "1MiB", "ratio")["500"].number
        assert ratio == pytest.approx(1, abs=0.001)


def test_contradictory_published_cells_are_marked_in_both_tables(full_run: list[Result]) -> None:
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


def test_illegible_published_cells_note_their_derivation(full_run: list[Result]) -> None:
    cells = row(rate_table(full_run, "archive", "objects_per_second"), "1MiB", "published")
    assert cells["1"].notes == ("not readable in our copy; follows from its MB/s and whole milliseconds per session",)
    assert cells["2"].notes == ("not readable in our copy; follows from its MB/s",)
    assert cells["10"].notes == ()


def test_rate_table_of_subset_shows_only_measured_sizes_and_columns(make_result: MakeResult) -> None:
    results = [
        make_result(objects_per_session=25, objects_per_second=500),
        make_result(object_bytes=2**20, objects_per_session=100, objects_per_second=50, position=2),
    ]
    table = rate_table(results, "archive", "objects_per_second")
    assert [column.name for column in table.columns] == ["object size", "", "25", "100"]
    assert len(table.rows) == 2 * 3
    for label in ("measured", "published", "ratio"):
        assert row(table, "8KiB", label)["100"] == Cell("–")  # without a measured value no published one is shown


def test_size_missing_in_paper_has_no_ratio(make_result: MakeResult) -> None:
    table = rate_table([make_result(object_bytes=2**22)], "archive", "objects_per_second")
    assert row(table, "4MiB", "measured")["25"].number == 500
    assert row(table, "4MiB", "published")["25"] == row(table, "4MiB", "ratio")["25"] == Cell("–")


def test_cells_have_notes_on_their_warnings(make_result: MakeResult) -> None:
    results = [
        make_result(objects_per_session=1, errors=3, objects=0, objects_per_second=0.0),
        make_result(objects_per_session=2, session_half_width=0.3, position=2),
        make_result(objects_per_session=10, limited_by="client", position=3),
    ]
    measured = row(rate_table(results, "archive", "objects_per_second"), "8KiB", "measured")
    assert measured["1"] == Cell("0.00", 0.0, (ERRORS.sentence,), grade="?")
    assert (measured["2"].notes, measured["2"].grade) == ((), "C")
    assert (measured["10"].notes, measured["10"].grade) == ((CLIENT_LIMITED.sentence,), "A")


def test_retrieve_title_shows_cache_state_and_differing_cells_are_noted(make_result: MakeResult) -> None:
    cold = make_result("retrieve", objects_per_session=1)
    unknown = make_result("retrieve", objects_per_session=2, temperature="unknown", position=2)
    assert rate_table([cold], "retrieve", "objects_per_second").title == "Retrieve: objects/s, cold data"
    table = rate_table([cold, unknown], "retrieve", "objects_per_second")
    assert table.title == "Retrieve: objects/s, cold or unknown data"
    measured = row(table, "8KiB", "measured")
    assert (measured["1"].notes, measured["2"].notes) == (("cold data",), ("unknown data",))


def test_caption_names_number_of_repetitions(make_result: MakeResult) -> None:
    results = [make_result(repetition=n, position=n, objects_per_second=n * 100.0) for n in (1, 2, 3)]
    table = rate_table(results, "archive", "objects_per_second")
    assert "median of 3 repetitions" in table.caption
    assert row(table, "8KiB", "measured")["25"].number == 200


def test_parallel_clients_are_compared_with_one_client_of_same_phase(full_run: list[Result]) -> None:
    archive, retrieve = parallel_tables(full_run)
    rates = row(archive, "1MiB", "objects/s")
    gains = row(archive, "1MiB", "× one client")
    assert [gains[clients].text for clients in "124"] == ["1.00", "1.68", "1.58"]
    assert gains["4"].number == pytest.approx((rates["4"].number or 0) / (rates["1"].number or 1))
    assert [row(archive, "1MiB", "× one client, published")[clients].text for clients in "124"] == ["–", "1.26", "1.50"]
    megabytes = row(archive, "1MiB", "MB/s")["2"].number
    assert megabytes == pytest.approx((rates["2"].number or 0) * 2**20 / 1e6)
    assert not [cells for cells in retrieve.rows if cells[1].text == "× one client, published"]
    assert "Published" not in retrieve.caption


def test_session_time_table_compares_with_paper(full_run: list[Result]) -> None:
    """The synthetic run has the rates of the paper times a constant factor, so its session times have it, too."""
    table = session_time_table(full_run)
    ours, theirs = (row(table, "archive", "1MiB", label) for label in ("measured", "published"))
    factor = (theirs["set-up a"].number or 0) / (ours["set-up a"].number or 1)
    assert factor == pytest.approx(21.6)
    assert theirs["marginal b"].number == pytest.approx((ours["marginal b"].number or 0) * factor)
    assert ours["half ceiling at a/b"].text == theirs["half ceiling at a/b"].text == "5.9"
    assert theirs["worst residual"].text == "1.2"


def test_session_time_table_notes_values_it_cannot_compute(make_result: MakeResult) -> None:
    one = row(session_time_table([make_result()]), "archive", "8KiB", "measured")
    assert one["set-up a"].text == "–"
    assert "two different objects per session" in one["set-up a"].notes[0]
    two = [make_result(objects_per_session=n, objects_per_second=100.0 * n**0.5, position=n) for n in (1, 25)]
    worst = row(session_time_table(two), "archive", "8KiB", "measured")["worst residual"]
    assert (worst.text, len(worst.notes)) == ("–", 1)


def test_set_up_clamped_to_zero_is_noted(make_result: MakeResult) -> None:
    rates = {1: 500.0, 25: 490.0, 100: 450.0}
    results = [make_result(objects_per_session=n, objects_per_second=rate) for n, rate in rates.items()]
    setup = row(session_time_table(results), "archive", "8KiB", "measured")["set-up a"]
    assert (setup.number, len(setup.notes)) == (0.0, 1)


def test_a_line_more_than_20_percent_off_is_not_reported(full_run: list[Result]) -> None:
    """In the paper's retrieve of 8 KiB, a session of one object took 77 ms and a session of two 40 ms."""
    table = session_time_table(full_run)
    published = row(table, "retrieve", "8KiB", "published")
    assert published["worst residual"].text == "43.1"
    assert [published[name].text for name in ("set-up a", "marginal b", "half ceiling at a/b", "ceiling 1/b")] == [
        "–"
    ] * 4
    assert published["set-up a"].notes == ("the law does not apply here: a session time is more than 20% off the line",)


def test_session_time_table_has_intervals_if_errors_are_known(make_result: MakeResult) -> None:
    results = [
        make_result(
            objects_per_session=n,
            objects_per_second=n / (40 + 2 * n) * 1000,
            position=n,
            session_half_width=0.02,
            **more,
        )
        for n, more in ((1, {}), (10, {"errors": 1}), (100, {"limited_by": "client"}))
    ]
    table = session_time_table(results)
    measured, low, high = (row(table, "archive", "8KiB", label) for label in ("measured", "95% from", "95% to"))
    for name in ("set-up a", "marginal b", "half ceiling at a/b", "ceiling 1/b"):
        assert (low[name].number or 0) < (measured[name].number or 0) < (high[name].number or 0), name
    assert measured["lack of fit"].number is not None
    assert [note.partition(":")[2].partition(":")[0].strip() for note in measured[""].notes] == [
        "some operations failed (see the table of errors); failed attempts are in no rate", "limited by the client",
    ]  # fmt: skip
    without = session_time_table([*results[:2], replace(results[2], session_half_width=None)])
    assert {cells[2].text for cells in without.rows} == {"measured", "published"}


def repetitions_of(make_result: MakeResult, *times_ms: list[float]) -> tuple[list[Result], StoredTimes]:
    """Return a cell of several repetitions with these service times, and their histograms."""
    results, histograms = [], {}
    for number, milliseconds in enumerate(times_ms, 1):
        histogram = Histogram()
        histogram.add(part_of(np.array([round(each * 1e6) for each in milliseconds], dtype=np.int64)))
        part, latency = histogram.part(), histogram.latency()
        result = make_result(repetition=number, position=number, object_service_ms=latency, session_open_ms=None)
        indices, counts = part.indices.astype("<i8").tobytes(), part.counts.astype("<i8").tobytes()
        stored = WorkloadHistogram(number, result.workload, indices, counts)
        histograms["object_service", number, result.workload] = stored
        results.append(result)
    return results, StoredTimes(histograms)


def test_percentiles_of_repetitions_are_those_of_everything_at_once(make_result: MakeResult) -> None:
    """Two repetitions are fast. In the third, 10% of the objects take 100 ms, which a median of three would hide."""
    quick, slow = [1.0] * 95 + [2.0] * 5, [1.0] * 90 + [100.0] * 10
    results, times = repetitions_of(make_result, quick, slow, quick)
    table = latency_table(results, times)
    cells = row(table, "archive", "8KiB", "25", "1", "object")
    assert [cells[name].number for name in ("count", "p50", "p90", "p99", "p99.9", "max")] == pytest.approx(
        [300, 1.0, 1.0, 100.0, 100.0, 100.0], rel=0.001
    )
    (alone,) = repetitions_of(make_result, [*quick, *slow, *quick])[0]
    assert alone.object_service_ms is not None
    assert cells["p99"].number == alone.object_service_ms.p99
    assert {cells[4].text for cells in table.rows} == {"object", "session close"}


def test_repetitions_without_histograms_have_no_percentiles(make_result: MakeResult) -> None:
    results, _ = repetitions_of(make_result, [1.0, 2.0], [3.0, 4.0])
    cells = row(latency_table(results), "archive", "8KiB", "25", "1", "object")
    assert [cells[name].text for name in ("count", "p50", "p99", "max")] == ["4", "–", "–", "4.000"]


def test_latency_table_shows_transaction_send_and_commit(make_result: MakeResult) -> None:
    send, commit = (Latency(10, *[ms] * 7) for ms in (30.0, 12.0))
    table = latency_table([make_result(transaction_send_ms=send, transaction_commit_ms=commit)])
    assert row(table, "archive", "8KiB", "25", "1", "transaction send")["p50"].number == 30
    assert row(table, "archive", "8KiB", "25", "1", "transaction commit")["p50"].number == 12


def test_attempt_times_are_shown_if_objects_were_retried(make_result: MakeResult) -> None:
    table = latency_table([make_result(attempt_ms=Latency(3, *[0.5] * 7))])
    cells = row(table, "archive", "8KiB", "25", "1", "attempt after retries")
    assert (cells["count"].number, cells["p50"].number) == (3, 0.5)


def test_resource_usage_is_weighted_by_measured_time(make_result: MakeResult) -> None:
    busy = ServerUsage(100.0, 50.0, 100.0, None, 0, 3_000_000, 8.0, busiest_thread_percent=80.0)
    idle = ServerUsage(10.0, 5.0, 10.0, None, None, 1_000_000, 2.0)
    results = [
        make_result(objects_per_session=25, seconds=1.0, server=busy),
        make_result(objects_per_session=100, seconds=9.0, server=idle, position=2, limited_by="client"),
        make_result(objects_per_session=250, seconds=90.0, server=None, position=3, limited_by=None),
        make_result(objects_per_session=500, seconds=90.0, server=None, position=4),
    ]
    cells = row(resource_table(results), "archive", "8KiB", "1")
    assert cells["server CPU"].number == pytest.approx((100 + 9 * 10) / 10)
    assert cells["busiest thread"].number == 80
    assert (cells["disk read"].number, cells["disk written"].number) == (0, 4)
    assert cells["network"].number == pytest.approx((8 + 9 * 2) / 10)


def test_columns_without_measurements_are_omitted(make_result: MakeResult) -> None:
    unseen = make_result(server=None)
    table = resource_table([unseen])
    assert [column.name for column in table.columns] == ["operation", "object size", "clients", "client CPU"]
    cpu = ServerUsage(50.0, None, None, None, None, None, None)
    table = resource_table([unseen, make_result("retrieve", server=cpu, position=2)])
    assert [column.name for column in table.columns[3:]] == ["server CPU", "client CPU"]
    assert row(table, "archive", "8KiB", "1")["server CPU"].text == "–"
    nothing = make_result(server=None, client=ClientUsage(0.0, 0.0, None, 0.0))
    assert not resource_table([nothing]).rows
    assert not per_object_table([unseen]).rows


def test_resource_table_shows_busiest_disk_and_sum_of_object_disks(make_result: MakeResult) -> None:
    def disk(name: str, role: str, busy: float | None) -> DiskUsage:
        return DiskUsage(name, role, busy, 0.0, 0.0, None, None, None)

    disks = (disk("sda", "object", 31.0), disk("sdb", "object", 30.0), disk("sdc", "", 99.0))
    server = ServerUsage(None, None, None, 31.0, None, None, None, disks=disks)
    cells = row(resource_table([make_result(server=server)]), "archive", "8KiB", "1")
    assert (cells["disk busy"].number, cells["all disks busy"].number) == (31, 61)  # sdc has no role
    alone = replace(server, disks=disks[:1])
    assert "all disks busy" not in row(resource_table([make_result(server=alone)]), "archive", "8KiB", "1")


def test_limits_table_shows_limit_and_headroom_of_next_resources(make_result: MakeResult) -> None:
    used = (
        Utilisation("server cpu", "busiest thread", 0.95, True),
        Utilisation("object disk vda", "busy time, queue 0.5", 0.31, False),
        Utilisation("network eth0", "share of its speed", 0.053, True),
        Utilisation("client", "busiest worker", 0.004, True),
        Utilisation("disk vdb", "busy time, queue 0.0", 0.0, False),
    )
    table = limits_table([make_result(utilisations=used, limited_by="server cpu", confidence="high")])
    cells = row(table, "archive", "8KiB", "1")
    assert cells["limited by"].text == "server cpu"
    assert cells["nearest to full"] == Cell("server cpu: busiest thread")
    assert cells["share"] == Cell("95", 95.0)
    assert cells["the next: the load each bears"].text == (
        "object disk vda busy 31%: ≥3.2×; network eth0 5%: 19×; client 0%: over 100×"
    )
    assert cells["confidence"] == Cell("high")
    assert "processor first; Ethernet 52.92 of 100 MB/s = 53%" in table.caption


def test_busy_time_of_disk_is_noted_as_no_proof_of_saturation(make_result: MakeResult) -> None:
    used = (
        Utilisation("object disk vda", "busy time, queue 0.9", 0.98, False),
        Utilisation("server cpu", "all cores", 0.2, True),
    )
    cells = row(limits_table([make_result(utilisations=used, limited_by=None)]), "archive", "8KiB", "1")
    assert cells["limited by"].text == "nothing: latency, add clients"
    assert cells["nearest to full"].text == "object disk vda: busy time"
    assert "does not prove saturation" in cells["nearest to full"].notes[0]


def test_differing_limits_are_counted_and_shares_weighted_by_time(make_result: MakeResult) -> None:
    def cell(position: int, seconds: float, share: float, by: str, **more: object) -> Result:
        used = (Utilisation("server cpu", by, share, True), Utilisation("client", "busiest worker", 0.5, True))
        return make_result(objects_per_session=position, position=position, seconds=seconds, utilisations=used, **more)

    table = limits_table(
        [
            cell(1, 1.0, 0.2, "all cores", limited_by=None, confidence="low: 7% was stolen"),
            cell(2, 3.0, 1.0, "busiest thread", limited_by="server cpu", confidence="medium: client and server share"),
            cell(10, 4.0, 1.0, "busiest thread", limited_by="server cpu", confidence="low: 7% was stolen"),
        ]
    )
    cells = row(table, "archive", "8KiB", "1")
    assert cells["limited by"].text == "server cpu 2/3; nothing: latency, add clients 1/3"
    assert cells["nearest to full"].text == "server cpu: busiest thread"
    assert cells["share"].number == pytest.approx((1 * 20 + 7 * 100) / 8)
    assert cells["confidence"] == Cell("low 2/3", None, ("7% was stolen",))


def test_limit_is_unknown_if_server_was_not_watched(make_result: MakeResult) -> None:
    client = (Utilisation("client", "busiest worker", 0.5, True),)
    unseen = make_result(server=None, limited_by=None, utilisations=client, confidence=None)
    cells = row(limits_table([unseen]), "archive", "8KiB", "1")
    assert cells["limited by"].text == "unknown: the server was not watched"
    assert cells["nearest to full"].text == "client: busiest worker"
    assert cells["the next: the load each bears"].text == cells["confidence"].text == "–"
    of_old = limits_table([make_result(utilisations=(), confidence=None)])
    assert row(of_old, "archive", "8KiB", "1")["share"].text == "–"


def test_costs_per_object_are_weighted_by_objects_or_bytes(make_result: MakeResult) -> None:
    def server(**values: Any) -> ServerUsage:
        return replace(ServerUsage(None, None, None, None, None, None, None), **values)

    few = server(
        cpu_milliseconds_per_object=3.0, write_amplification=4.0, network_bytes_per_byte=1.5,
        store_written_bytes={"catalogue": 100.0, "segments": 2000.0}, store_syncs={"catalogue": 10.0, "segments": 10.0},
    )  # fmt: skip
    many = server(
        cpu_milliseconds_per_object=1.0, write_amplification=2.0, network_bytes_per_byte=1.1,
        store_written_bytes={"catalogue": 200.0, "segments": 3100.0}, store_syncs={"catalogue": 10.0, "segments": 0.0},
    )  # fmt: skip
    results = [
        make_result(objects_per_session=1, objects=10, bytes=1000, server=few),
        make_result(objects_per_session=25, objects=30, bytes=4000, server=many, position=2),
        make_result(
            "retrieve",
            objects=30,
            bytes=3000,
            server=server(cache_share=0.25, store_syncs={"catalogue": 1}),
            position=3,
        ),
    ]
    table = per_object_table(results)
    archive = row(table, "archive", "8KiB", "1")
    assert archive["server CPU"].number == pytest.approx((10 * 3 + 30 * 1) / 40)
    assert archive["device written"].number == pytest.approx((1000 * 4 + 4000 * 2) / 5000)
    assert archive["network"].number == pytest.approx((1000 * 1.5 + 4000 * 1.1) / 5000)
    assert archive["catalogue"].number == pytest.approx(300 / 40)
    assert archive["segments"].number == pytest.approx(5100 / 5000)
    assert archive["syncs"].number == pytest.approx(30 / 40)
    retrieve = row(table, "retrieve", "8KiB", "1")
    assert (retrieve["from cache"].number, retrieve["syncs"].text) == (0.25, "–")


@pytest.mark.parametrize(("interface", "is_noted"), [("lo", True), ("eth0", False)])
def test_loopback_network_bytes_have_note_about_other_traffic(
    make_result: MakeResult, interface: str, is_noted: bool
) -> None:
    link = LinkUsage(interface, 0.0, 5.0, None)
    server = replace(
        ServerUsage(None, None, None, None, None, None, None),
        network_bytes_per_byte=1.5,
        network_megabytes_per_second=5.0,
        links=(link,),
    )
    results = [make_result(server=server)]
    for table in (per_object_table(results), resource_table(results)):
        (note,) = table.notes or ("",)
        assert ("other programs of this machine" in note) is is_noted
        assert row(table, "archive", "8KiB", "1")["network"].notes == ((note,) if is_noted else ())
    assert "including other programs" in per_object_table(results).caption


@pytest.fixture
def server_resources(make_run: MakeRun, make_result: MakeResult) -> Table:
    phases = two_phases(make_result(), make_result("retrieve", position=2))
    memory = [sample("local", second, memory_used_bytes=5e6 * second) for second in range(11)]
    merged = {each.monotonic_ns: each for each in memory}
    samples = [
        replace(each, reading={**each.reading, **merged[each.monotonic_ns].reading}) if each.source == "local" else each
        for each in ten_seconds()
    ]
    return server_resources_table(watched(make_run(phases, samples)))


@pytest.mark.parametrize(
    ("position", "source", "quantity", "item", "unit", "mean"),
    [
        ("1", "local", "cpu_user_seconds", "0", "%", 80),
        ("2", "local", "cpu_user_seconds", "0", "%", 40),
        ("1", "local", "disk_busy_seconds", "vda", "%", 50),
        ("1", "local", "disk_request_seconds", "vda", "requests in the queue", 1.5),
        ("1", "local", "network_receive_bytes", "eth0", "MB/s", 4),
        ("2", "local", "network_speed_bytes_per_second", "eth0", "MB/s", 10),
        ("1", "local", "memory_used_bytes", "", "MB", 12.5),
        ("1", "pid:7", "process_cpu_limit_cores", "", "cores", 1),
        ("2", "pid:7", "thread_cpu_seconds", "7/7", "%", 30),
        ("2", "minio", "requests", "GetObject", "per second", 250),
    ],
)
def test_resource_table_has_every_source_and_quantity_per_phase(
    server_resources: Table, position: str, source: str, quantity: str, item: str, unit: str, mean: float
) -> None:
    (found,) = [
        cells
        for cells in server_resources.rows
        if [cell.text for cell in cells[:1] + cells[2:5]] == [position, source, quantity, item]
    ]
    assert found[5].text == unit
    assert found[6].number == pytest.approx(mean)


def test_resource_table_has_only_busiest_thread_and_changed_counters(server_resources: Table) -> None:
    assert {cells[4].text for cells in server_resources.rows if cells[3].text.startswith("thread")} == {"7/7"}
    asked = {(cells[0].text, cells[4].text) for cells in server_resources.rows if cells[3].text == "requests"}
    assert asked == {("1", "PutObject"), ("2", "GetObject")}


def test_mean_p95_and_maximum_are_distinguished(make_run: MakeRun, make_result: MakeResult) -> None:
    (phase, _) = two_phases(make_result(), make_result())
    used = [0, 0, 10, 30, 60, 60]
    samples = [sample("local", second, disk_write_bytes={"vda": 1e6 * used[second]}) for second in range(6)]
    (cells,) = server_resources_table(watched(make_run([phase], samples))).rows
    assert [round(cell.number or 0, 6) for cell in cells[6:]] == [20, 30, 30]


def test_requests_table_shows_server_and_client_counts() -> None:
    table = requests_table(
        Watched(
            requests=(
                RequestCount("PutObject", 1000, 1000, 0.05, 0.999, 0.9),
                RequestCount("GetObject", 1003, 1000, 0.05, 1.0, 1.0),
                RequestCount("HeadObject", 1, None),
            )
        )
    )
    put, get, head = (row(table, name) for name in ("PutObject", "GetObject", "HeadObject"))
    assert [put[name].text for name in ("counted", "sent", "difference", "verdict")] == ["1,000", "1,000", "0", "agree"]
    assert [put[name].text for name in ("first byte within", "server", "client")] == ["50", "99.90", "90.00"]
    assert [get[name].text for name in ("difference", "verdict")] == ["3", "differ"]
    assert [head[name].text for name in ("sent", "difference", "verdict", "server")] == ["–", "–", "–", "–"]


def test_server_tables_are_built_from_watched_samples(make_run: MakeRun, make_result: MakeResult) -> None:
    recorded = make_run(two_phases(make_result(), make_result("retrieve", position=2)), ten_seconds())
    names = [table.name for table in build_tables(recorded.results, watched(recorded))]
    assert names[-5:] == ["resource-usage", "limits", "per-object", "server-resources", "requests"]


def test_error_table_shows_first_message_and_count_per_kind(make_result: MakeResult) -> None:
    denied = FirstError("archive", "403 AccessDenied", 3, "<html><style>b{}</style><b>first</b>\n", "id1", "o/1", 5)
    results = [
        make_result(position=2, first_errors=(replace(denied, count=4, message="second"),)),
        make_result(first_errors=(denied, replace(denied, reason="timeout", count=1, request_id="", retried=0))),
    ]
    table = error_table(results)
    assert [[cell.text for cell in cells[:6]] for cells in table.rows] == [
        ["archive", "403 AccessDenied", "7", "10", "first", "id1"],
        ["archive", "timeout", "1", "0", "first", "–"],
    ]
    assert not error_table([make_result()]).rows
