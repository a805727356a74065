"""Test that no object is locked longer or more strongly than the user agreed, on any bucket or platform."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from archiver.ledger.holdings import gather
from archiver.ledger.ledger import Ledger, Placement
from backends.embedded import process as embedded
from tests.support.commands import archiver, started
from tests.support.runs import SIX_PHASES, TINY, begun, keys_of, left_in, s3
from tests.support.servers.pretender import KEYS, LOCK_ENABLED, pretending
from tests.support.waiting import wait_until

TEN_YEARS = timedelta(days=3650)


def make_bucket(store: embedded.StoreProcess, mode: str | None = None) -> None:
    s3(store).create_bucket(Bucket="records", ObjectLockEnabledForBucket=True)
    if mode is not None:
        set_rule(store, mode)


def set_rule(store: embedded.StoreProcess, mode: str) -> None:
    s3(store).put_object_lock_configuration(
        Bucket="records",
        ObjectLockConfiguration={
            "ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": mode, "Years": 10}}
        },
    )  # fmt: skip


def versions(store: embedded.StoreProcess) -> list[str]:
    pages = s3(store).get_paginator("list_object_versions").paginate(Bucket="records")
    return [each["Key"] for page in pages for each in page.get("Versions", [])]


@pytest.mark.parametrize("hold", [(), ("--legal-hold",)])
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_default_rule_is_refused_where_objects_carry_no_date(
    home: Path, store: embedded.StoreProcess, hold: tuple[str, ...], dry: tuple[str, ...]
) -> None:
    make_bucket(store, "COMPLIANCE")
    done = archiver(
        "run", "dr550", *TINY, "--endpoint", store.endpoint, "--bucket", "records", "--retention-mode", "none", *hold,
        *dry, **keys_of(store),
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "bucket records locks every new object by its default retention (COMPLIANCE, 10 years)" in done.stderr
    assert versions(store) == []
    assert not (home / "ledger.db").exists(), "nothing was touched, so nothing is on record"


def test_lock_of_objects_with_a_date_overrides_default_retention(home: Path, store: embedded.StoreProcess) -> None:
    make_bucket(store, "COMPLIANCE")
    done = archiver("run", "dr550", *TINY, "--endpoint", store.endpoint, "--bucket", "records", **keys_of(store))
    assert done.returncode == 0, done.stderr
    found = {
        s3(store).get_object_retention(Bucket="records", Key=key)["Retention"]["Mode"] for key in versions(store)[:5]
    }
    assert found == {"GOVERNANCE"}


def test_default_retention_set_after_interruption_is_refused_on_resume(
    home: Path, store: embedded.StoreProcess
) -> None:
    make_bucket(store)
    options = ("--endpoint", store.endpoint, "--bucket", "records", "--retention-mode", "none")
    endless = ("--set", "archive.stop.seconds_min=1h", "--set", "archive.stop.seconds_max=1h")
    phases = [each for each in SIX_PHASES if each not in ("--retain-for", "20s")]
    with started(*phases, *endless, *options, **keys_of(store)) as process:
        wait_until(lambda: process.poll() is not None or begun(home / "runs") == 1, "first phase")
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 130
    set_rule(store, "COMPLIANCE")
    before = len(versions(store))

    done = archiver("resume", "latest", **keys_of(store))
    assert done.returncode == 2, done.stderr
    assert "locks every new object by its default retention (COMPLIANCE, 10 years)" in done.stderr
    assert len(versions(store)) == before, "the run that was refused archived something"


def ten_years_later(asked: dict[str, str]) -> dict[str, str]:
    date = datetime.fromisoformat(asked["retain-until-date"]) + TEN_YEARS
    return {**asked, "retain-until-date": date.strftime("%Y-%m-%dT%H:%M:%SZ")}


WRONG: dict[str, tuple[Callable[[dict[str, str]], dict[str, str]], str]] = {
    "longer": (ten_years_later, "later than the"),
    "stronger": (lambda asked: {**asked, "mode": "COMPLIANCE"}, "its mode is COMPLIANCE, not GOVERNANCE"),
    "held": (lambda asked: {**asked, "legal-hold": "ON"}, "under a legal hold that this run did not request"),
    "missing": (lambda asked: {}, "the platform reports no mode, not GOVERNANCE"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_lock_ends_the_run_after_one_object(home: Path, name: str) -> None:
    lock, words = WRONG[name]
    with pretending(lock=staticmethod(lock)) as (endpoint, archived):
        done = archiver("run", "dr550", *TINY, "--endpoint", endpoint, "--json", **KEYS)
    assert done.returncode == 1, done.stderr
    assert "did not keep the lock" in done.stderr
    assert words in done.stderr
    assert "archiver resume" not in done.stderr, "it would be refused for the same reason"
    assert len(archived) == 1, "clients started although the first lock was wrong"
    document = json.loads(done.stdout)
    assert document["doubts"][0].startswith("the lock did not hold")
    (row,) = [row for row in left_in(home) if row["phase"] != "prepare"]
    assert row["objects"] == 1
    with closing(Ledger(home / "ledger.db")) as ledger:
        (holding,) = gather(ledger.placements(row["run"]))
    until = holding.locked_until
    assert until is not None
    far = datetime.fromtimestamp(until, UTC) > datetime.now(UTC) + TEN_YEARS - timedelta(1)
    assert far == (name == "longer"), "the ledger does not say what the platform said"
    assert ("COMPLIANCE" in holding.modes) == (name == "stronger")
    assert holding.is_held == (name == "held")


def test_missing_event_hold_ends_the_run_after_one_object(home: Path) -> None:
    with pretending() as (endpoint, archived):  # the server keeps only mode, date and legal hold
        done = archiver(
            "run", "dr550", *TINY, "--endpoint", endpoint, "--event-hold", "1d", "--max-retain", "1d", **KEYS
        )
    assert done.returncode == 1, done.stderr
    assert "the requested event hold is missing" in done.stderr
    assert len(archived) == 1


def test_each_endpoint_is_probed(home: Path) -> None:
    with pretending() as (honest, _), pretending(lock=staticmethod(ten_years_later)) as (other, archived):
        done = archiver("run", "dr550", *TINY, "--endpoint", honest, "--endpoint", other, **KEYS)
    # Locks are read back through the first endpoint, which does not know the objects of the second.
    assert done.returncode == 1
    assert "did not keep the lock" in done.stderr
    assert len(archived) == 1


def test_no_client_starts_if_probe_object_cannot_be_archived(home: Path, store: embedded.StoreProcess) -> None:
    make_bucket(store)
    with embedded.start(home / "weak", credentials=["weak:without=retention"]) as weak:
        s3(weak).create_bucket(Bucket="records", ObjectLockEnabledForBucket=True)
        done = archiver(
            "run", "dr550", *TINY, "--endpoint", weak.endpoint, "--bucket", "records", "--json",
            **keys_of(weak, "weak"),
        )  # fmt: skip
        assert versions(weak) == []
    assert done.returncode == 1
    (result,) = json.loads(done.stdout)["results"]
    assert (result["objects"], result["attempts"], result["errors"]) == (0, 3, 3)
    assert "the platform archived no probe object in 3 tries: 403 AccessDenied" in done.stderr


def test_a_clock_far_ahead_is_refused_before_anything_is_archived(home: Path) -> None:
    with pretending(clock_ahead=TEN_YEARS) as (endpoint, archived):
        done = archiver("run", "dr550", *TINY, "--endpoint", endpoint, **KEYS)
        assert done.returncode == 2, done.stderr
        year = datetime.now(UTC).year
        assert f"the platform's clock says {(datetime.now(UTC) + TEN_YEARS).year}-" in done.stderr
        assert f"this machine's {year}-" in done.stderr
        assert "--accept-server-clock" in done.stderr
        assert not archived
        assert not (home / "ledger.db").exists()


def test_announcement_and_ledger_follow_an_accepted_server_clock(home: Path) -> None:
    far = (datetime.now(UTC) + TEN_YEARS).year
    with pretending(clock_ahead=TEN_YEARS) as (endpoint, archived):
        done = archiver("run", "dr550", *TINY, "--endpoint", endpoint, "--accept-server-clock", **KEYS)
    assert f"asks for no lock beyond {far}-" in done.stderr
    assert "dates follow the platform's clock, which is 10y ahead of this machine's" in done.stderr
    assert archived
    dates = [row["latest_retain_until"] for row in left_in(home) if row["objects"]]
    assert dates
    assert all(datetime.fromtimestamp(date, UTC).year == far for date in dates)


@pytest.mark.parametrize("minutes", [-14, 14])
def test_clock_difference_below_15_minutes_needs_no_consent(home: Path, minutes: int) -> None:
    with pretending(clock_ahead=timedelta(minutes=minutes)) as (endpoint, _):
        done = archiver("run", "dr550", *TINY, "--endpoint", endpoint, "--dry-run", **KEYS)
    assert done.returncode == 0, done.stderr


def test_ledger_records_bucket_before_it_is_created(home: Path) -> None:
    with pretending(refuses_buckets=True) as (endpoint, _):
        done = archiver("run", "dr550", *TINY, "--endpoint", endpoint, **KEYS)
    assert done.returncode == 3
    (row,) = left_in(home)
    assert (row["phase"], row["objects"]) == ("prepare", 0)


REFUSED_ALIKE = {
    "address": (["--endpoint", "localhost:9000"], 2),
    "hold on tsm": (["--backend", "tsm", "--legal-hold"], 2),
    "event hold on tsm": (["--backend", "tsm", "--event-hold", "1d", "--max-retain", "1d"], 2),
    "event hold under COMPLIANCE": (
        [
            "--event-hold", "1d", "--max-retain", "1d", "--retention-mode", "COMPLIANCE", "--accept-locked-until",
            "2099-01-01T00:00:00Z",
        ], 2
    ),
    "class": (["--backend", "tsm", "--management-class", "NOSUCH"], 2),
    "event class": (["--backend", "tsm", "--management-class", "EVENT"], 2),
    "node": (["--backend", "tsm", "--tsm-server", "127.0.0.1:1"], 2),
    "password": (
        ["--backend", "tsm", "--tsm-server", "127.0.0.1:1", "--tsm-node", "N", "--tsm-password-file", "no"], 2
    ),
    "stanza": (["--backend", "tsm", "--tsm-server", "NOSUCH"], 3),
    "nobody there": (["--endpoint", "http://127.0.0.1:1"], 3),
    "five years": (["--retain-for", "5y"], 2),
    "beyond the client": (["--backend", "null", "--workers", "1", "--set", "clients=1000000"], 2),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_ALIKE)
def test_dry_run_refuses_with_same_message_as_run(home: Path, name: str) -> None:
    options, status = REFUSED_ALIKE[name]
    run, dry = (archiver("run", "dr550", *TINY, *options, *each, **KEYS) for each in ((), ("--dry-run",)))
    assert (run.returncode, dry.returncode) == (status, status), (run.stderr, dry.stderr)
    assert run.stderr == dry.stderr
    assert "asks for no lock beyond" not in run.stderr, "it was announced before it was checked"


def test_durations_are_printed_in_years_and_days(home: Path) -> None:
    done = archiver("run", "dr550", *TINY, "--retain-for", "5y", "--max-retain", "30d", "--dry-run")
    assert "objects would be locked for 5y, longer than --max-retain 30d" in done.stderr


def test_ledger_keeps_strongest_lock_seen_in_addition_to_agreed_lock(tmp_path: Path) -> None:
    with closing(Ledger(tmp_path / "ledger.db")) as ledger:
        place = Placement(
            "r", "p", "s3", None, "http://h", "us-east-1", "b", True, "r/", "none", None, False, 1, 8
        )  # fmt: skip
        row = ledger.open_placement(place)
        ledger.observe([row], "COMPLIANCE", 2e9, on_hold=True)
        ledger.close_placement(row, 1, 8)
        ledger.observe([row], "GOVERNANCE", 1e9)
        (found,) = ledger.placements("r")
    assert (found.mode, found.locked_until, found.is_held) == ("COMPLIANCE", 2e9, True)
    assert (found.retention_mode, found.latest_retain_until, found.legal_hold) == ("none", None, False), "agreed"


def test_conformance_checks_refuse_server_clock_far_ahead(home: Path) -> None:
    with pretending(clock_ahead=TEN_YEARS) as (endpoint, archived):
        done = archiver("worm", "--endpoint", endpoint, "--check", "DEL-02", **KEYS)
    assert done.returncode == 2, done.stderr
    assert "--accept-server-clock" in done.stderr
    assert not archived
    assert not left_in(home)


def test_conformance_checks_refuse_new_buckets_with_default_retention(home: Path) -> None:
    rule = b"<Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Years>10</Years></DefaultRetention></Rule>"
    with pretending(configuration=LOCK_ENABLED.replace(b"</ObjectLockC", rule + b"</ObjectLockC")) as (endpoint, kept):
        done = archiver("worm", "--endpoint", endpoint, "--check", "DEL-02", **KEYS)
    assert done.returncode == 2, done.stderr
    assert "locks every new object by its default retention (COMPLIANCE, 10 years)" in done.stderr
    assert not kept


def test_cleanup_records_later_retain_until_date_in_ledger(home: Path, store: embedded.StoreProcess) -> None:
    make_bucket(store)
    done = archiver(
        "run", "dr550", *TINY, "--endpoint", store.endpoint, "--bucket", "records", "--retain-for", "2s", "--json",
        **keys_of(store),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
    s3(store).put_object_retention(
        Bucket="records", Key=versions(store)[-1], Retention={"Mode": "GOVERNANCE", "RetainUntilDate": later}
    )
    run = json.loads(done.stdout)["run"]
    left = archiver("cleanup", run, **keys_of(store))
    assert left.returncode == 1
    with closing(Ledger(home / "ledger.db")) as ledger:
        (holding,) = gather(ledger.placements(run))
    assert holding.locked_until == later.timestamp()


def test_audit_records_later_retain_until_date_in_ledger(home: Path, store: embedded.StoreProcess) -> None:
    make_bucket(store)
    done = archiver(
        "run", "dr550", *TINY, "--endpoint", store.endpoint, "--bucket", "records", "--json", **keys_of(store)
    )
    assert done.returncode == 0, done.stderr
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
    s3(store).put_object_retention(
        Bucket="records", Key=versions(store)[0], Retention={"Mode": "GOVERNANCE", "RetainUntilDate": later}
    )
    run = json.loads(done.stdout)["run"]
    for _ in range(2):  # the agreed date stays, so a second audit has the same finding
        audited = archiver("audit", run, **keys_of(store))
        assert audited.returncode == 1
        assert "longer locked" in audited.stdout
    with closing(Ledger(home / "ledger.db")) as ledger:
        (holding,) = gather(ledger.placements(run))
    assert holding.locked_until == later.timestamp()
