"""docs/tutorial.md as steps: each command, its exit status, and the lines that the page shows as its output.

One idea: output is compared without the parts that differ in each run, so the page can show real output.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
_RUN = re.compile(r"\b\d{8}t\d{6}-[0-9a-f]{6}\b")
_PART = re.compile(r"(?ms)^```text\n(?P<shown>.*?)^```|^ {4}(?P<command>archiver [^\n]*)$")
# Parts that differ from run to run: numbers, sizes, durations, and the dash of a missing measurement.
_DIFFERS = re.compile(r"<?[+-]?\d[\d,.]*(?: [kMGT]?B\b)?|–")
_NOTES = re.compile("[ᵃᵇᶜᵈᵉᶠᵍʰⁱʲ]+")
_GRADE = re.compile(r"(?<=\d) [ABC?](?= |$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """One command of the tutorial."""

    command: str
    exit_status: int
    shown: tuple[str, ...]


def steps() -> list[Step]:
    """Return every command in order. Its exit status is 0 unless the text before it names another one."""
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
    """Return the names of the runs on the page, in order."""
    return list(dict.fromkeys(_RUN.findall(PAGE.read_text())))


def in_shape(text: str) -> str:
    """Return a text without the parts that differ from run to run, and without the padding of columns."""
    return " ".join(_DIFFERS.sub("#", _GRADE.sub("", _NOTES.sub("", _RUN.sub("#", text)))).split())
