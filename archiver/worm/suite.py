"""Runs the conformance checks on one platform, side by side, and keeps what each came to.

One idea: a check cannot harm another. Each has keys or buckets of its own, every bucket is in the ledger before it is
made, and whatever a check does, it ends in exactly one verdict with a reason.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from archiver.worm.case import Case
from archiver.worm.catalogue import CatalogueEntry, catalogue
from archiver.worm.checks import CHECKS
from archiver.worm.exchange import Exchange, S3Door
from archiver.worm.tsm_calls import Call
from archiver.worm.verdict import CheckEnded, Verdict

CHECKS_AT_ONCE = 12  # most of their time they wait
_NOT_FROM_OUTSIDE = ("declared", "operator", "days", "two sites")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check came to, and how that is known."""

    id: str
    verdict: Verdict
    reason: str
    started_at: float  # epoch seconds
    seconds: float
    exchanges: tuple[Exchange | Call, ...] = ()

    @property
    def entry(self) -> CatalogueEntry:
        return catalogue()[self.id]

    @property
    def is_violation(self) -> bool:
        return self.verdict is Verdict.FAIL and self.entry.is_violation


@dataclass(frozen=True, slots=True)
class Suite:
    """The checks of one platform."""

    door: S3Door
    bucket: str
    may_use_compliance: bool
    limited: Mapping[str, S3Door]
    make_bucket: Callable[[S3Door, bool], str]
    clock_offset_seconds: float

    def run(self, ids: Sequence[str], on_result: Callable[[CheckResult], None]) -> list[CheckResult]:
        """Every check of ``ids``, in their order; ``on_result`` hears of each as it ends, one at a time."""
        told = threading.Lock()

        def one(identifier: str) -> CheckResult:
            result = self._run_one(identifier)
            with told:
                on_result(result)
            return result

        # Those that wait for expiry first, so that nobody waits for them at the end.
        first = sorted(ids, key=lambda identifier: "W" not in catalogue()[identifier].needs)
        with ThreadPoolExecutor(CHECKS_AT_ONCE) as pool:
            done = {result.id: result for result in pool.map(one, first)}
        return [done[identifier] for identifier in ids]

    def _run_one(self, identifier: str) -> CheckResult:
        entry, function = catalogue()[identifier], CHECKS.get(identifier)
        began, clock = time.time(), time.monotonic()
        record: list[Exchange] = []
        if function is None:
            return CheckResult(identifier, Verdict.NOT_TRIED, _why_not(entry), began, 0.0)
        door = self.door.recording(record)
        case = Case(
            identifier, door, self.bucket, self.may_use_compliance, self.limited,
            lambda lock: self.make_bucket(door, lock), self.clock_offset_seconds,
        )  # fmt: skip
        try:
            function(case)
            verdict, reason = Verdict.PASS, ""
        except CheckEnded as ended:
            verdict, reason = ended.verdict, str(ended)
        except Exception:  # noqa: BLE001 - an answer that nobody foresaw must not end the suite
            verdict = Verdict.INCONCLUSIVE
            reason = "the check itself broke off: " + traceback.format_exc(limit=-2).strip().replace("\n", " | ")
        if verdict is Verdict.PASS and case.deviations:
            verdict = Verdict.DEVIATION
        parts = [part for part in (reason, *dict.fromkeys(case.deviations), *case.notes) if part]
        return CheckResult(identifier, verdict, "; ".join(parts), began, time.monotonic() - clock, tuple(record))


def _why_not(entry: CatalogueEntry) -> str:
    outside = [need for need in entry.needs if need in _NOT_FROM_OUTSIDE]
    if outside:
        return f"cannot be tried from outside in minutes: needs {', '.join(outside)}"
    return "this version has no check for it"
