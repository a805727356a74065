"""Test sets of applications with infrastructure operations: whole runs on the embedded store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from archiver.traces.format import TracedOperation
from backends.embedded import process as embedded
from scenarios.reading.reader import read_scenario
from scenarios.work.replay import Replay
from tests.archiver.traces.made import write
from tests.support.commands import archiver
from tests.support.runs import keys_of, left_in, s3, verdict_of_missed

SETS = """
name = "sets"
title = "Small sets"
criteria = "{criteria}"

[scale]
name = "sets"
each = "set"
values = [2]

[search]
first = 1
last = 2
repeat = 1

[[criterion]]
set = "patient"
that = "object_ms.p70 <= 60000"
all = true
[[criterion]]
set = "patient"
that = "infrastructure_ratio >= 1"
[[criterion]]
set = "impossible"
that = "object_ms.p70 <= 0.001"
all = true

[[phase]]
name = "sets"
copies = "sets"
shift = "100ms"
tolerance = "30s"
seconds = "1s"
capacity_scale = 0.5

[[phase.replay]]
name = "web"
trace = "{trace}"

[[phase.replay]]
name = "desk"
capacity = "2MB"
[phase.replay.model]
streams = 2
per_second = 20
operations = {{ archive = 50, retrieve = 50 }}
sizes = "10KiB"

[[phase.infrastructure]]
kind = "clone and deploy"
capacity = "60KB"
sizes = "8KiB"
minimum_per_hour = 6
seconds = "1s"
instances_max = 2

[[phase.infrastructure]]
kind = "storage migration"
capacity = "60KB"
sizes = "8KiB"
minimum_per_hour = 3
seconds = "1s"
instances_max = 2
"""


def scenario(folder: Path, criteria: str = "patient") -> str:
    rows = [
        TracedOperation(i * 20_000_000, operation=("retrieve", "archive")[i % 2], key=f"{i % 6}", size_bytes=3000)
        for i in range(40)
    ]
    folder = folder / criteria
    folder.mkdir()
    trace = write(folder / "web.parquet", rows)
    path = folder / "sets.toml"
    path.write_text(SETS.format(criteria=criteria, trace=trace))
    return str(path)


def run(path: str, store: embedded.StoreProcess, *more: str, status: int = 0) -> dict[str, Any]:
    consent = ("--legal-hold", "--json", "--quiet")
    done = archiver("run", path, "--endpoint", store.endpoint, *consent, *more, **keys_of(store))
    assert done.returncode == status, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_sets_with_infrastructure_operations_match_the_ledger_and_are_removed(
    tmp_path: Path, store: embedded.StoreProcess, home: Path
) -> None:
    document = run(scenario(tmp_path), store)
    results = [result for result in document["results"] if not result["is_load"]]
    assert [result["workload"] for result in results] == [
        "clone and deploy", "set 1 desk", "set 1 web", "set 2 desk", "set 2 web", "storage migration",
    ]  # fmt: skip
    assert all(result["errors"] == 0 for result in results)
    beside = {result["workload"]: result["infrastructure"] for result in results if result["infrastructure"]}
    for done in beside.values():
        assert (done["completed"], done["failed"], done["findings"]) == (2, 0, [])
    desk = next(result for result in results if result["workload"] == "set 1 desk")
    assert 1_000_000 <= desk["replayed"]["capacity_bytes"] < 1_000_000 + 10_240
    assert desk["replayed"]["capacity_scale"] == 0.5
    assert document["verdict"] == "pass"
    assert {criterion["name"]: criterion["workload"] for criterion in document["criteria"]}[
        "object_ms.p70 <= 60000 (all)"
    ] == ""
    buckets = [bucket["Name"] for bucket in s3(store).list_buckets()["Buckets"]]
    assert len(buckets) == 2
    assert {row["bucket"] for row in left_in(home)} == set(buckets)
    # Clones are removed. Migrated objects are in the second bucket, a third of them under legal hold.
    second = next(name for name in buckets if name.endswith("-second"))
    there = s3(store).list_object_versions(Bucket=second)["Versions"]
    held = [
        s3(store).head_object(Bucket=second, Key=each["Key"]).get("ObjectLockLegalHoldStatus") == "ON" for each in there
    ]
    objects = beside["storage migration"]["objects"]
    assert (len(there), sum(held)) == (2 * objects, 2 * (objects // 3))
    removed = archiver("cleanup", document["run"], "--bypass-governance", "--release-holds", **keys_of(store))
    assert removed.returncode == 0, removed.stdout + removed.stderr
    assert s3(store).list_buckets()["Buckets"] == []


def test_search_over_sets_tries_scales_up_to_the_last(tmp_path: Path, store: embedded.StoreProcess) -> None:
    document = run(scenario(tmp_path), store, "--search", "--workers", "2")
    assert document["search"]["largest"] == 2
    assert [(step["scale"], step["passed"]) for step in document["search"]["steps"]] == [(1, True), (2, True)]


def test_search_whose_first_step_misses_a_criterion_does_not_pass(tmp_path: Path) -> None:
    path = Path(scenario(tmp_path, "impossible"))
    path.write_text(path.read_text().partition("[[phase.infrastructure]]")[0])
    done = archiver("run", str(path), "--backend", "null", "--search", "--json", "--quiet")
    assert done.returncode == 1, done.stderr
    hopeless = json.loads(done.stdout)
    assert hopeless["search"]["largest"] is None
    assert hopeless["verdict"] == verdict_of_missed(hopeless)


def test_platforms_without_copies_refuse_infrastructure_by_name(tmp_path: Path) -> None:
    done = archiver("run", scenario(tmp_path), "--backend", "tsm")
    assert done.returncode == 2
    assert "clone and deploy copies objects on the platform itself, which the tsm backend does not offer" in done.stderr
    assert "leave [[phase.infrastructure]] out" in done.stderr


def test_built_in_sets_match_table_10_and_traces_can_replace_models(tmp_path: Path) -> None:
    sets = read_scenario("application-sets")
    preparation, measured = sets.phases
    assert (preparation.is_load, measured.is_load) == (True, False)
    full = {each.application: each.work for each in measured.workloads if isinstance(each.work, Replay)}
    assert len(full) == 8
    assert sum(replay.capacity_bytes or 0 for replay in full.values()) == 259_000_000_000
    assert {criterion.limit for criterion in sets.criteria if criterion.of_all} == {20}
    assert read_scenario("application-sets", overrides=["criteria=3.8"]).criteria == sets.criteria
    older = read_scenario(
        "application-sets", overrides=["criteria=3.2.12", "mail server.trace=mail.parquet", "sets.capacity_scale=0.01"]
    )
    assert {criterion.limit for criterion in older.criteria if criterion.of_all} == {30}
    for either in (sets, older):  # criteria require 6 clones and 3 migrations an hour
        assert [each.limit for each in either.criteria if each.metric == "infrastructure_ratio"] == [1]
    mail = next(each.work for each in older.phases[1].workloads if each.application == "mail server")
    assert isinstance(mail, Replay)
    assert (mail.trace, mail.model, mail.capacity_scale) == ("mail.parquet", None, 0.01)
