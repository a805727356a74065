"""The verdict on a replay, and the notes that always accompany it.

A replay that missed its times proves nothing, so the text begins with VOID and its reasons. Every verdict also states
if less than the full capacity was stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from results.measures.verdict import void_because
from results.recorded.model import CriterionResult, InfrastructureResult, Result

CAPACITY_RATIO_NOT_HELD = "capacity ratio not held"
_REASONS_MAX = 3


def capacity_mark(results: Sequence[Result]) -> str:
    """Return the note for every verdict if less data was stored than the rules require; empty otherwise."""
    scales = [result.replayed.capacity_scale for result in results if result.replayed is not None]
    least = min(scales, default=1.0)
    return f"{CAPACITY_RATIO_NOT_HELD} ({100 * least:.3g}% of the full capacity)" if least < 1 else ""


def capacity_sentence(results: Sequence[Result]) -> str:
    """Return the note of ``capacity_mark`` as a sentence."""
    mark = capacity_mark(results)
    return f"{mark[0].upper()}{mark[1:]}." if mark else ""


def void_reasons(results: Sequence[Result], criteria: Sequence[CriterionResult]) -> list[str]:
    """Return the reasons why these results are void, each with its applications; empty if they are valid."""
    concerned: dict[str, dict[str, None]] = {}
    for result in results:
        reason = void_because(result, results, criteria)
        if reason:
            concerned.setdefault(reason, {})[result.workload] = None
    return [f"{_first_few(list(names))}: {reason}" for reason, names in concerned.items()]


def replay_verdict(
    results: Sequence[Result],
    criteria: Sequence[CriterionResult],
    beside: Sequence[InfrastructureResult] = (),
    void: Sequence[str] = (),
) -> str:
    """Return the verdict on one phase in words: VOID and why, fail and why, pass, or none without criteria.

    ``void``: why the phase proves nothing. The text includes the note about the capacity.
    """
    return marked(_void_words(void) or _verdict(results, criteria, beside), results)


def marked(verdict: str, results: Sequence[Result]) -> str:
    """Return a verdict with the capacity note that must accompany it."""
    mark = capacity_mark(results)
    return f"{verdict}; {mark}" if mark else verdict


def run_verdict(verdict: str | None, results: Sequence[Result], criteria: Sequence[CriterionResult]) -> str:
    """Return the stored verdict on a whole run in words, with its mandatory notes.

    The result is empty if the run replayed nothing and is valid.
    """
    if verdict != "void" and not any(result.replayed is not None for result in results):
        return ""
    words = void_words(results, criteria) or "VOID" if verdict == "void" else verdict or "not finished"
    return marked(words, results)


def void_words(results: Sequence[Result], criteria: Sequence[CriterionResult]) -> str:
    """Return ``VOID: `` and the first few reasons; empty if every result is valid."""
    return _void_words(void_reasons(results, criteria))


def _void_words(reasons: Sequence[str]) -> str:
    if not reasons:
        return ""
    more = f"; and {len(reasons) - _REASONS_MAX:,} more" if len(reasons) > _REASONS_MAX else ""
    return f"VOID: {'; '.join(reasons[:_REASONS_MAX])}{more}"


def _verdict(
    results: Sequence[Result], criteria: Sequence[CriterionResult], beside: Sequence[InfrastructureResult]
) -> str:
    missed = sum(not each.passed for each in criteria)
    errors = sum(result.errors for result in results)
    lost = sum(len(each.findings) for each in beside)
    against = [
        *([f"{missed:,} of {len(criteria):,} criteria missed"] if missed else []),
        *([f"{errors:,} operations failed"] if errors else []),
        *([f"{lost:,} findings of infrastructure operations"] if lost else []),
    ]
    if against:
        return f"fail: {', '.join(against)}"
    return "pass" if criteria else "none: there was no criterion"


def _first_few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _REASONS_MAX:,} more" if len(names) > _REASONS_MAX else ""
    return f"{', '.join(names[:_REASONS_MAX])}{more}"
