"""The search for the largest scale at which every criterion holds: doubling, then halving, then repeats at the edge.

One idea: what to try next follows from the trials so far alone. A scale holds while none of its trials has failed; one
failure and it does not hold, and neither does any above it. So whatever the platform does, the edge only ever moves
down once it was found, no scale is tried more than ``repeat`` times, and the search ends.
"""

from __future__ import annotations

from archiver.values.errors import ScenarioError
from results.model import SearchOutcome, SearchStep

CONFIDENCE = 0.95


class Search:
    """One search, between the scales ``first`` and ``last``, which are multiples of ``step``, as all that it tries are.

    Doubles from ``first`` until a scale fails or ``last`` held; halves what lies between the largest that held and the
    smallest that failed; then repeats the one, and the other, until each has had ``repeat`` trials. A scale that fails
    when repeated lowers the edge: the search goes on below it. It ends at once where ``first`` fails.

    Raises ScenarioError for a range or a number of trials that is none.
    """

    def __init__(self, name: str, first: int, last: int, repeat: int, step: int = 1) -> None:
        if step < 1 or not 1 <= first <= last:
            raise ScenarioError(
                f"search of {name}: from {first} to {last} by {step} is no range: write first and step of at least 1, "
                "and last not below first"
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
        """The scale to try next; None: the search has ended."""
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
        # First what may still lower the edge.
        return next((scale for scale in (held, failed) if self._trials(scale) < self._repeat), None)

    def judged(self, scale: int, passed: bool, positions: tuple[int, ...]) -> None:
        """Take the trial of ``next_scale()``: whether every criterion held in its phases, at these positions."""
        assert scale == self.next_scale(), f"{scale} was not to be tried"
        self._steps.append(SearchStep(scale, positions, passed))

    def stopped(self, reason: str) -> None:
        """End the search here: the next scale cannot be tried. ``reason``: in words, with the remedy."""
        self._stopped = reason

    def trials_max(self) -> int:
        """No search has more trials: every scale ``repeat`` times.

        That takes a platform on which each scale holds at first and fails when it is repeated, one after another. Where
        what held and what failed stay so, there are about log2(last / first) trials up, as many to halve what lies
        between, and 2 x repeat - 2 at the edge.
        """
        scales = (self._last - self._first) // self._step + 1
        return scales * self._repeat

    def outcome(self) -> SearchOutcome:
        """What came of it; only once ``next_scale()`` is None."""
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
        """The largest scale below every failure that was tried; none of its trials failed."""
        failed = self._failed()
        return max((s.scale for s in self._steps if failed is None or s.scale < failed), default=None)

    def _failed(self) -> int | None:
        """The smallest scale that failed, if only once."""
        return min((step.scale for step in self._steps if not step.passed), default=None)

    def _trials(self, scale: int) -> int:
        return sum(step.scale == scale for step in self._steps)

    def _ended_because(self) -> str:
        held, failed = self._held(), self._failed()
        if failed is None:
            return f"all up to {self._name} {self._last} held; the search ends there: raise its last"
        if held is None:
            return f"{self._name} {failed}, the smallest, failed: lower its first, or the criteria"
        return f"the edge was found between {self._name} {held} and {failed}"

    def _confidence(self) -> str:
        """How sure the outcome is, in words."""
        held, failed = self._held(), self._failed()
        words = []
        if held is not None:
            trials = self._trials(held)
            least = int(share_that_holds_min(trials, CONFIDENCE) * 100)
            words.append(
                f"{self._name} {held} held in {trials} of {_trials_in_words(trials)}: with {CONFIDENCE:.0%} confidence "
                f"at least {least}% of such trials hold"
            )
        if failed is not None:
            failures = sum(step.scale == failed and not step.passed for step in self._steps)
            words.append(f"{self._name} {failed} failed in {failures} of {_trials_in_words(self._trials(failed))}")
        if held is not None and failed is not None and failed - held > self._step:
            words.append("nothing between them was tried")
        lowered = self._lowered()
        if lowered:
            words.append(f"of what held at first, {', '.join(map(str, lowered))} failed when repeated")
        return "; ".join(words) or "nothing was tried"

    def _lowered(self) -> list[int]:
        """Scales that held and then failed, rising."""
        first_trials = {step.scale: step.passed for step in reversed(self._steps)}
        return sorted({step.scale for step in self._steps if not step.passed and first_trials[step.scale]})


def share_that_holds_min(trials: int, confidence: float) -> float:
    """The least share of trials that hold, with this confidence, where all of ``trials`` did, each independent.

    The exact one-sided bound of the binomial distribution (Clopper and Pearson, Biometrika 26 (1934)): the share p at
    which so many in a row are just as likely as 1 - confidence, p ** trials = 1 - confidence. It knows of one scale's
    trials alone: where others held at first and failed before the edge was lowered to this one, it flatters.
    """
    return float((1 - confidence) ** (1 / trials))


def _trials_in_words(count: int) -> str:
    return f"{count} trial{'s' if count != 1 else ''}"
