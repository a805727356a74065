"""The command line. This module only assembles the group; each command has a module of its own name, loaded when used:
a run's workers and every short command would otherwise pay for what they never touch.
"""

from __future__ import annotations

import errno
import sys
from importlib import import_module
from typing import Any

import click

import archiver
from archiver import interruption
from archiver.errors import ArchiverError

COMMANDS = (
    "audit", "bundle", "capture", "cleanup", "compare", "doctor", "ledger", "plan", "platform", "replay",
    "report", "resume", "run", "scenarios", "serve", "trace", "tsm-library", "worm",
)  # fmt: skip


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _Group(click.Group):
    """Loads commands by name, and turns every expected failure into one message and its exit status."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if sys.platform != "linux":  # before any command is loaded: its modules need what only Linux has
            click.echo(f"archiver: needs Linux, and this system is {sys.platform}; run it on a Linux machine", err=True)
            sys.exit(2)
        return super().make_context(info_name, args, parent, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"archiver.cli.{name}"), name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        with interruption.heard():
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ArchiverError as error:
            click.echo(f"archiver: {error}", err=True)
            sys.exit(error.exit_status)
        except KeyboardInterrupt as interrupted:
            number = interruption.signal_of(interrupted)
            click.echo(f"archiver: {interruption.words(number)}", err=True)
            sys.exit(interruption.exit_status(number))
        except BrokenPipeError:  # whoever read our output has seen enough
            sys.stderr.close()
            sys.exit(0)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            where = f"{error.filename}: " if error.filename else ""
            click.echo(f"archiver: {where}{error.strerror}; make room there, or have it written elsewhere", err=True)
            sys.stdout = None  # what it still holds does not fit either
            sys.exit(1)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(archiver.__version__, prog_name="archiver")
def main() -> None:
    """Measure archive/retention (WORM) object stores.

    \b
    Example:
        archiver run dr550 --quick
    """
