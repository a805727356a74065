"""Synthetic results of replayed application sets. Each response time is given, so that tests can check all numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from archiver.measure.histogram import Histogram, part_of
from archiver.values.platform import PlatformProfile
from results.mixed.replay.trials import ReplayedRun
from results.recorded.database import FILE_NAME, HistogramRow, RunDatabase, RunRecord
from results.recorded.model import CriterionResult, InfrastructureResult, Latency, PartResult, Replayed, Result
from results.recorded.run import read_run
from results.report.mixed_contents import WorkloadsShown, mixed_run
from tests.results.watched_run import RECORD, phase_record

MakeResult = Callable[..., Result]
EIGHT = (
    "mail server", "Olio database", "Olio web server", "idle server", "DVD Store database", "DVD Store web 1",
    "DVD Store web 2", "DVD Store web 3",
)  # fmt: skip
SECONDS = 100.0
SHA256 = "a0" * 32
PLATFORM = PlatformProfile(
    name="minio", backend="s3", endpoints=("http://127.0.0.1:9000",), version="2026", tls=False, shares_host=False,
    durability="unknown", server_clock_offset_seconds=None, protocol="s3",
)  # fmt: skip
SETTINGS: dict[str, Any] = {
    "session_kind": "opened", "session_open": "head-bucket", "checksum": "crc32c", "retention_mode": "GOVERNANCE",
    "retain_for_seconds": 300.0, "retain_until": None, "legal_hold": False, "watched": ["local"],
    "disk_roles": {"vda": "object"}, "verify": "all", "poll": "sleep",
}  # fmt: skip
HOST: dict[str, Any] = {
    "host": "bench-1", "processor": "CPU", "cores": 8, "kernel": "6.1", "archiver": "1.0", "memory_bytes": 8 << 30,
    "python": "3.12",
}  # fmt: skip
Times = Mapping[str, Sequence[float]]  # operation -> milliseconds of each response


def latency(milliseconds: Sequence[float]) -> Latency | None:
    """Return the latency of these response times; None if there are none."""
    return _latency(tuple(milliseconds))


@cache
def _latency(milliseconds: tuple[float, ...]) -> Latency | None:
    histogram = Histogram()
    histogram.add(part_of(_nanoseconds(milliseconds)))
    return histogram.latency()


def replayed(**given: Any) -> Replayed:
    """Return a valid replay: of 100 s, which took 100.5 s of the allowed 101 s, with full capacity and little delay."""
    values: dict[str, Any] = {
        "trace": "mail.parquet", "origin": "capture", "sha256": SHA256, "anonymised": False, "speed": 1.0,
        "streams": 4, "operations": 10, "begun": 10, "waited": 0, "left_out": (), "capacity_bytes": 80_000_000_000,
        "capacity_scale": 1.0, "trace_seconds": 100.0, "replay_seconds": 100.5, "allowed_seconds": 101.0,
        "lateness_ms": latency([0.1, 0.2]), "tolerance_ms": 10.0, "void": "",
    }  # fmt: skip
    return Replayed(**{**values, **given})


def beside(kind: str, completed: int, minimum: float, **given: Any) -> InfrastructureResult:
    """Return infrastructure operations of a kind: ``completed`` in one hour, ``minimum`` required."""
    values: dict[str, Any] = {
        "failed": 0, "seconds": 3600.0, "mean_seconds": 2.0, "objects": 15, "bytes": 15_000_000, "findings": (),
    }  # fmt: skip
    return InfrastructureResult(kind=kind, completed=completed, minimum_per_hour=minimum, **{**values, **given})


def criterion(name: str, limit: float, measured: float | None, passed: bool, **given: Any) -> CriterionResult:
    """Return a criterion result for all applications, unless a workload is given."""
    return CriterionResult(
        **{"name": name, "workload": "", "position": 2, "limit": limit, "measured": measured, "passed": passed,
           "scale": 1.0, **given}
    )  # fmt: skip


class ReplayedSets:
    """A maker of results of applications, and of runs with these results."""

    def __init__(self, make_result: MakeResult, folder: Path) -> None:
        self._make = make_result
        self._folder = folder
        self._times: dict[tuple[int, str], Times] = {}
        self._made: list[RunDatabase] = []

    def application(
        self, name: str, copy: int | None, times: Times, *, what: Mapping[str, Any] | None = None, **given: Any
    ) -> Result:
        """Return the result of one application of one set. ``what``: fields of its replay that differ."""
        prefix = f"set {copy} " if copy is not None else ""
        everything = [each for values in times.values() for each in values]
        values: dict[str, Any] = {
            "phase": "replay", "workload": f"{prefix}{name}", "application": name, "copy": copy, "position": 2,
            "scale": 1.0 if copy is not None else None, "begins_seconds": 0.0, "seconds": SECONDS,
            "objects": len(everything), "objects_per_second": len(everything) / SECONDS,
            "object_ms": latency(everything), "parts": tuple(_part(*each) for each in times.items()),
            "replayed": replayed(**{"operations": len(everything), "begun": len(everything), **(what or {})}),
        }  # fmt: skip
        result = self._make("mixed", **{**values, **given})
        self._times[result.position, result.workload] = times
        return result

    def infrastructure(self, operation: InfrastructureResult, **given: Any) -> Result:
        """Return the result of a workload of infrastructure operations."""
        named = {"workload": operation.kind, "application": operation.kind, "phase": "replay", "position": 2}
        more = {"scale": 1.0, "begins_seconds": 0.0, "seconds": SECONDS, "infrastructure": operation}
        return self._make("mixed", **{**named, **more, **given})

    def sets(self, count: int, times: Times, *, what: Mapping[str, Any] | None = None, **given: Any) -> list[Result]:
        """Return the results of ``count`` equal sets of eight applications."""
        return [
            self.application(name, copy, times, what=what, **{"scale": float(count), **given})
            for copy in range(1, count + 1)
            for name in EIGHT
        ]

    def database(
        self, results: Sequence[Result], criteria: Sequence[CriterionResult] = (), verdict: str = "pass", **record: Any
    ) -> RunDatabase:
        """Return the database of a finished run with these results."""
        more: dict[str, Any] = {
            "platform": PLATFORM, "settings": SETTINGS, "host": HOST, "scenario": "application-sets",
            "scenario_title": "Application sets", "scenario_json": '{"criteria": "3.8", "scale": {"name": "sets"}}',
            "phases_planned": len({result.position for result in results}),
        }  # fmt: skip
        path = self._folder / str(len(list(self._folder.iterdir()))) / FILE_NAME
        database = RunDatabase.create(path, RunRecord(**{**RECORD, **more, **record}))
        self._made.append(database)
        for position in sorted({result.position for result in results}):
            own = [result for result in results if result.position == position]
            database.add_phase(
                phase_record(
                    position,
                    own[0],
                    position * 200.0,
                    position * 200.0 + SECONDS,
                    results=own,
                    histograms=[row for result in own for row in self._histograms(result)],
                    criteria=[each for each in criteria if each.position == position],
                )
            )
        database.finish(500.0, verdict)
        return database

    def run(self, results: Sequence[Result], criteria: Sequence[CriterionResult] = (), **record: Any) -> ReplayedRun:
        """Return the replay of a run with these results, as reports show it."""
        found = self.mixed(results, criteria, **record).replay
        assert found is not None
        return found

    def mixed(
        self, results: Sequence[Result], criteria: Sequence[CriterionResult] = (), **record: Any
    ) -> WorkloadsShown:
        """Return all that reports show of a run of concurrent workloads with these results."""
        found = mixed_run(read_run(self.database(results, criteria, **record).path))
        assert found is not None
        return found

    def close(self) -> None:
        for database in self._made:
            database.close()

    def _histograms(self, result: Result) -> list[HistogramRow]:
        times = self._times.get((result.position, result.workload), {})
        everything = [each for values in times.values() for each in values]
        rows = [_histogram(result.workload, "object", everything)] if everything else []
        return rows + [_histogram(result.workload, f"object:{name}", each) for name, each in times.items()]


def _part(name: str, times: Sequence[float]) -> PartResult:
    found = latency(times)
    count = len(times)
    return PartResult(name, name, count, count * 8192, count, 0, 0, count / SECONDS, 0.1, found, found, None)


def _histogram(workload: str, quantity: str, times: Sequence[float]) -> HistogramRow:
    part = part_of(_nanoseconds(times))
    indices, counts = part.indices.astype("<i8").tobytes(), part.counts.astype("<i8").tobytes()
    return HistogramRow(workload, quantity, part.total_ns, part.max_ns, indices, counts)


def _nanoseconds(milliseconds: Sequence[float]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([round(each * 1e6) for each in milliseconds], dtype=np.int64)
