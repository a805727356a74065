"""The contents of a run that replayed traces: tables in the order of an IOmark test report, and a summary.

The terminal shows the short tables. The evidence (hashes, single sets, method) is in the report and its CSV files.
"""

from __future__ import annotations

from typing import Any

from results.document.table import Table
from results.mixed.replay.detail_tables import (
    applications_table,
    configuration_table,
    identifiers_table,
    method_table,
    published_table,
    sets_table,
    trace_facts_table,
    traces_table,
)
from results.mixed.replay.price import price_tables
from results.mixed.replay.result_tables import infrastructure_table, passing_table, phases_table, summary_table
from results.mixed.replay.trials import READS, WRITES, ReplayedRun, mean_ms
from results.mixed.replay.verdicts import capacity_mark

FIGURE_TABLES = {"figure-15-response-share": "replay-applications"}  # the table with the numbers of each figure
REPORT_TABLES = (  # tables that the terminal does not show
    "replay-identifiers", "replay-traces", "replay-configuration", "replay-trace-facts", "replay-sets",
    "replay-published",
    "replay-method",
)  # fmt: skip
SECTIONS = (  # sections of a report: name, title, tables
    ("replay", "Replay: what was tested, and the result",
     ("replay-identifiers", "replay-traces", "replay-summary", "replay-phases")),
    ("replay-passed", "Replay: passing detail", ("replay-passing",)),
    ("replay-connected", "Replay: configuration and connectivity", ("replay-configuration", "replay-trace-facts")),
    ("replay-priced", "Replay: priced configuration", ("prices", "price-per-unit")),
    ("replay-detail", "Replay: detailed results",
     ("replay-applications", "replay-infrastructure", "replay-sets", "replay-published")),
    ("replay-how", "Replay: method", ("replay-method",)),
)  # fmt: skip


def replay_tables(run: ReplayedRun) -> list[Table]:
    """Return every table for which the run has data, in the order of the report."""
    tables = [
        identifiers_table(run),
        traces_table(run),
        summary_table(run),
        phases_table(run),
        passing_table(run),
        configuration_table(run),
        trace_facts_table(run),
        *price_tables(run),
        applications_table(run),
        infrastructure_table(run),
        sets_table(run),
        *([published_table()] if run.has_sets else []),
        method_table(run),
    ]
    return [table for table in tables if table.rows]


def replay_document(run: ReplayedRun) -> dict[str, Any]:
    """Return a summary of the result for programs, with the contents of a test report's summary.

    Null means not measured.
    """
    trial = run.result
    share = trial.responses.share_within(trial.limit_ms)
    return {
        "position": trial.position,
        "sets": trial.sets,
        "applications": trial.application_count,
        "verdict": trial.verdict,
        "void": list(trial.void),
        "capacity_ratio_held": not capacity_mark(trial.results),
        "mean_ms": mean_ms(trial.results),
        "read_mean_ms": mean_ms(trial.results, READS),
        "write_mean_ms": mean_ms(trial.results, WRITES),
        "limit_ms": trial.limit_ms,
        "share_within_limit": share,
        "trace_seconds": trial.nearest.trace_seconds,
        "replay_seconds": trial.nearest.replay_seconds,
        "allowed_seconds": trial.nearest.allowed_seconds,
        "infrastructure_per_hour": {each.kind: each.per_hour for each in trial.infrastructure},
    }
