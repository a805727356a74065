"""Test that `archiver cleanup` touches nothing of others, whatever a platform answers, and forgets no hold."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from archiver.cli import main
from archiver.ledger.ledger import Ledger, Placement
from backends.embedded import process as embedded
from backends.s3.keys import key_of
from tests.support.commands import archiver, started
from tests.support.runs import TINY, ask, keys_of, left_in, s3
from tests.support.servers.hostile import Answer, Asked, Hostile, PassOn, Version, error, hostile
from tests.support.waiting import wait_until

BUCKET, PREFIX = "shared", "run-1/"
SMALL = ("--set", "stop.bytes_max=24MB")
NUMBERS = 3000  # that the run may have used


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "any")


@pytest.fixture
def leave(home: Path) -> Callable[..., None]:
    """Return a function that records a run in the ledger, and stores its objects of these numbers."""

    def leave_run(
        server: Hostile, *numbers: int, created: bool = False, hold: bool = False, locked: bool = False,
        event_hold: bool = False,
    ) -> None:  # fmt: skip
        until = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
        lock = {"mode": "GOVERNANCE", "retain_until_date": until.isoformat()} if locked else {}
        lock |= {"legal_hold": "ON"} if hold else {}
        for number in numbers:
            server.put(BUCKET, key_of(PREFIX, number), b"record", **lock)
        ledger = Ledger(home / "ledger.db")
        placement = Placement(
            run="run-1", phase="archive", backend="s3", platform=None, endpoint=server.endpoint, region="us-east-1",
            bucket=BUCKET, bucket_created=created, prefix=PREFIX, retention_mode="GOVERNANCE" if locked else "none",
            latest_retain_until=until.timestamp() if locked else None, legal_hold=hold,
            objects_max=NUMBERS - 1000, bytes_max=8000, first_number=1000,
            event_hold_days=2 if event_hold else None,
        )  # fmt: skip
        ledger.close_placement(ledger.open_placement(placement), len(numbers), 6 * len(numbers))
        ledger.close()

    return leave_run


def cleanup(*options: str) -> Result:
    done = CliRunner().invoke(main, ["cleanup", "run-1", *options])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def keys_in(server: Hostile) -> list[str]:
    return sorted(each.key for each in server.buckets[BUCKET].versions)


def changes(server: Hostile) -> list[str]:
    """Return the requests that change something."""
    return [asked.method for asked in server.log if asked.method not in ("GET", "HEAD")]


# Listings


def test_listing_with_keys_of_others_ends_cleanup_before_anything_is_deleted(
    home: Path, leave: Callable[..., None]
) -> None:
    with hostile("ignores the prefix of listings") as server:
        leave(server, *range(2200), locked=True)  # the keys of others are on the third page
        server.put(BUCKET, "zebra", b"theirs")
        before = keys_in(server)
        done = cleanup("--bypass-governance")
        assert done.exit_code == 3
        assert f"bucket {BUCKET} has key zebra, although only keys under {PREFIX} were requested" in done.stderr
        assert (keys_in(server), changes(server)) == (before, [])
    assert len(left_in(home)) == 1


@pytest.mark.parametrize(("marker", "words"), [(True, "never ends"), (False, "is incomplete")])
def test_endless_and_broken_listings_end_cleanup(
    home: Path, leave: Callable[..., None], marker: bool, words: str
) -> None:
    with hostile("repeats the markers of listings", marker=marker) as server:
        leave(server, 0, created=True)
        done = cleanup()
        assert done.exit_code == 3
        assert f"the listing of bucket {BUCKET} {words}" in done.stderr
        assert changes(server) == []
        assert len(server.log) < 10
    assert len(left_in(home)) == 1


def test_keys_that_the_run_did_not_give_stay_and_keep_the_bucket(home: Path, leave: Callable[..., None]) -> None:
    """One has another form, one a number that the ledger excludes, and one is an upload."""
    with hostile("deletes a bucket with everything in it") as server:
        leave(server, 0, NUMBERS - 1, created=True)
        other = [f"{PREFIX}notes.txt", f"{PREFIX}7", f"{PREFIX}{7:012d}/7", key_of(PREFIX, NUMBERS)]
        for key in other:
            server.put(BUCKET, key, b"theirs")
        server.put(BUCKET, other[0], b"theirs, again")
        uploads = server.buckets[BUCKET].uploads
        uploads.update(mine=(key_of(PREFIX, 1), {}, {}), theirs=(other[0], {}, {}))
        done = cleanup("--bypass-governance", "--release-holds")
        assert done.exit_code == 0, done.output
        assert f"run-1: removed 2 objects (12 B)\nrun-1: its bucket {BUCKET} stays: it has content" in done.stdout
        assert f"run-1: 4 keys under {BUCKET}/{PREFIX} are not the run's: left" in done.stdout
        assert keys_in(server) == sorted([*other, other[0]])
        assert list(uploads) == ["theirs"]
        assert not server.setting.get("deleted")
    assert not left_in(home)


def test_upload_of_another_owner_keeps_the_bucket(home: Path, leave: Callable[..., None]) -> None:
    with hostile("deletes a bucket with everything in it") as server:
        leave(server, 0, created=True)
        server.buckets[BUCKET].uploads.update(theirs=("contract", {}, {}))
        done = cleanup()
        assert f"run-1: its bucket {BUCKET} stays: it has content that the run did not put there" in done.stdout
        assert not server.setting.get("deleted")


def test_many_versions_and_markers_are_removed_in_a_bounded_number_of_requests(
    home: Path, leave: Callable[..., None]
) -> None:
    with hostile() as server:
        leave(server, *[0] * 2500, created=True)
        server.buckets[BUCKET].versions += [
            Version(key_of(PREFIX, number), server.next_id(), b"", {}, is_marker=True) for number in range(1, 1501)
        ]
        done = cleanup()
        assert done.exit_code == 0, done.output
        assert "run-1: removed 4,000 objects (15.0 kB), and its bucket" in done.stdout
        assert changes(server).count("POST") == 4
        assert len(server.log) < 20
        assert not server.buckets


# Deletions and releases


def test_answer_about_a_key_that_was_not_to_be_deleted_ends_cleanup(home: Path, leave: Callable[..., None]) -> None:
    with hostile("names a key of another owner in the answer to a deletion") as server:
        leave(server, 0, 1, hold=True)
        theirs = server.put(BUCKET, "contract", b"theirs", legal_hold="ON")
        server.setting["named"] = (theirs.key, theirs.id)
        done = cleanup("--release-holds", "--bypass-governance")
        assert done.exit_code == 3
        assert "answered a deletion with an error about contract, which was not to be deleted" in done.stderr
        assert theirs in server.buckets[BUCKET].versions
        assert theirs.headers["x-amz-object-lock-legal-hold"] == "ON"
    assert len(left_in(home)) == 1


def test_release_that_one_object_refuses_does_not_stop_the_others(home: Path, leave: Callable[..., None]) -> None:
    with hostile("refuses to release holds", held=[key_of(PREFIX, 1)]) as server:
        leave(server, *range(4), hold=True)
        done = cleanup("--release-holds")
        assert done.exit_code == 1
        assert "run-1: removed 3 objects (18 B)" in done.stdout
        assert "run-1: 1 objects remain: under hold (--release-holds), the release of 1 holds is not" in done.stdout
        assert "the platform answered: release the legal hold: AccessDenied" in done.stdout
        assert keys_in(server) == [key_of(PREFIX, 1)]
    (row,) = left_in(home)
    assert row["legal_hold"] == 1


@pytest.mark.parametrize(
    ("modes", "options"),
    [
        (("refuses to release holds", "hides locks"), {"hold": True, "locked": True}),
        (("acknowledges the release of holds and keeps them", "hides locks"), {"hold": True}),
        (("acknowledges the release of holds and keeps them",), {"hold": True, "locked": True}),
        (("hides locks",), {"event_hold": True, "locked": True}),
    ],
)
def test_ledger_keeps_a_hold_whose_release_is_not_confirmed(
    home: Path, leave: Callable[..., None], modes: tuple[str, ...], options: dict[str, bool]
) -> None:
    with hostile(*modes) as server:
        leave(server, *range(20), **options)
        before = left_in(home)
        done = cleanup("--release-holds")
        assert done.exit_code == 1
        assert "run-1: 20 objects remain: " in done.stdout
    assert list(map(tuple, left_in(home))) == list(map(tuple, before))


def test_ledger_records_a_confirmed_release(home: Path, leave: Callable[..., None]) -> None:
    with hostile() as server:
        leave(server, *range(3), hold=True, locked=True)
        assert "run-1: 3 objects remain: locked until 2" in cleanup("--release-holds").stdout
    (row,) = left_in(home)
    assert row["legal_hold"] == 0


def test_holds_are_released_and_read_back_several_at_a_time(home: Path, leave: Callable[..., None]) -> None:
    pairs = {"PUT": threading.Barrier(2), "HEAD": threading.Barrier(2)}

    def in_pairs(asked: Asked, pass_on: PassOn) -> Answer:
        """Answer when another such request has come; refuse if none comes."""
        try:
            pairs[asked.method].wait(timeout=20)
        except threading.BrokenBarrierError:
            return error(503, "SlowDown", "one request at a time")
        return pass_on(asked)

    def is_about_hold(asked: Asked) -> bool:
        return bool(asked.key) and (asked.method == "HEAD" or "legal-hold" in asked.query)

    with hostile("answers chosen requests otherwise", chosen=is_about_hold, otherwise=in_pairs) as server:
        leave(server, *range(4), hold=True, locked=True)
        done = cleanup("--release-holds")
    assert "run-1: 4 objects remain: locked until 2" in done.stdout
    assert "one request at a time" not in done.stdout
    (row,) = left_in(home)
    assert row["legal_hold"] == 0


# Runs in progress


def test_cleanup_leaves_a_run_in_progress_alone_that_shares_the_bucket(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its results are elsewhere, and a folder of its name is in the current folder."""
    monkeypatch.chdir(tmp_path)
    with embedded.start(tmp_path / "store") as store:
        s3(store).create_bucket(Bucket=BUCKET, ObjectLockEnabledForBucket=True)
        place = ("--endpoint", store.endpoint, "--bucket", BUCKET)
        first = archiver("run", "dr550", *TINY, *place, **keys_of(store))
        assert first.returncode == 0, first.stderr
        (run,) = [each.name for each in (home / "runs").iterdir()]
        out = ("--out", str(tmp_path / "elsewhere"), "--repeat", "99", "--order", "paper", *SMALL)
        with started("run", "dr550", *TINY, *place, *out, **keys_of(store)) as second:

            def retrieved() -> int:
                assert second.poll() is None, second.communicate()
                statement = "SELECT position FROM result WHERE operation = 'retrieve'"
                return sum(len(ask(path, statement)) for path in (tmp_path / "elsewhere").glob("*/run.db"))

            wait_until(retrieved, "retrieve phase")
            (path,) = (tmp_path / "elsewhere").glob("*/run.db")
            (tmp_path / path.parent.name).mkdir()
            refused = archiver("cleanup", path.parent.name, "--bypass-governance", **keys_of(store))
            assert refused.returncode == 2
            assert f"nothing is removed: run {path.parent.name} is under way" in refused.stderr
            removed = archiver("cleanup", run, "--bypass-governance", **keys_of(store))
            assert removed.returncode == 0, removed.stderr
            before = retrieved()
            wait_until(lambda: retrieved() > before + 1, "later retrieve phase")
            second.send_signal(signal.SIGINT)
            second.communicate()
        assert ask(path, "SELECT reason, message FROM error") == []
        listed = s3(store).list_object_versions(Bucket=BUCKET)["Versions"]
        assert listed
        assert all(each["Key"].startswith(f"{path.parent.name}/") for each in listed)
        assert {row["run"] for row in left_in(home)} == {path.parent.name}
