"""How many examples a property is tried with: all of them in `make test-long`, a share of them in `make test`."""

from __future__ import annotations

from hypothesis import settings

ALL = 100  # of a property that names no number, as Hypothesis has it


def share_of(count: int) -> int:
    """So many of ``count`` examples as the profile in force tries; at least one."""
    return max(1, count * settings().max_examples // ALL)
