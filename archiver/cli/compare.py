"""``archiver compare``: put platforms side by side, with what chance alone would do."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import click

from archiver.home import find_run
from results.comparison import Comparison, MeasuredRun, compare_runs, comparison_document
from results.comparison_tables import comparison_tables, doubt_sentences, overall_sentences
from results.contract import json_text
from results.database import RunDatabase
from results.text import render_text

_WIDTH = 120


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for the tables and a figure.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as one JSON document.")
def compare(runs: Sequence[str], out: Path | None, as_json: bool) -> None:
    """Compare the platforms of two or more runs, cell by cell and over all cells; ratios are to the first.

    RUN is a run's id, its folder, its database, or `latest`. Several runs of one platform count together; runs that
    are all of one platform are compared with each other.

    \b
    Example:
        archiver compare 20261121t120329-222b78 latest --out comparison
    """
    databases = [RunDatabase.open(find_run(run)) for run in runs]
    show(comparison_of(databases), out, as_json=as_json)


def comparison_of(databases: Sequence[RunDatabase]) -> Comparison:
    """The comparison of these runs. Raises ResultsError where they do not compare."""
    return compare_runs([MeasuredRun.read(database) for database in databases])


def show(comparison: Comparison, out: Path | None = None, *, as_json: bool = False) -> None:
    """Print a comparison, and write its documents where a folder is given."""
    paths = []
    if out is not None:
        from results.comparison_documents import write_comparison  # brings matplotlib: only where something is drawn

        paths = write_comparison(out, comparison)
    if as_json:
        click.echo(json_text(comparison_document(comparison)), nl=False)
    else:
        _print(comparison)
    if paths:
        click.echo(f"{paths[0]}: {len(paths)} files", err=as_json)


def _print(comparison: Comparison) -> None:
    for table in comparison_tables(comparison):
        click.echo(render_text(table, _WIDTH))
    if any(side.runs[0].row["shared_host"] for side in comparison.sides):
        click.echo("client and server share this machine: comparison, not capacity")
    doubts = [f"doubt: {sentence}" for sentence in doubt_sentences(comparison)]
    for sentence in [*doubts, *overall_sentences(comparison)]:
        click.echo(textwrap.fill(sentence, _WIDTH, subsequent_indent="  ", break_on_hyphens=False))
