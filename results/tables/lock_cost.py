"""The cost of a lock and of lock operations: variants of one cell, compared repetition by repetition.

The run measured the variants one after the other. They are compared in pairs, so that changes during the run cancel
out. A cost is a loss of objects/s, or an increase of mean time per object, compared with the variant without the lock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from results.model import Result
from results.statistics import PAIRS_MIN, PairedRatio, paired_ratio
from results.table import (
    NOT_MEASURED,
    UNIT_AMOUNT_COLUMNS,
    UNIT_COLUMNS,
    Cell,
    Column,
    Table,
    TableSpec,
    columns_of,
    interval,
)
from results.units import Unit, single_cells

LIFE_CYCLE = ("query", "extend", "hold", "release", "refused-delete", "delete")
BASELINES = ("none", "header")  # the first of these that was measured is the baseline


@dataclass(frozen=True, slots=True)
class VariantCost:
    """One variant compared with its baseline. Ratios are variant over baseline; None for the baseline itself."""

    cell: Unit
    baseline: Unit
    rate: PairedRatio | None  # of objects/s
    mean_time: PairedRatio | None  # of the mean service time of an object

    @property
    def name(self) -> str:
        return self.cell.first.variant


def variant_costs(results: Sequence[Result]) -> list[VariantCost]:
    """Return every variant with a baseline of the same sweep, sizes and clients, the baseline first."""
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
                    _ratio(pairs, _mean_ms),
                )
            )
    return found


def lock_cost_table(results: Sequence[Result]) -> Table:
    """Return objects/s and mean time per object of each variant, and its cost compared with the baseline."""
    return _LOCK_COST.table(variant_costs(results))


def life_cycle_table(results: Sequence[Result]) -> Table:
    """Return rates and latencies of the operations of a lock's life."""
    return _LIFE_CYCLE.table(cell for cell in single_cells(results).values() if cell.key.operation in LIFE_CYCLE)


def _rank(cell: Unit) -> tuple[int, str]:
    """Return a sort key with the baselines first: no lock, or the default checksum."""
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


def _service_ms(name: str, heading: str, unit: str = "ms") -> Column:
    """Return the column of a service time statistic of objects, averaged over the repetitions that have it."""
    return Column(
        heading, unit, lambda cell: _mean(cell, lambda result: getattr(result.object_service_ms, name, None)), 3
    )


def _lock_ms(cell: Unit) -> float | None:
    """Return the lock time if the first repetition locked by a separate request."""
    return _mean(cell, lambda result: result.lock_ms.mean if result.lock_ms else None) if cell.first.lock_ms else None


def _mean(cell: Unit, of: Callable[[Result], float | None]) -> float | None:
    values = [value for result in cell.results if (value := of(result)) is not None]
    return sum(values) / len(values) if values else None


def _cost_columns(
    share_of: str, of: Callable[[VariantCost], PairedRatio | None], cost_of: Callable[[float], float]
) -> tuple[Column, ...]:
    """Return the columns of the cost that follows from a ratio, in percent, and its interval."""

    def percent(cost: VariantCost) -> float | None:
        ratio = of(cost)
        return None if ratio is None else cost_of(ratio.ratio) * 100

    def bounds(cost: VariantCost) -> Cell:
        ratio = of(cost)
        if ratio is None or ratio.low is None or ratio.high is None:
            return Cell(NOT_MEASURED)
        low, high = sorted(cost_of(bound) * 100 for bound in (ratio.low, ratio.high))
        return Cell(f"{low:+.1f} to {high:+.1f}")

    return Column("cost", f"% of {share_of}", percent, 1), Column("95%", "of the cost", bounds)


def _of_cell(*columns: Column) -> tuple[Column, ...]:
    return columns_of(lambda cost: cost.cell, columns)


_LOCK_COST = TableSpec(
    "lock-cost",
    "The cost of the lock",
    (
        *_of_cell(*UNIT_COLUMNS[1:]),
        Column("variant", of=lambda cost: cost.name, label=True),
        *_of_cell(
            Column("objects/s", of=lambda cell: cell.objects_per_second, digits=1),
            Column("95% within", of=interval),
            *UNIT_AMOUNT_COLUMNS,
        ),
        *_cost_columns("objects/s", lambda cost: cost.rate, lambda ratio: 1 - ratio),
        *_of_cell(_service_ms("mean", "mean", "ms/object")),
        *_cost_columns("the mean", lambda cost: cost.mean_time, lambda ratio: ratio - 1),
        *_of_cell(_service_ms("p99", "p99"), Column("lock request", "ms", _lock_ms, 3)),
    ),
    "Archiving. Costs are over the first variant of each group, pair by pair: variants of one cell follow each other,"
    f" and one repetition makes one pair. Intervals take {PAIRS_MIN} repetitions; one that includes 0% shows no cost. A"
    " bucket's own rule locks for a day.",
)
_LIFE_CYCLE = TableSpec(
    "life-cycle",
    "Operations of a lock's life",
    (
        *UNIT_COLUMNS,
        Column("operations/s", of=lambda cell: cell.objects_per_second, digits=1),
        Column("95% within", of=interval),
        _service_ms("mean", "mean"),
        _service_ms("p50", "p50"),
        _service_ms("p99", "p99"),
        *UNIT_AMOUNT_COLUMNS[:2],
        Column("done", of=lambda cell: sum(result.objects for result in cell.results)),
        Column("failed", of=lambda cell: cell.errors),
    ),
    "One object each. For refused-delete the refusal is the success, and a deletion that is carried out is a failure;"
    " delete takes objects whose lock has ended.",
)
