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

    # Rows are counted only as often as they are reported. Nothing else runs meanwhile, and counting takes 1 to 2 ms for
    # a few rows as for thousands.
    _fold_every_ns = 1_000_000_000

    def __init__(self, assignment: Assignment, channel: Channel) -> None:
        self._traces = {mine.workload: CompiledTrace.open(Path(mine.folder)) for mine in assignment.replays}
        super().__init__(assignment, channel)
        self._pacer: Pacer | None = None
        self._parts: list[Player | Preparation | InfrastructureRun] = []
        self._beside: list[InfrastructureRun] = []

    def _prepare(self) -> None:
        for mine in self._assignment.infrastructures:
            if mine.preparing == (0, 0):
                self._beside.append(InfrastructureRun(self, self._assignment, mine))

    def _sizes(self) -> set[int]:
        sizes = {1}
        for beside in self._assignment.infrastructures:
            sizes.update(infrastructure_of(self._assignment, beside).object_sizes)
        for mine in self._assignment.replays:
            facts = replay_of(self._assignment.phase.workloads[mine.workload]).known
            sizes.update(size for each in (facts.prepared, facts.written, facts.replaced) for size, _ in each)
        return sizes

    def _client_numbers(self) -> Iterable[int]:
        for mine in self._assignment.replays:
            yield from range(mine.client, mine.client + (mine.clients or len(self._traces[mine.workload].groups)))
        for beside in self._assignment.infrastructures:
            yield from range(beside.client, beside.client + 2 * beside.clients)

    def _reads(self) -> Iterable[NDArray[np.int64]]:
        for mine in self._assignment.replays:
            if not mine.clients:
                yield np.arange(mine.prepared, mine.prepared + mine.prepared_objects)

    def _deletes(self) -> Iterable[NDArray[np.int64]]:
        """Return the prepared objects. The platform reports the version of an object that the trace makes when it is
        made.
        """
        for mine in self._assignment.replays:
            trace = self._traces[mine.workload]
            if not mine.clients:
                deleted = np.isin(trace.operation, (Operation.DELETE, Operation.REFUSED_DELETE))
                objects = np.unique(trace.object[deleted & (trace.object < mine.prepared_objects)])
                yield objects + mine.prepared

    def _begin(self) -> list[Coroutine[Any, Any, None]]:
        phase = self._assignment.phase
        self._pacer = Pacer(asyncio.get_running_loop())
        for mine in self._assignment.replays:
            workload, trace = phase.workloads[mine.workload], self._traces[mine.workload]
            population = TracePopulation(
                mine.prepared, mine.prepared_objects, mine.written, trace.sizes, in_parts=not mine.clients
            )
            folding = Folding(mine.workload, population, self.start_ns)
            self._parts.append(
                trace_preparation(self, mine, trace, folding)
                if mine.clients
                else Player(self, self._pacer, workload, mine, trace, folding)
            )
        for beside in self._assignment.infrastructures:
            if beside.preparing != (0, 0):
                self._parts.append(set_preparation(self, self._assignment, beside))
        self._parts += self._beside
        return [part.run() for part in self._parts]

    def _interval_passed(self) -> None:
        for part in self._parts:
            part.fold_lateness()

    def _finish(self) -> None:
        super()._finish()
        for part in self._parts:
            part.finish()

    def _ended(self, report: PhaseReport) -> None:
        if self._pacer is not None:
            self._pacer.close()
        report.stages = tuple(part.report() for part in self._parts)
        report.infrastructures = tuple(beside.outcome() for beside in self._beside)
        report.gave_up = report.gave_up or next((each.gave_up for each in report.infrastructures if each.gave_up), None)

    def _report(self) -> None:
        # Objects of a second place are not objects of this run's place; the report has only their counts.
        self._changed = [change for change in self._changed if not self._lies_there(change)]
        super()._report()

    def _lies_there(self, change: Change) -> bool:
        for mine in self._assignment.infrastructures:
            there = infrastructure_of(self._assignment, mine).numbers_there
            if change.workload == mine.workload and mine.there <= change.first < mine.there + there:
                return True
        return False
