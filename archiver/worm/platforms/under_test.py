"""A platform under test: how its checks start, and the buckets or file spaces that the run creates there.

One idea: the ledger knows each of these places before it exists, and the run removes at its end all that it may remove.
So nothing that the checks locked is left without a record.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from archiver.ledger.ledger import Ledger, Placement
from archiver.machine import interruption
from archiver.values.platform import PlatformProfile
from archiver.worm.suite import Suite
from backends.base import RemovalReport


@dataclass(frozen=True, slots=True)
class WormRun:
    """One run of checks on one platform."""

    id: str
    ledger: Ledger
    profile: PlatformProfile
    platform: str | None  # by which Archiver started it; None: another owner's, at its endpoint


@dataclass(slots=True)
class UnderTest(ABC):
    """The platform of a run, over one protocol."""

    protocol: ClassVar[str]
    is_generated_for: ClassVar[bool] = False  # whether sequences can be generated for its protocol

    run: WormRun
    left: dict[str, RemovalReport] = field(default_factory=dict, init=False)  # by place that remains after the run
    _made: list[tuple[Placement, int]] = field(default_factory=list, init=False)  # with its row in the ledger
    _making: threading.Lock = field(default_factory=threading.Lock, init=False)

    @abstractmethod
    def covers(self, identifier: str) -> bool:
        """Return whether this protocol has the check."""

    @abstractmethod
    def opened(self, ids: Sequence[str]) -> AbstractContextManager[Suite]:
        """Yield the suite for these checks. The end of the block removes all places, also after an interruption.

        Raises PlatformError if the platform creates no place for the checks.
        """

    @abstractmethod
    def removal_of(self, placement: Placement) -> RemovalReport:
        """Try to remove one place."""

    def seconds_until_unlocked(self) -> float:
        """Return how long to wait until the locks of a place in ``left`` have expired; 0 if none do so soon."""
        return 0.0

    def enter(self, name: str, **facts: Any) -> None:
        """Enter a place into the ledger; create it after that. ``facts`` are further fields of the Placement."""
        placement = Placement(
            run=self.run.id,
            phase=f"worm {name}",
            backend=self.protocol,
            platform=self.run.platform,
            bucket=name,
            bucket_created=True,
            prefix="",
            **facts,
        )
        with self._making:
            self._made.append((placement, self.run.ledger.open_placement(placement)))

    def remove(self) -> None:
        """Remove all places that can be removed; ``left`` has the others."""
        with interruption.deferred():  # otherwise places would stay
            remaining = self._remove(self._made)
            if remaining and (seconds := self.seconds_until_unlocked()):
                time.sleep(seconds)
                self._remove(remaining)

    def _remove(self, placements: Sequence[tuple[Placement, int]]) -> list[tuple[Placement, int]]:
        """Remove these places; return those that remain. The ledger gets what was counted and seen in them."""
        remaining, self.left = [], {}
        for placement, row in placements:
            report = self.removal_of(placement)
            if report.bucket_removed or report.bucket_missing:
                self.run.ledger.mark_removed(self.run.id, placement.bucket)
            else:
                self._record(placement, row, report)
                remaining.append((placement, row))
                self.left[placement.bucket] = report
        return remaining

    def _record(self, placement: Placement, row: int, report: RemovalReport) -> None:
        """Replace the upper bound in the ledger by what a removal left; keep it if the removal counted nothing."""
        ledger = self.run.ledger
        if report.objects_left or report.bucket_kept is not None:
            # A removal that may release holds reads every lock of what it leaves.
            are_locks_seen = placement.legal_hold and not report.holds_unconfirmed
            until = report.locked_until if are_locks_seen else None
            ledger.close_placement(row, report.objects_left, report.bytes_left, latest_retain_until=until)
            if are_locks_seen and not report.on_hold:
                ledger.record_release([row], until)
        ledger.observe([row], None, report.locked_until, on_hold=report.on_hold)
