"""Search for the largest scale at which every criterion is met: doubling, then halving, then repeats at the edge.

One idea: the next scale depends only on the previous trials. A scale passes while none of its trials has failed. After
one failure it fails, and so does every larger scale. Once found, the edge therefore only moves down, no scale is tried
more than ``repeat`` times, and the search ends on any platform.
"""

from __future__ import annotations

from archiver.values.errors import ScenarioError
from results.recorded.model import SearchOutcome, SearchStep

CONFIDENCE = 0.95


class Search:
    """One search between the scales ``first`` and ``last``. All its scales are multiples of ``step``.

    The search doubles from ``first`` until a scale fails or ``last`` passes. It then halves the range between the
    largest scale that passed and the smallest that failed. Finally it repeats the former, and then the latter, until
    each has had ``repeat`` trials. A scale that fails when repeated lowers the edge, and the search continues below it.
    The search ends at once if ``first`` fails, or if a trial is void.

    Raises ScenarioError for an invalid range or number of trials.
    """

    def __init__(self, name: str, first: int, last: int, repeat: int, step: int = 1) -> None:
        if step < 1 or not 1 <= first <= last:
            raise ScenarioError(
                f"search of {name}: from {first} to {last} by {step} is not a range: write first and step of at least "
                "1, and last not below first"
            )
        if first % step or last % step:
            raise ScenarioError(
                f"search of {name}: first ({first}) and last ({last}) must be multiples of step ({step})"
            )
        if repeat < 1:
            raise ScenarioError(f"search of {name}: repeat is {repeat}; the edge needs at least 1 trial")
        self._name = name
        self._first = first
        self._last = last
        self._repeat = repeat
        self._step = step
        self._steps: list[SearchStep] = []
        self._stopped: str | None = None

    def next_scale(self) -> int | None:
        """Return the scale to try next; None if the search has ended."""
        if self._stopped is not None:
            return None
        if not self._steps:
            return self._first
        held, failed = self._held(), self._failed()
        if held is None:
            return None
        if failed is None:
            if held < self._last:
                return min(2 * held, self._last)
            return held if self._trials(held) < self._repeat else None
        if failed - held > self._step:
            return (held + failed) // 2 // self._step * self._step
        # The scale that may still lower the edge comes first.
        return next((scale for scale in (held, failed) if self._trials(scale) < self._repeat), None)

    def judged(self, scale: int, passed: bool, positions: tuple[int, ...]) -> None:
        """Record the trial of ``next_scale()``: whether its phases, at these positions, met every criterion."""
        assert scale == self.next_scale(), f"{scale} is not the next scale"
        self._steps.append(SearchStep(scale, positions, passed))

    def voided(self, scale: int, reason: str, positions: tuple[int, ...]) -> None:
        """Record a void trial of ``next_scale()``, which is no evidence about the platform, and end the search."""
        assert scale == self.next_scale(), f"{scale} is not the next scale"
        self._steps.append(SearchStep(scale, positions, passed=False, void=reason))
        self._stopped = reason

    def stopped(self, reason: str) -> None:
        """End the search because the next scale cannot be tried. ``reason`` is a message with the remedy."""
        self._stopped = reason

    def outcome(self) -> SearchOutcome:
        """Return the result of the search. Call this only when ``next_scale()`` is None."""
        assert self.next_scale() is None, "the search has not ended"
        held = self._held()
        return SearchOutcome(
            name=self._name,
            steps=tuple(self._steps),
            largest=held,
            failed_at=self._failed(),
            held=self._trials(held) if held is not None else 0,
            confidence=self._confidence(),
            ended_because=self._stopped or self._ended_because(),
        )

    def _held(self) -> int | None:
        """Return the largest scale that passed all its trials and is below every failure."""
        failed = self._failed()
        return max(
            (step.scale for step in self._steps if step.passed and (failed is None or step.scale < failed)),
            default=None,
        )

    def _failed(self) -> int | None:
        """Return the smallest scale with at least one failure."""
        return min((step.scale for step in self._valid() if not step.passed), default=None)

    def _trials(self, scale: int) -> int:
        return sum(step.scale == scale for step in self._valid())

    def _valid(self) -> list[SearchStep]:
        return [step for step in self._steps if not step.void]

    def _ended_because(self) -> str:
        held, failed = self._held(), self._failed()
        if failed is None:
            return f"all up to {self._name} {self._last} passed; the search ends there: raise last"
        if held is None:
            return f"{self._name} {failed}, the smallest, failed: lower first, or relax the criteria"
        return f"the edge was found between {self._name} {held} and {failed}"

    def _confidence(self) -> str:
        """Return a description of the confidence in the result."""
        held, failed = self._held(), self._failed()
        words = []
        if held is not None:
            trials = self._trials(held)
            least = int(share_that_holds_min(trials, CONFIDENCE) * 100)
            words.append(
                f"{self._name} {held} passed in {trials} of {_trials_in_words(trials)}: with {CONFIDENCE:.0%} "
                f"confidence at least {least}% of such trials pass"
            )
        if failed is not None:
            failures = sum(step.scale == failed and not step.passed for step in self._valid())
            words.append(f"{self._name} {failed} failed in {failures} of {_trials_in_words(self._trials(failed))}")
        if held is not None and failed is not None and failed - held > self._step:
            words.append("no scale between them was tried")
        lowered = self._lowered()
        if lowered:
            words.append(f"passed at first but failed when repeated: {', '.join(map(str, lowered))}")
        return "; ".join(words) or "no scale was tried"

    def _lowered(self) -> list[int]:
        """Return the scales that passed and later failed, ascending."""
        first_trials = {step.scale: step.passed for step in reversed(self._valid())}
        return sorted({step.scale for step in self._valid() if not step.passed and first_trials[step.scale]})


def share_that_holds_min(trials: int, confidence: float) -> float:
    """Return the lower confidence bound of the share of passing trials, if ``trials`` independent trials passed.

    This is the exact one-sided bound of the binomial distribution (Clopper and Pearson, Biometrika 26 (1934)): the
    share p with p ** trials = 1 - confidence. It considers the trials of one scale only. It is too optimistic if larger
    scales passed at first and failed before the edge was lowered to this one.
    """
    return float((1 - confidence) ** (1 / trials))


def _trials_in_words(count: int) -> str:
    return f"{count} trial{'s' if count != 1 else ''}"
