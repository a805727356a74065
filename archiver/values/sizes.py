"""Parsing and formatting of sizes, durations and rates.

One idea: all code uses bytes, seconds and per-second floats; units exist only in input and output. ``K`` alone is 1024,
as in the DR550 paper; ``KB`` is 1000 and ``KiB`` is 1024.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fractions import Fraction
from math import inf

_SIZE_UNITS = {
    "": 1, "b": 1,
    "k": 1 << 10, "kib": 1 << 10, "kb": 10**3,
    "m": 1 << 20, "mib": 1 << 20, "mb": 10**6,
    "g": 1 << 30, "gib": 1 << 30, "gb": 10**9,
    "t": 1 << 40, "tib": 1 << 40, "tb": 10**12,
}  # fmt: skip
_BIT_RATE_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12}
_DURATION_UNITS = {
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "y": 365 * 86400.0,
}
UNKNOWN = "-"  # a live figure that is not known yet
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def parse_size(text: str) -> int:
    """Return the bytes of ``8KiB``, ``8K``, ``8KB``, ``1.5MiB`` or ``8192``. Raises ValueError with the remedy."""
    number, unit = _split(text, "a size such as 8KiB, 8KB or 8192")
    if unit.lower() not in _SIZE_UNITS:
        raise ValueError(f"{text!r}: unknown size unit {unit!r}; use B, KiB, MiB, GiB, KB, MB or GB")
    size = Fraction(number) * _SIZE_UNITS[unit.lower()]  # exact, unlike a float: 1.001KB
    if size != int(size):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(size)


def parse_size_with_unit(text: str) -> int:
    """Return the bytes of a size whose unit is written, as a command line requires: 8 may mean 8KiB.

    Raises ValueError with the remedy. 0 needs no unit.
    """
    size_bytes = parse_size(text)
    if size_bytes and text.strip()[-1].isdigit():
        raise ValueError(f"{text!r}: a size needs a unit: write {text.strip()}KiB or {text.strip()}B")
    return size_bytes


def parse_link_speed(text: str) -> float:
    """Return bytes per second of ``10Gbit``, ``100Mbit`` (as links are rated) or ``100MB``. Raises ValueError."""
    number, unit = _split(text, "a link's speed such as 10Gbit or 100MB (each per second)")
    factor = _BIT_RATE_UNITS.get(unit.lower())
    speed = float(number) * factor / 8 if factor else float(parse_size(text))
    if not speed:
        raise ValueError(f"{text!r}: the speed of a link must be above 0")
    return speed


def parse_duration(text: str) -> float:
    """Return the seconds of ``90s``, ``5m``, ``1h``, ``250ms``, ``7d`` or ``2y`` (365 days). Raises ValueError."""
    number, unit = _split(text, "a duration such as 90s, 5m or 1h")
    if unit.lower() not in _DURATION_UNITS:
        raise ValueError(f"{text!r}: a duration needs a unit: ms, s, m, h, d or y (for example 90s)")
    return float(number) * _DURATION_UNITS[unit.lower()]


def parse_days(text: str) -> int:
    """Return the days of a duration of whole days, ``30d`` or ``7y`` (365 days each). Raises ValueError."""
    days = parse_duration(text) / _DURATION_UNITS["d"]
    if not (days.is_integer() and 1 <= days <= 36_500):
        raise ValueError(f"{text!r}: write whole days, from 1d to 36500d")
    return int(days)


def parse_rate(text: str) -> float:
    """Return the events per second of ``500/s``, ``500`` or ``30/m``. Raises ValueError with the remedy."""
    number, slash, unit = text.strip().partition("/")
    try:
        rate = float(number) / (_DURATION_UNITS[unit.strip().lower()] if slash else 1.0)
    except (ValueError, KeyError):
        raise ValueError(f"{text!r} is not a rate such as 500/s or 30/m") from None
    if not 0 < rate < inf:
        raise ValueError(f"{text!r}: a rate must be above 0")
    return rate


def parse_count(text: str) -> int:
    """Return a whole number of at least 1. Raises ValueError with the remedy."""
    number = text.strip()
    if not (number.isascii() and number.isdecimal() and 0 < len(number) < 10 and int(number)):
        raise ValueError(f"{text!r} is not a whole number of at least 1")
    return int(number)


def parse_instant(text: str) -> datetime:
    """Return the UTC instant of ISO 8601 text; a time zone is required. Raises ValueError."""
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is not a date; write it like 2026-11-21T18:00:00Z") from None
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; write it like 2026-11-21T18:00:00Z")
    return instant.astimezone(UTC)


def format_size(size_bytes: int) -> str:
    """Return ``8KiB`` for 8192: the largest binary unit that divides it, so that it parses to the same number."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return f"{size_bytes}B"


def format_bytes(count: float) -> str:
    """Return a rounded amount in decimal units: ``1.6 GB``."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} B"


def format_duration(seconds: float) -> str:
    """Return ``5m``, ``90s``, ``1h 30m``, ``25h``, ``30d`` or ``5y``; a year has 365 days."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole}s"
    years, days = divmod(whole // 86_400, 365) if whole >= 2 * 86_400 else (0, 0)
    hours, minutes, rest = whole // 3600 - (years * 365 + days) * 24, whole // 60 % 60, whole % 60
    parts = [
        f"{years}y" if years else "",
        f"{days}d" if days else "",
        f"{hours}h" if hours else "",
        f"{minutes}m" if minutes else "",
        f"{rest}s" if rest else "",
    ]
    return " ".join(part for part in parts if part)


def format_clock_offset(seconds: float) -> str:
    """Return the distance of two clocks in whole minutes, because a clock read over a network may be seconds off."""
    return format_duration(round(abs(seconds) / 60) * 60)


def format_instant(epoch_seconds: float) -> str:
    """Return ``2026-11-21T18:00:00Z`` for seconds since the epoch."""
    return datetime.fromtimestamp(epoch_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_clock(seconds: float) -> str:
    """Return ``1:05`` for 65 seconds, ``2:00:00`` for two hours."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_rate(per_second: float | None) -> str:
    """Return a live rate: ``12.3`` below 100, ``1,234`` above; ``-`` for None."""
    if per_second is None:
        return UNKNOWN
    return f"{per_second:,.1f}" if per_second < 100 else f"{per_second:,.0f}"


def format_milliseconds(milliseconds: float | None) -> str:
    """Return a live latency: ``0.25``, ``12.3`` or ``1,234``; ``-`` for None."""
    if milliseconds is None:
        return UNKNOWN
    if milliseconds < 1:
        return f"{milliseconds:.2f}"
    return f"{milliseconds:,.1f}" if milliseconds < 1000 else f"{milliseconds:,.0f}"


def format_percent(percent: float | None) -> str:
    """Return ``71%`` for 71.4; ``-`` for None."""
    return UNKNOWN if percent is None else f"{percent:.0f}%"


def _split(text: str, wanted: str) -> tuple[str, str]:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not {wanted}")
    return match[1], match[2]
