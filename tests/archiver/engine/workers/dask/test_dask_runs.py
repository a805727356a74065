"""Test runs on real `dask scheduler` and `dask worker` processes, and what happens if one of them is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from dask.cli import run_cli

from archiver.engine.workers.dask.cluster import open_cluster
from archiver.ledger.ledger import Ledger
from archiver.web.live_state import FILE_NAME, read_live_state
from results.recorded.database import RunDatabase
from results.recorded.run import read_run
from results.tables.workers import worker_tables, worker_totals
from tests.archiver.engine.workers.worker_assignments import SHORT, TIMER_NS, assignments
from tests.support import forks
from tests.support.commands import StartedCommand
from tests.support.runs import shorten
from tests.support.servers.fault_proxy import FaultProxy
from tests.support.waiting import wait_until

FAR_SECONDS = 0.05

QUICK = (
    "--quick", "--quiet", "--set", "object_sizes=8KiB", "--set", "objects_per_session=2", "--set", "clients=2",
    "--set", "stop.seconds_min=600ms",
)  # fmt: skip


_LOOPBACK = ("--host", "127.0.0.1")


class Cluster:
    """A scheduler and workers; each is a process."""

    def __init__(self, folder: Path, stack: ExitStack, name: str) -> None:
        self._folder = folder
        self._stack = stack
        self._file = folder / f"{name}.json"
        self.scheduler = self._begin("scheduler", "--scheduler-file", str(self._file), "--port", "0")
        self.workers: list[forks.Forked] = []
        until = time.monotonic() + 60
        while not self._file.exists() or not self._file.read_text():
            assert time.monotonic() < until, "no scheduler"
            time.sleep(0.05)
        self.address: str = json.loads(self._file.read_text())["address"]

    def add_worker(self, scheduler: str | None = None, *more: str) -> None:
        arguments = ("worker", scheduler or self.address, "--nthreads", "1", "--no-nanny")
        self.workers.append(self._begin(*arguments, *more))

    def add_worker_far_away(self, delay_seconds: float) -> None:
        """Start a worker whose connections to and from the scheduler have this delay."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            own_port = free.getsockname()[1]
        there = self._stack.enter_context(FaultProxy(own_port, delay_seconds=delay_seconds))
        back = self._stack.enter_context(FaultProxy(int(self.address.rpartition(":")[2]), delay_seconds=delay_seconds))
        self.add_worker(
            f"tcp://127.0.0.1:{back.port}", "--listen-address", f"tcp://127.0.0.1:{own_port}",
            "--contact-address", f"tcp://127.0.0.1:{there.port}",
        )  # fmt: skip

    def wait_for_workers(self, count: int) -> None:
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=60)

    def _begin(self, *arguments: str) -> forks.Forked:
        host = () if "--listen-address" in arguments else _LOOPBACK
        process = forks.ForkedProcess(target=_dask, args=(*arguments, "--dashboard-address", "127.0.0.1:0", *host))
        with open(os.devnull, "wb") as nothing:
            process.descriptors = {1: nothing.fileno(), 2: nothing.fileno()}
            process.start()
        running = forks.Forked(process)
        self._stack.callback(_end, running)
        return running


def _dask(*arguments: str) -> None:
    sys.argv = ["dask", *arguments]
    run_cli()


def _end(process: forks.Forked) -> None:
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dask")


@pytest.fixture(scope="module")
def processes() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def cluster(folder: Path, processes: ExitStack) -> Cluster:
    made = Cluster(folder, processes, "first")
    for _ in range(2):
        made.add_worker()
    made.wait_for_workers(2)
    return made


def archiver(home: Path, *arguments: str) -> StartedCommand:
    return StartedCommand(arguments, {"ARCHIVER_HOME": str(home)})


def finished(process: StartedCommand) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=240)
    process.close()
    return process.wait(), out, err


def database_of(home: Path) -> RunDatabase:
    (path,) = home.glob("runs/*/run.db")
    return RunDatabase.open(path)


def wait_for_a_phase(home: Path, process: StartedCommand) -> None:
    """Wait until the first phase is committed and the second has begun."""
    while process.poll() is None:
        for path in home.glob("runs/*/run.db"):
            try:
                with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
                    (done,) = db.execute("SELECT count(*) FROM phase").fetchone()
                    (begun,) = db.execute("SELECT count(*) FROM begun").fetchone()
            except sqlite3.OperationalError:
                continue  # the database does not exist yet
            if done and begun > done:
                return
        time.sleep(0.01)
    raise AssertionError("the run ended before it had a phase")


def test_objects_of_workers_add_up_to_the_results(cluster: Cluster, tmp_path: Path) -> None:
    brief = ("--set", "stop.warm_up_seconds=20ms", "--set", "stop.seconds_min=300ms")
    done = archiver(tmp_path, "run", "dr550", *QUICK, *brief, "--dask", cluster.address, "--json")
    status, out, err = finished(done)
    assert status == 0, err
    document = json.loads(out)
    with closing(database_of(tmp_path)) as database:
        of_phase: dict[int, int] = {}
        for result in database.results() + database.results(drift_checks=True):
            of_phase[result.position] = of_phase.get(result.position, 0) + result.objects
        assert of_phase == {position: sum(row.objects for row in rows) for position, rows in database.workers().items()}
        for rows in database.workers().values():
            assert len(rows) == 2
            for row in rows:
                assert row.objects > 0
                # All processes are on one machine with one clock.
                assert row.clock_offset_ns is not None
                assert row.clock_error_ns is not None
                assert abs(row.clock_offset_ns) <= row.clock_error_ns
        totals = worker_totals(read_run(database.path))
        (table,) = worker_tables(read_run(database.path))
        assert [each["objects"] for each in document["workers"]] == [each.objects for each in totals]
        assert table.rows[-1][3].number == sum(of_phase.values())
        assert {row[-1].text for row in table.rows} == {"no"}
    assert document["settings"]["dask"]["scheduler"] == cluster.address
    assert len(document["settings"]["dask"]["workers"]) == 2


def test_live_state_shows_the_rate_of_dask_workers(cluster: Cluster, tmp_path: Path) -> None:
    run = archiver(tmp_path, "run", "dr550", *QUICK, "--set", "stop.seconds_min=60s", "--dask", cluster.address)

    def live_rate() -> float:
        states = [read_live_state(path) for path in tmp_path.glob("runs/*")]
        rates = [each.current.objects_per_second for each in states if each is not None and each.current is not None]
        return sum(rate for rate in rates if rate is not None)

    wait_until(live_rate, "live rate")
    run.send_signal(signal.SIGINT)
    status, _, err = finished(run)
    assert status == 130, err
    assert list(tmp_path.glob(f"runs/*/{FILE_NAME}*")) == []


def test_worker_with_a_slow_link_begins_with_the_others(folder: Path, processes: ExitStack) -> None:
    far = Cluster(folder, processes, "far")
    far.add_worker()
    far.add_worker_far_away(FAR_SECONDS)
    far.wait_for_workers(2)
    asked_ns = 0

    def start(delay_ns: int) -> int:
        nonlocal asked_ns
        asked_ns = delay_ns
        return time.monotonic_ns() + delay_ns

    with open_cluster(far.address, None) as cluster:
        workers = cluster.workers("stop")
        carried = workers.run(assignments(SHORT), start, lambda report: None)
        workers.close()
    near_ns, far_ns = sorted(clock.error_ns for clock in carried.clocks.values())
    assert far_ns >= FAR_SECONDS * 1e9  # half of the round trip
    assert near_ns < far_ns
    assert asked_ns >= 4 * 2 * FAR_SECONDS * 1e9  # so that the delayed message has arrived
    for report in carried.reports:
        clock = carried.clocks[report.worker]
        assert abs(clock.offset_ns) <= clock.error_ns  # both have the same clock
        assert report.began_ns >= report.stages[0].measured_from_ns - TIMER_NS


def test_run_survives_worker_kill_and_resumes_after_scheduler_kill(
    cluster: Cluster, folder: Path, processes: ExitStack, tmp_path: Path
) -> None:
    run = archiver(tmp_path, "run", "dr550", *QUICK, "--dask", cluster.address, "--if-worker-lost", "go-on")
    wait_for_a_phase(tmp_path, run)
    cluster.workers[1].send_signal(signal.SIGKILL)
    status, _, err = finished(run)
    assert status == 1
    assert "is incomplete: 1 of 2 workers lost: Dask worker tcp://127.0.0.1:" in err
    with closing(database_of(tmp_path)) as database:
        stored = database.run()
        assert stored.verdict == "fail"
        assert database.finished() == stored.phases_planned  # the run continued
        lost = [position for position, rows in database.workers().items() if any(row.lost for row in rows)]
        assert len(lost) == 1
        assert {r.position for r in database.results() if r.incomplete} == set(lost)
        assert all(len(rows) == 1 for position, rows in database.workers().items() if position > lost[0])
        # Uncounted objects stay open in the ledger: list the prefix.
        ledger = Ledger(tmp_path / "ledger.db")
        archives = any(
            r.operation == "archive" for r in database.results() + database.results(drift_checks=True)
            if r.position == lost[0]
        )  # fmt: skip
        assert len([p for p in ledger.placements(stored.id) if p.objects is None]) == archives
        ledger.close()

    home = tmp_path / "second"
    cluster.add_worker()
    cluster.wait_for_workers(2)
    endless_second = ("--order", "paper", "--set", "archive-parallel.stop.seconds_min=1h")
    run = archiver(home, "run", "dr550", *QUICK, *endless_second, "--dask", cluster.address)
    wait_for_a_phase(home, run)
    cluster.scheduler.send_signal(signal.SIGKILL)
    status, _, err = finished(run)
    assert status == 1
    assert f"the Dask scheduler at {cluster.address} went away; the phases that had finished are saved" in err
    assert "Traceback" not in err
    with closing(database_of(home)) as database:
        before = database.finished()
        assert 0 < before < database.run().phases_planned

    shorten(home, "1h", "600ms")
    again = Cluster(folder, processes, "second")
    again.add_worker()
    again.wait_for_workers(1)
    status, _, err = finished(archiver(home, "resume", "latest", "--quiet", "--dask", again.address))
    assert status == 2
    assert "has 1 workers, and 2 workers were requested" in err  # a resumed run needs the same number of workers
    again.add_worker()
    again.wait_for_workers(2)
    status, _, err = finished(archiver(home, "resume", "latest", "--quiet", "--dask", again.address))
    assert status == 0, err
    with closing(database_of(home)) as database:
        assert database.finished() == database.run().phases_planned > before
