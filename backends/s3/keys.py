"""Keys of a run's objects: the run's prefix, then the object number with twelve digits."""

from __future__ import annotations

_DIGITS = 12


def key_of(prefix: str, number: int) -> str:
    """Return the key of object ``number``."""
    return f"{prefix}{number:0{_DIGITS}d}"


def number_of(prefix: str, key: str) -> int | None:
    """Return the number of the object with this key; None if the key is not of this form, or has another prefix."""
    digits = key.removeprefix(prefix)
    is_of_run = key.startswith(prefix) and len(digits) == _DIGITS and digits.isascii() and digits.isdigit()
    return int(digits) if is_of_run else None
