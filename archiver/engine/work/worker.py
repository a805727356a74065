"""A worker: carries out its clients' part of one phase at a time and reports it.

One idea: run_phase(assignment, channel) is the whole interface. It prepares everything, waits for the start instant
that all workers share, and runs its clients in one event loop. It folds their rows once an interval and whenever a
recorder is full, and reports once a second.
"""

from __future__ import annotations

import asyncio
import gc

import uvloop

from archiver.engine.work.kinds import run_of
from archiver.engine.worker.assignment import Assignment, Channel
from archiver.measure.reports import PhaseReport


def run_phase(assignment: Assignment, channel: Channel) -> PhaseReport:
    """Carry out the clients of one phase. Return when they are done or the run is being stopped."""
    run = run_of(assignment.phase)(assignment, channel)
    # Freeze all existing objects, so that no collection in the measured time visits them. Objects that this process
    # froze before stay frozen afterwards.
    was_frozen = gc.get_freeze_count() > 0
    gc.collect()
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(run.run())
    finally:
        if not was_frozen:
            gc.unfreeze()
