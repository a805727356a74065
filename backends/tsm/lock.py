"""Comparison of an object's lock, as the server reports it, with the lock that was requested.

The same rule applies to the object that is checked before a run measures anything, and to every object of an audit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from archiver.values.record import Status
from archiver.values.retention import Retention
from archiver.values.sizes import format_instant, parse_duration
from backends.base import LockProblem
from backends.tsm.library.api import ArchivedObject, ReportedManagementClass

DAY_SECONDS = 86_400
SUMMER_TIME_SECONDS = 3600
# The description of a class of the embedded store, whose classes may be shorter than the API's unit, a day.
_LENGTH_IN_DESCRIPTION = re.compile(r"kept from archiving on: (\d+[ydhms](?: \d+[ydhms])*)")


def class_seconds(classes: Iterable[ReportedManagementClass]) -> dict[str, float]:
    """Return the lengths that descriptions of classes give exactly, where the API rounds up to days."""
    found = {}
    for each in classes:
        length = _LENGTH_IN_DESCRIPTION.fullmatch(each.description)
        if length is not None:
            seconds = sum(map(parse_duration, length[1].split()))
            if each.retver_days == ceil(seconds / DAY_SECONDS):
                found[each.name] = seconds
    return found


@dataclass(frozen=True, slots=True)
class LockRule:
    """Rule for comparing the locks that one server reports."""

    zone_seconds: int = 0  # its local time minus UTC
    exact_classes: frozenset[str] = frozenset()  # their server counts seconds, and no days of local time

    def problem(
        self, found: ArchivedObject, retention: Retention, earliest: float | None, latest: float | None
    ) -> LockProblem | None:
        """Return what is wrong with the lock of this object, None if nothing. A hold placed later is not wrong.

        The expiration date must be between ``earliest`` and ``latest`` (epoch seconds; None: no limit).
        """
        if retention.legal_hold and not found.held:
            return LockProblem(Status.UNLOCKED, "the requested hold is missing")
        wrong_date = self._date_problem(found, earliest, latest)
        if retention.management_class not in (None, found.management_class):
            words = f"its class is {found.management_class}, not {retention.management_class}"
            return LockProblem(wrong_date.status if wrong_date else Status.WEAKER, words)
        return wrong_date

    def _date_problem(self, found: ArchivedObject, earliest: float | None, latest: float | None) -> LockProblem | None:
        if found.expires is None:
            return LockProblem(Status.LONGER, "it has no date of expiry, so it would stay permanently")
        expires = found.expires - self.zone_seconds
        if found.management_class not in self.exact_classes:
            # Dates are in local time, which summer time may shift.
            earliest = earliest - SUMMER_TIME_SECONDS if earliest is not None else None
            latest = latest + SUMMER_TIME_SECONDS if latest is not None else None
        if earliest is not None and expires < earliest:
            return LockProblem(
                Status.WEAKER,
                f"it expires at {format_instant(expires)}, earlier than the {format_instant(earliest)} of its class",
            )
        if latest is not None and expires > latest:
            return LockProblem(
                Status.LONGER,
                f"it expires at {format_instant(expires)}, later than the {format_instant(latest)} of its class",
            )
        return None
