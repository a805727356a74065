"""One run: a scenario carried out on one platform, from the guards to the last committed phase.

One idea: nothing is touched before everything that can be refused has been refused, and the ledger knows what a
phase may leave behind before its first byte is sent.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
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
from archiver.sizes import format_bytes
from backends.base import Backend, PlatformProfile, RunPlan
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

    def data_files(self) -> Sequence[Path]:
        """The files that hold objects."""


class Observer(Protocol):
    """Who follows a run as it happens."""

    def phase_started(self, phase: Phase, done: int, planned: int) -> None: ...

    def reported(self, report: IntervalReport) -> None: ...

    def phase_finished(self, outcome: PhaseOutcome) -> None: ...


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
    backend: Backend,
    hosted: HostedStore | None,
    options: RunOptions,
    ledger: Ledger,
    observer: Observer,
) -> RunOutcome:
    """Carry out a scenario. Raises UsageError and PlatformError before anything is measured; afterwards what went
    wrong is in the outcome, and what finished is in the database."""
    capabilities = backend.capabilities
    if options.retention.legal_hold and not capabilities.legal_hold:
        raise UsageError(f"--legal-hold: the {backend.name} backend does not offer it")
    profile = backend.profile()
    retention = backend.retention_for(options.retention)
    if retention.mode is not RetentionMode.NONE and retention.mode.value not in capabilities.retention_modes:
        raise UsageError(f"--retention-mode {retention.mode.value}: the {backend.name} backend does not offer it")
    bytes_max = scenario.archived_max()[1]
    check(retention, options.guards, bytes_max, backend.server_now)
    if hosted is not None:
        _check_space(hosted, bytes_max)
    run_id = new_run_id()
    shared_host = profile.shares_host
    cores = _worker_cores(shared_host)
    worker_count = options.workers or len(cores)
    if hosted is not None:
        _pin(hosted, cores)
    location = backend.locate(RunPlan(run_id, retention))
    content_seed = secrets.randbits(62)
    record = RunRecord(
        id=run_id,
        started_at=time.time(),
        command_line=options.command_line,
        scenario=scenario.name,
        scenario_title=scenario.title,
        scenario_json=scenario.text,
        sweep_order=scenario.order,
        order_seed=scenario.order_seed,
        repetitions=scenario.repetitions,
        phases_planned=len(scenario.phases),
        backend=backend.name,
        platform=asdict(profile),
        settings=_settings(options, retention, profile),
        host=machine.describe(),
        workers=worker_count,
        worker_cores=cores if shared_host else [],
        shared_host=shared_host,
        location=asdict(location),
        content_seed=content_seed,
        content_kind=GENERATOR,
        interval_ns=INTERVAL_NS,
    )
    database = RunDatabase.create(options.out_dir / run_id / FILE_NAME, record)
    outcome = RunOutcome(run_id, database.path)
    place = Placement(
        run=run_id,
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
    try:
        if capabilities.stores_content:
            # In the ledger before it is made, so that no bucket is ever left without a record.
            ledger.close_placement(ledger.open_placement(place), 0, 0)
        backend.prepare()
    except BaseException:
        database.finish(time.time(), "fail")
        database.close()
        raise
    sampler = ResourceSampler(
        hosted.pid if hosted else None, hosted.data_dir if hosted else None, watch_host=shared_host
    )
    workers = WorkerProcesses(worker_count, cores if shared_host else [])
    setting = RunSetting(
        run_id=run_id,
        content_seed=content_seed,
        backend=backend.name,
        backend_setting=backend.worker_setting(),
        retention=retention,
        verify=options.verify if capabilities.stores_content else "none",
        session_kind=profile.session_kind,
        session_open=profile.session_open,
        checksum=profile.checksum,
        payload_signing=profile.payload_signing,
        objects_per_transaction_max=profile.objects_per_transaction_max,
        op_log_dir=options.op_log_dir,
    )
    phases = _Phases(
        backend, hosted, retention, options.guards, ledger, place, database, sampler,
        Coordinator(setting, workers, sampler, worker_count), ObjectNumbers(content_seed), observer, outcome,
        lock_is_to_be_read=retention.locks and capabilities.stores_content,
    )  # fmt: skip
    sampler.start()
    try:
        phases.run(scenario.phases)
    except KeyboardInterrupt:
        outcome.interrupted = True
    except ArchiverError as error:
        outcome.failure = str(error)
    finally:
        workers.close()
        sampler.stop()
        verdict = "interrupted" if outcome.interrupted else "fail" if outcome.failure else "none"
        try:
            database.add_samples(sampler.take_unstored())
            database.finish(time.time(), verdict)
        except ResultsError as error:  # a full disk: what was committed before stays
            outcome.failure = outcome.failure or str(error)
        database.close()
    return outcome


@dataclass(slots=True)
class _Phases:
    """The phases of one run, one by one."""

    backend: Backend
    hosted: HostedStore | None
    retention: Retention
    guards: Guards
    ledger: Ledger
    place: Placement  # what every phase's record has in common
    database: RunDatabase
    sampler: ResourceSampler
    coordinator: Coordinator
    numbers: ObjectNumbers
    observer: Observer
    outcome: RunOutcome
    lock_is_to_be_read: bool
    archived_bytes: int = 0

    def run(self, phases: Sequence[Phase]) -> None:
        for done, phase in enumerate(phases):
            self.observer.phase_started(phase, done, len(phases))
            outcome = self._phase(phase)
            self._store(outcome)
            self.observer.phase_finished(outcome)
            if outcome.archived and self.lock_is_to_be_read:
                self._read_lock(outcome)
            if outcome.gave_up is not None:
                first = f": {outcome.errors[0].reason}: {outcome.errors[0].message}" if outcome.errors else ""
                raise RunFailed(f"{phase.label}: {outcome.gave_up}{first}; the run ends here")

    def _phase(self, phase: Phase) -> PhaseOutcome:
        reads = any(workload.operation == "retrieve" for workload in phase.workloads)
        if reads and self.hosted is not None:
            caches.drop(self.hosted.data_files())
        objects_max, bytes_max = phase.archived_max()
        dates = row = None
        if objects_max and self.backend.capabilities.stores_content:
            latest = latest_date(self.retention, self.guards, self.backend.server_now)
            if latest is not None:
                dates = DateMaker(self.retention, latest)
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
        if reads and self.hosted is not None:
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
        files = self.hosted.data_files() if self.hosted is not None else None
        store_bytes = None if files is None else sum(_size(path) for path in files)
        return Fill(store_bytes, self.archived_bytes)

    def _read_lock(self, outcome: PhaseOutcome) -> None:
        """Read the first lock back: a run over locks that are not there, or not those asked for, is worth nothing."""
        self.lock_is_to_be_read = False
        retention = self.retention
        earliest = latest = retention.retain_until
        if retention.retain_for_seconds is not None:
            first = outcome.started_at + self.backend.server_now - time.time() + retention.retain_for_seconds
            earliest, latest = first - DATE_TOLERANCE_SECONDS, first + outcome.seconds + DATE_TOLERANCE_SECONDS
            promised = latest_date(retention, self.guards, self.backend.server_now)
            if promised is not None:  # COMPLIANCE dates never pass what the user accepted
                earliest, latest = min(earliest, promised), min(latest, promised)
        problem = self.backend.lock_problem(outcome.archived[0][1], earliest, latest)
        self.database.set_lock_verified(problem or "verified")
        if problem is not None:
            raise RunFailed(f"the platform did not keep the lock: {problem}")

    def _judge_temperature(self, outcome: PhaseOutcome) -> None:
        """Say whether what was retrieved came from a disk, by what its device read meanwhile."""
        read = self.sampler.device_read_bytes(outcome.start_ns, outcome.end_ns)
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
                results=outcome.results,
                intervals=outcome.intervals,
                histograms=outcome.histograms,
                archived=outcome.archived,
                errors=outcome.errors,
            )
        )
        self.database.add_samples(self.sampler.take_unstored())


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


def _check_space(hosted: HostedStore, bytes_max: int) -> None:
    free = shutil.disk_usage(hosted.data_dir).free
    if bytes_max + SPACE_RESERVE_BYTES > free:
        raise NotEnoughSpace(
            f"this run may archive up to {format_bytes(bytes_max)}, but {hosted.data_dir} has only "
            f"{format_bytes(free)} free; use --quick, fewer cells (--set object_sizes=8KiB), or another disk "
            "(ARCHIVER_HOME)"
        )


def _settings(options: RunOptions, retention: Retention, profile: PlatformProfile) -> dict[str, Any]:
    guards = options.guards
    return {
        "retention_mode": retention.mode.value,
        "retain_for_seconds": retention.retain_for_seconds,
        "retain_until": retention.retain_until,
        "legal_hold": retention.legal_hold,
        "management_class": retention.management_class,
        "max_retain_seconds": guards.max_retain_seconds,
        "max_locked_bytes": guards.max_locked_bytes,
        "accept_locked_until": guards.accept_locked_until,
        "verify": options.verify,
        "session_kind": profile.session_kind,
        "session_open": profile.session_open,
        "checksum": profile.checksum,
        "payload_signing": profile.payload_signing,
        "objects_per_transaction_max": profile.objects_per_transaction_max,
    }
