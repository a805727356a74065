"""The one module that distinguishes the kinds of work.

One idea: this module has three functions for every kind. One assigns a phase to workers, one returns the class that
carries it out in a worker, and one adds the kind's own fields to a result. All other code asks the work itself
(``scenarios/work/base.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archiver.engine.numbers import LockedTimes, ObjectNumbers
from archiver.engine.work.mixed.phase_run import MixedRun
from archiver.engine.work.mixed.shares import mix_fields, share_mixes
from archiver.engine.work.sessions import SessionsRun, share_sessions, steadiness_of
from archiver.engine.worker.assignment import WorkerShare
from archiver.engine.worker.phase_run import PhaseRun
from archiver.measure.merging import Window
from archiver.measure.reports import InfrastructureReport, StageReport, Tally
from scenarios.model import Phase, Workload
from scenarios.work.infrastructure import Infrastructure
from scenarios.work.mix import Mix
from scenarios.work.replay import Replay
from scenarios.work.sessions import Sessions


@dataclass(frozen=True, slots=True)
class Sharing:
    """Inputs of the assignment of a phase, apart from its workloads and the object numbers."""

    workers: int
    times: Sequence[LockedTimes]  # by workload
    second_setting: Any = field(default=None, repr=False)  # of the backend of a second place; may contain secrets
    earliest: float | None = None  # epoch seconds; the earliest retain-until date that the phase may set


def share(phase: Phase, numbers: ObjectNumbers, sharing: Sharing) -> list[WorkerShare]:
    """Return every worker's part of a phase."""
    match phase.workloads[0].work:
        case Sessions():
            return share_sessions(phase, numbers, sharing.times, sharing.workers)
        case Mix():
            return share_mixes(phase, numbers, sharing.times[0], sharing.workers)
        case Replay() | Infrastructure():
            from archiver.engine.work.replay.shares import share_replays  # takes 0.1 s, and few runs need it

            return share_replays(phase, numbers, sharing.workers, sharing.second_setting, sharing.earliest)


def run_of(phase: Phase) -> type[PhaseRun]:
    """Return the class that carries out a worker's part of a phase."""
    match phase.workloads[0].work:
        case Sessions():
            return SessionsRun
        case Mix():
            return MixedRun
        case Replay() | Infrastructure():
            from archiver.engine.work.replay.phase_run import ReplayRun

            return ReplayRun


@dataclass(frozen=True, slots=True)
class Measured:
    """Reports of all workers on one workload."""

    tally: Tally  # of its measured time
    outside: Mapping[str, int]  # objects in warm-up and drain, and errors in either
    counts: Sequence[int]  # objects of each whole interval of its measured time
    window: Window  # its measured time
    start_ns: int  # CLOCK_MONOTONIC: start of its phase
    stages: Sequence[StageReport]
    infrastructures: Sequence[InfrastructureReport]

    @property
    def seconds(self) -> float:
        """Return the measured time in seconds."""
        return self.window.seconds


def own_fields(phase: Phase, workload: Workload, measured: Measured) -> dict[str, Any]:
    """Return the fields of a ``Result`` that only this kind of work has, or computes differently."""
    match workload.work:
        case Sessions():
            used_up = workload.clients > 1 and any(stage.ended_early for stage in measured.stages)
            return {**steadiness_of(measured.counts), "ended_early": used_up, "is_load": phase.is_load}
        case Mix() as mix:
            begins_seconds = (measured.window.from_ns - measured.start_ns) / 1e9
            fields = mix_fields(mix, measured.tally, measured.stages, measured.seconds, begins_seconds)
            return _of_application(phase, workload) | fields
        case Replay() as replay:
            from archiver.engine.work.replay.shares import replay_fields

            fields = replay_fields(replay, measured.tally, measured.stages, measured.seconds, measured.start_ns)
            return _of_application(phase, workload) | fields
        case Infrastructure() as what:
            from archiver.engine.work.replay.shares import infrastructure_fields

            return _of_application(phase, workload) | infrastructure_fields(
                what, measured.tally, measured.infrastructures
            )


def _of_application(phase: Phase, workload: Workload) -> dict[str, Any]:
    return {
        "application": workload.application,
        "copy": workload.copy,
        "scale": phase.scale,
        "is_load": phase.is_load,
    }
