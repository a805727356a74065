"""One run of one check, over any protocol: its evidence, what it notices, and its notes.

One idea: a check of S3 and one of TSM differ in what they send and in how they read a state. How they note a deviation,
collect findings and end is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from archiver.worm.catalogue import entry_of, expectation, severity_rank
from archiver.worm.verdict import Answered, CheckEnded, CheckVerdict, Failed, Inconclusive
from results.recorded.model import CheckFinding


class Exchange(Protocol):
    """One recorded request or call, with its answer and without secrets."""

    @property
    def document(self) -> dict[str, Any]:
        """Return it as plain JSON values."""


class Noticed(NamedTuple):
    """A finding of a check, and how serious it is."""

    verdict: CheckVerdict
    severity: str
    finding: CheckFinding


@dataclass(slots=True)
class CheckRun:
    """One run of one check. The case of a protocol adds clients, requests, and ways to judge the state."""

    check_id: str
    deviations: list[str] = field(default_factory=list, kw_only=True)
    noticed: list[Noticed] = field(default_factory=list, kw_only=True)
    notes: list[str] = field(default_factory=list, kw_only=True)
    has_all: bool = field(default=True, kw_only=True)  # the record has every request so far

    @property
    def record(self) -> Sequence[Exchange]:
        """The evidence so far."""
        raise NotImplementedError

    def must_have_lost_nothing(self) -> None:
        """Fail if the check lost or weakened a record that it had locked. The case of a protocol can know that."""

    def tidy(self) -> None:
        """Release and remove what the check made, as far as the end of the run does not. This is not evidence."""

    def try_all(self, *parts: tuple[str, Callable[[], None]]) -> None:
        """Run every part of a check, also after one has failed, and raise the worst result.

        The exception names all parts with that result. If any part could be judged, parts that the platform does not
        offer, or that were not tried, are only noted; the check then passes only if the platform offers every part.
        """
        ends: list[tuple[str, CheckEnded]] = []
        for name, part in parts:
            try:
                part()
            except CheckEnded as ended:
                ends.append((name, ended))
                self.mark(ended.verdict, f"{name}: {ended}", ended.severity, ended.answers)
        bad = [kind for kind in (Failed, Inconclusive) if any(isinstance(end, kind) for _, end in ends)]
        worst = bad[0] if bad else type(ends[0][1]) if ends and len(ends) == len(parts) else None
        self.notes += [f"{name}: {end.verdict}: {end}" for name, end in ends if type(end) is not worst]
        if worst is None:
            return
        reason = "; ".join(f"{name}: {end}" for name, end in ends if type(end) is worst)
        severities = [end.severity or self.severity for _, end in ends if type(end) is worst]
        raise worst(reason, min(severities, key=severity_rank))

    def expected(self, answer: str) -> str:
        """Return ``Amazon answers ...`` if this check has a source for that answer, else ``expected ...``."""
        return expectation(self.check_id, answer)

    def deviate(self, words: str, *answers: Answered) -> None:
        """Note a deviation: the state is right, but these answers are not the expected ones."""
        self.deviations.append(words)
        self.mark(CheckVerdict.DEVIATION, words, answers=answers)

    def mark(
        self, verdict: CheckVerdict, words: str, severity: str | None = None, answers: Sequence[Answered] = ()
    ) -> None:
        """Record a finding that the exchanges so far show; its severity is by default the catalogue's."""
        about = {id(answer.exchange) for answer in answers}
        attempt = tuple(position for position, each in enumerate(self.record, 1) if id(each) in about)
        found = CheckFinding(words, len(self.record), attempt, self.has_all)
        self.noticed.append(Noticed(verdict, severity or self.severity, found))

    def findings(self, verdict: CheckVerdict) -> tuple[CheckFinding, ...]:
        """Return the findings with this verdict, the most serious first."""
        found = [each for each in self.noticed if each.verdict is verdict]
        return tuple(each.finding for each in sorted(found, key=lambda each: severity_rank(each.severity)))

    @property
    def severity(self) -> str:
        """The catalogue's: of the check's usual finding."""
        return entry_of(self.check_id).severity
