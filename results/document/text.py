"""Tables as text: for a terminal, as Markdown, as CSV.

People get rounded numbers, aligned on their last digit, with a letter for each footnote after it. Programs get CSV with
full numbers, without letters, and with the notes in words in a last column.
"""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest

from archiver.values.visible import one_line
from results.document.table import Cell, Column, Table

_LETTERS = "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"  # Unicode has no superscript q
_GAP = "  "
_NARROWEST = 16  # minimum width of a column of words


def render_text(table: Table, width: int = 110) -> str:
    """Render a table for a terminal with fixed-width characters, at most ``width`` wide if wrapping is sufficient."""
    letters = _footnote_letters(table)
    columns = [_TextColumn(column, index, table, letters) for index, column in enumerate(table.columns)]
    _squeeze(columns, width)
    full = sum(column.width for column in columns) + len(_GAP) * (len(columns) - 1)
    rule = "─" * full
    out = [table.title, *textwrap.wrap(table.caption, max(width, 40)), ""]
    if table.across:
        labels = sum(column.width + len(_GAP) for column in columns if column.column.label)
        room = full - labels
        dash = "─" if room >= len(table.across) + 8 else " "  # a very short line would not help readers
        out.append(" " * labels + f" {table.across} ".center(room, dash).rstrip())
    headings = [column.heading() for column in columns]
    tallest = max(map(len, headings))
    out += _lines(columns, [[""] * (tallest - len(heading)) + heading for heading in headings])
    out.append(rule)
    grouped = any(above[0] == below[0] for above, below in pairwise(table.rows))
    above: Sequence[Cell] = ()
    for row in table.rows:
        if grouped and above and above[0] != row[0]:
            out.append("")
        shown = _without_repeats(row, above, table.columns)
        out += _lines(columns, [column.cell(cell, letters) for column, cell in zip(columns, shown, strict=True)])
        above = row
    out.append(rule)
    for note, letter in letters.items():
        out += textwrap.wrap(f"{letter} {note}", max(width, 40), subsequent_indent="  ")
    out += textwrap.wrap(table.legend, max(width, 40))
    return "\n".join(out) + "\n"


def render_markdown(table: Table) -> str:
    """Render a Markdown section: heading, caption, pipe table, footnotes."""
    letters = _footnote_letters(table)
    headings = [" ".join(_heading(column)).strip() for column in table.columns]
    if table.across:
        headings[sum(column.label for column in table.columns) - 1] = f"{table.across}:"
    aligned = [":---" if column.label or column.words else "---:" for column in table.columns]
    rows = [[escape_markdown(cell.text) + _marks(cell, letters) for cell in row] for row in table.rows]
    lines = [f"| {' | '.join(cells)} |" for cells in (headings, aligned, *rows)]
    notes = [f"{letter} {escape_markdown(note)}  " for note, letter in letters.items()]
    paragraphs = [f"### {table.title}", table.caption, "\n".join(lines), "\n".join(notes), table.legend]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph) + "\n"


def render_csv(table: Table) -> str:
    """Render CSV: headings with units, one line per row, and a last column of notes if any.

    Fields without a measured value are empty.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    headings = [
        f"{column.name} {table.across}" if table.across and not column.label else " ".join(_heading(column)).strip()
        for column in table.columns
    ]
    has_notes = bool(table.notes or table.legend)
    writer.writerow([*headings, "notes"] if has_notes else headings)
    for row in table.rows:
        notes = "; ".join(
            f"{heading}: {note}" for heading, cell in zip(headings, row, strict=True) for note in _in_words(cell)
        )
        values = [_csv_value(cell, column) for cell, column in zip(row, table.columns, strict=True)]
        writer.writerow([*values, notes] if has_notes else values)
    return file.getvalue()


def _footnote_letters(table: Table) -> dict[str, str]:
    return {note: _LETTERS[i % len(_LETTERS)] * (i // len(_LETTERS) + 1) for i, note in enumerate(table.notes)}


def _marks(cell: Cell, letters: Mapping[str, str]) -> str:
    """Return the grade of a cell and the letters of its footnotes."""
    return (f" {cell.grade}" if cell.grade else "") + "".join(letters[note] for note in cell.notes)


def _in_words(cell: Cell) -> tuple[str, ...]:
    return (f"grade {cell.grade}", *cell.notes) if cell.grade else cell.notes


def _heading(column: Column) -> tuple[str, str]:
    return column.name, f"({column.unit})" if column.unit else ""


class _TextColumn:
    """The layout of one column: its width, its alignment, and a slot that keeps footnote letters out of line."""

    def __init__(self, column: Column, index: int, table: Table, letters: Mapping[str, str]) -> None:
        cells = [row[index] for row in table.rows]
        self.column = column
        self.slot = max((len(_marks(cell, letters)) for cell in cells), default=0)
        self.left = column.words or (column.label and all(cell.number is None for cell in cells))
        needed = [*column.name.split(), _heading(column)[1], *(cell.text for cell in cells)]
        self.width = max(map(len, needed)) + self.slot

    def heading(self) -> list[str]:
        name, unit = _heading(self.column)
        lines = textwrap.wrap(name, self.width - self.slot)
        return [self.place(line) for line in ([*lines, unit] if unit else lines)]

    def cell(self, cell: Cell, letters: Mapping[str, str]) -> list[str]:
        first, *more = (textwrap.wrap(cell.text, self.width) if self.column.words else []) or [cell.text]
        return [self.place(first, _marks(cell, letters)), *map(self.place, more)]

    def place(self, text: str, mark: str = "") -> str:
        if self.left:
            return (text + mark).ljust(self.width)
        return (text.rjust(self.width - self.slot) + mark).ljust(self.width)


def _lines(columns: Sequence[_TextColumn], blocks: Sequence[Sequence[str]]) -> list[str]:
    """Join blocks of lines, already set in their columns, side by side."""
    rows = zip_longest(*blocks, fillvalue="")
    return [
        _GAP.join(text.ljust(column.width) for column, text in zip(columns, row, strict=True)).rstrip() for row in rows
    ]


def _squeeze(columns: Sequence[_TextColumn], width: int) -> None:
    """Narrow the columns of words, the widest first, until the table fits or none can be narrower."""
    words = [column for column in columns if column.column.words]
    while words and sum(column.width + len(_GAP) for column in columns) - len(_GAP) > width:
        widest = max(words, key=lambda column: column.width)
        if widest.width <= _NARROWEST:
            return
        widest.width -= 1


def _without_repeats(row: Sequence[Cell], above: Sequence[Cell], columns: Sequence[Column]) -> list[Cell]:
    """Blank each label that, with all labels before it, equals those of the previous row."""
    shown = list(row)
    for index, column in enumerate(columns):
        if not above or not column.label or above[index] != row[index]:
            break
        shown[index] = Cell("")
    return shown


def _csv_value(cell: Cell, column: Column) -> str:
    if cell.number is not None:
        return f"{cell.number:.10g}"
    return cell.text if column.label or column.words else ""


def escape_markdown(text: str) -> str:
    """Escape text so that it stays within one cell or list item: no bar, no line break."""
    return one_line(text).replace("|", "\\|")
