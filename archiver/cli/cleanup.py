"""``archiver cleanup``: remove what a run put on a platform, as far as its locks allow."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import click

from archiver.cli.parameters import tsm_options
from archiver.errors import PlatformError, UsageError
from archiver.home import ledger_path
from archiver.ledger import Ledger, Placement
from archiver.platforms import PlatformOptions, open_backend
from archiver.retention import RetentionMode
from archiver.sizes import format_bytes, format_instant
from backends.base import Location, RemovalReport
from backends.s3 import S3Options
from backends.tsm import TsmOptions
from backends.tsm.configuration import parse_server


@click.command()
@click.argument("run")
@click.option("--bypass-governance", is_flag=True, help="Remove GOVERNANCE objects before their date.")
@click.option("--release-holds", is_flag=True, help="Release the legal holds that this run placed.")
@click.option("--profile", help="AWS profile with the credentials  [default: AWS_PROFILE or the environment]")
@click.option("--ca-bundle", help="PEM file of certificate authorities  [default: AWS_CA_BUNDLE or the system's]")
@click.option("--insecure", is_flag=True, help="Do not verify TLS certificates.")
@tsm_options
def cleanup(
    run: str,
    bypass_governance: bool,
    release_holds: bool,
    profile: str | None,
    ca_bundle: str | None,
    insecure: bool,
    tsm_library: str | None,
    tsm_server: str | None,
    tsm_node: str | None,
    tsm_password_file: Path | None,
) -> None:
    """Remove the objects of RUN that are no longer locked, and the bucket or file space where the run made it.

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
    options = PlatformOptions(
        S3Options(endpoints=(), profile=profile, ca_bundle=ca_bundle, insecure=insecure),
        TsmOptions(library=tsm_library, server=tsm_server, node=tsm_node, password_file=tsm_password_file),
    )
    places: dict[tuple[str, str, str], list[Placement]] = {}
    for placement in placements:
        places.setdefault((placement.backend, placement.endpoint, placement.bucket), []).append(placement)
    left = [_clean(run, each, options, ledger, bypass_governance, release_holds) for each in places.values()]
    sys.exit(1 if any(left) else 0)


def _clean(
    run: str,
    placements: list[Placement],
    options: PlatformOptions,
    ledger: Ledger,
    bypass_governance: bool,
    release_holds: bool,
) -> int:
    """Remove what may be removed from one bucket or file space; how many objects remain there."""
    report = _remove(placements, options, bypass_governance, release_holds)
    place = "file space" if placements[0].backend == "tsm" else "bucket"
    if report.bucket_missing and any(map(_may_be_locked, placements)):
        raise PlatformError(
            f"{run}: {placements[0].endpoint} has no {place} {placements[0].bucket}, yet objects of this run are "
            "locked there; is another platform answering at that address? The ledger keeps its record"
        )
    bucket = f", and its {place}" if report.bucket_removed else ""
    click.echo(f"{run}: removed {report.objects_removed:,} objects ({format_bytes(report.bytes_removed)}){bucket}")
    if not report.objects_left:
        if placements[0].bucket_created and not report.bucket_removed and not report.bucket_missing:
            click.echo(
                f"{run}: its {place} {placements[0].bucket} stays: something is in it that the run did not put there"
            )
        ledger.mark_removed(run, placements[0].bucket)
        return 0
    click.echo(f"{run}: {report.objects_left:,} objects remain{_why(report, placements)}")
    for refusal in report.refusals[:3]:
        click.echo(f"  the platform says: {refusal}")
    return report.objects_left


def _remove(
    placements: list[Placement], options: PlatformOptions, bypass_governance: bool, release_holds: bool
) -> RemovalReport:
    """What is in one bucket under one prefix."""
    place = placements[0]
    location = Location(place.endpoint, place.region, place.bucket, place.bucket_created, place.prefix)
    # The bypass header is only for what can be bypassed: a bucket without Object Lock refuses it (400).
    bypass = bypass_governance and any(p.retention_mode == RetentionMode.GOVERNANCE.value for p in placements)
    if place.platform is None and place.backend in ("s3", "minio"):
        options = replace(options, s3=replace(options.s3, endpoints=(place.endpoint,), region=place.region))
    if place.platform is None and place.backend == "tsm":
        node, _, server = place.endpoint.removeprefix("tsm://").rpartition("@")
        server = options.tsm.server or server
        # A stanza with stored passwords has its own node and takes no other; it is told one only with a password.
        names_node = options.tsm.password_file is not None or parse_server(server) is not None
        tsm = replace(options.tsm, server=server, node=options.tsm.node or (node if names_node else None))
        options = replace(options, tsm=tsm)
    with open_backend(place.backend, place.platform, options) as (backend, _):
        return backend.remove(location, bypass_governance=bypass, release_holds=release_holds)


def _may_be_locked(place: Placement) -> bool:
    """True while what was put there cannot all have been removed."""
    if place.objects == 0:
        return False
    return place.legal_hold or (place.latest_retain_until or 0.0) > time.time()


def _why(report: RemovalReport, placements: list[Placement]) -> str:
    reasons = []
    if report.locked_until is not None:
        by_class = all(place.retention_mode == RetentionMode.CLASS.value for place in placements)
        remedy = "" if by_class else " (GOVERNANCE: --bypass-governance)"
        reasons.append(f"locked until {format_instant(report.locked_until)}{remedy}")
    if report.on_hold:
        reasons.append("under legal hold (--release-holds)")
    return ": " + ", ".join(reasons) if reasons else ""
