"""A plan as JSON for programs, as text, and as a folder of documents: plan.md, plan.json, tables as CSV, the figure.

The keys are a contract, with units in their names. Every answer has its value and both ends of its range. Null means
that the source of the rates cannot answer.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from results.document.files import json_text
from results.document.text import escape_markdown, render_csv, render_markdown, render_text
from results.measures.ranges import Range
from results.planning.answer import PlanAnswer
from results.planning.plan import Retrieval
from results.planning.rate_surface import PlannedRate
from results.planning.sensitivity import Outcome, Sensitivity, sensitivities
from results.planning.sizing import Archiving, Discovery, Year, slow_end
from results.planning.tables import plan_tables
from results.prices.cost import PlanCost


def plan_document(found: PlanAnswer, *, what_if: bool = False) -> dict[str, Any]:
    """Return the JSON document of a plan. Its ``question`` has the inputs.

    In ``fits``, ``low`` and ``high`` state whether the ends of ``archive_seconds`` fit. The slow end decides ``value``.
    """
    plan, surface = found.plan, found.plan.surface
    archiving, retrieval = plan.archiving, plan.retrieval
    single = plan.single or retrieval
    document: dict[str, Any] = {
        "plan": plan.kind,
        "from": surface.source,
        "platform": surface.platform,
        "ranges": surface.spread,
        "question": dict(found.request.question),
        "archive_seconds": range_document(archiving.seconds if archiving else None),
        "fits": _fits(archiving),
        "retrieve_milliseconds_per_object": range_document(single.milliseconds_per_object if single else None),
        "retrieve_seconds": range_document(retrieval.seconds if retrieval else None),
        "retrieve_p99_milliseconds": single.p99_ms if single else None,
    }
    if archiving is not None:
        document |= _archiving_document(archiving)
        if what_if:
            document["what_if"] = [asdict(trial) for trial in archiving.trials]
        if archiving.discovery is not None:
            document["discovery"] = _discovery_document(archiving.discovery, archiving.last_year.platforms.value)
    if retrieval is not None:
        document["retrieval"] = _retrieval_document(retrieval)
    if found.cost is not None:
        document["price"] = _cost_document(found.cost)
    return {
        **document,
        "sensitivity": [_sensitivity_document(each) for each in sensitivities(surface, found.request)],
        "basis": [_rate_document(rate) for rate in plan.rates],
        "disclosure": None if surface.disclosure is None else surface.disclosure.document,
        "extrapolated": bool(plan.warnings),
        "warnings": list(plan.warnings),
        "doubts": list(plan.doubts),
        "unanswered": list(plan.unanswered),
    }


def plan_text(found: PlanAnswer, *, what_if: bool = False, width: int) -> str:
    """Return extrapolations, tables, warnings and unanswered questions as text for a terminal."""
    tables = [render_text(table, width) for table in plan_tables(found, what_if=what_if)]
    warnings = [wrapped(warning, width) for warning in found.plan.warnings]
    return "\n".join([*warnings, *tables, *(wrapped(sentence, width) for sentence in _sentences(found))]) + "\n"


def plan_markdown(found: PlanAnswer, *, what_if: bool = False) -> str:
    """Return the plan as Markdown: extrapolations, the answers, warnings, and the other tables."""
    first, *others = plan_tables(found, what_if=what_if)
    parts = [f"# {first.title}"]
    if found.plan.warnings:
        parts.append(listed([f"**{escape_markdown(warning)}**" for warning in found.plan.warnings]))
    parts.append(render_markdown(first).rstrip("\n"))
    if _sentences(found):
        parts.append(listed([escape_markdown(sentence) for sentence in _sentences(found)]))
    parts += [render_markdown(table).rstrip("\n") for table in others]
    if what_if and found.plan.archiving is not None:
        parts.append("[![What if](what-if.svg)](what-if.png)")
    return "\n\n".join(parts) + "\n"


def plan_files(found: PlanAnswer) -> dict[str, bytes]:
    """Return the content of every document except the page, by file name. A plan that archives has a what-if."""
    what_if = found.plan.archiving is not None
    contents = {
        "plan.md": plan_markdown(found, what_if=what_if).encode(),
        "plan.json": json_text(plan_document(found, what_if=what_if)).encode(),
    }
    for table in plan_tables(found, what_if=what_if):
        contents[f"{table.name}.csv"] = render_csv(table).encode()
    if found.plan.archiving is not None:
        from results.document.drawing import png_bytes, svg_bytes
        from results.planning.figure import what_if_figure

        figure = what_if_figure(found.plan.archiving, found.plan.surface)
        contents |= {"what-if.svg": svg_bytes(figure), "what-if.png": png_bytes(figure)}
    return contents


def _sentences(found: PlanAnswer) -> list[str]:
    """Return the warnings about the answers, and the unanswered questions."""
    plan = found.plan
    return [*(f"warning: {doubt}" for doubt in plan.doubts), *(f"not answered: {each}" for each in plan.unanswered)]


def listed(sentences: Sequence[str]) -> str:
    """Return sentences as a list in Markdown."""
    return "\n".join(f"- {sentence}" for sentence in sentences)


def wrapped(sentence: str, width: int) -> str:
    """Return a sentence in lines of a terminal."""
    return textwrap.fill(sentence, width, subsequent_indent="  ", break_on_hyphens=False)


def _archiving_document(archiving: Archiving) -> dict[str, Any]:
    load, course = archiving.load, archiving.course
    return {
        "load": {
            "unit": load.unit,
            "units": load.units,
            "period": load.period,
            "objects": load.objects,
            "sessions": load.sessions,
            "objects_per_session": load.objects_per_session,
            "bytes": load.bytes,
            "window_seconds": load.window_seconds,
            "megabytes_per_second_needed": load.bytes / load.window_seconds / 1e6,
        },
        "archive_objects_per_second": range_document(archiving.objects_per_second),
        "archive_megabytes_per_second": range_document(archiving.megabytes_per_second),
        f"{load.unit}s_max": range_document(replace(archiving.units_max, value=archiving.units_certain)),
        "clients": archiving.clients,
        "platforms": range_document(archiving.last_year.platforms),
        "decided_by": archiving.last_year.decided_by.reason,
        "stored_bytes_per_platform": archiving.last_year.bytes_stored_per_platform,
        "footprint": archiving.footprint,
        "bytes_kept_beyond_retention_max": archiving.bytes_beyond_retention,
        "extensions_per_day_max": archiving.extensions_per_day(course.years),
        "headroom_share": course.headroom_share,
        "growth_share": course.growth_share,
        "bytes_kept_per_year": archiving.years[0].bytes_archived,
        "bytes_kept_max": archiving.last_year.bytes_kept,
        "years": [
            {
                **year_document(year),
                "archive_seconds": range_document(year.window_share.times(load.window_seconds)),
            }
            for year in archiving.years
        ],
    }


def year_document(year: Year) -> dict[str, Any]:
    """Return the JSON document of one year of a plan."""
    return {
        "year": year.year,
        "objects": year.objects,
        "bytes_archived": year.bytes_archived,
        "bytes_kept": year.bytes_kept,
        "objects_kept": year.objects_kept,
        "window_share": range_document(year.window_share),
        "platforms": range_document(year.platforms),
        "decided_by": year.decided_by.reason,
        "needs": [
            {
                "reason": need.reason,
                "platforms": range_document(need.platforms),
                "exact": range_document(need.exact),
            }
            for need in year.needs
        ],
    }


def _retrieval_document(retrieval: Retrieval) -> dict[str, Any]:
    return {
        "what": retrieval.what,
        "objects": retrieval.objects,
        "sizes": [{"object_bytes": rate.object_bytes, "share": share} for share, rate in retrieval.parts],
        "objects_per_session": retrieval.parts[0][1].objects_per_session,
        "parallel": retrieval.parallel,
        "overlap_measured": retrieval.overlapping is not None,
        "seconds_alone": range_document(retrieval.seconds_alone),
        "time_to_first_byte_milliseconds": retrieval.first_byte_ms,
        "first_byte_after_request_p99_milliseconds": retrieval.first_byte_p99_ms,
    }


def _discovery_document(discovery: Discovery, platforms: float) -> dict[str, Any]:
    seconds = discovery.seconds(platforms)
    return {
        "users": discovery.users,
        "objects_per_user": discovery.objects,
        "objects_per_session": discovery.rate.objects_per_session,
        "layout": discovery.layout,
        "seconds_allowed": discovery.allowed_seconds,
        "seconds_on_one_platform": range_document(discovery.seconds(1)),
        "seconds_on_all_platforms": range_document(seconds),
        "fits": discovery.fits(slow_end(seconds)),
    }


def _cost_document(cost: PlanCost) -> dict[str, Any]:
    return {
        "currency": cost.bill.currency,
        "years": cost.years,
        "platforms": cost.platforms,
        "total": cost.bill.total,
        "requests_share": cost.bill.requests_share,
        "lines": [asdict(line) for line in cost.bill.lines],
        "per": {each.unit: range_document(each.price) for each in cost.units},
    }


def _sensitivity_document(found: Sensitivity) -> dict[str, Any]:
    ends = {"assumed": found.base, "lower": found.lower, "higher": found.higher}
    return {"assumption": found.assumption, "effect_share": found.effect_share} | {
        name: None if outcome is None else _outcome_document(outcome) for name, outcome in ends.items()
    }


def _outcome_document(outcome: Outcome) -> dict[str, Any]:
    if outcome.need is None:
        return {"assumed": outcome.assumed, "seconds": outcome.value}
    need = outcome.need
    return {
        "assumed": outcome.assumed,
        "platforms": need.platforms.value,
        "exact": outcome.value,
        "decided_by": need.reason,
    }


def _rate_document(rate: PlannedRate) -> dict[str, Any]:
    return {
        "operation": rate.operation,
        "object_bytes": rate.object_bytes,
        "objects_per_session": rate.objects_per_session,
        "objects_per_second": range_document(rate.objects_per_second),
        "slower_neighbour_objects_per_second": rate.slower_neighbour_per_second,
        "times_beyond_measured": rate.beyond,
        "cells": [
            {
                "object_bytes": cell.object_bytes,
                "objects_per_session": cell.objects_per_session,
                "clients": cell.clients,
                "objects_per_second": range_document(cell.objects_per_second),
                "doubts": list(cell.doubts),
                "failed_conditions": list(cell.failed),
            }
            for cell in rate.cells
        ],
    }


def range_document(found: Range | None) -> dict[str, float | None] | None:
    """Return the JSON document of a range. None stays None."""
    return None if found is None else asdict(found)


def _fits(archiving: Archiving | None) -> dict[str, bool | None] | None:
    if archiving is None:
        return None
    seconds = archiving.seconds
    low, high = (None if end is None else archiving.fits(end) for end in (seconds.low, seconds.high))
    return {"value": archiving.is_certain_to_fit(seconds), "low": low, "high": high}
