"""The HTML pages in a real browser: no errors, sorting and filtering, printing, dark mode, and narrow screens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from results.document.html import html_page
from results.planning.answer import answer
from results.planning.loads import MailLoad, PlanRequest
from results.planning.measured_rates import published_surface
from results.recorded.database import FILE_NAME
from results.recorded.model import Result
from results.recorded.run import read_run
from results.report.index import write_index
from results.report.plan_page import plan_as_document
from tests.results.report.reported_runs import HOSTILE, report_of, whole_run
from tests.support.browser import chromium

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, make_result: Callable[..., Result]) -> Path:
    """Return a folder with a run and its page, the index of the folder, and the page of a plan."""
    folder = tmp_path_factory.mktemp("runs")
    database = whole_run(folder / "run-1" / FILE_NAME, make_result)
    (folder / "run-1" / "report").mkdir()
    (folder / "run-1" / "report" / "report.html").write_text(html_page(report_of(read_run(database.path))))
    database.close()
    write_index(folder)
    load = MailLoad(users=30_000, messages=30, mean_bytes=20 << 10)
    plan = answer(published_surface("reference:dr550"), PlanRequest(load=load))
    (folder / "plan.html").write_text(html_page(plan_as_document(plan)))
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture
def opened(browser: Any, folder: Path) -> Iterator[Callable[..., Any]]:
    """Return a function that opens the report, or another page, in a new window.

    A console message, an error or a network request of the page fails the test.
    """
    said: list[str] = []
    contexts = []

    def open_page(name: str = "run-1/report/report.html", **window: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **window})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on(
            "request", lambda request: None if request.url.startswith(("file:", "data:")) else said.append(request.url)
        )
        page.goto((folder / name).as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


def column(page: Any, table: str, place: int) -> list[str]:
    """Return the visible texts of a column, in order."""
    cells = page.locator(f"#table-{table} tbody tr:visible > :nth-child({place})")
    return [re.sub(r"\s+", " ", text) for text in cells.all_inner_texts()]


def test_table_sorts_numbers_and_sizes_in_both_directions(opened: Callable[..., Any]) -> None:
    page = opened()
    head = page.locator("#table-distributions th", has_text="objects/session")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(page, "distributions", 3) == ["1"] * 4 + ["25"] * 4 + ["250"] * 3
    head.locator("button").press("Enter")  # with the keyboard
    assert head.get_attribute("aria-sort") == "descending"
    assert column(page, "distributions", 3) == ["250"] * 3 + ["25"] * 4 + ["1"] * 4
    page.locator("#table-distributions th", has_text="object size").locator("button").click()
    assert column(page, "distributions", 2) == ["8KiB"] * 7 + ["16KiB"] * 4
    assert head.get_attribute("aria-sort") is None
    assert head.locator("button").get_attribute("aria-label") == "Sort by objects/session"


def test_unmeasured_cells_sort_last_in_both_directions(opened: Callable[..., Any]) -> None:
    page = opened()
    page.locator("#appendix summary").click()
    button = page.locator("#table-published th", has_text="ours").first.locator("button")
    for _ in range(2):
        button.click()
        shown = column(page, "published", 5)
        assert shown.index("–") == 8
        assert set(shown[8:]) == {"–"}


def test_table_filter_hides_rows_and_link_to_row_clears_filter(opened: Callable[..., Any]) -> None:
    page = opened()
    field = page.locator("#table-distributions .filter input")
    field.fill("retrieve 16kib")
    assert column(page, "distributions", 1) == ["retrieve"] * 2
    assert page.locator("#table-distributions output").inner_text() == "2 of 11 rows"
    page.locator("#table-archive-objects-per-second a[href^='#cell']").first.click()
    row = page.locator("#table-distributions tr:target")
    row.wait_for(state="visible")
    assert row.locator("th").inner_text() == "archive"
    assert field.input_value() == ""


def test_page_without_javascript_shows_all_rows_and_no_controls(browser: Any, folder: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((folder / "run-1" / "report" / "report.html").as_uri())
    assert page.locator("#table-distributions tbody tr").count() == 11
    assert page.locator("button, input").count() == 0
    context.close()


def test_report_prints_on_white_a4_pages(opened: Callable[..., Any], tmp_path: Path) -> None:
    page = opened()
    printed = page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    sheets = re.findall(rb"/Type\s*/Page\b", printed)
    assert 5 < len(sheets) < 60
    (box,) = set(re.findall(rb"/MediaBox\s*\[\s*0\s+0\s+([0-9.]+)\s+([0-9.]+)\s*\]", printed))
    assert [round(float(side)) for side in box] == [595, 842]
    page.emulate_media(media="print", color_scheme="dark")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 255, 255)"
    assert page.locator(".filter:visible, .skip:visible").count() == 0
    page.set_viewport_size({"width": 703, "height": 1000})  # A4 without its margins, in CSS pixels
    assert page.evaluate("[...document.querySelectorAll('figure svg')].every(each => each.clientWidth <= 703)")


def test_first_screen_has_answer_figure_and_numbers(opened: Callable[..., Any]) -> None:
    page = opened(viewport={"width": 1280, "height": 800})
    for seen in (".answer", "#overview svg", ".numbers", ".dense"):
        box = page.locator(f"#summary {seen}").first.bounding_box()
        assert box["y"] + box["height"] <= 800, seen
    assert 1 <= page.locator("#summary .numbers dt").count() <= 6


def test_configuration_is_folded_and_its_link_unfolds_it(opened: Callable[..., Any]) -> None:
    page = opened()
    table = page.locator("#table-platform")
    assert not table.is_visible()
    assert page.locator("main > section").nth(-2).get_attribute("id") == "configuration"
    page.locator("nav a[href='#configuration']").click()
    table.wait_for(state="visible")


def test_figure_fits_phone_width_and_grows_when_tapped(opened: Callable[..., Any]) -> None:
    page = opened(viewport={"width": 390, "height": 844})
    figure = page.locator("#overview .wide")
    fits = "each => each.scrollWidth <= each.clientWidth"
    assert page.evaluate("[...document.querySelectorAll('figure .wide')].every(each => each.scrollWidth <= 390)")
    assert figure.evaluate(fits)
    figure.click()
    assert not figure.evaluate(fits)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_colours_have_wcag_contrast_with_background(opened: Callable[..., Any], scheme: str) -> None:
    page = opened(color_scheme=scheme)
    contrast = """(name) => {
        const style = getComputedStyle(document.documentElement);
        const light = (text) => {
            const parts = text.trim().match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16) / 255)
                .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
            return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
        };
        const [a, b] = [light(style.getPropertyValue(name)), light(style.getPropertyValue("--paper"))];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    }"""  # WCAG 2.1, 1.4.3: contrast ratio
    for name in ("--ink", "--muted", "--link", "--good", "--bad", "--care"):
        assert page.evaluate(contrast, name) >= 4.5, name
    drawn = page.locator("figure svg text").first.evaluate("each => getComputedStyle(each).fill")
    assert drawn == page.evaluate("getComputedStyle(document.body).color")


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["run-1/report/report.html", "index.html", "plan.html"])
def test_page_has_no_horizontal_scrolling(opened: Callable[..., Any], tmp_path: Path, name: str, width: int) -> None:
    page = opened(name, viewport={"width": width, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.screenshot(path=tmp_path / "page.png", full_page=True)


def test_index_shows_warnings_column_without_scrolling(opened: Callable[..., Any]) -> None:
    page = opened("index.html", viewport={"width": 1280, "height": 800})
    box = page.locator("#table-runs th", has_text="warnings").bounding_box()
    assert box["x"] + box["width"] <= 1280


def test_index_links_to_report(opened: Callable[..., Any]) -> None:
    page = opened("index.html")
    page.locator("#table-runs a", has_text="run-1").click()
    page.wait_for_url("**/report.html")
    assert page.locator("h1").inner_text().startswith("DR550 on ")
    assert HOSTILE in page.locator("h1").inner_text()
