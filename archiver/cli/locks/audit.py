"""``archiver audit``: read the objects of a run again, and compare them with the request."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from archiver.cli.completion import run_names
from archiver.cli.live.console import console
from archiver.cli.locks.recorded_platform import recorded_platform_options
from archiver.engine.audit import AuditOptions, AuditRecord, audit_run, subject
from archiver.engine.workers.processes import WorkerProcesses
from archiver.ledger.holdings import Holding
from archiver.ledger.ledger import Ledger
from archiver.ledger.removal import is_under_way, reaching, results_of
from archiver.machine.cores import cores_here
from archiver.machine.home import ledger_path
from archiver.platforms.opening import PlatformOptions, open_backend
from archiver.values.errors import ResultsError, UsageError
from archiver.values.sizes import format_bytes
from results.document.files import json_text
from results.recorded.database import ObjectChange, RunDatabase

NAMED_MAX = 20  # of each kind of finding; the JSON document and the run's database have the others


@click.command()
@click.argument("run", shell_complete=run_names)
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    metavar="N",
    help="Read only N objects, drawn at random, and print what that proves  [default: all]",
)
@click.option(
    "--clients", type=click.IntRange(1, 256), default=4, show_default=True, help="Clients that read in parallel."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with every finding.")
@recorded_platform_options
def audit(run: str, sample: int | None, clients: int, as_json: bool, platform: PlatformOptions) -> None:
    """Check that the objects and locks of RUN are as archived.

    Reads the objects again, compares every byte and every lock with what the run archived, and names each difference.
    RUN is a run id, or `latest` for the latest run that left something. The ledger has the expected objects, so the
    run's folder may be gone. If it exists, the audit is recorded in it, and `archiver report` shows it. Dates are
    compared with the bounds that the ledger has for each phase.

    \b
    Example:
        archiver audit latest --sample 100

    Exit status: 0 everything is as archived; 1 something is not, and is named; 3 the platform could not be reached;
    130, 143 or 129 interrupted by Ctrl-C, SIGTERM or SIGHUP, and nothing is recorded.
    """
    options = replace(platform, s3=replace(platform.s3, session_open="connect", keep_sessions_open=True))
    with closing(Ledger(ledger_path())) as ledger:
        if run == "latest":
            run = ledger.latest_run() or run
        holding = subject(ledger, run)
        if is_under_way(run, ledger):
            raise UsageError(f"{run}: is under way; let it end, or stop it, before what it archived is audited")
        results = results_of(run, ledger)
        record = _read(holding, ledger, options, AuditOptions(clients, sample, _changes(results)))
    recorded = _record(record, results)
    if as_json:
        click.echo(json_text(record.document()), nl=False)
    else:
        _print(record)
        click.echo(recorded)
    sys.exit(3 if record.broken_off is not None else 0 if record.is_good else 1)


def _read(holding: Holding, ledger: Ledger, options: PlatformOptions, chosen: AuditOptions) -> AuditRecord:
    first = holding.first
    with open_backend(first.backend, first.platform, reaching(holding, options)) as (backend, hosted):
        usable = len(cores_here(shares_host=hosted is not None).workers)
        workers = WorkerProcesses(min(usable, chosen.clients), ())
        try:
            with _bar() as progress:
                return audit_run(holding, ledger, backend, workers, chosen, progress)
        finally:
            workers.close()


def _changes(results: Path) -> list[ObjectChange]:
    """Return the objects that the run itself held, released and deleted; empty if its results are missing."""
    try:
        database = RunDatabase.open(results)
    except ResultsError:
        return []
    try:
        return database.changes()
    finally:
        database.close()


def _record(record: AuditRecord, results: Path) -> str:
    """Store the record in the run's database, and return a message about that."""
    if not results.exists():
        return (
            f"the folder of run {record.run} no longer exists, so this audit is not recorded; --json prints all of it"
        )
    try:
        database = RunDatabase.reopen(results)
        try:
            database.add_audit(record.document())
        finally:
            database.close()
    except ResultsError as error:
        return f"this could not be recorded: {error}"
    return f"recorded with the run: archiver report {record.run}"


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """Yield a callback that shows a live line on a terminal, and nothing elsewhere."""
    bar = RichProgress(
        TextColumn("audit"),
        TextColumn("{task.fields[rate]:>16}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("objects,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console(),
        transient=True,
        redirect_stderr=False,  # its replacement carries out escape sequences
        disable=not sys.stderr.isatty(),
    )
    since = time.monotonic()
    with bar:
        task = bar.add_task("audit", rate="")

        def show(done: int, total: int) -> None:
            rate = done / (time.monotonic() - since)
            bar.update(task, completed=done, total=total, rate=f"{rate:,.0f} objects/s")

        yield show


def _print(record: AuditRecord) -> None:
    which = "all" if record.sample_seed is None else f"a random sample of the {record.population_objects:,}"
    click.echo(
        f"{record.run}: read {record.objects:,} objects ({which}), {format_bytes(record.bytes)}, in "
        f"{record.seconds:,.1f} s: {record.objects_per_second:,.0f} objects/s"
    )
    if not record.findings:
        what = "every byte and every lock" if record.locks_compared else "every byte"
        click.echo(f"{what} that was read is as archived")
    for kind, group in groupby(record.findings, lambda finding: finding.kind):
        found = list(group)
        click.echo(f"{len(found):,} {kind}, {format_bytes(sum(finding.bytes for finding in found))}:")
        for finding in found[:NAMED_MAX]:
            whose = "" if finding.acknowledged else ", never acknowledged"
            click.echo(f"  {finding.name} ({finding.phase}{whose}): {finding.words}")
        if len(found) > NAMED_MAX:
            click.echo(f"  and {len(found) - NAMED_MAX:,} more; --json names all")
    for passed_over in record.passed_over:
        click.echo(f"not audited: up to {passed_over.objects_max:,} of {passed_over.phase}: {passed_over.why}")
    for remark in record.remarks:
        click.echo(remark)
    if record.broken_off is not None:
        click.echo(f"stopped: {record.broken_off}; the rest was not read")
    for bound in record.bounds:
        click.echo(
            f"with {bound.confidence_percent:g}% confidence at most {bound.bad_objects_max:,} of "
            f"{record.population_objects:,} objects ({bound.bad_percent_max:.3g}%) are bad"
        )
