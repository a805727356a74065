"""Benchmarks that are carried out small, each in a process of its own."""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn

from tests.support import commands

SECONDS_MAX = 600.0  # only a benchmark that hangs gets there


def document_of(name: str) -> dict[str, Any]:
    """Return what `python -m benchmarks` prints of a small benchmark as JSON."""
    benchmark = commands.StartedCommand([name, "--small", "--json"], {}, _carry_out)
    try:
        out, errors = benchmark.communicate(SECONDS_MAX)
        assert benchmark.returncode == 0, errors
    finally:
        benchmark.kill()
        benchmark.close()
    document: dict[str, Any] = json.loads(out)
    return document


def _carry_out(*arguments: str) -> NoReturn:
    commands.begin("python -m benchmarks", *arguments)
    from benchmarks.__main__ import main

    main(prog_name=sys.argv[0])
    raise AssertionError("a command ends by its exit status")
