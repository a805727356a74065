"""Output of a run's database, for people and for programs. The commands `run` and `report` use it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import click

from archiver.ledger.holdings import until_words
from archiver.ledger.ledger import Ledger
from archiver.machine.home import ledger_path
from archiver.values.sizes import format_bytes
from results.document.table import Table
from results.document.text import render_text
from results.measures.doubts import doubts
from results.measures.watched import watched
from results.mixed.replay.contents import REPORT_TABLES
from results.mixed.workloads import lone_rates_table
from results.recorded.model import Result
from results.recorded.run import RecordedRun
from results.report.configuration import facts
from results.report.mixed_contents import COURSE_TABLES, mixed_run, mixed_tables
from results.report.summary import summary, summary_lines
from results.tables.rates import CELLS, build_tables
from results.tables.workers import worker_tables

# Tables of cells that a command prints unless others are asked for. All others are in the report.
_CELL_TABLES = (CELLS, "lock-cost", "life-cycle", "errors")
_LONG_TABLES = (*COURSE_TABLES, *REPORT_TABLES)  # of simultaneous workloads, not printed unless asked for
_WIDTH = 118  # of the summary
_COMPARED_WIDTH = 120  # of what is said about several platforms


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
