"""Carries out generated sequences on a platform for a given time, and reports each cause of harm once.

One idea: single values come first, and those that the platform refuses leave the array. Then comes the covering array,
then a random walk until the time is over. The same seed gives the same sequences.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice, product
from typing import NamedTuple

from archiver.worm.case import Case
from archiver.worm.generated.array import covering_array
from archiver.worm.generated.dimensions import (
    DIMENSIONS,
    Asking,
    Attack,
    AttackTiming,
    Combination,
    Locking,
    PriorEvent,
    combination_of,
    plainest,
)
from archiver.worm.generated.judge import LISTING
from archiver.worm.generated.rules import IN_COMPLIANCE, is_sensible, is_sensible_combination
from archiver.worm.generated.shrink import shrunk
from archiver.worm.generated.trial import Bench, Trial, family_of
from archiver.worm.suite import CheckResult, OnResult, Round, Suite, result_of
from archiver.worm.verdict import CheckVerdict

BATCH = 48  # trials that share buckets; some attacks of a batch come after all others of it
EVENTS_MAX = 4  # of one sequence of the random walk
_IN_THREES = (Attack.DELETE, Attack.BATCH, Attack.OVERWRITE, Attack.SHORTEN, Attack.REMOVE_RETENTION)
OnTrial = Callable[[Trial], None]
_OF_ALL = ("GEN-STORE", "GEN-HISTORY", LISTING)  # families that every sequence tries


class Generation(NamedTuple):
    """The user's choices: how long sequences are generated, and from which seed."""

    seconds: float
    seed: int


@dataclass(slots=True)
class Cause:
    """A harm with its plainest combination, and how many sequences met it."""

    trial: Trial
    doubt: str  # why a plainer combination may have the cause; empty: it was looked for
    times: int = 1

    @property
    def identifier(self) -> str:
        assert self.trial.harm is not None
        return f"{self.trial.family}-{self.trial.combination.digest(self.trial.harm.kind)}"

    def explains(self, other: Trial) -> bool:
        """Return whether the other trial has this cause: the same harm, and all values that the cause needs."""
        own = self.trial
        return (
            (own.harm is not None and other.harm is not None and own.harm.kind == other.harm.kind)
            and own.combination.attack in (None, other.combination.attack)
            and own.combination.values <= other.combination.values
        )


@dataclass(slots=True)
class Campaign:
    """The generated sequences of one run. ``left_out`` has the values that are not in the array, with reasons."""

    suite: Suite
    generation: Generation
    left_out: dict[Enum, str] = field(default_factory=dict)
    causes: list[Cause] = field(default_factory=list)
    counts: Counter[tuple[str, CheckVerdict]] = field(default_factory=Counter)  # by family and verdict
    _doubtful: dict[str, Trial] = field(default_factory=dict)  # the first inconclusive trial of a family
    _ends: float = 0.0  # monotonic

    def run(self, on_result: OnResult) -> str:
        """Carry the sequences out, report a result for each cause and family, and return what was done in words."""
        began = time.time()
        self._ends = time.monotonic() + self.generation.seconds
        if not self._start("GEN-STORE").may_use_compliance:
            self.left_out |= dict.fromkeys(IN_COMPLIANCE, "needs --compliance")
        try:
            is_complete = self._probe() and self._carry_out_all(self._array())
            self._carry_out_all(self._walk())
        finally:  # an interrupted run keeps its findings
            for cause in self.causes:
                on_result(self._finding(cause, began))
            for family, verdicts in self._by_family().items():
                on_result(self._summary(family, verdicts, began))
        return self._words(is_complete)

    # ---- which combinations

    def _singles(self) -> dict[Combination, Enum]:
        """Return for each value the plainest combination that has it."""
        found: dict[Combination, Enum] = {}
        for values in self._values():
            for value in values:
                combination = self._plainest_with(value)
                if combination is not None:
                    found.setdefault(combination, value)
        return found

    def _plainest_with(self, value: Enum) -> Combination | None:
        """Return the plainest sensible combination with this value."""
        plain = {each: plainest(each) for each in DIMENSIONS}
        for attack, locking in product(Attack, Locking):
            row: dict[type[Enum], Enum] = {**plain, Locking: locking, Attack: attack, type(value): value}
            if locking not in self.left_out and is_sensible(row):
                return combination_of(row)
        return None

    def _values(self) -> list[list[Enum]]:
        return [[value for value in dimension if value not in self.left_out] for dimension in DIMENSIONS]

    def _array(self) -> Iterator[Combination]:
        offered = self._values()
        threes = [[v for v in offered[DIMENSIONS.index(each)] if each is not Attack or v in _IN_THREES]
                  for each in (Locking, Asking, Attack)]  # fmt: skip
        if all(offered):
            for row in covering_array(offered, is_sensible, self.generation.seed, in_threes=threes):
                yield combination_of(row)

    def _walk(self) -> Iterator[Combination]:
        """Yield random combinations of several events, without end."""
        chance = random.Random(self.generation.seed)
        offered = self._values()
        events = [each for each in PriorEvent if each is not PriorEvent.NOTHING and each not in self.left_out]
        while all(offered) and events:
            row = {type(values[0]): chance.choice(values) for values in offered}
            # Each event once: one extension keeps a COMPLIANCE lock within what the user agreed to.
            several = tuple(chance.sample(events, min(len(events), chance.randint(2, EVENTS_MAX))))
            found = replace(combination_of(row), events=several)
            if is_sensible_combination(found):
                yield found

    # ---- carrying out

    def _probe(self) -> bool:
        """Try each value alone. Return whether there was time.

        Values that the platform does not offer leave the array, and those that alone harm a record before its attack.
        """
        singles = self._singles()

        def probe(trial: Trial) -> None:
            is_missing = trial.verdict in (CheckVerdict.NOT_OFFERED, CheckVerdict.NOT_TRIED)
            if is_missing or (trial.harm is not None and not trial.was_attacked):
                self.left_out[singles[trial.combination]] = trial.reason

        return self._carry_out_all(iter(singles), probe)

    def _carry_out_all(self, combinations: Iterator[Combination], each_ended: OnTrial = lambda _: None) -> bool:
        """Carry out batch by batch while there is time. Return whether none was left out."""
        while batch := list(islice(combinations, BATCH)):
            trials = self._batch(batch)
            for trial in trials:
                self._count(trial)
                each_ended(trial)
            if len(trials) < len(batch):
                return False
        return True

    def _batch(self, batch: Sequence[Combination]) -> list[Trial]:
        """Return the trials of a batch that began in time."""
        bench = Bench(self._start)

        def first(combination: Combination) -> Trial | None:
            if not self._has_time():
                return None
            trial = Trial(bench, combination)
            trial.prepare()
            if combination.timing is not AttackTiming.AFTER_OTHERS:
                trial.attack()
            return trial

        with ThreadPoolExecutor(self.suite.checks_at_once) as pool:
            trials = [each for each in pool.map(first, batch) if each is not None]
            list(pool.map(Trial.attack, (each for each in trials if each.verdict is None)))
        return trials

    def _has_time(self) -> bool:
        return time.monotonic() < self._ends

    def _start(self, family: str) -> Case:
        case = self.suite.start(family)
        assert isinstance(case, Case)
        return case

    def _count(self, trial: Trial) -> None:
        assert trial.verdict is not None
        # A record that was kept passes these families, whatever the platform answered to the attack.
        verdicts = dict.fromkeys(_OF_ALL, CheckVerdict.PASS if trial.was_kept else trial.verdict)
        for family, verdict in {**verdicts, family_of(trial.combination): trial.verdict}.items():
            self.counts[family, verdict] += 1
            if verdict is CheckVerdict.INCONCLUSIVE:
                self._doubtful.setdefault(family, trial)
        if trial.harm is not None:
            self._explain(trial)

    def _explain(self, trial: Trial) -> None:
        """Count the trial with its cause, or find its cause."""
        for cause in self.causes:
            if cause.explains(trial):
                cause.times += 1
                return
        # Each trial has buckets of its own, so that its evidence has all requests that a script must send.
        smallest, doubt = shrunk(
            trial, lambda combination: Trial(Bench(self._start), combination).run(), self._has_time
        )
        for cause in self.causes:
            if cause.explains(smallest):
                cause.times += 1
                return
        self.causes.append(Cause(smallest, doubt))

    # ---- results

    def _finding(self, cause: Cause, began: float) -> CheckResult:
        trial = cause.trial
        assert trial.harm is not None
        doubt = f"; {cause.doubt}" if cause.doubt else ""
        words = f"{trial.reason}; met by {cause.times} of the generated sequences, the plainest is shown{doubt}"
        result = result_of(
            trial.family, CheckVerdict.FAIL, words, Round.ALONE, began, severity=trial.harm.severity,
            findings=trial.case.findings(CheckVerdict.FAIL), exchanges=tuple(trial.case.record),
        )  # fmt: skip
        return replace(result, id=cause.identifier, tries=trial.combination.words)

    def _by_family(self) -> dict[str, Counter[CheckVerdict]]:
        """Return the verdicts of the families without a finding."""
        found: dict[str, Counter[CheckVerdict]] = {}
        for (family, verdict), count in self.counts.items():
            found.setdefault(family, Counter())[verdict] += count
        harmed = {cause.trial.family for cause in self.causes}
        return {family: verdicts for family, verdicts in sorted(found.items()) if family not in harmed}

    def _summary(self, family: str, verdicts: Counter[CheckVerdict], began: float) -> CheckResult:
        """Return the result of a family without a finding. An inconclusive sequence leaves it inconclusive."""
        order = (CheckVerdict.INCONCLUSIVE, CheckVerdict.PASS, CheckVerdict.NOT_OFFERED, CheckVerdict.NOT_TRIED)
        doubtful = self._doubtful.get(family)
        verdict = next((each for each in order if verdicts[each]), CheckVerdict.INCONCLUSIVE)
        words = "generated sequences: " + ", ".join(f"{verdicts[each]} {each}" for each in order if verdicts[each])
        if verdicts[CheckVerdict.FAIL]:
            words += f"; {verdicts[CheckVerdict.FAIL]} have a finding of another family"
        if doubtful is not None:
            words += f"; the first that was inconclusive: {doubtful.combination.words}: {doubtful.reason}"
        evidence = tuple(doubtful.case.record) if doubtful is not None else ()
        return result_of(family, verdict, words, Round.ALONE, began, exchanges=evidence)

    def _words(self, is_complete: bool) -> str:
        total = sum(count for (family, _), count in self.counts.items() if family == LISTING)
        extent = "the whole array" if is_complete else "a part of the array"
        words = f"{total:,} generated sequences of seed {self.generation.seed}, {extent}"
        if not self.left_out:
            return words
        return f"{words}; not offered, or failing alone: {', '.join(sorted(each.value for each in self.left_out))}"
