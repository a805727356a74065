"""The ledger: one SQLite file over all runs, written before a phase sends its first byte.

One idea: a row is an upper bound of what a phase may leave on the platform. It is written first, so it is right after a
crash at any moment. If a row has no exact count, only a listing of its prefix shows the objects.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from platform import node
from typing import Any

from archiver.ledger.event_holds import EventHoldRange, EventHolds
from archiver.values.clock import now_seconds
from archiver.values.databases import is_damage, open_database, words_of
from archiver.values.errors import ResultsError, RunFailed, other_version

_VERSION = 6


@dataclass(frozen=True, slots=True)
class Placement:
    """Place and lock of the objects that one phase of one run stores."""

    run: str
    phase: str
    backend: str
    platform: str | None  # name of a platform that Archiver starts; None: another owner's, at the endpoint
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
    id: int | None = field(default=None, compare=False)  # row number, assigned by the ledger
    content_seed: int | None = None  # seed of the content; None: content does not follow from object numbers
    first_number: int = 0  # lowest object number; all are below first_number + objects_max
    earliest_retain_until: float | None = None  # no lock ends earlier; None: no date
    written_at: float = field(default=0.0, compare=False)  # epoch seconds
    # The strongest lock that the platform reported for an object, if it differs from the agreed one.
    seen_mode: str | None = None
    seen_until: float | None = None
    seen_hold: bool = False
    event_hold_days: int | None = None  # period that a release of its objects' event holds starts; None: no event hold
    released_until: float | None = None  # latest date that the release of an event hold can have set; None: no release

    @property
    def mode(self) -> str:
        """Return the strongest retention mode of its locks, agreed or reported."""
        weaker_first = ("none", "GOVERNANCE", "CLASS", "COMPLIANCE")
        return max(self.retention_mode, self.seen_mode or "none", key=weaker_first.index)

    @property
    def asked_until(self) -> float | None:
        """Return the latest retain-until date that the run asked for, in epoch seconds; None: no date."""
        dates = (self.latest_retain_until, self.released_until)
        return max((each for each in dates if each is not None), default=None)

    @property
    def locked_until(self) -> float | None:
        """Return the latest retain-until date of its locks, asked for or reported, in epoch seconds; None: no date."""
        dates = (self.asked_until, self.seen_until)
        return max((each for each in dates if each is not None), default=None)

    @property
    def is_held(self) -> bool:
        """Whether the run placed a hold or the platform reported one."""
        return self.is_open_ended or self.seen_hold

    @property
    def is_open_ended(self) -> bool:
        """Whether the run placed a legal hold or an event hold, which have no end."""
        return self.legal_hold or self.event_hold_days is not None


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Acknowledged objects of one size, by their numbers, which are part of their names."""

    object_bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class RunEntry:
    """Where a run writes its results, and whether it has ended."""

    run: str
    database: Path  # absolute
    machine: str  # name of the machine that it runs on
    reads: str | None  # another run, whose objects it reads
    begun_at: float  # epoch seconds
    ended_at: float | None  # epoch seconds; None: in progress, or killed

    @property
    def is_of_this_machine(self) -> bool:
        return self.machine == node()


class Ledger:
    """The open ledger. Every write is durable when the call returns (SQLite, full sync)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Threads may write in turn, because SQLite serialises the calls.
            self._db = open_database(path, "rwc", isolation_level=None, timeout=30.0, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise ResultsError(
                f"{path}, the record of locked objects, cannot be opened: {words_of(error)}; or name another home with "
                "ARCHIVER_HOME"
            ) from error
        self._db.row_factory = sqlite3.Row
        try:
            self._make_tables()
        except ResultsError:
            self._db.close()
            raise

    def _make_tables(self) -> None:
        """Create the tables of a new ledger.

        Raises ResultsError for a ledger of another version, or with others: a view or a trigger of another owner would
        be carried out.
        """
        tables = files("archiver.ledger").joinpath("ledger.sql").read_text()
        try:
            self._db.execute("PRAGMA synchronous = FULL")
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if not version:
                # Another command may make them at the same time; the script leaves those that exist.
                self._db.executescript(f"BEGIN IMMEDIATE; {tables}\nPRAGMA user_version = {_VERSION}; COMMIT")
            if version in (0, _VERSION) and not self._db.has_tables_of(tables):
                raise ResultsError(f"{self._path}: its tables are not those of a ledger; restore it from a copy")
        except sqlite3.Error as error:
            self._db.rollback()
            raise self._unreadable(error) from error
        if version not in (0, _VERSION):
            raise ResultsError(other_version(f"{self._path}, the record of locked objects", version, _VERSION))

    def begin_run(self, run: str, database: Path, reads: str | None = None) -> None:
        """Record that a run is in progress on this machine, writes its results to ``database``, and reads objects of
        another run, ``reads``.
        """
        entry = (run, str(database.resolve()), node(), reads, now_seconds())
        self._write("INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?, ?, NULL)", entry)

    def end_run(self, run: str) -> None:
        """Record that a run has ended. It may be resumed, and then it begins again."""
        self._write("UPDATE run SET ended_at = ? WHERE run = ?", (now_seconds(), run))

    def runs_using(self, run: str) -> list[RunEntry]:
        """Return the run, and the runs that read its objects."""
        rows = self._read(
            "SELECT run, database, machine, reads, begun_at, ended_at FROM run WHERE ?1 IN (run, reads) "
            "ORDER BY run != ?1",
            (run,),
        )
        return [RunEntry(row[0], Path(row[1]), *row[2:]) for row in rows]

    def open_placement(self, placement: Placement) -> int:
        """Commit the upper bound of what a phase may leave; return the row's id."""
        row = {**asdict(placement), "written_at": now_seconds()}
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
        """Replace the upper bound by what the phase actually left.

        ``ranges`` are the acknowledged objects. ``latest_retain_until`` is the latest date of its locks, if it is known
        more exactly now.
        """
        with self._transaction():
            # The data of an ended phase exists, even if a clean-up removed data during the phase.
            self._write(
                "UPDATE placement SET objects = ?, bytes = ?, removed_at = NULL, "
                "latest_retain_until = min(latest_retain_until, coalesce(?, latest_retain_until)) WHERE id = ?",
                (objects, size_bytes, latest_retain_until, row_id),
            )
            for each in ranges:
                values = (row_id, each.object_bytes, each.first, each.last)
                self._write("INSERT INTO object_range VALUES (?, ?, ?, ?)", values)

    def ranges(self, row_id: int) -> list[NumberRange]:
        """Return the acknowledged objects of one placement."""
        rows = self._read(
            "SELECT object_bytes, first, last FROM object_range WHERE placement = ? ORDER BY first", (row_id,)
        )
        return [NumberRange(*row) for row in rows]

    def placements(self, run: str | None = None) -> list[Placement]:
        """Return the data of one run, or of all runs, that nothing has removed yet, in the order of writing."""
        rows = self._read(
            "SELECT * FROM placement WHERE removed_at IS NULL AND (run = ?1 OR ?1 IS NULL) ORDER BY id", (run,)
        )
        flags = ("bucket_created", "legal_hold", "seen_hold")
        names = [each.name for each in fields(Placement)]
        return [_placement({name: bool(row[name]) if name in flags else row[name] for name in names}) for row in rows]

    def strengthen(self, run: str, *, until: float | None = None, legal_hold: bool = False) -> None:
        """Record later dates or a hold before they are set on a run's objects."""
        self._write(
            "UPDATE placement SET latest_retain_until = max(coalesce(latest_retain_until, ?1), coalesce(?1, "
            "latest_retain_until)), legal_hold = max(legal_hold, ?2) WHERE run = ?3 AND removed_at IS NULL "
            "AND coalesce(objects, objects_max) > 0",
            (until, legal_hold, run),
        )

    def open_event_holds(self, run: str, bound: EventHoldRange, placed_days: int | None) -> int:
        """Record which event holds a phase may place or release, before its first request; return the row's id.

        ``bound`` are objects of unknown state. ``placed_days`` is the period of the event holds that the phase may
        place; None: it places none.
        """
        with self._transaction():
            self._write(
                "UPDATE placement SET event_hold_days = coalesce(?1, event_hold_days), released_until = "
                "max(coalesce(released_until, ?2), coalesce(?2, released_until)) WHERE run = ?3 "
                "AND removed_at IS NULL AND coalesce(objects, objects_max) > 0 AND retention_mode != 'none'",
                (placed_days, bound.latest, run),
            )
            cursor = self._write(_INSERT_EVENT_HOLD, (run, *bound))
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def close_event_holds(self, row_id: int, run: str, ranges: Sequence[EventHoldRange], *, is_exact: bool) -> None:
        """Record the changes of event holds by an ended phase.

        ``is_exact``: the phase changed nothing else, so the other objects of the bound are as they were before it.
        """
        with self._transaction():
            if is_exact:
                self._write("DELETE FROM event_hold WHERE id = ?", (row_id,))
            for each in ranges:
                self._write(_INSERT_EVENT_HOLD, (run, *each))
            if is_exact:
                self._write(
                    "UPDATE placement SET released_until = (SELECT max(latest) FROM event_hold WHERE run = ?1) "
                    "WHERE run = ?1 AND removed_at IS NULL AND released_until IS NOT NULL",
                    (run,),
                )
            for row, held in self.event_held(run):
                if row.objects and not held:
                    self._write("UPDATE placement SET event_hold_days = NULL WHERE id = ?", (row.id,))

    def event_holds(self, run: str) -> EventHolds:
        """Return the event holds as operations of a run left them."""
        rows = self._read(
            "SELECT first, last, is_on, earliest, latest FROM event_hold WHERE run = ? ORDER BY id", (run,)
        )
        return EventHolds(
            [EventHoldRange(*row)._replace(is_on=None if row["is_on"] is None else bool(row["is_on"])) for row in rows]
        )

    def event_held(self, run: str) -> list[tuple[Placement, int]]:
        """Return each row with the number of its objects that are under an event hold, or may be."""
        rows, changed = self.placements(run), self.event_holds(run)
        # The first row records whether the run's archive requests place event holds.
        by_archive = any(row.event_hold_days is not None for row in rows[:1])
        found = []
        for row in rows:
            known = self.ranges(row.id) if row.id is not None else []
            parts = [part for each in known for part in changed.parts(each.first, each.last)]
            held = sum(
                last - first + 1
                for first, last, state in parts
                if (by_archive if state is None else state.is_on is not False)
            )
            if by_archive or row.objects is None:  # archives without an answer may be held as well
                objects = row.objects if row.objects is not None else row.objects_max
                held += objects - sum(last - first + 1 for first, last, _ in parts)
            found.append((row, held if row.event_hold_days is not None else 0))
        return found

    def observe(self, row_ids: Sequence[int], mode: str | None, until: float | None, *, on_hold: bool = False) -> None:
        """Record a lock that the platform reports for an object of these rows, in addition to the agreed lock.

        ``mode`` is the platform's word and ``until`` is in epoch seconds; both are None if it reports none. The
        strongest of several observations is kept.
        """
        with self._transaction():
            for row_id in row_ids:
                self._write(
                    "UPDATE placement SET seen_until = max(coalesce(seen_until, ?1), coalesce(?1, seen_until)), "
                    "seen_mode = CASE WHEN seen_mode = 'COMPLIANCE' THEN seen_mode ELSE coalesce(?2, seen_mode) END, "
                    "seen_hold = max(seen_hold, ?3) WHERE id = ?4",
                    (until, mode, on_hold, row_id),
                )

    def observe_object(
        self, run: str, number: int, mode: str | None, until: float | None, *, on_hold: bool = False
    ) -> None:
        """Record a lock that the platform reports for object ``number`` of a run, as ``observe`` does.

        If the number is in no range of acknowledged objects, such as that of a copy, the lock counts for all phases.
        """
        rows = [row.id for row in self.placements(run) if row.id is not None and row.objects != 0]
        owners = [at for at in rows if any(each.first <= number <= each.last for each in self.ranges(at))]
        self.observe(owners or rows, mode, until, on_hold=on_hold)

    def record_release(self, row_ids: Sequence[int], until: float | None) -> None:
        """Record that all holds on the objects of these rows were released; their latest date is now ``until``."""
        released = json.dumps(list(row_ids))
        with self._transaction():
            # Event holds are recorded by object number for all places of a run. While another place has objects under
            # event holds, the record stays: it may then name more than there are, and never fewer.
            self._write(
                "DELETE FROM event_hold "
                "WHERE run IN (SELECT run FROM placement WHERE id IN (SELECT value FROM json_each(?1))) "
                "AND run NOT IN (SELECT run FROM placement WHERE removed_at IS NULL AND event_hold_days IS NOT NULL "
                "AND coalesce(objects, objects_max) > 0 AND id NOT IN (SELECT value FROM json_each(?1)))",
                (released,),
            )
            for row_id in row_ids:
                self._write(
                    "UPDATE placement SET legal_hold = 0, event_hold_days = NULL, seen_hold = 0, latest_retain_until = "
                    "max(coalesce(latest_retain_until, ?1), coalesce(?1, latest_retain_until)) WHERE id = ?2",
                    (until, row_id),
                )

    def latest_run(self) -> str | None:
        """Return the latest run with data that was not removed."""
        rows = self._read("SELECT run FROM placement WHERE removed_at IS NULL ORDER BY id DESC LIMIT 1")
        return str(rows[0]["run"]) if rows else None

    def knows(self, run: str) -> bool:
        """Return whether the ledger ever had a row of this run."""
        return bool(self._read("SELECT 1 FROM placement WHERE run = ? LIMIT 1", (run,)))

    def mark_removed(self, run: str, bucket: str) -> None:
        """Record that all data of this run in a bucket is gone."""
        self._write("UPDATE placement SET removed_at = ? WHERE run = ? AND bucket = ?", (now_seconds(), run, bucket))

    def mark_rows_removed(self, row_ids: Sequence[int]) -> None:
        """Record that the data of these rows is gone. Rows written since these rows were read stay."""
        with self._transaction():
            for row_id in row_ids:
                self._write("UPDATE placement SET removed_at = ? WHERE id = ?", (now_seconds(), row_id))

    def check_writable(self) -> None:
        """Raise ResultsError if the ledger cannot record a removal. Call this before removing anything."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(f"PRAGMA user_version = {_VERSION}")  # writes a page, and therefore a journal
        except sqlite3.Error as error:
            raise ResultsError(
                f"{self._path}, the record of locked objects, cannot be written: {words_of(error)}; nothing was removed"
            ) from error
        finally:
            self._db.rollback()

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Run the block in one transaction; the commit may find the disk full."""
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
        hint = ""
        if is_damage(error):
            hint = ", or move it away and list the buckets by hand before you remove anything"
        return ResultsError(f"{self._path}, the record of locked objects, cannot be used: {words_of(error)}{hint}")

    def _write(self, statement: str, values: dict[str, Any] | tuple[Any, ...] = ()) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise RunFailed(
                f"{self._path}, the record of locked objects, cannot be written: {words_of(error)}; a run archives "
                "nothing without an entry in it"
            ) from error


_INSERT_EVENT_HOLD = "INSERT INTO event_hold (run, first, last, is_on, earliest, latest) VALUES (?, ?, ?, ?, ?, ?)"


def _placement(values: dict[str, Any]) -> Placement:
    return Placement(**values)
