"""Probe objects: archived before the clients of a phase start, so that their locks can be read back first.

One idea: if a platform locks longer or stronger than agreed, or not at all, the first object shows it. For each way in
which a phase locks, the prober archives one small object per endpoint. Clients start only if these locks are as agreed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from archiver.engine.numbers import ObjectNumbers
from archiver.engine.worker.assignment import Assignment, ClientAssignment
from archiver.engine.workers.in_process import InProcessChannel, carry_out
from archiver.measure.reports import Change
from archiver.values.record import ErrorKind
from archiver.values.retention import DateMaker, Lock, Retention, RetentionMode
from results.recorded.database import ArchivedRange
from scenarios.model import Phase, Scenario, Workload
from scenarios.work.mix import OperationName
from scenarios.work.sessions import AllObjects, Sessions

TRIES_MAX = 3  # for a probe that the platform does not archive; one refusal may be chance


@dataclass(frozen=True, slots=True)
class Probe:
    """One way of archiving of a phase, to be tried at every endpoint."""

    workload: int  # index of the first workload that archives in this way
    lock: Lock | None
    retain_for_seconds: float | None
    object_bytes: int  # the smallest size that is archived in this way


@dataclass(slots=True)
class Tried:
    """Result of one probe. Its objects have the numbers ``first`` to ``last``."""

    probe: Probe
    tries: int = 0  # archive requests, over all endpoints
    archived: list[ArchivedRange] = field(default_factory=list)  # of the try that every endpoint acknowledged
    unlisted: int = 0  # objects of other tries that the platform has, or may have
    errors: list[ErrorKind] = field(default_factory=list)  # of all tries
    changes: list[Change] = field(default_factory=list)  # of the archived objects, made after they were archived


def probes_of(phase: Phase) -> list[Probe]:
    """Return the distinct ways in which the workloads of a phase archive, locked or unlocked."""
    found: dict[tuple[Lock | None, float | None], Probe] = {}
    for index, workload in enumerate(phase.workloads):
        if not workload.work.archives or not workload.work.object_sizes:
            continue
        way = (workload.lock, workload.retain_for_seconds)
        known = found.get(way)
        size = (
            min(workload.work.object_sizes[0], known.object_bytes)
            if known is not None
            else workload.work.object_sizes[0]
        )
        found[way] = Probe(known.workload if known is not None else index, *way, size)
    return list(found.values())


def event_hold_operations(scenario: Scenario, agreed: Retention) -> list[OperationName]:
    """Return which operations on event holds are tried on probe objects, in this order.

    ``agreed`` is the run's retention. The rest of a resumed run may only release what its earlier phases placed; then
    nothing is tried.
    """
    operations: tuple[OperationName, ...] = ("event-hold", "event-release")
    found = [each for each in operations if scenario.does(each)]
    return [] if agreed.event_hold_by_operation and "event-hold" not in found else found


def event_hold_probe(phase: Phase, agreed: Retention) -> Probe | None:
    """Return the probe of a phase on whose objects these operations can be tried; None if there is none."""
    for probe in probes_of(phase):
        retention = agreed.locked_by(probe.lock, probe.retain_for_seconds)
        if agreed.event_hold_by_operation:
            is_fit = probe.retain_for_seconds is None and retention.mode is not RetentionMode.NONE
        else:
            is_fit = retention.event_hold_days is not None
        if is_fit:
            return probe
    return None


def probed_max(phases: Sequence[Phase], endpoints: int) -> tuple[int, int]:
    """Upper bound of (objects, bytes) that the probes of these phases archive, repeated tries included."""
    sizes = [probe.object_bytes for phase in phases for probe in probes_of(phase)]
    each = endpoints * TRIES_MAX
    return len(sizes) * each, sum(sizes) * each


@dataclass(frozen=True, slots=True)
class Prober:
    """The probes of one run, archived in this process with the backend code that its workers use."""

    run_id: str
    content_seed: int
    backend: str
    endpoints: int

    def archive(
        self,
        phase: Phase,
        probe: Probe,
        numbers: ObjectNumbers,
        dates: Mapping[float | None, DateMaker],
        backend_setting: Any,
    ) -> Tried:
        """Archive one object per endpoint, all at once, and try again with other numbers if one was refused.

        ``backend_setting`` is the setting of the workers of this phase, with its credentials.
        """
        alone = self._phase(phase, probe, "archive")
        tried = Tried(probe)
        # The prober takes these numbers even if it does not use them, because the ledger's number range of a phase must
        # not contain numbers of another phase.
        numbered = numbers.fresh(TRIES_MAX * self.endpoints)
        for first in range(*numbered, self.endpoints):
            end = first + self.endpoints
            clients = tuple(
                ClientAssignment(client, 0, (number, number + 1)) for client, number in enumerate(range(first, end))
            )
            counted, _ = carry_out(
                Assignment(self.run_id, self.content_seed, self.backend, backend_setting, alone, clients, dates, "none")
            )
            tried.tries += self.endpoints
            tried.errors += [replace(error, workload=probe.workload) for error in counted.errors]
            if counted.objects == self.endpoints:
                tried.archived = [ArchivedRange(probe.object_bytes, first, end - 1, "", probe.workload)]
                break
            tried.unlisted += counted.objects + sum(error.outcomes_unknown for error in counted.errors)
        return tried

    def change(self, phase: Phase, tried: Tried, operation: OperationName, backend_setting: Any) -> InProcessChannel:
        """Carry out an operation on every archived object of a probe; return the counts and the errors."""
        alone = self._phase(phase, tried.probe, operation)
        (archived,) = tried.archived
        clients = tuple(
            ClientAssignment(client, 0, np.array([number], dtype=np.int64))
            for client, number in enumerate(range(archived.first, archived.last + 1))
        )
        counted, _ = carry_out(
            Assignment(self.run_id, self.content_seed, self.backend, backend_setting, alone, clients, {}, "none")
        )
        if counted.objects == self.endpoints:
            tried.changes.append(
                Change(tried.probe.workload, operation, archived.object_bytes, archived.first, archived.last)
            )
        return counted

    def _phase(self, phase: Phase, probe: Probe, operation: OperationName) -> Phase:
        """Return a phase with one client per endpoint, each of which handles one object."""
        like = phase.workloads[probe.workload]
        workload = Workload(
            like.name, Sessions(operation, probe.object_bytes, AllObjects()), self.endpoints, 1, probe.lock,
            like.checksum, probe.retain_for_seconds,
        )  # fmt: skip
        return Phase(phase.name, phase.position, phase.repetition, (workload,))
