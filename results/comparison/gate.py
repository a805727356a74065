"""Conditions on a comparison that fail a build: ``archive.8KiB.500.objects_per_second < 0.9``.

A condition names cells or workloads as the output does (``UnitKey``); ``*`` stands for any part of a name. Without its
number of clients a cell is that of one client. Without its scale a workload is at every scale.

The gate judges the estimate, never its interval. A threshold is a tolerance that the user chose. If the whole interval
had to be beyond it, a quantity with too few repetitions would always pass. The output shows the interval next to the
estimate, and states if it contains the threshold. More repetitions make the result of a condition stable. A condition
that cannot be judged fails.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from archiver.values.errors import UsageError
from archiver.values.metrics import STATISTICS, Condition, nearest_name, read_condition
from archiver.values.sizes import format_size
from results.comparison.compare import Comparison, Side
from results.comparison.ratios import Ratio
from results.measures.metrics import MEASURES, MEGABYTE_RATE, RATE
from results.measures.units import Unit, UnitKey

GRAMMAR = "NAME.QUANTITY COMPARISON NUMBER"
EXAMPLES = ("archive.8KiB.500.objects_per_second < 0.9", "e-mail@4.objects_per_second < 0.9")
ERRORS = "errors"
QUANTITIES = (*(measure.name for measure in MEASURES), ERRORS)
WORST_ALLOWED = 10  # a condition that allows a factor of ten is a mistake of units

_CELLS_SHOWN_MAX = 12


@dataclass(frozen=True, slots=True)
class GateCondition:
    """A condition that must not be true."""

    text: str
    name: str
    quantity: str
    bound: Condition  # on candidate / first; for errors, on their number

    def names(self, key: UnitKey) -> bool:
        """Return whether this unit is one of those that the name stands for."""
        any_part = "|".join(re.escape(part) for part in _parts(key) if part)
        pattern = f"(?:{any_part})".join(map(re.escape, self.name.split("*")))
        shorter = f"{key}.1" if key.is_cell and key.clients == 1 else f"{key._replace(scale=None)}"
        return any(re.fullmatch(pattern, name) for name in (f"{key}", shorter))


@dataclass(frozen=True, slots=True)
class Judgement:
    """One condition on one cell, or one workload, of one platform after the first."""

    condition: GateCondition
    platform: str
    key: UnitKey
    value: float | None  # None: cannot be judged, and fails
    low: float | None  # 95% interval of a ratio
    high: float | None
    fails: bool
    notes: tuple[str, ...]  # why it could not be judged, or needs care


def parse_condition(text: str) -> GateCondition:
    """Parse the text of a condition. Raises UsageError with the grammar, the quantities, or the meaning of a number."""
    first, second = EXAMPLES
    form = f"write {GRAMMAR}, for example {first!r} or {second!r}"
    try:
        condition = read_condition(text, f"it is not a condition; {form}")
        name, quantity = _split(condition.left, form)
        if condition.operator == "==" or condition.limit < 0:
            judged_by = f"{condition.operator} {condition.limit:g}"
            raise ValueError(f"no ratio or number of errors is judged by {judged_by}; {form}")
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}") from None
    if quantity != ERRORS and _lets_everything_pass(condition):
        raise UsageError(
            f"{text!r}: {quantity} is the ratio to the first platform, and a platform that is {WORST_ALLOWED} times"
            " worse would pass; write for example 0.9 for nine tenths, 1.2 for a fifth more"
        )
    return GateCondition(text.strip(), name, quantity, condition)


def _split(text: str, form: str) -> tuple[str, str]:
    """Return the name and the quantity of ``archive.8KiB.500.object_ms.p99``. Raises ValueError."""
    for quantity in QUANTITIES:
        name = text.removesuffix(f".{quantity}")
        if name and name != text:
            return name, quantity
    name, dot, last = text.rpartition(".")
    if not dot:
        raise ValueError(f"it is not a condition; {form}")
    before, _, last_but_one = name.rpartition(".")
    given = f"{last_but_one}.{last}" if last in STATISTICS and before else last
    raise ValueError(f"there is no quantity {given!r}{nearest_name(given, QUANTITIES)}")


def judge(comparison: Comparison, conditions: Sequence[GateCondition]) -> list[Judgement]:
    """Judge every condition on each matching cell or workload of the first platform, for each further platform.

    Raises UsageError with the existing cells or workloads if a condition matches none of them.
    """
    return [judgement for condition in conditions for judgement in _judge(comparison, condition)]


def _judge(comparison: Comparison, condition: GateCondition) -> list[Judgement]:
    """Judge one condition. It skips units that cannot have the quantity, such as deletions for MB/s."""
    first = comparison.sides[0]
    compared = {unit.key: unit for unit in comparison.units}

    def measure_of(key: UnitKey) -> str:
        """Return the measure to judge: the objects of a cell have one size, so its MB/s follow from objects/s."""
        return RATE.name if key.is_cell and condition.quantity == MEGABYTE_RATE.name else condition.quantity

    def says(key: UnitKey) -> bool:
        names = [measure.name for measure in first.units[key].measures]
        return condition.quantity == ERRORS or measure_of(key) in (compared[key].ratios if key in compared else names)

    keys = [key for key in first.units if condition.names(key) and says(key)]
    if not keys:
        raise UsageError(
            f"{condition.text!r}: {first.label} has no cell or workload {condition.name!r} with {condition.quantity};"
            f" it has {_listed(first)}"
        )
    return [
        _judged(
            condition,
            side,
            key,
            side.units.get(key),
            compared[key].ratios[measure_of(key)][index] if key in compared and condition.quantity != ERRORS else None,
        )
        for index, side in enumerate(comparison.sides[1:])
        for key in keys
    ]


def gate_sentences(judgements: Sequence[Judgement]) -> list[str]:
    """Return one sentence for each judgement that fails, and one for each condition and platform that passes."""
    groups: dict[tuple[str, str], list[Judgement]] = {}
    for judgement in judgements:
        groups.setdefault((judgement.condition.text, judgement.platform), []).append(judgement)
    sentences = []
    for (text, platform), group in groups.items():
        failed = [judgement for judgement in group if judgement.fails]
        sentences += [f"fails: {text}: {platform}, {each.key}: {_found(each)}" for each in failed]
        if not failed:
            nearest = min(group, key=_distance)
            cells = (
                f"{len(group)} {'cells' if nearest.key.is_cell else 'workloads'}, the nearest "
                if len(group) > 1
                else ""
            )
            noted = sum(bool(each.notes) for each in group if each is not nearest)
            more = f"; {noted} other{'s' if noted > 1 else ''} with notes, see the JSON" if noted else ""
            sentences.append(f"passes: {text}: {platform}, {cells}{nearest.key}: {_found(nearest)}{more}")
    return sentences


def _judged(
    condition: GateCondition, side: Side, key: UnitKey, measured: Unit | None, ratio: Ratio | None
) -> Judgement:
    if measured is None:
        return Judgement(condition, side.label, key, None, None, None, True, (f"not measured on {side.label}",))
    if condition.quantity == ERRORS:
        errors = measured.errors
        return Judgement(condition, side.label, key, errors, None, None, condition.bound.holds(errors), ())
    if ratio is None or ratio.ratio is None:
        return Judgement(condition, side.label, key, None, None, None, True, (ratio.because if ratio else "no pair",))
    fails = condition.bound.holds(ratio.ratio)
    notes = (f"{ratio.verdict}: {ratio.because}",) if ratio.because else ()
    return Judgement(
        condition, side.label, key, ratio.ratio, ratio.low, ratio.high, fails, (*notes, *_unsure(condition, ratio))
    )


def _unsure(condition: GateCondition, ratio: Ratio) -> tuple[str, ...]:
    """Return notes on the possible influence of chance on the judgement."""
    if ratio.low is None or ratio.high is None:
        return (f"no interval from {ratio.pairs} pair{'' if ratio.pairs == 1 else 's'}",)
    if ratio.low <= condition.bound.limit <= ratio.high:
        return ("the interval contains the threshold: repeat more often for a stable result",)
    return ()


def _lets_everything_pass(condition: Condition) -> bool:
    return condition.limit < 1 / WORST_ALLOWED if condition.operator in ("<", "<=") else condition.limit > WORST_ALLOWED


def _parts(key: UnitKey) -> tuple[str, ...]:
    """Return the parts of a unit's name; empty ones are not in it."""
    if key.is_cell:
        return key.operation, format_size(key.object_bytes), f"{key.objects_per_session}", f"{key.clients}"
    return key.workload, key.operation, f"{key.clients or ''}", "" if key.scale is None else f"{key.scale:g}"


def _distance(judgement: Judgement) -> float:
    """Return the distance of a passing value from its threshold."""
    value, number = judgement.value or 0.0, judgement.condition.bound.limit
    return abs(math.log(value / number)) if value and number else abs(value - number)


def _found(judgement: Judgement) -> str:
    notes = f" ({'; '.join(judgement.notes)})" if judgement.notes else ""
    if judgement.value is None:
        return f"cannot be judged{notes}"
    if judgement.condition.quantity == ERRORS:
        return f"{judgement.value:,.0f}{notes}"
    interval = "" if judgement.low is None else f" [95% {judgement.low:.3f} to {judgement.high:.3f}]"
    return f"{judgement.value:.3f}{interval}{notes}"


def _listed(side: Side) -> str:
    names = [f"{key}" for key in side.units if key.is_cell or not key.clients]
    more = len(names) - _CELLS_SHOWN_MAX
    return ", ".join(names[:_CELLS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
