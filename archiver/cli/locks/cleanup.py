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
from archiver.ledger.removal import Consent, RemovalResult, in_progress, remove
from archiver.machine.home import ledger_path
from archiver.platforms.opening import PlatformOptions
from archiver.values.errors import ArchiverError, PlatformGone, UsageError
from archiver.values.sizes import format_bytes, format_instant
from backends.base import RemovalReport

_NOTHING_LEFT = "nothing is left on any platform"


@click.command()
@click.argument("run", required=False, shell_complete=run_names)
@click.option("--all-expired", is_flag=True, help="Clean up after all runs whose locks have ended.")
@click.option("--bypass-governance", is_flag=True, help="Remove GOVERNANCE objects before their date.")
@click.option("--release-holds", is_flag=True, help="Release the holds that the run placed.")
@click.option(
    "--forget",
    is_flag=True,
    help="Also remove RUN from the ledger where its platform does not answer, or has none of its objects; needs --yes.",
)
@click.option("--yes", "confirmed", is_flag=True, help="Confirm --forget.")
@recorded_platform_options
def cleanup(
    run: str | None,
    all_expired: bool,
    bypass_governance: bool,
    release_holds: bool,
    forget: bool,
    confirmed: bool,
    platform: PlatformOptions,
) -> None:
    """Remove what RUN left, except what is still locked.

    Removes objects, and the bucket or file space if the run made it. RUN is a run's id, or `latest` for the latest run
    that left something. The ledger says what to remove, and nothing else is touched. The command prints what remains
    and until when. `archiver ledger` lists what runs left.

    A run that may still be in progress, or whose objects such a run reads, is left alone.

    --all-expired cleans up after all runs whose locks have ended, according to the ledger. It skips runs in progress,
    and runs under hold unless --release-holds is given. If one platform cannot be reached, the others
    are still cleaned up.

    The release of an event hold starts its period, at least a day. Its objects stay until then, unless
    --bypass-governance is given too.

    --forget is for a platform whose data is gone. What the platform still has stays in the ledger. A platform that is
    only switched off does not answer either, and if its data comes back, no record says that objects are locked there.

    \b
    Example:
        archiver cleanup latest --bypass-governance

    Exit status: 0 everything that was to be removed is removed, or forgotten; 1 something remains; 3 no platform could
    be reached.
    """
    if (run is not None) == all_expired:
        raise UsageError("give either a run (its id, or `latest`) or --all-expired")
    if all_expired and bypass_governance:
        raise UsageError("--bypass-governance removes what has not expired; name the run, instead of --all-expired")
    if forget and all_expired:
        raise UsageError("--forget takes one run; name it, instead of --all-expired")
    if confirmed and not forget:
        raise UsageError("--yes confirms --forget; give both")
    ledger, now = Ledger(ledger_path()), time.time()
    consent = Consent(bypass_governance, release_holds, forget=forget and confirmed)
    outcomes = []
    try:
        holdings = _all_expired(ledger, now, release_holds) if run is None else _of_run(ledger, run, now)
        for outcome in remove(holdings, platform, ledger, consent, now):
            _tell(outcome)
            if isinstance(outcome.failure, PlatformGone):
                _tell_forgetting(outcome, asked=forget)
            outcomes.append(outcome)
    finally:
        ledger.close()
    sys.exit(_exit_status(outcomes))


def _of_run(ledger: Ledger, run: str, now: float) -> list[Holding]:
    """Return what a run has left; empty if all of it was already removed. Raises UsageError for an unknown run."""
    if run == "latest":
        latest = ledger.latest_run()
        if latest is None:
            click.echo(_NOTHING_LEFT)
            return []
        run = latest
    holdings = gather(ledger.placements(run))
    if holdings:
        reason = in_progress(run, ledger, now)
        if reason is not None:
            raise UsageError(f"{run}: nothing is removed: {reason}")
        return holdings
    if not ledger.knows(run):
        raise UsageError(f"{run}: the ledger has no such run; its id is the name of its folder")
    click.echo(f"{run}: everything of it has been removed already")
    return []


def _all_expired(ledger: Ledger, now: float, release_holds: bool) -> list[Holding]:
    """Return everything that can be removed, over all runs. If there is nothing, print that."""
    everything = gather(ledger.placements())
    due = [each for each in everything if each.has_expired(now) and (release_holds or not each.is_held)]
    reasons = {run: in_progress(run, ledger, now) for run in sorted({each.first.run for each in due})}
    for run, reason in reasons.items():
        if reason is not None:
            click.echo(f"{run}: is skipped: {reason}")
    found = [each for each in due if reasons[each.first.run] is None]
    if not found:
        words = until_words([row for each in everything for row in each.placements], now)
        last = f"; {words}" if words else ""
        click.echo(f"nothing can be removed now{last}" if everything else _NOTHING_LEFT)
    return found


def _exit_status(outcomes: Sequence[RemovalResult]) -> int:
    """Return the exit status. An unusable platform determines it only if it was the only one."""
    outcomes = [each for each in outcomes if not each.is_forgotten]
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
    elif report.bucket_kept is not None:
        click.echo(f"{run}: its {place} {holding.first.bucket} stays: {report.bucket_kept}")
    if report.names_of_others:
        names = "names" if holding.first.backend == "tsm" else "keys"
        where = f"{holding.first.bucket}/{holding.first.prefix}"
        click.echo(f"{run}: {report.names_of_others:,} {names} under {where} are not the run's: left")
    for refusal in report.refusals[:3]:
        click.echo(f"  the platform answered: {refusal}")


def _tell_failure(holding: Holding, failure: ArchiverError | None) -> None:
    first = holding.first
    words = str(failure)
    where = "" if words.startswith(f"{first.run}:") else f"{first.run}, {holding.place} {first.bucket}: "
    click.echo(f"archiver: {where}{words}", err=True)


def _tell_forgetting(outcome: RemovalResult, *, asked: bool) -> None:
    """Print that a holding was forgotten, or how to forget it."""
    first, holding = outcome.holding.first, outcome.holding
    amount = f"{'' if holding.exact else 'at most '}{holding.objects:,} objects in {holding.place} {first.bucket}"
    if outcome.is_forgotten:
        click.echo(f"{first.run}: the ledger forgot {amount}")
    elif asked:
        click.echo(f"{first.run}: the ledger would forget {amount}; if they are gone for good, add --yes", err=True)
    else:
        click.echo(f"if its data is gone for good: archiver cleanup {first.run} --forget", err=True)


def _why(report: RemovalReport, holding: Holding) -> str:
    reasons = []
    if report.locked_until is not None:
        remedy = " (GOVERNANCE: --bypass-governance)" if report.governance else ""
        reasons.append(f"locked until {format_instant(report.locked_until)}{remedy}")
    if report.on_hold:
        ours = "--release-holds" if holding.is_held else "which the run did not place"
        reasons.append(f"under hold ({ours})")
    if report.holds_unconfirmed:
        reasons.append(f"the release of {report.holds_unconfirmed:,} holds is not confirmed, so the ledger keeps them")
    return ": " + ", ".join(reasons) if reasons else ""
