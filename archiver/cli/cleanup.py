"""``archiver cleanup``: remove what a run put on a platform, as far as its locks allow."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import click

from archiver.errors import PlatformError, UsageError
from archiver.home import ledger_path
from archiver.ledger import Ledger, Placement
from archiver.platforms import open_backend
from archiver.retention import RetentionMode
from archiver.sizes import format_bytes, format_instant
from backends.base import Location, RemovalReport
from backends.s3 import S3Options


@click.command()
@click.argument("run")
@click.option("--bypass-governance", is_flag=True, help="Remove GOVERNANCE objects before their date.")
@click.option("--release-holds", is_flag=True, help="Release the legal holds that this run placed.")
@click.option("--profile", help="AWS profile with the credentials  [default: AWS_PROFILE or the environment]")
@click.option("--ca-bundle", help="PEM file of certificate authorities  [default: AWS_CA_BUNDLE or the system's]")
@click.option("--insecure", is_flag=True, help="Do not verify TLS certificates.")
def cleanup(
    run: str,
    bypass_governance: bool,
    release_holds: bool,
    profile: str | None,
    ca_bundle: str | None,
    insecure: bool,
) -> None:
    """Remove the objects of RUN that are no longer locked, and the bucket where the run made it.

    RUN is a run's id, or `latest`: the last one that left something. What to remove comes from the ledger; nothing
    else is touched. Says what remains, and until when.

    \b
    Example:
        archiver cleanup latest --bypass-governance

    Exit status: 0 nothing remains; 1 something does.
    """
    ledger = Ledger(ledger_path())
    if run == "latest":
        run = ledger.latest_run() or run
    placements = ledger.placements(run)
    if not placements:
        known = ledger.knows(run)
        message = "everything of it has been removed already" if known else "the ledger knows no such run"
        if known:
            click.echo(f"{run}: {message}")
            return
        raise UsageError(f"{run}: {message}; its id is the name of its folder")
    options = S3Options(endpoints=(), profile=profile, ca_bundle=ca_bundle, insecure=insecure)
    report = _remove(placements, options, bypass_governance, release_holds)
    if report.bucket_missing and any(_may_be_locked(place) for place in placements):
        raise PlatformError(
            f"{run}: {placements[0].endpoint} has no bucket {placements[0].bucket}, yet objects of this run are locked "
            "there; is another platform answering at that address? The ledger keeps its record"
        )
    bucket = ", and its bucket" if report.bucket_removed else ""
    click.echo(f"{run}: removed {report.objects_removed:,} objects ({format_bytes(report.bytes_removed)}){bucket}")
    if not report.objects_left:
        ledger.mark_removed(run)
        return
    click.echo(f"{run}: {report.objects_left:,} objects remain{_why(report)}")
    for refusal in report.refusals[:3]:
        click.echo(f"  the platform says: {refusal}")
    sys.exit(1)


def _remove(
    placements: list[Placement], options: S3Options, bypass_governance: bool, release_holds: bool
) -> RemovalReport:
    """One platform and one prefix hold all of a run."""
    place = placements[0]
    location = Location(place.endpoint, place.region, place.bucket, place.bucket_created, place.prefix)
    # The bypass header is only for what can be bypassed: a bucket without Object Lock refuses it (400).
    bypass = bypass_governance and any(p.retention_mode == RetentionMode.GOVERNANCE.value for p in placements)
    if place.platform is None and place.backend == "s3":
        options = replace(options, endpoints=(place.endpoint,), region=place.region)
    with open_backend(place.backend, place.platform, options) as (backend, _):
        return backend.remove(location, bypass_governance=bypass, release_holds=release_holds)


def _may_be_locked(place: Placement) -> bool:
    """True while what was put there cannot all have been removed."""
    if place.objects == 0:
        return False
    return place.legal_hold or (place.latest_retain_until or 0.0) > time.time()


def _why(report: RemovalReport) -> str:
    reasons = []
    if report.locked_until is not None:
        reasons.append(f"locked until {format_instant(report.locked_until)} (GOVERNANCE: --bypass-governance)")
    if report.on_hold:
        reasons.append("under legal hold (--release-holds)")
    return ": " + ", ".join(reasons) if reasons else ""
