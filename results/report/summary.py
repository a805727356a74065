"""The summary of a run in one screen, for the first part of a page and for a terminal.

Use ``summary(recorded, doubts(recorded))`` for the values, and ``summary_lines`` for its text.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from results.document.document import KeyFinding, Number, State
from results.measures.stored_times import stored_times
from results.recorded.run import RecordedRun
from results.report.answer import answer, batching, limits, quality
from results.report.key_figures import verdict, verdict_sentence
from results.report.numbers import key_numbers

WARNINGS_MAX = 3


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The answer of a run, with its numbers, limits, warnings and verdict."""

    run: str
    answer: str  # one sentence
    quality: str  # how well the answer's numbers are known and what to mind about them, in one line; may be empty
    numbers: tuple[Number, ...]  # at most six
    batching: str  # the gain of batching, as a sentence; may be empty
    limits: tuple[str, ...]  # what limited these numbers, as sentences
    warnings: tuple[str, ...]  # every warning, the most serious first
    state: State  # of the verdict
    verdict: str  # in words
    is_judged: bool  # by criteria or checks; if not, the verdict only says whether the run finished

    @property
    def serious(self) -> tuple[str, ...]:
        """Return the most serious warnings, at most three."""
        return self.warnings[:WARNINGS_MAX]

    @property
    def further(self) -> int:
        """Return the number of warnings after the most serious ones."""
        return len(self.warnings) - len(self.serious)

    @property
    def verdict_label(self) -> str:
        return "Verdict" if self.is_judged else "Run"

    def findings(self, warnings: str) -> tuple[KeyFinding, ...]:
        """Return what limits, the most serious warnings and the verdict. ``warnings``: the section that has all."""
        found = []
        if self.limits:
            found.append(KeyFinding("plain", "What limits", self.limits[0], self.limits[1:]))
        if self.warnings:
            link = (f"and {self.further} more", warnings) if self.further > 0 else None
            found.append(KeyFinding("care", "Warnings", self.serious[0], self.serious[1:], link))
        return (*found, KeyFinding(self.state, self.verdict_label, self.verdict))


def summary(recorded: RecordedRun, warnings: Sequence[str]) -> RunSummary:
    """Return the summary of a run. ``warnings`` are those of ``results.measures.doubts.doubts``.

    Raises ResultsError as reading a run's results does.
    """
    run, results, checks = recorded.run, recorded.results, recorded.checks
    criteria, search = recorded.criteria, recorded.search
    state, words = verdict(run, results, checks)
    return RunSummary(
        run=run.id,
        answer=answer(run, results, checks, criteria, search),
        quality=quality(results, search, shared_host=run.shared_host),
        numbers=key_numbers(results, checks, criteria, search, stored_times(recorded)),
        batching=batching(results) if results else "",
        limits=limits(results, search),
        warnings=tuple(warnings),
        state=state,
        is_judged=bool(checks or criteria or search is not None) or run.verdict == "void",
        verdict=verdict_sentence(words, recorded.phases_finished, run.phases_planned),
    )


def summary_lines(found: RunSummary, width: int = 100) -> list[str]:
    """Return a summary as lines of at most ``width`` characters for a terminal.

    The order is that of the page: the answer, the numbers, what limits, the most serious warnings, the verdict.
    """
    lines = textwrap.wrap(found.answer, width)
    lines += textwrap.wrap(found.quality, width, subsequent_indent="  ")
    names = max((len(each.name) for each in found.numbers), default=0)
    values = max((len(f"{each.value} {each.unit}") for each in found.numbers), default=0)
    for each in found.numbers:
        head = f"  {each.name:<{names}}  {f'{each.value} {each.unit}':<{values}}  "
        lines += textwrap.wrap(each.basis, width, initial_indent=head, subsequent_indent=" " * len(head)) or [head]
    further = [f"and {found.further:,} more in the report"] if found.further > 0 else []
    gain = [found.batching] if found.batching else []
    for label, texts in (("batching", gain), ("limit", found.limits), ("warning", found.serious), ("warning", further)):
        for text in texts:
            lines += textwrap.wrap(f"{label}: {text}", width, subsequent_indent="  ")
    return [*(line.rstrip() for line in lines), f"{found.verdict_label.lower()}: {found.verdict}"]
