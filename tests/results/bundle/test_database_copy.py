"""Copies of a database that is being written, and checks of a database from an untrusted source."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from results.bundle.database_copy import copy_database, database_version, stored_counts, stored_histograms, unsound
from results.recorded.database import VERSION, HistogramRow, IntervalRow, RunDatabase
from results.recorded.run import RecordedRun
from tests.results.conftest import MakeResult
from tests.results.watched_run import phase_record

MakeRun = Callable[..., RunDatabase]
ROW = HistogramRow("archive", "object_service", 5, 3, b"\1" + bytes(7), b"\2" + bytes(7))
INTERVALS = [
    IntervalRow(0, "archive", "warm-up", 1, 10, 100, 11, 1),
    IntervalRow(1, "archive", "measured", 2, 20, 200, 20, 0),
    IntervalRow(2, "archive", "measured", 3, 30, 300, 30, 0),
]


@pytest.fixture
def run(make_run: MakeRun, make_result: MakeResult) -> RunDatabase:
    return make_run([phase_record(1, make_result(), 1, 4, histograms=[ROW], intervals=INTERVALS)])


@pytest.fixture
def copy(run: RunDatabase, tmp_path: Path) -> Path:
    copy_database(run.path, tmp_path / "copy.db")
    return tmp_path / "copy.db"


@pytest.fixture
def written(copy: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(copy)) as database:
        yield database


def test_database_copy_is_complete_single_file_and_reproducible(run: RecordedRun, copy: Path, tmp_path: Path) -> None:
    assert unsound(copy) is None
    assert database_version(copy) == VERSION
    with closing(RunDatabase.open(copy)) as copied:
        assert copied.results() == run.results
    assert [path.name for path in tmp_path.glob("copy*")] == ["copy.db"]
    copy_database(run.path, tmp_path / "again.db")
    assert (tmp_path / "again.db").read_bytes() == copy.read_bytes()


def test_database_copy_includes_committed_rows_from_write_ahead_log(run: RunDatabase, tmp_path: Path) -> None:
    with closing(sqlite3.connect(run.path)) as writing:
        writing.execute("INSERT INTO audit VALUES (1.0, '{}')")
        writing.commit()
        writing.execute("INSERT INTO audit VALUES (2.0, '{}')")  # not committed
        copy_database(run.path, tmp_path / "meanwhile.db")
    with closing(sqlite3.connect(tmp_path / "meanwhile.db")) as copied:
        assert copied.execute("SELECT started_at FROM audit").fetchall() == [(1.0,)]


def test_histograms_and_interval_sums_are_by_phase_and_workload(copy: Path) -> None:
    assert stored_histograms(copy) == {(1, "archive"): [ROW]}
    counts = stored_counts(copy)[1, "archive"]
    assert counts["measured"] == {"sessions": 5, "objects": 50, "bytes": 500, "attempts": 50, "errors": 0}
    assert counts["warm-up"]["errors"] == 1


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW more AS SELECT 1",
        "CREATE TRIGGER more AFTER INSERT ON audit BEGIN SELECT 1; END",
        "CREATE TABLE more (x)",
        "DROP TABLE audit",
        "ALTER TABLE audit ADD COLUMN more",
    ],
)
def test_database_with_other_schema_is_unsound(copy: Path, written: sqlite3.Connection, statement: str) -> None:
    written.execute(statement)
    written.commit()
    assert unsound(copy) == "its tables are not those of a results database of Archiver"


def test_database_with_view_instead_of_table_is_unsound(copy: Path, written: sqlite3.Connection) -> None:
    written.execute("DROP TABLE search")
    written.execute(
        "CREATE VIEW search AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i AS document FROM n"
    )
    written.commit()
    assert unsound(copy) is not None


def test_database_with_damaged_page_is_unsound(copy: Path) -> None:
    content = bytearray(copy.read_bytes())
    content[-4096:] = bytes(4096)
    copy.write_bytes(content)
    assert "integrity_check" in (unsound(copy) or "") or "cannot be read" in (unsound(copy) or "")


def test_invalid_database_has_version_zero_and_is_unsound(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database" * 100)
    assert database_version(tmp_path / "text") == 0
    assert "cannot be read" in (unsound(tmp_path / "text") or "")
