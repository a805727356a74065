"""Test operations that place and release event holds, from the plan to the clean-up, on the embedded store."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from botocore.exceptions import ClientError

from archiver.ledger.ledger import Ledger
from archiver.worm.case import iso, md5_of
from archiver.worm.requests.exchange import Answer, S3Client
from backends.embedded import process as embedded
from backends.s3.control import Credentials
from tests.support.commands import archiver, started
from tests.support.runs import begun, keys_of, left_in, s3
from tests.support.servers.lying_client import YES, Asked, Lie
from tests.support.servers.lying_server import lying_server, tell
from tests.support.waiting import wait_until

DAY_SECONDS = 86_400
# Place event holds on fewer objects than were archived.
SOME = ("--set", "event-hold.stop.sessions_min=2", "--set", "event-hold.stop.bytes_max=40kB")
AGREED = ("--event-hold", "1d", "--max-retain", "1d")
SWEEP = """
[[sweep]]
name = "{0}"
operation = "{0}"
object_sizes = ["8KiB"]
objects_per_session = [2]
clients = [1]
"""
HEAD = """
name = "events"
title = "Event holds"
stop = { seconds_min = "20ms", seconds_max = "50ms", warm_up_seconds = "0ms", sessions_min = 10, bytes_max = "160kB" }
"""
MIX = """
name = "events"
title = "Event holds in a mix"

[[phase]]
name = "fill"
load = true

[[phase.workload]]
name = "fill"
clients = 2
operation = "archive"
data = "files"
sizes = "8KiB"
objects = 80

[[phase]]
name = "life"

[[phase.workload]]
name = "life"
clients = 2
transactions = [
    { steps = ["event-hold", "event-hold"], share = 1 },
    { steps = ["event-release"], share = 1 },
    { steps = ["retrieve"], share = 1 },
]
data = "files"
seconds = "1s"
arrivals = { kind = "constant", per_second = 45 }
"""


def sweeps(folder: Path, *operations: str) -> str:
    """Write a scenario that archives and then carries out these operations; return its path."""
    path = folder / "events.toml"
    path.write_text(HEAD + "".join(SWEEP.format(each) for each in ("archive", *operations)))
    return str(path)


def carried_out(scenario: str, store: embedded.StoreProcess, *options: str) -> dict[str, Any]:
    done = archiver("run", scenario, *AGREED, "--endpoint", store.endpoint, "--json", *options, **keys_of(store))
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert all(result["errors"] == 0 for result in document["results"])
    return document


def locks_in(store: embedded.StoreProcess, bucket: str) -> dict[str, dict[str, Any]]:
    """Return the answer to HEAD of every object, by key."""
    client = s3(store)
    keys = [row["Key"] for row in client.list_objects_v2(Bucket=bucket)["Contents"]]
    return {key: client.head_object(Bucket=bucket, Key=key) for key in keys}


def check_delete_is_refused(store: embedded.StoreProcess, bucket: str, key: str, head: dict[str, Any]) -> None:
    with pytest.raises(ClientError, match="AccessDenied"):
        s3(store).delete_object(Bucket=bucket, Key=key, VersionId=head["VersionId"])


def audited(document: dict[str, Any], store: embedded.StoreProcess) -> tuple[int, dict[str, Any]]:
    done = archiver("audit", document["run"], "--json", **keys_of(store))
    return done.returncode, json.loads(done.stdout)


def test_placed_event_holds_block_deletion_until_cleanup_releases_them(
    home: Path, tmp_path: Path, store: embedded.StoreProcess
) -> None:
    scenario = sweeps(tmp_path, "event-hold")
    document = carried_out(scenario, store, *SOME)
    bucket, keys = document["location"]["bucket"], keys_of(store)
    (placed,) = (each for each in document["results"] if each["operation"] == "event-hold")
    heads = locks_in(store, bucket)
    held = {key for key, head in heads.items() if head.get("ObjectLockEventHold") == "ON"}
    # Archive requests place no event holds here. Only the operation and the probe object place them.
    assert len(held) >= placed["objects"] > 0
    assert len(held) < len(heads)
    assert all(heads[key]["ObjectLockEventHoldDurationDays"] == 1 for key in held)
    for key in sorted(held)[:3]:
        check_delete_is_refused(store, bucket, key, heads[key])
    status, record = audited(document, store)
    assert (status, record["findings"], record["remarks"]) == (0, [], [])
    assert (archived := next(each for each in left_in(home) if each["objects"]))["event_hold_days"] == 1
    assert archived["released_until"] is None
    (holding,) = json.loads(archiver("ledger", "--json").stdout)["holdings"]
    assert holding["state"] == "held"
    printed = archiver("report", document["run"], "--format", "text").stdout
    assert f"\n{len(held):,} of them are under event holds, or may be, without an end" in printed

    left = archiver("cleanup", document["run"], "--bypass-governance", "--release-holds", **keys)
    assert left.returncode == 0, left.stdout
    assert left_in(home) == []


def test_event_release_starts_the_agreed_retention_period(
    home: Path, tmp_path: Path, store: embedded.StoreProcess
) -> None:
    began = time.time()
    document = carried_out(sweeps(tmp_path, "event-release"), store)
    ended = time.time()
    bucket = document["location"]["bucket"]
    heads = locks_in(store, bucket)
    released = [head for head in heads.values() if head["ObjectLockEventHold"] == "OFF"]
    (result,) = (each for each in document["results"] if each["operation"] == "event-release")
    assert len(released) >= result["objects"] > 0
    for head in released:
        assert began + DAY_SECONDS - 1 <= head["ObjectLockRetainUntilDate"].timestamp() <= ended + DAY_SECONDS + 1
    rows = [row for row in left_in(home) if row["objects"]]
    assert all(row["released_until"] <= ended + DAY_SECONDS + 3 for row in rows)
    status, record = audited(document, store)
    assert (status, record["findings"], record["remarks"]) == (0, [], [])


def test_event_holds_placed_and_released_leave_no_hold(
    home: Path, tmp_path: Path, store: embedded.StoreProcess
) -> None:
    scenario = sweeps(tmp_path, "event-hold", "event-release")
    document = carried_out(scenario, store, *SOME, "--set", "event-release.stop.sessions_min=20")  # until none is held
    states = {head.get("ObjectLockEventHold") for head in locks_in(store, document["location"]["bucket"]).values()}
    assert "OFF" in states
    assert "ON" not in states
    (holding,) = json.loads(archiver("ledger", "--json").stdout)["holdings"]
    assert holding["state"] == "locked"
    assert DAY_SECONDS - 60 < holding["locked_until_epoch_seconds"] - time.time() < DAY_SECONDS + 10
    status, record = audited(document, store)
    assert (status, record["findings"], record["remarks"]) == (0, [], [])


def test_ledger_and_audit_follow_the_event_hold_of_each_object_after_a_mix(home: Path, tmp_path: Path) -> None:
    """An audit finds nothing after the run. After the catalogue was changed, it names the changed objects."""
    data, scenario = tmp_path / "store", tmp_path / "mix.toml"
    scenario.write_text(MIX)
    with embedded.start(data) as store:
        port = int(store.endpoint.rpartition(":")[2])
        document = carried_out(str(scenario), store)
        bucket = document["location"]["bucket"]
        states = {key: head.get("ObjectLockEventHold") for key, head in locks_in(store, bucket).items()}
        assert set(states.values()) == {None, "ON", "OFF"}
        with closing(Ledger(home / "ledger.db")) as ledger:
            recorded = ledger.event_holds(document["run"])
            left = sum(held for _, held in ledger.event_held(document["run"]))
        for key, state in states.items():
            number = int(key.rpartition("/")[2])
            ((_, _, found),) = recorded.parts(number, number)
            assert (found and found.is_on) == {None: None, "ON": True, "OFF": False}[state], number
        assert left == sum(state == "ON" for state in states.values())
        status, record = audited(document, store)
        assert (status, record["findings"], record["remarks"]) == (0, [], [])

    of = {state: sorted(key for key, found in states.items() if found == state) for state in (None, "ON", "OFF")}
    lost, longer, late, unasked = of["ON"][:2], of["OFF"][0], of["OFF"][1], of[None][0]
    with closing(sqlite3.connect(data / "catalogue.db")) as catalogue, catalogue:
        change = "UPDATE versions SET {} WHERE key = ?"
        for key in lost:
            catalogue.execute(change.format("event_hold = NULL"), (key,))
        catalogue.execute(change.format("until_ms = until_ms + 3600000"), (late,))
        for key in (longer, unasked):
            catalogue.execute(change.format("event_hold = 'P1D'"), (key,))
    with embedded.start(data, port=port) as store:
        status, record = audited(document, store)
    assert status == 1
    problems = {each["name"].removeprefix(f"{bucket}/"): (each["kind"], each["words"]) for each in record["findings"]}
    assert set(problems) == {*lost, longer, late, unasked}
    assert all(problems[key][0] == "unlocked" for key in lost)
    assert all("the requested event hold is missing" in problems[key][1] for key in lost)
    assert all(problems[key][0] == "longer locked" for key in (longer, late, unasked))
    assert "under an event hold that was not requested" in problems[longer][1]


@pytest.mark.parametrize("operation", ["event-hold", "event-release"])
def test_killed_run_leaves_unanswered_event_holds_in_ledger(
    home: Path, tmp_path: Path, store: embedded.StoreProcess, operation: str
) -> None:
    """The store carries out the request, but its answer never arrives."""
    honest = S3Client(store.endpoint, "us-east-1", Credentials(store.access_key, store.secret_key, None), [])
    done, release = Event(), Event()
    state = b"<EventHold>%s</EventHold>" % (b"ON" if operation == "event-hold" else b"OFF")
    asked_before = list[str]()

    def keeps_the_answer(asked: Asked, store: Any) -> Answer:
        answer = asked.pass_on()
        if asked.sets("retention") and state in asked.body:
            asked_before.append(asked.key)
            if len(asked_before) > 1:  # the first request is for the probe object
                done.set()
                release.wait()
        return answer

    with lying_server(honest, "") as server:
        tell(server, honest, keeps_the_answer, "")
        options = ("--endpoint", server.endpoint, "--set", "clients=1")
        with started("run", sweeps(tmp_path, operation), *AGREED, *options, **keys_of(store)) as process:
            wait_until(lambda: done.is_set() or process.poll() is not None, "second request for an event hold")
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        release.set()
        (row,) = (each for each in left_in(home) if each["objects"])
        run, bucket = row["run"], row["bucket"]
        assert row["event_hold_days"] == 1
        until = row["released_until"]
        heads = locks_in(store, bucket)
        changed = next(head for key, head in heads.items() if key == asked_before[1])
        assert changed["ObjectLockEventHold"] == ("ON" if operation == "event-hold" else "OFF")
        if operation == "event-release":
            assert changed["ObjectLockRetainUntilDate"].timestamp() <= until
        audit = archiver("audit", run, "--json", **keys_of(store))
        assert audit.returncode == 0, audit.stdout
        (remark,) = json.loads(audit.stdout)["remarks"]
        assert "were not compared: a phase that places or releases event holds never ended" in remark

        left = archiver("cleanup", run, "--release-holds", **keys_of(store))
        assert left.returncode == 1  # the retention period of a day has begun
        assert all(head.get("ObjectLockEventHold") != "ON" for head in locks_in(store, bucket).values())
        (holding,) = json.loads(archiver("ledger", "--json").stdout)["holdings"]
        assert holding["state"] == "locked"
        assert holding["locked_until_epoch_seconds"] <= time.time() + DAY_SECONDS + 7200
        assert archiver("cleanup", run, "--bypass-governance", **keys_of(store)).returncode == 0


def test_resumed_run_releases_event_holds_placed_before_interruption(
    home: Path, tmp_path: Path, store: embedded.StoreProcess
) -> None:
    scenario = tmp_path / "events.toml"
    long = 'stop = { seconds_min = "2s", seconds_max = "2s" }\n'
    late = SWEEP.format("archive").replace('name = "archive"', 'name = "late"')
    others = [SWEEP.format(each) for each in ("archive", "event-hold")]
    scenario.write_text(HEAD + "".join([*others, SWEEP.format("retrieve") + long, late, SWEEP.format("event-release")]))
    given = ("--order", "paper", "--endpoint", store.endpoint)
    with started("run", str(scenario), *AGREED, *SOME, *given, **keys_of(store)) as process:
        wait_until(lambda: process.poll() is not None or begun(home / "runs") >= 3, "third phase")
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 130
    done = archiver("resume", "latest", "--json", **keys_of(store))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert all(result["errors"] == 0 for result in document["results"])
    states = [head.get("ObjectLockEventHold") for head in locks_in(store, document["location"]["bucket"]).values()]
    assert "OFF" in states
    # What the rest of the run archives is under no event hold, as before the interruption.
    assert states.count(None) > states.count("ON")
    status, record = audited(document, store)
    assert (status, record["findings"], record["remarks"]) == (0, [], [])


def test_server_counts_as_many_event_hold_requests_as_were_sent(home: Path, tmp_path: Path) -> None:
    done = archiver("run", sweeps(tmp_path, "event-hold", "event-release"), *AGREED, "--platform", "embedded", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    counts = {each["operation"]: each for each in document["requests"]}
    # The requests for the probe object count too.
    assert counts["PutObjectRetention"]["sent"] > sum(each["objects"] for each in document["results"][1:]) > 0
    assert counts["PutObjectRetention"]["difference"] == counts["HeadBucket"]["difference"] == 0


def test_dry_run_announces_placed_and_released_event_holds(tmp_path: Path) -> None:
    scenario = sweeps(tmp_path, "event-hold", "event-release")
    done = archiver("run", scenario, *AGREED, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "event-hold 8KiB x 2, 1 client" in done.stdout
    assert "places event holds; after cleanup --release-holds their objects stay for 1d" in done.stdout
    assert "releases event holds; a phase that starts now and releases some asks for no lock beyond" in done.stdout
    placing = archiver("run", sweeps(tmp_path, "event-hold"), *AGREED, "--dry-run")
    assert "releases event holds" not in placing.stdout


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "have no end until their release; consent to them, and to the period that a release starts: --event-hold"),
        (("--event-hold", "1d"), "after the release of their event holds, longer than --max-retain 1h"),
        ((*AGREED, "--backend", "tsm"), "--event-hold: the tsm backend does not offer it"),
        (("--backend", "tsm"), "the tsm backend does not offer 'event-hold'"),
        (
            (*AGREED, "--retention-mode", "COMPLIANCE", "--accept-locked-until", "2099-01-01T00:00:00Z"),
            "use --retention-mode GOVERNANCE",
        ),
    ],
)
def test_event_holds_without_consent_are_refused(
    home: Path, tmp_path: Path, options: tuple[str, ...], words: str, dry: tuple[str, ...]
) -> None:
    done = archiver("run", sweeps(tmp_path, "event-hold"), *options, *dry)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert left_in(home) == []


def refuses(asked: Asked, store: Any) -> Answer:
    """Refuse event holds, as a platform does that does not support them."""
    if b"<EventHold>" in asked.body:
        return Answer(400, {}, b"<Error><Code>MalformedXML</Code><Message>No date</Message></Error>")
    return asked.pass_on()


def ignores(asked: Asked, store: Any) -> Answer:
    return YES if b"<EventHold>" in asked.body else asked.pass_on()


def ignores_releases(asked: Asked, store: Any) -> Answer:
    return YES if b"<EventHold>OFF" in asked.body else asked.pass_on()


def prolongs_releases(asked: Asked, store: Any) -> Answer:
    """Retain an object for more than the agreed period."""
    answer = asked.pass_on()
    if b"<EventHold>OFF" in asked.body:
        until = iso(datetime.now(UTC) + timedelta(days=9))
        body = f"<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>{until}</RetainUntilDate></Retention>".encode()
        query = (("retention", None),)
        longer = asked.client.honest.send(
            "PUT", asked.bucket, asked.key, query=query, headers=[("content-md5", md5_of(body))], body=body
        )
        assert longer.status == 200
    return answer


LACKING: dict[str, tuple[Lie, str, str]] = {
    "refuses": (
        refuses,
        "does not carry out 'event-hold': 400 MalformedXML: No date; check that it offers event holds",
        "locked",
    ),
    "ignores": (ignores, "the requested event hold is missing", "held"),
    "prolongs releases": (prolongs_releases, "later than the", "held"),
    "ignores releases": (ignores_releases, "under an event hold that was not requested", "held"),
}


@pytest.mark.parametrize("name", LACKING)
def test_platform_without_event_holds_is_refused_at_first_object(
    home: Path, tmp_path: Path, store: embedded.StoreProcess, name: str
) -> None:
    lie, words, state = LACKING[name]
    honest = S3Client(store.endpoint, "us-east-1", Credentials(store.access_key, store.secret_key, None), [])
    with lying_server(honest, "") as server:
        tell(server, honest, lie, "")
        done = archiver(
            "run", sweeps(tmp_path, "event-hold", "event-release"), *AGREED, "--endpoint", server.endpoint,
            **keys_of(store),
        )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert words in done.stderr
    (bucket,) = (each["Name"] for each in s3(store).list_buckets()["Buckets"])
    assert len(locks_in(store, bucket)) == 1
    (holding,) = json.loads(archiver("ledger", "--json").stdout)["holdings"]
    assert holding["state"] == state


def test_null_backend_supports_event_hold_operations(tmp_path: Path) -> None:
    done = archiver("run", sweeps(tmp_path, "event-hold", "event-release"), *AGREED, "--backend", "null", "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)["results"]
    assert [each["operation"] for each in results] == ["archive", "event-hold", "event-release"]
    assert all(each["objects"] > 0 and each["errors"] == 0 for each in results)
