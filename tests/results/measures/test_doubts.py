"""Each warning appears exactly when it should, with its amount and a remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from results.measures.doubts import doubts
from results.recorded.database import FILE_NAME, PhaseRecord, PhaseTimes, RunDatabase, RunRecord
from results.recorded.model import ClientUsage, FirstError, Latency, Result, ServerUsage, Utilisation
from results.recorded.resources import SourceProblem
from results.recorded.run import RecordedRun, read_run
from tests.results.watched_run import PLATFORM, phase_record, sample

MakeResult = Callable[..., Result]
MakeDatabase = Callable[..., RunDatabase]
MakeRun = Callable[..., RecordedRun]
Doubts = Callable[..., list[str]]
RECORD = RunRecord(
    id="run-1", started_at=1.0, command_line=[], scenario="s", scenario_title="S", scenario_json="{}",
    sweep_order="shuffled", order_seed=0, repetitions=1, phases_planned=2, backend="s3",
    platform=PLATFORM, settings={}, host={}, workers=1, worker_cores=[], shared_host=False,
    location={}, content_seed=1, content_kind="k", interval_ns=1,
)  # fmt: skip


@pytest.fixture
def doubts_of(tmp_path: Path) -> Iterator[Doubts]:
    """Return a function that makes a run with these results and drift checks, and returns its warnings."""
    open_databases: list[RunDatabase] = []

    def of(
        *results: Result,
        drift_checks: tuple[Result, ...] = (),
        lock: str | None = "verified",
        ended: bool = True,
        **record: Any,
    ) -> list[str]:
        planned = {"phases_planned": len(results) + len(drift_checks), **record}
        database = RunDatabase.create(tmp_path / str(len(open_databases)) / FILE_NAME, replace(RECORD, **planned))
        open_databases.append(database)
        for position, result in enumerate([*results, *drift_checks], 1):
            database.add_phase(
                PhaseRecord(
                    PhaseTimes(position, "label", 1.0, 1.0, 0, 1, 0, 1, 0),
                    result.phase, 1, position > len(results), [result], [], [], [], [],
                )
            )  # fmt: skip
        if lock is not None:
            database.set_lock_verified(lock)
        if ended:
            database.finish(2.0, "none")
        return doubts(read_run(database.path))

    yield of
    for database in open_databases:
        database.close()


def test_a_good_run_leaves_no_doubt(doubts_of: Doubts, make_result: MakeResult) -> None:
    assert doubts_of(make_result(), make_result("retrieve")) == []
    assert doubts_of(make_result(), lock=None) == []  # without locks there is nothing to verify


def test_run_under_way_is_not_reported_as_ended_early(doubts_of: Doubts, make_result: MakeResult) -> None:
    (doubt,) = doubts_of(make_result(), ended=False, phases_planned=3)
    assert doubt == "the run is under way: 1 of 3 phases finished"


@pytest.mark.parametrize(
    ("of_the_run", "doubt"),
    [
        ({"lock": "no retain-until date"}, "the lock did not hold: no retain-until date"),
        ({"phases_planned": 3}, "the run ended early: 1 of 3 phases finished"),
        (
            {"platform": replace(PLATFORM, server_clock_offset_seconds=2.1)},
            "the server's clock differs by +2.1 s; retention dates ",
        ),
        ({"platform": replace(PLATFORM, server_clock_offset_seconds=-60.0)}, "the server's clock differs by -60.0 s"),
        ({"platform": replace(PLATFORM, server_clock_offset_seconds=2.0)}, None),
        ({"platform": replace(PLATFORM, server_clock_offset_seconds=None)}, None),
        (
            {"platform": replace(PLATFORM, details={"retention_protected": False})},
            "the server is not retention-protected",
        ),
        ({"platform": replace(PLATFORM, details={"retention_protected": True})}, None),
    ],
)
def test_run_facts_cause_expected_warning(
    doubts_of: Doubts, make_result: MakeResult, of_the_run: dict[str, Any], doubt: str | None
) -> None:
    found = doubts_of(make_result(), **of_the_run)
    assert len(found) == (doubt is not None)
    assert all(sentence.startswith(str(doubt)) for sentence in found)


FULL = FirstError("archive", "507 StorageFull", 3, "<h1>no</h1>\nroom", "", "")
FAILING = {"limited_by": "failures", "utilisations": (Utilisation("failures", "507 StorageFull", 0.5, True),)}


@pytest.mark.parametrize(
    ("operation", "of_the_result", "doubt"),
    [
        ("archive", {"errors": 3}, "3 operations failed on minio in 1 of 2 cells; no rate includes them"),
        (
            "archive",
            {"errors": 3, "first_errors": (FULL,)},
            "3 operations failed on minio in 1 of 2 cells (the first: archive: 507 StorageFull: no room); no rate",
        ),
        (
            "archive",
            {"retries": 8, "first_errors": (replace(FULL, count=0, retried=8),)},
            "8 attempts failed on minio and were sent again, in 1 of 2 cells (the first: archive: 507 StorageFull: no "
            "room): their waiting time is in these rates; ",
        ),
        (
            "archive",
            {**FAILING, "session_half_width": 0.3, "ended_early": True},
            "1 of 2 cells were limited by failures (archive 8KiB x 25 first: 50% of its attempts or time, mostly 507 "
            "StorageFull): they do not show what minio can do; ",
        ),
        (
            "archive",
            {"limited_by": "client"},
            "1 of 2 cells were limited by the client (archive 8KiB x 25 first: busiest worker)",
        ),
        ("archive", {"limited_by": "host cpu"}, "1 of 2 cells had every core of this machine busy (archive 8KiB x 25"),
        ("archive", {"limited_by": "server disk"}, None),
        ("archive", {"limited_by": None}, None),
        (
            "archive",
            {"session_half_width": 0.3},
            "1 of 2 rates are not known within 15% (archive 8KiB x 25 with 1 client worst, ±35%); raise ",
        ),
        (
            "archive",
            {"session_half_width": None},
            "1 of 2 rates are not known within 15% (archive 8KiB x 25 with 1 client worst, no interval); ",
        ),
        (
            "archive",
            {"unsteady": "it slowed by half"},
            "1 of 2 rates are not known within 15% (archive 8KiB x 25 with 1 client worst, ±4%; it slowed by half",
        ),
        ("archive", {"unsteady": None}, None),
        ("archive", {"steadiness": "steady"}, None),
        (
            "archive",
            {"connections_per_session": 25.0, "requests_per_connection": 1.0, "reconnect_ms": Latency(24, *[0.5] * 7)},
            "the platform closed the connection after every request: the times of objects include reconnecting, in 1 "
            "of 2 cells (archive 8KiB x 25 first, 25 connections per session, 0.5 ms for another one); "
            "configure the server",
        ),
        ("archive", {"connections_per_session": 1.0}, None),
        ("retrieve", {"temperature": "warm"}, "not known to be cold (warm): 1 of 1 retrieve cells"),
        ("retrieve", {"temperature": "unknown"}, "not known to be cold (unknown): 1 of 1 retrieve cells"),
        ("retrieve", {"temperature": "cold"}, None),
        ("archive", {"temperature": None}, None),
    ],
)
def test_cell_facts_cause_expected_warning(
    doubts_of: Doubts, make_result: MakeResult, operation: str, of_the_result: dict[str, Any], doubt: str | None
) -> None:
    found = doubts_of(make_result(operation, **of_the_result), make_result("archive", 1 << 20))
    assert len(found) == (doubt is not None)
    assert all(sentence.startswith(str(doubt)) for sentence in found)


def test_warning_shows_requests_per_connection(doubts_of: Doubts, make_result: MakeResult) -> None:
    ends_at = [make_result(object_bytes=size, requests_per_connection=n) for size, n in ((8192, 100.0), (1, 99.5))]
    (same,) = doubts_of(ends_at[0])
    assert "after every 100 requests: the times of objects include reconnecting" in same
    (both,) = doubts_of(*ends_at)
    assert "after every 99.5 to 100 requests: the times of objects include reconnecting, in 2 of 2 cells" in both


def test_client_limit_warning_names_resource_and_remedy(doubts_of: Doubts, make_result: MakeResult) -> None:
    client = make_result().client
    limit = (
        Utilisation("server cpu", "busiest thread", 0.4, True),
        Utilisation("client", "no local port free", 1, True),
    )
    (found,) = doubts_of(
        make_result(limited_by="client", utilisations=limit, client=replace(client, sessions_without_port=3))
    )
    assert "were limited by the client (archive 8KiB x 25 first: no local port free)" in found
    assert "net.ipv4.tcp_tw_reuse=1" in found
    (found,) = doubts_of(
        make_result(limited_by="client", utilisations=(Utilisation("client", "its network eth0", 0.95, True),))
    )
    assert "(archive 8KiB x 25 first: its network eth0)" in found
    assert "a faster link or more memory" in found


def test_warnings_count_cells_and_name_the_first(doubts_of: Doubts, make_result: MakeResult) -> None:
    found = doubts_of(
        make_result("archive", 1 << 20, 100, errors=2, limited_by="client"),
        make_result("retrieve", errors=5, limited_by="client", temperature="warm"),
        make_result("retrieve", 65536, temperature="unknown"),
    )
    assert found[0].startswith("7 operations failed on minio in 2 of ")
    assert found[1].startswith("2 of 3 cells were limited by the client (archive 1MiB x 100 first: busiest worker)")
    assert found[2].startswith("not known to be cold (unknown and warm): 2 of ")
    assert len(found) == 3


@pytest.mark.parametrize(
    ("again_per_second", "drift"),
    [(500, None), (549, None), (451, None), (551, "+10%"), (440, "-12%"), (1000, "+100%")],
)
def test_drift_of_repeated_first_cell_above_ten_percent_causes_warning(
    doubts_of: Doubts, make_result: MakeResult, again_per_second: float, drift: str | None
) -> None:
    found = doubts_of(
        make_result(objects_per_second=500.0),
        make_result(object_bytes=65536, objects_per_second=1.0),
        drift_checks=(make_result(objects_per_second=float(again_per_second)),),
    )
    assert len(found) == (drift is not None)
    assert all(f"the first cell (archive 8KiB x 25) ran {drift} when measured again last" in doubt for doubt in found)


def test_drift_check_is_compared_with_same_cell_sweep_and_repetition(
    doubts_of: Doubts, make_result: MakeResult
) -> None:
    others = (
        make_result(objects_per_second=1.0, phase="archive-parallel"),
        make_result(objects_per_second=400.0, clients=2),
        make_result(objects_per_second=1.0, repetition=2),
        make_result(objects_per_second=1.0, objects_per_session=1),
        make_result("retrieve", objects_per_second=1.0),
    )
    assert doubts_of(*others, make_result(), drift_checks=(make_result(),)) == []
    assert doubts_of(*others, drift_checks=(make_result(),)) == []  # there is no cell to compare with


def test_first_cell_without_success_has_no_drift_warning(doubts_of: Doubts, make_result: MakeResult) -> None:
    found = doubts_of(make_result(objects_per_second=0.0, errors=9), drift_checks=(make_result(),))
    assert [sentence.partition(" in ")[0] for sentence in found] == ["9 operations failed on minio"]


def test_client_limit_of_drift_check_causes_no_warning(doubts_of: Doubts, make_result: MakeResult) -> None:
    assert doubts_of(make_result(), drift_checks=(make_result(limited_by="client"),)) == []


@pytest.mark.parametrize(("written", "doubted"), [(899_999, True), (900_000, False), (None, False)])
def test_too_few_device_writes_warn_of_acknowledgement_from_memory(
    doubts_of: Doubts, make_result: MakeResult, written: int | None, doubted: bool
) -> None:
    server = ServerUsage(None, None, None, None, 0, written, None)
    found = doubts_of(make_result(bytes=1_000_000, server=server), make_result("retrieve", server=server))
    assert [doubt.partition(":")[0] for doubt in found] == (["acknowledged from memory"] if doubted else [])
    if doubted:
        assert "of 1.0 MB archived in objects of 8KiB, the device had written 900.0 kB" in found[0]


@pytest.mark.parametrize(("written", "doubted"), [(539_000, True), (540_000, False)])
def test_write_warning_of_short_cell_allows_for_sample_overlap(
    doubts_of: Doubts, make_result: MakeResult, written: int, doubted: bool
) -> None:
    server = ServerUsage(None, None, None, None, 0, written, None, overlap=0.6)
    assert bool(doubts_of(make_result(bytes=1_000_000, server=server))) is doubted


def test_warnings_are_sorted_by_severity(doubts_of: Doubts, make_result: MakeResult) -> None:
    found = doubts_of(
        make_result("retrieve", errors=1, limited_by="client", unsteady="it was not", temperature="warm"),
        lock="none",
        phases_planned=9,
        platform=replace(PLATFORM, server_clock_offset_seconds=9.0),
        drift_checks=(make_result("retrieve", objects_per_second=9.0),),
    )
    words = ("lock", "ended early", "failed", "client", "it was not", "cold", "clock", "measured again last")
    assert len(found) == len(words)
    for sentence, word in zip(found, words, strict=True):
        assert word in sentence


def test_transactions_smaller_than_requested_cause_warning(doubts_of: Doubts, make_result: MakeResult) -> None:
    def cell(committed: int, application: str = "") -> Result:  # 40 sessions of 25 objects
        commits = Latency(committed, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
        return make_result(objects_per_transaction=10, transaction_commit_ms=commits, application=application)

    assert doubts_of(cell(120)) == []
    (told,) = doubts_of(cell(200))
    assert "1 of 1 cells were committed in smaller transactions than requested" in told
    assert "5 objects each, not 10" in told
    (told,) = doubts_of(cell(200, "mail"))
    assert "1 of 1 workloads were committed in smaller transactions" in told


@pytest.mark.parametrize(
    ("with_two", "limited_by", "doubt"),
    [
        (
            449.0,
            "server cpu",
            "throughput falls as clients are added (archive 8KiB x 25: 500 objects/s with 1 client, 449",
        ),
        (524.0, None, "more clients do not raise the rate, and no watched resource is near saturation (archive 8KiB"),
        (524.0, "server cpu", None),
        (526.0, None, None),
    ],
)
def test_added_clients_without_gain_cause_warning(
    doubts_of: Doubts, make_result: MakeResult, with_two: float, limited_by: str | None, doubt: str | None
) -> None:
    found = doubts_of(
        make_result(objects_per_second=500.0),
        make_result(objects_per_second=with_two, clients=2, limited_by=limited_by, position=2),
    )
    assert len(found) == (doubt is not None)
    assert all(sentence.startswith(str(doubt)) for sentence in found)


def test_unreadable_source_causes_warning(make_database: MakeDatabase, make_result: MakeResult) -> None:
    database = make_database([phase_record(1, make_result(), 0, 2)], phases_planned=1, settings={})
    database.add_source_problem(SourceProblem("minio", 1_800_000_000.0, "minio: 403; give a token"))
    (doubt,) = doubts(read_run(database.path))
    assert doubt.startswith("minio: 403; give a token (first at 2027-01-15T08:00:00Z)")


def test_rate_is_compared_with_best_rate_of_fewer_clients(doubts_of: Doubts, make_result: MakeResult) -> None:
    cells = [
        make_result(phase="parallel", clients=clients, objects_per_second=rate, position=clients)
        for clients, rate in ((1, 100), (2, 200), (4, 150))
    ]
    (found,) = doubts_of(*cells)
    assert "200 objects/s with 2 clients, 150 with 4" in found


def test_configured_disk_missing_from_samples_causes_warning(make_run: MakeRun, make_result: MakeResult) -> None:
    samples = [sample("local", second, disk_busy_seconds={"vda": 0.0}) for second in (0, 2)]
    settings = {"disk_roles": {"vda": "object"}, "disk_speeds": {"sdz": 1e8}}
    found = doubts(make_run([phase_record(1, make_result(), 0, 2)], samples, phases_planned=1, settings=settings))
    assert [each.partition(";")[0] for each in found] == [
        "no source showed disk sdz, at least at the end (vda was seen)"
    ]


def test_different_server_request_count_causes_warning(make_run: MakeRun, make_result: MakeResult) -> None:
    samples = [
        sample("minio", 0, requests={"PutObject": 5}, disk_busy_seconds={"vda": 0.0}),
        sample("minio", 2, requests={"PutObject": 5 + make_result().objects + 3}, disk_busy_seconds={"vda": 0.0}),
        sample("minio", 6, requests={"PutObject": 5 + make_result().objects + 3}, disk_busy_seconds={"vda": 0.0}),
    ]
    found = doubts(make_run([phase_record(1, make_result(), 0, 2)], samples, phases_planned=1))
    assert [each.partition(" that")[0] for each in found] == [
        "the server counted 1,003 PutObject, 3 more than the 1,000",
        "the server counted 0 HeadBucket, 40 fewer than the 40",  # one per session
    ]


def test_write_warning_is_judged_per_object_size(doubts_of: Doubts, make_result: MakeResult) -> None:
    small = make_result(bytes=33_000_000, server=ServerUsage(None, None, None, None, 0, 470_000_000, None))
    large = make_result("archive", 1 << 20, bytes=419_000_000, server=ServerUsage(None, None, None, None, 0, 0, None))
    (found,) = doubts_of(small, replace(large, position=2))
    assert "of 419.0 MB archived in objects of 1MiB, the device had written 0 B" in found


@pytest.mark.parametrize(("overlap", "doubted"), [(0.5, True), (0.49, False)])
def test_write_warning_needs_half_overlap_of_samples(
    doubts_of: Doubts, make_result: MakeResult, overlap: float, doubted: bool
) -> None:
    server = ServerUsage(None, None, None, None, 0, 1000, None, overlap=overlap)
    assert bool(doubts_of(make_result(bytes=1_000_000, server=server))) == doubted


@pytest.mark.parametrize(
    ("repetitions", "of_the_result", "of_the_run", "remedy"),
    [
        (1, {}, {}, "raise stop.seconds_max and stop.bytes_max, or --repeat 5"),
        (1, {"clients": 4}, {}, "raise stop.seconds_min, or --repeat 5"),
        (1, {"clients": 4, "ended_early": True}, {}, "raise stop.client_bytes_max, or --repeat 5"),
        (1, {}, {"scenario": "bench"}, "measure longer (--duration), or --repeat 5"),
        (2, {}, {}, "repeat more often (--repeat 4)"),
    ],
)
def test_remedy_for_imprecise_rate_fits_the_command(
    doubts_of: Doubts,
    make_result: MakeResult,
    repetitions: int,
    of_the_result: dict[str, Any],
    of_the_run: dict[str, Any],
    remedy: str,
) -> None:
    results = [
        make_result(repetition=n, objects_per_second=500.0 * n, session_half_width=0.3, **of_the_result)
        for n in range(1, repetitions + 1)
    ]
    (doubt,) = doubts_of(*results, **of_the_run)
    assert doubt.startswith("1 of 1 rates")
    assert doubt.endswith(remedy)


def test_client_share_above_ten_percent_of_object_time_causes_warning(
    doubts_of: Doubts, make_result: MakeResult
) -> None:
    def with_share(share: float, position: int) -> Result:
        client = ClientUsage(20.0, 20.0, 100.0, 0.1, object_time_share=share)
        return make_result(client=client, position=position)

    assert doubts_of(with_share(0.10, 1)) == []
    (doubt,) = doubts_of(with_share(0.05, 1), with_share(0.34, 2), with_share(0.2, 3))
    assert doubt.startswith("in 2 of 3 cells the client takes more than 10% of an object's time")
    assert "34%, so its rate would be at most 1.52 times as high without the client's time" in doubt
