"""The date, as this process goes by it: that of its beginning, and the seconds since, which nobody can set.

One idea: retention dates, signatures and what the ledger says of them must agree for as long as a run takes. So whoever
sets this machine's clock in the middle of a run, by hand or by a time service that steps it, moves none of them.
"""

from __future__ import annotations

import time


def _elapsed_seconds() -> float:
    # Unlike CLOCK_MONOTONIC, CLOCK_BOOTTIME goes on while the machine is suspended.
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_began_seconds = time.time() - _elapsed_seconds()


def began_seconds() -> float:
    """When the machine started, in epoch seconds, as this process has it: what other processes of it can follow."""
    return _began_seconds


def follow(others_began_seconds: float) -> None:
    """Go by the clock of another process of this machine."""
    global _began_seconds
    _began_seconds = others_began_seconds


def now_seconds() -> float:
    """Seconds since the epoch."""
    return _began_seconds + _elapsed_seconds()
