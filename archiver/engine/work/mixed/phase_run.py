"""Concurrent workloads in one worker, each with its own stage."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archiver.engine.work.mixed.batches import BatchSource
from archiver.engine.work.mixed.data_set import DataSet
from archiver.engine.work.mixed.pacer import Pacer
from archiver.engine.work.mixed.shares import mix_of
from archiver.engine.work.mixed.stage import Stage, StageClient
from archiver.engine.worker.assignment import Assignment, Channel, MixAssignment
from archiver.engine.worker.client import rows_each
from archiver.engine.worker.phase_run import PhaseRun
from archiver.measure.folding import Folding, Population
from archiver.measure.reports import PhaseReport
from scenarios.work.mix import CHANGES


class MixedRun(PhaseRun):
    """Concurrent workloads, each with its own stage."""

    def __init__(self, assignment: Assignment, channel: Channel) -> None:
        super().__init__(assignment, channel)
        self._pacer: Pacer | None = None
        self._stages: dict[str, Stage] = {}
        self._sources: list[tuple[BatchSource, Population]] = []  # by mix

    def _sizes(self) -> set[int]:
        assignment = self._assignment
        sizes = {int(size) for data in assignment.data.values() for size in np.unique(data.sizes)}
        for mix in assignment.mixes:
            sizes.update(np.unique(np.concatenate([mix.new.sizes, mix.aside.sizes])).tolist())
        return sizes or {1}

    def _client_numbers(self) -> Iterable[int]:
        return (client for mix in self._assignment.mixes for client in mix.clients)

    def _reads(self) -> Iterable[NDArray[np.int64]]:
        return (data.numbers for data in self._assignment.data.values())

    def _deletes(self) -> Iterable[NDArray[np.int64]]:
        for mix in self._assignment.mixes:
            workload = self._assignment.phase.workloads[mix.workload]
            data = self._assignment.data[workload.data]
            if "refused-delete" in workload.work.does:
                yield data.numbers[data.locked | data.expired]
            elif "delete" in workload.work.does:
                yield data.numbers[data.expired]

    def _prepare(self) -> None:
        assignment, phase = self._assignment, self._assignment.phase
        changed = {each.data for each in phase.workloads if each.work.does & (CHANGES | {"refused-delete"})}
        data_sets = {name: DataSet(members, is_changed=name in changed) for name, members in assignment.data.items()}
        for assigned in assignment.mixes:
            workload = phase.workloads[assigned.workload]
            data = data_sets[workload.data]
            batch_source = BatchSource(
                workload,
                assigned,
                data,
                has_markers=assignment.has_markers,
                grows=phase.reads(workload.data),
                is_shared=not phase.changes(workload.data),
            )
            self._sources.append((batch_source, _population(assigned, assignment)))

    def _begin(self) -> list[Coroutine[Any, Any, None]]:
        phase = self._assignment.phase
        self._pacer = pacer = Pacer(asyncio.get_running_loop())
        begins = phase.beginnings()
        rows = rows_each(sum(len(assigned.clients) for assigned in self._assignment.mixes))
        for assigned, (batch_source, population) in zip(self._assignment.mixes, self._sources, strict=True):
            workload = phase.workloads[assigned.workload]
            mix = mix_of(workload)
            stage = Stage(self, pacer, workload, begins[workload.name], assigned, batch_source)
            deadline = mix.deadline_seconds
            folding = Folding(
                assigned.workload,
                population,
                self.start_ns,
                deadline_ns=int(deadline * 1e9) if deadline is not None else None,
                is_open_loop=mix.arrivals is not None,
            )
            stage.clients = [StageClient(self, stage, number, folding, workload, rows) for number in assigned.clients]
            self._clients += stage.clients
            self._stages[workload.name] = stage
        return [stage.run(self._stages) for stage in self._stages.values()]

    def finish(self) -> None:
        super().finish()
        for stage in self._stages.values():
            stage.finish()

    def _ended(self, report: PhaseReport) -> None:
        if self._pacer is not None:  # None: the run ended before it began
            self._pacer.close()
        report.stages = tuple(stage.report() for stage in self._stages.values())


def _population(assigned: MixAssignment, assignment: Assignment) -> Population:
    """Return the numbers of all objects that a workload may use in this worker."""
    workload = assignment.phase.workloads[assigned.workload]
    aside, name = mix_of(workload).aside, workload.data
    data = assignment.data[name]
    new = [other.new for other in assignment.mixes if assignment.phase.workloads[other.workload].data == name]
    numbers = np.concatenate([data.numbers, *(each.numbers for each in new), assigned.aside.numbers])
    sizes = np.concatenate([data.sizes, *(each.sizes for each in new), assigned.aside.sizes])
    order = np.argsort(numbers)
    aside_numbers = assigned.aside.numbers
    return Population(
        numbers[order],
        sizes[order],
        (int(aside_numbers.min()), int(aside_numbers.max()) + 1) if len(aside_numbers) else (0, 0),
        aside.name if aside is not None else "",
        in_parts=len(workload.work.does) > 1 or aside is not None,
    )
