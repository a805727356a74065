"""``archiver decide``: one page that recommends a platform, from a need, plans and existing runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from archiver.cli.answers.plan import combined_on, request_in, surface_from
from archiver.cli.completion import run_names
from archiver.cli.output import print_compared, print_sentence
from archiver.machine.home import find_run
from archiver.values.errors import ResultsError, UsageError
from results.bundle.audit import sha256_of
from results.comparison.scorecard.cards import Card, ScoredRun, scorecard_of, scored_run
from results.decision.decision import decide as decide_between
from results.decision.document import decision_as_document, decision_document, main_tables
from results.decision.must import read_musts
from results.document.files import json_text, write_files
from results.document.markdown import markdown_page
from results.planning.combined import CombinedPlan, CombinedRequest
from results.recorded.database import FILE_NAME
from results.recorded.run import opened


@click.command()
@click.argument("need", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=run_names)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write decision.html, decision.md and decision.json into this folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the decision as one JSON document.")
def decide(need: Path, runs: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Recommend a platform for NEED, from what RUNs found.

    NEED is the file of `archiver plan all`; must = [...] in it says what a platform must do. RUN is a run that measured
    rates (`archiver run`) or a conformance run (`archiver worm`). Each platform gets a row: locks, meaning of an
    acknowledgement, rate, capacity, restore and cost. Nothing is measured or computed anew: each number is that of the
    scorecard and of the plan.

    \b
    Example:
        archiver decide need.toml latest --out decision

    Exit status: 0 the page was made, whatever it recommends; 2 usage.
    """
    request = request_in(need)
    try:
        musts = read_musts(request.musts)
    except UsageError as unknown:
        raise UsageError(f"{need}: {unknown}") from unknown
    found: list[ScoredRun] = []
    paths: dict[str, Path] = {}
    for path in map(find_run, runs):
        with opened(path) as recorded:
            found.append(scored_run(recorded))
        paths[found[-1].id] = path
    scorecard = scorecard_of(found)
    plans = {card.label: _plan(card, paths, request) for card in scorecard.cards}
    decision = decide_between(scorecard, plans, musts)
    hashes = {run: sha256_of(path / FILE_NAME if path.is_dir() else path) for run, path in paths.items()}
    document = json_text(decision_document(decision, hashes))
    if as_json:
        click.echo(document, nl=False)
    else:
        for sentence in decision.answers():
            print_sentence(sentence)
        for table in main_tables(decision):
            print_compared(table)
    if out is not None:
        from results.document.html import html_page  # import the templates only for writing

        page = decision_as_document(decision, hashes)
        contents = {
            "decision.html": html_page(page).encode(),
            "decision.md": markdown_page(page).encode(),
            "decision.json": document.encode(),
        }
        written = write_files(out, contents)
        click.echo(f"{written[0]}: {len(written)} files", err=as_json)


def _plan(card: Card, paths: Mapping[str, Path], request: CombinedRequest) -> CombinedPlan | str:
    """Return the plan on a platform by its latest run that can answer, or why there is none."""
    rows = [run.row for run in card.side.runs] if card.side is not None else []
    reason = "no run measured its rates"
    for row in sorted(rows, key=lambda row: row.started_at, reverse=True):
        try:
            return combined_on(surface_from(str(paths[row.id])), request)
        except ResultsError as impossible:
            reason = str(impossible)
    return reason
