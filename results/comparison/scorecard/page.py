"""The page of a scorecard, scorecard.html or scorecard.md: the verdict first, then each part over all platforms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from results.comparison.scorecard.cards import Scorecard
from results.comparison.scorecard.tables import (
    basis_tables,
    conformance_tables,
    detail_tables,
    durability_tables,
    lock_cost_tables,
    missing_tables,
    price_tables,
    rate_tables,
    regimes_table,
    resource_tables,
)
from results.comparison.scorecard.verdicts import answers, conditions, findings
from results.document.document import Document, KeyFinding, Section, filled
from results.document.files import write_files
from results.document.html import html_page
from results.document.markdown import markdown_page
from results.document.table import Table

PageFormat = Literal["markdown", "html"]


def write_scorecard(folder: Path, scorecard: Scorecard, page_format: PageFormat) -> Path:
    """Write scorecard.html or scorecard.md into a folder, which is created if necessary, and return its path.

    Raises ResultsError if it cannot be written.
    """
    found = scorecard_as_document(scorecard)
    name, page = ("scorecard.html", html_page) if page_format == "html" else ("scorecard.md", markdown_page)
    (path,) = write_files(folder, {name: page(found).encode()})
    return path


def scorecard_as_document(scorecard: Scorecard) -> Document:
    """Return the document of a scorecard."""
    runs = ", ".join(row.id for card in scorecard.cards for row in card.rows)
    return Document(
        kind=f"Archiver scorecard, runs {runs}",
        title=_title(scorecard),
        answers=tuple(answers(scorecard)),
        findings=(*findings(scorecard), KeyFinding("plain", "Conditions", " ".join(conditions(scorecard)))),
        sections=filled(_sections(scorecard)),
    )


def _sections(scorecard: Scorecard) -> list[Section]:
    return [
        _section("conformance", "Conformance", conformance_tables(scorecard), regimes_table(scorecard)),
        _section("rates", "Rates and latency", rate_tables(scorecard), detail_tables(scorecard)),
        _section("lock", "Lock cost", lock_cost_tables(scorecard)),
        _section("durable", "Durability", durability_tables(scorecard)),
        _section("resources", "Resources of an object", resource_tables(scorecard)),
        _section("price", "Price", price_tables(scorecard)),
        _section("not-measured", "Not measured", missing_tables(scorecard)),
        replace(_section("about", "What this rests on", basis_tables(scorecard)), sentences=scorecard.differences),
    ]


def _title(scorecard: Scorecard) -> str:
    *others, last = [card.label for card in scorecard.cards]
    return f"Scorecard: {', '.join(others)} and {last}" if others else f"Scorecard: {last}"


def _section(name: str, heading: str, tables: list[Table], further: list[Table] | None = None) -> Section:
    return Section(
        name,
        heading,
        tables=tuple(table for table in tables if table.rows),
        further_tables=tuple(table for table in further or () if table.rows),
    )
