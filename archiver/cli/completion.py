"""Shell completion of arguments: names of scenarios, and runs.

Completion only lists folders. It opens no database, so that the shell never waits.
"""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from archiver.machine.home import runs_dir
from scenarios.reading.reader import builtin_names


def scenario_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the built-in scenarios."""
    return [CompletionItem(name) for name in builtin_names() if name.startswith(incomplete)]


def scenario_or_file(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the built-in scenarios, or the shell's file completion if no name begins like this."""
    return scenario_names(context, parameter, incomplete) or [CompletionItem(incomplete, type="file")]


def run_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return `latest` and the runs in Archiver's home, the newest first, or files if no name begins like this."""
    folders = sorted((path.name for path in runs_dir().glob("*") if path.is_dir()), reverse=True)
    names = ["latest", *folders] if folders else []
    found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]
