"""One platform in a decision: its findings as lights, and its risks.

One idea: a decision computes nothing. Each light quotes what the scorecard or the plan says, in their words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from archiver.values.sizes import format_bytes
from results.comparison.scorecard.cards import Card
from results.comparison.scorecard.tables import failures_by_severity
from results.comparison.scorecard.verdicts import kill_words, missing_parts_of
from results.document.document import State
from results.document.grades import NOT_KNOWN, worst_grade
from results.planning.combined import CombinedPlan
from results.planning.sizing import Reason
from results.recorded.model import RESTARTED_ROUND, CheckRecord
from results.worm.findings import checks_tried, findings_of
from results.worm.harm import loss_words, remedy_words

RISKS_SHOWN = 3
NOT_PLANNED = "not planned"


@dataclass(frozen=True, slots=True)
class Light:
    """What was found about one matter. The words say the same as the colour."""

    state: State
    words: str


@dataclass(frozen=True, slots=True)
class Risk:
    """What may go wrong, and what to do about it."""

    words: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """One platform: its scorecard's card, and the plan of the needed loads on it."""

    card: Card
    plan: CombinedPlan | None
    why_no_plan: str = ""  # if there is none

    @property
    def label(self) -> str:
        return self.card.label

    @property
    def checks(self) -> tuple[CheckRecord, ...]:
        return tuple(self.card.conformance.checks) if self.card.conformance is not None else ()

    @property
    def checks_made(self) -> str:
        """How many checks of the catalogue were made: ``179 of 179 checks``."""
        run = self.card.conformance
        return "no check" if run is None else checks_tried(run.checks, run.catalogue)

    @property
    def is_checked_whole(self) -> bool:
        """Whether every check of the catalogue was made."""
        run = self.card.conformance
        made = {check.id for check in self.checks}
        return run is not None and (run.catalogue is None or len(made) >= run.catalogue.checks)

    def price(self) -> float | None:
        """Return what is paid in all years; None without prices or plan."""
        return None if self.plan is None else self.plan.total


def locks(candidate: Candidate) -> Light:
    """Return whether records could be lost, altered or unlocked."""
    if candidate.card.conformance is None:
        return Light("care", "not checked")
    failed = failures_by_severity(candidate.checks)
    gravest = [f"{failed[severity]} x {severity}" for severity in ("S1", "S2") if failed[severity]]
    if gravest:
        return Light("bad", f"{', '.join(gravest)} in {candidate.checks_made}")
    state: State = "good" if candidate.is_checked_whole else "care"
    return Light(state, f"no S1 and no S2 in {candidate.checks_made}")


def durability(candidate: Candidate) -> Light:
    """Return what an acknowledgement means."""
    words = candidate.card.profile.durability
    lost = [each for each in candidate.checks if each.round == RESTARTED_ROUND and each.is_violation]
    if lost:
        return Light("bad", f"{words}; after a kill: {', '.join(sorted({each.id for each in lost}))} failed")
    if candidate.card.acknowledges == "in memory":
        return Light("bad", words)
    is_shown = candidate.card.acknowledges == "on disk" and kill_words(candidate.card)
    return Light("good" if is_shown else "care", words)


def rate(candidate: Candidate) -> Light:
    """Return how many platforms the archive rate needs, and how well the rates are known."""
    points = candidate.card.points.values()
    grade = worst_grade([unit.grade for unit in points]) if points else NOT_KNOWN
    known = "; not every rate is known" if grade == NOT_KNOWN else f"; rates of grade {grade} or better"
    return _by_reason(
        candidate, "archive rate", f"{known}; beyond what was measured" if _is_extrapolated(candidate) else known
    )


def capacity(candidate: Candidate) -> Light:
    """Return how many platforms the capacity needs."""
    light = _by_reason(candidate, "capacity", "")
    if candidate.plan is None or light.state == "good":
        return light
    stored = format_bytes(candidate.plan.last.year.bytes_stored)
    return Light("care", f"{stored} on disk at most; usable capacity is not given")


def restore(candidate: Candidate) -> Light:
    """Return how many platforms the restore time needs."""
    asked = candidate.plan is not None and any(
        load.limits.restore_seconds is not None for load in candidate.plan.sizing.loads
    )
    light = _by_reason(candidate, "restore time", "")
    return light if light.state == "good" or candidate.plan is None or asked else Light("plain", "not asked for")


def cost(candidate: Candidate) -> Light:
    """Return the price of all years, and whether the budget suffices."""
    plan = candidate.plan
    if plan is None:
        return Light("care", NOT_PLANNED)
    if plan.total is None or plan.request.prices is None:
        return Light("plain", f"{plan.last.platforms:,} platforms; no prices are given")
    words = f"{plan.total:,.0f} {plan.request.prices.currency} in {plan.last.year.year} years"
    if plan.is_within_budget is None:
        return Light("plain", words)
    return (
        Light("good", f"{words}, within the budget")
        if plan.is_within_budget
        else Light("bad", f"{words}, above the budget")
    )


LIGHTS: dict[str, Callable[[Candidate], Light]] = {
    "locks": locks,
    "an acknowledgement means": durability,
    "archive rate": rate,
    "capacity": capacity,
    "restore": restore,
    "cost": cost,
}


def risks(candidate: Candidate) -> Iterator[Risk]:
    """Yield what may go wrong on a platform, the gravest first."""
    for check in findings_of(candidate.checks):
        if check.is_violation:
            yield Risk(f"{check.severity} {check.name}: {loss_words(check) or check.tries}", remedy_words(check))
    if durability(candidate).state == "bad":
        yield Risk(
            f"An acknowledged record can be lost: {candidate.card.profile.durability}.",
            "Keep the source until the platform has written it, or use a setting that syncs.",
        )
    if candidate.plan is None:
        yield Risk("Its size and its cost are not known.", candidate.why_no_plan)
    else:
        for words in (*candidate.plan.warnings, *candidate.plan.unanswered, *candidate.plan.doubts):
            yield Risk(words, "")
    for missing in missing_parts_of(candidate.card):
        yield Risk(f"Not measured: {missing.part}.", missing.command)


def _is_extrapolated(candidate: Candidate) -> bool:
    return candidate.plan is not None and bool(candidate.plan.warnings)


def _by_reason(candidate: Candidate, reason: Reason, more: str) -> Light:
    if candidate.plan is None:
        return Light("care", NOT_PLANNED)
    found = [need.deciding for need in candidate.plan.last.year.needs if need.reason == reason]
    if not found:
        return Light("care", f"not known{more}")
    state: State = "care" if _is_extrapolated(candidate) and reason == "archive rate" else "good"
    return Light(state, f"{found[0]:,.2f} platforms in year {candidate.plan.last.year.year}{more}")
