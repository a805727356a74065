"""Parameter types and options that several commands share, so that all read 64KiB, 30s, dates and servers alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from archiver.sizes import parse_duration, parse_instant, parse_link_speed, parse_size

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Parsed(click.ParamType[Any]):
    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def tsm_options(command: _Command) -> _Command:
    """The options that say how a TSM server is reached."""
    for option in (
        click.option(
            "--tsm-password-file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="TSM: file with the node's password, readable by its owner only.",
        ),
        click.option("--tsm-node", metavar="NAME", help="TSM: node to sign on as  [default: the option files']"),
        click.option(
            "--tsm-server", metavar="HOST:PORT|STANZA", help="TSM: a running server  [default: DSMI_CONFIG's, if set]"
        ),
        click.option("--tsm-library", metavar="PATH", help="TSM: client library, for example IBM's  [default: ours]"),
    ):
        command = option(command)
    return command


SIZE = _Parsed("size", parse_size)
LINK_SPEED = _Parsed("speed", parse_link_speed)
DURATION = _Parsed("duration", parse_duration)
INSTANT = _Parsed("date", lambda text: parse_instant(text).timestamp())
