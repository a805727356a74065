"""A document as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from results.document.document import Document, KeyFinding, Section
from results.document.text import escape_markdown, render_markdown

_MARKS = {"good": "✓ ", "bad": "✗ ", "care": "! ", "plain": ""}


def markdown_page(document: Document, figures: str = "figures") -> str:
    """Return the text of a document. ``figures``: the folder with its figures, as SVG and PNG."""
    return "\n\n".join(_parts(document, figures)) + "\n"


def _parts(document: Document, figures: str) -> Iterator[str]:
    yield f"# {document.title}"
    yield from document.answers
    if document.caution:
        yield document.caution
    if document.numbers:
        yield "\n".join(
            f"- **{escape_markdown(each.name)}**: {escape_markdown(f'{each.value} {each.unit}'.strip())}"
            + (f" ({escape_markdown(each.basis)})" if each.basis else "")
            for each in document.numbers
        )
    if document.findings or document.further_findings:
        yield "\n".join(map(_line, (*document.findings, *document.further_findings)))
    for section in document.sections:
        yield from _section(section, figures)


def _line(finding: KeyFinding) -> str:
    texts = " ".join(map(escape_markdown, (finding.text, *finding.more)))
    return f"- {_MARKS[finding.state]}**{escape_markdown(finding.about)}**: {texts}"


def _section(section: Section, figures: str) -> Iterator[str]:
    yield f"## {section.title}"
    yield from section.words
    if section.sentences:
        yield "\n".join(f"- {escape_markdown(sentence)}" for sentence in section.sentences)
    for drawing in (*section.drawings, *section.further_drawings):
        yield f"[![{drawing.figure.get_suptitle()}]({figures}/{drawing.name}.svg)]({figures}/{drawing.name}.png)"
    yield from (render_markdown(table).rstrip("\n") for table in section.every_table)
