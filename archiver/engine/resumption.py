"""Resume a run that was interrupted, was killed or failed, after its last finished phase.

One idea: finished phases stay as they are, and a broken phase is never trusted. The engine repeats that phase with
object numbers that it cannot have used, and excludes objects that it may have changed. A phase that gave up did not
finish. Neither did the previous one if errors in its last interval show that the platform was already failing. A run
that deletes or replaces objects is not resumed within such a phase.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from archiver.engine.earlier import check_first
from archiver.engine.execution import carry_through, open_run, pin, placement, planned, settings
from archiver.engine.numbers import LockedTimes, ObjectNumbers
from archiver.engine.plan import Plan, RunOptions, check_space, make_plan, port_warnings, run_plan
from archiver.engine.rounds import rounds
from archiver.engine.run import Observer, Run, RunOutcome
from archiver.ledger.ledger import Ledger, Placement
from archiver.platforms.hosted import HostedStore
from archiver.values.clock import now_seconds
from archiver.values.errors import PlatformError, UsageError
from archiver.values.retention import DateMaker, Lock, latest_date
from backends.base import Backend, Location
from results.recorded.database import RunDatabase, StoredRun
from scenarios.model import Phase, Scenario
from scenarios.work.mix import EVENT_HOLDS

# Settings that must not change, because a run is one measurement.
_SAME_SETTINGS = (
    "retention_mode", "retain_for_seconds", "retain_until", "legal_hold", "event_hold_days", "management_class",
    "verify", "session_kind", "session_open", "checksum", "payload_signing",
    "objects_per_transaction_max", "platform_started",
)  # fmt: skip
_SAME_PLATFORM = ("name", "version", "backend")


@dataclass(frozen=True, slots=True)
class BrokenRun:
    """A run that broke off, and the data that it may have left behind, according to the ledger."""

    database: RunDatabase
    row: StoredRun
    finished: int  # finished phases
    placements: Sequence[Placement]

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def left_open(self) -> list[Placement]:
        """Return the phases whose objects were never counted."""
        return [each for each in self.placements if each.objects is None]


def look_at(database: RunDatabase, ledger: Ledger) -> BrokenRun:
    """Return the run in a reopened database. Raises UsageError if the run cannot be resumed or is complete."""
    row = database.run()
    run = row.id
    refusal = not_resumable(row)
    if refusal is not None:
        raise UsageError(f"{run}: {refusal}")
    placements = ledger.placements(run)
    if not placements and ledger.knows(run):
        raise UsageError(f"{run}: its objects were removed (archiver cleanup); start it again")
    if not placements and row.backend != "null" and row.objects_from is None:
        raise UsageError(
            f"{run}: the ledger has no record of it, so the objects that it may have left are not known; set "
            "ARCHIVER_HOME as it was when the run was started"
        )
    return BrokenRun(database, row, database.finished(), placements)


def not_resumable(row: StoredRun) -> str | None:
    """Return why a run cannot be resumed, as far as its record says; None if it can."""
    if not row.phases_planned:
        return "a conformance run has no phases to resume; start it again: archiver worm"
    if row.comparison is not None:
        return (
            "was measured in turn with other platforms, so phases measured later could not be compared; start the "
            f"comparison again; to see the finished phases: archiver report {row.id}"
        )
    whole = _carried_out_whole(row.scenario_json)
    if whole is not None:
        return f"{whole}, so it cannot be resumed; start it again"
    if row.verdict in ("none", "pass"):
        return "all its phases finished, so nothing is left to do"
    if row.lock_verified not in (None, "verified"):
        return (
            f"the platform did not keep its lock ({row.lock_verified}); results without these locks have no value; "
            "start another run"
        )
    return None


def _carried_out_whole(scenario_text: str) -> str | None:
    """Return why runs of a recorded scenario cannot be resumed; None if they can."""
    scenario = json.loads(scenario_text)
    if any(phase.get("replay") for phase in scenario.get("phase", ())):
        return "a replay must be measured as a whole"
    if "search" in scenario:
        return "all trials of a search must be measured at one time"
    return None


def remaining(broken: BrokenRun, scenario: Scenario) -> tuple[Phase, ...]:
    """Return the remaining phases.

    Raises UsageError if the scenario lacks a finished phase, or if a remaining phase cannot be repeated.
    """
    recorded = [(times.position, times.label) for times in broken.database.phases()]
    planned = [(phase.position, phase.label) for phase in scenario.phases]
    # A run with a time budget leaves phases out.
    if len(planned) != broken.row.phases_planned or not set(recorded) <= set(planned):
        raise UsageError(
            f"{broken.id}: this version of Archiver orders its phases differently from the version that began it; "
            f"resume it with that version ({broken.row.host.get('archiver')}), or start the run again"
        )
    last = recorded[broken.finished - 1][0] if broken.finished else 0
    left = tuple(phase for phase in scenario.phases if phase.position > last)
    begun = {position for position, _ in recorded} | {each.position for each in broken.database.broken_off()}
    for phase in left:
        if phase.position in begun and not phase.is_repeatable:
            raise UsageError(
                f"{broken.id}: was interrupted in {phase.label}, which deletes or replaces objects; the number of "
                "these objects is not known; start the run again"
            )
    return left


def plan_rest(
    broken: BrokenRun, scenario: Scenario, platform: tuple[Backend, HostedStore | None], options: RunOptions
) -> tuple[Plan, list[str]]:
    """Return the plan of the rest of ``scenario``, which contains all phases, and warnings.

    Raises UsageError and PlatformError.
    """
    phases = remaining(broken, scenario)
    left = sum(each.bytes if each.bytes is not None else each.bytes_max for each in broken.placements)
    rest = replace(scenario, phases=phases)
    plan = make_plan(
        rest,
        *platform,
        options,
        broken.id,
        locked_before_bytes=left,
        whole=scenario,
    )
    _refuse_another(broken, plan)
    check_space([plan.hosted] if plan.hosted is not None else [], plan.archived_max[1])
    return plan, port_warnings(plan)


def resume(broken: BrokenRun, scenario: Scenario, plan: Plan, ledger: Ledger, observer: Observer) -> RunOutcome:
    """Carry out the remaining phases. Raises UsageError and PlatformError before anything is touched."""
    phases: Callable[[Sequence[Run]], Generator[Phase, None, None]] = partial(planned, plan.scenario.phases)
    budget_seconds = plan.options.request.budget_seconds
    if budget_seconds is not None:
        used_seconds = sum(times.archived_seconds for times in broken.database.phases())
        phases = partial(rounds, plan.scenario, budget_seconds - used_seconds)
    (outcome,) = carry_through([partial(_go_on, broken, scenario, plan, ledger, observer)], phases)
    return outcome


def _refuse_another(broken: BrokenRun, plan: Plan) -> None:
    """Raise PlatformError or UsageError if the platform or a setting differs from the run's."""
    began, found = broken.row.platform, plan.profile
    for name in _SAME_PLATFORM:
        if getattr(began, name) != getattr(found, name):
            raise PlatformError(
                f"{broken.id}: began on {began.name} ({began.version}), but {found.name} ({found.version}) answers "
                "now; a run measures one platform, so start another run"
            )
    if plan.hosted is None and began.endpoints != found.endpoints:
        raise UsageError(
            f"{broken.id}: began at {', '.join(began.endpoints)}, but the environment now names "
            f"{', '.join(found.endpoints)}; name the endpoints that it began with, or start another run"
        )
    now = settings(plan)
    for name in _SAME_SETTINGS:
        if broken.row.settings.get(name) != now[name]:
            raise UsageError(
                f"{broken.id}: {name.replace('_', ' ')} was {broken.row.settings.get(name)} when it began and is "
                f"{now[name]} now, so the results could not be compared; start another run"
            )


def _go_on(broken: BrokenRun, scenario: Scenario, plan: Plan, ledger: Ledger, observer: Observer) -> Run:
    """Attach to the run's place, and restore the state of its objects from the ledger and the database."""
    backend, earlier, database = plan.backend, plan.options.objects_from, broken.database
    if plan.hosted is not None:
        pin(plan.hosted, plan.server_cores)
    location = Location(**broken.row.location)
    try:
        backend.attach(location, plan.retention)
        if earlier is not None:
            check_first(earlier, backend)
        else:
            if scenario.uses_lock(Lock.BUCKET_DEFAULT):
                backend.set_default_lock(None)  # remove the rule of the broken phase
            backend.check_place(run_plan(plan))
    except PlatformError as error:
        place = f"in {location.bucket} on {broken.row.platform.name}"
        raise PlatformError(f"{broken.id} cannot be resumed {place}: {error}") from error
    seed = broken.row.content_seed
    numbers = earlier.numbers() if earlier is not None else ObjectNumbers(seed, _first_free(broken))
    database.resume(now_seconds(), time.monotonic_ns())
    ledger.begin_run(broken.id, database.path, reads=earlier.run if earlier is not None else None)
    run = open_run(plan, placement(plan, location, seed), database, numbers, ledger, observer)
    _restore_objects(run, scenario)
    return run


def _first_free(broken: BrokenRun) -> int:
    """Return a number above all object numbers that any phase in the ledger can have used."""
    promised = [each.first_number + each.objects_max for each in broken.placements]
    archived = [
        each.last + 1 for times in broken.database.phases() for each in broken.database.archived_by(times.position)
    ]
    return max([0, *promised, *archived])


def _restore_objects(run: Run, scenario: Scenario) -> None:
    """Restore what the run's finished phases archived and changed, and what a broken phase may have changed."""
    finished = {times.position: times for times in run.database.phases()}
    broken_off = run.database.broken_off()
    for phase in scenario.phases:
        for each in broken_off:
            if each.position == phase.position:
                run.locks.done(phase.does)
                _exclude_changed(run, phase, each.server_now)
        times = finished.get(phase.position)
        if times is not None:
            archived = run.database.archived_by(phase.position)
            changed = run.database.changes(phase.position)
            run.take_in(phase, times.prepared_at, times.archived_seconds, archived, changed)


def _exclude_changed(run: Run, phase: Phase, server_now: float) -> None:
    """Exclude the objects that a broken phase may have changed, because its progress is unknown.

    The same draws give the same objects. Objects that the phase may have extended can still be read.
    """
    for workload in phase.workloads:
        if workload.data or workload.work.operation_label not in ("extend", "hold", "release", "delete", *EVENT_HOLDS):
            continue
        retention = run.retention(workload)
        latest = latest_date(retention, run.plan.options.request.guards, server_now)
        dates = DateMaker(retention, latest) if latest is not None else None
        times = LockedTimes.of_phase(server_now, phase.seconds_max, dates)
        wanted = workload.objects_max
        drawn = run.numbers.sample(
            workload.work.mean_bytes, wanted, phase.position, workload.work.operation_label, times
        )
        for number in drawn.tolist():
            change = "extend" if workload.work.operation_label == "extend" else "delete"
            run.numbers.change(change, workload.work.mean_bytes, number, number)
