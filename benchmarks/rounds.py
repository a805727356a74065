"""Values of several rounds: medians, and ratios taken within a round.

A round is a dictionary: contender -> name of a value -> the value.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

Round = Mapping[str, Mapping[str, float]]


def paired_ratios(values: Iterable[float], to: Iterable[float]) -> list[float]:
    """Return each round's value in proportion to the other of the same round."""
    return [value / other for value, other in zip(values, to, strict=True)]


def values_of(rounds: Sequence[Round], contender: str, name: str) -> list[float]:
    """Return one contender's value in every round."""
    return [each[contender][name] for each in rounds]


def ratios_of(rounds: Sequence[Round], contender: str, to: str, name: str) -> list[float]:
    """Return one contender's value in proportion to another's in every round."""
    return paired_ratios(values_of(rounds, contender, name), values_of(rounds, to, name))


def median(rounds: Sequence[Round], contender: str, name: str) -> float:
    """Return the median of one contender's value over the rounds."""
    return statistics.median(values_of(rounds, contender, name))


def median_ratio(rounds: Sequence[Round], contender: str, to: str, name: str) -> float:
    """Return the median over the rounds of one contender's value in proportion to another's."""
    return statistics.median(ratios_of(rounds, contender, to, name))
