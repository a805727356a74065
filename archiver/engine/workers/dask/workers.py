"""The coordinator's end of workers on a Dask cluster.

One idea: a phase is a task for each worker, bound to that worker and never retried. Before the start the coordinator
reads every worker's clock over the path of the start message. All workers then begin at one instant, and the instants
of each can be converted to the coordinator's clock. Half of the quickest of seven round trips bounds the error of a
clock; the start is four of the slowest trips ahead. A retried phase would archive twice.
"""

from __future__ import annotations

import pickle
import time
import uuid
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from archiver.engine.worker.assignment import Assignment
from archiver.engine.workers.contract import IfLost, OnReport, lost_words
from archiver.engine.workers.contract import Start as GiveStart
from archiver.engine.workers.dask.channel import (
    Alive,
    Begun,
    Finish,
    Ready,
    Sealed,
    Start,
    Stop,
    Word,
    WorkerMessage,
    carry_out,
    deliver,
    mailbox_name,
)
from archiver.engine.workers.dask.connection import Connection
from archiver.machine import interruption
from archiver.measure.reports import Carried, ClockOffset, IntervalReport, PhaseReport, WorkerPlace
from archiver.values.errors import RunFailed

CLOCK_SECONDS_MAX = 60.0  # for the clocks of all workers
CLOCK_READINGS = 7  # clock readings per worker; the quickest is used
START_DELAY_NS_MIN = 100_000_000
START_DELAY_TRIPS = 4  # round trips; by then even a slow message has arrived
LOOK_SECONDS = 1.0  # between two checks for lost workers
ALIVE_SECONDS = 5.0  # between two signs of life to the workers
BEGIN_SECONDS_MAX = 60.0  # for a worker to take up its part
DRAIN_SECONDS_MAX = 10.0  # for final reports if a phase is interrupted
DELIVERIES_AT_ONCE = 16


@dataclass(slots=True)
class _Phase:
    """One phase in progress."""

    name: str
    inbox: SimpleQueue[tuple[int, bytes]]
    carried: Carried
    places: list[WorkerPlace]
    tasks: dict[int, Any]  # Dask's futures of workers that have not ended
    began: float
    begun: set[int] = field(default_factory=set)
    ready: set[int] = field(default_factory=set)
    alive: dict[int, Future[int | None]] = field(default_factory=dict)  # by worker, the last sign of life to it
    is_started: bool = False
    failure: str | None = None

    def now_ready(self, worker: int) -> None:
        self.ready.add(worker)
        self.carried.prepared_seconds[worker] = time.monotonic() - self.began

    def may_start(self) -> bool:
        return bool(self.tasks) and not self.is_started and self.failure is None and self.ready >= self.tasks.keys()


class DaskWorkers:
    """The workers of one run; each is a process of the cluster."""

    def __init__(self, connection: Connection, places: Sequence[WorkerPlace], *, is_local: bool, if_lost: IfLost):
        self.is_local = is_local
        self._connection = connection
        self._places = list(places)
        self._if_lost = if_lost
        self._deliveries = ThreadPoolExecutor(DELIVERIES_AT_ONCE, thread_name_prefix="archiver-dask")

    def __len__(self) -> int:
        return len(self._places)

    @interruption.deferred()  # an exception of a signal could leave the inbox locked
    def run(self, assignments: Sequence[Assignment], start: GiveStart, on_report: OnReport) -> Carried:
        """Carry out one phase on as many workers as there are assignments; see ``Workers`` in ``contract``."""
        name = uuid.uuid4().hex
        places = self._places[: len(assignments)]
        with self._connection.inbox(name) as inbox:
            carried = Carried(places=dict(enumerate(places)))
            phase = _Phase(name, inbox, carried, places, {}, time.monotonic())
            try:
                phase.tasks.update((n, self._submit(phase, n, each)) for n, each in enumerate(assignments))
                self._go_through(phase, start, on_report)
            except KeyboardInterrupt:
                self._drain(phase, on_report)
                raise
            finally:
                self._forget(phase)
        if phase.failure is None and not carried.reports:
            phase.failure = lost_words(carried)
        if phase.failure is not None:
            raise RunFailed(phase.failure)
        return carried

    def close(self) -> None:
        """Release the workers: they belong to the cluster."""
        self._deliveries.shutdown(wait=False, cancel_futures=True)

    def _submit(self, phase: _Phase, worker: int, assignment: Assignment) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # object numbers of a large phase
            return self._connection.client.submit(
                carry_out, phase.name, worker, Sealed(assignment), key=f"archiver-{phase.name}-{worker}",
                workers=[phase.places[worker].name], allow_other_workers=False, pure=False, retries=0,
            )  # fmt: skip

    def _go_through(self, phase: _Phase, start: GiveStart, on_report: OnReport) -> None:
        looked = alive = time.monotonic()
        while phase.tasks:
            interruption.check()
            try:
                worker, data = phase.inbox.get(timeout=LOOK_SECONDS / 4)
            except Empty:
                pass
            else:
                self._handle(phase, worker, pickle.loads(data), on_report)
            if phase.may_start():
                self._start(phase, start)
            now = time.monotonic()
            if now - looked >= LOOK_SECONDS:
                looked = now
                self._look(phase)
            if now - alive >= ALIVE_SECONDS:
                alive = now
                self._say_alive(phase)
            if phase.failure is not None:
                self._drain(phase, on_report)
                return

    def _handle(self, phase: _Phase, worker: int, message: WorkerMessage, on_report: OnReport) -> None:
        if worker not in phase.tasks:
            return  # late message of a lost worker
        if isinstance(message, Begun):
            if worker in phase.begun:  # its process died, and Dask restarted the task at its address
                self._send(phase, [worker], Stop())
                self._lose(phase, worker, "was restarted")
            phase.begun.add(worker)
        elif isinstance(message, Ready):
            phase.now_ready(worker)
        elif isinstance(message, IntervalReport):
            message.worker = worker
            if on_report(message) is False:
                self._send(phase, phase.tasks, Finish())
        elif isinstance(message, PhaseReport):
            report = (
                message.moved(-phase.carried.clocks[worker].offset_ns) if worker in phase.carried.clocks else message
            )
            report.worker = worker
            phase.carried.reports.append(report)
            phase.tasks.pop(worker).release()
        else:
            phase.failure = phase.failure or message.text
            phase.tasks.pop(worker).release()

    def _start(self, phase: _Phase, start: GiveStart) -> None:
        """Read all clocks, and send every worker the start instant on its own clock."""
        phase.is_started = True
        readings = {worker: self._deliveries.submit(self._read_clock, phase, worker) for worker in phase.tasks}
        wait(readings.values(), timeout=CLOCK_SECONDS_MAX)
        for worker, reading in readings.items():
            clock = reading.result() if reading.done() else None
            if clock is not None:
                phase.carried.clocks[worker] = clock
            elif not reading.done():
                self._lose(phase, worker, "does not answer")
        slowest_ns = max((2 * clock.error_ns for clock in phase.carried.clocks.values()), default=0)
        start_ns = start(max(START_DELAY_NS_MIN, START_DELAY_TRIPS * slowest_ns))
        for worker, clock in phase.carried.clocks.items():
            self._send(phase, [worker], Start(start_ns + clock.offset_ns))

    def _read_clock(self, phase: _Phase, worker: int) -> ClockOffset | None:
        """Return the quickest of some clock readings; None if the worker is gone."""
        best: ClockOffset | None = None
        for _ in range(CLOCK_READINGS):
            sent_ns = time.monotonic_ns()
            read_ns = self._deliver(phase, worker, Alive())
            error_ns = (time.monotonic_ns() - sent_ns + 1) // 2
            if read_ns is not None and (best is None or error_ns < best.error_ns):
                best = ClockOffset(read_ns - sent_ns - error_ns, error_ns)
        return best

    def _say_alive(self, phase: _Phase) -> None:
        """Send a sign of life to each worker that has received the previous one.

        A worker that hangs must not delay the others.
        """
        for worker in phase.tasks:
            last = phase.alive.get(worker)
            if last is None or last.done():
                phase.alive[worker] = self._deliveries.submit(self._deliver, phase, worker, Alive())

    def _send(self, phase: _Phase, workers: Iterable[int], word: Word) -> list[Future[int | None]]:
        """Send a message to workers without waiting for its delivery."""
        return [self._deliveries.submit(self._deliver, phase, worker, word) for worker in list(workers)]

    def _deliver(self, phase: _Phase, worker: int, word: Word) -> int | None:
        """Put a message into a worker's mailbox; return the worker's clock, or None if the worker is gone."""
        address = phase.places[worker].name
        return self._connection.ask(address, deliver, mailbox_name(phase.name, worker), word)

    def _look(self, phase: _Phase) -> None:
        """Find workers that are gone, and workers that never began."""
        addresses = self._connection.addresses()
        if addresses is None:
            phase.failure = (
                f"the Dask scheduler at {self._connection.address} went away; the phases that had finished are saved"
            )
            return
        late = time.monotonic() - phase.began > BEGIN_SECONDS_MAX
        for worker, task in list(phase.tasks.items()):
            place = phase.places[worker]
            if place.name not in addresses or task.status in ("error", "lost", "cancelled"):
                self._lose(phase, worker, "was lost")
            elif late and worker not in phase.begun:
                phase.failure = (
                    f"Dask worker {place.name} on {place.host} did not begin its part within {BEGIN_SECONDS_MAX:.0f} "
                    "s: its threads are busy with other work; use workers that do nothing else"
                )

    def _lose(self, phase: _Phase, worker: int, how: str) -> None:
        place = phase.places[worker]
        phase.carried.lost[worker] = f"Dask worker {place.name} on {place.host} {how}"
        phase.tasks.pop(worker).cancel()
        if self._if_lost == "stop":
            phase.failure = phase.failure or lost_words(phase.carried)

    def _drain(self, phase: _Phase, on_report: OnReport) -> None:
        """Stop every worker at once, and take its measurements."""
        sent = self._send(phase, phase.tasks, Stop())
        for worker in phase.tasks.keys() - phase.begun:
            phase.tasks.pop(worker).cancel()  # it has nothing to report
        until = time.monotonic() + DRAIN_SECONDS_MAX
        while phase.tasks and (left := until - time.monotonic()) > 0:
            try:
                worker, data = phase.inbox.get(timeout=left)
            except Empty:
                break
            self._handle(phase, worker, pickle.loads(data), on_report)
        wait(sent, timeout=max(0.0, until - time.monotonic()))

    def _forget(self, phase: _Phase) -> None:
        """End this phase on all workers, and exclude lost workers from later phases."""
        for task in phase.tasks.values():
            task.cancel()
        gone = {phase.places[worker].name for worker in phase.carried.lost}
        self._places = [place for place in self._places if place.name not in gone]
