"""The rounds after the first: checks that passed alone run again under load, and again after the server was killed.

One idea: a refusal on an idle platform says nothing about a busy one. Checks that failed alone are not repeated.
A check that a round tries several times gets its worst verdict.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from archiver.values.errors import PlatformError
from archiver.values.sizes import format_size
from archiver.worm.case import COMPLIANCE, Case, ObjectLock, Version
from archiver.worm.catalogue import catalogue
from archiver.worm.checks import CheckFunction
from archiver.worm.repeats.load import CLIENTS, OBJECT_BYTES, BackgroundLoad, LoadReport, Order, read_back
from archiver.worm.repeats.restart import Restart
from archiver.worm.suite import CheckResult, Round, Suite
from archiver.worm.verdict import CheckVerdict, Failed, Inconclusive
from results.model import RoundRecord

OnResult = Callable[[CheckResult], None]

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


def to_repeat(alone: Sequence[CheckResult]) -> list[str]:
    """Return the checks of the later rounds: those that ``is_repeated`` selects and that passed alone."""
    passed = (CheckVerdict.PASS, CheckVerdict.DEVIATION)
    return [result.id for result in alone if result.verdict in passed and is_repeated(result.id)]


# ---- under load


def under_load(suite: Suite, ids: Sequence[str], order: Order, on_result: OnResult) -> tuple[RoundRecord, LoadReport]:
    """Run these checks while clients archive and retrieve; then READ_BACK, if ``ids`` has it.

    After READ_BACK, the report returned names only objects that it found intact.
    """
    began, clock = time.time(), time.monotonic()
    again = [each for each in ids if each != READ_BACK]
    with BackgroundLoad(order) as load:
        tries = [suite.run(again, lambda _: None, Round.UNDER_LOAD) for _ in range(TIMES)]
        report = load.stop()
    for found in zip(*tries, strict=True):
        on_result(_worst(found) if report.retrieved else _not_loaded(found[0], report))
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
    if READ_BACK in ids:
        sound: list[int] = []
        on_result(suite.judge(READ_BACK, lambda case: _reads_back(case, order, report, sound), Round.UNDER_LOAD))
        report = replace(report, archived=tuple(sound))
    return record, report


def _reads_back(case: Case, order: Order, report: LoadReport, sound: list[int]) -> None:
    """Read the load's objects back and add the intact ones to ``sound``. Raises Failed if there are others."""
    if not report.archived:
        raise Inconclusive(f"nothing was archived: {report.first_error or 'no session ended'}")
    found = read_back(case, order, report.archived)
    sound += [number for number, problem in found.items() if not problem]
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


# ---- after a restart


def after_restart(
    suite: Suite,
    ids: Sequence[str],
    loaded: tuple[Order, LoadReport] | None,
    restart: Restart,
    servers: ExitStack,
    on_result: OnResult,
) -> RoundRecord:
    """Kill the server, start it again, and run these checks; RESTART runs before and after the kill.

    The new server runs until ``servers`` closes. If it does not start again, RESTART fails; without RESTART in ``ids``
    this raises PlatformError.
    """
    began, clock = time.time(), time.monotonic()
    kill = _Kill(restart, servers)
    if RESTART in ids:
        on_result(suite.judge(RESTART, _survives(kill, loaded), Round.AFTER_RESTART))
    if not kill.tried:
        kill()
    if kill.seconds is not None:
        again = [each for each in ids if each != RESTART]
        suite.run(again, on_result, Round.AFTER_RESTART)
    note = "the server was killed (SIGKILL) and "
    note += f"answered again after {kill.seconds:.1f} s" if kill.seconds is not None else "did not start again"
    return RoundRecord(Round.AFTER_RESTART, began, time.monotonic() - clock, note)


def not_restarted(ids: Sequence[str], on_result: OnResult) -> RoundRecord:
    """Return the record of a round that was not possible; RESTART is NOT TRIED if ``ids`` has it."""
    now = time.time()
    if RESTART in ids:
        on_result(CheckResult(RESTART, CheckVerdict.NOT_TRIED, NO_RESTART, now, 0.0, round=Round.AFTER_RESTART))
    return RoundRecord(Round.AFTER_RESTART, now, 0.0, f"not tried: {NO_RESTART}")


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


def _survives(kill: _Kill, loaded: tuple[Order, LoadReport] | None) -> CheckFunction:
    def check(case: Case) -> None:
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
        if loaded is not None and loaded[1].archived:
            parts.append(("objects archived under load", lambda: _reads_back(case, *loaded, [])))
        case.try_all(*parts)

    return check


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
