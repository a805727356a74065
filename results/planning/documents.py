"""A plan as JSON for programs, and as a folder of documents: plan.md, plan.json, tables as CSV, the figure.

The keys are a contract, with units in their names. Every answer has its value and both ends of its range. Null marks
what its source cannot answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archiver.values.errors import ResultsError
from results.contract import json_text
from results.planning.cost import PlanCost
from results.planning.plan import Archiving, CapacityPlan, Retrieval
from results.planning.rate_surface import PlannedRate, Range
from results.planning.tables import plan_tables
from results.text import escape_markdown, render_csv, render_markdown


def plan_document(
    plan: CapacityPlan, question: Mapping[str, Any], *, what_if: bool = False, cost: PlanCost | None = None
) -> dict[str, Any]:
    """Return the document of a plan. ``question`` contains the user's parameters as plain JSON values.

    In ``fits``, ``low`` and ``high`` state whether the ends of ``archive_seconds`` fit.
    """
    archiving, retrieval = plan.archiving, plan.retrieval
    single = plan.single or retrieval
    document: dict[str, Any] = {
        "plan": plan.kind,
        "from": plan.surface.source,
        "platform": plan.surface.platform,
        "ranges": plan.surface.spread,
        "question": dict(question),
        "archive_seconds": _range(archiving.seconds if archiving else None),
        "fits": _fits(archiving),
        "retrieve_milliseconds_per_object": _range(single.milliseconds_per_object if single else None),
        "retrieve_seconds": _range(retrieval.seconds if retrieval else None),
        "retrieve_p99_milliseconds": single.p99_ms if single else None,
    }
    if archiving is not None:
        document |= _archiving_document(archiving)
        if what_if:
            document["what_if"] = _trials(archiving)
    if retrieval is not None:
        document["retrieval"] = _retrieval_document(retrieval)
    if cost is not None:
        document["price"] = _cost_document(cost)
    return {
        **document,
        "basis": [_rate_document(rate) for rate in plan.rates],
        "extrapolated": bool(plan.warnings),
        "warnings": list(plan.warnings),
        "doubts": list(plan.doubts),
        "unanswered": list(plan.unanswered),
    }


def plan_markdown(plan: CapacityPlan, *, what_if: bool = False, cost: PlanCost | None = None) -> str:
    """Return the tables, after the extrapolations and the warnings."""
    first, *others = plan_tables(plan, what_if=what_if, cost=cost)
    parts = [f"# {first.title}"]
    if plan.warnings:
        parts.append("\n".join(f"- **{escape_markdown(warning)}**" for warning in plan.warnings))
    parts.append(render_markdown(first).rstrip("\n"))
    said = [*(f"doubt: {doubt}" for doubt in plan.doubts), *(f"not answered: {each}" for each in plan.unanswered)]
    if said:
        parts.append("\n".join(f"- {escape_markdown(sentence)}" for sentence in said))
    parts += [render_markdown(table).rstrip("\n") for table in others]
    if what_if and plan.archiving is not None:
        parts.append("[![What if](what-if.svg)](what-if.png)")
    return "\n\n".join(parts) + "\n"


def write_plan(
    folder: Path, plan: CapacityPlan, document: Mapping[str, Any], cost: PlanCost | None = None
) -> list[Path]:
    """Write every document into ``folder`` and return their paths, plan.md first.

    The function creates the folder if necessary. A plan that archives includes its what-if. Raises ResultsError if the
    folder cannot be written.
    """
    what_if = plan.archiving is not None
    contents = {
        "plan.md": plan_markdown(plan, what_if=what_if, cost=cost).encode(),
        "plan.json": json_text(document).encode(),
    }
    for table in plan_tables(plan, what_if=what_if, cost=cost):
        contents[f"{table.name}.csv"] = render_csv(table).encode()
    if plan.archiving is not None:
        from results.figures.phases import png_bytes, svg_bytes  # import matplotlib only for drawing
        from results.planning.figure import what_if_figure

        figure = what_if_figure(plan.archiving, plan.surface)
        contents |= {"what-if.svg": svg_bytes(figure), "what-if.png": png_bytes(figure)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise ResultsError(f"cannot write {error.filename}: {error.strerror}; name another folder") from error
    return [folder / name for name in contents]


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
        "archive_objects_per_second": _range(archiving.objects_per_second),
        "archive_megabytes_per_second": _range(archiving.megabytes_per_second),
        f"{load.unit}s_max": _range(archiving.units_max),
        "platforms": _range(archiving.platforms(archiving.seconds)),
        "headroom_share": course.headroom_share,
        "growth_share": course.growth_share,
        "bytes_kept_per_year": archiving.years[0].bytes_archived,
        "bytes_kept_at_end_of_retention": archiving.years[-1].bytes_kept,
        "years": [
            {
                "year": year.year,
                "objects": year.objects,
                "bytes_archived": year.bytes_archived,
                "bytes_kept": year.bytes_kept,
                "archive_seconds": _range(year.archive_seconds),
                "platforms": _range(year.platforms),
            }
            for year in archiving.years
        ],
    }


def _trials(archiving: Archiving) -> list[dict[str, Any]]:
    return [
        {
            "units": trial.units,
            "archive_seconds": _range(trial.archive_seconds),
            "fits": trial.fits,
            "platforms": _range(trial.platforms),
            "remark": trial.remark,
        }
        for trial in archiving.trials
    ]


def _retrieval_document(retrieval: Retrieval) -> dict[str, Any]:
    return {
        "what": retrieval.what,
        "objects": retrieval.objects,
        "sizes": [{"object_bytes": rate.object_bytes, "share": share} for share, rate in retrieval.parts],
        "objects_per_session": retrieval.parts[0][1].objects_per_session,
        "parallel": retrieval.parallel,
        "overlap_measured": retrieval.overlapping is not None,
        "seconds_alone": _range(retrieval.seconds_alone),
        "time_to_first_byte_milliseconds": retrieval.first_byte_ms,
        "first_byte_after_request_p99_milliseconds": retrieval.first_byte_p99_ms,
    }


def _cost_document(cost: PlanCost) -> dict[str, Any]:
    return {
        "currency": cost.bill.currency,
        "years": cost.years,
        "platforms": cost.platforms,
        "total": cost.bill.total,
        "lines": [
            {
                "item": line.item,
                "quantity": line.quantity,
                "price": line.price,
                "amount": line.amount,
                "note": line.note,
            }
            for line in cost.bill.lines
        ],
        "per": {each.unit: _range(each.price) for each in cost.units},
    }


def _rate_document(rate: PlannedRate) -> dict[str, Any]:
    return {
        "operation": rate.operation,
        "object_bytes": rate.object_bytes,
        "objects_per_session": rate.objects_per_session,
        "objects_per_second": _range(rate.objects_per_second),
        "slower_neighbour_objects_per_second": rate.slower_neighbour_per_second,
        "times_beyond_measured": rate.beyond,
        "cells": [
            {
                "object_bytes": cell.object_bytes,
                "objects_per_session": cell.objects_per_session,
                "clients": cell.clients,
                "objects_per_second": _range(cell.objects_per_second),
                "doubts": list(cell.doubts),
                "failed_conditions": list(cell.failed),
            }
            for cell in rate.cells
        ],
    }


def _range(found: Range | None) -> dict[str, float | None] | None:
    return None if found is None else {"value": found.value, "low": found.low, "high": found.high}


def _fits(archiving: Archiving | None) -> dict[str, bool | None] | None:
    if archiving is None:
        return None
    seconds = archiving.seconds
    low, high = (None if end is None else archiving.fits(end) for end in (seconds.low, seconds.high))
    return {"value": archiving.fits(seconds.value), "low": low, "high": high}
