"""A synthetic run with data for every section of a report, and with text that would break a page without escaping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from archiver.measure.histogram import part_of
from results.document.document import Document
from results.recorded.database import HistogramRow, RunDatabase, RunRecord
from results.recorded.model import CheckRecord, FirstError, Result
from results.recorded.run import RecordedRun
from results.report.contents import build_report
from results.report.mixed_contents import mixed_run
from tests.results.watched_run import PLATFORM, RECORD, phase_record, ten_seconds

HOSTILE = """</script><script>alert(1)</script> & <b a='1'>"x"</b> $a_{b$ {{ 7*7 }}"""
CHECK = CheckRecord(
    "DEL-01", "DEL", HOSTILE, "refuse", "403", ("R1",), "S1", "FAIL", "the record is gone", 1.0, 1.0, "alone"
)
AUDIT: dict[str, Any] = {
    "started_at": 5.0, "sample_seed": None, "population_objects": 8, "objects": 8, "objects_per_second": 4.0,
    "bounds": [], "counts": {"missing": 1}, "broken_off": None, "passed_over": [], "remarks": [HOSTILE],
}  # fmt: skip


def histogram(result: Result, milliseconds: list[float]) -> HistogramRow:
    """Return the histogram of these service times."""
    part = part_of(np.array([round(each * 1e6) for each in milliseconds], dtype=np.int64))
    indices, counts = part.indices.astype("<i8").tobytes(), part.counts.astype("<i8").tobytes()
    return HistogramRow(result.workload, "object_service", part.total_ns, part.max_ns, indices, counts)


def whole_run(path: Path, make_result: Callable[..., Result]) -> RunDatabase:
    """Make a watched run of eleven cells, three of them with parallel clients; with errors, a check and an audit."""
    error = FirstError("archive", "403 AccessDenied", 2, HOSTILE, HOSTILE, HOSTILE)
    results = [
        make_result(operation, size, count, rate, position=place, errors=2, first_errors=(error,), settled=False)
        for place, (operation, size, count, rate) in enumerate(
            [
                (operation, size, count, rate / size)
                for operation, rate in (("archive", 4e6), ("retrieve", 9e6))
                for size in (8192, 16384)
                for count in (1, 25)
            ],
            1,
        )
    ]
    results += [
        make_result(clients=many, objects_per_session=250, phase="archive-parallel", position=8 + place)
        for place, many in enumerate((1, 2, 4), 1)
    ]
    phases = [
        phase_record(
            each.position,
            each,
            0.5 + 0.7 * each.position,
            1.1 + 0.7 * each.position,
            histograms=[histogram(each, [1.0, 2.0, 2.0, 50.0 * each.clients])],
        )
        for each in results
    ]
    platform = replace(PLATFORM, name=HOSTILE, version=HOSTILE, server_clock_offset_seconds=0.5)
    more: dict[str, Any] = {
        "platform": platform,
        "phases_planned": 11,
        "settings": RECORD["settings"] | {"disk_roles": {"vda": "object", "vdb": "catalogue"}},
        "scenario_json": '{"name": "dr550", "sweep": [{"name": "archive", "operation": "archive", "clients": [1, 2]}]}',
        "command_line": ["archiver", "run", "dr550", HOSTILE],
    }
    database = RunDatabase.create(path, RunRecord(**{**RECORD, **more}))
    for phase in phases:
        database.add_phase(phase)
    database.add_samples(ten_seconds())
    database.add_check(CHECK, [{"request": "DELETE"}])
    database.add_audit(AUDIT)
    database.finish(20.0, "none")
    return database


def report_of(recorded: RecordedRun) -> Document:
    """Return the report of a run."""
    return build_report(recorded, mixed_run(recorded), is_page=True)
