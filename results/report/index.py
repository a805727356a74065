"""A page that lists every run under a folder with its key figures.

A run that cannot be read has a line with the reason, and the page still lists all others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from archiver.values.errors import ResultsError
from archiver.values.sizes import format_instant
from results.document.document import Document, Section, filled
from results.document.files import write_files
from results.document.html import html_page
from results.document.table import NOT_MEASURED, Cell, Column, Table, TableSpec, linked
from results.recorded.database import FILE_NAME
from results.recorded.run import opened
from results.report.documents import PAGE_NAME
from results.report.key_figures import KeyFigures, key_figures, where
from results.tables.columns import rate_cell

INDEX_NAME = "index.html"
_PAGES = (PAGE_NAME, "worm.html")  # possible names of a run's report in its folder


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run's folder, and its key figures, or why they cannot be read."""

    folder: Path
    figures: KeyFigures | None
    problem: str = ""


def write_index(folder: Path, out: Path | None = None) -> tuple[Path, int]:
    """Write index.html into a folder, or into ``out``, and return its path and the number of runs.

    The function creates the target folder if necessary. Raises ResultsError if there is no run under the folder, or if
    the page cannot be written.
    """
    runs = listed_runs(folder)
    if not runs:
        raise ResultsError(f"{folder}: there is no run under it; name the folder that contains the runs' folders")
    home = out if out is not None else folder
    (path,) = write_files(home, {INDEX_NAME: index_page(runs, home).encode()})
    return path, len(runs)


def listed_runs(folder: Path) -> list[ListedRun]:
    """Return every run under a folder, the latest first. Runs that cannot be read come last."""
    found = [listed_run(path) for path in sorted(folder.rglob(FILE_NAME))]
    found.sort(key=lambda run: (run.figures is None, -run.figures.started_at if run.figures else 0.0))
    return found


def index_page(runs: list[ListedRun], home: Path) -> str:
    """Return the page of these runs, with links relative to ``home`` to the runs' own reports."""
    links = {_name(run): link for run in runs if (link := _link(run, home))}
    table = linked(runs_table([run.figures for run in runs if run.figures is not None]), links)
    unread = tuple(f"{_relative(run.folder, home)}: {run.problem}" for run in runs if run.figures is None)
    title = f"{len(runs)} run{'s' if len(runs) != 1 else ''}"
    sections = (
        Section("runs", "Runs", tables=(table,) if table.rows else ()),
        Section("unread", "Runs that cannot be read", sentences=unread),
    )
    return html_page(Document("Archiver", title, sections=filled(sections)))


def listed_run(path: Path) -> ListedRun:
    """Return the run of a database; its problem if it cannot be read."""
    try:
        with opened(path) as recorded:
            return ListedRun(path.parent, key_figures(recorded))
    except ResultsError as error:
        return ListedRun(path.parent, None, str(error))


def runs_table(runs: Iterable[KeyFigures]) -> Table:
    """Return the table of these runs."""
    return _RUNS.table(runs)


def _point(run: KeyFigures) -> str:
    peak = run.peaks.get("archive") or run.peaks.get("retrieve")
    return where(peak.by_objects) if peak else NOT_MEASURED


def _rate(operation: str) -> Column:
    """Return the column of an operation's objects/s at the run's point, marked if they are to be read with care."""

    def rate(run: KeyFigures) -> Cell:
        if operation not in run.peaks:
            return Cell(NOT_MEASURED)
        found = run.peaks[operation].by_objects
        elsewhere = () if where(found) == _point(run) else (f"at {where(found)}",)
        return rate_cell(found, found.objects_per_second, 0, *elsewhere)

    return Column(operation, "objects/s", rate)


_RUNS = TableSpec(
    "runs",
    "Runs",
    (
        Column("run", of=lambda run: run.run, label=True),
        Column("started", of=lambda run: f"{format_instant(run.started_at)[:16].replace('T', ' ')} UTC", label=True),
        Column("platform", of=lambda run: f"{run.platform} through {run.backend}", words=True),
        Column("scenario", of=lambda run: run.scenario, label=True),
        Column("verdict", of=lambda run: run.verdict, label=True),
        Column("point", of=_point, label=True),
        *map(_rate, ("archive", "retrieve")),
        Column("warnings", of=lambda run: run.doubts),
    ),
    "The point is where the run archived the most objects/s; both rates are those there.",
)


def _name(run: ListedRun) -> str:
    return run.figures.run if run.figures else ""


def _link(run: ListedRun, home: Path) -> str:
    """Return the path of the run's page relative to the index; "" if there is none."""
    for name in _PAGES:
        found = run.folder / "report" / name
        if found.exists():
            return quote(_relative(found, home))
    return ""


def _relative(path: Path, home: Path) -> str:
    return os.path.relpath(path.resolve(), home.resolve())
