"""What a worker is told, what it reports, and the three calls it reports through.

One idea: a worker is a plain function, run_phase(assignment, channel), of plain values; pipes carry the channel
between local processes, and anything else that can carry four calls will do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from archiver.engine.numbers import Members
from archiver.measure.reports import IntervalReport
from archiver.values.retention import DateMaker
from backends.base import ExpectedLock
from scenarios.model import Phase
from scenarios.work.infrastructure import Part


@dataclass(frozen=True, slots=True)
class ClientAssignment:
    """One client of a worker: which workload, and which object numbers it may use.

    ``numbers`` is (first, last + 1) for archiving; for all else the numbers themselves, in order.
    """

    client: int
    workload: int
    numbers: tuple[int, int] | NDArray[np.int64]


class NewObjects(NamedTuple):
    """Objects that may be archived, in this order."""

    numbers: NDArray[np.int64]
    sizes: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MixAssignment:
    """One worker's part of a workload that has a mix."""

    workload: int
    clients: tuple[int, ...]  # numbers of its clients here
    new: NewObjects
    beside: NewObjects  # those of its aside
    seed: int  # of everything that is drawn here
    arrivals_seed: int  # of the schedule, which all workers have in common
    part: int  # of the schedule that is this worker's
    parts: int


@dataclass(frozen=True, slots=True)
class ReplayAssignment:
    """One worker's part of a trace, of one set; or of what is to be prepared for it."""

    workload: int
    folder: str  # of the compiled trace
    client: int  # number of its first stream, or of the first client that prepares
    clients: int  # that prepare, here
    prepared: int  # number of the first object that lies there
    prepared_objects: int
    written: int  # number of the first object that it makes
    streams: NDArray[np.int64] | None = None  # those of this worker; None: all
    preparing: tuple[int, int] = (0, 0)  # which of the prepared objects this worker archives: first, last + 1


@dataclass(frozen=True, slots=True)
class Assignment:
    """One phase, as one worker carries it out."""

    run_id: str
    content_seed: int
    backend: str
    backend_setting: Any  # may hold secrets: travels, is never stored
    phase: Phase
    clients: tuple[ClientAssignment, ...]
    dates: Mapping[float | None, DateMaker]  # by a workload's own time of retention; None: the run's
    verify: str
    op_log: Path | None = None  # the file for this worker's operations in this phase
    expected: Sequence[ExpectedLock] = ()  # for an audit: what the objects were locked with
    mixes: tuple[MixAssignment, ...] = ()
    replays: tuple[ReplayAssignment, ...] = ()
    infrastructures: tuple[InfrastructureAssignment, ...] = ()
    data: Mapping[str, Members] = field(default_factory=dict)  # what they may ask for
    has_markers: bool = False  # the platform can hide behind a marker what it must keep


class Channel(Protocol):
    """A worker's four calls."""

    def wait_for_start(self) -> int:
        """Say that everything is prepared; returns the start instant, CLOCK_MONOTONIC nanoseconds."""

    def report(self, report: IntervalReport) -> None:
        """Send what happened since the last report."""

    def should_stop(self) -> bool:
        """True when the run is being ended early."""

    def should_finish(self) -> bool:
        """True when no further session is to begin in this phase; those under way finish."""


@dataclass(frozen=True, slots=True)
class InfrastructureAssignment:
    """One worker's part of a preparation, or all instances of one kind of operation, which one worker carries out."""

    workload: int
    client: int  # number of its first client here
    clients: int
    prepared: Mapping[Part, int]  # number of the first object of each part that was prepared, or is to be
    preparing: tuple[int, int] = (0, 0)  # of a preparation: which of its objects this worker archives: first, last + 1
    here: int = 0  # number of the first object that it makes in the run's own place, of ``numbers_here``
    there: int = 0  # and in the second place, of ``numbers_there``
    second_setting: Any = field(default=None, repr=False)  # of the backend of the second place; may hold secrets
    earliest: float | None = None  # epoch seconds before which no lock of a copy may end; None: it has no date


@dataclass(slots=True)
class WorkerShare:
    """What one worker is to do in a phase."""

    clients: tuple[ClientAssignment, ...] = ()
    mixes: tuple[MixAssignment, ...] = ()
    replays: tuple[ReplayAssignment, ...] = ()
    infrastructures: tuple[InfrastructureAssignment, ...] = ()
    data: dict[str, Members] = field(default_factory=dict)
