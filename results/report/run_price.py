"""The cost of a run's platform: the priced configuration, line by line, and prices per unit of performance.

A run measures one platform, so its parts are priced once, over years of support. A service's charges depend on the
amount and the time of storage. A plan has these values; a run does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from results.measures.quality import in_brackets
from results.measures.ranges import Range
from results.measures.units import Unit
from results.prices.cost import PlanCost, UnitPrice
from results.prices.prices import PriceList, parts_bill
from results.recorded.model import Result
from results.report.key_figures import peaks


def platform_cost(results: Sequence[Result], prices: PriceList, years: int) -> PlanCost:
    """Return the cost of one platform's parts with support over ``years``, and prices per unit of the fastest cells.

    The units are object/s and MB/s.

    Raises UsageError for a price file without parts.
    """
    total = parts_bill(prices, years)
    return PlanCost(total, years, 1, tuple(_unit_prices(results, total.total)))


def _unit_prices(results: Sequence[Result], total: float) -> Iterator[UnitPrice]:
    for operation, peak in peaks(results).items():
        at_best = f"{operation}, at best"
        objects, megabytes = peak.by_objects, peak.by_megabytes
        yield UnitPrice(
            f"object/s, {at_best}{in_brackets((f'grade {objects.grade}', *objects.cautions))}",
            _per_unit(objects, total, 1.0),
        )
        per_megabyte = megabytes.megabytes_per_second / megabytes.objects_per_second
        yield UnitPrice(
            f"MB/s, {at_best}{in_brackets((f'grade {megabytes.grade}', *megabytes.cautions))}",
            _per_unit(megabytes, total, per_megabyte),
        )


def _per_unit(cell: Unit, total: float, factor: float) -> Range:
    """Return the amount divided by a cell's rate times a factor. The higher rate gives the lower price."""
    found = cell.estimate
    return Range(found.median, found.low, found.high).times(factor).quotient_of(total)
