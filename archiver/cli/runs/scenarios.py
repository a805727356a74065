"""``archiver scenarios``: list, show and copy the included scenarios."""

from __future__ import annotations

import tomllib
from pathlib import Path

import click

from archiver.cli.completion import scenario_names
from archiver.values.errors import UsageError
from scenarios.reading.reader import builtin_names, scenario_text


@click.group()
def scenarios() -> None:
    """List, show and copy built-in scenarios.

    \b
    Example:
        archiver scenarios list
    """


@scenarios.command("list")
def list_() -> None:
    """List the built-in scenarios with their titles.

    \b
    Example:
        archiver scenarios list
    """
    for name in builtin_names():
        click.echo(f"{name:<16} {tomllib.loads(scenario_text(name)[1])['title']}")


@scenarios.command()
@click.argument("name", shell_complete=scenario_names)
def show(name: str) -> None:
    """Print the file of a scenario.

    \b
    Example:
        archiver scenarios show dr550
    """
    click.echo(scenario_text(name)[1], nl=False)


@scenarios.command()
@click.argument("name", shell_complete=scenario_names)
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
def copy(name: str, path: Path) -> None:
    """Copy a scenario to PATH, to change it and run it.

    \b
    Example:
        archiver scenarios copy dr550 my-matrix.toml
    """
    text = scenario_text(name)[1]
    if path.exists():
        raise UsageError(f"{path} exists already; name another file, nothing is overwritten")
    try:
        path.write_text(text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error}") from error
    click.echo(f"{path}: run it with: archiver run {path}")
