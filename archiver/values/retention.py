"""Retention as the user requests it, and the only code that computes a retain-until date.

One idea: every date sent to a platform comes from DateMaker.retain_until(), in whole seconds of the server's clock, and
only after the guards have accepted it. A wrong date could cost the user years of storage that cannot be deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from archiver.values.errors import SafetyRefused
from archiver.values.sizes import format_bytes, format_clock_offset, format_duration, format_instant

RETAIN_FOR_SECONDS = 300.0  # default
SHORTEST_SECONDS = 2.0  # dates are whole seconds, and a request takes time
DAY_SECONDS = 86_400.0
BUCKET_DEFAULT_SECONDS = DAY_SECONDS  # a bucket's rule counts in days
# Maximum distance between a phase's first and latest date: an hour's trace, its allowed overrun, and the shifts of its
# sets.
PHASE_SECONDS_MAX = 7200.0
DATE_TOLERANCE_SECONDS = 2.0  # dates and the server's clock are known in whole seconds
WITHOUT_END = 253_402_300_799.0  # 9999-12-31T23:59:59Z, used for a lock without an end
CLOCK_OFFSET_SECONDS_MAX = 900.0  # between the clocks of platform and this machine, without the user's consent


class RetentionMode(StrEnum):
    GOVERNANCE = "GOVERNANCE"  # a privileged caller may bypass it
    COMPLIANCE = "COMPLIANCE"  # no caller may bypass it
    CLASS = "CLASS"  # the platform's management class computes the dates
    NONE = "none"


class Lock(StrEnum):
    """Way in which an object gets its lock, in scenarios that measure the cost of locks."""

    NONE = "none"
    BUCKET_DEFAULT = "bucket-default"  # by the bucket's default rule, at least a day
    HEADER = "header"  # in the request that archives it
    SEPARATE = "separate"  # in a separate request after the archive request
    HEADER_AND_HOLD = "header-and-hold"  # as header, with a legal hold


@dataclass(frozen=True, slots=True)
class Retention:
    """The lock of archived objects. Exactly one of the two dates is set unless the mode is none.

    With an event hold the dates are lower bounds: the platform retains an object until its event hold is released, and
    then for ``event_hold_days``.
    """

    mode: RetentionMode = RetentionMode.GOVERNANCE
    retain_for_seconds: float | None = RETAIN_FOR_SECONDS
    retain_until: float | None = None  # epoch seconds
    legal_hold: bool = False
    management_class: str | None = None  # in mode CLASS
    late_seconds: float = 0.0  # the class may end the lock up to this much later than ``retain_for_seconds``
    event_hold_days: int | None = None  # None: no event hold
    event_hold_by_operation: bool = False  # operations of the scenario place event holds; archive requests do not

    @property
    def locks(self) -> bool:
        return self.mode is not RetentionMode.NONE or self.legal_hold

    def locked_by(self, lock: Lock | None, retain_for_seconds: float | None = None) -> Retention:
        """Return the lock of an object that gets it in this way; None: as the run requests it.

        ``retain_for_seconds`` replaces the run's period, for objects that expire during the run. These get no event
        hold.
        """
        if self.mode is RetentionMode.CLASS:
            return self  # the class alone decides
        if self.event_hold_by_operation:
            without = replace(self, event_hold_days=None, event_hold_by_operation=False)
            return without.locked_by(lock, retain_for_seconds)
        if retain_for_seconds is not None and self.mode is not RetentionMode.NONE:
            expiring = replace(self, retain_for_seconds=retain_for_seconds, retain_until=None, event_hold_days=None)
            return expiring.locked_by(lock)
        if lock is None:
            return self
        if lock is Lock.NONE:
            return Retention(RetentionMode.NONE, None)
        held = replace(self, legal_hold=lock is Lock.HEADER_AND_HOLD)
        if lock is Lock.BUCKET_DEFAULT:
            return replace(held, retain_for_seconds=BUCKET_DEFAULT_SECONDS, retain_until=None, event_hold_days=None)
        return replace(held, event_hold_days=None) if lock is Lock.SEPARATE else held


@dataclass(frozen=True, slots=True)
class RetentionWish:
    """The retention that the user requested; None: the backend decides."""

    mode: RetentionMode | None = None
    retain_for_seconds: float | None = None
    retain_until: float | None = None  # epoch seconds
    legal_hold: bool = False
    event_hold_days: int | None = None

    def resolved(self, default: RetentionMode) -> Retention:
        """Return the retention on a platform that locks every object as requested."""
        mode, seconds = self.mode or default, None
        if mode is not RetentionMode.NONE and self.retain_until is None:
            seconds = self.retain_for_seconds if self.retain_for_seconds is not None else RETAIN_FOR_SECONDS
        until = None if mode is RetentionMode.NONE else self.retain_until
        return Retention(mode, seconds, until, self.legal_hold, event_hold_days=self.event_hold_days)


@dataclass(frozen=True, slots=True)
class Guards:
    """Limits for every run. ``accept_locked_until`` (epoch seconds) is the user's consent to COMPLIANCE."""

    max_retain_seconds: float = 3600.0
    max_locked_bytes: int = 40 * 10**9
    accept_locked_until: float | None = None


@dataclass(frozen=True, slots=True)
class DateMaker:
    """Computation of the dates of one phase. ``latest`` (epoch seconds) is the upper bound in the ledger."""

    retention: Retention
    latest: float

    def retain_until(self, server_now: float) -> int:
        """Return the retain-until date, in whole epoch seconds, of an object archived at ``server_now``."""
        if self.retention.retain_until is not None:
            return int(self.retention.retain_until)
        return int(min(server_now + (self.retention.retain_for_seconds or 0.0), self.latest))


def latest_date(retention: Retention, guards: Guards, server_now: float) -> float | None:
    """Return the latest date of a phase that starts at ``server_now``; None if no object gets a date."""
    if retention.mode is RetentionMode.NONE:
        return None
    if retention.retain_until is not None:
        return retention.retain_until
    seconds = (retention.retain_for_seconds or 0.0) + retention.late_seconds
    latest = float(int(server_now + seconds + PHASE_SECONDS_MAX))
    if retention.mode is RetentionMode.COMPLIANCE and guards.accept_locked_until is not None:
        return min(latest, guards.accept_locked_until)
    return latest


def latest_release_date(retention: Retention, server_now: float) -> float:
    """Return the latest date that the release of an event hold can set in a phase that starts at ``server_now``."""
    return float(int(server_now + (retention.event_hold_days or 0) * DAY_SECONDS + PHASE_SECONDS_MAX))


def check(retention: Retention, guards: Guards, locked_bytes: int, server_now: float) -> None:
    """Refuse retention that is too long, of too much data or without an end, before anything is changed.

    ``locked_bytes`` is the upper bound of what the run archives. Raises SafetyRefused with the limit and its option.
    """
    if not retention.locks and retention.event_hold_days is None:
        return
    if locked_bytes > guards.max_locked_bytes:
        raise SafetyRefused(
            f"this run would lock up to {format_bytes(locked_bytes)}, more than --max-locked-bytes "
            f"{format_bytes(guards.max_locked_bytes)}; choose fewer or smaller cells, or raise the limit"
        )
    if retention.event_hold_days is not None:
        _check_event_hold(retention.mode, retention.event_hold_days, guards)
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
            f"a lock of {asked_seconds:g} s may end before the platform has it; use --retain-for {SHORTEST_SECONDS:g}s "
            "or more"
        )
    if asked_seconds > guards.max_retain_seconds:
        raise SafetyRefused(
            f"objects would be locked for {format_duration(asked_seconds)}, longer than --max-retain "
            f"{format_duration(guards.max_retain_seconds)}; shorten --retain-for or raise the limit deliberately"
        )
    if retention.mode is RetentionMode.COMPLIANCE:
        latest = server_now + asked_seconds
        if guards.accept_locked_until is None or latest > guards.accept_locked_until:
            grows = retention.retain_until is None  # a period begins when an object is archived
            later = f", and later by the time that it runs (at most {format_duration(PHASE_SECONDS_MAX)} a phase)"
            suggested = latest + PHASE_SECONDS_MAX if grows else latest
            raise SafetyRefused(
                "no caller can remove COMPLIANCE objects before their date, and this run may lock objects until "
                f"{format_instant(latest)}{later if grows else ''}; state the latest date that you accept: "
                f"--accept-locked-until {format_instant(suggested)}"
            )


def check_clock(offset_seconds: float | None, client_now: float, *, accepted: bool) -> None:
    """Refuse a platform whose clock is far from this machine's, because its clock decides how long locks last.

    ``offset_seconds`` is platform minus client, None if unknown; ``client_now`` is in epoch seconds; ``accepted`` is
    the user's consent to dates by the platform's clock. Raises SafetyRefused with both clocks.
    """
    if accepted or offset_seconds is None or abs(offset_seconds) <= CLOCK_OFFSET_SECONDS_MAX:
        return
    raise SafetyRefused(
        f"the platform's clock says {format_instant(client_now + offset_seconds)}, this machine's "
        f"{format_instant(client_now)}: they are {format_clock_offset(offset_seconds)} apart, more than "
        f"{format_duration(CLOCK_OFFSET_SECONDS_MAX)}, and retain-until dates follow the platform's clock; set the "
        "clock that is wrong, or consent to dates by the platform's clock: --accept-server-clock"
    )


def _check_class(retention: Retention, guards: Guards, seconds: float) -> None:
    """Check a class only against the upper limit: it may retain for any shorter time, or not at all."""
    if seconds > guards.max_retain_seconds:
        raise SafetyRefused(
            f"management class {retention.management_class} locks objects for {format_duration(seconds)}, longer than "
            f"--max-retain {format_duration(guards.max_retain_seconds)}; choose another with --management-class, or "
            "raise the limit deliberately"
        )


def _check_event_hold(mode: RetentionMode, days: int, guards: Guards) -> None:
    """Check an event hold, whose release starts a period in which the object stays locked."""
    if mode is not RetentionMode.GOVERNANCE:
        raise SafetyRefused(
            f"--event-hold in mode {mode.value}: an event hold needs a mode, and under COMPLIANCE there is no date "
            "from which its objects can be removed; use --retention-mode GOVERNANCE"
        )
    if days * DAY_SECONDS > guards.max_retain_seconds:
        raise SafetyRefused(
            f"objects would stay locked for {format_duration(days * DAY_SECONDS)} after the release of their event "
            f"holds, longer than --max-retain {format_duration(guards.max_retain_seconds)}; shorten --event-hold, or "
            "raise the limit deliberately"
        )
