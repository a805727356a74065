"""Distributions of object sizes, drawn by a weighted shuffle.

One idea: a list has each item as often as its share requires. The client repeats the shuffled list. Shares are
therefore exact, and the amount that a phase can archive is known before it starts. A continuous distribution is a list
of ``SIZE_CLASSES`` sizes that keep its mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

SIZE_CLASSES = 32  # number of classes of a continuous distribution


SHUFFLE_ITEMS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Sizes:
    """Object sizes in bytes, each with its share of the objects. Shares sum to 1; sizes are ascending."""

    classes: tuple[tuple[int, float], ...]

    @classmethod
    def constant(cls, size_bytes: int) -> Sizes:
        return cls(((size_bytes, 1.0),))

    @classmethod
    def uniform(cls, smallest: int, largest: int) -> Sizes:
        """Return a uniform distribution between two sizes, in ``SIZE_CLASSES`` classes of one size, their mean."""
        width = (largest - smallest) / SIZE_CLASSES
        means = [smallest + (i + 0.5) * width for i in range(SIZE_CLASSES)]
        return cls.of([(round(mean), 1 / SIZE_CLASSES) for mean in means])

    @classmethod
    def lognormal(cls, median: int, sigma: float, largest: int) -> Sizes:
        """Return a distribution of sizes with a normally distributed logarithm of standard deviation ``sigma``.

        All classes have the same probability, and each has one size, its mean. The overall mean is therefore the mean
        of the distribution, apart from sizes above ``largest``, which are reduced to it.
        """
        normal = NormalDist()
        edges = [0.0, *(normal.cdf(normal.inv_cdf(i / SIZE_CLASSES) - sigma) for i in range(1, SIZE_CLASSES)), 1.0]
        mean = median * math.exp(sigma * sigma / 2)
        means = [mean * (high - low) * SIZE_CLASSES for low, high in pairwise(edges)]
        return cls.of([(max(1, min(round(each), largest)), 1 / SIZE_CLASSES) for each in means])

    @classmethod
    def of(cls, classes: Sequence[tuple[int, float]]) -> Sizes:
        """Return a distribution of these classes. Shares are scaled to sum to 1, and equal sizes are merged."""
        total = sum(share for _, share in classes)
        merged: dict[int, float] = {}
        for size, share in classes:
            merged[size] = merged.get(size, 0.0) + share / total
        return cls(tuple(sorted(merged.items())))

    @property
    def mean(self) -> float:
        return sum(size * share for size, share in self.classes)

    @property
    def largest(self) -> int:
        return self.classes[-1][0]

    def shuffle_items(self) -> list[int]:
        """Return the items of the weighted shuffle, unshuffled: sizes in their shares."""
        return shuffle_items(self.classes)

    def bytes_max(self, objects: int) -> int:
        """Upper bound of the bytes of this many objects, drawn by the weighted shuffle."""
        items = self.shuffle_items()
        rounds, rest = divmod(objects, len(items))
        return rounds * sum(items) + sum(sorted(items)[len(items) - rest :])


def shuffle_items(shares: Sequence[tuple[int, float]]) -> list[int]:
    """Return the shortest list of items with exact shares; if it is too long, with shares within a thousandth."""
    total = sum(share for _, share in shares)
    for length in range(1, SHUFFLE_ITEMS_MAX):
        counts = [share / total * length for _, share in shares]
        if all(abs(count - round(count)) < 1e-6 * length and round(count) for count in counts):
            break
    else:
        counts = [max(1.0, share / total * SHUFFLE_ITEMS_MAX) for _, share in shares]
    return [kind for (kind, _), count in zip(shares, counts, strict=True) for _ in range(round(count))]
