"""A table as a plain value: cells with a text for people, the number behind it for programs, and notes.

One idea: letters for footnotes, alignment and file formats are the business of ``results.text``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from archiver.values.sizes import format_size
from results.matrix import CellKey, MatrixCell

NOT_MEASURED = "–"
TLS_WORDS = {True: "yes", False: "no", None: "unknown"}  # what a platform's profile says of it


@dataclass(frozen=True, slots=True)
class Cell:
    """``text`` for people, ``number`` for programs (None: only text), ``notes`` that qualify it."""

    text: str
    number: float | None = None
    notes: tuple[str, ...] = ()
    of: CellKey | None = field(default=None, compare=False)  # the cell of the matrix that it was measured in


@dataclass(frozen=True, slots=True)
class Column:
    """A heading: what, and in which unit. The leading ``label`` columns name the rows."""

    name: str
    unit: str = ""
    label: bool = False
    words: bool = False  # set flush left and wrapped where it is long


@dataclass(frozen=True, slots=True)
class Table:
    name: str  # of its file: archive-objects-per-second
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    across: str = ""  # what the headings of the number columns count: "objects per session"

    @property
    def notes(self) -> tuple[str, ...]:
        """Every note once, in the order in which a reader meets them."""
        return tuple(dict.fromkeys(note for row in self.rows for cell in row for note in cell.notes))


def label_columns(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, label=True) for name in names)


def key_labels(key: CellKey) -> tuple[Cell, ...]:
    return (
        Cell(key.operation),
        Cell(format_size(key.object_bytes)),
        number(key.objects_per_session, 0),
        number(key.clients, 0),
    )


def number(value: float | None, decimals: int, notes: tuple[str, ...] = ()) -> Cell:
    return Cell(NOT_MEASURED, None, notes) if value is None else Cell(f"{value:,.{decimals}f}", value, notes)


def interval(cell: MatrixCell | None) -> Cell:
    """How far the 95% interval reaches from the median, the farther side, in percent."""
    found = cell.estimate if cell else None
    if found is None or found.low is None or found.high is None or not found.median:
        return Cell(NOT_MEASURED)
    reach = max(found.high / found.median - 1, 1 - found.low / found.median) * 100
    return Cell(f"±{reach:,.0f}%", reach)
