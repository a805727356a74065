"""A scenario as plain values: sweeps as a file writes them, phases as the engine runs them.

One idea: a phase's limits in objects are known before it starts, so what a run may write, and lock, is known too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

from archiver.values.content import Checksum
from archiver.values.retention import Lock
from archiver.values.sizes import format_duration, format_size
from scenarios.criteria import Criterion
from scenarios.infrastructure import Infrastructure
from scenarios.mix import CHANGES, MAKES_OBJECTS, Mix, OperationName
from scenarios.replay import Replay

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
    operation: OperationName | Literal["audit", "mixed"]  # audit: no scenario has it; mixed: see ``mix``
    object_bytes: int  # the mean, rounded, where they differ
    objects_per_session: int  # of a mix: transactions
    clients: int
    lock: Lock | None = None  # how archived objects come by their lock; None: as the run says
    checksum: Checksum | None = None  # sent with archived objects; None: the run's
    retain_for_seconds: float | None = None  # a shorter lock than the run's, so that something expires meanwhile
    mix: Mix | None = None  # None: one operation on objects of one size, by the phase's stop rule
    application: str = ""  # the name without the copy
    copy: int | None = None  # which of several like it: the tile, the set
    replay: Replay | None = None  # a trace says what is done when
    infrastructure: Infrastructure | None = None  # it works on whole sets of objects

    @property
    def does(self) -> frozenset[str]:
        """The operations that it carries out on objects."""
        if self.replay is not None:
            return frozenset(("archive",)) if self.replay.prepares else self.replay.known.does
        if self.infrastructure is not None:
            return self.infrastructure.does
        return self.mix.operations if self.mix is not None else frozenset((self.operation,))

    @property
    def archives(self) -> bool:
        """It leaves objects behind."""
        if self.replay is not None:
            return bool(self.replay.archived)
        return bool(self.does & (MAKES_OBJECTS | {"new-version"}))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the objects that it archives, or of a sweep's that it asks for."""
        if self.replay is not None:
            return tuple(sorted({size for size, _ in self.replay.archived}))
        if self.infrastructure is not None:
            return self.infrastructure.object_sizes
        if self.mix is None:
            return (self.object_bytes,)
        asides = self.mix.aside.sizes.classes if self.mix.aside is not None else ()
        return tuple(sorted({size for size, _ in (*self.mix.sizes.classes, *asides)}))

    @property
    def locks(self) -> frozenset[Lock | None]:
        """How what it archives comes by its lock; None: as the run says."""
        if self.replay is not None and self.replay.known.deletes:
            return frozenset((None, Lock.NONE))
        if self.infrastructure is not None:
            return self.infrastructure.locks
        return frozenset((self.lock,))

    @property
    def data(self) -> str:
        """The data set that what it archives belongs to; sweeps have none."""
        if self.mix is not None:
            return self.mix.data
        return self.name if self.replay is not None and self.replay.prepares else ""

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
    # Of workloads that run together:
    scale: float | None = None  # what the scenario's scale is in this phase
    scale_name: str = ""  # tiles, users, cameras ...
    is_load: bool = False  # it only makes the data that later phases need, and proves nothing
    keeps_cache: bool = False  # the store's files stay in memory before it reads
    measures_ceiling: bool = False  # the same is done against a platform that does nothing

    @property
    def is_mixed(self) -> bool:
        """Workloads run together, each by its own times."""
        return self.workloads[0].mix is not None or self.replays

    @property
    def replays(self) -> bool:
        """Its workloads replay traces, or make what traces need."""
        return any(workload.replay is not None for workload in self.workloads)

    @property
    def label(self) -> str:
        """For people: ``archive 8KiB x 25, 1 client``; ``tiles, 2 tiles``."""
        if self.is_mixed:
            if self.scale is None:
                return self.name
            each = self.scale_name.removesuffix("s") if self.scale == 1 else self.scale_name
            return f"{self.name}, {self.scale:g} {each}"
        parts = [
            f"{w.operation} {format_size(w.object_bytes)} x {w.objects_per_session},"
            f" {w.clients} client{'s' if w.clients > 1 else ''}{', ' if w.variant else ''}{w.variant}"
            for w in self.workloads
        ]
        return " + ".join(parts) + (" (drift check)" if self.drift_check else "")

    @property
    def seconds_max(self) -> float:
        """How long it may take, its warm-up included; upper bound, as far as that is known."""
        return self.stop.warm_up_seconds + self.stop.seconds_max

    @property
    def clients(self) -> int:
        return sum(workload.clients for workload in self.workloads)

    @property
    def workers_max(self) -> int:
        """So many worker processes have something to do: a client, and a stream of a trace, is in one of them."""
        each = [
            workload.replay.known.streams
            if workload.replay is not None and not workload.replay.prepares
            else workload.clients
            for workload in self.workloads
        ]
        return max(each) if self.is_mixed and not self.replays else sum(each)

    def reads(self, data: str) -> bool:
        """Some workload asks for objects of this data set."""
        return any(w.mix is not None and w.mix.data == data and w.does - {"archive"} for w in self.workloads)

    def changes(self, data: str) -> bool:
        """Some workload deletes or replaces objects of this data set, or changes their locks."""
        return any(w.mix is not None and w.mix.data == data and w.does & CHANGES for w in self.workloads)

    def begins_seconds(self, workload: Workload) -> float | None:
        """When a workload of a mix begins, after the phase; None where that depends on when another one ends."""
        return self.beginnings()[workload.name]

    def beginnings(self) -> dict[str, float | None]:
        """``begins_seconds`` of every workload of a mix, by its name."""
        mixes = {workload.name: workload.mix for workload in self.workloads if workload.mix is not None}
        found: dict[str, float | None] = {}
        for name in mixes:
            chain = [name]  # back to one that is known, or waits for nobody
            while chain[-1] not in found and (before := mixes[chain[-1]].after) is not None:
                chain.append(before)
            for each in reversed(chain):
                found.setdefault(each, _after(mixes[each], found, mixes))
        return found

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
        """Upper bound of objects the workload's clients touch, warm-up included; of a mix, that it writes."""
        if workload.mix is not None:
            return sum(workload.mix.written_max(workload.objects_per_session))
        if workload.replay is not None:
            return sum(count for _, count in workload.replay.archived)
        if workload.infrastructure is not None:
            return workload.infrastructure.archived_max[0]
        return workload.clients * self.sessions_per_client_max(workload) * workload.objects_per_session

    def archived_max(self) -> tuple[int, int]:
        """Upper bound of (objects, bytes) that the phase archives."""
        objects = [self.written_max(workload) for workload in self.workloads]
        return sum(count for count, _ in objects), sum(size for _, size in objects)

    def written_max(self, workload: Workload) -> tuple[int, int]:
        """Upper bound of (objects, bytes) that one of its workloads archives."""
        if not workload.archives:
            return 0, 0
        objects = self.objects_max(workload)
        if workload.mix is not None:
            return objects, workload.mix.written_bytes_max(workload.objects_per_session)
        if workload.replay is not None:
            return objects, sum(size * count for size, count in workload.replay.archived)
        if workload.infrastructure is not None:
            return workload.infrastructure.archived_max
        return objects, objects * workload.object_bytes


def _after(mix: Mix, found: Mapping[str, float | None], mixes: Mapping[str, Mix]) -> float | None:
    """When a workload begins, where that of the one that it waits for is known."""
    if mix.after is None:
        return mix.begins_seconds
    begins, seconds = found[mix.after], mixes[mix.after].seconds
    if begins is None or seconds is None or not mixes[mix.after].is_timed:
        return None
    return begins + seconds + mix.begins_seconds


@dataclass(frozen=True, slots=True)
class SearchRange:
    """Between which scales the largest is searched that meets every criterion."""

    name: str  # of the scale
    first: int
    last: int
    repeat: int  # trials at the edge
    step: int  # all scales are multiples of it


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
    criteria: tuple[Criterion, ...] = ()
    search: SearchRange | None = None  # then ``phases`` are those of its first step
    weights: tuple[tuple[str, float], ...] = ()  # of applications in a score; none: all alike
    criteria_set: str = ""  # which of the file's sets of criteria was chosen

    def archived_max(self) -> tuple[int, int]:
        """Upper bound of (objects, bytes) that the whole run archives; of a search, its first step."""
        return archived_max(self.phases)


def archived_max(phases: Sequence[Phase], there: Mapping[str, int] | None = None) -> tuple[int, int]:
    """Upper bound of (objects, bytes) that these phases archive; ``there``: how many each data set has already.

    What a data set is filled up to is there for all later phases, unless one deletes of it.
    """
    objects = size_bytes = 0
    filled = dict(there or {})
    for phase in phases:
        for workload in phase.workloads:
            written, written_bytes = phase.written_max(workload)
            mix, replay = workload.mix, workload.replay
            if replay is not None and replay.prepares and not replay.known.changes_prepared:
                if workload.data in filled:  # from an earlier step of a search
                    written = written_bytes = 0
                filled[workload.data] = written
            elif mix is not None and mix.fill is not None:
                written = max(0, mix.fill - filled.get(mix.data, 0))
                written_bytes = mix.sizes.bytes_max(written)
                filled[mix.data] = max(mix.fill, filled.get(mix.data, 0))
            elif mix is not None and workload.does & {"delete", "delete-marker"}:
                filled.pop(mix.data, None)
            objects, size_bytes = objects + written, size_bytes + written_bytes
    return objects, size_bytes
