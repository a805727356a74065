"""Fork commands, workers, embedded stores and null responders from a server that has loaded Archiver's modules.

One idea: loading the modules takes longer than most of these processes live, so a fork server loads them once. Each
forked process gets the environment, the folder, the cores, the descriptors and the process group of the process that
starts it.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import forkserver, process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import IO, Any

import pytest

from archiver.engine.workers import processes
from archiver.worm.repeats import load
from backends.embedded import process as embedded
from backends.s3 import null_responder

_MODULES = (
    "archiver.cli.answers.bundle", "archiver.cli.answers.compare", "archiver.cli.answers.report",
    "archiver.cli.locks.audit", "archiver.cli.locks.worm", "archiver.cli.runs.replay", "archiver.cli.runs.resume",
    "archiver.engine.work.replay.compile.compiling", "archiver.engine.work.replay.shares",
    "archiver.engine.workers.dask.cluster", "backends.embedded.server", "dask.cli", "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg", "pytest", "results.bundle.contents", "results.comparison.documents",
    "results.comparison.page", "results.mixed.figures", "results.mixed.replay.figures", "results.report.documents",
    "results.report.index", "results.tables.workers", "tests.support.caches", "tests.support.commands",
)  # fmt: skip


class ForkedProcess(ForkServerProcess):
    """A process that the fork server forks. Its public attributes may be changed before ``start``."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.environment: Mapping[str, str] = dict(os.environ)
        self.descriptors = {1: 1, 2: 2}  # by the number in the new process: the number in this one
        self.group = os.getpgrp()  # 0: a new process group
        self._cores = os.sched_getaffinity(0)

    def start(self) -> None:
        self._inherited: dict[int, Connection[Any, Any]] = {
            number: Connection(os.dup(own)) for number, own in self.descriptors.items()
        }
        self._blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        super().start()
        for copy in self._inherited.values():
            copy.close()

    def run(self) -> None:
        for number, copy in self._inherited.items():
            os.dup2(copy.fileno(), number)
            copy.close()
        os.environ.clear()
        os.environ.update(self.environment)
        os.sched_setaffinity(0, self._cores)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)
        with suppress(PermissionError):  # the group has ended
            os.setpgid(0, self.group)
        gc.freeze()  # a collection would copy the memory of all objects that it looks at
        super().run()


class _Context(ForkServerContext):
    Process = ForkedProcess


class Forked:
    """A running forked process, with the part of the interface of subprocess.Popen that its users need."""

    def __init__(self, running: ForkedProcess) -> None:
        assert running.pid is not None
        self._running, self.pid = running, running.pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and self._running.exitcode is not None:
            self.returncode = self._running.exitcode
            self._running.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.poll() is None:
            self._running.join(timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(self._running.name, timeout or 0.0)
        return status

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended, and the fork server has already reaped it
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _no_change() -> None:
    """Change nothing before the store starts."""


class ForkedStore(Forked):
    """A forked embedded store."""

    def __init__(
        self,
        options: Sequence[str],
        pipes: Mapping[str, int],
        stderr: IO[bytes],
        prepare: Callable[[], None] = _no_change,
    ) -> None:
        """``prepare`` is called in the new process, before the store starts."""
        ends: dict[str, Connection[Any, Any]] = {option: Connection(os.dup(end)) for option, end in pipes.items()}
        store = ForkedProcess(target=_run_store, args=(options, ends, prepare))
        with open(os.devnull, "r+b") as nothing:
            store.descriptors = {0: nothing.fileno(), 1: nothing.fileno(), 2: stderr.fileno()}
            store.start()
        process._children.discard(store)  # type: ignore[attr-defined]  # it may outlive this process
        for end in ends.values():
            end.close()
        super().__init__(store)


class ForkedResponder(Forked):
    """A forked null responder."""

    def __init__(self) -> None:
        (its_stdin, stdin), (stdout, its_stdout) = os.pipe(), os.pipe()
        self.stdin, self.stdout = open(stdin, "wb"), open(stdout, "rb")  # noqa: SIM115 - the responder's owner closes
        responder = ForkedProcess(target=_run_responder)
        responder.descriptors = {0: its_stdin, 1: its_stdout, 2: 2}
        responder.start()
        process._children.discard(responder)  # type: ignore[attr-defined]  # it ends when its stdin is closed
        os.close(its_stdin)
        os.close(its_stdout)
        super().__init__(responder)


def _run_responder() -> None:
    os.setsid()
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115 - until the end
    null_responder.main()


def _run_store(options: Sequence[str], ends: Mapping[str, Connection[Any, Any]], prepare: Callable[[], None]) -> None:
    from backends.embedded import server

    prepare()
    os.setsid()
    words = [word for option, end in ends.items() for word in (option, str(end.fileno()))]
    sys.argv = ["embedded store", *options, *words]
    sys.exit(server.main())


_ways = {
    (processes, "_context"), (load, "_context"), (embedded, "_start_program"), (null_responder, "_start_program"),
}  # fmt: skip
_executing = {way: getattr(*way) for way in _ways}


def fork_from_now_on() -> None:
    """Make this process fork its workers, stores and null responders from the fork server."""
    context = _Context()
    context.set_forkserver_preload(list(_MODULES))
    if forkserver.get_inherited_fds() is not None:  # forked itself: use the same fork server
        forkserver._forkserver.ensure_running = resource_tracker.ensure_running  # type: ignore[method-assign]
    forked = {embedded: ForkedStore, null_responder: ForkedResponder}
    for way in _ways:
        setattr(*way, forked.get(way[0], context))


def execute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this test start its workers, stores and null responders as new programs, as Archiver does."""
    for (module, name), way in _executing.items():
        monkeypatch.setattr(module, name, way)
