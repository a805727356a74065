"""Workers as the coordinator sees them: whoever carries out phases, on this machine or on many.

One idea: a phase is given to all workers at once and comes back whole: what each of them said at its end, who was
lost, and what is known of each one's host and clock. Instants are on the coordinator's clock by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from archiver.engine.worker.assignment import Assignment
from archiver.measure.reports import Carried, IntervalReport

IfLost = Literal["stop", "go-on"]  # what becomes of a run that loses a worker

# The instant (CLOCK_MONOTONIC) at which all begin, given the nanoseconds until all of them know it.
Start = Callable[[int], int]
OnReport = Callable[[IntervalReport], bool | None]


def lost_words(carried: Carried) -> str:
    """Why a run ends that is not to go on without the worker that it lost first."""
    return f"{next(iter(carried.lost.values()))}; the phases that had finished are saved"


class Workers(Protocol):
    """One or many, given one phase after another."""

    is_local: bool  # all of them on this machine

    def __len__(self) -> int:
        """Those that are left."""

    def run(self, assignments: Sequence[Assignment], start: Start, on_report: OnReport) -> Carried:
        """One phase on as many workers as there are assignments.

        Where ``on_report`` returns False no further session is to begin; those under way finish.

        Raises RunFailed when a worker fails, or is lost and the run is not to go on without it; ``on_report`` has
        then seen all that they had reported.
        """

    def close(self) -> None:
        """End the workers, or let them go."""


class Cluster(Protocol):
    """Workers that wait for runs, on whichever machines."""

    is_local: bool  # all of them on this machine

    def __len__(self) -> int:
        """How many."""

    def workers(self, if_lost: IfLost) -> Workers:
        """All of them, for one run."""

    def document(self) -> dict[str, Any]:
        """What the record of a run says of it: scheduler, workers, hosts."""

    def check_sees(self, folder: Path, what_for: str) -> None:
        """Raise UsageError where a worker does not have this folder of ours."""
