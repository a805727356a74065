"""The price of the platform of a run: the total of its parts, and the price per unit of its best rates."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from archiver.values.errors import UsageError
from results.measures.ranges import Range
from results.prices.cost import PlanCost
from results.prices.prices import CloudPrices, PricedPart, PriceList
from results.recorded.model import Result
from results.report.run_price import platform_cost

NODE = PricedPart(item="node", quantity=2, list_price=3000.0, support_years=1, support_price_per_year=500.0)
PARTS = PriceList(currency="EUR", part=(NODE,))


@pytest.fixture
def results(make_result: Callable[..., Result]) -> list[Result]:
    def one(operation: str, object_bytes: int, rate: float, repetition: int) -> Result:
        return make_result(
            operation=operation, object_bytes=object_bytes, repetition=repetition, position=repetition,
            objects_per_second=rate, megabytes_per_second=rate * object_bytes / 1e6, seconds=10.0,
        )  # fmt: skip

    slow_and_fast = [one("archive", 8192, rate, at) for at, rate in enumerate((400.0, 400.0, 400.0), 1)]
    return [*slow_and_fast, *(one("archive", 1 << 20, 50.0, at) for at in (1, 2, 3))]


def price_per(cost: PlanCost, unit: str) -> Range:
    return next(each.price for each in cost.units if each.unit == unit)


def test_price_of_parts_and_support_is_divided_by_best_rates(results: list[Result]) -> None:
    cost = platform_cost(results, PARTS, years=3)
    assert cost.bill.total == 2 * 3000 + 2 * 2 * 500
    assert price_per(cost, "object/s, archive, at best (grade A)").value == pytest.approx(8000 / 400)
    assert price_per(cost, "MB/s, archive, at best (grade A)").value == pytest.approx(8000 / 52.4288)
    assert [each.unit for each in cost.units] == [
        "object/s, archive, at best (grade A)",
        "MB/s, archive, at best (grade A)",
    ]


def test_price_per_rate_has_range_of_the_rate(make_result: Callable[..., Result]) -> None:
    rates = (360.0, 400.0, 440.0)
    runs = [
        make_result(objects_per_second=rate, repetition=at, position=at, seconds=10.0)
        for at, rate in enumerate(rates, 1)
    ]
    price = price_per(platform_cost(runs, PARTS, years=1), "object/s, archive, at best (grade C)")
    assert price.low is not None
    assert price.high is not None
    assert price.value == pytest.approx(6000 / 400)
    assert price.low < price.value < price.high


def test_price_shows_grade_and_cautions_of_its_rate(make_result: Callable[..., Result]) -> None:
    cost = platform_cost([make_result(session_half_width=0.3, errors=1)], PARTS, years=1)
    assert cost.units[0].unit == "object/s, archive, at best (grade C, disturbed by errors)"


def test_cloud_service_prices_are_refused_for_run_price(results: list[Result]) -> None:
    service = PriceList(currency="USD", cloud=CloudPrices(per_gb_month=0.02))
    with pytest.raises(UsageError, match="archiver plan --prices"):
        platform_cost(results, service, years=3)
