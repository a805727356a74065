"""A worker: carries out its clients' part of one phase at a time and reports it.

One idea: run_phase(assignment, channel) is all there is. It prepares everything, waits for the start instant that all
workers share, runs its clients in one event loop, folds their rows once an interval and whenever a recorder fills, and
reports once a second.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import uvloop
from numpy.typing import NDArray

import backends
from archiver.assignment import (
    INTERVAL_NS,
    Assignment,
    Change,
    Channel,
    CpuSample,
    IntervalReport,
    MixAssignment,
    PhaseReport,
    Tally,
    TallyKey,
)
from archiver.client import Client, SweepClient
from archiver.content import Content
from archiver.folding import Folding, Population, fold
from archiver.histogram import Histogram, part_of
from archiver.mixed.data_set import DataSet
from archiver.mixed.dealing import OPERATION_OF, Dealer
from archiver.mixed.pacer import Pacer
from archiver.mixed.stage import Stage, StageClient
from archiver.op_log import OpLog
from archiver.record import Operation, Recorder, Status
from archiver.retention import Retention
from archiver.stopping import EverythingStop, SessionStop, StopDecision, WindowStop
from backends.base import DataPlane, PhaseSetting
from scenarios.mix import CHANGES

TICK_SECONDS = 0.05
REPORT_SECONDS = 1.0


def run_phase(assignment: Assignment, channel: Channel) -> PhaseReport:
    """Carry out one phase's clients; returns when they are done or the run is being stopped."""
    run: PhaseRun = _MixedRun(assignment, channel) if assignment.mixes else _SweepRun(assignment, channel)
    # What exists by now stays: let no collection in the measured time walk over it.
    gc.collect()
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(run.run())
    finally:
        gc.unfreeze()


def findings(record: Recorder) -> list[tuple[int, int]]:
    """(object number, status) of the objects, among the rows not folded yet, that an audit found wanting."""
    return [
        (record.number[row], record.status[row])
        for row in range(record.folded, record.used)
        if record.operation[row] == Operation.AUDIT and record.status[row] != Status.OK
    ]


def _cpu_now() -> CpuSample:
    try:
        waited_ns = int(Path("/proc/self/schedstat").read_text().split()[1])
    except (OSError, IndexError):  # a kernel without scheduler statistics
        waited_ns = 0
    return CpuSample(time.monotonic_ns(), time.process_time(), waited_ns / 1e9)


class PhaseRun:
    """One phase in this worker: its clients, whatever they go by, and what they report."""

    def __init__(self, assignment: Assignment, channel: Channel) -> None:
        self._assignment = assignment
        self._channel = channel
        phase = assignment.phase
        self.stop_rule = phase.stop
        self.is_finishing = False
        sizes = tuple(sorted(self._sizes()))
        self.plane: DataPlane = backends.load(assignment.backend).in_worker(assignment.backend_setting)
        content = Content(assignment.run_id, assignment.content_seed, sizes[-1])
        self.plane.set_phase(
            PhaseSetting(
                content,
                assignment.dates,
                assignment.verify,
                sizes,
                clients=tuple(self._client_numbers()),
                reads=tuple(self._reads()),
                deletes=tuple(self._deletes()),
                operations=frozenset(OPERATION_OF[label] for workload in phase.workloads for label in workload.does),
                locks=frozenset(workload.lock for workload in phase.workloads),
                checksums=frozenset(workload.checksum for workload in phase.workloads),
                expected=assignment.expected,
                retentions=frozenset(workload.retain_for_seconds for workload in phase.workloads),
            )
        )
        self._clients: list[Client] = []
        self._audits = any("audit" in workload.does for workload in phase.workloads)
        self._op_log = OpLog(assignment.op_log, assignment.run_id) if assignment.op_log is not None else None
        self._tallies: dict[TallyKey, Tally] = {}
        self._changed: list[Change] = []
        self._findings: list[tuple[int, int]] = []
        self._lateness_ns: list[int] = []
        self._lateness = Histogram()
        self._cpu: list[CpuSample] = []
        self.start_ns = 0
        self.stop: StopDecision = EverythingStop(0)

    def _sizes(self) -> set[int]:
        """Of all objects that are archived or asked for."""
        raise NotImplementedError

    def _client_numbers(self) -> Iterable[int]:
        raise NotImplementedError

    def _reads(self) -> Iterable[NDArray[np.int64]]:
        """Numbers of the archived objects that may be asked for."""
        raise NotImplementedError

    def _deletes(self) -> Iterable[NDArray[np.int64]]:
        """Those among them whose deletion is tried."""
        raise NotImplementedError

    def _prepare(self) -> None:
        """What takes a while, before the clock starts."""

    def _begin(self) -> list[Coroutine[Any, Any, None]]:
        """Everything that is to go on at once from now on."""
        raise NotImplementedError

    def _finish(self) -> None:
        """Begin no further session."""
        self.is_finishing = True

    def _ended(self, report: PhaseReport) -> None:
        """Complete the report."""

    async def run(self) -> PhaseReport:
        self._prepare()
        self.start_ns = self._channel.wait_for_start()
        await asyncio.sleep(max(0.0, (self.start_ns - time.monotonic_ns()) / 1e9))
        self._cpu.append(_cpu_now())
        work = [] if self._channel.should_stop() else self._begin()
        tasks = [asyncio.create_task(each) for each in work]
        ticker = asyncio.create_task(self._tick(tasks))
        results = await asyncio.gather(*tasks, return_exceptions=True)
        ended_ns = time.monotonic_ns()
        ticker.cancel()
        await asyncio.gather(ticker, return_exceptions=True)
        await self.plane.end_phase()
        self.flush()
        self._cpu.append(_cpu_now())
        if self._op_log is not None:
            self._op_log.close()
        for result in results:
            if isinstance(result, Exception):
                raise result
        reasons = [client.gave_up for client in self._clients if client.gave_up]
        report = PhaseReport(
            self.stop.measured_from_ns,
            self.stop.measured_to_ns,
            ended_ns,
            self.stop.settled,
            self._cpu,
            self._lateness,
            reasons[0] if reasons else None,
        )
        self._ended(report)
        return report

    def fold(self, *clients: Client) -> None:
        """Count the new rows of clients of one workload."""
        for client in clients:
            if self._op_log is not None:
                self._op_log.write(client.number, client.record, client.folding.population, self._retention(client))
            if self._audits:
                self._findings += findings(client.record)
        records = [client.record for client in clients]
        self._changed += fold(records, clients[0].folding, self.stop.warm_up_ns, self._tallies)

    def _retention(self, client: Client) -> Retention | None:
        """What a client's objects are locked with; None where nothing gets a date."""
        workload = self._assignment.phase.workloads[client.folding.workload]
        dates = self._assignment.dates.get(workload.retain_for_seconds)
        if dates is None:
            return None
        return dates.retention.locked_by(workload.lock, workload.retain_for_seconds)

    def not_tried(self, numbers: Iterable[int]) -> None:
        """An audit names what it could not even ask for."""
        self._findings += [(number, Status.INCOMPLETE) for number in numbers]

    def flush(self) -> None:
        """Fold everything and report it."""
        for clients in self._by_workload():
            self.fold(*clients)
        self._report()

    def _report(self) -> None:
        """Send what was folded."""
        if self._lateness_ns:
            self._lateness.add(part_of(np.array(self._lateness_ns, dtype=np.int64)))
            self._lateness_ns.clear()
        errors = [
            replace(error, workload=client.folding.workload)
            for client in self._clients
            for error in client.record.errors.values()
        ]
        self._channel.report(IntervalReport(self._tallies, self._changed, errors, self._findings))
        self._tallies, self._changed, self._findings = {}, [], []
        for client in self._clients:
            client.record.errors = {}

    def _by_workload(self) -> list[list[Client]]:
        """Those whose rows are counted alike."""
        groups: dict[int, list[Client]] = {}
        for client in self._clients:
            groups.setdefault(client.folding.workload, []).append(client)
        return list(groups.values())

    async def _tick(self, tasks: list[asyncio.Task[None]]) -> None:
        """Watch how late timers fire and whether to stop, fold once an interval, and report once a second."""
        loop = asyncio.get_running_loop()
        report_at = loop.time() + REPORT_SECONDS
        while True:
            due = loop.time() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            now_ns = time.monotonic_ns()
            self._lateness_ns.append(int((loop.time() - due) * 1e9))
            if now_ns - self._cpu[-1].at_ns >= INTERVAL_NS:
                self._cpu.append(_cpu_now())
                for clients in self._by_workload():  # often, because as long as it takes nothing else goes on
                    self.fold(*clients)
                    await asyncio.sleep(0)  # what became due meanwhile does not wait for the others
            if self._channel.should_stop():
                for task in tasks:
                    task.cancel()
                return
            if self._channel.should_finish() and not self.is_finishing:
                self._finish()
            if loop.time() >= report_at:
                report_at += REPORT_SECONDS
                self._report()


class _SweepRun(PhaseRun):
    """A cell of a sweep: every client does one thing, by the phase's stop rule."""

    def _sizes(self) -> set[int]:
        return {workload.object_bytes for workload in self._assignment.phase.workloads}

    def _client_numbers(self) -> Iterable[int]:
        return (client.client for client in self._assignment.clients)

    def _reads(self) -> Iterable[NDArray[np.int64]]:
        return (client.numbers for client in self._assignment.clients if not isinstance(client.numbers, tuple))

    def _deletes(self) -> Iterable[NDArray[np.int64]]:
        deletes = self._assignment.phase.workloads[0].does & {"delete", "refused-delete"}
        return self._reads() if deletes else ()

    def _begin(self) -> list[Coroutine[Any, Any, None]]:
        phase = self._assignment.phase
        if phase.stop.everything:
            self.stop = EverythingStop(self.start_ns)
        elif phase.clients == 1:
            self.stop = SessionStop(phase, phase.workloads[0])
        else:
            self.stop = WindowStop(phase, self.start_ns)
        clients = [
            SweepClient(self, client, phase.workloads[client.workload], self.start_ns)
            for client in self._assignment.clients
        ]
        self._clients += clients
        return [client.run() for client in clients]


class _MixedRun(PhaseRun):
    """Workloads side by side, each by its own stage."""

    def __init__(self, assignment: Assignment, channel: Channel) -> None:
        super().__init__(assignment, channel)
        self._pacer: Pacer | None = None
        self._stages: dict[str, Stage] = {}
        self._dealers: list[tuple[Dealer, Population]] = []  # of each mix

    def _sizes(self) -> set[int]:
        assignment = self._assignment
        sizes = {int(size) for data in assignment.data.values() for size in np.unique(data.sizes)}
        for mix in assignment.mixes:
            sizes.update(np.unique(np.concatenate([mix.new.sizes, mix.beside.sizes])).tolist())
        return sizes or {1}

    def _client_numbers(self) -> Iterable[int]:
        return (client for mix in self._assignment.mixes for client in mix.clients)

    def _reads(self) -> Iterable[NDArray[np.int64]]:
        return (data.numbers for data in self._assignment.data.values())

    def _deletes(self) -> Iterable[NDArray[np.int64]]:
        for mix in self._assignment.mixes:
            workload = self._assignment.phase.workloads[mix.workload]
            assert workload.mix is not None
            data = self._assignment.data[workload.mix.data]
            if "refused-delete" in workload.does:
                yield data.numbers[data.locked | data.expired]
            elif "delete" in workload.does:
                yield data.numbers[data.expired]

    def _prepare(self) -> None:
        assignment, phase = self._assignment, self._assignment.phase
        changed = {
            workload.mix.data
            for workload in phase.workloads
            if workload.mix is not None and workload.does & (CHANGES | {"refused-delete"})
        }
        data_sets = {name: DataSet(members, is_changed=name in changed) for name, members in assignment.data.items()}
        for mine in assignment.mixes:
            workload = phase.workloads[mine.workload]
            assert workload.mix is not None
            data = data_sets[workload.mix.data]
            dealer = Dealer(
                workload,
                mine,
                data,
                has_markers=assignment.has_markers,
                grows=phase.reads(workload.mix.data),
                is_shared=not phase.changes(workload.mix.data),
            )
            self._dealers.append((dealer, _population(mine, assignment)))

    def _begin(self) -> list[Coroutine[Any, Any, None]]:
        phase = self._assignment.phase
        self.stop = EverythingStop(self.start_ns)
        self._pacer = pacer = Pacer(asyncio.get_running_loop())
        begins = phase.beginnings()
        for mine, (dealer, population) in zip(self._assignment.mixes, self._dealers, strict=True):
            workload = phase.workloads[mine.workload]
            assert workload.mix is not None
            stage = Stage(self, pacer, workload, begins[workload.name], mine, dealer)
            deadline = workload.mix.deadline_seconds
            folding = Folding(
                mine.workload,
                population,
                self.start_ns,
                deadline_ns=int(deadline * 1e9) if deadline is not None else None,
                is_open_loop=workload.mix.arrivals is not None,
            )
            stage.clients = [StageClient(self, stage, number, folding, workload) for number in mine.clients]
            self._clients += stage.clients
            self._stages[workload.name] = stage
        return [stage.run(self._stages) for stage in self._stages.values()]

    def _finish(self) -> None:
        super()._finish()
        for stage in self._stages.values():
            stage.finish()

    def _ended(self, report: PhaseReport) -> None:
        if self._pacer is not None:  # else the run was ended before it began
            self._pacer.close()
        report.stages = tuple(stage.report() for stage in self._stages.values())


def _population(mine: MixAssignment, assignment: Assignment) -> Population:
    """Every object that a workload may touch here, by number."""
    workload = assignment.phase.workloads[mine.workload]
    assert workload.mix is not None
    aside, name = workload.mix.aside, workload.mix.data
    data = assignment.data[name]
    mixes = [(other, assignment.phase.workloads[other.workload].mix) for other in assignment.mixes]
    new = [other.new for other, mix in mixes if mix is not None and mix.data == name]  # it may come to ask for them
    numbers = np.concatenate([data.numbers, *(each.numbers for each in new), mine.beside.numbers])
    sizes = np.concatenate([data.sizes, *(each.sizes for each in new), mine.beside.sizes])
    order = np.argsort(numbers)
    beside = mine.beside.numbers
    return Population(
        numbers[order],
        sizes[order],
        (int(beside.min()), int(beside.max()) + 1) if len(beside) else (0, 0),
        aside.name if aside is not None else "",
        in_parts=len(workload.does) > 1 or aside is not None,
    )
