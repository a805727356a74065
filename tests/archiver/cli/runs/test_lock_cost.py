"""Test `archiver run lock-cost`: every lock and every operation on the embedded store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from archiver.values.clock import now_seconds
from archiver.values.retention import DATE_TOLERANCE_SECONDS, PHASE_SECONDS_MAX
from archiver.worm.case import iso
from archiver.worm.requests.exchange import Answer, S3Client
from backends.embedded import process as embedded
from backends.s3.control import Credentials
from tests.support.commands import archiver
from tests.support.runs import TINY_LOCK_COST, keys_of, left_in, s3
from tests.support.servers.lying_client import HOLD, MODE, UNTIL, YES, Asked, Lie
from tests.support.servers.lying_server import lying_server, tell

CLOCK_SECONDS = 1.0  # error of the server's clock, which counts whole seconds
A_DAY = ("--max-retain", "25h")
NO_RULE = (
    "--set",
    "archive.locks=header,separate,header-and-hold",
)  # objects locked by the bucket's own rule remain for a day
OPERATIONS = {"archive", "query", "extend", "refused-delete", "hold", "release", "delete"}
LOCKS = {"none", "bucket-default", "header", "separate", "header-and-hold"}


def day_in(ledger: Sequence[sqlite3.Row]) -> sqlite3.Row:
    """Return the ledger row of the objects that the bucket's own rule locks for a day."""
    return next(row for row in ledger if "bucket-default" in row["phase"])


def test_every_lock_cost_operation_succeeds_and_cleanup_removes_all(home: Path, store: embedded.StoreProcess) -> None:
    keys = keys_of(store)
    done = archiver("run", "lock-cost", *TINY_LOCK_COST, *A_DAY, "--endpoint", store.endpoint, "--json", **keys)
    assert done.returncode == 0, done.stderr
    assert "locks some of them in mode GOVERNANCE" in done.stderr
    assert "objects that the bucket's own rule locks stay for 24h" in done.stderr
    ended = now_seconds()
    document = json.loads(done.stdout)
    results = document["results"]
    assert {result["operation"] for result in results} == OPERATIONS
    assert {result["lock"] for result in results if result["phase"] == "archive"} == LOCKS
    assert all(result["objects"] > 0 and result["errors"] == 0 for result in results)
    assert {result["lock"] for result in results if result["lock_ms"]} == {"separate"}
    assert document["lock_verified"] == "verified"

    ledger = left_in(home)
    by_phase = {row["phase"]: row for row in ledger if row["objects"]}
    day = day_in(ledger)
    assert day["latest_retain_until"] > day["written_at"] + 86_400
    assert day["latest_retain_until"] <= ended + 86_400 + DATE_TOLERANCE_SECONDS + CLOCK_SECONDS
    assert all(row["legal_hold"] for row in by_phase.values())  # each of them may be under hold

    assert archiver("report", document["run"]).returncode == 0
    folder = home / "runs" / document["run"] / "report"
    report = (folder / "report.md").read_text()
    for text in ("### The cost of the lock", "lock header-and-hold", "### Operations of a lock's life",
                 "figures/figure-9-lock-cost.svg"):  # fmt: skip
        assert text in report
    assert (folder / "figures" / "figure-9-lock-cost.png").exists()

    bypassed = archiver("cleanup", document["run"], "--bypass-governance", "--release-holds", **keys)
    assert bypassed.returncode == 0, bypassed.stdout + bypassed.stderr
    assert s3(store).list_buckets()["Buckets"] == []
    assert left_in(home) == []


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ((), 2, ["counts in days", "24h, longer than --max-retain 1h", "--max-retain 25h", "--set archive.locks="]),
        (("--max-retain", "23h"), 2, ["longer than --max-retain 23h"]),
        ((*A_DAY, "--retention-mode", "none"), 2, ["--retention-mode none leaves nothing to measure"]),
        ((*A_DAY, "--retention-mode", "COMPLIANCE", "--accept-locked-until", "2099-01-01T00:00:00Z"), 2,
         ["--accept-locked-until cannot bound", "leave lock bucket-default out"]),
        ((*A_DAY, "--bucket", "production"), 2, ["--bucket production", "only on a bucket that the run made"]),
    ],
)  # fmt: skip
def test_lock_beyond_agreed_limits_is_refused_before_start(
    home: Path, store: embedded.StoreProcess, options: tuple[str, ...], status: int, words: list[str]
) -> None:
    done = archiver("run", "lock-cost", *TINY_LOCK_COST, *options, "--endpoint", store.endpoint, **keys_of(store))
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
    assert s3(store).list_buckets()["Buckets"] == []
    assert left_in(home) == []


@pytest.mark.parametrize("options", [(), (*A_DAY, "--retention-mode", "none")])
def test_dry_run_of_lock_cost_refuses_options_that_a_run_refuses(options: tuple[str, ...]) -> None:
    done = archiver("run", "lock-cost", *TINY_LOCK_COST, *options, "--dry-run")
    assert done.returncode == 2
    assert "lock-cost" in done.stderr
    assert done.stdout == ""


def test_dry_run_announces_locks_of_a_day_and_legal_holds() -> None:
    done = archiver("run", "lock-cost", *TINY_LOCK_COST, *A_DAY, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "archive 8KiB x 2, 1 client, lock bucket-default" in done.stdout
    assert "objects that the bucket's own rule locks stay for 24h" in done.stdout
    assert "places a legal hold on some objects; cleanup --release-holds removes it" in done.stdout
    without = archiver("run", "lock-cost", *TINY_LOCK_COST, *NO_RULE, "--dry-run")
    assert without.returncode == 0, without.stderr
    assert "the bucket's own rule" not in without.stdout
    assert "\nlocks them in mode GOVERNANCE" in without.stdout


def test_bucket_with_default_retention_gets_no_object_without_lock(home: Path, store: embedded.StoreProcess) -> None:
    """The bucket's rule would lock such objects for 10 years."""
    client = s3(store)
    client.create_bucket(Bucket="production", ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Years": 10}}
    client.put_object_lock_configuration(
        Bucket="production", ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    for lock in ("none", "separate"):
        done = archiver(
            "run", "lock-cost", *TINY_LOCK_COST, "--set", f"archive.locks=header,{lock}", "--bucket", "production",
            "--endpoint", store.endpoint, **keys_of(store),
        )  # fmt: skip
        assert done.returncode == 2, done.stderr
        assert "locks every new object by its default retention (COMPLIANCE, 10 years)" in done.stderr
    assert "Versions" not in client.list_object_versions(Bucket="production")


def test_the_null_backend_carries_out_every_operation() -> None:
    done = archiver("run", "lock-cost", *TINY_LOCK_COST, *A_DAY, "--backend", "null", "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)["results"]
    assert {result["operation"] for result in results} == OPERATIONS
    assert all(result["objects"] > 0 and result["errors"] == 0 for result in results)


def test_tsm_backend_refuses_lock_cost(home: Path) -> None:
    done = archiver("run", "lock-cost", *TINY_LOCK_COST, *A_DAY, "--backend", "tsm")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "lock-cost: the tsm backend does not offer lock" in done.stderr
    assert left_in(home) == []


# ---- lying platforms


def answers_no_put(asked: Asked, store: Any) -> Answer:
    """Store an object that has no lock of its own, and answer with an error."""
    answer = asked.pass_on()
    return Answer(500, {}, b"") if asked.is_put and MODE not in asked.headers else answer


def locks_for_two_days(asked: Asked, store: Any) -> Answer:
    """Lock objects for longer than the bucket's rule requires."""
    if asked.is_put and MODE not in asked.headers:
        until = iso(datetime.now(UTC) + timedelta(days=2))
        return asked.changed({**asked.headers, MODE: "GOVERNANCE", UNTIL: until})
    return asked.pass_on()


@pytest.mark.parametrize("lie", [answers_no_put, locks_for_two_days])
def test_unknown_retain_until_date_is_recorded_as_latest_possible(
    home: Path, store: embedded.StoreProcess, lie: Lie
) -> None:
    honest = S3Client(store.endpoint, "us-east-1", Credentials(store.access_key, store.secret_key, None), [])
    with lying_server(honest, "") as server:
        tell(server, honest, lie, "")
        done = archiver(
            "run", "lock-cost", *TINY_LOCK_COST, *A_DAY, "--set", "archive.locks=bucket-default,header",
            "--endpoint", server.endpoint, **keys_of(store),
        )  # fmt: skip
    assert done.returncode == 1, done.stderr
    day = day_in(left_in(home))
    assert day["objects"] > 0
    assert day["latest_retain_until"] > day["written_at"] + 86_400 + PHASE_SECONDS_MAX / 2


def loses_header_locks(asked: Asked, store: Any) -> Answer:
    return asked.without(MODE, UNTIL) if asked.is_put and MODE in asked.headers else asked.pass_on()


def ignores_lock_requests(asked: Asked, store: Any) -> Answer:
    return YES if asked.sets("retention") else asked.pass_on()


def loses_holds(asked: Asked, store: Any) -> Answer:
    return asked.without(HOLD) if asked.is_put and HOLD in asked.headers else asked.pass_on()


@pytest.mark.parametrize(
    ("lie", "variant"),
    [(loses_header_locks, "header"), (ignores_lock_requests, "separate"), (loses_holds, "header-and-hold")],
)
def test_platform_that_loses_lock_of_one_variant_ends_run_there(
    home: Path, store: embedded.StoreProcess, lie: Lie, variant: str
) -> None:
    """The lock is also checked if an earlier variant of the same mode and length kept it."""
    honest = S3Client(store.endpoint, "us-east-1", Credentials(store.access_key, store.secret_key, None), [])
    with lying_server(honest, "") as server:
        tell(server, honest, lie, "")
        done = archiver("run", "lock-cost", *TINY_LOCK_COST, *NO_RULE, "--endpoint", server.endpoint, **keys_of(store))
    assert done.returncode == 1, done.stderr
    assert f"archive 8KiB x 2, 1 client, lock {variant}: the platform did not keep the lock: " in done.stderr


def test_ledger_records_later_dates_and_legal_holds_before_requests(home: Path, store: embedded.StoreProcess) -> None:
    honest = S3Client(store.endpoint, "us-east-1", Credentials(store.access_key, store.secret_key, None), [])
    seen: dict[str, list[tuple[float, bool]]] = {}

    def watches(asked: Asked, store: Any) -> Answer:
        for what in ("retention", "legal-hold"):
            if asked.sets(what) and what not in seen:
                rows = [row for row in left_in(home) if row["objects"]]
                seen[what] = [(row["latest_retain_until"] - row["written_at"], bool(row["legal_hold"])) for row in rows]
        return asked.pass_on()

    with lying_server(honest, "") as server:
        tell(server, honest, watches, "")
        done = archiver(
            "run", "lock-cost", *TINY_LOCK_COST, "--set", "archive.locks=header", "--endpoint", server.endpoint,
            **keys_of(store),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    archived_for = 300 + 3600  # retention period, and up to an hour for the phase
    assert seen["retention"]
    assert all(seconds > archived_for + 1 for seconds, _ in seen["retention"])  # later than those of the archive phase
    assert not any(held for _, held in seen["retention"])
    assert seen["legal-hold"]
    assert all(held for _, held in seen["legal-hold"])
