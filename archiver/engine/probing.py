"""Probe objects: archived before the clients of a phase start, so that their locks can be read back first.

One idea: if a platform locks longer or stronger than agreed, or not at all, the first object shows it. The prober tries
every way in which a phase locks with one small object per endpoint. Clients start only if these locks are as agreed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from archiver.engine.numbers import ObjectNumbers
from archiver.engine.worker.assignment import Assignment, ClientAssignment
from archiver.engine.workers.in_process import carry_out
from archiver.values.record import ErrorKind
from archiver.values.retention import DateMaker, Lock
from results.database import ArchivedRange
from scenarios.model import Phase, Workload
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


def probes_of(phase: Phase) -> list[Probe]:
    """Return the distinct ways in which the workloads of a phase archive, locked or unlocked."""
    found: dict[tuple[Lock | None, float | None], Probe] = {}
    for index, workload in enumerate(phase.workloads):
        if not workload.archives or not workload.sizes:
            continue
        way = (workload.lock, workload.retain_for_seconds)
        known = found.get(way)
        size = min(workload.sizes[0], known.object_bytes) if known is not None else workload.sizes[0]
        found[way] = Probe(known.workload if known is not None else index, *way, size)
    return list(found.values())


def probed_max(phases: Sequence[Phase], endpoints: int) -> tuple[int, int]:
    """Upper bound of (objects, bytes) that the probes of these phases archive, repeated tries included."""
    sizes = [probe.object_bytes for phase in phases for probe in probes_of(phase)]
    each = endpoints * TRIES_MAX
    return len(sizes) * each, sum(sizes) * each


@dataclass(frozen=True, slots=True)
class Prober:
    """Archives the probes of one run, in this process, with the backend code that its workers use."""

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
        like = phase.workloads[probe.workload]
        workload = Workload(
            like.name, Sessions("archive", probe.object_bytes, AllObjects()), self.endpoints, 1, probe.lock,
            like.checksum, probe.retain_for_seconds,
        )  # fmt: skip
        alone = Phase(phase.name, phase.position, phase.repetition, (workload,))
        tried = Tried(probe)
        # The prober takes these numbers even if it does not use them: the ledger's number range of a phase belongs to
        # that phase alone.
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
