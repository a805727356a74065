"""The assignment and the report of a worker, and the four calls of its channel.

One idea: a worker is a plain function, run_phase(assignment, channel), of plain values. Pipes carry the channel between
local processes, and any transport that can carry four calls can replace them.
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
    """One client of a worker: its workload, and the object numbers that it may use.

    ``numbers`` is (first, last + 1) for archiving; for other operations it is the ordered numbers themselves.
    """

    client: int
    workload: int
    numbers: tuple[int, int] | NDArray[np.int64]

    @property
    def objects(self) -> int:
        return self.numbers[1] - self.numbers[0] if isinstance(self.numbers, tuple) else len(self.numbers)


class NewObjects(NamedTuple):
    """Objects that may be archived, in this order."""

    numbers: NDArray[np.int64]
    sizes: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MixAssignment:
    """One worker's part of a workload that has a mix."""

    workload: int
    clients: tuple[int, ...]  # numbers of its clients in this worker
    new: NewObjects  # of its own data set
    aside: NewObjects  # objects of the mix's ``aside``
    seed: int  # of all random draws in this worker
    arrivals_seed: int  # of the schedule, which all workers share
    part: int  # this worker's part of the schedule
    parts: int


@dataclass(frozen=True, slots=True)
class ReplayAssignment:
    """One worker's part of a trace of one set, or of the preparation for it."""

    workload: int
    folder: str  # of the compiled trace
    client: int  # number of its first stream, or of the first preparing client
    clients: int  # preparing clients in this worker
    prepared: int  # number of the first prepared object
    prepared_objects: int
    written: int  # number of the first object that the trace makes
    streams: NDArray[np.int64] | None = None  # streams of this worker; None: all
    preparing: tuple[int, int] = (0, 0)  # prepared objects that this worker archives: first, last + 1


@dataclass(frozen=True, slots=True)
class Assignment:
    """One phase of one worker."""

    run_id: str
    content_seed: int
    backend: str
    backend_setting: Any  # may contain secrets: sent, never stored
    phase: Phase
    clients: tuple[ClientAssignment, ...]
    dates: Mapping[float | None, DateMaker]  # by retention period of a workload; None: the run's
    verify: str
    op_log: Path | None = None  # file for this worker's operations in this phase
    expected: Sequence[ExpectedLock] = ()  # the locks that answers must show, as far as they are known
    mixes: tuple[MixAssignment, ...] = ()
    replays: tuple[ReplayAssignment, ...] = ()
    infrastructures: tuple[InfrastructureAssignment, ...] = ()
    data: Mapping[str, Members] = field(default_factory=dict)  # existing objects, by data set
    has_markers: bool = False  # the platform can hide retained objects behind a delete marker
    shares_core: bool = False  # there are more workers than cores
    polls_busily: bool = False  # the event loop polls busily instead of sleeping until an answer comes


class Channel(Protocol):
    """The four calls of a worker."""

    def wait_for_start(self) -> int:
        """Report that everything is prepared; return the start instant in CLOCK_MONOTONIC nanoseconds."""

    def report(self, report: IntervalReport) -> None:
        """Send what happened since the last report."""

    def should_stop(self) -> bool:
        """Return whether the run is being ended early."""

    def should_finish(self) -> bool:
        """Return whether no further session may begin in this phase; current sessions finish."""


@dataclass(frozen=True, slots=True)
class InfrastructureAssignment:
    """One worker's part of a preparation, or all instances of one kind of operation, which run in one worker."""

    workload: int
    client: int  # number of its first client in this worker
    clients: int
    prepared: Mapping[Part, int]  # number of the first object of each part, prepared or to be prepared
    preparing: tuple[int, int] = (0, 0)  # of a preparation: objects that this worker archives: first, last + 1
    own_first: int = 0  # first of its ``own_numbers`` new objects in the run's own place
    second_first: int = 0  # first of its ``second_numbers`` new objects in the second place
    second_setting: Any = field(default=None, repr=False)  # of the backend of the second place; may contain secrets
    earliest: float | None = None  # epoch seconds; earliest retain-until date of a copy; None: no date


@dataclass(slots=True)
class WorkerShare:
    """The work of one worker in a phase."""

    clients: tuple[ClientAssignment, ...] = ()
    mixes: tuple[MixAssignment, ...] = ()
    replays: tuple[ReplayAssignment, ...] = ()
    infrastructures: tuple[InfrastructureAssignment, ...] = ()
    data: dict[str, Members] = field(default_factory=dict)
