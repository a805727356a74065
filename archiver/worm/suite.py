"""Runs the conformance checks on one platform in parallel and collects their results.

One idea: checks cannot disturb each other. Each has its own keys or buckets, the ledger knows every bucket before it
exists, and each check ends in exactly one verdict with a reason.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

from archiver.worm.case import Case
from archiver.worm.catalogue import CatalogueEntry, catalogue, severity_rank
from archiver.worm.checks import CHECKS, CheckFunction
from archiver.worm.requests.exchange import RecordedExchange, S3Client
from archiver.worm.tsm.calls import ApiCall
from archiver.worm.verdict import CheckEnded, CheckVerdict, Failed
from results.model import FIRST_ROUND, RESTARTED_ROUND, VIOLATIONS, CheckFinding

CHECKS_AT_ONCE = 12  # they spend most of their time waiting
_NOT_FROM_OUTSIDE = {  # what the run would need, in words
    "declared": "a declaration of the operator",
    "operator": "an action of the operator",
    "days": "several days",
    "two sites": "two sites",
}


class Round(StrEnum):
    """Activity of the platform during a check."""

    ALONE = FIRST_ROUND  # nothing but other checks
    UNDER_LOAD = "under load"
    AFTER_RESTART = RESTARTED_ROUND


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check, with its evidence."""

    id: str
    verdict: CheckVerdict
    reason: str
    started_at: float  # epoch seconds
    seconds: float
    exchanges: tuple[RecordedExchange | ApiCall, ...] = ()
    round: Round = Round.ALONE
    found_severity: str | None = None  # of the finding; None: the catalogue's
    findings: tuple[CheckFinding, ...] = ()  # of a FAIL or DEVIATION

    @property
    def entry(self) -> CatalogueEntry:
        return catalogue()[self.id]

    @property
    def severity(self) -> str:
        """Severity of the finding; the catalogue's if the finding states none, or the check did not fail."""
        return self.found_severity or self.entry.severity

    @property
    def is_violation(self) -> bool:
        return self.verdict is CheckVerdict.FAIL and self.severity in VIOLATIONS


@dataclass(frozen=True, slots=True)
class Suite:
    """The checks of one platform."""

    client: S3Client
    bucket: str
    may_use_compliance: bool
    limited: Mapping[str, S3Client]
    make_bucket: Callable[[S3Client, bool], str]
    clock_offset_seconds: float

    def run(
        self, ids: Sequence[str], on_result: Callable[[CheckResult], None], round_: Round = Round.ALONE
    ) -> list[CheckResult]:
        """Run the checks ``ids`` and return results in that order; ``on_result`` is called as each ends, serially."""
        # Checks that wait for an expiry start first, so that the run does not wait for them at the end.
        first = sorted(ids, key=lambda identifier: "W" not in catalogue()[identifier].needs)
        found = side_by_side(first, lambda each: self._run_one(each, round_), on_result, CHECKS_AT_ONCE)
        done = {result.id: result for result in found}
        return [done[identifier] for identifier in ids]

    def judge(self, identifier: str, function: CheckFunction, round_: Round) -> CheckResult:
        """Run ``function`` as the check ``identifier``."""
        began, clock = time.time(), time.monotonic()
        record: list[RecordedExchange] = []
        client = self.client.recording(record)
        case = Case(
            identifier, client, self.bucket, self.may_use_compliance, self.limited,
            lambda lock: self.make_bucket(client, lock), self.clock_offset_seconds,
        )  # fmt: skip
        end = conclude(function, case)
        seconds = time.monotonic() - clock
        if end.verdict is CheckVerdict.FAIL and not any(each.verdict is end.verdict for each in case.noticed):
            case.mark(end.verdict, end.reason)
        noticed = sorted(
            (each for each in case.noticed if each.verdict is end.verdict),
            key=lambda each: severity_rank(each.severity),
        )
        findings = tuple(each.finding for each in noticed)
        return CheckResult(
            identifier, end.verdict, end.reason, began, seconds, tuple(record), round_, end.severity, findings
        )

    def _run_one(self, identifier: str, round_: Round) -> CheckResult:
        function = CHECKS.get(identifier)
        if function is None:
            why = _why_not(catalogue()[identifier])
            return CheckResult(identifier, CheckVerdict.NOT_TRIED, why, time.time(), 0.0, round=round_)
        return self.judge(identifier, function, round_)


class Noticing(Protocol):
    """The part of an S3 case and a TSM case that ``conclude`` needs."""

    deviations: list[str]
    notes: list[str]


_AnyCase = TypeVar("_AnyCase", bound=Noticing)


class Conclusion(NamedTuple):
    """The end of a check: its verdict, reason and severity."""

    verdict: CheckVerdict
    reason: str  # with all deviations and notes
    severity: str | None  # of the finding; None: the catalogue's


def conclude(function: Callable[[_AnyCase], None], case: _AnyCase) -> Conclusion:
    """Run a check and return how it ended."""
    severity = None
    try:
        function(case)
        verdict, reason = CheckVerdict.PASS, ""
    except CheckEnded as ended:
        verdict, reason = ended.verdict, str(ended)
        severity = ended.severity if isinstance(ended, Failed) else None
    except Exception:  # noqa: BLE001 - an unforeseen answer must not end the suite
        verdict = CheckVerdict.INCONCLUSIVE
        reason = "the check itself ended with an error: " + traceback.format_exc(limit=-2).strip().replace("\n", " | ")
    if verdict is CheckVerdict.PASS and case.deviations:
        verdict = CheckVerdict.DEVIATION
    reason = "; ".join(part for part in (reason, *dict.fromkeys(case.deviations), *case.notes) if part)
    return Conclusion(verdict, reason, severity)


def side_by_side(
    ids: Sequence[str],
    run_one: Callable[[str], CheckResult],
    on_result: Callable[[CheckResult], None],
    at_once: int,
) -> list[CheckResult]:
    """Run in parallel; return results in the order of ``ids``. ``on_result`` is called as each ends, serially."""
    reporting = threading.Lock()

    def one(identifier: str) -> CheckResult:
        result = run_one(identifier)
        with reporting:
            on_result(result)
        return result

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(one, ids))


def _why_not(entry: CatalogueEntry) -> str:
    outside = [_NOT_FROM_OUTSIDE[need] for need in entry.needs if need in _NOT_FROM_OUTSIDE]
    if outside:
        return f"cannot be tried from outside in minutes: needs {', '.join(outside)}"
    return "this version of Archiver does not implement this check"
