"""The cost of a plan over the years of retention, as a bill and per unit of its results.

The plan buys everything for the last year's load. Every unit price is the whole bill divided by the number of units:
per object/s, per MB/s, per mailbox or camera, per TB kept for a year. Different kinds of platforms are thus comparable.
"""

from __future__ import annotations

from collections.abc import Iterator

from archiver.values.errors import UsageError
from results.measures.ranges import Range
from results.planning.plan import CapacityPlan
from results.planning.sizing import Archiving
from results.prices.cost import PlanCost, UnitPrice
from results.prices.prices import MONTHS_PER_YEAR, Bill, Demand, PriceList, RequestKind, bill

_PRICED_UNITS = {"user": "mailbox", "camera": "camera"}


def plan_cost(plan: CapacityPlan, prices: PriceList, retrieved_share: float = 0.0) -> PlanCost:
    """Return the cost of a plan that archives.

    Each year ``retrieved_share`` of the objects kept is retrieved once, one object per session.

    Raises UsageError for a plan that archives nothing, or an invalid share.
    """
    archiving = plan.archiving
    if archiving is None:
        raise UsageError("a plan that only retrieves has no price; use --prices with mail, video or size")
    if not 0 <= retrieved_share < float("inf"):
        raise UsageError(f"{retrieved_share:.0%} of the objects is not possible; choose a share of at least 0%")
    needed = archiving.last_year.platforms
    total = _bill(plan, archiving, prices, needed.value, retrieved_share)
    ends = [
        None if count is None else _bill(plan, archiving, prices, count, retrieved_share).total
        for count in (needed.low, needed.high)
    ]
    amount = Range(total.total, *ends)
    return PlanCost(total, archiving.course.years, needed.value, tuple(_unit_prices(archiving, needed, amount)))


def _bill(
    plan: CapacityPlan, archiving: Archiving, prices: PriceList, platforms: float, retrieved_share: float
) -> Bill:
    load = archiving.load
    archived = sum(year.objects for year in archiving.years)
    mean_bytes = load.bytes / load.objects
    retrieved_bytes = archiving.terabyte_years * 1e12 * retrieved_share
    retrieved = retrieved_bytes / mean_bytes
    requests: dict[RequestKind, float] = {"put": archived}
    if retrieved:
        requests["get"] = retrieved
    opening = plan.surface.opening_request
    if opening is not None:
        requests[opening] = requests.get(opening, 0) + archived / load.objects * load.sessions + retrieved
    return bill(
        prices,
        Demand(
            archiving.course.years,
            platforms,
            archiving.terabyte_years * 1000 * MONTHS_PER_YEAR,
            requests,
            retrieved_bytes / 1e9,
        ),
    )


def _unit_prices(archiving: Archiving, platforms: Range, amount: Range) -> Iterator[UnitPrice]:
    yield UnitPrice("object/s", _per_rate(amount, platforms, archiving.objects_per_second))
    yield UnitPrice("MB/s", _per_rate(amount, platforms, archiving.megabytes_per_second))
    unit = _PRICED_UNITS.get(archiving.load.unit)
    if unit is not None:
        yield UnitPrice(unit, amount.times(1 / archiving.load.units))
    yield UnitPrice("TB-year", amount.times(1 / archiving.terabyte_years))


def _per_rate(amount: Range, platforms: Range, rate: Range) -> Range:
    """Return the price over the rate of all platforms together.

    Faster platforms mean fewer platforms, so the ends of these ranges correspond.
    """
    value = amount.value / (platforms.value * rate.value)
    if amount.low is None or amount.high is None or platforms.low is None or platforms.high is None:
        return Range(value)
    if rate.low is None or rate.high is None:
        return Range(value)
    ends = (amount.low / (platforms.low * rate.high), amount.high / (platforms.high * rate.low))
    return Range(value, min(*ends, value), max(*ends, value))
