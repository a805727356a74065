"""SQLite files that others may have made, and errors of SQLite and the system in words.

One idea: a file of another owner is data. It may hold only the tables and indexes of our schema, so that nothing in it
computes, and reading it is bounded by its size.
"""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path
from typing import Any, Literal

# SQLite asks after so many steps of a query whether to go on. Python then calls the handler of a signal that arrived.
_STEPS_BETWEEN = 10_000
# A query takes about 10 steps a row, and a row has tens of bytes. A command may read a table thousands of times.
_STEPS_PER_BYTE = 10_000
_STEPS_MIN = 20_000_000
_VALUE_BYTES_MIN = 1 << 20

_NO_ROOM = "there is no room; make room on its disk, or raise the limit of its size"
_NOT_WRITABLE = "it cannot be written; make the file and its folder writable"
_DAMAGED = "it is damaged; restore it from a copy"
_LOCKED = "another process has locked it; try again when that process has ended"
_UNREACHABLE = "it cannot be opened; make the file and its folder accessible"
_DISK = "its disk reports an error; check the disk"
_FILES = "this process has too many open files; raise the limit (ulimit -n)"
_WORDS_OF_SQLITE = {
    sqlite3.SQLITE_FULL: _NO_ROOM,
    sqlite3.SQLITE_IOERR_WRITE: _NO_ROOM,
    sqlite3.SQLITE_IOERR_SHMSIZE: _NO_ROOM,
    sqlite3.SQLITE_READONLY: _NOT_WRITABLE,
    sqlite3.SQLITE_PERM: _NOT_WRITABLE,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_CANTOPEN: _UNREACHABLE,
    sqlite3.SQLITE_IOERR: _DISK,
    sqlite3.SQLITE_INTERRUPT: "reading it takes longer than a file of its size can need; it is damaged or forged",
}
_WORDS_OF_SYSTEM = {
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
    errno.EFBIG: _NO_ROOM,
    errno.EROFS: _NOT_WRITABLE,
    errno.EACCES: _UNREACHABLE,
    errno.EPERM: _UNREACHABLE,
    errno.ENOTDIR: "a part of its path is a file; make it a folder",
    errno.EIO: _DISK,
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
}


class Database(sqlite3.Connection):
    """An open SQLite file. ``steps_left``: steps that its queries may still take."""

    steps_left = 0

    def _limit(self, size_bytes: int) -> None:
        self.steps_left = _STEPS_MIN + _STEPS_PER_BYTE * size_bytes
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(_VALUE_BYTES_MIN, size_bytes))  # of one value
        self.set_progress_handler(self._may_not_go_on, _STEPS_BETWEEN)

    def unlimit(self) -> None:
        """Lift the bounds of a file that was checked, before it is written."""
        self.set_progress_handler(None, 0)
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1 << 30)

    def check_interrupted(self, error: BaseException) -> None:
        """Raise KeyboardInterrupt if a signal ended the query that failed: SQLite discards the signal's exception."""
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT and self.steps_left > 0:
            raise KeyboardInterrupt from error

    def has_tables_of(self, schema: str) -> bool:
        """Return whether the tables, columns and indexes are those that this SQL creates, and there is nothing else."""
        with sqlite3.connect(":memory:") as ours:
            ours.executescript(schema)
            wanted = _shape(ours)
        ours.close()
        return _shape(self) == wanted

    def _may_not_go_on(self) -> bool:
        self.steps_left -= _STEPS_BETWEEN
        return self.steps_left <= 0


def open_database(path: Path, mode: Literal["ro", "rw", "rwc"], **options: Any) -> Database:
    """Open a file without trusting the functions that its schema calls.

    What reads of an existing file may take is bounded by its size, until ``unlimit``, and a signal ends a query.
    ``options`` are those of sqlite3.connect. Raises sqlite3.Error.
    """
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    database = sqlite3.connect(uri, uri=True, factory=Database, **options)
    try:
        database.execute("PRAGMA trusted_schema = OFF")
        if mode != "rwc":
            log = path.with_name(f"{path.name}-wal")
            database._limit(sum(each.stat().st_size for each in (path, log) if each.exists()))
    except sqlite3.Error:
        database.close()
        raise
    return database


def words_of(error: sqlite3.Error | OSError) -> str:
    """Return what an error says, what that means for its file, and what to do."""
    if isinstance(error, OSError):
        said, meaning = error.strerror or str(error), _WORDS_OF_SYSTEM.get(error.errno or 0)
    else:
        code = getattr(error, "sqlite_errorcode", 0)
        said, meaning = str(error), _WORDS_OF_SQLITE.get(code) or _WORDS_OF_SQLITE.get(code & 0xFF)
    return f"{said}: {meaning}" if meaning else said


def is_of_the_system(error: OSError) -> bool:
    """Return whether the machine or its settings made this error, and no fault of a program."""
    return error.errno in _WORDS_OF_SYSTEM


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file does not have the contents of a database."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _shape(database: sqlite3.Connection) -> list[tuple[object, ...]]:
    """Return every table with its columns, and every other part of a schema with its SQL."""
    found: list[tuple[object, ...]] = []
    for kind, name, table, sql in database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall():
        if kind == "table" and str(sql).startswith("CREATE TABLE "):
            columns = database.execute(
                'SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(?) ORDER BY name', (name,)
            )
            found.append((kind, name, *map(tuple, columns)))
        else:
            found.append((kind, name, table, sql))
    return sorted(found, key=repr)
