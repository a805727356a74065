"""Price files, bills and prices per unit. The published prices of IOmark per virtual machine are known answers."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from archiver.values.errors import UsageError
from results.measures.ranges import Range
from results.planning.cost import plan_cost
from results.planning.loads import LoadCourse
from results.planning.measured_rates import measured_surface, published_surface
from results.prices.cost import PlanCost
from results.prices.prices import Demand, PriceList, bill, read_prices
from results.recorded.run import read_run
from tests.results.conftest import MakeResult, MakeRun
from tests.results.planning.plans import plan_mail, plan_retrieve, plan_size, plan_video
from tests.results.watched_run import phase_record

IOMARK = json.loads(resources.files("results").joinpath("reference/mixed_workload.json").read_text())["iomark_vm"]
DR550 = published_surface("reference:dr550")
ARRAY = """
currency = "USD"

[[part]]
item = "storage node"
quantity = 3
list_price = 9000
support_years = 3
support_price_per_year = 900
"""
CLOUD = """
currency = "USD"

[cloud]
per_gb_month = 0.02
egress_per_gb = 0.09
per_1000_requests = { put = 0.005, get = 0.0004, head = 0.0004 }
"""


def prices_of(folder: Path, text: str) -> PriceList:
    path = folder / "prices.toml"
    path.write_text(text)
    return read_prices(path)


@pytest.mark.parametrize("report", IOMARK["reports"], ids=lambda report: report["system"])
def test_bill_reproduces_published_price_per_virtual_machine(report: dict[str, Any], tmp_path: Path) -> None:
    parts = [
        f"[[part]]\nitem = {json.dumps(item)}\nquantity = {quantity}\nlist_price = {amount / quantity}\n"
        for item, quantity, amount in report["price_table"]
    ]
    priced = bill(prices_of(tmp_path, "\n".join(['currency = "USD"', *parts])), Demand(years=3))
    assert priced.total == pytest.approx(report["price_usd"])
    per_machine = priced.per(report["virtual_machines"])
    assert per_machine == pytest.approx(report["usd_per_vm"], abs=0.005)


def test_support_is_billed_for_years_beyond_included_ones(tmp_path: Path) -> None:
    lines = bill(prices_of(tmp_path, ARRAY), Demand(years=7, platforms=2)).lines
    assert [(line.quantity, line.amount) for line in lines] == [(6, 54_000), (24, 21_600)]
    assert len(bill(prices_of(tmp_path, ARRAY), Demand(years=3)).lines) == 1


def test_unpriced_support_is_noted_and_not_billed(tmp_path: Path) -> None:
    prices = prices_of(tmp_path, ARRAY.replace("support_price_per_year = 900", ""))
    (line,) = bill(prices, Demand(years=7)).lines
    assert line.amount == 27_000
    assert line.note == "support after 3 years has no price in the file"


def test_cloud_bill_covers_months_requests_and_egress(tmp_path: Path) -> None:
    demand = Demand(years=1, gb_months=1000, requests={"put": 2_000_000, "get": 500_000}, egress_gb=10)
    lines = bill(prices_of(tmp_path, CLOUD), demand).lines
    assert [line.amount for line in lines] == pytest.approx([20.0, 10.0, 0.2, 0.9])
    unpriced = bill(prices_of(tmp_path, CLOUD.replace("put = 0.005, ", "")), demand).lines[1]
    assert (unpriced.amount, unpriced.note) == (0, "no price in the file")


def price_per(cost: PlanCost, unit: str) -> Range:
    return next(each.price for each in cost.units if each.unit == unit)


def test_cost_per_mailbox_rate_and_terabyte_year_follows_from_bill(tmp_path: Path) -> None:
    plan = plan_mail(
        DR550, users=30_000, messages=30, mean_bytes=20 << 10, course=LoadCourse(7, 0.1), window_seconds=8 * 3600
    )
    cost = plan_cost(plan, prices_of(tmp_path, ARRAY))
    total = 27_000 + 3 * 4 * 900
    assert cost.bill.total == total
    assert plan.archiving is not None
    rate = plan.archiving.objects_per_second.value
    assert price_per(cost, "mailbox").value == pytest.approx(total / 30_000)
    assert price_per(cost, "object/s").value == pytest.approx(total / rate)
    assert price_per(cost, "MB/s").value == pytest.approx(total / (rate * (20 << 10) / 1e6))
    assert price_per(cost, "TB-year").value == pytest.approx(total / plan.archiving.terabyte_years)
    per_rate = price_per(cost, "object/s")
    assert per_rate.low is not None
    assert per_rate.high is not None
    assert per_rate.low < per_rate.value < per_rate.high


def test_bill_has_platforms_for_load_of_last_year(tmp_path: Path) -> None:
    plan = plan_video(DR550, cameras=100, bytes_per_second=1e9 / 3600, course=LoadCourse(5, growth_share=0.2))
    cost = plan_cost(plan, prices_of(tmp_path, ARRAY))
    assert cost.platforms == 3  # 100 cameras need one; 100 x 1.2^4 need three, with 20% headroom
    assert price_per(cost, "camera").value == pytest.approx(cost.bill.total / 100)


def test_session_opening_requests_are_billed(make_result: MakeResult, make_run: MakeRun, tmp_path: Path) -> None:
    database = make_run([phase_record(1, make_result("archive", 16 << 10, 25, 300.0), 1, 2)])  # opens with HEAD
    plan = plan_mail(
        measured_surface(read_run(database.path)),
        users=10,
        messages=25,
        mean_bytes=16 << 10,
        course=LoadCourse(1),
        window_seconds=3600,
    )
    lines = {line.item: line for line in plan_cost(plan, prices_of(tmp_path, CLOUD), 0.5).bill.lines}
    yearly = 250 * 365
    assert lines["1,000 PUT requests"].quantity == pytest.approx(yearly / 1000)
    assert lines["1,000 GET requests"].quantity == pytest.approx(yearly / 2 * 0.5 / 1000)
    assert lines["1,000 HEAD requests"].quantity == pytest.approx((10 * 365 + yearly / 4) / 1000)
    assert lines["GB sent out"].quantity == pytest.approx(yearly / 4 * (16 << 10) / 1e9)
    assert lines["GB kept for a month"].quantity == pytest.approx(yearly / 2 * (16 << 10) / 1e9 * 12)


def test_retrieval_plan_cannot_be_priced(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only retrieves"):
        plan_cost(plan_retrieve(DR550, size_bytes=8192), prices_of(tmp_path, ARRAY))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ARRAY.replace("9000", "-9000"), "part 1 (storage node): list_price: -9000 is not a valid price"),
        (ARRAY.replace("9000", "nan"), "part 1 (storage node): list_price: nan is not a valid price"),
        (ARRAY.replace("9000", "inf"), "part 1 (storage node): list_price: inf is not a valid price"),
        (ARRAY.replace("9000", '"9000 USD"'), "part[0].list_price: Expected `float`, got `str`"),
        (
            ARRAY.replace("quantity = 3", "quantity = 0"),
            "quantity: 0 is not a valid price or quantity; write a number above 0",
        ),
        (ARRAY.replace("quantity = 3", ""), "part[0]: quantity is missing"),
        (ARRAY.replace("list_price", "price"), "part[0]: unknown key 'price'"),
        (ARRAY.replace('"storage node"', '" "'), "part 1: item: the value is empty"),
        (ARRAY.replace('"USD"', '""'), "currency: the value is empty"),
        (ARRAY.replace('currency = "USD"', ""), "currency is missing"),
        ('currency = "USD"', "there are no prices"),
        ('currency = "USD"\npart = []', "there are no prices"),
        (
            CLOUD.replace("put", "putt"),
            "cloud.per_1000_requests: Invalid enum value 'putt'; requests are put, get, head, extend or",
        ),
        (CLOUD.replace("0.09", "-0.09"), "cloud: egress_per_gb: -0.09 is not a valid price"),
        (CLOUD.replace("0.005", "nan"), "cloud: per_1000_requests.put: nan is not a valid price"),
        ("currency = ", "not TOML"),
    ],
)
def test_invalid_price_is_refused_with_file_and_key(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        prices_of(tmp_path, text)
    assert str(refused.value).startswith(f"{tmp_path / 'prices.toml'}: ")
    assert words in str(refused.value)


def test_extensions_deletes_minimum_duration_and_retrieval_fee_are_priced(tmp_path: Path) -> None:
    """1,000 objects of 1 MB a day are kept for 10 days, and paid for at least 30 days, in two years."""
    prices = prices_of(
        tmp_path,
        """
currency = "USD"
[cloud]
per_gb_month = 1.0
retrieval_per_gb = 2.0
minimum_days = 30
per_1000_requests = { put = 1.0, get = 1.0, head = 1.0, extend = 1.0, delete = 1.0 }
""",
    )
    course = LoadCourse(2, 0.0, 0.0, 10 / 365, extend_every_days=5)
    shares = [(1_000_000, 1.0)]
    plan = plan_size(DR550, objects_per_day=1000, shares=shares, objects_per_session=1, course=course)
    found = plan_cost(plan, prices, 0.5).bill
    lines = {line.item: line for line in found.lines}
    kept_object_days = 10_000 * (730 - 5)  # the first ten days fill it evenly
    assert lines["1,000 PUT requests"].quantity == pytest.approx(730)
    assert lines["1,000 DELETE requests"].quantity == pytest.approx(720)
    assert lines["1,000 EXTEND requests"].quantity == pytest.approx(kept_object_days / 5 / 1000)
    assert lines["GB kept for a month"].quantity == pytest.approx(30 * (730 - 15) * 12 / 365)
    retrieved = kept_object_days / 365 * 0.5
    assert lines["1,000 GET requests"].quantity == pytest.approx(retrieved / 1000)
    assert lines["GB retrieved"].amount == pytest.approx(2 * retrieved / 1000)
    requests = sum(line.amount for item, line in lines.items() if item.endswith("requests"))
    assert found.requests_share == pytest.approx(requests / found.total)
