"""``archiver worm reproduce``: write a script and a text that show a finding of a conformance run again."""

from __future__ import annotations

from pathlib import Path

import click

from archiver.cli.completion import run_names
from archiver.machine.home import find_run
from archiver.values.errors import ResultsError
from results.recorded.run import opened
from results.worm.harm import harm_words
from results.worm.reproduction.evidence import reproducible_check, reproduction_of
from results.worm.reproduction.script import script_text
from results.worm.reproduction.tracker import title_of, tracker_text


@click.command()
@click.argument("run", shell_complete=run_names)
@click.argument("check")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for both files  [default: reproductions/ in the run's folder]",
)
def reproduce(run: str, check: str, out: Path | None) -> None:
    """Write a script and a text that show a finding to a vendor.

    CHECK.py needs Python and botocore, and nothing of Archiver; endpoint and credentials come from the AWS variables.
    It sends the requests of the evidence, and exits with 1 if it saw the finding again, 0 if not, 125 if it cannot
    tell. CHECK.md has platform, steps, what was expected and what was seen. Only a FAIL or a DEVIATION can be
    reproduced, and only its first finding. A finding that was seen only under load or after a restart is refused.

    \b
    Example:
        archiver worm reproduce latest OVR-04 --out .
    """
    path = find_run(run)
    with opened(path) as recorded:
        record = reproducible_check(recorded.checks, check)
        found = reproduction_of(record, recorded.exchanges(record))
        platform, identifier = recorded.run.platform, recorded.run.id
        folder = out if out is not None else recorded.path.parent / "reproductions"
    script = folder / f"{check}.py"
    texts = {
        script: script_text(found, title_of(found, platform), harm_words(record)),
        script.with_suffix(".md"): tracker_text(found, platform, identifier, script.name),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            file.write_text(text, encoding="utf-8")
            click.echo(str(file))
    except OSError as failed:
        raise ResultsError(f"{folder}: cannot be written: {failed.strerror}") from failed
