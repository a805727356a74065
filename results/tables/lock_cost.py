"""What a lock costs, and what its own operations cost: variants of one cell, compared repetition by repetition.

One idea: variants that were measured one after the other are compared in pairs, so that what changed in the course of a
run is in no difference. A cost is a loss of objects/s, or a gain of mean time per object, over the variant without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from results.model import Result
from results.statistics import PAIRS_MIN, PairedRatio, paired_ratio
from results.table import KEY_COLUMNS, NOT_MEASURED, Cell, Column, Table, filled, interval, label_columns, number
from results.units import Unit, single_cells

LIFE_CYCLE = ("query", "extend", "hold", "release", "refused-delete", "delete")
BASELINES = ("none", "header")  # the first of these locks that was measured is what the others are compared with


@dataclass(frozen=True, slots=True)
class VariantCost:
    """One variant beside its baseline. Ratios are variant over baseline; None for the baseline itself."""

    cell: Unit
    baseline: Unit
    rate: PairedRatio | None  # of objects/s
    mean_time: PairedRatio | None  # of the mean service time of an object

    @property
    def name(self) -> str:
        return self.cell.first.variant


def variant_costs(results: Sequence[Result]) -> list[VariantCost]:
    """Every variant that stands beside a baseline of the same sweep, sizes and clients, the baseline first."""
    found: list[VariantCost] = []
    families: dict[tuple[object, ...], list[Unit]] = {}
    for key, cell in single_cells(results).items():
        if cell.first.variant:
            family = (cell.first.phase, key.object_bytes, key.objects_per_session, key.clients)
            families.setdefault(family, []).append(cell)
    for cells in families.values():
        if len(cells) < 2:
            continue
        baseline = min(cells, key=_rank)
        others = sorted((cell for cell in cells if cell is not baseline), key=_rank)
        found.append(VariantCost(baseline, baseline, None, None))
        for cell in others:
            pairs = _pairs(cell, baseline)
            found.append(
                VariantCost(
                    cell,
                    baseline,
                    _ratio(pairs, lambda result: result.objects_per_second),
                    _ratio(pairs, lambda result: _mean_ms(result)),
                )
            )
    return found


def lock_cost_table(results: Sequence[Result]) -> Table:
    """Objects/s and mean time per object of each variant, and what it costs beside its baseline."""
    rows = []
    for cost in variant_costs(results):
        first = cost.cell.first
        rows.append(
            (
                *filled(KEY_COLUMNS[1:], cost.cell.key),
                Cell(cost.name),
                number(cost.cell.objects_per_second, 1),
                interval(cost.cell),
                _percent(cost.rate, lambda ratio: (1 - ratio) * 100),
                _bounds(cost.rate, lambda ratio: (1 - ratio) * 100),
                number(_mean(cost.cell, _mean_ms), 3),
                _percent(cost.mean_time, lambda ratio: (ratio - 1) * 100),
                _bounds(cost.mean_time, lambda ratio: (ratio - 1) * 100),
                number(_mean(cost.cell, lambda result: _p99_ms(result)), 3),
                number(_mean(cost.cell, lambda r: r.lock_ms.mean if r.lock_ms else None), 3)
                if first.lock_ms
                else Cell(NOT_MEASURED),
            )
        )
    return Table(
        name="lock-cost",
        title="The cost of the lock",
        columns=(
            *label_columns("object size", "objects/session", "clients", "variant"),
            Column("objects/s"),
            Column("95% within"),
            Column("cost", "% of objects/s"),
            Column("95%", "of the cost"),
            Column("mean", "ms/object"),
            Column("cost", "% of the mean"),
            Column("95%", "of the cost"),
            Column("p99", "ms"),
            Column("lock request", "ms"),
        ),
        rows=tuple(rows),
        caption="Archiving. Costs are over the first variant of each group, pair by pair: variants of one cell follow"
        f" each other, and one repetition makes one pair. Intervals take {PAIRS_MIN} repetitions; one that includes 0%"
        " shows no cost. A bucket's own rule locks for a day.",
    )


def life_cycle_table(results: Sequence[Result]) -> Table:
    """Rates and latencies of the operations of a lock's life."""
    rows = [
        (
            *filled(KEY_COLUMNS, key),
            number(cell.objects_per_second, 1),
            interval(cell),
            number(_mean(cell, _mean_ms), 3),
            number(_mean(cell, lambda r: r.object_service_ms.p50 if r.object_service_ms else None), 3),
            number(_mean(cell, _p99_ms), 3),
            number(sum(result.objects for result in cell.results), 0),
            number(sum(result.errors for result in cell.results), 0),
        )
        for key, cell in single_cells(results).items()
        if key.operation in LIFE_CYCLE
    ]
    return Table(
        name="life-cycle",
        title="Operations of a lock's life",
        columns=(
            *label_columns("operation", "object size", "objects/session", "clients"),
            Column("operations/s"),
            Column("95% within"),
            Column("mean", "ms"),
            Column("p50", "ms"),
            Column("p99", "ms"),
            Column("done"),
            Column("failed"),
        ),
        rows=tuple(rows),
        caption="One object each. For refused-delete the refusal is the success, and a deletion that is carried out"
        " is a failure; delete takes objects whose lock has ended.",
    )


def _rank(cell: Unit) -> tuple[int, str]:
    """Baselines first: without a lock, or the default checksum."""
    result = cell.first
    is_plain = result.checksum in ("crc32c", "none")
    place = BASELINES.index(result.lock) if result.lock in BASELINES else len(BASELINES)
    return (place if is_plain else place + len(BASELINES), result.variant)


def _pairs(cell: Unit, baseline: Unit) -> list[tuple[Result, Result]]:
    theirs = {result.repetition: result for result in baseline.results}
    return [(result, theirs[result.repetition]) for result in cell.results if result.repetition in theirs]


def _ratio(pairs: Sequence[tuple[Result, Result]], of: Callable[[Result], float | None]) -> PairedRatio | None:
    values = [(of(ours), of(theirs)) for ours, theirs in pairs]
    logs = [math.log(ours / theirs) for ours, theirs in values if ours and theirs]
    return paired_ratio(logs) if logs else None


def _mean_ms(result: Result) -> float | None:
    return result.object_service_ms.mean if result.object_service_ms else None


def _p99_ms(result: Result) -> float | None:
    return result.object_service_ms.p99 if result.object_service_ms else None


def _mean(cell: Unit, of: Callable[[Result], float | None]) -> float | None:
    """Over repetitions, of those that have it."""
    values = [value for result in cell.results if (value := of(result)) is not None]
    return sum(values) / len(values) if values else None


def _percent(ratio: PairedRatio | None, cost: Callable[[float], float]) -> Cell:
    return Cell(NOT_MEASURED) if ratio is None else number(cost(ratio.ratio), 1)


def _bounds(ratio: PairedRatio | None, cost: Callable[[float], float]) -> Cell:
    if ratio is None or ratio.low is None or ratio.high is None:
        return Cell(NOT_MEASURED)
    low, high = sorted((cost(ratio.low), cost(ratio.high)))
    return Cell(f"{low:+.1f} to {high:+.1f}")
