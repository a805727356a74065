"""``archiver web``: pages of all runs, of a run in progress, and of what the other commands answer."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import click

from archiver.cli.answers.plan import plan
from archiver.cli.locks.ledger import holdings_summary, holdings_table, left_placements
from archiver.ledger.holdings import gather
from archiver.machine.home import runs_dir
from archiver.web.forms import CommandForm, FieldKind, FormField
from archiver.web.guard import is_loopback
from archiver.web.server import PageSources
from archiver.web.server import serve as serve_pages
from results.document.table import Table

_NICENESS = 10  # a run on this machine gets the processors first
_OF_OUTPUT = ("out", "as_json")  # parameters that are not inputs of a plan
_RUN = "source"


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8765,
    show_default=True,
    help="TCP port; 0 takes a free port.",
)
def web(host: str, port: int) -> None:
    """Show runs in a browser until Ctrl-C.

    Shows live figures, reports, comparisons, plans and the ledger. The command prints the address of the first page.
    The address has a random token, and every page needs it. The pages only read: no run is started and nothing is
    deleted. Only this machine can reach the pages unless --host names another address. From another machine use an SSH
    tunnel, for example ssh -L 8765:127.0.0.1:8765 MACHINE.

    \b
    Example:
        archiver web --port 0
    """
    if not is_loopback(host):
        click.echo(
            f"warning: {host} can be reached from other machines, and pages are not encrypted: whoever sees the "
            "address can read all runs; an SSH tunnel to 127.0.0.1 is safer",
            err=True,
        )
    os.nice(_NICENESS)
    serve_pages(page_sources(), host, port, _say_ready)


def page_sources() -> PageSources:
    """Return what the pages show: the runs, the ledger and the plans of this user."""
    context = click.Context(plan)
    forms = [command_form(plan, context, name) for name in plan.list_commands(context) if name != "all"]
    return PageSources(runs_dir(), _ledger, plan.get_short_help_str(limit=200), forms)


def command_form(group: click.Group, context: click.Context, name: str) -> CommandForm:
    """Return the form of one command of a group. Its fields are the command's options, except those of its output."""
    command = group.get_command(context, name)
    assert command is not None
    assert group.name is not None
    return CommandForm(
        (group.name, name),
        command.get_short_help_str(limit=200),
        tuple(
            _field(option)
            for option in command.params
            if isinstance(option, click.Option) and option.name not in _OF_OUTPUT
        ),
    )


def _field(option: click.Option) -> FormField:
    kind: FieldKind = FieldKind.TEXT
    choices: tuple[str, ...] = ()
    if option.name == _RUN:
        kind, choices = FieldKind.RUN, ("latest", *_references(option))
    elif option.is_flag:
        kind = FieldKind.FLAG
    elif isinstance(option.type, click.Choice):
        kind, choices = FieldKind.CHOICE, tuple(option.type.choices)
    elif isinstance(option.type, click.Path):
        kind = FieldKind.FILE
    elif isinstance(option.type, click.types.IntParamType):
        kind = FieldKind.WHOLE_NUMBER
    return FormField(
        name=max(option.opts, key=len).removeprefix("--"),
        kind=kind,
        help=option.help or "",
        required=option.required,
        default=_default(option),
        choices=choices,
    )


def _references(option: click.Option) -> list[str]:
    """Return the published rates that an option for a run also takes: RUN|reference:NAME is its metavar."""
    return (option.metavar or "").split("|")[1:]


def _default(option: click.Option) -> str:
    """Return the default as a user would type it; empty for a flag, or without one."""
    default = option.to_info_dict()["default"]
    if option.is_flag or default is None:
        return ""
    return " ".join(default) if option.multiple else str(default)


def _ledger() -> tuple[Table | None, Sequence[str]]:
    now = time.time()
    holdings = gather(left_placements(None))
    if not holdings:
        return None, ["nothing is left on any platform"]
    return holdings_table(holdings, now, None), holdings_summary(holdings, now, None)


def _say_ready(address: str) -> None:
    click.echo(f"Archiver's pages, until Ctrl-C: {address}")
