"""``archiver run``: carry out a scenario on a platform, print its tables, and write its database."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click
from click.core import ParameterSource

import backends
from archiver.cli.answers.compare import comparison_of
from archiver.cli.answers.compare import show as show_comparison
from archiver.cli.completion import keys_to_set, run_names, scenario_or_file
from archiver.cli.live.live_file import live_file
from archiver.cli.live.metrics_page import metrics_page
from archiver.cli.live.progress import Progress
from archiver.cli.output import print_left_behind, print_run
from archiver.cli.parameters import (
    DAYS,
    DURATION,
    INSTANT,
    LINK_SPEED,
    SIZE,
    credential_options,
    platform_name_options,
    route_options,
    say_first,
    server_clock_option,
    tables_option,
    timeout_options,
    tsm_options,
)
from archiver.cli.runs.dry_run import announcement, duration_lines, plan_lines
from archiver.cli.runs.request import run_request, scenario_request
from archiver.engine.earlier import EarlierObjects, find_earlier
from archiver.engine.execution import execute
from archiver.engine.plan import RunOptions, make_plans
from archiver.engine.request import RunRequest, ScenarioRequest
from archiver.engine.resumption import not_resumable
from archiver.engine.rounds import rounds_max
from archiver.engine.run import RunOutcome
from archiver.engine.work.replay.library import TraceLibrary
from archiver.engine.workers.contract import Cluster
from archiver.ledger.holdings import Holding
from archiver.ledger.ledger import Ledger
from archiver.ledger.removal import reaching
from archiver.machine import interruption
from archiver.machine.home import archiver_home, find_run, ledger_path, runs_dir
from archiver.platforms.opening import PLATFORMS, PlatformOptions, open_backend
from archiver.values.errors import ResultsError, UsageError
from archiver.values.retention import Guards, RetentionMode, RetentionWish
from archiver.watch.choosing import KINDS, WatchOptions
from backends.base import CHECKSUMS, SESSION_OPEN_KINDS
from backends.minio import read_token
from backends.s3 import S3Options, S3Request
from backends.s3.aws_settings import aws_settings
from backends.tsm import TsmOptions, TsmRequest
from results.document.files import json_text
from results.mixed.scale_up import criteria_lines
from results.recorded.run import RecordedRun, read_run
from results.report.contract import run_document
from scenarios.model import Scenario
from scenarios.reading.reader import read_scenario

_NO_CATALOGUE = "--catalogue-dir is for the embedded store, which this run does not measure"


# Options of ``archiver bench``, and the keys that a scenario has instead: of every sweep, and of a workload.
_KEYS_INSTEAD: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "--size": (("object_sizes",), ("WORKLOAD.sizes",)),
    "--objects-per-session": (("objects_per_session",), ("WORKLOAD.objects_per_session",)),
    "--clients": (("clients",), ("WORKLOAD.clients",)),
    "--operation": ((), ()),
    "--duration": (("stop.seconds_min", "stop.seconds_max"), ("WORKLOAD.seconds",)),
    "--rate": ((), ("WORKLOAD.arrivals.per_second",)),
}


# The headings of the help of measuring commands, each by the first option under it.
_HEADINGS = {
    "backend": "Platform",
    "profile": "Connection",
    "mode": "Locks",
    "checksum": "Objects and sessions",
    "library": "TSM",
    "sources": "Resource usage",
    "workers": "Workers",
    "out_dir": "Output",
}


# Options that --help leaves to --help-all.
RARE = {
    "order", "order_seed", "criteria", "allow_large_sessions", "objects_from", "catalogue_dir", "region",
    "platform_name", "platform_version", "ca_bundle", "addressing", "direct", "connect_timeout_seconds",
    "read_timeout_seconds", "retries", "on_close",
    "retain_until", "legal_hold", "event_hold_days", "accept_locked_until", "accepts_server_clock", "payload_signing",
    "session_open", "keep_sessions_open", "library", "encrypted", "ca_file", "node", "password_file",
    "management_class", "space", "objects_per_transaction", "metric_names", "metrics_token_file", "disk_roles",
    "disk_speeds",
    "link_speed_bytes_per_second", "poll", "dask", "if_worker_lost", "op_log_dir", "metrics_port", "disclose",
}  # fmt: skip
_SHOWS_ALL = "archiver.help_all"


class MeasuringCommand(click.Command):
    """Lists its many options under headings: with --help those that most people use, with --help-all all of them."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        help_all = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_all,
            help="Show all options.",
        )
        return [*super().get_params(ctx), help_all]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shows_all = ctx.meta.get(_SHOWS_ALL, False)
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        for heading, under in options_under_headings(options):
            shown = [each for each in under if shows_all or each.name not in RARE]
            if shown:
                with formatter.section(heading):
                    formatter.write_dl([record for each in shown if (record := each.get_help_record(ctx))])


def _show_all(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted:
        ctx.meta[_SHOWS_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def options_under_headings(options: Iterable[click.Option]) -> Iterator[tuple[str, list[click.Option]]]:
    """Yield the headings of a measuring command's help, each with its options. Those above all have "Options"."""
    heading, under = "Options", list[click.Option]()
    for each in options:
        if each.name in _HEADINGS:
            yield heading, under
            heading, under = _HEADINGS[each.name], []
        under.append(each)
    yield heading, under


class _ScenarioCommand(MeasuringCommand):
    """Answers an option of ``archiver bench`` with what to write for a scenario instead."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as unknown:
            if unknown.option_name not in _KEYS_INSTEAD:
                raise
            raise click.UsageError(_instead(unknown.option_name, given), ctx) from unknown


def _instead(option: str, args: Sequence[str]) -> str:
    """Return what to write for an option of ``archiver bench`` that stands among the arguments of ``run``."""
    at = next(index for index, each in enumerate(args) if each.partition("=")[0] == option)
    value = args[at].partition("=")[2] or next(iter(args[at + 1 : at + 2]), "...")
    plain = value.removesuffix("/s") if option == "--rate" else value
    settings = [" ".join(f"--set {key}={shlex.quote(plain)}" for key in keys) for keys in _KEYS_INSTEAD[option]]
    kinds = [f"{words} ({kind})" for words, kind in zip(settings, ("[[sweep]]", "[[phase]]"), strict=True) if words]
    changed = f"change the scenario with {' or '.join(kinds)}, or " if kinds else ""
    ad_hoc = f"measure without a scenario: archiver bench {option} {shlex.quote(value)}"
    return f"{option} is no option of run: {changed}{ad_hoc}"


@click.command(cls=_ScenarioCommand)
@click.argument("source", metavar="SCENARIO", shell_complete=scenario_or_file)
@click.option("--quick", is_flag=True, help="Run a subset of the scenario, in under 90 seconds.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=keys_to_set,
    help="Override a key of the scenario with a TOML value or a list such as 8KiB,1MiB; NAME.KEY for one table.",
)
@click.option(
    "--order",
    type=click.Choice(["shuffled", "paper"]),
    default="shuffled",
    show_default=True,
    help="Order of cells: shuffled with --seed, or as in the paper.",
)
@click.option(
    "--seed", "order_seed", type=int, default=None, help="Seed of the shuffled order  [default: random, recorded]"
)
@click.option(
    "--repeat",
    "repetitions",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Repetitions of every cell, interleaved; 2 or more give 95% intervals.",
)
@click.option(
    "--for",
    "budget_seconds",
    type=DURATION,
    help="Instead of --repeat: repeat in rounds for this long at most, until every rate is known within 10%.",
)
@click.option(
    "--search",
    "searches",
    is_flag=True,
    help="Find the largest scale that meets every criterion, as [search] in the scenario says.",
)
@click.option(
    "--criterion",
    "criteria",
    multiple=True,
    metavar="TEXT",
    help="Add a criterion, for example 'object_ms.p99 <= 20' or 'errors == 0'; repeat for several.",
)
@click.option("--allow-large-sessions", is_flag=True, help="Allow sessions of more than 500 objects.")
@click.option(
    "--objects-from",
    metavar="RUN",
    shell_complete=run_names,
    help="Archive nothing, and run only the sweeps that retrieve, on the objects that this run left.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan and stop; nothing is written to a platform.")
@click.option("--backend", default="s3", show_default=True, help="Backend: s3, minio, tsm, null, or an installed one.")
@click.option(
    "--platform",
    "platforms",
    multiple=True,
    type=click.Choice(PLATFORMS),
    help="Start this platform for the run; repeat to compare several, cell by cell  [default: embedded]",
)
@click.option(
    "--catalogue-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the embedded store's catalogue, for example on another disk.",
)
@click.option(
    "--endpoint",
    "endpoints",
    multiple=True,
    metavar="URL",
    help="URL of a running platform; repeat for each of its endpoints.",
)
@click.option("--bucket", help="Use this bucket  [default: a new one with Object Lock]")
@click.option("--region", help="Region for signatures  [default: the profile's, or us-east-1]")
@platform_name_options
@credential_options
@route_options
@timeout_options
@click.option(
    "--retries",
    type=click.IntRange(0, 10),
    default=0,
    show_default=True,
    help="Times that a request is sent again after 429, 500, 502, 503 or 504. The object's time includes all of them.",
)
@click.option(
    "--on-close",
    type=click.Choice(["reconnect", "stop"]),
    default="reconnect",
    show_default=True,
    help="If the server closes a connection between two requests: connect again, or end the session.",
)
@click.option(
    "--retention-mode",
    "mode",
    type=click.Choice(
        [mode.value for mode in (RetentionMode.GOVERNANCE, RetentionMode.COMPLIANCE, RetentionMode.NONE)]
    ),
    help="Lock mode of every archived object  [default: GOVERNANCE; with tsm the management class decides]",
)
@click.option("--retain-for", "retain_for_seconds", type=DURATION, help="Lock each object this long  [default: 5m]")
@click.option("--retain-until", type=INSTANT, help="Lock all objects until this date, with a time zone.")
@click.option(
    "--legal-hold",
    is_flag=True,
    help="Place a legal hold on every archived object, unless the scenario itself places holds; consent to them.",
)
@click.option(
    "--event-hold",
    "event_hold_days",
    type=DAYS,
    help="Place an event hold (S3) on every archived object, unless operations of the scenario place "
    "them. A release starts a period of this length, for example 30d.",
)
@click.option(
    "--max-retain", "max_retain_seconds", type=DURATION, default="1h", show_default=True, help="Refuse to lock longer."
)
@click.option("--max-locked-bytes", type=SIZE, default="40GB", show_default=True, help="Refuse to lock more.")
@click.option(
    "--accept-locked-until", type=INSTANT, help="Consent that COMPLIANCE objects stay locked until this date."
)
@server_clock_option
@click.option(
    "--checksum",
    type=click.Choice(CHECKSUMS),
    default="crc32c",
    show_default=True,
    help="Checksum that is sent with each PUT.",
)
@click.option("--payload-signing", is_flag=True, help="Sign the SHA-256 of every body.")
@click.option(
    "--verify",
    type=click.Choice(["all", "sample", "none"]),
    default="all",
    show_default=True,
    help="Which retrieved objects to compare byte for byte; sample: every 16th.",
)
@click.option(
    "--session-open",
    type=click.Choice(SESSION_OPEN_KINDS),
    default="head-bucket",
    show_default=True,
    help="Request that opens a session; connect sends none.",
)
@click.option("--keep-sessions-open", is_flag=True, help="Use one connection per client instead of one per session.")
@tsm_options
@click.option("--management-class", metavar="NAME", help="TSM: archive under this class  [default: the node's default]")
@click.option("--filespace", "space", metavar="/NAME", help="TSM: use this file space  [default: a new one]")
@click.option(
    "--objects-per-transaction",
    type=click.IntRange(1, 65_000),
    metavar="N",
    help="TSM: commit after this many objects  [default: all of a session, up to the server's limit]",
)
@click.option(
    "--watch",
    "sources",
    multiple=True,
    metavar="SOURCE",
    help=f"Also sample the server's resources from {KINDS}; servers on this machine are always watched.",
)
@click.option(
    "--metric-names",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file of metric names for prometheus sources  [default: node_exporter's]",
)
@click.option(
    "--metrics-token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the bearer token for metrics: MinIO's if minio is watched, else that of prometheus sources.",
)
@click.option(
    "--disk-role",
    "disk_roles",
    multiple=True,
    metavar="DEVICE=ROLE",
    help="Content of a disk of the server: object, catalogue ...; repeat for several.",
)
@click.option(
    "--disk-speed",
    "disk_speeds",
    multiple=True,
    metavar="DEVICE=SIZE",
    help="Bytes per second that a disk of the server sustains, for example vda=450MB; repeat for several.",
)
@click.option(
    "--link-speed",
    "link_speed_bytes_per_second",
    type=LINK_SPEED,
    help="Rated speed of the server's link  [default: the interface's]",
)
@click.option(
    "--workers", type=click.IntRange(1, 1000), help="Worker processes  [default: one per core that workers may use]"
)
@click.option(
    "--poll",
    type=click.Choice(["auto", "busy", "sleep"]),
    default="auto",
    show_default=True,
    help="How workers wait for answers: they poll continuously (busy), or sleep. auto: busy if the "
    "platform is on another machine and every worker has its own core, with one left.",
)
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Run on the workers of a Dask cluster: the address of its scheduler, or local:N for N new "
    "workers on this machine.",
)
@click.option(
    "--if-worker-lost",
    type=click.Choice(["stop", "go-on"]),
    default="stop",
    show_default=True,
    help="If a worker dies: end the run, or mark the phase as incomplete and go on with the other workers.",
)
@click.option(
    "--out",
    "out_dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for runs  [default: runs in $ARCHIVER_HOME]",
)
@click.option(
    "--op-log",
    "op_log_dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write every operation to Parquet files in this folder, one per worker and phase.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65_535),
    metavar="PORT",
    help="Serve the run's progress to Prometheus at http://127.0.0.1:PORT/metrics.",
)
@click.option(
    "--disclose",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="TOML file of the tested configuration, for every report of this run; see docs/disclosure.md.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON document.")
@tables_option
@click.option("--quiet", is_flag=True, help="Print no progress and no tables.")
def run(**given: Any) -> None:  # fmt: skip
    """Run SCENARIO on a platform and print what was measured.

    SCENARIO is a built-in name (see `archiver scenarios list`) or a TOML file. Without --platform, --endpoint or
    --tsm-server, and if the AWS settings name no endpoint, the embedded store is started, measured and stopped. Several
    --platform options are measured in turn, cell by cell, and compared. With --repeat 3 or more there are verdicts.

    \b
    Example:
        archiver run dr550 --quick

    Exit status: 0 all well; 1 an operation failed, data was damaged or a criterion was missed; 2 usage or a bad
    scenario; 3 the platform could not be reached or refused the set-up; 130, 143 or 129 interrupted by Ctrl-C, SIGTERM
    or SIGHUP. Everything that finished is saved.
    """
    run_scenario(given, scenario_request)


# Parameters that select and change a written scenario.
_OF_SCENARIOS = frozenset(("source", "quick", "overrides", "order", "order_seed", "searches", "objects_from"))


def shared_params(*without: str) -> list[click.Parameter]:
    """Return the parameters of ``run`` that do not concern its scenario, without some, for other measuring commands."""
    return [each for each in run.params if each.name not in _OF_SCENARIOS.union(without)]


def run_scenario(given: Mapping[str, Any], scenario_of: Callable[[Mapping[str, Any]], ScenarioRequest]) -> NoReturn:
    """Read the scenario of a command line, and carry it out."""
    carry_out(*requested(given, scenario_of))


def requested(
    given: Mapping[str, Any], scenario_of: Callable[[Mapping[str, Any]], ScenarioRequest]
) -> tuple[RunRequest, Scenario]:
    """Return the request of a command line, and the scenario that it reads.

    With a time budget, the number of repetitions is the largest that the run can have.
    """
    seconds = given["budget_seconds"]
    if seconds is not None:
        if given["repetitions"] > 1 or given.get("searches"):
            raise UsageError("--for decides how often to measure, as --repeat or a search does; choose one of them")
        _, once = _read(given, scenario_of(given))
        platforms = max(1, len(given["platforms"]))
        given = {**given, "repetitions": rounds_max(once, seconds, platforms, given["max_locked_bytes"] // platforms)}
    return _read(given, scenario_of(given))


def _read(given: Mapping[str, Any], scenario_request: ScenarioRequest) -> tuple[RunRequest, Scenario]:
    request = run_request(given, scenario=scenario_request)
    scenario = read_scenario(
        scenario_request.source,
        text=scenario_request.text,
        overrides=scenario_request.overrides,
        quick=scenario_request.quick,
        order=scenario_request.order,
        order_seed=scenario_request.order_seed if scenario_request.order_seed is not None else time.time_ns() % 2**31,
        repetitions=request.repetitions,
        allow_large_sessions=scenario_request.allow_large_sessions,
        objects_from=request.objects_from,
        searches=scenario_request.searches,
        criteria=scenario_request.criteria,
    )
    return request, scenario


def carry_out(request: RunRequest, scenario: Scenario) -> NoReturn:
    """Carry out a scenario that was read, as every measuring command does.

    It exits with the status that ``run`` documents.
    """
    outcomes = measure(request, scenario)
    if request.dry_run:
        sys.exit(0)
    conclude(outcomes, as_json=request.as_json, say=not request.quiet, tables=request.tables)


def measure(request: RunRequest, scenario: Scenario) -> list[RunOutcome]:
    """Carry out a scenario and return the outcome on each platform; none for a dry run, whose plan is printed."""
    commits = backends.load(request.backend).capabilities.transactions
    with TraceLibrary(archiver_home(), commits=commits) as traces:
        return _measure(request, traces.complete(scenario), traces)


def _measure(request: RunRequest, scenario: Scenario, traces: TraceLibrary) -> list[RunOutcome]:
    earlier = None
    chosen: Sequence[str | None] = request.platforms or (None,)
    if request.objects_from is not None:
        with closing(Ledger(ledger_path())) as ledger:
            earlier = earlier_objects(ledger, request.objects_from, scenario)
        _refuse_what_would_be_ignored(request)
        if not _given(("backend",)):
            request = replace(request, backend=earlier.place.backend)
        if not _given(("platforms", "endpoints", "server")):
            chosen = (earlier.place.platform,)
    _refuse_options_of_other_backends(request.backend)
    platforms = len(chosen)
    if len(set(chosen)) < platforms:
        raise UsageError("--platform names a platform twice; use --repeat for repetitions")
    if request.catalogue_dir and (request.s3.endpoints or request.tsm.server or not {None, "embedded"} & set(chosen)):
        raise UsageError(_NO_CATALOGUE)
    replays = scenario.has("replay")
    if replays and not _given(("session_open",)):
        # The trace defines the requests; the client sends no others.
        request = replace(request, s3=replace(request.s3, session_open="connect"))
    options = replace(run_options(request, ["archiver", *sys.argv[1:]]), objects_from=earlier)
    if request.op_log_dir is not None:
        _check_folder(request.op_log_dir)
        import_module("pyarrow")  # before anything is touched: it is an extra, and workers would miss it later
    dry, say = request.dry_run, not request.quiet
    given_platform = platform_options(request)
    if earlier is not None and not _given(("platforms", "endpoints")):
        given_platform = reaching(Holding((earlier.place,)), given_platform)
    progress = Progress(scenario, platforms, enabled=say and not dry, budget_seconds=request.budget_seconds)
    with ExitStack() as stack:
        if request.metrics_port is not None:  # before changing anything, because the port may be in use
            stack.enter_context(metrics_page(progress.meter, request.metrics_port))
        opened = [
            stack.enter_context(open_backend(request.backend, each, given_platform, keeps_nothing=dry))
            for each in chosen
        ]
        if request.catalogue_dir and not any(hosted and hosted.platform == "embedded" for _, hosted in opened):
            raise UsageError(_NO_CATALOGUE)
        if request.dask is not None:
            options = replace(
                options, cluster=stack.enter_context(dask_cluster(request.dask, request, replays=replays))
            )
        plans, warnings = make_plans(scenario, opened, options)
        announced = announcement(plans[0], platforms)
        if dry:
            times = duration_lines(scenario, platforms, request.budget_seconds)
            for line in (*plan_lines(plans[0]), *announced, *times, *(f"warning: {each}" for each in warnings)):
                click.echo(line)
            return []
        if say:
            for line in announced:
                click.echo(line, err=True)
        if request.op_log_dir is not None:
            request.op_log_dir.mkdir(parents=True, exist_ok=True)
        stack.enter_context(progress)
        folders = [plan.options.out_dir / plan.run_id for plan in plans]
        stack.enter_context(live_file(progress.meter, folders))
        for warning in warnings:
            progress.warned(warning)
        ledger = stack.enter_context(closing(Ledger(ledger_path())))
        return execute(plans, ledger, progress, traces)


@contextmanager
def dask_cluster(address: str, request: RunRequest, *, replays: bool) -> Iterator[Cluster]:
    """Yield the cluster that --dask names.

    Raises UsageError if it, or one of its workers, is unsuitable for the run.
    """
    from archiver.engine.workers.dask.cluster import open_cluster  # an extra

    with open_cluster(address, request.workers) as cluster:
        if request.op_log_dir is not None:
            cluster.check_sees(request.op_log_dir, "--op-log")
        if replays:
            cluster.check_sees(archiver_home(), "a replay's traces (ARCHIVER_HOME)")
        yield cluster


def conclude(outcomes: Sequence[RunOutcome], *, as_json: bool, say: bool, tables: Sequence[str]) -> NoReturn:
    """Show the measurements and the outcomes of runs, and exit accordingly. ``tables``: as for ``print_run``."""
    runs = [read_run(outcome.database) for outcome in outcomes]
    if len(runs) > 1:
        if as_json or say:
            _show_comparison(runs, outcomes, as_json=as_json, tables=tables)
    elif as_json:
        click.echo(json_text(run_document(runs[0])), nl=False)
    elif say:
        print_run(runs[0], tables)
    for outcome, recorded in zip(outcomes, runs, strict=True):
        if recorded.run.verdict != "pass":  # a search passes although steps missed some
            for line in criteria_lines(recorded.criteria, recorded.results):
                click.echo(line, err=True)
        if outcome.failure:
            click.echo(f"archiver: {outcome.failure}", err=True)
        if outcome.interrupted:
            words = interruption.words(outcome.interrupted)
            click.echo(f"archiver: {words}; what finished is in {outcome.database}", err=True)
        broke_off = len(outcomes) == 1 and (outcome.failure or outcome.interrupted)
        if broke_off and not_resumable(recorded.run) is None:
            click.echo(f"go on after the last finished phase: archiver resume {_name(outcome)}", err=True)
    for outcome in outcomes:
        if outcome.interrupted:
            sys.exit(interruption.exit_status(outcome.interrupted))
    failed = any(result.errors for recorded in runs for result in recorded.results)
    failed = failed or any(recorded.run.verdict in ("fail", "void") for recorded in runs)
    sys.exit(1 if failed or any(outcome.failure for outcome in outcomes) else 0)


def _name(outcome: RunOutcome) -> str:
    """Return the name by which a command finds a run: its id, or its folder if that is outside Archiver's home."""
    folder = outcome.database.parent
    return outcome.run_id if folder.parent == runs_dir() else shlex.quote(str(folder))


def earlier_objects(ledger: Ledger, run: str, scenario: Scenario) -> EarlierObjects:
    """Return the objects of an earlier run. Objects that it deleted are excluded if its database still exists.

    Raises UsageError if it has none of what the scenario reads.
    """
    if run == "latest":
        run = ledger.latest_run() or run
    try:
        recorded = read_run(find_run(run))
    except (ResultsError, UsageError):  # its folder is missing, but the ledger knows its archived objects
        return find_earlier(ledger, run, scenario)
    return find_earlier(ledger, str(recorded.run.id), scenario, recorded.changes)


def _show_comparison(
    runs: Sequence[RecordedRun], outcomes: Sequence[RunOutcome], *, as_json: bool, tables: Sequence[str]
) -> None:
    """Print the comparison if there is one, and always what is left on the platforms."""
    try:
        show_comparison(comparison_of(runs), as_json=as_json, tables=tables)
    except ResultsError as incomparable:
        click.echo(f"archiver: no comparison: {incomparable}", err=True)
    if not as_json:
        for outcome in outcomes:
            print_left_behind(outcome.run_id)


def run_options(request: RunRequest, command_line: list[str]) -> RunOptions:
    """Return the options of a run. The request only names the token for metrics; this reads it. Raises UsageError."""
    if request.retention.retain_for_seconds is not None and request.retention.retain_until is not None:
        raise UsageError("--retain-for and --retain-until both set the end of retention; choose one of them")
    return RunOptions(
        request=request,
        command_line=command_line,
        out_dir=request.out_dir if request.out_dir is not None else runs_dir(),
        watch=WatchOptions(
            sources=request.watch.sources,
            metric_names=request.watch.metric_names,
            metrics_token=_metrics_token(request),
            ca_bundle=_metrics_ca_bundle(request),
            insecure=request.s3.insecure,
            direct=request.s3.direct,
        ),
    )


def _metrics_ca_bundle(request: RunRequest) -> str | None:
    """Return the certificate authorities of the platform, which also verify its sources of metrics."""
    bundle = request.s3.ca_bundle or os.environ.get("AWS_CA_BUNDLE")
    if bundle is None and request.backend in ("s3", "minio") and not request.platforms:
        bundle = aws_settings(request.s3.profile).ca_bundle
    return bundle


def _metrics_token(request: RunRequest) -> str | None:
    path = request.watch.metrics_token_file
    return None if path is None else read_token(path)


def platform_options(request: RunRequest) -> PlatformOptions:
    """Return the platform options of a request."""
    return PlatformOptions(
        S3Options(**asdict(request.s3)),
        TsmOptions(**asdict(request.tsm)),
        metrics_token=_metrics_token(request),
        catalogue_dir=request.catalogue_dir,
        say=_say_nothing if request.quiet else say_first,
    )


def _say_nothing(words: str) -> None:
    """Discard messages, for --quiet."""


def _names(*kinds: type[Any]) -> set[str]:
    """Return the fields of parts of the request, which are the names of their options."""
    return {each.name for kind in kinds for each in fields(kind)}


# Options of a single protocol. The command refuses options that the backend would ignore.
_S3_ONLY = _names(S3Request) | {"poll"}
_TSM_ONLY = _names(TsmRequest)
_RETENTION = {"mode", "retain_for_seconds", "retain_until", "accept_locked_until"}
# Options for archived objects.
_OF_ARCHIVING = _names(RetentionWish, Guards) | {
    "bucket", "space", "management_class", "objects_per_transaction", "accepts_server_clock",
}  # fmt: skip


def _refuse_what_would_be_ignored(request: RunRequest) -> None:
    """Raise UsageError with all options that have no meaning for a run that archives nothing."""
    archiving = _given(_OF_ARCHIVING)
    if archiving:
        raise UsageError(f"{', '.join(archiving)}: with --objects-from nothing is archived")
    if len(request.platforms) > 1:
        raise UsageError("--objects-from: the objects of a run are on one platform, so name one --platform at most")


def _refuse_options_of_other_backends(backend: str) -> None:
    """Raise UsageError with the given options that this backend does not have."""
    if backend == "tsm":
        dates = _given(_RETENTION)
        if dates:
            raise UsageError(
                f"{', '.join(dates)}: with --backend tsm the server's management class decides whether and how long "
                "objects are locked; choose one with --management-class"
            )
    foreign = _given(_S3_ONLY) if backend == "tsm" else _given(_TSM_ONLY)
    if foreign:
        whose = "s3" if backend == "tsm" else "tsm"
        raise UsageError(f"{', '.join(foreign)}: only for --backend {whose}; this run's backend is {backend}")


def _given(names: Collection[str]) -> list[str]:
    """Return the options that are on the command line, in their command line spelling."""
    context = click.get_current_context()
    given = [each for each in context.command.params if each.name in names]
    return [
        each.opts[0] for each in given if context.get_parameter_source(str(each.name)) is ParameterSource.COMMANDLINE
    ]


def _check_folder(folder: Path) -> None:
    """Refuse a folder for the operation log that cannot be made or written. The check creates nothing."""
    existing = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK) or existing.is_relative_to("/proc"):
        raise UsageError(f"--op-log {folder}: cannot be written: {existing} is no folder that this user may write to")
