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
from dataclasses import dataclass, fields
from enum import StrEnum

from archiver.worm.catalogue import CatalogueEntry, catalogue, entry_of
from archiver.worm.check_run import CheckRun, Exchange
from archiver.worm.checks import CHECKS, CheckFunction
from archiver.worm.repeats.load import BackgroundLoad
from archiver.worm.repeats.restart import Restart
from archiver.worm.verdict import CheckEnded, CheckVerdict
from results.recorded.model import FIRST_ROUND, RESTARTED_ROUND, CheckFinding, CheckRecord

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult(CheckRecord):
    """The record of a check that ended, with its evidence. The database keeps both, each in a table of its own."""

    exchanges: tuple[Exchange, ...] = ()

    @property
    def record(self) -> CheckRecord:
        """The same without the evidence."""
        return CheckRecord(**{each.name: getattr(self, each.name) for each in fields(CheckRecord)})


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
        elif verdict is CheckVerdict.PASS and case.findings(CheckVerdict.NOT_OFFERED):
            verdict = CheckVerdict.NOT_OFFERED  # of a part; nothing is known about it
        case.tidy()
        words = "; ".join(part for part in (reason, *dict.fromkeys(case.deviations), *case.notes) if part)
        found = case.findings(verdict)
        return result_of(
            identifier, verdict, words, round_, began, seconds=seconds, severity=severity, findings=found,
            exchanges=tuple(case.record),
        )  # fmt: skip

    def _run_one(self, identifier: str, round_: Round) -> CheckResult:
        function = CHECKS.get(identifier)
        if function is None:
            why = _why_not(catalogue()[identifier])
            return result_of(identifier, CheckVerdict.NOT_TRIED, why, round_, time.time())
        return self.judge(identifier, function, round_)


def result_of(
    identifier: str,
    verdict: CheckVerdict,
    reason: str,
    round_: Round,
    started_at: float,
    *,
    seconds: float = 0.0,
    severity: str | None = None,
    findings: tuple[CheckFinding, ...] = (),
    exchanges: tuple[Exchange, ...] = (),
) -> CheckResult:
    """Return the result of a check of the catalogue, or of a family of generated sequences.

    ``severity`` is the finding's, by default the catalogue's.
    """
    entry = entry_of(identifier)
    return CheckResult(
        id=entry.id, family=entry.family, tries=entry.tries, must=entry.must, answer=entry.answer, rules=entry.rules,
        source=entry.source, severity=severity or entry.severity, verdict=verdict, reason=reason, round=round_,
        started_at=started_at, seconds=seconds, findings=findings, exchanges=exchanges, harm=entry.recorded_harm,
    )  # fmt: skip


def _why_not(entry: CatalogueEntry) -> str:
    outside = [_NOT_FROM_OUTSIDE[need] for need in entry.needs if need in _NOT_FROM_OUTSIDE]
    if outside:
        return f"cannot be tried from outside in minutes: needs {', '.join(outside)}"
    return "this version of Archiver does not implement this check"
