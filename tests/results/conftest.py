"""Synthetic results: single ones, the published matrix at another speed, and the database of a run with samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from results.recorded.database import FILE_NAME, PhaseRecord, RunDatabase, RunRecord
from results.recorded.model import ClientUsage, DiskUsage, Latency, Result, ServerUsage, Utilisation
from results.recorded.resources import SampleRow
from results.recorded.run import RecordedRun, read_run
from results.reference.published import dr550
from tests.results.watched_run import RECORD

MakeResult = Callable[..., Result]


@pytest.fixture(scope="session")
def make_result() -> MakeResult:
    """Return a function that makes a result. All its fields can be overridden."""

    def make(
        operation: str = "archive",
        object_bytes: int = 8192,
        objects_per_session: int = 25,
        objects_per_second: float = 500.0,
        **overrides: Any,
    ) -> Result:
        sessions = 40 * overrides.get("clients", 1)
        objects = sessions * objects_per_session
        seconds = objects / objects_per_second if objects_per_second else 3.0
        object_ms = 1000 / objects_per_second if objects_per_second else 1.0
        values: dict[str, Any] = {
            "phase": operation,
            "workload": operation,
            "operation": operation,
            "object_bytes": object_bytes,
            "objects_per_session": objects_per_session,
            "clients": 1,
            "repetition": 1,
            "position": 1,
            "session_kind": "opened",
            "session_open": "head-bucket",
            "temperature": "cold" if operation == "retrieve" else None,
            "checksum": "crc32c",
            "payload_signing": False,
            "retention_mode": "GOVERNANCE",
            "legal_hold": False,
            "verified": "all",
            "sessions": sessions,
            "objects": objects,
            "bytes": objects * object_bytes,
            "attempts": objects,
            "errors": 0,
            "refusals": 0,
            "seconds": seconds,
            "warm_up_objects": objects_per_session,
            "drained_objects": 0,
            "store_bytes_before": 0,
            "archived_bytes_before": 0,
            "objects_per_second": objects_per_second,
            "megabytes_per_second": objects_per_second * object_bytes / 1e6,
            "mebibytes_per_second": objects_per_second * object_bytes / 2**20,
            "session_service_ms": _latency(sessions, object_ms * objects_per_session),
            "session_ms": _latency(sessions, object_ms * objects_per_session),
            "session_open_ms": _latency(sessions, 2.0),
            "session_close_ms": _latency(sessions, 0.1),
            "object_service_ms": _latency(objects, object_ms),
            "object_ms": _latency(objects, object_ms),
            "first_byte_ms": _latency(objects, object_ms * 0.8),
            "server": ServerUsage(
                cpu_percent=88.0,
                host_cpu_percent=31.0,
                busiest_core_percent=92.0,
                disk_busy_percent=40.0,
                disk_read_bytes=0,
                disk_write_bytes=objects * object_bytes,
                network_megabytes_per_second=0.02,
                cpu_limit_percent=100.0,
                busiest_thread_percent=91.0,
                cpu_milliseconds_per_object=0.88 * object_ms,
                write_amplification=1.0 if operation == "archive" else None,
                disks=(DiskUsage("vda", "object", 40.0, 0.0, objects * object_bytes, 0.5, 1.0, None),),
            ),
            "client": ClientUsage(12.0, 1.0, 39.5, 0.2),
            "limited_by": "server cpu",
            "settled": True,
            "session_half_width": 0.04,
            "unsteady": None,
            "utilisations": (
                Utilisation("server cpu", "busiest thread", 0.91, True),
                Utilisation("object disk vda", "busy time, queue 0.5", 0.40, False),
                Utilisation("client", "busiest worker", 0.25, True),
            ),
            "confidence": "high",
        }
        return Result(**{**values, **overrides})

    return make


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


def _latency(count: int, typical_ms: float) -> Latency:
    return Latency(
        count,
        mean=typical_ms * 1.1,
        p50=typical_ms,
        p70=typical_ms * 1.2,
        p90=typical_ms * 1.6,
        p99=typical_ms * 3,
        p99_9=typical_ms * 6,
        max=typical_ms * 9,
    )
