"""The results of benchmarks for a terminal, and in the pages that quote them.

One idea: the author of a page describes a measurement. Its results are between two marks, and each run of the benchmark
replaces them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from archiver.machine import description as machine
from archiver.platforms import programs
from archiver.values.sizes import format_bytes
from benchmarks.benchmark import Outcome
from benchmarks.peers import programs as peers
from results.document.text import render_markdown, render_text

ROOT = Path(__file__).parent.parent
_QUOTE = re.compile(r"(<!-- benchmark ([a-z-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def text(outcome: Outcome) -> str:
    """Return tables and notes for a terminal."""
    return "\n".join([*(render_text(table, 160) for table in outcome.tables()), *outcome.notes()])


def quotes(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Return the quotes of each benchmark by name: NAME (its summary), NAME-tables, and NAME-results."""
    found = {}
    for outcome in outcomes:
        name, rounds = outcome.benchmark.name, max(experiment.rounds for experiment in outcome.experiments)
        if outcome.benchmark.quote is not None:
            found[name] = outcome.benchmark.quote(outcome.results)
        tables = found[f"{name}-tables"] = "\n".join(render_markdown(table) for table in outcome.tables()).strip("\n")
        made = (
            f"`python -m benchmarks {name}`: {outcome.seconds:.0f} s, {rounds} round{'s' * (rounds > 1)}; "
            f"load average {outcome.load:.1f} before it."
        )
        notes = "\n".join(f"- {note}" for note in outcome.notes())
        found[f"{name}-results"] = "\n\n".join(part for part in (made, found.get(name), tables, notes) if part)
    return found


def machine_table(outcomes: Sequence[Outcome]) -> str:
    """Return the machine, the time, and the versions of all programs."""
    host = machine.describe()
    loads = [outcome.load for outcome in outcomes]
    rows = {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(min(outcome.began for outcome in outcomes))),
        "processor": f"{host['processor']}, {host['cores_usable']} cores",
        "memory": format_bytes(host["memory_bytes"]),
        "kernel": host["kernel"],
        "Python": host["python"],
        "load average when each began": f"{min(loads):.1f} to {max(loads):.1f}",
        "Archiver": host["archiver"],
        **host["packages"],
        "wrk": peers.wrk_version() or "not installed",
        "warp": peers.WARP.module_version,
        "minio-go": peers.MINIO_GO.module_version,
        "MinIO": programs.PROGRAMS["minio"].version,
    }
    lines = [f"| {name} | {value} |" for name, value in rows.items()]
    return "\n".join(["| machine | |", "| :--- | :--- |", *lines])


def quoting() -> list[Path]:
    """Return the pages that quote."""
    return [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if quoted(path.read_text())]


def quoted(text: str) -> dict[str, str]:
    """Return the quotes of a page by name."""
    return {match[2]: match[3].strip("\n") for match in _QUOTE.finditer(text)}


def with_quotes(text: str, by_name: Mapping[str, str]) -> str:
    """Return a page with new quotes; those of benchmarks that were not run stay."""

    def new(match: re.Match[str]) -> str:
        return f"{match[1]}{by_name.get(match[2], match[3].strip(chr(10)))}\n{match[4]}"

    return _QUOTE.sub(new, text)
