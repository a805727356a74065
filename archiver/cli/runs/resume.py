"""``archiver resume``: continue an interrupted run."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import click

from archiver.cli.completion import run_names
from archiver.cli.live.live_file import live_file
from archiver.cli.live.progress import Progress
from archiver.cli.parameters import tables_option
from archiver.cli.runs.dry_run import announcement
from archiver.cli.runs.run import conclude, dask_cluster, earlier_objects, platform_options, run_options
from archiver.engine.request import RunRequest
from archiver.engine.resumption import BrokenRun, look_at, plan_rest, remaining
from archiver.engine.resumption import resume as go_on
from archiver.ledger.ledger import Ledger
from archiver.machine.home import find_run, ledger_path
from archiver.platforms.opening import PlatformOptions, open_backend
from archiver.values.errors import UsageError
from results.recorded.database import RunDatabase, StoredRun
from scenarios.model import Scenario
from scenarios.reading.reader import recorded_scenario


@click.command()
@click.argument("name", metavar="RUN", shell_complete=run_names)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for runs  [default: runs in $ARCHIVER_HOME]"
)
@click.option("--dask", metavar="ADDRESS", help="Address of the Dask scheduler  [default: as recorded]")
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON document.")
@tables_option
@click.option("--quiet", is_flag=True, help="Print no progress and no tables.")
def resume(name: str, out: Path | None, dask: str | None, as_json: bool, tables: tuple[str, ...], quiet: bool) -> None:
    """Continue RUN after its last finished phase.

    RUN was interrupted, was killed or failed. It is a run's id, its folder, or `latest`. All options come from the
    run's own record, and only credentials come from the environment. Relative file names of the recorded command line
    are looked up from the current folder. Finished phases stay as they are. The phase that broke off is repeated with
    new objects.

    \b
    Example:
        archiver resume latest

    Exit status: as `archiver run`.
    """
    with ExitStack() as stack:
        ledger = stack.enter_context(closing(Ledger(ledger_path())))
        database = stack.enter_context(closing(RunDatabase.reopen(find_run(name) if out is None else out / name)))
        broken = look_at(database, ledger)
        row = broken.row
        request = _request(row)
        request = replace(
            request,
            dask=_dask(row.id, request.dask, dask),
            workers=row.workers,
            poll=row.settings["poll"],
            as_json=as_json,
            quiet=quiet,
        )
        scenario = recorded_scenario(
            row.scenario_json,
            order=row.sweep_order,
            order_seed=row.order_seed,
            repetitions=row.repetitions,
            retrieving_only=row.objects_from is not None,
        )
        rest = replace(scenario, phases=remaining(broken, scenario))
        options = run_options(request, row.command_line)
        if row.objects_from is not None:
            options = replace(options, objects_from=earlier_objects(ledger, row.objects_from.run, scenario))
        platform = row.platform.name if row.settings["platform_started"] else None
        opened = stack.enter_context(open_backend(row.backend, platform, _platform(request, row)))
        if not quiet:
            _tell(broken, scenario)
        if request.dask is not None:
            cluster = stack.enter_context(dask_cluster(request.dask, request, replays=rest.has("replay")))
            options = replace(options, cluster=cluster)
        plan, warnings = plan_rest(broken, scenario, opened, options)
        if not quiet and rest.archived_max()[0]:
            for line in announcement(plan):
                click.echo(line, err=True)
        progress = stack.enter_context(Progress(rest, 1, enabled=not quiet, budget_seconds=request.budget_seconds))
        stack.enter_context(live_file(progress.meter, [database.path.parent]))
        for warning in warnings:
            progress.warned(warning)
        outcome = go_on(broken, scenario, plan, ledger, progress)
    conclude([outcome], as_json=as_json, say=not quiet, tables=tables)


def _request(row: StoredRun) -> RunRequest:
    """Return the user's request from the start of the run. Raises UsageError."""
    command = " ".join(row.command_line)
    if row.request is None:
        raise UsageError(f"{row.id}: was not started by archiver run, but by {command}")
    try:
        return RunRequest.from_json(row.request)
    except ValueError as wrong:
        raise UsageError(f"{row.id}: its command line, {command}, cannot be carried out here: {wrong}") from wrong


def _dask(name: str, recorded: str | None, now: str | None) -> str | None:
    """Return the address of the workers. Raises UsageError if the run began on others."""
    if now is not None and recorded is None:
        raise UsageError(f"{name}: began with workers of its own machine, so --dask would make it another measurement")
    return now if now is not None else recorded


def _platform(request: RunRequest, row: StoredRun) -> PlatformOptions:
    """Return the platform that the run began on, regardless of the current environment variables."""
    options = replace(platform_options(request), recorded_in=f"the record of run {row.id}")
    if row.settings["platform_started"] or row.platform.protocol != "s3":
        return options
    return replace(options, s3=replace(options.s3, endpoints=row.platform.endpoints, region=row.location["region"]))


def _tell(broken: BrokenRun, scenario: Scenario) -> None:
    """Print where the run continues, and what the interrupted phase may have left."""
    phases = scenario.phases
    next_one = (
        f", with phase {broken.finished + 1}, {phases[broken.finished].label}" if broken.finished < len(phases) else ""
    )
    click.echo(f"goes on after {broken.finished} of {len(phases)} phases{next_one}", err=True)
    for each in broken.left_open:
        click.echo(
            f"{each.phase} was interrupted and left at most {each.objects_max:,} objects in "
            f"{each.bucket}/{each.prefix}; they were not counted; archiver cleanup {broken.id} removes them with the "
            "others",
            err=True,
        )
