"""Test workers on a Dask cluster: phases, reports and faults as in local processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archiver.engine.workers.dask import cluster as finding
from archiver.engine.workers.dask import workers as dask_workers
from archiver.engine.workers.dask.channel import Alive, DaskChannel, Finish, Sealed, Stop, _Mailbox, deliver
from archiver.engine.workers.dask.cluster import DaskCluster, open_cluster
from archiver.machine import description as machine
from archiver.measure.reports import IntervalReport
from archiver.values import version
from archiver.values.errors import RunFailed, UsageError
from tests.archiver.engine.workers.worker_assignments import LONG, SHORT, TIMER_NS, assignments, at_once


@pytest.fixture(scope="module")
def cluster() -> Iterator[DaskCluster]:
    with open_cluster("local:2", None) as opened:
        yield opened


def test_dask_workers_begin_each_phase_at_one_instant(cluster: DaskCluster) -> None:
    started: list[int] = []

    def start(delay_ns: int) -> int:
        started.append(time.monotonic_ns() + delay_ns)
        return started[-1]

    workers = cluster.workers("stop")
    assert len(workers) == len(cluster) == 2
    for phase in range(2):
        reports: list[IntervalReport] = []
        carried = workers.run(assignments(SHORT), start, reports.append)
        assert len(started) == phase + 1
        for report in carried.reports:
            clock = carried.clocks[report.worker]
            assert abs(clock.offset_ns) <= clock.error_ns  # all have the same clock, so the true offset is 0
            # The worker's begin, converted to our clock, is the start within the clock error.
            assert abs(report.stages[0].measured_from_ns - started[-1]) <= clock.error_ns
            assert report.began_ns >= report.stages[0].measured_from_ns - TIMER_NS
            assert carried.prepared_seconds[report.worker] > 0
        assert {report.worker for report in reports} == {0, 1}
        assert sum(tally.objects for report in reports for tally in report.tallies.values()) == 110
        assert sum(each.last - each.first + 1 for report in reports for each in report.changed) == 110
    workers.close()


def test_worker_fault_fails_the_run_with_its_message_and_no_secrets(cluster: DaskCluster) -> None:
    workers = cluster.workers("stop")
    broken = replace(assignments(LONG, "absent")[1], backend_setting="planted-secret")
    with pytest.raises(RunFailed, match="no backend named 'absent' is installed") as failed:
        workers.run([assignments(LONG)[0], broken], at_once, lambda report: None)
    assert "Traceback" not in str(failed.value)
    assert "planted-secret" not in repr(Sealed(broken))
    workers.close()


def test_interrupted_phase_delivers_the_last_reports_of_all_workers(cluster: DaskCluster) -> None:
    workers = cluster.workers("stop")
    reports: list[IntervalReport] = []

    def take(report: IntervalReport) -> None:
        reports.append(report)
        if len(reports) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        workers.run(assignments(LONG), at_once, take)
    assert {report.worker for report in reports[1:]} == {0, 1}  # the last report of both workers
    # Nothing of the phase continues: the next phase finds its workers free.
    assert len(workers.run(assignments(SHORT), at_once, reports.append).reports) == 2
    workers.close()


def test_phase_ends_when_report_callback_returns_false(cluster: DaskCluster) -> None:
    workers = cluster.workers("stop")
    told = 0

    def take(report: IntervalReport) -> bool:
        nonlocal told
        told += 1
        return told < 3

    assert len(workers.run(assignments(LONG), at_once, take).reports) == 2
    workers.close()


def test_worker_busy_with_other_work_fails_the_run(cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_workers, "BEGIN_SECONDS_MAX", 0.0)
    workers = cluster.workers("stop")
    client: Any = workers._connection.client
    address = workers._places[1].name
    busy = client.submit(_until_cancelled, workers=[address], pure=False)
    try:
        with pytest.raises(RunFailed, match="did not begin its part within 0 s: its threads are busy with other work"):
            workers.run(assignments(LONG), at_once, lambda report: None)
    finally:
        client.run(_release, workers=[address])
        busy.result(timeout=60)
        workers.close()


_is_released: list[bool] = []


def _until_cancelled() -> None:
    for _ in range(6000):  # this occupies the thread of a worker
        if _is_released:
            return
        time.sleep(0.01)


def _release() -> None:
    _is_released.append(True)


def test_a_worker_whose_coordinator_is_silent_stops() -> None:
    mailbox = _Mailbox()
    channel = DaskChannel(None, "phase", 0, mailbox)  # type: ignore[arg-type]
    assert not channel.should_stop()
    mailbox.heard_at -= 1e6
    assert channel.should_stop()


def test_messages_are_delivered_to_their_own_mailbox(monkeypatch: pytest.MonkeyPatch) -> None:
    from archiver.engine.workers.dask import channel as module

    mailbox = _Mailbox()
    monkeypatch.setitem(module._mailboxes, "phase/0", mailbox)
    channel = DaskChannel(None, "phase", 0, mailbox)  # type: ignore[arg-type]
    deliver("phase/1", Stop())
    deliver("phase/0", Alive())
    assert not channel.should_stop()
    deliver("phase/0", Finish())
    assert channel.should_finish()
    assert not channel.should_stop()
    deliver("phase/0", Stop())
    assert channel.should_stop()


@pytest.mark.parametrize("address", ["local", "local:", "local:0", "local:x", "local:1000", "local:-1"])
def test_local_cluster_without_worker_count_is_refused(address: str) -> None:
    with (
        pytest.raises(UsageError, match="write local:N, where N is the number of workers"),
        open_cluster(address, None),
    ):
        pass


def test_unreachable_scheduler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "CONNECT_SECONDS_MAX", 0.5)
    with (
        pytest.raises(UsageError, match=r"--dask tcp://127.0.0.1:1: no scheduler"),
        open_cluster("tcp://127.0.0.1:1", None),
    ):
        pass


def test_too_few_workers_are_refused(cluster: DaskCluster) -> None:
    with pytest.raises(UsageError, match=r"has 2 workers, and 3 workers were requested; start more with: dask worker"):
        finding._look_at_workers(cluster._connection, 3)


def test_a_worker_of_another_version_is_refused(cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "VERSION", "99.0")
    with pytest.raises(UsageError, match=r"has Archiver .*, and this is 99\.0; install the same there"):
        finding._look_at_workers(cluster._connection, None)


def test_worker_without_archiver_is_refused_with_the_install_command(
    cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise ModuleNotFoundError("No module named 'archiver'")

    monkeypatch.setattr(machine, "describe", missing)
    with pytest.raises(UsageError, match=r"cannot take part .*pip install 'archiver-worm\[dask\]=="):
        finding._look_at_workers(cluster._connection, None)


def test_folder_not_visible_to_a_worker_is_refused(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (tmp_path, tmp_path / "not" / "there"):
        cluster.check_sees(folder, "--op-log")
        assert not list(tmp_path.iterdir())
    monkeypatch.setattr("os.path.exists", _nothing_there)
    with pytest.raises(UsageError, match=rf"--op-log: Dask worker tcp://\S+ on \S+ does not see {tmp_path}"):
        cluster.check_sees(tmp_path, "--op-log")


def _nothing_there(path: str) -> bool:
    return False
