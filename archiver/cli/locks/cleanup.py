"""``archiver cleanup``: remove runs' objects from platforms, as far as their locks allow."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import click

from archiver.cli.completion import run_names
from archiver.cli.locks.recorded_platform import recorded_platform_options
from archiver.ledger.holdings import Holding, gather, until_words
from archiver.ledger.ledger import Ledger
from archiver.ledger.removal import Consent, RemovalResult, is_under_way, may_be_under_way, remove
from archiver.machine.home import ledger_path
from archiver.platforms.opening import PlatformOptions
from archiver.values.errors import ArchiverError, UsageError
from archiver.values.sizes import format_bytes, format_instant
from backends.base import RemovalReport

_NOTHING_LEFT = "nothing is left on any platform"


@click.command()
@click.argument("run", required=False, shell_complete=run_names)
@click.option("--all-expired", is_flag=True, help="Clean up after all runs whose locks have ended.")
@click.option("--bypass-governance", is_flag=True, help="Remove GOVERNANCE objects before their date.")
@click.option("--release-holds", is_flag=True, help="Release the holds that the run placed.")
@recorded_platform_options
def cleanup(
    run: str | None,
    all_expired: bool,
    bypass_governance: bool,
    release_holds: bool,
    platform: PlatformOptions,
) -> None:
    """Remove what RUN left, except what is still locked.

    Removes objects, and the bucket or file space if the run made it. RUN is a run's id, or `latest` for the latest run
    that left something. The ledger says what to remove, and nothing else is touched. The command prints what remains
    and until when. `archiver ledger` lists what runs left.

    --all-expired cleans up after all runs whose locks have ended, according to the ledger. It skips runs that may still
    be in progress, and runs under hold unless --release-holds is given. If one platform cannot be reached, the others
    are still cleaned up.

    The release of an event hold starts its period, at least a day. Its objects stay until then, unless
    --bypass-governance is given too.

    \b
    Example:
        archiver cleanup latest --bypass-governance

    Exit status: 0 everything that was to be removed is removed; 1 something remains; 3 no platform could be reached.
    """
    if (run is not None) == all_expired:
        raise UsageError("give either a run (its id, or `latest`) or --all-expired")
    if all_expired and bypass_governance:
        raise UsageError("--bypass-governance removes what has not expired; name the run, instead of --all-expired")
    ledger, now = Ledger(ledger_path()), time.time()
    outcomes = []
    try:
        holdings = _all_expired(ledger, now, release_holds) if run is None else _of_run(ledger, run)
        for outcome in remove(holdings, platform, ledger, Consent(bypass_governance, release_holds), now):
            _tell(outcome)
            outcomes.append(outcome)
    finally:
        ledger.close()
    sys.exit(_exit_status(outcomes))


def _of_run(ledger: Ledger, run: str) -> list[Holding]:
    """Return what a run has left; empty if all of it was already removed. Raises UsageError for an unknown run."""
    if run == "latest":
        latest = ledger.latest_run()
        if latest is None:
            click.echo(_NOTHING_LEFT)
            return []
        run = latest
    holdings = gather(ledger.placements(run))
    if holdings:
        if is_under_way(run):
            raise UsageError(f"{run}: is under way; let it end, or stop it, before what it left is removed")
        return holdings
    if not ledger.knows(run):
        raise UsageError(f"{run}: the ledger has no such run; its id is the name of its folder")
    click.echo(f"{run}: everything of it has been removed already")
    return []


def _all_expired(ledger: Ledger, now: float, release_holds: bool) -> list[Holding]:
    """Return everything that can be removed, over all runs. If there is nothing, print that."""
    everything = gather(ledger.placements())
    due = [each for each in everything if each.has_expired(now) and (release_holds or not each.is_held)]
    under_way = [run for run in sorted({each.first.run for each in due}) if may_be_under_way(run, everything, now)]
    for run in under_way:
        click.echo(f"{run}: may be in progress and is skipped; if it was killed: archiver cleanup {run}")
    found = [each for each in due if each.first.run not in under_way]
    if not found:
        words = until_words([row for each in everything for row in each.placements], now)
        last = f"; {words}" if words else ""
        click.echo(f"nothing can be removed now{last}" if everything else _NOTHING_LEFT)
    return found


def _exit_status(outcomes: Sequence[RemovalResult]) -> int:
    """Return the exit status. An unusable platform determines it only if it was the only one."""
    failures = [each.failure for each in outcomes if each.failure is not None]
    if failures and len(failures) == len(outcomes):
        return failures[0].exit_status
    return 1 if failures or any(each.report is not None and each.report.objects_left for each in outcomes) else 0


def _tell(outcome: RemovalResult) -> None:
    """Print the outcome for one bucket or file space."""
    holding, report = outcome.holding, outcome.report
    if report is None:
        _tell_failure(holding, outcome.failure)
        return
    run, place = holding.first.run, holding.place
    too = f", and its {place}" if report.bucket_removed else ""
    click.echo(f"{run}: removed {report.objects_removed:,} objects ({format_bytes(report.bytes_removed)}){too}")
    if report.objects_left:
        click.echo(f"{run}: {report.objects_left:,} objects remain{_why(report, holding)}")
    elif holding.first.bucket_created and not report.bucket_removed and not report.bucket_missing:
        click.echo(f"{run}: its {place} {holding.first.bucket} stays: it has content that the run did not put there")
    for refusal in report.refusals[:3]:
        click.echo(f"  the platform answered: {refusal}")


def _tell_failure(holding: Holding, failure: ArchiverError | None) -> None:
    first = holding.first
    words = str(failure)
    where = "" if words.startswith(f"{first.run}:") else f"{first.run}, {holding.place} {first.bucket}: "
    click.echo(f"archiver: {where}{words}", err=True)


def _why(report: RemovalReport, holding: Holding) -> str:
    reasons = []
    if report.locked_until is not None:
        remedy = " (GOVERNANCE: --bypass-governance)" if report.governance else ""
        reasons.append(f"locked until {format_instant(report.locked_until)}{remedy}")
    if report.on_hold:
        ours = "--release-holds" if holding.is_held else "which the run did not place"
        reasons.append(f"under hold ({ours})")
    return ": " + ", ".join(reasons) if reasons else ""
