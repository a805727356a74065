"""A plan as a document: the answer, its most important assumptions, its warnings, its inputs, and every table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from archiver.values.sizes import format_bytes
from results.document.document import Document, Drawing, KeyFinding, Section, filled
from results.document.table import Table, settings_table
from results.measures.ranges import Range
from results.planning.answer import PlanAnswer
from results.planning.combined import CombinedPlan
from results.planning.combined_documents import combined_tables, combined_warnings
from results.planning.figure import what_if_figure
from results.planning.loads import INPUTS, written
from results.planning.plan import CapacityPlan
from results.planning.sizing import Archiving
from results.planning.tables import SENSITIVITY, plan_tables, readable_time

_FIGURE = "figure-plan-what-if"
_DOUBTS_FIRST = 3  # warnings next to the answer; the section of warnings has all of them


def plan_as_document(found: PlanAnswer) -> Document:
    """Return the document of a plan."""
    plan = found.plan
    tables = plan_tables(found, what_if=plan.archiving is not None)
    warnings = [*plan.warnings, *plan.doubts, *(f"not answered: {reason}" for reason in plan.unanswered)]
    drawing = Drawing(_FIGURE, what_if_figure(plan.archiving, plan.surface)) if plan.archiving else None
    return Document(
        kind=f"Archiver plan, from {plan.surface.source}",
        title=tables[0].title,
        answers=(_headline(plan),),
        findings=tuple(_findings(plan)),
        sections=filled(
            [
                Section(
                    "assumptions", "What decides", tables=tuple(each for each in tables if each.name == SENSITIVITY)
                ),
                Section("inputs", "Inputs", settings=(inputs_table(found),)),
                Section("warnings", "Warnings about what the answer rests on", sentences=tuple(warnings)),
                Section("what-if", "What if", drawings=(drawing,) if drawing is not None else ()),
                Section("tables", "The plan", tables=tuple(each for each in tables if each.name != SENSITIVITY)),
            ]
        ),
    )


def combined_as_document(plans: Sequence[CombinedPlan]) -> Document:
    """Return the document of a combined plan on one platform or several."""
    answers, *tables = combined_tables(plans)
    settings: list[Table] = []
    for name, request in plans[0].request.requests:
        inputs = {INPUTS[field]: written(field, value) for field, value in request.question.items()}
        settings.append(settings_table(f"plan-inputs-{len(settings) + 1}", f"Load: {name}", inputs))
    return Document(
        kind=f"Archiver plan, from {', '.join(plan.surface.source for plan in plans)}",
        title=answers.title,
        answers=tuple(map(_combined_headline, plans)),
        findings=(),
        sections=filled(
            [
                Section("answers", "The plan", tables=(answers,)),
                Section("years", "Loads and years", tables=tuple(tables)),
                Section("inputs", "Inputs", settings=tuple(settings)),
                Section(
                    "warnings", "Warnings about what the answer rests on", sentences=tuple(combined_warnings(plans))
                ),
            ]
        ),
    )


def _combined_headline(plan: CombinedPlan) -> str:
    last, request = plan.last, plan.request
    text = (
        f"{plan.surface.platform}: {last.platforms:,} platform{'' if last.platforms == 1 else 's'} by year "
        f"{last.year.year}; {last.year.decided_by.reason} decides"
    )
    if plan.total is not None and request.prices is not None:
        text += f"; {plan.total:,.0f} {request.prices.currency} in {last.year.year} years"
    if plan.is_within_budget is not None:
        text += f", {'within' if plan.is_within_budget else 'above'} the budget"
    return f"{text}."


def inputs_table(found: PlanAnswer) -> Table:
    """Return the inputs of a plan, with units."""
    inputs = {INPUTS[name]: written(name, value) for name, value in found.request.question.items()}
    return settings_table("plan-inputs", "Inputs", {**inputs, "rates": found.plan.surface.source})


def _headline(plan: CapacityPlan) -> str:
    """Return the answer in one sentence."""
    if plan.archiving is None:
        assert plan.retrieval is not None
        return f"Retrieving takes {_span(plan.retrieval.seconds, readable_time)}."
    archiving = plan.archiving
    last = archiving.last_year
    count = last.platforms.value
    return (
        f"{count:,.0f} platform{'' if count == 1 else 's'} with {archiving.clients:,} "
        f"client{'' if archiving.clients == 1 else 's'} each are needed by year {last.year}; "
        f"{last.decided_by.reason} decides."
    )


def _findings(plan: CapacityPlan) -> Iterator[KeyFinding]:
    """Yield the numbers of the answer, where their ranges come from, and the first warnings."""
    if plan.archiving is not None:
        yield from _archiving_findings(plan.archiving)
    if plan.single is not None:
        yield KeyFinding(
            "plain", "one object back", _span(plan.single.milliseconds_per_object.times(1 / 1000), readable_time)
        )
    if plan.retrieval is not None:
        yield KeyFinding("plain", f"{plan.retrieval.what} back", _span(plan.retrieval.seconds, readable_time))
    yield KeyFinding("plain", "range", plan.surface.spread)
    for warning in (*plan.warnings, *plan.doubts)[:_DOUBTS_FIRST]:
        yield KeyFinding("care", "warning", warning)
    for reason in plan.unanswered:
        yield KeyFinding("care", "not answered", reason)


def _archiving_findings(archiving: Archiving) -> Iterator[KeyFinding]:
    last, load = archiving.last_year, archiving.load
    needs = ", ".join(f"{need.reason} {need.deciding:,.2f}" for need in last.needs)
    yield KeyFinding(
        "plain", "platforms", f"{_span(last.platforms, _count)} in year {last.year}; before rounding: {needs}"
    )
    seconds = archiving.seconds
    yield KeyFinding(
        "good" if archiving.is_certain_to_fit(seconds) else "plain",
        f"to archive {load.a_period}",
        f"{_span(seconds, readable_time)} on one platform, {seconds.value / load.window_seconds:.0%} of the window",
    )
    stored = format_bytes(last.bytes_stored_per_platform)
    yield KeyFinding(
        "plain", "kept", f"{format_bytes(last.bytes_kept)} at most in year {last.year}; {stored} on each platform"
    )
    if archiving.restore is not None:
        restored = archiving.restored_bytes(last.year)
        seconds = archiving.restore.seconds_per_byte.times(restored / last.platforms.value)
        yield KeyFinding(
            "plain", f"to restore {format_bytes(restored)}", f"{_span(seconds, readable_time)} on all platforms"
        )


def _span(found: Range, written: Any) -> str:
    """Return a value with its range, if the range is known and differs from the value."""
    if found.low is None or found.high is None or found.low == found.high:
        return str(written(found.value))
    return f"{written(found.value)} ({written(found.low)} to {written(found.high)})"


def _count(value: float) -> str:
    return f"{value:,.0f}"
