"""A document as one HTML file with every figure, style and script, which loads nothing else.

The page is complete without its script, which only adds sorting and filtering to existing tables. The templates escape
all text from a platform, a file or a user.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Hashable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from results.document.document import Document, Drawing, Section
from results.document.table import SKETCH_HEIGHT, Cell, Sketch, Table
from results.document.text import render_csv

_STEP = 5  # width of a bin of a sketch
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def html_page(document: Document) -> str:
    """Return the page of a document. The same document gives the same text."""
    anchors = _anchors(document)
    text = (
        _environment()
        .get_template("document.html")
        .render(
            style=_text("page.css"),
            script=_text("page.js"),
            document=document,
            main=_drawing(document.main) if document.main is not None else None,
            sections=[_section(section, anchors) for section in document.sections],
        )
    )
    return text.rstrip("\n") + "\n"


def table_view(table: Table, anchors: Mapping[Hashable, str] | None = None) -> dict[str, Any]:
    """Return the template's values of a table. ``anchors``: the rows that cells of a unit link to."""
    anchors = anchors or {}
    letters = {note: _letter(place) for place, note in enumerate(table.notes)}
    is_target = any(cell.sketch is not None for row in table.rows for cell in row)
    return {
        "table": table,
        "name": table.name,
        "labels": sum(column.label for column in table.columns),
        "kinds": [_kind(table, place) for place in range(len(table.columns))],
        "rows": [
            {
                "anchor": next((anchors.get(cell.of, "") for cell in row if cell.sketch and cell.of), ""),
                "cells": [_cell(cell, letters, {} if is_target else anchors) for cell in row],
            }
            for row in table.rows
        ],
        "notes": [(letter, note) for note, letter in letters.items()],
        "csv": data_uri("text/csv", render_csv(table)),
    }


def data_uri(kind: str, text: str) -> str:
    """Return a link that contains its target."""
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


def _anchors(document: Document) -> dict[Hashable, str]:
    """Return the anchors of the rows with a sketch, by what they show."""
    cells = (cell for table in document.tables() for row in table.rows for cell in row if cell.sketch)
    return {cell.of: f"cell-{place}" for place, cell in enumerate(cells, 1) if cell.of is not None}


def _drawing(drawing: Drawing) -> dict[str, Any]:
    from results.document.inline_figures import figure_csv, inline_svg  # loads matplotlib, which few pages need

    return {
        "name": drawing.name,
        "number": "".join(re.findall(r"^figure-(\d+)", drawing.name)),  # empty: a figure without a number
        "title": drawing.figure.get_suptitle(),
        "svg": inline_svg(drawing.name, drawing.figure),
        "table": drawing.table,
        "note": drawing.note,
        "csv": data_uri("text/csv", figure_csv(drawing.figure)),
    }


def _section(section: Section, anchors: Mapping[Hashable, str]) -> dict[str, Any]:
    return {
        "section": section,
        "drawings": [_drawing(drawing) for drawing in section.drawings],
        "settings": [table_view(table, anchors) for table in section.settings],
        "tables": [table_view(table, anchors) for table in section.tables],
        "further_drawings": [_drawing(drawing) for drawing in section.further_drawings],
        "further_tables": [table_view(table, anchors) for table in section.further_tables],
        "further": " and ".join(
            f"{count} further {word}{'s' if count > 1 else ''}"
            for word, count in (("figure", len(section.further_drawings)), ("table", len(section.further_tables)))
            if count
        ),
    }


def _cell(cell: Cell, letters: Mapping[str, str], anchors: Mapping[Hashable, str]) -> dict[str, Any]:
    """Return the template's values of a cell: its text, the number to sort by, its footnotes, and what it links to."""
    anchor = anchors.get(cell.of, "") if cell.of is not None else ""
    return {
        "text": cell.text,
        "number": "" if cell.number is None else f"{cell.number:.10g}",
        "grade": cell.grade,
        "letters": [letters[note] for note in cell.notes],
        "link": f"#{anchor}" if anchor else cell.link,
        "title": "its latency distribution" if anchor else "",
        "sketch": None if cell.sketch is None else _sketch(cell.sketch),
    }


def _sketch(sketch: Sketch) -> dict[str, Any]:
    """Return a sketch as a path of steps: a bin is level over its width, and empty bins at the ends are not drawn."""
    heights = sketch.heights
    first = next(place for place, height in enumerate(heights) if height)
    last = max(place for place, height in enumerate(heights) if height)
    path, level = [f"M{first * _STEP} {SKETCH_HEIGHT}"], 0
    for place in range(first, last + 1):
        if heights[place] != level:
            path.append(f"H{place * _STEP}V{SKETCH_HEIGHT - heights[place]}")
            level = heights[place]
    path.append(f"H{(last + 1) * _STEP}V{SKETCH_HEIGHT}Z")
    return {"path": "".join(path), "words": sketch.words, "width": len(heights) * _STEP, "height": SKETCH_HEIGHT}


def _kind(table: Table, place: int) -> str:
    """Return the kind of a column.

    ``label`` and ``words`` are left-aligned, ``words`` may be wrapped, ``number`` is right-aligned.
    """
    column = table.columns[place]
    if column.scale:
        return "plain curve"
    if column.words:
        return "words"
    return "label" if column.label and all(row[place].number is None for row in table.rows) else "number"


def _letter(place: int) -> str:
    return _LETTERS[place % len(_LETTERS)] * (place // len(_LETTERS) + 1)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("results.document", "pages"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )


def _text(name: str) -> str:
    return files("results.document").joinpath("pages", name).read_text(encoding="utf-8")
