"""Whether an archived object is kept as it was asked for, by what the server says of it.

One idea: one rule for the object that is looked at before a run counts anything, and for every object of an audit.
"""

from __future__ import annotations

from dataclasses import dataclass

from archiver.record import Status
from archiver.retention import Retention
from archiver.sizes import format_instant
from backends.tsm.api import ArchivedObject

DAY_SECONDS = 86_400
SUMMER_TIME_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class LockProblem:
    """What is wrong with a lock. ``status`` is UNLOCKED, WEAKER or LONGER."""

    status: Status
    words: str


@dataclass(frozen=True, slots=True)
class LockRule:
    """How this server's answers are to be read."""

    zone_seconds: int = 0  # what its local time is ahead of UTC
    exact_classes: frozenset[str] = frozenset()  # whose length is known to the second; of others the API tells days

    def problem(
        self, found: ArchivedObject, retention: Retention, earliest: float | None, latest: float | None
    ) -> LockProblem | None:
        """What is wrong with the lock of this object; None: nothing, nor with a hold that somebody placed later.

        Its date is to lie between the two (epoch seconds); None where no date was asked for.
        """
        if retention.legal_hold and not found.held:
            return LockProblem(Status.UNLOCKED, "the hold asked for is not there")
        wrong_date = self._date_problem(found, earliest, latest)
        if retention.management_class not in (None, found.management_class):
            words = f"its class is {found.management_class}, not {retention.management_class}"
            return LockProblem(wrong_date.status if wrong_date else Status.WEAKER, words)
        return wrong_date

    def _date_problem(self, found: ArchivedObject, earliest: float | None, latest: float | None) -> LockProblem | None:
        if found.expires is None:
            return LockProblem(Status.LONGER, "it has no date of expiry, so it would stay for good")
        expires = found.expires - self.zone_seconds
        if found.management_class not in self.exact_classes:
            # The API tells lengths in whole days, rounded up, and dates in local time: summer time may begin before.
            earliest = earliest - DAY_SECONDS if earliest is not None else None
            latest = latest + SUMMER_TIME_SECONDS if latest is not None else None
        if earliest is not None and expires < earliest:
            return LockProblem(
                Status.WEAKER,
                f"it expires at {format_instant(expires)} already, not at {format_instant(earliest)} as its class says",
            )
        if latest is not None and expires > latest:
            return LockProblem(
                Status.LONGER,
                f"it expires at {format_instant(expires)} only, later than the {format_instant(latest)} of its class",
            )
        return None
