"""The cost of platforms over years, as a bill and per unit of what they do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from results.document.table import Cell, Column, Table, TableSpec, number
from results.measures.ranges import Range
from results.prices.prices import Bill


@dataclass(frozen=True, slots=True)
class UnitPrice:
    """The bill divided by the number of units."""

    unit: str  # object/s, MB/s, mailbox, camera, TB-year
    price: Range


@dataclass(frozen=True, slots=True)
class PlanCost:
    """The bill of the platforms that the plan needs, and prices per unit."""

    bill: Bill
    years: int
    platforms: float
    units: tuple[UnitPrice, ...]


def bill_table(cost: PlanCost) -> Table:
    """Return every priced line and the total."""
    currency = cost.bill.currency
    total = (Cell("total"), Cell(""), Cell(""), number(cost.bill.total, 2), Cell(""))
    return TableSpec(
        name="prices",
        title=f"Priced configuration: {cost.platforms:,.0f} platform{'' if cost.platforms == 1 else 's'}, "
        f"{cost.years} years",
        columns=(
            Column("item", of=lambda line: line.item, label=True, words=True),
            Column("quantity", of=lambda line: line.quantity, digits=2),
            Column("list price of one", currency, lambda line: _price(line.price)),
            Column("amount", currency, lambda line: line.amount, 2),
            Column("note", of=lambda line: line.note, words=True),
        ),
        caption=(f"Requests are {cost.bill.requests_share:.0%} of it. " if cost.bill.requests_share else "")
        + "List prices from the price file, without discount, tax, power or interest"
        + ("; all platforms of the last year are bought at once." if cost.platforms > 1 else "."),
    ).table(cost.bill.lines, more=[total])


def unit_price_table(cost: PlanCost, caption: str = "") -> Table:
    """Return the price of each kind of unit over the years. ``caption`` replaces the caption of a plan."""
    return TableSpec(
        name="price-per-unit",
        title="Price per unit",
        columns=(
            Column("per", of=lambda each: each.unit, label=True),
            *range_columns("price", cost.bill.currency, lambda each: each.price, _price),
        ),
        caption=caption
        or f"The whole bill of {cost.years} years divided by the number of units: objects/s and MB/s that all platforms"
        " archive, today's mailboxes or cameras, TB kept for a year.",
    ).table(cost.units)


def range_columns(
    name: str,
    unit: str,
    of: Callable[[Any], Range],
    written: Callable[[float | None], Cell] = lambda value: number(value, 2),
) -> tuple[Column, ...]:
    """Return the columns of a value and the ends of its likely range."""
    return (
        Column(name, unit, lambda row: written(of(row).value)),
        Column("from", unit, lambda row: written(of(row).low)),
        Column("to", unit, lambda row: written(of(row).high)),
    )


def _price(price: float | None) -> Cell:
    """Return the price in hundredths, and a small one with four digits."""
    if price is None or price >= 1 or not price:
        return number(price, 2)
    return Cell(f"{price:.4g}", price)
