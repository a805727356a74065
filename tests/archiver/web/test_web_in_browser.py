"""Test the pages of `archiver web` in a real browser: live figures, killed runs, keyboard use and narrow screens."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.archiver.web.served import ended_run, started_web
from tests.support.browser import chromium
from tests.support.commands import StartedCommand, archiver, started
from tests.support.runs import TINY
from tests.support.waiting import SECONDS_MAX

pytestmark = pytest.mark.browser

# Long phases of two clients with live figures
LONG = (
    "run", "dr550", "--quick", "--quiet", "--order", "paper", "--set", "object_sizes=8KiB",
    "--set", "objects_per_session=2", "--set", "clients=2", "--set", "stop.seconds_min=60s",
)  # fmt: skip
QUESTION = "users=30000&messages=30&mean-size=20KiB&from=reference%3Adr550"
PATIENCE_MS = SECONDS_MAX * 1000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture
def address(home: Path) -> Iterator[str]:
    """Run a server for this test's home and return the address of its pages."""
    with started_web("--port", "0") as (_, address):
        yield address


@pytest.fixture
def opened(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Return a function that opens a page in a new window.

    Console messages and requests to other servers fail the test.
    """
    said: list[str] = []
    contexts = []

    def open_page(path: str = "", **window: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **window})
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on(
            "request", lambda request: None if request.url.startswith((address, "data:")) else said.append(request.url)
        )
        page.goto(address + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


@pytest.fixture
def run_under_way(home: Path) -> Iterator[StartedCommand]:
    """Start a run of two clients that lasts for minutes."""
    with started(*LONG) as process:
        yield process


def kill_group(process: StartedCommand) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for_text(page: Any, selector: str, pattern: str) -> None:
    """Wait until the text of an element matches a JavaScript pattern."""
    page.wait_for_function(
        "([selector, pattern]) => new RegExp(pattern).test(document.querySelector(selector)?.textContent ?? '')",
        arg=[selector, pattern],
    )


def test_live_figures_change_and_a_killed_run_is_shown(
    run_under_way: StartedCommand, opened: Callable[..., Any], tmp_path: Path
) -> None:
    page = opened()
    wait_for_text(page, "#objects-per-second", "^[0-9.,]+$")  # the list shows the new run without a reload
    first = page.locator("#objects-per-second").inner_text()
    page.wait_for_function("first => document.querySelector('#objects-per-second').textContent !== first", arg=first)
    listed = opened()
    page.locator(".live h2 a").click()
    page.wait_for_url("**/runs/*")
    assert page.locator("#state").inner_text() == "running"
    for _ in range(2):
        before = page.locator("#live").inner_html()
        page.wait_for_function("before => document.querySelector('#live').innerHTML !== before", arg=before)
    wait_for_text(page, "#live", "Phase 1 of [0-9]+: archive 8KiB x 2, 2 clients")
    wait_for_text(page, ".numbers", "server CPU[^%]*%[^%]*[0-9]+%")
    for width, scheme in ((390, "dark"), (1280, "light")):
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.screenshot(path=tmp_path / f"run-{width}.png", full_page=True)
    kill_group(run_under_way)
    wait_for_text(page, "#state", "^killed")
    assert "archiver resume" in page.locator("main").inner_text()
    assert page.locator("#live").count() == 0
    wait_for_text(listed, "[data-run]", "^killed$")


def test_lost_server_is_shown_on_the_page(home: Path, browser: Any) -> None:
    ended_run(home, "run-1")
    with started_web("--port", "0") as (process, address):
        page = browser.new_page()
        page.goto(address)
        wait_for_text(page, "#connection", "^$")
        process.kill()
        wait_for_text(page, "#connection", "No connection")
        page.close()


def test_report_page_can_be_sorted_and_downloaded_in_its_sandbox(home: Path, opened: Callable[..., Any]) -> None:
    done = archiver("run", "dr550", *TINY, "--quiet")
    assert done.returncode == 0, done.stderr
    page = opened()
    page.locator("th a").click()
    page.wait_for_url("**/runs/*")
    page.locator("a.button").click()
    page.wait_for_url("**/report")
    heads = page.locator("table.data th:has(button)").first
    heads.locator("button").click()
    assert heads.get_attribute("aria-sort") == "ascending"
    assert page.evaluate("self.origin") == "null"
    with page.expect_download() as download:
        page.locator("a[download]").first.evaluate("each => each.click()")
    assert "," in Path(download.value.path()).read_text()
    page.go_back()
    page.wait_for_url("**/runs/*")


def test_runs_are_selected_and_compared_by_keyboard(home: Path, opened: Callable[..., Any]) -> None:
    for _ in range(2):
        done = archiver("run", "dr550", *TINY, "--quiet")
        assert done.returncode == 0, done.stderr
    page = opened(viewport={"width": 390, "height": 844})
    ticked = 0
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('input[type=checkbox]')"):
            page.keyboard.press("Space")
            ticked += 1
        if ticked == 2:
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare?run=*&run=*")
    assert "archive" in page.locator("main").inner_text()
    assert page.evaluate("self.origin") == "null"
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_plan_works_by_keyboard_and_its_url_repeats_the_answer(opened: Callable[..., Any]) -> None:
    page = opened("plan")
    page.get_by_role("link", name="Mail").press("Enter")
    for label, value in (("users", "30000"), ("messages", "30"), ("mean-size", "20KiB"), ("from", "reference:dr550")):
        page.locator(f"[name={label}]").fill(value)
    page.locator("[name=from]").press("Enter")
    page.wait_for_url("**/plan/mail?*users=30000*")
    answer = page.locator("pre.printed").inner_text()
    assert "platforms needed" in answer
    other = opened("plan/" + page.url.partition("/plan/")[2])
    assert other.locator("pre.printed").inner_text() == answer
    assert other.locator("[name=users]").input_value() == "30000"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(
    "path", ["", "runs/run-1", "plan", f"plan/mail?{QUESTION}", "plan/mail?users=x", "ledger", "runs/nope"]
)
def test_page_has_no_horizontal_overflow_at_any_width(
    home: Path, browser: Any, address: str, path: str, width: int
) -> None:
    ended_run(home, "run-1")
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.goto(address + path)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator("h1").inner_text()
    page.close()


def test_page_of_another_site_cannot_read_the_pages(address: str, browser: Any, tmp_path: Path) -> None:
    """A page of another origin uses the right token, by a link, a frame and fetch."""
    page = browser.new_page()
    page.route(
        "http://other.example/*",
        lambda route: route.fulfill(
            content_type="text/html", body=f'<a href="{address}">x</a><iframe src="{address}"></iframe>'
        ),
    )
    statuses: list[int] = []
    page.on("response", lambda response: statuses.append(response.status) if response.url.startswith(address) else None)
    page.goto("http://other.example/page")
    read = "address => fetch(address).then(answer => answer.text(), () => 'refused')"
    assert page.evaluate(read, address) == "refused"
    page.locator("a").click()
    page.wait_for_url(address)
    assert "Another site" in page.locator("body").inner_text()
    assert set(statuses) == {403}
    assert requests.get(address, timeout=30).status_code == 200
    page.close()
