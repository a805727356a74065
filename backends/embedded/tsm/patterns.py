"""Patterns of names: `*` matches any bytes, `?` any one byte.

One idea: the time of a match grows with the length of the name, for every pattern, also a malicious one.
"""

from __future__ import annotations

import re

from ..core.tables.archives import after_prefix

_compiled: dict[bytes, re.Pattern[bytes]] = {}


def matches(pattern: bytes, value: bytes) -> bool:
    """Return whether `value` matches the pattern."""
    if pattern == value:
        return True
    if b"*" not in pattern and b"?" not in pattern:
        return False
    compiled = _compiled.get(pattern)
    if compiled is None:
        if len(_compiled) > 100:
            _compiled.clear()
        # The text after a star matches at its first place, without backtracking. A later place leaves less of the
        # name for the rest, and backtracking over many stars takes exponential time.
        first, *others = (
            b"".join(b"." if part == b"?" else re.escape(part) for part in re.split(rb"(\?)", literal))
            for literal in re.split(rb"\*+", pattern)
        )
        middle = b"".join(b"(?>.*?" + each + b")" for each in others[:-1])
        last = b".*" + others[-1] if others else b""
        compiled = _compiled[pattern] = re.compile(first + middle + last, re.DOTALL)
    return compiled.fullmatch(value) is not None


def bounds(hl: bytes, ll: bytes) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
    """Return a lower and an upper bound, as (hl, ll), of all names that the patterns can match."""
    hl_start, ll_start = _literal_start(hl), _literal_start(ll)
    if hl_start != hl:
        return (hl_start, b""), (after_prefix(hl_start), b"")
    return (hl, ll_start), (hl, ll + b"\0" if ll_start == ll else after_prefix(ll_start))


def _literal_start(pattern: bytes) -> bytes:
    return re.split(rb"[*?]", pattern, maxsplit=1)[0]
