"""Concurrent traces: assignment to workers, and results.

One idea: if the trace changes an object, all streams that use it stay in one worker, which can keep their order. All
other streams are spread over the workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archiver.engine.numbers import ObjectNumbers
from archiver.engine.work.mixed.shares import part_result
from archiver.engine.work.replay.compile.compiled import CompiledTrace
from archiver.engine.work.replay.instances import infrastructure_result
from archiver.engine.worker.assignment import InfrastructureAssignment, ReplayAssignment, WorkerShare
from archiver.measure.reports import InfrastructureReport, StageReport, Tally
from results.recorded.model import Latency, Replayed
from scenarios.model import Phase, Workload
from scenarios.work.infrastructure import Infrastructure
from scenarios.work.replay import Replay


def share_replays(
    phase: Phase, numbers: ObjectNumbers, workers: int, second_setting: Any = None, earliest: float | None = None
) -> list[WorkerShare]:
    """Return every worker's part of a phase that replays traces, or prepares for it.

    ``second_setting``: setting of the backend of the second place, if there is one.
    ``earliest``: epoch seconds; the earliest retain-until date that the phase may set.
    """
    shares = [WorkerShare() for _ in range(workers)]
    loads = np.zeros(workers)
    clients = 0
    for index, workload in enumerate(phase.workloads):
        match workload.work:
            case Infrastructure() as what:
                assigned = _infrastructure(index, workload, what, clients, numbers, second_setting, earliest)
                clients += 2 * workload.clients  # clients in either place
                if assigned is not None:
                    least = shares[int(np.argmin(loads))]
                    least.infrastructures = (*least.infrastructures, assigned)
            case Replay() as replay:
                trace = CompiledTrace.open(Path(replay.folder))
                prepared_objects = sum(count for _, count in replay.known.prepared)
                name = workload.name if not replay.known.changes_prepared else f"{workload.name} {_of_trial(phase)}"
                prepared, is_new = numbers.block(name, prepared_objects)
                trace_part = ReplayAssignment(index, replay.folder, clients, 0, prepared, prepared_objects, 0)
                if replay.prepares:
                    clients += workload.clients
                    if is_new:
                        _assign_preparation(trace_part, workload.clients, shares)
                    continue
                clients += replay.known.streams
                trace_part = replace(
                    trace_part, written=numbers.fresh(sum(count for _, count in replay.known.written))[0]
                )
                for worker, streams in _spread(trace, loads):
                    shares[worker].replays = (*shares[worker].replays, replace(trace_part, streams=streams))
    return shares


def _infrastructure(
    index: int,
    workload: Workload,
    what: Infrastructure,
    client: int,
    numbers: ObjectNumbers,
    second_setting: Any,
    earliest: float | None,
) -> InfrastructureAssignment | None:
    """Return the assignment of all instances of one kind, or of a part of their set; None if that part exists."""
    parts = what.parts if not what.prepares else (what.prepares,)
    blocks = {part: numbers.block(f"{what.kind}: {part}", len(what.places(part))) for part in parts}
    prepared = {part: first for part, (first, _) in blocks.items()}
    assigned = InfrastructureAssignment(
        index, client, workload.clients, prepared, second_setting=second_setting, earliest=earliest
    )
    if what.prepares:
        _, is_new = blocks[what.prepares]
        return replace(assigned, preparing=(0, len(what.places(what.prepares)))) if is_new else None
    return replace(
        assigned, own_first=numbers.fresh(what.own_numbers)[0], second_first=numbers.fresh(what.second_numbers)[0]
    )


def _of_trial(phase: Phase) -> int:
    """Return a number that a preparation and its replay share."""
    return phase.position + 1 if phase.is_load else phase.position


def _assign_preparation(assigned: ReplayAssignment, clients: int, shares: Sequence[WorkerShare]) -> None:
    """Assign a part of the objects to archive to every worker that has a client for it."""
    clients_of = [len(range(worker, clients, len(shares))) for worker in range(len(shares))]
    edges = np.rint(np.cumsum([0, *clients_of]) / clients * assigned.prepared_objects).astype(int).tolist()
    client = assigned.client
    for worker, count in enumerate(clients_of):
        if count:
            part = replace(assigned, client=client, clients=count, preparing=(edges[worker], edges[worker + 1]))
            shares[worker].replays = (*shares[worker].replays, part)
        client += count


def _spread(trace: CompiledTrace, loads: NDArray[np.float64]) -> list[tuple[int, NDArray[np.int64] | None]]:
    """Return (worker, streams) of one trace: each group of streams, largest first, goes to the least loaded worker."""
    workers = len(loads)
    if workers == 1:
        return [(0, None)]
    of_stream = np.bincount(trace.stream, minlength=len(trace.groups))
    of_group = np.bincount(trace.groups, weights=of_stream)
    chosen = np.zeros(len(of_group), dtype=np.int64)
    for group in np.argsort(-of_group, kind="stable"):
        worker = int(np.argmin(loads))
        chosen[group] = worker
        loads[worker] += of_group[group]
    workers_of = chosen[trace.groups]
    return [(worker, np.flatnonzero(workers_of == worker)) for worker in np.unique(workers_of).tolist()]


def replay_fields(
    replay: Replay, tally: Tally, stages: Sequence[StageReport], seconds: float, start_ns: int
) -> dict[str, Any]:
    """Return the fields of a result that only replays have, or compute differently.

    ``start_ns`` is the start of the phase.
    """
    fields: dict[str, Any] = {
        "begins_seconds": replay.begins_seconds,
        "object_bytes": tally.mean_bytes,
        "parts": tuple(part_result(name, part, seconds) for name, part in sorted(tally.parts.items())),
        "steps_left_out": sum(stage.steps_left_out for stage in stages),
        "ended_early": any(stage.ended_early for stage in stages),
    }
    if not replay.prepares:
        ended_ns = max((stage.ended_ns for stage in stages), default=start_ns)
        took_seconds = (ended_ns - start_ns) / 1e9 - replay.begins_seconds
        lateness = tally.histograms["lateness"].latency() if "lateness" in tally.histograms else None
        fields["replayed"] = _replayed(replay, stages, took_seconds, lateness)
    return fields


def infrastructure_fields(
    what: Infrastructure, tally: Tally, reports: Sequence[InfrastructureReport]
) -> dict[str, Any]:
    """Return the fields of a result that only infrastructure operations have, or compute differently."""
    done = next(iter(reports), None)
    return {
        "begins_seconds": 0.0,
        "object_bytes": tally.mean_bytes,
        "infrastructure": infrastructure_result(what, done) if done is not None else None,
    }


def _replayed(replay: Replay, stages: Sequence[StageReport], seconds: float, lateness: Latency | None) -> Replayed:
    facts = replay.known
    dropped = sum(stage.dropped for stage in stages)
    lost = sum(stage.steps_left_out for stage in stages)
    left_out = [*facts.left_out]
    if dropped:
        left_out.append(("not begun long after the allowed time had ended", dropped))
    if lost:
        left_out.append(("their object could not be written before", lost))
    tolerance_ms = replay.tolerance_seconds * 1e3
    return Replayed(
        trace=facts.name,
        origin=facts.origin,
        sha256=facts.sha256,
        anonymised=facts.anonymised,
        speed=replay.speed,
        streams=facts.streams,
        operations=sum(count for _, count in facts.operations),
        begun=sum(stage.started for stage in stages),
        waited=sum(stage.waited for stage in stages),
        left_out=tuple(left_out),
        capacity_bytes=sum(size * count for size, count in facts.prepared),
        capacity_scale=replay.capacity_scale,
        trace_seconds=facts.seconds,
        replay_seconds=seconds,
        allowed_seconds=facts.allowed_seconds,
        lateness_ms=lateness,
        tolerance_ms=tolerance_ms,
        void=_void(lateness, tolerance_ms),
    )


def _void(lateness: Latency | None, tolerance_ms: float) -> str:
    """Return why a replay is void; empty if it is valid."""
    if lateness is None:
        return "no operation was begun"
    if lateness.p99 > tolerance_ms:
        return (
            f"the client began 1% of the operations more than {lateness.p99:.3g} ms late, but {tolerance_ms:g} ms are "
            "tolerated: it could not keep the trace's timing"
        )
    return ""
