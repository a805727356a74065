"""Waiting for what other processes do: for a condition, with a bound, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS_MAX = 90.0  # for anything to happen; only what hangs gets there


def wait_until(true: Callable[[], object], what: str) -> None:
    """Return once ``true`` is; ``what`` names it where it does not come about in time."""
    deadline = time.monotonic() + SECONDS_MAX
    while not true():
        assert time.monotonic() < deadline, f"no {what} within {SECONDS_MAX:.0f} s"
        time.sleep(0.01)
