"""What the shell offers for an argument where <Tab> is pressed: names of scenarios, and runs.

One idea: only folders are looked at; no database is opened, so that the shell never waits.
"""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from archiver.machine.home import runs_dir
from scenarios.reading.reader import builtin_names


def scenario_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The built-in scenarios."""
    return [CompletionItem(name) for name in builtin_names() if name.startswith(incomplete)]


def scenario_or_file(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The built-in scenarios, and the shell's own names of files where none begins like this."""
    return scenario_names(context, parameter, incomplete) or [CompletionItem(incomplete, type="file")]


def run_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """`latest` and the runs in Archiver's home, the newest first; files where none begins like this."""
    folders = sorted((path.name for path in runs_dir().glob("*") if path.is_dir()), reverse=True)
    names = ["latest", *folders] if folders else []
    found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]
