"""The verdict on a run. Run, resume, reports and the verification of bundles all use this one function.

It reads only what the database stores, so a verdict can be computed again from the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from results.model import CriterionResult, Result, SearchOutcome

Verdict = Literal["void", "pass", "fail", "none"]


def verdict(
    results: Sequence[Result], criteria: Sequence[CriterionResult], search: SearchOutcome | None, *, is_judged: bool
) -> Verdict:
    """Return the verdict on a run that completed all its phases.

    A search passes if some scale met every criterion. Any other run is void if the client invalidated a result. It
    fails if infrastructure operations lost content or protection, if a phase lost workers, or if a criterion was
    missed. ``is_judged`` states whether the scenario has criteria; without criteria the verdict is none.
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
