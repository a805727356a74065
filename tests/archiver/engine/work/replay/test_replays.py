"""Test whole replays on the embedded store, compared with its own contents, and on the null backend."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import boto3
import pyarrow.parquet as pq
import pytest

from archiver.machine.home import find_run
from archiver.traces.format import TracedOperation
from backends.embedded import process as embedded
from tests.archiver.engine.work.stalling import stall
from tests.archiver.traces.capturing import capturing
from tests.archiver.traces.made import write
from tests.support.commands import archiver, started
from tests.support.runs import begun, keys_of, s3, verdict_of_missed
from tests.support.servers import real
from tests.support.servers.fault_proxy import FaultProxy
from tests.support.servers.pretender import KEYS, pretending
from tests.support.waiting import wait_until

MS = 10**6


def op(due_ms: float, operation: str, key: str, size_bytes: int | None = None, **more: Any) -> TracedOperation:
    return TracedOperation(int(due_ms * MS), operation=operation, key=key, size_bytes=size_bytes, **more)


# Every operation. Some are due before the operation that they depend on can end.
EVERYTHING = [
    op(0, "archive", "a", 5000),
    op(0, "retrieve", "a", 5000, client=1),
    op(10, "archive", "a", 9000),
    op(10, "retrieve", "a", 9000, client=1),
    op(20, "copy", "c", source="a", client=2),
    op(20, "retrieve", "c", 9000, client=3),
    op(30, "hold", "c", client=2),
    op(30, "query", "c", client=3),
    op(40, "release", "c", client=2),
    op(50, "extend", "c", client=2),
    op(60, "archive", "d", 700, client=4),
    op(60, "delete", "d", client=5),
    op(80, "archive", "e", 700, client=4),
    op(80, "delete-marker", "e", client=5),
    op(90, "archive", "e", 800, client=4),
    op(90, "retrieve", "e", 800, client=6),
    op(100, "range-retrieve", "stock/1", 100_000, offset=10, length=100, client=6),
    op(101, "head", "stock/2", 300, client=6),
    op(102, "delete", "stock/3", 100, client=6),
    op(103, "archive", "large", 6 << 20, length=5 << 20, client=7),
    op(103, "retrieve", "large", 6 << 20, client=8),
    op(104, "archive", "empty", 0, client=8),
    op(105, "retrieve", "empty", 0, client=8),
    op(106, "list", "folder/", client=8),
    op(107, "retrieve", "missing", client=8, status=404),
    op(108, "archive", "odd\nkey/%41 ?&+ø", 10, client=8),
    op(109, "refused-delete", "stock/4", 10, client=8),
]


def replayed(
    *arguments: str, store: embedded.StoreProcess | None = None, endpoint: str | None = None, status: int = 0
) -> dict[str, Any]:
    """Run a replay and return its JSON document. ``endpoint``: used instead of the store's own."""
    on = ("--endpoint", endpoint or store.endpoint) if store is not None else ("--backend", "null")
    patient = ("--tolerance", "30s", "--legal-hold", "--json", "--quiet")  # independent of the load of this machine
    found = archiver("replay", *arguments, *on, *patient, **(keys_of(store) if store is not None else {}))
    assert found.returncode == status, found.stderr
    document: dict[str, Any] = json.loads(found.stdout)
    return document


def measured(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [result for result in document["results"] if not result["is_load"]]


def test_every_operation_is_replayed_and_its_objects_are_prepared(tmp_path: Path, store: embedded.StoreProcess) -> None:
    path = write(tmp_path / "everything.parquet", EVERYTHING)
    document = replayed(str(path), store=store)
    (result,) = measured(document)
    assert result["errors"] == 0
    assert result["verified"] == "all"
    assert (result["replayed"]["operations"], result["replayed"]["begun"]) == (25, 25)
    assert dict(result["replayed"]["left_out"]) == {"list: nothing to compare it with": 1, "failed in the trace": 1}
    asked = Counter(each.operation for each in EVERYTHING[:-1] if each.operation != "list" and not each.status)
    asked["archive"], asked["new-version"] = (asked["archive"] - 2, 2)  # two archives replace an existing or hidden one
    assert {part["operation"]: part["objects"] for part in result["parts"]} == {**asked, "refused-delete": 1}
    versions = s3(store).list_object_versions(Bucket=buckets(store)[0])
    # Three of four prepared objects remain (the trace deleted one), with 2 of a, 2 of e, c, large, empty, odd.
    # Also a probe object of the smallest size before each of the two phases: preparation and trace.
    assert Counter(each["Size"] for each in versions["Versions"]) == Counter(
        [100_000, 300, 10, 5000, 9000, 9000, 700, 800, 6 << 20, 0, 10, *probes_of(document)]
    )
    assert len(versions["DeleteMarkers"]) == 1


@pytest.mark.platforms
@pytest.mark.parametrize("platform", real.NAMES)
def test_every_operation_is_carried_out_on_real_platforms_in_two_sets(tmp_path: Path, platform: str) -> None:
    path = write(tmp_path / "everything.parquet", EVERYTHING)
    found = archiver(
        "replay",
        str(path),
        "--sets",
        "2",
        "--platform",
        platform,
        "--tolerance",
        "30s",
        "--legal-hold",
        "--json",
        "--quiet",
    )
    assert found.returncode == 0, found.stderr
    results = measured(json.loads(found.stdout))
    assert [(result["errors"], result["replayed"]["begun"]) for result in results] == [(0, 25), (0, 25)]


def probes_of(document: dict[str, Any]) -> list[int]:
    """Return the sizes of a run's probe objects."""
    with closing(sqlite3.connect(find_run(document["run"]) / "run.db")) as database:
        rows = database.execute("SELECT object_bytes, archived FROM probe").fetchall()
    return [size for size, archived in rows for _ in range(archived)]


def buckets(store: embedded.StoreProcess) -> list[str]:
    return [bucket["Name"] for bucket in s3(store).list_buckets()["Buckets"]]


def test_each_set_has_separate_objects_and_a_shifted_start(tmp_path: Path, store: embedded.StoreProcess) -> None:
    rows = [op(0, "retrieve", "there", 1000), op(1, "archive", "new", 500)]
    path = write(tmp_path / "small.parquet", rows)
    document = replayed(str(path), "--sets", "3", "--shift", "200ms", store=store)
    results = measured(document)
    assert [(result["application"], result["copy"]) for result in results] == [("small", 1), ("small", 2), ("small", 3)]
    assert [round(result["begins_seconds"], 3) for result in results] == [0.0, 0.2, 0.4]
    sizes = Counter(each["Size"] for each in s3(store).list_objects_v2(Bucket=buckets(store)[0])["Contents"])
    assert sizes == Counter({1000: 3, 500: 3}) + Counter(probes_of(document))


def test_streams_keep_their_order_and_due_times_scale_with_speed(tmp_path: Path) -> None:
    rows = [op(5 * i, "archive", f"{i}", 100 + i, client=i % 7, session=i // 70) for i in range(350)]
    path = write(tmp_path / "web.parquet", rows)
    logs = tmp_path / "log"
    (result,) = measured(replayed(str(path), "--speed", "5", "--workers", "1", "--op-log", str(logs)))
    written = operations_in(logs)
    assert [row["size_bytes"] for row in written] == [row.size_bytes for row in rows]
    first_ns = written[0]["due_ns"]
    assert [row["due_ns"] - first_ns for row in written] == [row.due_ns // 5 for row in rows]
    for client in range(7):
        mine = [row for row in written if row["client"] == written[client]["client"]]
        assert [row["size_bytes"] for row in mine] == [row.size_bytes for row in rows[client::7]]
        assert all(before["done_ns"] <= after["sent_ns"] for before, after in pairwise(mine))
    assert result["sessions"] == 35
    assert result["replayed"]["trace_seconds"] == pytest.approx(0.349)


def test_streams_sharing_objects_are_replayed_completely_by_two_workers(tmp_path: Path) -> None:
    rows = sorted(
        op(i, operation, f"{client // 2}/{i // 20}", 1000, client=client)
        for client in range(8)
        for i, operation in enumerate(["archive", "retrieve"] * 20)
    )
    path = write(tmp_path / "pairs.parquet", rows)
    (result,) = measured(replayed(str(path), "--workers", "2"))
    assert result["replayed"]["begun"] == len(rows)
    assert sum(part["objects"] for part in result["parts"]) == len(rows)


def test_platform_stall_fails_the_replay_criterion_but_does_not_void_it(
    tmp_path: Path, store: embedded.StoreProcess
) -> None:
    rows = [op(10 * i, "archive", f"{i}", 1000, client=i % 4) for i in range(200)]
    path = write(tmp_path / "steady.parquet", rows)
    stalls = stall(store.pid, "PUT", nth=10, seconds=3.0)
    with FaultProxy(int(store.endpoint.rpartition(":")[2]), asks=stalls) as proxy:
        document = replayed(str(path), store=store, endpoint=proxy.url, status=1)
    (result,) = measured(document)
    (criterion,) = document["criteria"]
    assert not criterion["passed"]
    assert -30 < criterion["measured"] < 0
    assert document["verdict"] == verdict_of_missed(document)
    assert result["replayed"]["void"] == ""
    assert result["replayed"]["waited"] > 0
    assert result["object_ms"]["max"] > 2000
    assert result["errors"] == 0


def test_a_replay_whose_client_was_too_late_is_void(tmp_path: Path) -> None:
    path = write(tmp_path / "any.parquet", [op(i, "archive", f"{i}", 100) for i in range(50)])
    found = archiver("replay", str(path), "--backend", "null", "--tolerance", "0.001ms")
    assert found.returncode == 1
    assert "void" in found.stdout.lower()
    assert "could not keep the trace's timing" in found.stdout


def test_replay_is_judged_by_criteria_of_the_command_line_too(tmp_path: Path) -> None:
    path = write(tmp_path / "any.parquet", [op(i, "archive", f"{i}", 100) for i in range(50)])
    document = replayed(str(path), "--criterion", "object_ms.max <= 0", "--criterion", "errors == 0", status=1)
    judged = {each["name"]: each["passed"] for each in document["criteria"]}
    assert judged == {"replay_margin_seconds >= 0": True, "object_ms.max <= 0": False, "errors == 0": True}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_replay_cannot_be_resumed(tmp_path: Path, home: Path, number: signal.Signals, status: int) -> None:
    path = write(tmp_path / "slow.parquet", [op(0, "archive", "a", 100), op(600_000, "archive", "b", 100)])
    with started("replay", str(path), "--backend", "null") as process:
        wait_until(lambda: begun(home / "runs") == 2, "second phase")
        process.send_signal(number)
        said = "".join(process.communicate(timeout=60))
        assert process.returncode == status, said
    assert "archiver resume" not in said
    done = archiver("resume", "latest")
    assert done.returncode == 2
    assert "a replay must be measured as a whole" in done.stderr


def test_operations_on_objects_that_failed_to_archive_are_left_out(tmp_path: Path) -> None:
    rows = [op(0, "archive", "a", 100), op(5, "retrieve", "a", 100), op(6, "copy", "b", source="a"),
            op(7, "retrieve", "b", 100)]  # fmt: skip
    path = write(tmp_path / "refused.parquet", rows)
    with pretending(objects_max=1) as (endpoint, _):  # only the probe object is accepted
        found = archiver("replay", str(path), "--endpoint", endpoint, "--json", "--quiet", **KEYS)
    assert found.returncode == 1
    (result,) = measured(json.loads(found.stdout))
    assert result["errors"] == 1
    assert dict(result["replayed"]["left_out"])["their object could not be written before"] == 3


def test_replay_fails_with_the_platforms_error_when_no_probe_is_archived(tmp_path: Path) -> None:
    path = write(tmp_path / "refused.parquet", [op(0, "archive", "a", 100)])
    with pretending(objects_max=0) as (endpoint, archived):
        found = archiver("replay", str(path), "--endpoint", endpoint, "--json", "--quiet", **KEYS)
    assert found.returncode == 1
    assert "the platform archived no probe object in 3 tries: 403 AccessDenied" in found.stderr
    document = json.loads(found.stdout)
    assert document["verdict"] == "fail"
    assert not archived
    reported = archiver("report", document["run"])
    assert reported.returncode == 0, reported.stderr


def test_captured_boto3_session_is_replayed_with_same_operations_and_gaps(
    tmp_path: Path, store: embedded.StoreProcess
) -> None:
    with capturing(tmp_path / "client.parquet", store.endpoint) as capture:
        client = client_through(capture.endpoint, store)
        client.create_bucket(Bucket="real", ObjectLockEnabledForBucket=True)
        for i in range(12):
            client.put_object(Bucket="real", Key=f"mail/{i % 8}", Body=bytes(1000 * (i + 1)))
            client.get_object(Bucket="real", Key=f"mail/{i % 8}")["Body"].read()
            client.head_object(Bucket="real", Key=f"mail/{i % 4}" if i >= 4 else "mail/0")
        client.get_object(Bucket="real", Key="mail/7", Range="bytes=100-299")["Body"].read()
        client.delete_object(Bucket="real", Key="mail/7")
        was = [row for row in capture.end() if row.key and row.operation != "other"]
    logs = tmp_path / "log"
    document = replayed(str(capture.out), "--op-log", str(logs), store=store)
    (result,) = measured(document)
    assert result["errors"] == 0
    now = operations_in(logs)
    assert [row["operation"].replace("new-version", "archive") for row in now] == [row.operation for row in was]
    assert [row["size_bytes"] for row in now if row["operation"] not in ("head", "delete-marker")] == [
        row.size_bytes for row in was if row.operation not in ("head", "delete-marker")
    ]
    assert [row["length"] for row in now if row["operation"] == "range-retrieve"] == [200]
    gaps = [after.due_ns - before.due_ns for before, after in pairwise(was)]
    assert [after["due_ns"] - before["due_ns"] for before, after in pairwise(now)] == gaps
    same = [row.key for row in was]
    names = dict(zip(same, [row["key"] for row in now], strict=True))
    assert [names[key] for key in same] == [row["key"] for row in now]
    assert len(set(names.values())) == len(set(same))


def client_through(endpoint: str, store: embedded.StoreProcess) -> Any:
    return boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=store.access_key,
        aws_secret_access_key=store.secret_key,
    )


def operations_in(logs: Path) -> list[dict[str, Any]]:
    """Return the operations of the last phase on objects, in the order of their due times."""
    log = max(logs.glob("*.parquet"), key=lambda path: path.name)
    rows: list[dict[str, Any]] = [row for row in pq.read_table(log).to_pylist() if row["key"] is not None]
    return sorted(rows, key=lambda row: row["due_ns"])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([op(5, "archive", "a", 1), op(4, "archive", "b", 1)], "row 2: is due before the row that precedes it"),
        ([op(0, "list", "a")], "nothing"),
        ([op(0, "archive", "a", 1 << 40)], "`archiver trace scale"),
    ],
)
def test_trace_that_cannot_be_replayed_is_refused_before_start(
    tmp_path: Path, rows: list[TracedOperation], message: str, home: Path
) -> None:
    path = write(tmp_path / "bad.parquet", rows)
    found = archiver("replay", str(path), "--backend", "null")
    assert found.returncode == 2
    assert "bad.parquet" in found.stderr
    assert message in found.stderr
    assert not (home / "ledger.db").exists()
    assert not list((home / "runs").glob("*"))


def test_locks_that_would_end_before_a_refused_deletion_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "long.parquet", [op(0, "head", "a", 1), op(400_000, "refused-delete", "a", 1)])
    found = archiver("replay", str(path), "--backend", "null")
    assert found.returncode == 2
    assert "--retain-for" in found.stderr
