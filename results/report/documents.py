"""The documents of one run: a folder of report.md, results.json, tables and figures, or one file, report.html.

Tables are tables/*.csv; figures are figures/*.svg and *.png.

Everything comes from the run's database, so a later command creates the same bytes again. The documents do not contain
the time or the machine of their creation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from archiver.values.errors import ResultsError
from archiver.values.typed import undamaged
from results.document.drawing import png_bytes, svg_bytes
from results.document.files import json_text, write_files
from results.document.html import html_page
from results.document.table import Table
from results.document.text import escape_markdown, render_csv, render_markdown
from results.figures.phases import Caption
from results.measures.watched import NOTHING_WATCHED, Watched
from results.recorded.model import Result
from results.recorded.run import RecordedRun
from results.report.contents import LONG_TABLES, ROWS_SHOWN_MAX, Priced, belongs, build_report, draw_figures
from results.report.mixed_contents import WorkloadsShown, mixed_figures, mixed_tables
from results.tables.audits import audits_table
from results.tables.rates import build_tables

PAGE_NAME = "report.html"


def write_documents(
    folder: Path,
    document: Mapping[str, Any],
    *,
    facts: Mapping[str, str],
    doubts: Sequence[str] = (),
    shares_machine: bool = False,
    watched: Watched = NOTHING_WATCHED,
    audits: Sequence[Mapping[str, Any]] = (),
    further: Sequence[Table] = (),
    mixed: WorkloadsShown | None = None,
) -> list[Path]:
    """Write every document of a run into ``folder`` and return their paths, report.md first.

    The function creates the folder if necessary. ``document`` is that of ``run_document`` and becomes results.json.
    ``facts`` (label -> text) begin the report in their order. ``doubts`` are sentences with warnings and remedies.
    ``shares_machine`` states that client and server ran on one host. ``watched`` has the server's samples. ``audits``
    are the results of later audits of the run. ``further`` are the tables of its conformance checks and of its workers.
    ``mixed`` has its simultaneous workloads. Files of the same names are replaced; the function leaves other files
    alone. Raises ResultsError if the folder cannot be written.
    """
    results = [undamaged(Result, entry) for entry in document["results"]]
    tables = _tables(results, watched, audits, further, mixed)
    caption = Caption(document["run"], document["platform"]["name"], shares_machine)
    figures = draw_figures(results, watched, caption)
    if mixed is not None:
        figures |= mixed_figures(mixed, caption)
    title = f"# {document['scenario']} on {document['platform']['name']}: run {document['run']}"
    files = {
        "report.md": report_markdown(title, facts, doubts, tables, figures).encode(),
        "results.json": json_text(document).encode(),
    }
    files |= _csv_files(tables)
    for name, figure in figures.items():
        files[f"figures/{name}.svg"] = svg_bytes(figure)
        files[f"figures/{name}.png"] = png_bytes(figure)
    return write_files(folder, files)


def write_page(
    folder: Path,
    recorded: RecordedRun,
    *,
    facts: Mapping[str, str],
    doubts: Sequence[str],
    watched: Watched,
    priced: Priced | None = None,
    mixed: WorkloadsShown | None = None,
) -> list[Path]:
    """Write report.html, the whole report of a run in one file, and return its path.

    The arguments are those of ``write_documents``, and the cost of the platform. Raises ResultsError if the folder
    cannot be written.
    """
    report = build_report(recorded, facts=facts, doubts=doubts, watched=watched, priced=priced, mixed=mixed)
    return write_files(folder, {PAGE_NAME: html_page(report).encode()})


def write_csv(
    folder: Path,
    document: Mapping[str, Any],
    watched: Watched = NOTHING_WATCHED,
    audits: Sequence[Mapping[str, Any]] = (),
    further: Sequence[Table] = (),
    mixed: WorkloadsShown | None = None,
) -> list[Path]:
    """Write tables/*.csv and return their paths.

    The arguments are those of ``write_documents``. Raises ResultsError if the folder cannot be written, or if there is
    nothing to tabulate.
    """
    results = [undamaged(Result, entry) for entry in document["results"]]
    files = _csv_files(_tables(results, watched, audits, further, mixed))
    if not files:
        raise ResultsError(f"run {document['run']} has no results: no phase finished, so there are no tables")
    return write_files(folder, files)


def write_json(folder: Path, document: Mapping[str, Any]) -> list[Path]:
    """Write results.json and return its path. Raises ResultsError if the folder cannot be written."""
    return write_files(folder, {"results.json": json_text(document).encode()})


def report_markdown(
    title: str,
    facts: Mapping[str, str],
    doubts: Sequence[str],
    tables: Sequence[Table],
    figures: Mapping[str, Figure],
) -> str:
    """Return the report: facts, warnings, then each table below the figure of the same numbers."""
    parts = [title]
    if facts:
        rows = [f"| {escape_markdown(label)} | {escape_markdown(text)} |" for label, text in facts.items()]
        parts.append("\n".join(["| | |", "| :--- | :--- |", *rows]))
    if doubts:
        parts += ["## Warnings", "\n".join(f"- {escape_markdown(doubt)}" for doubt in doubts)]
    parts.append("## Results")
    if not tables:
        parts.append("No phase finished, so there are no results.")
    shown: set[str] = set()
    for table in tables:
        for name, figure in figures.items():
            if name not in shown and belongs(name, table.name):
                shown.add(name)
                parts.append(f"[![{figure.get_suptitle()}](figures/{name}.svg)](figures/{name}.png)")
        if table.name in LONG_TABLES and len(table.rows) > ROWS_SHOWN_MAX:
            link = f"[{len(table.rows):,} rows as CSV](tables/{table.name}.csv)"
            parts += [f"### {table.title}", table.caption, link]
        else:
            parts += [render_markdown(table).rstrip("\n"), f"[The same as CSV](tables/{table.name}.csv)"]
    return "\n\n".join(parts) + "\n"


def _tables(
    results: Sequence[Result],
    watched: Watched,
    audits: Sequence[Mapping[str, Any]],
    further: Sequence[Table],
    mixed: WorkloadsShown | None,
) -> list[Table]:
    """Return every table of a run: measurements, audits, and the others."""
    measured = build_tables(results, watched) if results else []
    together = mixed_tables(mixed) if mixed is not None else []
    return [*measured, *together, *([audits_table(audits)] if audits else []), *further]


def _csv_files(tables: Sequence[Table]) -> dict[str, bytes]:
    return {f"tables/{table.name}.csv": render_csv(table).encode() for table in tables}
