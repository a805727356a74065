"""One SQLite database per run: the only place where results live.

One idea: a phase is committed the moment it ends, in one transaction, so a run that is killed keeps every finished
phase, and everything printed or drawn later is a query over this file.
"""

from __future__ import annotations

import fcntl
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from archiver.values.errors import ResultsError
from archiver.values.platform import PlatformProfile
from results.contract import check_from_document, result_document, result_from_document
from results.model import CheckRecord, CriterionResult, FirstError, Result, RoundRecord, SearchOutcome, SearchStep
from results.resources import CLIENT, SampleRow, SourceProblem, Timeline

VERSION = 8
FILE_NAME = "run.db"
LOCK_NAME = "lock"  # beside it, held by whoever writes it
CLOCK_ANEW_NS = (
    60 * 10**9
)  # a difference to wall clocks beyond this means that the run's clock began anew, or stood still


@dataclass(frozen=True, slots=True)
class ObjectsFrom:
    """The objects of an earlier run that a run reads. The last two fields are epoch seconds."""

    run: str
    objects: int
    archived_from: float  # when the first phase began that archived some of them
    archived_to: float  # and the last one


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What is known of a run before its first phase. Field names are the columns of table run."""

    id: str
    started_at: float
    command_line: list[str]
    scenario: str
    scenario_title: str
    scenario_json: str
    sweep_order: Literal["shuffled", "paper"]
    order_seed: int
    repetitions: int
    phases_planned: int
    backend: str
    platform: PlatformProfile
    settings: dict[str, Any]
    host: dict[str, Any]
    workers: int
    worker_cores: list[int]
    shared_host: bool
    location: dict[str, Any]
    content_seed: int
    content_kind: str
    interval_ns: int
    comparison: str | None = None
    objects_from: ObjectsFrom | None = None  # None: it archives what it reads
    request: str | None = None  # JSON: what the user asked for; None: a conformance run


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun(RunRecord):
    """A run's own row: its record, and what became known later."""

    ended_at: float | None = None  # epoch seconds; None: it is under way, or was killed
    verdict: str | None = None  # pass, fail, void, none, interrupted; None as above
    lock_verified: str | None = None  # verified, or what was wrong with the first lock; None: no lock was read back


class ArchivedRange(NamedTuple):
    """Objects ``first`` to ``last`` that a phase archived."""

    object_bytes: int
    first: int
    last: int
    data: str  # the data set that a scenario counts them to; empty in sweeps
    workload: int  # place of the workload in its phase, from 0

    @property
    def objects(self) -> int:
        return self.last - self.first + 1


class ObjectChange(NamedTuple):
    """What became of the archived objects ``first`` to ``last``: extended, held, released, deleted, copied ..."""

    operation: str
    object_bytes: int
    first: int
    last: int


class WorkloadInterval(NamedTuple):
    """What one workload finished in one interval of a phase, counted from the phase's start, warm-up included."""

    workload: str
    interval: int  # from 0
    objects: int
    bytes: int
    errors: int
    response_total_ns: int  # of the objects, from due to done
    response_max_ns: int


class Attempts(NamedTuple):
    """Requests for objects of one operation with one way of locking."""

    operation: str
    lock: str | None  # how objects came by their lock; None: as the run says
    attempts: int
    sessions: int  # that ended well


class BrokenPhase(NamedTuple):
    """A phase that was begun and did not finish as it should."""

    position: int
    server_now: float  # epoch seconds: the platform's clock when it began


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
    response_total_ns: int = 0  # of the objects that ended in it
    response_max_ns: int = 0


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
    """One row of table worker; what is None there is not known."""

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
    """Which phase ran when: ``started_at`` is epoch seconds, instants in nanoseconds are on the run's clock."""

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
        """Between ``prepared_at`` and the phase's end."""
        return self.seconds + (self.start_ns - self.prepared_ns) / 1e9


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """All that is kept of a finished phase."""

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
    gave_up: str | None = None  # why it ended early
    criteria: Sequence[CriterionResult] = ()
    parts: Sequence[PartRow] = ()
    workers: Sequence[WorkerRow] = ()
    probes: Sequence[ProbeRow] = ()


class ProbeRow(NamedTuple):
    """Probe objects of one way of locking: archived before the clients of a phase began."""

    lock: str | None
    object_bytes: int
    tries: int
    archived: int


@dataclass(frozen=True, slots=True)
class Resumption:
    """When a run went on after it had broken off."""

    at: float  # epoch seconds
    after_position: int  # of the last phase that had finished; 0: none
    shift_ns: int  # by which instants that are older were moved on the run's clock


_JSON_COLUMNS = ("command_line", "platform", "settings", "host", "worker_cores", "location", "objects_from")
_OF_PHASES = (  # tables
    "criterion", "probe", "worker", "part", "error", "object_change", "object_range", "histogram", "interval",
    "result",
)  # fmt: skip
_INSTANTS = ("start_ns", "end_ns", "measured_from_ns", "measured_to_ns", "prepared_ns")


class RunDatabase:
    """The open database of one run."""

    def __init__(self, connection: sqlite3.Connection, path: Path, lock: IO[bytes] | None = None) -> None:
        self._db = connection
        self._db.row_factory = sqlite3.Row
        self._lock = lock  # of the one who writes
        self.path = path

    @classmethod
    def create(cls, path: Path, record: RunRecord) -> RunDatabase:
        """A new database with the run's own row. Raises ResultsError where it cannot be written."""
        lock = connection = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = _lock(path)
            connection = sqlite3.connect(path)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(files("results").joinpath("schema.sql").read_text())
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
                f"{path}: the results cannot be written: {error}; name another folder with --out"
            ) from error
        return cls(connection, path, lock)

    @classmethod
    def open(cls, path: Path) -> RunDatabase:
        """An existing database, to read. Raises ResultsError for a missing, foreign, damaged or newer file."""
        return cls._open(_existing(path), "ro", None)

    @classmethod
    def reopen(cls, path: Path) -> RunDatabase:
        """An existing database, to go on writing it.

        Raises ResultsError as ``open`` does, and where the run that writes it is alive.
        """
        path = _existing(path)
        try:
            lock = _lock(path)
        except OSError as error:
            raise ResultsError(f"{path.parent}: cannot be written: {error}") from error
        try:
            return cls._open(path, "rw", lock)
        except BaseException:
            lock.close()
            raise

    @classmethod
    def _open(cls, path: Path, mode: str, lock: IO[bytes] | None) -> RunDatabase:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise ResultsError(f"{path} was written by a newer Archiver (version {version}); upgrade to read it")
            if version == 0:
                raise ResultsError(f"{path} is no results database of Archiver")
            if version < VERSION:
                raise ResultsError(
                    f"{path} was written before the first release (version {version}); read it with the Archiver that "
                    "wrote it"
                )
            if connection.execute("SELECT id, comparison FROM run").fetchone() is None:
                raise ResultsError(f"{path}: its run was never begun; nothing can be read from it")
        except sqlite3.Error as error:
            connection.close()
            raise ResultsError(f"{path}: not a readable results database: {error}") from error
        except ResultsError:
            connection.close()
            raise
        return cls(connection, path, lock)

    def begin_phase(self, position: int, server_now: float) -> None:
        """A phase is about to touch the platform, whose clock (epoch seconds) decides which objects it takes."""
        with self._transaction():
            self._db.execute("INSERT INTO begun VALUES (?, ?, ?)", (position, time.time(), server_now))

    def add_phase(self, phase: PhaseRecord) -> None:
        """Commit a finished phase, all of it or nothing."""
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
                        r.objects, r.errors, r.seconds, r.objects_per_second, json.dumps(result_document(r)),
                    )
                    for r in phase.results
                ],
            )  # fmt: skip
            self._insert("interval", 11, [(at, *_values(row)) for row in phase.intervals])
            self._insert("histogram", 7, [(at, *_values(row)) for row in phase.histograms])
            self._insert("object_range", 6, [(at, *row) for row in phase.archived])
            self._insert("object_change", 5, [(at, *row) for row in phase.changed])
            self._insert("error", 7, [(at, *_values(row)) for row in phase.errors])
            self._insert("part", 8, [(at, *_values(row)) for row in phase.parts])
            self._insert("worker", 13, [(at, *_values(row)) for row in phase.workers])
            self._insert("probe", 5, [(at, *row) for row in phase.probes])
            self._insert("criterion", 2, [(at, json.dumps(asdict(each))) for each in phase.criteria])

    def criteria(self) -> list[CriterionResult]:
        """What became of the scenario's criteria, in the order of phases."""
        rows = self._db.execute("SELECT document FROM criterion ORDER BY rowid")
        return [CriterionResult(**json.loads(row["document"])) for row in rows]

    def set_search(self, outcome: SearchOutcome) -> None:
        """What a search came to; the last one counts."""
        with self._transaction():
            self._db.execute("DELETE FROM search")
            self._db.execute("INSERT INTO search VALUES (?)", (json.dumps(asdict(outcome)),))

    def search(self) -> SearchOutcome | None:
        """What the run's search came to; None where it had none, or where that broke off."""
        row = self._db.execute("SELECT document FROM search").fetchone()
        if row is None:
            return None
        document = json.loads(row["document"])
        steps = tuple(SearchStep(**{**step, "positions": tuple(step["positions"])}) for step in document["steps"])
        return SearchOutcome(**{**document, "steps": steps})

    def add_samples(self, samples: Iterable[SampleRow]) -> None:
        """Commit resource samples."""
        with self._transaction():
            self._insert("sample", 4, [(s.source, s.at, s.monotonic_ns, json.dumps(s.reading)) for s in samples])

    def add_source_problem(self, found: SourceProblem) -> None:
        """Commit why a source of resource samples could not be read; the first reason stays."""
        with self._transaction():
            self._db.execute(
                "INSERT OR IGNORE INTO source_problem VALUES (?, ?, ?)", (found.source, found.at, found.problem)
            )

    def add_check(self, check: CheckRecord, exchanges: Sequence[dict[str, Any]]) -> None:
        """Commit what a conformance check came to, with its evidence."""
        with self._transaction():
            self._db.execute(
                "INSERT INTO worm_check VALUES (?, ?, ?, ?)",
                (check.id, check.round, check.verdict, json.dumps(asdict(check))),
            )
            rows = [(check.id, check.round, position, json.dumps(each)) for position, each in enumerate(exchanges, 1)]
            self._insert("worm_exchange", 4, rows)

    def add_round(self, record: RoundRecord) -> None:
        """Commit what a round of conformance checks was like."""
        with self._transaction():
            self._db.execute("INSERT INTO worm_round VALUES (?, ?)", (record.round, json.dumps(asdict(record))))

    def rounds(self) -> list[RoundRecord]:
        """The rounds of conformance checks of this run, in order."""
        rows = self._db.execute("SELECT document FROM worm_round ORDER BY rowid")
        return [RoundRecord(**json.loads(row["document"])) for row in rows]

    def add_audit(self, document: Mapping[str, Any]) -> None:
        """Commit what an audit found."""
        with self._transaction():
            self._db.execute("INSERT INTO audit VALUES (?, ?)", (document["started_at"], json.dumps(document)))

    def audits(self) -> list[dict[str, Any]]:
        """What every audit of this run found, in order."""
        rows = self._db.execute("SELECT document FROM audit ORDER BY rowid")
        return [json.loads(row["document"]) for row in rows]

    def checks(self) -> list[CheckRecord]:
        """Every conformance check of this run, in the order in which they ended."""
        rows = self._db.execute("SELECT document FROM worm_check ORDER BY rowid")
        return [check_from_document(json.loads(row["document"])) for row in rows]

    def exchanges(self, check: CheckRecord) -> list[dict[str, Any]]:
        """The evidence of a check, in order."""
        rows = self._db.execute(
            "SELECT document FROM worm_exchange WHERE check_id = ? AND round = ? ORDER BY position",
            (check.id, check.round),
        )
        return [json.loads(row["document"]) for row in rows]

    def set_lock_verified(self, outcome: str) -> None:
        """What reading back the first lock showed."""
        with self._transaction():
            self._db.execute("UPDATE run SET lock_verified = ?", (outcome,))

    def finish(self, ended_at: float, verdict: str) -> None:
        """The run is over."""
        with self._transaction():
            self._db.execute("UPDATE run SET ended_at = ?, verdict = ?", (ended_at, verdict))

    def resume(self, at: float, now_ns: int) -> Resumption:
        """The run goes on, at ``at`` (epoch seconds) and ``now_ns`` (its clock), after its last finished phase.

        A phase that gave up is forgotten, and one in which the platform went away already. Where the clock began anew
        meanwhile, as it does when the machine starts, all that is older is moved to before ``now_ns``, as long before
        it as wall clocks say.
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
        """What to add to older instants, so that they lie before ``now_ns`` as long as wall clocks say."""
        last = self._db.execute(
            "SELECT at, monotonic_ns FROM sample UNION ALL SELECT started_at + seconds, end_ns FROM phase "
            "ORDER BY 2 DESC LIMIT 1"
        ).fetchone()
        if last is None:
            return 0
        since_ns = round(max(0.0, at - last[0]) * 1e9)  # a wall clock that was set back says no more than the order
        shift_ns: int = now_ns - since_ns - last[1]
        # Wall clocks drift, and are set by fractions of a second: the clock itself is better while it runs on.
        return 0 if last[1] <= now_ns and abs(shift_ns) < CLOCK_ANEW_NS else shift_ns

    def resumptions(self) -> list[Resumption]:
        """When the run went on after it had broken off, in order."""
        return [Resumption(*row) for row in self._db.execute("SELECT at, after_position, shift_ns FROM resumption")]

    def broken_off(self) -> list[BrokenPhase]:
        """Return every beginning of a phase that did not finish as it should, in order. A phase that gave up is among
        them only after ``resume``."""
        rows = self._db.execute(
            "SELECT position, server_now FROM begun WHERE rowid NOT IN (SELECT max(begun.rowid) FROM begun JOIN phase "
            "USING (position) GROUP BY position) ORDER BY rowid"
        )
        return [BrokenPhase(*row) for row in rows]

    def finished(self) -> int:
        """How many phases finished as they should."""
        return int(self._db.execute("SELECT count(*) FROM phase").fetchone()[0]) - len(self._broken())

    def _broken(self) -> list[int]:
        """Positions of phases that do not count as finished: those that gave up, and the one before where the platform
        went away in it already, so that errors were seen in its last interval."""
        rows = self._db.execute(
            "SELECT position FROM phase WHERE gave_up NOT NULL OR (position + 1 IN (SELECT position FROM phase WHERE "
            "gave_up NOT NULL) AND 0 < (SELECT sum(errors) FROM interval WHERE interval.position = phase.position "
            "AND interval = (SELECT max(interval) FROM interval WHERE interval.position = phase.position)))"
        )
        return [row["position"] for row in rows]

    def archived_by(self, position: int) -> list[ArchivedRange]:
        """What one phase archived."""
        rows = self._db.execute(
            "SELECT object_bytes, first, last, data, workload FROM object_range WHERE position = ? ORDER BY first",
            (position,),
        )
        return [ArchivedRange(*row) for row in rows]

    def changes(self, position: int | None = None) -> list[ObjectChange]:
        """What one phase, or the run, did with archived objects, in order."""
        rows = self._db.execute(
            "SELECT operation, object_bytes, first, last FROM object_change WHERE position = ?1 OR ?1 IS NULL "
            "ORDER BY rowid",
            (position,),
        )
        return [ObjectChange(*row) for row in rows]

    def run(self) -> StoredRun:
        """The run's own row."""
        row = self._db.execute("SELECT * FROM run").fetchone()
        values: dict[str, Any] = {
            each.name: json.loads(row[each.name])
            if each.name in _JSON_COLUMNS and row[each.name] is not None
            else row[each.name]
            for each in fields(StoredRun)
        }
        earlier = values["objects_from"]
        values["objects_from"] = ObjectsFrom(**earlier) if earlier is not None else None
        platform = values["platform"]
        values["platform"] = PlatformProfile(**{**platform, "endpoints": tuple(platform["endpoints"])})
        values["shared_host"] = bool(values["shared_host"])
        return StoredRun(**values)

    def results(self, *, drift_checks: bool = False) -> list[Result]:
        """Every result in the order of measuring, without (or only) the repeated first cells that show drift."""
        rows = self._db.execute(
            "SELECT document FROM result JOIN phase USING (position) WHERE drift_check = ? ORDER BY position, workload",
            (drift_checks,),
        )
        return [result_from_document(json.loads(row["document"])) for row in rows]

    def phases(self) -> list[PhaseTimes]:
        """When each phase ran, in order."""
        rows = self._db.execute(
            "SELECT position, label, started_at, seconds, start_ns, end_ns, measured_from_ns, measured_to_ns, "
            "prepared_ns FROM phase ORDER BY position"
        )
        return [PhaseTimes(*row) for row in rows]

    def workers(self) -> dict[int, list[WorkerRow]]:
        """By phase, what each worker did and how it was together with the others."""
        found: dict[int, list[WorkerRow]] = {}
        for row in self._db.execute("SELECT * FROM worker ORDER BY position, worker"):
            found.setdefault(row["position"], []).append(WorkerRow(*tuple(row)[1:]))
        return found

    def workload_intervals(self) -> dict[int, list[WorkloadInterval]]:
        """By phase, what each workload finished in each interval, warm-up and drain included."""
        found: dict[int, list[WorkloadInterval]] = {}
        for row in self._db.execute(
            "SELECT position, workload, interval, objects, bytes, errors, response_total_ns, response_max_ns "
            "FROM interval ORDER BY position, interval, workload"
        ):
            found.setdefault(row["position"], []).append(WorkloadInterval(*tuple(row)[1:]))
        return found

    def timelines(self) -> dict[str, Timeline]:
        """The server's resource samples by source, in the order in which the sources first spoke."""
        return self._timelines("source != ?")

    def client_timeline(self) -> Timeline:
        """The samples of the client's host, where the server runs on another; else empty."""
        return self._timelines("source = ?").get(CLIENT, Timeline())

    def _timelines(self, which: str) -> dict[str, Timeline]:
        """The samples for whose source a comparison with the client's applies."""
        found: dict[str, Timeline] = {}
        for row in self._db.execute(
            f"SELECT source, at, monotonic_ns, reading FROM sample WHERE {which} ORDER BY monotonic_ns", (CLIENT,)
        ):
            sample = SampleRow(row["source"], row["at"], row["monotonic_ns"], json.loads(row["reading"]))
            found.setdefault(sample.source, Timeline()).add(sample)
        return found

    def source_problems(self) -> list[SourceProblem]:
        """The first problem of every source that could not be read at some time."""
        rows = self._db.execute("SELECT source, at, problem FROM source_problem ORDER BY at")
        return [SourceProblem(*row) for row in rows]

    def attempts(self) -> list[Attempts]:
        """Attempts by operation and lock, over all phases.

        A workload with several operations counts its sessions under ``mixed``, and its attempts there and under each
        operation.
        """
        rows = self._db.execute(
            "SELECT operation, json_extract(document, '$.lock') AS lock, sum(attempts), sum(interval.sessions) "
            "FROM interval JOIN result USING (position, workload) GROUP BY operation, lock "
            "UNION ALL SELECT operation, NULL, sum(attempts), 0 FROM part GROUP BY operation "
            "UNION ALL SELECT 'archive', lock, sum(tries), sum(archived) FROM probe GROUP BY lock ORDER BY operation"
        )
        return [Attempts(*row) for row in rows]

    def has_errors(self) -> bool:
        """Whether anything failed."""
        return self._db.execute("SELECT 1 FROM error LIMIT 1").fetchone() is not None

    def histograms(self, operation: str, quantity: str) -> list[tuple[bytes, bytes]]:
        """(indices, counts) of a quantity in every phase of an operation, as the table has them."""
        rows = self._db.execute(
            "SELECT indices, counts FROM histogram JOIN result USING (position, workload) "
            "WHERE quantity = ?1 AND operation = ?2 UNION ALL "
            "SELECT indices, counts FROM histogram JOIN part USING (position, workload) "
            "WHERE quantity = ?1 || ':' || name AND operation = ?2",
            (quantity, operation),
        )
        return [tuple(row) for row in rows]

    def cell_histograms(self, quantity: str) -> list[WorkloadHistogram]:
        """The histograms of a quantity in every phase."""
        rows = self._db.execute(
            "SELECT position, workload, indices, counts FROM histogram WHERE quantity = ? ORDER BY position, workload",
            (quantity,),
        )
        return [WorkloadHistogram(*row) for row in rows]

    def archived(self, object_bytes: int) -> list[tuple[int, int]]:
        """Ranges (first, last) of the objects of one size that this run archived."""
        rows = self._db.execute(
            "SELECT first, last FROM object_range WHERE object_bytes = ? ORDER BY first", (object_bytes,)
        )
        return [(row["first"], row["last"]) for row in rows]

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
            raise ResultsError(f"{self.path}: the results cannot be written: {error}") from error

    def _insert(self, table: str, columns: int, rows: list[tuple[Any, ...]]) -> None:
        self._db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})", rows)


def _existing(path: Path) -> Path:
    """The file of a run that is named by its file or folder. Raises ResultsError."""
    if path.is_dir():
        path = path / FILE_NAME
    if not path.exists():
        raise ResultsError(f"{path}: no such run; name its id, its folder, or `latest`")
    return path


def _lock(path: Path) -> IO[bytes]:
    """Be the only one who writes this database, until the file that is returned closes: the kernel sees to that even
    where the process is killed. Raises ResultsError where another does.

    It is a file of its own, since closing any other descriptor of the database would undo SQLite's own locks.
    """
    file = (path.parent / LOCK_NAME).open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as held:
        file.close()
        raise ResultsError(f"{path}: its run is under way; wait for its end") from held
    return file


def _values(row: Any) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in row.__slots__)
