"""CPU per operation to read, write, merge, describe and anonymise traces, and the memory for it.

A replay reads a trace while it sends. Reading is therefore the most important figure: less than 5 us per operation,
with memory that does not grow with the trace. Every figure is measured in a separate process, whose peak memory is its
own. Each is measured for a fifth of the operations and for all of them, so that growth is visible.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from archiver.traces.anonymising import anonymise
from archiver.traces.format import Origin, Trace, TracedOperation, TraceWriter
from archiver.traces.importing import import_logs
from archiver.traces.merging import merge, sort
from archiver.traces.summary import summarise
from benchmarks.own_process import answer_of
from benchmarks.process_memory import memory_of
from benchmarks.tables import Table, labelled, plain, spread, verdict

TITLE = "Traces"
GOALS = {"read_microseconds_per_operation_max": 5.0}


def measure(*, small: bool) -> dict[str, Any]:
    """Microseconds of CPU per operation and peak bytes of each task, by number of operations."""
    rounds = 1 if small else 3  # of many operations; few show how memory grows
    counts = (2_000, 10_000) if small else (200_000, 1_000_000)
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as folder:
        for count in counts:
            answer_of(cost_of, "write", count, folder)
            _make_log(Path(folder), count)
            for name in TASKS:
                measured = [
                    answer_of(cost_of, name, count, folder) for _ in range(rounds if count == counts[-1] else 1)
                ]
                found.setdefault(name, {})[str(count)] = {
                    "microseconds_per_operation": [each["microseconds_per_operation"] for each in measured],
                    "peak_bytes": max(each["peak_bytes"] for each in measured),
                }
    largest = str(counts[-1])
    reading = median(found["read"][largest]["microseconds_per_operation"])
    return {
        "rounds": rounds,
        "operations": counts,
        "tasks": found,
        "goals": GOALS,
        "goals_met": {
            "read_microseconds_per_operation_max": reading < GOALS["read_microseconds_per_operation_max"],
        },
    }


def tables(document: dict[str, Any]) -> list[Table]:
    """Each task, for few operations and for many."""
    few, many = (str(count) for count in document["operations"])
    rows = tuple(
        (
            *plain(name),
            spread(by_count[many]["microseconds_per_operation"], 2),
            *plain(*(f"{by_count[count]['peak_bytes'] / 1e6:.0f}" for count in (many, few))),
        )
        for name, by_count in document["tasks"].items()
    )
    columns = labelled(("task",), "CPU per operation, µs", "peak MB", f"peak MB, {int(few):,}")
    return [Table("traces", f"Traces of {int(many):,} operations", columns, rows)]


def notes(document: dict[str, Any]) -> list[str]:
    goal = GOALS["read_microseconds_per_operation_max"]
    met = document["goals_met"]["read_microseconds_per_operation_max"]
    return [f"reading takes less than {goal:g} µs per operation: {verdict(met)}"]


def cost_of(name: str, count: int, folder: str) -> dict[str, float]:
    """Return what one task takes in this process."""
    task = TASKS[name]
    began = time.process_time()
    task(Path(folder), count)
    seconds = time.process_time() - began
    return {
        "microseconds_per_operation": seconds / count * 1e6,
        "peak_bytes": memory_of(os.getpid()).resident_max,
    }


def _made(count: int, *, shuffled: bool) -> Callable[[TraceWriter], None]:
    def write(writer: TraceWriter) -> None:
        for i in range(count):
            at_ns = i * 1_000_000 if not shuffled else (i * 7_919 % count) * 1_000_000
            is_read = bool(i & 1)
            writer.add(
                TracedOperation(
                    at_ns,
                    at_ns + 20_000,
                    at_ns + 900_000,
                    at_ns + 1_000_000,
                    "retrieve" if is_read else "archive",
                    f"bucket/folder-{i % 100:03d}/object-{i // 2:09d}",
                    size_bytes=8192,
                    retention_mode=None if is_read else "GOVERNANCE",
                    retain_for_seconds=None if is_read else 300.0,
                    client=i % 16,
                    session=i // 1600,
                )
            )

    return write


def _write(folder: Path, count: int, *, shuffled: bool = False) -> None:
    name = "shuffled" if shuffled else "rising"
    with TraceWriter(folder / f"{name}-{count}", 0, [Origin("capture", "")], overwrite=True) as writer:
        _made(count, shuffled=shuffled)(writer)


def _make_log(folder: Path, count: int) -> None:
    _write(folder, count, shuffled=True)
    with (folder / f"log-{count}").open("w") as log:
        for i in range(count):
            second = i // 1000
            stamp = f"06/Feb/2026:{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d} +0000"
            log.write(f'192.0.2.{i % 16} - - [{stamp}] "GET /bucket/object-{i:09d} HTTP/1.1" 200 8192 "-" "agent"\n')


def _read(folder: Path, count: int) -> None:
    for _ in Trace.open(folder / f"rising-{count}").operations(must_rise=True):
        pass


def _read_batches(folder: Path, count: int) -> None:
    for _ in Trace.open(folder / f"rising-{count}").batches(must_rise=True):
        pass


def _anonymise(folder: Path, count: int) -> None:
    key = folder / "key"
    key.touch(mode=0o600)
    key.write_bytes(bytes(32))
    anonymise(folder / "anonymised", folder / f"rising-{count}", key, overwrite=True)


TASKS: dict[str, Callable[[Path, int], Any]] = {
    "write": _write,
    "read": _read,
    "read batches": _read_batches,
    "info": lambda folder, count: summarise(folder / f"rising-{count}"),
    "merge two": lambda folder, count: merge(folder / "merged", [folder / f"rising-{count}"] * 2, overwrite=True),
    "sort": lambda folder, count: sort(folder / "sorted", folder / f"shuffled-{count}", overwrite=True),
    "anonymise": _anonymise,
    "import": lambda folder, count: import_logs(
        folder / "imported", [folder / f"log-{count}"], "nginx", overwrite=True
    ),
}
