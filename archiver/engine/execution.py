"""Execution of a scenario on one platform, or on several in turn, from the guards to the last committed phase.

One idea: the engine touches nothing before it has made all checks, and the ledger records a place before the place is
made.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from archiver.engine.coordinator import Coordinator, RunSetting
from archiver.engine.earlier import EarlierObjects, check_first
from archiver.engine.judging.searching import Search
from archiver.engine.numbers import ObjectNumbers
from archiver.engine.offered_rates import OfferedRates
from archiver.engine.plan import Plan, check_space, new_run_id, run_plan
from archiver.engine.probing import Prober, probed_max
from archiver.engine.rounds import rounds
from archiver.engine.run import Observer, Run, RunOutcome, SecondPlace
from archiver.engine.work.replay.library import TraceLibrary
from archiver.engine.workers.contract import Workers
from archiver.engine.workers.processes import WorkerProcesses
from archiver.ledger.ledger import Ledger, Placement
from archiver.machine import description as machine
from archiver.machine import interruption
from archiver.measure.reports import INTERVAL_NS
from archiver.platforms.hosted import HostedStore
from archiver.values.clock import now_seconds
from archiver.values.content import GENERATOR
from archiver.values.errors import ArchiverError
from archiver.values.record import Operation
from archiver.values.retention import check
from archiver.watch.sampler import ResourceSampler
from backends.base import HasSecondPlace, Location, RunPlan
from results.measures.verdict import phases_verdict
from results.recorded.database import FILE_NAME, RunDatabase, RunRecord
from results.recorded.model import Result
from results.recorded.resources import CLIENT
from scenarios.model import Phase, Scenario, archived_max
from scenarios.reading.reader import phases_at


def execute(plans: Sequence[Plan], ledger: Ledger, observer: Observer, traces: TraceLibrary) -> list[RunOutcome]:
    """Carry out the plans of one scenario, and return their outcomes.

    Several platforms take turns, cell by cell, so that changes over time affect all of them alike. Each platform has a
    run of its own. ``traces`` has already read the scenario's traces.

    Raises UsageError and PlatformError before anything is measured. Later failures are in the outcomes, and finished
    phases are in the databases. A platform that fails ends its own run only.
    """
    comparison = new_run_id() if len(plans) > 1 else None
    scenario = plans[0].scenario
    phases: Callable[[Sequence[Run]], Generator[Phase, None, None]] = partial(planned, scenario.phases)
    if scenario.search is not None:
        phases = partial(searched, scenario, traces)
    elif (seconds := plans[0].options.request.budget_seconds) is not None:
        phases = partial(rounds, scenario, seconds)
    return carry_through([partial(_begin, plan, comparison, ledger, observer) for plan in plans], phases)


def planned(phases: Sequence[Phase], runs: Sequence[Run]) -> Generator[Phase, None, None]:
    """Yield these phases, independent of their results."""
    yield from phases


def searched(scenario: Scenario, traces: TraceLibrary, runs: Sequence[Run]) -> Generator[Phase, None, None]:
    """Yield the phases of a search, step by step, from the verdicts on the previous steps."""
    (run,), declared = runs, scenario.search
    assert declared is not None
    search = Search(declared.name, declared.first, declared.last, declared.repeat, declared.step)
    position = 1
    rates = OfferedRates()
    try:
        while (scale := search.next_scale()) is not None:
            phases = traces.read(phases_at(scenario, scale, position))
            too_much = _too_much(run, phases, rates)
            if too_much is not None:
                search.stopped(f"{declared.name} {scale} was not tried: {too_much}")
                break
            judged, measured = len(run.outcome.criteria), len(run.outcome.results)
            yield from phases
            if run.outcome.failure is not None:
                search.stopped(f"{declared.name} {scale} failed: {run.outcome.failure}")
                break
            results = run.outcome.results[measured:]
            if any(result.incomplete for result in results):
                reason = next(result.incomplete for result in results if result.incomplete)
                search.stopped(f"{declared.name} {scale} is incomplete: {phases[-1].label}: {reason}")
                break
            positions = tuple(phase.position for phase in phases)
            found = phases_verdict(results, run.outcome.criteria[judged:])
            if found == "void":
                search.voided(scale, _void_step(f"{declared.name} {scale}", results), positions)
                break
            search.judged(scale, found == "pass", positions)
            position += len(phases)
    finally:  # also after an interruption
        if search.next_scale() is not None:
            search.stopped("the run was interrupted")
        run.outcome.search = search.outcome()
        run.database.set_search(run.outcome.search)


def _void_step(step: str, results: Sequence[Result]) -> str:
    """Return why a step of a search is void, for its end."""
    for result in results:
        if result.void:
            return f"{step} is void: {result.workload}: {result.void}"
    if any(result.limited_by == "client" for result in results):
        return f"client limit reached at {step}: more client machines needed"
    return f"other programs kept this machine busy at {step}: search again while it is idle"


def _too_much(run: Run, phases: Sequence[Phase], rates: OfferedRates) -> str | None:
    """Return why the run may not archive these phases' objects or cannot offer their rates; None if it can do both."""
    endpoints = run.prober.endpoints if run.prober is not None else 0
    size_bytes = archived_max(phases, run.numbers.counts())[1] + probed_max(phases, endpoints)[1]
    try:
        check_space([run.plan.hosted] if run.plan.hosted is not None else [], size_bytes)
        guards, now = run.plan.options.request.guards, run.plan.backend.server_now
        for each in (run.plan.retention, *run.plan.latest_dates):
            check(each, guards, run.archived_bytes + size_bytes, now)
        rates.warnings(phases, run.plan.workers_at_once)
    except ArchiverError as refused:
        return str(refused)
    return None


def carry_through(
    beginnings: Sequence[Callable[[], Run]], phases: Callable[[Sequence[Run]], Generator[Phase, None, None]]
) -> list[RunOutcome]:
    """Begin runs, and carry out their phases in turns."""
    runs: list[Run] = []
    try:
        for begin in beginnings:
            runs.append(begin())
            runs[-1].start_watching()
        with interruption.deferred(), closing(phases(runs)) as order:
            for phase in order:
                for run in runs:
                    interruption.check()
                    if run.outcome.failure is None:
                        run.carry_out(phase)
    except KeyboardInterrupt as interrupted:
        for run in runs:
            run.outcome.interrupted = interruption.signal_of(interrupted)
        if not runs:
            raise
    except BaseException:
        for run in runs:
            run.outcome.failure = run.outcome.failure or "the runs on the other platforms could not begin"
        raise
    finally:
        with interruption.deferred():  # otherwise a run would have no verdict
            for run in runs:
                run.finish()
    return [run.outcome for run in runs]


def _begin(plan: Plan, comparison: str | None, ledger: Ledger, observer: Observer) -> Run:
    """Prepare the platform and everything that records operations on it."""
    backend, earlier = plan.backend, plan.options.objects_from
    if plan.hosted is not None:
        pin(plan.hosted, plan.server_cores)
    if earlier is not None:
        return _begin_on_objects_of(earlier, plan, ledger, observer)
    location = backend.locate(run_plan(plan))
    content_seed = secrets.randbits(62)
    database = RunDatabase.create(
        plan.options.out_dir / plan.run_id / FILE_NAME, _record(plan, location, content_seed, comparison)
    )
    place = placement(plan, location, content_seed)
    try:
        ledger.begin_run(plan.run_id, database.path)
        if backend.capabilities.stores_content:
            # The ledger records the place before it is made, so that no bucket is ever left without a record.
            ledger.close_placement(ledger.open_placement(place), 0, 0)
        backend.prepare()
        backend.check_place(run_plan(plan))
        second = _second_place(plan, place, ledger)
        return open_run(plan, place, database, ObjectNumbers(content_seed), ledger, observer, second)
    except BaseException:
        database.finish(now_seconds(), "fail")
        database.close()
        with suppress(ArchiverError):  # the ledger may be what failed
            ledger.end_run(plan.run_id)
        raise


def _second_place(plan: Plan, place: Placement, ledger: Ledger) -> SecondPlace | None:
    """Make the place that migrations copy to; return None if nothing is migrated."""
    if not any(workload.work.archived_second_max[0] for workload in plan.scenario.workloads):
        return None
    assert isinstance(plan.backend, HasSecondPlace)  # the plan refuses other backends
    backend = plan.backend.second_place()
    takes_unlocked = RunPlan(plan.run_id, plan.retention, archives_unlocked=True)
    location = backend.locate(takes_unlocked)
    # Its objects have the content of other objects, which an audit by numbers could not know.
    second = replace(
        place,
        phase="prepare second place",
        bucket=location.bucket,
        bucket_created=location.bucket_created,
        prefix=location.prefix,
        content_seed=None,
    )
    ledger.close_placement(ledger.open_placement(second), 0, 0)
    backend.prepare()
    backend.check_place(takes_unlocked)
    return SecondPlace(second, backend)


def _begin_on_objects_of(earlier: EarlierObjects, plan: Plan, ledger: Ledger, observer: Observer) -> Run:
    """Begin a run on existing objects. It makes no place and leaves nothing behind."""
    location = replace(earlier.location, bucket_created=False)
    plan.backend.attach(location, earlier.retention)
    check_first(earlier, plan.backend)
    database = RunDatabase.create(
        plan.options.out_dir / plan.run_id / FILE_NAME, _record(plan, location, earlier.content_seed, None)
    )
    ledger.begin_run(plan.run_id, database.path, reads=earlier.run)
    place = placement(plan, location, earlier.content_seed)
    return open_run(plan, place, database, earlier.numbers(), ledger, observer)


def placement(plan: Plan, location: Location, content_seed: int) -> Placement:
    """Return the fields that the ledger's rows of a run share."""
    return Placement(
        run=plan.run_id,
        phase="prepare",
        backend=plan.backend.name,
        platform=plan.hosted.platform if plan.hosted is not None else None,
        endpoint=location.endpoint,
        region=location.region,
        bucket=location.bucket,
        bucket_created=location.bucket_created,
        prefix=location.prefix,
        retention_mode=plan.retention.mode.value,
        latest_retain_until=None,
        legal_hold=plan.retention.legal_hold,
        event_hold_days=plan.retention.locked_by(None).event_hold_days,
        objects_max=0,
        bytes_max=0,
        content_seed=content_seed,
    )


def open_run(
    plan: Plan,
    place: Placement,
    database: RunDatabase,
    numbers: ObjectNumbers,
    ledger: Ledger,
    observer: Observer,
    second: SecondPlace | None = None,
) -> Run:
    """Start the workers of a run whose place exists."""
    backend, profile, options = plan.backend, plan.profile, plan.options
    stores_content = backend.capabilities.stores_content
    earlier = options.objects_from
    assert place.content_seed is not None
    setting = RunSetting(
        run_id=earlier.run if earlier is not None else plan.run_id,  # of the run that made the objects
        content_seed=place.content_seed,
        backend=backend.name,
        backend_setting=backend.worker_setting(),
        retention=plan.retention,
        verify=options.request.verify if stores_content else "none",
        session_kind=profile.session_kind,
        session_open=profile.session_open,
        checksum=profile.checksum,
        payload_signing=profile.payload_signing,
        objects_per_transaction_max=profile.objects_per_transaction_max,
        has_markers=Operation.DELETE_MARKER in backend.capabilities.operations,
        share_cores=plan.workers > plan.workers_at_once,
        polls_busily=plan.polls_busily,
        op_log_dir=_op_log_dir(plan),
        second_setting=second.backend.worker_setting() if second is not None else None,
        server=plan.server,
    )
    prober = None
    if stores_content and earlier is None:
        prober = Prober(plan.run_id, place.content_seed, backend.name, len(profile.endpoints))
    sampler = ResourceSampler(plan.sources)
    workers = _workers(plan)
    return Run(
        plan, ledger, place, database, sampler, workers, Coordinator(setting, workers, sampler),
        numbers, observer, RunOutcome(plan.run_id, database.path), prober=prober, second=second,
    )  # fmt: skip


def _workers(plan: Plan) -> Workers:
    cluster, if_lost = plan.options.cluster, plan.options.request.if_worker_lost
    if cluster is not None:
        return cluster.workers(if_lost)
    return WorkerProcesses(plan.workers, plan.pinned_cores, if_lost)


def _op_log_dir(plan: Plan) -> Path | None:
    """Return the folder of operation logs; None without logs.

    Logs are named after the run that made the objects, so logs on another run's objects have a folder of their own.
    """
    folder, earlier = plan.options.request.op_log_dir, plan.options.objects_from
    return folder if folder is None or earlier is None else folder / plan.run_id


def _record(plan: Plan, location: Location, content_seed: int, comparison: str | None) -> RunRecord:
    scenario, options, earlier = plan.scenario, plan.options, plan.options.objects_from
    return RunRecord(
        id=plan.run_id,
        started_at=now_seconds(),
        command_line=options.command_line,
        request=options.request.to_json(),
        scenario=scenario.name,
        scenario_title=scenario.title,
        scenario_json=scenario.text,
        sweep_order=scenario.order,
        order_seed=scenario.order_seed,
        repetitions=scenario.repetitions,
        phases_planned=len(scenario.phases),
        backend=plan.backend.name,
        platform=plan.profile,
        settings=settings(plan),
        host=machine.describe(),
        workers=plan.workers,
        worker_cores=plan.pinned_cores,
        shared_host=plan.profile.shares_host,
        location=asdict(location),
        content_seed=content_seed,
        content_kind=GENERATOR,
        interval_ns=INTERVAL_NS,
        comparison=comparison,
        objects_from=earlier.record() if earlier is not None else None,
    )


def pin(hosted: HostedStore, cores: Sequence[int]) -> None:
    """Pin all current threads of the store and of its child processes to these cores, if there are any."""
    if not cores:
        return
    store = psutil.Process(hosted.pid)
    for process in (store, *store.children(recursive=True)):
        for thread in process.threads():
            try:
                os.sched_setaffinity(thread.id, cores)
            except ProcessLookupError:  # the thread has ended
                continue
            except OSError:  # no permission: the run continues unpinned
                return


def settings(plan: Plan) -> dict[str, Any]:
    """Return the chosen settings, and the values that the platform derived from them, for the record."""
    guards, retention, profile = plan.options.request.guards, plan.retention, plan.profile
    return {
        "retention_mode": retention.mode.value,
        "retain_for_seconds": retention.retain_for_seconds,
        "retain_until": retention.retain_until,
        "legal_hold": retention.legal_hold,
        "event_hold_days": retention.event_hold_days,
        "management_class": retention.management_class,
        "max_retain_seconds": guards.max_retain_seconds,
        "max_locked_bytes": guards.max_locked_bytes,
        "accept_locked_until": guards.accept_locked_until,
        "verify": plan.options.request.verify,
        "poll": "busy" if plan.polls_busily else "sleep",
        "session_kind": profile.session_kind,
        "session_open": profile.session_open,
        "checksum": profile.checksum,
        "payload_signing": profile.payload_signing,
        "objects_per_transaction_max": profile.objects_per_transaction_max,
        "platform_started": plan.hosted is not None,
        "dask": plan.options.cluster.document() if plan.options.cluster is not None else None,
        "watched": [source.name for source in plan.sources if source.name != CLIENT],
        "disk_roles": dict(plan.server.disk_roles),
        "disk_speeds": dict(plan.server.disk_speeds),
        "link_speed_bytes_per_second": plan.server.link_speed_bytes_per_second,
    }
