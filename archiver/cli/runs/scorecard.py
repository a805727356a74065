"""``archiver scorecard``: one page over several platforms; it measures what the named runs do not have."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import click

from archiver.cli.completion import run_names
from archiver.cli.locks.worm import check_platform
from archiver.cli.output import print_compared, print_left_behind, print_sentence
from archiver.cli.parameters import DURATION
from archiver.cli.runs.dry_run import duration_lines
from archiver.cli.runs.request import scenario_request
from archiver.cli.runs.run import measure, requested, run
from archiver.machine import interruption
from archiver.machine.home import find_run, runs_dir
from archiver.platforms.opening import PLATFORMS
from archiver.values.errors import PlatformError
from archiver.values.sizes import format_duration
from archiver.worm.case import COMPLIANCE_SECONDS
from archiver.worm.catalogue import catalogue
from archiver.worm.conduct import WormOptions
from backends.s3 import S3Options
from results.comparison.scorecard.cards import POINTS, Card, Scorecard, ScoredRun, scorecard_of, scored_run
from results.comparison.scorecard.document import scorecard_document
from results.comparison.scorecard.tables import main_tables
from results.comparison.scorecard.verdicts import answers, conditions, findings
from results.document.files import json_text
from results.recorded.run import opened
from results.worm.findings import DISCLAIMER

PageFormat = Literal["markdown", "html"]
PAGE_FORMATS: tuple[PageFormat, ...] = get_args(PageFormat)
_SCENARIO = "scorecard"
_CONFORMANCE_SECONDS = 240.0  # about what the checks of one platform take


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=run_names)
@click.option(
    "--platform",
    "platforms",
    multiple=True,
    type=click.Choice(PLATFORMS),
    help="Also show this platform, and start it to measure what no RUN has; repeat for several.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 100),
    help="Repetitions of every cell, interleaved; 2 or more give 95% intervals.  [default: as many as --for allows]",
)
@click.option(
    "--for",
    "budget_seconds",
    type=DURATION,
    default="30m",
    show_default=True,
    help="Measure in rounds for this long at most, until every rate is known within 10%.",
)
@click.option("--quick", is_flag=True, help="Measure each cell for only a second, to try the command.")
@click.option("--dry-run", is_flag=True, help="Print what would be measured and locked, and stop.")
@click.option(
    "--format",
    "page_format",
    type=click.Choice(PAGE_FORMATS),
    default=PAGE_FORMATS[0],
    show_default=True,
    help="Format of the page that --out writes: scorecard.md or scorecard.html.",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write the page into this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the scorecard as one JSON document.")
def scorecard(
    runs: Sequence[str],
    platforms: Sequence[str],
    repeat: int | None,
    budget_seconds: float,
    quick: bool,
    dry_run: bool,
    page_format: PageFormat,
    out: Path | None,
    as_json: bool,
) -> None:
    """Show locks, rates and costs of platforms on one page.

    The page has conformance, rates, lock cost, durability and resources. RUN is a conformance run (`archiver worm`) or
    a run that measured (`archiver run scorecard`, or any with the same sizes and clients): its id, its folder, its
    database, or `latest`. Runs belong to the platform and version that they recorded. If no run has a result, it is
    listed as not measured, with the command that measures it.

    With --platform the command first measures what is missing: one run that measures these platforms in turn, cell by
    cell, then the conformance checks of each. Before that, it prints what it locks and for how long.

    \b
    Example:
        archiver scorecard --platform embedded --platform minio --dry-run

    Exit status: 0 the scorecard was made, whatever its verdict is; 2 usage; 3 a platform could not be started.
    """
    found = [_read(find_run(name)) for name in runs]
    known = scorecard_of(found).cards if found else ()
    unmeasured = [name for name in platforms if not any(_has_points(card, name) for card in known)]
    unchecked = [name for name in platforms if not any(_has_checks(card, name) for card in known)]
    if unchecked:
        click.echo(_conformance_words(unchecked), err=not dry_run)
    measured = []
    if unmeasured:
        often = f"--for={budget_seconds:g}s" if repeat is None else f"--repeat={repeat}"
        measured = _measured(unmeasured, often, quick=quick, dry_run=dry_run)
    if dry_run:
        return
    found += measured
    for name in unchecked:
        found += _checked(name)
    made = scorecard_of(found)
    _show(made, as_json=as_json)
    for each in measured:
        print_left_behind(each.row.id, err=as_json)
    if out is not None:
        from results.comparison.scorecard.page import write_scorecard  # import Jinja and matplotlib only for writing

        click.echo(f"{write_scorecard(out, made, page_format)}: 1 file", err=as_json)


def _read(path: Path) -> ScoredRun:
    with opened(path) as recorded:
        return scored_run(recorded)


def _has_points(card: Card, platform: str) -> bool:
    is_whole = len(card.points) == len(POINTS) and bool(card.lock_costs)
    return card.is_started_here and card.profile.name == platform and is_whole


def _has_checks(card: Card, platform: str) -> bool:
    return card.is_started_here and card.profile.name == platform and card.conformance is not None


def _conformance_words(platforms: Sequence[str]) -> str:
    """Return what the conformance checks will do, before they do it."""
    seconds = len(platforms) * _CONFORMANCE_SECONDS
    return (
        f"conformance checks of {', '.join(platforms)}: about {format_duration(seconds)}; they lock records in buckets "
        f"of their own, in mode GOVERNANCE, and in mode COMPLIANCE for at most {format_duration(COMPLIANCE_SECONDS)}; "
        "the buckets are removed at the end"
    )


def _measured(platforms: Sequence[str], often: str, *, quick: bool, dry_run: bool) -> list[ScoredRun]:
    """Measure platforms in turn, as ``archiver run scorecard`` does, and return the runs that have results.

    ``often`` is the option for the number of repetitions.
    """
    words = [_SCENARIO, often, *(f"--platform={name}" for name in platforms)]
    words += ["--quick"] if quick else []
    words += ["--dry-run"] if dry_run else []
    with run.make_context("run", words) as context:
        request, scenario = requested(context.params, scenario_request)
        for line in () if dry_run else duration_lines(scenario, len(platforms), request.budget_seconds):
            click.echo(line, err=True)
        outcomes = measure(request, scenario)
    for outcome in outcomes:
        if outcome.interrupted:
            click.echo(f"archiver: {interruption.words(outcome.interrupted)}; see {outcome.database}", err=True)
            sys.exit(interruption.exit_status(outcome.interrupted))
        if outcome.failure:
            click.echo(f"archiver: {outcome.failure}", err=True)
    return [_read(outcome.database) for outcome in outcomes if outcome.results]


def _checked(platform: str) -> list[ScoredRun]:
    """Carry out the conformance checks; without a run if the platform does not let them begin, with a message."""
    options = WormOptions(
        ids=list(catalogue()), compliance=False, out_dir=runs_dir(), command_line=["archiver", *sys.argv[1:]]
    )
    try:
        outcome = check_platform(platform, options, S3Options(endpoints=()))
    except PlatformError as failed:
        click.echo(f"archiver: no conformance checks of {platform}: {failed}", err=True)
        return []
    return [_read(outcome.database)]


def _show(scorecard: Scorecard, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_text(scorecard_document(scorecard)), nl=False)
        return
    for sentence in (*answers(scorecard), *conditions(scorecard)):
        print_sentence(sentence)
    for finding in findings(scorecard):
        print_sentence(f"{finding.about}: {finding.text}")
    for table in main_tables(scorecard):
        print_compared(table)
    print_sentence(DISCLAIMER)
