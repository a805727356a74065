"""Preparation of a trace: archive the objects that it reads but never writes, before it begins.

One idea: preparation archives in sessions and is counted like all work, but its rate is no result. If a part of it is
missing the run ends, because the client itself would cause the reads of missing objects.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from archiver.engine.work.replay.compile.compiled import CompiledTrace
from archiver.engine.worker.assignment import ReplayAssignment
from archiver.engine.worker.client import Client, Host
from archiver.engine.worker.outage import FAILED_SESSIONS_MAX
from archiver.measure.folding import Folding
from archiver.measure.histogram import Histogram
from archiver.measure.reports import StageReport
from archiver.values.record import Operation
from archiver.values.retention import Lock
from backends.base import Batch

SESSION_OBJECTS = 100
SESSION_BYTES = 32 << 20


class Preparation:
    """Archiving by one worker before the phase that needs the objects; its clients take sessions in turn."""

    def __init__(
        self, host: Host, workload: int, clients: range, sessions: Iterator[Batch], folding: Folding, whose: str
    ) -> None:
        """Prepare objects.

        ``clients``: numbers of the clients.
        ``whose``: description of the objects' owner, such as a set.
        """
        self.is_over = False
        self.whose = whose
        self._host = host
        self._workload = workload
        self._sessions = sessions
        self._ended_ns = host.start_ns
        self._clients = [_PreparingClient(host, self, number, folding) for number in clients]
        for client in self._clients:
            host.add_client(client)

    async def run(self) -> None:
        """Run until all objects are archived."""
        await asyncio.gather(*(client.run() for client in self._clients))
        self._ended_ns = time.monotonic_ns()

    def finish(self) -> None:
        """Begin no further session."""
        self.is_over = True

    def fold_lateness(self) -> None:
        """Do nothing, because a preparation has no due times."""

    def next_session(self) -> Batch | None:
        """Return the next session's batch; None if nothing is left."""
        return None if self.is_over else next(self._sessions, None)

    def report(self) -> StageReport:
        return untimed(self._workload, self._host.start_ns, self._ended_ns)


def trace_preparation(host: Host, assigned: ReplayAssignment, trace: CompiledTrace, folding: Folding) -> Preparation:
    """Return the preparation of one worker's part of the objects for a trace.

    Objects that must not be locked have sessions of their own.
    """
    first, last = assigned.preparing
    unlocked = trace.prepared_unlocked[(trace.prepared_unlocked >= first) & (trace.prepared_unlocked < last)]
    locked = np.setdiff1d(np.arange(first, last), unlocked, assume_unique=True)

    def objects(indexes: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        return ((assigned.prepared + index, int(trace.sizes[index])) for index in map(int, indexes))

    clients = range(assigned.client, assigned.client + assigned.clients)
    sessions = chain(archiving(objects(locked), None), archiving(objects(unlocked), Lock.NONE))
    return Preparation(host, assigned.workload, clients, sessions, folding, "that a trace reads")


def archiving(objects: Iterable[tuple[int, int]], lock: Lock | None) -> Iterator[Batch]:
    """Yield sessions that archive objects (number, bytes)."""
    for some in sessions_of(objects):
        yield Batch(
            (Operation.ARCHIVE,) * len(some), [number for number, _ in some], [size for _, size in some], lock=lock
        )


def sessions_of(objects: Iterable[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Yield objects (number, bytes) as sessions, each limited in objects and bytes."""
    some: list[tuple[int, int]] = []
    some_bytes = 0
    for each in objects:
        if some and (len(some) == SESSION_OBJECTS or some_bytes + each[1] > SESSION_BYTES):
            yield some
            some, some_bytes = [], 0
        some.append(each)
        some_bytes += each[1]
    if some:
        yield some


def untimed(workload: int, began_ns: int, ended_ns: int) -> StageReport:
    """Return the report of work without a schedule: its start and end."""
    return StageReport(
        workload, began_ns, ended_ns, ended_ns, ended_early=False, steps_left_out=0, due=0, started=0, waited=0,
        dropped=0, backlog_max=0, lateness=Histogram(),
    )  # fmt: skip


class _PreparingClient(Client):
    def __init__(self, host: Host, preparation: Preparation, number: int, folding: Folding) -> None:
        super().__init__(host, number, folding, SESSION_OBJECTS)
        self._preparation = preparation

    async def run(self) -> None:
        failed_sessions = missing = 0
        while (batch := self._preparation.next_session()) is not None:
            self.make_room()
            objects = await self.session(batch, time.monotonic_ns())
            missing += len(batch) - objects
            failed_sessions = 0 if objects else failed_sessions + 1
            if failed_sessions >= FAILED_SESSIONS_MAX:
                break
        if missing:
            self.gave_up = f"{missing:,} objects {self._preparation.whose} could not be archived"
            self._preparation.finish()
