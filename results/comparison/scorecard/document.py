"""The JSON of a scorecard: the output of ``archiver scorecard --json``. Null means that there is no value."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from results.comparison.conformance import ConformanceRun
from results.comparison.scorecard.cards import Card, Point, Scorecard
from results.comparison.scorecard.tables import (
    client_cpu_ms,
    failures_by_severity,
    latency_of,
    server_cpu_ms,
    syncs_per_object,
    write_amplification,
)
from results.comparison.scorecard.verdicts import (
    answers,
    conditions,
    kill_words,
    missing_parts,
    worst_finding,
)
from results.measures.units import Unit
from results.report.numbers import lock_cost_percent
from results.tables.lock_cost import VariantCost
from results.worm.findings import DISCLAIMER, REQUIREMENTS


def scorecard_document(scorecard: Scorecard) -> dict[str, Any]:
    """Return plain JSON values. Rates are medians over repetitions."""
    return {
        "verdict": answers(scorecard),
        "conditions": conditions(scorecard),
        "differences": list(scorecard.differences),
        "disclaimer": DISCLAIMER,
        "interleaved": scorecard.is_interleaved,
        "platforms": [_card(card) for card in scorecard.cards],
        "missing": [part._asdict() for part in missing_parts(scorecard)],
    }


def _card(card: Card) -> dict[str, Any]:
    disclosure = card.side.disclosure if card.side is not None else None
    return {
        "label": card.label,
        "platform": card.profile.name,
        "version": card.profile.version,
        "protocol": card.profile.protocol,
        "runs": [row.id for row in card.rows],
        "conformance": None if card.conformance is None else _conformance(card.conformance),
        "points": [_point(card, point, unit) for point, unit in card.points.items()],
        "lock_costs": [_lock_cost(cost) for cost in card.lock_costs],
        "durability": card.profile.durability,
        "syncs_per_object": syncs_per_object(card),
        "after_kill": kill_words(card) or None,
        "list_price": disclosure.list_price if disclosure is not None else None,
        "currency": disclosure.currency if disclosure is not None else None,
    }


def _conformance(run: ConformanceRun) -> dict[str, Any]:
    worst = worst_finding(run.checks)
    return {
        "run": run.id,
        "verdicts": dict(Counter(check.verdict for check in run.checks)),
        "violations": run.violations,
        "failed_by_severity": dict(failures_by_severity(run.checks)),
        "by_requirement": {
            paragraph: dict(Counter(check.verdict for check in run.checks if rule in check.rules))
            for rule, (paragraph, _) in REQUIREMENTS.items()
        },
        "worst": None if worst is None else asdict(worst),
    }


def _point(card: Card, point: Point, unit: Unit) -> dict[str, Any]:
    latency, bounds = latency_of(card, unit), unit.rate_interval
    return {
        **point._asdict(),
        "objects_per_session": unit.key.objects_per_session,
        "objects_per_second": unit.objects_per_second,
        "low": bounds[0] if bounds is not None else None,
        "high": bounds[1] if bounds is not None else None,
        "megabytes_per_second": unit.megabytes_per_second,
        "object_service_ms": None if latency is None else asdict(latency),
        "server_cpu_ms_per_object": server_cpu_ms(unit),
        "client_cpu_ms_per_object": client_cpu_ms(unit),
        "write_amplification": write_amplification(unit),
        "errors": unit.errors,
        "repetitions": len(unit.samples),
        "grade": unit.grade,
        "notes": list(unit.cautions),
    }


def _lock_cost(cost: VariantCost) -> dict[str, Any]:
    key, ratio = cost.cell.key, cost.rate
    assert ratio is not None, "a baseline has no cost"
    return {
        "lock": cost.name,
        "object_bytes": key.object_bytes,
        "objects_per_session": key.objects_per_session,
        "clients": key.clients,
        "cost_percent": lock_cost_percent(cost)[0],
        "low": None if ratio.high is None else (1 - ratio.high) * 100,
        "high": None if ratio.low is None else (1 - ratio.low) * 100,
    }
