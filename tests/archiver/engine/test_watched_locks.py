"""Test that a run sees a lock that is not as agreed at any time, and ends there with the lock in its ledger."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from archiver.ledger.holdings import Holding, gather
from archiver.ledger.ledger import Ledger
from archiver.traces.format import TracedOperation
from tests.archiver.traces.made import write
from tests.support.commands import archiver
from tests.support.servers.hostile import Hostile, hostile

FAR = "2036-01-01T00:00:00Z"
FAR_SECONDS = 2_082_758_400.0
STOP = """
[stop]
warm_up_seconds = "20ms"
seconds_min = "100ms"
seconds_max = "200ms"
"""
ARCHIVE = """
[[sweep]]
name = "archive"
operation = "archive"
object_sizes = ["8KiB"]
objects_per_session = [2]
clients = [1]
"""
RETRIEVE = ARCHIVE.replace("archive", "retrieve")
UPLOADS = """
[[phase]]
name = "mix"
[[phase.workload]]
name = "all"
operation = "archive"
data = "all"
sizes = "6MiB"
part = "5MiB"
clients = 1
objects = 2
"""
COPIES = (
    UPLOADS.replace("6MiB", "8KiB")
    + """
[[phase]]
name = "copies"
[[phase.workload]]
name = "copy"
operation = "copy"
data = "all"
sizes = "8KiB"
clients = 1
seconds = "300ms"
bytes_max = "100KiB"
"""
)
WRONG: dict[str, tuple[dict[str, str], str]] = {
    "longer": ({"retain-until-date": FAR}, f"it is locked until {FAR}, later than the requested"),
    "stronger": ({"mode": "COMPLIANCE"}, "its mode is COMPLIANCE, not GOVERNANCE"),
    "held": ({"legal-hold": "ON"}, "under a legal hold that this run did not request"),
    "missing": ({"mode": "", "retain-until-date": ""}, "the platform reports no mode, not GOVERNANCE"),
}


def run(server: Hostile, folder: Path, work: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run a scenario with this work."""
    path = folder / "locks.toml"
    path.write_text(f'name = "locks"\ntitle = "Locks"\n{work}')
    return archiver("run", str(path), "--endpoint", server.endpoint, "--json", *more, **server.keys)


def holding(home: Path, run_id: str) -> Holding:
    with closing(Ledger(home / "ledger.db")) as ledger:
        (found,) = gather(ledger.placements(run_id))
    return found


def assert_ended_by(done: subprocess.CompletedProcess[str], words: str) -> dict[str, Any]:
    assert done.returncode == 1, done.stderr
    assert "the platform did not keep the lock" in done.stderr
    assert words in done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert words in document["lock_verified"]
    assert document["doubts"][0].startswith("the lock did not hold")
    return document


def assert_recorded(home: Path, document: dict[str, Any], name: str) -> None:
    left = holding(home, document["run"])
    assert (left.locked_until == FAR_SECONDS) == (name == "longer")
    assert ("COMPLIANCE" in left.modes) == (name == "stronger")
    assert left.is_held == (name == "held")


@pytest.mark.parametrize("name", WRONG)
def test_locks_that_change_after_the_probe_end_the_run_after_the_phase(home: Path, tmp_path: Path, name: str) -> None:
    lock, words = WRONG[name]
    with hostile("changes locks from an object on", from_object=5, lock=lock) as server:
        done = run(server, tmp_path, STOP + ARCHIVE + RETRIEVE)
    document = assert_ended_by(done, words)
    assert {each["operation"] for each in document["results"]} == {"archive"}, "a phase began afterwards"
    assert_recorded(home, document, name)


@pytest.mark.parametrize("name", WRONG)
def test_answers_to_reads_that_show_another_lock_end_the_run(home: Path, tmp_path: Path, name: str) -> None:
    shown, words = WRONG[name]
    with hostile("shows another lock on reads", from_read=5, shown=shown) as server:
        done = run(server, tmp_path, STOP + ARCHIVE + RETRIEVE)
    document = assert_ended_by(done, words)
    assert "(retrieve)" in document["lock_verified"]
    (result,) = [each for each in document["results"] if each["operation"] == "retrieve"]
    assert result["errors"] > 0
    assert_recorded(home, document, name)


def test_platform_that_shows_no_lock_in_answers_to_get_is_not_accused(home: Path, tmp_path: Path) -> None:
    with hostile("shows another lock on reads", from_read=1, shown=WRONG["missing"][0]) as server:
        done = run(server, tmp_path, STOP + ARCHIVE + RETRIEVE)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["lock_verified"] == "verified"
    assert not any(result["errors"] for result in document["results"])


def test_default_rule_set_during_the_last_phase_ends_the_run(home: Path, tmp_path: Path) -> None:
    with hostile("gets a default rule", rule_at=5) as server:
        done = run(server, tmp_path, STOP + ARCHIVE, "--retention-mode", "none")
    assert done.returncode == 1, done.stderr
    assert "locks every new object by its default retention (COMPLIANCE, 10 years)" in done.stderr


@pytest.mark.parametrize("work", [UPLOADS, COPIES], ids=["uploads", "copies"])
def test_wrong_locks_of_uploads_and_copies_end_the_run(home: Path, tmp_path: Path, work: str) -> None:
    with hostile("changes the locks of copies and uploads", lock={"retain-until-date": FAR}) as server:
        done = run(server, tmp_path, work)
    assert_recorded(home, assert_ended_by(done, WRONG["longer"][1]), "longer")


def test_replay_of_a_captured_retention_of_years_locks_by_the_run(home: Path, tmp_path: Path) -> None:
    years: dict[str, Any] = {"retention_mode": "COMPLIANCE", "retain_for_seconds": 10 * 365 * 86_400.0}
    rows = [
        TracedOperation(0, operation="archive", key="a", size_bytes=8192, legal_hold=True, **years),
        TracedOperation(10**8, operation="retrieve", key="a", size_bytes=8192),
        TracedOperation(2 * 10**8, operation="extend", key="a", **years),
    ]
    path = write(tmp_path / "years.parquet", rows)
    with hostile() as server:
        done = archiver("replay", str(path), "--tolerance", "30s", "--endpoint", server.endpoint, **server.keys)
        assert done.returncode == 0, done.stderr
        kept = [each for bucket in server.buckets.values() for each in bucket.versions]
    assert {each.headers["x-amz-object-lock-mode"] for each in kept} == {"GOVERNANCE"}
    assert not any("x-amz-object-lock-legal-hold" in each.headers for each in kept)
    dates = [each.locked_until for each in kept]
    assert all(date is not None and date < datetime.now(UTC) + timedelta(hours=1) for date in dates)


def test_legal_holds_of_a_scenario_require_consent(home: Path, tmp_path: Path) -> None:
    holds = STOP + ARCHIVE + ARCHIVE.replace("archive", "hold")
    with hostile() as server:
        refused = run(server, tmp_path, holds)
        assert refused.returncode == 2, refused.stderr
        assert "it places legal holds, which have no end" in refused.stderr
        assert "--legal-hold" in refused.stderr
        assert server.buckets == {}
        done = run(server, tmp_path, holds, "--legal-hold")
        assert done.returncode == 0, done.stderr
        kept = [each for bucket in server.buckets.values() for each in bucket.versions]
        held = [each for each in kept if each.headers.get("x-amz-object-lock-legal-hold") == "ON"]
        assert 0 < len(held) < len(kept), "archive requests placed holds, too"
