"""``archiver bench``: measure sizes, objects per session, clients and operations of the command line."""

from __future__ import annotations

from typing import Any

import click

from archiver.cli.parameters import DURATION, RATE, list_of
from archiver.cli.runs.request import bench_request
from archiver.cli.runs.run import MeasuringCommand, run_scenario, shared_params
from archiver.values.retention import PHASE_SECONDS_MAX
from archiver.values.sizes import format_duration, format_size, parse_count, parse_size_with_unit
from scenarios.ad_hoc import parse_operation
from scenarios.reading.phase_checks import OBJECT_BYTES_MAX


def _object_size(text: str) -> int:
    """Return the bytes of an object. Raises ValueError."""
    size_bytes = parse_size_with_unit(text)
    if not 1 <= size_bytes <= OBJECT_BYTES_MAX:
        raise ValueError(f"{text!r}: an object must have 1 byte to {format_size(OBJECT_BYTES_MAX)}")
    return size_bytes


def _bounded(ctx: click.Context, param: click.Parameter, seconds: float) -> float:
    """Refuse a measurement without a duration, and one beyond that of a phase."""
    if not 0 < seconds <= PHASE_SECONDS_MAX:
        raise click.BadParameter(f"it must be above 0s and at most {format_duration(PHASE_SECONDS_MAX)}", ctx, param)
    return seconds


@click.command(cls=MeasuringCommand)
@click.option(
    "--size",
    "sizes",
    type=list_of("size", _object_size),
    default="8KiB,1MiB",
    show_default=True,
    metavar="SIZE,...",
    help="Sizes of the objects.",
)
@click.option(
    "--objects-per-session",
    type=list_of("number", parse_count),
    metavar="N,...",
    help="Objects that a session archives or retrieves  [default: 100; with --rate 1]",
)
@click.option(
    "--clients",
    type=list_of("number", parse_count),
    metavar="N,...",
    help="Parallel clients, each with one outstanding request  [default: 1,4; with --rate 16]",
)
@click.option(
    "--operation",
    "operations",
    type=list_of("operation", parse_operation),
    default="archive,retrieve",
    show_default=True,
    metavar="NAME,...",
    help="Operations in this order: archive, retrieve, or mixed:70/30 for 70% retrieves and 30% archives.",
)
@click.option(
    "--duration",
    type=DURATION,
    callback=_bounded,
    default="6s",
    show_default=True,
    help="Duration of each measurement; its first tenth is warm-up.",
)
@click.option(
    "--rate",
    type=RATE,
    metavar="N/s",
    help="Open loop: this many sessions are due per second, at random times  [default: closed loop]",
)
@click.option("--show-scenario", is_flag=True, help="Print the scenario as a TOML file and stop.")
def bench(show_scenario: bool, **given: Any) -> None:
    """Measure operations without a scenario file.

    Measures every operation with every size, number of objects per session and number of clients. Without options this
    takes about a minute, on the embedded store. The command makes a scenario and runs it as `archiver run` does, with
    the same locks, limits, ledger and reports. --show-scenario prints the scenario: save it, change it, and run it with
    `archiver run FILE`.

    Retrieves read what earlier phases archived, in a closed loop each object once. If the first operation retrieves, a
    phase named load archives objects before it. In a closed loop the archiving measurements share --max-locked-bytes. A
    measurement that uses up its part, or has read every object, ends early.

    \b
    Example:
        archiver bench --size 8KiB --objects-per-session 1,100 --clients 1,16 --duration 30s --dry-run

    Exit status: as `archiver run`.
    """
    if show_scenario:
        click.echo(bench_request(given).text, nl=False)
        return
    run_scenario(given, bench_request)


bench.params += shared_params()
