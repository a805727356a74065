"""Audit of archived objects: each must exist, be intact and have the lock that was requested.

An audit uses nothing that an earlier phase or run stored. It queries id, class, date and hold of each object, and
compares every byte.
"""

from __future__ import annotations

from dataclasses import replace
from time import monotonic_ns

from backends.base import ExpectedLocks, Failure
from backends.tsm.index import Target
from backends.tsm.library.api import ArchivedObject
from backends.tsm.lock import LockRule
from backends.tsm.query import ObjectQuery
from backends.tsm.transfer import Retrieved, Transfer


class Audit:
    """The audit of one client, for one thread at a time."""

    def __init__(self, query: ObjectQuery, transfer: Transfer, rule: LockRule, expected: ExpectedLocks) -> None:
        self._query = query
        self._transfer = transfer
        self._rule = rule
        self._expected = expected

    def look_at(self, handle: int, target: Target) -> Retrieved:
        """Query and retrieve an object; compare its bytes and its lock with what was requested."""
        answer = self._query.ask(handle, target.number, target.version)
        if answer.found is None:
            return Retrieved(target.number, 0, answer.sent_ns, answer.first_byte_ns, answer.done_ns, answer.failure)
        one = self._transfer.retrieve_whole(handle, target._replace(id=answer.found.id))
        failure = one.failure or self._lock_failure(target.number, answer.found)
        return replace(one, sent_ns=answer.sent_ns, done_ns=monotonic_ns(), failure=failure)

    def _lock_failure(self, number: int, found: ArchivedObject) -> Failure | None:
        expected = self._expected.of(number)
        if expected is None:
            return None
        problem = self._rule.problem(found, expected.retention, expected.earliest, expected.latest)
        return problem.failure() if problem is not None else None
