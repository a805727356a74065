"""What the platform of a run cost, beside what it did: the priced configuration, line by line, and prices per unit.

One idea: a run says what one platform does, so its parts are priced once, over years of support. What a service charges
depends on how much is kept for how long, which a run does not know and a plan does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from archiver.values.errors import UsageError
from results.model import Result
from results.planning.cost import PlanCost, UnitPrice
from results.planning.prices import Demand, PriceList, bill
from results.planning.rate_surface import Range
from results.report.key_figures import peaks
from results.units import Unit


def platform_cost(results: Sequence[Result], prices: PriceList, years: int) -> PlanCost:
    """The parts of one platform with support over ``years``, and what its fastest cells make of one object/s and MB/s.

    Raises UsageError for a price file without parts.
    """
    if not prices.part:
        raise UsageError(
            "--prices: the file has no [[part]], and a run does not know how much a service would keep for how long; "
            "archiver plan --prices does"
        )
    total = bill(PriceList(currency=prices.currency, part=prices.part), Demand(years))
    return PlanCost(total, years, 1, tuple(_unit_prices(results, total.total)))


def _unit_prices(results: Sequence[Result], total: float) -> Iterator[UnitPrice]:
    for operation, peak in peaks(results).items():
        objects, megabytes = peak.by_objects, peak.by_megabytes
        yield UnitPrice(f"object/s, {operation}, at best", _per_unit(objects, total, 1.0))
        per_megabyte = megabytes.megabytes_per_second / megabytes.objects_per_second
        yield UnitPrice(f"MB/s, {operation}, at best", _per_unit(megabytes, total, per_megabyte))


def _per_unit(cell: Unit, total: float, factor: float) -> Range:
    """The amount over a cell's rate times a factor; the higher rate gives the lower price."""
    found = cell.estimate
    low, high = (total / (end * factor) if end else None for end in (found.high, found.low))
    return Range(total / (found.median * factor), low, high)
