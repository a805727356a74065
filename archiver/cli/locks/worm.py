"""``archiver worm``: test whether a platform refuses to delete or alter locked objects."""

from __future__ import annotations

import secrets
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from archiver.cli.locks.reproduce import reproduce
from archiver.cli.parameters import (
    DURATION,
    credential_options,
    platform_name_options,
    route_options,
    say_first,
    server_clock_option,
)
from archiver.engine.plan import new_run_id
from archiver.ledger.ledger import Ledger
from archiver.machine.home import find_run, ledger_path, runs_dir
from archiver.platforms.hosted import HostedStore
from archiver.platforms.opening import PLATFORMS, EmbeddedStore, PlatformOptions, open_backend
from archiver.values.errors import UsageError
from archiver.values.sizes import format_duration, format_instant
from archiver.worm.case import COMPLIANCE_SECONDS
from archiver.worm.catalogue import catalogue, generated_families
from archiver.worm.conduct import WormOptions, WormOutcome, conduct
from archiver.worm.generated.campaign import Generation
from archiver.worm.platforms.s3 import LimitedClients, S3UnderTest, reached
from archiver.worm.platforms.tsm import CLASSES, OTHER_NODE, TsmUnderTest
from archiver.worm.platforms.under_test import UnderTest, WormRun
from archiver.worm.repeats.restart import restart_of
from archiver.worm.requests.limited import RIGHTS, limited_clients
from archiver.worm.suite import CheckResult, Round
from backends.base import RemovalReport
from backends.s3 import S3Backend, S3Options
from backends.s3.control import Credentials
from backends.s3.credentials import FoundCredentials
from backends.tsm import TsmOptions
from results.document.files import json_text
from results.document.text import render_text
from results.recorded.run import RecordedRun, read_run
from results.worm.baseline import read_baselines
from results.worm.expected import read_expected
from results.worm.findings import (
    DISCLAIMER,
    catalogue_of,
    checks_tried,
    findings_table,
    matrix_table,
    requirement_table,
    rounds_table,
    worm_document,
)
from results.worm.judgement import ConformanceJudgement, judge

# Credentials that the embedded store makes, by the right that each lacks.
_OF_EMBEDDED = {right: f"worm-no-{right}:without={right}" for right in RIGHTS}

_SEEDS = 1_000_000


@click.group(invoke_without_command=True)
@click.option(
    "--platform",
    "platforms",
    multiple=True,
    type=click.Choice(PLATFORMS),
    help="Start this platform and check it; repeat to check several  [default: embedded]",
)
@click.option("--endpoint", metavar="URL", help="Address of a running platform.")
@click.option("--region", help="Region for signatures  [default: the profile's, or us-east-1]")
@platform_name_options
@credential_options
@route_options
@click.option(
    "--limited-profile",
    "limited_profiles",
    metavar="RIGHT=PROFILE,...",
    help="AWS profiles that lack one right each and have the others: bypass, retention, hold, delete.",
)
@click.option(
    "--compliance",
    is_flag=True,
    help="Also lock some objects in COMPLIANCE mode, which nobody can undo, for at most "
    f"{format_duration(COMPLIANCE_SECONDS)}. On platforms that Archiver starts, this is always done.",
)
@server_clock_option
@click.option(
    "--check", "ids", multiple=True, metavar="ID", help="Run only this check or family (DEL); repeat for several."
)
@click.option(
    "--for",
    "seconds",
    type=DURATION,
    metavar="DURATION",
    help="After the checks, try generated sequences for this long, such as 10m. A sequence combines how a record is "
    "written, locked and named with what happens next, who asks, what is tried and when.",
)
@click.option(
    "--seed", type=click.IntRange(0), help="Seed of the generated sequences, with --for  [default: random, recorded]"
)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for runs  [default: runs in $ARCHIVER_HOME]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON document.")
@click.option(
    "--against",
    metavar="RUN|FILE",
    help="An earlier run, or its JSON document: exit with status 1 only for findings that it does not have.",
)
@click.option(
    "--expected",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="TOML file of checks that are expected to fail, each with a reason and a link. They do not fail the run.",
)
@click.pass_context
def worm(
    context: click.Context,
    /,
    platforms: Sequence[str],
    endpoint: str | None,
    limited_profiles: str | None,
    compliance: bool,
    accepts_server_clock: bool,
    ids: Sequence[str],
    seconds: float | None,
    seed: int | None,
    out: Path | None,
    as_json: bool,
    against: str | None,
    expected: Path | None,
    **access: Any,  # options of S3Options
) -> None:
    """Test whether the locks of a platform hold.

    Tries everything that could lose, alter or unlock a record. The checks make their own buckets, lock for seconds, and
    remove everything that may be removed. Every answer is judged by the state afterwards. Refusals that held are tried
    again while clients archive and retrieve and, if Archiver started the server, after it was killed. With --for,
    generated sequences follow. A check that fails with severity S1 or S2 is a violation: exit status 1. Some checks
    lock for a day or for decades in mode GOVERNANCE, and bypass that lock; the ledger has the latest such date until
    the run ends, and then what remains. If Ctrl-C, SIGTERM or SIGHUP interrupts the command, it records the checks that
    ended, removes what it made, and exits with 130, 143 or 129.

    \b
    Example:
        archiver worm --check DEL-02 --check LH-01
    """
    if context.invoked_subcommand is not None:
        if any(context.get_parameter_source(name) is not ParameterSource.DEFAULT for name in context.params):
            raise UsageError(f"write the options of {context.invoked_subcommand} after its name")
        return
    chosen = _chosen(ids)
    excused = read_expected(expected, [*catalogue(), *generated_families()]) if expected is not None else {}
    baselines = read_baselines(find_run(against)) if against is not None else None
    limited = _profiles(limited_profiles) if limited_profiles is not None else None
    if platforms and endpoint:
        raise UsageError("--platform starts a platform; --endpoint names one that runs already; choose one of them")
    if seconds is None and seed is not None:
        raise UsageError("--seed is of generated sequences: name their time with --for")
    s3 = S3Options(endpoints=(endpoint,) if endpoint else (), **access)
    options = WormOptions(
        ids=chosen,
        compliance=compliance,
        accepts_server_clock=accepts_server_clock,
        out_dir=out if out is not None else runs_dir(),
        command_line=["archiver", *sys.argv[1:]],
        expected=[msgspec.structs.asdict(each) for each in excused.values()],
        generation=Generation(seconds, seed if seed is not None else secrets.randbelow(_SEEDS)) if seconds else None,
    )
    outcomes = [check_platform(name, options, s3, limited) for name in platforms or (None,)]
    runs = [read_run(outcome.database) for outcome in outcomes]
    judged = [judge(recorded.run, recorded.checks, len(runs), baselines) for recorded in runs]
    if as_json:
        documents = [
            worm_document(recorded.run.platform, recorded.run.id, recorded.checks, recorded.rounds) | judgement.document
            for recorded, judgement in zip(runs, judged, strict=True)
        ]
        click.echo(json_text(documents[0] if len(documents) == 1 else {"platforms": documents}), nl=False)
    else:
        _print(runs, outcomes, judged)
    sys.exit(1 if any(judgement.fails for judgement in judged) else 0)


worm.add_command(reproduce)


def check_platform(
    platform: str | None, options: WormOptions, s3: S3Options, limited_profiles: Mapping[str, str] | None = None
) -> WormOutcome:
    """Carry out the chosen checks on a platform that is started for it; None: on the one that ``s3`` reaches, or on the
    embedded store. ``limited_profiles`` are the user's, by the right that they lack.
    """
    platform_options = PlatformOptions(
        s3,
        TsmOptions(),
        credentials=tuple(_OF_EMBEDDED.values()),
        management_classes=CLASSES,
        nodes=(OTHER_NODE,),
        say=say_first,
    )
    with open_backend("s3", platform, platform_options) as (backend, hosted), closing(Ledger(ledger_path())) as ledger:
        assert isinstance(backend, S3Backend)
        profile = reached(backend, accepts_server_clock=options.accepts_server_clock)
        run = WormRun(new_run_id(), ledger, profile, hosted.platform if hosted is not None else None)
        limited, may_use_compliance = _limited(hosted, limited_profiles), options.compliance or hosted is not None
        platforms: list[UnderTest] = [
            S3UnderTest(run, backend, limited, restart_of(hosted), may_use_compliance, options.generation is not None)
        ]
        platforms += [TsmUnderTest(run, hosted.process)] if isinstance(hosted, EmbeddedStore) else []
        return conduct(run, platforms, options, _print_verdict)


def _limited(hosted: HostedStore | None, profiles: Mapping[str, str] | None) -> LimitedClients:
    """Return credentials with fewer rights: the user's, or those that an embedded platform makes.

    The command creates no account on another owner's platform without consent.
    """
    own: Mapping[str, Credentials] | None = None
    if profiles is not None:
        own = {right: FoundCredentials(profile).current() for right, profile in profiles.items()}
    elif isinstance(hosted, EmbeddedStore):
        store = hosted.process.credentials
        names = {right: text.partition(":")[0] for right, text in _OF_EMBEDDED.items()}
        own = {
            right: Credentials(store[name].access_key, store[name].secret_key, None) for right, name in names.items()
        }
    platform = hosted.platform if hosted is not None else ""
    return partial(limited_clients, platform, given=own, are_trusted=profiles is None)


def _profiles(text: str) -> dict[str, str]:
    """Parse ``bypass=clerk,hold=auditor``: AWS profiles by the right that they lack. Raises UsageError."""
    pairs = [word.strip().partition("=") for word in text.split(",")]
    for right, _, profile in pairs:
        if right not in RIGHTS or not profile:
            raise UsageError(
                f"--limited-profile {text}: write RIGHT=PROFILE, or several separated by commas; each profile lacks "
                f"one right and has the others; rights are {', '.join(RIGHTS)}"
            )
    found = {right: profile for right, _, profile in pairs}
    if len(found) < len(pairs):
        raise UsageError(f"--limited-profile {text}: a right is named twice")
    return found


def _print_verdict(result: CheckResult) -> None:
    """Print a line for each check as it ends, on a terminal."""
    if sys.stderr.isatty():
        words = "" if result.round == Round.ALONE else f" {result.round}"
        click.echo(f"{result.id:<7} {result.verdict}{words}", err=True)


def _chosen(words: Sequence[str]) -> list[str]:
    """Return the checks with these ids and families; all without arguments. Raises UsageError."""
    every = list(catalogue())
    unknown = [word for word in words if word not in every and not any(each.startswith(f"{word}-") for each in every)]
    if unknown:
        families = ", ".join(dict.fromkeys(each.partition("-")[0] for each in every))
        raise UsageError(f"--check {unknown[0]}: no such check; families are {families}")
    return [each for each in every if not words or each in words or each.partition("-")[0] in words]


def cleanup_command(run: str, buckets_left: Collection[RemovalReport]) -> str:
    """Return the command that removes the contents of the remaining buckets, with the options that lift their locks."""
    words = ["archiver cleanup", run]
    words += ["--bypass-governance"] if any(each.governance for each in buckets_left) else []
    words += ["--release-holds"] if any(each.on_hold for each in buckets_left) else []
    return " ".join(words)


def _contents_left(bucket: str, report: RemovalReport) -> str:
    """Return how many objects remain in a bucket, until when they are locked, and the keys of the first."""
    if not report.objects_left:
        return f"{bucket}: {report.bucket_kept or 'what is in it is unknown, so the ledger keeps its upper bound'}"
    until = f", locked until {format_instant(report.locked_until)}" if report.locked_until is not None else ""
    held = ", under hold" if report.on_hold else ""
    more = report.objects_left - len(report.names_left)
    others = f" and {more:,} more" if more else ""
    return f"{bucket}: {report.objects_left:,} objects{until}{held}: {', '.join(report.names_left)}{others}"


def _print(
    runs: Sequence[RecordedRun], outcomes: Sequence[WormOutcome], judged: Sequence[ConformanceJudgement]
) -> None:
    for recorded, outcome, judgement in zip(runs, outcomes, judged, strict=True):
        checks, catalogue = recorded.checks, catalogue_of(recorded.run)
        profile = outcome.profile
        counts = Counter(check.verdict for check in checks)
        click.echo(f"{profile.title} at {', '.join(profile.endpoints)}, run {outcome.run_id}")
        click.echo(
            f"  {checks_tried(checks, catalogue)}: "
            + ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        )
        of_rounds, of_requirements = rounds_table(checks, recorded.rounds), requirement_table(checks, catalogue)
        for table in (findings_table(checks), of_rounds, of_requirements, *judgement.tables):
            if table.rows:
                click.echo("\n" + render_text(table, 120), nl=False)
        from results.worm.report import write_worm_report  # loads Jinja, which the commands before do not need

        paths = write_worm_report(recorded, recorded.path.parent / "report")
        click.echo(f"\nreport: {paths[0]}; evidence: archiver bundle make {outcome.run_id} evidence.json")
        buckets, spaces = outcome.left["s3"], outcome.left.get("tsm", {})
        if buckets:
            click.echo(f"{len(buckets)} buckets remain: {cleanup_command(outcome.run_id, buckets.values())}")
        for bucket, report in buckets.items():
            click.echo(f"  {_contents_left(bucket, report)}")
        if spaces:
            click.echo(
                f"{len(spaces)} file spaces remain until what is in them expires: archiver cleanup {outcome.run_id}"
            )
        left = (*buckets.values(), *spaces.values())
        for reason in dict.fromkeys(each.refusals[-1] for each in left if each.refusals):
            click.echo(f"  {reason}")
    if len(runs) > 1:
        named = {recorded.run.platform.name: recorded.checks for recorded in runs}
        click.echo("\n" + render_text(matrix_table(named), 140), nl=False)
    click.echo(DISCLAIMER)
