"""The number of examples of a Hypothesis property: all of them in `make test-long`, a share of them in `make test`."""

from __future__ import annotations

from hypothesis import settings

ALL = 100  # Hypothesis's default for a property that names no number


def share_of(count: int) -> int:
    """Return the share of ``count`` examples that the current profile tries; at least one."""
    return max(1, count * settings().max_examples // ALL)
