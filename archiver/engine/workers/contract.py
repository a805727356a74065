"""The interface of workers to the coordinator, on this machine or on many.

One idea: all workers get a phase at once, and one complete result comes back. It contains the final report of each
worker, the lost workers, and the host and clock of each. All its instants are on the coordinator's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from archiver.engine.worker.assignment import Assignment
from archiver.measure.reports import Carried, IntervalReport

IfLost = Literal["stop", "go-on"]  # end or continue a run that loses a worker

# Returns the start instant (CLOCK_MONOTONIC) of all workers, given the nanoseconds until all of them know it.
Start = Callable[[int], int]
OnReport = Callable[[IntervalReport], bool | None]


def lost_words(carried: Carried) -> str:
    """Return the reason why a run ends with the first loss of a worker."""
    return f"{next(iter(carried.lost.values()))}; the phases that had finished are saved"


class Workers(Protocol):
    """One or many workers, which carry out one phase after another."""

    is_local: bool  # all workers are on this machine

    def __len__(self) -> int:
        """Return the number of remaining workers."""

    def run(self, assignments: Sequence[Assignment], start: Start, on_report: OnReport) -> Carried:
        """Carry out one phase on as many workers as there are assignments.

        If ``on_report`` returns False, no further session begins, and current sessions finish.

        Raises RunFailed if a worker fails, or if a worker is lost and the run must stop. ``on_report`` has then
        received all reports of the workers.
        """

    def close(self) -> None:
        """End or release the workers."""


class Cluster(Protocol):
    """Workers that wait for runs, on any machines."""

    is_local: bool  # all workers are on this machine

    def __len__(self) -> int:
        """Return the number of workers."""

    def workers(self, if_lost: IfLost) -> Workers:
        """Return all workers, for one run."""

    def document(self) -> dict[str, Any]:
        """Return the entry in the record of a run: scheduler, workers, hosts."""

    def check_sees(self, folder: Path, what_for: str) -> None:
        """Raise UsageError if a worker cannot access this folder of the coordinator."""
