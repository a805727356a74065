"""The documents of an audit bundle besides the results: environment, traces, prices, and the report's text.

Each document is computed from the run's database and from the files given for the bundle. A recipient recomputes and
compares them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from archiver.values import version
from results.bundle.audit import TRACES
from results.mixed.replay.price import priced
from results.mixed.replay.trials import ReplayedRun
from results.prices.disclosure import disclosed
from results.prices.prices import parts_bill, read_prices
from results.recorded.database import VERSION
from results.recorded.model import Replayed, Result
from results.recorded.run import RecordedRun
from results.report.documents import report_texts
from results.report.mixed_contents import WorkloadsShown

PRICES = "prices.toml"
SUPPORT_YEARS = 3  # also the default of a report's price

_OF_THE_RUN = (
    "id", "started_at", "ended_at", "verdict", "command_line", "backend", "platform", "settings", "location", "host",
    "workers", "worker_cores", "shared_host", "order_seed", "sweep_order", "repetitions", "content_seed",
    "content_kind", "objects_from",
)  # fmt: skip


def environment_document(recorded: RecordedRun) -> dict[str, Any]:
    """Return environment.json: tools, platform and settings of the measurement, and the bundle's Archiver version."""
    run = recorded.run
    stored, disclosure = asdict(run), disclosed(run)
    return {
        "bundle_made_by": {"archiver": version.VERSION, "database_version": VERSION},
        "run": {name: stored[name] for name in _OF_THE_RUN} | {"shared_host": int(run.shared_host)},
        "disclosure": None if disclosure is None else disclosure.document,
        "scenario": json.loads(run.scenario_json),
    }


def traces_document(recorded: RecordedRun, given: Mapping[str, str]) -> dict[str, Any]:
    """Return traces.json: every replayed trace, once.

    ``given`` maps the name in the bundle to the SHA-256 of the included traces. A trace from a model has the model as
    the scenario writes it, with its seed. Anyone with both can make the trace again.
    """
    scenario = json.loads(recorded.run.scenario_json)
    files = {sha256: name for name, sha256 in given.items()}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for result in recorded.results:
        if result.replayed is not None:
            trace = result.replayed
            entry = found.setdefault(
                (trace.trace, trace.sha256),
                {
                    **_said_of(trace),
                    "model": _model_of(result, scenario),
                    "file": files.get(trace.sha256),
                    "replays": 0,
                },
            )
            entry["replays"] += 1
    return {"traces": list(found.values())}


def replayed_traces(recorded: RecordedRun) -> frozenset[str]:
    """Return the SHA-256 of every trace that a result of the run replayed."""
    return frozenset(result.replayed.sha256 for result in recorded.results if result.replayed is not None)


def prices_document(path: Path, replay: ReplayedRun | None) -> dict[str, Any]:
    """Return prices.json: the cost of the parts in a price file, also per application if sets of them were replayed.

    Raises UsageError for a price file without parts.
    """
    prices = read_prices(path)
    total = parts_bill(prices, SUPPORT_YEARS)
    cost = priced(replay, prices, SUPPORT_YEARS).cost if replay is not None and replay.has_sets else None
    return {
        "file": PRICES,
        "support_years": SUPPORT_YEARS,
        "currency": total.currency,
        "lines": [asdict(line) for line in total.lines],
        "total": total.total,
        "per_unit": {each.unit: each.price.value for each in cost.units} if cost is not None else {},
    }


def report_files(recorded: RecordedRun, mixed: WorkloadsShown | None) -> dict[str, str]:
    """Return report/report.md and report/tables/*.csv."""
    return {f"report/{name}": text for name, text in report_texts(recorded, mixed).items()}


def trace_name(sha256: str) -> str:
    """Return the name of a trace in the bundle. It omits the file's original name, which cannot be confirmed."""
    return f"{TRACES}{sha256}.parquet"


def _said_of(trace: Replayed) -> dict[str, Any]:
    return {
        "trace": trace.trace,
        "origin": trace.origin,
        "sha256": trace.sha256,
        "anonymised": trace.anonymised,
        "operations": trace.operations,
        "streams": trace.streams,
        "seconds": trace.trace_seconds,
        "left_out": dict(trace.left_out),
    }


def _model_of(result: Result, scenario: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the model that made a result's trace, as the scenario writes it. Returns None if its trace is a file."""
    for phase in _tables(scenario.get("phase")):
        for replay in _tables(phase.get("replay")):
            if (phase.get("name"), replay.get("name")) == (result.phase, result.application) and "model" in replay:
                return {
                    "parameters": replay["model"],
                    "seed": phase.get("model_seed", 0),
                    "seconds": phase.get("seconds"),
                    "capacity": replay.get("capacity"),
                    "capacity_scale": phase.get("capacity_scale", 1.0),
                }
    return None


def _tables(value: Any) -> Sequence[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else ()
