"""``archiver replay``: carry out traces on a platform, in their order and timing, and report the delays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from archiver.cli.parameters import DURATION
from archiver.cli.runs.request import replay_request, run_request
from archiver.cli.runs.run import MeasuringCommand, carry_out, shared_params
from archiver.values.errors import UsageError
from scenarios.reading.reader import scenario_of


@click.command(cls=MeasuringCommand)
@click.argument("traces", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--speed", type=float, default=1.0, show_default=True, help="Speed relative to the recording.")
@click.option(
    "--sets",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    help="Copies of the traces that run in parallel.",
)
@click.option(
    "--shift",
    "shift_seconds",
    type=DURATION,
    default="1s",
    show_default=True,
    help="Delay of each set after the previous set.",
)
@click.option(
    "--tolerance",
    "tolerance_seconds",
    type=DURATION,
    default="10ms",
    show_default=True,
    help="Scheduling delay that 99% of the operations must stay within; otherwise the replay is void.",
)
def replay(**given: Any) -> None:
    """Replay traces on a platform, at their recorded times.

    Starts every operation when it is due, in the order of its stream. Objects that a trace reads but does not write are
    archived first. Each set has its own objects. An operation that is due while an earlier one of its stream is in
    progress waits, and the wait is part of its response time. A replay may take 15 seconds per hour longer than its
    trace, pro rata, but at least one second. Several traces run in parallel. Opening a session only connects, unless
    --session-open says otherwise.

    \b
    Example:
        archiver replay day.parquet --sets 2 --speed 2 --tolerance 1s

    Exit status: as `archiver run`; also 1 if the replay took too long, or is void because the client was too late.
    """
    asked = replay_request(given)
    request = run_request(given, replay=asked)
    names = [path.stem for path in asked.traces]
    if len(set(names)) < len(names):
        raise UsageError("two of the traces have the same name; rename one, since results are told apart by it")
    document = {
        "name": "replay",
        "title": f"Replay of {', '.join(path.name for path in asked.traces)}",
        "scale": {"name": "sets", "each": "set", "values": [asked.sets]},
        "criterion": [{"that": "replay_margin_seconds >= 0"}],
        "phase": [
            {
                "name": "replay",
                "copies": "sets",
                "speed": asked.speed,
                "shift": f"{asked.shift_seconds:.9f}s",
                "tolerance": f"{asked.tolerance_seconds:.9f}s",
                "replay": [{"name": path.stem, "trace": str(path.absolute())} for path in asked.traces],
            }
        ],
    }
    scenario = scenario_of(document, "archiver replay", repetitions=request.repetitions, criteria=asked.criteria)
    carry_out(request, scenario)


replay.params += shared_params("allow_large_sessions", "budget_seconds")
