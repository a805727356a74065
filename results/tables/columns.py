"""Columns that many tables share: the key of a cell, the amounts that were measured, the interval."""

from __future__ import annotations

from dataclasses import replace

from archiver.values.sizes import format_size
from results.document.table import NOT_MEASURED, Cell, Column, columns_of, number
from results.measures.metrics import amounts
from results.measures.units import Unit

KEY_COLUMNS = (  # columns of a cell's key
    Column("operation", of=lambda key: key.operation, label=True),
    Column("object size", of=lambda key: format_size(key.object_bytes), label=True),
    Column("objects/session", of=lambda key: key.objects_per_session, label=True),
    Column("clients", of=lambda key: key.clients, label=True),
)
UNIT_COLUMNS = columns_of(lambda unit: unit.key, KEY_COLUMNS)  # columns of a cell
AMOUNT_COLUMNS = (  # columns of results: how much they measured, of several the smallest amounts
    Column("measured", "s", lambda results: amounts(results).seconds_min if results else None, 2),
    Column("sessions", of=lambda results: amounts(results).sessions_min if results else None),
    Column("objects", of=lambda results: amounts(results).objects_min if results else None),
)
UNIT_AMOUNT_COLUMNS = columns_of(lambda unit: unit.results, AMOUNT_COLUMNS)


def interval(unit: Unit | None) -> Cell:
    """Return the larger distance of the 95% interval's ends from the median, in percent."""
    within = unit.estimate.within if unit else None
    return Cell(NOT_MEASURED) if within is None else Cell(f"±{within:,.0%}", within * 100)


def rate_cell(unit: Unit, value: float, decimals: int, *notes: str) -> Cell:
    """Return a rate that comes from a unit's objects/s, with the unit's grade and doubts, and further notes."""
    return replace(number(value, decimals, (*unit.doubts, *notes)), grade=unit.grade, of=unit.key)
