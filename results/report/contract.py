"""The JSON that other programs read: ``archiver run --json`` and ``results.json``.

The fields of Result are the contract. A document contains the same fields under the same names, nested in the same way.
Fields may be added but never renamed. A reader ignores fields that it does not know. Cells and workloads stay two lists
here, because programs read them; all tables read Units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from archiver.values.errors import ResultsError
from results.measures.doubts import ages, doubts, drifts
from results.measures.metrics import amounts
from results.measures.requests import request_counts
from results.measures.units import all_cells
from results.mixed.replay.contents import replay_document
from results.mixed.replay.trials import replay_run
from results.prices.disclosure import disclosed
from results.recorded.database import StoredRun
from results.recorded.model import CriterionResult, Result, SearchOutcome
from results.recorded.run import RecordedRun
from results.tables.workers import worker_documents
from results.worm.findings import worm_document

Verdict = Literal["pass", "fail", "void", "none"]
RUN_FACTS = ("run", "scenario", "backend", "platform", "hosts")


def run_document(recorded: RecordedRun) -> dict[str, Any]:
    """Return the published JSON document of a run, with its conformance checks if it made any."""
    run = recorded.run
    facts = {
        "run": run.id,
        "scenario": run.scenario,
        "backend": run.backend,
        "platform": asdict(run.platform),
        "hosts": _hosts(run),
        "disclosure": None if (disclosure := disclosed(run)) is None else disclosure.document,
        "settings": run.settings,
        "location": run.location,
        "command_line": run.command_line,
        "shared_host": run.shared_host,
        "lock_verified": run.lock_verified,
        "content": run.content_kind,
        "order": run.sweep_order,
        "order_seed": run.order_seed,
        "drifts": [asdict(drift) for drift in drifts(recorded)],
        "doubts": doubts(recorded),
        "resumptions": [asdict(each) for each in recorded.resumptions],
        "workers": worker_documents(recorded),
        "objects_from": None
        if run.objects_from is None
        else {**asdict(run.objects_from), **ages(run.started_at, run.objects_from)},
        "requests": [each.document() for each in request_counts(recorded, recorded.timelines)],
    }
    results = recorded.results
    failed = run.verdict in ("fail", "interrupted", None) or any(result.errors for result in results)
    verdict: Verdict = "fail" if failed else "pass" if run.verdict == "pass" else "none"
    if run.verdict == "void":
        verdict = "void"
    replay = replay_run(recorded, results)
    if replay is not None:
        facts["replay"] = replay_document(replay)
    made = document_of(facts, results, recorded.criteria, verdict, recorded.search)
    if recorded.checks:
        made |= worm_document(run.platform, run.id, recorded.checks, recorded.rounds)
    return made


def _hosts(run: StoredRun) -> list[dict[str, Any]]:
    """Return the coordinator's host first, then the workers' other hosts."""
    cluster = run.settings.get("dask")
    others = cluster["hosts"] if cluster is not None else []
    return [run.host, *(host for host in others if host["host"] != run.host["host"])]


def document_of(
    facts: Mapping[str, Any],
    results: Sequence[Result],
    criteria: Sequence[CriterionResult] = (),
    verdict: Verdict = "none",
    search: SearchOutcome | None = None,
) -> dict[str, Any]:
    """Return the JSON document of a run.

    ``facts`` are plain JSON values. ``run``, ``scenario``, ``backend``, ``platform`` (a mapping with ``name``) and
    ``hosts`` are required; the document contains all others unchanged. ``cells`` has one entry per cell over its
    repetitions. Raises ResultsError naming a missing fact.
    """
    missing = [name for name in RUN_FACTS if name not in facts]
    if missing:
        raise ResultsError(f"a run's document needs {', '.join(missing)}")
    return {
        **facts,
        "results": [asdict(result) for result in results],
        "cells": _cell_documents(results),
        "criteria": [asdict(criterion) for criterion in criteria],
        "search": asdict(search) if search is not None else None,
        "verdict": verdict,
    }


def _cell_documents(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Summarise every cell over its repetitions: median objects/s and its 95% interval (null for one repetition)."""
    return [
        {
            **key.document,
            "repetitions": cell.estimate.repetitions,
            **amounts(cell.results)._asdict(),
            "objects_per_second": {
                "median": cell.estimate.median,
                "low": cell.estimate.low,
                "high": cell.estimate.high,
            },
            "grade": cell.grade,
            "doubts": list(cell.doubts),
        }
        for key, cell in all_cells(results).items()
    ]
