"""One run, from phase to phase.

One idea: making a plan makes all checks, and the ledger records what a phase may leave behind before the phase sends
its first byte.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import Signals
from typing import NamedTuple, NoReturn, Protocol

from archiver.engine.ceiling import measure_ceilings
from archiver.engine.coordinator import ClientCeiling, Coordinator, Fill, PhaseOutcome
from archiver.engine.judging.criteria import Watch, judge
from archiver.engine.judging.locks import NUMBER_MAX, LatestDates, RunLocks, to_read_back
from archiver.engine.numbers import Kept, ObjectNumbers
from archiver.engine.plan import Plan, run_plan
from archiver.engine.probing import (
    TRIES_MAX,
    Probe,
    Prober,
    Tried,
    event_hold_operations,
    event_hold_probe,
    probes_of,
)
from archiver.engine.workers.contract import Workers
from archiver.ledger.event_holds import EventHoldRange
from archiver.ledger.ledger import Ledger, NumberRange, Placement
from archiver.machine import caches
from archiver.machine.interruption import interruptible
from archiver.measure.reports import IntervalReport
from archiver.measure.server_usage import usage_throughout
from archiver.values.clock import now_seconds
from archiver.values.errors import ArchiverError, PlatformError, ResultsError, RunFailed, SafetyRefused
from archiver.values.retention import (
    DATE_TOLERANCE_SECONDS,
    DAY_SECONDS,
    DateMaker,
    Lock,
    Retention,
    RetentionMode,
    latest_date,
    latest_release_date,
)
from archiver.watch.sampler import ResourceSampler
from backends.base import Backend, ExpectedLock, HasCredentials
from results.measures.verdict import verdict
from results.recorded.database import ArchivedRange, ObjectChange, PhaseRecord, RunDatabase
from results.recorded.model import CriterionResult, Result, SearchOutcome, ServerUsage
from scenarios.model import Phase, Workload
from scenarios.work.mix import EVENT_HOLDS, RETRIEVES, OperationName

EXPIRY_SECONDS_MAX = 60.0  # longest wait of a run for short locks to end


# Returns the server's usage of the last given seconds, as far as it was sampled. Any thread may call it.
ServerLately = Callable[[float], ServerUsage | None]


class Observer(Protocol):
    """Observer of runs while they happen; several runs take turns."""

    def phase_started(self, phase: Phase, platform: str, server_lately: ServerLately) -> None: ...

    def reported(self, report: IntervalReport) -> None: ...

    def phase_finished(self, outcome: PhaseOutcome) -> None: ...

    def warned(self, warning: str) -> None: ...


@dataclass(slots=True)
class RunOutcome:
    """The end of a run, and its results. All measurements are in the database."""

    run_id: str
    database: Path
    interrupted: Signals | None = None  # the signal
    failure: str | None = None
    results: list[Result] = field(default_factory=list)
    criteria: list[CriterionResult] = field(default_factory=list)
    search: SearchOutcome | None = None


class _Promise(NamedTuple):
    """The ledger's entry for one way of locking of a phase, and the workloads that lock in this way."""

    row: int
    retention: Retention
    workloads: frozenset[int]
    objects_max: int


class SecondPlace(NamedTuple):
    """The place that migrations copy to: the shared fields of its ledger rows, and the backend that reaches it."""

    placement: Placement
    backend: Backend


@dataclass(slots=True)
class Run:
    """A run in progress, phase by phase."""

    plan: Plan
    ledger: Ledger
    place: Placement  # shared fields of every phase's record
    database: RunDatabase
    sampler: ResourceSampler
    workers: Workers
    coordinator: Coordinator
    numbers: ObjectNumbers
    observer: Observer
    outcome: RunOutcome
    prober: Prober | None  # None: the platform stores nothing that could be read back
    archived_bytes: int = 0
    second: SecondPlace | None = None
    rule: Retention | None = None  # the bucket's default rule, as this run has set it
    locks: RunLocks = field(default_factory=RunLocks)
    event_holds_checked: bool = False  # a probe object's event hold was placed or released as agreed
    expiries: dict[str | int, float] = field(default_factory=dict)  # end of short locks, by data set or size

    def start_watching(self) -> None:
        self.sampler.start()
        self._report_problems()

    def carry_out(self, phase: Phase) -> None:
        """Carry out one phase. A failure ends this run, and is in its outcome."""
        try:
            self.observer.phase_started(phase, self.plan.profile.name, self._server_lately)
            outcome = self._phase(phase)
            wrong_lock = self._wrong_lock(outcome)
            self._store(outcome)
            self.outcome.criteria += outcome.criteria
            self.outcome.results += outcome.results
            if outcome.incomplete is not None:
                self.observer.warned(f"{phase.label} is incomplete: {outcome.incomplete}")
            self.observer.phase_finished(outcome)
            if wrong_lock is not None:
                raise wrong_lock
            if outcome.gave_up is not None:
                first = next(iter(outcome.errors), None)
                quoted = f": {first.quoted}" if first is not None and first.reason not in outcome.gave_up else ""
                where = f"{phase.label} on {self.plan.profile.name}"
                raise RunFailed(f"{where}: {outcome.gave_up}{quoted}; the run ends here")
        except ArchiverError as error:
            self.outcome.failure = str(error)

    def finish(self) -> None:
        """End workers and sampling, and record in the database how the run ended."""
        outcome = self.outcome
        self.workers.close()
        self.sampler.stop()
        try:
            self._store_samples()
            self.database.finish(now_seconds(), self._verdict())
        except ResultsError as error:  # full disk: committed data stay
            outcome.failure = outcome.failure or str(error)
        self.database.close()
        with suppress(ArchiverError):  # on a full disk; then the lock on the results, which is free now, tells it
            self.ledger.end_run(outcome.run_id)

    def _verdict(self) -> str:
        """Return the verdict on all data in the database, phases before an interruption included."""
        if self.outcome.interrupted:
            return "interrupted"
        if self.outcome.failure:
            return "fail"
        database, is_judged = self.database, bool(self.plan.scenario.criteria)
        results = [*database.results(), *database.results(drift_checks=True)]
        return verdict(results, database.criteria(), self.outcome.search, is_judged=is_judged)

    def _server_lately(self, seconds: float) -> ServerUsage | None:
        since_ns = time.monotonic_ns() - int(seconds * 1e9)
        return usage_throughout(self.sampler.timelines(since_ns), self.plan.server)

    def _report_problems(self) -> None:
        """Report once each source of resource samples that cannot be read."""
        for found in self.sampler.take_problems():
            self.database.add_source_problem(found)
            self.observer.warned(found.problem)

    def _phase(self, phase: Phase) -> PhaseOutcome:
        hosted, backend = self.plan.hosted, self.plan.backend
        ceilings = self._ceilings(phase)
        reads = any(workload.work.does & RETRIEVES for workload in phase.workloads)
        if reads and hosted is not None and not phase.keeps_cache:
            interruptible(caches.drop, hosted.data_files())
        self._wait_for_dates(phase)
        first = phase.workloads[0]
        if first.work.archives:
            self._set_rule(self.retention(first) if first.lock is Lock.BUCKET_DEFAULT else None)
        dates = self._dates(phase)
        promises = self._promise(phase) if backend.capabilities.stores_content else []
        in_second_place = self._promise_second_place(phase, promises)
        event_holds = self._promise_event_holds(phase, promises)
        server_now = backend.server_now
        self.database.begin_phase(phase.position, server_now)
        watch = Watch(self.plan.scenario.criteria, phase)

        def report(part: IntervalReport) -> bool:
            self.observer.reported(part)
            watch.take(part)
            return watch.broken() is None and not any(error.lock is not None for error in part.errors)

        self._refresh_credentials(phase)
        self.sampler.take()
        prepared_ns, prepared_at = time.monotonic_ns(), now_seconds()
        probes = self._probe(phase, dates, promises, event_holds)
        if probes and not probes[-1].archived:
            outcome = self.coordinator.refused(phase, probes[-1], prepared_at, prepared_ns)
        else:
            expected = self._expected_locks(phase, dates, prepared_at)
            outcome = self.coordinator.run_phase(
                phase, self.numbers, dates, report, self._fill(), server_now, ceilings, expected
            )
        outcome.times = replace(outcome.times, prepared_ns=prepared_ns)
        outcome.take_probes(probes)
        self.take_in(
            phase, outcome.times.prepared_at, outcome.times.archived_seconds, outcome.archived, outcome.changed
        )
        if outcome.is_counted:  # otherwise the rows stay open, and cleanup lists the prefix
            self._keep_promises(promises, outcome)
        if in_second_place is not None and outcome.is_counted:
            self._keep_second_place(in_second_place, outcome)
        if event_holds is not None and outcome.is_counted:
            self._keep_event_holds(event_holds, outcome)
        outcome.criteria = judge(self.plan.scenario.criteria, phase, outcome.results, watch.broken(), outcome.whole)
        return outcome

    def _ceilings(self, phase: Phase) -> Mapping[str, ClientCeiling]:
        """Return this client's rate in each workload against a platform that does nothing, if the phase requests it."""
        if not phase.measures_ceiling:
            return {}
        setting, cores, now = self.coordinator.setting, self.plan.server_cores, self.plan.backend.server_now
        return measure_ceilings(phase, self.numbers, self._dates(phase), setting, self.workers, cores, now)

    def _refresh_credentials(self, phase: Phase) -> None:
        """Give the workers credentials that last through this phase, if the credentials can be renewed."""
        backend = self.plan.backend
        if isinstance(backend, HasCredentials):
            interruptible(backend.refresh_credentials, phase.seconds_max)
            second = self.second.backend.worker_setting() if self.second is not None else None
            self.coordinator.reach(backend.worker_setting(), second)

    def _dates(self, phase: Phase) -> dict[float | None, DateMaker]:
        """Return the makers of retain-until dates of a phase, by the retention period of its workloads."""
        makers = {}
        for workload in phase.workloads:
            retention = self.retention(workload)
            latest = latest_date(retention, self.plan.options.request.guards, self.plan.backend.server_now)
            if latest is not None:
                makers[workload.retain_for_seconds] = DateMaker(retention, latest)
        return makers

    def _promise(self, phase: Phase) -> list[_Promise]:
        """Record in the ledger, before the first byte is sent, what a phase may leave behind under each lock."""
        guards, server_now = self.plan.options.request.guards, self.plan.backend.server_now
        for workload in phase.workloads:
            if workload.work.does & {"extend", "hold"}:
                latest = latest_date(self.retention(workload), guards, server_now)
                until = latest if "extend" in workload.work.does else None
                self.ledger.strengthen(self.plan.run_id, until=until, legal_hold="hold" in workload.work.does)
        by_retention: dict[Retention, list[int]] = {}
        for index, workload in enumerate(phase.workloads):
            if workload.work.archives:
                by_retention.setdefault(self.retention(workload), []).append(index)
        promises = []
        first_number = self.numbers.next
        for retention, workloads in by_retention.items():
            bounds: list[tuple[int, int]] = [phase.workloads[index].archived_own_max for index in workloads]
            bounds += [self._probed_max(each) for each in probes_of(phase) if each.workload in workloads]
            placement = replace(
                self.place,
                phase=phase.label,
                retention_mode=retention.mode.value,
                legal_hold=retention.legal_hold,
                event_hold_days=retention.event_hold_days,
                earliest_retain_until=self.dates_between(retention, now_seconds())[0],
                latest_retain_until=latest_date(retention, guards, server_now),
                first_number=first_number,
                objects_max=sum(objects for objects, _ in bounds),
                bytes_max=sum(size_bytes for _, size_bytes in bounds),
            )
            first_number += placement.objects_max
            row = self.ledger.open_placement(placement)
            promises.append(_Promise(row, retention, frozenset(workloads), placement.objects_max))
        return promises

    def _probed_max(self, probe: Probe) -> tuple[int, int]:
        objects = TRIES_MAX * self.prober.endpoints if self.prober is not None else 0
        return objects, objects * probe.object_bytes

    def _promise_second_place(self, phase: Phase, promises: Sequence[_Promise]) -> int | None:
        """Record the same for the copies of a migration in the second place; return None if there are none."""
        bounds = [each.work.archived_second_max for each in phase.workloads]
        objects, size_bytes = sum(objects for objects, _ in bounds), sum(size_bytes for _, size_bytes in bounds)
        if self.second is None or not objects:
            return None
        retention = self.plan.retention
        return self.ledger.open_placement(
            replace(
                self.second.placement,
                phase=phase.label,
                first_number=self.numbers.next + sum(each.objects_max for each in promises),
                legal_hold=True,
                earliest_retain_until=self.dates_between(retention, now_seconds())[0],
                latest_retain_until=latest_date(
                    retention, self.plan.options.request.guards, self.plan.backend.server_now
                ),
                objects_max=objects,
                bytes_max=size_bytes,
            )
        )

    def _keep_second_place(self, row: int, outcome: PhaseOutcome) -> None:
        """Record the actual copies of a migration. Copies without an answer count among the run's own objects."""
        copied = outcome.infrastructures
        latest = self.dates_between(self.plan.retention, outcome.times.started_at, outcome.times.seconds)[1]
        self.ledger.close_placement(
            row,
            sum(each.copied_second for each in copied),
            sum(each.copied_second_bytes for each in copied),
            [],
            latest,
        )

    def _promise_event_holds(self, phase: Phase, promises: Sequence[_Promise]) -> int | None:
        """Record in the ledger, before the first request, that a phase may place or release event holds.

        The phase archives its probe objects and changes their event holds as well. Returns the row; None if the phase
        does neither.
        """
        does = frozenset().union(*(workload.work.does for workload in phase.workloads)) & EVENT_HOLDS
        if event_hold_probe(phase, self.plan.retention) is not None:
            does |= frozenset(self._probed_operations())
        if not does or not self.plan.backend.capabilities.stores_content:
            return None
        retention = self.plan.retention
        until = latest_release_date(retention, self.plan.backend.server_now) if "event-release" in does else None
        return self.ledger.open_event_holds(
            self.plan.run_id,
            EventHoldRange(0, self.numbers.next + sum(each.objects_max for each in promises), None, None, until),
            retention.event_hold_days if "event-hold" in does else None,
        )

    def _keep_event_holds(self, row: int, outcome: PhaseOutcome) -> None:
        """Record in the ledger what a phase actually did to event holds.

        A phase places an object under an event hold at most once, and releases it after that.
        """
        dates = self._release_dates(outcome.times.prepared_at, outcome.times.archived_seconds)
        placed, released = (
            [(each.first, each.last) for each in outcome.changed if each.operation == operation]
            for operation in ("event-hold", "event-release")
        )
        ranges = [EventHoldRange(*each, is_on=True) for each in _joined(placed)]
        ranges += [EventHoldRange(*each, False, *dates) for each in _joined(released)]
        failed = any(error.operation in EVENT_HOLDS for error in outcome.errors)
        is_exact = not outcome.event_holds_unknown and not (failed and self._sends_again)
        self.ledger.close_event_holds(row, self.plan.run_id, ranges, is_exact=is_exact)

    @property
    def _sends_again(self) -> bool:
        """Whether clients send failed requests again. A later refusal may then be a result of the first attempt."""
        return bool(self.plan.profile.details.get("retries"))

    def _release_dates(self, started_at: float, seconds: float) -> tuple[float, float]:
        """Return the range of dates that event hold releases set in the seconds from ``started_at`` (epoch seconds)."""
        period_seconds = (self.plan.retention.event_hold_days or 0) * DAY_SECONDS
        first = started_at + self.plan.backend.server_now - now_seconds() + period_seconds
        return first - DATE_TOLERANCE_SECONDS, first + seconds + DATE_TOLERANCE_SECONDS

    def _keep_promises(self, promises: Sequence[_Promise], outcome: PhaseOutcome) -> None:
        """Record in the ledger what a phase actually left behind.

        An archive without an answer may exist, so it counts as left behind.
        """
        unknown = outcome.unknown_objects()
        for promise in promises:
            phase = outcome.phase
            archived = [each for each in outcome.archived if each.workload in promise.workloads]
            copies, copied_bytes = outcome.copied(promise.workloads)
            largest = max(size for index in promise.workloads for size in phase.workloads[index].work.object_sizes)
            self.ledger.close_placement(
                promise.row,
                sum(each.objects for each in archived) + copies + unknown,
                sum(each.object_bytes * each.objects for each in archived) + copied_bytes + unknown * largest,
                [NumberRange(each.object_bytes, each.first, each.last) for each in archived],
                self._latest_made(phase.workloads[min(promise.workloads)], outcome),
            )

    def _latest_made(self, workload: Workload, outcome: PhaseOutcome) -> float | None:
        """Return the latest retain-until date that a lock of an ended phase can have.

        Returns None if the date that was recorded before the phase still applies.
        """
        retention = self.retention(workload)
        if retention.mode is not RetentionMode.CLASS and workload.lock is not Lock.BUCKET_DEFAULT:
            return self.dates_between(retention, outcome.times.prepared_at, outcome.times.archived_seconds)[1]
        # The platform dates an object when it stores it. It may store an object without an answer later still.
        latest = None if outcome.unknown_objects() else self.dates_between(retention, now_seconds())[1]
        return None if latest is None else latest + retention.late_seconds

    def take_in(
        self,
        phase: Phase,
        started_at: float,
        seconds: float,
        archived: Sequence[ArchivedRange],
        changed: Sequence[ObjectChange],
    ) -> None:
        """Record what a phase has archived and changed."""
        self.locks.done(phase.does)
        for each in archived:
            workload = phase.workloads[each.workload]
            retention = self.retention(workload)
            earliest, latest = self.dates_between(retention, started_at, seconds)
            if workload.retain_for_seconds is not None and latest is not None:
                self.expiries[each.data or each.object_bytes] = latest
            kept = Kept(each.object_bytes, each.first, each.last, earliest, latest, each.data)
            self.numbers.keep(kept, held=retention.legal_hold, event_held=retention.event_hold_days is not None)
            if len(workload.locks) == 1:
                self.locks.archived(ExpectedLock(each.first, each.last, retention, earliest, latest))
            self.archived_bytes += each.object_bytes * each.objects
        for operation, object_bytes, first, last in changed:
            self.numbers.change(operation, object_bytes, first, last)
            if operation in ("copy", "new-version"):
                self.archived_bytes += object_bytes * (last - first + 1)

    def retention(self, workload: Workload) -> Retention:
        """Return the retention of a workload's objects."""
        return self.plan.retention.locked_by(workload.lock, workload.retain_for_seconds)

    def _set_rule(self, rule: Retention | None) -> None:
        """Set or remove the bucket's default retention rule for the objects that follow."""
        if self.rule != rule:
            interruptible(self.plan.backend.set_default_lock, rule)
            self.rule = rule

    def _wait_for_dates(self, phase: Phase) -> None:
        """Wait until the short locks of objects to delete have ended, and until an extended date is really later."""
        if any("extend" in workload.work.does for workload in phase.workloads):
            interruptible(time.sleep, DATE_TOLERANCE_SECONDS + 1)
        now = self.plan.backend.server_now
        places = [
            workload.data or workload.work.mean_bytes for workload in phase.workloads if "delete" in workload.work.does
        ]
        expiries = [expiry for place in places if (expiry := self.expiries.get(place, now)) < now + EXPIRY_SECONDS_MAX]
        left_seconds = max((expiry - now + DATE_TOLERANCE_SECONDS for expiry in expiries), default=0.0)
        if left_seconds > 0:
            interruptible(time.sleep, left_seconds)

    def dates_between(
        self, retention: Retention, started_at: float, seconds: float = 0.0
    ) -> tuple[float | None, float | None]:
        """Return the range of retain-until dates of objects archived in the seconds from ``started_at`` (epoch)."""
        backend = self.plan.backend
        if retention.retain_for_seconds is None:
            return retention.retain_until, retention.retain_until
        first = started_at + backend.server_now - now_seconds() + retention.retain_for_seconds
        earliest, latest = first - DATE_TOLERANCE_SECONDS, first + seconds + DATE_TOLERANCE_SECONDS
        promised = latest_date(retention, self.plan.options.request.guards, backend.server_now)
        if promised is not None:  # COMPLIANCE dates never pass what the user accepted
            earliest, latest = min(earliest, promised), min(latest, promised)
        return earliest, latest

    def _expected_locks(
        self, phase: Phase, dates: Mapping[float | None, DateMaker], started_at: float
    ) -> list[ExpectedLock]:
        """Return the locks that the answers of a phase must show, as far as they are known."""
        if self.prober is None:
            return []
        self.locks.done(phase.does)
        archiving = [workload for workload in phase.workloads if workload.work.archives]
        retentions = {self.retention(workload) for workload in archiving}
        latest = max((maker.latest for maker in dates.values()), default=None)
        new = None
        # Otherwise the lock of a new object does not follow from its number.
        if len(retentions) == 1 and all(len(workload.locks) == 1 for workload in archiving):
            (retention,) = retentions
            until = latest_date(retention, self.plan.options.request.guards, self.plan.backend.server_now)
            earliest = self.dates_between(retention, started_at)[0]
            new = ExpectedLock(self.numbers.next, NUMBER_MAX, retention, earliest, until)
        agreed = self.plan.retention
        released = latest_release_date(agreed, self.plan.backend.server_now)
        return self.locks.expected(new, agreed, LatestDates(latest, released))

    def _wrong_lock(self, outcome: PhaseOutcome) -> RunFailed | None:
        """Return why the run ends if the locks of a phase are not as agreed; None if nothing was found.

        A platform that does not answer has stopped in the phase, so the phase gave up and is repeated by a resumed run.
        """
        try:
            self._check_locks_shown(outcome)
            self._check_locks_after(outcome)
        except RunFailed as error:
            return error
        except PlatformError as error:
            outcome.gave_up = outcome.gave_up or f"a lock could not be read back: {error}"
        return None

    def _check_locks_shown(self, outcome: PhaseOutcome) -> None:
        """Raise RunFailed if an answer of a phase showed a wrong lock; the ledger then has the lock."""
        error = outcome.wrong_lock
        if error is None or error.lock is None:
            return
        number, mode, until, on_hold = error.lock
        self.ledger.observe_object(self.coordinator.setting.run_id, number, mode, until, on_hold=on_hold)
        self._lock_was_not_kept(outcome.phase, f"{error.object_name} ({error.operation}): {error.message}")

    def _check_locks_after(self, outcome: PhaseOutcome) -> None:
        """Read back the locks of some objects that a phase archived, and the default rule of their place.

        Raises RunFailed if a lock is not as agreed; the ledger then has the lock that was found. Raises PlatformError
        if the platform does not answer.
        """
        phase, times = outcome.phase, outcome.times
        chosen = to_read_back(outcome) if self.prober is not None else []
        try:
            for workload, number in chosen:
                retention = self.retention(phase.workloads[workload])
                dates = self.dates_between(retention, times.prepared_at, times.archived_seconds)
                found = interruptible(self.plan.backend.read_lock, number, retention, *dates)
                if found.problem is not None:
                    run = self.plan.run_id
                    self.ledger.observe_object(run, number, found.mode, found.until, on_hold=found.on_hold)
                    self._lock_was_not_kept(phase, found.problem)
            if chosen:
                interruptible(self.plan.backend.check_place, run_plan(self.plan, self.rule))
        except SafetyRefused as error:
            raise RunFailed(f"{phase.label}: the rule of the place changed during the run: {error}") from error

    def _lock_was_not_kept(self, phase: Phase, problem: str) -> NoReturn:
        """End the run."""
        if self.plan.retention.locks:
            self.database.set_lock_verified(problem)
        raise RunFailed(f"{phase.label}: the platform did not keep the lock: {problem}")

    def _fill(self) -> Fill:
        hosted = self.plan.hosted
        files = hosted.data_files() if hosted is not None else None
        store_bytes = None if files is None else _allocated_bytes(files)
        return Fill(store_bytes, self.archived_bytes)

    def _probe(
        self,
        phase: Phase,
        dates: Mapping[float | None, DateMaker],
        promises: Sequence[_Promise],
        event_holds: int | None,
    ) -> list[Tried]:
        """Archive one object per endpoint in each way that the phase archives, and read its lock back.

        The probe stops at the first object that the platform does not archive. Raises RunFailed if a lock is missing,
        longer or stronger than agreed; the ledger then has the lock that was found. Event holds are tried once in a
        run.
        """
        event_probe = event_hold_probe(phase, self.plan.retention) if self._probed_operations() else None
        done: list[Tried] = []
        for probe in probes_of(phase) if self.prober is not None else ():
            assert self.prober is not None
            began_at = now_seconds()
            setting = self.coordinator.setting.backend_setting
            tried = self.prober.archive(phase, probe, self.numbers, dates, setting)
            done.append(tried)
            if not tried.archived:
                break
            if tried.errors:
                first = tried.errors[0]
                self.observer.warned(f"{phase.label}: a probe object was refused: {first.reason}: {first.message}")
            self._check_locks(phase, tried, began_at, done, promises)
            if probe == event_probe:
                assert event_holds is not None
                self._check_event_holds(phase, tried, began_at, done, promises, event_holds)
        return done

    def _probed_operations(self) -> list[OperationName]:
        """Return which operations on event holds are still to be tried on probe objects."""
        if self.event_holds_checked or self.prober is None:
            return []
        return event_hold_operations(self.plan.scenario, self.plan.retention)

    def _check_event_holds(
        self,
        phase: Phase,
        tried: Tried,
        began_at: float,
        done: Sequence[Tried],
        promises: Sequence[_Promise],
        row: int,
    ) -> None:
        """Place and release event holds on a probe's objects, as the scenario will, and read their locks back.

        Raises RunFailed if the platform refuses that, or reports another lock.
        """
        assert self.prober is not None
        agreed = self.plan.retention
        retention = agreed.locked_by(tried.probe.lock)
        dates = self.dates_between(retention, began_at, now_seconds() - began_at)
        for operation in self._probed_operations():
            changed_at = now_seconds()
            counted = self.prober.change(phase, tried, operation, self.coordinator.setting.backend_setting)
            if counted.errors:
                for promise in promises:
                    self._close_with_probes(promise, done)
                unknown = sum(error.outcomes_unknown for error in counted.errors)
                is_untouched = not (counted.objects or tried.changes or unknown or self._sends_again)
                self.ledger.close_event_holds(row, self.plan.run_id, [], is_exact=is_untouched)
                raise RunFailed(
                    f"{phase.label}: the platform does not carry out {operation!r}: {counted.problems[0]}; check that "
                    "it offers event holds"
                )
            if operation == "event-hold":
                wanted = replace(retention, event_hold_days=agreed.event_hold_days)
            else:
                wanted = replace(retention, event_hold_days=None)
                dates = _later(dates, self._release_dates(changed_at, now_seconds() - changed_at))
            self._check_probe(phase, tried, wanted, dates, done, promises)
        self.event_holds_checked = True

    def _check_locks(
        self, phase: Phase, tried: Tried, began_at: float, done: Sequence[Tried], promises: Sequence[_Promise]
    ) -> None:
        """Read the locks of a probe's objects. Raises RunFailed if one is not as agreed."""
        retention = self.plan.retention.locked_by(tried.probe.lock, tried.probe.retain_for_seconds)
        dates = self.dates_between(retention, began_at, now_seconds() - began_at)
        self._check_probe(phase, tried, retention, dates, done, promises)
        if self.plan.retention.locks:
            self.database.set_lock_verified("verified")

    def _check_probe(
        self,
        phase: Phase,
        tried: Tried,
        retention: Retention,
        dates: tuple[float | None, float | None],
        done: Sequence[Tried],
        promises: Sequence[_Promise],
    ) -> None:
        """Read the locks of a probe's objects. Raises RunFailed if one is not as agreed, or not within ``dates``."""
        for each in tried.archived:
            for number in range(each.first, each.last + 1):
                found = interruptible(self.plan.backend.read_lock, number, retention, *dates)
                if found.problem is None:
                    continue
                for promise in promises:
                    if tried.probe.workload in promise.workloads:
                        self.ledger.observe([promise.row], found.mode, found.until, on_hold=found.on_hold)
                    self._close_with_probes(promise, done)
                self._lock_was_not_kept(phase, found.problem)

    def _close_with_probes(self, promise: _Promise, done: Sequence[Tried]) -> None:
        """Close the ledger's row of a phase that archived only probes."""
        of_promise = [tried for tried in done if tried.probe.workload in promise.workloads]
        archived = [each for tried in of_promise for each in tried.archived]
        self.ledger.close_placement(
            promise.row,
            sum(each.objects for each in archived) + sum(tried.unlisted for tried in of_promise),
            sum(each.object_bytes * each.objects for each in archived)
            + sum(tried.unlisted * tried.probe.object_bytes for tried in of_promise),
            [NumberRange(each.object_bytes, each.first, each.last) for each in archived],
        )

    def _store(self, outcome: PhaseOutcome) -> None:
        phase = outcome.phase
        self.database.add_phase(
            PhaseRecord(
                times=outcome.times,
                name=phase.name,
                repetition=phase.repetition,
                drift_check=phase.drift_check,
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
                probes=outcome.probes,
            )
        )
        self._store_samples()

    def _store_samples(self) -> None:
        self.database.add_samples(self.sampler.take_unstored())
        self._report_problems()


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return these ranges of numbers in ascending order, adjacent ones joined."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    return joined


def _later(dates: tuple[float | None, float | None], others: tuple[float, float]) -> tuple[float, float]:
    """Return the later one of two earliest and of two latest dates."""
    return max(dates[0] or 0.0, others[0]), max(dates[1] or 0.0, others[1])


def _allocated_bytes(files: Sequence[Path]) -> int:
    """Return the bytes that files and their folders take on the disk, with attributes that need a block of their own.

    Some platforms keep a folder or extended attributes for each object, which the sizes of files do not show.
    """
    total = 0
    for path in {*files, *(path.parent for path in files)}:
        with suppress(FileNotFoundError):  # removed since the listing
            total += path.stat().st_blocks * 512  # the unit of st_blocks
    return total
