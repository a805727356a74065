"""The JSON of a comparison: the output of ``archiver compare --json`` and the contents of comparison.json.

It contains every number of the tables without rounding, under a name with its unit. As everywhere, fields may be added
but never renamed, and null means that there is no value.

The keys are ``platforms``, ``cells`` (each with ``rates`` of every platform, ``ratios`` of objects/s and ``latencies``,
lists of ratios by measure), ``overall`` and ``fail_if``. A ratio is a further platform over the first. ``low`` and
``high`` bound its 95% interval, corrected over all cells as the verdicts are. ``p`` is of the paired t test, and
``adjusted_p`` over all cells. ``verdict`` is better, worse, no difference shown or no verdict (then
``no_verdict_because`` has the reason). ``detectable_percent`` is the smallest true difference that the test would have
found with a probability of ``power_percent``; ``needed_repetitions`` find ``needed_for_difference_percent`` with that
probability. ``forced`` lists the reasons against a comparison that ``--force`` overrode.

``workloads`` are workloads that ran at the same time, their copies (tiles) added up. Each has ``phase``, ``scale``,
``workload``, ``operation`` (null: all operations), ``clients`` of each copy (null: one number of them, or the best of
several), ``told_by`` (the measure that the tables show), ``measured`` on every platform, and ``ratios``, lists by
measure. The workload "all workloads" is the sum of all, with the operations steady, peak and, for tiles, score.
``overall`` is over cells (``of``) or, if there are none, over workloads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from results.comparison.compare import ComparedUnit, Comparison, Overall, Side
from results.comparison.gate import Judgement
from results.comparison.power import POWER, REPETITIONS_MAX
from results.comparison.ratios import VERDICTS, WORTH_SHOWING_SHARE, Ratio
from results.measures.metrics import CELL_LATENCIES, CELL_MEASURES, MEASURES, RATE, amounts
from results.measures.statistics import FALSE_DISCOVERY_RATE
from results.measures.units import Unit


def comparison_document(comparison: Comparison, judgements: Sequence[Judgement] = ()) -> dict[str, Any]:
    """Return plain JSON values. Rates and latencies are medians over repetitions; ratios are other / first."""
    labels = [side.label for side in comparison.sides]
    return {
        "first": labels[0],
        "interleaved": comparison.interleaved,
        "forced": list(comparison.forced),
        "confidence_percent": 95,
        "false_discovery_rate": FALSE_DISCOVERY_RATE,
        "power_percent": round(POWER * 100),
        "platforms": [_side_document(side) for side in comparison.sides],
        "cells": [_cell_document(cell, labels) for cell in comparison.cells],
        "workloads": [_unit_document(unit, labels) for unit in comparison.workloads],
        "overall": [
            _overall_document(label, overall) for label, overall in zip(labels[1:], comparison.overall, strict=True)
        ],
        "fail_if": [_judgement_document(judgement) for judgement in judgements],
    }


def _cell_document(cell: ComparedUnit, labels: Sequence[str]) -> dict[str, Any]:
    ratios = {measure.name: _ratio_documents(cell.ratios[measure.name], labels) for measure in CELL_MEASURES}
    return {
        **cell.key.document,
        "rates": [
            _rate_document(label, measured)
            for label, measured in zip(labels, cell.measured, strict=True)
            if measured is not None
        ],
        "ratios": ratios.pop(RATE.name),
        "latencies": ratios,
    }


def _unit_document(unit: ComparedUnit, labels: Sequence[str]) -> dict[str, Any]:
    return {
        **unit.key.document,
        "told_by": unit.main_measure.name,
        "measured": [
            _measured_document(label, measured)
            for label, measured in zip(labels, unit.measured, strict=True)
            if measured is not None
        ],
        "ratios": {name: _ratio_documents(ratios, labels) for name, ratios in unit.ratios.items()},
    }


def _measured_document(label: str, unit: Unit) -> dict[str, Any]:
    return {
        "platform": label,
        **{measure.name: value for measure in MEASURES if (value := unit.median(measure)) is not None},
        "errors": unit.errors,
        "repetitions": len(unit.samples),
        **amounts(unit.results)._asdict(),
    }


def _ratio_documents(ratios: Sequence[Ratio | None], labels: Sequence[str]) -> list[dict[str, Any]]:
    return [_ratio_document(label, ratio) for label, ratio in zip(labels[1:], ratios, strict=True) if ratio is not None]


def _overall_document(label: str, overall: Overall) -> dict[str, Any]:
    return {
        **_ratio_document(label, overall.ratio),
        "of": f"{overall.of}s",
        "cells": overall.cells,
        "cells_in_common": overall.cells_in_common,
        **{verdict.replace(" ", "_"): overall.verdicts[verdict] for verdict in VERDICTS},
        "marks": list(overall.marks),
        "forced": list(overall.forced),
        "latencies": {name: _ratio_document(label, ratio) for name, ratio in overall.latencies.items()},
    }


def _side_document(side: Side) -> dict[str, Any]:
    platform = side.runs[0].row.platform
    return {
        "label": side.label,
        "platform": platform.name,
        "protocol": platform.protocol,
        "version": platform.version,
        "durability": platform.durability,
        "shared_host": side.runs[0].row.shared_host,
        "repetitions": side.repetitions,
        "disclosure": None if side.disclosure is None else side.disclosure.document,
        "runs": [{"run": run.id, "comparison": run.row.comparison, "doubts": list(run.doubts)} for run in side.runs],
    }


def _rate_document(label: str, cell: Unit) -> dict[str, Any]:
    return {
        "platform": label,
        "objects_per_second": cell.objects_per_second,
        "megabytes_per_second": cell.megabytes_per_second,
        **{measure.name: cell.median(measure) for measure in CELL_LATENCIES},
        "errors": cell.errors,
        "repetitions": len(cell.samples),
        **amounts(cell.results)._asdict(),
        "notes": list(cell.doubts),
    }


def _ratio_document(label: str, ratio: Ratio) -> dict[str, Any]:
    needed = ratio.needed
    return {
        "platform": label,
        "ratio": ratio.ratio,
        "low": ratio.low,
        "high": ratio.high,
        "p": ratio.p,
        "adjusted_p": ratio.adjusted_p,
        "verdict": ratio.verdict,
        "no_verdict_because": ratio.because or None,
        "pairs": ratio.pairs,
        "needed_repetitions": needed.repetitions if needed else None,
        "needed_repetitions_more_than": REPETITIONS_MAX if needed and needed.repetitions is None else None,
        "needed_for_difference_percent": WORTH_SHOWING_SHARE * 100 if needed else None,
        "detectable_percent": ratio.detectable_percent,
        "notes": list(ratio.notes),
    }


def _judgement_document(judgement: Judgement) -> dict[str, Any]:
    return {
        "condition": judgement.condition.text,
        "platform": judgement.platform,
        **judgement.key.document,
        "quantity": judgement.condition.quantity,
        "value": judgement.value,
        "low": judgement.low,
        "high": judgement.high,
        "fails": judgement.fails,
        "notes": list(judgement.notes),
    }
