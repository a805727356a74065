"""The ledger: one SQLite file over all runs, written before the first byte of a phase is sent.

One idea: a row bounds what may be out there from before it happens, so a crash at any moment leaves a true record.
A row whose exact count is still missing means: list the prefix.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from archiver.values.errors import ResultsError, RunFailed

_VERSION = 3


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
    id: int | None = field(default=None, compare=False)  # of the row; the ledger's own
    content_seed: int | None = None  # from which content is made again; None: not made by object numbers
    first_number: int = 0  # objects have numbers from here on, fewer than ``objects_max`` of them
    earliest_retain_until: float | None = None  # no object's lock ends before; None: no date
    written_at: float = field(default=0.0, compare=False)  # epoch seconds
    # The strongest lock that the platform reported for one of its objects, where that is not the agreed one.
    seen_mode: str | None = None
    seen_until: float | None = None
    seen_hold: bool = False

    @property
    def mode(self) -> str:
        """The strongest retention mode among its locks, agreed or seen."""
        weaker_first = ("none", "GOVERNANCE", "CLASS", "COMPLIANCE")
        return max(self.retention_mode, self.seen_mode or "none", key=weaker_first.index)

    @property
    def locked_until(self) -> float | None:
        """The latest date among its locks, agreed or seen, in epoch seconds; None: no date."""
        return max((each for each in (self.latest_retain_until, self.seen_until) if each is not None), default=None)

    @property
    def is_held(self) -> bool:
        """A legal hold was placed, or was seen."""
        return self.legal_hold or self.seen_hold


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Objects of one size that a platform acknowledged, by the numbers that their names are made of."""

    object_bytes: int
    first: int
    last: int


class Ledger:
    """The open ledger. Every write is durable when the call returns (SQLite, full sync)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Threads may write in turn: SQLite's own lock is on for every call.
            self._db = sqlite3.connect(path, isolation_level=None, timeout=30.0, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise ResultsError(
                f"{path}, the record of what is locked, cannot be opened: {error}; make its folder yours to write, or "
                "name another home with ARCHIVER_HOME"
            ) from error
        self._db.row_factory = sqlite3.Row
        try:
            self._make_current()
        except ResultsError:
            self._db.close()
            raise

    def _make_current(self) -> None:
        """Make the tables, or bring those of an earlier version up to date, all of it or nothing."""
        try:
            self._db.execute("PRAGMA synchronous = FULL")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version < _VERSION:
                changes = "".join(
                    _CHANGES[from_version] for from_version in range(max(version, 1), _VERSION) if version
                )
                tables = files("archiver.ledger").joinpath("ledger.sql").read_text()
                self._db.executescript(
                    f"BEGIN IMMEDIATE; {changes}\n{tables}\nPRAGMA user_version = {_VERSION}; COMMIT"
                )
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        if version > _VERSION:
            raise ResultsError(f"{self._path} was written by a newer Archiver (ledger version {version}); upgrade")

    def open_placement(self, placement: Placement) -> int:
        """Commit the bound of what a phase may leave behind; returns the row's id."""
        row = {**asdict(placement), "written_at": time.time()}
        del row["id"]
        columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        cursor = self._write(f"INSERT INTO placement ({columns}) VALUES ({marks})", row)
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def close_placement(
        self,
        row_id: int,
        objects: int,
        size_bytes: int,
        ranges: Sequence[NumberRange] = (),
        latest_retain_until: float | None = None,
    ) -> None:
        """Replace the bound by what the phase really left; ``ranges`` name what was acknowledged of it, and
        ``latest_retain_until`` is the latest date of its locks, where it is known better than before."""
        with self._transaction():
            # What a phase ends with is there, whatever a clean-up removed while it was under way.
            self._write(
                "UPDATE placement SET objects = ?, bytes = ?, removed_at = NULL, "
                "latest_retain_until = min(latest_retain_until, coalesce(?, latest_retain_until)) WHERE id = ?",
                (objects, size_bytes, latest_retain_until, row_id),
            )
            for each in ranges:
                values = (row_id, each.object_bytes, each.first, each.last)
                self._write("INSERT INTO object_range VALUES (?, ?, ?, ?)", values)

    def ranges(self, row_id: int) -> list[NumberRange]:
        """What the platform acknowledged of one placement."""
        rows = self._read(
            "SELECT object_bytes, first, last FROM object_range WHERE placement = ? ORDER BY first", (row_id,)
        )
        return [NumberRange(*row) for row in rows]

    def placements(self, run: str | None = None) -> list[Placement]:
        """What one run, or all of them, has out there and is not yet removed, in the order of writing."""
        rows = self._read(
            "SELECT * FROM placement WHERE removed_at IS NULL AND (run = ?1 OR ?1 IS NULL) ORDER BY id", (run,)
        )
        flags = ("bucket_created", "legal_hold", "seen_hold")
        names = [each.name for each in fields(Placement)]
        return [_placement({name: bool(row[name]) if name in flags else row[name] for name in names}) for row in rows]

    def strengthen(self, run: str, *, until: float | None = None, legal_hold: bool = False) -> None:
        """Before the locks of a run's objects are extended, or held: the ledger knows it first."""
        self._write(
            "UPDATE placement SET latest_retain_until = max(coalesce(latest_retain_until, ?1), coalesce(?1, "
            "latest_retain_until)), legal_hold = max(legal_hold, ?2) WHERE run = ?3 AND removed_at IS NULL "
            "AND coalesce(objects, objects_max) > 0",
            (until, legal_hold, run),
        )

    def observe(self, row_ids: Sequence[int], mode: str | None, until: float | None, *, on_hold: bool = False) -> None:
        """Record a lock that the platform reports for an object of these rows, beside the one that was agreed.

        ``mode`` as the platform names it, ``until`` in epoch seconds; None where it reports none. Of several
        observations the strongest is kept.
        """
        with self._transaction():
            for row_id in row_ids:
                self._write(
                    "UPDATE placement SET seen_until = max(coalesce(seen_until, ?1), coalesce(?1, seen_until)), "
                    "seen_mode = CASE WHEN seen_mode = 'COMPLIANCE' THEN seen_mode ELSE coalesce(?2, seen_mode) END, "
                    "seen_hold = max(seen_hold, ?3) WHERE id = ?4",
                    (until, mode, on_hold, row_id),
                )

    def latest_run(self) -> str | None:
        """The last run that still has something out there."""
        rows = self._read("SELECT run FROM placement WHERE removed_at IS NULL ORDER BY id DESC LIMIT 1")
        return str(rows[0]["run"]) if rows else None

    def knows(self, run: str) -> bool:
        """True when the ledger ever had a row of this run."""
        return bool(self._read("SELECT 1 FROM placement WHERE run = ? LIMIT 1", (run,)))

    def mark_removed(self, run: str, bucket: str) -> None:
        """All that this run put into a bucket is gone."""
        self._write("UPDATE placement SET removed_at = ? WHERE run = ? AND bucket = ?", (time.time(), run, bucket))

    def mark_rows_removed(self, row_ids: Sequence[int]) -> None:
        """All that these rows stand for is gone; what was written since they were read stays known."""
        with self._transaction():
            for row_id in row_ids:
                self._write("UPDATE placement SET removed_at = ? WHERE id = ?", (time.time(), row_id))

    def check_writable(self) -> None:
        """Before anything is removed, for what is gone has to be noted. Raises ResultsError."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(f"PRAGMA user_version = {_VERSION}")  # a page, and so a journal, has to be written
        except sqlite3.Error as error:
            raise ResultsError(
                f"{self._path}, the record of what is locked, cannot be written: {error}; nothing was removed"
            ) from error
        finally:
            self._db.rollback()

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of it or nothing; also its last step may find the disk full."""
        self._write("BEGIN IMMEDIATE")
        try:
            yield
            self._write("COMMIT")
        except BaseException:
            self._db.rollback()
            raise

    def _read(self, statement: str, values: tuple[Any, ...] = ()) -> list[sqlite3.Row]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: sqlite3.Error) -> ResultsError:
        if getattr(error, "sqlite_errorcode", 0) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
            return ResultsError(
                f"{self._path}, the record of what is locked, cannot be made: {error}; make room on its disk, or name "
                "another home with ARCHIVER_HOME"
            )
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
            return ResultsError(
                f"{self._path}, the record of what is locked, was written by an older Archiver, and it cannot be "
                f"brought up to date: {error}; make it yours to write"
            )
        return ResultsError(
            f"{self._path}, the record of what is locked, cannot be read: {error}; restore it from a copy, or move it "
            "away and list the buckets by hand before you remove anything"
        )

    def _write(self, statement: str, values: dict[str, Any] | tuple[Any, ...] = ()) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise RunFailed(
                f"{self._path}, the record of what is locked, cannot be written: {error}; nothing is archived that "
                "it does not know of"
            ) from error


# What makes a ledger of one version one of the next.
_CHANGES = {
    1: """
ALTER TABLE placement ADD COLUMN content_seed INTEGER;
ALTER TABLE placement ADD COLUMN first_number INTEGER NOT NULL DEFAULT 0;
ALTER TABLE placement ADD COLUMN earliest_retain_until REAL;
""",
    2: """
ALTER TABLE placement ADD COLUMN seen_mode TEXT;
ALTER TABLE placement ADD COLUMN seen_until REAL;
ALTER TABLE placement ADD COLUMN seen_hold INTEGER NOT NULL DEFAULT 0;
""",
}


def _placement(values: dict[str, Any]) -> Placement:
    return Placement(**values)
