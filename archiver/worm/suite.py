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
from typing import Protocol, TypeVar

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
        # Those that wait for expiry first, so that nobody waits for them at the end.
        first = sorted(ids, key=lambda identifier: "W" not in catalogue()[identifier].needs)
        done = {result.id: result for result in side_by_side(first, self._run_one, on_result, CHECKS_AT_ONCE)}
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
        verdict, reason = conclude(function, case)
        return CheckResult(identifier, verdict, reason, began, time.monotonic() - clock, tuple(record))


class Noticing(Protocol):
    """A case of either protocol, as far as its conclusion is concerned."""

    deviations: list[str]
    notes: list[str]


_AnyCase = TypeVar("_AnyCase", bound=Noticing)


def conclude(function: Callable[[_AnyCase], None], case: _AnyCase) -> tuple[Verdict, str]:
    """Carry a check out: its one verdict, and the reason with all that was noticed on the way."""
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
    return verdict, "; ".join(part for part in (reason, *dict.fromkeys(case.deviations), *case.notes) if part)


def side_by_side(
    ids: Sequence[str],
    run_one: Callable[[str], CheckResult],
    on_result: Callable[[CheckResult], None],
    at_once: int,
) -> list[CheckResult]:
    """The results in the order of ``ids``; ``on_result`` hears of each as it ends, one at a time."""
    told = threading.Lock()

    def one(identifier: str) -> CheckResult:
        result = run_one(identifier)
        with told:
            on_result(result)
        return result

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(one, ids))


def _why_not(entry: CatalogueEntry) -> str:
    outside = [need for need in entry.needs if need in _NOT_FROM_OUTSIDE]
    if outside:
        return f"cannot be tried from outside in minutes: needs {', '.join(outside)}"
    return "this version has no check for it"
