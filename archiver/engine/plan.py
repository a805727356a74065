"""The plan of a run: all facts that are known before the run touches anything, and all checks made then.

One idea: making a plan queries the platform for its capabilities and checks the guards. After that, the engine refuses
no choice of the user.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from archiver.engine.client_limits import make_room, port_warning
from archiver.engine.earlier import EarlierObjects
from archiver.engine.numbers import LOCKED_RESERVE_SECONDS
from archiver.engine.offered_rates import OfferedRates
from archiver.engine.probing import probed_max
from archiver.engine.request import Poll, RunRequest
from archiver.engine.work.replay.infrastructure import refusal
from archiver.engine.workers.contract import Cluster
from archiver.machine.cores import Cores, cores_here, have_cores_of_their_own
from archiver.measure.server_usage import ServerView
from archiver.platforms.hosted import HostedStore
from archiver.values.clock import now_seconds
from archiver.values.errors import NotEnoughSpace, SafetyRefused, UsageError
from archiver.values.platform import PlatformProfile
from archiver.values.retention import (
    BUCKET_DEFAULT_SECONDS,
    Guards,
    Lock,
    Retention,
    RetentionMode,
    check,
    check_clock,
    latest_date,
)
from archiver.values.sizes import format_bytes, format_duration, format_instant
from archiver.watch.choosing import WatchedPlatform, WatchOptions, watch_sources
from archiver.watch.source import Source
from backends.base import Backend, Capabilities, HasCredentials, RunPlan
from scenarios.model import Scenario, archived_by_phase, archived_max
from scenarios.work.base import Archived
from scenarios.work.infrastructure import Infrastructure
from scenarios.work.mix import EVENT_HOLDS

SPACE_RESERVE_BYTES = 1 << 30
# Operations that leave something locked. The release of an event hold sets a date.
LOCKING = ("archive", "extend", "hold", "copy", "new-version", "event-hold", "event-release")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The request, and what was opened and read for it."""

    request: RunRequest
    command_line: list[str]
    out_dir: Path
    watch: WatchOptions
    objects_from: EarlierObjects | None = None  # read these objects and archive nothing
    cluster: Cluster | None = None  # cluster that carries the run out; None: processes of this machine


def new_run_id() -> str:
    """Return a unique id that sorts by time, to a quarter of a millisecond, and is valid in a bucket name."""
    seconds, fraction_ns = divmod(time.time_ns(), 10**9)
    fraction = fraction_ns * 4096 // 10**9
    return f"{time.strftime('%Y%m%dt%H%M%S', time.gmtime(seconds))}-{fraction:03x}{secrets.randbelow(4096):03x}"


@dataclass(frozen=True, slots=True)
class Plan:
    """One run, with all that is known before anything is touched. All checks are made when the plan is made."""

    scenario: Scenario
    backend: Backend
    hosted: HostedStore | None
    options: RunOptions
    profile: PlatformProfile
    retention: Retention
    archived_by_phase: tuple[Archived, ...]  # upper bounds; for a search, those of its first step
    last_step_max: Archived  # upper bound of a search's largest step; without a search nothing
    latest_dates: Mapping[Retention, float | None]  # by retention of archived objects; None: it sets no date
    probes_max: tuple[int, int]  # upper bound of (objects, bytes) archived before phases, to read their locks back
    run_id: str
    workers: int
    worker_cores: list[int]
    polls_busily: bool  # the workers poll busily; otherwise they sleep until an answer comes
    server_cores: list[int]  # left to a platform on this host; empty: it shares the workers' cores, or is elsewhere
    sources: list[Source]
    server: ServerView

    @property
    def archived_max(self) -> tuple[int, int]:
        """Upper bound of (objects, bytes) that the run archives, probe objects included.

        For a search, this is the bound of its first step.
        """
        objects, size_bytes = self.phases_archive_max
        return objects + self.probes_max[0], size_bytes + self.probes_max[1]

    @property
    def phases_archive_max(self) -> tuple[int, int]:
        """Upper bound of (objects, bytes) that the phases archive, without probe objects."""
        archived = self.archived_by_phase
        return sum(each.objects for each in archived), sum(each.bytes for each in archived)

    @property
    def workers_at_once(self) -> int:
        """Return the number of workers that have a core."""
        cluster = self.options.cluster
        return (
            self.workers if cluster is not None and not cluster.is_local else min(self.workers, len(self.worker_cores))
        )

    @property
    def pinned_cores(self) -> list[int]:
        """Return the cores that workers are pinned to.

        Empty if the workers have the whole machine, or run elsewhere.
        """
        return self.worker_cores if self.profile.shares_host and self.options.cluster is None else []


def make_plan(
    scenario: Scenario,
    backend: Backend,
    hosted: HostedStore | None,
    options: RunOptions,
    run_id: str,
    platforms: int = 1,
    locked_before_bytes: int = 0,
    *,
    whole: Scenario | None = None,
) -> Plan:
    """Query the platform, check the guards and return the plan. Raises UsageError and PlatformError.

    ``locked_before_bytes`` are the bytes that a resumed run has archived already. ``whole`` is the scenario with its
    finished phases, too; None: ``scenario`` has them all.
    """
    capabilities, whole = backend.capabilities, whole or scenario
    if options.request.retention.legal_hold and not (capabilities.legal_hold or whole.places_legal_holds):
        raise UsageError(f"--legal-hold: the {backend.name} backend does not offer it")
    if options.request.retention.event_hold_days is not None and not capabilities.event_hold:
        raise UsageError(f"--event-hold: the {backend.name} backend does not offer it")
    profile = backend.profile()
    earlier = options.objects_from
    retention = earlier.retention if earlier is not None else backend.retention_for(options.request.retention)
    if whole.does("event-hold"):
        retention = replace(retention, event_hold_by_operation=True)
    if retention.mode is not RetentionMode.NONE and retention.mode.value not in capabilities.retention_modes:
        raise UsageError(f"--retention-mode {retention.mode.value}: the {backend.name} backend does not offer it")
    for workload in scenario.workloads:
        if isinstance(workload.work, Infrastructure):
            refused = refusal(workload.work, backend, locks=retention.mode is not RetentionMode.NONE)
            if refused is not None:
                raise UsageError(f"{scenario.name}: {refused}")
    if whole.places_legal_holds and capabilities.stores_content:
        _check_legal_holds(whole.name, options.request.retention.legal_hold)
        retention = replace(retention, legal_hold=False)  # only what the scenario says is placed under a hold
    check_credentials(scenario, backend, platforms)
    check_offered(scenario, backend.name, capabilities, retention)
    probes = probed_max(scenario.phases, len(profile.endpoints)) if capabilities.stores_content else (0, 0)
    archived, last_step_max = tuple(archived_by_phase(scenario.phases)), archived_max(scenario.last_step)
    retentions, uses_rule = scenario.retentions(retention), scenario.uses_lock(Lock.BUCKET_DEFAULT)
    guards, server_now = options.request.guards, backend.server_now
    if any(scenario.does(each) for each in LOCKING):  # otherwise nothing is locked
        accepted = options.request.accepts_server_clock
        check_clock(profile.server_clock_offset_seconds, now_seconds(), accepted=accepted)
        locked_bytes = (sum(each.bytes for each in archived) + probes[1]) * platforms + locked_before_bytes
        if uses_rule:
            _check_rule(scenario.name, retention, guards)
        for each in (retention, *retentions):
            check(each, guards, locked_bytes, server_now)
    latest_dates = {each: latest_date(each, guards, server_now) for each in retentions}
    cores = cores_here(shares_host=profile.shares_host and options.cluster is None)
    workers = len(options.cluster) if options.cluster is not None else _workers(options, scenario, cores.workers)
    if options.cluster is None:
        clients = max((phase.clients for phase in scenario.phases), default=0)
        make_room(clients, workers, len(profile.endpoints), threads=profile.protocol == "tsm")
    watched = WatchedPlatform(
        endpoints=(hosted.endpoint,) if hosted is not None else profile.endpoints if profile.protocol == "s3" else (),
        is_minio=backend.name == "minio",
        shares_host=profile.shares_host,
        pid=hosted.pid if hosted is not None else None,
        platform=hosted.platform if hosted is not None else None,
        is_one_of_several=platforms > 1,
        client_is_here=options.cluster is None or options.cluster.is_local,
    )
    devices = options.request.devices
    roles = hosted.disk_roles() if hosted is not None else {}
    return Plan(
        scenario=scenario,
        backend=backend,
        hosted=hosted,
        options=options,
        profile=profile,
        retention=retention,
        archived_by_phase=archived,
        last_step_max=last_step_max,
        latest_dates=latest_dates,
        probes_max=probes,
        run_id=run_id,
        workers=workers,
        worker_cores=cores.workers,
        polls_busily=profile.protocol == "s3"
        and polls_busily(
            options.request.poll,
            workers,
            cores,
            shares_host=profile.shares_host,
            is_cluster=options.cluster is not None,
        ),
        server_cores=cores.server,
        sources=watch_sources(options.watch, watched),
        server=ServerView(
            shares_host=profile.shares_host,
            client_cores=cores.workers if profile.shares_host and options.cluster is None else (),
            disk_roles={**roles, **devices.disk_roles},
            disk_speeds=devices.disk_speeds,
            link_speed_bytes_per_second=devices.link_speed_bytes_per_second,
        ),
    )


def check_credentials(scenario: Scenario, backend: Backend, platforms: int = 1) -> None:
    """Refuse a run that may last longer than temporary credentials.

    Credentials that cannot be renewed must last for the whole run. Others must last for its longest phase, because
    workers get new credentials between phases. Raises UsageError and PlatformError.
    """
    if not isinstance(backend, HasCredentials):
        return
    longest = max((phase.seconds_max for phase in scenario.phases), default=0.0)
    seconds = platforms * sum(phase.seconds_max for phase in scenario.phases)
    term, now = backend.refresh_credentials(seconds), now_seconds()
    planned = now + seconds
    if term.ends_at is None or term.ends_at >= (now + longest if term.is_renewable else planned):
        return
    ends = f"{scenario.name}: the credentials end at {format_instant(term.ends_at)}"
    if term.is_renewable:
        raise UsageError(
            f"{ends}, but a phase may last {format_duration(longest)}, and workers get new ones only between phases; "
            "have them last longer (duration_seconds of the profile), or measure shorter phases"
        )
    raise UsageError(
        f"{ends} and cannot be refreshed, but the run may last until {format_instant(planned)}; get new ones, use a "
        "profile that can be refreshed, or measure less"
    )


def _workers(options: RunOptions, scenario: Scenario, cores: Sequence[int]) -> int:
    """Return the number of worker processes: as requested, or one per core, but at most what a phase can use."""
    wanted = options.request.workers or len(cores)
    if scenario.search is not None:
        return wanted  # later steps may have more clients
    return min(wanted, max((phase.workers_max for phase in scenario.phases), default=wanted))


def polls_busily(poll: Poll, workers: int, cores: Cores, *, shares_host: bool, is_cluster: bool) -> bool:
    """Return whether the workers poll busily.

    By default they do so only if that takes no CPU time from a server on this host, from the coordinator or from each
    other. On the machines of a cluster this is not known, so workers there sleep by default.

    Raises UsageError if the user requests it and the workers do not have a core each.
    """
    if poll == "busy" and not is_cluster and (workers > len(cores.workers) or (shares_host and not cores.server)):
        raise UsageError(
            f"--poll busy: each of {workers} worker(s) needs a core that nothing else uses, but the workers have "
            f"{len(cores.workers)}{'' if cores.server or not shares_host else ', which the platform shares'}; leave "
            "out --poll"
        )
    if poll == "auto":
        return not shares_host and not is_cluster and have_cores_of_their_own(workers, cores.workers)
    return poll == "busy"


def _check_legal_holds(scenario: str, has_consent: bool) -> None:
    """Refuse legal holds without consent, because they have no end."""
    if not has_consent:
        raise SafetyRefused(
            f"{scenario}: it places legal holds, which have no end until their release (archiver cleanup "
            "--release-holds); consent to them: --legal-hold"
        )


def _check_rule(scenario: str, retention: Retention, guards: Guards) -> None:
    """Check the bucket's default retention rule, which counts in days and sets dates that no consent can bound."""
    leave_out = "leave lock bucket-default out: --set archive.locks=none,header,separate,header-and-hold"
    if retention.mode is RetentionMode.COMPLIANCE:
        raise SafetyRefused(
            f"{scenario}: a bucket's default retention sets dates that --accept-locked-until cannot bound, so mode "
            f"COMPLIANCE does not use it; {leave_out}"
        )
    if guards.max_retain_seconds < BUCKET_DEFAULT_SECONDS:
        raise SafetyRefused(
            f"{scenario}: a bucket's default retention counts in days, so it locks objects for "
            f"{format_duration(BUCKET_DEFAULT_SECONDS)}, longer than --max-retain "
            f"{format_duration(guards.max_retain_seconds)}; allow it with --max-retain 25h, or {leave_out}"
        )


def check_offered(scenario: Scenario, backend: str, capabilities: Capabilities, retention: Retention) -> None:
    """Refuse operations and locks that the backend does not offer, or that make no sense without a lock."""
    offered = [operation.label for operation in capabilities.operations]
    for workload in scenario.workloads:
        for operation in sorted(workload.work.does - {"audit", *offered}):
            raise UsageError(
                f"{scenario.name}: the {backend} backend does not offer {operation!r}; it has {', '.join(offered)}"
            )
        if (
            workload.retain_for_seconds is not None
            and not workload.work.may_leave_out
            and retention.mode is RetentionMode.CLASS
        ):
            raise UsageError(f"{scenario.name}: retain_for: a management class decides how long objects are locked")
        for lock in workload.locks - {None, *capabilities.locks}:
            raise UsageError(f"{scenario.name}: the {backend} backend does not offer lock {str(lock)!r}")
    if retention.event_hold_days is None and any(workload.work.does & EVENT_HOLDS for workload in scenario.workloads):
        raise UsageError(
            f"{scenario.name}: its operations place or release event holds, which have no end until their release; "
            "consent to them, and to the period that a release starts: --event-hold 1d --max-retain 1d"
        )
    _check_replays(scenario, retention)
    if retention.mode is RetentionMode.NONE and any(
        workload.lock is not None or workload.work.does & {"query", "extend", "refused-delete", "delete"}
        for workload in scenario.workloads
    ):
        raise UsageError(f"{scenario.name} measures locks, so --retention-mode none leaves nothing to measure")


def _check_replays(scenario: Scenario, retention: Retention) -> None:
    """Refuse a trace with refused deletions if the run's locks could end before these deletions."""
    if retention.retain_for_seconds is None:
        return
    for phase in scenario.phases:
        refusing = any("replay" in each.work.traits and "refused-delete" in each.work.does for each in phase.workloads)
        locked_seconds = phase.seconds_max + LOCKED_RESERVE_SECONDS
        if refusing and retention.retain_for_seconds < locked_seconds:
            raise UsageError(
                f"{scenario.name}: the trace has deletions that a lock refused, and locks of "
                f"{format_duration(retention.retain_for_seconds)} may end before these deletions: use --retain-for "
                f"{format_duration(locked_seconds)} or more, or leave the deletions out with archiver trace cut "
                "--operations"
            )


def make_plans(
    scenario: Scenario, platforms: Sequence[tuple[Backend, HostedStore | None]], options: RunOptions
) -> tuple[list[Plan], list[str]]:
    """Return the plan of a scenario on each platform, and warnings.

    This function makes all checks that are possible in advance; ``archiver run`` and its ``--dry-run`` share it. It
    queries the platforms and changes nothing on them. Raises UsageError and PlatformError.
    """
    if scenario.search is not None and len(platforms) > 1:
        raise UsageError(
            f"{scenario.name}: each platform has its own edge, so a search takes one platform; name one --platform"
        )
    plans = [
        make_plan(scenario, backend, hosted, options, new_run_id(), len(platforms)) for backend, hosted in platforms
    ]
    for plan in plans:
        _check_existing_place(plan)
    check_space([plan.hosted for plan in plans if plan.hosted is not None], max(p.archived_max[1] for p in plans))
    warnings = OfferedRates().warnings(scenario.phases, min(plan.workers_at_once for plan in plans))
    return plans, [*warnings, *(warning for plan in plans for warning in port_warnings(plan))]


def _check_existing_place(plan: Plan) -> None:
    """Refuse a bucket of the user that this run may not use. The run's own bucket does not exist yet."""
    backend, earlier = plan.backend, plan.options.objects_from
    if earlier is not None or not backend.capabilities.stores_content:
        return
    location = backend.locate(run_plan(plan))
    if location.bucket_created:
        return
    if plan.scenario.uses_lock(Lock.BUCKET_DEFAULT):
        raise UsageError(
            f"--bucket {location.bucket}: this scenario sets a bucket's default retention, which it may do only on a "
            "bucket that the run made; leave out --bucket, or leave out this lock: --set "
            "archive.locks=none,header,separate"
        )
    backend.check_place(run_plan(plan))


def run_plan(plan: Plan, rule: Retention | None = None) -> RunPlan:
    """Return what a backend must know about a run. ``rule`` is the default rule that the run itself has set."""
    unlocked = any(plan.scenario.uses_lock(lock) for lock in (Lock.NONE, Lock.SEPARATE))
    return RunPlan(plan.run_id, plan.retention, archives_unlocked=unlocked, rule=rule)


def port_warnings(plan: Plan) -> list[str]:
    """Return warnings if this machine may have too few local ports for a run's sessions."""
    if plan.options.cluster is not None or plan.profile.session_kind != "opened":
        return []
    warning = port_warning(plan.scenario.phases, plan.profile.endpoints)
    return [warning] if warning is not None else []


def check_space(stores: Sequence[HostedStore], bytes_max: int) -> None:
    """Check that each store has ``bytes_max`` free. Stores on one file system share its free space.

    Raises NotEnoughSpace.
    """
    together = Counter(os.stat(store.data_dir).st_dev for store in stores)
    for store in stores:
        free = shutil.disk_usage(store.data_dir).free
        wanted = bytes_max * together[os.stat(store.data_dir).st_dev]
        if wanted + SPACE_RESERVE_BYTES > free:
            raise NotEnoughSpace(
                f"this may archive up to {format_bytes(wanted)}, but {store.data_dir} has only {format_bytes(free)} "
                "free; use --quick, fewer cells (--set object_sizes=8KiB), fewer platforms, with archiver bench a "
                "lower --max-locked-bytes, or another disk (ARCHIVER_HOME)"
            )
