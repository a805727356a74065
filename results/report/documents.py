"""The documents of one run: a folder of report.md, results.json, tables and figures, or one file, report.html.

Tables are tables/*.csv; figures are figures/*.svg and *.png.

Everything comes from the run's database, so a later command creates the same bytes again. The documents do not contain
the time or the machine of their creation.
"""

from __future__ import annotations

from pathlib import Path

from archiver.values.errors import ResultsError
from results.document.document import Document
from results.document.drawing import png_bytes, svg_bytes
from results.document.files import json_text, write_files
from results.document.html import html_page
from results.document.markdown import markdown_page
from results.document.text import render_csv
from results.recorded.run import RecordedRun
from results.report.contents import Priced, build_report
from results.report.contract import run_document
from results.report.mixed_contents import WorkloadsShown

PAGE_NAME = "report.html"


def write_documents(folder: Path, recorded: RecordedRun, mixed: WorkloadsShown | None) -> list[Path]:
    """Write every document of a run into ``folder`` and return their paths, report.md first.

    The function creates the folder if necessary. ``mixed`` has the run's simultaneous workloads. Files of the same
    names are replaced; other files stay. Raises ResultsError if the folder cannot be written.
    """
    report = build_report(recorded, mixed)
    files = {"report.md": markdown_page(report, has_files=True).encode(), **_json(recorded), **_csv_files(report)}
    for drawing in report.drawings():
        files[f"figures/{drawing.name}.svg"] = svg_bytes(drawing.figure)
        files[f"figures/{drawing.name}.png"] = png_bytes(drawing.figure)
    return write_files(folder, files)


def write_page(
    folder: Path, recorded: RecordedRun, mixed: WorkloadsShown | None, priced: Priced | None = None
) -> list[Path]:
    """Write report.html, the whole report of a run in one file, and return its path.

    ``priced`` is the cost of the platform. Raises ResultsError if the folder cannot be written.
    """
    report = build_report(recorded, mixed, priced=priced, is_page=True)
    return write_files(folder, {PAGE_NAME: html_page(report).encode()})


def write_csv(folder: Path, recorded: RecordedRun, mixed: WorkloadsShown | None) -> list[Path]:
    """Write tables/*.csv and return their paths.

    Raises ResultsError if the folder cannot be written, or if there is nothing to tabulate.
    """
    if not recorded.results and not recorded.checks:
        raise ResultsError(f"run {recorded.run.id} has no results: no phase finished, so there are no tables")
    return write_files(folder, _csv_files(build_report(recorded, mixed, has_figures=False)))


def write_json(folder: Path, recorded: RecordedRun) -> list[Path]:
    """Write results.json and return its path. Raises ResultsError if the folder cannot be written."""
    return write_files(folder, _json(recorded))


def report_texts(recorded: RecordedRun, mixed: WorkloadsShown | None) -> dict[str, str]:
    """Return report.md and tables/*.csv, without figures, which show the numbers of the same tables."""
    report = build_report(recorded, mixed, has_figures=False)
    tables = {name: text.decode() for name, text in _csv_files(report).items()}
    return {"report.md": markdown_page(report, has_files=True), **tables}


def _json(recorded: RecordedRun) -> dict[str, bytes]:
    return {"results.json": json_text(run_document(recorded)).encode()}


def _csv_files(report: Document) -> dict[str, bytes]:
    return {f"tables/{table.name}.csv": render_csv(table).encode() for table in report.tables()}
