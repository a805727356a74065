"""The verdict on a replay, and what must stand with it wherever it is printed.

One idea: nothing follows from a replay that was not in time, so VOID and its reasons come first; and whoever reads that
something held must read as well how much of the full capacity lay there.
"""

from __future__ import annotations

from collections.abc import Sequence

from results.model import CriterionResult, InfrastructureResult, Result

CAPACITY_RATIO_NOT_HELD = "capacity ratio not held"
_REASONS_TOLD = 3


def capacity_mark(results: Sequence[Result]) -> str:
    """What stands with every verdict where less lay there than the rules ask for; empty: all of it did."""
    scales = [result.replayed.capacity_scale for result in results if result.replayed is not None]
    least = min(scales, default=1.0)
    return f"{CAPACITY_RATIO_NOT_HELD} ({100 * least:.3g}% of the full capacity)" if least < 1 else ""


def capacity_sentence(results: Sequence[Result]) -> str:
    """The same as a sentence of its own."""
    mark = capacity_mark(results)
    return f"{mark[0].upper()}{mark[1:]}." if mark else ""


def void_reasons(results: Sequence[Result]) -> list[str]:
    """Why nothing follows from these results, each reason once, with whom it concerns; empty: something does."""
    concerned: dict[str, dict[str, None]] = {}
    for result in results:
        if result.void:
            concerned.setdefault(result.void, {})[result.workload] = None
    return [f"{_first_few(list(names))}: {reason}" for reason, names in concerned.items()]


def replay_verdict(
    results: Sequence[Result], criteria: Sequence[CriterionResult], beside: Sequence[InfrastructureResult] = ()
) -> str:
    """The verdict on one phase in words: VOID and why, fail and why, pass, or none where nothing was asked; and the
    mark of the capacity."""
    return marked(_verdict(results, criteria, beside), results)


def marked(verdict: str, results: Sequence[Result]) -> str:
    """A verdict that was found elsewhere, with the mark that it may not go without."""
    mark = capacity_mark(results)
    return f"{verdict}; {mark}" if mark else verdict


def run_verdict(verdict: str | None, results: Sequence[Result]) -> str:
    """The verdict on a whole run in words, as the database has it, with what it may not go without; empty where nothing
    was replayed and something follows from the run."""
    if verdict != "void" and not any(result.replayed is not None for result in results):
        return ""
    told = void_words(results) or "VOID" if verdict == "void" else verdict or "not finished"
    return marked(told, results)


def void_words(results: Sequence[Result]) -> str:
    """``VOID: `` and the reasons, as many as can be read at a glance; empty: not void."""
    reasons = void_reasons(results)
    if not reasons:
        return ""
    more = f"; and {len(reasons) - _REASONS_TOLD:,} more" if len(reasons) > _REASONS_TOLD else ""
    return f"VOID: {'; '.join(reasons[:_REASONS_TOLD])}{more}"


def _verdict(
    results: Sequence[Result], criteria: Sequence[CriterionResult], beside: Sequence[InfrastructureResult]
) -> str:
    void = void_words(results)
    if void:
        return void
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
    return "pass" if criteria else "none: no criterion was asked"


def _first_few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _REASONS_TOLD:,} more" if len(names) > _REASONS_TOLD else ""
    return f"{', '.join(names[:_REASONS_TOLD])}{more}"
