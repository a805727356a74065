"""Holdings: what all runs have out there, gathered from the ledger by run and place, and what keeping it costs.

One idea: a holding is what one run has in one bucket or file space, because that is locked, paid for and removed as
one. Its state follows from the ledger's dates and a `now` that is handed in; what a platform says of it is another
matter (see removal.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from archiver.ledger.ledger import Placement
from archiver.values.retention import RetentionMode

GB_BYTES = 10**9
MONTH_SECONDS = 365.25 / 12 * 86_400


class HoldingState(StrEnum):
    """What a holding's locks allow at some moment, by our clock."""

    LOCKED = "locked"
    HELD = "held"  # a legal hold, which has no end
    UNKNOWN = "unknown"  # a phase never ended, so that nobody counted what it locked; or it is under way
    EXPIRED = "expired"  # nothing is locked any more, or ever was: it can be removed


@dataclass(frozen=True, slots=True)
class Holding:
    """What one run has in one bucket or file space: rows of the ledger, at least one, in the order of writing."""

    placements: tuple[Placement, ...]

    @property
    def first(self) -> Placement:
        """Names run, platform, bucket and prefix, in which all rows agree."""
        return self.placements[0]

    @property
    def rows(self) -> list[int]:
        """The ledger's numbers of these rows."""
        return [each.id for each in self.placements if each.id is not None]

    @property
    def place(self) -> str:
        """What the platform calls such a place."""
        return "file space" if self.first.backend == "tsm" else "bucket"

    @property
    def objects(self) -> int:
        """How many there are; where it is not ``exact``, at most."""
        return sum(map(_objects, self.placements))

    @property
    def bytes(self) -> int:
        """How much there is, as archived; where it is not ``exact``, at most."""
        return sum(map(_bytes, self.placements))

    @property
    def gb(self) -> float:
        return self.bytes / GB_BYTES

    @property
    def exact(self) -> bool:
        """False where a phase never ended: its bound is all that is known."""
        return all(each.objects is not None for each in self.placements)

    @property
    def modes(self) -> tuple[str, ...]:
        """The retention modes of its objects."""
        return tuple(dict.fromkeys(each.mode for each in self._filled() or self.placements))

    @property
    def locked_until(self) -> float | None:
        """The latest date, in epoch seconds; None where nothing has one."""
        return max((p.locked_until for p in self._filled() if p.locked_until is not None), default=None)

    @property
    def legal_hold(self) -> bool:
        """Objects of it are under a legal hold that the run placed, or that was seen on its first objects."""
        return any(each.is_held for each in self._filled())

    def state(self, now: float) -> HoldingState:
        """What the locks allow at ``now`` (epoch seconds)."""
        locked = [each for each in self._filled() if each.is_held or _dated_after(each, now)]
        if not locked:
            return HoldingState.EXPIRED
        counted = [each for each in locked if each.objects is not None]
        if not counted:
            return HoldingState.UNKNOWN
        return HoldingState.HELD if any(each.is_held for each in counted) else HoldingState.LOCKED

    def may_be_locked(self, now: float) -> bool:
        """True while not all of what was put there can have been removed."""
        return self.state(now) is not HoldingState.EXPIRED

    def has_expired(self, now: float) -> bool:
        """Every date has passed at ``now``; a legal hold has none."""
        return not any(_dated_after(each, now) for each in self._filled())

    def can_be_bypassed(self) -> bool:
        """There is GOVERNANCE among its locks."""
        return any(each.mode == RetentionMode.GOVERNANCE.value for each in self.placements)

    def gb_months(self, now: float) -> float | None:
        """GB-months from ``now`` until the locks end, each phase's bytes by its latest date; None: under a hold."""
        if self.legal_hold:
            return None
        return sum(
            _bytes(each) / GB_BYTES * max(0.0, (each.locked_until or 0.0) - now) / MONTH_SECONDS
            for each in self._filled()
        )

    def _filled(self) -> list[Placement]:
        """Without the rows of which it is known that nothing was put there."""
        return [each for each in self.placements if each.objects != 0]


def gather(placements: Iterable[Placement]) -> list[Holding]:
    """The holdings that these rows of the ledger make, ordered by the date of their first row."""
    together: dict[tuple[str, ...], list[Placement]] = {}
    for each in placements:
        # A platform that Archiver starts has another port every time.
        where = each.platform or each.endpoint
        together.setdefault((each.run, each.backend, where, each.bucket, each.prefix), []).append(each)
    return sorted((Holding(tuple(rows)) for rows in together.values()), key=lambda holding: holding.first.written_at)


@dataclass(frozen=True, slots=True)
class Total:
    """Several holdings together."""

    holdings: int
    objects: int
    bytes: int
    exact: bool
    locked_until: float | None  # epoch seconds, the latest


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
