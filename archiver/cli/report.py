"""``archiver report``: write the tables and figures of a run into a folder."""

from __future__ import annotations

from pathlib import Path

import click

from archiver.cli.output import document, facts
from archiver.home import find_run
from results.database import RunDatabase
from results.documents import write_documents
from results.watched import watched


@click.command()
@click.argument("run")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder  [default: report/ in the run's]")
def report(run: str, out: Path | None) -> None:
    """Write the report of RUN: report.md, results.json, tables as CSV, figures as SVG and PNG.

    RUN is a run's id, its folder, its database, or `latest`.

    \b
    Example:
        archiver report latest
    """
    database = RunDatabase.open(find_run(run))
    data = document(database)
    folder = out if out is not None else database.path.parent / "report"
    paths = write_documents(
        folder,
        data,
        facts=facts(database),
        doubts=data["doubts"],
        shares_machine=data["shared_host"],
        watched=watched(database),
    )
    click.echo(f"{paths[0]}: {len(paths)} files")
