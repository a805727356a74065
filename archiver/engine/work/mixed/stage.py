"""The time of one workload in its phase: its start, its due sessions and its end.

One idea: in a closed loop a client's next session is due when the previous one has ended. In an open loop sessions are
due by schedule, and wait while no client is free. Everything else is the same.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from archiver.engine.work.mixed.arrivals import due_times
from archiver.engine.work.mixed.batches import BatchSource
from archiver.engine.work.mixed.pacer import Pacer
from archiver.engine.work.mixed.shares import mix_of
from archiver.engine.worker.assignment import MixAssignment
from archiver.engine.worker.client import RECORDER_ROWS, Client, Host, WatchedHost
from archiver.engine.worker.stopping import NO_END_NS
from archiver.measure.folding import Folding
from archiver.measure.histogram import Histogram, part_of
from archiver.measure.reports import INTERVAL_NS, StageReport
from scenarios.model import Workload

DRAIN_NS = 10_000_000_000  # for this time after its end, an open loop still begins sessions that were due before it


class Stage:
    """One workload in one worker."""

    def __init__(
        self,
        host: Host,
        pacer: Pacer,
        workload: Workload,
        begins_seconds: float | None,
        assignment: MixAssignment,
        batch_source: BatchSource,
    ) -> None:
        """Make the stage of one workload.

        ``begins_seconds``: seconds after the phase's start; None if the stage waits for the end of another stage.
        """
        self._host = host
        self._pacer = pacer
        self._mix = mix_of(workload)
        self._assignment = assignment
        self._planned_seconds = begins_seconds
        self.batch_source = batch_source
        self.over = asyncio.Event()
        self._finished = asyncio.Event()
        self.clients: list[StageClient] = []
        self.has_begun = False  # a client has had a session
        self._loop = asyncio.get_running_loop()
        self._end_ns = NO_END_NS
        self.measured_from_ns = self.measured_to_ns = NO_END_NS
        self._ended_ns = 0
        self._ended_early = False
        # Fields of an open loop:
        self._idle: deque[asyncio.Future[int | None]] = deque()
        self._backlog: deque[int] = deque()
        self._no_more = False
        self._due = self._started = self._waited = self._dropped = self._backlog_max = 0
        self._lateness_ns: list[int] = []

    async def run(self, stages: Mapping[str, Stage]) -> None:
        """Wait for the start, let the clients work, and end the stage."""
        mix = self._mix
        if mix.waits_for is not None and mix.waits_for in stages:
            await stages[mix.waits_for].over.wait()
        planned_ns = time.monotonic_ns() + int(mix.starts_seconds * 1e9)
        if self._planned_seconds is not None:
            planned_ns = self._host.start_ns + int(self._planned_seconds * 1e9)
        await self._sleep_until(planned_ns)
        now_ns = time.monotonic_ns()
        if self._host.is_finishing:
            self.measured_from_ns = self.measured_to_ns = self._ended_ns = now_ns
            self.over.set()
            return
        began_ns = now_ns if now_ns - planned_ns > INTERVAL_NS else planned_ns
        if mix.planned_seconds is not None:
            self._end_ns = began_ns + int(mix.planned_seconds * 1e9)
        self.measured_from_ns = began_ns + int(mix.planned_warm_up_seconds * 1e9)
        self.measured_to_ns = self._end_ns
        other = stages.get(mix.ends_with) if mix.ends_with is not None else None
        follower = asyncio.create_task(self._follow(other)) if other is not None else None
        try:
            clients = asyncio.gather(*(client.run() for client in self.clients))
            if mix.arrivals is not None:
                await asyncio.sleep(0)  # all clients wait for a session before the first is due
                self._schedule(began_ns)
            await clients
        finally:
            if follower is not None:
                follower.cancel()
            self._no_more = True
            self._ended_ns = time.monotonic_ns()
            if mix.arrivals is None:  # the time of an open loop includes times without due sessions
                self.measured_to_ns = min(self.measured_to_ns, self._ended_ns)
            self.measured_to_ns = max(self.measured_from_ns, self.measured_to_ns)
            self.over.set()

    def finish(self) -> None:
        """Begin no further session."""
        self._end_ns = min(self._end_ns, time.monotonic_ns())
        self.measured_to_ns = min(self.measured_to_ns, self._end_ns)
        self._drop_backlog()
        self._close()
        self._finished.set()

    def ran_out(self) -> None:
        """End the stage because no object is left to archive or to read.

        Otherwise the load would no longer be the offered load.
        """
        now_ns = time.monotonic_ns()
        if self._mix.planned_seconds is not None and now_ns < self._end_ns:
            self._ended_early = True
            self.finish()

    async def _sleep_until(self, planned_ns: int) -> None:
        """Sleep until this time, or until the stage has to finish. The loop's timers may fire a millisecond early."""
        while not self._finished.is_set() and (seconds := (planned_ns - time.monotonic_ns()) / 1e9) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._finished.wait(), seconds)

    async def next_due(self) -> int | None:
        """Return when a client's next session is due, after waiting for it in an open loop; None if there is none."""
        now_ns = time.monotonic_ns()
        if self._mix.arrivals is None:
            return now_ns if now_ns < self._end_ns else None
        if now_ns > self._end_ns + DRAIN_NS:
            self._drop_backlog()
        if self._backlog:
            due_ns = self._backlog.popleft()
            self._started += self._counts(due_ns)
            return due_ns
        if self._no_more:
            return None
        arrival: asyncio.Future[int | None] = self._loop.create_future()
        self._idle.append(arrival)
        due = await arrival
        if due is not None and self._counts(due):
            self._lateness_ns.append(time.monotonic_ns() - due)
        return due

    def never_begun(self, due_ns: int) -> None:
        """Record a session that was assigned to a client but not begun, because no object was left."""
        if self._mix.arrivals is not None:
            counts = self._counts(due_ns)
            self._started -= counts
            self._dropped += counts

    def report(self) -> StageReport:
        lateness = Histogram()
        if self._lateness_ns:
            lateness.add(part_of(np.array(self._lateness_ns, dtype=np.int64)))
        return StageReport(
            self._assignment.workload,
            self.measured_from_ns,
            self.measured_to_ns,
            self._ended_ns,
            self._ended_early,
            self.batch_source.steps_left_out,
            self._due,
            self._started,
            self._waited,
            self._dropped,
            self._backlog_max,
            lateness,
        )

    def _schedule(self, begin_ns: int) -> None:
        mix, assigned = self._mix, self._assignment
        assert mix.arrivals is not None
        assert mix.planned_seconds is not None
        due = due_times(mix.arrivals, mix.planned_seconds, assigned.arrivals_seed, assigned.part, assigned.parts)
        # The memory view yields plain integers without a list of them.
        self._pacer.start((due + begin_ns).data, self._arrive, self._close)

    def _arrive(self, due_ns: int) -> None:
        """Assign a due session to a free client."""
        if self._no_more:
            return
        self._forget_cancelled()
        counts = self._counts(due_ns)
        self._due += counts
        if self._idle:
            self._started += counts
            self._idle.popleft().set_result(due_ns)
        elif self._mix.arrivals is not None and len(self._backlog) < self._mix.arrivals.backlog_max:
            self._waited += counts
            self._backlog.append(due_ns)
            self._backlog_max = max(self._backlog_max, len(self._backlog))
        else:
            self._dropped += counts

    def _counts(self, due_ns: int) -> bool:
        """Return whether the session is due in the measured time; otherwise it is warm-up."""
        return due_ns >= self.measured_from_ns

    def _drop_backlog(self) -> None:
        """Drop all waiting sessions."""
        self._dropped += sum(map(self._counts, self._backlog))
        self._backlog.clear()

    def _close(self) -> None:
        """End the schedule, and release all clients that wait for a session."""
        self._no_more = True
        while self._idle:
            self._forget_cancelled()
            if self._idle:
                self._idle.popleft().set_result(None)

    def _forget_cancelled(self) -> None:
        """Remove clients that no longer wait because the run ended early."""
        while self._idle and self._idle[0].done():
            self._idle.popleft()

    async def _follow(self, other: Stage) -> None:
        await other.over.wait()
        self.finish()


class StageClient(Client):
    """Client whose sessions are timed by its stage and filled by its source of batches."""

    def __init__(
        self,
        host: WatchedHost,
        stage: Stage,
        number: int,
        folding: Folding,
        workload: Workload,
        rows: int = RECORDER_ROWS,
    ) -> None:
        super().__init__(host, number, folding, stage.batch_source.batch_max, rows)
        self._stage = stage
        self._outage = host.outage
        mix = mix_of(workload)
        self._is_open_loop = mix.arrivals is not None
        self._data = mix.data
        self._makes_data = mix.objects is not None or mix.fill is not None

    async def run(self) -> None:
        stage, batch_source = self._stage, self._stage.batch_source
        while (due_ns := await stage.next_due()) is not None:
            if self._host.is_finishing:
                stage.never_begun(due_ns)
                return
            batch = batch_source.batch(self.number, due_ns if self._is_open_loop else None)
            if batch is None:
                stage.never_begun(due_ns)
                if not stage.has_begun and not self._makes_data:
                    self.gave_up = f"data set {self._data!r} has no object for it"
                stage.ran_out()
                return
            stage.has_begun = True
            self.make_room()
            first_row, uncertain, began_ns = self.record.used, self.record.uncertain, time.monotonic_ns()
            objects = await self.session(batch, due_ns)
            batch_source.settle(batch, self.record, first_row)
            if objects < len(batch):
                batch_source.give_back(batch, self.without_effect(batch, first_row, uncertain))
            await self._outage.session_ended(self.record, self.times, objects, began_ns)
