"""CPU affinity: which cores this process, and what it starts, may use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


def usable_cores() -> list[int]:
    """Return the cores that this process may use, in order."""
    return sorted(os.sched_getaffinity(0))


@contextmanager
def pinned(cores: Sequence[int]) -> Iterator[None]:
    """Let this process, and what it starts, use only these cores for the length of the block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
