"""Output of a run's database, for people and for programs. The commands `run` and `report` use it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from archiver.ledger.holdings import until_words
from archiver.ledger.ledger import Ledger
from archiver.machine.home import ledger_path
from archiver.values.sizes import format_bytes, format_duration, format_instant
from results.document.files import json_text
from results.document.table import TLS_WORDS, Table
from results.document.text import render_text
from results.measures.doubts import ages, doubts, drifts, origin, resumed
from results.measures.requests import request_counts
from results.measures.watched import watched
from results.mixed.replay.contents import REPORT_TABLES, replay_document
from results.mixed.replay.trials import replay_run
from results.mixed.replay.verdicts import run_verdict
from results.mixed.workloads import lone_rates_table
from results.prices.disclosure import disclosed
from results.recorded.database import StoredRun
from results.recorded.model import Result
from results.recorded.run import RecordedRun
from results.report.contract import Verdict, run_document
from results.report.mixed_contents import COURSE_TABLES, mixed_run, mixed_tables
from results.report.summary import summary, summary_lines
from results.tables.rates import CELLS, build_tables
from results.tables.workers import worker_documents, worker_tables

# Tables of cells that a command prints unless others are asked for. All others are in the report.
_CELL_TABLES = (CELLS, "lock-cost", "life-cycle", "errors")
_LONG_TABLES = (*COURSE_TABLES, *REPORT_TABLES)  # of simultaneous workloads, not printed unless asked for
_WIDTH = 118  # of the summary
_COMPARED_WIDTH = 120  # of what is said about several platforms


def document(recorded: RecordedRun) -> dict[str, Any]:
    """Return the published JSON document of a run."""
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
    return run_document(facts, results, recorded.criteria, verdict, recorded.search)


def _hosts(run: StoredRun) -> list[dict[str, Any]]:
    """Return the coordinator's host first, then the workers' other hosts."""
    cluster = run.settings.get("dask")
    others = cluster["hosts"] if cluster is not None else []
    return [run.host, *(host for host in others if host["host"] != run.host["host"])]


def run_json(recorded: RecordedRun) -> str:
    return json_text(document(recorded))


def facts(recorded: RecordedRun) -> dict[str, str]:
    """Return the facts at the beginning of a report: label and text, in order."""
    run = recorded.run
    settings, host, platform = run.settings, run.host, run.platform
    lock = "none"
    earlier = run.objects_from
    if earlier is not None:
        lock = f"nothing was locked; the objects of run {earlier.run} were, {settings['retention_mode']}"
    elif settings["retention_mode"] == "CLASS":
        length = settings["retain_for_seconds"]
        lock = f"management class {settings['management_class']}, {format_duration(length)}"
    elif settings["retention_mode"] != "none":
        until = settings["retain_until"]
        how_long = (
            f"until {format_instant(until)}" if until else f"for {format_duration(settings['retain_for_seconds'])}"
        )
        lock = f"{settings['retention_mode']} {how_long}"
    if settings["legal_hold"] and earlier is None:
        lock += ", legal hold"
    if settings.get("event_hold_days") and earlier is None:
        lock += f", event hold and then {settings['event_hold_days']}d"
    if run.lock_verified:
        lock += f" (locks read back: {run.lock_verified})"
    results = recorded.results
    warm_up = sum(result.warm_up_objects for result in results)
    verdict = run_verdict(run.verdict, results, recorded.criteria)
    offset = platform.server_clock_offset_seconds
    has_sweeps = "sweep" in json.loads(run.scenario_json)  # only their cells have an order of their own
    order = f", order {run.sweep_order} (seed {run.order_seed})" if has_sweeps else ""
    return {
        **({"verdict": verdict} if verdict else {}),
        "run": run.id,
        "scenario": run.scenario_title + order,
        "started": "; ".join([format_instant(run.started_at), *resumed(recorded)]),
        **({"objects": origin(run.started_at, earlier)} if earlier is not None else {}),
        "platform": f"{platform.name} through {run.backend}"
        + (f", {', '.join(platform.endpoints)}" if platform.endpoints else "")
        + (", buckets named in the host" if platform.details.get("addressing") == "virtual" else ""),
        "durability": platform.durability,
        "TLS": TLS_WORDS[platform.tls],
        "watched": ", ".join(settings["watched"]) or "nothing: the platform is not on this machine",
        "server clock": "unknown" if offset is None else f"{offset:+.1f} s against this machine",
        "lock": lock,
        "session": f"{settings['session_kind']}, opening asks {settings['session_open']}{_transactions(settings)}",
        "checks": f"checksum {settings['checksum']}, retrieved objects verified: {settings['verify']}",
        "client": f"{host['processor']}, {host['cores']} cores, {format_bytes(host['memory_bytes'])} memory, "
        f"kernel {host['kernel']}, Python {host['python']}, {run.workers} worker(s)"
        + _on_cluster(settings)
        + (f" on core {', '.join(map(str, run.worker_cores))}" if run.worker_cores else "")
        + (", polling busily" if settings["poll"] == "busy" else ""),
        "warm-up": f"{warm_up:,} objects before the measured times, in no rate",
        "command": " ".join(run.command_line),
    }


def _on_cluster(settings: dict[str, Any]) -> str:
    cluster = settings.get("dask")
    if cluster is None:
        return ""
    hosts = len({each["host"] for each in cluster["workers"]})
    return f" of the Dask cluster at {cluster['scheduler']}, on {hosts} host(s)"


def _transactions(settings: dict[str, Any]) -> str:
    limit = settings.get("objects_per_transaction_max")
    return "" if limit is None else f"; up to {limit:,} objects commit together"


def print_sentence(sentence: str, *, err: bool = False) -> None:
    """Print a sentence about several platforms, on as many lines as it needs."""
    click.echo(textwrap.fill(sentence, _COMPARED_WIDTH, subsequent_indent="  ", break_on_hyphens=False), err=err)


def print_compared(table: Table) -> None:
    """Print a table about several platforms, after an empty line."""
    click.echo(f"\n{render_text(table, _COMPARED_WIDTH)}", nl=False)


def print_run(recorded: RecordedRun, tables: Sequence[str] = ()) -> None:
    """Print the summary of a run, its tables, and the objects left on the platform.

    ``tables`` are the names of the tables to print, "all" or "none". Empty: the most important.
    """
    run, known, results, warnings = recorded.run, facts(recorded), recorded.results, doubts(recorded)
    click.echo(f"run {run.id}: {known['scenario']}")
    click.echo(f"on {known['platform']}; lock {known['lock']}")
    click.echo()
    for line in summary_lines(summary(recorded, warnings), _WIDTH):
        click.echo(line)
    for table in _chosen(recorded, results, tables):
        click.echo()
        click.echo(render_text(table), nl=False)
    if "all" in tables:
        click.echo()
        for label, text in known.items():
            click.echo(f"{label:>13}  {text}")
        for doubt in warnings:
            click.echo(f"warning: {doubt}")
    click.echo()
    print_left_behind(run.id)
    click.echo(f"report: archiver report {run.id} --format html")


def _chosen(recorded: RecordedRun, results: Sequence[Result], names: Sequence[str]) -> list[Table]:
    """Return the tables to print."""
    if not results:
        return []
    of_cells = build_tables(results, watched(recorded))
    mixed = mixed_run(recorded)
    together = [lone_rates_table(mixed.results), *mixed_tables(mixed)] if mixed is not None else []
    together = [table for table in together if table.rows]
    every = [*of_cells, *together, *worker_tables(recorded)]
    shown = [
        *(table.name for table in of_cells if table.name in _CELL_TABLES),
        *(table.name for table in together if table.name not in _LONG_TABLES),
    ]
    return chosen(every, names or shown or ["none"])


def chosen(tables: Sequence[Table], names: Sequence[str]) -> list[Table]:
    """Return the tables with these names, of which "all" means every table and "none" no table.

    A name that no table has is named on standard error.
    """
    if "none" in names:
        return []
    if "all" in names:
        return list(tables)
    known = [table.name for table in tables]
    for missing in (name for name in names if name not in known):
        click.echo(f"archiver: --tables {missing}: there is no such table here; there are {', '.join(known)}", err=True)
    return [table for table in tables if table.name in names]


def print_left_behind(run_id: str, *, err: bool = False) -> None:
    """Print what this run left on its platform, from the ledger; ``err``: on standard error."""
    ledger = Ledger(ledger_path())
    placements = ledger.placements(run_id)
    event_held = sum(held for _, held in ledger.event_held(run_id))
    ledger.close()
    if not placements:
        return
    objects = sum(p.objects if p.objects is not None else p.objects_max for p in placements)
    size_bytes = sum(p.bytes if p.bytes is not None else p.bytes_max for p in placements)
    open_rows = any(p.objects is None for p in placements)
    locked = f", {until_words(placements, now=0.0) or 'not locked by date'}"
    held = ", under hold" if any(p.is_held for p in placements) else ""
    bound = "at most " if open_rows else ""
    click.echo(
        f"left on the platform: {bound}{objects:,} objects, {format_bytes(size_bytes)} in "
        f"{placements[0].bucket}/{placements[0].prefix}{locked}{held}",
        err=err,
    )
    click.echo(f"remove them: archiver cleanup {run_id}", err=err)
    if event_held:
        click.echo(
            f"{event_held:,} of them are under event holds, or may be, without an end until these are released: "
            f"archiver cleanup {run_id} --release-holds",
            err=err,
        )
