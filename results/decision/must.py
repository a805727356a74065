"""Must-haves: what a platform must do, in the words of NEED.toml, and whether each is met.

One idea: a phrase is met, not met or not known, with the check or number that shows it. Not known is never met.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from archiver.values.errors import UsageError
from results.comparison.scorecard.tables import failures_by_severity
from results.decision.lights import NOT_PLANNED, Candidate, cost, durability
from results.document.document import State
from results.document.grades import PRECISE_SHARE, grade_of

Outcome = Literal["met", "not met", "not known"]
STATES: dict[Outcome, State] = {"met": "good", "not met": "bad", "not known": "care"}


@dataclass(frozen=True, slots=True)
class Judged:
    """One must-have on one platform."""

    outcome: Outcome
    shown_by: str


@dataclass(frozen=True, slots=True)
class Must:
    """A must-have as it was written."""

    text: str
    judge: Callable[[Candidate], Judged]


def read_musts(texts: Sequence[str]) -> tuple[Must, ...]:
    """Return the must-haves of these phrases. Raises UsageError naming the phrase, and the phrases that exist."""
    return tuple(Must(text, _judge_of(text)) for text in texts)


def _judge_of(text: str) -> Callable[[Candidate], Judged]:
    for pattern, _, make in _PHRASES:
        found = re.fullmatch(pattern, text)
        if found is not None:
            return make(*found.groups())
    raise UsageError(f"must: {text!r} is not known; there are: {', '.join(example for _, example, _ in _PHRASES)}")


def _no_finding(severity: str) -> Callable[[Candidate], Judged]:
    def judge(candidate: Candidate) -> Judged:
        failed = sorted(
            {each.name for each in candidate.checks if each.verdict == "FAIL" and each.severity == severity}
        )
        if failed:
            count = failures_by_severity(candidate.checks)[severity]
            return Judged("not met", f"{count} checks: {', '.join(failed[:3])}{' ...' if len(failed) > 3 else ''}")
        if not candidate.is_checked_whole:
            return Judged("not known", f"{candidate.checks_made} made; archiver worm makes all")
        return Judged("met", f"no {severity} in {candidate.checks_made}")

    return judge


def _check_passes(identifier: str) -> Callable[[Candidate], Judged]:
    def judge(candidate: Candidate) -> Judged:
        made = [each for each in candidate.checks if each.id == identifier]
        failed = [each for each in made if each.verdict in ("FAIL", "DEVIATION")]
        if failed:
            return Judged("not met", f"{failed[0].name}: {failed[0].graded_verdict}: {failed[0].reason}")
        if made and all(each.verdict == "PASS" for each in made):
            return Judged("met", f"{identifier}: PASS{f' in {len(made)} rounds' if len(made) > 1 else ''}")
        return Judged("not known", f"{identifier}: {made[0].verdict if made else 'not tried'}")

    return judge


def _synced(candidate: Candidate) -> Judged:
    light = durability(candidate)
    outcome: Outcome = {"good": "met", "bad": "not met"}.get(light.state, "not known")  # type: ignore[assignment]
    more = "" if outcome != "not known" else "; no check killed the server: archiver worm --platform NAME does"
    return Judged(outcome, f"{light.words}{more}")


def _within_budget(candidate: Candidate) -> Judged:
    known = None if candidate.plan is None else candidate.plan.is_within_budget
    words = cost(candidate).words
    if known is None:
        return Judged("not known", f"{words}; give prices and budget" if candidate.plan is not None else words)
    return Judged("met" if known else "not met", words)


def _at_most(count: str) -> Callable[[Candidate], Judged]:
    def judge(candidate: Candidate) -> Judged:
        if candidate.plan is None:
            return Judged("not known", NOT_PLANNED)
        last = candidate.plan.last
        words = f"{last.platforms:,} in year {last.year.year}; {last.year.decided_by.reason} decides"
        return Judged("met" if last.platforms <= int(count) else "not met", words)

    return judge


def _rates_known(candidate: Candidate) -> Judged:
    points = candidate.card.points
    if not points:
        return Judged("not known", "no rate of a scorecard's points was measured")
    wide = [str(point) for point, unit in points.items() if grade_of(unit.within) not in ("A", "B")]
    if wide:
        return Judged("not met", f"not known within {PRECISE_SHARE:.0%}: {'; '.join(wide)}")
    return Judged("met", f"{len(points)} points known within {PRECISE_SHARE:.0%}")


# A pattern, how it is shown to users, and what makes the judge of a match.
_PHRASES: tuple[tuple[str, str, Callable[..., Callable[[Candidate], Judged]]], ...] = (
    (r"no (S[1-4])", "no S1", _no_finding),
    (r"check ([A-Z]+-\d+)", "check RET-05", _check_passes),
    (r"synced", "synced", lambda: _synced),
    (r"within budget", "within budget", lambda: _within_budget),
    (r"at most (\d+) platforms?", "at most 4 platforms", _at_most),
    (r"rates known", "rates known", lambda: _rates_known),
)
