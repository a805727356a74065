"""Whether this client can begin as many sessions as an open loop asks for, said before a run touches anything.

One idea: even sessions that do nothing cost the client something, so as many of them as it can carry out is a rate that
no platform lets it reach. A rate beyond is refused for certain; what the wire and the platform leave of it, only the
run can say.
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
CLIENTS_MAX = 16  # sessions that do nothing are over before others begin
OBJECTS = 1000  # that are there to be asked for
ARCHIVED_MAX = 100_000  # about as many as can be in that time; preparing them takes some of it
SESSIONS_MAX = 25_000
SESSIONS_MIN = 100  # of those that run out of objects before the time is over
WORKERS_IN_WORDS = "give the client more workers (--workers) or a machine with more cores"


class OfferedRates:
    """Compares what open loops ask for with what this client can do; each kind of session is measured once."""

    def __init__(self) -> None:
        self._ceilings: dict[Workload, float] = {}

    def check(self, phases: Sequence[Phase], workers: int) -> list[str]:
        """What is near the ceiling of so many workers, in words. Raises UsageError for what is beyond it."""
        warnings: dict[str, None] = {}  # each once
        for phase in phases:
            for together in _together(phase):
                shares = {each: _rate(each) / self._ceiling(each, workers) for each in together}
                share = sum(shares.values())
                if share <= SHARE_TO_WARN:
                    continue
                names = " and ".join(
                    f"workload {each.name!r} ({_rate(each):,.0f} sessions/s of {self._ceiling(each, workers):,.0f})"
                    for each in together
                )
                asks = f"{phase.label}: {names} {'asks' if len(together) == 1 else 'ask'}"
                ceiling = f"{_workers(workers)} can carry out even where nothing has to be done for a session"
                if share > 1:
                    raise UsageError(
                        f"{asks} for {share:.3g} times as many sessions as {ceiling}: lower arrivals.per_second, or "
                        f"{WORKERS_IN_WORDS}"
                    )
                warnings[f"{asks} for {share:.0%} of the sessions that {ceiling}: they may come late"] = None
        return list(warnings)

    def _ceiling(self, workload: Workload, workers: int) -> float:
        """Sessions/s of such a workload: a client is in one worker, so no more workers help than it has clients."""
        kind = _kind(workload)
        if kind not in self._ceilings:
            self._ceilings[kind] = _sessions_per_second(kind)
        return self._ceilings[kind] * min(workers, workload.clients)


def _together(phase: Phase) -> Iterator[list[Workload]]:
    """The open loops that are under way at once, whenever one of them begins. One whose begin is not known beforehand
    counts alone: what is refused is to be certain."""
    loops = [workload for workload in phase.workloads if "open loop" in workload.work.traits]
    beginnings = phase.beginnings()
    times = {loop.name: (beginnings[loop.name], loop.work.planned_seconds or 0.0) for loop in loops}
    for loop in loops:
        at, _ = times[loop.name]
        together = [loop]
        if at is not None:
            together = [
                other
                for other in loops
                if (begins := times[other.name][0]) is not None and begins <= at < begins + times[other.name][1]
            ]
        yield together


def _rate(workload: Workload) -> float:
    """Sessions/s at its busiest; a burst spread over the time to the next."""
    arrivals = _arrivals(workload)
    bursts = arrivals.burst_sessions / arrivals.every_seconds if arrivals.kind == "bursts" else 0.0
    return max(arrivals.per_second, arrivals.to_per_second or 0.0) + bursts


def _kind(workload: Workload) -> Workload:
    """What makes its sessions what they are, and nothing else; in a closed loop."""
    mix = replace(
        mix_of(workload), data="", arrivals=None, begins_seconds=0.0, warm_up_seconds=0.0, seconds=SECONDS, after=None,
        until=None, bytes_max=None, deadline_seconds=None,
    )  # fmt: skip
    if mix.aside is not None:
        mix = replace(mix, aside=replace(mix.aside, data="aside"))
    if mix.does & WRITES_CONTENT:
        written = mix.operations_per_transaction() * workload.objects_per_session * SESSIONS_MAX
        mix = with_objects(mix, min(ARCHIVED_MAX, int(written)))
    if mix.keys == "each-once":
        mix = replace(mix, keys="uniform")  # else they would soon be used up
    clients = min(workload.clients, CLIENTS_MAX)
    return replace(workload, name="", application="", copy=None, clients=clients, work=mix)


def _sessions_per_second(workload: Workload) -> float:
    """How many sessions that do nothing this process carries out."""
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
    if report.stages[0].ended_early and counted.sessions < SESSIONS_MIN:
        return inf  # there was nothing for it to do: what was not measured refuses nothing
    # By the time it had a core: whatever else keeps the machine busy now will refuse nothing, either.
    return counted.sessions / (report.cpu[-1].used_seconds - report.cpu[0].used_seconds)


def _arrivals(workload: Workload) -> Arrivals:
    arrivals = mix_of(workload).arrivals
    assert arrivals is not None
    return arrivals


def _workers(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'} of this client"
