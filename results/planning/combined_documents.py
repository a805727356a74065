"""The documents of a combined plan: platforms side by side, then the loads and the years on each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from archiver.values.sizes import format_bytes
from results.document.files import json_text
from results.document.table import NOT_MEASURED, Cell, Column, Table, TableSpec, number
from results.document.text import escape_markdown, render_csv, render_markdown, render_text
from results.planning.combined import CombinedPlan
from results.planning.documents import listed, range_document, wrapped, year_document
from results.planning.sizing import Archiving, Reason


def combined_tables(plans: Sequence[CombinedPlan]) -> list[Table]:
    """Return the answers side by side, then for each platform its loads and its years."""
    tables = [answers_table(plans)]
    for place, plan in enumerate(plans, 1):
        suffix = "" if len(plans) == 1 else f"-{place}"
        tables += [loads_table(plan, suffix), years_table(plan, suffix)]
    return tables


def answers_table(plans: Sequence[CombinedPlan]) -> Table:
    """Return each answer as a row, with a column for each source of rates."""
    last = plans[0].last.year.year
    rows: list[tuple[str, Callable[[CombinedPlan], str]]] = [
        (f"platforms needed in year {last}", lambda plan: f"{plan.last.platforms:,}"),
        ("decided by", lambda plan: plan.last.year.decided_by.reason),
    ]
    reasons = dict.fromkeys(need.reason for plan in plans for need in plan.last.year.needs)
    rows += [(f"platforms by {reason}", partial(_deciding, reason=reason)) for reason in reasons]
    rows += [
        ("of the window of one platform", lambda plan: f"{plan.last.year.window_share.value:.0%}"),
        ("kept free of the window", lambda plan: f"{plan.sizing.window_headroom_share:.0%}"),
        ("kept at most", lambda plan: format_bytes(plan.last.year.bytes_kept)),
        ("on disk at most", lambda plan: format_bytes(plan.last.year.bytes_stored)),
        ("usable capacity in total", _usable),
    ]
    if plans[0].total is not None:
        rows += [
            (f"price of {last} years ({_currency(plans[0])})", lambda plan: f"{plan.total:,.0f}"),
            (f"price per TB kept at most ({_currency(plans[0])})", lambda plan: f"{plan.total_per_tb:,.0f}"),
        ]
    if plans[0].is_within_budget is not None:
        rows.append(("within the budget", lambda plan: "yes" if plan.is_within_budget else "no"))
    names = _names(plans)
    return Table(
        name="plan",
        title=f"Plan: {', '.join(name for name, _ in plans[0].plans)} on {' or '.join(names)}",
        columns=(Column("answer", label=True, words=True), *(Column(name, words=True) for name in names)),
        rows=tuple((Cell(what), *(Cell(of(plan)) for plan in plans)) for what, of in rows),
        caption=f"{_sources(plans)} Loads are archived one after another, and all windows coincide: their shares of "
        "the window add up. All restores happen at the same time. The slow end of each range decides.",
    )


def _deciding(plan: CombinedPlan, reason: Reason) -> str:
    found = [need.deciding for need in plan.last.year.needs if need.reason == reason]
    return f"{found[0]:,.2f}" if found else NOT_MEASURED


def _need_column(place: int, reason: Reason) -> Column:
    return Column(f"by {reason}", "platforms", lambda each: each.year.needs[place].deciding, 2)


def loads_table(plan: CombinedPlan, suffix: str = "") -> Table:
    """Return the share that each load has in the platforms, today."""
    rows = zip((name for name, _ in plan.plans), plan.sizing.loads, strict=True)

    def column(name: str, unit: str, of: Callable[[Archiving], float | None], digits: int) -> Column:
        return Column(name, unit, lambda row: of(row[1]), digits)

    return TableSpec(
        name=f"plan-loads{suffix}",
        title=f"Loads on {plan.surface.platform}",
        columns=(
            Column("load", of=lambda row: row[0], label=True, words=True),
            column("in the busiest period", "objects", lambda load: load.load.objects, 0),
            column("in the busiest period", "GB", lambda load: load.load.bytes / 1e9, 1),
            column("rate", "objects/s", lambda load: load.objects_per_second.value, 1),
            column("clients", "", lambda load: load.clients, 0),
            column("of the window", "%", lambda load: load.seconds.value / load.load.window_seconds * 100, 1),
            column("kept at most", "TB", lambda load: load.last_year.bytes_kept / 1e12, 3),
            column("on disk for each byte", "bytes", lambda load: load.footprint, 2),
        ),
        caption="The load of today. *of the window*: of one platform's. *kept at most*: on the fullest day of the last "
        f"year. {NOT_MEASURED}: not known, and counted as 1.",
    ).table(rows)


def years_table(plan: CombinedPlan, suffix: str = "") -> Table:
    """Return the platforms and the price of every year."""
    reasons = [need.reason for need in plan.last.year.needs]
    columns = [
        Column("year", of=lambda each: each.year.year, label=True),
        Column("archived", "TB", lambda each: each.year.bytes_archived / 1e12, 3),
        Column("kept at most", "TB", lambda each: each.year.bytes_kept / 1e12, 3),
        *(_need_column(place, reason) for place, reason in enumerate(reasons)),
        Column("needed", "platforms", lambda each: each.year.platforms.value),
        Column("bought", "platforms", lambda each: each.bought),
    ]
    if plan.total is not None:
        columns += [
            Column("platforms", _currency(plan), lambda each: each.hardware),
            Column("service", _currency(plan), lambda each: each.service),
            Column("paid", _currency(plan), lambda each: each.total),
        ]
    return TableSpec(
        name=f"plan-years{suffix}",
        title=f"Years on {plan.surface.platform}",
        columns=tuple(columns),
        caption="Columns *by ...* are platforms before rounding, at the slow end of the range. A purchase covers the "
        "years until the next one. Prices: list prices with support, without discount, tax, power or interest.",
    ).table(plan.years, more=[_total_row(plan, len(columns))] if plan.total is not None else [])


def _total_row(plan: CombinedPlan, columns: int) -> tuple[Cell, ...]:
    return (Cell("total"), *[Cell("")] * (columns - 2), number(plan.total, 0))


def combined_document(plans: Sequence[CombinedPlan]) -> dict[str, Any]:
    """Return the JSON document of a combined plan."""
    return {"plan": "all", "platforms": [_platform_document(plan) for plan in plans]}


def _platform_document(plan: CombinedPlan) -> dict[str, Any]:
    return {
        "from": plan.surface.source,
        "platform": plan.surface.platform,
        "platforms_needed": plan.last.platforms,
        "decided_by": plan.last.year.decided_by.reason,
        "window_headroom_share": plan.sizing.window_headroom_share,
        "price": plan.total,
        "price_per_tb": plan.total_per_tb,
        "is_within_budget": plan.is_within_budget,
        "loads": [
            {
                "name": name,
                "question": dict(request.question),
                "archive_seconds": range_document(load.seconds),
                "clients": load.clients,
                "bytes_kept_max": load.last_year.bytes_kept,
                "footprint": load.footprint,
            }
            for (name, request), load in zip(plan.request.requests, plan.sizing.loads, strict=True)
        ],
        "years": [
            {
                **year_document(each.year),
                "platforms_in_place": each.platforms,
                "platforms_bought": each.bought,
                "price_of_platforms": each.hardware,
                "price_of_service": each.service,
            }
            for each in plan.years
        ],
        "extrapolated": bool(plan.warnings),
        "warnings": list(plan.warnings),
        "doubts": list(plan.doubts),
        "unanswered": list(plan.unanswered),
    }


def combined_text(plans: Sequence[CombinedPlan], width: int) -> str:
    """Return extrapolations, tables, warnings and unanswered questions as text for a terminal."""
    tables = [render_text(table, width) for table in combined_tables(plans)]
    warnings, others = _reservations(plans)
    return (
        "\n".join([*(wrapped(each, width) for each in warnings), *tables, *(wrapped(e, width) for e in others)]) + "\n"
    )


def combined_files(plans: Sequence[CombinedPlan]) -> dict[str, bytes]:
    """Return the content of every document except the page, by file name."""
    tables = combined_tables(plans)
    warnings, others = _reservations(plans)
    parts = [f"# {tables[0].title}"]
    if warnings:
        parts.append(listed([f"**{escape_markdown(warning)}**" for warning in warnings]))
    parts += [render_markdown(table).rstrip("\n") for table in tables]
    parts.append(listed([escape_markdown(sentence) for sentence in others]))
    return {
        "plan.md": ("\n\n".join(parts) + "\n").encode(),
        "plan.json": json_text(combined_document(plans)).encode(),
        **{f"{table.name}.csv": render_csv(table).encode() for table in tables},
    }


def combined_warnings(plans: Sequence[CombinedPlan]) -> list[str]:
    """Return extrapolations, warnings and unanswered questions of all platforms."""
    return [sentence for sentences in _reservations(plans) for sentence in sentences]


def _reservations(plans: Sequence[CombinedPlan]) -> tuple[list[str], list[str]]:
    """Return the extrapolations, and the other sentences. Of several platforms, each begins with its name."""
    named = [("" if len(plans) == 1 else f"{name}: ", plan) for name, plan in zip(_names(plans), plans, strict=True)]
    warnings = [f"{name}{warning}" for name, plan in named for warning in plan.warnings]
    others = [f"warning: {name}{doubt}" for name, plan in named for doubt in plan.doubts]
    others += [f"not answered: {name}{reason}" for name, plan in named for reason in plan.unanswered]
    return warnings, others


def _names(plans: Sequence[CombinedPlan]) -> list[str]:
    """Return the names of the platforms, with their sources if two are equal."""
    names = [plan.surface.platform for plan in plans]
    if len(set(names)) == len(names):
        return names
    return [f"{plan.surface.platform} ({plan.surface.source})" for plan in plans]


def _sources(plans: Sequence[CombinedPlan]) -> str:
    return " ".join(f"{plan.surface.platform}: from {plan.surface.source}." for plan in plans)


def _usable(plan: CombinedPlan) -> str:
    usable = plan.sizing.loads[0].limits.usable_bytes
    return NOT_MEASURED if usable is None else format_bytes(usable * plan.last.platforms)


def _currency(plan: CombinedPlan) -> str:
    return "" if plan.request.prices is None else plan.request.prices.currency
