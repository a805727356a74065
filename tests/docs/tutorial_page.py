"""docs/tutorial.md as steps: each command, the exit status that it ends with, the lines that it is said to print.

One idea: what is printed is compared but for what differs each time, so the page shows real output and stays true.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
_RUN = re.compile(r"\b\d{8}t\d{6}-[0-9a-f]{6}\b")
_PART = re.compile(r"(?ms)^```text\n(?P<shown>.*?)^```|^ {4}(?P<command>archiver [^\n]*)$")
# What differs from one run to the next: numbers, amounts, times of so many seconds, and what was not measured.
_DIFFERS = re.compile(r"<?[+-]?\d[\d,.]*(?: [kMGT]?B\b)?|–")
_NOTES = re.compile("[ᵃᵇᶜᵈᵉᶠᵍʰⁱʲ]+")


@dataclass(frozen=True, slots=True)
class Step:
    """One command of the tutorial."""

    command: str
    exit_status: int
    shown: tuple[str, ...]


def steps() -> list[Step]:
    """Every command in order. The prose before one says so where it does not end with 0."""
    text = PAGE.read_text().replace("\\\n", " ")
    parts = list(_PART.finditer(text))
    found = []
    for place, part in enumerate(parts):
        if part["command"] is not None:
            prose = text[parts[place - 1].end() if place else 0 : part.start()]
            status = re.search(r"exit status (\d)", prose)
            after = parts[place + 1]["shown"] if place + 1 < len(parts) else None
            found.append(
                Step(
                    " ".join(part["command"].split()),
                    int(status[1]) if status else 0,
                    tuple((after or "").splitlines()),
                )
            )
    return found


def run_names() -> list[str]:
    """By which the page calls its runs, in their order."""
    return list(dict.fromkeys(_RUN.findall(PAGE.read_text())))


def in_shape(text: str) -> str:
    """A text without what differs, and without the width of columns."""
    return " ".join(_DIFFERS.sub("#", _NOTES.sub("", _RUN.sub("#", text))).split())
