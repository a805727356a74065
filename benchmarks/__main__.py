"""``python -m benchmarks``: list and run the benchmarks, and write the page of their results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import click

from archiver.machine import description as machine
from benchmarks import (
    audit,
    capture,
    ceilings,
    client_cost,
    many_objects,
    memory,
    merging,
    method,
    open_loop,
    page,
    polling,
    replay,
    sampling,
    scale_out,
    soak,
    store,
    traces,
    tsm,
)
from benchmarks.peers import comparison as peers

# Those of the page, in its order. Every benchmark is a module with ``TITLE``, ``measure(small=...)``, which returns a
# document, and ``tables(document)`` and ``notes(document)``; ``headline(document)`` where other pages quote it.
ON_PAGE: dict[str, tuple[ModuleType, str]] = {
    "client-cost": (client_cost, "Client CPU per object: Archiver compared with aiohttp, boto3 and wrk."),
    "polling": (polling, "Busy polling: objects/s, CPU and times of 1 and 16 connections."),
    "peers": (peers, "Client CPU and rates next to warp, minio-go and wrk, on a null responder and MinIO."),
    "ceilings": (ceilings, "Maximum rates of one worker on one core."),
    "scale-out": (scale_out, "Client cores, machines and links for a rate; limit of a coordinator."),
    "merging": (merging, "Merging the reports of 200 workers over 1,000 phases: time and memory."),
    "tsm": (tsm, "TSM sessions on the embedded store: batching, CPU on both sides, clients in parallel."),
    "store": (store, "The embedded store: archive rates, CPU per object, commits per sync."),
    "method": (method, "Coverage of settled cells, bias of several clients' rates, the engine's own tail latency."),
    "open-loop": (open_loop, "Times of sending compared with due times: the pacer and the event loop's timers."),
    "replay": (replay, "Replays: times of sending compared with the trace, memory, CPU of compiling."),
    "sampling": (sampling, "CPU of watching: one sample of this host, and of a server's processes."),
    "audit": (audit, "Auditing compared with retrieving the same objects."),
    "capture": (capture, "Additional latency and CPU per request of the capturing proxy."),
    "memory": (memory, "Memory of a worker for 100,000 and for 1,000,000 objects."),
    "traces": (traces, "Reading, writing, merging and importing traces: CPU per operation, memory."),
}
MODULES = {name: module for name, (module, _) in ON_PAGE.items()}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure Archiver's own speed.

    \b
    Example:
        python -m benchmarks client-cost --small
    """


def register(name: str, module: ModuleType, help_text: str) -> None:
    """Make a benchmark a command."""

    @main.command(name, help=f"{help_text}\n\n\b\nExample:\n    python -m benchmarks {name} --json")
    @click.option("--small", is_flag=True, help="Little: shows that it runs, not how fast.")
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
    def command(small: bool, as_json: bool) -> None:
        document = {"command": " ".join(sys.argv[1:]), "host": machine.describe()}
        document |= page.document_of(module, small=small)
        click.echo(json.dumps(document, indent=2) if as_json else page.text(module, document))


for _name, (_module, _help) in ON_PAGE.items():
    register(_name, _module, _help)
# Takes longer than all of the page together.
register("many-objects", many_objects, "1,000 to 1,000,000 objects in one bucket of the embedded store.")


@main.command("soak")
@click.option("--minutes", type=click.FloatRange(min=0.1), default=soak.MINUTES, show_default=True, help="How long.")
@click.option("--small", is_flag=True, help="Seconds: shows that it runs, not what grows.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def long_runs(minutes: float, small: bool, as_json: bool) -> None:
    """Memory, file descriptors and files in long runs: what is flat, and what grows.

    \b
    Example:
        python -m benchmarks soak --minutes 240
    """
    document = {"command": " ".join(sys.argv[1:]), "host": machine.describe()}
    document |= soak.measure(small=small, minutes=minutes)
    click.echo(json.dumps(document, indent=2) if as_json else page.text(soak, document))


@main.command("all")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The page, as Markdown.")
@click.option("--small", is_flag=True, help="Little: shows that it runs, not how fast; quotes stay as they are.")
@click.argument("names", nargs=-1, type=click.Choice(list(ON_PAGE)))
def all_of_them(out: Path, small: bool, names: tuple[str, ...]) -> None:
    """Carry out all benchmarks, or those named, and write the page of their results.

    What README.md and other pages quote is written anew, too.

    \b
    Example:
        python -m benchmarks all --out docs/benchmarks.md
    """
    documents = {}
    for name in names or ON_PAGE:
        documents[name] = page.document_of(MODULES[name], small=small)
        click.echo(f"{name}: {documents[name]['made']['seconds']:.0f} s", err=True)
    page.write(out, MODULES, documents, [] if small else page.quoting())


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
