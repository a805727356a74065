"""Synthetic results: single ones, the published matrix at another speed, and the database of a run with samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from results.recorded.database import FILE_NAME, PhaseRecord, RunDatabase, RunRecord
from results.recorded.model import Result
from results.recorded.resources import SampleRow
from results.recorded.run import RecordedRun, read_run
from results.reference.published import dr550
from tests.results.watched_run import RECORD
from tests.support.results import made_result

MakeResult = Callable[..., Result]


@pytest.fixture(scope="session")
def make_result() -> MakeResult:
    """Return a function that makes a result. All its fields can be overridden."""
    return made_result


@pytest.fixture
def full_run(make_result: MakeResult) -> list[Result]:
    """Return the whole matrix of archive and retrieve, then 1, 2 and 4 clients with 250 objects per session."""
    results: list[Result] = []
    for cell in dr550().cells.values():
        gain = 18 if cell.operation == "archive" else 27
        rate = cell.objects_per_second * gain * (1 + 0.05 * (cell.object_bytes % 7))
        results.append(
            make_result(cell.operation, cell.object_bytes, cell.objects_per_session, rate, position=len(results) + 1)
        )
    for alone in [result for result in results if result.objects_per_session == 250]:
        for clients, speed_up in ((1, 1.01), (2, 1.7), (4, 2.6 - alone.object_bytes / 2**20)):
            rate = alone.objects_per_second * speed_up
            results.append(
                make_result(
                    alone.operation,
                    alone.object_bytes,
                    250,
                    rate,
                    clients=clients,
                    phase=f"parallel-{alone.operation}",
                    position=len(results) + 1,
                )
            )
    return results


MakeDatabase = Callable[..., RunDatabase]
MakeRun = Callable[..., RecordedRun]


@pytest.fixture
def make_database(tmp_path: Path) -> Iterator[MakeDatabase]:
    """Return a function that makes a run's database and leaves it open.

    Columns of the run's own row can be overridden.
    """
    made: list[RunDatabase] = []

    def make(phases: Sequence[PhaseRecord] = (), samples: Sequence[SampleRow] = (), **record: Any) -> RunDatabase:
        path = tmp_path / "made" / str(len(made)) / FILE_NAME
        database = RunDatabase.create(path, RunRecord(**{**RECORD, **record}))
        made.append(database)
        for phase in phases:
            database.add_phase(phase)
        database.add_samples(samples)
        return database

    yield make
    for database in made:
        database.close()


@pytest.fixture
def make_run(make_database: MakeDatabase) -> MakeRun:
    """Return a function that makes a run as ``make_database`` does, and reads it."""

    def make(phases: Sequence[PhaseRecord] = (), samples: Sequence[SampleRow] = (), **record: Any) -> RecordedRun:
        return read_run(make_database(phases, samples, **record).path)

    return make
