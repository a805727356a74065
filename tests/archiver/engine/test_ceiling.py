"""Test the ceiling of a phase: the same work on a null responder, reported next to the platform's result."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archiver.engine import ceiling
from archiver.engine.ceiling import OBJECTS_PER_SECOND_MAX, answered_at_once, at_full_speed, carry_out, measure_ceilings
from archiver.engine.coordinator import ClientCeiling, PhaseOutcome, RunSetting
from archiver.engine.numbers import Kept, ObjectNumbers
from archiver.engine.workers.processes import WorkerProcesses
from archiver.measure.server_usage import ServerView
from archiver.values.errors import RunFailed
from archiver.values.retention import Retention
from backends.s3 import S3Backend, S3Options
from backends.s3.control import Credentials
from scenarios.model import Phase, Workload
from scenarios.notation.distribution import Sizes
from scenarios.work.mix import Arrivals, Aside, Mix, Transaction
from tests.support.commands import archiver
from tests.support.runs import left_in

READ = Mix(
    (Transaction(("retrieve",), 1.0),), "pages", Sizes.constant(8192), planned_warm_up_seconds=0.1, planned_seconds=0.6
)
WRITE = replace(READ, transactions=(Transaction(("archive",), 1.0),), data="new", bytes_max=100 * 8192)


def phase_of(*mixes: Mix, **given: Any) -> Phase:
    workloads = tuple(
        Workload(f"workload {i}", mix, clients=4, objects_per_session=10) for i, mix in enumerate(mixes, 1)
    )
    return Phase("point", 1, 1, workloads, measures_ceiling=True, **given)


def mixes_of(phase: Phase) -> list[Mix]:
    return [workload.work for workload in phase.workloads if isinstance(workload.work, Mix)]


def s3_setting(**changes: Any) -> RunSetting:
    options = S3Options(
        endpoints=("http://127.0.0.1:1",), credentials=Credentials("someone", "secret", None), region="us-east-1"
    )
    setting = RunSetting(
        "run", 7, "s3", S3Backend(options).setting_for("bucket", "run/", Retention()), Retention(), "all", "opened",
        "head-bucket", "crc32c", False, server=ServerView(shares_host=True),
    )  # fmt: skip
    return replace(setting, **changes)


def numbers_of(**counts: int) -> ObjectNumbers:
    """Objects of 8 KiB for each data set."""
    numbers = ObjectNumbers(seed=7)
    for data, count in counts.items():
        first, end = numbers.fresh(count)
        numbers.keep(Kept(8192, first, end - 1, data=data))
    return numbers


@pytest.fixture(scope="module")
def workers() -> Iterator[WorkerProcesses]:
    started = WorkerProcesses(1, [])
    yield started
    started.close()


@pytest.fixture(scope="module")
def measured_once(workers: WorkerProcesses) -> PhaseOutcome:
    """Reads and archives, measured on a second null responder in place of a platform."""
    with answered_at_once(s3_setting(), 8192, ()) as nobody:
        outcome = carry_out(phase_of(READ, WRITE), numbers_of(pages=100), {}, nobody.setting, workers)
    assert not outcome.errors
    return outcome


def measured_of(
    phase: Phase, numbers: ObjectNumbers, workers: WorkerProcesses, setting: RunSetting | None = None
) -> dict[str, ClientCeiling]:
    return measure_ceilings(phase, numbers, {}, setting or s3_setting(), workers, (), 0.0)


def test_every_workload_gets_ceiling_of_null_responder_for_all_sizes(
    workers: WorkerProcesses, measured_once: PhaseOutcome
) -> None:
    two_sizes = replace(WRITE, sizes=Sizes.of([(512, 0.5), (70_000, 0.5)]), bytes_max=1 << 20)
    phase = phase_of(READ, replace(two_sizes, transactions=(Transaction(("archive", "retrieve"), 1.0),)))
    ceilings = measured_of(phase, numbers_of(pages=100, new=20), workers)  # fails unless every byte is right
    assert list(ceilings) == ["workload 1", "workload 2"]
    for result in measured_once.results:
        found = ceilings[result.workload].of(result.objects_per_second)
        assert found is not None
        assert found.platform == "null S3 responder"
        assert found.objects_per_second > 0
        assert found.share == pytest.approx(result.objects_per_second / found.objects_per_second)


def test_ceiling_without_a_finished_object_is_measured_again(
    workers: WorkerProcesses, measured_once: PhaseOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine may give a client no time within a short window."""
    read = measured_once.results[0]
    idle = replace(read, workload="workload 2", objects=0, objects_per_second=0.0)
    outcomes = [replace(measured_once, results=[read, idle]) for _ in range(2)]
    outcomes.append(replace(measured_once, results=[read, replace(idle, objects=5, objects_per_second=10.0)]))
    given: list[ObjectNumbers] = []

    def next_outcome(phase: Phase, numbers: ObjectNumbers, *_: object) -> PhaseOutcome:
        given.append(numbers)
        return outcomes.pop(0)

    monkeypatch.setattr(ceiling, "carry_out", next_outcome)
    numbers = numbers_of(pages=100)
    ceilings = measured_of(phase_of(READ, WRITE), numbers, workers)
    assert ceilings["workload 2"].objects_per_second == 10.0
    assert outcomes == []
    assert len({id(each) for each in (numbers, *given)}) == 4  # a measurement changes the numbers that it gets


def test_operations_unknown_to_null_responder_get_the_engine_ceiling(workers: WorkerProcesses) -> None:
    replaced = replace(READ, transactions=(Transaction(("new-version",), 1.0),), bytes_max=1 << 20)
    ceilings = measured_of(phase_of(replaced), numbers_of(pages=100), workers)
    assert ceilings["workload 1"].platform == "null sessions"


def test_objects_with_new_versions_get_the_engine_ceiling(workers: WorkerProcesses) -> None:
    numbers = numbers_of(pages=100)
    numbers.change("new-version", 8192, 3, 3)
    ceilings = measured_of(phase_of(READ), numbers, workers)
    assert ceilings["workload 1"].platform == "null sessions"


def test_null_backend_gets_the_engine_ceiling(workers: WorkerProcesses) -> None:
    elsewhere = s3_setting(backend="null", backend_setting=None)
    ceilings = measured_of(phase_of(READ), numbers_of(pages=100), workers, elsewhere)
    assert ceilings["workload 1"].platform == "null sessions"


def test_ceiling_run_checks_content_and_fails_on_errors(
    workers: WorkerProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceiling, "_sizes", lambda shares: [(0, 4096)])  # make the responder serve a wrong size
    problem = r"^point: its ceiling could not be measured \(null S3 responder\): retrieve: damaged"
    with pytest.raises(RunFailed, match=problem):
        measured_of(phase_of(READ), numbers_of(pages=100), workers)


def test_ceiling_run_does_not_use_credentials_or_bucket_of_platform() -> None:
    with answered_at_once(s3_setting(server=ServerView(shares_host=False)), 8192, (), processes=2) as nobody:
        told = nobody.setting.backend_setting
        assert (told.access_key, told.secret_key, told.bucket, told.prefix) == ("null", "null", "null", "null/")
        assert len({url for url in told.endpoints if url.startswith("http://127.0.0.1:")}) == 2
        assert nobody.platform == "null S3 responder, on the client's own cores"


def test_ceiling_of_platform_with_tls_is_measured_with_tls(workers: WorkerProcesses) -> None:
    s3 = replace(s3_setting().backend_setting, endpoints=("https://worm.example.org",), ca_bundle="/not/there.pem")
    with answered_at_once(s3_setting(backend_setting=s3), 8192, ()) as nobody:
        assert nobody.setting.backend_setting.endpoints[0].startswith("https://127.0.0.1:")
    ceilings = measured_of(phase_of(READ), numbers_of(pages=100), workers, s3_setting(backend_setting=s3))
    assert ceilings["workload 1"].platform == "null S3 responder, with TLS"
    assert ceilings["workload 1"].objects_per_second > 0


def test_ceiling_of_open_loop_is_measured_in_closed_loop() -> None:
    (mix,) = mixes_of(at_full_speed(phase_of(replace(READ, arrivals=Arrivals("poisson", 10.0))), 1))
    assert mix.arrivals is None


@pytest.mark.parametrize(
    "write",
    [
        WRITE,
        replace(WRITE, arrivals=Arrivals("constant", 10.0), bytes_max=None),
        replace(WRITE, aside=Aside("log", "logs", Sizes.constant(500), 0.3)),
        replace(READ, aside=Aside("log", "logs", Sizes.constant(500), 0.3), bytes_max=1000),
    ],
)
def test_archive_limit_of_ceiling_exceeds_any_client_rate(write: Mix) -> None:
    phase = at_full_speed(phase_of(write), workers=2)
    (mix,) = mixes_of(phase)
    assert mix.planned_seconds is not None
    objects = phase.workloads[0].objects_max
    assert objects == pytest.approx(OBJECTS_PER_SECOND_MAX * 2 * mix.planned_seconds, rel=0.01)


def test_writers_of_a_phase_share_the_archive_limit() -> None:
    phase = at_full_speed(phase_of(WRITE, WRITE, READ), workers=1)
    assert phase.archived_max()[0] == pytest.approx(OBJECTS_PER_SECOND_MAX * 0.6, rel=0.01)


LONG = replace(READ, planned_warm_up_seconds=2.0, planned_seconds=30.0)


@pytest.mark.parametrize(
    ("phase", "seconds"),
    [
        (phase_of(LONG, LONG), [3.5, 3.5]),
        (phase_of(LONG, replace(LONG, waits_for="workload 1")), [3.5, 3.5]),
        (phase_of(LONG, LONG, replace(LONG, waits_for="workload 1")), [30, 30, 30]),  # the second overlaps both others
        (phase_of(LONG, replace(LONG, starts_seconds=5.0)), [30, 30]),
        (
            phase_of(LONG, replace(LONG, keys="each-once", planned_seconds=None, planned_warm_up_seconds=0.0)),
            [30, None],
        ),
        (phase_of(READ), [0.6]),
    ],
)
def test_ceiling_time_is_shortened_only_if_the_phase_stays_equivalent(
    phase: Phase, seconds: list[float | None]
) -> None:
    assert [mix.planned_seconds for mix in mixes_of(at_full_speed(phase, 1))] == seconds


SCENARIO = """
name = "point"
title = "A point"
[[criterion]]
that = "share_of_ceiling <= 1000"
[[phase]]
name = "load"
load = true
[[phase.workload]]
name = "pages"
operation = "archive"
data = "pages"
sizes = "8KiB"
clients = 2
objects_per_session = 25
fill = 50
[[phase]]
name = "point"
ceiling = true
[[phase.workload]]
name = "read"
operation = "retrieve"
data = "pages"
clients = 2
objects_per_session = 10
seconds = "2s"
[[phase.workload]]
name = "write"
operation = "archive"
data = "new"
sizes = "8KiB"
clients = 2
objects_per_session = 10
arrivals = { kind = "constant", per_second = 2.5 }
seconds = "2s"
"""


def test_ceiling_objects_are_not_in_ledger_results_or_intervals(tmp_path: Path, home: Path) -> None:
    (tmp_path / "point.toml").write_text(SCENARIO)
    done = archiver("run", str(tmp_path / "point.toml"), "--json", "--op-log", str(tmp_path / "operations"))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    pages, read, write = document["results"]
    assert pages["ceiling"] is None
    assert read["ceiling"]["platform"] == write["ceiling"]["platform"] == "null S3 responder"
    assert write["ceiling"]["objects_per_second"] > write["objects_per_second"]
    judged = {each["workload"]: each["measured"] for each in document["criteria"]}
    assert judged == {each["workload"]: each["ceiling"]["share"] for each in (read, write)}
    with sqlite3.connect(home / "runs" / document["run"] / "run.db") as db:
        counted = dict(db.execute("SELECT workload, sum(objects) FROM interval GROUP BY workload"))
        ((probes,),) = db.execute("SELECT sum(archived) FROM probe").fetchall()
    db.close()
    assert counted["write"] == 50  # 5 sessions in two seconds, 10 objects each
    assert sum(row["objects"] for row in left_in(home) if row["objects"]) == 50 + 50 + probes
    assert counted["read"] == read["objects"] + read["warm_up_objects"] + read["drained_objects"]
    assert len(list((tmp_path / "operations").iterdir())) == 2  # one worker, two phases
