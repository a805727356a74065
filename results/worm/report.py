"""The report of a conformance run: worm.md and worm.html, by requirement, check by check.

Both contain the same tables. The HTML page is one file that loads nothing else.
"""

from __future__ import annotations

from pathlib import Path

from results.document.document import Document, KeyFinding, Section
from results.document.files import write_files
from results.document.html import html_page
from results.document.markdown import markdown_page
from results.document.table import Table
from results.recorded.run import RecordedRun
from results.worm.findings import (
    DISCLAIMER,
    catalogue_of,
    checks_sentence,
    evidence_table,
    findings_table,
    harm_table,
    requirement_table,
    rounds_table,
)
from results.worm.regimes import regime_table


def write_worm_report(recorded: RecordedRun, folder: Path) -> list[Path]:
    """Write worm.html and worm.md into a folder and return their paths. The function creates the folder if necessary.

    Raises ResultsError.
    """
    found = worm_as_document(recorded)
    return write_files(folder, {"worm.html": html_page(found).encode(), "worm.md": markdown_page(found).encode()})


def worm_as_document(recorded: RecordedRun) -> Document:
    """Return the document of a conformance run."""
    platform = recorded.run.platform
    bad = any(check.is_violation for check in recorded.checks)
    return Document(
        kind=f"Archiver conformance, run {recorded.run.id}, {', '.join(platform.endpoints)}",
        title=f"WORM conformance: {platform.title}",
        answers=(checks_sentence(platform.name, recorded.checks, catalogue_of(recorded.run)),),
        findings=(
            KeyFinding("bad" if bad else "good", "Verdict", "violates its locks" if bad else "no violation"),
            KeyFinding("plain", "Meaning", DISCLAIMER),
        ),
        sections=(Section("worm", "WORM evidence", tables=tuple(worm_tables(recorded))),),
    )


def worm_tables(recorded: RecordedRun) -> list[Table]:
    """Return the tables of a run's conformance checks; empty if it made none."""
    checks = recorded.checks
    if not checks:
        return []
    exchanges = {check.name: len(recorded.exchanges(check)) for check in checks}
    tables = [
        harm_table(checks),
        findings_table(checks),
        rounds_table(checks, recorded.rounds),
        requirement_table(checks, catalogue_of(recorded.run)),
        regime_table(checks),
        evidence_table(checks, exchanges),
    ]
    return [table for table in tables if table.rows]
