"""Phases that replay traces, ``[[phase]]`` with ``[[phase.replay]]`` in a file, and their expansion into workloads.

One idea: objects that a trace reads must exist before it, so a replay is two phases: a preparation, and the measured
replay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import msgspec

from archiver.values.errors import ScenarioError
from archiver.values.retention import PHASE_SECONDS_MAX
from scenarios.model import Phase, Workload
from scenarios.notation.ranges import KeyRange
from scenarios.notation.units import Seconds, SizeBytes
from scenarios.work.application_model import ModelTable, application_model
from scenarios.work.infrastructure import Infrastructure, InfrastructureTable, infrastructure
from scenarios.work.replay import NOT_READ_YET_SECONDS, Replay

PREPARING_CLIENTS = 16  # over all traces
SPEED_MAX = 1000.0
CAPACITY_SCALE_MIN = 1e-9


class ReplayTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    trace: str | None = None
    model: ModelTable | None = None
    capacity: SizeBytes | None = None
    quick: dict[str, Any] = {}


class ReplayingTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Keys of phases that replay. The reader's phase table adds the other keys."""

    name: str
    replay: tuple[ReplayTable, ...] = ()
    infrastructure: tuple[InfrastructureTable, ...] = ()
    speed: Annotated[float, KeyRange(1 / SPEED_MAX, SPEED_MAX)] = 1.0
    # Between the starts of two successive sets.
    shift: Annotated[Seconds, KeyRange(0, PHASE_SECONDS_MAX)] = Seconds(1)
    tolerance: Annotated[Seconds, KeyRange(0, 60, is_above=True)] = Seconds(0.01)
    seconds: Seconds | None = None  # length of a model's trace
    capacity_scale: Annotated[float, KeyRange(CAPACITY_SCALE_MIN, 1)] = 1.0
    model_seed: int = 0


def check_replay(table: ReplayingTable, key: str) -> None:
    """Refuse a replay that cannot be carried out. Raises ScenarioError."""
    names = [each.name for each in table.replay]
    if len(set(names)) < len(names):
        raise ScenarioError(f"{key}: replay: a name is used twice; give each its own")
    for each in table.replay:
        own = f"{key}: replay {each.name!r}"
        if (each.trace is None) == (each.model is None):
            raise ScenarioError(f'{own}: write either trace = "FILE", or model = {{ ... }} that generates one')
        if each.model is not None:
            if table.seconds is None or not 1 <= table.seconds <= PHASE_SECONDS_MAX:
                raise ScenarioError(f"{own}: a model's trace needs the phase's seconds, at least 1s")
            if each.capacity is None:
                raise ScenarioError(f"{own}: a model needs a capacity: the bytes that exist before its trace")
            application_model(each.model, f"{own}: model")
    for kind in table.infrastructure:
        infrastructure(kind, f"{key}: infrastructure {kind.kind!r}", 1.0, 1.0)


def expand_replay(
    table: ReplayingTable, position: int, repetition: int, scale: float | None, scale_name: str, prefixes: list[str]
) -> list[Phase]:
    """Return the preparation and the replay. ``prefixes`` are the prefixes of each set's names."""
    sets = [(prefix, copy, each) for copy, prefix in enumerate(prefixes, start=1) for each in table.replay]
    traces = [_trace(table, *each, prepares=False) for each in sets]
    seconds = float(table.seconds or NOT_READ_YET_SECONDS)
    operations = [infrastructure(each, each.kind, table.capacity_scale, seconds) for each in table.infrastructure]
    preparing = [_trace(table, *each, prepares=True) for each in sets]
    preparing += [
        _infrastructure_workload(each.preparing(part), f"{each.kind}: {part}")
        for each in operations
        for part in each.parts
    ]
    clients = max(1, PREPARING_CLIENTS // len(preparing))
    preparing = [replace(each, clients=clients) for each in preparing]
    operations_on_sets = [_infrastructure_workload(each, each.kind) for each in operations]
    preparation = f"{table.name} preparation"
    return [
        Phase(
            preparation, position, repetition, tuple(preparing), scale=scale, scale_name=scale_name,
            is_load=True, keeps_cache=True,
        ),
        Phase(
            table.name, position + 1, repetition, (*traces, *operations_on_sets), scale=scale, scale_name=scale_name
        ),
    ]  # fmt: skip


def _trace(table: ReplayingTable, prefix: str, copy: int, each: ReplayTable, *, prepares: bool) -> Workload:
    replay = Replay(
        trace=each.trace,
        model=application_model(each.model, each.name) if each.model is not None else None,
        seconds=float(table.seconds) if table.seconds is not None and each.model is not None else None,
        seed=table.model_seed,
        speed=table.speed,
        begins_seconds=float(table.shift) * (copy - 1),
        tolerance_seconds=float(table.tolerance),
        capacity_bytes=int(each.capacity) if each.capacity is not None else None,
        capacity_scale=table.capacity_scale,
        prepares=prepares,
    )
    return Workload(f"{prefix}{each.name}", replay, 1, application=each.name, copy=copy if prefix else None)


def with_facts(phase: Phase, workloads: tuple[Workload, ...]) -> Phase:
    """Return the phase with the facts of its traces. Infrastructure operations take as long as the traces."""
    replays = [each.work for each in workloads if isinstance(each.work, Replay)]
    seconds = max(each.begins_seconds + each.known.seconds for each in replays)
    return replace(
        phase,
        workloads=tuple(
            replace(each, work=each.work.lasting(seconds)) if isinstance(each.work, Infrastructure) else each
            for each in workloads
        ),
    )


def _infrastructure_workload(what: Infrastructure, name: str) -> Workload:
    return Workload(name, what, what.clients, lock=what.lock, application=what.kind)
