"""Write scenario files from plain values."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, time
from typing import Any


def toml(document: dict[str, Any]) -> str:
    """Return a document as TOML with inline tables."""
    return "".join(f"{_text(key)} = {_value(value)}\n" for key, value in document.items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_text(key)} = {_value(each)}' for key, each in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return repr(value)


def _text(text: str) -> str:
    """Return a text as a TOML string. TOML has the same escapes as JSON."""
    return json.dumps(text).replace("\x7f", "\\u007f")
