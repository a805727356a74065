"""The cost of a plan over the years of retention, as a bill and per unit of its results.

The plan buys everything for the last year's load. Every unit price is the whole bill divided by the number of units:
per object/s, per MB/s, per mailbox or camera, per TB kept for a year. Different kinds of platforms are thus comparable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from archiver.values.errors import UsageError
from results.measures.ranges import Range
from results.planning.kept import DAYS_PER_YEAR, terabyte_years_by_year
from results.planning.plan import CapacityPlan
from results.planning.rate_surface import RateSurface
from results.planning.sizing import Archiving
from results.prices.cost import PlanCost, UnitPrice
from results.prices.prices import MONTHS_PER_YEAR, Demand, PriceList, RequestKind, bill

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
    years = archiving.course.years
    demand = _summed(service_demands(plan.surface, [archiving], [retrieved_share], minimum_days(prices)))
    total, *ends = (
        None if count is None else bill(prices, replace(demand, years=years, platforms=count))
        for count in (needed.value, needed.low, needed.high)
    )
    assert total is not None
    amount = Range(total.total, *(None if end is None else end.total for end in ends))
    return PlanCost(total, years, needed.value, tuple(_unit_prices(archiving, needed, amount)))


def minimum_days(prices: PriceList) -> float:
    """Return the days for which a service is paid at least for each object."""
    return 0.0 if prices.cloud is None else prices.cloud.minimum_days


def service_demands(
    surface: RateSurface, loads: Sequence[Archiving], retrieved_shares: Sequence[float], minimum_days: float = 0.0
) -> list[Demand]:
    """Return what loads demand of a service in each year, without platforms.

    ``retrieved_shares``: for each load, the share of its kept objects that is retrieved each year.
    ``minimum_days``: the service is paid at least so long for each object.
    """
    years = [
        _year_demands(surface, load, share, minimum_days) for load, share in zip(loads, retrieved_shares, strict=True)
    ]
    return [_summed(demands) for demands in zip(*years, strict=True)]


def _year_demands(
    surface: RateSurface, archiving: Archiving, retrieved_share: float, minimum_days: float
) -> list[Demand]:
    load, opening = archiving.load, surface.opening_request
    paid = terabyte_years_by_year(archiving.kept_for(max(archiving.lock_days, minimum_days)))
    kept = terabyte_years_by_year(archiving.kept_by_day)
    found = []
    for place, year in enumerate(archiving.years):
        terabyte_years = kept[place]
        retrieved_bytes = terabyte_years * 1e12 * retrieved_share
        retrieved = retrieved_bytes / load.bytes * load.objects
        requests: dict[RequestKind, float] = {"put": year.objects}
        if retrieved:
            requests["get"] = retrieved
        if archiving.course.extend_every_days is not None:
            extended_bytes = terabyte_years * 1e12 * DAYS_PER_YEAR / archiving.course.extend_every_days
            requests["extend"] = extended_bytes * archiving.objects_per_byte
        removed = round(archiving.removed_bytes(year.year) * archiving.objects_per_byte)
        if removed:
            requests["delete"] = removed
        if opening is not None:
            requests[opening] = requests.get(opening, 0) + year.objects / load.objects * load.sessions + retrieved
        gb_months = paid[place] * 1000 * MONTHS_PER_YEAR
        found.append(Demand(1, 0, gb_months, requests, retrieved_bytes / 1e9))
    return found


def _summed(demands: Sequence[Demand]) -> Demand:
    """Return the demand of several loads, or of several years."""
    requests: dict[RequestKind, float] = {}
    for demand in demands:
        for kind, count in (demand.requests or {}).items():
            requests[kind] = requests.get(kind, 0) + count
    gb_months, egress_gb = (sum(getattr(each, name) for each in demands) for name in ("gb_months", "egress_gb"))
    return Demand(1, 0, gb_months, requests, egress_gb)


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
