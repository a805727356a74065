"""One SQLite database per run: the only place where results live.

One idea: a phase is committed the moment it ends, in one transaction, so a run that is killed keeps every finished
phase, and everything printed or drawn later is a query over this file.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from archiver.errors import ResultsError
from results.contract import check_from_document, result_document, result_from_document
from results.model import CheckRecord, FirstError, Result
from results.resources import SampleRow, Timeline

VERSION = 2
FILE_NAME = "run.db"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What is known of a run before its first phase. Field names are the columns of table run."""

    id: str
    started_at: float
    command_line: list[str]
    scenario: str
    scenario_title: str
    scenario_json: str
    sweep_order: str
    order_seed: int
    repetitions: int
    phases_planned: int
    backend: str
    platform: dict[str, Any]
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
class PhaseRecord:
    """All that is kept of a finished phase."""

    position: int
    name: str
    label: str
    repetition: int
    drift_check: bool
    started_at: float
    seconds: float
    start_ns: int
    end_ns: int
    measured_from_ns: int
    measured_to_ns: int
    results: Sequence[Result]
    intervals: Sequence[IntervalRow]
    histograms: Sequence[HistogramRow]
    archived: Sequence[tuple[int, int, int]]  # object bytes, first, last
    errors: Sequence[FirstError]


@dataclass(frozen=True, slots=True)
class PhaseTimes:
    """When a phase ran: ``started_at`` is epoch seconds, the others are on the run's clock."""

    position: int
    label: str
    started_at: float
    seconds: float
    start_ns: int
    end_ns: int
    measured_from_ns: int
    measured_to_ns: int


_JSON_COLUMNS = ("command_line", "platform", "settings", "host", "worker_cores", "location")


class RunDatabase:
    """The open database of one run."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self._db.row_factory = sqlite3.Row
        self.path = path

    @classmethod
    def create(cls, path: Path, record: RunRecord) -> RunDatabase:
        """A new database with the run's own row. Raises ResultsError where it cannot be written."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(files("results").joinpath("schema.sql").read_text())
            connection.execute(f"PRAGMA user_version = {VERSION}")
            row = {
                name: json.dumps(value) if name in _JSON_COLUMNS else value for name, value in asdict(record).items()
            }
            columns = ", ".join(row)
            marks = ", ".join(f":{name}" for name in row)
            connection.execute(f"INSERT INTO run ({columns}) VALUES ({marks})", row)
            connection.commit()
        except (OSError, sqlite3.Error) as error:
            raise ResultsError(
                f"{path}: the results cannot be written: {error}; name another folder with --out"
            ) from error
        return cls(connection, path)

    @classmethod
    def open(cls, path: Path) -> RunDatabase:
        """An existing database, to read. Raises ResultsError for a missing, foreign, damaged or newer file."""
        if path.is_dir():
            path = path / FILE_NAME
        if not path.exists():
            raise ResultsError(f"{path}: no such run; name its id, its folder, or `latest`")
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
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
        return cls(connection, path)

    def add_phase(self, phase: PhaseRecord) -> None:
        """Commit a finished phase, all of it or nothing."""
        at = phase.position
        with self._transaction():
            self._db.execute(
                "INSERT INTO phase VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    at,
                    phase.name,
                    phase.label,
                    phase.repetition,
                    phase.drift_check,
                    phase.started_at,
                    phase.seconds,
                    phase.start_ns,
                    phase.end_ns,
                    phase.measured_from_ns,
                    phase.measured_to_ns,
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
            self._insert("interval", 9, [(at, *_values(row)) for row in phase.intervals])
            self._insert("histogram", 7, [(at, *_values(row)) for row in phase.histograms])
            self._insert("object_range", 4, [(at, *row) for row in phase.archived])
            self._insert("error", 7, [(at, *_values(row)) for row in phase.errors])

    def add_samples(self, samples: Iterable[SampleRow]) -> None:
        """Commit resource samples."""
        with self._transaction():
            self._insert("sample", 4, [(s.source, s.at, s.monotonic_ns, json.dumps(s.reading)) for s in samples])

    def add_source_problem(self, source: str, at: float, problem: str) -> None:
        """Why a source of resource samples could not be read; the first reason stays."""
        with self._transaction():
            self._db.execute("INSERT OR IGNORE INTO source_problem VALUES (?, ?, ?)", (source, at, problem))

    def add_check(self, check: CheckRecord, exchanges: Sequence[dict[str, Any]]) -> None:
        """Commit what a conformance check came to, with its evidence."""
        with self._transaction():
            self._db.execute(
                "INSERT INTO worm_check VALUES (?, ?, ?)", (check.id, check.verdict, json.dumps(asdict(check)))
            )
            rows = [(check.id, position, json.dumps(each)) for position, each in enumerate(exchanges, 1)]
            self._insert("worm_exchange", 3, rows)

    def checks(self) -> list[CheckRecord]:
        """Every conformance check of this run, in the order in which they ended."""
        rows = self._db.execute("SELECT document FROM worm_check ORDER BY rowid")
        return [check_from_document(json.loads(row["document"])) for row in rows]

    def exchanges(self, check_id: str) -> list[dict[str, Any]]:
        """The evidence of a check, in order."""
        rows = self._db.execute("SELECT document FROM worm_exchange WHERE check_id = ? ORDER BY position", (check_id,))
        return [json.loads(row["document"]) for row in rows]

    def set_lock_verified(self, outcome: str) -> None:
        """What reading back the first lock showed."""
        with self._transaction():
            self._db.execute("UPDATE run SET lock_verified = ?", (outcome,))

    def finish(self, ended_at: float, verdict: str) -> None:
        """The run is over."""
        with self._transaction():
            self._db.execute("UPDATE run SET ended_at = ?, verdict = ?", (ended_at, verdict))

    def run(self) -> dict[str, Any]:
        """The run's own row, JSON columns decoded."""
        row = dict(self._db.execute("SELECT * FROM run").fetchone())
        return {name: json.loads(value) if name in _JSON_COLUMNS else value for name, value in row.items()}

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
            "SELECT position, label, started_at, seconds, start_ns, end_ns, measured_from_ns, measured_to_ns "
            "FROM phase ORDER BY position"
        )
        return [PhaseTimes(*row) for row in rows]

    def timelines(self) -> dict[str, Timeline]:
        """The resource samples of each source, in the order in which the sources first spoke."""
        found: dict[str, Timeline] = {}
        for row in self._db.execute("SELECT source, at, monotonic_ns, reading FROM sample ORDER BY monotonic_ns"):
            sample = SampleRow(row["source"], row["at"], row["monotonic_ns"], json.loads(row["reading"]))
            found.setdefault(sample.source, Timeline()).add(sample)
        return found

    def source_problems(self) -> list[tuple[str, float, str]]:
        """(source, epoch seconds, problem) of every source that could not be read at some time."""
        return [tuple(row) for row in self._db.execute("SELECT source, at, problem FROM source_problem ORDER BY at")]

    def attempts(self) -> list[tuple[str, int, int]]:
        """(operation, attempts at objects, sessions that ended well) of every part of every phase."""
        rows = self._db.execute(
            "SELECT operation, sum(attempts), sum(interval.sessions) FROM interval JOIN result "
            "USING (position, workload) GROUP BY operation ORDER BY operation"
        )
        return [tuple(row) for row in rows]

    def has_errors(self) -> bool:
        """Whether anything failed."""
        return self._db.execute("SELECT 1 FROM error LIMIT 1").fetchone() is not None

    def histograms(self, operation: str, quantity: str) -> list[tuple[bytes, bytes]]:
        """(indices, counts) of a quantity in every phase of an operation, as the table has them."""
        rows = self._db.execute(
            "SELECT indices, counts FROM histogram JOIN result USING (position, workload) "
            "WHERE quantity = ? AND operation = ?",
            (quantity, operation),
        )
        return [tuple(row) for row in rows]

    def archived(self, object_bytes: int) -> list[tuple[int, int]]:
        """Ranges (first, last) of the objects of one size that this run archived."""
        rows = self._db.execute(
            "SELECT first, last FROM object_range WHERE object_bytes = ? ORDER BY first", (object_bytes,)
        )
        return [(row["first"], row["last"]) for row in rows]

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with self._db:
                yield
        except sqlite3.Error as error:
            raise ResultsError(f"{self.path}: the results cannot be written: {error}") from error

    def _insert(self, table: str, columns: int, rows: list[tuple[Any, ...]]) -> None:
        self._db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})", rows)


def _values(row: Any) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in row.__slots__)
