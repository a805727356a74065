"""Test a phase of one worker: its clients' work is reported, each object once, whatever the sessions do."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import backends
from archiver.engine.work.worker import run_phase
from archiver.engine.worker import client, outage, phase_run
from archiver.engine.worker.assignment import Assignment, ClientAssignment
from archiver.engine.worker.outage import FAILED_SESSIONS_MAX
from archiver.measure.reports import IntervalReport, Tally
from archiver.values.record import Operation, Recorder, Status
from backends.base import Batch, PhaseSetting
from backends.null import NullBackend, NullSession
from scenarios.model import Phase, Workload
from scenarios.work.mix import OperationName
from scenarios.work.sessions import InWindow, Sessions, StopRule, UntilPrecise

# These rules end by the minimum of sessions and by the clients' shares, never by time.
RULE = UntilPrecise(
    seconds_min=1e-9, seconds_max=1e-9, bytes_max=1, precision=0.05, sessions_min=10, warm_up_sessions=1
)
WINDOW = InWindow(seconds=1e6, client_bytes_max=11_000)


@dataclass
class Channel:
    """Keep the reports; request stop or finish at the given number of checks."""

    stop_at: int | None = None
    finish_at: int | None = None
    reports: list[IntervalReport] = field(default_factory=list)
    asked: int = 0
    on_start: Callable[[], None] = lambda: None
    reported: asyncio.Event = field(default_factory=asyncio.Event)

    def wait_for_start(self) -> int:
        self.on_start()
        return time.monotonic_ns()

    def report(self, report: IntervalReport) -> None:
        self.reports.append(report)
        self.reported.set()

    def should_stop(self) -> bool:
        self.asked += 1
        return self.stop_at is not None and self.asked >= self.stop_at

    def should_finish(self) -> bool:
        return self.finish_at is not None and self.asked >= self.finish_at

    def total(self, *, warm_up: bool | None = None) -> Tally:
        """Return the sum of the reported tallies."""
        total = Tally()
        for report in self.reports:
            for key, tally in report.tallies.items():
                if warm_up in (None, key.part == "warm-up"):
                    total.add(tally)
        return total

    def archived(self) -> list[int]:
        return [n for report in self.reports for each in report.changed for n in range(each.first, each.last + 1)]

    def errors(self) -> dict[tuple[str, str], int]:
        counts: dict[tuple[str, str], int] = {}
        for report in self.reports:
            for error in report.errors:
                counts[error.operation, error.reason] = counts.get((error.operation, error.reason), 0) + error.count
        return counts


def endless(clients: int) -> StopRule:
    """Return a stop rule that lasts for days."""
    if clients > 1:
        return replace(WINDOW, client_bytes_max=10**15)
    return replace(RULE, seconds_min=1e6, seconds_max=1e6, bytes_max=10**15)


def assignment(
    clients: int = 1, objects: int = 5, rule: StopRule = RULE, operation: OperationName = "archive", numbers: Any = None
) -> Assignment:
    """Return an assignment with objects of 200 bytes. Each client has its own share unless ``numbers`` are given."""
    workload = Workload(operation, Sessions(operation, 200, rule), clients, objects)
    phase = Phase(operation, 1, 1, (workload,))
    share = workload.objects_max // clients
    mine = [numbers if numbers is not None else (i * share, (i + 1) * share) for i in range(clients)]
    return Assignment(
        "run-1", 7, "null", None, phase, tuple(ClientAssignment(i, 0, n) for i, n in enumerate(mine)), {}, "all"
    )


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[NullSession]], None]:
    """Return a function that makes the backend open sessions of this class."""

    def with_sessions(kind: type[NullSession]) -> None:
        class Backend(NullBackend):
            def session(self, client: int) -> NullSession:
                return kind()

        monkeypatch.setattr(backends, "load", lambda name: Backend)

    return with_sessions


@pytest.fixture
def report_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phase_run, "TICK_SECONDS", 0.0001)
    monkeypatch.setattr(phase_run, "REPORT_SECONDS", 0.0)


@pytest.mark.parametrize("frozen_before", [False, True])
def test_a_phase_leaves_objects_frozen_only_if_its_process_froze_some(frozen_before: bool) -> None:
    (gc.freeze if frozen_before else gc.unfreeze)()
    try:
        run_phase(assignment(), Channel())
        assert (gc.get_freeze_count() > 0) is frozen_before
    finally:
        gc.freeze()


@pytest.mark.parametrize("shares_core", [True, False])
def test_worker_yields_its_core_at_start_only_if_shared(monkeypatch: pytest.MonkeyPatch, shares_core: bool) -> None:
    shared_until_ns = []

    async def share(until_ns: int) -> None:
        shared_until_ns.append(until_ns)

    monkeypatch.setattr(phase_run, "share_core", share)
    report = run_phase(replace(assignment(), shares_core=shares_core), Channel())
    assert shared_until_ns == ([report.began_ns + phase_run.BEGIN_NS] if shares_core else [])


@pytest.mark.parametrize("objects", [1, 5, 500])
def test_one_client_reports_warm_up_and_measured_sessions(objects: int) -> None:
    channel = Channel()
    report = run_phase(assignment(objects=objects), channel)
    warm_up, measured = channel.total(warm_up=True), channel.total(warm_up=False)
    assert (warm_up.sessions, warm_up.objects) == (1, objects)
    assert (measured.sessions, measured.objects) == (10, 10 * objects)
    assert (measured.bytes, measured.attempts, measured.errors) == (10 * objects * 200, 10 * objects, 0)
    assert channel.archived() == list(range(11 * objects))
    (stage,) = report.stages
    assert 0 < stage.measured_from_ns < stage.measured_to_ns
    assert report.gave_up is None


def test_window_ends_when_clients_have_used_up_their_shares() -> None:
    channel = Channel()
    one = assignment(clients=3, rule=WINDOW)
    report = run_phase(one, channel)
    total = channel.total()
    assert (total.sessions, total.objects) == (33, 165) == (33, one.phase.workloads[0].objects_max)
    assert sorted(channel.archived()) == list(range(165))
    (stage,) = report.stages
    assert stage.measured_to_ns < stage.measured_from_ns + 1e6 * 1e9


def test_rows_beyond_recorder_capacity_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RECORDER_ROWS", 23)  # room for two sessions of 8 rows, but not for a third
    channel = Channel()
    run_phase(assignment(rule=replace(RULE, sessions_min=200)), channel)
    assert (channel.total().sessions, channel.total().objects) == (201, 1005)
    assert channel.archived() == list(range(1005))


@pytest.mark.usefixtures("report_often")
def test_rows_not_yet_counted_at_phase_end_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    has_ended = threading.Event()

    class Waiting(ThreadPoolExecutor):
        """An executor that runs nothing before the phase has ended."""

        def __init__(self, threads: int) -> None:
            super().__init__(threads)
            self.submit(has_ended.wait, 60)

    async def end_phase(backend: NullBackend) -> None:
        has_ended.set()

    class Yielding(NullSession):
        async def perform(self, batch: Batch, record: Recorder) -> None:
            await asyncio.sleep(0.001)  # let the worker's other tasks run
            await super().perform(batch, record)

    class Backend(NullBackend):
        def session(self, client: int) -> NullSession:
            return Yielding()

    monkeypatch.setattr(phase_run, "ThreadPoolExecutor", Waiting)
    monkeypatch.setattr(phase_run.PhaseRun, "_fold_every_ns", 0)
    monkeypatch.setattr(Backend, "end_phase", end_phase)
    monkeypatch.setattr(backends, "load", lambda name: Backend)
    channel = Channel()
    run_phase(assignment(), channel)
    assert channel.total().objects == 55


def test_retrieve_reads_each_given_object_once_in_order(use: Callable[[type[NullSession]], None]) -> None:
    read: list[tuple[Operation, int]] = []

    class Noting(NullSession):
        async def perform(self, batch: Batch, record: Recorder) -> None:
            read.extend(zip(batch.operation, batch.number, strict=True))
            await super().perform(batch, record)

    use(Noting)
    order = np.random.default_rng(1).permutation(1000)[:23].astype(np.int64)
    channel = Channel()
    run_phase(assignment(operation="retrieve", numbers=order), channel)
    assert read == [(Operation.RETRIEVE, n) for n in order[:20].tolist()]  # four whole sessions; three objects are left
    assert channel.total().objects == 20
    assert channel.archived() == []


def test_backend_is_prepared_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[PhaseSetting] = []
    monkeypatch.setattr(NullBackend, "set_phase", lambda self, setting: prepared.append(setting))
    when_started: list[int] = []
    run_phase(assignment(), Channel(on_start=lambda: when_started.append(len(prepared))))
    assert when_started == [1]
    assert prepared[0].content.run_id == "run-1"
    assert prepared[0].object_sizes_bytes == (200,)
    assert prepared[0].clients == (0,)
    assert prepared[0].reads == ()


def test_backend_receives_the_objects_to_retrieve_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[PhaseSetting] = []
    monkeypatch.setattr(NullBackend, "set_phase", lambda self, setting: prepared.append(setting))
    run_phase(assignment(operation="retrieve", numbers=np.array([5, 3, 9], dtype=np.int64)), Channel())
    assert [reads.tolist() for reads in prepared[0].reads] == [[5, 3, 9]]


def test_transaction_rows_are_not_counted_as_objects(use: Callable[[type[NullSession]], None]) -> None:
    class EachByItself(NullSession):
        async def perform(self, batch: Batch, record: Recorder) -> None:
            for i in range(len(batch)):
                one = slice(i, i + 1)
                await super().perform(Batch(batch.operation[one], batch.number[one], batch.size_bytes[one]), record)
                now_ns = time.monotonic_ns()
                record.row(Operation.TRANSACTION, 0, now_ns, now_ns, now_ns, now_ns, batch.size_bytes[i])

    use(EachByItself)
    channel = Channel()
    run_phase(assignment(), channel)
    total = channel.total()
    assert (total.sessions, total.objects, total.bytes, total.errors) == (11, 55, 55 * 200, 0)
    assert total.histograms["transaction_commit"].count == 55


def test_session_missing_an_object_is_an_error_despite_its_transaction_row(
    use: Callable[[type[NullSession]], None],
) -> None:
    class OneLess(NullSession):
        async def perform(self, batch: Batch, record: Recorder) -> None:
            await super().perform(Batch(batch.operation[1:], batch.number[1:], batch.size_bytes[1:]), record)
            now_ns = time.monotonic_ns()
            record.row(Operation.TRANSACTION, 0, now_ns, now_ns, now_ns, now_ns, 0)

    use(OneLess)
    channel = Channel()
    run_phase(assignment(), channel)
    assert (channel.total().sessions, channel.total().objects, channel.total().errors) == (0, 44, 11)


@pytest.mark.parametrize("clients", [1, 3])
def test_stop_request_ends_an_endless_phase(clients: int) -> None:
    channel = Channel(stop_at=3)
    run_phase(assignment(clients=clients, rule=endless(clients)), channel)
    assert len(channel.archived()) == len(set(channel.archived())) == channel.total().objects > 0
    assert channel.total().errors == 0  # an interrupted operation is not an error


def test_stop_before_start_carries_out_no_session() -> None:
    channel = Channel(stop_at=1)
    run_phase(assignment(), channel)
    assert (channel.total().sessions, channel.total().objects) == (0, 0)


class RefusedAtTheDoor(NullSession):
    async def open(self, record: Recorder, due_ns: int) -> bool:
        await asyncio.sleep(0)
        record.row(Operation.OPEN, 0, due_ns, due_ns, due_ns, time.monotonic_ns(), 0, Status.CONNECT_FAILED)
        record.error(Operation.OPEN, "connect failed", "connection refused")
        return False


@pytest.mark.parametrize("clients", [1, 3])
def test_a_client_whose_sessions_never_open_gives_up(use: Callable[[type[NullSession]], None], clients: int) -> None:
    use(RefusedAtTheDoor)
    channel = Channel()
    report = run_phase(assignment(clients=clients, rule=endless(clients)), channel)
    assert report.gave_up is not None
    assert report.gave_up.startswith("the platform stopped answering at ")
    assert report.gave_up.endswith(": connect failed: connection refused")
    total = channel.total()
    assert (total.sessions, total.objects, total.bytes) == (0, 0, 0)
    assert FAILED_SESSIONS_MAX * clients <= total.errors < (FAILED_SESSIONS_MAX + 1) * clients
    assert channel.errors() == {("open", "connect failed"): total.errors}
    assert channel.archived() == []


def test_client_with_one_successful_session_continues_and_counts_failures(
    use: Callable[[type[NullSession]], None],
) -> None:
    opened: list[int] = []

    class OnlyTheFirst(RefusedAtTheDoor):
        async def open(self, record: Recorder, due_ns: int) -> bool:
            opened.append(1)
            return await (NullSession.open if len(opened) == 1 else RefusedAtTheDoor.open)(self, record, due_ns)

    use(OnlyTheFirst)
    channel = Channel()
    report = run_phase(assignment(), channel)
    assert report.gave_up is None
    assert (channel.total().sessions, channel.total().objects, channel.total().errors) == (1, 5, 10)


@pytest.mark.parametrize("returns", [True, False])
def test_clients_pause_while_platform_is_down_and_end_if_it_stays_down(
    use: Callable[[type[NullSession]], None], monkeypatch: pytest.MonkeyPatch, returns: bool
) -> None:
    monkeypatch.setattr(outage, "PAUSE_SECONDS_FIRST", 0.01)
    monkeypatch.setattr(outage, "OUTAGE_SECONDS_MAX", 1e6 if returns else 0.1)
    opened: list[int] = []

    class Down(RefusedAtTheDoor):
        async def open(self, record: Recorder, due_ns: int) -> bool:
            opened.append(1)
            is_up = len(opened) == 1 or (returns and len(opened) > 8)
            return await (NullSession if is_up else RefusedAtTheDoor).open(self, record, due_ns)

    use(Down)
    channel = Channel()
    report = run_phase(assignment(objects=1, rule=endless(1), numbers=(0, 20)), channel)
    failed, total = report.failed_session_ns[0]
    if returns:
        assert report.gave_up is None
        assert channel.total().errors == 7
        assert len(channel.archived()) == 20
    else:
        assert report.gave_up is not None
        assert channel.total().errors < 12
        assert failed > 0.9 * total


def test_numbers_of_refused_archives_are_used_again_and_uncertain_ones_are_not(
    use: Callable[[type[NullSession]], None],
) -> None:
    tried: list[int] = []

    class Picky(NullSession):
        async def perform(self, batch: Batch, record: Recorder) -> None:
            (number,) = batch.number
            tried.append(number)
            if len(tried) in (2, 3):
                now_ns = time.monotonic_ns()
                is_lost = len(tried) == 3
                status = Status.READ_TIMEOUT if is_lost else 403
                record.row(Operation.ARCHIVE, number, now_ns, now_ns, now_ns, now_ns, 0, status)
                record.error(Operation.ARCHIVE, "refused or lost", "", outcome_unknown=is_lost)
            else:
                await super().perform(batch, record)

    use(Picky)
    channel = Channel()
    run_phase(assignment(objects=1, rule=endless(1), numbers=(0, 6)), channel)
    assert tried == [0, 1, 2, 3, 4, 5, 1]
    assert sorted(channel.archived()) == [0, 1, 3, 4, 5]


def test_denied_archives_count_as_errors_not_as_throughput(use: Callable[[type[NullSession]], None]) -> None:
    """Fault F1: a denied archive must not count as throughput."""

    class Denying(NullSession):
        async def perform(self, batch: Batch, record: Recorder) -> None:
            for number in batch.number:
                now_ns = time.monotonic_ns()
                record.row(Operation.ARCHIVE, number, now_ns, now_ns, now_ns, now_ns, 0, 403)
                record.error(Operation.ARCHIVE, "403 AccessDenied", "Access Denied")

    use(Denying)
    channel = Channel()
    report = run_phase(assignment(), channel)
    total = channel.total()
    assert report.gave_up is not None
    assert (total.sessions, total.objects, total.attempts, total.errors) == (0, 0, 15, 15)
    assert channel.errors() == {("archive", "403 AccessDenied"): 15}


def test_session_cut_short_is_an_error_but_its_objects_count(use: Callable[[type[NullSession]], None]) -> None:
    class CutShort(NullSession):
        async def perform(self, batch: Batch, record: Recorder) -> None:
            await super().perform(Batch(batch.operation[:2], batch.number[:2], batch.size_bytes[:2]), record)

    use(CutShort)
    channel = Channel()
    run_phase(assignment(), channel)
    total = channel.total()
    assert (total.sessions, total.objects, total.errors) == (0, 22, 11)
    assert channel.archived() == [n for n in range(55) if n % 5 < 2]


@pytest.mark.usefixtures("report_often")
@pytest.mark.parametrize("clients", [1, 3])
def test_session_longer_than_several_reports_is_counted_once(
    use: Callable[[type[NullSession]], None], clients: int
) -> None:
    channel = Channel()

    class Slow(NullSession):
        async def perform(self, batch: Batch, record: Recorder) -> None:
            for i in range(len(batch)):
                one = slice(i, i + 1)
                await super().perform(Batch(batch.operation[one], batch.number[one], batch.size_bytes[one]), record)
                record.error(Operation.ARCHIVE, "slow down", "")
                channel.reported.clear()
                await channel.reported.wait()  # the session continues after the next report

    use(Slow)
    rule = replace(RULE, sessions_min=2) if clients == 1 else replace(WINDOW, client_bytes_max=3000)
    run_phase(assignment(clients=clients, rule=rule), channel)
    expected = 15 * clients
    assert len(channel.reports) > 10
    assert channel.total().objects == expected
    assert channel.total().sessions == expected // 5
    assert sorted(channel.archived()) == list(range(expected))
    assert channel.errors() == {("archive", "slow down"): expected}
    histograms = channel.total().histograms
    assert histograms["object_service"].count == expected
    assert histograms["session_open"].count == histograms["session_close"].count == expected // 5


def test_backend_exception_is_raised_after_measurements_are_reported(use: Callable[[type[NullSession]], None]) -> None:
    performed: list[int] = []

    class Faulty(NullSession):
        async def perform(self, batch: Batch, record: Recorder) -> None:
            performed.append(1)
            if len(performed) > 2:
                raise RuntimeError("a fault of ours")
            await super().perform(batch, record)

    use(Faulty)
    channel = Channel()
    with pytest.raises(RuntimeError, match="a fault of ours"):
        run_phase(assignment(), channel)
    assert channel.archived() == list(range(10))
