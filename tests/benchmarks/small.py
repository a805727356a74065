"""Run small versions of the benchmarks, each in its own process."""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn

from tests.support import commands

SECONDS_MAX = 600.0  # reached only if a benchmark hangs


def document_of(name: str) -> dict[str, Any]:
    """Run `python -m benchmarks NAME --small --json`; return the document that it prints."""
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
