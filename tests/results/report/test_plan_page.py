"""The HTML page of a plan: answer, sensitivity, inputs and warnings, in one file that loads nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from results.document.html import html_page
from results.planning.answer import PlanAnswer, answer
from results.planning.loads import BackupLoad, LoadCourse, MailLoad, PlanRequest, PlatformLimits, RetrieveLoad
from results.planning.measured_rates import measured_surface, published_surface
from results.prices.disclosure import Disclosure
from results.prices.prices import read_prices
from results.recorded.run import read_run
from results.report.plan_page import inputs_table, plan_as_document
from tests.results.conftest import MakeResult, MakeRun
from tests.results.watched_run import PLATFORM, phase_record

DR550 = published_surface("reference:dr550")
TB = 10**12


def mail() -> PlanAnswer:
    load = MailLoad(users=30_000, messages=30, mean_bytes=20 << 10)
    limits = PlatformLimits(usable_bytes=5 * TB, restore_seconds=30 * 86_400.0)
    return answer(DR550, PlanRequest(load=load, course=LoadCourse(7, 0.1), limits=limits))


def words(page: str) -> str:
    """Return the text of a page without its styles, scripts and figures."""
    for kind in ("style", "script", "svg"):
        page = re.sub(rf"<{kind}.*?</{kind}>", " ", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_plan_page_starts_with_answer_then_sensitivity_and_inputs() -> None:
    page = html_page(plan_as_document(mail()))
    order = [
        "16 platforms with 1 client each are needed by year 7; capacity decides.",
        "What the answer depends on most", "Inputs", "How many users one platform can archive",
        "Over 7 years", "Cells that the answers rest on",
    ]  # fmt: skip
    content = words(page[page.index("<main") :])
    places = [content.find(each) for each in order]
    assert -1 not in places
    assert places == sorted(places)
    assert len(re.findall('<section class="table" id="table-plan-sensitivity".*?</section>', page, re.DOTALL)) == 1


def test_plan_page_loads_nothing_and_is_reproducible() -> None:
    page = html_page(plan_as_document(mail()))
    assert page == html_page(plan_as_document(mail()))
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", page.replace('xlink:href="#', ""))
    assert len(set(re.findall(r' id="([^"]+)"', page))) == len(re.findall(r' id="([^"]+)"', page))


def test_inputs_table_has_readable_names_and_units() -> None:
    rows = {row[0].text: row[1].text for row in inputs_table(mail()).rows}
    assert rows["mean size of a message"] == "20KiB"
    assert rows["window"] == "8h"
    assert rows["growth a year"] == "10%"
    assert rows["usable capacity of a platform"] == "5.0 TB"
    assert rows["time to restore"] == "30d"
    assert rows["rates"] == "IBM DR550, 2005"
    assert not any("_" in name for name in rows)


@pytest.mark.parametrize(
    ("request_", "headline"),
    [
        (PlanRequest(load=RetrieveLoad(size_bytes=1 << 30)), "Retrieving takes 100.4 s"),
        (
            PlanRequest(load=BackupLoad(full_bytes=TB, change_share=0.03, window_seconds=86_400.0)),
            "3 platforms with 1 client each are needed by year 7; archive rate decides.",
        ),
    ],
)
def test_retrieval_and_backup_plans_have_a_headline(request_: PlanRequest, headline: str) -> None:
    assert headline in words(html_page(plan_as_document(answer(DR550, request_))))


def test_names_of_prices_and_platforms_are_escaped(make_result: MakeResult, make_run: MakeRun, tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    prices = tmp_path / "prices.toml"
    prices.write_text(f'currency = "EUR"\n[[part]]\nitem = "{hostile}"\nquantity = 1\nlist_price = 10\n')
    cell = make_result("archive", 20 << 10, 30, 100.0, limited_by="client")
    database = make_run([phase_record(1, cell, 1, 2)], platform=replace(PLATFORM, name=hostile))
    surface = replace(measured_surface(read_run(database.path)), disclosure=Disclosure(system=hostile))
    load = MailLoad(users=10, messages=30, mean_bytes=20 << 10)
    page = html_page(plan_as_document(answer(surface, PlanRequest(load=load, prices=read_prices(prices)))))
    assert hostile not in page
    assert page.count("&lt;script&gt;") >= 3
    assert "limited by the client" in words(page)
    assert "! with care: whether" in words(page)  # no usable capacity was given
