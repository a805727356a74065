"""Worker processes on this machine, and the pipes that carry the channel.

One idea: a worker process does nothing but run_phase for every assignment that arrives; when its pipe closes it ends,
so none outlives the coordinator.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from archiver.assignment import Assignment, IntervalReport, PhaseReport
from archiver.errors import ArchiverError, RunFailed
from archiver.worker import run_phase


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
    """The worker's end."""

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


def worker_main(pipe: Connection[Any, Any], cores: Sequence[int]) -> None:
    """The body of a worker process. Ctrl-C reaches the coordinator, which then tells its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if cores:
        os.sched_setaffinity(0, cores)
    while True:
        try:
            assignment = pipe.recv()
        except EOFError:
            return
        if not isinstance(assignment, Assignment):
            continue  # a word that crossed the end of the phase it was meant for
        try:
            pipe.send(run_phase(assignment, PipeChannel(pipe)))
        except (EOFError, BrokenPipeError):
            return
        except ArchiverError as error:  # says by itself what happened and what to do
            pipe.send(_Crashed(str(error)))
        except Exception:  # noqa: BLE001 - whatever it was, the coordinator must hear of it
            pipe.send(_Crashed(f"a worker failed:\n{traceback.format_exc(limit=-4)}"))


class WorkerProcesses:
    """The coordinator's end: started once per run, given one phase after another."""

    def __init__(self, count: int, cores: Sequence[int]) -> None:
        """``cores`` are those the workers may use; none: wherever the system puts them."""
        context = multiprocessing.get_context("spawn")
        self._processes: list[SpawnProcess] = []
        self._pipes: list[Connection[Any, Any]] = []
        for index in range(count):
            ours, theirs = context.Pipe()
            own_cores = [cores[index % len(cores)]] if cores else []
            process = context.Process(target=worker_main, args=(theirs, own_cores), name=f"archiver-worker-{index}")
            process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(ours)

    def __len__(self) -> int:
        return len(self._pipes)

    def run(
        self,
        assignments: Sequence[Assignment],
        start: Callable[[], int],
        on_report: Callable[[IntervalReport], bool | None],
    ) -> list[PhaseReport]:
        """One phase on as many workers as there are assignments; ``start`` gives the shared start instant.

        Where ``on_report`` returns False no further session is to begin; those under way finish.

        Raises RunFailed when a worker dies or fails; what it had reported has been handed on.
        """
        busy = dict(zip(self._pipes, assignments, strict=False))
        for pipe, assignment in busy.items():
            self._tell([pipe], assignment)
        ready = 0
        done: list[PhaseReport] = []
        failure: str | None = None
        try:
            while busy:
                for pipe in _readable(busy):
                    try:
                        message = pipe.recv()
                    except (EOFError, OSError):
                        failure = failure or self._death(pipe)
                        del busy[pipe]
                        self._tell(busy, _Stop())
                        continue
                    if isinstance(message, _Ready):
                        ready += 1
                        if ready == len(assignments):
                            self._tell(busy, _Start(start()))
                    elif isinstance(message, IntervalReport):
                        if on_report(message) is False:
                            self._tell(busy, _Finish())
                    elif isinstance(message, PhaseReport):
                        done.append(message)
                        del busy[pipe]
                    elif isinstance(message, _Crashed):
                        failure = failure or message.text
                        del busy[pipe]
                        self._tell(busy, _Stop())
        except KeyboardInterrupt:
            self._drain(busy, on_report)
            raise
        if failure is not None:
            raise RunFailed(failure)
        return done

    def close(self) -> None:
        """End the workers."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(timeout=5)
            if process.is_alive():
                process.terminate()
                process.join()

    def _drain(
        self, busy: dict[Connection[Any, Any], Assignment], on_report: Callable[[IntervalReport], bool | None]
    ) -> None:
        """Interrupted: have every worker stop where it is, and take what it measured."""
        self._tell(busy, _Stop())
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
                    on_report(message)
                elif isinstance(message, PhaseReport | _Crashed):
                    del busy[pipe]

    def _tell(self, pipes: Iterable[Connection[Any, Any]], message: Assignment | _Start | _Stop | _Finish) -> None:
        for pipe in pipes:
            try:
                pipe.send(message)
            except OSError:
                pass  # dead: its end of the pipe will say so

    def _death(self, pipe: Connection[Any, Any]) -> str:
        process = self._processes[self._pipes.index(pipe)]
        process.join(timeout=5)
        return f"worker {process.name} died (exit status {process.exitcode}); the phases that had finished are saved"


def _readable(
    pipes: Iterable[Connection[Any, Any]], timeout_seconds: float | None = None
) -> list[Connection[Any, Any]]:
    """Those pipes that have a message, or have ended."""
    by_descriptor = {pipe.fileno(): pipe for pipe in pipes}
    return [
        by_descriptor[descriptor]
        for descriptor in wait(list(by_descriptor), timeout_seconds)
        if isinstance(descriptor, int)
    ]
