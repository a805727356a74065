"""``archiver ledger``: what all runs left, on which platforms, and the end of its locks."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import click

from archiver.ledger.holdings import Holding, HoldingState, gather, total, until_words
from archiver.ledger.ledger import Ledger, Placement
from archiver.machine.home import ledger_path
from archiver.values.errors import UsageError
from archiver.values.sizes import format_bytes, format_instant
from results.document.files import json_text
from results.document.table import NOT_MEASURED, Cell, Column, Table
from results.document.text import render_text

_WIDTH = 132
_WIDTH_WITH_COSTS = 158
_WORDS = {
    HoldingState.LOCKED: "locked",
    HoldingState.HELD: "under hold",
    HoldingState.UNKNOWN: "unknown",
    HoldingState.EXPIRED: "can be removed",
}
_BOUND = "upper bound: a phase never ended or is in progress, so its objects were not counted"
_NO_END = "under hold, which has no end"
_RULE = (
    "Price rule: GB are 10^9 bytes as archived, a month is 365.25 / 12 days; until unlocked: from now, every phase's "
    "bytes until the latest date of its locks."
)


@click.command()
@click.option("--run", metavar="RUN", help="Show only this run: its id, or `latest`.")
@click.option(
    "--expired", is_flag=True, help="Show only what is no longer locked, or never was, by this machine's clock."
)
@click.option("--locked", is_flag=True, help="Show only what is locked, under hold, or of unknown state.")
@click.option(
    "--price-per-gb-month",
    type=float,
    metavar="PRICE",
    help="Price of a GB per month, for the cost of what is kept.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with all numbers.")
def ledger(run: str | None, expired: bool, locked: bool, price_per_gb_month: float | None, as_json: bool) -> None:
    """List what runs left, and how long it is locked.

    Reads only the ledger and contacts no platform. A date is the latest that Archiver asked for, or a later one that a
    platform reported. If a phase never ended or is in progress, its amount is an upper bound, and it is unknown
    whether its objects are locked.

    \b
    Example:
        archiver ledger --price-per-gb-month 0.023
    """
    if expired and locked:
        raise UsageError("--expired and --locked together leave nothing to show; choose one of them")
    if price_per_gb_month is not None and not (math.isfinite(price_per_gb_month) and price_per_gb_month >= 0):
        raise UsageError(f"--price-per-gb-month {price_per_gb_month}: a price is a number from 0 on")
    now = time.time()
    holdings = [
        each
        for each in gather(left_placements(run))
        if not (expired and each.may_be_locked(now)) and not (locked and not each.may_be_locked(now))
    ]
    if as_json:
        click.echo(json_text(_document(holdings, now, price_per_gb_month)), nl=False)
    elif holdings:
        width = _WIDTH if price_per_gb_month is None else _WIDTH_WITH_COSTS
        click.echo(render_text(holdings_table(holdings, now, price_per_gb_month), width), nl=False)
        for line in holdings_summary(holdings, now, price_per_gb_month):
            click.echo(line)
    else:
        kind = "that is expired " if expired else "that is locked " if locked else ""
        click.echo(f"nothing {kind}is left on any platform" if run is None else f"{run}: nothing {kind}is left of it")


def left_placements(run: str | None) -> list[Placement]:
    """Return the ledger's rows; empty if there is no ledger yet. Raises UsageError for an unknown run."""
    path = ledger_path()
    if not path.exists():
        if run is not None:
            raise UsageError(f"{run}: there is no ledger yet at {path}; it begins with the first run")
        return []
    opened = Ledger(path)
    try:
        name = opened.latest_run() if run == "latest" else run
        if run is None or name is None:
            return opened.placements()  # without remaining objects there is no latest run
        if not opened.knows(name):
            raise UsageError(f"{name}: the ledger has no such run; its id is the name of its folder")
        return opened.placements(name)
    finally:
        opened.close()


def holdings_table(holdings: Sequence[Holding], now: float, price: float | None) -> Table:
    """Return a row for each bucket and file space."""
    columns = [
        Column("run", label=True),
        Column("place", words=True),
        Column("objects"),
        Column("amount"),
        Column("mode", words=True),
        Column("locked until"),
        Column("state", words=True),
    ]
    if price is not None:
        columns += [Column("cost until unlocked"), Column("cost per month")]
    return Table(
        name="ledger",
        title="What is left on platforms",
        columns=tuple(columns),
        rows=tuple(_row(each, now, price) for each in holdings),
        caption=f"According to the ledger and this machine's clock, {format_instant(now)}, in order of date."
        + (f" {_RULE}" if price is not None else ""),
    )


def _row(holding: Holding, now: float, price: float | None) -> tuple[Cell, ...]:
    first, until = holding.first, holding.locked_until
    notes = () if holding.exact else (_BOUND,)
    row = [
        Cell(first.run),
        Cell(f"{first.platform or first.endpoint} {first.bucket}"),
        Cell(f"{holding.objects:,}", holding.objects, notes),
        Cell(format_bytes(holding.bytes), holding.bytes, notes),
        Cell(", ".join(holding.modes)),
        Cell("no date" if until is None else format_instant(until)),
        Cell(_WORDS[holding.state(now)]),
    ]
    if price is not None:
        months = holding.gb_months(now)
        row.append(Cell(NOT_MEASURED, None, (_NO_END,)) if months is None else _money(months * price, notes))
        row.append(_money(holding.gb * price, notes))
    return tuple(row)


def _money(amount: float, notes: tuple[str, ...] = ()) -> Cell:
    return Cell("<0.01" if 0 < amount < 0.01 else f"{amount:,.2f}", amount, notes)


def holdings_summary(holdings: Sequence[Holding], now: float, price: float | None) -> list[str]:
    """Return totals, by state and of all."""
    lines = []
    for state, words in _WORDS.items():
        of_state = [each for each in holdings if each.state(now) is state]
        if of_state:
            lines.append(f"{words}: {_amount(of_state)}{_until(of_state, now)}")
    lines.append(f"together: {_amount(holdings)}{_until(holdings, now)}")
    if price is not None:
        lines += _costs(holdings, now, price)
    if any(each.state(now) is HoldingState.EXPIRED for each in holdings):
        lines.append("remove what can be removed: archiver cleanup --all-expired")
    return lines


def _amount(holdings: Sequence[Holding]) -> str:
    sums = total(holdings)
    at_most = "" if sums.exact else "at most "
    places = "1 place" if sums.holdings == 1 else f"{sums.holdings:,} places"
    return f"{at_most}{sums.objects:,} objects, {format_bytes(sums.bytes)}, in {places}"


def _until(holdings: Sequence[Holding], now: float) -> str:
    words = until_words([row for each in holdings for row in each.placements], now)
    return f", {words}" if words else ""


def _costs(holdings: Sequence[Holding], now: float, price: float) -> list[str]:
    ending = [months for each in holdings if (months := each.gb_months(now)) is not None]
    held = len(holdings) - len(ending)
    endless = f", without what is under hold ({held:,}), which has no end" if held else ""
    per_month = sum(each.gb for each in holdings) * price
    return [
        f"cost until unlocked: {_money(sum(ending) * price).text} ({sum(ending):.3g} GB-months at {price:g}){endless}",
        f"cost per month as long as nothing is removed: {_money(per_month).text}",
    ]


def _document(holdings: Sequence[Holding], now: float, price: float | None) -> dict[str, Any]:
    """Return the same for programs. Every key names its unit, and money is in the unit of the price."""
    sums = total(holdings)
    ending = [months for each in holdings if (months := each.gb_months(now)) is not None]
    return {
        "at_epoch_seconds": now,
        "price_per_gb_month": price,
        "holdings": [_entry(each, now, price) for each in holdings],
        "total": {
            "holdings": sums.holdings,
            "objects": sums.objects,
            "bytes": sums.bytes,
            "exact": sums.exact,
            "locked_until_epoch_seconds": sums.locked_until,
            "gb_months_until_unlocked": sum(ending),
            "holdings_without_end": len(holdings) - len(ending),
            "cost_until_unlocked": None if price is None else sum(ending) * price,
            "cost_per_month": None if price is None else sum(each.gb for each in holdings) * price,
        },
    }


def _entry(holding: Holding, now: float, price: float | None) -> dict[str, Any]:
    first, months = holding.first, holding.gb_months(now)
    return {
        "run": first.run,
        "written_at_epoch_seconds": first.written_at,
        "backend": first.backend,
        "platform": first.platform,
        "endpoint": first.endpoint,
        "bucket": first.bucket,
        "prefix": first.prefix,
        "objects": holding.objects,
        "bytes": holding.bytes,
        "exact": holding.exact,
        "retention_modes": list(holding.modes),
        "locked_until_epoch_seconds": holding.locked_until,
        "legal_hold": holding.is_held,
        "state": holding.state(now).value,
        "gb_months_until_unlocked": months,
        "cost_until_unlocked": None if price is None or months is None else months * price,
        "cost_per_month": None if price is None else holding.gb * price,
    }
