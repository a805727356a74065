"""Test `archiver resume` of runs that were killed, interrupted or lost their store, on the embedded store."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from click.testing import CliRunner

from archiver.cli import main
from backends.embedded import process as embedded
from tests.support.commands import StartedCommand, archiver, started
from tests.support.runs import PHASE_TABLES, SIX_PHASES, ask, begun, break_off, s3, shorten
from tests.support.waiting import SECONDS_MAX, wait_until


def database_in(home: Path) -> Path:
    (folder,) = (home / "runs").iterdir()
    return folder / "run.db"


def stored_bytes(home: Path) -> int:
    return sum(path.stat().st_size for path in (home / "store" / "segments").glob("*.seg"))


@contextmanager
def in_fourth_phase(home: Path, *more: str, runs: Path | None = None) -> Iterator[StartedCommand]:
    """Start a run and wait until it archives in its fourth phase, which takes an hour."""
    fourth = ("archive-parallel.stop.seconds_min=1h", "archive-parallel.stop.seconds_max=1h")
    with started(*SIX_PHASES, *(word for each in fourth for word in ("--set", each)), *more) as process:
        wait_until(lambda: process.poll() is not None or begun(runs or home / "runs") == 4, "fourth phase")
        assert process.poll() is None, process.communicate()[1]
        before = stored_bytes(home)
        wait_until(lambda: stored_bytes(home) >= before + 5 * 8192, "object of the fourth phase")
        yield process


def of_phases(path: Path, positions: str) -> dict[str, list[tuple[Any, ...]]]:
    return {
        table: ask(path, f"SELECT * FROM {table} WHERE position {positions} ORDER BY rowid") for table in PHASE_TABLES
    }


def store_has_ended(home: Path) -> bool:
    """Return whether the store has ended. It outlives a killed client for a moment."""
    try:
        embedded.start(home / "store").stop()
    except Exception:  # noqa: BLE001 - it is still open
        return False
    return True


def versions(home: Path) -> list[tuple[str, str]]:
    """Return (key, version) of everything in the only bucket of the embedded store."""
    with embedded.start(home / "store") as store:
        client = s3(store)
        (bucket,) = [each["Name"] for each in client.list_buckets()["Buckets"]]
        pages = client.get_paginator("list_object_versions").paginate(Bucket=bucket)
        return [(each["Key"], each["VersionId"]) for page in pages for each in page.get("Versions", [])]


def keys(folder: Path, position: int) -> set[int]:
    """Return the numbers of the objects that a phase requested, from its operation log."""
    tables = [pq.read_table(path) for path in folder.glob(f"*-{position:04d}-*.parquet")]
    return {int(key) for table in tables for key in table["key"].to_pylist() if key}


def test_run_with_killed_client_is_resumed_without_reusing_object_names(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with in_fourth_phase(home, "--op-log", str(log)) as process:
        busy = archiver("resume", "latest")
        assert (busy.returncode, "its run is under way" in busy.stderr) == (1, True)
        process.kill()  # SIGKILL: no clean-up happens
    path = database_in(home)
    finished = of_phases(path, "<= 3")
    assert len(finished["phase"]) == 3
    wait_until(lambda: store_has_ended(home), "end of the store")

    shorten(home, "1h", "200ms")
    done = archiver("resume", "latest", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["verdict"] == "none"
    assert [each["after_position"] for each in document["resumptions"]] == [3]
    assert any("resumed at" in doubt and "after phase 3" in doubt for doubt in document["doubts"])
    assert document["lock_verified"] == "verified"
    assert "goes on after 3 of 6 phases, with phase 4" in done.stderr
    assert "was interrupted and left at most" in done.stderr
    assert of_phases(path, "<= 3") == finished
    assert ask(path, "SELECT position FROM phase") == [(position,) for position in range(1, 7)]
    assert ask(path, "SELECT * FROM error") == []
    (instants,) = ask(
        path, "SELECT max(end_ns) FILTER (WHERE position <= 3), min(start_ns) FILTER (WHERE position > 3) FROM phase"
    )
    assert instants[0] < instants[1]

    ledger = ask(home / "ledger.db", "SELECT phase, first_number, objects_max, objects FROM placement ORDER BY id")
    assert sum(objects is None for *_, objects in ledger) == 1  # the interrupted phase has no exact count
    ranges = [range(first, first + most) for _, first, most, _ in ledger if most]
    assert all(one.stop <= other.start for one, other in pairwise(ranges))
    held = versions(home)
    assert len({key for key, _ in held}) == len(held)  # no name was used twice
    assert len(held) <= sum(most if objects is None else objects for *_, most, objects in ledger)
    broken = next(range(first, first + most) for _, first, most, objects in ledger if objects is None)
    assert {int(key.rpartition("/")[2]) for key, _ in held} & set(broken)  # the interrupted phase left objects
    read = keys(log, 5)
    assert min(read) < broken.start < broken.stop <= max(read)  # objects from before and after the interruption
    assert not read & set(broken)

    again = archiver("resume", document["run"])
    assert (again.returncode, again.stdout) == (2, "")
    assert "nothing is left to do" in again.stderr


def test_run_with_killed_store_is_resumed_at_the_interrupted_phase(home: Path) -> None:
    # The fourth phase ends after 24 MB of attempts.
    with in_fourth_phase(home, "--set", "archive-parallel.stop.bytes_max=24MB") as process:
        os.kill(int((home / "store" / "lock").read_text()), signal.SIGKILL)
        _, errors = process.communicate(timeout=SECONDS_MAX)
    path = database_in(home)
    assert process.returncode == 1
    assert f"archiver resume {path.parent.name}" in errors
    assert ask(path, "SELECT position FROM error WHERE position <= 3") == []
    assert ask(path, "SELECT position FROM error WHERE position = 4")  # the client failed until its phase ended
    assert ask(path, "SELECT position FROM phase WHERE gave_up NOT NULL") == [(4,)]
    finished = of_phases(path, "<= 3")

    shorten(home, "1h", "200ms")
    done = archiver("resume", path.parent.name, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert of_phases(path, "<= 3") == finished
    assert ask(path, "SELECT position, gave_up FROM phase") == [(position, None) for position in range(1, 7)]
    assert ask(path, "SELECT * FROM error") == []  # no row of the abandoned attempt is left
    ledger = ask(home / "ledger.db", "SELECT objects_max, objects FROM placement")
    held = versions(home)
    assert (
        len({key for key, _ in held})
        == len(held)
        <= sum(most if objects is None else objects for most, objects in ledger)
    )


def test_interrupted_run_prints_resume_command_and_refuses_another_store(home: Path, tmp_path: Path) -> None:
    with in_fourth_phase(home, "--out", str(tmp_path / "out"), runs=tmp_path / "out") as process:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 130
    (folder,) = (tmp_path / "out").iterdir()
    assert f"archiver resume {folder}" in errors
    before = (folder / "run.db").read_bytes()

    shutil.move(home / "store", home / "elsewhere")
    refused = archiver("resume", folder.name, "--out", str(tmp_path / "out"))
    assert refused.returncode == 3
    assert f"{folder.name} cannot be resumed" in refused.stderr
    assert "NoSuchBucket" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert (folder / "run.db").read_bytes() == before

    (home / "ledger.db").unlink()
    refused = archiver("resume", str(folder))
    assert (refused.returncode, "the ledger has no record of it" in refused.stderr) == (2, True)


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)


REFUSED = {
    "UPDATE run SET comparison = 'x'": "start the comparison again",
    "UPDATE run SET phases_planned = 0": "archiver worm",
    "UPDATE run SET lock_verified = 'reports no lock'": "did not keep its lock (reports no lock)",
    "UPDATE phase SET label = 'another' WHERE position = 2": "orders its phases differently",
    "UPDATE run SET request = NULL": "was not started by archiver run",
    "UPDATE run SET request = json_set(request, '$.workers', 'no')": "cannot be carried out here",
    "UPDATE run SET platform = json_set(platform, '$.version', '9')": "measures one platform",
    "UPDATE run SET settings = json_set(settings, '$.checksum', 'md5')": "checksum was md5",
    "UPDATE run SET backend = 's3'": "the ledger has no record of it",
    "PRAGMA user_version = 99": "has format version 99",
    "DELETE FROM run": "its run was never begun",
}


def test_run_that_cannot_resume_is_refused_and_stays_unchanged(home: Path) -> None:
    done = archiver("run", "dr550", "--backend", "null", *SIX_PHASES[2:], "--quiet", "--set", "stop.bytes_max=1MB")
    assert done.returncode == 0, done.stderr
    path = database_in(home)
    break_off(home, 6)
    whole = path.read_bytes()
    for broken, message in REFUSED.items():
        path.write_bytes(whole)
        change(path, broken)
        before = path.read_bytes()
        refused = CliRunner().invoke(main, ["resume", path.parent.name])
        assert refused.exit_code in (1, 2, 3), broken
        assert isinstance(refused.exception, SystemExit), broken
        assert message in refused.stderr
        assert refused.stderr.count("archiver: ") == 1
        assert path.read_bytes() == before, broken


def test_resume_reads_options_from_record_and_not_from_command_line(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = archiver("run", "dr550", "--backend", "null", *SIX_PHASES[2:], "--op-log", str(log), "--quiet")
    assert done.returncode == 0, done.stderr
    assert keys(log, 6)
    shutil.rmtree(log)
    log.mkdir()
    other = """UPDATE run SET command_line = '["archiver", "run", "--no-such-option"]'"""
    change(database_in(home), other)
    break_off(home, 6)
    done = archiver("resume", "latest", "--quiet")
    assert done.returncode == 0, done.stderr
    assert keys(log, 6)


def test_resume_of_missing_run_is_refused(home: Path) -> None:
    refused = archiver("resume", "20200101t000000-abcdef")
    assert (refused.returncode, "no such run" in refused.stderr) == (2, True)


LIFECYCLE = """
name = "lifecycle"
title = "Short locks"
[stop]
warm_up_sessions = 0
sessions_min = 1
large_sessions_min = 1
large_session = "100MB"
seconds_min = "1ms"
precision = 0.0
seconds_max = "1s"
bytes_max = "240KiB"
warm_up_seconds = "1ms"
client_bytes_max = "240KiB"
[[sweep]]
name = "archive"
operation = "archive"
object_sizes = ["8KiB"]
objects_per_session = [10, 20]
clients = [1]
retain_for = "2s"
[[sweep]]
name = "delete"
operation = "delete"
object_sizes = ["8KiB"]
objects_per_session = [2]
clients = [1]
stop = { bytes_max = "80KiB" }
"""


def test_resume_avoids_objects_an_interrupted_phase_may_have_deleted(home: Path, tmp_path: Path) -> None:
    scenario, log = tmp_path / "lifecycle.toml", tmp_path / "log"
    scenario.write_text(LIFECYCLE)
    done = archiver("run", str(scenario), "--backend", "null", "--op-log", str(log), "--quiet")
    assert done.returncode == 0, done.stderr
    first = keys(log, 3)
    break_off(home, 3)
    scenario.write_text("changed since")
    done = archiver("resume", "latest", "--quiet")
    assert done.returncode == 0, done.stderr
    second = keys(log, 3)
    assert first
    assert second
    assert not first & second


def test_run_whose_objects_were_removed_cannot_be_resumed(home: Path) -> None:
    done = archiver(*SIX_PHASES, "--quiet", "--set", "archive.objects_per_session=2")
    assert done.returncode == 0, done.stderr
    assert archiver("cleanup", "latest", "--bypass-governance").returncode == 0
    break_off(home, 3)
    refused = archiver("resume", "latest")
    assert (refused.returncode, "its objects were removed" in refused.stderr) == (2, True)
