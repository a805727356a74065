"""Faults of other benchmarks, numbered. Each has a test which shows that Archiver does not have it.

F1, F2, F5, F6, F8 and F13 are in tests/backends/s3/test_session.py, with a scripted server; F1 through the command line
also in tests/archiver/cli/runs/test_run.py; F16 in tests/backends/s3/test_tls.py. F12 (a locked bucket that cannot be
cleaned up) is tested by the tests of cleanup in tests/archiver/cli/runs/test_run.py.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from archiver.engine.work.worker import run_phase
from archiver.engine.worker.assignment import Assignment, ClientAssignment
from archiver.measure.histogram import Histogram, part_of
from archiver.measure.reports import INTERVAL_NS, Change, IntervalReport, PhaseReport, Tally, TallyKey
from archiver.traces.format import TracedOperation
from archiver.values.retention import DateMaker, Retention
from backends.base import RunPlan
from backends.embedded import process as embedded
from backends.s3 import S3Backend, S3Options
from backends.s3.control import Credentials
from scenarios.model import Phase, Workload
from scenarios.work.mix import OperationName
from scenarios.work.sessions import AllObjects, InWindow, Sessions, StopRule, UntilPrecise
from tests.archiver.traces.made import write
from tests.support.commands import archiver
from tests.support.counted import statistics
from tests.support.runs import TINY, keys_of, left_in, s3
from tests.support.servers import fault_proxy as wire

WHOLE_SESSIONS = AllObjects()  # one session per client, however long


class Reports:
    """A worker's channel that starts the phase at once and records the reports."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.by_key: dict[TallyKey, Tally] = {}
        self.changed: list[Change] = []
        self.reasons: list[str] = []

    def wait_for_start(self) -> int:
        return time.monotonic_ns()

    def report(self, report: IntervalReport) -> None:
        for key, tally in report.tallies.items():
            self.tally.add(tally)
            self.by_key.setdefault(key, Tally()).add(tally)
        self.changed += report.changed
        self.reasons += [error.reason for error in report.errors]

    def should_stop(self) -> bool:
        return False

    def should_finish(self) -> bool:
        return False


def carry_out(
    backend: str,
    setting: Any,
    operation: OperationName,
    size_bytes: int,
    objects: int,
    stop: StopRule = WHOLE_SESSIONS,
    clients: int = 1,
) -> tuple[Reports, PhaseReport]:
    """Run one phase in this process. By default each client transfers ``objects`` objects in one session."""
    workload = Workload(operation, Sessions(operation, size_bytes, stop), clients, objects)
    phase = Phase("fault", 1, 1, (workload,))
    share = workload.objects_max // clients
    parts = tuple(
        ClientAssignment(
            client,
            0,
            (client * share, (client + 1) * share)
            if operation == "archive"
            else np.arange(client * share, (client + 1) * share),
        )
        for client in range(clients)
    )
    reports = Reports()
    dates: dict[float | None, DateMaker] = {None: DateMaker(Retention(), time.time() + 7200)}
    done = run_phase(Assignment("fault", 1, backend, setting, phase, parts, dates, "all"), reports)
    return reports, done


def s3_setting(store: embedded.StoreProcess) -> Any:
    backend = S3Backend(
        S3Options(
            endpoints=(store.endpoint,),
            credentials=Credentials(store.access_key, store.secret_key, None),
            region="us-east-1",
        )
    )
    backend.locate(RunPlan("fault", Retention()))
    backend.prepare()
    return backend.worker_setting()


def test_f3_percentiles_are_of_merged_windows_and_not_their_mean() -> None:
    windows = [np.full(1000, 1_000_000), np.full(10, 900_000_000)]  # a busy second, and a stalled one
    merged = Histogram()
    for window in windows:
        merged.add(part_of(window))
    found = merged.latency()
    assert found is not None
    assert found.p90 == pytest.approx(1.0, rel=0.001)  # the mean of the windows' percentiles would be 450 ms
    assert found.p99_9 == pytest.approx(900.0, rel=0.001)


def test_f4_response_time_includes_waiting_in_session() -> None:
    # Each object of a session is due when the previous one is done. A platform that stalls once delays the next object,
    # and only the response time shows it (coordinated omission). tests/archiver/measure/test_folding.py has the rows.
    reports, _ = carry_out("null", None, "archive", 8192, 100)
    service, response = reports.tally.histograms["object_service"], reports.tally.histograms["object"]
    assert response.total_ns >= service.total_ns
    session = reports.tally.histograms["session"]
    assert session.total_ns >= response.total_ns


@pytest.mark.parametrize("size_bytes", [1, 63, 64, 65, 8192, 1 << 20, 9 << 20])
def test_f7_intact_objects_verify_and_damaged_ones_are_errors(store: embedded.StoreProcess, size_bytes: int) -> None:
    setting = s3_setting(store)
    archived, _ = carry_out("s3", setting, "archive", size_bytes, 3)
    assert (archived.tally.objects, archived.tally.errors) == (3, 0)
    read, _ = carry_out("s3", setting, "retrieve", size_bytes, 3)
    assert (read.tally.objects, read.tally.bytes, read.tally.errors) == (3, 3 * size_bytes, 0)

    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[-1] ^= 1  # the last byte of the segment's last object
        path.write_bytes(content)

    for path in store.data_files():
        if path.stat().st_size > size_bytes:
            flip(path)
    damaged, _ = carry_out("s3", setting, "retrieve", size_bytes, 3)
    assert damaged.tally.errors >= 1
    assert damaged.tally.objects < 3
    assert damaged.tally.bytes == damaged.tally.objects * size_bytes
    assert damaged.reasons


def test_f9_cleanup_keeps_objects_of_others_in_shared_bucket(home: Path, store: embedded.StoreProcess) -> None:
    client = s3(store)
    client.create_bucket(Bucket="shared", ObjectLockEnabledForBucket=True)
    for number in range(3):
        client.put_object(Bucket="shared", Key=f"theirs/{number}", Body=b"theirs")
    into = ("run", "dr550", *TINY, "--endpoint", store.endpoint, "--bucket", "shared", "--json")
    done = archiver(*into, **keys_of(store))
    assert done.returncode == 0, done.stderr
    assert archiver("cleanup", "latest", "--bypass-governance", **keys_of(store)).returncode == 0
    kept = client.list_object_versions(Bucket="shared")
    assert [version["Key"] for version in kept["Versions"]] == ["theirs/0", "theirs/1", "theirs/2"]
    assert "DeleteMarkers" not in kept


def test_f10_memory_does_not_grow_with_number_of_objects() -> None:
    carry_out("null", None, "archive", 8192, 500)  # load modules and fill caches
    tracemalloc.start()
    try:
        peaks = []
        for sessions in (20, 200):
            stop = UntilPrecise(3600.0, 3600.0, sessions * 500 * 8192, precision=0.0)
            tracemalloc.reset_peak()
            reports, _ = carry_out("null", None, "archive", 8192, 500, stop)
            assert reports.tally.objects == sessions * 500
            peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 1 << 20  # ten times the objects; a list of their times alone would take 7 MB


def test_f11_sessions_that_run_at_the_deadline_finish_and_are_no_errors(store: embedded.StoreProcess) -> None:
    stop = InWindow(INTERVAL_NS / 1e9, 2000 * 8192)
    reports, done = carry_out("s3", s3_setting(store), "archive", 8192, 500, stop, clients=2)
    assert reports.tally.errors == 0
    assert reports.tally.sessions >= 2
    assert reports.tally.objects == reports.tally.sessions * 500  # whole sessions, although the window was shorter
    (stage,) = done.stages
    deadline = (stage.measured_to_ns - stage.measured_from_ns) // INTERVAL_NS
    drained = sum(tally.objects for key, tally in reports.by_key.items() if key.interval >= deadline)
    assert 0 < drained < reports.tally.objects


def test_f14_result_limited_by_client_is_reported(home: Path) -> None:
    done = archiver(
        "run", "dr550", "--backend", "null", "--quick", "--set", "object_sizes=8KiB", "--set", "clients=1",
        "--set", "objects_per_session=2", "--set", "stop.seconds_min=200ms", "--set", "stop.seconds_max=200ms",
        "--set", "stop.bytes_max=100GB", "--max-locked-bytes", "10TB",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "limited by the client" in done.stdout


def test_f15_bytes_are_those_that_went_over_the_wire(store: embedded.StoreProcess) -> None:
    before = statistics(store)
    reports, _ = carry_out("s3", s3_setting(store), "archive", 100_000, 20)
    after = statistics(store)
    assert reports.tally.bytes == 20 * 100_000 == after["bytes"] - before["bytes"]


# Faults of networks and broken servers, mixed. tests/backends/s3/test_wire_faults.py tests each fault alone.

MESS = {
    "connection lost": wire.reset(wire.nothing_of),
    "truncated": wire.truncate(wire.half_the_head),
    "read timeout": wire.silence(wire.nothing_of),
    "protocol error": wire.changed(lambda _: b"\x00 no answer \r\n\r\n"),
    "damaged": wire.flip(wire.half_the_body),
}
MIX = """
name = "faulty"
title = "Two applications over a bad line"

[[phase]]
name = "load"
load = true

[[phase.workload]]
name = "files"
operation = "archive"
data = "files"
sizes = "8KiB"
clients = 1
fill = 8

[[phase]]
name = "mix"

[[phase.workload]]
name = "reading"
operation = "retrieve"
data = "files"
clients = 2
seconds = "1s"

[[phase.workload]]
name = "archiving"
operation = "archive"
data = "records"
sizes = "8KiB"
clients = 2
seconds = "1s"
bytes_max = "10MB"
"""


class InTurn:
    """Choose the next of these faults for every ``every``-th answer about an object."""

    def __init__(self, reasons: Sequence[str], every: int) -> None:
        self._reasons = itertools.cycle(reasons)
        self._every = every
        self._lock = threading.Lock()
        self._seen = 0
        self.played: set[str] = set()

    def __call__(self, message: wire.Message) -> wire.Fault | None:
        if not wire.asks_for("PUT", "GET")(message):
            return None
        with self._lock:
            self._seen += 1
            if self._seen % self._every:
                return None
            reason = next(self._reasons)
            if reason == "damaged" and not message.asked.startswith(b"GET"):
                return None
            self.played.add(reason)
            return MESS[reason]


def through_a_bad_line(
    home: Path, store: embedded.StoreProcess, *arguments: str, reasons: Sequence[str] = tuple(MESS), every: int
) -> dict[str, Any]:
    """Run a command over a proxy with faults. Check that it exits with 1 and that the ledger has all stored objects."""
    chosen = InTurn(reasons, every)
    with wire.FaultProxy(int(store.endpoint.rpartition(":")[2]), answers=chosen) as proxy:
        done = archiver(
            *arguments, "--endpoint", proxy.url, "--read-timeout", "5s", "--json", "--quiet", **keys_of(store)
        )
    assert done.returncode == 1, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    results = document["results"]
    counted = {error["reason"] for result in results for error in result["first_errors"]}
    assert counted - {"closed by server"} <= chosen.played
    assert sum(result["errors"] for result in results) > 0
    client = s3(store)
    pages = client.get_paginator("list_object_versions").paginate(Bucket=document["location"]["bucket"])
    held = sum(len(page.get("Versions", [])) for page in pages)
    assert sum(row["objects"] if row["objects"] is not None else row["objects_max"] for row in left_in(home)) >= held
    return document


def test_run_over_faulty_network_ends_and_counts_good_objects(home: Path, store: embedded.StoreProcess) -> None:
    quick = [reason for reason in MESS if reason != "read timeout"]  # each takes the whole time limit
    document = through_a_bad_line(home, store, "run", "dr550", *TINY, reasons=quick, every=11)
    for result in document["results"]:
        assert result["bytes"] == result["objects"] * 8192


@pytest.mark.long
def test_mix_over_faulty_network_ends_and_counts_good_objects(
    tmp_path: Path, home: Path, store: embedded.StoreProcess
) -> None:
    scenario = tmp_path / "faulty.toml"
    scenario.write_text(MIX)
    document = through_a_bad_line(home, store, "run", str(scenario), every=29)
    assert sum(result["objects"] for result in document["results"]) > 0


@pytest.mark.long
def test_replay_over_faulty_network_ends_and_counts_good_objects(
    tmp_path: Path, home: Path, store: embedded.StoreProcess
) -> None:
    rows = [
        TracedOperation(
            index * 20_000_000,
            operation="retrieve" if index % 2 else "archive",
            key=f"key/{index}",
            size_bytes=5000,
            client=index % 4,
        )
        for index in range(40)
    ]
    trace = write(tmp_path / "web.parquet", rows)
    # The replay first archives the objects that the trace reads. If that fails there is no replay, so the first fault
    # comes later.
    document = through_a_bad_line(home, store, "replay", str(trace), "--tolerance", "30s", every=23)
    assert sum(result["objects"] for result in document["results"]) > 0
