"""Test `archiver cleanup` on real stores: what it removes, what it keeps, and what it reports."""

from __future__ import annotations

import fcntl
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner, Result

from archiver.cli import main
from archiver.ledger.ledger import Ledger, Placement
from backends.embedded import process as embedded
from backends.s3.keys import key_of
from results.recorded.database import FILE_NAME, LOCK_NAME
from tests.support.runs import keys_of, left_in

HOUR = 3600.0


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.StoreProcess]:
    """A running store that another owner runs."""
    with embedded.start(tmp_path_factory.mktemp("store"), credentials=["clerk:without=bypass"]) as running:
        yield running


@pytest.fixture
def keys(store: embedded.StoreProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in keys_of(store).items():
        monkeypatch.setenv(name, value)


def client_of(store: embedded.StoreProcess) -> Any:
    return boto3.client(
        "s3", endpoint_url=store.endpoint, region_name="us-east-1",
        aws_access_key_id=store.access_key, aws_secret_access_key=store.secret_key,
    )  # fmt: skip


class Runs:
    """Runs with objects in the ledger and on a store, as a real run leaves them."""

    def __init__(self, home: Path, store: embedded.StoreProcess) -> None:
        self.path, self.store, self.s3 = home / "ledger.db", store, client_of(store)
        self.name = time.strftime("%H%M%S") + f"-{time.monotonic_ns() % 10**9:09}"

    def leave(
        self, run: str, *, locked_seconds: float | None = None, ledger_seconds: float | None = None,
        hold: bool = False, bucket: str | None = None, ended: bool = True, mode: str = "GOVERNANCE", **placement: Any,
    ) -> str:  # fmt: skip
        """Archive three objects of a run and return the bucket. Server and ledger may disagree about the date."""
        created = bucket is None
        bucket = bucket or f"archiver-{run}-{self.name}"
        lock: dict[str, Any] = {"ObjectLockLegalHoldStatus": "ON"} if hold else {}
        if locked_seconds is not None:
            until = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=locked_seconds)
            lock |= {"ObjectLockMode": mode, "ObjectLockRetainUntilDate": until}
        if created:
            self.s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
        for number in range(3):
            self.s3.put_object(Bucket=bucket, Key=key_of(f"{run}/", number), Body=b"record", **lock)
        said = ledger_seconds if ledger_seconds is not None else locked_seconds
        self.note(
            Placement(
                run=run, phase="archive", backend="s3", platform=None, endpoint=self.store.endpoint,
                region="us-east-1", bucket=bucket, bucket_created=created, prefix=f"{run}/",
                retention_mode="none" if said is None else "GOVERNANCE",
                latest_retain_until=None if said is None else time.time() + said, legal_hold=hold,
                objects_max=1000, bytes_max=8000,
            ), ended=ended, **placement,
        )  # fmt: skip
        return bucket

    def note(self, placement: Placement, *, ended: bool = True, **changes: Any) -> None:
        ledger = Ledger(self.path)
        row = ledger.open_placement(replace(placement, **changes))
        if ended:
            ledger.close_placement(row, 3, 18)
        ledger.close()

    def begin(self, run: str, folder: Path, *, reads: str | None = None, ended: bool = False) -> None:
        """Record where a run writes its results, and whether it has ended."""
        ledger = Ledger(self.path)
        ledger.begin_run(run, folder / FILE_NAME, reads)
        if ended:
            ledger.end_run(run)
        ledger.close()

    def keys_in(self, bucket: str) -> int:
        return len(self.s3.list_object_versions(Bucket=bucket).get("Versions", []))

    def has(self, bucket: str) -> bool:
        return bucket in [each["Name"] for each in self.s3.list_buckets()["Buckets"]]


@pytest.fixture
def runs(home: Path, store: embedded.StoreProcess, keys: None) -> Runs:
    return Runs(home, store)


def cleanup(*arguments: str) -> Result:
    done = CliRunner().invoke(main, ["cleanup", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def change(home: Path, statement: str) -> None:
    with closing(sqlite3.connect(home / "ledger.db")) as db, db:
        db.execute(statement)


def left(home: Path) -> set[str]:
    return {row["run"] for row in left_in(home)}


# Selection of runs


def test_all_expired_removes_only_removable_runs(home: Path, runs: Runs) -> None:
    free, past = runs.leave("free"), runs.leave("past", ledger_seconds=-60)
    locked, held = runs.leave("locked", locked_seconds=HOUR), runs.leave("held", hold=True)
    done = cleanup("--all-expired")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "free: removed 3 objects (18 B), and its bucket",
        "past: removed 3 objects (18 B), and its bucket",
    ]
    assert [runs.has(each) for each in (free, past, locked, held)] == [False, False, True, True]
    assert left(home) == {"locked", "held"}

    nothing = cleanup("--all-expired")
    assert nothing.exit_code == 0
    assert "nothing can be removed now; locks asked for until 2" in nothing.stdout

    assert cleanup("--all-expired", "--release-holds").exit_code == 0
    assert left(home) == {"locked"}
    assert runs.keys_in(locked) == 3


@pytest.mark.parametrize("which", ["--all-expired", "latest"])
def test_cleanup_with_empty_ledger_reports_nothing_left(home: Path, which: str) -> None:
    done = cleanup(which)
    assert (done.exit_code, done.stdout) == (0, "nothing is left on any platform\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give either a run (its id, or `latest`) or --all-expired"),
        (("run-1", "--all-expired"), "give either a run"),
        (("--all-expired", "--bypass-governance"), "removes what has not expired; name the run"),
        (("--all-expired", "--forget"), "--forget takes one run"),
        (("run-1", "--yes"), "--yes confirms --forget"),
        (("nosuch",), "the ledger has no such run"),
    ],
)
def test_cleanup_without_exactly_one_valid_selection_is_refused(
    home: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = cleanup(*arguments)
    assert done.exit_code == 2
    assert words in done.stderr


def test_cleanup_skips_a_run_in_progress(home: Path, runs: Runs) -> None:
    bucket = runs.leave("alive")  # every phase so far has ended, but the run has not
    lock = home / "runs" / "alive" / LOCK_NAME
    runs.begin("alive", lock.parent)
    lock.parent.mkdir(parents=True)
    with lock.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = cleanup("--all-expired")
        assert done.exit_code == 0
        assert "alive: is skipped: run alive is under way" in done.stdout
        named = cleanup("alive")
        assert named.exit_code == 2
        assert "alive: nothing is removed: run alive is under way; let it end, or stop it" in named.stderr
        assert runs.keys_in(bucket) == 3
    assert "alive: removed 3 objects" in cleanup("--all-expired").stdout  # the lock is free, as after a kill


@pytest.mark.parametrize("of_another_machine", [False, True])
def test_run_whose_writer_cannot_be_seen_is_kept_for_a_day(home: Path, runs: Runs, of_another_machine: bool) -> None:
    folder = home / "elsewhere"
    bucket = runs.leave("unknown")
    runs.begin("unknown", folder)
    if of_another_machine:  # its folder was copied here, so the lock is another one
        folder.mkdir()
        (folder / LOCK_NAME).touch()
        change(home, "UPDATE run SET machine = 'another'")
    for arguments in (["unknown"], ["--all-expired"]):
        done = cleanup(*arguments)
        assert "run unknown may be in progress: it began on " in done.output
        assert f"{folder / FILE_NAME} cannot be seen here; if it was killed, try again after 2" in done.output
        assert runs.keys_in(bucket) == 3
    change(home, "UPDATE placement SET written_at = written_at - 90000")
    assert runs.keys_in(bucket) == 3  # it began today
    change(home, "UPDATE run SET begun_at = begun_at - 90000")
    assert "unknown: removed 3 objects (18 B), and its bucket" in cleanup("unknown").stdout


def test_ended_run_is_removed_although_its_results_are_gone(home: Path, runs: Runs) -> None:
    runs.leave("ended")
    runs.begin("ended", home / "elsewhere", ended=True)
    assert "ended: removed 3 objects (18 B), and its bucket" in cleanup("--all-expired").stdout


def test_objects_that_another_run_reads_are_kept(home: Path, runs: Runs) -> None:
    bucket = runs.leave("read")
    lock = home / "reader" / LOCK_NAME
    runs.begin("read", home / "read", ended=True)
    runs.begin("reader", lock.parent, reads="read")
    lock.parent.mkdir()
    with lock.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "read: nothing is removed: run reader is under way" in cleanup("read").stderr
        assert runs.keys_in(bucket) == 3
    assert cleanup("read").exit_code == 0


# Several platforms and buckets


def test_unreachable_platform_does_not_block_cleanup_of_others(home: Path, runs: Runs, tmp_path: Path) -> None:
    with embedded.start(tmp_path / "other") as other:
        gone = other.endpoint
    runs.leave("first", endpoint=gone)
    runs.leave("second")
    done = cleanup("--all-expired")
    assert done.exit_code == 1
    assert "second: removed 3 objects (18 B), and its bucket" in done.stdout
    assert f"archiver: first, bucket archiver-first-{runs.name}: {gone}: could not be reached" in done.stderr
    assert left(home) == {"first"}
    assert cleanup("--all-expired").exit_code == 3  # it is the only run left


def test_missing_bucket_does_not_block_cleanup_of_other_buckets(home: Path, runs: Runs) -> None:
    gone = runs.leave("run-1", ledger_seconds=HOUR)
    for row in runs.s3.list_object_versions(Bucket=gone)["Versions"]:
        runs.s3.delete_object(Bucket=gone, Key=row["Key"], VersionId=row["VersionId"])
    runs.s3.delete_bucket(Bucket=gone)
    second = f"second-{runs.name}"
    runs.s3.create_bucket(Bucket=second, ObjectLockEnabledForBucket=True)
    runs.leave("run-1", bucket=second)
    done = cleanup("run-1")
    assert done.exit_code == 1
    assert f"has no bucket {gone}, but objects of this run are locked there" in done.stderr
    assert "run-1: removed 3 objects (18 B)" in done.stdout
    assert [row["bucket"] for row in left_in(home)] == [gone]


def test_wrong_credentials_for_one_platform_do_not_block_others(home: Path, runs: Runs, tmp_path: Path) -> None:
    with embedded.start(tmp_path / "other") as other:
        runs.leave("theirs", endpoint=other.endpoint)
        runs.leave("ours")
        done = cleanup("--all-expired")
    assert done.exit_code == 1
    assert "ours: removed 3 objects" in done.stdout
    assert "theirs" in done.stderr
    assert "check AWS_ACCESS_KEY_ID" in done.stderr
    assert left(home) == {"theirs"}


def test_cleanup_without_credentials_removes_nothing_and_keeps_ledger(
    home: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = runs.leave("run-1")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    done = cleanup("run-1")
    assert done.exit_code == 2
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in done.stderr
    assert (left(home), runs.keys_in(bucket)) == ({"run-1"}, 3)


# Objects of other owners, and other platforms


def test_foreign_object_keeps_its_bucket_from_being_removed(home: Path, runs: Runs) -> None:
    bucket = runs.leave("run-1")
    runs.s3.put_object(Bucket=bucket, Key="theirs", Body=b"kept")
    done = cleanup("run-1")
    assert done.exit_code == 0
    assert "run-1: removed 3 objects (18 B)\n" in done.stdout
    assert f"its bucket {bucket} stays: it has content that the run did not put there" in done.stdout
    assert runs.keys_in(bucket) == 1
    assert not left(home)
    assert "removed already" in cleanup("run-1").stdout


def test_a_hold_that_the_run_did_not_place_is_not_released(home: Path, runs: Runs) -> None:
    bucket = runs.leave("run-1")
    runs.s3.put_object_legal_hold(Bucket=bucket, Key=key_of("run-1/", 1), LegalHold={"Status": "ON"})
    done = cleanup("run-1", "--release-holds")
    assert done.exit_code == 1
    assert "run-1: 1 objects remain: under hold (which the run did not place)" in done.stdout
    assert runs.keys_in(bucket) == 1
    assert left(home) == {"run-1"}


def test_same_bucket_name_on_another_platform_keeps_ledger_record(
    home: Path, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = f"production-{runs.name}"
    runs.s3.create_bucket(Bucket=shared, ObjectLockEnabledForBucket=True)
    with embedded.start(tmp_path / "other") as other:
        client_of(other).create_bucket(Bucket=shared, ObjectLockEnabledForBucket=True)
        runs.leave("run-1", locked_seconds=HOUR, bucket=shared, endpoint=other.endpoint)
        for name, value in keys_of(other).items():
            monkeypatch.setenv(name, value)
        done = cleanup("run-1", "--bypass-governance")
    assert done.exit_code == 3
    assert f"has nothing of the run in bucket {shared}, but objects of this run are locked there" in done.stderr
    assert left(home) == {"run-1"}
    assert runs.keys_in(shared) == 3


# Platforms whose data is gone


def test_run_on_platform_that_does_not_answer_is_forgotten_only_if_confirmed(
    home: Path, runs: Runs, tmp_path: Path
) -> None:
    with embedded.start(tmp_path / "other") as other:
        gone = other.endpoint
    bucket = runs.leave("run-1", locked_seconds=HOUR, endpoint=gone)
    plain = cleanup("run-1")
    assert plain.exit_code == 3
    assert "if its data is gone for good: archiver cleanup run-1 --forget" in plain.stderr
    asked = cleanup("run-1", "--forget")
    assert asked.exit_code == 3
    assert f"run-1: the ledger would forget 3 objects in bucket {bucket}; if they are gone for" in asked.stderr
    assert left(home) == {"run-1"}
    done = cleanup("run-1", "--forget", "--yes")
    assert (done.exit_code, done.stdout) == (0, f"run-1: the ledger forgot 3 objects in bucket {bucket}\n")
    assert left(home) == set()


def test_run_whose_bucket_is_missing_is_forgotten(home: Path, runs: Runs) -> None:
    bucket = runs.leave("run-1", ledger_seconds=HOUR)
    for row in runs.s3.list_object_versions(Bucket=bucket)["Versions"]:
        runs.s3.delete_object(Bucket=bucket, Key=row["Key"], VersionId=row["VersionId"])
    runs.s3.delete_bucket(Bucket=bucket)
    done = cleanup("run-1", "--forget", "--yes")
    assert done.exit_code == 0
    assert f"run-1: the ledger forgot 3 objects in bucket {bucket}" in done.stdout
    assert left(home) == set()


def test_objects_that_the_platform_still_has_are_not_forgotten(home: Path, runs: Runs) -> None:
    bucket = runs.leave("run-1", locked_seconds=HOUR)
    done = cleanup("run-1", "--forget", "--yes")
    assert done.exit_code == 1
    assert "run-1: 3 objects remain: locked until 2" in done.stdout
    assert runs.keys_in(bucket) == 3
    assert left(home) == {"run-1"}


def test_platform_that_refuses_the_credential_is_not_forgotten(
    home: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.leave("run-1", locked_seconds=HOUR)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    done = cleanup("run-1", "--forget", "--yes")
    assert done.exit_code == 3
    assert "forget" not in done.output
    assert left(home) == {"run-1"}


# Access rights and clocks


def test_credential_without_bypass_right_removes_no_locked_object(
    home: Path, runs: Runs, store: embedded.StoreProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = runs.leave("run-1", locked_seconds=HOUR)
    for name, value in keys_of(store, "clerk").items():
        monkeypatch.setenv(name, value)
    done = cleanup("run-1", "--bypass-governance")
    assert done.exit_code in (1, 3)
    assert "AccessDenied" in done.output
    assert (left(home), runs.keys_in(bucket)) == ({"run-1"}, 3)


def test_object_locked_by_server_is_kept_although_local_clock_is_ahead(home: Path, runs: Runs) -> None:
    bucket = runs.leave("run-1", locked_seconds=10 * 60, ledger_seconds=-10 * 60)  # the local clock is ahead
    done = cleanup("--all-expired")
    assert done.exit_code == 1
    assert "run-1: removed 0 objects" in done.stdout
    assert "run-1: 3 objects remain: locked until 2" in done.stdout
    assert (left(home), runs.keys_in(bucket)) == ({"run-1"}, 3)


def test_object_unlocked_by_server_is_removed_although_local_clock_is_behind(home: Path, runs: Runs) -> None:
    bucket = runs.leave("run-1", ledger_seconds=10 * 60)  # the local clock is behind
    assert "nothing can be removed now" in cleanup("--all-expired").stdout  # no removal is tried
    assert "run-1: removed 3 objects (18 B), and its bucket" in cleanup("run-1").stdout
    assert not runs.has(bucket)
    assert not left(home)


@pytest.mark.parametrize(("mode", "helps"), [("GOVERNANCE", True), ("COMPLIANCE", False)])
def test_bypass_is_suggested_only_for_governance_locks(home: Path, runs: Runs, mode: str, helps: bool) -> None:
    runs.leave("run-1", locked_seconds=HOUR, mode=mode)
    done = cleanup("run-1")
    assert done.exit_code == 1
    assert "run-1: 3 objects remain: locked until 2" in done.stdout
    assert ("--bypass-governance" in done.stdout) is helps


# Faults of the ledger


@pytest.mark.parametrize("command", ["cleanup", "ledger"])
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (b"no database " * 1000, "cannot be used: file is not a database: it is damaged; restore it from a copy"),
        (None, "has format version 99, and this Archiver reads only 6; use the Archiver that wrote it"),
    ],
)
def test_unreadable_ledger_gives_one_message_and_stays_unchanged(
    home: Path, command: str, damage: bytes | None, words: str
) -> None:
    path = home / "ledger.db"
    home.mkdir()
    if damage is None:
        db = sqlite3.connect(path)
        db.execute("PRAGMA user_version = 99")
        db.close()
    else:
        path.write_bytes(damage)
    before = path.read_bytes()
    done = CliRunner().invoke(main, [command, *(["latest"] if command == "cleanup" else [])])
    assert done.exit_code == 1
    assert words in done.stderr
    assert str(path) in done.stderr
    assert path.read_bytes() == before


def test_cleanup_removes_nothing_if_ledger_is_read_only(
    home: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = runs.leave("run-1")
    connect = sqlite3.connect

    def read_only(name: str, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(name.replace("?mode=rwc", "?mode=ro"), **options)
        return connection

    monkeypatch.setattr(sqlite3, "connect", read_only)
    done = cleanup("run-1")
    assert done.exit_code == 1
    assert "cannot be written: attempt to write a readonly database: it cannot be written; make the file" in done.stderr
    assert runs.keys_in(bucket) == 3


def test_home_that_cannot_be_created_gives_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHIVER_HOME", "/proc/nowhere")
    done = cleanup("latest")
    assert done.exit_code == 1
    assert "/proc/nowhere/ledger.db, the record of locked objects, cannot be opened: " in done.stderr
