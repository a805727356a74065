"""Test that reported objects, stored objects and counted requests agree exactly in every kind of phase."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from archiver.traces.format import SCHEMA
from backends.embedded import process as embedded
from tests.support.commands import archiver
from tests.support.counted import counted, statistics
from tests.support.runs import keys_of

SMALL = (
    "--quick",
    "--set", "stop.seconds_min=20ms", "--set", "stop.seconds_max=40ms", "--set", "stop.warm_up_seconds=20ms",
    "--set", "stop.bytes_max=2MB", "--set", "stop.client_bytes_max=2MB",
)  # fmt: skip
ALL_CELLS = ("--set", "object_sizes=8KiB,64KiB", "--set", "objects_per_session=1,10")
SOME_CELLS = ("--set", "object_sizes=8KiB", "--set", "objects_per_session=10")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.StoreProcess]:
    with embedded.start(tmp_path_factory.mktemp("agreement") / "store") as running:
        yield running


@pytest.mark.parametrize(
    "how",
    [(), ("--keep-sessions-open",), ("--workers", "2"), ("--session-open", "lock-config", "--verify", "none")],
    ids=["opened", "kept", "two-workers", "lock-config"],
)
def test_reported_is_held_is_counted(
    home: Path, tmp_path: Path, store: embedded.StoreProcess, how: tuple[str, ...]
) -> None:
    before = statistics(store)
    log = tmp_path / "log"
    done = archiver(
        "run", "dr550", *SMALL, *(SOME_CELLS if how else ALL_CELLS), *how, "--endpoint", store.endpoint,
        "--op-log", str(log), "--json", **keys_of(store),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    after = statistics(store)
    document = json.loads(done.stdout)
    (path,) = home.glob("runs/*/run.db")
    with sqlite3.connect(path) as database:
        intervals = dict(
            database.execute("SELECT workload, sum(attempts) FROM interval WHERE workload != '' GROUP BY workload")
        )
        ranges = database.execute("SELECT sum(last - first + 1) FROM object_range").fetchone()[0]
        sessions = database.execute("SELECT sum(sessions) FROM interval").fetchone()[0]
        ((probes, tries),) = database.execute("SELECT sum(archived), sum(tries) FROM probe").fetchall()
    database.close()
    assert probes == tries > 0
    puts, gets = counted(before, after, "PutObject"), counted(before, after, "GetObject")
    assert puts == intervals["archive"] + probes == ranges == after["objects"] - before["objects"]
    assert gets == intervals["retrieve"]
    if not how:
        # Only sessions and probes send HeadBucket.
        assert counted(before, after, "HeadBucket") == sessions + probes

    rows = [row for file in sorted(log.iterdir()) for row in pq.read_table(file, schema=SCHEMA).to_pylist()]
    by_operation: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_operation.setdefault(row["operation"], []).append(row)
    assert len(by_operation["archive"]) == puts - probes  # the log has only the requests of the workload
    assert len({row["key"] for row in by_operation["archive"]}) == puts - probes
    assert len(by_operation["retrieve"]) == gets
    assert len(by_operation["session"]) == sessions
    assert all(row["due_ns"] <= row["sent_ns"] <= row["first_byte_ns"] <= row["done_ns"] for row in rows)
    assert all(row["attempts"] == 1 and row["status"] == 0 for row in by_operation["archive"])
    measured = sum(result["objects"] for result in document["results"])
    assert 0 < measured <= puts + gets
