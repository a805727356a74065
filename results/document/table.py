"""A table as a plain value. Each cell has a text for people, its number for programs, and notes.

A table is declared: each column defines what it shows of a row, and a TableSpec lists the columns. ``table`` fills them
from rows of any kind, such as Units. ``results.document.text`` does footnote letters, alignment and file formats.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from results.document.grades import MEANING

NOT_MEASURED = "–"
ROWS_SHOWN_MAX = 100  # of a long table
SKETCH_HEIGHT = 24
TLS_WORDS = {True: "yes", False: "no", None: "unknown"}  # TLS according to a platform's profile


@dataclass(frozen=True, slots=True)
class Sketch:
    """A small drawing in a cell: the heights of bins of equal width, SKETCH_HEIGHT at most."""

    heights: tuple[int, ...]
    words: str  # what it shows, for readers who do not see it


@dataclass(frozen=True, slots=True)
class Cell:
    """``text`` for people, ``number`` for programs (None: only text), ``notes`` that qualify it."""

    text: str
    number: float | None = None
    notes: tuple[str, ...] = ()
    of: Hashable | None = field(default=None, compare=False)  # what it shows a value of, such as a unit's key
    link: str = field(default="", compare=False)  # an address, relative to the page
    sketch: Sketch | None = field(default=None, compare=False)
    grade: str = ""  # how well the number is known, see ``grades``


@dataclass(frozen=True, slots=True)
class Column:
    """A heading with its unit, and the function that reads the cell from a row.

    The leading ``label`` columns name the rows.
    """

    name: str
    unit: str = ""
    of: Callable[[Any], Cell | str | float | None] | None = field(default=None, compare=False)
    digits: int = field(default=0, compare=False)  # decimal places of a number
    notes: Callable[[Any], tuple[str, ...]] | None = field(default=None, compare=False)
    label: bool = False
    words: bool = False  # left-aligned, and wrapped if long
    scale: tuple[tuple[float, str], ...] = ()  # of its sketches: places from 0 to 1, with their values

    def cell(self, row: Any) -> Cell:
        """Return the cell of a row in this column. None means not measured."""
        assert self.of is not None, f"column {self.name!r} does not say what it shows"
        value = self.of(row)
        if isinstance(value, Cell):
            return value
        notes = self.notes(row) if self.notes is not None else ()
        return Cell(value, None, notes) if isinstance(value, str) else number(value, self.digits, notes)


@dataclass(frozen=True, slots=True)
class Table:
    name: str  # name of its file: archive-objects-per-second
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    across: str = ""  # meaning of the number columns' headings: "objects per session"
    is_long: bool = False  # with more than ROWS_SHOWN_MAX rows, Markdown only links to its file

    @property
    def notes(self) -> tuple[str, ...]:
        """Every note once, in reading order."""
        return tuple(dict.fromkeys(note for row in self.rows for cell in row for note in cell.notes))

    @property
    def legend(self) -> str:
        """The meaning of its grades; empty if it has none."""
        return MEANING if any(cell.grade for row in self.rows for cell in row) else ""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """The declaration of a table: its columns, and what each shows of a row."""

    name: str
    title: str
    columns: tuple[Column, ...]
    caption: str = ""
    across: str = ""
    is_long: bool = False

    def table(self, rows: Iterable[Any], more: Sequence[tuple[Cell, ...]] = ()) -> Table:
        """Return the table of these rows, followed by the finished rows ``more``."""
        cells = (*(filled(self.columns, row) for row in rows), *more)
        return Table(self.name, self.title, self.columns, cells, self.caption, self.across, self.is_long)


def label_columns(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, label=True) for name in names)


def filled(columns: Iterable[Column], row: Any) -> tuple[Cell, ...]:
    return tuple(column.cell(row) for column in columns)


def columns_of(part: Callable[[Any], Any], columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return these columns, applied to a part of each row."""

    def of_part(read: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
        return None if read is None else lambda row: read(part(row))

    return tuple(replace(column, of=of_part(column.of), notes=of_part(column.notes)) for column in columns)


def number(value: float | None, decimals: int, notes: tuple[str, ...] = ()) -> Cell:
    return Cell(NOT_MEASURED, None, notes) if value is None else Cell(f"{value:,.{decimals}f}", value, notes)


def linked(table: Table, links: Mapping[str, str]) -> Table:
    """Return the table with a link in the first cell of each row whose text has one in ``links``."""
    rows = ((replace(row[0], link=links.get(row[0].text, "")), *row[1:]) for row in table.rows)
    return replace(table, rows=tuple(rows))


def settings_table(name: str, title: str, settings: Mapping[str, str]) -> Table:
    """Return a table of recorded names and values, one pair per row."""
    columns = (Column("setting", of=lambda row: row[0], label=True), Column("value", of=lambda row: row[1], words=True))
    return TableSpec(name, title, columns).table(settings.items())
