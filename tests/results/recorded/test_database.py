"""The database of a run: phases are stored atomically, and stored values are read back unchanged."""

from __future__ import annotations

import fcntl
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import pytest

from archiver.values.errors import ResultsError
from results.recorded.database import (
    FILE_NAME,
    LOCK_NAME,
    VERSION,
    HistogramRow,
    IntervalRow,
    PartRow,
    PhaseRecord,
    PhaseTimes,
    ProbeRow,
    Resumption,
    RunDatabase,
    RunRecord,
    StoredRun,
    is_under_way,
)
from results.recorded.model import CriterionResult, FirstError, Result, SearchOutcome, SearchStep
from results.recorded.resources import SampleRow, SourceProblem
from tests.results.watched_run import PLATFORM

MakeResult = Callable[..., Result]
RECORD = RunRecord(
    id="run-1",
    started_at=1_800_000_000.5,
    command_line=["archiver", "run", "dr550", "--quick"],
    scenario="dr550",
    scenario_title="DR550 archive/retrieve matrix",
    scenario_json="{}",
    sweep_order="shuffled",
    order_seed=0,
    repetitions=1,
    phases_planned=3,
    backend="s3",
    platform=replace(PLATFORM, name="embedded", endpoints=("http://a", "http://b"), server_clock_offset_seconds=0.25),
    settings={"retention_mode": "GOVERNANCE", "retain_until": None},
    host={"processor": "8 × µ"},
    workers=2,
    worker_cores=[2, 3],
    shared_host=True,
    location={"bucket": "archiver-run-1"},
    content_seed=2**62 - 1,
    content_kind="shake-256/window-64x4099/1",
    interval_ns=250_000_000,
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[RunDatabase]:
    made = RunDatabase.create(tmp_path / "out" / "run-1" / FILE_NAME, RECORD)
    yield made
    made.close()


def phase(position: int, *results: Result, drift_check: bool = False, **more: Any) -> PhaseRecord:
    values: dict[str, Any] = {
        "intervals": [IntervalRow(4, "archive", "measured", 1, 25, 204_800, 26, 1)],
        "histograms": [HistogramRow("archive", "object_service", 123, 45, b"\x01" * 8, b"\x02" * 8)],
        "archived": [(8192, position * 100, position * 100 + 24, "", 0)],
        "errors": [FirstError("archive", "503 SlowDown", 2, "please slow down", "req-1", "object-1")],
        **more,
    }
    return PhaseRecord(
        times=PhaseTimes(
            position=position,
            label="archive 8KiB x 25, 1 client",
            started_at=1_800_000_001.0,
            seconds=3.5,
            start_ns=position * 10**10,
            end_ns=position * 10**10 + 3_500_000_000,
            measured_from_ns=position * 10**10 + 500_000_000,
            measured_to_ns=position * 10**10 + 3_000_000_000,
            prepared_ns=position * 10**10,
        ),
        name="archive",
        repetition=1,
        drift_check=drift_check,
        results=list(results),
        **values,
    )


def rows(path: Path) -> dict[str, int]:
    """Return the number of rows of each table, as another connection sees them."""
    connection = sqlite3.connect(path)
    try:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}
    finally:
        connection.close()


def test_run_record_is_read_back_unchanged(database: RunDatabase) -> None:
    assert database.run() == StoredRun(
        **{each.name: getattr(RECORD, each.name) for each in fields(RECORD)},
        ended_at=None,
        verdict=None,
        lock_verified=None,
    )


def test_finished_run_records_end_time_and_verdict(database: RunDatabase) -> None:
    database.set_lock_verified("verified")
    database.finish(1_800_000_100.0, "none")
    run = database.run()
    assert (run.lock_verified, run.ended_at, run.verdict) == ("verified", 1_800_000_100.0, "none")


def test_results_are_read_back_in_order_of_measurement(database: RunDatabase, make_result: MakeResult) -> None:
    error = FirstError("archive", "403 AccessDenied", 3, "Access Denied", "req-9", "object-9")
    first = make_result(position=1, first_errors=(error,), errors=3)
    second = make_result("retrieve", 1 << 20, server=None, first_byte_ms=None, store_bytes_before=None, position=2)
    again = make_result(position=3)
    for position, result in ((3, again), (2, second), (1, first)):
        database.add_phase(phase(position, result, drift_check=result is again))
    assert database.results() == [first, second]
    assert database.results(drift_checks=True) == [again]


def test_finished_phase_is_readable_during_the_run(database: RunDatabase, make_result: MakeResult) -> None:
    database.add_phase(phase(1, make_result()))
    reader = RunDatabase.open(database.path)
    assert reader.results() == [make_result()]
    reader.close()
    assert {table: count for table, count in rows(database.path).items() if count} == {
        "run": 1, "phase": 1, "result": 1, "interval": 1, "histogram": 1, "object_range": 1, "error": 1
    }  # fmt: skip


@pytest.mark.parametrize(
    "broken",
    [
        {"errors": [FirstError("archive", "x", cast(int, None), "", "", "")]},  # the last table that is written
        {"intervals": [IntervalRow(4, "archive", "measured", 1, 1, 1, 1, 1)] * 2},
        {"archived": [(8192, 1)]},
    ],
)
def test_phase_is_stored_atomically(database: RunDatabase, make_result: MakeResult, broken: dict[str, Any]) -> None:
    database.add_phase(phase(1, make_result()))
    before = rows(database.path)
    with pytest.raises(ResultsError, match="cannot be written"):
        database.add_phase(phase(2, make_result(), **broken))
    assert rows(database.path) == before
    database.add_phase(phase(2, make_result(position=2)))  # the database is still usable
    assert len(database.results()) == 2


def test_phase_cannot_be_stored_twice(database: RunDatabase, make_result: MakeResult) -> None:
    database.add_phase(phase(1, make_result()))
    with pytest.raises(ResultsError, match="cannot be written"):
        database.add_phase(phase(1, make_result()))
    assert len(database.results()) == 1


def test_archived_ranges_are_returned_by_size(database: RunDatabase, make_result: MakeResult) -> None:
    database.add_phase(phase(1, make_result(), archived=[(8192, 30, 39, "", 0), (65536, 40, 49, "mail", 1)]))
    database.add_phase(phase(2, make_result(position=2), archived=[(8192, 10, 19, "", 0)]))
    assert database.archived(8192) == [(10, 19), (30, 39)]
    assert database.archived(1) == []


def test_phase_times_are_returned_in_order(database: RunDatabase, make_result: MakeResult) -> None:
    for position in (2, 1):
        database.add_phase(phase(position, make_result(position=position)))
    first, second = database.phases()
    assert first == PhaseTimes(
        1, "archive 8KiB x 25, 1 client", 1_800_000_001.0, 3.5,
        10_000_000_000, 13_500_000_000, 10_500_000_000, 13_000_000_000, 10_000_000_000,
    )  # fmt: skip
    assert (second.position, second.start_ns) == (2, 20_000_000_000)


def test_resource_samples_are_read_back_by_source_in_order(database: RunDatabase) -> None:
    host = [
        SampleRow("local", 1.5 + second, second * 10**9, {"cpu_user_seconds": {"0": 1.5 * second, "1": 0.1}})
        for second in range(4)
    ]
    minio = SampleRow("minio", 2.0, 5 * 10**8, {"requests": {"PutObject": 7}, "process_cpu_seconds": {"": 0.25}})
    database.add_samples(host[2:])
    database.add_samples([minio, *host[:2]])
    timelines = database.timelines()
    assert list(timelines) == ["local", "minio"]
    assert [len(timeline) for timeline in timelines.values()] == [4, 1]
    assert timelines["local"].used("cpu_user_seconds", 0, 3 * 10**9) == {"0": 4.5, "1": 0.0}
    assert timelines["minio"].last("requests", 10**9) == {"PutObject": 7}
    assert timelines["minio"].last("process_cpu_seconds", 10**9) == {"": 0.25}


def test_first_problem_of_a_source_is_kept(database: RunDatabase) -> None:
    database.add_source_problem(SourceProblem("minio", 2.5, "minio: it did not answer"))
    database.add_source_problem(SourceProblem("local", 1.5, "local: /proc is not there"))
    database.add_source_problem(SourceProblem("minio", 3.5, "minio: refused"))
    assert database.source_problems() == [
        ("local", 1.5, "local: /proc is not there"),
        ("minio", 2.5, "minio: it did not answer"),
    ]


@pytest.mark.parametrize("folder", ["plain", "50% #1?", "with space", "ünïcode"])
def test_run_is_opened_by_folder_or_file(tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder / FILE_NAME
    RunDatabase.create(path, RECORD).close()
    for name in (path, path.parent):
        opened = RunDatabase.open(name)
        assert opened.run().id == "run-1"
        opened.close()


def test_opened_run_is_read_only(database: RunDatabase) -> None:
    reader = RunDatabase.open(database.path)
    with pytest.raises(ResultsError, match="readonly"):
        reader.finish(1.0, "pass")
    reader.close()


def test_existing_run_is_never_overwritten(database: RunDatabase) -> None:
    with pytest.raises(ResultsError, match="its run is under way"):
        RunDatabase.create(database.path, RECORD)
    database.close()
    with pytest.raises(ResultsError, match="the results cannot be written"):
        RunDatabase.create(database.path, RECORD)
    again = RunDatabase.open(database.path)
    assert again.run().id == "run-1"
    again.close()


def missing(path: Path) -> None: ...


def empty(path: Path) -> None:
    path.touch()


def foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bookmark (id INTEGER)")
    connection.commit()
    connection.close()


def foreign_with_a_version(path: Path) -> None:
    foreign(path)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.close()


def newer(path: Path) -> None:
    RunDatabase.create(path, RECORD).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()


def older(path: Path) -> None:
    RunDatabase.create(path, RECORD).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {VERSION - 1}")
    connection.close()


def damaged(path: Path) -> None:
    path.write_bytes(b"not a database " * 100)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (missing, "no such run"),
        (empty, "is no results database of Archiver"),
        (foreign, "is no results database of Archiver"),
        (foreign_with_a_version, "its tables are not those of a results database of Archiver"),
        (
            newer,
            f"has format version {VERSION + 1}, and this Archiver reads only {VERSION}; use the Archiver that wrote",
        ),
        (
            older,
            f"has format version {VERSION - 1}, and this Archiver reads only {VERSION}; use the Archiver that wrote",
        ),
        (damaged, "not a readable results database: file is not a database: it is damaged"),
    ],
)
def test_invalid_run_database_is_refused_with_path(tmp_path: Path, make: Callable[[Path], None], message: str) -> None:
    path = tmp_path / FILE_NAME
    make(path)
    with pytest.raises(ResultsError, match=message) as refused:
        RunDatabase.open(path)
    assert str(path) in str(refused.value)


def test_unwritable_results_folder_error_suggests_out_option(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ResultsError, match=r"cannot be written: .*; or name another folder with --out"):
        RunDatabase.create(tmp_path / "file" / "run-1" / FILE_NAME, RECORD)


def sample(at: float, monotonic_ns: int) -> SampleRow:
    return SampleRow("local", at, monotonic_ns, {"cpu_seconds": {"": 1.0}})


BEGAN = 1_800_000_001.0  # wall-clock time at which phase() begins
LAST_NS = 10**10 + 3_500_000_000  # end of the first phase on the run's monotonic clock


def instants(database: RunDatabase) -> list[tuple[int, int]]:
    return [(times.start_ns, times.end_ns) for times in database.phases()]


def broken_off(database: RunDatabase, *results: Result) -> RunDatabase:
    """Return the database of a run that was interrupted after its first phase, reopened for writing."""
    database.begin_phase(1, BEGAN)
    database.add_phase(phase(1, *results))
    database.begin_phase(2, BEGAN + 4)
    database.add_samples([sample(BEGAN, 10**10), sample(BEGAN + 3.5, LAST_NS)])
    database.finish(BEGAN + 5, "interrupted")
    database.close()
    return RunDatabase.reopen(database.path)


def test_resumed_run_keeps_finished_phases_and_records_resumption(
    database: RunDatabase, make_result: MakeResult
) -> None:
    again = broken_off(database, make_result())
    before = (instants(again), again.results(), rows(again.path))
    found = again.resume(BEGAN + 60, LAST_NS + 56_000_000_000)
    assert found == Resumption(BEGAN + 60, 1, 0)  # the wall clock differs by only 0.5 s, so there is no shift
    assert again.resumptions() == [found]
    assert (instants(again), again.results(), rows(again.path)) == (*before[:2], {**before[2], "resumption": 1})
    assert (again.run().ended_at, again.run().verdict) == (None, None)
    assert again.broken_off() == [(2, BEGAN + 4)]
    again.add_phase(phase(2, make_result(position=2)))
    assert again.finished() == 2
    again.close()


@pytest.mark.parametrize(
    ("seconds_later", "now_ns", "last_ns"),
    [
        (1000.0, 5 * 10**9, 5 * 10**9 - 996_500_000_000),  # after a reboot the monotonic clock starts again
        (1000.0, LAST_NS + 10**12 * 7, LAST_NS + 10**12 * 7 - 996_500_000_000),  # the same, with an older boot
        (-1000.0, 5 * 10**9, 5 * 10**9),  # and the wall clock was set back
    ],
)
def test_resumption_shifts_earlier_instants_before_later_ones(
    database: RunDatabase, make_result: MakeResult, seconds_later: float, now_ns: int, last_ns: int
) -> None:
    again = broken_off(database, make_result())
    (before,) = again.phases()
    found = again.resume(BEGAN + seconds_later, now_ns)
    assert found.shift_ns == last_ns - LAST_NS
    (after,) = again.phases()
    assert (after.end_ns, after.start_ns) == (last_ns, last_ns - 3_500_000_000)
    assert after.measured_from_ns - before.measured_from_ns == after.measured_to_ns - before.measured_to_ns
    assert after.measured_to_ns - before.measured_to_ns == found.shift_ns
    assert again.timelines()["local"].end_ns == last_ns <= now_ns
    again.close()


@pytest.mark.parametrize("objects_of_its_last_interval", [0, 3])  # done before the platform became unreachable
def test_resumption_deletes_phases_since_platform_became_unreachable(
    database: RunDatabase, make_result: MakeResult, objects_of_its_last_interval: int
) -> None:
    good = IntervalRow(4, "archive", "measured", 1, 25, 204_800, 25, 0)
    objects = objects_of_its_last_interval
    failing = IntervalRow(5, "archive", "measured", 0, objects, objects * 8192, objects + 9, 9)
    for position in (1, 2, 3):
        database.begin_phase(position, BEGAN + position)
    database.add_phase(phase(1, make_result(), intervals=[failing, replace(good, interval=6)]))  # it recovered
    database.add_phase(
        phase(2, make_result(position=2), intervals=[good, failing], probes=[ProbeRow(None, 8192, 1, 1)])
    )
    database.add_phase(phase(3, make_result(position=3), intervals=[failing], gave_up="no object", archived=[]))
    assert database.finished() == 1
    assert database.resume(BEGAN + 60, LAST_NS * 9).after_position == 1
    assert {name: count for name, count in rows(database.path).items() if count} == {
        "run": 1, "phase": 1, "result": 1, "interval": 2, "histogram": 1, "object_range": 1, "error": 1,
        "resumption": 1, "begun": 3,
    }  # fmt: skip
    assert database.broken_off() == [(2, BEGAN + 2), (3, BEGAN + 3)]


def test_object_changes_are_returned_in_order(database: RunDatabase, make_result: MakeResult) -> None:
    database.add_phase(phase(2, make_result(position=2), changed=[("hold", 8192, 7, 9), ("hold", 8192, 1, 1)]))
    database.add_phase(phase(3, make_result(position=3), changed=[("delete", 8192, 4, 4)]))
    assert database.changes(2) == [("hold", 8192, 7, 9), ("hold", 8192, 1, 1)]
    assert database.changes()[-1] == ("delete", 8192, 4, 4)
    assert database.archived_by(2) == [(8192, 200, 224, "", 0)]


def test_run_database_has_only_one_writer(database: RunDatabase) -> None:
    with pytest.raises(ResultsError, match="its run is under way; wait for its end"):
        RunDatabase.reopen(database.path)
    reader = RunDatabase.open(database.path)  # reading is allowed
    reader.close()
    database.close()
    writer = RunDatabase.reopen(database.path.parent)
    with pytest.raises(ResultsError, match="its run is under way"):
        RunDatabase.reopen(database.path)
    writer.close()


def test_criteria_parts_and_search_round_trip_through_database(database: RunDatabase, make_result: MakeResult) -> None:
    judged = CriterionResult("errors == 0 (log)", "tile 1 e-mail", 1, 0.0, 0.0, True, scale=2.0)
    part = PartRow("archive", "log", "archive", 3, 300, 4, 1)
    found = SearchOutcome("tiles", (SearchStep(1, (1, 2), True), SearchStep(2, (3,), False)), 1, 2, 1, "so", "edge")
    database.add_phase(phase(1, make_result(), criteria=[judged], parts=[part]))
    assert database.search() is None
    database.set_search(replace(found, largest=None))
    database.set_search(found)
    assert (database.criteria(), database.search()) == ([judged], found)
    assert ("archive", None, 4, 0) in database.attempts()


def test_phase_that_gave_up_can_be_repeated_with_all_parts(database: RunDatabase, make_result: MakeResult) -> None:
    again = phase(1, make_result(), parts=[PartRow("archive", "log", "archive", 3, 300, 4, 1)])
    database.begin_phase(1, BEGAN)
    database.add_phase(replace(again, gave_up="no object"))
    database.resume(BEGAN + 60, LAST_NS * 9)
    database.add_phase(again)
    assert database.finished() == 1


def test_run_is_under_way_until_writer_closes(tmp_path: Path) -> None:
    path = tmp_path / "run-1" / FILE_NAME
    assert not is_under_way(path)
    writer = RunDatabase.create(path, RECORD)
    assert is_under_way(path)
    writer.close()
    assert not is_under_way(path)


def test_reopening_waits_for_a_short_shared_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run-1" / FILE_NAME
    RunDatabase.create(path, RECORD).close()
    with (path.parent / LOCK_NAME).open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_SH | fcntl.LOCK_NB)  # as is_under_way takes it for a moment
        monkeypatch.setattr(time, "sleep", lambda seconds: fcntl.flock(reader, fcntl.LOCK_UN))
        RunDatabase.reopen(path).close()
