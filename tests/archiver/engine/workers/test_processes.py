"""Test worker processes: they start together, all reports arrive, and a dead worker is always reported."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from archiver.engine.workers.processes import START_DELAY_NS_EACH, PipeChannel, WorkerProcesses
from archiver.machine import interruption
from archiver.measure.reports import Change, IntervalReport
from archiver.values.errors import RunFailed
from tests.archiver.engine.workers.worker_assignments import LONG, SHORT, assignments, at_once
from tests.support import forks


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Execute workers as new processes, as Archiver does."""
    forks.execute(monkeypatch)


@pytest.fixture
def workers() -> Iterator[WorkerProcesses]:
    processes = WorkerProcesses(2, [])
    yield processes
    processes.close()


def objects(reports: list[IntervalReport]) -> int:
    return sum(tally.objects for report in reports for tally in report.tallies.values())


def worker_ids() -> dict[str, int]:
    return {child.name: child.pid for child in multiprocessing.active_children() if child.pid is not None}


def test_workers_carry_out_two_phases_from_a_common_start(workers: WorkerProcesses) -> None:
    started: list[int] = []

    def start(delay_ns: int) -> int:
        started.append(time.monotonic_ns())
        return started[-1]

    for phase in range(2):
        reports: list[IntervalReport] = []
        ends = workers.run(assignments(SHORT), start, reports.append).reports
        assert len(started) == phase + 1  # one start for all workers, when all are ready
        assert [end.stages[0].measured_from_ns for end in ends] == [started[-1]] * 2
        assert objects(reports) == 110
        assert sum(each.last - each.first + 1 for report in reports for each in report.changed) == 110


def test_start_delay_grows_with_the_number_of_workers(workers: WorkerProcesses) -> None:
    delays_ns: list[int] = []

    def start(delay_ns: int) -> int:
        delays_ns.append(delay_ns)
        return time.monotonic_ns()

    for count in (1, 2):
        workers.run(assignments(SHORT)[:count], start, lambda report: None)
    assert delays_ns[1] - delays_ns[0] == START_DELAY_NS_EACH


def test_killed_worker_fails_the_run_by_name_and_reports_are_delivered(workers: WorkerProcesses) -> None:
    reports: list[IntervalReport] = []

    def take(report: IntervalReport) -> None:
        reports.append(report)
        if len(reports) == 1:
            os.kill(worker_ids()["archiver-worker-1"], signal.SIGKILL)

    died = r"worker archiver-worker-1 died \(exit status -9\); the phases that had finished are saved"
    with pytest.raises(RunFailed, match=died):
        workers.run(assignments(LONG), at_once, take)
    assert len(reports) >= 2  # the other worker was stopped and sent its last report
    assert objects(reports) > 0


def test_a_worker_that_died_between_phases_fails_the_next_one_by_name(workers: WorkerProcesses) -> None:
    victim = next(child for child in multiprocessing.active_children() if child.name == "archiver-worker-0")
    victim.kill()
    victim.join()
    with pytest.raises(RunFailed, match="archiver-worker-0 died"):
        workers.run(assignments(LONG), at_once, lambda report: None)


def test_run_with_go_on_continues_after_a_worker_died() -> None:
    workers = WorkerProcesses(2, [], if_lost="go-on")
    reports: list[IntervalReport] = []

    def take(report: IntervalReport) -> bool:
        reports.append(report)
        if len(reports) == 1:
            os.kill(worker_ids()["archiver-worker-1"], signal.SIGKILL)
        return len(reports) < 3  # otherwise the phase would not end

    try:
        carried = workers.run(assignments(LONG), at_once, take)
        assert carried.lost.keys() == {1}
        assert "archiver-worker-1 died" in carried.lost[1]
        assert [report.worker for report in carried.reports] == [0]
        assert {report.worker for report in reports} <= {0, 1}
        assert len(workers) == 1
        again = workers.run(assignments(SHORT)[:1], at_once, reports.append)  # the next phase runs without it
        assert [report.worker for report in again.reports] == [0]
        assert not again.lost
    finally:
        workers.close()


def test_run_that_lost_all_workers_fails() -> None:
    workers = WorkerProcesses(2, [], if_lost="go-on")

    def take(report: IntervalReport) -> None:
        for pid in worker_ids().values():
            os.kill(pid, signal.SIGKILL)

    try:
        with pytest.raises(RunFailed, match=r"archiver-worker-\d died"):
            workers.run(assignments(LONG), at_once, take)
    finally:
        workers.close()


def test_worker_usage_error_fails_the_run_with_its_message(workers: WorkerProcesses) -> None:
    def start(delay_ns: int) -> int:
        raise AssertionError("started before all workers were ready")

    with pytest.raises(RunFailed, match="no backend named 'absent' is installed") as failed:
        workers.run([assignments(LONG)[0], assignments(LONG, "absent")[1]], start, lambda report: None)
    assert "Traceback" not in str(failed.value)  # the message says what happened and what to do


def test_unexpected_worker_fault_is_reported_with_traceback(workers: WorkerProcesses) -> None:
    broken = replace(assignments(LONG)[1], phase=None)  # type: ignore[arg-type]
    with pytest.raises(RunFailed, match=r"a worker failed:\nTraceback"):
        workers.run([assignments(LONG)[0], broken], at_once, lambda report: None)


@pytest.mark.usefixtures("executed")
def test_close_ends_every_worker() -> None:
    workers = WorkerProcesses(2, [])
    pids = worker_ids()
    assert len(pids) == 2
    workers.close()
    assert worker_ids() == {}


def test_interrupted_phase_delivers_the_last_reports_of_all_workers(workers: WorkerProcesses) -> None:
    reports: list[IntervalReport] = []

    def take(report: IntervalReport) -> None:
        reports.append(report)
        if len(reports) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        workers.run(assignments(LONG), at_once, take)
    assert len(reports) >= 3  # the last reports of both workers
    assert objects(reports) > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_a_report_loses_no_report(workers: WorkerProcesses, number: signal.Signals) -> None:
    reports: list[IntervalReport] = []

    def take(report: IntervalReport) -> None:
        if not reports:
            signal.raise_signal(number)
        reports.append(report)

    before = signal.signal(number, signal.SIG_DFL)  # nohup(1) may have set it to be ignored
    try:
        with interruption.handled(), pytest.raises(KeyboardInterrupt):
            workers.run(assignments(LONG), at_once, take)
    finally:
        signal.signal(number, before)
    numbers = sorted(
        number for report in reports for each in report.changed for number in range(each.first, each.last + 1)
    )
    assert objects(reports) == len(numbers) == len(set(numbers)) > 0
    assert {report.worker for report in reports} == {0, 1}  # the last reports of both workers


@pytest.mark.usefixtures("executed")
def test_a_signal_to_all_processes_ends_no_worker() -> None:
    """A worker that a signal ends is named with its number: `died (exit status -15)`."""
    workers = WorkerProcesses(2, [])

    def send_signals() -> None:
        for pid in worker_ids().values():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(pid, number)

    def take(report: IntervalReport) -> None:
        send_signals()

    send_signals()  # workers are still starting
    try:
        for _ in range(2):
            assert len(workers.run(assignments(SHORT), at_once, take).reports) == 2
    finally:
        workers.close()


def test_a_worker_whose_coordinator_is_gone_stops() -> None:
    ours, theirs = multiprocessing.Pipe()
    channel = PipeChannel(theirs)
    assert not channel.should_stop()
    ours.close()
    assert channel.should_stop()
    assert channel.should_stop()
    theirs.close()


def test_reports_pass_through_the_pipe_unchanged() -> None:
    ours, theirs = multiprocessing.Pipe()
    report = IntervalReport({}, [Change(0, "archive", 8192, 1, 2)], [])
    PipeChannel(theirs).report(report)
    assert ours.recv() == report
    ours.close()
    theirs.close()
