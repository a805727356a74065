"""``archiver doctor``: check this machine and the maximum performance of its client, or check a TSM server."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

import click

from archiver.cli.parameters import DURATION, part_of, tsm_options
from archiver.engine.client_limits import limits_here
from archiver.engine.doctor import CLIENTS, OBJECTS_PER_SESSION, ceilings
from archiver.machine import description as machine
from archiver.platforms.opening import open_tsm_server
from archiver.values.errors import UsageError
from archiver.values.sizes import format_bytes, format_size
from backends.tsm import TsmOptions, TsmRequest
from backends.tsm.examination import examine


@click.command()
@click.option("--seconds", type=DURATION, default="2s", show_default=True, help="Duration of each measurement.")
@tsm_options
@click.option("--management-class", metavar="NAME", help="TSM: check this class  [default: the node's default]")
@click.option("--filespace", "space", metavar="/NAME", help="TSM: check this file space.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def doctor(seconds: float, as_json: bool, **tsm: Any) -> None:
    """Measure the limits of this client, or check a TSM server.

    Describes the machine, too. The ceiling of the engine is measured with sessions that do nothing, the ceiling of the
    wire path against a process that answers every S3 request at once. A result near its ceiling measured the client,
    not the platform.

    With --tsm-library or --tsm-server it signs on at that server instead, and reports what a run would find: library,
    encryption, retention protection, management class, rights and file space. It archives nothing.

    \b
    Example:
        archiver doctor --seconds 500ms

    Exit status: 0 all well; 1 a finding says what to fix; 3 the sign-on failed.
    """
    if any(tsm.values()):
        _check_tsm(TsmOptions(**part_of(TsmRequest, tsm)), as_json)
        return
    host = machine.describe()
    limits, workers = limits_here(), host["cores_usable"]
    most = {"s3": limits.most(workers, 1, threads=False), "tsm": limits.most(workers, 1, threads=True)}
    if not as_json:
        click.echo(
            f"{host['processor']}, {host['cores_usable']} of {host['cores']} cores usable, "
            f"{format_bytes(host['memory_bytes'])} memory, kernel {host['kernel']}, Python {host['python']}"
        )
        click.echo(
            f"clients that fit on {workers} workers and one address of a platform: {most['s3']:,} through S3, "
            f"{most['tsm']:,} through TSM, by the limits of open files, ports and threads"
        )
        click.echo(f"ceilings of one worker on one core, {CLIENTS} clients, {OBJECTS_PER_SESSION} objects per session")
        click.echo(f"{'limit':<8}{'operation':<10}{'size':>6}{'objects/s':>12}{'MB/s':>10}{'client us/object':>18}")
    found: list[dict[str, Any]] = []
    for ceiling in ceilings(seconds):
        result = ceiling.result
        found.append({"limit": ceiling.limit, **asdict(result)})
        if not as_json:
            cost = result.client.cpu_microseconds_per_object or 0.0
            click.echo(
                f"{ceiling.limit:<8}{result.operation:<10}{format_size(result.object_bytes):>6}"
                f"{result.objects_per_second:>12,.0f}{result.megabytes_per_second:>10,.1f}{cost:>18.1f}"
            )
    if as_json:
        click.echo(json.dumps({"host": host, "clients_max": most, "ceilings": found}, indent=2))


def _check_tsm(options: TsmOptions, as_json: bool) -> None:
    """Print the findings about a TSM server, and exit with 1 if one says what to fix."""
    if options.library is None and options.server is None:
        raise UsageError("name the TSM server to check with --tsm-server, or IBM's library with --tsm-library")
    with open_tsm_server(options) as backend:
        findings = examine(backend)
    if as_json:
        click.echo(json.dumps({"findings": [asdict(each) for each in findings]}, indent=2))
    else:
        for each in findings:
            click.echo(f"{each.subject:<14}{each.found}")
            if each.fix:
                click.echo(f"{'':<14}FIX: {each.fix}")
    if any(each.fix for each in findings):
        sys.exit(1)
