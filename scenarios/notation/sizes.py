"""Object sizes in a file: one size, or a table of sizes and their shares.

One idea: all places of a file use one notation of sizes.
"""

from __future__ import annotations

import msgspec

from archiver.values.sizes import parse_size
from scenarios.notation.distribution import Sizes
from scenarios.notation.units import SizeBytes

SIZES_MAX = 1000  # maximum entries of a histogram
SHARE_MAX = 1e9  # keeps sums finite


class SizesTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One of three: sizes in a range, sizes around a median, or sizes with their shares."""

    uniform: tuple[SizeBytes, SizeBytes] | None = None
    median: SizeBytes | None = None  # median of a lognormal distribution
    sigma: float | None = None
    largest: SizeBytes | None = None
    histogram: dict[str, float] | None = None


def sizes_of(table: SizesTable | str | int) -> Sizes:
    """Return the distribution that a file requests. Raises ValueError if it requests none, or several."""
    if not isinstance(table, SizesTable):
        return Sizes.constant(parse_size(str(table)))
    asked = [name for name in ("uniform", "median", "histogram") if getattr(table, name) is not None]
    if len(asked) != 1:
        raise ValueError(
            "sizes is one size, or a table with one of uniform, median (with sigma and largest), histogram; it has "
            f"{' and '.join(asked) or 'none of these'}"
        )
    if table.median is None and (table.sigma is not None or table.largest is not None):
        raise ValueError("sizes: sigma and largest apply only to median")
    if table.uniform is not None:
        if not 1 <= table.uniform[0] <= table.uniform[1]:
            raise ValueError("sizes: uniform needs the smallest size, of at least 1 byte, and then the largest")
        return Sizes.uniform(*table.uniform)
    if table.median is not None:
        if table.sigma is None or not 0 < table.sigma <= 5:
            raise ValueError("sizes: median needs sigma, the standard deviation of the logarithm: above 0 and up to 5")
        if table.largest is None or not 1 <= table.median <= table.largest:
            raise ValueError("sizes: median needs largest, the cut-off, which must not be below median")
        return Sizes.lognormal(table.median, table.sigma, table.largest)
    assert table.histogram is not None
    shares = [(parse_size(size), share) for size, share in table.histogram.items()]
    if not 1 <= len(shares) <= SIZES_MAX or not all(0 < share <= SHARE_MAX for _, share in shares):
        raise ValueError(f"sizes: histogram needs 1 to {SIZES_MAX} sizes with their shares, each above 0 and up to 1e9")
    return Sizes.of(shares)
