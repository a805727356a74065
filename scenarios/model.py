"""A scenario as plain values: phases of workloads, criteria, and a search.

One idea: a phase's limits in objects are known before it starts, so what a run may write, and lock, is known too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from archiver.values.content import Checksum
from archiver.values.retention import Lock, Retention
from archiver.values.sizes import format_duration
from scenarios.criteria import Criterion
from scenarios.work.base import Archived, Trait
from scenarios.work.infrastructure import Infrastructure
from scenarios.work.mix import CHANGES, Mix
from scenarios.work.replay import Replay
from scenarios.work.sessions import Sessions

Order = Literal["shuffled", "paper"]
Work = Sessions | Mix | Replay | Infrastructure

OBJECTS_PER_SESSION_MAX = 500


@dataclass(frozen=True, slots=True)
class Workload:
    """What one group of clients does."""

    name: str
    work: Work
    clients: int
    objects_per_session: int = 1  # of a mix: transactions
    lock: Lock | None = None  # how archived objects come by their lock; None: as the run says
    checksum: Checksum | None = None  # sent with archived objects; None: the run's
    retain_for_seconds: float | None = None  # a shorter lock than the run's, so that something expires meanwhile
    application: str = ""  # the name without the copy
    copy: int | None = None  # which of several like it: the tile, the set

    @property
    def operation(self) -> str:
        """Its one operation; mixed: several."""
        return self.work.operation_label

    @property
    def object_bytes(self) -> int:
        """Mean size of its objects, rounded; 0: known only when it is done."""
        return self.work.mean_bytes

    @property
    def does(self) -> frozenset[str]:
        """The operations that it carries out on objects."""
        return self.work.does

    @property
    def archives(self) -> bool:
        """It leaves objects behind."""
        return self.work.archives

    @property
    def sizes(self) -> tuple[int, ...]:
        """Object sizes in bytes that it archives, or that one operation on one size reads; rising."""
        return self.work.object_sizes

    @property
    def locks(self) -> frozenset[Lock | None]:
        """How what it archives comes by its lock; None: as the run says."""
        return self.work.locks_with(self.lock)

    @property
    def data(self) -> str:
        """The data set that its objects belong to; empty: objects are drawn by size."""
        return self.work.data_set(self.name)

    @property
    def variant(self) -> str:
        """What sets this workload apart from one of the same sizes: lock, checksum, retention; empty for nothing."""
        words = [f"lock {self.lock}" if self.lock else "", self.checksum or ""]
        words.append(f"for {format_duration(self.retain_for_seconds)}" if self.retain_for_seconds is not None else "")
        return ", ".join(word for word in words if word)

    @property
    def objects_max(self) -> int:
        """Upper bound of the objects that it archives, or that one operation on one size handles."""
        return self.work.objects_max(self.clients, self.objects_per_session)

    @property
    def archived_max(self) -> Archived:
        """Upper bound of what it archives."""
        return self.work.archived_max(self.clients, self.objects_per_session)

    @property
    def archived_here_max(self) -> Archived:
        """Upper bound of what it archives in the run's own place."""
        everywhere, (objects, size_bytes) = self.archived_max, self.work.archived_there_max
        return Archived(everywhere.objects - objects, everywhere.bytes - size_bytes)


@dataclass(frozen=True, slots=True)
class Phase:
    """Workloads that run together. ``position`` counts from 1 over the run."""

    name: str
    position: int
    repetition: int
    workloads: tuple[Workload, ...]
    drift_check: bool = False  # a phase of before again, last of its kind
    scale: float | None = None  # what the scenario's scale is in this phase
    scale_name: str = ""  # tiles, users, cameras ...
    is_load: bool = False  # it only makes the data that later phases need, and proves nothing
    keeps_cache: bool = False  # the store's files stay in memory before it reads
    measures_ceiling: bool = False  # the same is done against a platform that does nothing

    @property
    def label(self) -> str:
        """For people: ``archive 8KiB x 25, 1 client``; ``tiles, 2 tiles``."""
        parts = [w.work.label(w.clients, w.objects_per_session, w.variant) for w in self.workloads]
        if all(parts):
            return " + ".join(parts) + (" (drift check)" if self.drift_check else "")
        if self.scale is None:
            return self.name
        each = self.scale_name.removesuffix("s") if self.scale == 1 else self.scale_name
        return f"{self.name}, {self.scale:g} {each}"

    @property
    def seconds_max(self) -> float:
        """Upper bound of the seconds that it takes, warm-up included, as far as that is known."""
        ends: dict[str, float] = {}
        waiting = list(self.workloads)
        while waiting:  # each after the one that it waits for
            for each in waiting:
                before = each.work.waits_for
                if before is None or before in ends:
                    ends[each.name] = ends.get(before or "", 0.0) + each.work.starts_seconds + each.work.seconds_max
            waiting = [each for each in waiting if each.name not in ends]
        return max(ends.values())

    @property
    def clients(self) -> int:
        return sum(workload.clients for workload in self.workloads)

    @property
    def workers_max(self) -> int:
        """So many worker processes have something to do: a client, and a stream of a trace, is in one of them."""
        streams = [(each.work.streams(each.clients), each.work.shares_workers) for each in self.workloads]
        shared = max((count for count, is_shared in streams if is_shared), default=0)
        return max(shared, sum(count for count, is_shared in streams if not is_shared))

    @property
    def is_repeatable(self) -> bool:
        """It can be carried out again after it was interrupted."""
        return all(workload.work.is_repeatable for workload in self.workloads)

    def reads(self, data: str) -> bool:
        """Some workload asks for objects of this data set."""
        return any(each.data == data and each.does - {"archive"} for each in self.workloads)

    def changes(self, data: str) -> bool:
        """Some workload deletes or replaces objects of this data set, or changes their locks."""
        return any(each.data == data and each.does & CHANGES for each in self.workloads)

    def begins_seconds(self, workload: Workload) -> float | None:
        """When a workload begins, after the phase; None where that depends on when another one ends."""
        return self.beginnings()[workload.name]

    def beginnings(self) -> dict[str, float | None]:
        """``begins_seconds`` of every workload, by its name."""
        works: dict[str, Work] = {workload.name: workload.work for workload in self.workloads}
        found: dict[str, float | None] = {}
        for name in works:
            chain = [name]  # back to one that is known, or waits for no other
            while chain[-1] not in found and (before := works[chain[-1]].waits_for) is not None:
                chain.append(before)
            for each in reversed(chain):
                found.setdefault(each, _begins(works[each], found, works))
        return found

    def archived_max(self) -> Archived:
        """Upper bound of what the phase archives."""
        each = [workload.archived_max for workload in self.workloads]
        return Archived(sum(one.objects for one in each), sum(one.bytes for one in each))


def _begins(work: Work, found: Mapping[str, float | None], works: Mapping[str, Work]) -> float | None:
    """When a workload begins, where that of the one that it waits for is known."""
    if work.waits_for is None:
        return work.starts_seconds
    before = works[work.waits_for]
    begins, seconds = found[work.waits_for], before.planned_seconds
    if begins is None or seconds is None or before.measured_time != "intervals":
        return None
    return begins + seconds + work.starts_seconds


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

    @property
    def is_reordered(self) -> bool:
        """Its phases are cells in an order of their own, and not in that of a file."""
        return all(not workload.application for workload in self.workloads)

    @property
    def workloads(self) -> Iterator[Workload]:
        """Those of all phases, in order."""
        return (workload for phase in self.phases for workload in phase.workloads)

    def has(self, trait: Trait) -> bool:
        """Some workload has it."""
        return any(trait in workload.work.traits for workload in self.workloads)

    def does(self, operation: str) -> bool:
        """Some workload carries it out."""
        return any(operation in workload.does for workload in self.workloads)

    def uses_lock(self, lock: Lock) -> bool:
        """Some workload archives objects that get their locks in this way."""
        return any(lock in workload.locks for workload in self.workloads)

    def retentions(self, retention: Retention) -> set[Retention]:
        """Every retention with which objects are archived, given the run's."""
        return {
            retention.locked_by(workload.lock, workload.retain_for_seconds)
            for workload in self.workloads
            if workload.archives
        }

    def archived_max(self) -> Archived:
        """Upper bound of what the whole run archives; of a search, its first step."""
        return archived_max(self.phases)


def archived_max(phases: Sequence[Phase], there: Mapping[str, int] | None = None) -> Archived:
    """Upper bound of what these phases archive; ``there``: how many objects each data set has already.

    What a data set is filled up to is there for all later phases, unless one deletes of it.
    """
    objects = size_bytes = 0
    filled = dict(there or {})
    for workload in (each for phase in phases for each in phase.workloads):
        data, clients, per_session = workload.data, workload.clients, workload.objects_per_session
        known = filled.pop(data, None)
        archived = workload.work.archived_given(known, clients, per_session)
        left = workload.work.left_there(known, clients, per_session)
        if data and left is not None:
            filled[data] = left
        objects, size_bytes = objects + archived.objects, size_bytes + archived.bytes
    return Archived(objects, size_bytes)
