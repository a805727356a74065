"""The verdict on a run: the one function by which run, resume, reports and the verification of bundles judge.

One idea: it reads what the database has, so a verdict can be computed again from the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from results.model import CriterionResult, Result, SearchOutcome

Verdict = Literal["void", "pass", "fail", "none"]


def verdict(
    results: Sequence[Result], criteria: Sequence[CriterionResult], search: SearchOutcome | None, *, is_judged: bool
) -> Verdict:
    """The verdict on a run that carried out all its phases.

    A search passes if some scale met every criterion. Any other run is void if the client kept a result from saying
    anything about the platform. It fails if infrastructure operations lost content or protection, if a phase lost
    workers, or if a criterion was missed. ``is_judged``: the scenario has criteria; none: it has not.
    """
    if search is not None:
        return "pass" if search.largest is not None else "fail"
    if any(result.void for result in results):
        return "void"
    if any(result.lost or result.incomplete is not None for result in results):
        return "fail"
    if not is_judged:
        return "none"
    return "pass" if all(each.passed for each in criteria) else "fail"
