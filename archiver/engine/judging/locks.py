"""The locks that the objects of a run must have, and which objects are read back after a phase.

One idea: what a platform did for the first object it must do for the last. So the answers to reads are compared with
these locks throughout the run, and after each phase that archives the locks of some objects are read back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from archiver.engine.coordinator import PhaseOutcome
from archiver.values.retention import Retention
from backends.base import ExpectedLock
from scenarios.model import Workload
from scenarios.work.infrastructure import Infrastructure
from scenarios.work.mix import CHANGES, EVENT_HOLDS

SAMPLED_MAX = 8  # objects of a phase that are read back in addition to the last of each endpoint
NUMBER_MAX = (1 << 63) - 1
_LATER = frozenset(("extend", "new-version"))  # operations that give objects later dates
_HOLDS = frozenset(("hold", "release"))
# After a new version an object has the lock of the phase; after the other changes it has another lock, or is gone.
_OTHER_LOCK = CHANGES - {"new-version"}


@dataclass(frozen=True, slots=True)
class LatestDates:
    """The latest dates (epoch seconds) that operations of a phase, or of an earlier one, can have set."""

    archived: float | None  # by archiving, extending or replacing; None: no date
    released: float  # by the release of an event hold


class RunLocks:
    """The locks of the objects that a run archived, by ranges of numbers, and what may have changed them since."""

    def __init__(self) -> None:
        self._archived: list[ExpectedLock] = []
        self._done: set[str] = set()  # operations of all phases so far

    def archived(self, lock: ExpectedLock) -> None:
        """Record the lock of objects that a phase archived."""
        self._archived.append(lock)

    def done(self, operations: Iterable[str]) -> None:
        """Record that a phase may have done these operations, which change the locks of objects."""
        self._done.update(operations)

    def expected(self, new: ExpectedLock | None, agreed: Retention, latest: LatestDates) -> list[ExpectedLock]:
        """Return the locks that answers of a phase must show.

        ``new`` is the lock of objects that the phase archives. An operation of the run changes the lock of some
        objects; their lock may then be the one that any object of the run can have.
        """
        joined: list[ExpectedLock] = []
        for each in sorted(self._archived, key=lambda lock: lock.first):
            if joined and each == replace(joined[-1], first=each.first, last=each.last):
                joined[-1] = replace(joined[-1], last=each.last)
            else:
                joined.append(each)
        self._archived = joined
        return [self._allowed(each, agreed, latest) for each in (*joined, *([new] if new is not None else []))]

    def _allowed(self, lock: ExpectedLock, agreed: Retention, latest: LatestDates) -> ExpectedLock:
        done, retention, until = self._done, lock.retention, lock.latest
        if done & _LATER:
            until = _later(until, latest.archived)
        if done & EVENT_HOLDS and until is not None:
            until = _later(until, latest.released)
            retention = replace(retention, event_hold_days=agreed.event_hold_days)
        forbids_hold = not (retention.legal_hold or done & _HOLDS)
        if done & _HOLDS:
            retention = replace(retention, legal_hold=False)
        known = not done & EVENT_HOLDS
        return replace(lock, retention=retention, latest=until, event_hold_is_known=known, forbids_hold=forbids_hold)


def _later(one: float | None, other: float | None) -> float | None:
    return max((each for each in (one, other) if each is not None), default=None)


def to_read_back(outcome: PhaseOutcome) -> list[tuple[int, int]]:
    """Return (workload, number) of the objects whose locks are read back after a phase.

    These are the last object of each workload and endpoint, and a sample spread over the numbers that the phase
    archived. Objects whose lock the phase itself changed afterwards are left out, and all of them if it is not known
    which these are.
    """
    if any(error.operation in _OTHER_LOCK for error in outcome.errors):
        return []
    changed = [(each.first, each.last) for each in outcome.changes if each.operation in _OTHER_LOCK]
    ranges = [(each.workload, each.first, each.last) for each in outcome.archived]
    chosen = [*outcome.last_archived, *_spread(ranges, SAMPLED_MAX)]
    return [
        (workload, number)
        for workload, number in dict.fromkeys(chosen)
        if _keeps_lock(outcome.phase.workloads[workload])
        and not any(first <= number <= last for first, last in changed)
    ]


def _keeps_lock(workload: Workload) -> bool:
    """Return whether objects of a workload have one way of locking, and stay as it archives them.

    A replay archives without a lock what its trace deletes; migrations and clones remove their objects.
    """
    if len(workload.locks) != 1:
        return False
    return not isinstance(workload.work, Infrastructure) or bool(workload.work.prepares)


def _spread(ranges: Sequence[tuple[int, int, int]], count: int) -> list[tuple[int, int]]:
    """Return up to ``count`` objects at equal distances in ranges of (workload, first, last)."""
    total = sum(last - first + 1 for _, first, last in ranges)
    places = iter(sorted({total * index // count for index in range(count)}) if total else ())
    found: list[tuple[int, int]] = []
    before, place = 0, next(places, None)
    for workload, first, last in ranges:
        after = before + last - first + 1
        while place is not None and place < after:
            found.append((workload, first + place - before))
            place = next(places, None)
        before = after
    return found
