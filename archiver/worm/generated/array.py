"""A covering array: few rows in which every two values of different dimensions meet.

One idea: rows are made one by one. Each begins with a pair that no row has yet, and takes for every other dimension the
value that meets most new ones. For the dimensions where stores fail in threes, triples count like pairs. The same seed
gives the same rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import combinations, product

from archiver.worm.generated.rules import Row

Meeting = frozenset[Enum]  # two or three values of different dimensions
_TRIES = 8  # to complete a row with a meeting; then its values are taken to exclude each other


def covering_array(
    values: Sequence[Sequence[Enum]],
    is_sensible: Callable[[Row], bool],
    seed: int,
    *,
    in_threes: Sequence[Sequence[Enum]] = (),
) -> Iterator[Row]:
    """Yield rows of one value for each dimension until every sensible pair of ``values`` is in one.

    ``values`` has the values of each dimension. ``in_threes`` has those of three dimensions whose triples also meet.
    """
    chance = random.Random(seed)
    dangerous = frozenset(value for dimension in in_threes for value in dimension)
    meetings = [frozenset(pair) for one, other in combinations(values, 2) for pair in product(one, other)]
    meetings += [frozenset(triple) for triple in product(*in_threes)] if in_threes else []
    meetings = [meeting for meeting in meetings if is_sensible({type(value): value for value in meeting})]
    chance.shuffle(meetings)
    missing = dict.fromkeys(meetings)
    while missing:
        meeting = next(iter(missing))
        rows = (_completed(meeting, values, is_sensible, missing, dangerous, chance) for _ in range(_TRIES))
        row = next((row for row in rows if row is not None), None)
        if row is None:
            del missing[meeting]
            continue
        chosen: list[Enum] = []
        for value in row.values():
            for met in _met(chosen, value, dangerous):
                missing.pop(met, None)
            chosen.append(value)
        yield row


def _completed(
    meeting: Meeting,
    values: Sequence[Sequence[Enum]],
    is_sensible: Callable[[Row], bool],
    missing: dict[Meeting, None],
    dangerous: frozenset[Enum],
    chance: random.Random,
) -> Row | None:
    """Return a row with this meeting; None if no value of some dimension went with the others."""
    row = {type(value): value for value in sorted(meeting, key=str)}
    for dimension in chance.sample(values, len(values)):
        if type(dimension[0]) in row:
            continue
        candidates = chance.sample(dimension, len(dimension))
        chosen = list(row.values())
        candidates.sort(key=lambda value: -sum(met in missing for met in _met(chosen, value, dangerous)))
        value = next((each for each in candidates if is_sensible({**row, type(each): each})), None)
        if value is None:
            return None
        row[type(value)] = value
    return row


def _met(chosen: Sequence[Enum], value: Enum, dangerous: frozenset[Enum]) -> Iterator[Meeting]:
    """Yield the meetings of ``value`` with the values chosen so far."""
    for other in chosen:
        yield frozenset((other, value))
    if value in dangerous:
        for one, other in combinations([each for each in chosen if each in dangerous], 2):
            yield frozenset((one, other, value))
