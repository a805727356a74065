"""The time of this process: its start time and the seconds since, which no clock change affects.

One idea: retention dates, signatures and the ledger must agree throughout a run. A change of this machine's clock
during a run, by hand or by a time service, therefore moves none of them.
"""

from __future__ import annotations

import time


def _elapsed_seconds() -> float:
    # Unlike CLOCK_MONOTONIC, CLOCK_BOOTTIME also counts while the machine is suspended.
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_began_seconds = time.time() - _elapsed_seconds()


def began_seconds() -> float:
    """Return the machine's start in epoch seconds, as this process computed it. Other processes here can use it."""
    return _began_seconds


def follow(others_began_seconds: float) -> None:
    """Use the clock of another process of this machine."""
    global _began_seconds
    _began_seconds = others_began_seconds


def now_seconds() -> float:
    """Return seconds since the epoch."""
    return _began_seconds + _elapsed_seconds()
