"""A run's database as another copy of it has it: taken whole while the run may still be read, and checked when it comes
from somebody else.

One idea: before anything is asked of a database from elsewhere, it is seen to have the tables of ours and nothing else:
no view, no trigger, no table that is computed by what somebody wrote.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from importlib.resources import files
from pathlib import Path

from archiver.values.errors import ResultsError
from results.database import HistogramRow

Counts = dict[str, dict[str, int]]  # part of the phase -> quantity -> how many
_COUNTED = ("sessions", "objects", "bytes", "attempts", "errors")


def copy_database(source: Path, target: Path) -> None:
    """A copy as of one instant, whatever is written meanwhile, in one file. Raises ResultsError."""
    try:
        with closing(_reading(source)) as original, closing(sqlite3.connect(target)) as copy:
            original.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # so that it can be read without another file beside it
    except sqlite3.Error as error:
        raise ResultsError(f"{source}: cannot be copied: {error}") from error


def database_version(path: Path) -> int:
    """PRAGMA user_version; 0 for what is no database."""
    try:
        with closing(_reading(path)) as database:
            version: int = database.execute("PRAGMA user_version").fetchone()[0]
            return version
    except sqlite3.Error:
        return 0


def unsound(path: Path) -> str | None:
    """Why this is no sound database of this version; None: it is one."""
    try:
        with closing(_reading(path)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            if _tables(database) != _our_tables():
                return "it has other tables than a results database of Archiver"
            found = [row[0] for row in database.execute("PRAGMA integrity_check(10)")]
            return None if found == ["ok"] else f"PRAGMA integrity_check: {'; '.join(map(str, found))}"
    except sqlite3.Error as error:
        return f"it cannot be read: {error}"


def stored_histograms(path: Path) -> dict[tuple[int, str], list[HistogramRow]]:
    """Every histogram, by the position of its phase and its workload."""
    found: dict[tuple[int, str], list[HistogramRow]] = {}
    with closing(_reading(path)) as database:
        for position, *row in database.execute(
            "SELECT position, workload, quantity, total_ns, max_ns, indices, counts FROM histogram "
            "ORDER BY position, workload, quantity"
        ):
            found.setdefault((position, row[0]), []).append(HistogramRow(*row))
    return found


def stored_counts(path: Path) -> dict[tuple[int, str], Counts]:
    """What the intervals add up to, by the position of the phase and the workload."""
    found: dict[tuple[int, str], Counts] = {}
    sums = ", ".join(f"sum({name})" for name in _COUNTED)
    with closing(_reading(path)) as database:
        for position, workload, part, *row in database.execute(
            f"SELECT position, workload, part, {sums} FROM interval GROUP BY position, workload, part"
        ):
            found.setdefault((position, workload), {})[part] = dict(zip(_COUNTED, row, strict=True))
    return found


def _reading(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


def _our_tables() -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(files("results").joinpath("schema.sql").read_text())
        return _tables(database)


def _tables(database: sqlite3.Connection) -> list[tuple[str, ...]]:
    """All that a database is made of, without comments."""
    rows = database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name")
    return [(*names, " ".join(re.sub(r"--[^\n]*", "", sql or "").split())) for *names, sql in rows]
