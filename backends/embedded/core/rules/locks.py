"""Lock rules of S3 versions: whether a version may be deleted and whether its lock may change.

One idea: protection only grows, except that a caller with the right to bypass may weaken GOVERNANCE. Everything here is
a value or a pure function of values and an instant. A check returns if the store may proceed and raises the refusal if
it may not. Instants are milliseconds since the epoch. A version is retained while `now < until`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime

from .refusals import BadRetainUntil, LegallyHeld, Retained

LONGEST_RETENTION_DAYS = 36_500
LONGEST_RETENTION_YEARS = 100
_DAY_MS = 86_400_000


class Mode(enum.StrEnum):
    GOVERNANCE = "GOVERNANCE"  # a caller with the right to bypass may weaken it or delete
    COMPLIANCE = "COMPLIANCE"  # no caller may


@dataclass(frozen=True, slots=True)
class VersionRetention:
    mode: Mode
    until_ms: int


@dataclass(frozen=True, slots=True)
class VersionLock:
    """The protection of a version. `legal_hold` is None if it was never set, which S3 distinguishes from OFF."""

    retention: VersionRetention | None = None
    legal_hold: bool | None = None


@dataclass(frozen=True, slots=True)
class DefaultRetention:
    """A bucket's default retention. A new version gets it once, when it is created. Days or years is set, not both."""

    mode: Mode
    days: int | None = None
    years: int | None = None

    def starting(self, created_ms: int) -> VersionRetention:
        if self.days is not None:
            return VersionRetention(self.mode, created_ms + self.days * _DAY_MS)
        created = datetime.fromtimestamp(created_ms // 1000, UTC)
        try:
            until = created.replace(year=created.year + (self.years or 0))
        except ValueError:  # 29 February in a common year: one day more, never one less
            until = created.replace(month=3, day=1, year=created.year + (self.years or 0))
        return VersionRetention(self.mode, int(until.timestamp()) * 1000 + created_ms % 1000)


UNLOCKED = VersionLock()


def check_delete(lock: VersionLock, now_ms: int, *, bypass: bool) -> None:
    """Return if a version under `lock` may be deleted at `now_ms`.

    `bypass`: the request has the bypass header and its credential has the right. Raises LegallyHeld or Retained.
    """
    if lock.legal_hold:
        raise LegallyHeld
    retention = lock.retention
    if retention is None or now_ms >= retention.until_ms:
        return
    if retention.mode is Mode.GOVERNANCE and bypass:
        return
    raise _retained(retention)


def check_new_retention(wanted: VersionRetention, now_ms: int) -> None:
    """Return if a new lock may have this date: in the future, and at most 100 years away. Raises BadRetainUntil."""
    if wanted.until_ms <= now_ms:
        raise BadRetainUntil("The retain until date must be in the future!")
    if wanted.until_ms > now_ms + LONGEST_RETENTION_YEARS * 366 * _DAY_MS:
        raise BadRetainUntil(f"The retain until date must be within {LONGEST_RETENTION_YEARS} years")


def check_retention_change(
    current: VersionRetention | None, wanted: VersionRetention | None, now_ms: int, *, bypass: bool
) -> None:
    """Return if `current` may become `wanted` (None: no retention) at `now_ms`. Raises BadRetainUntil or Retained.

    The rules are Amazon's. Extending or repeating a retention never needs bypass. Weakening GOVERNANCE needs bypass,
    and so does the change from GOVERNANCE to COMPLIANCE. COMPLIANCE is never weakened. An expired lock may become any
    lock.
    """
    if wanted is not None:
        check_new_retention(wanted, now_ms)
    if current is None or now_ms >= current.until_ms:
        return
    if wanted is not None and wanted.mode is current.mode and wanted.until_ms >= current.until_ms:
        return
    if current.mode is Mode.GOVERNANCE and bypass:
        return
    raise _retained(current)


def _retained(retention: VersionRetention) -> Retained:
    if retention.mode is Mode.COMPLIANCE:
        return Retained(retention.mode, retention.until_ms, "no caller can delete it or weaken its lock before")
    return Retained(
        retention.mode,
        retention.until_ms,
        "a deletion before that needs the right to bypass governance and the bypass header",
    )
