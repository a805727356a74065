"""Ranges of the values in a scenario file.

One idea: a table declares the range of a key where it declares the key. One function refuses every other value.
"""

from __future__ import annotations

from functools import cache
from math import inf
from typing import NamedTuple, get_args, get_type_hints

import msgspec

from archiver.values.errors import ScenarioError
from archiver.values.sizes import format_duration, format_size
from scenarios.notation.units import Seconds, SizeBytes


class KeyRange(NamedTuple):
    """The values that a key may have, for ``Annotated``. Of a tuple, each value must be in the range."""

    least: float
    most: float = inf
    is_above: bool = False  # ``least`` itself is not possible

    def __contains__(self, value: object) -> bool:
        is_possible = isinstance(value, int | float) and self.least <= value <= self.most
        return is_possible and not (self.is_above and value == self.least)


def check_ranges(table: msgspec.Struct, key: str, prefix: str = "") -> None:
    """Refuse a value that is outside the range of its key. Raises ScenarioError that names the key and the range."""
    for name, allowed in _ranges(type(table)).items():
        value = getattr(table, name)
        for each in value if isinstance(value, tuple) else (value,):
            if each is None or each in allowed:
                continue
            shown = f"{each:g}s" if isinstance(each, Seconds) else f"{each:g}" if isinstance(each, float) else each
            raise ScenarioError(f"{key}: {prefix}{name}: {shown} is not possible; write {_words(allowed, type(each))}")


@cache
def _ranges(table: type[msgspec.Struct]) -> dict[str, KeyRange]:
    """Return the ranges of a table's keys, cached because all annotations of the table are evaluated."""
    hints = get_type_hints(table, include_extras=True)
    found = ((name, each) for name, hint in hints.items() for each in get_args(hint) if isinstance(each, KeyRange))
    return dict(found)


def _words(allowed: KeyRange, kind: type) -> str:
    least = _shown(allowed.least, kind)
    if allowed.most == inf:
        return f"{'more than' if allowed.is_above else 'at least'} {least}"
    most = _shown(allowed.most, kind)
    return f"more than {least}, at most {most}" if allowed.is_above else f"{least} to {most}"


def _shown(bound: float, kind: type) -> str:
    if kind is Seconds:
        return format_duration(bound)
    return format_size(int(bound)) if kind is SizeBytes else f"{bound:,.10g}"
