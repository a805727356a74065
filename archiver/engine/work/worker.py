"""A worker: carries out its clients' part of one phase at a time and reports it.

One idea: run_phase(assignment, channel) is all there is. It prepares everything, waits for the start instant that all
workers share, runs its clients in one event loop, folds their rows once an interval and whenever a recorder fills, and
reports once a second.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine, Iterable
from typing import Any

import numpy as np
import uvloop
from numpy.typing import NDArray

from archiver.engine.work.mixed.phase_run import MixedRun
from archiver.engine.worker.assignment import Assignment, Channel
from archiver.engine.worker.client import SweepClient, rows_each
from archiver.engine.worker.phase_run import PhaseRun
from archiver.engine.worker.stopping import EverythingStop, SessionStop, WindowStop
from archiver.measure.reports import PhaseReport


def _kind_of(assignment: Assignment) -> type[PhaseRun]:
    if assignment.phase.replays:
        from archiver.engine.work.replay.phase_run import ReplayRun  # with what reads traces, which takes 0.1 s to load

        return ReplayRun
    return MixedRun if assignment.mixes else _SweepRun


def run_phase(assignment: Assignment, channel: Channel) -> PhaseReport:
    """Carry out one phase's clients; returns when they are done or the run is being stopped."""
    run = _kind_of(assignment)(assignment, channel)
    # What exists by now stays: let no collection in the measured time walk over it.
    gc.collect()
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(run.run())
    finally:
        gc.unfreeze()


class _SweepRun(PhaseRun):
    """A cell of a sweep: every client does one thing, by the phase's stop rule."""

    def _sizes(self) -> set[int]:
        return {workload.object_bytes for workload in self._assignment.phase.workloads}

    def _client_numbers(self) -> Iterable[int]:
        return (client.client for client in self._assignment.clients)

    def _reads(self) -> Iterable[NDArray[np.int64]]:
        return (client.numbers for client in self._assignment.clients if not isinstance(client.numbers, tuple))

    def _deletes(self) -> Iterable[NDArray[np.int64]]:
        deletes = self._assignment.phase.workloads[0].does & {"delete", "refused-delete"}
        return self._reads() if deletes else ()

    def _begin(self) -> list[Coroutine[Any, Any, None]]:
        phase = self._assignment.phase
        if phase.stop.everything:
            self.stop = EverythingStop(self.start_ns)
        elif phase.clients == 1:
            self.stop = SessionStop(phase, phase.workloads[0])
        else:
            self.stop = WindowStop(phase, self.start_ns)
        rows = rows_each(len(self._assignment.clients))
        clients = [
            SweepClient(self, client, phase.workloads[client.workload], self.start_ns, rows)
            for client in self._assignment.clients
        ]
        self._clients += clients
        return [client.run() for client in clients]
