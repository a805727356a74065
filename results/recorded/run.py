"""A recorded run: everything that a run.db stores, read once into one value.

Both halves of the program meet here. The engine writes a database; every table, figure and document reads a RecordedRun
and opens no database. Rows that each reader needs are read at once. Samples, intervals, histograms and evidence are
large, so they are read when they are first asked for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from archiver.values.databases import words_of
from archiver.values.errors import ResultsError
from results.recorded.database import (
    Attempts,
    ObjectChange,
    PhaseTimes,
    Resumption,
    RunDatabase,
    StoredRun,
    WorkerRow,
    WorkloadHistogram,
    WorkloadInterval,
)
from results.recorded.model import CheckRecord, CriterionResult, Result, RoundRecord, SearchOutcome
from results.recorded.resources import SourceProblem, Timeline

_DAMAGES = (sqlite3.Error, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
_Value = TypeVar("_Value")


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """One run, as its database stores it."""

    path: Path  # of its database
    run: StoredRun
    results: Sequence[Result]  # in the order of measuring
    drift_checks: Sequence[Result]  # the repeated first cells of sweeps
    criteria: Sequence[CriterionResult]
    search: SearchOutcome | None
    phase_times: Sequence[PhaseTimes]
    phases_finished: int  # how many phases finished normally
    workers: Mapping[int, Sequence[WorkerRow]]  # by position of the phase
    resumptions: Sequence[Resumption]
    source_problems: Sequence[SourceProblem]
    checks: Sequence[CheckRecord]  # of conformance
    rounds: Sequence[RoundRecord]
    audits: Sequence[Mapping[str, Any]]

    @property
    def measured(self) -> Sequence[Result]:
        """The results without phases that only made data for others."""
        return [result for result in self.results if not result.is_load]

    @cached_property
    def timelines(self) -> Mapping[str, Timeline]:
        """The server's resource samples by source, in the order of the sources' first samples."""
        return self._read(lambda database: database.timelines())

    @cached_property
    def client_timeline(self) -> Timeline:
        """The samples of the client's host; empty if the server runs on the same host."""
        return self._read(lambda database: database.client_timeline())

    @cached_property
    def intervals(self) -> Mapping[int, Sequence[WorkloadInterval]]:
        """By position of the phase, the work of each workload in each interval, warm-up and drain included."""
        return self._read(lambda database: database.workload_intervals())

    @cached_property
    def attempts(self) -> Sequence[Attempts]:
        """Attempts by operation and lock, over all phases."""
        return self._read(lambda database: database.attempts())

    @cached_property
    def has_errors(self) -> bool:
        """Whether any operation failed."""
        return self._read(lambda database: database.has_errors())

    @cached_property
    def changes(self) -> Sequence[ObjectChange]:
        """The changes that the run made to archived objects, in order."""
        return self._read(lambda database: database.changes())

    def histograms(self, operation: str, quantity: str) -> Sequence[tuple[bytes, bytes]]:
        """Return (indices, counts) of a quantity in every phase of an operation, as stored."""
        return self._read(lambda database: database.histograms(operation, quantity))

    def cell_histograms(self, quantity: str) -> Sequence[WorkloadHistogram]:
        """Return the histograms of a quantity in every phase."""
        return self._read(lambda database: database.cell_histograms(quantity))

    def exchanges(self, check: CheckRecord) -> Sequence[dict[str, Any]]:
        """Return the evidence of a conformance check, in order."""
        return self._read(lambda database: database.exchanges(check))

    def _read(self, read: Callable[[RunDatabase], _Value]) -> _Value:
        with reading(self.path) as database:
            return read(database)


@contextmanager
def reading(path: Path) -> Iterator[RunDatabase]:
    """Yield an open database. A signal that ended a query is raised again. Raises ResultsError and sqlite3.Error."""
    with closing(RunDatabase.open(path)) as database:
        try:
            yield database
        except sqlite3.Error as error:
            database.check_interrupted(error)
            raise


def read_run(path: Path) -> RecordedRun:
    """Return the run in a database, given the file or its folder.

    Raises ResultsError for a missing, foreign or newer file; what a damaged file raises, ``opened`` translates.
    """
    with reading(path) as database:
        return RecordedRun(
            path=database.path,
            run=database.run(),
            results=database.results(),
            drift_checks=database.results(drift_checks=True),
            criteria=database.criteria(),
            search=database.search(),
            phase_times=database.phases(),
            phases_finished=database.finished(),
            workers=database.workers(),
            resumptions=database.resumptions(),
            source_problems=database.source_problems(),
            checks=database.checks(),
            rounds=database.rounds(),
            audits=database.audits(),
        )


@contextmanager
def opened(path: Path) -> Iterator[RecordedRun]:
    """Yield the run in a database to code that reads its values.

    A damaged or forged file may contain anything where a number should be. Any error from that, also within the block,
    becomes one ResultsError that names the file.
    """
    try:
        yield read_run(path)
    except _DAMAGES as error:
        words = words_of(error) if isinstance(error, sqlite3.Error) else repr(error)
        raise ResultsError(f"{path}: damaged, and cannot be read to its end ({words}); read a copy of it") from error
