"""One SQLite database per run: the only place that stores results.

The run commits each phase in one transaction when the phase ends. A run that is killed therefore keeps every finished
phase. Every table, figure and document is a query over this file.
"""

from __future__ import annotations

import fcntl
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from archiver.values.databases import Database, open_database, words_of
from archiver.values.errors import ResultsError, other_version
from archiver.values.platform import PlatformProfile
from archiver.values.typed import undamaged
from archiver.values.visible import one_line
from results.recorded.model import CheckRecord, CriterionResult, FirstError, Result, RoundRecord, SearchOutcome
from results.recorded.resources import CLIENT, SampleRow, SourceProblem, Timeline

VERSION = 11
FILE_NAME = "run.db"
LOCK_NAME = "lock"  # next to the database; the writer locks it
_LOCK_TRIES = 3  # ``is_under_way`` of another process has the lock for microseconds
_LOCK_PAUSE_SECONDS = 0.01
CLOCK_ANEW_NS = 60 * 10**9  # a larger difference to wall clocks means that the run's clock restarted or stopped


@dataclass(frozen=True, slots=True)
class ObjectsFrom:
    """Objects of an earlier run that this run reads. The last two fields are epoch seconds."""

    run: str
    objects: int
    archived_from: float  # start of the first phase that archived some of them
    archived_to: float  # start of the last such phase


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Facts about a run before its first phase. Field names are the columns of table run.

    A run without phases, such as a conformance run, has the defaults for what only phases have.
    """

    id: str
    started_at: float
    command_line: list[str]
    scenario: str
    scenario_title: str
    scenario_json: str = "{}"
    sweep_order: Literal["shuffled", "paper"] = "paper"
    order_seed: int = 0
    repetitions: int = 1
    phases_planned: int = 0
    backend: str
    platform: PlatformProfile
    settings: dict[str, Any]
    host: dict[str, Any]
    workers: int = 0
    worker_cores: list[int] = field(default_factory=list)
    shared_host: bool
    location: dict[str, Any]
    content_seed: int = 0
    content_kind: str = "none"
    interval_ns: int = 0
    comparison: str | None = None
    objects_from: ObjectsFrom | None = None  # None: the run archives what it reads
    request: str | None = None  # JSON: the user's request; None: a conformance run


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun(RunRecord):
    """The row of a run: its record, and the fields that the run sets later."""

    ended_at: float | None = None  # epoch seconds; None: running, or killed
    verdict: str | None = None  # pass, fail, void, none, interrupted; None as above
    lock_verified: str | None = None  # verified, or the first wrong lock; None: no lock was read back


class ArchivedRange(NamedTuple):
    """Objects ``first`` to ``last`` that a phase archived."""

    object_bytes: int
    first: int
    last: int
    data: str  # data set in which a scenario counts them; empty in sweeps
    workload: int  # index of the workload in its phase, from 0

    @property
    def objects(self) -> int:
        return self.last - self.first + 1


class ObjectChange(NamedTuple):
    """A change to the archived objects ``first`` to ``last``: extended, held, released, deleted, copied ..."""

    operation: str
    object_bytes: int
    first: int
    last: int


class WorkloadInterval(NamedTuple):
    """Work that one workload finished in one interval of a phase.

    Intervals count from the phase's start, warm-up included.
    """

    workload: str
    interval: int  # from 0
    objects: int
    bytes: int
    errors: int
    response_total_ns: int  # sum over objects, from due to done
    response_max_ns: int
    response_p50_ns: int | None = None  # None: no object ended in it, or they are not known
    response_p99_ns: int | None = None


class Attempts(NamedTuple):
    """Requests for objects of one operation with one way of locking."""

    operation: str
    lock: str | None  # how objects were locked; None: the run's way
    attempts: int
    sessions: int  # number of sessions that ended without error


class BrokenPhase(NamedTuple):
    """A phase that began and did not finish normally."""

    position: int
    server_now: float  # epoch seconds: the platform's clock at the phase's start


class WorkloadHistogram(NamedTuple):
    """One histogram of a workload of a phase; ``indices`` and ``counts`` are little-endian int64."""

    position: int
    workload: str
    indices: bytes
    counts: bytes


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """One row of table interval."""

    interval: int
    workload: str
    part: str
    sessions: int
    objects: int
    bytes: int
    attempts: int
    errors: int
    response_total_ns: int = 0  # sum over the objects that ended in the interval
    response_max_ns: int = 0
    response_p50_ns: int | None = None  # None: no object ended in it, or they are not known
    response_p99_ns: int | None = None


@dataclass(frozen=True, slots=True)
class PartRow:
    """One row of table part."""

    workload: str
    name: str
    operation: str
    objects: int
    bytes: int
    attempts: int
    errors: int


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One row of table worker; None means unknown."""

    worker: int
    name: str
    host: str
    objects: int
    bytes: int
    errors: int
    cpu_seconds: float | None
    prepared_seconds: float | None
    late_ns: int | None
    clock_offset_ns: int | None
    clock_error_ns: int | None
    lost: str | None


@dataclass(frozen=True, slots=True)
class HistogramRow:
    """One row of table histogram; ``indices`` and ``counts`` are little-endian int64."""

    workload: str
    quantity: str
    total_ns: int
    max_ns: int
    indices: bytes
    counts: bytes


@dataclass(frozen=True, slots=True)
class PhaseTimes:
    """Start and end of a phase. ``started_at`` is in epoch seconds; instants in nanoseconds are on the run's clock."""

    position: int
    label: str
    started_at: float
    seconds: float
    start_ns: int
    end_ns: int
    measured_from_ns: int
    measured_to_ns: int
    prepared_ns: int  # before its probe objects were archived

    @property
    def prepared_at(self) -> float:
        """Epoch seconds before which the phase archived nothing."""
        return self.started_at - (self.start_ns - self.prepared_ns) / 1e9

    @property
    def archived_seconds(self) -> float:
        """Seconds between ``prepared_at`` and the phase's end."""
        return self.seconds + (self.start_ns - self.prepared_ns) / 1e9


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """Everything that the database stores about a finished phase."""

    times: PhaseTimes
    name: str
    repetition: int
    drift_check: bool
    results: Sequence[Result]
    intervals: Sequence[IntervalRow]
    histograms: Sequence[HistogramRow]
    archived: Sequence[ArchivedRange]
    errors: Sequence[FirstError]
    changed: Sequence[ObjectChange] = ()
    gave_up: str | None = None  # why the phase ended early
    criteria: Sequence[CriterionResult] = ()
    parts: Sequence[PartRow] = ()
    workers: Sequence[WorkerRow] = ()
    probes: Sequence[ProbeRow] = ()


class ProbeRow(NamedTuple):
    """Probe objects of one way of locking. The run archives them before the clients of a phase begin."""

    lock: str | None
    object_bytes: int
    tries: int
    archived: int


@dataclass(frozen=True, slots=True)
class Resumption:
    """A continuation of an interrupted run."""

    at: float  # epoch seconds
    after_position: int  # the last finished phase; 0: none
    shift_ns: int  # added to earlier instants on the run's clock


_JSON_COLUMNS = ("command_line", "platform", "settings", "host", "worker_cores", "location", "objects_from")
_OF_PHASES = (  # tables with rows per phase
    "criterion", "probe", "worker", "part", "error", "object_change", "object_range", "histogram", "interval",
    "result",
)  # fmt: skip
_INSTANTS = ("start_ns", "end_ns", "measured_from_ns", "measured_to_ns", "prepared_ns")


class RunDatabase:
    """The open database of one run."""

    def __init__(self, connection: Database, path: Path, lock: IO[bytes] | None = None) -> None:
        self._db = connection
        self._db.row_factory = sqlite3.Row
        self._lock = lock  # the writer's lock
        self.path = path

    @classmethod
    def create(cls, path: Path, record: RunRecord) -> RunDatabase:
        """Create a database with the run's row. Raises ResultsError if the file cannot be written."""
        lock = connection = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = _lock(path)
            connection = open_database(path, "rwc")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(schema())
            connection.execute(f"PRAGMA user_version = {VERSION}")
            row = {
                name: json.dumps(value) if name in _JSON_COLUMNS and value is not None else value
                for name, value in asdict(record).items()
            }
            columns = ", ".join(row)
            marks = ", ".join(f":{name}" for name in row)
            connection.execute(f"INSERT INTO run ({columns}) VALUES ({marks})", row)
            connection.commit()
        except (OSError, sqlite3.Error) as error:
            for opened in (connection, lock):
                if opened is not None:
                    opened.close()
            raise ResultsError(
                f"{path}: the results cannot be written: {words_of(error)}; or name another folder with --out"
            ) from error
        return cls(connection, path, lock)

    @classmethod
    def open(cls, path: Path) -> RunDatabase:
        """Open an existing database for reading.

        Raises ResultsError for a missing, foreign or damaged file, or one of another version.
        """
        return cls._open(_existing(path), "ro", None)

    @classmethod
    def reopen(cls, path: Path) -> RunDatabase:
        """Open an existing database for further writing.

        Raises ResultsError as ``open`` does, and if the run that writes it is alive.
        """
        path = _existing(path)
        try:
            lock = _lock(path)
        except OSError as error:
            raise ResultsError(f"{path.parent}: {words_of(error)}") from error
        try:
            return cls._open(path, "rw", lock)
        except BaseException:
            lock.close()
            raise

    @classmethod
    def _open(cls, path: Path, mode: Literal["ro", "rw"], lock: IO[bytes] | None) -> RunDatabase:
        """Open a database that another owner may have made, after a check of its tables and pages."""
        try:
            connection = open_database(path, mode)
        except sqlite3.Error as error:
            raise ResultsError(f"{path}: not a readable results database: {words_of(error)}") from error
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                raise ResultsError(f"{path} is no results database of Archiver")
            if version != VERSION:
                raise ResultsError(other_version(path, version, VERSION))
            if not connection.has_tables_of(schema()):
                raise ResultsError(f"{path}: its tables are not those of a results database of Archiver")
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise ResultsError(f"{path}: damaged: {one_line(found)}; read a copy of it")
            if connection.execute("SELECT id, comparison FROM run").fetchone() is None:
                raise ResultsError(f"{path}: its run was never begun; nothing can be read from it")
        except sqlite3.Error as error:
            connection.close()
            connection.check_interrupted(error)
            raise ResultsError(f"{path}: not a readable results database: {words_of(error)}") from error
        except BaseException:
            connection.close()
            raise
        if mode == "rw":
            connection.unlimit()
        return cls(connection, path, lock)

    def begin_phase(self, position: int, server_now: float) -> None:
        """Record that a phase is about to use the platform.

        The platform's clock (epoch seconds) decides which objects the phase uses.
        """
        with self._transaction():
            self._db.execute("INSERT INTO begun VALUES (?, ?, ?)", (position, time.time(), server_now))

    def add_phase(self, phase: PhaseRecord) -> None:
        """Commit a finished phase in one transaction."""
        times = phase.times
        at = times.position
        with self._transaction():
            self._db.execute(
                "INSERT INTO phase VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    at,
                    phase.name,
                    times.label,
                    phase.repetition,
                    phase.drift_check,
                    times.started_at,
                    times.seconds,
                    times.start_ns,
                    times.end_ns,
                    times.measured_from_ns,
                    times.measured_to_ns,
                    phase.gave_up,
                    times.prepared_ns,
                ),
            )
            self._db.executemany(
                "INSERT INTO result VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        at, r.workload, r.operation, r.object_bytes, r.objects_per_session, r.clients, r.repetition,
                        r.objects, r.errors, r.seconds, r.objects_per_second, json.dumps(asdict(r)),
                    )
                    for r in phase.results
                ],
            )  # fmt: skip
            self._insert("interval", 13, [(at, *_values(row)) for row in phase.intervals])
            self._insert("histogram", 7, [(at, *_values(row)) for row in phase.histograms])
            self._insert("object_range", 6, [(at, *row) for row in phase.archived])
            self._insert("object_change", 5, [(at, *row) for row in phase.changed])
            self._insert("error", 7, [(at, *_values(row)[:6]) for row in phase.errors])
            self._insert("part", 8, [(at, *_values(row)) for row in phase.parts])
            self._insert("worker", 13, [(at, *_values(row)) for row in phase.workers])
            self._insert("probe", 5, [(at, *row) for row in phase.probes])
            self._insert("criterion", 2, [(at, json.dumps(asdict(each))) for each in phase.criteria])

    def criteria(self) -> list[CriterionResult]:
        """Return the results of the scenario's criteria in the order of phases."""
        rows = self._db.execute("SELECT document FROM criterion ORDER BY rowid")
        return [undamaged(CriterionResult, json.loads(row["document"])) for row in rows]

    def set_search(self, outcome: SearchOutcome) -> None:
        """Record the result of a search; it replaces an earlier one."""
        with self._transaction():
            self._db.execute("DELETE FROM search")
            self._db.execute("INSERT INTO search VALUES (?)", (json.dumps(asdict(outcome)),))

    def search(self) -> SearchOutcome | None:
        """Return the result of the run's search. Returns None if the run had no search or was interrupted during it."""
        row = self._db.execute("SELECT document FROM search").fetchone()
        return undamaged(SearchOutcome, json.loads(row["document"])) if row is not None else None

    def add_samples(self, samples: Iterable[SampleRow]) -> None:
        """Commit resource samples."""
        with self._transaction():
            self._insert("sample", 4, [(s.source, s.at, s.monotonic_ns, json.dumps(s.reading)) for s in samples])

    def add_source_problem(self, found: SourceProblem) -> None:
        """Commit why a source of resource samples could not be read. The first reason stays."""
        with self._transaction():
            self._db.execute(
                "INSERT OR IGNORE INTO source_problem VALUES (?, ?, ?)", (found.source, found.at, found.problem)
            )

    def add_check(self, check: CheckRecord, exchanges: Sequence[dict[str, Any]]) -> None:
        """Commit the result of a conformance check, with its evidence."""
        with self._transaction():
            self._db.execute(
                "INSERT INTO worm_check VALUES (?, ?, ?, ?)",
                (check.id, check.round, check.verdict, json.dumps(asdict(check))),
            )
            rows = [(check.id, check.round, position, json.dumps(each)) for position, each in enumerate(exchanges, 1)]
            self._insert("worm_exchange", 4, rows)

    def add_round(self, record: RoundRecord) -> None:
        """Commit the conditions of a round of conformance checks."""
        with self._transaction():
            self._db.execute("INSERT INTO worm_round VALUES (?, ?)", (record.round, json.dumps(asdict(record))))

    def rounds(self) -> list[RoundRecord]:
        """Return the rounds of conformance checks of this run, in order."""
        rows = self._db.execute("SELECT document FROM worm_round ORDER BY rowid")
        return [undamaged(RoundRecord, json.loads(row["document"])) for row in rows]

    def add_audit(self, document: Mapping[str, Any]) -> None:
        """Commit the result of an audit."""
        with self._transaction():
            self._db.execute("INSERT INTO audit VALUES (?, ?)", (document["started_at"], json.dumps(document)))

    def audits(self) -> list[dict[str, Any]]:
        """Return the results of every audit of this run, in order."""
        rows = self._db.execute("SELECT document FROM audit ORDER BY rowid")
        return [json.loads(row["document"]) for row in rows]

    def checks(self) -> list[CheckRecord]:
        """Return every conformance check of this run, in the order in which they ended."""
        rows = self._db.execute("SELECT document FROM worm_check ORDER BY rowid")
        return [undamaged(CheckRecord, json.loads(row["document"])) for row in rows]

    def exchanges(self, check: CheckRecord) -> list[dict[str, Any]]:
        """Return the evidence of a check, in order."""
        rows = self._db.execute(
            "SELECT document FROM worm_exchange WHERE check_id = ? AND round = ? ORDER BY position",
            (check.id, check.round),
        )
        return [json.loads(row["document"]) for row in rows]

    def set_lock_verified(self, outcome: str) -> None:
        """Record the result of reading locks back: verified, or what is wrong with the first wrong lock."""
        with self._transaction():
            self._db.execute("UPDATE run SET lock_verified = ?", (outcome,))

    def set_planned_as_finished(self) -> None:
        """Record that the finished phases are all that there are: a run with a time budget plans more than it needs."""
        with self._transaction():
            self._db.execute(
                "UPDATE run SET (phases_planned, repetitions) = (SELECT count(*), max(repetition) FROM phase)"
            )

    def finish(self, ended_at: float, verdict: str) -> None:
        """Record the end and the verdict of the run."""
        with self._transaction():
            self._db.execute("UPDATE run SET ended_at = ?, verdict = ?", (ended_at, verdict))

    def resume(self, at: float, now_ns: int) -> Resumption:
        """Continue the run after its last finished phase, at ``at`` (epoch seconds) and ``now_ns`` (the run's clock).

        This forgets a phase that gave up, and a phase during which the platform became unreachable. A machine that
        restarted has a new monotonic clock. In that case all earlier instants move to before ``now_ns``, by the time
        that passed on wall clocks.
        """
        with self._transaction():
            broken = self._broken()
            for table in (*_OF_PHASES, "phase"):
                self._db.executemany(f"DELETE FROM {table} WHERE position = ?", [(position,) for position in broken])
            shift_ns = self._shift_ns(at, now_ns)
            if shift_ns:
                moved = ", ".join(f"{name} = {name} + :shift" for name in _INSTANTS)
                self._db.execute(f"UPDATE phase SET {moved}", {"shift": shift_ns})
                self._db.execute("UPDATE sample SET monotonic_ns = monotonic_ns + ?", (shift_ns,))
            after = self._db.execute("SELECT coalesce(max(position), 0) FROM phase").fetchone()[0]
            self._db.execute("INSERT INTO resumption VALUES (?, ?, ?)", (at, after, shift_ns))
            self._db.execute("UPDATE run SET ended_at = NULL, verdict = NULL")
        return Resumption(at, after, shift_ns)

    def _shift_ns(self, at: float, now_ns: int) -> int:
        """Return the shift that moves earlier instants before ``now_ns``, by the time that passed on wall clocks."""
        last = self._db.execute(
            "SELECT at, monotonic_ns FROM sample UNION ALL SELECT started_at + seconds, end_ns FROM phase "
            "ORDER BY 2 DESC LIMIT 1"
        ).fetchone()
        if last is None:
            return 0
        since_ns = round(max(0.0, at - last[0]) * 1e9)  # a wall clock that was set back gives only the order
        shift_ns: int = now_ns - since_ns - last[1]
        # Wall clocks drift, and time services adjust them by fractions of a second. The run's clock is more exact while
        # it keeps running.
        return 0 if last[1] <= now_ns and abs(shift_ns) < CLOCK_ANEW_NS else shift_ns

    def resumptions(self) -> list[Resumption]:
        """Return the times at which the run continued after an interruption, in order."""
        return [Resumption(*row) for row in self._db.execute("SELECT at, after_position, shift_ns FROM resumption")]

    def broken_off(self) -> list[BrokenPhase]:
        """Return every start of a phase that did not finish normally, in order.

        A phase that gave up is included only after ``resume``.
        """
        rows = self._db.execute(
            "SELECT position, server_now FROM begun WHERE rowid NOT IN (SELECT max(begun.rowid) FROM begun JOIN phase "
            "USING (position) GROUP BY position) ORDER BY rowid"
        )
        return [BrokenPhase(*row) for row in rows]

    def finished(self) -> int:
        """Count the phases that finished normally."""
        return int(self._db.execute("SELECT count(*) FROM phase").fetchone()[0]) - len(self._broken())

    def _broken(self) -> list[int]:
        """Return the positions of phases that do not count as finished.

        These are the phases that gave up. The previous phase is included if the platform became unreachable during it,
        which shows as errors in its last interval.
        """
        rows = self._db.execute(
            "SELECT position FROM phase WHERE gave_up NOT NULL OR ("
            "(SELECT min(position) FROM phase AS next WHERE next.position > phase.position) "
            "IN (SELECT position FROM phase WHERE gave_up NOT NULL) AND 0 < (SELECT sum(errors) FROM interval "
            "WHERE interval.position = phase.position "
            "AND interval = (SELECT max(interval) FROM interval WHERE interval.position = phase.position)))"
        )
        return [row["position"] for row in rows]

    def archived_by(self, position: int) -> list[ArchivedRange]:
        """Return the objects that one phase archived."""
        rows = self._db.execute(
            "SELECT object_bytes, first, last, data, workload FROM object_range WHERE position = ? ORDER BY first",
            (position,),
        )
        return [ArchivedRange(*row) for row in rows]

    def changes(self, position: int | None = None) -> list[ObjectChange]:
        """Return the changes that one phase, or the run, made to archived objects, in order."""
        rows = self._db.execute(
            "SELECT operation, object_bytes, first, last FROM object_change WHERE position = ?1 OR ?1 IS NULL "
            "ORDER BY rowid",
            (position,),
        )
        return [ObjectChange(*row) for row in rows]

    def run(self) -> StoredRun:
        """Return the run's row."""
        row = self._db.execute("SELECT * FROM run").fetchone()
        values: dict[str, Any] = {
            each.name: json.loads(row[each.name])
            if each.name in _JSON_COLUMNS and row[each.name] is not None
            else row[each.name]
            for each in fields(StoredRun)
        }
        return undamaged(StoredRun, {**values, "shared_host": bool(values["shared_host"])})

    def results(self, *, drift_checks: bool = False) -> list[Result]:
        """Return every result in the order of measuring.

        ``drift_checks`` selects the repeated first cells that show drift: none or only these.
        """
        rows = self._db.execute(
            "SELECT document FROM result JOIN phase USING (position) WHERE drift_check = ? ORDER BY position, workload",
            (drift_checks,),
        )
        return [undamaged(Result, json.loads(row["document"])) for row in rows]

    def phases(self) -> list[PhaseTimes]:
        """Return the times of each phase, in order."""
        rows = self._db.execute(
            "SELECT position, label, started_at, seconds, start_ns, end_ns, measured_from_ns, measured_to_ns, "
            "prepared_ns FROM phase ORDER BY position"
        )
        return [PhaseTimes(*row) for row in rows]

    def workers(self) -> dict[int, list[WorkerRow]]:
        """Return, by phase, the work and the state of each worker, and their synchronisation."""
        found: dict[int, list[WorkerRow]] = {}
        for row in self._db.execute("SELECT * FROM worker ORDER BY position, worker"):
            found.setdefault(row["position"], []).append(WorkerRow(*tuple(row)[1:]))
        return found

    def workload_intervals(self) -> dict[int, list[WorkloadInterval]]:
        """Return, by phase, the work that each workload finished in each interval, warm-up and drain included."""
        found: dict[int, list[WorkloadInterval]] = {}
        for row in self._db.execute(
            "SELECT position, workload, interval, objects, bytes, errors, response_total_ns, response_max_ns, "
            "response_p50_ns, response_p99_ns FROM interval ORDER BY position, interval, workload"
        ):
            found.setdefault(row["position"], []).append(WorkloadInterval(*tuple(row)[1:]))
        return found

    def timelines(self) -> dict[str, Timeline]:
        """Return the server's resource samples by source, in the order of the sources' first samples."""
        return self._timelines("source != ?")

    def client_timeline(self) -> Timeline:
        """Return the samples of the client's host. They are empty if the server runs on the same host."""
        return self._timelines("source = ?").get(CLIENT, Timeline())

    def _timelines(self, which: str) -> dict[str, Timeline]:
        """Return the samples of the sources that this comparison with the client's source selects."""
        found: dict[str, Timeline] = {}
        for row in self._db.execute(
            f"SELECT source, at, monotonic_ns, reading FROM sample WHERE {which} ORDER BY monotonic_ns", (CLIENT,)
        ):
            sample = SampleRow(row["source"], row["at"], row["monotonic_ns"], json.loads(row["reading"]))
            found.setdefault(sample.source, Timeline()).add(sample)
        return found

    def source_problems(self) -> list[SourceProblem]:
        """Return the first problem of every source that could not be read at some time."""
        rows = self._db.execute("SELECT source, at, problem FROM source_problem ORDER BY at")
        return [SourceProblem(*row) for row in rows]

    def attempts(self) -> list[Attempts]:
        """Return attempts by operation and lock, over all phases.

        A workload with several operations counts its sessions under ``mixed``. It counts its attempts under ``mixed``
        and under each operation. Of the objects that a phase archived without a data set, only its probe objects change
        their event holds in the same phase.
        """
        rows = self._db.execute(
            "SELECT operation, json_extract(document, '$.lock') AS lock, sum(attempts), sum(interval.sessions) "
            "FROM interval JOIN result USING (position, workload) GROUP BY operation, lock "
            "UNION ALL SELECT operation, NULL, sum(attempts), 0 FROM part GROUP BY operation "
            "UNION ALL SELECT 'archive', lock, sum(tries), sum(archived) FROM probe GROUP BY lock "
            "UNION ALL SELECT operation, NULL, sum(change.last - change.first + 1), "
            "sum(change.last - change.first + 1) FROM object_change AS change JOIN object_range AS archived "
            "ON archived.position = change.position AND archived.data = '' "
            "AND change.first BETWEEN archived.first AND archived.last "
            "WHERE operation IN ('event-hold', 'event-release') GROUP BY operation ORDER BY operation"
        )
        return [Attempts(*row) for row in rows]

    def has_errors(self) -> bool:
        """Return whether any operation failed."""
        return self._db.execute("SELECT 1 FROM error LIMIT 1").fetchone() is not None

    def histograms(self, operation: str, quantity: str) -> list[tuple[bytes, bytes]]:
        """Return (indices, counts) of a quantity in every phase of an operation, as stored."""
        rows = self._db.execute(
            "SELECT indices, counts FROM histogram JOIN result USING (position, workload) "
            "WHERE quantity = ?1 AND operation = ?2 UNION ALL "
            "SELECT indices, counts FROM histogram JOIN part USING (position, workload) "
            "WHERE quantity = ?1 || ':' || name AND operation = ?2",
            (quantity, operation),
        )
        return [tuple(row) for row in rows]

    def cell_histograms(self, quantity: str) -> list[WorkloadHistogram]:
        """Return the histograms of a quantity in every phase."""
        rows = self._db.execute(
            "SELECT position, workload, indices, counts FROM histogram WHERE quantity = ? ORDER BY position, workload",
            (quantity,),
        )
        return [WorkloadHistogram(*row) for row in rows]

    def archived(self, object_bytes: int) -> list[tuple[int, int]]:
        """Return the ranges (first, last) of the objects of one size that this run archived."""
        rows = self._db.execute(
            "SELECT first, last FROM object_range WHERE object_bytes = ? ORDER BY first", (object_bytes,)
        )
        return [(row["first"], row["last"]) for row in rows]

    def check_interrupted(self, error: BaseException) -> None:
        """Raise KeyboardInterrupt if a signal ended the query that failed."""
        self._db.check_interrupted(error)

    def close(self) -> None:
        self._db.close()
        if self._lock is not None:
            self._lock.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with self._db:
                yield
        except sqlite3.Error as error:
            raise ResultsError(f"{self.path}: the results cannot be written: {words_of(error)}") from error

    def _insert(self, table: str, columns: int, rows: list[tuple[Any, ...]]) -> None:
        self._db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})", rows)


@cache
def schema() -> str:
    """Return the SQL that creates the tables."""
    return files("results.recorded").joinpath("schema.sql").read_text()


def _existing(path: Path) -> Path:
    """Return the database file of a run, given the file or its folder. Raises ResultsError if it is missing."""
    if path.is_dir():
        path = path / FILE_NAME
    if not path.exists():
        raise ResultsError(f"{path}: no such run; name its id, its folder, or `latest`")
    return path


def _lock(path: Path) -> IO[bytes]:
    """Take the exclusive write lock of this database until the returned file closes.

    The kernel releases the lock even if the process is killed. Raises ResultsError if another process has the lock. The
    lock is a separate file, because closing any other descriptor of the database would release SQLite's own locks.
    """
    file = (path.parent / LOCK_NAME).open("wb")
    for tries_left in reversed(range(_LOCK_TRIES)):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as held:
            if not tries_left:
                file.close()
                raise ResultsError(f"{path}: its run is under way; wait for its end") from held
            time.sleep(_LOCK_PAUSE_SECONDS)
    return file


def is_under_way(path: Path) -> bool:
    """Return whether a process that writes the database at ``path`` is alive."""
    try:
        file = (path.parent / LOCK_NAME).open("rb")
    except OSError:  # no lock: the database was copied here without it
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _values(row: Any) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in row.__slots__)
