"""``python -m benchmarks``: list and run the benchmarks."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import click

from archiver import machine
from benchmarks import audit, capture, ceilings, client_cost, memory, open_loop, sampling, store, traces, tsm


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure Archiver's own speed.

    \b
    Example:
        python -m benchmarks client-cost --small
    """


def _register(name: str, module: ModuleType, help_text: str) -> None:
    """Every benchmark is a module with ``measure(small=...)`` and ``text(document)``."""

    @main.command(name, help=f"{help_text}\n\n\b\nExample:\n    python -m benchmarks {name} --json")
    @click.option("--small", is_flag=True, help="Little: shows that it runs, not how fast.")
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
    def command(small: bool, as_json: bool) -> None:
        document = {"command": " ".join(sys.argv[1:]), "host": machine.describe(), **module.measure(small=small)}
        click.echo(json.dumps(document, indent=2) if as_json else module.text(document))


_register("client-cost", client_cost, "Client CPU per object: Archiver against aiohttp, boto3 and wrk.")
_register("ceilings", ceilings, "What one worker on one core can do at most.")
_register("open-loop", open_loop, "Sends against their due times: the pacer beside the event loop's own timers.")
_register("store", store, "The embedded store: archive rates, CPU per object, commits per sync.")
_register("tsm", tsm, "TSM sessions on the embedded store: batching, CPU on both sides, clients in parallel.")
_register("audit", audit, "Auditing objects beside retrieving the same ones.")
_register("capture", capture, "What the capturing proxy adds: latency and CPU per request.")
_register("memory", memory, "Memory of a worker for 100,000 and for 1,000,000 objects.")
_register("sampling", sampling, "CPU of watching: one read of this host, and of a server's processes.")
_register("traces", traces, "Reading, writing, merging and importing traces: CPU per operation, memory.")

if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
