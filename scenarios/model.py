"""A scenario as plain values: phases of workloads, criteria, and a search.

One idea: a phase's limits in objects are known before it starts. The amount that a run may write and lock is therefore
known, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
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
    """The work of one group of clients."""

    name: str
    work: Work
    clients: int
    objects_per_session: int = 1  # number of transactions for a mix
    lock: Lock | None = None  # how archived objects get their lock; None: as the run does
    checksum: Checksum | None = None  # sent with archived objects; None: the run's
    retain_for_seconds: float | None = None  # sent with archived objects; None: the run's
    application: str = ""  # name without the copy
    copy: int | None = None  # number of the copy: the tile, the set

    @property
    def locks(self) -> frozenset[Lock | None]:
        """Return the ways in which its archived objects get their lock; None in the set: as the run does."""
        return self.work.locks_with(self.lock)

    @property
    def data(self) -> str:
        """Return the data set of its objects; empty if objects are drawn by size."""
        return self.work.data_set(self.name)

    @property
    def variant(self) -> str:
        """Return what distinguishes workloads with the same sizes: lock, checksum, retention; may be empty."""
        words = [f"lock {self.lock}" if self.lock else "", self.checksum or ""]
        words.append(f"for {format_duration(self.retain_for_seconds)}" if self.retain_for_seconds is not None else "")
        return ", ".join(word for word in words if word)

    @property
    def objects_max(self) -> int:
        """Upper bound of the objects that it archives, or that a single operation on one size uses."""
        return self.work.objects_max(self.clients, self.objects_per_session)

    @property
    def archived_max(self) -> Archived:
        """Upper bound of its archived objects and bytes."""
        return self.work.archived_max(self.clients, self.objects_per_session)

    @property
    def archived_own_max(self) -> Archived:
        """Upper bound of its archived objects and bytes in the run's own place."""
        everywhere, (objects, size_bytes) = self.archived_max, self.work.archived_second_max
        return Archived(everywhere.objects - objects, everywhere.bytes - size_bytes)


@dataclass(frozen=True, slots=True)
class Phase:
    """Concurrent workloads. ``position`` counts from 1 over the run."""

    name: str
    position: int
    repetition: int
    workloads: tuple[Workload, ...]
    drift_check: bool = False  # repeats an earlier phase; the last phase of its kind
    scale: float | None = None  # value of the scenario's scale in this phase
    scale_name: str = ""  # tiles, users, cameras ...
    is_load: bool = False  # only makes the data of later phases, and has no criteria
    keeps_cache: bool = False  # does not drop the store's files from memory before it reads
    measures_ceiling: bool = False  # also runs against a platform that does nothing

    @property
    def label(self) -> str:
        """Return a label for users: ``archive 8KiB x 25, 1 client``; ``tiles, 2 tiles``."""
        parts = [w.work.label(w.clients, w.objects_per_session, w.variant) for w in self.workloads]
        if all(parts):
            return " + ".join(parts) + (" (drift check)" if self.drift_check else "")
        if self.scale is None:
            return self.name
        each = self.scale_name.removesuffix("s") if self.scale == 1 else self.scale_name
        return f"{self.name}, {self.scale:g} {each}"

    @property
    def seconds_max(self) -> float:
        """Upper bound of its duration in seconds, warm-up included, as far as that is known."""
        ends: dict[str, float] = {}
        waiting = list(self.workloads)
        while waiting:  # each of them after the workload that it waits for
            for each in waiting:
                before = each.work.waits_for
                if before is None or before in ends:
                    ends[each.name] = ends.get(before or "", 0.0) + each.work.starts_seconds + each.work.seconds_max
            waiting = [each for each in waiting if each.name not in ends]
        return max(ends.values())

    @property
    def has_time_limit(self) -> bool:
        """Return whether the plan limits the duration to ``seconds_max``: no workload runs until all is done."""
        return all(workload.work.has_time_limit for workload in self.workloads)

    @property
    def expected_seconds(self) -> float:
        """Return the expected end of the last workload whose end is known, in seconds after the phase's start."""
        return self._known_seconds(lambda work: work.expected_seconds)

    @property
    def limited_seconds(self) -> float:
        """Return the latest end of workloads with a time limit, in seconds after the phase's start."""
        return self._known_seconds(lambda work: work.seconds_max if work.has_time_limit else None)

    def _known_seconds(self, seconds_of: Callable[[Work], float | None]) -> float:
        works: dict[str, Work] = {workload.name: workload.work for workload in self.workloads}
        ends: dict[str, float | None] = {}
        known = [end for name in works if (end := _known_end(name, works, seconds_of, ends)) is not None]
        return max(known, default=0.0)

    @property
    def clients(self) -> int:
        return sum(workload.clients for workload in self.workloads)

    @property
    def does(self) -> frozenset[str]:
        """Return the operations that its workloads carry out on objects."""
        return frozenset[str]().union(*(workload.work.does for workload in self.workloads))

    @property
    def workers_max(self) -> int:
        """Upper bound of useful worker processes: each client, and each stream of a trace, runs in one process."""
        streams = [(each.work.streams(each.clients), each.work.shares_workers) for each in self.workloads]
        shared = max((count for count, is_shared in streams if is_shared), default=0)
        return max(shared, sum(count for count, is_shared in streams if not is_shared))

    @property
    def is_repeatable(self) -> bool:
        """Return whether the phase can be carried out again after an interruption."""
        return all(workload.work.is_repeatable for workload in self.workloads)

    def reads(self, data: str) -> bool:
        """Return whether a workload requests objects of this data set."""
        return any(each.data == data and each.work.does - {"archive"} for each in self.workloads)

    def changes(self, data: str) -> bool:
        """Return whether a workload deletes or replaces objects of this data set, or changes their locks."""
        return any(each.data == data and each.work.does & CHANGES for each in self.workloads)

    def begins_seconds(self, workload: Workload) -> float | None:
        """Return a workload's start in seconds after the phase's; None if it depends on the end of another workload."""
        return self.beginnings()[workload.name]

    def beginnings(self) -> dict[str, float | None]:
        """Return ``begins_seconds`` of every workload, by its name."""
        works: dict[str, Work] = {workload.name: workload.work for workload in self.workloads}
        found: dict[str, float | None] = {}
        for name in works:
            chain = [name]  # up to a workload with a known start, or one that waits for none
            while chain[-1] not in found and (before := works[chain[-1]].waits_for) is not None:
                chain.append(before)
            for each in reversed(chain):
                found.setdefault(each, _begins(works[each], found, works))
        return found

    def archived_max(self) -> Archived:
        """Upper bound of the phase's archived objects and bytes."""
        each = [workload.archived_max for workload in self.workloads]
        return Archived(sum(one.objects for one in each), sum(one.bytes for one in each))


def _known_end(
    name: str, works: Mapping[str, Work], seconds_of: Callable[[Work], float | None], ends: dict[str, float | None]
) -> float | None:
    """Return a workload's end in seconds after the phase's start; None if it depends on a work without known seconds.

    ``ends`` caches the results.
    """
    if name not in ends:
        work = works[name]
        begins = 0.0 if work.waits_for is None else _known_end(work.waits_for, works, seconds_of, ends)
        stops = inf if work.ends_with is None else _known_end(work.ends_with, works, seconds_of, ends)
        seconds = seconds_of(work)
        ends[name] = None
        if begins is not None and stops is not None and seconds is not None:
            ends[name] = min(begins + work.starts_seconds + seconds, stops)
    return ends[name]


def _begins(work: Work, found: Mapping[str, float | None], works: Mapping[str, Work]) -> float | None:
    """Return a workload's start, if the end of the workload that it waits for is known in advance; None otherwise."""
    if work.waits_for is None:
        return work.starts_seconds
    before = works[work.waits_for]
    begins, seconds = found[work.waits_for], before.planned_seconds
    if begins is None or seconds is None or before.measured_time != "intervals":
        return None
    return begins + seconds + work.starts_seconds


@dataclass(frozen=True, slots=True)
class SearchRange:
    """The range of scales in which a search finds the largest scale that meets every criterion."""

    name: str  # of the scale
    first: int
    last: int
    repeat: int  # trials at the edge
    step: int  # all scales are multiples of it


@dataclass(frozen=True, slots=True)
class Scenario:
    """One expanded scenario. ``text`` is its source file with overrides applied, for the record."""

    name: str
    title: str
    phases: tuple[Phase, ...]
    order: Order
    order_seed: int
    repetitions: int
    text: str
    criteria: tuple[Criterion, ...] = ()
    search: SearchRange | None = None  # None: no search; otherwise ``phases`` are the phases of its first step
    last_step: tuple[Phase, ...] = ()  # a search's phases at its largest scale
    weights: tuple[tuple[str, float], ...] = ()  # weights of applications in a score; empty: all equal

    @property
    def is_reordered(self) -> bool:
        """Return whether its phases are cells that Archiver orders, instead of phases in the file's order."""
        return all(not workload.application for workload in self.workloads)

    @property
    def workloads(self) -> Iterator[Workload]:
        """Yield the workloads of all phases, in order."""
        return (workload for phase in self.phases for workload in phase.workloads)

    def has(self, trait: Trait) -> bool:
        """Return whether a workload has this trait."""
        return any(trait in workload.work.traits for workload in self.workloads)

    def does(self, operation: str) -> bool:
        """Return whether a workload carries out this operation."""
        return any(operation in workload.work.does for workload in self.workloads)

    def uses_lock(self, lock: Lock) -> bool:
        """Return whether a workload archives objects that get their locks in this way."""
        return any(lock in workload.locks for workload in self.workloads)

    @property
    def places_legal_holds(self) -> bool:
        """Return whether its operations, its locks or its migrations place legal holds."""
        return self.does("hold") or self.uses_lock(Lock.HEADER_AND_HOLD)

    def retentions(self, retention: Retention) -> set[Retention]:
        """Return every retention of archived objects, given the run's retention."""
        return {
            retention.locked_by(workload.lock, workload.retain_for_seconds)
            for workload in self.workloads
            if workload.work.archives
        }

    def archived_max(self) -> Archived:
        """Upper bound of the whole run's archived objects and bytes; for a search, of its first step."""
        return archived_max(self.phases)


def archived_max(phases: Sequence[Phase], existing: Mapping[str, int] | None = None) -> Archived:
    """Upper bound of the amount that these phases archive in total; see ``archived_by_phase``."""
    return _sum(archived_by_phase(phases, existing))


def archived_by_phase(phases: Sequence[Phase], existing: Mapping[str, int] | None = None) -> Iterator[Archived]:
    """Yield the upper bound of the amount that each phase archives.

    ``existing``: number of existing objects of each data set. Once a phase has filled a data set, its objects exist for
    all later phases, unless one deletes some of them.
    """
    filled = dict(existing or {})
    for phase in phases:
        archived = []
        for workload in phase.workloads:
            data, clients, per_session = workload.data, workload.clients, workload.objects_per_session
            known = filled.pop(data, None)
            archived.append(workload.work.archived_given(known, clients, per_session))
            left = workload.work.left_existing(known, clients, per_session)
            if data and left is not None:
                filled[data] = left
        yield _sum(archived)


def _sum(several: Iterable[Archived]) -> Archived:
    amounts = list(several)
    return Archived(sum(each.objects for each in amounts), sum(each.bytes for each in amounts))
