"""The ledger: one SQLite file over all runs, written before the first byte of a phase is sent.

One idea: a row bounds what may be out there from before it happens, so a crash at any moment leaves a true record.
A row whose exact count is still missing means: list the prefix.
"""

from __future__ import annotations

import sqlite3
import time
from dataclasses import asdict, dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from archiver.errors import ResultsError, RunFailed

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one phase of one run puts objects, and under which lock."""

    run: str
    phase: str
    backend: str
    platform: str | None  # None: somebody else's, reached by its endpoint; else Archiver starts it
    endpoint: str
    region: str
    bucket: str
    bucket_created: bool
    prefix: str
    retention_mode: str
    latest_retain_until: float | None
    legal_hold: bool
    objects_max: int
    bytes_max: int
    objects: int | None = None
    bytes: int | None = None


class Ledger:
    """The open ledger. Every write is durable when the call returns (SQLite, full sync)."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        # Threads may write in turn: SQLite's own lock is on for every call.
        self._db = sqlite3.connect(path, isolation_level=None, timeout=30.0, check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        try:
            self._db.execute("PRAGMA synchronous = FULL")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version > _VERSION:
                self._db.close()
                raise ResultsError(f"{path} was written by a newer Archiver (ledger version {version}); upgrade")
            if version == 0:
                self._db.executescript(files("archiver").joinpath("ledger.sql").read_text())
                self._db.execute(f"PRAGMA user_version = {_VERSION}")
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise ResultsError(
                f"{path}, the record of what is locked, cannot be read: {error}; restore it from a copy, or move it "
                "away and list the buckets by hand before you remove anything"
            ) from error

    def open_placement(self, placement: Placement) -> int:
        """Commit the bound of what a phase may leave behind; returns the row's id."""
        row = {**asdict(placement), "written_at": time.time()}
        columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        cursor = self._write(f"INSERT INTO placement ({columns}) VALUES ({marks})", row)
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def close_placement(self, row_id: int, objects: int, size_bytes: int) -> None:
        """Replace the bound by what the phase really left."""
        self._write("UPDATE placement SET objects = ?, bytes = ? WHERE id = ?", (objects, size_bytes, row_id))

    def placements(self, run: str) -> list[Placement]:
        """What one run has out there and is not yet removed."""
        rows = self._db.execute("SELECT * FROM placement WHERE run = ? AND removed_at IS NULL ORDER BY id", (run,))
        flags = ("bucket_created", "legal_hold")
        names = [field.name for field in fields(Placement)]
        return [_placement({name: bool(row[name]) if name in flags else row[name] for name in names}) for row in rows]

    def latest_run(self) -> str | None:
        """The last run that still has something out there."""
        row = self._db.execute("SELECT run FROM placement WHERE removed_at IS NULL ORDER BY id DESC LIMIT 1").fetchone()
        return None if row is None else str(row["run"])

    def knows(self, run: str) -> bool:
        """True when the ledger ever had a row of this run."""
        return self._db.execute("SELECT 1 FROM placement WHERE run = ? LIMIT 1", (run,)).fetchone() is not None

    def mark_removed(self, run: str, bucket: str) -> None:
        """All that this run put into a bucket is gone."""
        self._write("UPDATE placement SET removed_at = ? WHERE run = ? AND bucket = ?", (time.time(), run, bucket))

    def close(self) -> None:
        self._db.close()

    def _write(self, statement: str, values: dict[str, Any] | tuple[Any, ...]) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise RunFailed(
                f"{self._path}, the record of what is locked, cannot be written: {error}; nothing is archived that "
                "it does not know of"
            ) from error


def _placement(values: dict[str, Any]) -> Placement:
    return Placement(**values)
