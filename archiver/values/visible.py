r"""Text of others made visible: what would control a terminal, or not be seen, is shown as its code point.

The form is that of JSON, \u001b, so that a JSON document keeps its values.
"""

from __future__ import annotations

import re

# Control characters (C0, DEL, C1), surrogates without a pair, separators of lines, and characters of format: direction
# of writing, zero width, tags. Newline and tab have a meaning that text needs.
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff9-\ufffb\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_IN_TEXT = re.compile(f"[{_HIDDEN}]")
_IN_LINE = re.compile(f"[\t\n{_HIDDEN}]")


def visible(text: str) -> str:
    r"""Return the text with a code point, such as \u001b, for each hidden character except newlines and tabs."""
    return _IN_TEXT.sub(_code_point, text)


def visible_line(text: str) -> str:
    r"""Return the text on one line: as ``visible``, with \u000a for each newline and \u0009 for each tab."""
    return _IN_LINE.sub(_code_point, text)


def one_line(text: str) -> str:
    """Return the words of the text on one line, with a space for each run of white space."""
    return " ".join(text.split())


def _code_point(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
