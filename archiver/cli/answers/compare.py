"""``archiver compare``: compare platforms, with tests against chance."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import click

from archiver.cli.completion import run_names
from archiver.cli.output import chosen, print_compared, print_sentence
from archiver.cli.parameters import tables_option
from archiver.machine.home import find_run
from archiver.values.errors import UsageError
from results.comparison.compare import Comparison, MeasuredRun, compare_runs
from results.comparison.conformance import (
    ComparedChecks,
    ConformanceRun,
    compare_checks,
    conformance_document,
    conformance_sentences,
    conformance_tables,
)
from results.comparison.contract import comparison_document
from results.comparison.gate import Judgement, gate_sentences, judge, parse_condition
from results.comparison.tables import (
    answer_sentences,
    comparison_tables,
    difference_sentences,
    doubt_sentences,
    overall_sentences,
)
from results.document.files import json_text
from results.recorded.run import RecordedRun, opened
from results.worm.findings import DISCLAIMER

_DOUBTS_MAX = 3
FileFormat = Literal["markdown", "html"]
FILE_FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...", shell_complete=run_names)
@click.option(
    "--fail-if",
    "conditions",
    metavar="CONDITION",
    multiple=True,
    help="Exit with status 1 if this condition is true or cannot be judged; repeat for several.",
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(FILE_FORMATS),
    default=FILE_FORMATS[0],
    show_default=True,
    help="Format of the files. markdown: comparison.md, tables and a figure; needs --out. html: one "
    "page, comparison.html.",
)
@click.option("--force", is_flag=True, help="Compare runs that differ too much for a verdict, and mark the comparison.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the files  [default: with html, report/ in the folder of the last run]",
)
@tables_option
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as one JSON document.")
def compare(
    runs: Sequence[str],
    conditions: Sequence[str],
    file_format: FileFormat,
    force: bool,
    out: Path | None,
    tables: tuple[str, ...],
    as_json: bool,
) -> None:
    """Compare the platforms of two or more runs.

    Compares cell by cell and over all cells. Ratios are to the first platform. RUN is a run's id, its folder, its
    database, or `latest`. Several runs of one platform count together; runs that are all of one platform are compared
    with each other. Workloads that ran in parallel are compared one by one and all together, at every scale that all
    runs have. --tables matrix shows the ratios by object size and objects per session, or by scale; --tables published
    shows ESG's. Conformance runs are compared check by check.

    \b
    Example:
        archiver compare 20261121t120329-222b78 latest --format html

    \b
    A CONDITION is NAME.QUANTITY COMPARISON NUMBER, for example
        --fail-if "archive.8KiB.500.objects_per_second < 0.9"  --fail-if "e-mail@4.objects_per_second < 0.9"
        --fail-if "*.*.*.object_service_ms.p99 > 1.5"  --fail-if "e-mail/retrieve.object_ms.mean > 1.2"

    NAME is the name of a cell or of a workload that ran in parallel. * stands for any part of a name. A cell is
    OPERATION.SIZE.OBJECTS: the operation as in the table (also `archive, lock header`), the object size, and the number
    of objects per session. With .CLIENTS it is about that number of clients, without it about one. A workload is its
    name without the tile's number, with /OPERATION one of its operations, with .CLIENTS one of several numbers of
    clients (without it the best), with @SCALE one number of tiles, users ... (without it every scale). `all
    workloads/steady` and `/peak` are all workloads together, `/score` is the score of tiles.

    QUANTITY is objects_per_second, megabytes_per_second, sessions_per_second of an open loop, session_service_ms.mean
    of a cell, object_ms.mean, object_service_ms.p50, object_service_ms.p99, object_ms.p99 of a workload, or score, each
    as its ratio to the first platform, or errors, the number of failed operations on the other platform. COMPARISON is
    <, <=, > or >=. The estimate is judged, and its interval is shown. A cell or workload that the other platform lacks
    fails. Between S3 and TSM use rates and sessions, because the time of an object is defined
    differently.
    """
    wanted = [parse_condition(condition) for condition in conditions]
    paths = [find_run(run) for run in runs]
    if out is None and file_format == "html":
        with opened(paths[-1]) as recorded:
            out = recorded.path.parent / "report"
    of_checks = _conformance_runs(paths)
    if of_checks is not None:
        if wanted:
            raise UsageError(
                "--fail-if is about rates, and these runs hold conformance checks; see the exit status of worm"
            )
        _show_conformance(compare_checks(of_checks), out, file_format, as_json=as_json, names=tables)
        return
    comparison = compare_runs([_measured(path) for path in paths], force=force)
    judgements = judge(comparison, wanted)
    show(comparison, out, as_json=as_json, judgements=judgements, file_format=file_format, tables=tables)
    if any(judgement.fails for judgement in judgements):
        sys.exit(1)


def _measured(path: Path) -> MeasuredRun:
    with opened(path) as recorded:
        return MeasuredRun.read(recorded)


def _conformance_runs(paths: Sequence[Path]) -> list[ConformanceRun] | None:
    """Return the runs if each has conformance checks and no results; None otherwise."""
    found = []
    for path in paths:
        with opened(path) as recorded:
            if recorded.results or not recorded.checks:
                return None
            found.append(ConformanceRun.read(recorded))
    return found


def _show_conformance(
    compared: ComparedChecks, out: Path | None, file_format: FileFormat, *, as_json: bool, names: Sequence[str]
) -> None:
    """Print conformance runs side by side, and write their page or Markdown if a folder is given."""
    tables = [table for table in conformance_tables(compared) if table.rows]
    if as_json:
        click.echo(json_text(conformance_document(compared)), nl=False)
    else:
        for sentence in conformance_sentences(compared):
            print_sentence(sentence)
        for table in chosen(tables, names or ["all"]):
            print_compared(table)
        print_sentence(DISCLAIMER)
    if out is not None:
        from results.comparison.page import write_conformance_documents  # import Jinja only for writing

        (path,) = write_conformance_documents(out, compared, file_format)
        click.echo(f"{path}: 1 file", err=as_json)


def comparison_of(runs: Sequence[RecordedRun], *, force: bool = False) -> Comparison:
    """Return the comparison of these runs. Raises ResultsError if they cannot be compared."""
    return compare_runs([MeasuredRun.read(recorded) for recorded in runs], force=force)


def show(
    comparison: Comparison,
    out: Path | None = None,
    *,
    as_json: bool = False,
    judgements: Sequence[Judgement] = (),
    file_format: FileFormat = "markdown",
    tables: Sequence[str] = (),
) -> None:
    """Print a comparison and the results of its conditions. If a folder is given, write the documents.

    ``tables`` are the names of the tables to print, "all" or "none". Empty: the rates and their ratios.
    """
    paths = []
    if out is not None and file_format == "html":
        from results.comparison.page import write_comparison_page  # import matplotlib only for drawing

        paths = write_comparison_page(out, comparison, judgements)
    elif out is not None:
        from results.comparison.documents import write_comparison  # import matplotlib only for drawing

        paths = write_comparison(out, comparison, judgements)
    if as_json:
        click.echo(json_text(comparison_document(comparison, judgements)), nl=False)
    else:
        _print(comparison, tables)
    for sentence in gate_sentences(judgements):
        print_sentence(sentence, err=as_json)
    if paths:
        click.echo(f"{paths[0]}: {len(paths)} file{'s' if len(paths) > 1 else ''}", err=as_json)


def _print(comparison: Comparison, names: Sequence[str]) -> None:
    for side in comparison.sides:
        print_sentence(f"{side.label}: run{'s' if len(side.runs) > 1 else ''} {', '.join(run.id for run in side.runs)}")
    for sentence in answer_sentences(comparison):
        print_sentence(sentence)
    if "none" in names:
        return
    in_full = "all" in names or not comparison.cells
    for sentence in (overall_sentences if in_full else difference_sentences)(comparison):
        print_sentence(sentence)
    if any(side.runs[0].row.shared_host for side in comparison.sides):
        click.echo("client and server share this machine: comparison, not capacity")
    doubts = doubt_sentences(comparison)
    for sentence in doubts if "all" in names else doubts[:_DOUBTS_MAX]:
        print_sentence(f"warning: {sentence}")
    if len(doubts) > _DOUBTS_MAX and "all" not in names:
        click.echo(f"{len(doubts) - _DOUBTS_MAX} more warnings are in the page: --format html")
    found = comparison_tables(comparison)
    for table in chosen(found.all, names) if names else found.rates:
        print_compared(table)
