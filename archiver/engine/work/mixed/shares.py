"""Concurrent workloads: assignment to workers, and results.

One idea: the clients of a workload are spread over the workers, and its objects in proportion to the clients. A data
set that is changed is partitioned over the workers, so that no two workers use the same object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from archiver.engine.numbers import LockedTimes, ObjectNumbers
from archiver.engine.worker.assignment import (
    MixAssignment,
    NewObjects,
    WorkerShare,
)
from archiver.measure.histogram import Histogram, merged
from archiver.measure.reports import PartTally, StageReport, Tally
from archiver.values.sizes import format_size
from results.recorded.model import Offered, PartResult
from scenarios.model import Phase, Workload
from scenarios.notation.distribution import Sizes
from scenarios.work.mix import Mix


def mix_of(workload: Workload) -> Mix:
    """Return the mix of a workload that has one."""
    assert isinstance(workload.work, Mix)
    return workload.work


def share_mixes(phase: Phase, numbers: ObjectNumbers, times: LockedTimes, workers_max: int) -> list[WorkerShare]:
    """Return every worker's part of a phase with a mix."""
    workers = min(workers_max, max(workload.clients for workload in phase.workloads))
    shares = [WorkerShare() for _ in range(workers)]
    offsets: dict[str, int] = {}  # workloads of one data set have their first client in the same worker
    clients = 0
    for index, workload in enumerate(phase.workloads):
        mix = mix_of(workload)
        members = numbers.members(mix.data, times)
        offset = offsets.setdefault(mix.data, clients % workers)
        counts = [len(range((worker - offset) % workers, workload.clients, workers)) for worker in range(workers)]
        own_count, aside_count = mix.written_max(workload.objects_per_session)
        if mix.fill is not None:
            own_count = max(0, mix.fill - len(members.numbers))
        new = _new(phase, numbers, workload, own_count, 2 * index)
        aside = _new(phase, numbers, workload, aside_count, 2 * index + 1)
        sharing = [worker for worker in range(workers) if counts[worker]]
        edges = np.cumsum([0, *(counts[worker] for worker in sharing)]) / workload.clients
        for part, worker in enumerate(sharing):
            share = shares[worker]
            assignment = MixAssignment(
                index,
                tuple(range(clients, clients + counts[worker])),
                _slice(new, edges[part], edges[part + 1]),
                _slice(aside, edges[part], edges[part + 1]),
                seed=numbers.seed_of(phase.position, index, worker),
                arrivals_seed=numbers.seed_of(phase.position, index),
                part=part,
                parts=len(sharing),
            )
            clients += counts[worker]
            share.mixes = (*share.mixes, assignment)
            if phase.changes(mix.data):
                share.data[mix.data] = members.part(slice(part, None, len(sharing)))
            else:
                share.data[mix.data] = members
    return shares


def _new(phase: Phase, numbers: ObjectNumbers, workload: Workload, count: int, index: int) -> NewObjects:
    mix = mix_of(workload)
    sizes = mix.sizes
    if index % 2:
        if mix.aside is None:
            count = 0
        else:
            sizes = mix.aside.sizes
    if not workload.work.archives:
        count = 0
    return NewObjects(*numbers.new_objects(sizes, count, phase.position, index))


def _slice(new: NewObjects, since: float, until: float) -> NewObjects:
    first, last = round(since * len(new.numbers)), round(until * len(new.numbers))
    return NewObjects(new.numbers[first:last], new.sizes[first:last])


def mix_fields(
    mix: Mix, tally: Tally, stages: Sequence[StageReport], seconds: float, begins_seconds: float
) -> dict[str, Any]:
    """Return the fields of a result that only mixes have, or compute differently."""
    start = tally.histograms["session_start"].latency() if "session_start" in tally.histograms else None
    offered = _offered(stages, seconds) if mix.arrivals is not None else None
    fields: dict[str, Any] = {
        "offered_per_second": offered.sessions_per_second if offered is not None else None,
        "achieved_per_second": tally.sessions / seconds if seconds else 0.0,
        "begins_seconds": begins_seconds,
        "sizes": describe_sizes(mix.sizes) if mix.archives else "",
        "keys": mix.keys,
        "parts": tuple(part_result(name, part, seconds) for name, part in sorted(tally.parts.items())),
        "offered": offered,
        "session_start_ms": start,
        "deadline_seconds": mix.deadline_seconds,
        "missed_deadlines": tally.missed_deadlines,
        "steps_left_out": sum(stage.steps_left_out for stage in stages),
        "ended_early": any(stage.ended_early for stage in stages),
    }
    if not mix.mean_bytes:
        fields["object_bytes"] = tally.mean_bytes
    return fields


def describe_sizes(sizes: Sizes) -> str:
    """Return a description, such as: 8KiB; or 10 sizes of 512 bytes to 512KiB, 15.7KiB on average."""
    if len(sizes.classes) == 1:
        return format_size(sizes.largest)
    smallest, largest = format_size(sizes.classes[0][0]), format_size(sizes.largest)
    return f"{len(sizes.classes)} sizes of {smallest} to {largest}, {sizes.mean / 1024:.4g}KiB on average"


def part_result(name: str, part: PartTally, seconds: float) -> PartResult:
    """Return the result of one kind of operation of a workload over its measured seconds."""

    def latency(quantity: str, histograms: Mapping[str, Histogram] = part.histograms) -> object:
        return histograms[quantity].latency() if quantity in histograms else None

    return PartResult(
        name,
        part.operation,
        part.objects,
        part.bytes,
        part.attempts,
        part.errors,
        part.missed_deadlines,
        part.objects / seconds if seconds else 0.0,
        part.bytes / seconds / 1e6 if seconds else 0.0,
        *(latency(quantity) for quantity in ("object_service", "object", "first_byte", "attempt", "reconnect")),  # type: ignore[arg-type]
    )


def _offered(stages: Sequence[StageReport], seconds: float) -> Offered:
    lateness = merged(stage.lateness for stage in stages)
    due = sum(stage.due for stage in stages)
    return Offered(
        sessions=due,
        sessions_per_second=due / seconds if seconds else 0.0,
        started=sum(stage.started for stage in stages),
        waited=sum(stage.waited for stage in stages),
        dropped=sum(stage.dropped for stage in stages),
        backlog_max=max((stage.backlog_max for stage in stages), default=0),
        lateness_ms=lateness.latency(),
    )
