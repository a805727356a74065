"""The verdict on a run. Run, search, resume, reports, scores and the verification of bundles all use these functions.

They read only what the database stores, so a verdict can be computed again from the record.

A criterion that was missed says nothing about the platform if the client was the limit of its phase, or other programs
on its machine were: more client machines, or an idle one, might have met it. Such a phase is void. A criterion that was
met stays met, because a slow client only makes numbers worse. Errors of the platform are no client's fault: a phase
that missed a criterion on errors has failed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from results.recorded.model import CriterionResult, Result, SearchOutcome

Verdict = Literal["void", "pass", "fail", "none"]
CLIENT_LIMIT = "the client was the limit while a criterion was missed: more client machines needed"
HOST_LIMIT = "other programs kept this machine busy while a criterion was missed: measure again while it is idle"
# What limited a result, and is not the platform.
NOT_THE_PLATFORM = {"client": CLIENT_LIMIT, "host cpu": HOST_LIMIT}


def verdict(
    results: Sequence[Result], criteria: Sequence[CriterionResult], search: SearchOutcome | None, *, is_judged: bool
) -> Verdict:
    """Return the verdict on a run that completed all its phases.

    A search passes if some scale met every criterion. It is void if it met none and ended at a void step. Any other run
    has the verdict of its phases. ``is_judged`` states whether the scenario has criteria; without criteria the verdict
    of valid phases is none.
    """
    if search is not None:
        if search.largest is not None:
            return "pass"
        return "void" if any(step.void for step in search.steps) else "fail"
    found = phases_verdict(results, criteria)
    return "none" if found == "pass" and not is_judged else found


def phases_verdict(results: Sequence[Result], criteria: Sequence[CriterionResult]) -> Literal["void", "pass", "fail"]:
    """Return the verdict on one or more phases from all their results and criteria.

    It is fail if a criterion on errors was missed, unless every error is the client's own. Otherwise it is void if the
    client invalidated a result. It is fail if infrastructure operations lost content or protection, if a phase lost
    workers, or if a criterion was missed in a phase that is valid. It is void if criteria were missed in void phases
    only.
    """
    if any(_missed_by_platform(each, results) for each in criteria):
        return "fail"
    if any(result.void for result in results):
        return "void"
    if any(result.lost or result.incomplete is not None for result in results):
        return "fail"
    missed = {criterion.position for criterion in criteria if not criterion.passed}
    if missed - void_positions(results, criteria):
        return "fail"
    return "void" if missed else "pass"


def void_positions(results: Sequence[Result], criteria: Sequence[CriterionResult]) -> set[int]:
    """Return the positions of the phases that say nothing about the platform."""
    return {result.position for result in results if void_because(result, results, criteria)}


def void_because(result: Result, results: Sequence[Result], criteria: Sequence[CriterionResult]) -> str:
    """Return why a result says nothing about the platform; empty if it is valid.

    ``results`` and ``criteria`` are those of its run.
    """
    if not result.void and result.limited_by not in NOT_THE_PLATFORM:
        return ""
    missed = [each for each in criteria if not each.passed and each.position == result.position]
    if any(_missed_by_platform(each, results) for each in missed):
        return ""
    return result.void or (NOT_THE_PLATFORM[str(result.limited_by)] if missed else "")


def _missed_by_platform(criterion: CriterionResult, results: Sequence[Result]) -> bool:
    """Return whether a criterion on errors was missed, and not every error was the client's own."""
    if criterion.passed or criterion.measured is None or re.match(r"errors\b", criterion.name) is None:
        return False
    judged = result_of(criterion, results)
    concerned = [judged] if judged is not None else [each for each in results if each.position == criterion.position]
    return any(each.platform_errors for each in concerned)


def result_of(criterion: CriterionResult, results: Sequence[Result]) -> Result | None:
    """Return the result that a criterion judged; None if it judged all applications together."""
    key = criterion.position, criterion.workload
    return next((each for each in results if (each.position, each.workload) == key), None)


def unmeasured_because(criterion: CriterionResult, results: Sequence[Result]) -> str:
    """Return why a criterion has no measured value; empty if it has one, or if its result does not show why.

    ``results`` are those of its run. Usually the measured time was too short for the platform, or everything failed.
    """
    result = result_of(criterion, results) if criterion.measured is None else None
    if result is None:
        return ""
    within = f"in the measured {result.seconds:.3g} s"
    if result.offered is not None and result.offered.sessions == 0:
        return f"no session was due {within}"
    part = next((each for each in result.parts if criterion.name.endswith(f" ({each.name})")), None)
    if part is not None and part.objects == 0:
        return f"no object of {part.name} was done {within}; failed: {part.errors:,}"
    if result.objects == 0:
        return f"no object was done {within}; done later: {result.drained_objects:,}, failed: {result.errors:,}"
    return f"no session was done {within}" if result.sessions == 0 else ""


def worst(criteria: Sequence[CriterionResult]) -> CriterionResult:
    """Return the criterion that is furthest from being met: the first in the order of ``worst_first``."""
    return min(criteria, key=worst_first)


def worst_first(criterion: CriterionResult) -> tuple[bool, bool, bool, float]:
    """Return a sort key: not measured, then missed and most exceeded, then met and nearest to the limit.

    Distances are relative to the limit. A limit of zero has no relative distance, so it comes after the others.
    """
    if criterion.measured is None:
        return False, False, False, 0.0
    above = criterion.measured - criterion.limit
    excess = abs(above) if "==" in criterion.name else -above if ">" in criterion.name else above
    return True, criterion.passed, not criterion.limit, -excess / (abs(criterion.limit) or 1.0)
