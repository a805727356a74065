"""The JSON that other programs read: ``archiver run --json`` and ``results.json``.

The fields of Result are the contract. A document contains the same fields under the same names, nested in the same way.
Fields may be added but never renamed. A reader ignores fields that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from archiver.values.errors import ResultsError
from results.measures.metrics import amounts
from results.measures.units import all_cells
from results.recorded.model import CriterionResult, Result, SearchOutcome

Verdict = Literal["pass", "fail", "void", "none"]
RUN_FACTS = ("run", "scenario", "backend", "platform", "hosts")


def run_document(
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
            "doubts": list(cell.doubts),
        }
        for key, cell in all_cells(results).items()
    ]
