"""A folder of documents of one run: report.md, results.json, tables/*.csv, figures/*.svg and *.png.

One idea: everything follows from the run's database, so a folder can be made again at any time and comes out the same,
byte for byte. Nothing in it says when it was written or on which machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from archiver.errors import ResultsError
from results.contract import json_text, result_from_document
from results.figures import Caption, build_figures, png_bytes, svg_bytes
from results.resource_figures import RESOURCE_FIGURES, build_resource_figures
from results.tables import SERVER_RESOURCES, Table, build_tables
from results.text import escape_markdown, render_csv, render_markdown
from results.watched import NOTHING_WATCHED, Watched

ROWS_SHOWN_MAX = 100  # of the server's resources phase by phase: more are for programs, and the report links them


def write_documents(
    folder: Path,
    document: Mapping[str, Any],
    *,
    facts: Mapping[str, str],
    doubts: Sequence[str] = (),
    shares_machine: bool = False,
    watched: Watched = NOTHING_WATCHED,
) -> list[Path]:
    """Write every document of a run into ``folder``, made if need be, and return their paths, report.md
    first.

    ``document`` is the run document of ``results.contract`` and becomes results.json. ``facts`` (label ->
    text) open the report in their order; ``doubts`` are sentences on what looks unstable and what to try;
    ``shares_machine`` says that client and server ran on one host; ``watched`` is what was seen of the server
    meanwhile. Files of the same names are replaced, others left alone. Raises ResultsError if there are no
    results, or if the folder cannot be written.
    """
    results = [result_from_document(entry) for entry in document["results"]]
    tables = build_tables(results, watched)
    caption = Caption(document["run"], document["platform"]["name"], shares_machine)
    figures = build_figures(results, caption) | build_resource_figures(watched, caption)
    title = f"# {document['scenario']} on {document['platform']['name']}: run {document['run']}"
    files = {
        "report.md": report_markdown(title, facts, doubts, tables, figures).encode(),
        "results.json": json_text(document).encode(),
    }
    files |= {f"tables/{table.name}.csv": render_csv(table).encode() for table in tables}
    for name, figure in figures.items():
        files[f"figures/{name}.svg"] = svg_bytes(figure)
        files[f"figures/{name}.png"] = png_bytes(figure)
    return [_write(folder / name, content) for name, content in files.items()]


def report_markdown(
    title: str,
    facts: Mapping[str, str],
    doubts: Sequence[str],
    tables: Sequence[Table],
    figures: Mapping[str, Figure],
) -> str:
    """The report: facts, doubts, then each table beneath the figure of the same numbers."""
    parts = [title]
    if facts:
        rows = [f"| {escape_markdown(label)} | {escape_markdown(text)} |" for label, text in facts.items()]
        parts.append("\n".join(["| | |", "| :--- | :--- |", *rows]))
    if doubts:
        parts += ["## Doubts", "\n".join(f"- {escape_markdown(doubt)}" for doubt in doubts)]
    parts.append("## Results")
    shown: set[str] = set()
    for table in tables:
        for name, figure in figures.items():
            if name not in shown and _belongs(name, table):
                shown.add(name)
                parts.append(f"[![{figure.get_suptitle()}](figures/{name}.svg)](figures/{name}.png)")
        if table.name == SERVER_RESOURCES and len(table.rows) > ROWS_SHOWN_MAX:
            link = f"[{len(table.rows):,} rows as CSV](tables/{table.name}.csv)"
            parts += [f"### {table.title}", table.caption, link]
        else:
            parts += [render_markdown(table).rstrip("\n"), f"[The same as CSV](tables/{table.name}.csv)"]
    return "\n\n".join(parts) + "\n"


def _belongs(figure: str, table: Table) -> bool:
    if figure in RESOURCE_FIGURES:
        return table.name == "resource-usage"
    return figure.endswith(table.name) or ("parallel" in figure and table.name.startswith("parallel"))


def _write(path: Path, content: bytes) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise ResultsError(f"cannot write {path}: {error.strerror}; name another folder") from error
    return path
