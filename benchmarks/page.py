"""The page of results: every benchmark with what was measured, how, and on which machine; and what others quote of it.

One idea: a page is made of documents, as the benchmarks give them, and nothing else. What another page quotes stands
there between two marks, and is written anew whenever this page is; a test compares them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from archiver.machine import description as machine
from archiver.platforms import programs
from archiver.values.sizes import format_bytes
from benchmarks.peers import minio_go, warp, wrk
from results.text import render_markdown, render_text

ROOT = Path(__file__).parent.parent
_QUOTE = re.compile(r"(<!-- benchmark ([a-z-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def document_of(module: ModuleType, *, small: bool) -> dict[str, Any]:
    """One benchmark carried out: its document, with ``made``: when, how long, how busy the machine was before it."""
    load, began = os.getloadavg()[0], time.time()
    document = module.measure(small=small)
    return {"made": {"began": began, "load": load, "seconds": time.time() - began}, **document}


def text(module: ModuleType, document: Mapping[str, Any]) -> str:
    """For a terminal."""
    lines = [render_text(table, 160) for table in module.tables(document)]
    return "\n".join([*lines, *module.notes(document)])


def page(modules: Mapping[str, ModuleType], documents: Mapping[str, Mapping[str, Any]]) -> str:
    """As Markdown."""
    parts = [
        "# Benchmarks",
        "`make bench` writes this page and its quotes in other pages. Ratios are taken within a round, in which\n"
        "the contenders take turns. A cell shows the median of the rounds, with the lowest and the highest.",
        _machine(documents),
    ]
    for name, document in documents.items():
        parts += _section(name, modules[name], document)
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def quotes(modules: Mapping[str, ModuleType], documents: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """What may be quoted: of NAME its headline, and all its tables as NAME-tables."""
    headlines = {
        name: modules[name].headline(document)
        for name, document in documents.items()
        if hasattr(modules[name], "headline")
    }
    return headlines | {f"{name}-tables": _tables(modules[name], document) for name, document in documents.items()}


def quoting() -> list[Path]:
    """The pages that quote."""
    return [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if quoted(path.read_text())]


def quoted(text: str) -> dict[str, str]:
    """What a page quotes, by benchmark."""
    return {match[2]: match[3].strip("\n") for match in _QUOTE.finditer(text)}


def with_quotes(text: str, by_name: Mapping[str, str]) -> str:
    """A page with its quotes as they are by now; those of benchmarks that were not run stay."""

    def new(match: re.Match[str]) -> str:
        return f"{match[1]}{by_name.get(match[2], match[3].strip(chr(10)))}\n{match[4]}"

    return _QUOTE.sub(new, text)


def write(
    out: Path, modules: Mapping[str, ModuleType], documents: Mapping[str, Mapping[str, Any]], others: Sequence[Path]
) -> None:
    """The page, and the quotes in others."""
    out.write_text(page(modules, documents))
    for path in others:
        path.write_text(with_quotes(path.read_text(), quotes(modules, documents)))


def _section(name: str, module: ModuleType, document: Mapping[str, Any]) -> list[str]:
    how, made, rounds = (module.__doc__ or "").strip(), document["made"], document.get("rounds", 1)
    parts = [
        f"## {module.TITLE}",
        how,
        f"`python -m benchmarks {name}`: {made['seconds']:.0f} s, {rounds} round{'s' * (rounds > 1)}; "
        f"load average {made['load']:.1f} before it.",
    ]
    if hasattr(module, "headline"):
        parts.append(module.headline(document))
    parts.append(_tables(module, document))
    notes = [f"- {note}" for note in module.notes(document)]
    return [*parts, "\n".join(notes)] if notes else parts


def _tables(module: ModuleType, document: Mapping[str, Any]) -> str:
    return "\n".join(render_markdown(table) for table in module.tables(document)).strip("\n")


def _machine(documents: Mapping[str, Mapping[str, Any]]) -> str:
    host = machine.describe()
    began = min(document["made"]["began"] for document in documents.values())
    loads = [document["made"]["load"] for document in documents.values()]
    rows = {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(began)),
        "processor": f"{host['processor']}, {host['cores_usable']} cores",
        "memory": format_bytes(host["memory_bytes"]),
        "kernel": host["kernel"],
        "Python": host["python"],
        "load average when each began": f"{min(loads):.1f} to {max(loads):.1f}",
        "Archiver": host["archiver"],
        **host["packages"],
        "wrk": wrk.version() or "not installed",
        "warp": warp.PROGRAM.module_version,
        "minio-go": minio_go.PROGRAM.module_version,
        "MinIO": programs.PROGRAMS["minio"].version,
    }
    lines = [f"| {name} | {value} |" for name, value in rows.items()]
    return "\n".join(["| machine | |", "| :--- | :--- |", *lines])
