"""A decision: the candidates, what each must do, and the recommendation that follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from results.comparison.scorecard.cards import Scorecard
from results.decision.lights import Candidate
from results.decision.must import Judged, Must
from results.planning.combined import CombinedPlan


@dataclass(frozen=True, slots=True)
class Decision:
    """Platforms, and the must-haves in the order in which they were written."""

    scorecard: Scorecard
    candidates: tuple[Candidate, ...]
    musts: tuple[Must, ...]

    def judged(self, candidate: Candidate) -> dict[str, Judged]:
        """Return each must-have's outcome on a platform, by its text."""
        return {must.text: must.judge(candidate) for must in self.musts}

    @property
    def fitting(self) -> list[Candidate]:
        """Return the platforms that meet every must-have and have a plan, the cheapest first where prices are known."""
        found = [
            each
            for each in self.candidates
            if each.plan is not None and all(judged.outcome == "met" for judged in self.judged(each).values())
        ]
        return sorted(found, key=_price)

    @property
    def recommended(self) -> Candidate | None:
        """Return the platform to choose; None if none fits, nothing is required, or prices do not tell two apart."""
        fitting = self.fitting
        if not fitting or not self.musts or (len(fitting) > 1 and _price(fitting[0]) == _price(fitting[1])):
            return None
        return fitting[0]

    def answers(self) -> list[str]:
        """Return the recommendation with its condition, in a few sentences."""
        if not self.musts:
            return ["No recommendation: NEED.toml requires nothing. Write what a platform must do as must = [...]."]
        fitting, chosen = self.fitting, self.recommended
        if chosen is not None:
            others = [each for each in self.candidates if each is not chosen]
            return [_chosen_words(chosen, fitting, len(self.musts)), *map(self._why_not, others)]
        if fitting:
            cheapest = [each for each in fitting if _price(each) == _price(fitting[0])]
            return [
                f"{' and '.join(each.label for each in cheapest)} meet every must-have, and price does not tell them "
                "apart: decide by what is below.",
                *(self._why_not(each) for each in self.candidates if each not in cheapest),
            ]
        return ["No platform is shown to meet every must-have.", *map(self._why_not, self.candidates)]

    def _why_not(self, candidate: Candidate) -> str:
        """Return why a platform is not chosen, as a sentence."""
        judged = self.judged(candidate)
        missed = [text for text, found in judged.items() if found.outcome == "not met"]
        unknown = [text for text, found in judged.items() if found.outcome == "not known"]
        reasons = [f"does not meet {_listed(missed)}"] * bool(missed)
        reasons += [f"is not known to meet {_listed(unknown)}"] * bool(unknown)
        reasons += [f"could not be planned: {candidate.why_no_plan}"] * (candidate.plan is None)
        return f"{candidate.label} {', and '.join(reasons) or 'costs more'}."


def decide(scorecard: Scorecard, plans: Mapping[str, CombinedPlan | str], musts: Sequence[Must]) -> Decision:
    """Return the decision between the platforms of a scorecard.

    ``plans``: by label, the plan on each platform, or why there is none.
    """
    candidates = []
    for card in scorecard.cards:
        found = plans[card.label]
        candidates.append(Candidate(card, None, found) if isinstance(found, str) else Candidate(card, found))
    return Decision(scorecard, tuple(candidates), tuple(musts))


def _price(candidate: Candidate) -> float:
    price = candidate.price()
    return float("inf") if price is None else price


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(f"“{text}”" for text in texts)


def _chosen_words(chosen: Candidate, fitting: Sequence[Candidate], musts: int) -> str:
    plan = chosen.plan
    assert plan is not None, "a platform without a plan is not chosen"
    words = (
        f"Choose {chosen.label}: it meets all {musts} must-haves"
        if musts > 1
        else f"Choose {chosen.label}: it meets the must-have"
    )
    if len(fitting) > 1:
        words += f", and costs less than {' and '.join(each.label for each in fitting[1:])}"
    needed = f"{plan.last.platforms:,} platform{'' if plan.last.platforms == 1 else 's'}"
    words += f". {needed} by year {plan.last.year.year}"
    if plan.total is not None and plan.request.prices is not None:
        words += f", {plan.total:,.0f} {plan.request.prices.currency}"
    doubts = len(plan.warnings) + len(plan.doubts) + len(plan.unanswered)
    return f"{words}{f', if its {doubts} assumptions below hold' if doubts else ''}."
