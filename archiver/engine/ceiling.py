"""Ceilings of this client: the same work against a platform that does nothing.

One idea: engine, worker processes, sessions and objects are those of the run; only the server differs. The null S3
responder is a process that answers every request at once. Null sessions do nothing at all. The share of its ceiling
that a result reached shows whether the run measured the platform or the client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from archiver.engine.coordinator import ClientCeiling, Coordinator, Fill, PhaseOutcome, RunSetting
from archiver.engine.numbers import ANY_TIME, ObjectNumbers
from archiver.engine.work.mixed.shares import mix_of, share_mixes
from archiver.engine.worker.assignment import WorkerShare
from archiver.engine.workers.contract import Workers
from archiver.measure.server_usage import ServerView
from archiver.values.errors import RunFailed
from archiver.values.retention import DateMaker
from archiver.watch.sampler import ResourceSampler
from backends.s3 import null_responder
from backends.s3.setting import S3WorkerSetting
from scenarios.model import Phase
from scenarios.work.mix import WRITES_CONTENT, Mix

RESPONDER = "null S3 responder"
SESSIONS = "null sessions"

# Operations that the responder answers as a store would. It has one version of each object, and lists none.
ANSWERED = frozenset(("archive", "retrieve", "range-retrieve", "head", "copy", "delete-marker"))

WARM_UP_SECONDS_MAX = 0.5
SECONDS_MAX = 3.0  # measured time of each workload that only the clock ends; longer times give no steadier rate
TRIES_MAX = 3  # a busy machine may give the client no time within a short window
OBJECTS_PER_SECOND_MAX = 400_000  # of one worker; more than any worker reaches; bounds the object numbers to prepare


class NullPlatform(NamedTuple):
    """A platform that does nothing: its description, and the setting that workers get for it."""

    platform: str
    setting: RunSetting


def null_sessions(setting: RunSetting) -> NullPlatform:
    """Return null sessions, which do nothing: the ceiling of the engine."""
    return NullPlatform(SESSIONS, replace(_nowhere(setting), backend="null", backend_setting=None))


@contextmanager
def answered_at_once(
    setting: RunSetting, sizes: int | Sequence[tuple[int, int]], cores: Sequence[int], processes: int = 1
) -> Iterator[NullPlatform]:
    """Return the null S3 responder in place of a run's S3 platform: the ceiling of client and wire, with the run's TLS.

    ``sizes``: sizes of its objects, in the responder's notation.
    ``cores``: cores that it may use; empty for any.
    ``processes``: responder processes; several keep one process from holding up many workers.

    Raises PlatformError.
    """
    s3 = setting.backend_setting
    assert isinstance(s3, S3WorkerSetting)
    with_tls = s3.endpoints[0].startswith("https")
    with ExitStack() as stack:
        running = [stack.enter_context(null_responder.start(sizes, cores, with_tls=with_tls)) for _ in range(processes)]
        instead = replace(
            s3,
            endpoints=tuple(responder.endpoint for responder in running),
            access_key="null",
            secret_key="null",
            session_token="null" if s3.session_token is not None else None,
            bucket="null",
            prefix="null/",
            virtual_hosted=False,
            ca_bundle=str(null_responder.CERTIFICATE),
        )
        words = [
            RESPONDER,
            *(["with TLS"] if with_tls else []),
            *([] if setting.server.shares_host else ["on the client's own cores"]),
        ]
        yield NullPlatform(", ".join(words), replace(_nowhere(setting), backend="s3", backend_setting=instead))


def carry_out(
    phase: Phase,
    numbers: ObjectNumbers,
    dates: Mapping[float | None, DateMaker],
    setting: RunSetting,
    workers: Workers,
    server_now: float = 0.0,
) -> PhaseOutcome:
    """Carry out a phase without observer, ledger or server samples. Raises RunFailed."""
    coordinator = Coordinator(setting, workers, ResourceSampler([]))
    return coordinator.run_phase(phase, numbers, dates, lambda report: None, Fill(), server_now)


def measure_ceilings(
    phase: Phase,
    numbers: ObjectNumbers,
    dates: Mapping[float | None, DateMaker],
    setting: RunSetting,
    workers: Workers,
    server_cores: Sequence[int],
    server_now: float,
) -> dict[str, ClientCeiling]:
    """Return the rate that the same workers reach in each workload of a phase against a platform that does nothing.

    A measurement in which a workload finished no object is repeated. ``server_cores`` are the cores of the platform's
    server, empty if they are not known. Raises RunFailed: a failure here is the client's fault, not the platform's.
    """
    planned = phase
    phase = at_full_speed(phase, len(workers))
    shares = share_mixes(phase, deepcopy(numbers), ANY_TIME, len(workers))
    with ExitStack() as stack:
        null_platform = null_sessions(setting)
        is_near = workers.is_local  # workers of other machines cannot reach a responder of this one
        if is_near and isinstance(setting.backend_setting, S3WorkerSetting) and _can_be_answered(phase, shares):
            processes = min(len(workers), len(server_cores) or len(workers))
            null_platform = stack.enter_context(answered_at_once(setting, _sizes(shares), server_cores, processes))
        for _ in range(TRIES_MAX):
            reached = carry_out(phase, deepcopy(numbers), dates, null_platform.setting, workers, server_now)
            problem = _problem(reached)
            if problem is not None or all(each.objects for each in reached.results):
                break
    if problem is not None:
        raise RunFailed(f"{planned.label}: its ceiling could not be measured ({null_platform.platform}): {problem}")
    return {each.workload: ClientCeiling(null_platform.platform, each.objects_per_second) for each in reached.results}


def _problem(reached: PhaseOutcome) -> str | None:
    """Return why a measurement failed; None if it did not."""
    if reached.errors:
        first = reached.errors[0]
        return f"{first.operation}: {first.reason}: {first.message}"
    return reached.gave_up or reached.incomplete


def at_full_speed(phase: Phase, workers: int) -> Phase:
    """Return the same phase, limited by the client alone.

    Sessions with an arrival schedule become a closed loop, because the schedule's own rate would hide the ceiling. The
    limit of objects to archive is what the client can archive, since nothing is stored. If all workloads run for a
    known time, in parallel or in sequence, the measured time is shorter.
    """
    mixes = [mix_of(workload) for workload in phase.workloads]
    order = [mix.waits_for for mix in mixes]
    is_plain = len(set(order)) in (1, len(order)) and all(mix.is_timed and not mix.starts_seconds for mix in mixes)
    writers = sum(map(_writes, mixes))
    workloads = []
    for workload, mix in zip(phase.workloads, mixes, strict=True):
        warm_up, seconds = mix.planned_warm_up_seconds, mix.planned_seconds
        if is_plain and seconds is not None:
            warm_up = min(warm_up, WARM_UP_SECONDS_MAX)
            seconds = warm_up + min(seconds - mix.planned_warm_up_seconds, SECONDS_MAX)
        closed = replace(mix, arrivals=None, planned_warm_up_seconds=warm_up, planned_seconds=seconds, bytes_max=None)
        if seconds is not None and _writes(mix):
            closed = with_objects(closed, int(OBJECTS_PER_SECOND_MAX * workers * seconds / writers))
        workloads.append(replace(workload, work=closed))
    return replace(phase, workloads=tuple(workloads))


def with_objects(mix: Mix, objects: int) -> Mix:
    """Return a mix in a closed loop that may archive this many objects."""
    own = mix.written_per_transaction()
    aside = mix.aside
    aside_operations = mix.operations_per_transaction() * aside.per_operation if aside is not None else 0.0
    size_bytes = own * mix.sizes.mean + (aside_operations * aside.sizes.mean if aside is not None else 0.0)
    return replace(mix, bytes_max=int(objects / (own + aside_operations) * size_bytes) + 1)


def _writes(mix: Mix) -> bool:
    return bool(mix.does & WRITES_CONTENT)


def _nowhere(setting: RunSetting) -> RunSetting:
    """Return the setting with content for the null responder, without an operation log and without server samples."""
    return replace(
        setting,
        run_id=null_responder.RUN_ID,
        content_seed=null_responder.CONTENT_SEED,
        op_log_dir=None,
        server=ServerView(),
    )


def _can_be_answered(phase: Phase, shares: Sequence[WorkerShare]) -> bool:
    """Return whether the responder can answer everything that the phase does."""
    does: set[str] = set().union(*(workload.work.does for workload in phase.workloads))
    return does <= ANSWERED and not any(members.versions for share in shares for members in share.data.values())


def _sizes(shares: Sequence[WorkerShare]) -> list[tuple[int, int]]:
    """Return every object that may be requested, as (first number, bytes from that number on)."""
    known = [(data.numbers, data.sizes) for share in shares for data in share.data.values()]
    known += [new for share in shares for mix in share.mixes for new in (mix.new, mix.aside)]
    numbers = np.concatenate([each for each, _ in known])
    order = np.argsort(numbers)
    numbers, sizes = numbers[order], np.concatenate([each for _, each in known])[order]
    starts = np.flatnonzero(np.diff(sizes, prepend=-1))
    return list(zip(numbers[starts].tolist(), sizes[starts].tolist(), strict=True))
