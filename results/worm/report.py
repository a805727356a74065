"""The report of a conformance run: worm.md and worm.html, by requirement, check by check.

Both contain the same tables. The HTML page is one file that loads nothing else.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from results.database import RunDatabase
from results.files import write_files
from results.table import Table
from results.text import render_markdown
from results.worm.findings import (
    DISCLAIMER,
    catalogue_of,
    checks_sentence,
    evidence_table,
    findings_table,
    requirement_table,
    rounds_table,
)
from results.worm.regimes import regime_table

_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#1b1b1b}"
    "table{border-collapse:collapse;width:100%;margin:1rem 0}th,td{border-bottom:1px solid #ddd;padding:.35rem .5rem;"
    "text-align:left;vertical-align:top}th{background:#f4f4f4}caption{text-align:left;color:#555;padding:.3rem 0}"
    "td.FAIL{background:#f6d5d0}td.PASS{background:#dcefdc}td.DEVIATION,td.INCONCLUSIVE{background:#fbeecb}"
)


def write_worm_report(database: RunDatabase, folder: Path) -> list[Path]:
    """Write worm.html and worm.md into a folder and return their paths. The function creates the folder if necessary.

    Raises ResultsError.
    """
    run, checks = database.run(), database.checks()
    exchanges = {check.name: len(database.exchanges(check)) for check in checks}
    tables = [
        findings_table(checks),
        rounds_table(checks, database.rounds()),
        requirement_table(checks, catalogue_of(run)),
        regime_table(checks),
        evidence_table(checks, exchanges),
    ]
    platform = run.platform
    title = f"WORM conformance: {platform.title}"
    answer = checks_sentence(platform.name, checks, catalogue_of(run))
    facts = f"{answer} Run {run.id}, {', '.join(platform.endpoints)}. {DISCLAIMER}"
    tables = [table for table in tables if table.rows]
    markdown = "\n".join([f"# {title}", "", facts, "", *(render_markdown(table) for table in tables)])
    return write_files(folder, {"worm.html": _html(title, facts, tables).encode(), "worm.md": markdown.encode()})


def _html(title: str, facts: str, tables: list[Table]) -> str:
    body = [f"<h1>{escape(title)}</h1><p>{escape(facts)}</p>", *(_html_table(table) for table in tables)]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><body>{''.join(body)}</body></html>\n"
    )


def _html_table(table: Table) -> str:
    heads = "".join(f'<th scope="col">{escape(column.name)}</th>' for column in table.columns)
    rows = "".join(
        "<tr>"
        + "".join(f'<td class="{escape(cell.text, quote=True)}">{escape(cell.text)}</td>' for cell in row)
        + "</tr>"
        for row in table.rows
    )
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    return f"<h2>{escape(table.title)}</h2><table>{caption}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
