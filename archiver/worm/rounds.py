"""The rounds after the first: checks that passed alone run again under load, and again after the server was killed.

One idea: a refusal on an idle platform says nothing about a busy one. Checks that failed alone are not repeated.
A check that a round tries several times gets its worst verdict.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from archiver.values.errors import PlatformError
from archiver.values.sizes import format_size
from archiver.worm.case import COMPLIANCE, Case, ObjectLock, Version
from archiver.worm.catalogue import catalogue
from archiver.worm.repeats.load import CLIENTS, OBJECT_BYTES, BackgroundLoad, LoadReport, read_back
from archiver.worm.repeats.restart import Restart
from archiver.worm.suite import CheckResult, OnResult, Round, Suite, result_of
from archiver.worm.verdict import CheckVerdict, Failed, Inconclusive
from results.recorded.model import RoundRecord

READ_BACK = "VER-01"  # under load it reads every object that the load archived
RESTART = "VER-08"  # runs only in the round after a restart
TIMES = 4  # each check runs under load
NO_RESTART = "needs a server that Archiver started itself, with --platform; Archiver kills no other server"
_FAMILIES = ("DEL", "RET", "LH", "GOV", "OVR", "BAT")
_LONG = ("BAT-03", "LH-10")  # at least a thousand requests
_PROBLEMS_SHOWN = 3
_GRAVITY = (
    CheckVerdict.PASS, CheckVerdict.NOT_OFFERED, CheckVerdict.NOT_TRIED, CheckVerdict.DEVIATION,
    CheckVerdict.INCONCLUSIVE, CheckVerdict.FAIL,
)  # fmt: skip


def is_repeated(identifier: str) -> bool:
    """Return whether later rounds repeat this check: its failure is a violation, and it does not wait or take long."""
    entry = catalogue()[identifier]
    family = identifier.partition("-")[0]
    return entry.is_violation and family in _FAMILIES and "W" not in entry.needs and identifier not in _LONG


class Rounds:
    """The rounds of one run of a suite. Each method carries one out and returns its record; None: it has no check."""

    def __init__(self, suite: Suite, ids: Sequence[str], on_result: OnResult) -> None:
        self._suite = suite
        self._ids = ids
        self._on_result = on_result
        self._again: list[str] = []  # the checks of the later rounds
        self._load: BackgroundLoad | None = None  # the load of the second round, with what it archived

    def alone(self) -> None:
        """Run the checks while nothing else uses the platform."""
        passed = (CheckVerdict.PASS, CheckVerdict.DEVIATION)
        results = self._suite.run([each for each in self._ids if each != RESTART], self._on_result)
        self._again = [each.id for each in results if each.verdict in passed and is_repeated(each.id)]

    def under_load(self) -> RoundRecord | None:
        """Run the checks again while clients archive and retrieve; then READ_BACK."""
        began, clock = time.time(), time.monotonic()
        if self._suite.load is None or not (self._again or READ_BACK in self._ids):
            return None
        try:
            self._load = self._suite.load()
        except Inconclusive as refused:
            return RoundRecord(Round.UNDER_LOAD, began, 0.0, f"not tried: {refused}")
        with self._load as load:
            tries = [self._suite.run(self._again, lambda _: None, Round.UNDER_LOAD) for _ in range(TIMES)]
            report = load.stop()
        for found in zip(*tries, strict=True):
            self._on_result(_worst(found) if report.retrieved else _not_loaded(found[0], report))
        record = RoundRecord(
            round=Round.UNDER_LOAD,
            started_at=began,
            seconds=time.monotonic() - clock,
            note=f"{CLIENTS} clients, objects of {format_size(OBJECT_BYTES)} under GOVERNANCE; each check {TIMES} times"
            + (f"; first error: {report.first_error}" if report.first_error else ""),
            load_seconds=report.seconds,
            objects_archived=len(report.archived),
            archived_per_second=len(report.archived) / report.archive_seconds if report.archive_seconds else 0.0,
            objects_retrieved=report.retrieved,
            retrieved_per_second=report.retrieved / report.seconds if report.seconds else 0.0,
            errors=report.errors,
        )
        if READ_BACK in self._ids:
            self._on_result(self._suite.judge(READ_BACK, lambda case: _reads_back(case, load), Round.UNDER_LOAD))
        return record

    def after_restart(self, servers: ExitStack) -> RoundRecord | None:
        """Kill the server, start it again, and run the checks again; RESTART runs before and after the kill.

        The new server runs until ``servers`` closes. If it does not start again, RESTART fails; if RESTART was not
        chosen, this raises PlatformError.
        """
        began, clock = time.time(), time.monotonic()
        restarts = RESTART in self._ids
        if not (self._again or restarts):
            return None
        if self._suite.restart is None:
            if restarts:
                self._on_result(result_of(RESTART, CheckVerdict.NOT_TRIED, NO_RESTART, Round.AFTER_RESTART, began))
            return RoundRecord(Round.AFTER_RESTART, began, 0.0, f"not tried: {NO_RESTART}")
        kill = _Kill(self._suite.restart, servers)
        if restarts:
            self._on_result(self._suite.judge(RESTART, lambda case: self._survives(case, kill), Round.AFTER_RESTART))
        if not kill.tried:
            kill()
        if kill.seconds is not None:
            self._suite.run(self._again, self._on_result, Round.AFTER_RESTART)
        note = "the server was killed (SIGKILL) and "
        note += f"answered again after {kill.seconds:.1f} s" if kill.seconds is not None else "did not start again"
        return RoundRecord(Round.AFTER_RESTART, began, time.monotonic() - clock, note)

    def _survives(self, case: Case, kill: _Kill) -> None:
        """Carry out the check RESTART."""
        governance, held = case.locked(), case.stored(hold="ON")
        compliance = case.locked(COMPLIANCE) if case.may_use_compliance else None
        try:
            kill()
        except PlatformError as gone:
            raise Failed(f"the server did not start again after it was killed: {gone}") from gone
        parts = [
            ("GOVERNANCE", lambda: _still_refused(case, governance)),
            ("a legal hold", lambda: _still_refused(case, held)),
        ]
        if compliance is not None:
            parts.append(("COMPLIANCE", lambda: _still_compliance(case, compliance)))
        load = self._load
        if load is not None and load.report.archived:
            parts.append(("objects archived under load", lambda: _reads_back(case, load)))
        case.try_all(*parts)


class _Kill:
    """Restarts the server once. ``seconds`` is how long that took; None if the server did not start again."""

    def __init__(self, restart: Restart, servers: ExitStack) -> None:
        self.tried = False
        self.seconds: float | None = None
        self._restart = restart
        self._servers = servers

    def __call__(self) -> None:
        self.tried = True
        clock = time.monotonic()
        self._servers.enter_context(self._restart())
        self.seconds = time.monotonic() - clock


def _reads_back(case: Case, load: BackgroundLoad) -> None:
    """Read the load's objects back, and let its report name only the intact ones. Raises Failed if there are others."""
    archived = load.report.archived
    if not archived:
        raise Inconclusive(f"nothing was archived: {load.report.first_error or 'no session ended'}")
    found = read_back(case, load.order, archived)
    load.report = replace(load.report, archived=tuple(number for number in archived if not found[number]))
    problems = [problem for problem in found.values() if problem]
    if problems:
        shown = "; ".join(problems[:_PROBLEMS_SHOWN])
        raise Failed(f"{len(problems)} of {len(found)} objects that were archived under load: {shown}")
    case.notes.append(f"{len(found)} objects that were archived under load, each with its lock")


def _worst(tries: Sequence[CheckResult]) -> CheckResult:
    worst = min(tries, key=lambda result: (-_GRAVITY.index(result.verdict), result.severity))
    same = sum(result.verdict is worst.verdict for result in tries)
    if same == len(tries):
        return worst
    return replace(worst, reason=f"in {same} of {len(tries)} tries: {worst.reason}")


def _not_loaded(result: CheckResult, report: LoadReport) -> CheckResult:
    why = f"the load did not run: {report.first_error or 'nothing was retrieved'}"
    return replace(result, verdict=CheckVerdict.NOT_TRIED, reason=why, exchanges=())


def _still_refused(case: Case, version: Version) -> None:
    case.must_survive(version)
    case.must_refuse_delete(
        version, case.delete(version), "after a restart, deleting a version that was locked earlier"
    )
    before = case.state(version)
    if before.lock is not None:
        shorter = ObjectLock(before.lock.mode, case.lock(seconds=2.0).until)
        what = "after a restart, shortening an earlier lock"
        case.must_keep(version, before, case.set_retention(version, shorter), what, "403 AccessDenied")


def _still_compliance(case: Case, version: Version) -> None:
    state = case.state(version)
    if state.until is not None and state.until <= case.lock(seconds=2.0).until:
        raise Inconclusive("the COMPLIANCE lock expired during the restart")
    _still_refused(case, version)
    what = "after a restart, deleting with the bypass header a version that was locked earlier"
    case.must_refuse_delete(version, case.delete(version, bypass=True), what)
