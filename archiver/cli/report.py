"""``archiver report``: write the tables and figures of a run into a folder."""

from __future__ import annotations

from pathlib import Path

import click

from archiver.cli.output import document, facts
from archiver.errors import ResultsError
from archiver.home import runs_dir
from results.database import RunDatabase
from results.documents import write_documents
from results.tables import Table, beside_table
from results.text import render_text


@click.command()
@click.argument("run")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder  [default: report/ in the run's]")
@click.option("--beside", metavar="OTHER_RUN", help="Also print and write a table of both runs side by side.")
def report(run: str, out: Path | None, beside: str | None) -> None:
    """Write the report of RUN: report.md, results.json, tables as CSV, figures as SVG and PNG.

    RUN is a run's id, its folder, its database, or `latest`.

    \b
    Example:
        archiver report latest
    """
    database = RunDatabase.open(find_run(run))
    data = document(database)
    folder = out if out is not None else database.path.parent / "report"
    more_tables = [] if beside is None else [_beside(database, RunDatabase.open(find_run(beside)))]
    paths = write_documents(
        folder,
        data,
        facts=facts(database),
        doubts=data["doubts"],
        shares_machine=data["shared_host"],
        more_tables=more_tables,
    )
    for table in more_tables:
        click.echo(render_text(table))
    click.echo(f"{paths[0]}: {len(paths)} files")


def _beside(one: RunDatabase, other: RunDatabase) -> Table:
    """Both runs' rates, under the names of their platforms, or of their protocols where one platform has two."""
    first, second = one.run(), other.run()
    names = (first["platform"]["name"], second["platform"]["name"])
    if names[0] == names[1]:
        names = (first["backend"], second["backend"])
    return beside_table(one.results(), other.results(), names, (first["id"], second["id"]))


def find_run(run: str) -> Path:
    """The path of a run named by id, folder, file, or `latest`."""
    if run == "latest":
        folders = sorted(path for path in runs_dir().glob("*") if path.is_dir())
        if not folders:
            raise ResultsError(f"{runs_dir()}: there is no run yet; make one with: archiver run dr550 --quick")
        return folders[-1]
    given = Path(run)
    return given if given.exists() else runs_dir() / run
