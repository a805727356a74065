"""A scenario as plain values: sweeps as a file writes them, phases as the engine runs them.

One idea: a phase's limits in objects are known before it starts, so what a run may write, and lock, is known too.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

from archiver.content import Checksum
from archiver.retention import Lock
from archiver.sizes import format_duration, format_size

OperationName = Literal["archive", "retrieve", "query", "extend", "hold", "release", "refused-delete", "delete"]
Order = Literal["shuffled", "paper"]

OBJECTS_PER_SESSION_MAX = 500


@dataclass(frozen=True, slots=True)
class StopRule:
    """When the measured part of a phase ends.

    One client: whole sessions, after ``warm_up_sessions``; at least ``sessions_min`` of them (``large_sessions_min``
    where a session holds more than ``large_session_bytes``) and ``seconds_min``, then until the mean session time is
    known within ``precision`` (95%), but no longer than ``seconds_max`` and no more than ``bytes_max``.

    Several clients: what completes between ``warm_up_seconds`` and ``seconds_min`` after it, or until the first client
    has used up its share of ``bytes_max`` (``client_bytes_max`` each).
    """

    warm_up_sessions: int
    warm_up_seconds: float
    sessions_min: int
    large_sessions_min: int
    large_session_bytes: int
    seconds_min: float
    seconds_max: float
    bytes_max: int
    client_bytes_max: int
    precision: float
    everything: bool = False  # all objects handed out, however long it takes: no limit above applies


@dataclass(frozen=True, slots=True)
class Workload:
    """What one group of clients does."""

    name: str
    operation: OperationName | Literal["audit"]  # audit: no scenario has it
    object_bytes: int
    objects_per_session: int
    clients: int
    lock: Lock | None = None  # how archived objects come by their lock; None: as the run says
    checksum: Checksum | None = None  # sent with archived objects; None: the run's
    retain_for_seconds: float | None = None  # a shorter lock than the run's, so that something expires meanwhile

    @property
    def variant(self) -> str:
        """What sets this workload apart from one of the same sizes: lock, checksum, retention; empty for nothing."""
        words = [f"lock {self.lock}" if self.lock else "", self.checksum or ""]
        words.append(f"for {format_duration(self.retain_for_seconds)}" if self.retain_for_seconds is not None else "")
        return ", ".join(word for word in words if word)

    @property
    def session_bytes(self) -> int:
        return self.object_bytes * self.objects_per_session


@dataclass(frozen=True, slots=True)
class Phase:
    """Workloads that run together. ``position`` counts from 1 over the run."""

    name: str  # the sweep's
    position: int
    repetition: int
    workloads: tuple[Workload, ...]
    stop: StopRule
    drift_check: bool = False  # the sweep's first cell again, last

    @property
    def label(self) -> str:
        """For people: ``archive 8KiB x 25, 1 client``."""
        parts = [
            f"{w.operation} {format_size(w.object_bytes)} x {w.objects_per_session},"
            f" {w.clients} client{'s' if w.clients > 1 else ''}{', ' if w.variant else ''}{w.variant}"
            for w in self.workloads
        ]
        return " + ".join(parts) + (" (drift check)" if self.drift_check else "")

    @property
    def clients(self) -> int:
        return sum(workload.clients for workload in self.workloads)

    def sessions_per_client_min(self, workload: Workload) -> int:
        """Measured sessions that each client may always finish."""
        if self.clients > 1:
            return 1
        large = workload.session_bytes > self.stop.large_session_bytes
        return self.stop.large_sessions_min if large else self.stop.sessions_min

    def sessions_per_client_max(self, workload: Workload) -> int:
        """No client starts more sessions than this, warm-up included: it bounds the phase before it starts."""
        if self.clients > 1:
            return max(1, ceil(self.stop.client_bytes_max / workload.session_bytes))
        measured = max(self.sessions_per_client_min(workload), ceil(self.stop.bytes_max / workload.session_bytes))
        return self.stop.warm_up_sessions + measured

    def objects_max(self, workload: Workload) -> int:
        """Upper bound of objects the workload's clients touch, warm-up included."""
        return workload.clients * self.sessions_per_client_max(workload) * workload.objects_per_session

    def archived_max(self) -> tuple[int, int]:
        """Upper bound of (objects, bytes) that the phase archives."""
        objects = [(self.objects_max(w), w.object_bytes) for w in self.workloads if w.operation == "archive"]
        return sum(count for count, _ in objects), sum(count * size for count, size in objects)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario, expanded. ``text`` is the file it came from, with overrides applied, for the record."""

    name: str
    title: str
    phases: tuple[Phase, ...]
    order: Order
    order_seed: int
    repetitions: int
    text: str

    def archived_max(self) -> tuple[int, int]:
        """Upper bound of (objects, bytes) that the whole run archives."""
        bounds = [phase.archived_max() for phase in self.phases]
        return sum(objects for objects, _ in bounds), sum(size for _, size in bounds)
