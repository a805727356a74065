"""Comparison of the locks that answers to reads show with the locks that the objects must have.

One idea: dates are whole seconds, so few values of headers are different. Headers are parsed only if their values, as
they came, were not seen before for objects under the same lock.
"""

from __future__ import annotations

from collections.abc import Mapping

from archiver.values.record import SeenLock
from backends.base import ExpectedLock, ExpectedLocks, Failure
from backends.s3.reported_lock import NO_VALUES, LockValues, ReportedLock, lock_values, unexpected_lock

_GOOD_MAX = 10_000


def lock_failure(number: int, headers: Mapping[bytes, bytes], expected: ExpectedLock) -> Failure | None:
    """Return what is wrong with the lock that an answer for object ``number`` shows; None: it is as expected."""
    found = ReportedLock.of_headers(headers)
    problem = unexpected_lock(found, expected)
    if problem is None:
        return None
    held = found.on_hold or found.event_hold_days is not None
    return problem.failure(SeenLock(number, found.mode, found.until, held))


class ShownLocks:
    """The locks in the answers to one kind of read: GET or HEAD.

    Some platforms show no lock in any answer to GET. An answer without a lock is therefore wrong only after another one
    showed a lock, and before the object's lock may have ended.
    """

    def __init__(self) -> None:
        self._shows_locks = False
        self.expect(ExpectedLocks())

    def expect(self, expected: ExpectedLocks) -> None:
        """Compare from now on with these locks."""
        self._expected = expected
        # Values that were as expected, each with the first number under the lock; and the last of them, with its range.
        self._good: set[tuple[int, LockValues]] = set()
        self._last_good = NO_VALUES
        self._last_first, self._last_last = 0, -1

    def failure(self, number: int, headers: Mapping[bytes, bytes], server_now: float) -> Failure | None:
        """Return what is wrong with the lock that an answer shows at ``server_now`` (epoch seconds)."""
        values = lock_values(headers)
        if values == self._last_good and self._last_first <= number <= self._last_last:
            return None
        expected = self._expected.of(number)
        if expected is None:
            return None
        if values != NO_VALUES:
            self._shows_locks = True
        elif expected.retention.locks and not (self._shows_locks and (expected.earliest or server_now) >= server_now):
            return None
        if (expected.first, values) not in self._good:
            failure = lock_failure(number, headers, expected)
            if failure is not None:
                return failure
            if len(self._good) == _GOOD_MAX:
                self._good.clear()
            self._good.add((expected.first, values))
        self._last_good, self._last_first, self._last_last = values, expected.first, expected.last
        return None
