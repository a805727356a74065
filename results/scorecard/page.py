"""The page of a scorecard, scorecard.html or scorecard.md: the verdict first, then each part over all platforms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from results.files import write_files
from results.report.contents import Section
from results.report.page import comparison_page
from results.scorecard.cards import Scorecard
from results.scorecard.tables import (
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
from results.scorecard.verdicts import answers, conditions, findings
from results.summary.key_figures import KeyFinding
from results.table import Table
from results.text import render_markdown

PageFormat = Literal["markdown", "html"]
_STATES = {"good": "✓", "bad": "✗", "care": "!", "plain": ""}


def write_scorecard(folder: Path, scorecard: Scorecard, page_format: PageFormat) -> Path:
    """Write scorecard.html or scorecard.md into a folder, which is created if necessary, and return its path.

    Raises ResultsError if it cannot be written.
    """
    is_html = page_format == "html"
    name = "scorecard.html" if is_html else "scorecard.md"
    (path,) = write_files(folder, {name: (_html(scorecard) if is_html else _markdown(scorecard)).encode()})
    return path


def sections(scorecard: Scorecard) -> list[Section]:
    """Return the parts of a scorecard that have content."""
    found = [
        _section("conformance", "Conformance", conformance_tables(scorecard), regimes_table(scorecard)),
        _section("rates", "Rates and latency", rate_tables(scorecard), detail_tables(scorecard)),
        _section("lock", "Lock cost", lock_cost_tables(scorecard)),
        _section("durable", "Durability", durability_tables(scorecard)),
        _section("resources", "Resources of an object", resource_tables(scorecard)),
        _section("price", "Price", price_tables(scorecard)),
        _section("not-measured", "Not measured", missing_tables(scorecard)),
        replace(_section("about", "What this rests on", basis_tables(scorecard)), sentences=scorecard.differences),
    ]
    return [section for section in found if not section.is_empty]


def title(scorecard: Scorecard) -> str:
    *others, last = [card.label for card in scorecard.cards]
    return f"Scorecard: {', '.join(others)} and {last}" if others else f"Scorecard: {last}"


def _section(name: str, heading: str, tables: list[Table], further: list[Table] | None = None) -> Section:
    return Section(
        name,
        heading,
        tables=tuple(table for table in tables if table.rows),
        further_tables=tuple(table for table in further or () if table.rows),
    )


def _html(scorecard: Scorecard) -> str:
    runs = ", ".join(row.id for card in scorecard.cards for row in card.rows)
    found = [*findings(scorecard), KeyFinding("plain", "Conditions", " ".join(conditions(scorecard)))]
    return comparison_page(
        title(scorecard), f"Archiver scorecard, runs {runs}", answers(scorecard), found, sections(scorecard)
    )


def _markdown(scorecard: Scorecard) -> str:
    return "\n\n".join(_parts(scorecard)) + "\n"


def _parts(scorecard: Scorecard) -> Iterator[str]:
    yield f"# {title(scorecard)}"
    yield from answers(scorecard)
    yield " ".join(conditions(scorecard))
    yield "\n".join(
        f"- {f'{_STATES[each.state]} ' if _STATES[each.state] else ''}**{each.about}**: {each.text}"
        for each in findings(scorecard)
    )
    for section in sections(scorecard):
        yield f"## {section.title}"
        if section.sentences:
            yield "\n".join(f"- {sentence}" for sentence in section.sentences)
        yield from (render_markdown(table).rstrip("\n") for table in (*section.tables, *section.further_tables))
