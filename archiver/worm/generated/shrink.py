"""Finds the plainest combination that still harms its record in the same way.

One idea: a cause needs few of the values of the row that found it. Each value is replaced by the plainest of its
dimension, and each event left out, as long as the harm stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from archiver.worm.generated.dimensions import Asking, Attack, AttackTiming, Combination, Locking, Naming, Writing
from archiver.worm.generated.rules import is_sensible_combination
from archiver.worm.generated.trial import Trial

REPEATS = 2  # to see a harm again before it is simplified
TRIALS_MAX = 40
NOT_SEEN_AGAIN = "it was not seen again when the sequence was repeated"
NOT_SIMPLIFIED = "the time was over before the sequence was as plain as it can be"
_PLAIN_LOCKS = (Locking.GOVERNANCE, Locking.HOLD, Locking.COMPLIANCE)
_PLAIN_ATTACKS = (Attack.DELETE, Attack.OVERWRITE, Attack.SHORTEN)
_Value = TypeVar("_Value")


def shrunk(
    found: Trial, carry_out: Callable[[Combination], Trial], has_time: Callable[[], bool] = lambda: True
) -> tuple[Trial, str]:
    """Return the trial of the plainest combination with the same harm, and why there may be a plainer one, or nothing.

    ``carry_out`` runs the trial of a combination. Without time, the plainest one so far is returned.
    """
    trials = 0

    def has_same_harm(trial: Trial) -> bool:
        return trial.harm is not None and found.harm is not None and trial.harm.kind == found.harm.kind

    for _ in range(REPEATS):
        again = carry_out(found.combination)
        if has_same_harm(again):
            break
    else:
        return found, NOT_SEEN_AGAIN
    smallest, simplified = again, True
    while simplified:
        simplified = False
        for simpler in _simpler(smallest.combination):
            if trials == TRIALS_MAX or not has_time():
                return smallest, NOT_SIMPLIFIED
            trials += 1
            trial = carry_out(simpler)
            if has_same_harm(trial):
                smallest, simplified = trial, True
                break
    return smallest, ""


def _simpler(of: Combination) -> Iterator[Combination]:
    """Yield sensible combinations that are one step plainer, the greatest steps first."""
    for each in _steps(of):
        if each != of and is_sensible_combination(each):
            yield each


def _steps(of: Combination) -> Iterator[Combination]:
    if of.attack is not None:
        yield replace(of, attack=None, asking=Asking.OWNER, timing=AttackTiming.AT_ONCE)
    for index in range(len(of.events)):
        yield replace(of, events=(*of.events[:index], *of.events[index + 1 :]))
    yield replace(of, timing=AttackTiming.AT_ONCE)
    yield replace(of, asking=Asking.OWNER)
    yield replace(of, naming=Naming.PLAIN)
    yield replace(of, writing=Writing.PUT)
    for locking in _plainer(of.locking, _PLAIN_LOCKS):
        yield replace(of, locking=locking)
    if of.attack is not None:
        for attack in _plainer(of.attack, _PLAIN_ATTACKS):
            yield replace(of, attack=attack)


def _plainer(value: _Value, order: Sequence[_Value]) -> Sequence[_Value]:
    """Return the values of ``order`` that are plainer than this one: those before it, or all."""
    return order[: order.index(value)] if value in order else order
