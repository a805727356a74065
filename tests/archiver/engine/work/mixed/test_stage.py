"""Test concurrent workloads in one worker: each has its own time and loop, and no result is lost when they end."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import backends
from archiver.engine.numbers import ANY_TIME, Kept, ObjectNumbers
from archiver.engine.work.mixed.shares import mix_of, share_mixes
from archiver.engine.work.worker import run_phase
from archiver.engine.worker.assignment import Assignment
from archiver.engine.worker.outage import FAILED_SESSIONS_MAX
from archiver.measure.reports import IntervalReport, PhaseReport, StageReport, Tally
from archiver.values.record import Operation, Recorder, Status
from backends.base import Batch
from backends.null import NullBackend, NullSession
from scenarios.model import Phase, Workload
from scenarios.notation.distribution import Sizes
from scenarios.work.mix import Arrivals, Aside, Mix, OperationName, Transaction

MS = 1_000_000
LONG = 600.0  # longer than any test


class Channel:
    """Keep the reports; request stop or finish as soon as the given condition is true."""

    def __init__(
        self, stop_when: Callable[[Channel], bool] | None = None, finish_when: Callable[[Channel], bool] | None = None
    ) -> None:
        self._stop_when, self._finish_when = stop_when, finish_when
        self.reports: list[IntervalReport] = []
        self.start_ns = 0

    def wait_for_start(self) -> int:
        self.start_ns = time.monotonic_ns()
        return self.start_ns

    def report(self, report: IntervalReport) -> None:
        self.reports.append(report)

    def should_stop(self) -> bool:
        return self._stop_when is not None and self._stop_when(self)

    def should_finish(self) -> bool:
        return self._finish_when is not None and self._finish_when(self)

    def total(self, workload: int = 0) -> Tally:
        total = Tally()
        for report in self.reports:
            for key, tally in report.tallies.items():
                if key.workload == workload:
                    total.add(tally)
        return total

    def changed(self, operation: str) -> list[int]:
        changes = [each for report in self.reports for each in report.changed if each.operation == operation]
        return sorted(n for each in changes for n in range(each.first, each.last + 1))


def workload(
    name: str,
    *steps: OperationName,
    transactions: tuple[Transaction, ...] = (),
    clients: int = 2,
    objects_per_session: int = 1,
    sizes: Sizes | None = None,
    **mix: Any,
) -> Workload:
    mix = {"data": "d", **mix}
    transactions = transactions or (Transaction(steps, 1.0),)
    one = Mix(transactions, sizes=sizes or Sizes.constant(1000), **mix)
    return Workload(name, one, clients, objects_per_session, application=name)


def carry_out(
    *workloads: Workload, channel: Channel | None = None, objects: int = 200
) -> tuple[Channel, PhaseReport, list[StageReport]]:
    """Carry out a phase in this process by one worker, on data set "d" with this number of objects."""
    channel = channel or Channel()
    numbers = ObjectNumbers(7, first=objects)
    if objects:
        numbers.keep(Kept(1000, 0, objects - 1, data="d"))
    phase = Phase("p", 1, 1, workloads)
    (share,) = share_mixes(phase, numbers, ANY_TIME, 1)
    report = run_phase(
        Assignment("run-1", 7, "null", None, phase, (), {}, "all", mixes=share.mixes, data=share.data,
                   has_markers=True), channel
    )  # fmt: skip
    return channel, report, list(report.stages)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[NullSession]], None]:
    """Return a function that makes the backend open sessions of this class."""

    def with_sessions(kind: type[NullSession]) -> None:
        class Backend(NullBackend):
            def session(self, client: int) -> NullSession:
                return kind()

        monkeypatch.setattr(backends, "load", lambda name: Backend)

    return with_sessions


class Calm(NullSession):
    """Sessions of at least 2 ms, so that a second has some hundred of them."""

    async def perform(self, batch: Batch, record: Recorder) -> None:
        await asyncio.sleep(0.002)
        await super().perform(batch, record)


def adds_up(stage: StageReport) -> bool:
    return stage.due == stage.started + stage.dropped and stage.waited <= stage.due


# ---- times


def test_each_workload_has_its_own_time(use: Callable[[type[NullSession]], None]) -> None:
    use(Calm)
    channel, report, (first, follower, companion, late) = carry_out(
        workload("first", "retrieve", planned_warm_up_seconds=0.1, planned_seconds=0.5),
        workload("follower", "retrieve", waits_for="first", starts_seconds=0.1, planned_seconds=0.4),
        workload("companion", "retrieve", ends_with="first", planned_seconds=LONG),
        workload("late", "retrieve", starts_seconds=0.2, planned_warm_up_seconds=0.05, planned_seconds=0.35),
    )
    start_ns = channel.start_ns
    for stage, begins_ms, lasts_ms in ((first, 100, 400), (follower, 600, 400), (late, 250, 300)):
        assert stage.measured_from_ns >= start_ns + begins_ms * MS
        assert stage.measured_to_ns - stage.measured_from_ns == lasts_ms * MS
        assert stage.ended_ns >= stage.measured_to_ns
    assert companion.measured_from_ns < first.measured_from_ns
    assert first.ended_ns <= companion.ended_ns < start_ns + int(LONG * 1e9)
    assert companion.measured_to_ns >= first.ended_ns
    assert follower.measured_from_ns >= first.measured_to_ns + 100 * MS
    assert not any(stage.ended_early for stage in report.stages)
    assert all(channel.total(index).objects > 0 for index in range(4))
    assert report.gave_up is None
    assert (first.due, first.started, first.waited, first.dropped) == (0, 0, 0, 0)  # a closed loop has no offered load


def test_workload_sends_nothing_outside_its_time(use: Callable[[type[NullSession]], None]) -> None:
    opened: dict[int, list[int]] = {}

    class Noting(Calm):
        async def perform(self, batch: Batch, record: Recorder) -> None:
            opened.setdefault(batch.size_bytes[0], []).append(time.monotonic_ns())
            await super().perform(batch, record)

    use(Noting)
    channel, _, stages = carry_out(
        workload("a", "archive", data="a", sizes=Sizes.constant(100), planned_seconds=0.2, bytes_max=10**6),
        workload(
            "b", "archive", data="b", sizes=Sizes.constant(200), planned_seconds=0.2, bytes_max=10**6, waits_for="a"
        ),
        workload("c", "archive", data="c", sizes=Sizes.constant(300), objects=10, starts_seconds=0.15),
    )
    a, b, c = (opened[size] for size in (100, 200, 300))
    assert min(b) >= stages[0].measured_to_ns
    assert max(a) <= stages[0].ended_ns
    assert min(c) >= channel.start_ns + 150 * MS
    assert len(c) == 10


@pytest.mark.parametrize("clients", [1, 3, 8])
@pytest.mark.parametrize(("end", "done"), [("objects", 25), ("fill", 225 - 200)])
def test_workload_with_object_goal_archives_exactly_that_many(clients: int, end: str, done: int) -> None:
    more: dict[str, Any] = {end: done if end == "objects" else 225}
    channel, report, (stage,) = carry_out(workload("load", "archive", clients=clients, objects_per_session=4, **more))
    assert channel.changed("archive") == list(range(200, 200 + done))
    assert report.gave_up is None
    assert not stage.ended_early  # its goal was reached
    assert stage.measured_to_ns == stage.ended_ns


def test_fill_archives_nothing_when_the_data_set_is_large_enough() -> None:
    channel, report, (stage,) = carry_out(workload("load", "archive", clients=3, fill=150))
    assert channel.total().objects == 0
    assert report.gave_up is None
    assert not stage.ended_early


@pytest.mark.parametrize("until", [None, "other"])
def test_workload_that_used_up_its_byte_limit_ended_early(
    use: Callable[[type[NullSession]], None], until: str | None
) -> None:
    use(Calm)
    channel, report, stages = carry_out(
        workload("w", "archive", clients=3, planned_seconds=LONG, ends_with=until, bytes_max=30_000),
        workload("other", "retrieve", data="d", planned_seconds=1.0),
    )
    assert stages[0].ended_early
    assert not stages[1].ended_early
    assert len(channel.changed("archive")) == 30
    assert stages[0].measured_to_ns <= stages[0].ended_ns < channel.start_ns + int(LONG * 1e9)
    assert report.gave_up is None


# ---- open loop


def holding(milliseconds: float) -> type[NullSession]:
    """Return sessions that all last until this time after the first of them was opened."""
    until: list[float] = []

    class Holding(NullSession):
        async def perform(self, batch: Batch, record: Recorder) -> None:
            if not until:
                until.append(time.monotonic() + milliseconds / 1000)
            await asyncio.sleep(max(0.0, until[0] - time.monotonic()))
            await super().perform(batch, record)

    return Holding


def test_sessions_arrive_whether_or_not_earlier_ones_are_done(use: Callable[[type[NullSession]], None]) -> None:
    """The platform does not answer until long after the schedule ends. Three clients take a session each, five
    sessions wait, and the rest is dropped."""
    use(holding(1500))
    channel, _, (stage,) = carry_out(
        workload("w", "retrieve", clients=3, planned_seconds=0.2, arrivals=Arrivals("constant", 100.0, backlog_max=5))
    )
    assert (stage.due, stage.waited, stage.dropped, stage.backlog_max) == (20, 5, 12, 5)
    assert stage.started == 8
    assert channel.total().sessions == 8
    assert stage.lateness.count == 3  # only sessions that found a free client count
    response, service = (channel.total().histograms[each] for each in ("session", "session_service"))
    # The 5 waiting sessions were due while the platform did not answer. Their response time includes the wait.
    start = channel.total().histograms["session_start"]
    assert start.count == response.count == 8
    assert start.max_ns > 300 * MS
    assert response.total_ns >= service.total_ns + 5 * 300 * MS


def test_open_loop_starts_waiting_sessions_after_its_measured_time(use: Callable[[type[NullSession]], None]) -> None:
    use(holding(1200))
    channel, _, (stage,) = carry_out(
        workload("w", "retrieve", clients=2, planned_seconds=0.1, arrivals=Arrivals("constant", 200.0))
    )
    assert (stage.due, stage.started, stage.waited, stage.dropped) == (20, 20, 18, 0)
    assert channel.total().sessions == 20
    assert stage.measured_to_ns < stage.ended_ns


def test_backlog_is_dropped_after_the_drain_time(
    use: Callable[[type[NullSession]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archiver.engine.work.mixed.stage.DRAIN_NS", 50 * MS)
    use(holding(1200))
    channel, _, (stage,) = carry_out(
        workload("w", "retrieve", clients=2, planned_seconds=0.1, arrivals=Arrivals("constant", 200.0))
    )
    assert (stage.due, stage.started, stage.waited, stage.dropped) == (20, 2, 18, 18)
    assert channel.total().sessions == 2


def test_sessions_due_in_warm_up_are_performed_but_not_counted(use: Callable[[type[NullSession]], None]) -> None:
    use(holding(150))  # sessions due in the warm-up still wait when the measured time begins
    channel, _, (stage,) = carry_out(
        workload(
            "w",
            "retrieve",
            clients=1,
            planned_warm_up_seconds=0.1,
            planned_seconds=0.3,
            arrivals=Arrivals("constant", 100.0),
        )
    )
    assert (stage.due, stage.started, stage.dropped) == (20, 20, 0)
    assert 0 < stage.waited <= 20
    assert channel.total().sessions == 30


def test_open_loop_response_time_exceeds_service_time() -> None:
    channel, _, (stage,) = carry_out(
        workload(
            "w", "retrieve", clients=4, objects_per_session=3, planned_seconds=0.2, arrivals=Arrivals("poisson", 300.0)
        )
    )
    total = channel.total()
    assert adds_up(stage)
    assert stage.due == total.sessions > 20
    assert total.objects == 3 * total.sessions
    assert total.histograms["session_start"].count == total.sessions
    assert total.histograms["session"].total_ns > total.histograms["session_service"].total_ns


@pytest.mark.parametrize(("kind", "backlog_max"), [("constant", 3), ("poisson", 1000), ("bursts", 0)])
@pytest.mark.parametrize("ending", ["its time", "used up", "told to finish", "another's end"])
def test_every_due_session_is_either_started_or_dropped(
    use: Callable[[type[NullSession]], None], kind: Any, backlog_max: int, ending: str
) -> None:
    chance = random.Random(backlog_max)

    class Uneven(NullSession):
        async def perform(self, batch: Batch, record: Recorder) -> None:
            await asyncio.sleep(chance.choice((0, 0, 0.001, 0.04)))
            await super().perform(batch, record)

    use(Uneven)
    arrivals = Arrivals(kind, 400.0, burst_sessions=20 * (kind == "bursts"), every_seconds=0.05 * (kind == "bursts"),
                        backlog_max=backlog_max)  # fmt: skip
    more: dict[str, Any] = {"planned_seconds": 60.0 if ending == "used up" else 0.2}
    channel = Channel()
    if ending == "told to finish":
        channel = Channel(finish_when=lambda self: time.monotonic_ns() > self.start_ns + 100 * MS)
    elif ending == "another's end":
        more |= {"ends_with": "other"}
    step: OperationName = "archive" if ending == "used up" else "retrieve"
    asked = workload("w", step, clients=3, arrivals=arrivals, **more)
    if ending == "used up":
        # Fewer new objects than sessions, which no scenario can have.
        asked = replace(asked, work=replace(mix_of(asked), objects=10))
    channel, report, stages = carry_out(asked, workload("other", "retrieve", planned_seconds=0.1), channel=channel)
    assert adds_up(stages[0]), stages[0]
    assert stages[0].backlog_max <= backlog_max
    assert channel.total().sessions + channel.total().errors == stages[0].started
    assert stages[0].ended_early == (ending == "used up")
    assert stages[0].due > 0
    assert report.gave_up is None


# ---- ends


def test_finish_request_completes_running_sessions_and_loses_nothing(use: Callable[[type[NullSession]], None]) -> None:
    performed = Counter[tuple[int, int]]()

    class Noting(Calm):
        async def perform(self, batch: Batch, record: Recorder) -> None:
            await super().perform(batch, record)
            performed.update(zip(batch.operation, batch.number, strict=True))

    use(Noting)
    channel, report, stages = carry_out(
        workload(
            "closed", "retrieve", "archive", clients=3, objects_per_session=5, planned_seconds=LONG, bytes_max=10**8
        ),
        workload("open", "retrieve", clients=2, planned_seconds=LONG, arrivals=Arrivals("constant", 300.0)),
        workload("not begun", "retrieve", starts_seconds=LONG / 2, planned_seconds=LONG / 2),
        workload("after", "retrieve", waits_for="closed", planned_seconds=LONG),
        channel=Channel(finish_when=lambda self: performed.total() > 200),
    )
    total = [channel.total(index) for index in range(4)]
    assert sum(tally.objects for tally in total) == performed.total()
    assert channel.changed("archive") == sorted(n for op, n in performed if op == Operation.ARCHIVE)
    assert all(tally.errors == 0 for tally in total)  # no session was cut off
    assert total[0].objects == 10 * total[0].sessions
    assert (total[2].sessions, total[3].sessions) == (0, 0)
    assert adds_up(stages[1])
    assert not any(stage.ended_early for stage in stages)  # the phase is marked instead
    assert stages[2].measured_from_ns == stages[2].measured_to_ns
    assert report.gave_up is None


@pytest.mark.parametrize("arrivals", [None, Arrivals("constant", 2000.0)])
def test_stop_request_ends_all_workloads_at_once(
    use: Callable[[type[NullSession]], None], arrivals: Arrivals | None, caplog: pytest.LogCaptureFixture
) -> None:
    performed = list[int]()

    class Counting(Calm):
        async def perform(self, batch: Batch, record: Recorder) -> None:
            await super().perform(batch, record)
            performed.extend(operation for operation in batch.operation if operation is Operation.ARCHIVE)

    use(Counting)
    caplog.set_level(logging.WARNING)
    channel, report, _ = carry_out(
        workload("w", "archive", clients=3, planned_seconds=LONG, bytes_max=10**6, arrivals=None),
        workload("open", "retrieve", clients=3, planned_seconds=LONG, arrivals=arrivals),
        workload("not begun", "retrieve", starts_seconds=LONG / 2, planned_seconds=LONG / 2),
        channel=Channel(stop_when=lambda _: len(performed) >= 20),
    )
    assert len(channel.changed("archive")) == channel.total(0).objects >= len(performed) >= 20
    assert channel.total(0).errors == channel.total(1).errors == 0
    assert caplog.records == []  # no arrival finds an ended client
    assert report.gave_up is None


def test_stop_before_start_carries_out_no_session() -> None:
    channel, report, stages = carry_out(
        workload("w", "archive", planned_seconds=LONG, bytes_max=10**6), channel=Channel(stop_when=lambda self: True)
    )
    assert channel.total().sessions == 0
    assert stages == []
    assert report.gave_up is None


def test_workload_on_empty_data_set_gives_up_with_a_reason() -> None:
    channel, report, _ = carry_out(workload("w", "retrieve", data="d", planned_seconds=LONG), objects=0)
    assert report.gave_up == "data set 'd' has no object for it"
    assert channel.total().sessions == 0


def test_workload_with_more_clients_than_batches_does_not_fail() -> None:
    channel, report, (stage,) = carry_out(
        workload("check", "retrieve", clients=8, objects_per_session=50, keys="each-once"), objects=120
    )
    assert report.gave_up is None
    assert channel.total().objects == 120
    assert not stage.ended_early


def test_phase_gives_up_if_no_session_can_be_opened(use: Callable[[type[NullSession]], None]) -> None:
    class Refused(NullSession):
        async def open(self, record: Recorder, due_ns: int) -> bool:
            await asyncio.sleep(0.001)
            record.row(Operation.OPEN, 0, due_ns, due_ns, due_ns, time.monotonic_ns(), 0, Status.CONNECT_FAILED)
            return False

    use(Refused)
    channel, report, stages = carry_out(
        workload("closed", "retrieve", clients=1, planned_seconds=LONG),
        workload("open", "retrieve", clients=1, planned_seconds=LONG, arrivals=Arrivals("constant", 500.0)),
    )
    assert report.gave_up is not None
    assert report.gave_up.startswith("the platform stopped answering at ")
    clients = 2
    assert FAILED_SESSIONS_MAX * clients <= channel.total(0).errors + channel.total(1).errors
    assert channel.total(0).errors + channel.total(1).errors < (FAILED_SESSIONS_MAX + 1) * clients
    assert channel.total(0).sessions == channel.total(1).sessions == 0
    assert adds_up(stages[1])


# ---- requested objects


class ModelStore:
    """Objects and their versions, as a platform has them. Some requests fail, with or without effect."""

    def __init__(self, objects: int, seed: int) -> None:
        self.versions = dict.fromkeys(range(objects), 1)
        self.chance = random.Random(seed)
        self.wrong: list[str] = []
        self.read_at_last: list[int] = []
        self.unknown: set[int] = set()
        self.is_checking = False

    def session(self) -> type[NullSession]:
        store = self

        class Session(NullSession):
            async def perform(self, batch: Batch, record: Recorder) -> None:
                for place, (operation, number) in enumerate(zip(batch.operation, batch.number, strict=True)):
                    await asyncio.sleep(0)
                    version = batch.version[place] if batch.version else 1
                    status = store.do(operation, number, version)
                    record.row(operation, number, 0, 0, 0, time.monotonic_ns(), batch.size_bytes[place], status)

        return Session

    def do(self, operation: Operation, number: int, version: int) -> int:
        fails = self.chance.random() < 0.05 and operation is not Operation.RETRIEVE
        has_effect = not fails or self.chance.random() < 0.5
        if fails and operation is not Operation.ARCHIVE:
            self.unknown.add(number)
        if operation is Operation.RETRIEVE:
            if self.versions.get(number) != version:
                self.wrong.append(f"{number}: version {version} of {self.versions.get(number)}")
            if self.is_checking:
                self.read_at_last.append(number)
        elif operation is Operation.ARCHIVE:
            if number in self.versions:
                self.wrong.append(f"{number} archived twice")
            if not fails:
                self.versions[number] = 1
        elif number not in self.versions:
            self.wrong.append(f"{number}: {operation.label} of what is not there")
        elif has_effect and operation in (Operation.DELETE, Operation.DELETE_MARKER):
            del self.versions[number]
        elif has_effect and operation is Operation.NEW_VERSION:
            if version != self.versions[number] + 1:
                self.wrong.append(f"{number}: version {version} after {self.versions[number]}")
            self.versions[number] = version
        return Status.CONNECTION_LOST if fails else Status.OK


@pytest.mark.parametrize("seed", range(3))
def test_mix_requests_only_existing_objects_and_its_check_reads_them_all(
    use: Callable[[type[NullSession]], None], seed: int
) -> None:
    store = ModelStore(300, seed)
    use(store.session())
    aside = Aside("log", "log", Sizes.constant(77), 0.227)
    email = (
        Transaction(("retrieve", "archive"), 40), Transaction(("retrieve", "delete"), 30),
        Transaction(("retrieve", "new-version"), 15), Transaction(("retrieve",), 15),
    )  # fmt: skip

    channel, report, _ = carry_out(
        workload("e-mail", transactions=email, clients=6, objects_per_session=seed + 1, planned_seconds=0.6,
                 aside=aside, bytes_max=500_000),
        workload("check", "retrieve", clients=6, objects_per_session=20, keys="each-once", waits_for="e-mail"),
        objects=300,
    )  # fmt: skip
    assert store.wrong == []
    assert report.gave_up is None
    there = {n for n in store.versions if n not in store.unknown}
    own = {n for n in there if n < 300 or n in channel.changed("archive")}
    logs = {n for n in own if n >= 300 and store.versions[n] == 1} - set(_own_numbers(channel))
    assert channel.total(1).objects == len(own - logs)
    parts = channel.total(0).parts
    assert parts["archive"].objects == len(_own_numbers(channel)) > 50
    assert parts["log"].objects == len(logs) > 50
    assert parts["retrieve"].errors == 0
    assert parts["delete-marker"].objects == len(channel.changed("delete-marker"))
    assert parts["new-version"].objects == len(channel.changed("new-version"))


def _own_numbers(channel: Channel) -> list[int]:
    changes = [each for report in channel.reports for each in report.changed]
    return [
        n
        for each in changes
        if each.operation == "archive" and not each.is_aside
        for n in range(each.first, each.last + 1)
    ]


def test_changes_to_objects_of_another_workload_are_reported_with_their_size() -> None:
    """An object that is hidden in the phase that archived it has its archived size."""
    sizes = Sizes.of([(100, 0.5), (900, 0.5)])
    channel, _, _ = carry_out(
        workload("load", "archive", data="new", clients=2, objects=40, sizes=sizes),
        workload("hide", "delete-marker", data="new", clients=2, waits_for="load", planned_seconds=LONG),
        objects=0,
    )
    archived = {n: c.object_bytes for r in channel.reports for c in r.changed if c.operation == "archive"
                for n in range(c.first, c.last + 1)}  # fmt: skip
    hidden = {n: c.object_bytes for r in channel.reports for c in r.changed if c.operation == "delete-marker"
              for n in range(c.first, c.last + 1)}  # fmt: skip
    assert Counter(archived.values()) == {100: 20, 900: 20}
    assert hidden == archived


def test_deadline_is_compared_with_response_time(use: Callable[[type[NullSession]], None]) -> None:
    use(holding(300))
    channel, _, _ = carry_out(
        workload(
            "w", "retrieve", clients=2, planned_seconds=0.1, deadline_seconds=0.15, arrivals=Arrivals("constant", 100.0)
        )
    )
    # The last session was due 200 ms before the platform's first answer.
    assert channel.total().missed_deadlines == channel.total().objects == 10


def test_closed_loop_records_no_scheduling_delay() -> None:
    channel, _, (stage,) = carry_out(workload("w", "retrieve", objects_per_session=2, keys="each-once"))
    assert "session_start" not in channel.total().histograms
    assert stage.lateness.count == 0
    assert channel.total().parts == {}  # the workload has one operation
