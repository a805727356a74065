"""The price per application: the price of the platform divided by the number of applications in the replay's result.

The division ignores the verdict. The table therefore states the verdict next to the price.
"""

from __future__ import annotations

from dataclasses import replace

from archiver.values.errors import UsageError
from results.document.table import Table
from results.measures.ranges import Range
from results.mixed.replay.trials import ReplayedRun
from results.prices.cost import PlanCost, UnitPrice, bill_table, unit_price_table
from results.prices.prices import PriceList, parts_bill

APPLICATION, APPLICATION_SET = "application", "application set"


def priced(run: ReplayedRun, prices: PriceList, years: int) -> ReplayedRun:
    """Return the run with its price: all parts of one platform, and their support for ``years``.

    Raises UsageError for a price file without parts, and for a run that replayed no application sets.
    """
    if not run.has_sets:
        raise UsageError(
            f"--prices: run {run.run.id} replayed one trace and no application sets, so it has no price per "
            "application; use a run of: archiver run application-sets"
        )
    total = parts_bill(prices, years)
    units = [UnitPrice(APPLICATION, Range(total.total / run.result.application_count))]
    if run.result.sets:
        units.append(UnitPrice(APPLICATION_SET, Range(total.total / run.result.sets)))
    return replace(run, cost=PlanCost(total, years, 1, tuple(units)))


def price_tables(run: ReplayedRun) -> list[Table]:
    """Return the disclosure and the price of an application; empty without prices."""
    if run.cost is None:
        return []
    result = run.result
    return [
        bill_table(run.cost),
        unit_price_table(
            run.cost,
            f"The total price divided by the {result.application_count:,} applications of the result. Verdict of the"
            f" result: {result.verdict}.",
        ),
    ]
