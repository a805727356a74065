"""One run: what is known before it touches anything, and how it goes from phase to phase.

One idea: making a plan refuses all that can be refused, and the ledger knows what a phase may leave behind before its
first byte is sent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from archiver import caches
from archiver.assignment import IntervalReport
from archiver.ceiling import add_ceilings
from archiver.clock import now_seconds
from archiver.coordinator import Coordinator, Fill, PhaseOutcome
from archiver.criteria import Watch, judge
from archiver.errors import ArchiverError, ResultsError, RunFailed
from archiver.ledger import Ledger, NumberRange, Placement
from archiver.merging import ArchivedRange
from archiver.mixed.shares import RETRIEVES
from archiver.numbers import Kept, ObjectNumbers
from archiver.preflight import Plan
from archiver.retention import (
    DATE_TOLERANCE_SECONDS,
    DateMaker,
    Lock,
    Retention,
    RetentionMode,
    latest_date,
)
from archiver.sampler import ResourceSampler
from archiver.server_usage import read_bytes, usage_throughout
from archiver.workers import Workers
from results.database import PhaseRecord, RunDatabase
from results.model import CriterionResult, SearchOutcome, ServerUsage
from scenarios.model import Phase, Workload

EXPIRY_SECONDS_MAX = 60.0  # so long a run waits for short locks to end


# What the server used in the last so many seconds, as far as anybody sampled it. Any thread may ask.
ServerLately = Callable[[float], ServerUsage | None]


class Observer(Protocol):
    """Who follows runs as they happen; several take turns."""

    def phase_started(self, phase: Phase, platform: str, server_lately: ServerLately) -> None: ...

    def reported(self, report: IntervalReport) -> None: ...

    def phase_finished(self, outcome: PhaseOutcome) -> None: ...

    def warned(self, warning: str) -> None: ...


@dataclass(slots=True)
class RunOutcome:
    """How a run ended; everything measured is in the database."""

    run_id: str
    database: Path
    interrupted: bool = False
    failure: str | None = None
    criteria: list[CriterionResult] = field(default_factory=list)
    search: SearchOutcome | None = None
    void: list[str] = field(default_factory=list)  # why nothing follows from what was replayed
    findings: list[str] = field(default_factory=list)  # content or protection that infrastructure operations lost
    incomplete: list[str] = field(default_factory=list)  # phases that lost workers, and why


class _Promise(NamedTuple):
    """What the ledger was told of a phase: one way of locking, and the workloads that lock so."""

    row: int
    retention: Retention
    workloads: frozenset[int]


class SecondPlace(NamedTuple):
    """Where migrations copy to: what its records in the ledger have in common, and how a worker reaches it."""

    placement: Placement
    worker_setting: Any


@dataclass(slots=True)
class Run:
    """One run under way: its phases, one by one."""

    plan: Plan
    ledger: Ledger
    place: Placement  # what every phase's record has in common
    database: RunDatabase
    sampler: ResourceSampler
    workers: Workers
    coordinator: Coordinator
    numbers: ObjectNumbers
    observer: Observer
    outcome: RunOutcome
    locks_read: set[str] | None  # of which variants one has been read back; None: none can be
    archived_bytes: int = 0
    second: SecondPlace | None = None
    bucket_has_rule: bool = False
    expiries: dict[str | int, float] = field(default_factory=dict)  # of short locks, by data set or size

    def start_watching(self) -> None:
        self.sampler.start()
        self._tell_problems()

    def carry_out(self, phase: Phase) -> None:
        """One phase; what goes wrong ends this run, and is in its outcome."""
        try:
            self.observer.phase_started(phase, self.plan.profile.name, self._server_lately)
            outcome = self._phase(phase)
            self._store(outcome)
            self.outcome.criteria += outcome.criteria
            if outcome.incomplete is not None:
                self.outcome.incomplete.append(f"{phase.label}: {outcome.incomplete}")
                self.observer.warned(f"{phase.label} is incomplete: {outcome.incomplete}")
            self.outcome.void += [
                f"{result.workload}: {result.replayed.void}"
                for result in outcome.results
                if result.replayed is not None and result.replayed.void
            ]
            self.outcome.findings += [
                finding
                for result in outcome.results
                if result.infrastructure is not None
                for finding in result.infrastructure.findings
            ]
            self.observer.phase_finished(outcome)
            if outcome.archived:
                self._read_lock(outcome)
            if outcome.gave_up is not None:
                first = f": {outcome.errors[0].reason}: {outcome.errors[0].message}" if outcome.errors else ""
                raise RunFailed(f"{phase.label}: {outcome.gave_up}{first}; the run ends here")
        except ArchiverError as error:
            self.outcome.failure = str(error)

    def finish(self) -> None:
        """End workers and sampling, and say in the database how the run ended."""
        outcome = self.outcome
        self.workers.close()
        self.sampler.stop()
        verdict = "interrupted" if outcome.interrupted else "fail" if outcome.failure else self._verdict()
        try:
            self._store_samples()
            self.database.finish(time.time(), verdict)
        except ResultsError as error:  # a full disk: what was committed before stays
            outcome.failure = outcome.failure or str(error)
        self.database.close()

    def _verdict(self) -> str:
        """By the scenario's criteria; of a search by whether any scale held them. A replay that was none is void."""
        if self.outcome.void and self.outcome.search is None:
            return "void"
        if self.outcome.search is not None:
            return "pass" if self.outcome.search.largest is not None else "fail"
        if self.outcome.findings or self.outcome.incomplete:
            return "fail"
        if not self.plan.scenario.criteria:
            return "none"
        return "pass" if all(each.passed for each in self.outcome.criteria) else "fail"

    def _server_lately(self, seconds: float) -> ServerUsage | None:
        since_ns = time.monotonic_ns() - int(seconds * 1e9)
        return usage_throughout(self.sampler.timelines(since_ns), self.plan.server)

    def _tell_problems(self) -> None:
        """Report each source of resource samples that cannot be read, once."""
        for found in self.sampler.take_problems():
            self.database.add_source_problem(found.source, found.at, found.problem)
            self.observer.warned(found.problem)

    def _phase(self, phase: Phase) -> PhaseOutcome:
        hosted, backend = self.plan.hosted, self.plan.backend
        reads = any(workload.does & RETRIEVES for workload in phase.workloads)
        if reads and hosted is not None and not phase.keeps_cache:
            caches.drop(hosted.data_files())
        self._wait_for_dates(phase)
        first = phase.workloads[0]
        if first.archives:
            self._set_rule(self.retention(first) if first.lock is Lock.BUCKET_DEFAULT else None)
        dates = self._dates(phase)
        promises = self._promise(phase) if backend.capabilities.stores_content else []
        there = self._promise_there(phase)
        server_now = backend.server_now
        self.database.begin_phase(phase.position, server_now)
        watch = Watch(self.plan.scenario.criteria, phase)

        def report(part: IntervalReport) -> bool:
            self.observer.reported(part)
            watch.take(part)
            return watch.broken() is None

        before = deepcopy(self.numbers) if phase.measures_ceiling else None
        outcome = self.coordinator.run_phase(phase, self.numbers, dates, report, self._fill(), server_now)
        if reads and hosted is not None:
            self._judge_temperature(outcome)
        self.take_in(phase, outcome.started_at, outcome.seconds, outcome.archived, outcome.changed)
        if outcome.incomplete is None:  # else nobody counted all of it: the rows stay open, which means list the prefix
            self._keep_promises(promises, outcome)
        if there is not None and outcome.incomplete is None:
            self._keep_promise_there(there, outcome)
        if before is not None and outcome.gave_up is None and outcome.incomplete is None:
            pinned = set(self.plan.pinned_cores)
            server_cores = sorted(os.sched_getaffinity(0) - pinned) if pinned else []
            setting = self.coordinator.setting
            add_ceilings(outcome, before, dates, setting, self.workers, server_cores, server_now)
        outcome.criteria = judge(self.plan.scenario.criteria, phase, outcome.results, watch.broken(), outcome.whole)
        return outcome

    def _dates(self, phase: Phase) -> dict[float | None, DateMaker]:
        """Who makes the dates of a phase, by its workloads' own times of retention."""
        makers = {}
        for workload in phase.workloads:
            retention = self.retention(workload)
            latest = latest_date(retention, self.plan.options.guards, self.plan.backend.server_now)
            if latest is not None:
                makers[workload.retain_for_seconds] = DateMaker(retention, latest)
        return makers

    def _promise(self, phase: Phase) -> list[_Promise]:
        """Before its first byte is sent the ledger knows what a phase may leave behind, by how it will be locked."""
        guards, server_now = self.plan.options.guards, self.plan.backend.server_now
        for workload in phase.workloads:
            if workload.does & {"extend", "hold"}:
                latest = latest_date(self.retention(workload), guards, server_now)
                until = latest if "extend" in workload.does else None
                self.ledger.strengthen(self.plan.run_id, until=until, legal_hold="hold" in workload.does)
        by_retention: dict[Retention, list[int]] = {}
        for index, workload in enumerate(phase.workloads):
            if workload.archives:
                by_retention.setdefault(self.retention(workload), []).append(index)
        promises = []
        first_number = self.numbers.next
        for retention, workloads in by_retention.items():
            bounds = [_written_here(phase, phase.workloads[index]) for index in workloads]
            placement = replace(
                self.place,
                phase=phase.label,
                retention_mode=retention.mode.value,
                legal_hold=retention.legal_hold,
                earliest_retain_until=self.dates_between(retention, now_seconds())[0],
                latest_retain_until=latest_date(retention, guards, server_now),
                first_number=first_number,
                objects_max=sum(objects for objects, _ in bounds),
                bytes_max=sum(size_bytes for _, size_bytes in bounds),
            )
            first_number += placement.objects_max
            promises.append(_Promise(self.ledger.open_placement(placement), retention, frozenset(workloads)))
        return promises

    def _promise_there(self, phase: Phase) -> int | None:
        """Likewise of what a migration copies to the second place; None where there is nothing of the kind."""
        bounds = [each.infrastructure.archived_there_max for each in phase.workloads if each.infrastructure is not None]
        objects, size_bytes = sum(objects for objects, _ in bounds), sum(size_bytes for _, size_bytes in bounds)
        if self.second is None or not objects:
            return None
        retention = self.plan.retention
        return self.ledger.open_placement(
            replace(
                self.second.placement,
                phase=phase.label,
                legal_hold=True,
                earliest_retain_until=self.dates_between(retention, now_seconds())[0],
                latest_retain_until=latest_date(retention, self.plan.options.guards, self.plan.backend.server_now),
                objects_max=objects,
                bytes_max=size_bytes,
            )
        )

    def _keep_promise_there(self, row: int, outcome: PhaseOutcome) -> None:
        """What a migration copied in truth; copies whose answer never came are counted with the run's own objects."""
        there = outcome.infrastructures
        latest = self.dates_between(self.plan.retention, outcome.started_at, outcome.seconds)[1]
        self.ledger.close_placement(
            row, sum(each.copied_there for each in there), sum(each.copied_there_bytes for each in there), [], latest
        )

    def _keep_promises(self, promises: Sequence[_Promise], outcome: PhaseOutcome) -> None:
        """Tell the ledger what a phase left in truth. An archive whose answer never came may be there all the same, so
        it counts as left behind."""
        unknown = outcome.unknown_objects()
        for promise in promises:
            phase = outcome.phase
            mine = [each for each in outcome.archived if each.workload in promise.workloads]
            copies, copied_bytes = outcome.copied(promise.workloads)
            largest = max(size for index in promise.workloads for size in phase.workloads[index].sizes)
            self.ledger.close_placement(
                promise.row,
                sum(each.objects for each in mine) + copies + unknown,
                sum(each.object_bytes * each.objects for each in mine) + copied_bytes + unknown * largest,
                [NumberRange(each.object_bytes, each.first, each.last) for each in mine],
                self._latest_made(phase.workloads[min(promise.workloads)], outcome),
            )

    def _latest_made(self, workload: Workload, outcome: PhaseOutcome) -> float | None:
        """The latest date that a lock of a phase that has ended can have; None: that which was promised."""
        retention = self.retention(workload)
        if retention.mode is not RetentionMode.CLASS and workload.lock is not Lock.BUCKET_DEFAULT:
            return self.dates_between(retention, outcome.started_at, outcome.seconds)[1]
        # The platform dates an object when it stores it. One whose answer never came may be stored later still.
        latest = None if outcome.unknown_objects() else self.dates_between(retention, now_seconds())[1]
        return None if latest is None else latest + retention.late_seconds

    def take_in(
        self,
        phase: Phase,
        started_at: float,
        seconds: float,
        archived: Sequence[ArchivedRange],
        changed: Sequence[tuple[str, int, int, int]],
    ) -> None:
        """Know what a phase has archived and changed."""
        for each in archived:
            workload = phase.workloads[each.workload]
            retention = self.retention(workload)
            earliest, latest = self.dates_between(retention, started_at, seconds)
            if workload.retain_for_seconds is not None and latest is not None:
                self.expiries[each.data or each.object_bytes] = latest
            kept = Kept(each.object_bytes, each.first, each.last, earliest, latest, each.data)
            self.numbers.keep(kept, held=retention.legal_hold)
            self.archived_bytes += each.object_bytes * each.objects
        for operation, object_bytes, first, last in changed:
            self.numbers.change(operation, object_bytes, first, last)
            if operation in ("copy", "new-version"):
                self.archived_bytes += object_bytes * (last - first + 1)

    def retention(self, workload: Workload) -> Retention:
        """What a workload's objects are locked with."""
        return self.plan.retention.locked_by(workload.lock, workload.retain_for_seconds)

    def _set_rule(self, rule: Retention | None) -> None:
        """Have the bucket lock by itself what comes next, or not."""
        if self.bucket_has_rule != (rule is not None):
            self.plan.backend.set_default_lock(rule)
            self.bucket_has_rule = rule is not None

    def _wait_for_dates(self, phase: Phase) -> None:
        """Let the short locks end of what is to be deleted, and a later date be really later."""
        if any("extend" in workload.does for workload in phase.workloads):
            time.sleep(DATE_TOLERANCE_SECONDS + 1)
        now = self.plan.backend.server_now
        places = [
            workload.mix.data if workload.mix is not None else workload.object_bytes
            for workload in phase.workloads
            if "delete" in workload.does
        ]
        expiries = [expiry for place in places if (expiry := self.expiries.get(place, now)) < now + EXPIRY_SECONDS_MAX]
        time.sleep(max([0.0, *(expiry - now + DATE_TOLERANCE_SECONDS for expiry in expiries)]))

    def dates_between(
        self, retention: Retention, started_at: float, seconds: float = 0.0
    ) -> tuple[float | None, float | None]:
        """Between which dates the locks end of what is archived in the seconds from ``started_at`` (epoch seconds)."""
        backend = self.plan.backend
        if retention.retain_for_seconds is None:
            return retention.retain_until, retention.retain_until
        first = started_at + backend.server_now - now_seconds() + retention.retain_for_seconds
        earliest, latest = first - DATE_TOLERANCE_SECONDS, first + seconds + DATE_TOLERANCE_SECONDS
        promised = latest_date(retention, self.plan.options.guards, backend.server_now)
        if promised is not None:  # COMPLIANCE dates never pass what the user accepted
            earliest, latest = min(earliest, promised), min(latest, promised)
        return earliest, latest

    def _fill(self) -> Fill:
        hosted = self.plan.hosted
        files = hosted.data_files() if hosted is not None else None
        store_bytes = None if files is None else sum(_size(path) for path in files)
        return Fill(store_bytes, self.archived_bytes)

    def _read_lock(self, outcome: PhaseOutcome) -> None:
        """Read the first lock of each variant back: a run over locks that are not there, or not those asked for, is
        worth nothing."""
        for each in outcome.archived:
            workload = outcome.phase.workloads[each.workload]
            if self.locks_read is None or workload.variant in self.locks_read or not workload.locks_alike:
                continue
            self.locks_read.add(workload.variant)
            retention = self.retention(workload)
            earliest, latest = self.dates_between(retention, outcome.started_at, outcome.seconds)
            problem = self.plan.backend.lock_problem(each.first, retention, earliest, latest)
            if self.plan.retention.locks:
                self.database.set_lock_verified(problem or "verified")
            if problem is not None:
                # What the platform locked it for is another date than was computed: what was promised applies again.
                until = latest_date(retention, self.plan.options.guards, self.plan.backend.server_now)
                self.ledger.strengthen(self.plan.run_id, until=until)
                raise RunFailed(f"{outcome.phase.label}: the platform did not keep the lock: {problem}")

    def _judge_temperature(self, outcome: PhaseOutcome) -> None:
        """Say whether what was retrieved came from a disk, by what its device read meanwhile."""
        read = read_bytes(self.sampler.timelines(), self.plan.server, outcome.start_ns, outcome.end_ns)
        served = sum(row.bytes for row in outcome.intervals)
        if any(workload.archives for workload in outcome.phase.workloads):
            return  # who read what cannot be told
        warmth = caches.temperature(read, served)
        outcome.results = [
            replace(result, temperature=warmth) if result.temperature is not None else result
            for result in outcome.results
        ]

    def _store(self, outcome: PhaseOutcome) -> None:
        phase = outcome.phase
        self.database.add_phase(
            PhaseRecord(
                position=phase.position,
                name=phase.name,
                label=phase.label,
                repetition=phase.repetition,
                drift_check=phase.drift_check,
                started_at=outcome.started_at,
                seconds=outcome.seconds,
                start_ns=outcome.start_ns,
                end_ns=outcome.end_ns,
                measured_from_ns=outcome.measured_from_ns,
                measured_to_ns=outcome.measured_to_ns,
                results=outcome.results,
                intervals=outcome.intervals,
                histograms=outcome.histograms,
                archived=outcome.archived,
                errors=outcome.errors,
                changed=outcome.changed,
                gave_up=outcome.gave_up,
                criteria=outcome.criteria,
                parts=outcome.parts,
                workers=outcome.workers,
            )
        )
        self._store_samples()

    def _store_samples(self) -> None:
        self.database.add_samples(self.sampler.take_unstored())
        self._tell_problems()


def _written_here(phase: Phase, workload: Workload) -> tuple[int, int]:
    """Upper bound of (objects, bytes) that a workload archives in the run's own place."""
    if workload.infrastructure is not None:
        return workload.infrastructure.archived_here_max
    return phase.written_max(workload)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # a segment that was removed meanwhile
        return 0
