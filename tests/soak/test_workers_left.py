"""A worker whose coordinator was killed ends and prints nothing."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable

import pytest

from archiver.engine.worker.assignment import Assignment, ClientAssignment
from archiver.engine.workers.processes import worker_main
from scenarios.model import Phase, Workload
from scenarios.work.sessions import Sessions, UntilPrecise

SECONDS_MAX = 60.0
NEVER_ENDS = UntilPrecise(1e6, 1e6, 10**12, precision=0.0)


def assignment(backend: str) -> Assignment:
    workload = Workload("archive", Sessions("archive", 200, NEVER_ENDS), clients=1, objects_per_session=5)
    phase = Phase("archive", 1, 1, (workload,))
    return Assignment("run-1", 7, backend, None, phase, (ClientAssignment(0, 0, (0, 10**9)),), {}, "all")


def heard_nothing(has_spoken: Callable[[], bool]) -> None:
    """Wait until the worker has sent a message, ready or an error, which the test does not read."""
    deadline = time.monotonic() + SECONDS_MAX
    while not has_spoken():
        assert time.monotonic() < deadline, "the worker says nothing"
        time.sleep(0.01)


@pytest.mark.parametrize("backend", ["null", "one that is not there"])
def test_worker_ends_silently_when_its_parent_closes_the_pipe(capfd: pytest.CaptureFixture[str], backend: str) -> None:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    worker = multiprocessing.get_context("spawn").Process(target=worker_main, args=(theirs, []))
    worker.start()
    theirs.close()
    try:
        ours.send(assignment(backend))
        heard_nothing(ours.poll)
        ours.close()  # with an unread message, so that the other end gets a reset
        worker.join(SECONDS_MAX)
        assert worker.exitcode == 0
        assert capfd.readouterr().err == ""
    finally:
        worker.kill()
        worker.join()
        worker.close()
