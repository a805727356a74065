"""Quantities with units in a scenario file.

One idea: each quantity has a type, so that readers of a table get only bytes and seconds.
"""

from __future__ import annotations

from typing import Any

from archiver.values.sizes import parse_duration, parse_size

_BYTES_MAX = 1 << 60
_SECONDS_MAX = 100 * 365 * 86400.0


class SizeBytes(int):
    """Bytes, written as 8KiB or as a number."""


class Seconds(float):
    """Seconds, written as 90s."""


def decode(wanted: type, value: Any) -> Any:
    """Decode one of these types for msgspec. Raises ValueError with the remedy."""
    if wanted is SizeBytes:
        size_bytes = parse_size(str(value))
        if size_bytes > _BYTES_MAX:
            raise ValueError(f"{str(value)[:40]!r} is more than 1EiB")
        return SizeBytes(size_bytes)
    if wanted is Seconds:
        seconds = parse_duration(str(value))
        if seconds > _SECONDS_MAX:
            raise ValueError(f"{str(value)[:40]!r} is more than 100y")
        return Seconds(seconds)
    raise NotImplementedError(wanted)
