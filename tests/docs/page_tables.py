"""The tables of a page."""

from __future__ import annotations


def rows(text: str) -> dict[str, str]:
    """Return the defaults in a page's tables of keys, by key."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 5:
            found.update({key.strip("` "): cells[2] for key in cells[1].split(",") if key.strip().startswith("`")})
    return found
