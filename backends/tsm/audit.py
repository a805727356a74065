"""Audit of archived objects: each must exist, be intact and have the lock that was requested.

An audit uses nothing that an earlier phase or run stored. It queries id, class, date and hold of each object, and
compares every byte.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic_ns

from backends.base import ExpectedLock
from backends.tsm.index import Target
from backends.tsm.library.api import ArchivedObject
from backends.tsm.lock import LockRule
from backends.tsm.query import ObjectQuery
from backends.tsm.transactions import Failure
from backends.tsm.transfer import Retrieved, Transfer


class Audit:
    """The audit of one client, for one thread at a time. ``expected`` is in ascending order of numbers."""

    def __init__(
        self, query: ObjectQuery, transfer: Transfer, rule: LockRule, expected: Sequence[ExpectedLock]
    ) -> None:
        self._query = query
        self._transfer = transfer
        self._rule = rule
        self._expected = expected
        self._firsts = [each.first for each in expected]

    def look_at(self, handle: int, target: Target) -> Retrieved:
        """Query and retrieve an object; compare its bytes and its lock with what was requested."""
        answer = self._query.ask(handle, target.number, target.version)
        if answer.found is None:
            return Retrieved(target.number, 0, answer.sent_ns, answer.first_byte_ns, answer.done_ns, answer.failure)
        one = self._transfer.retrieve_whole(handle, target._replace(id=answer.found.id))
        failure = one.failure or self._lock_failure(target.number, answer.found)
        return replace(one, sent_ns=answer.sent_ns, done_ns=monotonic_ns(), failure=failure)

    def _lock_failure(self, number: int, found: ArchivedObject) -> Failure | None:
        at = bisect_right(self._firsts, number) - 1
        if at < 0 or number > self._expected[at].last:
            return None  # no lock is known to compare with
        expected = self._expected[at]
        problem = self._rule.problem(found, expected.retention, expected.earliest, expected.latest)
        return Failure(problem.status, problem.status.name.lower(), problem.words) if problem else None
