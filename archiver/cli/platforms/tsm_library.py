"""``archiver tsm-library``: the path of the included TSM API library, and whether a library can be used."""

from __future__ import annotations

import sys

import click

from backends.tsm.library import structures
from backends.tsm.library.api import Library, default_library_path


@click.command("tsm-library")
@click.option("--tsm-library", metavar="PATH", help="Use another library, for example IBM's  [default: Archiver's]")
@click.option(
    "--check", is_flag=True, help="Load the library, and print its version and how many of the API's functions it has."
)
@click.option("--include", is_flag=True, help="Print the folder of the C headers and of archiver-tsm.pc instead.")
def tsm_library(tsm_library: str | None, check: bool, include: bool) -> None:
    """Print the path of the TSM API library.

    Programs that use the TSM API can be linked against it. With PKG_CONFIG_PATH set to the folder that --include
    prints, `pkg-config --cflags --libs archiver-tsm` prints the options of the compiler.

    \b
    Example:
        archiver tsm-library --check

    Exit status: 0 all well; 3 the library is missing, cannot be loaded, or lacks a function.
    """
    if include:
        click.echo(structures.INCLUDE)
        return
    path = tsm_library or str(default_library_path())
    click.echo(path)
    if not check:
        return
    library = Library(path)
    click.echo(f"exports {library.exports} of {len(structures.PROTOTYPES)} functions")
    if library.missing:
        click.echo(f"lacks {', '.join(library.missing)}", err=True)
        sys.exit(3)
    click.echo(f"version {'.'.join(map(str, library.version()))}")
