"""A plan's request with its answer: the one value from which every form of output is made."""

from __future__ import annotations

from dataclasses import dataclass

from results.planning.cost import plan_cost
from results.planning.loads import PlanRequest
from results.planning.plan import CapacityPlan, make_plan
from results.planning.rate_surface import RateSurface
from results.prices.cost import PlanCost


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """The request, the plan, and its price if the request has prices."""

    request: PlanRequest
    plan: CapacityPlan
    cost: PlanCost | None


def answer(surface: RateSurface, request: PlanRequest) -> PlanAnswer:
    """Return the answer to a request with these rates.

    Raises UsageError for an impossible request, and ResultsError if there is no measurement near it.
    """
    plan = make_plan(surface, request)
    cost = None if request.prices is None else plan_cost(plan, request.prices, request.retrieved_share)
    return PlanAnswer(request, plan, cost)
