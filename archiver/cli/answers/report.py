"""``archiver report``: the report of a run as a page, as Markdown, as CSV or as JSON; and a page that lists runs."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import click

from archiver.cli.completion import run_names
from archiver.cli.output import print_run
from archiver.cli.parameters import tables_option
from archiver.machine.home import find_run
from archiver.values.errors import UsageError
from results.document.files import json_text, write_files
from results.mixed.replay.price import priced
from results.prices.prices import PriceList, read_prices
from results.recorded.run import RecordedRun, opened
from results.report.contract import run_document
from results.report.mixed_contents import WorkloadsShown, mixed_run

FORMATS = ("markdown", "html", "csv", "json", "text", "junit", "hlog", "prometheus")
_EXPORTS = {"junit": "junit.xml", "hlog": "latencies.hlog", "prometheus": "archiver.prom"}  # files of one text
SUFFIXES = (".html", ".md", ".csv", ".json")  # of files: a path with one of these is written as a file


@click.command()
@click.argument("run", required=False, shell_complete=run_names)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="markdown: report.md, results.json, tables as CSV, figures as SVG and PNG. html: report.html, "
    "one file with everything. csv: the tables. json: the run's document, on standard output "
    "without --out. text: the output of run, with --tables. junit: criteria and conformance checks "
    "for build servers. hlog: latencies as an HdrHistogram log. prometheus: results for "
    "node_exporter's textfile collector.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the report  [default: report/ in the run's folder]",
)
@click.option(
    "--prices",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file of the platform's priced parts, for a section about price; see docs/planning.md. "
    "Used by html, and by markdown and csv if the run replayed application sets.",
)
@tables_option
@click.option(
    "--years", type=click.IntRange(1, 100), default=3, show_default=True, help="Years of support in the price."
)
@click.option(
    "--drives", type=click.IntRange(1, 100_000), help="Tiles: show rates per drive, for this number of drives."
)
@click.option(
    "--index",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write no report, but DIR/index.html, a page that lists every run under DIR.",
)
def report(
    run: str | None,
    form: str,
    out: Path | None,
    prices: Path | None,
    tables: tuple[str, ...],
    years: int,
    drives: int | None,
    index: Path | None,
) -> None:
    """Write the report of RUN.

    The same database gives the same bytes. RUN is a run's id, its folder, its database, or `latest`.

    \b
    Example:
        archiver report latest --format html
    """
    if (run is None) == (index is None):
        raise UsageError("name one run, as in `archiver report latest`, or a folder of runs with --index DIR")
    if out is not None and out.suffix in SUFFIXES:
        raise UsageError(f"{out}: --out names a folder, and report{out.suffix} goes into it; give {out.parent}")
    if index is not None:
        from results.report.index import write_index

        path, runs = write_index(index, out)
        click.echo(f"{path}: {runs} run{'s' if runs > 1 else ''}")
        return
    assert run is not None
    if tables and form != "text":
        raise UsageError("--tables: only --format text prints tables; every other format has all of them")
    written = {"--out": out, "--prices": prices, "--drives": drives}
    if form == "text" and (given := [name for name, value in written.items() if value is not None]):
        raise UsageError(f"{', '.join(given)}: --format text prints what run printed; choose another --format")
    price_list = read_prices(prices) if prices is not None else None
    with opened(find_run(run)) as recorded:
        if form == "text":
            print_run(recorded, tables)
            return
        mixed = mixed_run(recorded, drives=drives)
        if mixed is None and drives is not None:
            raise UsageError(f"--drives: {run} measured no tiles, so it has no rates per drive")
        if price_list is not None:
            mixed = _priced(mixed, form, price_list, years)
        _write(recorded, form, out, price_list, years, mixed)


def _priced(mixed: WorkloadsShown | None, form: str, prices: PriceList, years: int) -> WorkloadsShown | None:
    """Return the run with its price among the tables of its replays. For any other run, only the page has the price."""
    if mixed is not None and mixed.replay is not None:
        if form == "json" or form in _EXPORTS:
            raise UsageError(f"--prices: --format {form} has no prices; choose another format")
        return replace(mixed, replay=priced(mixed.replay, prices, years))
    if form != "html":
        raise UsageError("--prices: only the page has a section on price; add --format html")
    return mixed


def _write(
    recorded: RecordedRun,
    form: str,
    out: Path | None,
    prices: PriceList | None,
    years: int,
    mixed: WorkloadsShown | None,
) -> None:
    if form == "json" and out is None:
        click.echo(json_text(run_document(recorded)), nl=False)
        return
    folder = out if out is not None else recorded.path.parent / "report"
    if form in _EXPORTS:
        click.echo(f"{_export(recorded, form, folder)}: 1 file")
        return
    # Import matplotlib only for writing.
    from results.report.contents import Priced
    from results.report.documents import write_csv, write_documents, write_json, write_page

    gc.disable()  # values stay in memory until they are written: garbage collection took a third of the time
    if form == "html":
        replays = mixed is not None and mixed.replay is not None  # the price is among its tables
        cost = Priced(prices, years) if prices is not None and not replays else None
        paths = write_page(folder, recorded, mixed, cost)
    elif form == "json":
        paths = write_json(folder, recorded)
    else:
        paths = (write_csv if form == "csv" else write_documents)(folder, recorded, mixed)
    click.echo(f"{paths[0]}: {len(paths)} file{'s' if len(paths) > 1 else ''}")


def _export(recorded: RecordedRun, form: str, folder: Path) -> Path:
    """Write a run in the format of other programs; return the path."""
    from results.report.hdr_log import hdr_log
    from results.report.junit import junit_xml
    from results.report.prometheus import prometheus_text

    texts = {"hlog": hdr_log, "junit": junit_xml, "prometheus": prometheus_text}
    (path,) = write_files(folder, {_EXPORTS[form]: texts[form](recorded).encode()})
    return path
