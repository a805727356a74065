"""Parameter types, so that every command reads 64KiB, 30s and dates alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from archiver.sizes import parse_duration, parse_instant, parse_size


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


SIZE = _Parsed("size", parse_size)
DURATION = _Parsed("duration", parse_duration)
INSTANT = _Parsed("date", lambda text: parse_instant(text).timestamp())
