"""Runs the TSM checks on one server in parallel and collects their results.

One idea: as with S3, checks cannot disturb each other. Each has its own names, sessions and file spaces. Each ends in
exactly one verdict with a reason, and then releases and deletes what the server lets it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from archiver.worm.checks.tsm import TSM_CHECKS
from archiver.worm.suite import CheckResult, conclude, side_by_side
from archiver.worm.tsm.case import TsmCase
from archiver.worm.verdict import CheckVerdict

CHECKS_AT_ONCE = 6  # each has up to four sessions; many servers allow 25
_PLAIN = "PLAIN"
_WHY_NOT = {
    "TSM-19": "needs the server's administrator: activate a policy set with a smaller RETVER or RETMIN",
    "TSM-20": "needs the server's administrator: SET ARCHIVERETENTIONPROTECTION OFF with data present",
    "TSM-24": "cannot be tried from outside: the server's date would have to jump",
}


def plain_stanza(configuration: Path) -> str:
    """Add the same server without retention protection to private option files.

    Return the session options that select it.
    """
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
    """Run every check of ``ids`` and return results in that order; ``on_result`` is called as each ends, serially."""
    return side_by_side(ids, lambda identifier: _run_one(identifier, make_case), on_result, at_once)


def _run_one(identifier: str, make_case: Callable[[str], TsmCase]) -> CheckResult:
    function = TSM_CHECKS.get(identifier)
    began, clock = time.time(), time.monotonic()
    if function is None:
        why = _WHY_NOT.get(identifier, "this version of Archiver does not implement this check")
        return CheckResult(identifier, CheckVerdict.NOT_TRIED, why, began, 0.0)
    case = make_case(identifier)
    end = conclude(function, case)
    seconds = time.monotonic() - clock
    case.tidy()
    return CheckResult(
        identifier, end.verdict, end.reason, began, seconds, tuple(case.record), found_severity=end.severity
    )
