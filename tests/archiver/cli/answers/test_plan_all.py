"""Test `archiver plan all`: several loads on one platform, purchases and budgets, against hand-computed values."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from archiver.cli import main
from tests.support.documented import ROOT

ARRAY = """
currency = "EUR"
[[part]]
item = "node"
quantity = 3
list_price = 9000
support_years = 3
support_price_per_year = 900
"""
SHARED = """
years = 7
headroom = "20%"
usable = "100TB"
prices = "array.toml"
"""
MAIL = """
[[load]]
kind = "mail"
users = 30000
messages = 30
mean-size = "50KiB"
growth = "10%"
"""
GATE = """
[[load]]
name = "gate"
kind = "video"
cameras = 20
stream-rate = "0.5MB/s"
retention = "90d"
step = "3:20%"
"""
DR550 = ("--from", "reference:dr550")


@pytest.fixture
def need(tmp_path: Path) -> Path:
    (tmp_path / "array.toml").write_text(ARRAY)
    return tmp_path / "need.toml"


def planned(need: Path, text: str, *more: str) -> Result:
    need.write_text(text)
    return CliRunner().invoke(main, ["plan", "all", str(need), *(more or DR550)])


def only(need: Path, text: str) -> dict[str, Any]:
    """Return the JSON document of the plan on the DR550."""
    done = planned(need, text, *DR550, "--json")
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["platforms"]
    document: dict[str, Any] = found
    return document


def exact(year: dict[str, Any]) -> dict[str, float]:
    return {each["reason"]: each["exact"]["value"] for each in year["needs"]}


def test_shares_of_window_and_kept_bytes_of_loads_add_up(need: Path) -> None:
    together, mail, gate = (only(need, SHARED + loads)["years"] for loads in (MAIL + GATE, MAIL, GATE))
    for both, first, second in zip(together, mail, gate, strict=True):
        for key in ("bytes_archived", "bytes_kept", "objects", "objects_kept"):
            assert both[key] == pytest.approx(first[key] + second[key])
        for reason in ("archive rate", "capacity"):
            assert exact(both)[reason] == pytest.approx(exact(first)[reason] + exact(second)[reason])
    # 20 cameras archive 864 GB a day, 90 days are kept; 1.2 times as much from year 3.
    assert [year["bytes_kept"] for year in gate[:3]] == pytest.approx([77.76e12, 77.76e12, 1.2 * 77.76e12], rel=1e-4)
    daily_mail_bytes = 900_000 * 50 * 1024
    assert mail[1]["bytes_kept"] == pytest.approx(365 * daily_mail_bytes * (1 + 1.1))
    assert exact(mail[0])["capacity"] == pytest.approx(365 * daily_mail_bytes / 80e12)


def test_single_load_is_planned_like_its_own_command(need: Path) -> None:
    found = only(need, SHARED + GATE)
    options = ("--cameras", "20", "--stream-rate", "0.5MB/s", "--retention", "90d", "--step", "3:20%")
    asked = ("--usable", "100TB", "--prices", str(need.parent / "array.toml"), *DR550, "--json")
    single = json.loads(CliRunner().invoke(main, ["plan", "video", *options, *asked]).stdout)
    assert found["platforms_needed"] == single["platforms"]["value"]
    assert found["price"] == single["price"]["total"]
    for mine, its in zip(found["years"], single["years"], strict=True):
        assert mine["needs"] == its["needs"]


def test_purchases_in_stages_are_paid_when_they_are_made(need: Path) -> None:
    """Two platforms suffice until year 3 and four until year 7. A platform has three nodes."""
    staged = only(need, "purchase = [1, 4]" + SHARED + MAIL + GATE)
    assert [year["platforms"]["value"] for year in staged["years"]] == [2, 2, 2, 3, 3, 3, 4]
    assert [year["platforms_bought"] for year in staged["years"]] == [2, 0, 0, 2, 0, 0, 0]
    assert [year["platforms_in_place"] for year in staged["years"]] == [2, 2, 2, 4, 4, 4, 4]
    nodes, support = 6 * 9_000, 6 * 900  # of two platforms; a year of support after the third year
    paid = [nodes, 0, 0, support + nodes, support, support, 2 * support]
    assert [year["price_of_platforms"] for year in staged["years"]] == paid
    assert staged["price"] == sum(paid)
    assert staged["price_per_tb"] == pytest.approx(sum(paid) / (staged["years"][-1]["bytes_kept"] / 1e12))
    at_once = only(need, SHARED + MAIL + GATE)
    assert [year["platforms_bought"] for year in at_once["years"]] == [4, 0, 0, 0, 0, 0, 0]
    assert at_once["price"] == 2 * nodes + 4 * 2 * support


@pytest.mark.parametrize(
    ("budget", "fits"),
    [
        ("budget = 135000", True),
        ("budget = 134999", False),
        ("budget-per-tb = 535", True),
        ("budget-per-tb = 500", False),
        ("budget = 135000\nbudget-per-tb = 500", False),
    ],
)
def test_budget_is_compared_with_price(need: Path, budget: str, fits: bool) -> None:
    text = f"purchase = [1, 4]\n{budget}{SHARED}{MAIL}{GATE}"
    assert only(need, text)["is_within_budget"] is fits
    shown = " ".join(planned(need, text).output.split())
    assert f"within the budget {'yes' if fits else 'no'}" in shown


def test_service_is_paid_by_year(need: Path) -> None:
    """20 cameras keep 0.864 TB more each day in the first 90 days. A GB costs 0.012 a year."""
    (need.parent / "array.toml").write_text('currency = "USD"\n[cloud]\nper_gb_month = 0.001\n')
    years = only(need, SHARED + GATE)["years"]
    full = 77_760 * 0.012
    assert years[1]["price_of_service"] == pytest.approx(full, rel=1e-3)
    assert years[0]["price_of_service"] == pytest.approx(full * (275 + 45) / 365, rel=1e-3)
    assert years[6]["price_of_service"] == pytest.approx(1.2 * full, rel=1e-3)
    assert all(year["price_of_platforms"] == 0 for year in years)


def test_sources_are_shown_side_by_side_and_written(need: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = planned(need, SHARED + MAIL + GATE, *DR550, *DR550, "--out", str(out))
    assert done.exit_code == 0, done.output
    assert "platforms needed in year 7 4 4" in " ".join(done.output.split())
    assert max(map(len, done.output.splitlines())) <= 120
    assert sorted(path.name for path in out.iterdir()) == [
        "plan-loads-1.csv", "plan-loads-2.csv", "plan-years-1.csv", "plan-years-2.csv", "plan.csv", "plan.html",
        "plan.json", "plan.md",
    ]  # fmt: skip
    assert "4 platforms by year 7; capacity decides; 162,000 EUR in 7 years" not in done.output
    page = re.sub(r"<[^>]+>", " ", (out / "plan.html").read_text())
    assert "4 platforms by year 7; capacity decides;" in page
    assert "platforms needed in year 7" in (out / "plan.md").read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "write each load as a table [[load]]"),
        ("x = ", "not TOML"),
        ("colour = 1" + MAIL, "unknown key 'colour'; above the loads there are: years, headroom"),
        ("[[load]]\nkind = 'tape'", "load 1 (tape): kind: 'tape' is not one of mail, video, size, backup"),
        ("[[load]]\nkind = 'mail'\nusers = 3", "load 1 (mail): Missing option '--messages'"),
        ("[[load]]\nkind = 'mail'\nusers = 0\nmessages = 1\nmean-size = '1KiB'", "load 1 (mail): Invalid value"),
        (MAIL + "years = 3", "load 1 (mail): years is not a key of a load"),
        (MAIL + "colour = 3", "load 1 (mail): No such option '--colour'"),
        (MAIL + MAIL, "load 2 (mail): two loads have this name"),
        ("purchase = [2]" + MAIL, "write the years of a purchase, from 1 and ascending"),
        ("purchase = 'now'" + MAIL, "write a list of years, such as [1, 4]"),
        ("budget = 5" + MAIL, "a budget needs prices"),
        ("budget = -5" + MAIL, "budget: -5; write an amount above 0"),
        (MAIL + "step = '9:20%'", "a step of 20% from year 9 is not possible; choose a year of the plan"),
        (MAIL + "step = '20%'", "write the year and the growth, such as 3:20%"),
    ],
)  # fmt: skip
def test_bad_need_is_refused_with_load_and_key(need: Path, text: str, words: str) -> None:
    done = planned(need, text)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in " ".join(done.stderr.split())


def test_single_plan_refuses_second_source() -> None:
    done = CliRunner().invoke(main, ["plan", "retrieve", "--size", "20KiB", *DR550, *DR550])
    assert done.exit_code == 2
    assert "archiver plan all shows several platforms side by side" in " ".join(done.stderr.split())


def test_file_of_page_is_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/planning.md").read_text()
    (shown,) = re.findall(r"^```toml\n(years.*?)^```", text, re.MULTILINE | re.DOTALL)
    Path("need.toml").write_text(shown)
    Path("array.toml").write_text(ARRAY)
    done = CliRunner().invoke(main, ["plan", "all", "need.toml", *DR550])
    assert done.exit_code == 0, done.output
