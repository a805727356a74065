"""The JSON that other programs read: ``archiver run --json`` and ``results.json``.

The fields of Result are the contract. A document contains the same fields under the same names, nested in the same way.
Fields may be added but never renamed. A reader ignores fields that it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from typing import Any, Literal, TypeVar

from archiver.values.errors import ResultsError
from results.measures import amounts
from results.model import (
    Ceiling,
    CheckFinding,
    CheckRecord,
    ClientUsage,
    CriterionResult,
    DiskUsage,
    FirstError,
    InfrastructureResult,
    Latency,
    LinkUsage,
    Offered,
    PartResult,
    Replayed,
    Result,
    SearchOutcome,
    ServerUsage,
    Utilisation,
)
from results.units import all_cells

Verdict = Literal["pass", "fail", "void", "none"]
RUN_FACTS = ("run", "scenario", "backend", "platform", "hosts")

_Value = TypeVar(
    "_Value", Latency, ServerUsage, ClientUsage, FirstError, Result, DiskUsage, LinkUsage, Utilisation, PartResult,
    Offered, Ceiling, Replayed, InfrastructureResult,
)  # fmt: skip
_KINDS = (
    Latency, ServerUsage, ClientUsage, FirstError, Result, DiskUsage, LinkUsage, Utilisation, PartResult, Offered,
    Ceiling, Replayed, InfrastructureResult,
)  # fmt: skip

# The fields of each value, and whether a document must have them. They are cached because every value of every result
# needs them.
_KNOWN: Mapping[type, Mapping[str, bool]] = {
    kind: {each.name: each.default is MISSING and each.default_factory is MISSING for each in fields(kind)}
    for kind in _KINDS
}


def result_document(result: Result) -> dict[str, Any]:
    """Return one entry of ``results``. Every key names its unit; null means not measured."""
    return asdict(result)


def result_from_document(document: Mapping[str, Any]) -> Result:
    """Return the Result of one entry of ``results``. Raises ResultsError naming a missing key."""
    nested: dict[str, Any] = {
        "server": _server_usage(document.get("server")),
        "client": _client_usage(document.get("client")),
        "utilisations": _values(Utilisation, document, "utilisations"),
        "first_errors": _values(FirstError, document, "first_errors"),
        "parts": tuple(_part(part) for part in document.get("parts", ())),
        "offered": _offered(document.get("offered")),
        "ceiling": _value(Ceiling, document.get("ceiling")),
        "replayed": _replayed(document.get("replayed")),
        "infrastructure": _infrastructure(document.get("infrastructure")),
    }
    nested |= _latencies(Result, document)
    result = _value(Result, {**document, **nested})
    if result is None or result.client is None:
        raise ResultsError("a result has no 'client'; it is not a results document of Archiver, or it is damaged")
    return result


def _latencies(kind: type, document: Mapping[str, Any]) -> dict[str, Latency | None]:
    names = [field.name for field in fields(kind) if field.name.endswith("_ms")]
    return {name: _value(Latency, document.get(name)) for name in names}


def _part(document: Mapping[str, Any]) -> PartResult:
    part = _value(PartResult, {**document, **_latencies(PartResult, document)})
    assert part is not None
    return part


def _offered(document: Mapping[str, Any] | None) -> Offered | None:
    return None if document is None else _value(Offered, {**document, **_latencies(Offered, document)})


def _replayed(document: Mapping[str, Any] | None) -> Replayed | None:
    if document is None:
        return None
    left_out = tuple((why, count) for why, count in document.get("left_out", ()))
    lateness = _value(Latency, document.get("lateness_ms"))
    return _value(Replayed, {**document, "left_out": left_out, "lateness_ms": lateness})


def _infrastructure(document: Mapping[str, Any] | None) -> InfrastructureResult | None:
    return (
        None
        if document is None
        else _value(InfrastructureResult, {**document, "findings": tuple(document.get("findings", ()))})
    )


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
        "results": [result_document(result) for result in results],
        "cells": _cell_documents(results),
        "criteria": [asdict(criterion) for criterion in criteria],
        "search": asdict(search) if search is not None else None,
        "verdict": verdict,
    }


def check_from_document(document: Mapping[str, Any]) -> CheckRecord:
    """Return the record of a check from its document. Raises ResultsError naming a missing key."""
    missing = [each.name for each in fields(CheckRecord) if each.default is MISSING and each.name not in document]
    if missing:
        raise ResultsError(f"a check has no {', '.join(missing)}; the database is damaged or not Archiver's")
    values = {each.name: document[each.name] for each in fields(CheckRecord) if each.name in document}
    findings = tuple(CheckFinding(each["words"], each["exchanges"]) for each in document.get("findings", ()))
    return CheckRecord(**{**values, "rules": tuple(document["rules"]), "findings": findings})


def json_text(document: Mapping[str, Any]) -> str:
    """Return a run document as text, for printing and saving.

    A NaN is a programming error, because JSON cannot express it.
    """
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


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


def _server_usage(document: Mapping[str, Any] | None) -> ServerUsage | None:
    if document is None:
        return None
    nested = {"disks": _values(DiskUsage, document, "disks"), "links": _values(LinkUsage, document, "links")}
    return _value(ServerUsage, {**document, **nested})


def _client_usage(document: Mapping[str, Any] | None) -> ClientUsage | None:
    if document is None:
        return None
    return _value(ClientUsage, {**document, "links": _values(LinkUsage, document, "links")})


def _values(kind: type[_Value], document: Mapping[str, Any], name: str) -> tuple[_Value | None, ...]:
    return tuple(_value(kind, entry) for entry in document.get(name, ()))


def _value(kind: type[_Value], document: Mapping[str, Any] | None) -> _Value | None:
    if document is None:
        return None
    known = _KNOWN[kind]
    missing = [name for name, required in known.items() if required and name not in document]
    if missing:
        raise ResultsError(f"{kind.__name__}: {', '.join(missing)} missing; the document is damaged or not Archiver's")
    return kind(**{name: value for name, value in document.items() if name in known})
