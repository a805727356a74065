"""Several loads on the same platforms: the platforms of every year, when they are bought, and what they cost.

``Sizing`` has the rule by which loads add up. A single load is planned in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from archiver.values.errors import UsageError
from results.planning.cost import minimum_days, service_demands
from results.planning.loads import PlanRequest
from results.planning.plan import CapacityPlan, fill_level_doubts, make_plan, other_loads_doubts
from results.planning.rate_surface import RateSurface
from results.planning.sizing import Sizing, Year
from results.prices.prices import Bill, Demand, PriceList, bill


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedRequest:
    """All inputs of a combined plan, except the measured rates. The requests share years, headroom and limits."""

    requests: tuple[tuple[str, PlanRequest], ...]  # name of the load, and its request
    purchase_years: tuple[int, ...] = (1,)  # ascending, from 1: platforms bought in a year must last until the next
    prices: PriceList | None = None
    budget: float | None = None  # for all years, in the currency of the prices
    musts: tuple[str, ...] = ()  # what a platform must do, as it was written, for a decision
    budget_per_tb: float | None = None  # for all years, for each TB (10^12 bytes) kept at most in the last year


@dataclass(frozen=True, slots=True)
class YearCost:
    """The platforms bought in one year, and what is paid in it."""

    year: Year
    platforms: int  # in place
    bought: int
    hardware: float | None  # platforms and their support; None: no prices are given
    service: float | None  # of a service: storage, requests and egress

    @property
    def total(self) -> float | None:
        return None if self.hardware is None or self.service is None else self.hardware + self.service


@dataclass(frozen=True, slots=True)
class CombinedPlan:
    """The answer to a request with the rates of one source."""

    surface: RateSurface
    request: CombinedRequest
    plans: tuple[tuple[str, CapacityPlan], ...]
    sizing: Sizing
    years: tuple[YearCost, ...]

    @property
    def last(self) -> YearCost:
        return self.years[-1]

    @property
    def total(self) -> float | None:
        """What is paid in all years. None if no prices are given."""
        paid = [each.total for each in self.years if each.total is not None]
        return sum(paid) if len(paid) == len(self.years) else None

    @property
    def total_per_tb(self) -> float | None:
        return None if self.total is None else self.total / (self.last.year.bytes_kept / 1e12)

    @property
    def is_within_budget(self) -> bool | None:
        """Return whether every given budget suffices. None if no budget is given."""
        request = self.request
        budgets = ((self.total, request.budget), (self.total_per_tb, request.budget_per_tb))
        found = [paid <= budget for paid, budget in budgets if paid is not None and budget is not None]
        return all(found) if found else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the extrapolations, each with its load."""
        return tuple(f"{name}: {warning}" for name, plan in self.plans for warning in plan.warnings)

    @property
    def doubts(self) -> tuple[str, ...]:
        own = [doubt for _, plan in self.plans for doubt in plan.basis_doubts]
        mixed = [
            doubt for each in self.sizing.loads for doubt in other_loads_doubts(each, self.sizing.window_headroom_share)
        ]
        rates = [rate for _, plan in self.plans for rate in plan.rates]
        stored = max(each.year.bytes_stored / each.platforms for each in self.years)
        return tuple(dict.fromkeys([*mixed, *own, *fill_level_doubts(self.surface, rates, stored)]))

    @property
    def unanswered(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(f"{name}: {reason}" for name, plan in self.plans for reason in plan.unanswered))


def combine(surface: RateSurface, request: CombinedRequest) -> CombinedPlan:
    """Return the plan of several loads with these rates.

    Raises UsageError for an impossible request, and ResultsError if there is no measurement near a load.
    """
    plans = tuple((name, make_plan(surface, each)) for name, each in request.requests)
    loads = tuple(plan.archiving for _, plan in plans if plan.archiving is not None)
    if not loads or len(loads) < len(plans):
        raise UsageError("a combined plan needs loads that are archived; leave out loads that only retrieve")
    purchases = request.purchase_years
    if not purchases or purchases[0] != 1 or list(purchases) != sorted(set(purchases)):
        raise UsageError("purchase: write the years of a purchase, from 1 and ascending, such as [1, 4]")
    if (request.budget is not None or request.budget_per_tb is not None) and request.prices is None:
        raise UsageError("a budget needs prices; give them with prices = FILE")
    sizing = Sizing(loads)
    return CombinedPlan(surface, request, plans, sizing, tuple(_costs(surface, request, sizing)))


def _costs(surface: RateSurface, request: CombinedRequest, sizing: Sizing) -> Iterator[YearCost]:
    years, prices = sizing.years, request.prices
    services = _service_bills(surface, request, sizing)
    bought = _bought(years, request.purchase_years)
    for place, year in enumerate(years):
        hardware = None
        if prices is not None:
            hardware = sum(
                _paid_until(prices, count, place - since + 1) - _paid_until(prices, count, place - since)
                for since, count in enumerate(bought[: place + 1])
                if count
            )
        yield YearCost(
            year, sum(bought[: place + 1]), bought[place], hardware, None if services is None else services[place].total
        )


def _bought(years: Sequence[Year], purchase_years: Sequence[int]) -> list[int]:
    """Return the platforms bought in each year. Each purchase covers the years until the next one."""
    bought = [0] * len(years)
    for since, until in zip(purchase_years, (*purchase_years[1:], len(years) + 1), strict=True):
        needed = [int(year.platforms.value) for year in years[since - 1 : until - 1]]
        if needed:
            bought[since - 1] = max(0, max(needed) - sum(bought))
    return bought


def _paid_until(prices: PriceList, platforms: int, years: int) -> float:
    """Return what these platforms cost in so many years, with their support."""
    if not years:
        return 0.0
    parts = PriceList(currency=prices.currency, part=prices.part)
    return bill(parts, Demand(years, platforms)).total


def _service_bills(surface: RateSurface, request: CombinedRequest, sizing: Sizing) -> list[Bill] | None:
    """Return the bill of a service for each year; without platforms. None if no prices are given."""
    if request.prices is None:
        return None
    service = PriceList(currency=request.prices.currency, cloud=request.prices.cloud)
    shares = [each.retrieved_share for _, each in request.requests]
    return [
        bill(service, demand) for demand in service_demands(surface, sizing.loads, shares, minimum_days(request.prices))
    ]
