"""Shell completion of arguments: names of scenarios and of their keys, and runs.

Completion only lists folders and reads one scenario. It opens no database, so that the shell never waits.
"""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from archiver.machine.home import runs_dir
from archiver.values.errors import ScenarioError
from scenarios.reading.reader import builtin_names, scenario_keys


def scenario_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the built-in scenarios."""
    return [CompletionItem(name) for name in builtin_names() if name.startswith(incomplete)]


def scenario_or_file(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the built-in scenarios, or the shell's file completion if no name begins like this."""
    return scenario_names(context, parameter, incomplete) or [CompletionItem(incomplete, type="file")]


def keys_to_set(context: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the keys that ``--set`` takes for the scenario before it on the line, up to the next dot."""
    scenario = next(iter(context.args), "")  # click has not assigned it yet, because --set still lacks its value
    try:
        known = scenario_keys(scenario)
    except ScenarioError:
        return []
    found: dict[str, str] = {}
    for key, default in known.items():
        if key.startswith(incomplete):
            outer, dot, _ = key[len(incomplete) :].partition(".")
            found.setdefault(f"{incomplete}{outer}{dot}" if dot else f"{key}=", "" if dot else f"default: {default}")
    return [CompletionItem(key, help=default) for key, default in found.items()]


def run_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return `latest` and the runs in Archiver's home, the newest first, or files if no name begins like this."""
    folders = sorted((path.name for path in runs_dir().glob("*") if path.is_dir()), reverse=True)
    names = ["latest", *folders] if folders else []
    found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]
