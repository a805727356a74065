"""Holdings: the data that runs left on platforms, grouped by run and place, and the cost of keeping it.

One idea: a holding is the data of one run in one bucket or file space, because it is locked, paid for and removed as
one unit. Its state follows from the ledger's dates and an explicit `now`. removal.py handles what the platform reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from archiver.ledger.ledger import Placement
from archiver.values.retention import WITHOUT_END, RetentionMode
from archiver.values.sizes import format_instant

GB_BYTES = 10**9
MONTH_SECONDS = 365.25 / 12 * 86_400


class HoldingState(StrEnum):
    """State of a holding's locks at a given time of this machine's clock."""

    LOCKED = "locked"
    HELD = "held"  # under a legal hold or an event hold, which have no end
    UNKNOWN = "unknown"  # a phase is in progress or never ended, so its locks were not counted
    EXPIRED = "expired"  # nothing is locked: it can be removed


@dataclass(frozen=True, slots=True)
class Holding:
    """The data of one run in one bucket or file space: at least one row of the ledger, in the order of writing."""

    placements: tuple[Placement, ...]

    @property
    def first(self) -> Placement:
        """Return the first row; all rows have the same run, platform, bucket and prefix."""
        return self.placements[0]

    @property
    def rows(self) -> list[int]:
        """Return the ids of these rows in the ledger."""
        return [each.id for each in self.placements if each.id is not None]

    @property
    def place(self) -> str:
        """Return the platform's name for this kind of place."""
        return "file space" if self.first.backend == "tsm" else "bucket"

    @property
    def numbers(self) -> range | None:
        """Return the object numbers that the run may have used here; None: the run made the place and all in it."""
        if not self.first.prefix:
            return None
        return range(max(each.first_number + each.objects_max for each in self.placements))

    @property
    def objects(self) -> int:
        """Return the number of objects; an upper bound unless ``exact``."""
        return sum(map(_objects, self.placements))

    @property
    def bytes(self) -> int:
        """Return the archived bytes; an upper bound unless ``exact``."""
        return sum(map(_bytes, self.placements))

    @property
    def gb(self) -> float:
        return self.bytes / GB_BYTES

    @property
    def exact(self) -> bool:
        """Whether every phase ended; otherwise only the upper bound of some phase is known."""
        return all(each.objects is not None for each in self.placements)

    @property
    def modes(self) -> tuple[str, ...]:
        """Return the retention modes of the objects."""
        return tuple(dict.fromkeys(each.mode for each in self._filled() or self.placements))

    @property
    def locked_until(self) -> float | None:
        """Return the latest retain-until date in epoch seconds; None if there is none."""
        return max((p.locked_until for p in self._filled() if p.locked_until is not None), default=None)

    @property
    def is_held(self) -> bool:
        """Whether the run placed a hold, or the platform reported one for its objects."""
        return any(each.is_held for each in self._filled())

    def state(self, now: float) -> HoldingState:
        """Return the state of the locks at ``now`` (epoch seconds)."""
        locked = [each for each in self._filled() if each.is_held or _dated_after(each, now)]
        if not locked:
            return HoldingState.EXPIRED
        counted = [each for each in locked if each.objects is not None]
        if not counted:
            return HoldingState.UNKNOWN
        return HoldingState.HELD if any(each.is_held for each in counted) else HoldingState.LOCKED

    def may_be_locked(self, now: float) -> bool:
        """Return whether some of the data can still be locked."""
        return self.state(now) is not HoldingState.EXPIRED

    def has_expired(self, now: float) -> bool:
        """Return whether every retain-until date has passed. A hold has no date."""
        return not any(_dated_after(each, now) for each in self._filled())

    def can_be_bypassed(self) -> bool:
        """Return whether some locks are GOVERNANCE."""
        return any(each.mode == RetentionMode.GOVERNANCE.value for each in self.placements)

    def gb_months(self, now: float) -> float | None:
        """Return GB-months from ``now`` until the locks end, by the latest date of each phase; None under a hold."""
        if self.is_held:
            return None
        return sum(
            _bytes(each) / GB_BYTES * max(0.0, (each.locked_until or 0.0) - now) / MONTH_SECONDS
            for each in self._filled()
        )

    def _filled(self) -> list[Placement]:
        """Return the rows that are not known to be empty."""
        return [each for each in self.placements if each.objects != 0]


def gather(placements: Iterable[Placement]) -> list[Holding]:
    """Group rows of the ledger into holdings, ordered by the date of their first row."""
    by_place: dict[tuple[str, ...], list[Placement]] = {}
    for each in placements:
        # A platform that Archiver starts has a different port every time.
        where = each.platform or each.endpoint
        by_place.setdefault((each.run, each.backend, where, each.bucket, each.prefix), []).append(each)
    return sorted((Holding(tuple(rows)) for rows in by_place.values()), key=lambda holding: holding.first.written_at)


def until_words(placements: Iterable[Placement], now: float) -> str:
    """Return until when locks were asked for, and later ones that a platform reported; empty if all have ended.

    These are no bounds of what a platform did: only the locks of some objects are read back.
    """
    filled = [each for each in placements if each.objects != 0]
    asked = max((each.asked_until for each in filled if each.asked_until is not None), default=0.0)
    seen = max((each.seen_until for each in filled if each.seen_until is not None), default=0.0)
    words = [f"locks asked for until {format_instant(asked)}"] if asked > now else []
    words += [f"locks reported until {format_instant(min(seen, WITHOUT_END))}"] if seen > max(asked, now) else []
    return ", ".join(words)


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of several holdings."""

    holdings: int
    objects: int
    bytes: int
    exact: bool
    locked_until: float | None  # epoch seconds; the latest of all holdings


def total(holdings: Sequence[Holding]) -> Total:
    return Total(
        holdings=len(holdings),
        objects=sum(each.objects for each in holdings),
        bytes=sum(each.bytes for each in holdings),
        exact=all(each.exact for each in holdings),
        locked_until=max((each.locked_until for each in holdings if each.locked_until is not None), default=None),
    )


def _objects(placement: Placement) -> int:
    return placement.objects if placement.objects is not None else placement.objects_max


def _bytes(placement: Placement) -> int:
    return placement.bytes if placement.bytes is not None else placement.bytes_max


def _dated_after(placement: Placement, now: float) -> bool:
    return placement.locked_until is not None and placement.locked_until > now
