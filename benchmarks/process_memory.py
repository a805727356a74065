"""Memory of a process, as the kernel reports it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Memory(NamedTuple):
    """Sizes of a process's memory in bytes."""

    resident: int
    resident_max: int  # since the process began; getrusage would include the process that started this one
    private: int  # part of ``resident`` that no file backs


def memory_of(pid: int) -> Memory:
    """Return what a process uses now. Raises ProcessLookupError if it has ended but its parent has not noticed."""
    sizes = dict(re.findall(r"^(\w+):\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE))
    try:
        return Memory(*(int(sizes[field]) * 1024 for field in ("VmRSS", "VmHWM", "RssAnon")))
    except KeyError:
        raise ProcessLookupError(f"process {pid} has ended: it has no memory") from None
