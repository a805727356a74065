"""Worker processes on this machine, and the pipes that carry the channel.

One idea: a worker process calls run_phase for every assignment that arrives, and nothing else. It ends when its pipe
closes, so no worker outlives the coordinator.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from archiver.engine.work.worker import run_phase
from archiver.engine.worker.assignment import Assignment
from archiver.engine.workers.contract import IfLost, OnReport, Start, lost_words
from archiver.machine import interruption
from archiver.measure.reports import Carried, IntervalReport, PhaseReport, WorkerPlace
from archiver.values import clock
from archiver.values.errors import ArchiverError, RunFailed

_context = multiprocessing.get_context("spawn")
# Delay until every worker has read its pipe. Where workers share cores, one that begins takes them from the others.
START_DELAY_NS = 20_000_000
START_DELAY_NS_EACH = 2_000_000  # for each worker


@dataclass(frozen=True, slots=True)
class _Ready:
    pass


@dataclass(frozen=True, slots=True)
class _Start:
    start_ns: int


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


@dataclass(frozen=True, slots=True)
class _Finish:
    pass


@dataclass(frozen=True, slots=True)
class _Crashed:
    text: str


class PipeChannel:
    """The worker's end of the channel."""

    def __init__(self, pipe: Connection[Any, Any]) -> None:
        self._pipe = pipe
        self._stopping = False
        self._finishing = False

    def wait_for_start(self) -> int:
        self._pipe.send(_Ready())
        message = self._pipe.recv()
        if isinstance(message, _Stop):
            self._stopping = True
            return 0
        assert isinstance(message, _Start)
        return message.start_ns

    def report(self, report: IntervalReport) -> None:
        self._pipe.send(report)

    def should_stop(self) -> bool:
        if not self._stopping and self._pipe.poll():
            try:
                message = self._pipe.recv()
                self._stopping = isinstance(message, _Stop)
                self._finishing = self._finishing or isinstance(message, _Finish)
            except (EOFError, OSError):  # the coordinator is gone
                self._stopping = True
        return self._stopping

    def should_finish(self) -> bool:
        self.should_stop()
        return self._finishing


def worker_main(pipe: Connection[Any, Any], cores: Sequence[int], clock_began_seconds: float | None = None) -> None:
    """Run a worker process until its pipe closes. It uses the coordinator's clock if that is given.

    It ignores signals: the coordinator receives them and informs its workers.
    """
    interruption.ignore()
    if clock_began_seconds is not None:
        clock.follow(clock_began_seconds)
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        while True:
            assignment = pipe.recv()
            if isinstance(assignment, Assignment):  # otherwise a message that arrived after the end of its phase
                pipe.send(_carried_out(assignment, pipe))
    except (EOFError, ConnectionError):
        return  # the coordinator is gone


def _carried_out(assignment: Assignment, pipe: Connection[Any, Any]) -> PhaseReport | _Crashed:
    try:
        return run_phase(assignment, PipeChannel(pipe))
    except (EOFError, ConnectionError):  # error of the pipe; backends handle errors of their own connections
        raise
    except ArchiverError as error:  # its message says what happened and what to do
        return _Crashed(str(error))
    except Exception:  # noqa: BLE001 - the coordinator must receive every failure
        return _Crashed(f"a worker failed:\n{traceback.format_exc(limit=-4)}")


class WorkerProcesses:
    """The coordinator's end: started once per run, used for one phase after another."""

    is_local = True

    def __init__(self, count: int, cores: Sequence[int], if_lost: IfLost = "stop") -> None:
        """Start workers on these ``cores``; if empty, the system chooses."""
        self._if_lost = if_lost
        self._host = socket.gethostname()
        self._processes: list[SpawnProcess] = []
        self._pipes: list[Connection[Any, Any]] = []
        resource_tracker.ensure_running()  # starting it unblocks signals, so it must not start while they are blocked
        try:
            for index in range(count):
                own_cores = [cores[index % len(cores)]] if cores else []
                # Another thread may receive a signal that is blocked here. An interrupted start would leave an error
                # message of a worker.
                with interruption.deferred(), interruption.blocked():
                    own_end, worker_end = _context.Pipe()
                    given = (worker_end, own_cores, clock.began_seconds())
                    process = _context.Process(target=worker_main, args=given, name=f"archiver-worker-{index}")
                    process.start()
                    worker_end.close()
                    self._processes.append(process)
                    self._pipes.append(own_end)
        except BaseException:  # otherwise started workers would wait for ever, and this process for them
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._pipes)

    @interruption.deferred()  # an exception of a signal could lose a message, or part of one
    def run(self, assignments: Sequence[Assignment], start: Start, on_report: OnReport) -> Carried:
        """Carry out one phase on as many workers as there are assignments; see ``Workers``."""
        busy = dict(zip(self._pipes, assignments, strict=False))
        numbers = {pipe: number for number, pipe in enumerate(busy)}
        carried = Carried(
            places={number: WorkerPlace(self._process(pipe).name, self._host) for pipe, number in numbers.items()}
        )
        began = time.monotonic()
        for pipe, assignment in busy.items():
            self._send([pipe], assignment)
        ready: set[Connection[Any, Any]] = set()
        is_started = False
        failure: str | None = None
        try:
            while busy:
                interruption.check()
                for pipe in _readable(busy, interruption.CHECK_SECONDS):
                    try:
                        message = pipe.recv()
                    except (EOFError, OSError):
                        del busy[pipe]
                        carried.lost[numbers[pipe]] = self._death(pipe)
                        if self._if_lost == "stop":
                            failure = failure or lost_words(carried)
                            self._send(busy, _Stop())
                    else:
                        if isinstance(message, _Ready):
                            ready.add(pipe)
                            carried.prepared_seconds[numbers[pipe]] = time.monotonic() - began
                        elif isinstance(message, IntervalReport):
                            message.worker = numbers[pipe]
                            if on_report(message) is False:
                                self._send(busy, _Finish())
                        elif isinstance(message, PhaseReport):
                            message.worker = numbers[pipe]
                            carried.reports.append(message)
                            del busy[pipe]
                        elif isinstance(message, _Crashed):
                            failure = failure or message.text
                            del busy[pipe]
                            self._send(busy, _Stop())
                    if busy and not is_started and failure is None and ready >= busy.keys():
                        is_started = True
                        self._send(busy, _Start(start(START_DELAY_NS + START_DELAY_NS_EACH * len(busy))))
        except KeyboardInterrupt:
            self._drain(busy, numbers, on_report)
            raise
        finally:
            self._forget(carried.lost)
        if failure is None and not carried.reports:
            failure = lost_words(carried)
        if failure is not None:
            raise RunFailed(failure)
        return carried

    def close(self) -> None:
        """End the workers."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
                process.join()

    def _process(self, pipe: Connection[Any, Any]) -> SpawnProcess:
        return self._processes[self._pipes.index(pipe)]

    def _forget(self, dead: Iterable[int]) -> None:
        """Exclude dead workers from later phases."""
        for number in sorted(dead, reverse=True):
            self._pipes.pop(number).close()
            self._processes.pop(number)

    def _drain(
        self,
        busy: dict[Connection[Any, Any], Assignment],
        numbers: Mapping[Connection[Any, Any], int],
        on_report: OnReport,
    ) -> None:
        """After an interruption, stop every worker at once, and take its measurements."""
        self._send(busy, _Stop())
        while busy:
            readable = _readable(busy, timeout_seconds=5)
            if not readable:
                return
            for pipe in readable:
                try:
                    message = pipe.recv()
                except (EOFError, OSError):
                    del busy[pipe]
                    continue
                if isinstance(message, IntervalReport):
                    message.worker = numbers[pipe]
                    on_report(message)
                elif isinstance(message, PhaseReport | _Crashed):
                    del busy[pipe]

    def _send(self, pipes: Iterable[Connection[Any, Any]], message: Assignment | _Start | _Stop | _Finish) -> None:
        for pipe in pipes:
            try:
                pipe.send(message)
            except OSError:
                pass  # the worker is dead; reading its end of the pipe shows that

    def _death(self, pipe: Connection[Any, Any]) -> str:
        process = self._process(pipe)
        process.join(timeout=5)
        return f"worker {process.name} died (exit status {process.exitcode})"


def _readable(pipes: Iterable[Connection[Any, Any]], timeout_seconds: float) -> list[Connection[Any, Any]]:
    """Return the pipes that have a message, or have ended."""
    by_descriptor = {pipe.fileno(): pipe for pipe in pipes}
    return [
        by_descriptor[descriptor]
        for descriptor in wait(list(by_descriptor), timeout_seconds)
        if isinstance(descriptor, int)
    ]
