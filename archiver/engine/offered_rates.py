"""Check before a run whether this client can begin as many sessions as an open loop requests.

One idea: even sessions that do nothing cost the client time, so their highest rate is a limit that no platform can
lift. The check refuses an offered load above that rate. The rate with a real connection and platform is lower, and only
the run can show it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from archiver.engine.ceiling import with_objects
from archiver.engine.numbers import ANY_TIME, Kept, ObjectNumbers
from archiver.engine.work.mixed.shares import mix_of, share_mixes
from archiver.engine.worker.assignment import Assignment
from archiver.engine.workers.in_process import carry_out
from archiver.values.errors import UsageError
from archiver.values.retention import DateMaker, Retention
from scenarios.model import Phase, Workload
from scenarios.work.mix import WRITES_CONTENT, Arrivals

SECONDS = 0.5
SHARE_TO_WARN = 0.7
CLIENTS_MAX = 16  # null sessions end before others begin
OBJECTS = 1000  # objects to request
ARCHIVED_MAX = 100_000  # about the most objects that null sessions archive in SECONDS; preparing them takes part of it
SESSIONS_MAX = 25_000
SESSIONS_MIN = 100  # of workloads that run out of objects before the time is over
WORKERS_IN_WORDS = "give the client more workers (--workers) or a machine with more cores"


class OfferedRates:
    """Comparison of the rates of open loops with the ceiling of this client. Each kind of session is measured once."""

    def __init__(self) -> None:
        self._ceilings: dict[Workload, float] = {}

    def warnings(self, phases: Sequence[Phase], workers: int) -> list[str]:
        """Return warnings about rates near the ceiling of this many workers. Raises UsageError for rates above it."""
        warnings: dict[str, None] = {}  # ordered, without repetitions
        for phase in phases:
            for concurrent in _concurrent_loops(phase):
                shares = {each: _rate(each) / self._ceiling(each, workers) for each in concurrent}
                share = sum(shares.values())
                if share <= SHARE_TO_WARN:
                    continue
                names = " and ".join(
                    f"workload {each.name!r} ({_rate(each):,.0f} sessions/s of {self._ceiling(each, workers):,.0f})"
                    for each in concurrent
                )
                asks = f"{phase.label}: {names} {'requests' if len(concurrent) == 1 else 'request'}"
                ceiling = f"{_workers(workers)} can carry out even if the sessions do nothing"
                if share > 1:
                    raise UsageError(
                        f"{asks} {share:.3g} times as many sessions as {ceiling}: lower arrivals.per_second, or "
                        f"{WORKERS_IN_WORDS}"
                    )
                warnings[f"{asks} {share:.0%} of the sessions that {ceiling}: sessions may begin late"] = None
        return list(warnings)

    def _ceiling(self, workload: Workload, workers: int) -> float:
        """Return the ceiling of a workload of this kind, in sessions/s.

        A client runs in one worker, so more workers than clients do not help.
        """
        kind = _kind(workload)
        if kind not in self._ceilings:
            self._ceilings[kind] = _sessions_per_second(kind)
        return self._ceilings[kind] * min(workers, workload.clients)


def _concurrent_loops(phase: Phase) -> Iterator[list[Workload]]:
    """Yield each open loop with those that run when it begins.

    An open loop whose start is not known in advance is yielded alone, because the check refuses only certain overload.
    """
    loops = [workload for workload in phase.workloads if "open loop" in workload.work.traits]
    beginnings = phase.beginnings()
    times = {loop.name: (beginnings[loop.name], loop.work.planned_seconds or 0.0) for loop in loops}
    for loop in loops:
        at, _ = times[loop.name]
        concurrent = [loop]
        if at is not None:
            concurrent = [
                other
                for other in loops
                if (begins := times[other.name][0]) is not None and begins <= at < begins + times[other.name][1]
            ]
        yield concurrent


def _rate(workload: Workload) -> float:
    """Return sessions/s at the busiest time. A burst counts as spread over the time to the next burst."""
    arrivals = _arrivals(workload)
    bursts = arrivals.burst_sessions / arrivals.every_seconds if arrivals.kind == "bursts" else 0.0
    return max(arrivals.per_second, arrivals.to_per_second or 0.0) + bursts


def _kind(workload: Workload) -> Workload:
    """Return the workload as a closed loop, with only the properties that determine the cost of its sessions."""
    mix = replace(
        mix_of(workload), data="", arrivals=None, starts_seconds=0.0, planned_warm_up_seconds=0.0,
        planned_seconds=SECONDS, waits_for=None, ends_with=None, bytes_max=None, deadline_seconds=None,
    )  # fmt: skip
    if mix.aside is not None:
        mix = replace(mix, aside=replace(mix.aside, data="aside"))
    if mix.does & WRITES_CONTENT:
        written = mix.operations_per_transaction() * workload.objects_per_session * SESSIONS_MAX
        mix = with_objects(mix, min(ARCHIVED_MAX, int(written)))
    if mix.keys == "each-once":
        mix = replace(mix, keys="uniform")  # otherwise the objects would soon be used up
    clients = min(workload.clients, CLIENTS_MAX)
    return replace(workload, name="", application="", copy=None, clients=clients, work=mix)


def _sessions_per_second(workload: Workload) -> float:
    """Return the rate of null sessions that this process reaches."""
    mix = mix_of(workload)
    phase = Phase("ceiling", 1, 1, (workload,))
    numbers = ObjectNumbers(seed=1)
    first = 0
    far = time.time() + 7200
    for size_bytes, _ in mix.sizes.classes:
        numbers.keep(Kept(size_bytes, first, first + OBJECTS - 1, far, far, mix.data))
        first += OBJECTS
    numbers.fresh(first)
    (share,) = share_mixes(phase, numbers, ANY_TIME, 1)
    dates = {workload.retain_for_seconds: DateMaker(Retention(), far)}
    counted, report = carry_out(
        Assignment(
            "null", 1, "null", None, phase, (), dates, "none", mixes=share.mixes, data=share.data, has_markers=True
        )
    )
    if not counted.sessions or (report.stages[0].ended_early and counted.sessions < SESSIONS_MIN):
        return inf  # no work for this workload, or no time on a busy machine: a missing measurement refuses nothing
    # The rate counts CPU time, so that other load on this machine causes no refusal.
    return counted.sessions / (report.cpu[-1].used_seconds - report.cpu[0].used_seconds)


def _arrivals(workload: Workload) -> Arrivals:
    arrivals = mix_of(workload).arrivals
    assert arrivals is not None
    return arrivals


def _workers(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'} of this client"
