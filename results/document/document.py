"""A document: what a person or a program reads about one subject, as a plain value.

A run, a comparison, a plan, a scorecard and a conformance run each have one function that returns a Document. The
renderers know no subject: every page has the same frame, the same order and the same style. First comes the answer,
then its numbers and the main figure, then what they rest on, then the sections.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from results.document.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

State = Literal["good", "bad", "care", "plain"]


@dataclass(frozen=True, slots=True)
class KeyFinding:
    """One line below the answer: its subject and what was found. The state is only a colour; the words say the same."""

    state: State
    about: str
    text: str
    more: tuple[str, ...] = ()  # further sentences about the same subject
    link: tuple[str, str] | None = None  # words, and the name of the section with the rest


@dataclass(frozen=True, slots=True)
class Number:
    """One number of an answer. An empty text means unknown or not applicable."""

    name: str  # archive, p99 of archive
    value: str  # 1,510
    unit: str  # objects/s
    interval: str = ""  # 95%: 1,480 to 1,540
    conditions: str = ""  # 8KiB x 100, 4 clients
    seconds: float | None = None  # measured time of the shortest measurement that it comes from
    cautions: tuple[str, ...] = ()  # what to mind about it; of a criterion, that it was missed
    grade: str = ""  # how well it is known

    @property
    def basis(self) -> str:
        """Return grade, interval, conditions, measured time and cautions in words."""
        grade = f"grade {self.grade}" if self.grade else ""
        measured = "" if self.seconds is None else f"measured for {self.seconds:,.2f} s"
        minded = [each for each in self.cautions if not each.startswith("measured for")]
        return "; ".join(filter(None, (grade, self.interval, self.conditions, measured, *minded)))


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure, and the table with its numbers; "" if there is none."""

    name: str
    figure: Figure
    table: str = ""
    note: str = ""  # the meaning of its marks, if the figure does not explain them


@dataclass(frozen=True, slots=True)
class Section:
    """One section; links use ``name``."""

    name: str
    title: str
    words: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()  # shown as a list
    drawings: tuple[Drawing, ...] = ()
    settings: tuple[Table, ...] = ()  # narrow tables of words, shown next to each other
    tables: tuple[Table, ...] = ()
    code: tuple[tuple[str, str], ...] = ()  # label and text, as the user typed it
    further_drawings: tuple[Drawing, ...] = ()  # folded, and not printed unless a reader unfolds them
    further_tables: tuple[Table, ...] = ()  # folded likewise
    is_folded: bool = False  # the whole section is

    @property
    def is_empty(self) -> bool:
        drawn = self.drawings or self.further_drawings
        tabulated = self.settings or self.tables or self.further_tables
        return not (self.sentences or drawn or tabulated or self.code)

    @property
    def every_table(self) -> tuple[Table, ...]:
        return (*self.settings, *self.tables, *self.further_tables)


@dataclass(frozen=True, slots=True)
class Document:
    """Everything about one subject, in the order in which it is read."""

    kind: str  # the line above the title: Archiver report, run X
    title: str
    answers: tuple[str, ...] = ()  # sentences; the first is the headline
    quality: str = ""  # how well the answer is known and what to mind about it, in one line
    numbers: tuple[Number, ...] = ()  # at most six
    main: Drawing | None = None  # the figure next to the numbers
    findings: tuple[KeyFinding, ...] = ()  # those of the first screen
    further_findings: tuple[KeyFinding, ...] = ()
    sections: tuple[Section, ...] = ()

    def drawings(self) -> Iterator[Drawing]:
        """Yield every figure once, the main one first."""
        found = {self.main.name: self.main} if self.main is not None else {}
        for section in self.sections:
            found |= {each.name: each for each in (*section.drawings, *section.further_drawings)}
        yield from found.values()

    def tables(self) -> Iterator[Table]:
        """Yield every table in the order of the sections."""
        for section in self.sections:
            yield from section.every_table


def filled(sections: Sequence[Section]) -> tuple[Section, ...]:
    """Return the sections that have contents."""
    return tuple(section for section in sections if not section.is_empty)
