"""Test that a results database or a ledger made by another owner cannot hang, compute, or hold a command."""

from __future__ import annotations

import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pytest

from archiver.ledger.ledger import Ledger
from archiver.machine import interruption
from archiver.values import databases
from archiver.values.databases import open_database, words_of
from archiver.values.errors import ResultsError
from results.recorded.database import FILE_NAME, RunDatabase, RunRecord
from results.recorded.run import opened, reading
from tests.results.watched_run import RECORD
from tests.support.commands import StartedCommand, archiver, begin
from tests.support.waiting import wait_until

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i AS document FROM n"
NOT_OURS = "its tables are not those of a results database of Archiver"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the database of a run without results."""
    found = tmp_path / "runs" / "run-1" / FILE_NAME
    database = RunDatabase.create(found, RunRecord(**RECORD))
    database.finish(2.0, "none")
    database.close()
    with closing(sqlite3.connect(found)) as changed:
        changed.execute("PRAGMA journal_mode = DELETE")
    return found


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


@pytest.mark.parametrize(
    "statements",
    [
        ("DROP TABLE criterion", f"CREATE VIEW criterion AS {ENDLESS}"),
        (f"CREATE VIEW more AS {ENDLESS}",),
        ("CREATE TRIGGER more AFTER INSERT ON audit BEGIN DELETE FROM run; END",),
        ("ALTER TABLE audit ADD COLUMN more GENERATED ALWAYS AS (length(document)) VIRTUAL",),
        ("CREATE INDEX more ON audit (abs(started_at))",),
        ("DROP TABLE search", "CREATE VIRTUAL TABLE search USING fts5(document)"),
        ("CREATE TABLE more (x)",),
    ],
)
def test_database_with_other_tables_is_refused_before_a_query(path: Path, statements: tuple[str, ...]) -> None:
    change(path, *statements)
    for opening in (RunDatabase.open, RunDatabase.reopen):
        with pytest.raises(ResultsError, match=NOT_OURS):
            opening(path)


@pytest.mark.parametrize(
    "command",
    [
        ("report", "{run}", "--format", "json"),
        ("compare", "{run}", "{run}"),
        ("plan", "mail", "--from", "{run}", "--users", "9", "--messages", "9", "--mean-size", "9KiB"),
        ("resume", "{run}"),
        ("bundle", "make", "{run}", "{folder}/audit.zip"),
        ("scorecard", "{run}", "--out", "{folder}"),
    ],
)
def test_every_reader_refuses_a_database_with_an_endless_view(path: Path, command: tuple[str, ...]) -> None:
    change(path, "DROP TABLE result", f"CREATE VIEW result AS {ENDLESS}")
    home = path.parents[2]
    words = [word.format(run=path.parent, folder=home) for word in command]
    done = archiver(*words, ARCHIVER_HOME=str(home))
    assert NOT_OURS in done.stderr + done.stdout, done
    assert "Traceback" not in done.stderr


def test_ledger_with_a_view_is_refused(tmp_path: Path) -> None:
    home = {"ARCHIVER_HOME": str(tmp_path)}
    Ledger(tmp_path / "ledger.db").close()
    assert archiver("ledger", **home).returncode == 0
    change(
        tmp_path / "ledger.db",
        "DROP TABLE event_hold",
        f"CREATE VIEW event_hold AS {ENDLESS.replace('document', 'run')}",
    )
    done = archiver("ledger", **home)
    assert done.returncode == 1
    assert "its tables are not those of a ledger" in done.stderr


def test_query_beyond_the_limit_of_its_file_ends(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "_STEPS_MIN", 100_000)
    monkeypatch.setattr(databases, "_STEPS_PER_BYTE", 1)
    with (
        pytest.raises(ResultsError, match="longer than a file of its size can need"),
        opened(path) as recorded,
        reading(recorded.path) as database,
    ):
        database._db.execute(ENDLESS).fetchall()


def _query_for_ever(path: str, ready: str) -> NoReturn:
    begin("archiver")
    databases._STEPS_MIN = 10**15
    with interruption.handled():
        try:
            with reading(Path(path)) as database:
                database._db.create_function("ready", 0, Path(ready).touch)
                database._db.execute(
                    "WITH RECURSIVE n(i) AS (SELECT ready() UNION ALL SELECT i FROM n) SELECT count(*) FROM n"
                )
        except KeyboardInterrupt as interrupted:
            sys.exit(interruption.exit_status(interruption.signal_of(interrupted)))
    raise AssertionError("the query ended")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_a_command_during_a_query(path: Path, tmp_path: Path, number: signal.Signals) -> None:
    ready = tmp_path / "ready"
    with closing(StartedCommand((str(path), str(ready)), {}, _query_for_ever)) as command:
        try:
            wait_until(ready.exists, "query")
            command.send_signal(number)
            _, errors = command.communicate(timeout=60.0)
        finally:
            command.kill()
    assert command.returncode == 128 + number, errors


def _insert(path: Path, state: str) -> None:
    with closing(open_database(path, "ro" if state == "read-only" else "rw", timeout=0)) as database:
        if state == "full":
            database.execute("PRAGMA max_page_count = 2")
        database.execute("INSERT INTO t VALUES (zeroblob(100000))")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("locked", "another process has locked it"),
        ("read-only", "make the file and its folder writable"),
        ("full", "make room on its disk"),
        ("not a database", "it is damaged; restore it from a copy"),
        ("missing", "make the file and its folder accessible"),
    ],
)
def test_error_of_sqlite_names_its_own_remedy(tmp_path: Path, state: str, words: str) -> None:
    path = tmp_path / "some.db"
    if state != "missing":
        change(path, "CREATE TABLE t (x)")
    if state == "not a database":
        path.write_bytes(b"text " * 1000)
    with closing(sqlite3.connect(path if state != "missing" else ":memory:")) as other:
        if state == "locked":
            other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.Error) as failed:
            _insert(path, state)
    assert words in words_of(failed.value)
