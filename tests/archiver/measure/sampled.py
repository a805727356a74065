"""Sources of resource samples for tests, made from counters over ten seconds."""

from __future__ import annotations

from results.recorded.resources import Reading, SampleRow, Timeline

SECONDS = 10
TO_NS = SECONDS * 1_000_000_000


def between(before: Reading, after: Reading) -> Timeline:
    """Return a timeline that is sampled at both ends and between, with counters that grow evenly."""

    def at(share: float) -> Reading:
        return {
            quantity: {
                item: before.get(quantity, {}).get(item, value)
                + share * (value - before.get(quantity, {}).get(item, value))
                for item, value in items.items()
            }
            for quantity, items in after.items()
        }

    return Timeline(SampleRow("any", 0.0, int(TO_NS * share), at(share)) for share in (0.0, 0.25, 0.5, 0.75, 1.0))
