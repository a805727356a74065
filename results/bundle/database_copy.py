"""Copies of a run's database, consistent during concurrent reads and writes, and a check of databases of others."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from archiver.values.databases import Database, open_database, words_of
from archiver.values.errors import ResultsError
from results.recorded.database import HistogramRow, schema

Counts = dict[str, dict[str, int]]  # part of the phase -> quantity -> count
_COUNTED = ("sessions", "objects", "bytes", "attempts", "errors")


def copy_database(source: Path, target: Path) -> None:
    """Copy the database as of one instant, despite concurrent writes, into one file. Raises ResultsError."""
    try:
        with closing(_reading(source)) as original, closing(sqlite3.connect(target)) as copy:
            original.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # makes it readable without another file
    except sqlite3.Error as error:
        raise ResultsError(f"{source}: cannot be copied: {words_of(error)}") from error


def database_version(path: Path) -> int:
    """Return PRAGMA user_version, or 0 if the file is no database."""
    try:
        with closing(_reading(path)) as database:
            version: int = database.execute("PRAGMA user_version").fetchone()[0]
            return version
    except sqlite3.Error:
        return 0


def unsound(path: Path) -> str | None:
    """Return why this is no valid database of this version. Returns None if it is one."""
    try:
        with closing(_reading(path)) as database:
            if not database.has_tables_of(schema()):
                return "its tables are not those of a results database of Archiver"
            found = [row[0] for row in database.execute("PRAGMA integrity_check(10)")]
            return None if found == ["ok"] else f"PRAGMA integrity_check: {'; '.join(map(str, found))}"
    except sqlite3.Error as error:
        return f"it cannot be read: {words_of(error)}"


def stored_histograms(path: Path) -> dict[tuple[int, str], list[HistogramRow]]:
    """Return every histogram, by the position of its phase and its workload."""
    found: dict[tuple[int, str], list[HistogramRow]] = {}
    with closing(_reading(path)) as database:
        for position, *row in database.execute(
            "SELECT position, workload, quantity, total_ns, max_ns, indices, counts FROM histogram "
            "ORDER BY position, workload, quantity"
        ):
            found.setdefault((position, row[0]), []).append(HistogramRow(*row))
    return found


def stored_counts(path: Path) -> dict[tuple[int, str], Counts]:
    """Return the sums of the intervals, by the position of the phase and the workload."""
    found: dict[tuple[int, str], Counts] = {}
    sums = ", ".join(f"sum({name})" for name in _COUNTED)
    with closing(_reading(path)) as database:
        for position, workload, part, *row in database.execute(
            f"SELECT position, workload, part, {sums} FROM interval GROUP BY position, workload, part"
        ):
            found.setdefault((position, workload), {})[part] = dict(zip(_COUNTED, row, strict=True))
    return found


def _reading(path: Path) -> Database:
    return open_database(path, "ro")
