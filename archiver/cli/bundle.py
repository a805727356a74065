"""``archiver bundle``: conformance evidence as one file that can be checked again."""

from __future__ import annotations

from pathlib import Path

import click

from archiver.home import find_run
from results.bundle import make_bundle, verify_bundle, write_bundle
from results.database import RunDatabase


@click.group()
def bundle() -> None:
    """Conformance evidence as one file, with the hash of each part.

    \b
    Example:
        archiver bundle --help
    """


@bundle.command("make")
@click.argument("run")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File  [default: evidence-RUN.json]")
def make_command(run: str, out: Path | None) -> None:
    """Write everything that the conformance run RUN saw into one file.

    \b
    Example:
        archiver bundle make latest --out evidence.json
    """
    database = RunDatabase.open(find_run(run))
    made = make_bundle(database)
    path = out if out is not None else Path(f"evidence-{database.run()['id']}.json")
    write_bundle(made, path)
    click.echo(f"{path}: {len(made['manifest'])} parts, sha256 {made['sha256']}")


@bundle.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def verify(file: Path) -> None:
    """Check that nothing in FILE was changed since it was written.

    \b
    Example:
        archiver bundle verify evidence.json
    """
    checked = verify_bundle(file)
    summary = checked["parts"]["summary"]
    click.echo(
        f"{file}: whole; {len(checked['manifest'])} parts, sha256 {checked['sha256']}; "
        f"{len(summary['checks'])} checks of {summary['platform']['name']}, {summary['violations']} violations"
    )
