"""Lock rules of S3 versions: whether a version may be deleted and whether its lock may change.

One idea: protection only grows, except that a caller with the right to bypass may weaken GOVERNANCE. Everything here is
a value or a pure function of values and an instant. A check returns if the store may proceed and raises the refusal if
it may not. Instants are milliseconds since the epoch. A version is retained while `now < until`.

An event hold moves that date: while the hold is on, the version is retained for the hold's period from now on, and from
its release on once more for the whole period. Amazon's user guide has these rules ("Object Lock considerations").
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from .refusals import BadRetainUntil, LegallyHeld, NoEventHold, Retained

LONGEST_RETENTION_DAYS = 36_500
LONGEST_RETENTION_YEARS = 100
_DAY_MS = 86_400_000


class Mode(enum.StrEnum):
    GOVERNANCE = "GOVERNANCE"  # a caller with the right to bypass may weaken it or delete
    COMPLIANCE = "COMPLIANCE"  # no caller may


@dataclass(frozen=True, slots=True)
class Period:
    """A length of time that ends at the same time of day. Days or years is set, not both."""

    days: int | None = None
    years: int | None = None

    def after(self, start_ms: int) -> int:
        """Return the instant at which the period ends if it starts at `start_ms`."""
        if self.days is not None:
            return start_ms + self.days * _DAY_MS
        start = datetime.fromtimestamp(start_ms // 1000, UTC)
        try:
            end = start.replace(year=start.year + (self.years or 0))
        except ValueError:  # 29 February in a common year: one day more, never one less
            end = start.replace(month=3, day=1, year=start.year + (self.years or 0))
        return int(end.timestamp()) * 1000 + start_ms % 1000


@dataclass(frozen=True, slots=True)
class EventHold:
    """An event hold that is on, with the period that its release starts; or one that was released (None)."""

    period: Period | None


RELEASED = EventHold(None)


@dataclass(frozen=True, slots=True)
class VersionRetention:
    """A retention. `until_ms` is 0 if an event hold alone sets the date. `event_hold` is None if it never had one."""

    mode: Mode
    until_ms: int = 0
    event_hold: EventHold | None = None

    @property
    def held_for(self) -> Period | None:
        """The period of the event hold that is on; None if none is."""
        return None if self.event_hold is None else self.event_hold.period

    def ends_ms(self, now_ms: int) -> int:
        """Return the retain-until date at `now_ms`, which moves with the time while an event hold is on."""
        return self.until_ms if self.held_for is None else max(self.until_ms, self.held_for.after(now_ms))


@dataclass(frozen=True, slots=True)
class VersionLock:
    """The protection of a version. `legal_hold` is None if it was never set, which S3 distinguishes from OFF."""

    retention: VersionRetention | None = None
    legal_hold: bool | None = None


@dataclass(frozen=True, slots=True)
class DefaultRetention:
    """A bucket's default retention: a period, an event hold or both. A new version gets it once, when it is created."""

    mode: Mode
    period: Period | None = None
    held_for: Period | None = None

    def starting(self, created_ms: int) -> VersionRetention:
        until_ms = 0 if self.period is None else self.period.after(created_ms)
        return VersionRetention(self.mode, until_ms, None if self.held_for is None else EventHold(self.held_for))


UNLOCKED = VersionLock()


def check_delete(lock: VersionLock, now_ms: int, *, bypass: bool) -> None:
    """Return if a version under `lock` may be deleted at `now_ms`.

    `bypass`: the request has the bypass header and its credential has the right. Raises LegallyHeld or Retained.
    """
    if lock.legal_hold:
        raise LegallyHeld
    retention = lock.retention
    if retention is None or now_ms >= retention.ends_ms(now_ms):
        return
    if retention.mode is Mode.GOVERNANCE and bypass:
        return
    raise _retained(retention, now_ms)


def check_new_retention(wanted: VersionRetention, now_ms: int) -> None:
    """Return if a new lock may have this date: in the future. Raises BadRetainUntil.

    Amazon documents a limit of 100 years for default rules, and none for the date of one object.
    """
    if not wanted.until_ms and wanted.event_hold is not None:
        return  # the event hold sets the date
    if wanted.until_ms <= now_ms:
        raise BadRetainUntil("The retain until date must be in the future!")


def changed_retention(
    current: VersionRetention | None, wanted: VersionRetention | None, now_ms: int, *, bypass: bool
) -> VersionRetention | None:
    """Return what `current` becomes at `now_ms` if a client requests `wanted` (None: no retention).

    The rules are Amazon's. Extending or repeating a retention never needs bypass, and neither does the release of an
    event hold, which keeps the version for the hold's period or until the requested date, whichever is later. Weakening
    GOVERNANCE needs bypass, and so does the change from GOVERNANCE to COMPLIANCE. COMPLIANCE is never weakened. An
    expired lock may become any lock. Raises BadRetainUntil, NoEventHold or Retained.
    """
    if wanted is not None:
        check_new_retention(wanted, now_ms)
    live = current if current is not None and now_ms < current.ends_ms(now_ms) else None
    bypasses = bypass and live is not None and live.mode is Mode.GOVERNANCE
    changed = None if wanted is None else _merged(live, wanted, now_ms, keeps_date=not bypasses)
    if live is None or bypasses:
        return changed
    if changed is not None and changed.mode is live.mode and changed.ends_ms(now_ms) >= live.ends_ms(now_ms):
        return changed
    raise _retained(live, now_ms)


def _merged(
    live: VersionRetention | None, wanted: VersionRetention, now_ms: int, *, keeps_date: bool
) -> VersionRetention:
    """Return `wanted` with what it takes over from the retention in force: its event hold, and the date of the hold.

    `keeps_date`: a new period of the hold never brings the date forward. Raises NoEventHold.
    """
    if wanted.event_hold is None:
        return replace(wanted, event_hold=None if live is None else live.event_hold)
    if wanted.held_for is None:  # a release
        if live is not None and live.held_for is not None:
            return replace(wanted, until_ms=max(wanted.until_ms, live.ends_ms(now_ms)))
        if not wanted.until_ms:
            raise NoEventHold
        return wanted
    return replace(wanted, until_ms=max(wanted.until_ms, live.ends_ms(now_ms))) if live and keeps_date else wanted


def _retained(retention: VersionRetention, now_ms: int) -> Retained:
    until_ms = retention.ends_ms(now_ms)
    if retention.mode is Mode.COMPLIANCE:
        return Retained(retention.mode, until_ms, "no caller can delete it or weaken its lock before")
    return Retained(
        retention.mode,
        until_ms,
        "a deletion before that needs the right to bypass governance and the bypass header",
    )
