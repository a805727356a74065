"""What a data set has."""

from __future__ import annotations

import numpy as np

from archiver.engine.numbers import Members


def members(
    count: int, first: int = 100, expired: int = 0, locked: int = 0, held: int = 0, sizes: tuple[int, ...] = (512,)
) -> Members:
    """``count`` objects: the first ones have expired, the last ones are locked, of those the last ones held."""
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
