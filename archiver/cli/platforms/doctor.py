"""``archiver doctor``: check this machine, and measure the client's maximum performance on it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from archiver.cli.parameters import DURATION
from archiver.engine.client_limits import limits_here
from archiver.engine.doctor import CLIENTS, OBJECTS_PER_SESSION, ceilings
from archiver.machine import description as machine
from archiver.values.sizes import format_bytes, format_size


@click.command()
@click.option("--seconds", type=DURATION, default="2s", show_default=True, help="Duration of each measurement.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def doctor(seconds: float, as_json: bool) -> None:
    """Measure the maximum performance of this client machine.

    Describes the machine, too. The ceiling of the engine is measured with sessions that do nothing, the ceiling of the
    wire path against a process that answers every S3 request at once. A result near its ceiling measured the client,
    not the platform.

    \b
    Example:
        archiver doctor --seconds 500ms
    """
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
