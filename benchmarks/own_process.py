"""A function carried out in a process of its own, so that memory and CPU time are this function's alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

_CALL = """
import importlib, json, sys
module, name, arguments = sys.argv[1:]
print(json.dumps(getattr(importlib.import_module(module), name)(*json.loads(arguments))))
"""


def answer_of(function: Callable[..., Any], *arguments: str | int) -> Any:
    """Return what a function of a module returns in a new process. Arguments and answer travel as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", _CALL, function.__module__, function.__name__, json.dumps(arguments)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)
