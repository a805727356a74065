"""One run: a scenario carried out on one platform, from the guards to the last committed phase.

One idea: nothing is touched before everything that can be refused has been refused, and the ledger knows what a
phase may leave behind before its first byte is sent.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from archiver import caches, machine
from archiver.assignment import INTERVAL_NS, IntervalReport
from archiver.content import GENERATOR
from archiver.coordinator import Coordinator, Fill, ObjectNumbers, PhaseOutcome, RunSetting
from archiver.errors import ArchiverError, NotEnoughSpace, ResultsError, RunFailed, UsageError
from archiver.ledger import Ledger, Placement
from archiver.processes import WorkerProcesses
from archiver.retention import DateMaker, Guards, Retention, RetentionMode, RetentionWish, check, latest_date
from archiver.sampler import ResourceSampler
from archiver.server_usage import ServerView, read_bytes
from archiver.sizes import format_bytes
from archiver.watch.choosing import Watched, WatchOptions, watch_sources
from archiver.watch.source import Source
from backends.base import Backend, Location, PlatformProfile, RunPlan
from results.database import FILE_NAME, PhaseRecord, RunDatabase, RunRecord
from scenarios.model import Phase, Scenario

SPACE_RESERVE_BYTES = 1 << 30
DATE_TOLERANCE_SECONDS = 2.0  # dates and the server's clock are known in whole seconds


class HostedStore(Protocol):
    """A store that runs on this host: what can be watched, measured and dropped from memory."""

    @property
    def platform(self) -> str:
        """The name by which Archiver can start it again."""

    @property
    def pid(self) -> int:
        """Its process."""

    @property
    def data_dir(self) -> Path:
        """The folder that holds its data."""

    @property
    def endpoint(self) -> str:
        """Its address."""

    def data_files(self) -> Sequence[Path]:
        """The files that hold objects."""

    def disk_roles(self) -> Mapping[str, str]:
        """What it keeps on which disk: device -> object, catalogue."""


class Observer(Protocol):
    """Who follows runs as they happen; several take turns."""

    def phase_started(self, phase: Phase, platform: str) -> None: ...

    def reported(self, report: IntervalReport) -> None: ...

    def phase_finished(self, outcome: PhaseOutcome) -> None: ...

    def source_failed(self, problem: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Devices:
    """What the user knows of the server's devices."""

    disk_roles: Mapping[str, str] = field(default_factory=dict)  # device -> object, catalogue ...
    disk_speeds: Mapping[str, float] = field(default_factory=dict)  # device -> bytes per second that it sustains
    link_speed_bytes_per_second: float | None = None  # rated, each direction


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user chose, besides scenario and platform."""

    retention: RetentionWish
    guards: Guards
    verify: str
    workers: int | None  # None: one per usable core, or half of them where the platform shares this host
    command_line: list[str]
    out_dir: Path
    op_log_dir: Path | None
    watch: WatchOptions
    devices: Devices


@dataclass(slots=True)
class RunOutcome:
    """How a run ended; everything measured is in the database."""

    run_id: str
    database: Path
    interrupted: bool = False
    failure: str | None = None


def new_run_id() -> str:
    """Sortable by time, unique, and fit for a bucket's name."""
    return time.strftime("%Y%m%dt%H%M%S", time.gmtime()) + "-" + secrets.token_hex(3)


def execute(
    scenario: Scenario,
    platforms: Sequence[tuple[Backend, HostedStore | None]],
    options: RunOptions,
    ledger: Ledger,
    observer: Observer,
) -> list[RunOutcome]:
    """Carry out a scenario on one platform, or on several in turn, cell by cell, so that whatever changes with time
    meets all of them alike; each has a run of its own.

    Raises UsageError and PlatformError before anything is measured; afterwards what went wrong is in the outcomes, and
    what finished is in the databases. A platform that fails ends its own run only.
    """
    comparison = new_run_id() if len(platforms) > 1 else None
    plans = [_plan(scenario, backend, hosted, options, len(platforms)) for backend, hosted in platforms]
    _check_space([plan.hosted for plan in plans if plan.hosted is not None], scenario.archived_max()[1])
    runs: list[_Run] = []
    try:
        for plan in plans:
            runs.append(_begin(plan, comparison, ledger, observer))
            runs[-1].start_watching()
        for phase in scenario.phases:
            for run in runs:
                if run.outcome.failure is None:
                    run.carry_out(phase)
    except KeyboardInterrupt:
        for run in runs:
            run.outcome.interrupted = True
        if not runs:
            raise
    except BaseException:
        for run in runs:
            run.outcome.failure = run.outcome.failure or "the runs beside it could not begin"
        raise
    finally:
        for run in runs:
            run.finish()
    return [run.outcome for run in runs]


@dataclass(frozen=True, slots=True)
class _Plan:
    """One run, as far as it is known before anything is touched. Making it refuses all that can be refused."""

    scenario: Scenario
    backend: Backend
    hosted: HostedStore | None
    options: RunOptions
    profile: PlatformProfile
    retention: Retention
    run_id: str
    worker_cores: list[int]
    sources: list[Source]
    server: ServerView

    @property
    def workers(self) -> int:
        return self.options.workers or len(self.worker_cores)

    @property
    def pinned_cores(self) -> list[int]:
        """The cores that workers are kept on; none where they have the machine for themselves."""
        return self.worker_cores if self.profile.shares_host else []


def _plan(
    scenario: Scenario, backend: Backend, hosted: HostedStore | None, options: RunOptions, platforms: int
) -> _Plan:
    capabilities = backend.capabilities
    if options.retention.legal_hold and not capabilities.legal_hold:
        raise UsageError(f"--legal-hold: the {backend.name} backend does not offer it")
    profile = backend.profile()
    retention = backend.retention_for(options.retention)
    if retention.mode is not RetentionMode.NONE and retention.mode.value not in capabilities.retention_modes:
        raise UsageError(f"--retention-mode {retention.mode.value}: the {backend.name} backend does not offer it")
    check(retention, options.guards, scenario.archived_max()[1] * platforms, backend.server_now)
    cores = _worker_cores(profile.shares_host)
    watched = Watched(
        endpoints=(hosted.endpoint,) if hosted is not None else profile.endpoints if profile.protocol == "s3" else (),
        is_minio=backend.name == "minio",
        shares_host=profile.shares_host,
        pid=hosted.pid if hosted is not None else None,
        platform=hosted.platform if hosted is not None else None,
        is_one_of_several=platforms > 1,
    )
    devices = options.devices
    roles = hosted.disk_roles() if hosted is not None else {}
    return _Plan(
        scenario=scenario,
        backend=backend,
        hosted=hosted,
        options=options,
        profile=profile,
        retention=retention,
        run_id=new_run_id(),
        worker_cores=cores,
        sources=watch_sources(options.watch, watched),
        server=ServerView(
            shares_host=profile.shares_host,
            client_cores=cores if profile.shares_host else (),
            disk_roles={**roles, **devices.disk_roles},
            disk_speeds=devices.disk_speeds,
            link_speed_bytes_per_second=devices.link_speed_bytes_per_second,
        ),
    )


def _begin(plan: _Plan, comparison: str | None, ledger: Ledger, observer: Observer) -> _Run:
    """Prepare the platform, and everything that records what is done to it."""
    backend, hosted, retention, options = plan.backend, plan.hosted, plan.retention, plan.options
    if hosted is not None:
        _pin(hosted, plan.worker_cores)
    location = backend.locate(RunPlan(plan.run_id, retention))
    content_seed = secrets.randbits(62)
    database = RunDatabase.create(
        options.out_dir / plan.run_id / FILE_NAME, _record(plan, location, content_seed, comparison)
    )
    place = Placement(
        run=plan.run_id,
        phase="prepare",
        backend=backend.name,
        platform=hosted.platform if hosted is not None else None,
        endpoint=location.endpoint,
        region=location.region,
        bucket=location.bucket,
        bucket_created=location.bucket_created,
        prefix=location.prefix,
        retention_mode=retention.mode.value,
        latest_retain_until=None,
        legal_hold=retention.legal_hold,
        objects_max=0,
        bytes_max=0,
    )
    stores_content = backend.capabilities.stores_content
    try:
        if stores_content:
            # In the ledger before it is made, so that no bucket is ever left without a record.
            ledger.close_placement(ledger.open_placement(place), 0, 0)
        backend.prepare()
    except BaseException:
        database.finish(time.time(), "fail")
        database.close()
        raise
    setting = RunSetting(
        run_id=plan.run_id,
        content_seed=content_seed,
        backend=backend.name,
        backend_setting=backend.worker_setting(),
        retention=retention,
        verify=options.verify if stores_content else "none",
        session_kind=plan.profile.session_kind,
        session_open=plan.profile.session_open,
        checksum=plan.profile.checksum,
        payload_signing=plan.profile.payload_signing,
        objects_per_transaction_max=plan.profile.objects_per_transaction_max,
        op_log_dir=options.op_log_dir,
        server=plan.server,
    )
    sampler = ResourceSampler(plan.sources)
    workers = WorkerProcesses(plan.workers, plan.pinned_cores)
    return _Run(
        plan, ledger, place, database, sampler, workers, Coordinator(setting, workers, sampler, plan.workers),
        ObjectNumbers(content_seed), observer, RunOutcome(plan.run_id, database.path),
        lock_is_to_be_read=retention.locks and stores_content,
    )  # fmt: skip


def _record(plan: _Plan, location: Location, content_seed: int, comparison: str | None) -> RunRecord:
    scenario, options = plan.scenario, plan.options
    return RunRecord(
        id=plan.run_id,
        started_at=time.time(),
        command_line=options.command_line,
        scenario=scenario.name,
        scenario_title=scenario.title,
        scenario_json=scenario.text,
        sweep_order=scenario.order,
        order_seed=scenario.order_seed,
        repetitions=scenario.repetitions,
        phases_planned=len(scenario.phases),
        backend=plan.backend.name,
        platform=asdict(plan.profile),
        settings=_settings(plan),
        host=machine.describe(),
        workers=plan.workers,
        worker_cores=plan.pinned_cores,
        shared_host=plan.profile.shares_host,
        location=asdict(location),
        content_seed=content_seed,
        content_kind=GENERATOR,
        interval_ns=INTERVAL_NS,
        comparison=comparison,
    )


@dataclass(slots=True)
class _Run:
    """One run under way: its phases, one by one."""

    plan: _Plan
    ledger: Ledger
    place: Placement  # what every phase's record has in common
    database: RunDatabase
    sampler: ResourceSampler
    workers: WorkerProcesses
    coordinator: Coordinator
    numbers: ObjectNumbers
    observer: Observer
    outcome: RunOutcome
    lock_is_to_be_read: bool
    archived_bytes: int = 0

    def start_watching(self) -> None:
        self.sampler.start()
        self._tell_problems()

    def carry_out(self, phase: Phase) -> None:
        """One phase; what goes wrong ends this run, and is in its outcome."""
        try:
            self.observer.phase_started(phase, self.plan.profile.name)
            outcome = self._phase(phase)
            self._store(outcome)
            self.observer.phase_finished(outcome)
            if outcome.archived and self.lock_is_to_be_read:
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
        verdict = "interrupted" if outcome.interrupted else "fail" if outcome.failure else "none"
        try:
            self._store_samples()
            self.database.finish(time.time(), verdict)
        except ResultsError as error:  # a full disk: what was committed before stays
            outcome.failure = outcome.failure or str(error)
        self.database.close()

    def _tell_problems(self) -> None:
        """Report each source of resource samples that cannot be read, once."""
        for found in self.sampler.take_problems():
            self.database.add_source_problem(found.source, found.at, found.problem)
            self.observer.source_failed(found.problem)

    def _phase(self, phase: Phase) -> PhaseOutcome:
        hosted, backend = self.plan.hosted, self.plan.backend
        reads = any(workload.operation == "retrieve" for workload in phase.workloads)
        if reads and hosted is not None:
            caches.drop(hosted.data_files())
        objects_max, bytes_max = phase.archived_max()
        dates = row = None
        if objects_max and backend.capabilities.stores_content:
            latest = latest_date(self.plan.retention, self.plan.options.guards, backend.server_now)
            if latest is not None:
                dates = DateMaker(self.plan.retention, latest)
            row = self.ledger.open_placement(
                replace(
                    self.place,
                    phase=phase.label,
                    latest_retain_until=latest,
                    objects_max=objects_max,
                    bytes_max=bytes_max,
                )
            )
        outcome = self.coordinator.run_phase(phase, self.numbers, dates, self.observer.reported, self._fill())
        if reads and hosted is not None:
            self._judge_temperature(outcome)
        for object_bytes, first, last in outcome.archived:
            self.numbers.keep(object_bytes, [(first, last)])
        self.archived_bytes += outcome.archived_bytes()
        if row is not None:
            # An archive whose answer never came may be there all the same, so it counts as left behind.
            unknown = outcome.unknown_objects()
            self.ledger.close_placement(
                row,
                outcome.archived_objects() + unknown,
                outcome.archived_bytes() + unknown * max(w.object_bytes for w in phase.workloads),
            )
        return outcome

    def _fill(self) -> Fill:
        hosted = self.plan.hosted
        files = hosted.data_files() if hosted is not None else None
        store_bytes = None if files is None else sum(_size(path) for path in files)
        return Fill(store_bytes, self.archived_bytes)

    def _read_lock(self, outcome: PhaseOutcome) -> None:
        """Read the first lock back: a run over locks that are not there, or not those asked for, is worth nothing."""
        self.lock_is_to_be_read = False
        retention, backend = self.plan.retention, self.plan.backend
        earliest = latest = retention.retain_until
        if retention.retain_for_seconds is not None:
            first = outcome.started_at + backend.server_now - time.time() + retention.retain_for_seconds
            earliest, latest = first - DATE_TOLERANCE_SECONDS, first + outcome.seconds + DATE_TOLERANCE_SECONDS
            promised = latest_date(retention, self.plan.options.guards, backend.server_now)
            if promised is not None:  # COMPLIANCE dates never pass what the user accepted
                earliest, latest = min(earliest, promised), min(latest, promised)
        problem = backend.lock_problem(outcome.archived[0][1], earliest, latest)
        self.database.set_lock_verified(problem or "verified")
        if problem is not None:
            raise RunFailed(f"the platform did not keep the lock: {problem}")

    def _judge_temperature(self, outcome: PhaseOutcome) -> None:
        """Say whether what was retrieved came from a disk, by what its device read meanwhile."""
        read = read_bytes(self.sampler.timelines(), self.plan.server, outcome.start_ns, outcome.end_ns)
        served = sum(row.bytes for row in outcome.intervals)
        warmth = caches.temperature(read, served)
        outcome.results = [
            replace(result, temperature=warmth) if result.operation == "retrieve" else result
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
            )
        )
        self._store_samples()

    def _store_samples(self) -> None:
        self.database.add_samples(self.sampler.take_unstored())
        self._tell_problems()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # a segment that was removed meanwhile
        return 0


def _worker_cores(shared_host: bool) -> list[int]:
    """The cores workers use: all of them, or the upper half where the platform needs the others."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[-max(1, len(usable) // 2) :] if shared_host else usable


def _pin(hosted: HostedStore, worker_cores: Sequence[int]) -> None:
    """Keep the store off the workers' cores, where there are others; every thread it has by now, too."""
    others = set(os.sched_getaffinity(0)) - set(worker_cores)
    if not others:
        return
    for task in Path(f"/proc/{hosted.pid}/task").iterdir():
        try:
            os.sched_setaffinity(int(task.name), others)
        except OSError:  # not ours to move: the run goes on unpinned
            return


def _check_space(stores: Sequence[HostedStore], bytes_max: int) -> None:
    """``bytes_max`` for each; stores on one file system share what is free there."""
    together = Counter(os.stat(store.data_dir).st_dev for store in stores)
    for store in stores:
        free = shutil.disk_usage(store.data_dir).free
        wanted = bytes_max * together[os.stat(store.data_dir).st_dev]
        if wanted + SPACE_RESERVE_BYTES > free:
            raise NotEnoughSpace(
                f"this may archive up to {format_bytes(wanted)}, but {store.data_dir} has only {format_bytes(free)} "
                "free; use --quick, fewer cells (--set object_sizes=8KiB), fewer platforms, or another disk "
                "(ARCHIVER_HOME)"
            )


def _settings(plan: _Plan) -> dict[str, Any]:
    guards, retention, profile = plan.options.guards, plan.retention, plan.profile
    return {
        "retention_mode": retention.mode.value,
        "retain_for_seconds": retention.retain_for_seconds,
        "retain_until": retention.retain_until,
        "legal_hold": retention.legal_hold,
        "management_class": retention.management_class,
        "max_retain_seconds": guards.max_retain_seconds,
        "max_locked_bytes": guards.max_locked_bytes,
        "accept_locked_until": guards.accept_locked_until,
        "verify": plan.options.verify,
        "session_kind": profile.session_kind,
        "session_open": profile.session_open,
        "checksum": profile.checksum,
        "payload_signing": profile.payload_signing,
        "objects_per_transaction_max": profile.objects_per_transaction_max,
        "platform_started": plan.hosted is not None,
        "watched": [source.name for source in plan.sources],
        "disk_roles": dict(plan.server.disk_roles),
        "disk_speeds": dict(plan.server.disk_speeds),
        "link_speed_bytes_per_second": plan.server.link_speed_bytes_per_second,
    }
