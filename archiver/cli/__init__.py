"""The command line.

This module only assembles the group. Each command has a module with its name, in the package of related commands. The
group imports a module when its command is used, so workers and short commands do not load the others.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from archiver.cli.terminal import show_hidden_characters
from archiver.machine import interruption
from archiver.values import version
from archiver.values.errors import ArchiverError

# Commands under their headings, each with the package that has its module.
_GROUPS = {
    "Measure": {
        "run": "runs", "bench": "runs", "replay": "runs", "scorecard": "runs", "resume": "runs", "scenarios": "runs",
    },
    "Locks": {"worm": "locks", "audit": "locks", "ledger": "locks", "cleanup": "locks"},
    "Results": {
        "report": "answers", "compare": "answers", "plan": "answers", "decide": "answers", "bundle": "answers",
        "web": "answers",
    },
    "Traces": {"capture": "runs", "trace": "runs"},
    "Platforms": {"platform": "platforms", "serve": "platforms", "doctor": "platforms", "tsm-library": "platforms"},
}  # fmt: skip
_MODULES = {name: package for commands in _GROUPS.values() for name, package in commands.items()}
COMMANDS = tuple(sorted(_MODULES))

# Packages that are not installed with the rest, and the extra of setup.cfg that has each.
_EXTRAS = {
    "pyarrow": "traces",
    "dask": "dask",
    "distributed": "dask",
    "rfc3161_client": "timestamps",
    "cryptography": "timestamps",
}
_SETTINGS = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 110,
    "color": True,  # click removes no escape sequences: they are shown, in a pipe as on a terminal
}


class _Commands(click.Group):
    """Loads commands by name, and turns every expected failure into one message and its exit status."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if not extra.get("resilient_parsing"):  # for a shell that completes a line, click writes bytes
            show_hidden_characters()
        if sys.platform != "linux":  # before loading any command, because their modules need Linux
            click.echo(f"archiver: needs Linux, and this system is {sys.platform}; run it on a Linux machine", err=True)
            sys.exit(2)
        return super().make_context(info_name, args, parent, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, names in _GROUPS.items():
            found = [(name, command) for name in names if (command := self.get_command(ctx, name)) is not None]
            with formatter.section(heading):
                formatter.write_dl([(name, command.get_short_help_str(formatter.width)) for name, command in found])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"archiver.cli.{_MODULES[cmd_name]}.{name}"), name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        with interruption.handled():
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ArchiverError as error:
            click.echo(f"archiver: {error}", err=True)
            sys.exit(error.exit_status)
        except ModuleNotFoundError as missing:
            package = (missing.name or "").partition(".")[0]
            if package not in _EXTRAS:
                raise
            click.echo(
                f"archiver: this needs {package}, which is not installed: pip install "
                f"'archiver-worm[{_EXTRAS[package]}]', or '.[{_EXTRAS[package]}]' in a checkout",
                err=True,
            )
            sys.exit(2)
        except KeyboardInterrupt as interrupted:
            number = interruption.signal_of(interrupted)
            click.echo(f"archiver: {interruption.words(number)}", err=True)
            sys.exit(interruption.exit_status(number))
        except BrokenPipeError:  # the reader of our output closed the pipe
            sys.stderr.close()
            sys.exit(0)
        except OSError as error:
            from archiver.values.databases import is_of_the_system, words_of  # not loaded by every command

            if not is_of_the_system(error):
                raise
            where = f"{error.filename}: " if error.filename else "the output: "
            click.echo(f"archiver: {where}{words_of(error)}", err=True)
            sys.stdout = None  # its buffered output cannot be written either
            sys.exit(1)


@click.group(cls=_Commands, context_settings=_SETTINGS)
@click.version_option(version.VERSION, prog_name="archiver")
def main() -> None:
    """Measure archive/retention (WORM) object stores.

    \b
    Example:
        archiver run dr550 --quick
    """
