"""A document as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from results.document.document import Document, Drawing, KeyFinding, Section
from results.document.table import ROWS_SHOWN_MAX, Table
from results.document.text import escape_markdown, render_markdown

_MARKS = {"good": "✓ ", "bad": "✗ ", "care": "! ", "plain": ""}


def markdown_page(document: Document, *, has_files: bool = False) -> str:
    """Return the text of a document.

    ``has_files``: next to it are its figures, as figures/*.svg and *.png, and its tables, as tables/*.csv.
    """
    return "\n\n".join(_parts(document, has_files)) + "\n"


def _parts(document: Document, has_files: bool) -> Iterator[str]:
    yield f"# {escape_markdown(document.title)}"
    yield from map(escape_markdown, document.answers)
    if document.quality:
        yield escape_markdown(document.quality)
    if document.numbers:
        yield "\n".join(
            f"- **{escape_markdown(each.name)}**: {escape_markdown(f'{each.value} {each.unit}'.strip())}"
            + (f" ({escape_markdown(each.basis)})" if each.basis else "")
            for each in document.numbers
        )
    if document.main is not None and has_files:
        yield _picture(document.main)
    if document.findings or document.further_findings:
        yield "\n".join(map(_line, (*document.findings, *document.further_findings)))
    for section in document.sections:
        yield from _section(section, has_files)
    yield escape_markdown(document.kind)


def _line(finding: KeyFinding) -> str:
    texts = "; ".join(map(escape_markdown, (finding.text, *finding.more)))
    return f"- {_MARKS[finding.state]}**{escape_markdown(finding.about)}**: {texts}"


def _section(section: Section, has_files: bool) -> Iterator[str]:
    yield f"## {section.title}"
    yield from map(escape_markdown, section.words)
    if section.sentences:
        yield "\n".join(f"- {escape_markdown(sentence)}" for sentence in section.sentences)
    if has_files:
        yield from map(_picture, (*section.drawings, *section.further_drawings))
        for table in section.every_table:
            yield from _table_with_file(table)
    else:
        yield from (render_markdown(table).rstrip("\n") for table in section.every_table)
    for label, text in section.code:
        yield f"{escape_markdown(label)}:"
        yield textwrap.indent(text, "    ")


def _picture(drawing: Drawing) -> str:
    title = escape_markdown(drawing.figure.get_suptitle())
    return f"[![{title}](figures/{drawing.name}.svg)](figures/{drawing.name}.png)"


def _table_with_file(table: Table) -> Iterator[str]:
    file = f"tables/{table.name}.csv"
    if table.is_long and len(table.rows) > ROWS_SHOWN_MAX:
        yield from (f"### {table.title}", table.caption, f"[{len(table.rows):,} rows as CSV]({file})")
    else:
        yield from (render_markdown(table).rstrip("\n"), f"[The same as CSV]({file})")
