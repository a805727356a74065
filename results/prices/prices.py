"""The price of a plan: parts of a platform, or the prices of a cloud service, over the years of retention.

Only items in the price file have prices. Parts are for one platform; the bill multiplies them by the number of
platforms. Every line of the bill has item, quantity, list price, amount and note.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from archiver.values.errors import UsageError
from archiver.values.typed import typed

RequestKind = Literal["put", "get", "head", "extend", "delete"]
MONTHS_PER_YEAR = 12
_NO_SUPPORT_PRICE = "support after {years:g} years has no price in the file"


class PricedPart(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One line of a platform's price list."""

    item: str
    quantity: float
    list_price: float  # of one part
    support_years: float = 0.0  # included in the list price
    support_price_per_year: float | None = None  # of one part, after the included years


class CloudPrices(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Prices of a service; GB are 10^9 bytes."""

    per_gb_month: float
    egress_per_gb: float = 0.0
    retrieval_per_gb: float = 0.0  # besides egress, for every GB that is read
    minimum_days: float = 0.0  # paid for each object, even if it is removed earlier
    per_1000_requests: dict[RequestKind, float] = {}


class PriceList(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A price file: parts, a cloud, or both."""

    currency: str
    part: tuple[PricedPart, ...] = ()
    cloud: CloudPrices | None = None


@dataclass(frozen=True, slots=True)
class Demand:
    """The quantities to pay for over the years of retention."""

    years: int
    platforms: float = 1
    gb_months: float = 0.0
    requests: Mapping[RequestKind, float] | None = None  # sum over all years
    egress_gb: float = 0.0


@dataclass(frozen=True, slots=True)
class BillLine:
    item: str
    quantity: float
    price: float  # of one; list price, or per unit that the item names
    amount: float
    note: str = ""
    is_requests: bool = False


@dataclass(frozen=True, slots=True)
class Bill:
    """All lines of the cost of a demand, and their sum."""

    currency: str
    lines: tuple[BillLine, ...]

    @property
    def total(self) -> float:
        return sum(line.amount for line in self.lines)

    @property
    def requests_share(self) -> float:
        """The share of the total that is paid for requests."""
        return sum(line.amount for line in self.lines if line.is_requests) / self.total if self.total else 0.0

    def per(self, count: float) -> float | None:
        """Return the price of one of ``count``. Returns None for a count of zero."""
        return self.total / count if count else None


def read_prices(path: Path) -> PriceList:
    """Return the prices in a TOML file. Raises UsageError naming the file, the key and the remedy."""
    try:
        document: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        prices = typed(document, PriceList)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {key_and_reason(str(error))}") from error
    except (ValueError, RecursionError) as error:  # RecursionError: too deeply nested
        raise UsageError(f"{path}: not TOML: {error}") from error
    if not prices.currency.strip():
        raise UsageError(f'{path}: currency: the value is empty; write one, such as currency = "EUR"')
    if not prices.part and prices.cloud is None:
        raise UsageError(f"{path}: there are no prices; add a [[part]] with item, quantity and list_price, or [cloud]")
    for key, number, minimum in _numbers(prices):
        if not math.isfinite(number) or number < 0 or (number == 0 and minimum):
            valid = "a number above 0" if minimum else "a number of at least 0"
            raise UsageError(f"{path}: {key}: {number:g} is not a valid price or quantity; write {valid}")
    for index, part in enumerate(prices.part, 1):
        if not part.item.strip():
            raise UsageError(f"{path}: part {index}: item: the value is empty; name the part")
    return prices


def bill(prices: PriceList, demand: Demand) -> Bill:
    """Return the cost of a demand at these prices."""
    lines: list[BillLine] = []
    for part in prices.part:
        lines += _part_lines(part, demand)
    if prices.cloud is not None:
        lines += _cloud_lines(prices.cloud, demand)
    return Bill(prices.currency, tuple(lines))


def parts_bill(prices: PriceList, years: int) -> Bill:
    """Return the cost of the parts of one platform with support over ``years``, without charges of a service.

    Raises UsageError for a price file without parts.
    """
    if not prices.part:
        raise UsageError(
            "--prices: the file has no [[part]], and the price of a service needs stored bytes and time, which a run "
            "does not have; use archiver plan --prices"
        )
    return bill(PriceList(currency=prices.currency, part=prices.part), Demand(years))


def _part_lines(part: PricedPart, demand: Demand) -> Iterator[BillLine]:
    quantity = part.quantity * demand.platforms
    unpaid_years = max(0.0, demand.years - part.support_years)
    price = part.support_price_per_year
    note = f"with {part.support_years:g} years of support" if part.support_years else ""
    if unpaid_years and price is None:
        note = _NO_SUPPORT_PRICE.format(years=part.support_years)
    yield BillLine(part.item, quantity, part.list_price, quantity * part.list_price, note)
    if unpaid_years and price is not None:
        years = quantity * unpaid_years
        yield BillLine(f"{part.item}: year of support", years, price, years * price)


def _cloud_lines(cloud: CloudPrices, demand: Demand) -> Iterator[BillLine]:
    yield _cloud_line("GB kept for a month", demand.gb_months, cloud.per_gb_month)
    for kind, count in (demand.requests or {}).items():
        price = cloud.per_1000_requests.get(kind)
        note = "" if price is not None else "no price in the file"
        line = _cloud_line(f"1,000 {kind.upper()} requests", count / 1000, price or 0.0, note)
        yield replace(line, is_requests=True)
    if demand.egress_gb:
        yield _cloud_line("GB sent out", demand.egress_gb, cloud.egress_per_gb)
    if demand.egress_gb and cloud.retrieval_per_gb:
        yield _cloud_line("GB retrieved", demand.egress_gb, cloud.retrieval_per_gb)


def _cloud_line(item: str, quantity: float, price: float, note: str = "") -> BillLine:
    return BillLine(item, quantity, price, quantity * price, note)


def _numbers(prices: PriceList) -> Iterator[tuple[str, float, bool]]:
    """Yield (key, number, whether the number must be above 0) for all numbers of the file."""
    for index, part in enumerate(prices.part, 1):
        key = f"part {index} ({part.item})"
        yield f"{key}: quantity", part.quantity, True
        yield f"{key}: list_price", part.list_price, False
        yield f"{key}: support_years", part.support_years, False
        if part.support_price_per_year is not None:
            yield f"{key}: support_price_per_year", part.support_price_per_year, False
    if prices.cloud is not None:
        yield "cloud: per_gb_month", prices.cloud.per_gb_month, False
        yield "cloud: egress_per_gb", prices.cloud.egress_per_gb, False
        yield "cloud: retrieval_per_gb", prices.cloud.retrieval_per_gb, False
        yield "cloud: minimum_days", prices.cloud.minimum_days, False
        for kind, price in prices.cloud.per_1000_requests.items():
            yield f"cloud: per_1000_requests.{kind}", price, False


def key_and_reason(message: str) -> str:
    """Return ``part[0].quantity: Expected `float`, got `str``` from msgspec's message, which has the key last."""
    found = re.fullmatch(r"(.*?)(?: - at (?:`key` in )?`\$\.?(.*)`)?", message, re.DOTALL)
    assert found
    reason, key = found[1], found[2]
    unknown = re.search(r"unknown field `(.*)`", reason)
    if unknown:
        reason = f"unknown key {unknown[1]!r}"
    missing = re.search(r"missing required field `(.*)`", reason)
    if missing:
        reason = f"{missing[1]} is missing"
    if "enum value" in reason:
        reason += "; requests are put, get, head, extend or delete"
    return f"{key}: {reason}" if key else reason
