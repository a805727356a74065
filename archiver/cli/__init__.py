"""The command line. This module only assembles the group; each command has a module of its own."""

from __future__ import annotations

import sys

import click

import archiver
from archiver.cli.cleanup import cleanup
from archiver.cli.doctor import doctor
from archiver.cli.report import report
from archiver.cli.run import run
from archiver.cli.scenarios import scenarios
from archiver.cli.serve import serve
from archiver.errors import ArchiverError


class _Group(click.Group):
    """Turns every expected failure into one message and its exit status."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ArchiverError as error:
            click.echo(f"archiver: {error}", err=True)
            sys.exit(error.exit_status)
        except KeyboardInterrupt:
            click.echo("archiver: interrupted", err=True)
            sys.exit(130)
        except BrokenPipeError:  # whoever read our output has seen enough
            sys.stderr.close()
            sys.exit(0)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(archiver.__version__, prog_name="archiver")
def main() -> None:
    """Measure archive/retention (WORM) object stores.

    \b
    Example:
        archiver run dr550 --quick
    """


for command in (run, report, cleanup, scenarios, serve, doctor):
    main.add_command(command)
