"""Runs the TSM checks on one server, side by side, and keeps what each came to.

One idea: as for S3, a check cannot harm another: it has names, sessions and file spaces of its own, ends in exactly one
verdict with a reason, and lets go what it made as far as the server does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from archiver.worm.checks.tsm import TSM_CHECKS
from archiver.worm.suite import CheckResult, conclude, side_by_side
from archiver.worm.tsm.case import TsmCase
from archiver.worm.verdict import CheckVerdict

CHECKS_AT_ONCE = 6  # each has up to four sessions, and a server has often no more than 25
_PLAIN = "PLAIN"
_WHY_NOT = {
    "TSM-19": "needs the server's administrator: activate a policy set with a smaller RETVER or RETMIN",
    "TSM-20": "needs the server's administrator: SET ARCHIVERETENTIONPROTECTION OFF with data present",
    "TSM-24": "cannot be tried from outside: the server's date would have to jump",
}


def plain_stanza(configuration: Path) -> str:
    """Add to private option files the same server without retention protection; the options of a session with it."""
    path = configuration / "dsm.sys"
    lines = path.read_text().splitlines()[1:]
    plain = [line for line in lines if "ENABLEARCHIVERETENTIONPROTECTION" not in line]
    with path.open("a") as file:
        file.write("\n".join((f"SErvername {_PLAIN}", *plain, "")))
    return f"-SErvername={_PLAIN}"


def run_tsm(
    ids: Sequence[str],
    make_case: Callable[[str], TsmCase],
    on_result: Callable[[CheckResult], None],
    *,
    at_once: int = CHECKS_AT_ONCE,
) -> list[CheckResult]:
    """Every check of ``ids``, in their order; ``on_result`` hears of each as it ends, one at a time."""
    return side_by_side(ids, lambda identifier: _run_one(identifier, make_case), on_result, at_once)


def _run_one(identifier: str, make_case: Callable[[str], TsmCase]) -> CheckResult:
    function = TSM_CHECKS.get(identifier)
    began, clock = time.time(), time.monotonic()
    if function is None:
        why = _WHY_NOT.get(identifier, "this version has no check for it")
        return CheckResult(identifier, CheckVerdict.NOT_TRIED, why, began, 0.0)
    case = make_case(identifier)
    verdict, reason = conclude(function, case)
    seconds = time.monotonic() - clock
    case.tidy()
    return CheckResult(identifier, verdict, reason, began, seconds, tuple(case.record))
