"""Conditions on a comparison that fail a build: ``archive.8KiB.500.objects_per_second < 0.9``, or, of a workload that
ran beside others, ``e-mail@4.objects_per_second < 0.9``.

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

from archiver.values.errors import UsageError
from archiver.values.sizes import format_size, parse_size
from results.comparison.compare import ComparedCell, Comparison, Side
from results.comparison.ratios import P50, P99, RATE, RESPONSE, Ratio
from results.comparison.units import MEASURES, Unit, UnitKey
from results.matrix import CellKey, MatrixCell

GRAMMAR = "OPERATION.SIZE.OBJECTS[.CLIENTS].QUANTITY COMPARISON NUMBER"
WORKLOAD_GRAMMAR = "WORKLOAD[/OPERATION][.CLIENTS][@SCALE].QUANTITY COMPARISON NUMBER"
EXAMPLE = "archive.8KiB.500.objects_per_second < 0.9"
WORKLOAD_EXAMPLE = "e-mail@4.objects_per_second < 0.9"
ERRORS = "errors"
MEGABYTES = "megabytes_per_second"  # objects of a cell are of one size, so its ratio is that of objects/s
QUANTITIES = (RATE.name, MEGABYTES, RESPONSE.name, P50.name, P99.name, ERRORS)
WORKLOAD_QUANTITIES = (*(measure.name for measure in MEASURES), ERRORS)
ANY = "*"
WORST_ALLOWED = 10  # a condition that lets ten times worse pass is a mistake of units

_END = r"\.(?P<quantity>[A-Za-z0-9_]+)\s*(?P<comparison><=|>=|<|>)\s*(?P<number>\d+(?:\.\d+)?)"
_CELL = re.compile(
    r"(?P<operation>.+?)\.(?P<size>\d+(?:\.\d+)?[A-Za-z]*|\*)\.(?P<objects>\d+|\*)(?:\.(?P<clients>\d+|\*))?" + _END
)
_WORKLOAD = re.compile(
    r"(?P<workload>[^./@]+)(?:/(?P<operation>[^./@]+))?(?:\.(?P<clients>\d+|\*))?"
    r"(?:@(?P<scale>\d+(?:\.\d+)?|\*))?" + _END
)
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_CELLS_SHOWN_MAX = 12


@dataclass(frozen=True, slots=True)
class CellPattern:
    """Cells of a matrix; None stands for ``*``."""

    operation: str | None
    object_bytes: int | None
    objects_per_session: int | None
    clients: int | None

    def matches(self, key: CellKey) -> bool:
        asked = (self.operation, self.object_bytes, self.objects_per_session, self.clients)
        return all(wanted is None or wanted == is_there for wanted, is_there in zip(asked, key, strict=True))


@dataclass(frozen=True, slots=True)
class WorkloadPattern:
    """Workloads that ran side by side, in every phase; None stands for ``*``."""

    workload: str | None
    operation: str | None  # empty: all that it does
    clients: int | None  # 0: not by number of clients
    scale: float | None

    def matches(self, key: UnitKey) -> bool:
        return (
            self.workload in (None, key.workload)
            and (bool(key.operation) if self.operation is None else self.operation == key.operation)
            and (bool(key.clients) if self.clients is None else self.clients == (key.clients or 0))
            and self.scale in (None, key.scale)
        )


@dataclass(frozen=True, slots=True)
class Condition:
    """What must not be."""

    text: str
    of: CellPattern | WorkloadPattern
    quantity: str
    comparison: str
    number: float  # candidate / first; for errors, how many

    def holds(self, value: float) -> bool:
        return _COMPARISONS[self.comparison](value, self.number)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One condition on one cell, or one workload, of one platform after the first."""

    condition: Condition
    platform: str
    key: CellKey | UnitKey
    value: float | None  # None: it cannot be judged, and fails
    low: float | None  # 95% interval of a ratio
    high: float | None
    fails: bool
    notes: tuple[str, ...]  # why it could not be judged, or is to be read with care


def parse_condition(text: str) -> Condition:
    """The condition of such a text. Raises UsageError with the grammar, the quantities, or what a number means."""
    of_cell, of_workload = _CELL.fullmatch(text.strip()), _WORKLOAD.fullmatch(text.strip())
    found = of_cell or of_workload
    if found is None:
        raise UsageError(
            f"{text!r} is no condition; write {GRAMMAR}, for example {EXAMPLE!r} (* for any cell); or, of a workload"
            f" that ran beside others, {WORKLOAD_GRAMMAR}, for example {WORKLOAD_EXAMPLE!r}"
        )
    quantity, comparison, number = found["quantity"], found["comparison"], float(found["number"])
    quantities = QUANTITIES if of_cell else WORKLOAD_QUANTITIES
    if quantity not in quantities:
        raise UsageError(f"{text!r}: there is no quantity {quantity!r}; there are {', '.join(quantities)}")
    if quantity != ERRORS and _lets_everything_pass(comparison, number):
        raise UsageError(
            f"{text!r}: {quantity} is the ratio to the first platform, and this would let {WORST_ALLOWED} times worse"
            " pass; write 0.9 for nine tenths, 1.2 for a fifth more"
        )
    of = _cell_pattern(text, of_cell) if of_cell else _workload_pattern(found)
    return Condition(text.strip(), of, quantity, comparison, number)


def _cell_pattern(text: str, found: re.Match[str]) -> CellPattern:
    return CellPattern(
        operation=_name(found["operation"]),
        object_bytes=None if found["size"] == ANY else _size(text, found["size"]),
        objects_per_session=_count(found["objects"]),
        clients=_count(found["clients"] or "1"),
    )


def _workload_pattern(found: re.Match[str]) -> WorkloadPattern:
    return WorkloadPattern(
        workload=_name(found["workload"].strip()),
        operation=_name(found["operation"] or ""),
        clients=_count(found["clients"] or "0"),
        scale=None if found["scale"] in (None, ANY) else float(found["scale"]),
    )


def judge(comparison: Comparison, conditions: Sequence[Condition]) -> list[Judgement]:
    """Every condition on each cell, or workload, of the first platform that it names, for each further platform.

    Raises UsageError naming the cells, or workloads, that there are, where it names none of them.
    """
    found = []
    for condition in conditions:
        of = condition.of
        if isinstance(of, CellPattern):
            found += _judge_cells(comparison, condition, of)
        else:
            found += _judge_workloads(comparison, condition, of)
    return found


def _judge_cells(comparison: Comparison, condition: Condition, of: CellPattern) -> list[Judgement]:
    first = comparison.sides[0]
    compared = {cell.key: cell for cell in comparison.cells}
    keys = [key for key in first.cells if of.matches(key)]
    if not keys:
        raise UsageError(f"{condition.text!r}: {first.label} has no such cell; it has {_listed(first)}")
    return [
        _judged(
            condition,
            side,
            key,
            side.cells.get(key) if key in compared else None,
            _ratio(compared[key], condition.quantity, index) if key in compared else None,
        )
        for index, side in enumerate(comparison.sides[1:])
        for key in keys
    ]


def _judge_workloads(comparison: Comparison, condition: Condition, of: WorkloadPattern) -> list[Judgement]:
    """What says nothing of a quantity by its nature, as deletions of MB/s, is not asked for it."""
    first, quantity = comparison.sides[0], condition.quantity
    compared = {unit.key: unit for unit in comparison.units}

    def says(key: UnitKey) -> bool:
        names = [measure.name for measure in first.units[key].measures]
        return quantity == ERRORS or quantity in (compared[key].ratios if key in compared else names)

    keys = [key for key in first.units if of.matches(key) and says(key)]
    if not keys:
        raise UsageError(
            f"{condition.text!r}: {first.label} has no such workload with {quantity}; it has {_listed(first)}"
        )
    return [
        _judged(
            condition,
            side,
            key,
            side.units.get(key),
            compared[key].ratios[quantity][index] if key in compared and quantity != ERRORS else None,
        )
        for index, side in enumerate(comparison.sides[1:])
        for key in keys
    ]


def gate_sentences(judgements: Sequence[Judgement]) -> list[str]:
    """One for each judgement that fails, and one for each condition and platform that passes."""
    groups: dict[tuple[str, str], list[Judgement]] = {}
    for judgement in judgements:
        groups.setdefault((judgement.condition.text, judgement.platform), []).append(judgement)
    sentences = []
    for (text, platform), group in groups.items():
        failed = [judgement for judgement in group if judgement.fails]
        sentences += [f"fails: {text}: {platform}, {_named(each.key)}: {_found(each)}" for each in failed]
        if not failed:
            nearest = min(group, key=_distance)
            cells = (
                f"{len(group)} {'workloads' if isinstance(nearest.key, UnitKey) else 'cells'}, the nearest "
                if len(group) > 1
                else ""
            )
            noted = sum(bool(each.notes) for each in group if each is not nearest)
            more = f"; {noted} other{'s' if noted > 1 else ''} with notes, see the JSON" if noted else ""
            sentences.append(f"passes: {text}: {platform}, {cells}{_named(nearest.key)}: {_found(nearest)}{more}")
    return sentences


def _judged(
    condition: Condition,
    side: Side,
    key: CellKey | UnitKey,
    measured: MatrixCell | Unit | None,
    ratio: Ratio | None,
) -> Judgement:
    if measured is None:
        return Judgement(condition, side.label, key, None, None, None, True, (f"not measured on {side.label}",))
    if condition.quantity == ERRORS:
        each = measured.repetitions if isinstance(measured, MatrixCell) else measured.samples
        errors = sum(one.errors for one in each)
        return Judgement(condition, side.label, key, errors, None, None, condition.holds(errors), ())
    if ratio is None or ratio.ratio is None:
        return Judgement(condition, side.label, key, None, None, None, True, (ratio.because if ratio else "no pair",))
    fails = condition.holds(ratio.ratio)
    notes = (f"{ratio.verdict}: {ratio.because}",) if ratio.because else ()
    return Judgement(
        condition, side.label, key, ratio.ratio, ratio.low, ratio.high, fails, (*notes, *_unsure(condition, ratio))
    )


def _ratio(cell: ComparedCell, quantity: str, index: int) -> Ratio | None:
    if quantity == ERRORS:
        return None
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


def _name(text: str) -> str | None:
    return None if text == ANY else text


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


def _named(key: CellKey | UnitKey) -> str:
    """As conditions name it."""
    if isinstance(key, UnitKey):
        return str(key)
    clients = f".{key.clients}" if key.clients > 1 else ""
    return f"{key.operation}.{format_size(key.object_bytes)}.{key.objects_per_session}{clients}"


def _listed(side: Side) -> str:
    names = [*map(_named, side.cells), *(f"{key}" for key in side.units if key.clients is None)]
    more = len(names) - _CELLS_SHOWN_MAX
    return ", ".join(names[:_CELLS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
