"""``python -m benchmarks``: list and run the benchmarks, and write the page of their results."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial

import click

from archiver.machine import description as machine
from benchmarks import page
from benchmarks.benchmark import Benchmark
from benchmarks.client_cost import CEILINGS, CLIENT_COST, PEERS, POLLING
from benchmarks.growth import MEMORY, SAMPLING, SOAK, SOAK_MINUTES, soak_experiments
from benchmarks.method import METHOD
from benchmarks.scale_out import MERGING, SCALE_OUT
from benchmarks.schedules import OPEN_LOOP, REPLAY
from benchmarks.store import AUDIT, MANY_OBJECTS, STORE
from benchmarks.store import TSM_BENCHMARK as TSM
from benchmarks.traces import CAPTURE, TRACES

# In the order of the page. The last two take longer than all others together, and are not on it.
BENCHMARKS = {
    each.name: each
    for each in (
        CLIENT_COST, POLLING, PEERS, CEILINGS, SCALE_OUT, MERGING, TSM, STORE, METHOD, OPEN_LOOP, REPLAY,
        SAMPLING, AUDIT, CAPTURE, MEMORY, TRACES, MANY_OBJECTS, SOAK,
    )
}  # fmt: skip
ON_PAGE = [name for name, benchmark in BENCHMARKS.items() if benchmark.is_on_page]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure Archiver's own speed.

    \b
    Example:
        python -m benchmarks client-cost --small
    """


def run_one(benchmark: Benchmark, small: bool, as_json: bool, minutes: float = SOAK_MINUTES) -> None:
    """Run a benchmark and print its results."""
    if benchmark is SOAK:
        benchmark = replace(SOAK, experiments=partial(soak_experiments, minutes=minutes))
    outcome = benchmark.run(small=small)
    document = {"command": " ".join(sys.argv[1:]), "host": machine.describe(), **outcome.document()}
    click.echo(json.dumps(document, indent=2) if as_json else page.text(outcome))


OPTIONS: list[click.Parameter] = [
    click.Option(["--small"], is_flag=True, help="Small amounts: a test that it runs, not a measurement."),
    click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON document."),
]
MINUTES = click.Option(
    ["--minutes"], type=click.FloatRange(min=0.1), default=SOAK_MINUTES, show_default=True, help="Duration."
)
for _benchmark in BENCHMARKS.values():
    _help = f"{_benchmark.question}\n\n\b\nExample:\n    python -m benchmarks {_benchmark.name} --json"
    _options = [*OPTIONS, MINUTES] if _benchmark is SOAK else OPTIONS
    main.add_command(click.Command(_benchmark.name, None, partial(run_one, _benchmark), _options, help=_help))


@main.command("all")
@click.option("--small", is_flag=True, help="Small amounts: a test that it runs; pages stay as they are.")
@click.argument("names", nargs=-1, type=click.Choice(ON_PAGE))
def run_all(small: bool, names: tuple[str, ...]) -> None:
    """Carry out all benchmarks, or those named, and write their results into docs/benchmarks.md and other pages.

    \b
    Example:
        python -m benchmarks all
    """
    outcomes = []
    for name in names or ON_PAGE:
        outcomes.append(BENCHMARKS[name].run(small=small))
        click.echo(f"{name}: {outcomes[-1].seconds:.0f} s", err=True)
    quotes = page.quotes(outcomes) | ({} if names else {"machine": page.machine_table(outcomes)})
    for path in [] if small else page.quoting():
        path.write_text(page.with_quotes(path.read_text(), quotes))


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
