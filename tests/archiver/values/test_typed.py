"""Threads that read documents of one type at once, as those of `archiver web` do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOGETHER = """
import sys, threading
from dataclasses import make_dataclass

sys.setswitchinterval(1e-6)
from archiver.values.typed import typed

document = {"first": {f"n{n}": n for n in range(40)}} | {f"n{n}": 1.5 for n in range(40)}

def kind(number):  # made once per type, so each attempt is a type
    inner = make_dataclass(f"Inner{number}", [(f"n{n}", "int | None") for n in range(40)])
    return make_dataclass(f"Outer{number}", [("first", inner)] + [(f"n{n}", "float | None") for n in range(40)])

kinds = [kind(number) for number in range(100)]

def read():
    for kind in kinds:
        assert typed(document, kind).first.n39 == 39

threads = [threading.Thread(target=read) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_threads_read_a_type_for_the_first_time_together() -> None:
    assert subprocess.run([sys.executable, "-c", TOGETHER]).returncode == 0


def test_only_one_module_converts() -> None:
    root = Path(__file__).parents[3]
    calls = [
        path.relative_to(root).as_posix()
        for package in ("archiver", "backends", "results", "scenarios")
        for path in sorted((root / package).rglob("*.py"))
        if any(call in path.read_text() for call in ("msgspec.convert(", "msgspec.json.decode("))
    ]
    assert calls == ["archiver/values/typed.py"]
