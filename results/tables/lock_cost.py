"""The cost of a lock and of lock operations: variants of one cell, compared repetition by repetition.

The run measured the variants one after the other. They are compared in pairs, so that changes during the run cancel
out. A cost is a loss of objects/s, or an increase of mean time per object, compared with the variant without the lock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from results.document.table import NOT_MEASURED, Cell, Column, Table, TableSpec, columns_of
from results.measures.statistics import PAIRS_MIN, PairedRatio, paired_ratio, read_together
from results.measures.stored_times import NO_TIMES, StoredTimes
from results.measures.units import Unit, single_cells
from results.recorded.model import Latency, Result
from results.tables.columns import UNIT_AMOUNT_COLUMNS, UNIT_COLUMNS, interval

LIFE_CYCLE = ("query", "extend", "hold", "release", "event-hold", "event-release", "refused-delete", "delete")
BASELINES = ("none", "header")  # the first of these that was measured is the baseline


@dataclass(frozen=True, slots=True)
class VariantCost:
    """One variant compared with its baseline. Ratios are variant over baseline; None for the baseline itself.

    P values and intervals of one quantity allow for the number of variants (``read_together``).
    """

    cell: Unit
    baseline: Unit
    rate: PairedRatio | None  # of objects/s
    mean_time: PairedRatio | None  # of the mean service time of an object

    @property
    def name(self) -> str:
        return self.cell.first.variant

    @property
    def contradiction(self) -> tuple[str, ...]:
        """The verdicts of objects/s and of the mean time, if they differ."""
        if self.rate is None or self.mean_time is None:
            return ()
        shown = (_shown(self.rate, 1 / self.rate.ratio), _shown(self.mean_time, self.mean_time.ratio))
        return () if shown[0] == shown[1] else (f"objects/s show {shown[0]}, the mean time shows {shown[1]}",)


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
    return _corrected(found)


def lock_cost_table(results: Sequence[Result], times: StoredTimes = NO_TIMES) -> Table:
    """Return objects/s and mean time per object of each variant, and its cost compared with the baseline."""
    return _LOCK_COST.table(_CostAndTimes(cost, _CellAndTimes.of(cost.cell, times)) for cost in variant_costs(results))


def life_cycle_table(results: Sequence[Result], times: StoredTimes = NO_TIMES) -> Table:
    """Return rates and latencies of the operations of a lock's life."""
    cells = single_cells(results).values()
    return _LIFE_CYCLE.table(_CellAndTimes.of(cell, times) for cell in cells if cell.key.operation in LIFE_CYCLE)


class _CellAndTimes(NamedTuple):
    """A cell with the times of its objects, and of their separate lock requests, over all repetitions."""

    cell: Unit
    service: Latency | None
    lock: Latency | None

    @classmethod
    def of(cls, cell: Unit, times: StoredTimes) -> _CellAndTimes:
        return cls(cell, times.over("object_service", cell.results), times.over("lock", cell.results))


class _CostAndTimes(NamedTuple):
    """The cost of a variant with its service times."""

    cost: VariantCost
    timed: _CellAndTimes


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


def _corrected(costs: Sequence[VariantCost]) -> list[VariantCost]:
    """Return the costs with p values and intervals that allow for the number of variants."""
    rates = iter(read_together([cost.rate for cost in costs if cost.rate is not None]))
    times = iter(read_together([cost.mean_time for cost in costs if cost.mean_time is not None]))
    return [replace(cost, rate=cost.rate and next(rates), mean_time=cost.mean_time and next(times)) for cost in costs]


def _shown(ratio: PairedRatio, time_ratio: float) -> str:
    """Return what a ratio shows of the time that an object takes."""
    if not ratio.differs:
        return "no cost"
    return "a cost" if time_ratio > 1 else "a gain"


def _mean_ms(result: Result) -> float | None:
    return result.object_service_ms.mean if result.object_service_ms else None


def _service(statistic: str, unit: str = "ms") -> Column:
    """Return the column of a statistic of the service time of all objects, over all repetitions."""
    return Column(statistic, unit, lambda timed: getattr(timed.service, statistic, None), 3)


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

    return (
        Column("cost", f"% of {share_of}", percent, 1, lambda cost: cost.contradiction),
        Column("95%", "of the cost", bounds),
    )


def _of_cell(*columns: Column) -> tuple[Column, ...]:
    return columns_of(lambda row: row.cost.cell, columns)


def _of_times(*columns: Column) -> tuple[Column, ...]:
    return columns_of(lambda row: row.timed, columns)


def _of_cost(*columns: Column) -> tuple[Column, ...]:
    return columns_of(lambda row: row.cost, columns)


_LOCK_COST = TableSpec(
    "lock-cost",
    "The cost of the lock",
    (
        *_of_cell(*UNIT_COLUMNS[1:]),
        Column("variant", of=lambda row: row.cost.name, label=True),
        *_of_cell(
            Column("objects/s", of=lambda cell: cell.objects_per_second, digits=1),
            Column("95% within", of=interval),
            *UNIT_AMOUNT_COLUMNS,
        ),
        *_of_cost(*_cost_columns("objects/s", lambda cost: cost.rate, lambda ratio: 1 - ratio)),
        *_of_times(_service("mean", "ms/object")),
        *_of_cost(*_cost_columns("the mean", lambda cost: cost.mean_time, lambda ratio: ratio - 1)),
        *_of_times(
            _service("p99"),
            Column("lock request", "ms", lambda timed: timed.lock.mean if timed.lock is not None else None, 3),
        ),
    ),
    "Archiving. Costs are relative to the first variant of each group. The variants of a cell run one after another,"
    f" and each repetition is a pair. Intervals need {PAIRS_MIN} repetitions and are corrected over all variants"
    " (Benjamini-Yekutieli, 5%). An interval that includes 0% shows no cost. A bucket's default rule locks for a day.",
)
_LIFE_CYCLE = TableSpec(
    "life-cycle",
    "Operations of a lock's life",
    (
        *columns_of(
            lambda timed: timed.cell,
            (
                *UNIT_COLUMNS,
                Column("operations/s", of=lambda cell: cell.objects_per_second, digits=1),
                Column("95% within", of=interval),
            ),
        ),
        _service("mean"),
        _service("p50"),
        _service("p99"),
        *columns_of(lambda timed: timed.cell, UNIT_AMOUNT_COLUMNS[:2]),
        Column("done", of=lambda timed: sum(result.objects for result in timed.cell.results)),
        Column("failed", of=lambda timed: timed.cell.errors),
    ),
    "Each operation is on one object. For refused-delete the refusal is the success, and a completed deletion is a"
    " failure. delete removes objects whose lock has expired.",
)
