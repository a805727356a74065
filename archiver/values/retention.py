"""Retention asked for by the user, and the one place where Archiver makes a retain-until date.

One idea: every date that ever reaches a platform comes from DateMaker.retain_until(), on the server's clock, in whole
seconds, and only after the guards agreed. A typing error here costs its user years of undeletable storage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from archiver.values.errors import SafetyRefused
from archiver.values.sizes import format_bytes, format_duration, format_instant

RETAIN_FOR_SECONDS = 300.0  # where nothing else is asked for
SHORTEST_SECONDS = 2.0  # dates are whole seconds, and a request takes its time
BUCKET_DEFAULT_SECONDS = 86_400.0  # a bucket's rule counts in days
# How far a phase's promised latest date lies beyond its first: an hour's trace, what it may take longer, and the shifts
# of its sets.
PHASE_SECONDS_MAX = 7200.0
DATE_TOLERANCE_SECONDS = 2.0  # dates and the server's clock are known in whole seconds
WITHOUT_END = 253_402_300_799.0  # 9999-12-31T23:59:59Z, which stands for a lock without an end
CLOCK_OFFSET_SECONDS_MAX = 900.0  # between the platform's clock and this machine's, without the user's consent


class RetentionMode(StrEnum):
    GOVERNANCE = "GOVERNANCE"  # a privileged caller may bypass
    COMPLIANCE = "COMPLIANCE"  # nobody may
    CLASS = "CLASS"  # the platform's management class decides, and makes the dates itself
    NONE = "none"


class Lock(StrEnum):
    """How an object comes by its lock, where a scenario measures what that costs."""

    NONE = "none"
    BUCKET_DEFAULT = "bucket-default"  # by the bucket's own rule, whose shortest time is a day
    HEADER = "header"  # in the request that archives it
    SEPARATE = "separate"  # by a request of its own, after the one that archives it
    HEADER_AND_HOLD = "header-and-hold"  # as header, with a legal hold


@dataclass(frozen=True, slots=True)
class Retention:
    """What archived objects are locked with. Exactly one of the two dates unless the mode is none."""

    mode: RetentionMode = RetentionMode.GOVERNANCE
    retain_for_seconds: float | None = RETAIN_FOR_SECONDS
    retain_until: float | None = None  # seconds since the epoch
    legal_hold: bool = False
    management_class: str | None = None  # that decides, in mode CLASS
    late_seconds: float = 0.0  # by which the class may end later than ``retain_for_seconds`` says

    @property
    def locks(self) -> bool:
        return self.mode is not RetentionMode.NONE or self.legal_hold

    def locked_by(self, lock: Lock | None, retain_for_seconds: float | None = None) -> Retention:
        """What an object is locked with that comes by its lock in this way; None: just as the run says.

        ``retain_for_seconds`` is a time of its own, for what is to expire while the run goes on.
        """
        if self.mode is RetentionMode.CLASS:
            return self  # which decides alone
        if retain_for_seconds is not None and self.mode is not RetentionMode.NONE:
            return replace(self, retain_for_seconds=retain_for_seconds, retain_until=None).locked_by(lock)
        if lock is None:
            return self
        if lock is Lock.NONE:
            return replace(self, mode=RetentionMode.NONE, retain_for_seconds=None, retain_until=None, legal_hold=False)
        held = replace(self, legal_hold=lock is Lock.HEADER_AND_HOLD)
        if lock is Lock.BUCKET_DEFAULT:
            return replace(held, retain_for_seconds=BUCKET_DEFAULT_SECONDS, retain_until=None)
        return held


@dataclass(frozen=True, slots=True)
class RetentionWish:
    """What a user asked for; None is left to the backend."""

    mode: RetentionMode | None = None
    retain_for_seconds: float | None = None
    retain_until: float | None = None  # seconds since the epoch
    legal_hold: bool = False

    def resolved(self, default: RetentionMode) -> Retention:
        """The retention of a platform that locks every object as asked for."""
        mode = self.mode or default
        if mode is RetentionMode.NONE:
            return Retention(mode, None, None, self.legal_hold)
        if self.retain_until is not None:
            return Retention(mode, None, self.retain_until, self.legal_hold)
        seconds = self.retain_for_seconds if self.retain_for_seconds is not None else RETAIN_FOR_SECONDS
        return Retention(mode, seconds, None, self.legal_hold)


@dataclass(frozen=True, slots=True)
class Guards:
    """Limits no run may pass. ``accept_locked_until`` (epoch seconds) is the user's consent for COMPLIANCE."""

    max_retain_seconds: float = 3600.0
    max_locked_bytes: int = 40 * 10**9
    accept_locked_until: float | None = None


@dataclass(frozen=True, slots=True)
class DateMaker:
    """Makes the dates of one phase; ``latest`` (epoch seconds) is what the ledger promised."""

    retention: Retention
    latest: float

    def retain_until(self, server_now: float) -> int:
        """Whole epoch seconds until which an object archived at ``server_now`` is to be kept."""
        if self.retention.retain_until is not None:
            return int(self.retention.retain_until)
        return int(min(server_now + (self.retention.retain_for_seconds or 0.0), self.latest))


def latest_date(retention: Retention, guards: Guards, server_now: float) -> float | None:
    """The latest date a phase that starts at ``server_now`` may make; None where nothing gets a date."""
    if retention.mode is RetentionMode.NONE:
        return None
    if retention.retain_until is not None:
        return retention.retain_until
    seconds = (retention.retain_for_seconds or 0.0) + retention.late_seconds
    latest = float(int(server_now + seconds + PHASE_SECONDS_MAX))
    if retention.mode is RetentionMode.COMPLIANCE and guards.accept_locked_until is not None:
        return min(latest, guards.accept_locked_until)
    return latest


def check(retention: Retention, guards: Guards, locked_bytes: int, server_now: float) -> None:
    """Refuse what would lock too long, too much or for good; nothing has been touched when this raises.

    ``locked_bytes`` is the upper bound of what the run archives. Raises SafetyRefused naming limit and option.
    """
    if not retention.locks:
        return
    if locked_bytes > guards.max_locked_bytes:
        raise SafetyRefused(
            f"this run would lock up to {format_bytes(locked_bytes)}, more than --max-locked-bytes "
            f"{format_bytes(guards.max_locked_bytes)}; choose fewer or smaller cells, or raise the limit"
        )
    if retention.mode is RetentionMode.NONE:
        return
    asked_seconds = (
        retention.retain_until - server_now
        if retention.retain_until is not None
        else (retention.retain_for_seconds or 0.0)
    )
    if retention.mode is RetentionMode.CLASS:
        _check_class(retention, guards, asked_seconds)
        return
    if asked_seconds <= 0:
        raise SafetyRefused(
            "the retain-until date is not in the future on the server's clock "
            f"({format_instant(server_now)}); choose a later --retain-until or a longer --retain-for"
        )
    if asked_seconds < SHORTEST_SECONDS:
        raise SafetyRefused(
            f"a lock of {asked_seconds:g} s may be over before the platform has it; --retain-for takes "
            f"{SHORTEST_SECONDS:g}s or more"
        )
    if asked_seconds > guards.max_retain_seconds:
        raise SafetyRefused(
            f"objects would be locked for {format_duration(asked_seconds)}, longer than --max-retain "
            f"{format_duration(guards.max_retain_seconds)}; shorten --retain-for or raise the limit deliberately"
        )
    if retention.mode is RetentionMode.COMPLIANCE:
        latest = server_now + asked_seconds
        if guards.accept_locked_until is None or latest > guards.accept_locked_until:
            raise SafetyRefused(
                "COMPLIANCE objects can be removed by nobody before their date, and this run may lock until "
                f"{format_instant(latest)} or, as it goes on, somewhat later; say until when you accept that: "
                f"--accept-locked-until {format_instant(latest + PHASE_SECONDS_MAX)}"
            )


def check_clock(offset_seconds: float | None, client_now: float, *, accepted: bool) -> None:
    """Refuse a platform whose clock is far from this machine's: dates follow it, so it decides how long locks last.

    ``offset_seconds``: platform minus client, None where it is unknown; ``client_now`` in epoch seconds; ``accepted``:
    the user consented to dates by the platform's clock. Raises SafetyRefused naming both clocks.
    """
    if accepted or offset_seconds is None or abs(offset_seconds) <= CLOCK_OFFSET_SECONDS_MAX:
        return
    raise SafetyRefused(
        f"the platform's clock says {format_instant(client_now + offset_seconds)}, this machine's "
        f"{format_instant(client_now)}: they are {format_duration(abs(offset_seconds))} apart, more than "
        f"{format_duration(CLOCK_OFFSET_SECONDS_MAX)}, and retain-until dates follow the platform's clock; set the "
        "clock that is wrong, or consent to dates by the platform's clock: --accept-server-clock"
    )


def _check_class(retention: Retention, guards: Guards, seconds: float) -> None:
    """A class may lock for any time from none at all; only the limit from above is the user's to set."""
    if seconds > guards.max_retain_seconds:
        raise SafetyRefused(
            f"management class {retention.management_class} locks objects for {format_duration(seconds)}, longer than "
            f"--max-retain {format_duration(guards.max_retain_seconds)}; choose another with --management-class, or "
            "raise the limit deliberately"
        )
