"""Members of a data set, for tests."""

from __future__ import annotations

import numpy as np

from archiver.engine.numbers import Members


def members(
    count: int, first: int = 100, expired: int = 0, locked: int = 0, held: int = 0, sizes: tuple[int, ...] = (512,)
) -> Members:
    """Return ``count`` objects. The first are expired, the last are locked, and the last of those are under hold."""
    places = np.arange(count)
    return Members(
        places + first,
        np.array([sizes[place % len(sizes)] for place in places], dtype=np.int64),
        places < expired,
        places >= count - locked,
        places >= count - held,
        places >= count,
        {},
    )
