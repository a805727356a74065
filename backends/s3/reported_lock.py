"""The lock that a platform reports for an object, and its comparison with the requested lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

from archiver.values.record import Status
from archiver.values.retention import Retention, RetentionMode
from archiver.values.sizes import format_instant
from backends.base import ExpectedLock, LockProblem

MODE_HEADER = b"x-amz-object-lock-mode"
_DATE_HEADER = b"x-amz-object-lock-retain-until-date"
_HOLD_HEADER = b"x-amz-object-lock-legal-hold"
_EVENT_HOLD_HEADER = b"x-amz-object-lock-event-hold"
# Values of the headers that show a lock, as they came; None: the answer has no such header.
LockValues: TypeAlias = tuple[bytes | None, bytes | None, bytes | None, bytes | None]
NO_VALUES: LockValues = (None, None, None, None)
_PERIOD_MAX = 999_999_999  # longer periods of an event hold count as this one: int() raises for 4,300 digits and more


class ReportedLock(NamedTuple):
    """Mode, retain-until date (epoch seconds), legal hold, and the period of an event hold that is on."""

    mode: str | None
    until: float | None
    on_hold: bool
    event_hold_days: int | None = None

    @classmethod
    def of_headers(cls, headers: Mapping[bytes, bytes]) -> ReportedLock:
        """Parse the headers, with lower-case names, of an answer to GET or HEAD."""
        mode = headers.get(MODE_HEADER)
        date = headers.get(_DATE_HEADER)
        hold = headers.get(_HOLD_HEADER, b"")
        return cls(
            mode.decode("latin-1") if mode else None,
            _instant(date),
            hold.strip().upper() == b"ON",
            event_hold_days(
                *(headers.get(f"x-amz-object-lock-event-hold{end}".encode(), b"").decode("latin-1")
                  for end in ("", "-duration-days", "-duration-years"))
            ),
        )  # fmt: skip


def lock_values(headers: Mapping[bytes, bytes]) -> LockValues:
    """Return the values that show a lock, to compare them with those of another answer without parsing them."""
    get = headers.get
    return get(MODE_HEADER), get(_DATE_HEADER), get(_HOLD_HEADER), get(_EVENT_HOLD_HEADER)


def event_hold_days(status: str, days: str, years: str) -> int | None:
    """Return the period of an event hold in days, a year being 365; None if none is on, 0 if it has no period."""
    if status.strip().upper() != "ON":
        return None
    return _period(days) if days.isdecimal() else 365 * _period(years) if years.isdecimal() else 0


def _period(digits: str) -> int:
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= len(str(_PERIOD_MAX)) else _PERIOD_MAX


def unexpected_lock(lock: ReportedLock, expected: ExpectedLock) -> LockProblem | None:
    """Compare the lock that a platform reports with the expected one; return None if it is right."""
    retention = expected.retention
    if lock.event_hold_days is None and not expected.event_hold_is_known:
        retention = replace(retention, event_hold_days=None)
    problem = lock_problem(lock, retention, expected.earliest, expected.latest)
    if problem is None and lock.on_hold and expected.forbids_hold:
        return LockProblem(Status.LONGER, "it is under a legal hold that this run did not request")
    return problem


def lock_problem(
    lock: ReportedLock, retention: Retention, earliest: float | None, latest: float | None
) -> LockProblem | None:
    """Compare the lock that a platform reports with ``retention``; return None if it is right.

    Its date must be between ``earliest`` and ``latest`` (epoch seconds). The date of an event hold moves with the time
    and has no latest.
    """
    if retention.legal_hold and not lock.on_hold:
        missing = "the requested legal hold is missing, or this credential may not see it (s3:GetObjectLegalHold)"
        return LockProblem(Status.UNLOCKED, missing)
    wanted = retention.mode
    if wanted is RetentionMode.NONE:
        if lock.mode is None:
            return None
        return LockProblem(Status.LONGER, f"it is locked in mode {lock.mode}, which was not requested")
    if lock.mode is None:
        return LockProblem(
            Status.UNLOCKED,
            f"the platform reports no mode, not {wanted.value}; either it dropped the lock, or this credential may not "
            "see it (s3:GetObjectRetention)",
        )
    if lock.mode != wanted.value:
        status = Status.LONGER if lock.mode == RetentionMode.COMPLIANCE.value else Status.WEAKER
        return LockProblem(status, f"its mode is {lock.mode}, not {wanted.value}")
    if lock.until is None:
        return LockProblem(Status.UNLOCKED, "its retain-until date is missing, so nothing protects it")
    if earliest is not None and lock.until < earliest:
        until, asked = format_instant(lock.until), format_instant(earliest)
        return LockProblem(Status.WEAKER, f"it is locked only until {until}, not until {asked} as requested")
    if lock.event_hold_days != retention.event_hold_days:
        return _event_hold_problem(lock.event_hold_days, retention.event_hold_days)
    if latest is not None and lock.event_hold_days is None and lock.until > latest:
        until, asked = format_instant(lock.until), format_instant(latest)
        return LockProblem(Status.LONGER, f"it is locked until {until}, later than the requested {asked}")
    return None


def _event_hold_problem(found: int | None, wanted: int | None) -> LockProblem:
    if found is None:
        return LockProblem(Status.UNLOCKED, "the requested event hold is missing")
    if wanted is None:
        return LockProblem(Status.LONGER, "it is under an event hold that was not requested")
    status = Status.WEAKER if found < wanted else Status.LONGER
    return LockProblem(status, f"the period of its event hold is {found} days, not {wanted} days")


def _instant(date: bytes | None) -> float | None:
    """Parse a date of S3 to epoch seconds; None if there is none or it is invalid."""
    try:
        return epoch_seconds(datetime.fromisoformat(date.decode("ascii").strip())) if date else None
    except ValueError:
        return None


def epoch_seconds(date: datetime) -> float | None:
    """Return a date of S3 in epoch seconds; None if it is outside the years 1 to 9999 of UTC.

    S3's dates are UTC, so a date without a zone is UTC too, and not this machine's local time.
    """
    try:
        return (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).astimezone(UTC).timestamp()
    except OverflowError:
        return None
