"""``archiver run``: carry out a scenario on a platform, print its tables, leave its database."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from click.core import ParameterSource

import backends
from archiver.cli.answers.compare import comparison_of
from archiver.cli.answers.compare import show as show_comparison
from archiver.cli.completion import run_names, scenario_or_file
from archiver.cli.live.metrics_page import metrics_page
from archiver.cli.live.progress import Progress
from archiver.cli.output import print_left_behind, print_run, run_json
from archiver.cli.parameters import (
    DURATION,
    INSTANT,
    LINK_SPEED,
    SIZE,
    credential_options,
    route_options,
    s3_reach,
    say_first,
    server_clock_option,
    timeout_options,
    tsm_options,
    tsm_reach,
)
from archiver.cli.runs.dry_run import announcement, plan_lines
from archiver.engine.earlier import EarlierObjects, find_earlier
from archiver.engine.execution import execute, make_plans
from archiver.engine.plan import Devices, RunOptions
from archiver.engine.resumption import carried_out_whole
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
from archiver.values.sizes import parse_size
from archiver.watch.choosing import KINDS, WatchOptions
from backends.base import CHECKSUMS, SESSION_OPEN_KINDS
from backends.minio import read_token
from backends.s3 import S3Options
from backends.s3.aws_settings import aws_settings
from backends.tsm import TsmOptions
from results.database import RunDatabase
from scenarios.model import Scenario
from scenarios.reading.reader import read_scenario

_Value = TypeVar("_Value")
_NO_CATALOGUE = "--catalogue-dir: only the embedded store has one, and it is not measured here"
_EXAMPLES = {"--disk-role": "object", "--disk-speed": "450MB"}


@click.command()
@click.argument("scenario", shell_complete=scenario_or_file)
@click.option("--quick", is_flag=True, help="The scenario's readable subset, in under 90 seconds.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key of the scenario.")
@click.option(
    "--order",
    type=click.Choice(["shuffled", "paper"]),
    default="shuffled",
    show_default=True,
    help="Order of cells: shuffled by --seed, or the paper's.",
)
@click.option("--seed", type=int, default=None, help="Seed of the shuffled order  [default: random, recorded]")
@click.option(
    "--repeat",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Repetitions of every cell, interleaved; from 2 on with 95% intervals.",
)
@click.option(
    "--search", "searches", is_flag=True, help="Look for the largest scale that meets every criterion, by [search]."
)
@click.option("--allow-large-sessions", is_flag=True, help="Allow sessions of more than 500 objects.")
@click.option(
    "--objects-from",
    metavar="RUN",
    shell_complete=run_names,
    help="Archive nothing: carry out only the sweeps that retrieve, on what this run archived and left there.",
)
@click.option("--dry-run", is_flag=True, help="Make the same plan, print it, and stop; a platform is only asked.")
@click.option("--backend", default="s3", show_default=True, help="s3, minio, tsm, null, or an installed one.")
@click.option(
    "--platform",
    "platforms",
    multiple=True,
    type=click.Choice(PLATFORMS),
    help="Start this platform for the run; repeat to compare several, cell by cell  [default: embedded]",
)
@click.option("--endpoint", "endpoints", multiple=True, metavar="URL", help="A running platform; repeat for several.")
@click.option("--bucket", help="Use this bucket  [default: one of the run's own, with Object Lock]")
@click.option("--region", help="Region to sign for  [default: the profile's, or us-east-1]")
@credential_options
@route_options
@timeout_options
@click.option(
    "--retries",
    type=click.IntRange(0, 10),
    default=0,
    show_default=True,
    help="Send a request again that was answered with 429, 500, 502, 503 or 504; the object's time goes on.",
)
@click.option(
    "--on-close",
    type=click.Choice(["reconnect", "stop"]),
    default="reconnect",
    show_default=True,
    help="Where the server ends a connection between two requests: go on over another, or end the session.",
)
@click.option(
    "--retention-mode",
    type=click.Choice(
        [mode.value for mode in (RetentionMode.GOVERNANCE, RetentionMode.COMPLIANCE, RetentionMode.NONE)]
    ),
    help="Lock of every archived object  [default: GOVERNANCE; with tsm the management class decides]",
)
@click.option("--retain-for", type=DURATION, help="Lock each object this long  [default: 5m]")
@click.option("--retain-until", type=INSTANT, help="Lock all objects until this date, with a time zone.")
@click.option("--legal-hold", is_flag=True, help="Place a legal hold on every archived object.")
@click.option("--max-retain", type=DURATION, default="1h", show_default=True, help="Refuse to lock longer.")
@click.option("--max-locked-bytes", type=SIZE, default="40GB", show_default=True, help="Refuse to lock more.")
@click.option("--accept-locked-until", type=INSTANT, help="Consent that COMPLIANCE objects stay until this date.")
@server_clock_option
@click.option("--checksum", type=click.Choice(CHECKSUMS), default="crc32c", show_default=True, help="Sent with PUT.")
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
    help="What opening a session asks of the server.",
)
@click.option("--keep-sessions-open", is_flag=True, help="One connection per client instead of one per session.")
@tsm_options
@click.option("--management-class", metavar="NAME", help="TSM: archive under this class  [default: the node's default]")
@click.option("--filespace", metavar="/NAME", help="TSM: use this file space  [default: one of the run's own]")
@click.option(
    "--objects-per-transaction",
    type=click.IntRange(1, 65_000),
    metavar="N",
    help="TSM: commit after so many objects  [default: all of a session, as far as the server allows]",
)
@click.option(
    "--watch",
    "sources",
    multiple=True,
    metavar="SOURCE",
    help=f"Also sample the server's resources from {KINDS}; what runs on this machine is watched anyway.",
)
@click.option(
    "--metric-names",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file of the names that prometheus sources use  [default: node_exporter's]",
)
@click.option(
    "--metrics-token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the bearer token for metrics: MinIO's where one is asked, else that of prometheus sources.",
)
@click.option(
    "--disk-role",
    "disk_roles",
    multiple=True,
    metavar="DEVICE=ROLE",
    help="What a disk of the server holds: object, catalogue ...; repeat for several.",
)
@click.option(
    "--disk-speed",
    "disk_speeds",
    multiple=True,
    metavar="DEVICE=SIZE",
    help="Bytes per second that a disk of the server sustains, for example vda=450MB; repeat for several.",
)
@click.option("--link-speed", type=LINK_SPEED, help="Rated speed of the server's link  [default: the interface's]")
@click.option(
    "--catalogue-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="The embedded store's catalogue here, for example on a disk of its own.",
)
@click.option("--workers", type=click.IntRange(1, 1000), help="Worker processes  [default: one per core it may use]")
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Have the workers of a Dask cluster carry it out: its scheduler's address, or local:N for N new ones here.",
)
@click.option(
    "--if-worker-lost",
    type=click.Choice(["stop", "go-on"]),
    default="stop",
    show_default=True,
    help="End the run where a worker dies, or mark the phase as incomplete and go on with the others.",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for runs  [default: in the home]")
@click.option(
    "--op-log",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write every operation to this folder, as Parquet, one file per worker and phase.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65_535),
    metavar="PORT",
    help="Serve the run's progress at http://127.0.0.1:PORT/metrics, for Prometheus.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON document.")
@click.option("--quiet", is_flag=True, help="No progress and no tables.")
def run(**given: Any) -> None:  # fmt: skip
    """Carry out SCENARIO on a platform and print what was measured.

    SCENARIO is a built-in name (see `archiver scenarios list`) or a TOML file. Without --platform, --endpoint or
    --tsm-server, and where AWS's settings name no endpoint, the embedded store is started, measured and stopped.
    Several --platform are measured in turn, cell by cell, and compared; with --repeat 3 or more there are verdicts.

    \b
    Example:
        archiver run dr550 --quick --set object_sizes=8KiB,1MiB

    Exit status: 0 all well; 1 an operation failed, data was damaged or a criterion was missed; 2 usage or a bad
    scenario; 3 the platform could not be reached or refused the set-up; 130, 143 or 129 interrupted by Ctrl-C, SIGTERM
    or SIGHUP. Whatever finished is saved.
    """
    seed = given["seed"] if given["seed"] is not None else time.time_ns() % 2**31
    scenario = read_scenario(
        given["scenario"],
        overrides=given["overrides"],
        quick=given["quick"],
        order=given["order"],
        order_seed=seed,
        repetitions=given["repeat"],
        allow_large_sessions=given["allow_large_sessions"],
        objects_from=given["objects_from"],
        searches=given["searches"],
    )
    carry_out(given, scenario)


def carry_out(given: dict[str, Any], scenario: Scenario) -> NoReturn:
    """What every command does that measures a platform, once its scenario was read; it exits as ``run`` says."""
    commits = backends.load(given["backend"]).capabilities.transactions
    with TraceLibrary(archiver_home(), commits=commits) as traces:
        outcomes = _measure(given, traces.complete(scenario), traces)
    conclude(outcomes, as_json=given["as_json"], say=not given["quiet"])


def _measure(given: dict[str, Any], scenario: Scenario, traces: TraceLibrary) -> list[RunOutcome]:
    earlier = None
    chosen: Sequence[str | None] = given["platforms"] or (None,)
    if given["objects_from"] is not None:
        with closing(Ledger(ledger_path())) as ledger:
            earlier = earlier_objects(ledger, given["objects_from"], scenario)
        _refuse_what_would_be_ignored(given)
        if not _given(("backend",)):
            given["backend"] = earlier.place.backend
        if not _given(("platforms", "endpoints", "tsm_server")):
            chosen = (earlier.place.platform,)
    _refuse_options_of_other_backends(given["backend"])
    platforms = len(chosen)
    if len(set(chosen)) < platforms:
        raise UsageError("--platform: the same one twice; repetitions are --repeat")
    if given["catalogue_dir"] and (given["endpoints"] or given["tsm_server"] or not {None, "embedded"} & set(chosen)):
        raise UsageError(_NO_CATALOGUE)
    if any(phase.replays for phase in scenario.phases) and not _given(("session_open",)):
        given["session_open"] = "connect"  # the trace says what is asked, and nothing else is
    options = replace(run_options(given, ["archiver", *sys.argv[1:]]), objects_from=earlier)
    if given["op_log"] is not None:
        _check_folder(given["op_log"])
    dry, say = given["dry_run"], not given["quiet"]
    given_platform = platform_options(given)
    if earlier is not None and not _given(("platforms", "endpoints")):
        given_platform = reaching(Holding((earlier.place,)), given_platform)
    progress = Progress(scenario, platforms, enabled=say and not dry)
    with ExitStack() as stack:
        if given["metrics_port"] is not None:  # before anything is touched: the port may be taken
            stack.enter_context(metrics_page(progress.meter, given["metrics_port"]))
        opened = [
            stack.enter_context(open_backend(given["backend"], each, given_platform, keeps_nothing=dry))
            for each in chosen
        ]
        if given["catalogue_dir"] and not any(hosted and hosted.platform == "embedded" for _, hosted in opened):
            raise UsageError(_NO_CATALOGUE)
        if given["dask"] is not None:
            options = replace(options, cluster=stack.enter_context(dask_cluster(given, options, scenario)))
        plans, warnings = make_plans(scenario, opened, options)
        announced = announcement(plans[0], traces, platforms)
        if dry:
            for line in (*plan_lines(scenario), *announced, *(f"warning: {each}" for each in warnings)):
                click.echo(line)
            sys.exit(0)
        if say:
            for line in announced:
                click.echo(line, err=True)
        if given["op_log"] is not None:
            given["op_log"].mkdir(parents=True, exist_ok=True)
        stack.enter_context(progress)
        for warning in warnings:
            progress.warned(warning)
        ledger = stack.enter_context(closing(Ledger(ledger_path())))
        return execute(plans, ledger, progress, traces)


@contextmanager
def dask_cluster(given: dict[str, Any], options: RunOptions, scenario: Scenario) -> Iterator[Cluster]:
    """The cluster that --dask names. Raises UsageError where it, or one of its workers, is not fit for the run."""
    try:
        from archiver.engine.workers.dask.cluster import open_cluster
    except ModuleNotFoundError as missing:
        raise UsageError(f"--dask needs Dask ({missing}): pip install 'archiver-worm[dask]'") from missing
    with open_cluster(given["dask"], options.workers) as cluster:
        if options.op_log_dir is not None:
            cluster.check_sees(options.op_log_dir, "--op-log")
        if any(phase.replays for phase in scenario.phases):
            cluster.check_sees(archiver_home(), "a replay's traces (ARCHIVER_HOME)")
        yield cluster


def conclude(outcomes: Sequence[RunOutcome], *, as_json: bool, say: bool) -> NoReturn:
    """Show what runs measured and how they ended, and exit accordingly."""
    with ExitStack() as stack:
        databases = [stack.enter_context(closing(RunDatabase.open(outcome.database))) for outcome in outcomes]
        if len(databases) > 1:
            if as_json or say:
                _show_comparison(databases, outcomes, as_json=as_json)
        elif as_json:
            click.echo(run_json(databases[0]), nl=False)
        elif say:
            print_run(databases[0])
        for outcome, database in zip(outcomes, databases, strict=True):
            if outcome.failure:
                click.echo(f"archiver: {outcome.failure}", err=True)
            if outcome.interrupted:
                told = interruption.words(outcome.interrupted)
                click.echo(f"archiver: {told}; what finished is in {outcome.database}", err=True)
            broke_off = len(outcomes) == 1 and (outcome.failure or outcome.interrupted)
            if broke_off and carried_out_whole(database.run().scenario_json) is None:
                click.echo(f"go on after the last finished phase: archiver resume {_name(outcome)}", err=True)
        for outcome in outcomes:
            if outcome.interrupted:
                sys.exit(interruption.exit_status(outcome.interrupted))
        failed = any(result.errors for database in databases for result in database.results())
        failed = failed or any(database.run().verdict in ("fail", "void") for database in databases)
        sys.exit(1 if failed or any(outcome.failure for outcome in outcomes) else 0)


def _name(outcome: RunOutcome) -> str:
    """By which a command finds a run: its id, or its folder where that is not in the home."""
    folder = outcome.database.parent
    return outcome.run_id if folder.parent == runs_dir() else shlex.quote(str(folder))


def earlier_objects(ledger: Ledger, run: str, scenario: Scenario) -> EarlierObjects:
    """The objects of an earlier run, without those that it deleted, where its database is still there to say so.

    Raises UsageError where it has none of what the scenario reads.
    """
    if run == "latest":
        run = ledger.latest_run() or run
    try:
        database = RunDatabase.open(find_run(run))
    except ResultsError:  # its folder is lost, but the ledger knows what it archived
        return find_earlier(ledger, run, scenario)
    try:
        return find_earlier(ledger, str(database.run().id), scenario, database.changes())
    finally:
        database.close()


def _show_comparison(databases: Sequence[RunDatabase], outcomes: Sequence[RunOutcome], *, as_json: bool) -> None:
    """The comparison where there is one, and in any case what is left on the platforms."""
    try:
        show_comparison(comparison_of(databases), as_json=as_json)
    except ResultsError as incomparable:
        click.echo(f"archiver: no comparison: {incomparable}", err=True)
    if not as_json:
        for outcome in outcomes:
            print_left_behind(outcome.run_id)


def run_options(given: dict[str, Any], command_line: list[str]) -> RunOptions:
    """What was chosen of a run, but for scenario and platform. Raises UsageError."""
    if given["retain_for"] is not None and given["retain_until"] is not None:
        raise UsageError("--retain-for and --retain-until both say how long; choose one of them")
    mode = given["retention_mode"]
    return RunOptions(
        retention=RetentionWish(
            mode=RetentionMode(mode) if mode is not None else None,
            retain_for_seconds=given["retain_for"],
            retain_until=given["retain_until"],
            legal_hold=given["legal_hold"],
        ),
        guards=Guards(given["max_retain"], given["max_locked_bytes"], given["accept_locked_until"]),
        verify=given["verify"],
        workers=given["workers"],
        if_worker_lost=given["if_worker_lost"],
        accepts_server_clock=given["accept_server_clock"],
        command_line=command_line,
        op_log_dir=given["op_log"],
        out_dir=given["out"] if given["out"] is not None else runs_dir(),
        watch=WatchOptions(
            sources=given["sources"],
            metric_names=given["metric_names"],
            metrics_token=_metrics_token(given),
            ca_bundle=_metrics_ca_bundle(given),
            insecure=given["insecure"],
            direct=given["direct"],
        ),
        devices=Devices(
            disk_roles=_by_device("--disk-role", given["disk_roles"], str),
            disk_speeds=_by_device("--disk-speed", given["disk_speeds"], parse_size),
            link_speed_bytes_per_second=given["link_speed"],
        ),
    )


def _metrics_ca_bundle(given: dict[str, Any]) -> str | None:
    """The authorities of the platform, which those who watch it trust, too."""
    bundle: str | None = given["ca_bundle"] or os.environ.get("AWS_CA_BUNDLE")
    if bundle is None and given["backend"] in ("s3", "minio") and not given["platforms"]:
        bundle = aws_settings(given["profile"]).ca_bundle
    return bundle


def _metrics_token(given: dict[str, Any]) -> str | None:
    path = given["metrics_token_file"]
    return None if path is None else read_token(path)


def _by_device(option: str, pairs: Sequence[str], read: Callable[[str], _Value]) -> dict[str, _Value]:
    """DEVICE=VALUE pairs. Raises UsageError naming the pair that is none."""
    found = {}
    for pair in pairs:
        device, equals, value = pair.partition("=")
        if not (device and equals and value):
            raise UsageError(f"{option} {pair}: write DEVICE=VALUE, for example vda={_EXAMPLES[option]}")
        try:
            found[device.removeprefix("/dev/")] = read(value)
        except ValueError as wrong:
            raise UsageError(f"{option} {pair}: {wrong}") from wrong
    return found


def platform_options(given: dict[str, Any]) -> PlatformOptions:
    """What was chosen of the platform."""
    return PlatformOptions(
        S3Options(
            endpoints=given["endpoints"],
            bucket=given["bucket"],
            region=given["region"],
            **s3_reach(given),
            checksum=given["checksum"],
            payload_signing=given["payload_signing"],
            session_open=given["session_open"],
            keep_sessions_open=given["keep_sessions_open"],
            retries=given["retries"],
            on_close=given["on_close"],
        ),
        TsmOptions(
            **tsm_reach(given),
            management_class=given["management_class"],
            space=given["filespace"],
            objects_per_transaction=given["objects_per_transaction"],
        ),
        metrics_token=_metrics_token(given),
        catalogue_dir=given["catalogue_dir"],
        say=_say_nothing if given["quiet"] else say_first,
    )


def _say_nothing(words: str) -> None:
    """For --quiet."""


# Options that one protocol alone understands: what would be ignored is refused.
_S3_ONLY = (
    "endpoints", "bucket", "region", "profile", "ca_bundle", "insecure", "addressing", "direct", "connect_timeout",
    "read_timeout", "retries", "on_close", "checksum", "payload_signing", "session_open", "keep_sessions_open",
)  # fmt: skip
_TSM_ONLY = (
    "tsm_library", "tsm_server", "tsm_node", "tsm_password_file", "management_class", "filespace",
    "objects_per_transaction",
)  # fmt: skip
_RETENTION = ("retention_mode", "retain_for", "retain_until", "accept_locked_until")
# What is chosen of objects that are archived.
_OF_ARCHIVING = (
    *_RETENTION, "legal_hold", "bucket", "filespace", "management_class", "objects_per_transaction", "max_retain",
    "max_locked_bytes", "accept_server_clock",
)  # fmt: skip


def _refuse_what_would_be_ignored(given: dict[str, Any]) -> None:
    """Raise UsageError naming options that mean nothing to a run that archives nothing, in one place."""
    archiving = _given(_OF_ARCHIVING)
    if archiving:
        raise UsageError(f"{', '.join(archiving)}: with --objects-from nothing is archived")
    if len(given["platforms"]) > 1:
        raise UsageError("--objects-from: the objects of a run are on one platform, so name one --platform at most")


def _refuse_options_of_other_backends(backend: str) -> None:
    """Raise UsageError naming options that were given and that this backend does not have."""
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


def _given(names: Sequence[str]) -> list[str]:
    """Those options that stand on the command line, as they are written there."""
    context = click.get_current_context()
    options = {option.name: option.opts[0] for option in context.command.params}
    return [options[name] for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]


def _check_folder(folder: Path) -> None:
    """Refuse a folder for the operation log that cannot be made or written; nothing is made yet."""
    existing = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK) or existing.is_relative_to("/proc"):
        raise UsageError(f"--op-log {folder}: cannot be written: {existing} is no folder that this user may write to")
