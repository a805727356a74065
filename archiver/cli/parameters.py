"""Parameter types and options that several commands share, so that all read 64KiB, 30s, dates and servers alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from archiver.values.sizes import (
    parse_days,
    parse_duration,
    parse_instant,
    parse_link_speed,
    parse_rate,
    parse_size_with_unit,
)
from backends.base import ADDRESSING_STYLES

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


SIZE = _Parsed("size", parse_size_with_unit)
RATE = _Parsed("rate", parse_rate)
LINK_SPEED = _Parsed("speed", parse_link_speed)
DURATION = _Parsed("duration", parse_duration)
DAYS = _Parsed("duration", parse_days)
INSTANT = _Parsed("date", lambda text: parse_instant(text).timestamp())


def list_of(name: str, parse: Callable[[str], Any]) -> click.ParamType[Any]:
    """Return the type of a list with commas between its values. An empty list and a repeated value are refused."""

    def parse_list(text: str) -> tuple[Any, ...]:
        values = tuple(parse(each.strip()) for each in text.split(","))
        if len(set(values)) < len(values):
            raise ValueError(f"{text!r} has a value twice; name each once")
        return values

    return _Parsed(name, parse_list)


def part_of(kind: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a command that have the names of fields of this dataclass, to make one of it."""
    return {each.name: given[each.name] for each in fields(kind) if each.name in given}


def _all_of(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Return one decorator for several options, which are listed in this order."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


# Credentials of the client, and verification of the S3 server.
credential_options = _all_of(
    click.option("--profile", help="AWS profile: credentials, endpoint, region  [default: AWS_PROFILE]"),
    click.option(
        "--ca-bundle",
        help="PEM file of certificate authorities  [default: AWS_CA_BUNDLE, the profile's or the system's]",
    ),
    click.option("--insecure", is_flag=True, help="Do not verify TLS certificates."),
)

server_clock_option = click.option(
    "--accept-server-clock",
    "accepts_server_clock",
    is_flag=True,
    help="Accept a platform's clock that differs from this machine's by more than 15 minutes, and dates by it.",
)

tables_option = click.option(
    "--tables",
    multiple=True,
    metavar="all|none|NAME",
    help="Tables to print after the summary; repeat for several  [default: rates, latency and limits]",
)

# The route to the platform.
route_options = _all_of(
    click.option(
        "--addressing",
        type=click.Choice(ADDRESSING_STYLES),
        default="auto",
        show_default=True,
        help="Where requests have the bucket's name: in the path, or in the host name (virtual). auto: as in "
        "the AWS settings, else path.",
    ),
    click.option("--direct", is_flag=True, help="Ignore the proxies of the environment."),
)

# How reports name a platform that runs already.
platform_name_options = _all_of(
    click.option(
        "--platform-name", metavar="NAME", help="Name of a running platform  [default: from its Server header]"
    ),
    click.option(
        "--platform-version", metavar="VERSION", help="Version of a running platform  [default: from its Server header]"
    ),
)

# Timeouts of an S3 platform.
timeout_options = _all_of(
    click.option(
        "--connect-timeout",
        "connect_timeout_seconds",
        type=DURATION,
        default="5s",
        show_default=True,
        help="Timeout for connecting and TLS.",
    ),
    click.option(
        "--read-timeout",
        "read_timeout_seconds",
        type=DURATION,
        default="30s",
        show_default=True,
        help="Timeout for each 64 KiB of a request or an answer.",
    ),
)


def say_first(words: str) -> None:
    """Print which platform is used. This is the first line of a command's standard error."""
    click.echo(words, err=True)


# The connection to a TSM server.
tsm_options = _all_of(
    click.option(
        "--tsm-library", "library", metavar="PATH", help="TSM: client library, for example IBM's  [default: Archiver's]"
    ),
    click.option(
        "--tsm-server",
        "server",
        metavar="HOST:PORT|STANZA",
        help="TSM: a running server  [default: from DSMI_CONFIG, if set]",
    ),
    click.option("--tsm-tls", "encrypted", is_flag=True, help="TSM: encrypt sessions with HOST:PORT."),
    click.option(
        "--tsm-ca",
        "ca_file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="TSM: PEM file of the authorities to trust with --tsm-tls  [default: the system's]",
    ),
    click.option(
        "--tsm-node", "node", metavar="NAME", help="TSM: node to sign on as  [default: from the option files]"
    ),
    click.option(
        "--tsm-password-file",
        "password_file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="TSM: file with the node's password, readable only by its owner.",
    ),
)
