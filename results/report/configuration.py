"""The configuration of a run as readable text: names in words, and values with their units.

The unit of a value is the end of its name, as everywhere in the database: ``memory_bytes``, ``retain_for_seconds``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from archiver.values.sizes import format_bytes, format_duration, format_instant
from results.document.table import NOT_MEASURED

_INSTANTS = ("_until", "_at")  # ends of the names of moments, in epoch seconds
_SECONDS_MAX = 120.0  # longer durations are written in minutes, hours and days
_NAMES = {  # of settings whose own name, with spaces, is not clear
    "tls": "TLS",
    "shares_host": "client and server share a machine",
    "server_clock_offset_seconds": "server's clock minus the client's",
    "session_open": "request that opens a session",
    "session_kind": "sessions are",
    "payload_signing": "payloads are signed",
    "verify": "retrieved objects verified",
    "poll": "how workers wait for answers",
    "watched": "sources of server samples",
    "dask": "Dask cluster",
    "on_close": "when the platform ends a connection",
    "python": "Python",
    "archiver": "Archiver",
}


def readable_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return recorded settings with names in words, and values with units. Settings within others follow each other."""
    return dict(_rows(settings, ()))


def _rows(settings: Mapping[str, Any], outer: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _rows(value, (*outer, name))
        else:
            names = [each for each in outer if each not in ("details", "packages")]
            yield " ".join([*map(_words, names), _words(name)]), readable_value(name, value)


def _words(name: str) -> str:
    """Return the words of a name, without its unit."""
    if name in _NAMES:
        return _NAMES[name]
    return name.removesuffix("_bytes").removesuffix("_seconds").replace("_", " ")


def readable_value(name: str, value: Any) -> str:
    """Return a value in the unit that the end of its name states. Empty values are ``–``."""
    if value is None or value in ("", [], (), {}):
        return NOT_MEASURED
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(name, value)
    if isinstance(value, Mapping):
        return ", ".join(f"{label} {text}" for label, text in readable_settings(value).items())
    if isinstance(value, list | tuple):
        texts = [readable_value(name, each) for each in value]
        return ("; " if any(isinstance(each, Mapping) for each in value) else ", ").join(texts)
    return str(value)


def _number(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return format_bytes(value)
    if name.endswith("_bytes_per_second"):
        return f"{format_bytes(value)}/s"
    if name.endswith(_INSTANTS):
        return format_instant(value)
    if name.endswith("_seconds"):
        return format_duration(value) if abs(value) >= _SECONDS_MAX else f"{value:,.2f} s"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
