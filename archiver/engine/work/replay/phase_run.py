"""Concurrent traces in one worker, with infrastructure operations; or the preparation of what all of these need."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archiver.engine.work.mixed.pacer import Pacer
from archiver.engine.work.replay.compile.compiled import CompiledTrace
from archiver.engine.work.replay.infrastructure import InfrastructureRun, set_preparation
from archiver.engine.work.replay.instances import infrastructure_of
from archiver.engine.work.replay.player import Player, replay_of
from archiver.engine.work.replay.preparing import Preparation, trace_preparation
from archiver.engine.worker.assignment import Assignment, Channel
from archiver.engine.worker.phase_run import PhaseRun
from archiver.measure.folding import Folding, TracePopulation
from archiver.measure.reports import Change, PhaseReport
from archiver.values.record import Operation


class ReplayRun(PhaseRun):
    """Concurrent traces, or the preparation of what they need."""

    # Rows are counted only as often as they are reported. The event loop runs nothing else meanwhile, and counting a
    # few rows takes as long as thousands: 1 to 2 ms.
    _fold_every_ns = 1_000_000_000

    def __init__(self, assignment: Assignment, channel: Channel) -> None:
        self._traces = {replay.workload: CompiledTrace.open(Path(replay.folder)) for replay in assignment.replays}
        super().__init__(assignment, channel)
        self._pacer: Pacer | None = None
        self._parts: list[Player | Preparation | InfrastructureRun] = []
        self._infrastructures: list[InfrastructureRun] = []

    def _prepare(self) -> None:
        for operations in self._assignment.infrastructures:
            if operations.preparing == (0, 0):
                self._infrastructures.append(InfrastructureRun(self, self._assignment, operations))

    def _sizes(self) -> set[int]:
        sizes = {1}
        for operations in self._assignment.infrastructures:
            sizes.update(infrastructure_of(self._assignment, operations).object_sizes)
        for replay in self._assignment.replays:
            facts = replay_of(self._assignment.phase.workloads[replay.workload]).known
            sizes.update(size for each in (facts.prepared, facts.written, facts.replaced) for size, _ in each)
        return sizes

    def _client_numbers(self) -> Iterable[int]:
        for replay in self._assignment.replays:
            yield from range(
                replay.client, replay.client + (replay.clients or len(self._traces[replay.workload].groups))
            )
        for operations in self._assignment.infrastructures:
            yield from range(operations.client, operations.client + 2 * operations.clients)

    def _reads(self) -> Iterable[NDArray[np.int64]]:
        for replay in self._assignment.replays:
            if not replay.clients:
                yield np.arange(replay.prepared, replay.prepared + replay.prepared_objects)

    def _deletes(self) -> Iterable[NDArray[np.int64]]:
        """Yield the prepared objects that the trace deletes.

        The platform reports the versions of other objects when the trace writes them.
        """
        for replay in self._assignment.replays:
            trace = self._traces[replay.workload]
            if not replay.clients:
                deleted = np.isin(trace.operation, (Operation.DELETE, Operation.REFUSED_DELETE))
                objects = np.unique(trace.object[deleted & (trace.object < replay.prepared_objects)])
                yield objects + replay.prepared

    def _begin(self) -> list[Coroutine[Any, Any, None]]:
        phase = self._assignment.phase
        self._pacer = Pacer(asyncio.get_running_loop())
        for replay in self._assignment.replays:
            workload, trace = phase.workloads[replay.workload], self._traces[replay.workload]
            population = TracePopulation(
                replay.prepared, replay.prepared_objects, replay.written, trace.sizes, in_parts=not replay.clients
            )
            folding = Folding(replay.workload, population, self.start_ns)
            self._parts.append(
                trace_preparation(self, replay, trace, folding)
                if replay.clients
                else Player(self, self._pacer, workload, replay, trace, folding)
            )
        for operations in self._assignment.infrastructures:
            if operations.preparing != (0, 0):
                self._parts.append(set_preparation(self, self._assignment, operations))
        self._parts += self._infrastructures
        return [part.run() for part in self._parts]

    def _interval_passed(self) -> None:
        for part in self._parts:
            part.fold_lateness()

    def finish(self) -> None:
        super().finish()
        for part in self._parts:
            part.finish()

    def _ended(self, report: PhaseReport) -> None:
        if self._pacer is not None:
            self._pacer.close()
        report.stages = tuple(part.report() for part in self._parts)
        report.infrastructures = tuple(each.outcome() for each in self._infrastructures)
        report.gave_up = report.gave_up or next((each.gave_up for each in report.infrastructures if each.gave_up), None)

    def _report(self) -> None:
        # Objects of a second place are not objects of this run's place; the report has only their counts.
        self._changed = [change for change in self._changed if not self._lies_in_second_place(change)]
        super()._report()

    def _lies_in_second_place(self, change: Change) -> bool:
        for operations in self._assignment.infrastructures:
            numbers = infrastructure_of(self._assignment, operations).second_numbers
            if (
                change.workload == operations.workload
                and operations.second_first <= change.first < operations.second_first + numbers
            ):
                return True
        return False
