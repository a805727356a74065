"""Conditions on a comparison that fail a build: ``archive.8KiB.500.objects_per_second < 0.9``.

One idea: the estimate is judged, never its interval. A threshold is the tolerance that somebody chose; an interval
that had to lie beyond it as a whole would let pass whatever was measured too rarely, and a comparison of one repetition
would pass always. The interval is shown beside the estimate, and where it reaches across the threshold that is said:
more repetitions make a condition steady. What cannot be judged fails.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from archiver.errors import UsageError
from archiver.sizes import format_size, parse_size
from results.comparison.compare import P50, P99, RATE, RESPONSE, ComparedCell, Comparison, Ratio, Side
from results.matrix import CellKey

GRAMMAR = "OPERATION.SIZE.OBJECTS[.CLIENTS].QUANTITY COMPARISON NUMBER"
EXAMPLE = "archive.8KiB.500.objects_per_second < 0.9"
ERRORS = "errors"
MEGABYTES = "megabytes_per_second"  # objects of a cell are of one size, so its ratio is that of objects/s
QUANTITIES = (RATE.name, MEGABYTES, RESPONSE.name, P50.name, P99.name, ERRORS)
ANY = "*"
WORST_ALLOWED = 10  # a condition that lets ten times worse pass is a mistake of units

_PATTERN = re.compile(
    r"(?P<operation>.+?)\.(?P<size>\d+(?:\.\d+)?[A-Za-z]*|\*)\.(?P<objects>\d+|\*)(?:\.(?P<clients>\d+|\*))?"
    r"\.(?P<quantity>[A-Za-z0-9_]+)\s*(?P<comparison><=|>=|<|>)\s*(?P<number>\d+(?:\.\d+)?)"
)
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_CELLS_SHOWN_MAX = 12


@dataclass(frozen=True, slots=True)
class Condition:
    """What must not be; None stands for ``*``."""

    text: str
    operation: str | None
    object_bytes: int | None
    objects_per_session: int | None
    clients: int | None
    quantity: str
    comparison: str
    number: float  # candidate / first; for errors, how many

    def matches(self, key: CellKey) -> bool:
        asked = (self.operation, self.object_bytes, self.objects_per_session, self.clients)
        return all(wanted is None or wanted == is_there for wanted, is_there in zip(asked, key, strict=True))

    def holds(self, value: float) -> bool:
        return _COMPARISONS[self.comparison](value, self.number)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One condition on one cell of one platform after the first."""

    condition: Condition
    platform: str
    key: CellKey
    value: float | None  # None: it cannot be judged, and fails
    low: float | None  # 95% interval of a ratio
    high: float | None
    fails: bool
    notes: tuple[str, ...]  # why it could not be judged, or is to be read with care


def parse_condition(text: str) -> Condition:
    """The condition of such a text. Raises UsageError with the grammar, the quantities, or what a number means."""
    found = _PATTERN.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no condition; write {GRAMMAR}, for example {EXAMPLE!r} (* for any cell)")
    quantity, comparison, number = found["quantity"], found["comparison"], float(found["number"])
    if quantity not in QUANTITIES:
        raise UsageError(f"{text!r}: there is no quantity {quantity!r}; there are {', '.join(QUANTITIES)}")
    if quantity != ERRORS and _lets_everything_pass(comparison, number):
        raise UsageError(
            f"{text!r}: {quantity} is the ratio to the first platform, and this would let {WORST_ALLOWED} times worse"
            " pass; write 0.9 for nine tenths, 1.2 for a fifth more"
        )
    return Condition(
        text=text.strip(),
        operation=None if found["operation"] == ANY else found["operation"],
        object_bytes=None if found["size"] == ANY else _size(text, found["size"]),
        objects_per_session=_count(found["objects"]),
        clients=_count(found["clients"] or "1"),
        quantity=quantity,
        comparison=comparison,
        number=number,
    )


def judge(comparison: Comparison, conditions: Sequence[Condition]) -> list[Judgement]:
    """Every condition on each cell of the first platform that it names, for each further platform.

    Raises UsageError naming the cells that there are, where it names none of them.
    """
    first = comparison.sides[0]
    compared = {cell.key: cell for cell in comparison.cells}
    found = []
    for condition in conditions:
        keys = [key for key in first.cells if condition.matches(key)]
        if not keys:
            raise UsageError(f"{condition.text!r}: {first.label} has no such cell; it has {_cells(first)}")
        for index, side in enumerate(comparison.sides[1:]):
            found += [_judged(condition, side, index, key, compared.get(key)) for key in keys]
    return found


def gate_sentences(judgements: Sequence[Judgement]) -> list[str]:
    """One for each judgement that fails, and one for each condition and platform that passes."""
    groups: dict[tuple[str, str], list[Judgement]] = {}
    for judgement in judgements:
        groups.setdefault((judgement.condition.text, judgement.platform), []).append(judgement)
    sentences = []
    for (text, platform), group in groups.items():
        failed = [judgement for judgement in group if judgement.fails]
        sentences += [f"fails: {text}: {platform}, {_cell(each.key)}: {_found(each)}" for each in failed]
        if not failed:
            nearest = min(group, key=_distance)
            cells = f"{len(group)} cells, the nearest " if len(group) > 1 else ""
            noted = sum(bool(each.notes) for each in group if each is not nearest)
            more = f"; {noted} other{'s' if noted > 1 else ''} with notes, see the JSON" if noted else ""
            sentences.append(f"passes: {text}: {platform}, {cells}{_cell(nearest.key)}: {_found(nearest)}{more}")
    return sentences


def _judged(condition: Condition, side: Side, index: int, key: CellKey, compared: ComparedCell | None) -> Judgement:
    measured = side.cells.get(key)
    if compared is None or measured is None:
        return Judgement(condition, side.label, key, None, None, None, True, (f"not measured on {side.label}",))
    if condition.quantity == ERRORS:
        errors = sum(result.errors for result in measured.repetitions)
        return Judgement(condition, side.label, key, errors, None, None, condition.holds(errors), ())
    ratio = _ratio(compared, condition.quantity, index)
    if ratio is None or ratio.ratio is None:
        return Judgement(condition, side.label, key, None, None, None, True, (ratio.because if ratio else "no pair",))
    fails = condition.holds(ratio.ratio)
    notes = (f"{ratio.verdict}: {ratio.because}",) if ratio.because else ()
    return Judgement(
        condition, side.label, key, ratio.ratio, ratio.low, ratio.high, fails, (*notes, *_unsure(condition, ratio))
    )


def _ratio(cell: ComparedCell, quantity: str, index: int) -> Ratio | None:
    return cell.ratios[index] if quantity in (RATE.name, MEGABYTES) else cell.latencies[quantity][index]


def _unsure(condition: Condition, ratio: Ratio) -> tuple[str, ...]:
    """What chance may have done to the judgement."""
    if ratio.low is None or ratio.high is None:
        return (f"no interval from {ratio.pairs} pair{'' if ratio.pairs == 1 else 's'}",)
    if ratio.low <= condition.number <= ratio.high:
        return ("the interval reaches across the threshold: more repetitions would tell",)
    return ()


def _lets_everything_pass(comparison: str, number: float) -> bool:
    return number < 1 / WORST_ALLOWED if comparison.startswith("<") else number > WORST_ALLOWED


def _size(text: str, size: str) -> int:
    try:
        return parse_size(size)
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}") from error


def _count(text: str) -> int | None:
    return None if text == ANY else int(text)


def _distance(judgement: Judgement) -> float:
    """How far a value that passes is from its threshold."""
    value, number = judgement.value or 0.0, judgement.condition.number
    return abs(math.log(value / number)) if value and number else abs(value - number)


def _found(judgement: Judgement) -> str:
    notes = f" ({'; '.join(judgement.notes)})" if judgement.notes else ""
    if judgement.value is None:
        return f"cannot be judged{notes}"
    if judgement.condition.quantity == ERRORS:
        return f"{judgement.value:,.0f}{notes}"
    interval = "" if judgement.low is None else f" [95% {judgement.low:.3f} to {judgement.high:.3f}]"
    return f"{judgement.value:.3f}{interval}{notes}"


def _cell(key: CellKey) -> str:
    clients = f".{key.clients}" if key.clients > 1 else ""
    return f"{key.operation}.{format_size(key.object_bytes)}.{key.objects_per_session}{clients}"


def _cells(side: Side) -> str:
    shown = [_cell(key) for key in side.cells]
    more = len(shown) - _CELLS_SHOWN_MAX
    return ", ".join(shown[:_CELLS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
