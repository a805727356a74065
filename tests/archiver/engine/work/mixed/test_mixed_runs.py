"""Test whole runs of concurrent workloads on the embedded store, compared with its own counts, and on the null
backend."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from backends.embedded import process as embedded
from tests.archiver.engine.work.stalling import stall
from tests.support.commands import archiver, started
from tests.support.counted import counted, statistics
from tests.support.runs import keys_of, s3, shorten, verdict_of_missed
from tests.support.servers.fault_proxy import FaultProxy
from tests.support.waiting import wait_until

EMAIL = """
name = "mix"
title = "A mix"

[[criterion]]
that = "errors == 0"

[[phase]]
name = "load"
load = true
[[phase.workload]]
name = "pages"
operation = "archive"
data = "mail"
sizes = { histogram = { 512 = 1, 2048 = 2, 8192 = 1 } }
clients = 4
objects_per_session = 50
fill = 200
[[phase.workload]]
name = "trash"
operation = "archive"
data = "mail"
sizes = "8KiB"
clients = 4
objects_per_session = 50
objects = 40
retain_for = "2s"
[[phase.workload]]
name = "web data"
operation = "archive"
data = "web"
sizes = "4KiB"
clients = 2
objects_per_session = 50
fill = 100

[[phase]]
name = "mix"
[[phase.workload]]
name = "e-mail"
clients = 4
data = "mail"
sizes = "8KiB"
transactions = [
  { steps = ["retrieve", "archive"], share = 40 },
  { steps = ["retrieve", "delete"], share = 30 },
  { steps = ["retrieve", "new-version"], share = 5 },
  { steps = ["retrieve"], share = 25 },
]
aside = { name = "log", data = "log", sizes = 5667, per_operation = 0.227 }
seconds = "5s"
bytes_max = "20MB"
[[phase.workload]]
name = "e-mail check"
operation = "retrieve"
clients = 4
objects_per_session = 50
data = "mail"
keys = "each-once"
after = "e-mail"
[[phase.workload]]
name = "web"
operation = "retrieve"
clients = 4
data = "web"
keys = "zipf"
seconds = "3s"
arrivals = { kind = "poisson", per_second = 40 }
"""


def scenario(folder: Path, text: str) -> str:
    path = folder / "given.toml"
    path.write_text(text)
    return str(path)


def database_in(home: Path) -> Path:
    (path,) = home.glob("runs/*/run.db")
    return path


def ask(path: Path, statement: str) -> list[tuple[Any, ...]]:
    """Return rows of a database that another process may be writing, or none if it does not exist yet."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return database.execute(statement).fetchall()
    except sqlite3.OperationalError:
        return []


def results_of(document: dict[str, Any], phase: str) -> dict[str, dict[str, Any]]:
    return {each["workload"]: each for each in document["results"] if each["phase"] == phase}


# ---- the e-mail mix


@dataclass
class Done:
    """The finished e-mail mix on a store of its own, with the results of client and server."""

    store: embedded.StoreProcess
    home: Path
    document: dict[str, Any]
    before: dict[str, Any]
    after: dict[str, Any]
    rows: list[dict[str, Any]]  # rows of the operation log
    bucket: str
    versions: list[dict[str, Any]]
    markers: list[dict[str, Any]]

    def count(self, operation: str) -> int:
        return sum(row["operation"] == operation for row in self.rows)

    def requests(self, call: str) -> int:
        return counted(self.before, self.after, call)

    def environment(self) -> dict[str, str]:
        return {**keys_of(self.store), "ARCHIVER_HOME": str(self.home)}


@pytest.fixture(scope="module")
def email(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    folder = tmp_path_factory.mktemp("e-mail")
    with embedded.start(folder / "store") as store:
        before = statistics(store)
        environment = {**keys_of(store), "ARCHIVER_HOME": str(folder / "home")}
        done = archiver(
            "run", scenario(folder, EMAIL), "--endpoint", store.endpoint, "--workers", "2", "--op-log",
            str(folder / "log"), "--json", **environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        after = statistics(store)
        rows = [row for file in sorted((folder / "log").iterdir()) for row in pq.read_table(file).to_pylist()]
        ((location,),) = ask(database_in(folder / "home"), "SELECT location FROM run")
        bucket = json.loads(location)["bucket"]
        versions, markers = list[dict[str, Any]](), list[dict[str, Any]]()
        for page in s3(store).get_paginator("list_object_versions").paginate(Bucket=bucket):
            versions += page.get("Versions", [])
            markers += page.get("DeleteMarkers", [])
        yield Done(store, folder / "home", json.loads(done.stdout), before, after, rows, bucket, versions, markers)


def test_mixed_run_passes_without_errors_and_parts_add_up(email: Done) -> None:
    assert [each["errors"] for each in email.document["results"]] == [0] * 6
    assert email.document["verdict"] == "pass"
    assert all(row["status"] == 0 and row["attempts"] == 1 for row in email.rows)
    mix = results_of(email.document, "mix")
    assert set(mix) == {"e-mail", "e-mail check", "web"}
    parts = {part["name"]: part for part in mix["e-mail"]["parts"]}
    assert set(parts) == {"retrieve", "archive", "delete", "delete-marker", "new-version", "log"}
    assert sum(part["objects"] for part in parts.values()) == mix["e-mail"]["objects"]
    assert sum(part["bytes"] for part in parts.values()) == mix["e-mail"]["bytes"]
    assert mix["web"]["offered"]["sessions"] == mix["web"]["offered"]["started"] > 50


def test_check_workload_reads_each_visible_object_of_its_set_exactly_once(email: Done) -> None:
    archived = ask(
        database_in(email.home), "SELECT first, last, data FROM object_range WHERE data IN ('mail', 'log', 'web', '')"
    )
    data_of = {f"{number:012d}": data for first, last, data in archived for number in range(first, last + 1)}
    visible = [each["Key"].rpartition("/")[2] for each in email.versions if each["IsLatest"]]
    mine = sorted(key for key in visible if data_of[key] == "mail")
    check = results_of(email.document, "mix")["e-mail check"]
    assert check["objects"] == len(mine) > 100
    retrieved = [row for row in email.rows if row["operation"] == "retrieve"]
    checked = sorted(row["key"] for row in retrieved if 4 <= row["client"] < 8 and data_of[row["key"]] == "mail")
    assert checked == mine  # each object once, over all workers


def test_operation_log_and_database_match_requests_counted_by_store(email: Done) -> None:
    ((probes,),) = ask(database_in(email.home), "SELECT sum(tries) FROM probe")
    assert email.requests("PutObject") == email.count("archive") + email.count("new-version") + probes
    assert email.requests("GetObject") == email.count("retrieve")
    assert email.requests("DeleteObject") == email.count("delete") + email.count("delete-marker")
    assert min(email.count(each) for each in ("delete", "delete-marker", "new-version")) > 0
    ((attempts,),) = ask(database_in(email.home), "SELECT sum(attempts) FROM interval")
    objects = [row for row in email.rows if row["key"]]
    assert attempts == len(objects)
    changes = dict(
        ask(database_in(email.home), "SELECT operation, sum(last - first + 1) FROM object_change GROUP BY operation")
    )
    assert changes == {each: email.count(each) for each in ("delete", "delete-marker", "new-version")}


def test_ledger_counts_match_the_store(email: Done) -> None:
    assert len(email.markers) == email.count("delete-marker")
    with closing(sqlite3.connect(email.home / "ledger.db")) as ledger:
        objects, size_bytes, objects_max, bytes_max = ledger.execute(
            "SELECT sum(objects), sum(bytes), sum(objects_max), sum(bytes_max) FROM placement"
        ).fetchone()
    assert objects == len(email.versions) + email.count("delete")
    assert size_bytes == sum(each["Size"] for each in email.versions) + 8192 * email.count("delete")
    assert objects <= objects_max
    assert size_bytes <= bytes_max
    versions = Counter(each["Key"] for each in email.versions)
    assert sum(count - 1 for count in versions.values()) == email.count("new-version")


def test_audit_of_mixed_run_finds_nothing(email: Done) -> None:
    done = archiver("audit", "latest", **email.environment())
    assert done.returncode == 0, done.stdout + done.stderr


def test_cleanup_removes_all_objects_of_mixed_run(email: Done) -> None:
    """Runs last, because nothing is left for other tests afterwards."""
    done = archiver("cleanup", "latest", "--bypass-governance", **email.environment())
    assert done.returncode == 0, done.stderr
    assert email.bucket not in [each["Name"] for each in s3(email.store).list_buckets()["Buckets"]]
    assert statistics(email.store)["objects"] == email.before["objects"]


# ---- a stall

STALLED = """
name = "stalled"
title = "An open and a closed loop side by side"

[[phase]]
name = "load"
load = true
[[phase.workload]]
name = "objects"
operation = "archive"
data = "d"
sizes = "1KiB"
clients = 2
objects_per_session = 50
fill = 600

[[phase]]
name = "both"
[[phase.workload]]
name = "open"
operation = "retrieve"
data = "d"
clients = 1
seconds = "60s"
until = "closed"
arrivals = { kind = "constant", per_second = 50 }
[[phase.workload]]
name = "closed"
operation = "retrieve"
data = "d"
clients = 1
keys = "each-once"
"""


def test_store_stall_shows_in_p99_of_open_loop_only(tmp_path: Path, home: Path, store: embedded.StoreProcess) -> None:
    """The store does not answer for 2 s. 100 sessions of the open loop fall due meanwhile, and each of them waits.
    The client of the closed loop sends nothing while it waits, so only one of its 600 sessions is slow (coordinated
    omission). Both loops use the same store and the same objects."""
    stalls = stall(store.pid, "GET", nth=300, seconds=2.0)
    with FaultProxy(int(store.endpoint.rpartition(":")[2]), asks=stalls) as proxy:
        done = archiver("run", scenario(tmp_path, STALLED), "--endpoint", proxy.url, "--json", **keys_of(store))
    assert done.returncode == 0, done.stderr
    both = results_of(json.loads(done.stdout), "both")
    opened, closed = both["open"], both["closed"]
    # On a busy machine some waiting sessions are still waiting when the other loop ends. They count as dropped.
    assert opened["offered"]["sessions"] == opened["offered"]["started"] + opened["offered"]["dropped"]
    assert opened["offered"]["waited"] > 50
    assert opened["session_ms"]["p99"] >= 1000
    assert opened["session_ms"]["count"] == opened["offered"]["started"]
    # Service times, counted from sending, stay short except for the one running session.
    assert opened["session_service_ms"]["p50"] < opened["session_service_ms"]["p99"] < 1000
    assert opened["object_ms"]["p99"] >= 1000  # the waiting time of a session counts for its first object, too
    assert closed["session_ms"]["count"] == 600
    assert closed["session_ms"]["p99"] < 1000 < closed["session_ms"]["max"]
    assert opened["errors"] == closed["errors"] == 0


# ---- criteria and searches on the null backend

ABORTED = """
name = "hopeless"
title = "Nothing answers so fast"

[[criterion]]
that = "object_ms.max <= 0.000001"
abort = true
[[criterion]]
that = "errors == 0"

[[phase]]
name = "load"
load = true
[[phase.workload]]
name = "objects"
operation = "archive"
data = "d"
sizes = "1KiB"
clients = 1
fill = 10

[[phase]]
name = "long"
[[phase.workload]]
name = "open"
operation = "retrieve"
data = "d"
clients = 2
seconds = "600s"
arrivals = { kind = "constant", per_second = 100 }
[[phase.workload]]
name = "much later"
operation = "retrieve"
data = "d"
clients = 1
begins = "300s"
seconds = "300s"
"""


def test_phase_that_misses_abort_criterion_ends_early_and_fails_the_run(tmp_path: Path, home: Path) -> None:
    done = archiver("run", scenario(tmp_path, ABORTED), "--backend", "null", "--json")
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["verdict"] == verdict_of_missed(document)
    (broken,) = [each for each in document["criteria"] if each["aborted"]]
    assert (broken["name"], broken["workload"], broken["passed"]) == ("object_ms.max <= 0.000001", "open", False)
    assert broken["measured"] > broken["limit"]
    both = results_of(document, "long")
    assert 0 < both["open"]["seconds"] < 600
    assert both["open"]["objects"] > 0
    assert both["open"]["errors"] == 0
    assert both["much later"]["objects"] == 0
    kept = [each for each in document["criteria"] if each["name"] == "errors == 0"]
    assert [(each["workload"], each["passed"]) for each in kept if each["workload"] == "open"] == [("open", True)]
    assert ask(database_in(home), "SELECT verdict FROM run") == [(document["verdict"],)]


TRIES = 5  # on a busy machine the client may be the limit or end sessions late
SEARCH = """
name = "edge"
title = "How many users there may be"

[[criterion]]
that = "objects_per_second <= 55"

[scale]
name = "users"
each = "user"

[search]
first = 1
last = 16
repeat = 2

[[phase]]
name = "load"
load = true
[[phase.workload]]
name = "objects"
operation = "archive"
data = "d"
sizes = "1KiB"
clients = 1
fill = 10

[[phase]]
name = "users"
[[phase.workload]]
name = "reading"
operation = "retrieve"
data = "d"
clients = 2
seconds = "500ms"
arrivals = { kind = "constant", per_second = "10 users" }
"""


def test_search_finds_largest_passing_scale_and_keeps_every_trial(tmp_path: Path, home: Path) -> None:
    expected = [(1, True), (2, True), (4, True), (8, False), (6, False), (5, True), (5, True), (6, False)]
    for _ in range(TRIES):
        shutil.rmtree(home / "runs", ignore_errors=True)
        done = archiver("run", scenario(tmp_path, SEARCH), "--backend", "null", "--json")
        document = json.loads(done.stdout)
        found = document["search"]
        trials = [(step["scale"], step["passed"]) for step in found["steps"]]
        if trials == expected:
            break
    assert done.returncode == 0, done.stderr
    assert trials == expected
    assert (found["name"], found["largest"], found["failed_at"], found["held"]) == ("users", 5, 6, 2)
    positions = [position for step in found["steps"] for position in step["positions"]]
    assert positions == list(range(1, 17))
    path = database_in(home)
    assert ask(path, "SELECT position FROM phase ORDER BY position") == [(position,) for position in positions]
    ((stored,),) = ask(path, "SELECT document FROM search")
    assert json.loads(stored) == found
    scales = [each["scale"] for each in document["results"] if each["phase"] == "users"]
    assert scales == [scale for scale, _ in trials]
    assert document["verdict"] == "pass"  # an edge was found
    filled = [each["objects"] for each in document["results"] if each["phase"] == "load"]
    assert filled == [10] + [0] * 7  # existing objects are not archived again


@contextmanager
def killed(home: Path, *arguments: str, phase: int, when: Callable[[], object], **environment: str) -> Iterator[None]:
    """Kill a run with SIGKILL in this phase, as soon as ``when`` is true."""
    with started(*arguments, **environment) as process:
        wait_until(
            lambda: (
                process.poll() is not None
                or any(
                    ask(path, f"SELECT 1 FROM begun WHERE position = {phase}") for path in home.glob("runs/*/run.db")
                )
            ),
            f"phase {phase}",
        )
        assert process.poll() is None, process.communicate()[1]
        wait_until(when, "time to kill it")
    yield


def test_interrupted_search_cannot_be_resumed(tmp_path: Path, home: Path) -> None:
    path = scenario(tmp_path, SEARCH.replace("500ms", "1h"))
    with killed(home, "run", path, "--backend", "null", phase=2, when=lambda: True):
        done = archiver("resume", "latest")
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "all trials of a search must be measured at one time, so it cannot be resumed" in done.stderr
    assert "Traceback" not in done.stderr


# ---- kill -9

ADDING = """
name = "adding"
title = "What is added and read"

[[phase]]
name = "load"
load = true
[[phase.workload]]
name = "objects"
operation = "archive"
data = "d"
sizes = "1KiB"
clients = 2
objects_per_session = 25
fill = 100

[[phase]]
name = "mix"
[[phase.workload]]
name = "both"
data = "d"
sizes = "2KiB"
clients = 4
seconds = "1h"
arrivals = { kind = "poisson", per_second = 60 }
transactions = [ { steps = ["STEP"], share = 1 }, { steps = ["retrieve"], share = 1 } ]
"""


def test_run_killed_in_mixed_phase_resumes_with_unused_object_numbers(
    tmp_path: Path, home: Path, store: embedded.StoreProcess
) -> None:
    path = scenario(tmp_path, ADDING.replace("STEP", "archive"))
    endpoint = ("--endpoint", store.endpoint)

    def some_of_it() -> bool:
        return int(statistics(store)["objects"]) >= 110

    with killed(home, "run", path, *endpoint, phase=2, when=some_of_it, **keys_of(store)):
        lost = statistics(store)["objects"] - 100 - 1  # the loaded objects and the probe object
        shorten(home, "1h", "2s")
        done = archiver("resume", "latest", "--json", **keys_of(store))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (mix,) = results_of(document, "mix").values()
    assert mix["errors"] == 0
    assert mix["objects"] > 50
    ((location,),) = ask(database_in(home), "SELECT location FROM run")
    versions = Counter[str]()
    for page in s3(store).get_paginator("list_object_versions").paginate(Bucket=json.loads(location)["bucket"]):
        versions.update(each["Key"].rpartition("/")[2] for each in page["Versions"])
    assert set(versions.values()) == {1}  # no object number was used twice
    ranges = ask(database_in(home), "SELECT first, last FROM object_range")
    known = {f"{number:012d}" for first, last in ranges for number in range(first, last + 1)}
    assert known <= set(versions)
    assert lost <= len(set(versions) - known) <= lost + 4  # plus at most the requests in flight at the kill
    with closing(sqlite3.connect(home / "ledger.db")) as ledger:
        (most,) = ledger.execute("SELECT sum(coalesce(objects, objects_max)) FROM placement").fetchone()
    assert most >= len(versions)  # the ledger covers all of them


def test_run_killed_while_replacing_objects_cannot_be_resumed(
    tmp_path: Path, home: Path, store: embedded.StoreProcess
) -> None:
    path = scenario(tmp_path, ADDING.replace("STEP", "new-version"))
    endpoint = ("--endpoint", store.endpoint)
    with killed(home, "run", path, *endpoint, phase=2, when=lambda: True, **keys_of(store)):
        done = archiver("resume", "latest", **keys_of(store))
    assert (done.returncode, done.stdout) == (2, "")
    assert "was interrupted in mix, which deletes or replaces objects" in done.stderr
    assert "Traceback" not in done.stderr
