"""Test `archiver ledger` as text and as JSON."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from archiver.cli import main
from archiver.ledger.holdings import GB_BYTES, MONTH_SECONDS
from archiver.ledger.ledger import Ledger, Placement
from archiver.values.sizes import format_instant

PLACEMENT = Placement(
    run="run-1",
    phase="archive",
    backend="s3",
    platform=None,
    endpoint="https://worm.example.org:9000",
    region="us-east-1",
    bucket="archiver-run-1",
    bucket_created=True,
    prefix="run-1/",
    retention_mode="GOVERNANCE",
    latest_retain_until=None,
    legal_hold=False,
    objects_max=1000,
    bytes_max=8_192_000,
)


def ask(*arguments: str) -> Result:
    done = CliRunner().invoke(main, ["ledger", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def document(*arguments: str) -> dict[str, Any]:
    done = ask(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class Filled:
    """A ledger with one holding in each state."""

    def __init__(self, path: Path) -> None:
        self.ledger = Ledger(path)
        self.until = time.time() + MONTH_SECONDS
        locked = replace(PLACEMENT, latest_retain_until=self.until)
        self.add(locked, 2 * GB_BYTES)
        self.add(replace(locked, run="run-2", bucket="b-2", latest_retain_until=time.time() - 5), GB_BYTES)
        self.add(replace(locked, run="run-3", bucket="b-3", legal_hold=True), GB_BYTES)
        self.add(replace(locked, run="run-4", bucket="b-4", platform="minio", bytes_max=4 * GB_BYTES), None)
        self.ledger.close()

    def add(self, placement: Placement, size_bytes: int | None) -> None:
        row = self.ledger.open_placement(placement)
        if size_bytes is not None:
            self.ledger.close_placement(row, 10, size_bytes)


@pytest.fixture
def filled(home: Path) -> Filled:
    return Filled(home / "ledger.db")


def test_every_bucket_is_named_with_its_state_and_date(filled: Filled) -> None:
    done = ask()
    assert done.exit_code == 0
    rows = {line[:5]: line for line in done.stdout.splitlines() if line.startswith("run-")}
    date = format_instant(filled.until)
    assert re.search(
        rf"https://worm.example.org:9000 archiver-run-1 +10 +2.0 GB +GOVERNANCE +{date}  locked", rows["run-1"]
    )
    assert rows["run-2"].endswith("can be removed")
    assert rows["run-3"].endswith("under hold")
    assert "minio b-4" in rows["run-4"]  # its endpoint changes with every start, so it is not shown
    assert re.search(r"1,000ᵃ +4.0 GBᵃ", rows["run-4"])
    assert rows["run-4"].endswith("unknown")
    assert "ᵃ upper bound: a phase never ended" in done.stdout
    totals = done.stdout.splitlines()[-6:]
    assert totals == [
        f"locked: 10 objects, 2.0 GB, in 1 place, locks asked for until {date}",
        f"under hold: 10 objects, 1.0 GB, in 1 place, locks asked for until {date}",
        f"unknown: at most 1,000 objects, 4.0 GB, in 1 place, locks asked for until {date}",
        "can be removed: 10 objects, 1.0 GB, in 1 place",
        f"together: at most 1,030 objects, 8.0 GB, in 4 places, locks asked for until {date}",
        "remove what can be removed: archiver cleanup --all-expired",
    ]


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        ((), ["run-1", "run-2", "run-3", "run-4"]),
        (("--expired",), ["run-2"]),
        (("--locked",), ["run-1", "run-3", "run-4"]),
        (("--run", "run-3"), ["run-3"]),
        (("--run", "latest"), ["run-4"]),
        (("--run", "run-3", "--expired"), []),
    ],
)
def test_options_select_holdings(filled: Filled, options: tuple[str, ...], runs: list[str]) -> None:
    assert [each["run"] for each in document(*options)["holdings"]] == runs


def test_costs_are_computed_by_the_printed_rule(filled: Filled) -> None:
    found = document("--price-per-gb-month", "0.5")
    costs = {each["run"]: (each["cost_until_unlocked"], each["cost_per_month"]) for each in found["holdings"]}
    assert costs["run-1"] == pytest.approx((1.0, 1.0), rel=1e-4)  # 2 GB for a month
    assert costs["run-2"] == (0, 0.5)  # it can be removed, and costs until then
    assert costs["run-3"] == (None, 0.5)
    assert costs["run-4"] == pytest.approx((2.0, 2.0), rel=1e-4)
    sums = found["total"]
    assert (sums["gb_months_until_unlocked"], sums["cost_until_unlocked"]) == pytest.approx((6.0, 3.0), rel=1e-4)
    assert (sums["cost_per_month"], sums["holdings_without_end"]) == (4.0, 1)

    text = ask("--price-per-gb-month", "0.5").stdout
    assert "GB are 10^9 bytes as archived, a month is 365.25 / 12 days" in " ".join(text.split())
    assert (
        "cost until unlocked: 3.00 (6 GB-months at 0.5), without what is under hold (1), which has no end\n"
        "cost per month as long as nothing is removed: 4.00\n"
    ) in text


def test_ledger_shows_no_costs_without_a_price(filled: Filled) -> None:
    assert "cost" not in ask().stdout
    found = document()
    assert found["price_per_gb_month"] is None
    assert {each["cost_per_month"] for each in found["holdings"]} == {None}
    assert document("--price-per-gb-month", "0")["total"]["cost_per_month"] == 0


def test_ledger_document_has_expected_keys_and_values(filled: Filled) -> None:
    first = document("--price-per-gb-month", "1")["holdings"][0]
    assert first.keys() == {
        "run", "written_at_epoch_seconds", "backend", "platform", "endpoint", "bucket", "prefix", "objects", "bytes",
        "exact", "retention_modes", "locked_until_epoch_seconds", "legal_hold", "state", "gb_months_until_unlocked",
        "cost_until_unlocked", "cost_per_month",
    }  # fmt: skip
    assert first["locked_until_epoch_seconds"] == filled.until
    assert (first["objects"], first["bytes"], first["exact"], first["state"]) == (10, 2 * GB_BYTES, True, "locked")
    assert (first["platform"], first["retention_modes"], first["legal_hold"]) == (None, ["GOVERNANCE"], False)


def test_ledger_without_any_run_creates_no_files(home: Path) -> None:
    done = ask("--price-per-gb-month", "1")
    assert (done.exit_code, done.stdout) == (0, "nothing is left on any platform\n")
    assert document()["holdings"] == []
    assert not home.exists()


def test_removed_run_is_not_listed_in_ledger(home: Path, filled: Filled) -> None:
    ledger = Ledger(home / "ledger.db")
    ledger.mark_removed("run-1", "archiver-run-1")
    ledger.close()
    assert ask("--run", "run-1").stdout == "run-1: nothing is left of it\n"
    assert [each["run"] for each in document()["holdings"]] == ["run-2", "run-3", "run-4"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--expired", "--locked"), "together leave nothing to show"),
        (("--run", "nosuch"), "nosuch: the ledger has no such run"),
        (("--price-per-gb-month", "nan"), "a price is a number from 0 on"),
        (("--price-per-gb-month", "-1"), "a price is a number from 0 on"),
        (("--price-per-gb-month", "inf"), "a price is a number from 0 on"),
        (("--price-per-gb-month", "cheap"), "'cheap' is not a valid float"),
    ],
)
def test_bad_ledger_options_give_one_clear_message(filled: Filled, arguments: tuple[str, ...], words: str) -> None:
    done = ask(*arguments)
    assert done.exit_code == 2
    assert words in done.stderr


def test_run_lookup_without_a_ledger_is_refused(home: Path) -> None:
    done = ask("--run", "run-1")
    assert done.exit_code == 2
    assert "run-1: there is no ledger yet at " in done.stderr
