"""Runs the conformance checks on one platform in parallel and collects their results.

One idea: checks cannot disturb each other. Each has its own keys, names, buckets or file spaces, and each ends in
exactly one verdict with a reason. What differs between protocols is the case that a check gets.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

from archiver.worm.catalogue import CatalogueEntry, catalogue
from archiver.worm.check_run import CheckRun, Exchange
from archiver.worm.checks import CHECKS, CheckFunction
from archiver.worm.repeats.load import BackgroundLoad
from archiver.worm.repeats.restart import Restart
from archiver.worm.verdict import CheckEnded, CheckVerdict
from results.recorded.model import FIRST_ROUND, RESTARTED_ROUND, VIOLATIONS, CheckFinding

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
    exchanges: tuple[Exchange, ...] = ()
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


OnResult = Callable[[CheckResult], None]


@dataclass(frozen=True, slots=True)
class Suite:
    """The checks of a platform under test in one protocol, and what the rounds can do with the platform."""

    start: Callable[[str], CheckRun]  # makes the case of a check, with a record of its own
    checks_at_once: int = CHECKS_AT_ONCE
    load: Callable[[], BackgroundLoad] | None = None  # creates a bucket for a load; None: there is no load
    restart: Restart | None = None  # None: the server may not be killed

    def run(self, ids: Sequence[str], on_result: OnResult, round_: Round = Round.ALONE) -> list[CheckResult]:
        """Run the checks ``ids`` and return results in that order; ``on_result`` is called as each ends, serially."""
        reporting = threading.Lock()

        def one(identifier: str) -> CheckResult:
            result = self._run_one(identifier, round_)
            with reporting:
                on_result(result)
            return result

        # Checks that wait for an expiry start first, so that the run does not wait for them at the end.
        first = sorted(ids, key=lambda identifier: "W" not in catalogue()[identifier].needs)
        with ThreadPoolExecutor(self.checks_at_once) as pool:
            done = {result.id: result for result in pool.map(one, first)}
        return [done[identifier] for identifier in ids]

    def judge(self, identifier: str, function: CheckFunction, round_: Round) -> CheckResult:
        """Run ``function`` as the check ``identifier``."""
        began, clock = time.time(), time.monotonic()
        case = self.start(identifier)
        severity = None
        try:
            function(case)
            verdict, reason = CheckVerdict.PASS, ""
        except CheckEnded as ended:
            verdict, reason, severity = ended.verdict, str(ended), ended.severity
            if verdict is CheckVerdict.FAIL and not case.findings(verdict):
                case.mark(verdict, reason, severity, ended.answers)
        except Exception:  # noqa: BLE001 - an unforeseen answer must not end the suite
            verdict = CheckVerdict.INCONCLUSIVE
            last = traceback.format_exc(limit=-2).strip().replace("\n", " | ")
            reason = f"the check itself ended with an error: {last}"
        seconds = time.monotonic() - clock
        if verdict is CheckVerdict.PASS and case.deviations:
            verdict = CheckVerdict.DEVIATION
        case.tidy()
        words = "; ".join(part for part in (reason, *dict.fromkeys(case.deviations), *case.notes) if part)
        return CheckResult(
            identifier, verdict, words, began, seconds, tuple(case.record), round_, severity, case.findings(verdict)
        )

    def _run_one(self, identifier: str, round_: Round) -> CheckResult:
        function = CHECKS.get(identifier)
        if function is None:
            why = _why_not(catalogue()[identifier])
            return CheckResult(identifier, CheckVerdict.NOT_TRIED, why, time.time(), 0.0, round=round_)
        return self.judge(identifier, function, round_)


def _why_not(entry: CatalogueEntry) -> str:
    outside = [_NOT_FROM_OUTSIDE[need] for need in entry.needs if need in _NOT_FROM_OUTSIDE]
    if outside:
        return f"cannot be tried from outside in minutes: needs {', '.join(outside)}"
    return "this version of Archiver does not implement this check"
